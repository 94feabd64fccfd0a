"""Programs: traced from functions, or loaded from files."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, overload

from didyma.files import read_module
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.text import show
from didyma.refimpl.ops.builder import Builder
from didyma.refimpl.verify import graph as verify
from didyma.tensor import Tensor, within
from didyma.types import Element, Spec, merge_ranges

Traceable: TypeAlias = Callable[..., Tensor | Sequence[Tensor]]


@dataclass(frozen=True, slots=True)
class Program:
    """A graph with a name: what tracing and loading give, and what the rest takes."""

    module: Module
    source: Traceable | None = None

    def __str__(self) -> str:
        return show(self.module).rstrip()

    def __call__(self, *args: Tensor) -> Tensor | Sequence[Tensor]:
        """Inline a traced function into the one being traced."""
        tensors = all(isinstance(a, Tensor) for a in args)  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's
        if self.source is None or not tensors:
            raise DidymaError(
                "not-compiled", self.module.entry.name, got="a call on arrays",
                want="a compiled program", help="dd.compile(program)(...) runs it on arrays",
            )  # fmt: skip
        return self.source(*args)


Type: TypeAlias = Spec | Element


@overload
def trace(f: Traceable, /) -> Program: ...


@overload
def trace(*types: Type) -> Callable[[Traceable], Program]: ...


def trace(*given: Any) -> Program | Callable[[Traceable], Program]:
    """Make a program of a function: ``@trace`` reads the types off its annotations.

    ``@trace(f32[n, 4], f32[4])`` names the parameters' types instead, for code whose annotations a
    type checker reads (``x: dd.Tensor``).  Errors: ``unannotated`` and whatever the ops raise;
    ``type-mismatch`` if the annotated result is not what comes out.
    """
    # Sizes named in annotations alone are in no closure: they are the caller's local names.
    caller = sys._getframe(1).f_locals  # pyright: ignore[reportPrivateUsage]  # the documented way
    if len(given) != 1 or isinstance(given[0], (Spec, Element)):

        def decorate(f: Traceable) -> Program:
            names = inspect.signature(f).parameters
            if len(names) != len(given):
                raise DidymaError(
                    "unannotated", f.__name__, got=f"{len(given)} types",
                    want=f"one for each of {', '.join(names) or 'no parameters'}",
                )  # fmt: skip
            return _trace(f, dict(zip(names, given, strict=True)))

        return decorate
    f: Traceable = given[0]
    known = {**caller, **inspect.getclosurevars(f).nonlocals}
    return _trace(f, inspect.get_annotations(f, locals=known, eval_str=True))


def _trace(f: Traceable, hints: Mapping[str, object]) -> Program:
    builder = Builder()
    ranges: list[tuple[DimVar, ...]] = []
    tensors: list[Tensor] = []
    for name in inspect.signature(f).parameters:
        spec = _spec(hints.get(name), f"{f.__name__}({name})")
        ranges.append(spec.ranges)
        builder.know(merge_ranges(ranges))
        tensors.append(Tensor(builder, builder.param(name, spec.type)))
    result = f(*tensors)
    results = [result] if isinstance(result, Tensor) else list(result)
    if "return" in hints and isinstance(result, Tensor):
        want = _spec(hints["return"], f"{f.__name__} -> result").type
        if want != result.value.type:
            raise DidymaError(
                "type-mismatch", f.__name__, got=f"a result of type {result.value.type}",
                want=str(want), help="mend the annotation or the function",
            )  # fmt: skip
    m = builder.module(f.__name__, [within(builder, r) for r in results])
    verify.verify(m)
    return Program(m, f)


def _spec(hint: object, where: str) -> Spec:
    if isinstance(hint, Element):
        return hint[()]
    if isinstance(hint, Spec):
        return hint
    raise DidymaError(
        "unannotated", where, got=repr(hint), want="a type such as dd.f32[n, 4]",
        help="annotate every parameter",
    )  # fmt: skip


def load(path: str | Path) -> Program:
    """Read a ``.dym`` text or an ONNX model."""
    return Program(read_module(Path(path)))
