"""Draws control nodes around what is carried, captured and handed on: whose bytes are whose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from didyma.fuzz.builder import GraphBuilder
from didyma.fuzz.chooser import Chooser
from didyma.fuzz.control import BOOL, COUNT, Body, Drawer
from didyma.fuzz.steering.opsets import PAIRED
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import CALL, IF, SCAN, WHILE, Attr
from didyma.refimpl.ir.types import DType, TensorType
from didyma.refimpl.ops import OPS

_BINARY = ("add", "subtract", "maximum", "minimum")
_UNARY = ("negative", "square", "abs")
_PACKED = (DType.I4, DType.U4, DType.F4E2M1, DType.U2)


def long_body(f: Body, c: Chooser, names: Sequence[str], t: TensorType) -> list[str]:
    """Add several kernels in a row, each of which reads some of the values before it.

    Returns the values given and those made.  Running sums keep kernels apart, some of them over
    views of their operands; where there can be none, what is added may become one kernel.
    """
    have = list(names)
    runs = t.rank > 0 and t.dtype in OPS["cumulative_sum"].dtypes
    usual = [op for op in _BINARY if t.dtype in OPS[op].dtypes]
    every = [op for op in PAIRED if OPS[op].arity == (2, 2) and _keeps(op, t)]
    for _ in range(1 + c.below(5)):
        x = c.pick((have[-1], c.pick(have)))
        pairs = every if c.chance(4) else usual
        if pairs and c.chance(2):
            x = f.node(c.pick(pairs), (x, c.pick(have)), t)
        elif t.dtype in OPS["negative"].dtypes:
            x = f.node(c.pick(_UNARY), (x,), t)
        if runs and not c.chance(3):
            u = t.with_shape(t.numel) if t.rank > 1 and c.chance(2) else t
            x = x if u == t else f.node("reshape", (x,), u, shape=u.shape)
            x = f.node(
                "cumulative_sum", (x,), u,
                axis=c.below(u.rank), exclusive=c.chance(3), reverse=c.chance(2),
            )  # fmt: skip
            x = x if u == t else f.node("reshape", (x,), t, shape=t.shape)
        have.append(x)
    return have


def _keeps(op: str, t: TensorType) -> bool:
    """Return whether an op makes of two values of a type another of that type."""
    return t.dtype in OPS[op].dtypes and OPS[op].infer([t, t], {}) == t


def before(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> str:
    """Return a value of a kernel of its own, or a value that is there already."""
    if c.chance(3) or t.dtype not in OPS["cumulative_sum"].dtypes or not t.rank:
        same = [n for n, u in b.pool if u == t]
        return c.pick((name, c.pick(same)))
    attrs: dict[str, Attr] = {"axis": c.below(t.rank), "exclusive": False, "reverse": c.chance(2)}
    return b.op("cumulative_sum", (name,), t, **attrs)


def read_again(b: GraphBuilder, c: Chooser, values: Sequence[str], t: TensorType) -> None:
    """Now and then read two values of a type once more."""
    op = c.pick(_BINARY)
    if t.dtype in OPS[op].dtypes and c.chance(2):
        b.op(op, (c.pick(values), c.pick(values)), t)


def _test(b: GraphBuilder, carried: Sequence[TensorType], captured: Sequence[TensorType]) -> str:
    f = Body(b)
    at, *_ = (f.param(u) for u in carried)
    limit, *_ = (f.param(u) for u in captured)
    return f.function("test", f.node("less", (at, limit), BOOL)).name


def rounds(b: GraphBuilder, c: Chooser) -> str:
    """Return a number of rounds: none, some, or as many as an input says."""
    limit = b.number(c.pick((2, 0, 1, 3, 4)), DType.I64)
    asked = b.operand(COUNT, c) if c.chance(3) else None
    return limit if asked is None else b.op("minimum", (asked, limit), COUNT)


def _rotated(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """A loop that swaps or rotates what it carries, some of it changed.

    The first values are now and then one value twice, captured as well, or read after the loop.
    """
    count = 2 + c.below(2)
    first = [before(b, c, name, t) for _ in range(count)]
    captured = c.pick((first[0], first[-1], before(b, c, name, t)))
    carried = (COUNT, *(t,) * count)
    captures = (COUNT, t)
    test = _test(b, carried, captures)
    f = Body(b)
    at, *values = (f.param(u) for u in carried)
    _, z = (f.param(u) for u in captures)
    have = long_body(f, c, (*values, z), t)
    turn = c.below(count)
    new = [*values[turn:], *values[:turn]]
    for k in range(count):
        if c.chance(2):
            new[k] = c.pick((have[-1], c.pick(have)))
    if c.chance(4):
        new[0], new[1] = new[1], new[0]
    nxt = f.node("add", (at, f.number(1, DType.I64)), COUNT)
    body = f.function("body", nxt, *new).name
    attrs: dict[str, Attr] = {"cond": test, "body": body, "carried": 1 + count, "binds": ()}
    given = (b.number(0, DType.I64), *first, rounds(b, c), captured)
    _, *results = b.emit(WHILE, given, carried, attrs)
    read_again(b, c, (*results, *first), t)
    return True


def _states(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """A scan of two or three states that change places, and stacks of old and new ones.

    Its index is now and then a size in the body; rows of packed dtypes may fill no whole bytes.
    """
    length = c.pick((3, 2, 0, 1, 5))
    rows = t.with_shape(length, *t.shape)
    if not b.fits(rows) or t.rank > 3:
        return False
    scanned = b.operand(rows, c)
    if scanned is None:
        return False
    count = 2 + c.below(2)
    first = [before(b, c, name, t) for _ in range(count)]
    f = Body(b)
    values = [f.param(t) for _ in range(count)]
    x, z = f.param(t), f.param(t)
    have = long_body(f, c, (*values, x, z), t)
    index = ""
    if c.chance(2):
        index = str(b.symbol(max(0, length - 1), 0))
        have.append(_sized(f, c, have[-1], t, index))
    turn = c.below(count)
    new = [c.pick((v, v, have[-1], c.pick(have))) for v in (*values[turn:], *values[:turn])]
    stacks = [c.pick((values[0], have[-1], c.pick(have))) for _ in range(1 + c.below(2))]
    types = [t] * len(stacks)
    if c.chance(3):
        u = t.with_dtype(c.pick(_PACKED))
        stacks.append(f.node("cast", (stacks[0],), u, dtype=u.dtype))
        types.append(u)
    body = f.function("step", *new, *stacks).name
    attrs: dict[str, Attr] = {
        "body": body, "states": count, "scanned": 1, "length": length, "index": index,
    }  # fmt: skip
    stacked = [u.with_shape(length, *u.shape) for u in types]
    given = (*first, scanned, before(b, c, name, t))
    results = b.emit(SCAN, given, (*(t,) * count, *stacked), attrs)
    read_again(b, c, (*results[:count], *first), t)
    return True


def _sized(f: Body, c: Chooser, name: str, t: TensorType, index: str) -> str:
    """Add the sum of as many numbers as the index of a scan says to a value."""
    size = dims.add(dims.symbol(index), c.pick((0, 1)))
    row = TensorType(DType.I64, (size,))
    line = f.node("iota", (), row, dtype=DType.I64, shape=(size,), axis=0)
    total = f.node("sum", (line,), COUNT, axes=(0,), keepdims=False)
    number = total
    if t.dtype is not DType.I64:
        number = f.node("cast", (total,), TensorType(t.dtype), dtype=t.dtype)
    op = "add" if t.dtype in OPS["add"].dtypes else "logical_or"
    return f.node(op, (name, number), t)


def _given_back(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """A branch some of whose results are captures, swapped or one of them twice, on one side."""
    condition = b.operand(BOOL, c)
    if condition is None:
        return False
    given = [before(b, c, name, t) for _ in range(2)]
    count = 2 + c.below(2)
    sides: list[str] = []
    for kind in ("then", "otherwise"):
        f = Body(b)
        params = [f.param(t) for _ in given]
        have = params if c.chance(3) else long_body(f, c, params, t)
        results = [c.pick((c.pick(params), have[-1], c.pick(have))) for _ in range(count)]
        sides.append(f.function(kind, *results).name)
    attrs: dict[str, Attr] = {"then": sides[0], "otherwise": sides[1], "binds": ()}
    made = b.emit(IF, (condition, *given), (t,) * count, attrs)
    read_again(b, c, (*made, *given), t)
    return True


def _fixed(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """A function that stays, of whose results some are constants, parameters, or one value."""
    b.staying = 1
    f = Body(b)
    x, y = f.param(t), f.param(t)
    have = long_body(f, c, (x, y), t)
    made = [f.constant(c, t) for _ in range(1 + c.below(2))]
    results = [*(m for m in made if m), c.pick((x, have[-1])), have[-1]]
    if c.chance(2):
        results.append(results[0])
    kept = f.function("fixed", *results, stays=True)
    other = before(b, c, name, t)
    types = kept.result_types()
    once = b.emit(CALL, (name, other), types, {"callee": kept.name})
    again = b.emit(CALL, (once[0], c.pick(once)), types, {"callee": kept.name})
    read_again(b, c, (*once, *again), t)
    return True


def _latched(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """A loop whose test is a truth value that it carries: testing takes no kernel."""
    carried = (BOOL, COUNT, t, t)
    test = Body(b)
    go, *_ = (test.param(u) for u in (*carried, COUNT))
    cond = test.function("test", go).name
    f = Body(b)
    _, at, x, y = (f.param(u) for u in carried)
    limit = f.param(COUNT)
    nxt = f.node("add", (at, f.number(1, DType.I64)), COUNT)
    more = f.node("less", (nxt, limit), BOOL) if c.chance(2) else f.number(False, DType.BOOL)
    have = long_body(f, c, (x, y), t)
    body = f.function("body", more, nxt, *c.pick(((have[-1], x), (y, have[-1]), (y, x), (x, y))))
    attrs: dict[str, Attr] = {"cond": cond, "body": body.name, "carried": 4, "binds": ()}
    asked = b.operand(BOOL, c) if c.chance(2) else None
    limit = rounds(b, c)
    first = asked or b.number(not c.chance(3), DType.BOOL)
    given = (first, b.number(0, DType.I64), name, before(b, c, name, t), limit)
    _, _, *results = b.emit(WHILE, given, carried, attrs)
    read_again(b, c, (*results, name), t)
    return True


def _idle(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """A branch of which one side, or each, gives back what it is given and computes nothing."""
    condition = b.operand(BOOL, c)
    if condition is None:
        return False
    given = [before(b, c, name, t) for _ in range(2)]
    busy = c.pick((0, 1, 2))  # the side that computes; none for 2
    sides: list[str] = []
    for kind in ("then", "otherwise"):
        f = Body(b)
        params = [f.param(t) for _ in given]
        have = long_body(f, c, params, t) if len(sides) == busy else params
        sides.append(
            f.function(kind, have[-1] if len(sides) == busy else params[0], params[1]).name
        )
    attrs: dict[str, Attr] = {"then": sides[0], "otherwise": sides[1], "binds": ()}
    made = b.emit(IF, (condition, *given), (t, t), attrs)
    read_again(b, c, made, t)
    return True


def _shown(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Add a function that is not inlined and that returns views; call it twice."""
    b.staying = 1
    f = Body(b)
    x, y = f.param(t), f.param(t)
    have = long_body(f, c, (x, y), t)
    u = t.with_shape(t.numel) if t.rank != 1 else t.with_shape(1, t.numel)
    shown = (have[-1], c.pick((x, have[-1], c.pick(have))))
    results = [have[-1], *(f.node("reshape", (of,), u, shape=u.shape) for of in shown)]
    if c.chance(3):
        results.append(f.node("reshape", (results[-1],), t, shape=t.shape))
    kept = f.function("shown", *results[c.below(2) :], stays=True)
    types = kept.result_types()
    once = b.emit(CALL, (name, before(b, c, name, t)), types, {"callee": kept.name})
    same = [r for r, v in zip(once, types, strict=True) if v == t]
    again = c.pick(same) if same else name
    b.emit(CALL, (again, name), types, {"callee": kept.name})
    return True


DRAWERS: Mapping[str, Drawer] = MappingProxyType(
    {
        "rotated": _rotated,
        "states": _states,
        "given back": _given_back,
        "fixed results": _fixed,
        "carried test": _latched,
        "idle sides": _idle,
        "views returned": _shown,
    }
)
