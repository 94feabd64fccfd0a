"""The motif of values that share bytes: parts of a whole, views of views, packed rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from didyma.fuzz.chooser import Chooser
from didyma.fuzz.steering.opsets import PAIRED, UNARY
from didyma.fuzz.steering.sketch import Sketch
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.types import PLAIN, DType, TensorType
from didyma.refimpl.ops import OPS

_SUMMED = tuple(d for d in PLAIN if d in OPS["cumulative_sum"].dtypes)
_PACKED = (DType.I4, DType.U4, DType.F4E2M1, DType.U2, DType.I2)
_ROWS = ((8,), (4,), (16,), (2, 4), (3,), (1,), ())  # mostly of a multiple of 16 bytes


def shared(s: Sketch, kind: str) -> None:
    """Draw values that may share bytes, and what reads them."""
    KINDS[kind](s)


def _kernel(s: Sketch, x: str) -> str:
    """Return a value that a kernel of its own makes."""
    t = s.types()[x]
    if not t.rank or t.dtype not in OPS["cumulative_sum"].dtypes:
        return s.on(s.c.pick(UNARY), x) or x
    named = freeze({"axis": s.c.below(t.rank), "exclusive": False, "reverse": s.c.chance(2)})
    return s.apply("cumulative_sum", (x,), named) or x


def _part(s: Sketch, x: str, start: Dim, size: Dim) -> str | None:
    """Cut rows out of a value; the last alone also from behind, from beyond its end."""
    t = s.types()[x]
    rows = t.shape[0]
    first, last, step = start, dims.add(start, size), 1
    if size == 1 and isinstance(rows, int) and start == rows - 1 and s.c.chance(2):
        first, last, step = rows + s.c.below(3), rows - 2, -1
    rest, ends = [0] * (t.rank - 1), list(t.shape[1:])
    if ends and isinstance(ends[0], int) and ends[0] > 1 and s.c.chance(3):  # of a second axis, too
        rest[0] = s.c.below(2)
        ends[0] -= 1 - rest[0]
    named: dict[str, Attr] = {
        "starts": (first, *rest),
        "stops": (last, *ends),
        "steps": (step, *(1 for _ in rest)),
    }
    return s.apply("slice", (x,), freeze(named))


def _flat(s: Sketch, x: str) -> str | None:
    t = s.types()[x]
    return s.apply("reshape", (x,), freeze({"shape": (t.numel,)}))


def _parts(s: Sketch) -> None:
    """Join parts that kernels make; let views and kernels of the whole's size read the whole."""
    c = s.c
    row = c.pick(_ROWS)
    dtype = s.dtype(_SUMMED)
    lead: tuple[int, ...] = c.pick(((), (), (1,), (2,)))  # only of one are parts runs of bytes
    axis = len(lead)
    parts: list[str] = []
    for _ in range(2 + c.below(3)):
        size: Dim = c.pick((1, 2, 3, 4, 6))
        if s.b.dims and c.chance(4):
            size = dims.symbol(c.pick(s.b.dims).name)
        x = s.value(TensorType(dtype, (*lead, size, *row)))
        if x is None:
            continue
        parts.append(parts[-1] if parts and c.chance(6) else _kernel(s, x))
    whole = s.apply("concat", parts, freeze({"axis": axis})) if len(parts) > 1 else None
    if whole is None:
        return
    t = s.types()[whole]
    other = s.value(t) if c.chance(2) else _kernel(s, whole)
    fitting = [op for op in PAIRED if OPS[op].arity == (2, 2) and dtype in OPS[op].dtypes]
    if other is not None and fitting:
        s.apply(c.pick(fitting), (whole, other))
    if c.chance(2):
        flat = _flat(s, whole)
        _kernel(s, flat) if flat else None
    if not lead and c.chance(2):  # a part of the whole, often exactly what one was made of
        k = c.below(len(parts))
        types = s.types()
        start = dims.add(*(types[p].shape[0] for p in parts[:k]))
        size = types[parts[k]].shape[0]
        rows = types[whole].shape[0]
        if isinstance(rows, int) and c.chance(3):
            start, size = rows - 1, 1
        cut = _part(s, whole, start, size)
        s.on(c.pick(UNARY), cut) if cut else None
    if c.chance(3):
        s.on(c.pick(UNARY), c.pick(parts))


def _views(s: Sketch) -> None:
    """Look at views of views of a value, and compute in its place what has its size or another."""
    c = s.c
    t = TensorType(s.dtype(_SUMMED), (c.pick((4, 6, 3, 8)), *c.pick(_ROWS)))
    x = s.value(t)
    if x is None:
        return
    x = _kernel(s, x) if not c.chance(4) else x
    at = x
    for _ in range(2 + c.below(2)):
        u = s.types()[at]
        n = u.shape[0] if u.rank else 1
        assert isinstance(n, int)
        if c.chance(2) or n < 2:
            at = _flat(s, at) or at
        else:
            start = c.pick((0, 0, n // 2, 1))
            size = c.pick((n - start, max(1, n // 2 - start)))
            at = _part(s, at, start, min(size, n - start)) or at
    for read in c.pick(((at,), (at, x), (x, at), (at, at))):
        made = _kernel(s, read)
        if c.chance(2):
            s.on(c.pick(UNARY), made)
        as_wide = [d for d in _SUMMED if d.bits == t.dtype.bits and d is not t.dtype]
        if as_wide and c.chance(3):  # a result of another dtype may take over the bytes
            s.apply("cast", (made,), freeze({"dtype": c.pick(as_wide)}))


def _cuts(s: Sketch) -> None:
    """Cut what mostly is one run of bytes out of several axes, some elements taken from behind."""
    c = s.c
    lead = tuple(c.pick((3, 2, 4)) for _ in range(1 + c.below(3)))
    t = TensorType(s.dtype(_SUMMED), (*lead, *c.pick(_ROWS)))
    x = s.value(t)
    if x is None:
        return
    _apart(s)
    x = _kernel(s, x) if c.chance(2) else x
    for _ in range(1 + c.below(2)):
        at = c.pick((len(lead) - 1, c.below(len(lead))))
        ends = [(0, int(n), 1) for n in t.shape if isinstance(n, int)]
        for k in range(at):
            if not c.chance(8):  # else it is no run
                start = c.below(lead[k])
                ends[k] = start, start + 1, 1
        ends[at] = _one(c, lead[at]) if c.chance(2) else (c.below(lead[at]), lead[at], 1)
        if c.chance(3):  # some of what is between, all from behind, or nothing behind the end
            n = lead[at]
            ends[at] = c.pick(((0, n, 2), (0, n, 2), (n - 1, -n - 1, -1), (n, n, 1)))
        starts, stops, steps = zip(*ends, strict=True)
        cut = s.apply("slice", (x,), freeze({"starts": starts, "stops": stops, "steps": steps}))
        if cut is not None:
            _kernel(s, cut) if c.below(3) else s.on(c.pick(UNARY), cut)


def _apart(s: Sketch) -> None:
    """Give each op a kernel at times: else what reads a cut makes it, and it is never a view."""
    if s.c.chance(2):
        s.changes["graph.fuse"] = False


def _boxes(s: Sketch) -> None:
    """Cut along two axes or three, so that what is left may be no run of bytes."""
    c = s.c
    sizes = tuple(c.pick((3, 2, 4)) for _ in range(2 + c.below(2)))
    t = TensorType(s.dtype(_SUMMED), (*sizes, *c.pick(((8,), (16,), (2, 4), ()))))
    x = s.value(t)
    if x is None:
        return
    _apart(s)
    x = _kernel(s, x) if c.below(3) else x
    ends = [(0, int(n)) for n in t.shape if isinstance(n, int)]
    for a, n in enumerate(sizes):
        if c.below(3):
            first = c.below(n)
            ends[a] = first, first + 1 + c.below(n - first)
    starts, stops = zip(*ends, strict=True)
    how = freeze({"starts": starts, "stops": stops, "steps": (1,) * t.rank})
    cut = s.apply("slice", (x,), how)
    if cut is not None:
        _kernel(s, cut) if c.below(3) else s.on(c.pick(UNARY), cut)


def _one(c: Chooser, size: int) -> tuple[int, int, int]:
    """Return start, stop and step of one element from behind, the last from beyond the end."""
    at = c.pick((size - 1, c.below(size)))
    return at + (c.below(3) if at == size - 1 else 0), at - 1, -1


def _results(s: Sketch) -> None:
    """Leave views of inputs, of one another and of computed values to be results."""
    c = s.c
    x = s.start(PLAIN, 1, 3)
    if x is None:
        return
    if c.chance(2):
        x = _kernel(s, x)
    for _ in range(1 + c.below(3)):
        made = _flat(s, x)
        if made is not None and c.chance(2):
            _flat(s, made)
    if c.chance(2):
        s.on(c.pick(UNARY), x)


def _packed(s: Sketch) -> None:
    """Cut and join values of packed dtypes, whose rows may end within a byte."""
    c = s.c
    t = TensorType(c.pick(_PACKED), (c.pick((4, 3, 5, 8)), *c.pick(((3,), (5,), (), (1,), (8,)))))
    x = s.value(t)
    if x is None:
        return
    rows = t.shape[0]
    assert isinstance(rows, int)
    start = c.below(rows)
    cut = _part(s, x, start, 1 + c.below(rows - start))
    y = s.value(t) if c.chance(2) else x
    joined = s.apply("concat", (cut or x, y or x), freeze({"axis": 0}))
    if joined is None:
        return
    again = _part(s, joined, 1, 1 + c.below(rows))
    for made in (joined, again):
        if made is not None and c.chance(2):
            s.apply("cast", (made,), freeze({"dtype": c.pick((DType.I32, DType.F32))}))


def _turned(s: Sketch) -> None:
    """Let one kernel read a value at its own places, and a view of the value from behind."""
    c = s.c
    t = TensorType(s.dtype(_SUMMED), (c.pick((4, 6, 3, 8)), *c.pick(_ROWS)))
    x = s.value(t)
    x = _kernel(s, x) if x is not None else None
    flat = _flat(s, x) if x is not None else None
    turned = s.apply("flip", (flat,), freeze({"axes": (0,)})) if flat is not None else None
    if x is None or turned is None:
        return
    y = s.apply("reshape", (turned,), freeze({"shape": t.shape}))
    fitting = [op for op in PAIRED if OPS[op].arity == (2, 2) and t.dtype in OPS[op].dtypes]
    if y is not None and fitting:
        s.apply(c.pick(fitting), c.pick(((x, y), (y, x))))


KINDS: Mapping[str, Callable[[Sketch], None]] = MappingProxyType(
    {
        "parts": _parts, "views": _views, "cuts": _cuts, "boxes": _boxes, "results": _results,
        "packed": _packed, "turned": _turned,
    }
)  # fmt: skip
