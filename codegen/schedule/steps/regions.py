"""The part of a buffer that one iteration of a loop touches, as a box of constant size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from didyma.codegen.lower.affine import Affine, Poly
from didyma.codegen.schedule.steps.accesses import Access, Scan
from didyma.codegen.schedule.steps.loops import find
from didyma.codegen.schedule.steps.split import wrong
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims.polynomial import constant, is_constant, plus
from didyma.refimpl.ir.loop import (
    Atomic,
    Call,
    Const,
    Expr,
    ExternalAllocate,
    ExternalCall,
    For,
    If,
    Load,
    PrimFunc,
    Stmt,
    Store,
    Var,
    While,
)
from didyma.refimpl.ir.walk import map_expr, map_stmt, stmts, subexprs, substitute_expr

MOST = 4096  # elements of a region


@dataclass(frozen=True, slots=True)
class Region:
    """A box of a buffer: along each axis ``extents`` elements from ``low`` on.

    ``inside`` says of each axis whether all of the box certainly lies in the buffer.  Axes of one
    element are left out of what holds a copy of it.
    """

    low: tuple[Expr, ...]
    extents: tuple[int, ...]
    inside: tuple[bool, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a copy."""
        return tuple(n for n in self.extents if n != 1)

    def element(self, at: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return the element of the buffer that an element of the copy stands for."""
        rest = iter(at)
        return tuple(
            ix.add(lo, next(rest)) if n != 1 else lo
            for lo, n in zip(self.low, self.extents, strict=True)
        )

    def guard(self, index: Sequence[Expr], shape: Sequence[Expr]) -> Expr:
        """Return the condition that an element lies in the buffer."""
        rows = zip(index, shape, self.inside, strict=True)
        return ix.all_of(
            c
            for i, n, known in rows
            if not known
            for c in (ix.compare("ge", i, ix.ZERO), ix.compare("lt", i, n))
        )


class Regions:
    """Finds the regions of one function, seen from one of its loops.

    ``free`` are the loops whose every iteration counts, apart from those inside the loop.
    """

    def __init__(self, known: Scan, loop: For, free: Iterable[str] = ()) -> None:
        self.known = known
        self.loop = loop
        self.affine = Affine(known.func.dims)
        self.free = set(free) | {s.var.name for s in stmts(loop.body) if isinstance(s, For)}

    def of(self, accesses: Sequence[Access]) -> Region:
        """Return the smallest box known to hold all accesses to a buffer.

        DidymaError ``no-region``.
        """
        f, name = self.known.func, accesses[0].buffer
        indices = list[tuple[Expr, ...]]()
        for a in accesses:
            if a.index is None:
                raise self._none(f, name, f"{a}, which may be any element")
            indices.append(a.index)
            for x in a.loops:
                if x.var.name not in self.affine.bounds:
                    self.affine.loop(x.var, substitute_expr(x.extent, self.known.lets))
        boxes = list[tuple[Expr, int, bool]]()
        for n, d in enumerate(self.known.buffers[name].shape):
            box = self._axis([index[n] for index in indices], ix.of_dim(d))
            if box is None:
                got = f"axis {n}, of which no constant number of elements is known"
                raise self._none(f, name, got)
            boxes.append(box)
        count = math.prod(n for _, n, _ in boxes)
        if count > MOST:
            raise self._none(f, name, f"{count} elements")
        loads = any(isinstance(e, Load) for low, _, _ in boxes for e in subexprs(low))
        if loads and not any(map(self.certain, accesses)):
            raise self._none(
                f, name, f"{accesses[0]}, at a place read from memory that not all iterations read"
            )
        return Region(*(tuple(b[k] for b in boxes) for k in range(3)))  # type: ignore[arg-type]  # columns

    def certain(self, a: Access) -> bool:
        """Return whether each iteration of the loop certainly makes an access, once at least."""
        around = find(self.known.func, self.loop.var.name).around
        inside = a.loops[[x is self.loop for x in a.loops].index(True) + 1 :]
        return a.guards == sum(isinstance(s, If | While) for s in around) and all(
            isinstance(x.extent, Const) and x.extent.value >= 1 for x in inside
        )

    def _none(self, f: PrimFunc, name: str, got: str) -> DidymaError:
        where = f"an iteration of {self.loop.var.name}"
        return DidymaError(
            "no-region", f"@{f.name}, {name}", got=got,
            want=f"a box of constant size, {MOST} elements at most, that {where} touches",
        )  # fmt: skip

    def _axis(self, index: Sequence[Expr], size: Expr) -> tuple[Expr, int, bool] | None:
        found = [self._spread(self.affine.poly(i)) for i in index]
        spread = [s for s in found if s is not None]
        if len(spread) < len(found) or any(s[0] != spread[0][0] for s in spread):
            return (ix.ZERO, int(size.value), True) if isinstance(size, Const) else None
        base, low = spread[0][0], min(s[1] for s in spread)
        high = max(s[2] for s in spread)
        first = plus(base, constant(low))
        last = plus(base, constant(high))
        top = self.affine.poly(size)
        inside = self.affine.within(first, top) and self.affine.within(last, top)
        return self.affine.expr(first), high - low + 1, inside

    def _spread(self, p: Poly) -> tuple[Poly, int, int] | None:
        """Return the part of an index that is the same in all iterations, and the least and the
        greatest value of the rest; None where the rest has no constant bounds.
        """
        base: Poly = {}
        low = high = p.get((), 0)
        for m, k in p.items():
            if not m:
                continue
            if not any(self._varies(v) for v in m):
                base[m] = k
                continue
            bound = self.affine.bounds.get(m[0])
            if len(m) > 1 or bound is None or not is_constant(bound):
                return None
            reach = k * bound.get((), 0)
            low, high = low + min(reach, 0), high + max(reach, 0)
        return base, low, high

    def _varies(self, name: str) -> bool:
        if not name.startswith("@"):
            return name in self.free
        e = self.affine.expr({(name,): 1})
        return any(
            (isinstance(x, Var) and x.name in (self.free | self.known.opaque))
            or (isinstance(x, Load) and self.known.roots[x.buffer] in self.known.written)
            for x in subexprs(e)
        )

    def moved(self, region: Region, index: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return the element of a copy that stands for an element of the buffer."""
        written = [substitute_expr(i, self.known.lets) for i in index]
        rows = zip(written, region.low, region.extents, strict=True)
        return tuple(
            self.affine.expr(plus(self.affine.poly(i), self.affine.poly(lo), -1))
            for i, lo, n in rows
            if n != 1
        )


Move = Callable[[tuple[Expr, ...]], tuple[Expr, ...]]


def redirected(f: PrimFunc, s: Stmt, old: str, new: str, move: Move) -> Stmt:
    """Return a statement that reads and writes ``new`` where it did ``old``, at other indices.

    DidymaError ``bad-step`` where the whole buffer is given to a call.
    """

    def on_expr(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer == old:
            return Load(new, move(tuple(map(on_expr, e.index))), e.dtype)
        return map_expr(on_expr, e)

    def on_stmt(b: Stmt) -> Stmt:
        match b:
            case Store(buffer, index, value) if buffer == old:
                return Store(new, move(tuple(map(on_expr, index))), on_expr(value))
            case Atomic(op, buffer, index, value) if buffer == old:
                return Atomic(op, new, move(tuple(map(on_expr, index))), on_expr(value))
            case Call(_, args) if old in args:
                raise wrong(f, f"{old} in a call", "loads and stores of elements")
            case ExternalCall(_, outputs, inputs) if old in (*outputs, *inputs):
                raise wrong(f, f"{old} in a call", "loads and stores of elements")
            case ExternalAllocate(inputs=inputs) if old in inputs:
                raise wrong(f, f"{old} in a call", "loads and stores of elements")
            case _:
                return map_stmt(b, on_expr, on_stmt)

    return on_stmt(s)


def nested(names: Sequence[str], extents: Sequence[int], body: Stmt) -> Stmt:
    """Return loops around a statement."""
    for name, n in reversed(list(zip(names, extents, strict=True))):
        body = For(Var(name), ix.index(n), body)
    return body
