"""Functions of the namespace that are made of ops: found by their annotations, not from a list."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from types import ModuleType
from typing import Any

from didyma import api
from didyma.composites.builder import Builder
from didyma.refimpl.ir.types import DType, TensorType
from didyma.refimpl.ops import OPS
from didyma.tracer.tensor import Tensor

# Arguments of a call that shows which ops a function becomes, by the parameter's name.
_SAMPLES: Mapping[str, Any] = {
    "axis": 0, "axes": 0, "shape": (4, 4), "n": 4, "k": 2, "m": 4, "num": 4, "depth": 4, "p": 0.5,
    "dtype": DType.F32, "rate": 0.5, "seed": 0, "stop": 4, "start": 0, "size": 4, "repeats": 2,
}  # fmt: skip
_SHAPES = ((4, 4), (4,), (4, 2), (2, 3, 8, 8))
_DTYPES = (DType.F32, DType.I64, DType.BOOL, DType.U64)


@dataclass(frozen=True, slots=True)
class Composed:
    """A function: how it is called, what it does, and the ops that a sample call becomes.

    ``ops`` is empty where no sample call fits: its ops depend on the functions or sizes given.
    """

    name: str
    signature: str
    doc: str
    ops: tuple[str, ...]


def names() -> tuple[str, ...]:
    """Return the names of the functions, sorted; those of a module have its name before them."""
    return tuple(sorted(name for name, _ in _functions() if name not in OPS))


def composed(name: str) -> Composed | None:
    """Return a function by its name; None if there is none."""
    f = dict(_functions()).get(name)
    if f is None:
        return None
    described: Any = f if inspect.isfunction(f) else f.__class__
    doc = inspect.getdoc(described) or ""
    return Composed(name, f"{name}{_signature(f)}", doc.partition(">>>")[0].strip(), _ops(f))


def _functions(module: ModuleType = api, head: str = "") -> Iterator[tuple[str, Any]]:
    for name in module.__all__:
        member = getattr(module, name)
        if isinstance(member, ModuleType):
            if not head and hasattr(member, "__all__"):
                yield from _functions(member, f"{name}.")
        elif callable(member) and not isinstance(member, type) and _makes_tensors(member):
            yield f"{head}{name}", member


def _makes_tensors(f: Callable[..., Any]) -> bool:
    try:
        made = inspect.signature(f).return_annotation
    except (TypeError, ValueError):
        return False
    return any(kind in str(made) for kind in ("Tensor", "Complex"))


def _signature(f: Callable[..., Any]) -> str:
    return str(inspect.signature(f)).replace("'", "").partition(" ->")[0]


def _ops(f: Callable[..., Any]) -> tuple[str, ...]:
    """Ops of the first sample call that goes through, each once, in their order."""
    for shape, dtype in product(_SHAPES, _DTYPES):
        b = Builder()
        try:
            positional, keywords = _arguments(b, f, TensorType(dtype, shape))
            result = f(*positional, **keywords)
            results = [result] if isinstance(result, Tensor) else list(result)
            m = b.module("sample", [r.value for r in results])
        except Exception:  # a function says in its own way that a call does not fit
            continue
        used = dict.fromkeys(n.op for g in m.functions for n in g.nodes)
        return tuple(op for op in used if op != "constant")
    return ()


def _arguments(
    b: Builder, f: Callable[..., Any], t: TensorType
) -> tuple[list[Any], dict[str, Any]]:
    """Return values of the parameters that a call must have: tensors are of one type, but seeds."""
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for p in inspect.signature(f).parameters.values():
        if p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        value: Any = _SAMPLES.get(p.name, 2)
        if "Tensor" in str(p.annotation) or "Operand" in str(p.annotation):
            value = Tensor(b, b.param(p.name, TensorType(DType.U64) if p.name == "seed" else t))
        if p.kind is p.KEYWORD_ONLY:
            keywords[p.name] = value
        else:
            positional.append(value)
    return positional, keywords
