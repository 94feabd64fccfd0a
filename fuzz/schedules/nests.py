"""Random functions of a few loop nests, with affine accesses in bounds.

Iterations read what others write, in all directions, so that most orders matter.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

from didyma.fuzz.schedules import places
from didyma.fuzz.schedules.callees import KINDS, Callees
from didyma.fuzz.schedules.maker import MARGIN, Maker
from didyma.fuzz.schedules.topics import EXACT, INEXACT, TOPICS, Topic
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.loop import (
    INDEX,
    Accumulator,
    Allocate,
    Axis,
    Binary,
    BinaryOp,
    Block,
    Buffer,
    Combiner,
    Compare,
    Const,
    Expr,
    Fold,
    For,
    If,
    Let,
    Load,
    PrimFunc,
    Scope,
    Select,
    Stmt,
    Store,
    Var,
    While,
    Yield,
)

LONG = 1100  # iterations: more than a block has threads
ONE_IN_LONG = 30
ON_A_TOPIC = 0.6  # of the functions
DRAWN: tuple[Topic, ...] = (*TOPICS, "parts", "parts", "threads", "threads")
ONE_OF_THREADS = 0.05  # of the functions, those of threads from the start
MOST_SIZE = 12  # of a symbolic side
PLACES = (
    *[places.gathered] * 2, *[places.looked_up] * 2, *[places.padded] * 2, *[places.folded] * 2,
    *[places.deep] * 2, places.ragged, places.placed, places.product, places.taken_over,
    places.either,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Nest:
    """A function of loop nests, the sizes of its dims, and the seed of its values.

    Where ``exact``, sums of floats are the same in any order, if inputs are small integers.
    The first steps of its schedule may be on a ``topic``.
    """

    func: PrimFunc
    env: tuple[tuple[str, int], ...]
    seed: int
    exact: bool
    topic: Topic | None = None


def nest(chance: random.Random) -> Nest:
    """Return a function of one to three loop nests, at times with a value computed before them."""
    topic: Topic | None = chance.choice(DRAWN) if chance.random() < ON_A_TOPIC else None
    if topic is None:
        maker = _Long(chance) if chance.randrange(ONE_IN_LONG) == 0 else _Nests(chance)
    else:
        maker = next(m for _ in count() if (m := _Nests(chance)).suits(topic))
    func = maker.function() if topic is None else maker.on(topic)
    env = tuple((d.name, chance.choice((1, 2, 3, 5, 8, d.hi))) for d in func.dims)
    seed = chance.randrange(1 << 20) | (topic in INEXACT)  # no NaN or infinity among the values
    return Nest(func, env, seed, maker.exact, topic)


class _Nests(Maker):
    """Draws the statements of one function."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.callees: Callees | None = None
        self.called: tuple[PrimFunc, ...] = ()
        rows, columns = self.shape
        may = not self.exact and chance.random() < 0.35
        if may and isinstance(rows, int) and isinstance(columns, int):
            self.callees = Callees(chance, self.dtype, (rows, columns))
            self.called = self.callees.functions()

    def function(self) -> PrimFunc:
        sizes = tuple(DimVar(n, 1, MOST_SIZE) for n in dims.free(self.shape))
        if self.chance.random() < ONE_OF_THREADS:
            parts = [places.shared(self, self.loop(), self.loop()) for _ in range(2)]
            return self.of(Block(tuple(parts[: self.chance.choice((1, 2))])), sizes)
        parts = [self.nest() for _ in range(self.chance.choice((1, 1, 2, 2, 3)))]
        made = None
        if not sizes and self.chance.random() < 0.5:  # a value that a nest of its own computes
            made = self.temporary()
            fills = [self.fill(made) for _ in range(self.chance.choice((1, 1, 1, 1, 2)))]
            parts = [*fills, *parts, self.use(made)]
        body: Stmt = parts[0] if len(parts) == 1 else Block(tuple(parts))
        if len(parts) > 1 and self.chance.random() < 0.3:
            body = For(self.loop(), ix.index(self.chance.choice((1, 2, 3))), body)
        return self.of(body if made is None else Allocate(made, body), sizes)

    def suits(self, topic: Topic) -> bool:
        """Return whether buffers and functions are such as a topic needs."""
        reassociates = self.exact or self.dtype.is_int
        return (
            (topic not in EXACT or reassociates)
            and (topic not in INEXACT or not reassociates)
            and (topic != "calls" or bool(self.called))
            and (topic != "moved" or not (self.exact or dims.free(self.shape)))
            and (topic != "clusters" or not dims.free(self.shape))
        )

    def on(self, topic: Topic) -> PrimFunc:
        """Return a function with a nest of a topic, and at times another nest behind it."""
        if topic != "calls":
            self.callees, self.called = None, ()
        kinds: Mapping[Topic, Sequence[Callable[[Var, Var], Stmt]]] = {
            "order": (
                partial(places.skewed, self),
                partial(places.deep, self),
                partial(places.checked, self),
                partial(places.so_far, self),
                partial(places.either, self),
            ),
            "lanes": (partial(places.carried, self),),
            "ahead": (partial(places.filled, self), partial(places.taken_over, self)),
            "as one": (partial(places.uneven, self), partial(places.recounted, self)),
            "parts": (partial(places.turning, self), partial(self.updates, op="sub")),
            "places": (partial(places.gathered, self), partial(places.looked_up, self)),
            "sums": (partial(places.summed, self), partial(places.product, self)),
            "threads": (self.updates, self.fold, self.folds),
            "calls": (self.written_out,),
            "moved": (self.made_before,),
            "clusters": (partial(places.around, self),),
        }
        body = self.chance.choice(kinds[topic])(self.loop(), self.loop())
        if topic != "threads" and self.chance.random() < 0.2:
            body = Block((body, self.nest()))
        return self.of(body, tuple(DimVar(n, 1, MOST_SIZE) for n in dims.free(self.shape)))

    def of(self, body: Stmt, sizes: tuple[DimVar, ...]) -> PrimFunc:
        return PrimFunc(
            "nests", tuple(self.buffers), ("b", "c"), body, sizes, functions=self.called
        )

    # ---- nests

    def nest(self) -> Stmt:
        """Return two loops around statements of some kind, or a call."""
        kinds: list[Callable[[Var, Var], Stmt]] = [
            *[self.stores] * 8, *[self.updates] * 3, *[self.fold] * 2, *[self.folds] * 2,
            *[self.guarded] * 2, *[self.named] * 3, *[self.chained] * 3,
            self.counted, self.triangle,
            *[self.call] * 4 * bool(self.called), *[self.written_out] * 12 * bool(self.called),
            *[partial(kind, self) for kind in PLACES],
        ]  # fmt: skip
        return self.chance.choice(kinds)(self.loop(), self.loop())

    def stores(self, i: Var, j: Var) -> Stmt:
        return self.over(i, j, self.some(i, j))

    def triangle(self, i: Var, j: Var) -> Stmt:
        """Return rows that grow, up to the length of the shorter side."""
        sides = [ix.of_dim(n) for n in self.sides]
        return self.over(i, j, self.some(i, j), ix.minimum(ix.add(i, ix.ONE), sides[1]))

    def chained(self, i: Var, j: Var) -> Stmt:
        """Return rows that are written, and others made of rows near them."""
        x, y = self.chance.sample("bc", 2)
        shift = ix.index(self.chance.choice((0, 1, 2)))
        made = Store(x, (ix.add(i, ix.ONE), j), self.load(i, j, "a"))
        near = Load(x, (ix.add(k := self.loop(), shift), last := self.loop()), self.dtype)
        used = Store(y, (k, last), Binary(self.op(), near, self.load(k, last, "a")))
        return Block((self.over(i, j, made), self.over(k, last, used)))

    def guarded(self, i: Var, j: Var) -> Stmt:
        """Return statements under a condition on the place, or on what is read there."""
        if self.chance.random() < 0.5:
            there = (i, ix.ZERO), (i, j)
            pair = [Load(self.any(), self.chance.choice(there), self.dtype) for _ in range(2)]
            cond: Expr = Compare("lt", *pair)
        else:
            cond = ix.compare("lt", ix.add(i, j), ix.index(self.chance.choice((2, 4, 6))))
        inside: Stmt = If(cond, self.some(i, j))
        if isinstance(cond, Compare) and self.chance.random() < 0.3:
            inside = If(cond, self.store(i, j), self.store(i, j))
        return self.over(i, j, inside) if self.chance.random() < 0.7 else self.between(i, j)

    def between(self, i: Var, j: Var) -> Stmt:
        """Return two loops with a condition between them, on what is read of the row."""
        pair = [Load(self.any(), (i, ix.ZERO), self.dtype) for _ in range(2)]
        row = If(Compare("lt", *pair), For(j, ix.of_dim(self.sides[1]), self.some(i, j)))
        return For(i, ix.of_dim(self.sides[0]), row)

    def named(self, i: Var, j: Var) -> Stmt:
        """Return stores that use a value read before them, also of what they write."""
        v = Var(self.name("v"), self.dtype)
        again = Store(self.target(), self.at(i, j), Binary(self.op(), v, self.load(i, j)))
        return self.over(i, j, Let(v, self.load(i, j), Block((self.store(i, j), again))))

    def counted(self, i: Var, j: Var) -> Stmt:
        """Return a loop that counts by itself, around another."""
        k = Buffer(self.name("k"), INDEX, (), Scope.LOCAL)
        at = Load(k.name, (), INDEX)
        step = Store(k.name, (), ix.add(at, ix.ONE))
        inner = For(j, ix.of_dim(self.sides[1]), self.some(at, j))
        turn = While(ix.compare("lt", at, ix.of_dim(self.sides[0])), Block((inner, step)))
        body: Stmt = Allocate(k, Block((Store(k.name, (), ix.ZERO), turn)))
        return For(i, ix.index(self.chance.choice((1, 2))), body)

    # ---- folds

    def updates(self, i: Var, j: Var, op: BinaryOp | None = None) -> Stmt:
        """Return a fold of a row as a loop that updates a scalar; by any operation unless given."""
        acc = Buffer(self.name("acc"), self.dtype, (), Scope.LOCAL)
        old: Expr = Load(acc.name, (), self.dtype)
        step = Store(acc.name, (), Binary(op or self.op(), old, self.load(i, j, "a")))
        loop = For(j, ix.of_dim(self.sides[1]), step)
        first = Store(acc.name, (), self.load(i, ix.ZERO, "a"))
        body = Allocate(acc, Block((first, loop, Store(self.target(), (i, ix.ZERO), old))))
        return For(i, ix.of_dim(self.sides[0]), body)

    def fold(self, i: Var, j: Var) -> Stmt:
        """Return a fold of a row with one accumulator."""
        acc, term = (Var(self.name(n), self.dtype) for n in ("acc", "term"))
        combine = Combiner((term,), (Binary(self.op(), acc, term),))
        start = Accumulator(acc, self.chance.choice((self.number(0), self.load(i, ix.ZERO, "a"))))
        last = Store(self.target(), (i, ix.ZERO), acc)
        return self.row(i, Fold((start,), self.axis(j), combine, self.term(i, j), last))

    def folds(self, i: Var, j: Var) -> Stmt:
        """Return a fold of a row that says how its parts merge."""
        if self.dtype.is_float or self.chance.random() < 0.5:
            return self.sum_and_product(i, j)
        return self.greatest(i, j)

    def sum_and_product(self, i: Var, j: Var) -> Stmt:
        names = ("sum", "product", "term", "sum2", "product2")
        s, p, x, s2, p2 = (Var(self.name(n), self.dtype) for n in names)
        combine = Combiner((x,), (Binary("add", s, x), Binary("mul", p, x)))
        merge = Combiner((s2, p2), (Binary("add", s, s2), Binary("mul", p, p2)))
        accs = Accumulator(s, self.number(0)), Accumulator(p, self.number(1))
        last = Store(self.target(), (i, ix.ZERO), Binary(self.op(), s, p))
        return self.row(i, Fold(accs, self.axis(j), combine, self.term(i, j), last, merge))

    def greatest(self, i: Var, j: Var) -> Stmt:
        """Return a fold to the greatest element of a row and its first place."""
        best, x, other = (Var(self.name(n), self.dtype) for n in ("best", "x", "other"))
        at, k, there = (Var(self.name(n), INDEX) for n in ("at", "k", "there"))
        more = Compare("gt", x, best)
        first = Binary("and", Compare("eq", other, best), Compare("lt", there, at))
        wins = Binary("or", Compare("gt", other, best), first)
        combine = Combiner((x, k), (Select(more, x, best), Select(more, k, at)))
        merge = Combiner((other, there), (Select(wins, other, best), Select(wins, there, at)))
        low = Const(self.dtype.limits[0], self.dtype)
        step = Yield((self.load(i, j, "a"), j))
        accs = Accumulator(best, low), Accumulator(at, ix.ZERO)
        last = Store(self.target(), (i, at), best)
        return self.row(i, Fold(accs, self.axis(j), combine, step, last, merge))

    def row(self, i: Var, fold: Fold) -> Stmt:
        return For(i, ix.of_dim(self.sides[0]), fold)

    def axis(self, j: Var) -> tuple[Axis, ...]:
        return (Axis(j, ix.of_dim(self.sides[1])),)

    def term(self, i: Var, j: Var) -> Stmt:
        return Yield((self.load(i, j, "a"),))

    # ---- calls

    def call(self, i: Var, j: Var) -> Stmt:
        del j
        assert self.callees is not None
        called = self.callees.call(self.chance.choice(self.called))
        return called if self.chance.random() < 0.5 else For(i, ix.index(2), called)

    def written_out(self, i: Var, j: Var) -> Stmt:
        """Return what a function does that could be called."""
        assert self.callees is not None
        known = self.chance.random() < 0.8
        kind = self.chance.choice([f.name for f in self.called] if known else KINDS)
        return self.callees.nest(kind, (i, j, self.loop()))

    # ---- a value that is made before it is used

    def temporary(self) -> Buffer:
        return Buffer("t", self.dtype, tuple(self.sides), Scope.LOCAL)

    def made_before(self, i: Var, j: Var) -> Stmt:
        """Return a value, what may write over that of which it is made, and its use."""
        made = self.temporary()
        return Allocate(made, Block((self.fill(made), self.stores(i, j), self.use(made))))

    def fill(self, made: Buffer) -> Stmt:
        i, j = self.loop(), self.loop()
        return self.over(i, j, Store(made.name, (i, j), self.load(i, j)))

    def use(self, made: Buffer) -> Stmt:
        i, j = self.loop(), self.loop()
        value = Binary("add", Load(made.name, (i, j), self.dtype), self.load(i, j, "a"))
        return self.over(i, j, Store(self.target(), (i, j), value))


class _Long(_Nests):
    """Draws one loop that is longer than a block."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.sides = [LONG, 1]
        self.shape = (LONG + MARGIN, 1)
        self.buffers = [Buffer(n, self.dtype, self.shape) for n in ("a", "b", "c")]
        self.callees, self.called = None, ()

    def function(self) -> PrimFunc:
        i = self.loop()
        rows = (self.load(ix.add(i, ix.index(n)), ix.ZERO, "a") for n in range(MARGIN))
        body = For(i, ix.index(LONG), Store("b", (i, ix.ZERO), Binary(self.op(), *rows)))
        return PrimFunc("nests", tuple(self.buffers), ("b", "c"), body)

    def at(self, i: Expr, j: Expr) -> tuple[Expr, ...]:
        return i, j
