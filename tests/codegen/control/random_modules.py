"""Random modules of nested branches, loops and scans over small whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from didyma.composites.builder import Builder, Value
from didyma.refimpl.ir.graph import Function, Module
from didyma.refimpl.ir.types import DType, TensorType

F32, I64 = DType.F32, DType.I64
LONG, SHORT = TensorType(F32, (4,)), TensorType(F32, (3,))
MOST = 16.0  # numbers stay below it


class Draw:
    """Draws from one seed; values are vectors of 4 or 3 numbers, and sometimes of a size found."""

    def __init__(self, seed: int) -> None:
        self.r = Random(seed)
        self.count = 0

    def module(self) -> Module:
        b = Builder()
        pool = [b.param("x", LONG), b.param("y", LONG), b.param("z", SHORT)]
        pool = self.block(b, pool, self.r.randrange(2, 6), 2)
        results = [self.r.choice(pool) for _ in range(self.r.randrange(1, 4))]
        return b.module("main", results)

    def block(self, b: Builder, pool: list[Value], steps: int, depth: int) -> list[Value]:
        """Add nodes; return the values there are then."""
        pool = list(pool)
        for _ in range(steps):
            kinds = ("plain", "plain", "view", "some", "if", "while", "scan")
            match self.r.choice(kinds if depth else kinds[:4]):
                case "plain":
                    pool.append(self.plain(b, pool))
                case "view":
                    pool.append(self.view(b, pool))
                case "some":
                    pool.append(self.some(b, pool))
                case "if":
                    pool += self.branch(b, pool, depth - 1)
                case "while":
                    pool += self.loop(b, pool, depth - 1)
                case _:
                    pool += self.scan(b, pool, depth - 1)
        return pool

    def one(self, pool: Sequence[Value], t: TensorType = LONG) -> Value:
        found = [v for v in pool if v.type == t]
        return self.r.choice(found[-3:] if self.r.random() < 0.5 else found)

    def plain(self, b: Builder, pool: Sequence[Value]) -> Value:
        t = self.r.choice((LONG, LONG, SHORT))
        x, y = self.one(pool, t), self.one(pool, t)
        kind = self.r.choice(("add", "negative", "maximum", "flip", "c"))
        if kind == "negative":
            return b("negative", [x])
        if kind == "flip":
            return b("flip", [x], axes=(0,))
        if kind == "c":
            y = b.scalar(float(self.r.randrange(1, 5)), F32)
        made = b("add" if kind in ("add", "c") else "maximum", [x, y])
        return b("fmod", [made, b.scalar(MOST, F32)])

    def view(self, b: Builder, pool: Sequence[Value]) -> Value:
        square = b("reshape", [self.one(pool)], shape=(2, 2))
        return b("reshape", [square], shape=(4,))

    def some(self, b: Builder, pool: Sequence[Value]) -> Value:
        """Add what is positive among some numbers, by a vector of as many."""
        return self.total(b, self.kept(b, self.one(pool)))

    def kept(self, b: Builder, x: Value) -> Value:
        yes = b("greater", [x, b.scalar(0.0, F32)])
        ones = b("cast", [yes], dtype=I64)
        size = b.bind(b("sum", [ones], axes=(0,), keepdims=False), 4)
        at = b("cumulative_sum", [ones], axis=0, exclusive=True, reverse=False)
        place = b("where", [yes, at, b.scalar(99, I64)])
        base = b("broadcast_to", [b.scalar(0.0, F32)], shape=(size,))
        return b("scatter", [base, place, x], axis=0, reduction="none")

    def total(self, b: Builder, v: Value) -> Value:
        sum_ = b("fmod", [b("sum", [v], axes=(0,), keepdims=False), b.scalar(MOST, F32)])
        return b("broadcast_to", [sum_], shape=(4,))

    def captured(self, b: Builder, pool: Sequence[Value], most: int) -> list[Value]:
        """Some values, each once, one of either size among them."""
        least = [self.one(pool, LONG), self.one(pool, SHORT)]
        more = [v for v in pool if v not in least and v.type in (LONG, SHORT)]
        return least + self.r.sample(more, min(len(more), self.r.randrange(most)))

    def inside(self, b: Builder, types: Sequence[TensorType]) -> tuple[Builder, list[Value]]:
        inner = b.inner()
        return inner, [inner.param(f"p{i}", t) for i, t in enumerate(types)]

    def finish(self, b: Builder, inner: Builder, results: Sequence[Value]) -> Function:
        self.count += 1
        return b.add(inner.function(f"f{self.count}", results, []))

    def test(self, b: Builder, x: Value) -> Value:
        return b("greater", [b("max", [x], axes=(0,), keepdims=False), b.scalar(3.0, F32)])

    def branch(self, b: Builder, pool: Sequence[Value], depth: int) -> list[Value]:
        captures = self.captured(b, pool, 3)
        wanted = [self.r.choice((LONG, LONG, SHORT)) for _ in range(self.r.randrange(1, 4))]
        sized = self.r.random() < 0.4  # a last result of a size found in the branch
        sides: list[Function] = []
        for _ in range(2):
            inner, params = self.inside(b, [c.type for c in captures])
            values = self.block(inner, params, self.r.randrange(3), depth)
            results = [self.one(values, t) for t in wanted]
            if sized:
                more = self.one(values)
                results.append(self.kept(inner, more) if self.r.random() < 0.7 else more)
            sides.append(self.finish(b, inner, results))
        made = list(b.branch(self.test(b, self.one(pool)), sides[0], sides[1], captures))
        return [*made[:-1], self.total(b, made[-1])] if sized else made

    def loop(self, b: Builder, pool: Sequence[Value], depth: int) -> list[Value]:
        captures = self.captured(b, pool, 2)
        first = [
            self.one(pool, self.r.choice((LONG, SHORT))) for _ in range(self.r.randrange(1, 4))
        ]
        start = b("cast", [b("sum", [self.one(pool, SHORT)], axes=(0,), keepdims=False)], dtype=I64)
        types = [TensorType(I64), *(v.type for v in (*first, *captures))]
        count = 1 + len(first)
        inner, params = self.inside(b, types)
        test = self.finish(b, inner, [inner("less", [params[0], inner.scalar(3, I64)])])
        inner, params = self.inside(b, types)
        values = self.block(inner, params[1:], self.r.randrange(4), depth)
        size = inner.scalar(self.r.randrange(1, 4), I64)
        after = inner("maximum", [inner("add", [params[0], size]), inner.scalar(-2, I64)])
        body = self.finish(b, inner, [after, *(self.one(values, v.type) for v in first)])
        made = b.loop(test, body, [start, *first], captures)
        assert len(made) == count
        return list(made[1:])

    def scan(self, b: Builder, pool: Sequence[Value], depth: int) -> list[Value]:
        captures = self.captured(b, pool, 2)
        states = [self.one(pool, self.r.choice((LONG, SHORT))) for _ in range(self.r.randrange(3))]
        row = self.r.choice((LONG, SHORT))
        rows = b("broadcast_to", [self.one(pool, row)], shape=(3, *row.shape))
        given = [*states, *captures]
        inner, params = self.inside(
            b, [*(v.type for v in states), row, *(v.type for v in captures)]
        )
        values = self.block(inner, params, self.r.randrange(1, 4), depth)
        ys = [self.r.choice((LONG, SHORT)) for _ in range(self.r.randrange(3))]
        results = [self.one(values, v.type) for v in states] + [self.one(values, t) for t in ys]
        if not results:
            results = [self.one(values)]
            ys = [LONG]
        body = self.finish(b, inner, results)
        del given
        made = list(b.scan(body, states, [rows], captures, 3))
        stacked = made[len(states) :]
        sums = [b("sum", [v], axes=(0,), keepdims=False) for v in stacked]
        return made[: len(states)] + [b("fmod", [v, b.scalar(MOST, F32)]) for v in sums]
