"""Draws branches, loops, scans, sizes bound at run time and calls into random graphs.

Loops count: the test compares a counter with a small limit, whatever else it asks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from didyma.composites.recipes import RECIPES
from didyma.fuzz.builder import GraphBuilder
from didyma.fuzz.chooser import Bytes, Chooser
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import (
    BIND,
    CALL,
    COMPILER,
    IF,
    NO_INLINE,
    SCAN,
    WHILE,
    Attr,
    Attrs,
    Function,
    Node,
    Param,
)
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.types import PLAIN, DType, Tensor, TensorType
from didyma.refimpl.ops import OPS

BOOL = TensorType(DType.BOOL)
COUNT = TensorType(DType.I64)
_SAME = (
    "add", "multiply", "maximum", "negative", "where", "subtract", "abs", "flip", "sign", "floor",
    "cumulative_sum", "minimum", "square", "bitwise_xor", "logical_xor", "logical_not", "tanh",
)  # fmt: skip
MOST_ROUNDS = 4
# How deep functions that stay call each other, by a node's last byte; EXTERNAL: as one external.
EXTERNAL = 3
STAYING = (1, 2, EXTERNAL, *(0,) * 13)


def draw(b: GraphBuilder, data: bytes, focus: tuple[str, TensorType]) -> bool:
    """Add a control node that reads a value; return whether one could be added."""
    b.staying = STAYING[data[-1] % len(STAYING)]
    c = Bytes(data + hashlib.blake2b(data, digest_size=40).digest())
    usual = ("branch", "loop", "scan", "bind", "call", "growth", "other size", "loop")
    return DRAWERS[c.pick(usual)](b, c, *focus)


@dataclass
class Body:
    """A function under construction, whose parameters are values of the graph."""

    b: GraphBuilder
    params: list[Param] = field(default_factory=list[Param])
    nodes: list[Node] = field(default_factory=list[Node])

    def param(self, t: TensorType) -> str:
        """Add a parameter."""
        name = f"a{len(self.params)}"
        self.params.append(Param(name, t))
        return name

    def node(self, op: str, args: Sequence[str], t: TensorType, **attrs: Attr) -> str:
        """Add a node of one result."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(Node((name,), op, tuple(args), (t,), freeze(attrs)))
        return name

    def number(self, x: float | bool, dtype: DType) -> str:
        """Add a scalar constant."""
        value = Tensor.of(np.array(x).astype(dtype.numpy))
        return self.node("constant", (), value.type, value=value)

    def chain(self, c: Chooser, name: str, t: TensorType, others: Sequence[str] = ()) -> str:
        """Ops that keep a type, perhaps in a function that stays and is called twice."""
        if not self.b.staying:
            return self.ops(c, name, t, others)
        f = Body(self.b)
        x, *rest = (f.param(t) for _ in (name, *others))
        kept = f.function("kept", f.ops(c, x, t, rest), stays=True)
        if self.b.staying == 2:
            f = Body(self.b)
            x, *rest = (f.param(t) for _ in (name, *others))
            kept = f.function("twice", f.call(kept, f.call(kept, x, rest), rest), stays=True)
        return self.call(kept, self.call(kept, name, others), others)

    def call_all(self, f: Function, args: Sequence[str]) -> tuple[str, ...]:
        """Call a function; return all of its results."""
        return self.emit(CALL, args, f.result_types(), {"callee": f.name})

    def emit(
        self, op: str, args: Sequence[str], types: Sequence[TensorType], attrs: Mapping[str, Attr]
    ) -> tuple[str, ...]:
        """Add a node of several results; return their names."""
        names = tuple(f"t{len(self.nodes)}_{i}" for i in range(len(types)))
        self.nodes.append(Node(names, op, tuple(args), tuple(types), freeze(attrs)))
        return names

    def call(self, f: Function, name: str, others: Sequence[str]) -> str:
        """Call a function of one result."""
        return self.node(CALL, (name, *others), f.result_types()[0], callee=f.name)

    def ops(self, c: Chooser, name: str, t: TensorType, others: Sequence[str] = ()) -> str:
        """Ops that keep a type, on a value and others of its type; perhaps none."""
        for _ in range(c.below(4)):
            op = OPS[c.pick(_SAME)]
            sample = op.sample(c, t)
            if sample is None:
                continue
            try:
                made = op.infer(sample.operands, dict(sample.attrs))
            except DidymaError:
                continue
            args = [
                c.pick((name, *others)) if want == t else self.constant(c, want)
                for want in sample.operands
            ]
            if made == t and all(args):
                name = self.node(op.name, [a for a in args if a], t, **dict(sample.attrs))
        return name

    def constant(self, c: Chooser, t: TensorType) -> str | None:
        """Add a constant of one small number; None if its size is symbolic."""
        shape = [d for d in t.shape if isinstance(d, int)]
        if len(shape) < t.rank or not self.b.fits(t):
            return None
        fill = c.pick((0, 1, 2, -1)) if t.dtype.is_signed else c.pick((0, 1))
        value = Tensor.of(np.full(shape, fill).astype(t.dtype.numpy))
        return self.node("constant", (), t, value=value)

    def total(self, name: str, t: TensorType) -> str:
        """Sum of a value whose size is known in this function alone; else of its places."""
        if t.dtype not in PLAIN or t.dtype is DType.BOOL:
            at = t.with_dtype(DType.I64).with_shape(t.shape[0])
            return self.total(
                self.node("iota", (), at, dtype=DType.I64, shape=at.shape, axis=0), at
            )
        axes = tuple(range(t.rank))
        return self.node("sum", (name,), t.with_shape(), axes=axes, keepdims=False)

    def function(self, kind: str, *results: str, stays: bool = False) -> Function:
        """Add the function to the graph, with some of its values as results."""
        attrs = _stay_attrs(self.b) if stays else ()
        f = Function("", tuple(self.params), tuple(self.nodes), results, attrs)
        return self.b.function(f, kind)


def _stay_attrs(b: GraphBuilder) -> Attrs:
    """Attributes of a function whose calls are not inlined."""
    return ((COMPILER, "library"),) if b.staying == EXTERNAL else ((NO_INLINE, 1),)


def _emit(
    b: GraphBuilder,
    op: str,
    args: Sequence[str],
    types: Sequence[TensorType],
    attrs: Mapping[str, Attr],
) -> None:
    """Add a node, or a function that stays and has it, called twice."""
    if not b.staying:
        b.emit(op, args, types, attrs)
        return
    have, f = dict(b.pool), Body(b)
    given = tuple(f.param(have[a]) for a in args)
    names = tuple(f"r{i}" for i in range(len(types)))
    f.nodes.append(Node(names, op, given, tuple(types), freeze(attrs)))
    own = control.rebound(f.nodes[-1])
    results = [
        r if set(own).isdisjoint(dims.free(t.shape)) else f.total(r, t)
        for r, t in zip(names, types, strict=True)
    ]
    kept = f.function("whole", *results, stays=True)
    made = b.emit(CALL, args, kept.result_types(), {"callee": kept.name})
    of = dict(zip(kept.result_types(), made, strict=True))
    again = [of.get(have[a], a) for a in args]
    b.emit(CALL, again, kept.result_types(), {"callee": kept.name})


def _twin(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> str:
    """Another value of a type, or the same."""
    have = [n for n, u in b.pool if u == t]
    return c.pick(have) if c.chance(2) else name


def _branch(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    condition = b.operand(BOOL, c)
    if condition is None:
        return False
    other = _twin(b, c, name, t)
    functions: list[str] = []
    for kind in ("then", "otherwise"):
        f = Body(b)
        x, y = f.param(t), f.param(t)
        first = f.chain(c, x, t, (y,))
        functions.append(f.function(kind, first, c.pick((first, y, x))).name)
    attrs: dict[str, Attr] = {"then": functions[0], "otherwise": functions[1], "binds": ()}
    _emit(b, IF, (condition, name, other), (t, t), attrs)
    return True


def _limit(b: GraphBuilder, c: Chooser) -> str:
    """A number of rounds: a constant, or one that depends on an input."""
    rounds = c.below(MOST_ROUNDS + 1)
    limit = b.number(rounds, DType.I64)
    if c.chance(2):
        return limit
    (asked,) = (b.operand(COUNT, c),)
    return limit if asked is None else b.op("minimum", (asked, limit), COUNT)


def _test(b: GraphBuilder, c: Chooser, carried: Sequence[TensorType], captured: TensorType) -> str:
    """A test that compares the counter, first of what is carried, with the captured limit."""
    f = Body(b)
    at, *values = [f.param(u) for u in carried]
    limit = f.param(COUNT)
    f.param(captured)
    go = f.node("less", (at, limit), BOOL)
    t = carried[1]
    if c.chance(3) and t.dtype.is_float and t.dtype in PLAIN and t.rank:
        axes = tuple(range(t.rank))
        row = t.with_shape()
        most = f.node("max", (values[0],), row, axes=axes, keepdims=False)
        small = f.node("less", (most, f.number(c.pick((4, 0, 100)), t.dtype)), BOOL)
        go = f.node("logical_and", (go, small), BOOL)
    return f.function("test", go).name


def _counted(b: GraphBuilder, f: Body, at: str) -> str:
    return f.node("add", (at, f.number(1, DType.I64)), COUNT)


def _loop(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    limit, other, captured = _limit(b, c), _twin(b, c, name, t), _twin(b, c, name, t)
    carried = (COUNT, t, t)
    test = _test(b, c, carried, t)
    f = Body(b)
    at, x, y = (f.param(u) for u in carried)
    f.param(COUNT)
    z = f.param(t)
    new = f.chain(c, x, t, (y, z))
    pair = c.pick(((new, y), (y, new), (new, x), (y, x), (new, f.chain(c, y, t, (x,)))))
    body = f.function("body", _counted(b, f, at), *pair)
    attrs: dict[str, Attr] = {"cond": test, "body": body.name, "carried": 3, "binds": ()}
    start = b.number(0, DType.I64)
    _emit(b, WHILE, (start, name, other, limit, captured), carried, attrs)
    return True


def _growth(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """A value that grows by a captured one along its first axis."""
    if not t.rank:
        return False
    n = t.shape[0]
    most = b.most(n) * (MOST_ROUNDS + 1)
    u = b.symbol(most, dims.evaluate(n, b.env) * (MOST_ROUNDS + 1))
    grown = t.with_shape(u, *t.shape[1:])
    if not b.fits(grown):
        return False
    limit = _limit(b, c)
    test = _test(b, c, (COUNT, grown), t)
    f = Body(b)
    at, x = f.param(COUNT), f.param(grown)
    f.param(COUNT)
    row = f.chain(c, f.param(t), t)
    longer = f.node(
        "concat", c.pick(((x, row), (row, x))), grown.with_shape(dims.add(u, n), *t.shape[1:]),
        axis=0,
    )  # fmt: skip
    body = f.function("body", _counted(b, f, at), longer)
    none = b.op("slice", (name,), t.with_shape(0, *t.shape[1:]), **_part(t, 0))
    first = c.pick((none, name))
    attrs: dict[str, Attr] = {"cond": test, "body": body.name, "carried": 2, "binds": (str(u),)}
    _emit(b, WHILE, (b.number(0, DType.I64), first, limit, name), (COUNT, grown), attrs)
    return True


def _part(t: TensorType, stop: Dim) -> dict[str, Attr]:
    zeros = (0,) * t.rank
    return {"starts": zeros, "stops": (stop, *t.shape[1:]), "steps": (1,) * t.rank}


def _scan(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    if not t.rank:
        return False
    row = t.with_shape(*t.shape[1:])
    state = b.operand(row, c)
    if state is None:
        return False
    f = Body(b)
    s, x, k = f.param(row), f.param(row), f.param(row)
    new = f.chain(c, s, row, (x, k))
    body = f.function("step", new, f.chain(c, x, row, (s, new)))
    attrs: dict[str, Attr] = {"body": body.name, "states": 1, "scanned": 1, "length": t.shape[0]}
    index = str(b.symbol(max(0, b.most(t.shape[0]) - 1), 0)) if c.chance(3) else ""
    given = (state, name, _twin(b, c, state, row))
    _emit(b, SCAN, given, (row, t), attrs | {"index": index})
    return True


def _bind(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """A size that is the number of elements that are not zero, and values of that size."""
    if t.dtype not in PLAIN:
        return False
    if b.staying:
        return _own_size(b, c, name, t)
    most = b.most(t.numel)
    if t.dtype is DType.BOOL:
        mask = name
    else:
        mask = b.op("not_equal", (name, b.number(0, t.dtype)), t.with_dtype(DType.BOOL))
    ones = b.op("cast", (mask,), t.with_dtype(DType.I64), dtype=DType.I64)
    axes = tuple(range(t.rank))
    count = b.op("sum", (ones,), COUNT, axes=axes, keepdims=False) if t.rank else ones
    u = b.symbol(most, dims.evaluate(t.numel, b.env))
    b.emit(BIND, (count,), (), {"dim": str(u)})
    at = TensorType(c.pick((DType.I64, DType.F32)), (u,))
    b.op("iota", (), at, dtype=at.dtype, shape=(u,), axis=0)
    if t.rank and c.chance(2):
        shape = (dims.minimum(u, t.shape[0]), *t.shape[1:])
        part = _part(t, u)
        try:
            if OPS["slice"].infer([t], part) == t.with_shape(*shape):
                b.op("slice", (name,), t.with_shape(*shape), **part)
        except DidymaError:
            pass
    return True


def _own_size(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """A function that stays and counts what is not zero, for itself, called twice."""
    f = Body(b)
    mask = f.node("cast", (f.param(t),), t.with_dtype(DType.BOOL), dtype=DType.BOOL)
    ones = f.node("cast", (mask,), t.with_dtype(DType.I64), dtype=DType.I64)
    axes = tuple(range(t.rank))
    count = f.node("sum", (ones,), COUNT, axes=axes, keepdims=False) if t.rank else ones
    u = b.symbol(b.most(t.numel), dims.evaluate(t.numel, b.env))
    f.nodes.append(Node((), BIND, (count,), (), (("dim", str(u)),)))
    total = f.total("", TensorType(DType.BOOL, (u,)))
    kept = f.function("sized", total, count, stays=True)
    for value in (name, _twin(b, c, name, t)):
        b.emit(CALL, (value,), kept.result_types(), {"callee": kept.name})
    return True


def _other_size(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """A branch whose result has one of two sizes."""
    condition = b.operand(BOOL, c)
    if condition is None or not t.rank:
        return False
    n = t.shape[0]
    u = b.symbol(2 * b.most(n), 2 * dims.evaluate(n, b.env))
    joined = t.with_shape(u, *t.shape[1:])
    if not b.fits(joined):
        return False
    same, twice = Body(b), Body(b)
    x = same.param(t)
    one = same.function("then", same.chain(c, x, t))
    x = twice.param(t)
    y = twice.chain(c, x, t)
    both = twice.node("concat", (x, y), t.with_shape(dims.add(n, n), *t.shape[1:]), axis=0)
    two = twice.function("otherwise", both)
    attrs: dict[str, Attr] = {"then": one.name, "otherwise": two.name, "binds": (str(u),)}
    _emit(b, IF, (condition, name), (joined,), attrs)
    return True


def _call(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """One function, called once or twice."""
    f = c.pick(RECIPES).function(c, t)
    if f is None or not all(b.fits(u) for u in f.types().values()):
        return False
    f = b.function(replace(f, attrs=_stay_attrs(b)) if b.staying else f, f.name)
    results = f.result_types()
    for _ in range(1 + c.below(2)):
        rest = [b.operand(p.type, c) for p in f.params[1:]]
        if not all(rest):
            return False
        b.emit(CALL, (name, *(r for r in rest if r)), results, {"callee": f.name})
    return True


Drawer: TypeAlias = Callable[[GraphBuilder, Chooser, str, TensorType], bool]
DRAWERS: Mapping[str, Drawer] = MappingProxyType(
    {
        "branch": _branch,
        "loop": _loop,
        "scan": _scan,
        "bind": _bind,
        "call": _call,
        "growth": _growth,
        "other size": _other_size,
    }
)
