"""Random kernels of a few ops on floats, each with its inputs, from a seed.

An op is drawn before its operands, and drawn again where the values at hand make no sense to it:
a logarithm of negative numbers, a sum of infinities.  One kernel in ten is spared this, and has
corner values among its inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from didyma.refimpl.ir.graph import Attrs, Function, Module, Node, Param
from didyma.refimpl.ir.types import FLOATS, Array, DType, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.bars import Contract
from tests.bench.bed import COMPARISONS, FUNCTIONS, Implementation, stored

UNARY = (
    *(f for f in FUNCTIONS if f not in ("pow", "atan2")), "abs", "negative", "sign", "square",
    "square", "reciprocal", "sqrt", "floor", "ceil", "trunc", "round", "tanh", "exp",
)  # fmt: skip
BINARY = (
    *("add", "subtract", "multiply") * 8, *("divide", "maximum", "minimum") * 3, "pow", "atan2",
    "floor_divide", "remainder", "fmod", "copysign",
)  # fmt: skip
FOLDS = ("sum", "sum", "sum", "mean", "max", "min", "prod", "cumulative_sum", "matmul")
OTHERS = ("clip", "where", "where", "cast")
POOL = (*UNARY, *UNARY, *BINARY, *BINARY, *FOLDS, *FOLDS, *OTHERS, *OTHERS)
LENGTHS = (1, 2, 3, 5, 8, 13, 17, 32, 50)
LONG = (257, 1000, 4096)
LARGE: Mapping[DType, float] = {
    DType.F64: 1e60, DType.F32: 1e12, DType.F16: 3e3, DType.BF16: 1e12,
}  # fmt: skip
CORNERS = (
    0.0, -0.0, 1.0, -1.0, 0.5, -1.5, 2.0, 3.0, 1e-3, 88.5, -104.0, 255.5, 65504.0, 1e10, -1e10,
    3e38, -3e38, 1.2e-38, 1e-44, -1e-44, 6e-8, np.inf, -np.inf, np.nan, np.pi,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function of one result, with inputs."""

    nodes: tuple[Node, ...]
    params: tuple[Param, ...]
    inputs: tuple[Array, ...]

    @property
    def module(self) -> Module:
        """The kernel alone."""
        return Module((self.function,))

    @property
    def function(self) -> Function:
        """The kernel as a graph function."""
        return Function("kernel", self.params, self.nodes, self.nodes[-1].results)

    @property
    def named(self) -> dict[str, tuple[Array, DType]]:
        """Inputs by name, with their dtypes."""
        pairs = zip(self.params, self.inputs, strict=True)
        return {p.name: (a, p.type.dtype) for p, a in pairs}

    def __str__(self) -> str:
        lines = [f"{p.name}: {p.type}" for p in self.params]
        lines += [
            f"{n.results[0]} = {n.op}{n.args} {dict(n.attrs) or ''}: {n.types[0]}"
            for n in self.nodes
        ]
        return "\n".join(lines)


class _Draw:
    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.dtype = FLOATS[int(rng.integers(4))]
        self.wild = rng.random() < 0.1
        rows = int(rng.integers(1, 5))
        long = rng.random() < 0.02
        self.shape = (rows, int(rng.choice(LONG if long else LENGTHS)))
        self.params: list[Param] = []
        self.nodes: list[Node] = []
        self.inputs: list[Array] = []
        self.types: dict[str, TensorType] = {}
        self.found: dict[str, Array] = {}
        self.plain = Implementation(rng, Contract())
        for _ in range(2):
            self.param(self.dtype, self.shape)

    def values(self, dtype: DType, shape: tuple[int, ...]) -> Array:
        rng = self.rng
        x = rng.standard_normal(shape)
        kind = rng.integers(4)
        if kind == 0:
            x = np.abs(x) + 0.1
        elif kind == 1:
            x = np.rint(4 * x)
        x = x * 10.0 ** rng.uniform(-2, 1) if kind != 1 else x
        if self.wild:
            x = np.where(rng.random(shape) < 0.1, rng.choice(CORNERS, shape), x)
        return stored(x, dtype)

    def param(self, dtype: DType, shape: tuple[int, ...]) -> str:
        name = f"p{len(self.params)}"
        t = TensorType(dtype, shape)
        a = self.values(dtype, shape)
        self.params.append(Param(name, t))
        self.inputs.append(a)
        self.types[name] = t
        self.found[name] = a.astype(dtype.compute.numpy)
        return name

    def other(self, first: str) -> str:
        """A value of the same dtype that can be broadcast with another."""
        t = self.types[first]
        fits = [
            n for n, o in self.types.items()
            if o.dtype is t.dtype and (o.shape == t.shape or o.shape == (t.shape[0], 1))
        ]  # fmt: skip
        if self.rng.random() < 0.1:
            return self.param(t.dtype, (int(t.shape[0]), int(t.shape[1])))
        return fits[int(self.rng.integers(len(fits)))]

    def step(self) -> bool:
        """Try one op."""
        rng = self.rng
        op = POOL[int(rng.integers(len(POOL)))]
        floats = [n for n, t in self.types.items() if t.dtype.is_float]
        first = floats[-1] if rng.random() < 0.85 else floats[int(rng.integers(len(floats)))]
        t = self.types[first]
        args: list[str] = [first]
        attrs: Attrs = ()
        if op in BINARY:
            args.append(self.other(first))
            if rng.random() < 0.5 and self.types[args[1]] == t:
                args.reverse()
        elif op == "clip":
            args += [self.other(first), self.other(first)]
        elif op == "where":
            compare = [*COMPARISONS][int(rng.integers(6))]
            picked = self.node(compare, (first, self.other(first)), ())
            if picked is None:
                return False
            args = [picked, first, self.other(first)]
        elif op == "cast":
            attrs = (("dtype", FLOATS[int(rng.integers(4))]),)
        elif op == "matmul":
            args.append(self.param(t.dtype, (int(t.shape[1]), int(rng.integers(1, 4)))))
        elif op == "cumulative_sum":
            if t.shape[1] > 32:  # type: ignore[operator]  # sizes are ints here
                return False
            flags = (bool(rng.integers(2)), bool(rng.integers(2)))
            attrs = (("axis", 1), ("exclusive", flags[0]), ("reverse", flags[1]))
        elif op in FOLDS:
            attrs = (("axes", (1,)), ("keepdims", True))
        return self.node(op, tuple(args), attrs) is not None

    def node(self, op: str, args: tuple[str, ...], given: Attrs) -> str | None:
        """Add an op unless its values are out of hand."""
        types = [self.types[a] for a in args]
        t = OPS[op].infer(types, dict(given))
        name = f"v{len(self.nodes)}"
        n = Node((name,), op, args, (t,), given)
        out = self.plain.node(n, [self.found[a] for a in args], types[0].dtype)
        if t.dtype.is_float and not self.wild and not self.sane(out, t.dtype):
            return None
        self.nodes.append(n)
        self.types[name], self.found[name] = t, out
        return name

    def sane(self, x: Array, dtype: DType) -> bool:
        return bool(np.isfinite(x).all() and np.abs(x).max(initial=0) < LARGE[dtype])


def draw(seed: int) -> Kernel:
    """Kernel of a seed: 1 to 8 ops."""
    d = _Draw(seed)
    want = int(d.rng.integers(1, 9))
    tries = 0
    while tries < 60 and (len(d.nodes) < want or not d.types[_last(d)].dtype.is_float):
        d.step()
        tries += 1
    while not d.types[_last(d)].dtype.is_float:
        d.nodes.pop()
    kernel = Kernel(tuple(d.nodes[:8]), tuple(d.params), tuple(d.inputs))
    return _pruned(kernel)


def _last(d: _Draw) -> str:
    return d.nodes[-1].results[0] if d.nodes else "p0"


def _pruned(k: Kernel) -> Kernel:
    """What the last value needs."""
    nodes = list(k.nodes)
    while nodes and not nodes[-1].types[0].dtype.is_float:
        nodes.pop()
    if not nodes:
        t = k.params[0].type
        nodes = [Node(("v0",), "negative", ("p0",), (t,))]
    live = set(nodes[-1].results)
    kept: list[Node] = []
    for n in reversed(nodes):
        if live & set(n.results):
            kept.append(n)
            live.update(n.args)
    pairs = [(p, a) for p, a in zip(k.params, k.inputs, strict=True) if p.name in live]
    return Kernel(tuple(reversed(kept)), tuple(p for p, _ in pairs), tuple(a for _, a in pairs))
