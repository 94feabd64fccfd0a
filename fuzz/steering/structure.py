"""Structures that passes must respect: kernels in between, shared bodies, rows of odd bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from didyma.fuzz.control import BOOL, Body
from didyma.fuzz.steering.sketch import Sketch
from didyma.fuzz.steering.twins import exchanged
from didyma.refimpl.ir.graph import CALL, IF, SCAN, Attr, Function
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.types import ALL, DType, TensorType
from didyma.refimpl.ops import OPS

_ODD = ((3,), (1,), (3, 1), (5,), (3, 3), (2,))  # rows of packed dtypes, few of whole bytes
_PACKED = tuple(d for d in ALL if d.is_packed)
_TWO = ("add", "subtract", "multiply", "maximum", "minimum", "bitwise_xor", "logical_xor")


def braid(s: Sketch, length: str) -> None:
    """Draw values of one shape, of which some read others at other places: what may not merge.

    A running sum, or the fold of a whole row, stands between kernels that could be one.
    """
    t = s.type(OPS["cumulative_sum"].dtypes, 1, 3)
    ends = [v for v in (s.value(t), s.value(t)) if v is not None]
    if not ends:
        return
    ops = [o for o in _TWO if t.dtype in OPS[o].dtypes]
    strands = list(ends)
    for _ in range(int(length)):
        x, y = s.c.pick(strands[-3:]), s.c.pick(ends if s.c.chance(2) else strands)
        axis = s.c.below(t.rank)
        if s.c.chance(4):  # of what the same kernel may compute, but elsewhere
            x = s.apply("flip", (x,), freeze({"axes": (axis,)})) or x
        if s.c.chance(5):
            row = s.apply("max", (x,), freeze({"axes": (axis,), "keepdims": True}))
            made = row and s.apply(s.c.pick(ops), (y, row))
        else:
            made = s.apply(s.c.pick(ops), s.c.pick(((x, y), (y, x))))
        if made is None:
            continue
        strands.append(made)
        if s.c.chance(2):  # so the value is stored
            how = {"axis": axis, "exclusive": s.c.chance(2), "reverse": s.c.chance(2)}
            run = s.apply("cumulative_sum", (made,), freeze(how))
            strands += [run] if run and s.c.chance(2) else []


def branch(s: Sketch, what: str) -> None:
    """Choose between sides that compute little: constants, a value given, the same function."""
    t = s.type(OPS["add"].dtypes, 0, 2)
    x, y = s.value(t), s.value(t)
    condition = s.b.operand(BOOL, s.c) if s.c.chance(2) else s.value(BOOL)
    if x is None or y is None or condition is None:
        return
    s.b.controlled = True
    sides = [_side(s, kind, t, n) for n, kind in enumerate(what.split("/"))]
    args: tuple[str, ...] = (condition, x, y)
    names = {"then": sides[0].name, "otherwise": sides[-1].name}
    made = s.b.emit(IF, args, (t, t), {**names, "binds": ()})
    if s.c.chance(2):  # the same functions again, the other way round, on other values
        names = {"then": sides[-1].name, "otherwise": sides[0].name}
        s.b.emit(IF, (condition, made[1], made[0]), (t, t), {**names, "binds": ()})


def _side(s: Sketch, kind: str, t: TensorType, number: int) -> Function:
    f = Body(s.b)
    x, y = f.param(t), f.param(t)
    match kind:
        case "given":
            results = s.c.pick(((x, y), (y, x), (x, x)))
        case "constants" if all(isinstance(d, int) for d in t.shape):
            made = [f.constant(s.c, t) or x for _ in range(2)]
            results = (made[0], s.c.pick((made[0], made[1], y)))
        case _:
            new = f.chain(s.c, x, t, (y,))
            results = s.c.pick(((new, y), (y, new), (new, new)))
    return f.function(("then", "otherwise")[number], *results)


def shared(s: Sketch, how: str) -> None:
    """Run one function that scans rows in several places: each needs an index of its own."""
    t = s.type(OPS["add"].dtypes, 2, 3)
    if not isinstance(t.shape[0], int):
        return
    row = t.with_shape(*t.shape[1:])
    x, start, condition = s.value(t), s.value(row), s.value(BOOL)
    if x is None or start is None or condition is None:
        return
    s.b.controlled = True
    scan = _scanning(s, t, row)
    attrs: dict[str, Attr] = {"then": scan.name, "otherwise": scan.name, "binds": ()}
    if how == "in a branch":
        other = _scanning(s, t, row)
        attrs["otherwise"] = other.name
    if how == "nested":
        f = Body(s.b)
        c, a, b = f.param(BOOL), f.param(row), f.param(t)
        inner = f.node(IF, (c, a, b), row, **attrs)
        inner = f.node(IF, (c, inner, b), row, **attrs)
        outer = f.function("outer", inner)
        f = Body(s.b)
        _, a, _ = f.param(BOOL), f.param(row), f.param(t)
        idle = f.function("idle", a)
        sides = [outer.name, s.c.pick((outer, idle)).name]
        attrs = {"then": sides[0], "otherwise": sides[1], "binds": ()}
        (first,) = s.b.emit(IF, (condition, condition, start, x), (row,), attrs)
        s.b.emit(IF, (condition, condition, first, x), (row,), attrs)
        return
    (first,) = s.b.emit(IF, (condition, start, x), (row,), attrs)
    s.b.emit(IF, (condition, first, x), (row,), attrs)


def _scanning(s: Sketch, t: TensorType, row: TensorType) -> Function:
    """Return a function of a row and of rows that folds the rows onto it."""
    f = Body(s.b)
    state, one = f.param(row), f.param(row)
    new = f.node(s.c.pick([o for o in _TWO if t.dtype in OPS[o].dtypes]), (state, one), row)
    step = f.function("step", new)
    f = Body(s.b)
    a, b = f.param(row), f.param(t)
    attrs: dict[str, Attr] = {
        "body": step.name, "states": 1, "scanned": 1, "length": t.shape[0], "index": "",
    }  # fmt: skip
    return f.function("scanning", f.node(SCAN, (a, b), row, **attrs))


def calls(s: Sketch, count: str) -> None:
    """Call plain functions in turn, of whose results some are parameters, or one value twice."""
    t = s.type(OPS["add"].dtypes, 0, 2)
    given = [v for v in (s.value(t), s.value(t)) if v is not None]
    if not given:
        return
    s.b.controlled = True
    functions: list[Function] = []
    for _ in range(1 + s.c.below(2)):
        f = Body(s.b)
        x, y = f.param(t), f.param(t)
        inside = f.chain(s.c, x, t, (y,))
        if functions and s.c.chance(2):
            (inside, _) = f.call_all(functions[0], (inside, y))
        results = s.c.pick(((inside, y), (y, x), (inside, inside), (x, x), (x, inside)))
        functions.append(f.function("turned", *results))
    for _ in range(int(count)):
        args = s.c.pick(given[-2:]), s.c.pick(given)
        given += s.b.emit(CALL, args, (t, t), {"callee": s.c.pick(functions).name})
    s.first_on(("add", "logical_xor"), s.c.pick(given[2:] or given))


def rows(s: Sketch, dtype: str) -> None:
    """Stack rows of a packed dtype, which need not fill whole bytes, and scan such rows."""
    row = TensorType(DType(dtype), s.c.pick(_ODD))
    count = s.c.pick((2, 3, 5, 1))
    t = row.with_shape(count, *row.shape)
    start, x = s.value(row), s.value(t)
    if start is None or x is None:
        return
    s.b.controlled = True
    f = Body(s.b)
    state, one = f.param(row), f.param(row)
    turned = f.node("flip", (state,), row, axes=(0,))
    results = s.c.pick(((turned, one), (one, state), (turned, turned)))
    body = f.function("step", *results)
    attrs: dict[str, Attr] = {
        "body": body.name, "states": 1, "scanned": 1, "length": count, "index": "",
    }  # fmt: skip
    s.b.emit(SCAN, (start, x), (row, t), attrs)


BRANCHES = (
    "constants/constants", "constants/given", "given/given", "given/computed", "computed",
    "constants", "given", "computed/constants",
)  # fmt: skip
LENGTHS = ("4", "5", "6", "8")
SHARED = ("twice", "in a branch", "nested")
KINDS: Mapping[str, tuple[Callable[[Sketch, str], None], str]] = MappingProxyType(
    {
        **{f"branch {k}": (branch, k) for k in BRANCHES},
        **{f"braid {k}": (braid, k) for k in LENGTHS},
        **{f"calls {k}": (calls, k) for k in ("2", "3", "4")},
        **{f"shared scan {k}": (shared, k) for k in SHARED},
        **{f"rows of {d}": (rows, str(d)) for d in _PACKED},
    }
)


def structure(s: Sketch, kind: str) -> None:
    """Draw a structure of a kind; mostly what it runs once more, its operands exchanged."""
    draw, word = KINDS[kind]
    draw(s, word)
    if not s.c.chance(4):
        exchanged(s)
