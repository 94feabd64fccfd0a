"""Draws control nodes around sizes: bound in bodies and between kernels, and handed to calls."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import sympy

from didyma.fuzz import control
from didyma.fuzz.builder import GraphBuilder
from didyma.fuzz.chooser import Chooser
from didyma.fuzz.control import BOOL, COUNT, STAYING, Body, Drawer
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import BIND, CALL, IF, NO_INLINE, SCAN, WHILE, Attr, Node
from didyma.refimpl.ir.types import DType, TensorType
from didyma.refimpl.ops import OPS


def add(b: GraphBuilder, c: Chooser, kind: str, focus: tuple[str, TensorType]) -> bool:
    """Add a control node of a kind that reads a value; return whether one could be added."""
    b.controlled = True
    b.staying = c.pick(STAYING)
    return DRAWERS[kind](b, c, *focus)


def _bound_total(f: Body, name: str, t: TensorType, c: Chooser) -> str:
    """Bind the number of elements that are not zero; return the sum of so many whole numbers."""
    return _total(f, _bound(f, name, t), c)


def _bound(f: Body, name: str, t: TensorType) -> sympy.Symbol:
    """Bind the number of elements that are not zero, and return its symbol."""
    mask = f.node("cast", (name,), t.with_dtype(DType.BOOL), dtype=DType.BOOL)
    ones = f.node("cast", (mask,), t.with_dtype(DType.I64), dtype=DType.I64)
    axes = tuple(range(t.rank))
    count = f.node("sum", (ones,), COUNT, axes=axes, keepdims=False) if t.rank else ones
    u = f.b.symbol(f.b.most(t.numel), dims.evaluate(t.numel, f.b.env))
    f.nodes.append(Node((), BIND, (count,), (), (("dim", str(u)),)))
    return u


def _total(f: Body, u: sympy.Symbol, c: Chooser) -> str:
    """Return the sum of the whole numbers below a size, or of their squares."""
    size: Dim = c.pick((u, dims.mul(u, 2), dims.add(u, 1)))
    row = TensorType(DType.I64, (size,))
    line = f.node("iota", (), row, dtype=DType.I64, shape=(size,), axis=0)
    if c.chance(2):
        line = f.node("square", (line,), row)
    return f.node("sum", (line,), COUNT, axes=(0,), keepdims=False)


def _in_branch(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Bind a size on one side of a branch, or a size on each."""
    condition = b.operand(BOOL, c)
    if condition is None:
        return False
    sides: list[str] = []
    for kind in ("then", "otherwise"):
        f = Body(b)
        x = f.param(t)
        binds = kind == "then" or c.chance(2)
        result = _bound_total(f, x, t, c) if binds else f.number(c.below(3), DType.I64)
        sides.append(f.function(kind, result).name)
    sides = c.pick((sides, sides[::-1]))
    attrs: dict[str, Attr] = {"then": sides[0], "otherwise": sides[1], "binds": ()}
    b.emit(IF, (condition, name), (COUNT,), attrs)
    return True


def _in_loop(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Bind a size in each round of a loop that runs no, one or several rounds."""
    test = Body(b)
    at, _, most = test.param(COUNT), test.param(COUNT), test.param(COUNT)
    test.param(t)
    go = test.node("less", (at, most), BOOL)
    cond = test.function("test", go).name
    f = Body(b)
    at, total, _ = f.param(COUNT), f.param(COUNT), f.param(COUNT)
    found = _bound_total(f, f.param(t), t, c)
    nxt = f.node("add", (at, f.number(1, DType.I64)), COUNT)
    new = f.node(c.pick(("add", "subtract", "maximum")), (total, found), COUNT)
    body = f.function("body", nxt, new).name
    attrs: dict[str, Attr] = {"cond": cond, "body": body, "carried": 2, "binds": ()}
    zero = b.number(0, DType.I64)
    rounds = b.number(c.pick((0, 1, 3)), DType.I64)
    if c.chance(2) and (asked := b.operand(COUNT, c)) is not None:
        rounds = b.op("minimum", (asked, rounds), COUNT)
    b.emit(WHILE, (zero, zero, rounds, name), (COUNT, COUNT), attrs)
    return True


def _between(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Bind a size between two kernels of one shape, the second of which needs it."""
    if t.dtype not in OPS["add"].dtypes or dims.free(t.shape):
        return False
    first = b.op(c.pick(("square", "negative", "abs")), (name,), t)
    if t.rank and t.dtype in OPS["cumulative_sum"].dtypes and c.chance(2):
        # It reads the first kernel, which is not to wait for the size where it does not.
        b.op("cumulative_sum", (first,), t, axis=0, exclusive=False, reverse=c.chance(2))
    f = Body(b)
    inner = f.function("counted", _bound_total(f, f.param(t), t, c))
    (total,) = b.emit(CALL, (c.pick((name, first)),), (COUNT,), {"callee": inner.name})
    number = b.op("cast", (total,), TensorType(t.dtype), dtype=t.dtype)
    second = b.op(c.pick(("add", "multiply")), (name, number), t)
    b.op(c.pick(("subtract", "maximum", "add")), (first, second), t)
    return True


def _cut_between(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Bind a size between two kernels of one shape, the second of which reads from there on.

    It needs the size, and no value that comes of it.
    """
    if not t.rank or any(t.dtype not in OPS[op].dtypes for op in ("negative", "iota")):
        return False
    first = b.op(c.pick(("square", "negative", "abs")), (name,), t)
    if t.dtype in OPS["cumulative_sum"].dtypes and c.below(3):
        b.op("cumulative_sum", (first,), t, axis=0, exclusive=False, reverse=c.chance(2))
    mask = b.op("cast", (name,), t.with_dtype(DType.BOOL), dtype=DType.BOOL)
    ones = b.op("cast", (mask,), t.with_dtype(DType.I64), dtype=DType.I64)
    count = b.op("sum", (ones,), COUNT, axes=tuple(range(t.rank)), keepdims=False)
    most = 1 + c.below(3)
    u = b.symbol(most, most)
    b.emit(BIND, (b.op("minimum", (count, b.number(most, DType.I64)), COUNT),), (), {"dim": str(u)})
    long = t.with_shape(dims.add(t.shape[0], u), *t.shape[1:])
    numbers = b.op("iota", (), long, dtype=t.dtype, shape=long.shape, axis=0)
    ends: dict[str, Attr] = {
        "starts": (u, *(0 for _ in t.shape[1:])), "stops": long.shape, "steps": (1,) * t.rank,
    }  # fmt: skip
    part = b.op("slice", (numbers,), t, **ends)
    condition = b.operand(BOOL, c) if c.chance(3) else None
    if condition is not None:  # or a branch needs it, of which one side mentions it
        (part,) = b.emit(IF, (condition, name), (t,), _sides(b, c, u, t))
    second = b.op(c.pick(("add", "multiply")), c.pick(((name, part), (part, name))), t)
    b.op(c.pick(("subtract", "maximum", "add")), (first, second), t)
    return True


def _constants(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Choose between constants of two sizes, or of one and what is computed of the other."""
    del name
    condition = b.operand(BOOL, c)
    if condition is None or dims.free(t.shape):
        return False
    sizes = c.pick(((2, 4), (3, 1), (4, 4)))
    u = b.symbol(max(sizes), max(sizes))
    sides: list[str] = []
    for kind, n in zip(("then", "otherwise"), sizes, strict=True):
        f = Body(b)
        row = t.with_shape(n, *t.shape[:2])
        made = f.constant(c, row)
        if made is None:
            return False
        sides.append(f.function(kind, f.chain(c, made, row) if c.chance(3) else made).name)
    attrs: dict[str, Attr] = {"then": sides[0], "otherwise": sides[1], "binds": (str(u),)}
    (made,) = b.emit(IF, (condition,), (t.with_shape(u, *t.shape[:2]),), attrs)
    if t.dtype in OPS["negative"].dtypes:
        b.op("negative", (made,), t.with_shape(u, *t.shape[:2]))
    return True


def _sides(b: GraphBuilder, c: Chooser, u: sympy.Symbol, t: TensorType) -> dict[str, Attr]:
    """Return the functions of a branch, one of which adds what comes of a size to a value."""
    f = Body(b)
    x = f.param(t)
    number = f.node("cast", (_total(f, u, c),), t.with_shape(), dtype=t.dtype)
    sized = f.function("sized", f.node("add", (x, number), t))
    f = Body(b)
    sides = c.pick(((sized, f.function("given", f.param(t))), (sized, sized)))
    return {"then": sides[0].name, "otherwise": sides[1].name, "binds": ()}


def _inside_alone(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Bind a size that nothing but the sides of a branch mentions."""
    condition = b.operand(BOOL, c)
    if condition is None:
        return False
    f = Body(b)
    x, test = f.param(t), f.param(BOOL)
    u = _bound(f, x, t)
    sides: list[str] = []
    for kind in ("then", "otherwise"):
        side = Body(b)
        side.param(t)
        found = _total(side, u, c) if kind == "then" or c.chance(2) else side.number(1, DType.I64)
        sides.append(side.function(kind, found).name)
    sides = c.pick((sides, sides[::-1]))
    attrs: dict[str, Attr] = {"then": sides[0], "otherwise": sides[1], "binds": ()}
    inner = f.function("counted", f.node(IF, (test, x), COUNT, **attrs))
    b.emit(CALL, (name, condition), (COUNT,), {"callee": inner.name})
    return True


def _empty_scan(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Scan no rows: the states stay, and the stacks are empty."""
    f = Body(b)
    count = 1 + c.below(3)
    states = [f.param(t) for _ in range(count)]
    f.param(t)
    body = f.function("step", f.chain(c, states[-1], t), *states).name
    attrs: dict[str, Attr] = {
        "body": body, "states": count, "scanned": 1, "length": 0, "index": "",
    }  # fmt: skip
    none = t.with_shape(0, *t.shape)
    if dims.free(t.shape) or t.rank > 4:
        return False
    rows = b.constant(none, c)
    same = [n for n, u in b.pool if u == t]
    first = [name, *(c.pick((c.pick(same), b.constant(t, c))) for _ in range(count - 1))]
    b.emit(SCAN, (*first, rows), (*(t,) * count, none), attrs)
    return True


def _handed(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Call a function that stays, and works with all sizes of the graph, in another order."""
    del name, t
    sized = [(n, u) for n, u in b.pool if len(dims.free(u.shape)) > 1]
    sized = [(n, u) for n, u in sized if u.dtype in OPS["negative"].dtypes]
    if not sized:
        return False
    x, t = c.pick(sized)
    f = Body(b)
    p = f.param(t)
    if c.chance(2):
        turned = tuple(reversed(range(t.rank)))
        u = t.with_shape(*reversed(t.shape))
        p, made = f.node("permute_dims", (p,), u, axes=turned), u
    else:
        made = t
    done = f.chain(c, p, made) if c.chance(2) else f.node("negative", (p,), made)
    kept = f.function("kept", done, stays=True)
    if not any(k == NO_INLINE for k, _ in kept.attrs):
        return False
    (first,) = b.emit(CALL, (x,), (made,), {"callee": kept.name})
    if made == t:
        b.emit(CALL, (first,), (made,), {"callee": kept.name})
    return True


def _loops_in_sides(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Run a loop on each side of a branch, or on one and none on the other."""
    condition = b.operand(BOOL, c)
    if condition is None:
        return False
    sides = list[str]()
    for kind in ("then", "otherwise"):
        f = Body(b)
        x = f.param(t)
        looped = _looped(f, c, x, t) if kind == "then" or c.below(4) else x
        sides.append(f.function(kind, looped).name)
    sides = c.pick((sides, sides[::-1]))
    attrs: dict[str, Attr] = {"then": sides[0], "otherwise": sides[1], "binds": ()}
    (made,) = b.emit(IF, (condition, name), (t,), attrs)
    if t.dtype in OPS["negative"].dtypes:
        b.op("negative", (made,), t)
    return True


def _looped(f: Body, c: Chooser, x: str, t: TensorType) -> str:
    """Return what a few rounds of a loop make of a value."""
    test = Body(f.b)
    at, most = test.param(COUNT), test.param(COUNT)
    test.param(t)
    cond = test.function("test", test.node("less", (at, most), BOOL)).name
    body = Body(f.b)
    at, most, held = body.param(COUNT), body.param(COUNT), body.param(t)
    following = body.node("add", (at, body.number(1, DType.I64)), COUNT)
    done = body.function("body", following, most, body.chain(c, held, t)).name
    attrs: dict[str, Attr] = {"cond": cond, "body": done, "carried": 3, "binds": ()}
    begin, end = f.number(0, DType.I64), f.number(c.pick((2, 1, 0)), DType.I64)
    return f.emit(WHILE, (begin, end, x), (COUNT, COUNT, t), attrs)[2]


DRAWERS: Mapping[str, Drawer] = MappingProxyType(
    {
        **control.DRAWERS,
        "size in a branch": _in_branch,
        "size in a loop": _in_loop,
        "size between kernels": _between,
        "cut between kernels": _cut_between,
        "size in sides alone": _inside_alone,
        "constants of two sizes": _constants,
        "scan of nothing": _empty_scan,
        "sizes of a call": _handed,
        "loops in sides": _loops_in_sides,
    }
)
KINDS = tuple(DRAWERS)
BETWEEN = ("size between kernels", "cut between kernels")  # what merging must not move: twice
