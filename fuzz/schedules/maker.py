"""What drawn loop nests are made of: buffers, names, and accesses that stay in bounds."""

from __future__ import annotations

import random

from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.loop import (
    Binary,
    BinaryOp,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Load,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.types import DType

DTYPES = (DType.I32, DType.I64, DType.F32, DType.U32, DType.F64)
OPS: tuple[BinaryOp, ...] = ("add", "sub", "mul", "max", "min")
EXACT_OPS: tuple[BinaryOp, ...] = ("add", "sub", "max", "min")  # of small integers, in floats too
MARGIN = 2  # elements beyond the loops along each axis, which shifted accesses reach


class Maker:
    """Draws accesses to three buffers: ``a`` is only read.

    Where ``exact``, small integers in ``a`` give integers that floats hold, in any order of sums:
    values come from ``a`` alone, and grow no faster than the number of iterations.
    """

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.dtype = chance.choice(DTYPES)
        self.exact = self.dtype.is_float and chance.random() < 0.4
        self.sides: list[Dim] = [chance.choice((3, 4, 5, 6, 8)) for _ in range(2)]
        if chance.random() < 0.2:
            self.sides[chance.randrange(2)] = dims.symbol("n")
        self.shape = tuple(dims.add(n, MARGIN) for n in self.sides)
        self.buffers = [Buffer(n, self.dtype, self.shape) for n in ("a", "b", "c")]
        self.count = 0

    @property
    def rows(self) -> Expr:
        """The number of iterations along the first axis."""
        return ix.of_dim(self.sides[0])

    @property
    def columns(self) -> Expr:
        """The number of iterations along the second axis."""
        return ix.of_dim(self.sides[1])

    def loop(self) -> Var:
        """Return the variable of a new loop."""
        self.count += 1
        return Var(f"i{self.count - 1}")

    def name(self, prefix: str) -> str:
        """Return a new name."""
        self.count += 1
        return f"{prefix}{self.count - 1}"

    def over(self, i: Var, j: Var, body: Stmt, columns: Expr | None = None) -> Stmt:
        """Return two loops around a statement, over the sides unless columns are given."""
        inner = For(j, self.columns if columns is None else columns, body)
        return For(i, self.rows, inner)

    def some(self, i: Expr, j: Expr) -> Stmt:
        """Return one store or two, near an element."""
        stores = [self.store(i, j) for _ in range(self.chance.choice((1, 1, 2)))]
        return stores[0] if len(stores) == 1 else Block(tuple(stores))

    def few(self, axis: int) -> int:
        """Return a number of iterations that there always is along an axis."""
        side = self.sides[axis]
        return side if isinstance(side, int) else 1

    # ---- accesses

    def op(self) -> BinaryOp:
        """Return an operation."""
        return self.chance.choice(EXACT_OPS if self.exact else OPS)

    def any(self) -> str:
        """Return a buffer to read."""
        return "a" if self.exact else self.chance.choice("abc")

    def target(self) -> str:
        """Return a buffer to write."""
        return self.chance.choice("bc")

    def number(self, n: int) -> Expr:
        """Return a constant of the buffers' dtype."""
        return Const(float(n) if self.dtype.is_float else n, self.dtype)

    def store(self, i: Expr, j: Expr) -> Store:
        """Return a store near an element, at times an update of the start of its row or column."""
        target = self.target()
        at = self.at(i, j)
        first: Expr = self.load(i, j)
        if self.chance.random() < 0.4:  # an update, such as a fold makes
            at = (i, ix.ZERO) if self.chance.random() < 0.5 else (ix.ZERO, j)
            first = Load(target, at, self.dtype)
        return Store(target, at, Binary(self.op(), first, self.load(i, j)))

    def load(self, i: Expr, j: Expr, buffer: str = "") -> Expr:
        """Return an element near one, of any buffer unless it is given."""
        return Load(buffer or self.any(), self.at(i, j), self.dtype)

    def at(self, i: Expr, j: Expr) -> tuple[Expr, ...]:
        """Return an element near that of two loop variables, at times with them in turn."""
        shift = [self.chance.choice((0, 0, 0, 1, 2)) for _ in range(2)]
        if self.sides[0] == self.sides[1] and self.chance.random() < 0.2:
            i, j = j, i
        return ix.add(i, ix.index(shift[0])), ix.add(j, ix.index(shift[1]))
