"""Draws loops whose values trade places, shapes and sizes: what a program may write over what.

Compilers save copies where a value is written into the place of another.  So what a loop carries is
read on while it is written, shown in another shape, made of parts, or of a size that changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from didyma.fuzz import control_nested, control_rounds
from didyma.fuzz.builder import GraphBuilder
from didyma.fuzz.chooser import Chooser
from didyma.fuzz.control import BOOL, COUNT, MOST_ROUNDS, Body, Drawer
from didyma.fuzz.control_rounds import before, long_body, read_again, rounds
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import IF, SCAN, WHILE, Attr, Node
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.types import PLAIN, DType, TensorType
from didyma.refimpl.ops import OPS

_WIDE = 16  # bytes: parts of a whole begin at multiples of them


def _loop(
    b: GraphBuilder,
    c: Chooser,
    first: Sequence[str],
    carried: Sequence[TensorType],
    body: Body,
    new: Sequence[str],
    captured: Sequence[str] = (),
    binds: Sequence[str] = (),
) -> tuple[str, ...]:
    """Add a loop that counts, and carries some values; return what it carries in the end.

    The parameters of the body are the counter, what is carried, the limit and what is captured.
    """
    have = dict(b.pool)
    test = Body(b)
    at, *_ = (test.param(t) for t in (COUNT, *carried))
    limit, *_ = (test.param(t) for t in (COUNT, *(have[v] for v in captured)))
    if c.chance(4):  # the test is a value in another shape
        one = COUNT.with_shape(1)
        at, limit = (test.node("reshape", (v,), one, shape=(1,)) for v in (at, limit))
        go = test.node("less", (at, limit), BOOL.with_shape(1))
        go = test.node("reshape", (go,), BOOL, shape=())
    else:
        go = test.node("less", (at, limit), BOOL)
    cond = test.function("test", go).name
    counter = body.params[0].name
    nxt = body.node("add", (counter, body.number(1, COUNT.dtype)), COUNT)
    attrs: dict[str, Attr] = {
        "cond": cond, "body": body.function("body", nxt, *new).name,
        "carried": 1 + len(carried), "binds": tuple(binds),
    }  # fmt: skip
    given = (b.number(0, COUNT.dtype), *first, rounds(b, c), *captured)
    _, *made = b.emit(WHILE, given, (COUNT, *carried), attrs)
    return tuple(made)


def _begun(b: GraphBuilder, carried: Sequence[TensorType]) -> tuple[Body, list[str]]:
    """Return the body of a loop with its parameters up to the limit, and what it carries."""
    f = Body(b)
    _, *values = [f.param(t) for t in (COUNT, *carried)]
    f.param(COUNT)
    return f, values


def _apart(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Compute each carried value by kernels of its own, from what another one was before."""
    count = 2 + c.below(2)
    carried = [t] * count
    first = [before(b, c, name, t) for _ in carried]
    captured = [before(b, c, name, t) for _ in range(1 + c.below(3))]
    f, values = _begun(b, carried)
    fixed = [f.param(t) for _ in captured]
    new = [long_body(f, c, (c.pick((*fixed, *values)), v), t)[-1] for v in values]
    if c.chance(2):  # one reads nothing but what is captured
        new[0] = long_body(f, c, fixed[:1], t)[-1]
    turn = c.below(count)
    made = _loop(b, c, first, carried, f, [*new[turn:], *new[:turn]], captured)
    read_again(b, c, (*made, *first), t)
    return True


def _in_turn(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Read captured values over and over, in a loop of many lines.

    So the line at which one is read in the loop often has the number of the loop's own line.
    """
    captured = [before(b, c, name, t) for _ in range(1 + c.below(4))]
    f, (x,) = _begun(b, [t])
    fixed = [f.param(t) for _ in captured]
    ops = [op for op in ("add", "subtract", "maximum", "logical_xor") if t.dtype in OPS[op].dtypes]
    runs = t.rank > 0 and t.dtype in OPS["cumulative_sum"].dtypes
    for turn in range(3 + c.below(6)):
        z = fixed[turn % len(fixed)]
        x = f.node(c.pick(ops), c.pick(((x, z), (z, x))), t)
        if runs and c.chance(2):
            x = f.node("cumulative_sum", (x,), t, axis=0, exclusive=False, reverse=False)
    made = _loop(b, c, [name], [t], f, [x], captured)
    read_again(b, c, made, t)
    return True


def _reshaped(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Carry a value in several shapes, which are those of one another in the next round."""
    flat = t.with_shape(t.numel)
    shapes = [t, flat, t.with_shape(1, t.numel), t.with_shape(t.numel, 1)]
    carried = [u for k, u in enumerate(shapes) if u not in shapes[:k]][: 2 + c.below(2)]
    first = [
        name if u == t else b.op("reshape", (before(b, c, name, t),), u, shape=u.shape)
        for u in carried
    ]
    f, values = _begun(b, carried)
    turn = 1 + c.below(len(carried) - 1)
    new: list[str] = []
    for k, u in enumerate(carried):
        at = (k + turn) % len(carried)
        shown = f.node("reshape", (values[at],), u, shape=u.shape)
        new.append(long_body(f, c, (shown,), u)[-1] if c.chance(3) else shown)
    made = _loop(b, c, first, carried, f, new)
    read_again(b, c, [v for v, u in zip(made, carried, strict=True) if u == t] + [name], t)
    return True


def _joined(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Join parts that kernels make to what a loop carries, or a branch returns, and was in use."""
    rows = max(1, _WIDE // t.dtype.nbytes) * (1 + c.below(2))
    half, whole = t.with_shape(rows), t.with_shape(2 * rows)
    if not b.fits(whole):
        return False
    given = [b.operand(half, c), b.operand(whole, c)]
    part, start = (v or "" for v in given)
    if not (part and start):
        return False
    branches = c.chance(3)
    f, (x,) = (Body(b), [""]) if branches else _begun(b, [whole])
    x = f.param(whole) if branches else x
    p = f.param(half)
    at = c.pick((0, rows))
    ends: dict[str, Attr] = {"starts": (at,), "stops": (at + rows,), "steps": (1,)}
    old = f.node("slice", (x,), half, **ends)
    made = [long_body(f, c, (p, old), half)[-1], long_body(f, c, (old, p), half)[-1]]
    parts = c.pick((made, [made[0], old], [p, made[1]], made[::-1]))
    joined = f.node("concat", parts, whole, axis=0)
    if not branches:
        made = list(_loop(b, c, [start], [whole], f, [joined], (part,)))
        read_again(b, c, (*made, start), whole)
        return True
    condition = b.operand(BOOL, c)
    if condition is None:
        return False
    other = Body(b)
    y, _ = other.param(whole), other.param(half)
    sides = [f.function("then", joined, x).name, other.function("otherwise", y, y).name]
    sides = c.pick((sides, sides[::-1]))
    attrs: dict[str, Attr] = {"then": sides[0], "otherwise": sides[1], "binds": ()}
    made = list(b.emit(IF, (condition, start, part), (whole, whole), attrs))
    read_again(b, c, (*made, start), whole)
    return True


def _exchanged(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Carry values of two sizes that change places, or of which one becomes the sum of both."""
    if not t.rank:
        return False
    n, rest = t.shape[0], t.shape[1:]
    sums = c.chance(3)
    factor = 13 if sums else 2  # of the first size: what the fourth round makes of both
    assert MOST_ROUNDS == 4
    most, usual = factor * b.most(n), factor * dims.evaluate(n, b.env)
    twice = t.with_shape(dims.add(n, n), *rest)
    if not b.fits(t.with_shape(usual, *rest)) or not b.fits(twice):
        return False
    u, v = (b.symbol(most, usual) for _ in range(2))
    carried = [t.with_shape(u, *rest), t.with_shape(v, *rest)]
    first = [name, b.op("concat", (before(b, c, name, t), name), twice, axis=0)]
    f, (x, y) = _begun(b, carried)
    new = [f.chain(c, y, carried[1]), f.chain(c, x, carried[0])]
    if sums:
        total: Dim = dims.add(u, v)
        new = [f.node("concat", c.pick(((x, y), (y, x))), t.with_shape(total, *rest), axis=0), x]
    made = _loop(b, c, c.pick((first, first[::-1])), carried, f, new, binds=(str(u), str(v)))
    for value, w in zip(made, carried, strict=True):
        if w.dtype in OPS["negative"].dtypes and c.chance(2):
            b.op("negative", (value,), w)
    return True


def _grown(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Carry a value that grows, and beside it what kernels of their own make of what it was."""
    if not t.rank:
        return False
    n, rest = t.shape[0], t.shape[1:]
    most, usual = ((1 + MOST_ROUNDS) * d for d in (b.most(n), dims.evaluate(n, b.env)))
    row = t.with_shape(*rest)
    start = b.operand(row, c)
    if start is None or not b.fits(t.with_shape(usual, *rest)):
        return False
    u = b.symbol(most, usual)
    grown = t.with_shape(u, *rest)
    beside = 2 + c.below(2)
    f, (x, *others) = _begun(b, [grown, *[row] * beside])
    piece = f.param(t)
    longer = grown.with_shape(dims.add(u, n), *rest)
    folds = ("sum", "max", "min", "prod")
    new = f.node("concat", c.pick(((x, piece), (piece, x))), longer, axis=0)
    if c.chance(3):  # what is handed on has the bytes of another value
        flat = longer.with_shape(longer.numel) if rest else longer.with_shape(1, *longer.shape)
        other = f.node("reshape", (new,), flat, shape=flat.shape)
        new = f.node("reshape", (f.node("flip", (other,), flat, axes=(0,)),), longer,
                     shape=longer.shape)  # fmt: skip
    seen = [x, _last_row(f, piece, t)] if isinstance(n, int) and n and c.chance(2) else [x]
    found = [f.node(c.pick(folds), (c.pick(seen),), row, axes=(0,), keepdims=False) for _ in others]
    if c.chance(3):
        found[-1] = c.pick(others)
    first = (name, *(start for _ in others))
    made = _loop(b, c, first, [grown, *[row] * beside], f, [new, *found], (name,), (str(u),))
    read_again(b, c, (*made[1:], start), row)
    return True


def _last_row(f: Body, x: str, t: TensorType) -> str:
    """Cut the last row out of a value."""
    ends: dict[str, Attr] = {
        "starts": (dims.sub(t.shape[0], 1), *(0 for _ in t.shape[1:])), "stops": t.shape,
        "steps": (1,) * t.rank,
    }  # fmt: skip
    return f.node("slice", (x,), OPS["slice"].infer([t], ends), **ends)


def _cut_before(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Cut a part out of a carried value, and read it once the whole is written again."""
    rows = max(1, _WIDE // t.dtype.nbytes) * (1 + c.below(2))
    half, whole = t.with_shape(rows), t.with_shape(2 * rows)
    if not b.fits(whole):
        return False
    start, other = b.operand(whole, c), b.operand(half, c)
    if start is None or other is None:
        return False
    f, (x, y) = _begun(b, [whole, half])
    at = c.pick((0, rows))
    ends: dict[str, Attr] = {"starts": (at,), "stops": (at + rows,), "steps": (1,)}
    part = f.node("slice", (x,), half, **ends)
    new = long_body(f, c, (x,), whole)[-1]
    read = long_body(f, c, c.pick(((part, y), (y, part))), half)[-1]
    made = _loop(b, c, [start, other], [whole, half], f, [new, c.pick((read, part))])
    read_again(b, c, (made[0], start), whole)
    read_again(b, c, (made[1], other), half)
    return True


def _shown_twice(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Read a carried value by a view of a view, once its place may have been written again."""
    flat = t.with_shape(t.numel)
    u = t.with_shape(1, t.numel, 1) if c.chance(2) else t
    other = b.operand(u, c)
    if not t.rank or other is None:
        return False
    f, (x, y) = _begun(b, [t, u])
    z = f.param(t)
    shown = f.node("reshape", (x,), flat, shape=flat.shape)
    shown = f.node("reshape", (shown,), u, shape=u.shape)
    new = long_body(f, c, c.pick(((z,), (x,))), t)[-1]
    late = new if u == t else f.node("reshape", (new,), u, shape=u.shape)
    read = f.node("add", c.pick(((shown, late), (late, shown), (shown, y))), u)
    made = _loop(b, c, [name, other], [t, u], f, [new, c.pick((read, read, shown))], (name,))
    read_again(b, c, (made[0], name), t)
    read_again(b, c, (made[1], other), u)
    return True


def _counted(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Scan by a number of steps alone, twice or one inside the other: each counts by itself."""
    named = (dims.symbol(v.name) for v in b.dims if v.lo == 0)  # of no step, perhaps
    lengths: list[Dim] = [2, 1, *named]
    length = c.pick(lengths)
    rows = t.with_shape(length, *t.shape)
    if not b.fits(rows):
        return False
    counted: dict[str, Attr] = {"states": 1, "scanned": 0, "length": length, "index": ""}
    f = Body(b)
    made = f.chain(c, f.param(t), t)
    step = f.function("step", made, made).name
    if c.chance(2):
        f = Body(b)
        x, how = f.param(t), freeze(counted | {"body": step})
        f.nodes.append(Node(("last", "all"), SCAN, (x,), (t, rows), how))
        step = f.function("outer", "last", x).name
    for _ in range(2):
        name, _ = b.emit(SCAN, (name,), (t, rows), counted | {"body": step})
    return True


def add(b: GraphBuilder, c: Chooser, kind: str, focus: tuple[str, TensorType]) -> bool:
    """Add a control node of a kind that reads a value; return whether one could be added."""
    if focus[1].dtype not in PLAIN or focus[1].dtype is DType.BOOL:
        return False
    b.controlled = True
    b.staying = 0
    return DRAWERS[kind](b, c, *focus)


DRAWERS: Mapping[str, Drawer] = MappingProxyType(
    {
        **control_rounds.DRAWERS,
        **control_nested.DRAWERS,
        "rounds apart": _apart,
        "rounds in turn": _in_turn,
        "rounds in other shapes": _reshaped,
        "rounds of parts": _joined,
        "sizes exchanged": _exchanged,
        "rounds of growth": _grown,
        "rounds of a part": _cut_before,
        "rounds of views": _shown_twice,
        "counted scans": _counted,
    }
)
KINDS = tuple(DRAWERS)
_APART = {"kernels.streams": 3, "graph.fuse": False}
_MOVED = {"graph.fuse": False, "memory.eager": True}  # what moves bytes has kernels of its own
CHANGES: Mapping[str, Mapping[str, bool | int]] = MappingProxyType(  # options, for most of a kind
    {
        "across": _APART,
        "rounds of growth": _APART,
        "rounds of views": {"graph.simplify": False, "graph.fuse": False},
        "rounds of parts": _MOVED,
        "rounds of a part": _MOVED,
    }
)
