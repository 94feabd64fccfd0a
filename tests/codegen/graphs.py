"""Random graphs over the whole table of ops, and values for their operands."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.dims import DimVar, evaluate, symbol
from didyma.refimpl.ir.graph import Function, Module, Node, Param, attrs
from didyma.refimpl.ir.types import ALL, PLAIN, Array, DType, Shape, Tensor, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Kind, Op


@dataclass
class Dice:
    """A chooser over a seeded generator."""

    random: random.Random

    def below(self, n: int) -> int:
        return self.random.randrange(n)


@dataclass
class Builder:
    """Appends nodes; operands are values of the wanted type, new parameters or constants."""

    dice: Dice
    params: list[Param] = field(default_factory=list[Param])
    nodes: list[Node] = field(default_factory=list[Node])
    types: dict[str, TensorType] = field(default_factory=dict[str, TensorType])

    def param(self, t: TensorType) -> str:
        name = f"p{len(self.params)}"
        self.params.append(Param(name, t))
        self.types[name] = t
        return name

    def node(self, op: str, args: Sequence[str], t: TensorType, a: Mapping[str, object]) -> str:
        name = f"v{len(self.nodes)}"
        frozen = attrs(a)  # type: ignore[arg-type]  # any attribute
        self.nodes.append(Node((name,), op, tuple(args), (t,), frozen))
        self.types[name] = t
        return name

    def operand(self, t: TensorType) -> str:
        same = [name for name, u in self.types.items() if u == t]
        if same and self.dice.below(4):
            return same[self.dice.below(len(same))]
        static = [d for d in t.shape if isinstance(d, int)]
        if len(static) == t.rank and self.dice.below(2):
            value = numbers(self.dice, t.dtype, static)
            if self.dice.below(2) and value.size:
                value[...] = [0, 1, -1 if t.dtype.is_signed else 1][self.dice.below(3)]
            return self.node("constant", (), t, {"value": Tensor.of(value)})
        return self.param(t)

    def grow(self, op: Op) -> bool:
        """Append a use of an op on some value; tell whether there was one."""
        # Values nobody reads yet come first: little of a graph is dead.
        read = {a for n in self.nodes for a in n.args}
        fresh = [v for v in self.types if v not in read]
        known = fresh if fresh and self.dice.below(3) else list(self.types)
        name = known[self.dice.below(len(known))]
        sample = op.sample(self.dice, self.types[name])
        if sample is None:
            return False
        a = dict(sample.attrs)
        try:
            t = op.infer(sample.operands, a)
        except DidymaError:
            return False
        size = t.numel
        if isinstance(size, int) and size > 4096:
            return False
        args = [name if u == self.types[name] else self.operand(u) for u in sample.operands]
        self.node(op.name, args, t, a)
        return True


SHAPES: tuple[Shape, ...] = ((), (3,), (2, 3), (1, 4), (2, 1, 3), (0, 2), (8,), (4, 4))
NAMED: tuple[Shape, ...] = ((symbol("n"),), (symbol("n"), 3), (2, symbol("m")))
MIXED = (*PLAIN, *PLAIN, *ALL)  # storage alone gives little to do
# Elementwise ops are many; the others get their share.
WEIGHTS = {
    Kind.ELEMENTWISE: 1,
    Kind.INJECTIVE: 3,
    Kind.RESHAPE: 12,
    Kind.REDUCTION: 2,
    Kind.OPAQUE: 2,
}
DIMS = (DimVar("n", 0, 6), DimVar("m", 1, 5))


def graph(
    seed: int, size: int = 10, dtypes: Sequence[DType] = MIXED, symbolic: bool = False
) -> Module:
    """Make a module of about ``size`` nodes with one to three results."""
    dice = Dice(random.Random(seed))
    b = Builder(dice)
    shapes = (*SHAPES, *NAMED) if symbolic else SHAPES
    for _ in range(1 + dice.below(3)):
        b.param(TensorType(dtypes[dice.below(len(dtypes))], shapes[dice.below(len(shapes))]))
    ops = [
        op
        for op in OPS.values()
        for _ in range(WEIGHTS[op.kind])
        if op.name not in ("constant", "to")
    ]
    tries = 0
    while len(b.nodes) < size and tries < 10 * size:
        tries += 1
        b.grow(ops[dice.below(len(ops))])
    names = [r for n in b.nodes for r in n.results] or [b.params[0].name]
    every = list(b.types)
    results = [names[-1], *(every[dice.below(len(every))] for _ in range(dice.below(3)))]
    f = Function("main", tuple(b.params), tuple(b.nodes), tuple(results))
    return Module((f,), DIMS if symbolic else ())


def numbers(dice: Dice, dtype: DType, shape: Sequence[int]) -> Array:
    """Make values of a dtype: small, with a few that are special."""
    rng = np.random.default_rng(dice.below(2**32))
    if dtype == DType.BOOL:
        return rng.integers(0, 2, tuple(shape)).astype(np.bool_)
    lo = -4 if dtype.is_signed else 0
    values = rng.integers(lo, 5, tuple(shape)).astype(np.float64)
    if dtype.is_float:
        values /= 2
        rare = rng.random(tuple(shape))
        values = np.where(rare < 0.02, np.nan, np.where(rare > 0.96, -0.0, values))
    return np.asarray(values.astype(dtype.compute.numpy).astype(dtype.numpy))


def operands(m: Module, seed: int, env: Mapping[str, int]) -> list[Array]:
    """Make a value for each parameter of the entry."""
    dice = Dice(random.Random(seed))
    return [
        numbers(dice, p.type.dtype, [evaluate(d, env) for d in p.type.shape])
        for p in m.entry.params
    ]


def bindings(m: Module, seed: int) -> dict[str, int]:
    """Choose a size for each dim."""
    dice = random.Random(seed)
    return {v.name: dice.randint(v.lo, v.hi) for v in m.dims}


def same_bits(a: Array, b: Array) -> bool:
    """Compare element by element, any NaN equal to any."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind in "biu":
        return bool((a == b).all())
    x, y = a.astype(np.float64), b.astype(np.float64)
    nan = np.isnan(x) & np.isnan(y)
    return bool((nan | ((x == y) & (np.signbit(x) == np.signbit(y)))).all())
