"""Types of a traced function: what its annotations say, and whether they hold."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, get_args, get_origin

from didyma.composites.builder import UNBOUNDED
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.dims import Ranges, always_equal
from didyma.refimpl.ir.types import TensorType
from didyma.tracer.tensor import Tensor
from didyma.tracer.types import Element, Spec, items

_UNNAMED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that is a tensor."""

    name: str
    spec: Spec


def name_of(f: object) -> str:
    """Return the name of a function, or of the type of another callable object."""
    return str(getattr(f, "__name__", type(f).__name__))


def signature_of(f: Callable[..., object]) -> inspect.Signature:
    """Signature of a function; DidymaError ``unannotated`` for what has none."""
    try:
        return inspect.signature(f)
    except (TypeError, ValueError):
        raise DidymaError(
            "unannotated", repr(f), got="an object without a signature", want="a Python function"
        ) from None


def parameters(f: Callable[..., object], hints: Mapping[str, object]) -> list[Parameter]:
    """Parameters of a traced function that are tensors; one with a default keeps it.

    DidymaError ``unannotated`` for a parameter without a type, ``*args`` and ``**kwargs``.
    """
    typed: list[Parameter] = []
    for p in signature_of(f).parameters.values():
        where = f"{name_of(f)}({p.name})"
        if p.kind in _UNNAMED:
            raise DidymaError(
                "unannotated", f"{name_of(f)}({p})", got="any number of parameters",
                want="parameters that are named one by one",
                help="the inputs of a program are fixed when it is traced",
            )  # fmt: skip
        spec = spec_of(hints.get(p.name))
        if p.default is not p.empty and spec is not None:
            raise DidymaError(
                "unannotated", where, got=f"{spec} = {p.default!r:.40}",
                want="a tensor without a default", help="leave the default out, or the type",
            )  # fmt: skip
        if spec is None and p.default is p.empty:
            hint = hints.get(p.name)
            raise DidymaError(
                "unannotated", where, got=repr(hint) if hint is not None else "no type",
                want="a type such as dd.f32[n, 4]",
                help="annotate every parameter, or pass the types: @dd.trace(dd.f32[n, 4])",
            )  # fmt: skip
        if spec is not None:
            typed.append(Parameter(p.name, spec))
    return typed


def spec_of(hint: object) -> Spec | None:
    """Type of a tensor that an annotation names; None where it names none.

    ``dd.f32[n, 4]``, or ``Annotated[dd.Tensor, dd.f32[n, 4]]``, which type checkers accept.
    """
    if get_origin(hint) is Annotated:
        return next((s for s in map(spec_of, get_args(hint)[1:]) if s is not None), None)
    if isinstance(hint, Element):
        return hint[()]
    return hint if isinstance(hint, Spec) else None


def results_of(name: str, result: object) -> list[Tensor]:
    """Return the tensors that a traced function gives; DidymaError ``bad-result`` for others."""
    several = items(result)
    many = (result,) if several is None else several
    tensors = [r for r in many if isinstance(r, Tensor)]
    if many and len(tensors) == len(many):
        return tensors
    other = next((r for r in many if not isinstance(r, Tensor)), None)
    raise DidymaError(
        "bad-result", name, got="nothing" if other is None else f"{other!r:.60}",
        want="a tensor, or a tuple or list of tensors",
        help="dd.asarray(value) makes an array or a number a tensor; flatten nested results",
    )  # fmt: skip


def check_results(name: str, hint: object, types: Sequence[TensorType], ranges: Ranges) -> None:
    """Compare the results' types with an annotation; what names no tensor's type is passed over.

    DidymaError ``type-mismatch`` for another type or another number of results.
    """
    parts = [hint]
    if get_origin(hint) in (tuple, list, Sequence):
        parts = list(get_args(hint))
        if parts[-1:] == [...]:
            parts = parts[:1] * len(types)
        elif get_origin(hint) is not tuple:
            parts *= len(types)
    elif spec_of(hint) is None:
        return
    if len(parts) != len(types):
        raise _mismatch(name, f"{len(types)} results", f"{len(parts)}, as annotated")
    for part, type in zip(parts, types, strict=True):
        spec = spec_of(part)
        if spec is not None and not same_type(spec.type, type, ranges):
            raise _mismatch(name, f"a result of type {type}", str(spec))


def _mismatch(where: str, got: str, want: str) -> DidymaError:
    help = "change the annotation or the function"
    return DidymaError("type-mismatch", where, got=got, want=want, help=help)


def same_type(a: TensorType, b: TensorType, ranges: Ranges) -> bool:
    """Return whether two types are equal for all sizes within the ranges."""
    return (a.dtype, a.device, a.rank) == (b.dtype, b.device, b.rank) and all(
        _same_size(m, n, ranges) for m, n in zip(a.shape, b.shape, strict=True)
    )


def _same_size(m: dims.Dim, n: dims.Dim, ranges: Ranges) -> bool:
    if m == n:
        return True
    known = set(dims.free([m, n])) <= ranges.keys()
    return known and always_equal(m, n, ranges) is True


def check_arguments(
    name: str,
    wanted: Mapping[str, TensorType],
    actual: Sequence[TensorType],
    declared: Ranges,
    ranges: Ranges,
) -> None:
    """Compare the types of a program's parameters, by name, with those that it is called with.

    A symbolic size of the program stands for any size within its range.  DidymaError
    ``type-mismatch`` names both types.
    """
    sizes = control.solve(wanted.values(), actual, declared.keys())
    for (parameter, want), got in zip(wanted.items(), actual, strict=True):
        fits = same_type(control.put_type(want, sizes), got, ranges)
        for symbol in set(dims.free(want.shape)) & sizes.keys():
            known = set(dims.free([sizes[symbol]])) <= ranges.keys()
            low, high = dims.bounds(sizes[symbol], ranges) if known else (0, UNBOUNDED)
            fits &= declared[symbol][0] <= low and high <= declared[symbol][1]
        if not fits:
            names = dims.free(want.shape)
            free = ", ".join(f"{s} in {declared[s][0]}..{declared[s][1]}" for s in names)
            raise DidymaError(
                "type-mismatch", f"{name}({parameter})", got=str(got),
                want=f"{want}{f', {free}' if free else ''}",
                help="a program takes the types it was traced with, a plain function any",
            )  # fmt: skip
