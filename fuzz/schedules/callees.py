"""Functions that loop nests may call, and nests that do the same, or nearly so."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    Binary,
    BinaryOp,
    Buffer,
    Call,
    Expr,
    For,
    Load,
    PrimFunc,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.types import DType

Kind: TypeAlias = Literal["less", "greater", "product", "total"]
KINDS: tuple[Kind, ...] = get_args(Kind)
CALLED = 2  # functions that a function may call


@dataclass(frozen=True, slots=True)
class Callees:
    """Draws functions on whole buffers of one dtype and one shape, the last of which is written."""

    chance: random.Random
    dtype: DType
    shape: tuple[int, int]

    def functions(self) -> tuple[PrimFunc, ...]:
        """Return functions of different kinds."""
        return tuple(map(self._function, self.chance.sample(KINDS, CALLED)))

    def call(self, f: PrimFunc) -> Call:
        """Return a call on some of the buffers."""
        return Call(f.name, self._buffers(f.name))

    def nest(self, kind: str, loops: tuple[Var, Var, Var]) -> Stmt:
        """Return the nest that a function of this name stands for, at times with a slip."""
        return self._nest(kind, loops, self._buffers(kind), self.chance.random() < 0.25)

    def _function(self, kind: str) -> PrimFunc:
        names = "xyz"[: _count(kind)]
        params = tuple(Buffer(n, self.dtype, self.shape) for n in names)
        body = self._nest(kind, (Var("p"), Var("q"), Var("r")), tuple(names), False)
        return PrimFunc(kind, params, (names[-1],), body)

    def _buffers(self, kind: str) -> tuple[str, ...]:
        last = self.chance.choice("bc")
        others = [n for n in "abc" if n != last]
        return (*self.chance.sample(others, _count(kind) - 1), last)

    def _nest(
        self, kind: str, loops: tuple[Var, Var, Var], names: tuple[str, ...], slip: bool
    ) -> Stmt:
        """Return the loops of a kind; with a slip the first operand is read at another place."""
        p, q, r = loops
        rows, columns = map(ix.index, self.shape)
        x, y = names[0], names[-1]
        at: tuple[Expr, ...] = (p, ix.ZERO) if kind == "total" else (p, q)
        term = self._load(x, p, ix.sub(ix.sub(columns, ix.ONE), q) if slip else q)
        if kind == "product":
            term = Binary("mul", self._load(x, p, r), self._load(names[1], r, q))
            term = Binary("mul", term.rhs, term.lhs) if slip else term
        op: BinaryOp = "sub" if kind == "less" else "max" if kind == "greater" else "add"
        body: Stmt = Store(y, at, Binary(op, Load(y, at, self.dtype), term))
        if kind == "product":
            body = For(r, ix.index(min(self.shape)), body)
        return For(p, rows, For(q, columns, body))

    def _load(self, name: str, i: Expr, j: Expr) -> Expr:
        return Load(name, (i, j), self.dtype)


def _count(kind: str) -> int:
    """Return the number of buffers of a kind."""
    return 3 if kind == "product" else 2
