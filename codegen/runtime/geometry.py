"""Launch geometry: grid extents and buffer sizes of a signature, for given dims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import le
from typing import assert_never

import numpy as np

from didyma.codegen.runtime.didyma_runtime.maps import PIECE, Described
from didyma.codegen.runtime.engine import Fault
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.expr import of_dim
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.loop import (
    Binary,
    BinaryOp,
    Broadcast,
    Cast,
    Compare,
    CompareOp,
    Const,
    Expr,
    Intrinsic,
    LetExpr,
    Load,
    Ramp,
    Select,
    Unary,
    Var,
)
from didyma.refimpl.ir.target import PORTABLE
from didyma.refimpl.ir.text.show_loop import show_line
from didyma.refimpl.ir.walk import subexprs


@dataclass(frozen=True, slots=True)
class Geometry:
    """Grid extents and the bytes each buffer must have; ``empty`` where there is nothing to run.

    ``maps`` are the tensor maps that a launch passes.
    """

    grid: tuple[int, int, int]
    nbytes: tuple[int, ...]
    dims: tuple[int, ...]
    maps: tuple[Described, ...] = ()

    @property
    def empty(self) -> bool:
        """Return whether the grid has no block."""
        return 0 in self.grid


def geometry(signature: Signature, dims: Mapping[str, int]) -> Geometry:
    """Evaluate a signature.

    DidymaError ``unbound-dim`` where a dim has no value, ``launch-failed`` where CUDA runs no grid
    or block of that size.

    >>> from didyma.refimpl.ir.expr import ceildiv, index
    >>> from didyma.refimpl.ir.types import DType
    >>> s = Signature("k", (("x", DType.F16),), (Var("n"),), ("x",), ("n",),
    ...               (ceildiv(Var("n"), index(64)), index(1), index(1)), (64, 1, 1))
    >>> geometry(s, {"n": 100})
    Geometry(grid=(2, 1, 1), nbytes=(200,), dims=(100,), maps=())
    """
    x, y, z = (max(0, evaluate(e, dims)) for e in signature.grid)
    _demand_room(signature, (x, y, z))
    sizes = [evaluate(e, dims) for e in signature.sizes]
    nbytes = [n * d.nbytes for n, (_, d) in zip(sizes, signature.buffers, strict=True)]
    rows = ((evaluate(of_dim(n), dims) for n in row) for row in signature.described)
    maps = tuple(Described(*row) for row in rows)
    if min(x, y, z):
        _demand_described(signature, maps)
    own = tuple(evaluate(Var(d), dims) for d in signature.dims)
    return Geometry((x, y, z), tuple(nbytes), own, maps)


def _demand_room(s: Signature, grid: tuple[int, int, int]) -> None:
    if all(map(le, grid, PORTABLE.grid)) and PORTABLE.has_room(s.block):
        return
    got, want = (
        f"{' x '.join(map(str, blocks))} blocks of {' x '.join(map(str, threads))} threads"
        for blocks, threads in ((grid, s.block), (PORTABLE.grid, PORTABLE.block))
    )
    raise DidymaError(
        "launch-failed", f"kernel {s.name}", got=got,
        want=f"at most {want}, {PORTABLE.threads} in all",
        help="put the longest axis along x",
    )  # fmt: skip


def _demand_described(s: Signature, maps: Sequence[Described]) -> None:
    for m, d in zip(s.maps, maps, strict=True):
        starts = (d.offset, d.near, d.far, d.step)
        if min(d.x, d.y, d.z) < 1 or any(n % PIECE for n in starts):
            got = f"{d.x} x {d.y} x {d.z} elements from {d.offset} on by steps {d.near}, {d.far}"
            raise DidymaError(
                "launch-failed", f"kernel {s.name}, map {m.name}", got=got,
                want=f"elements, and an offset and steps that are multiples of {PIECE}",
            )  # fmt: skip


class Geometries:
    """Caches the geometries of one signature by the dims that they depend on.

    They rarely depend on the index of a loop, so that its iterations share one evaluation.
    """

    def __init__(self, s: Signature) -> None:
        self.signature = s
        sizes = (*s.grid, *s.sizes, *(of_dim(n) for row in s.described for n in row))
        used = {e.name for size in sizes for e in subexprs(size) if isinstance(e, Var)}
        self._used = tuple(sorted(used))
        self._known: dict[tuple[int, ...], Geometry] = {}

    def __call__(self, dims: Mapping[str, int]) -> Geometry:
        """Return the geometry for a binding; DidymaError ``unbound-dim`` where one is missing."""
        try:
            key = tuple([dims[d] for d in self._used])
            values = tuple([dims[d] for d in self.signature.dims])
        except KeyError:
            return geometry(self.signature, dims)  # which says what is missing
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = geometry(self.signature, dims)
        if found.dims == values:
            return found
        return Geometry(found.grid, found.nbytes, values, found.maps)


def evaluate(e: Expr, dims: Mapping[str, int]) -> int:
    """Value of an index expression over dims, with Python's integers.

    >>> evaluate(Binary("floordiv", Var("n"), Const(4, Var("n").dtype)), {"n": 9})
    2
    """
    match e:
        case Const():
            return int(e.value)
        case Var():
            if e.name not in dims:
                raise DidymaError(
                    "unbound-dim",
                    e.name,
                    got=f"values for {sorted(dims)}",
                    want=f"a value for {e.name}",
                )
            return dims[e.name]
        case Binary():
            return _binary(e.op, evaluate(e.lhs, dims), evaluate(e.rhs, dims))
        case Compare():
            return int(_compare(e.op, evaluate(e.lhs, dims), evaluate(e.rhs, dims)))
        case Select():
            return evaluate(e.then if evaluate(e.cond, dims) else e.other, dims)
        case LetExpr():
            return evaluate(e.body, {**dims, e.var.name: evaluate(e.value, dims)})
        case Cast() | Unary() | Intrinsic() | Load() | Ramp() | Broadcast():
            raise ValueError(f"not an index expression over dims: {e}")
    assert_never(e)


def _binary(op: BinaryOp, a: int, b: int) -> int:
    match op:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "floordiv":
            return a // b if b else 0
        case "truncdiv":
            return int(math.copysign(1, a * b)) * (abs(a) // abs(b)) if b else 0
        case "floormod":
            return a % b if b else 0
        case "min":
            return min(a, b)
        case "max":
            return max(a, b)
        case "and":
            return a & b
        case "or":
            return a | b
        case _:
            raise ValueError(f"{op} in an index expression over dims")


def _compare(op: CompareOp, a: int, b: int) -> bool:
    match op:
        case "eq":
            return a == b
        case "ne":
            return a != b
        case "lt":
            return a < b
        case "le":
            return a <= b
        case "gt":
            return a > b
        case "ge":
            return a >= b
    assert_never(op)


def signature(text: KernelText, kernel: str) -> Signature:
    """Find a kernel by name; DidymaError ``unknown-kernel`` if the text has none."""
    for s in text.kernels:
        if s.name == kernel:
            return s
    raise DidymaError(
        "unknown-kernel",
        kernel,
        got=kernel,
        want=f"one of {', '.join(s.name for s in text.kernels)}",
    )


def numbers(s: Signature, scalars: Sequence[float]) -> list[np.generic]:
    """Return the scalars of a launch in their dtypes; DidymaError ``input-count``."""
    if len(scalars) != len(s.scalars):
        names = ", ".join(name for name, _ in s.scalars) or "none"
        raise DidymaError(
            "input-count", s.name, got=f"{len(scalars)} scalars", want=f"{len(s.scalars)}: {names}"
        )
    return [d.numpy.type(x) for (_, d), x in zip(s.scalars, scalars, strict=True)]


def words(s: Signature, scalars: Sequence[float]) -> list[int]:
    """Return the scalars of a launch as words of 64 bits, whose first bytes are theirs.

    >>> from didyma.refimpl.ir.types import DType
    >>> s = Signature("k", (), (), (), (), (), (1, 1, 1), (("x", DType.F32), ("i", DType.I8)))
    >>> words(s, (1.0, -1)) == [0x3F800000, 0xFF]
    True
    """
    return [int.from_bytes(x.tobytes(), "little") for x in numbers(s, scalars)]


def check_buffers(s: Signature, g: Geometry, nbytes: Sequence[int]) -> None:
    """Raise DidymaError ``buffer-count`` or ``buffer-too-small`` where buffers do not fit."""
    if len(nbytes) != len(s.buffers):
        names = ", ".join(name for name, _ in s.buffers)
        raise DidymaError(
            "buffer-count",
            s.name,
            got=f"{len(nbytes)} buffers",
            want=f"{len(s.buffers)}: {names}",
        )
    if all(map(le, g.nbytes, nbytes)):
        return
    for (name, _), want, got in zip(s.buffers, g.nbytes, nbytes, strict=True):
        if got < want:
            raise DidymaError(
                "buffer-too-small",
                f"{s.name}, buffer {name}",
                got=f"{got} bytes",
                want=f"at least {want} bytes",
            )


def located(fault: Fault, text: KernelText) -> Fault:
    """Add the source line and the text of its statement to a fault that knows its line.

    >>> from didyma.refimpl.ir.loop import Barrier, Free
    >>> t = KernelText("a;\\nb;", (), ((1, Barrier()), (2, Free("y"))))
    >>> located(Fault("race", "k", "", line=2), t).node
    'free y'
    """
    if not fault.line:
        return fault
    lines = text.source.splitlines()
    source = lines[fault.line - 1].strip() if fault.line <= len(lines) else ""
    origin = dict(text.origins).get(fault.line)
    return replace(fault, source=source, node="" if origin is None else show_line(origin))
