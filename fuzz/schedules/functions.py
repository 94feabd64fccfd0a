"""Functions to schedule: lowered Primitives of random graphs, and random affine loop nests."""

from __future__ import annotations

import random
from dataclasses import dataclass

from didyma.codegen.lower import lower
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.fuzz import graphs, values
from didyma.fuzz.steering.draw import draw as drawn_around
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.graph import COMPILER, PRIMITIVE, RESHAPE_ONLY, Function, Module
from didyma.refimpl.ir.loop import (
    Allocate,
    Binary,
    BinaryOp,
    Block,
    Buffer,
    Expr,
    For,
    Load,
    LoopKind,
    PrimFunc,
    Scope,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.types import Array, DType

MOST_POINTS = 4096  # elements of a function's buffers, and so about of its iterations
_TRIES = 8
_DTYPES = (DType.I32, DType.I64, DType.F32, DType.U32, DType.F64)
_OPS: tuple[BinaryOp, ...] = ("add", "sub", "mul", "max", "min")


@dataclass(frozen=True, slots=True)
class Subject:
    """A function, sizes of its dims, and the seed of its values.

    ``module`` holds the graph of a lowered function, which its error bars come from.
    """

    func: PrimFunc
    env: tuple[tuple[str, int], ...]
    seed: int
    module: Module | None = None

    @property
    def exact(self) -> bool:
        """Whether a schedule that reassociates can be judged: by bars, or as integers are."""
        floats = any(b.dtype.is_float for b in self.func.params)
        return self.module is not None or not floats

    def buffers(self) -> dict[str, Array]:
        """Return the content of each parameter before the launch, drawn from the seed."""
        env = dict(self.env)
        given = {} if self.module is None else self._inputs(self.module, env)
        found: dict[str, Array] = {}
        for n, p in enumerate(self.func.params):
            shape = dims.values(p.shape, env)
            kind = (
                values.Distribution.SMALL
                if p.name in self.func.outputs
                else values.Distribution.MIXED
            )
            drawn = values.array(self.seed + n, p.dtype, shape, None, kind)
            found[p.name] = given.get(p.name, drawn)
        return found

    def inputs(self) -> list[Array]:
        """Return the values of the parameters of the graph."""
        assert self.module is not None
        return list(graphs.inputs(self.module, dict(self.env), self._seeds(self.module)))

    def _seeds(self, m: Module) -> tuple[int, ...]:
        return tuple(self.seed + n for n in range(len(m.entry.params)))

    def _inputs(self, m: Module, env: dict[str, int]) -> dict[str, Array]:
        from didyma.refimpl.ir.types import to_memory

        drawn = map(to_memory, graphs.inputs(m, env, self._seeds(m)))
        return dict(zip(self.func.inputs, drawn, strict=True))


def draw(seed: int, index: int) -> Subject:
    """Return the function of a campaign's seed and an index: every other one is a loop nest."""
    chance = random.Random((seed << 64) + index)
    if index % 2:
        return nest(chance)
    for turn in range(_TRIES):
        found = _lowered(chance, seed, index * _TRIES + turn)
        if found is not None:
            return found
    return nest(chance)


def _lowered(chance: random.Random, seed: int, index: int) -> Subject | None:
    """Return a lowered Primitive function of a random graph; None if none is small."""
    case = drawn_around(seed, index)
    made = compile(case.module, case.options(Options()), until="lower")
    env = dict(case.env)
    found: list[Subject] = []
    for f in made.fused.functions[:-1]:
        if PRIMITIVE not in f.attr or RESHAPE_ONLY in f.attr or COMPILER in f.attr:
            continue
        alone = _alone(f, made.fused)
        used = {d.name for d in alone.dims}
        if not used <= env.keys() or used - control.input_symbols(alone):
            continue
        loop = lower(alone.entry, alone)
        bound = tuple((n, v) for n, v in env.items() if n in used)
        if (
            sum(dims.evaluate(d, env) for b in loop.params for d in (dims.mul(*b.shape),))
            > MOST_POINTS
        ):
            continue
        found.append(Subject(loop, bound, chance.randrange(1 << 20), alone))
    return chance.choice(found) if found else None


def _alone(f: Function, m: Module) -> Module:
    """Return the module of one Primitive function."""
    names = {s for p in (*f.params,) for s in dims.free(p.type.shape)}
    names |= {s for n in f.nodes for t in n.types for s in dims.free(t.shape)}
    return Module((f,), tuple(d for d in m.dims if d.name in names))


# ---- loop nests


def nest(chance: random.Random) -> Subject:
    """Return a function of two or three loop nests over buffers, with affine accesses in bounds.

    Iterations read what others write, in all directions, so that most orders matter.
    """
    maker = _Nests(chance)
    return Subject(maker.function(), (), chance.randrange(1 << 20))


class _Nests:
    """Draws the statements of one function."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.dtype = chance.choice(_DTYPES)
        self.sides = [chance.choice((3, 4, 5, 6, 8)) for _ in range(2)]
        margin = 2
        shape = tuple(n + margin for n in self.sides)
        self.buffers = [Buffer(n, self.dtype, shape) for n in ("a", "b", "c")]
        self.count = 0

    def function(self) -> PrimFunc:
        parts = [self.nest() for _ in range(self.chance.choice((1, 1, 2, 2, 3)))]
        made = Buffer("t", self.dtype, tuple(self.sides), Scope.LOCAL)
        if self.chance.random() < 0.5:  # a value that a nest of its own computes first
            parts = [self.fill(made), *parts, self.use(made)]
        body: Stmt = parts[0] if len(parts) == 1 else Block(tuple(parts))
        if len(parts) > 1 and self.chance.random() < 0.3:
            v = self.loop()
            body = For(v, ix.index(self.chance.choice((1, 2, 3))), body)
        body = Allocate(made, body) if any(isinstance(s, For) for s in parts) else body
        return PrimFunc("nests", tuple(self.buffers), ("b", "c"), body)

    def loop(self) -> Var:
        self.count += 1
        return Var(f"i{self.count - 1}")

    def nest(self) -> Stmt:
        """Return two loops around one or two stores, or around a fold of a row."""
        i, j = self.loop(), self.loop()
        if self.chance.random() < 0.25:
            return self.fold(i, j)
        stores = [self.store(i, j) for _ in range(self.chance.choice((1, 1, 2)))]
        body: Stmt = stores[0] if len(stores) == 1 else Block(tuple(stores))
        for v, n in ((j, self.sides[1]), (i, self.sides[0])):
            body = For(v, ix.index(n), body)
        return body

    def fold(self, i: Var, j: Var) -> Stmt:
        acc = Buffer(f"acc{i.name[1:]}", self.dtype, (), Scope.LOCAL)
        old: Expr = Load(acc.name, (), self.dtype)
        op = self.chance.choice(_OPS)
        step = Store(acc.name, (), Binary(op, old, self.load("a", i, j)))
        loop = For(j, ix.index(self.sides[1]), step)
        first = Store(acc.name, (), self.load("a", i, ix.ZERO))
        last = Store(self.chance.choice("bc"), (i, ix.ZERO), old)
        return For(i, ix.index(self.sides[0]), Allocate(acc, Block((first, loop, last))))

    def store(self, i: Var, j: Var) -> Store:
        target = self.chance.choice("bc")
        at = self.at(i, j)
        first: Expr = self.load(self.chance.choice("abc"), i, j)
        if self.chance.random() < 0.4:  # an update, such as a fold makes
            at = (i, ix.ZERO) if self.chance.random() < 0.5 else (ix.ZERO, j)
            first = Load(target, at, self.dtype)
        second = self.load(self.chance.choice("abc"), i, j)
        return Store(target, at, Binary(self.chance.choice(_OPS), first, second))

    def load(self, buffer: str, i: Expr, j: Expr) -> Expr:
        return Load(buffer, self.at(i, j), self.dtype)

    def at(self, i: Expr, j: Expr) -> tuple[Expr, ...]:
        """Return an element near that of two loop variables, at times with them in turn."""
        shift = [self.chance.choice((0, 0, 0, 1, 2)) for _ in range(2)]
        if self.sides[0] == self.sides[1] and self.chance.random() < 0.2:
            i, j = j, i
        return ix.add(i, ix.index(shift[0])), ix.add(j, ix.index(shift[1]))

    def fill(self, made: Buffer) -> Stmt:
        i, j = self.loop(), self.loop()
        body: Stmt = Store(made.name, (i, j), self.load(self.chance.choice("abc"), i, j))
        for v, n in ((j, self.sides[1]), (i, self.sides[0])):
            body = For(v, ix.index(n), body)
        return body

    def use(self, made: Buffer) -> Stmt:
        i, j = self.loop(), self.loop()
        value = Binary("add", Load(made.name, (i, j), self.dtype), self.load("a", i, j))
        body: Stmt = Store(self.chance.choice("bc"), (i, j), value)
        for v, n in ((j, self.sides[1]), (i, self.sides[0])):
            body = For(v, ix.index(n), body, LoopKind.SERIAL)
        return body
