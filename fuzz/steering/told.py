"""The motif of sizes that no input has as they are: a multiple tells them, or one of several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from didyma.fuzz.steering.opsets import UNARY
from didyma.fuzz.steering.sketch import Sketch
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.types import DType, TensorType
from didyma.refimpl.ops import OPS

_MOST = 5
_DTYPES = tuple(d for d in OPS["negative"].dtypes if d in OPS["iota"].dtypes)


def told(s: Sketch, kind: str) -> None:
    """Draw inputs whose axes tell a size, and what works with that size."""
    KINDS[kind](s)


def _declared(s: Sketch, name: str, lo: int, hi: int) -> Dim:
    """Declare a symbol, which the shapes of parameters are to tell; return it."""
    v = DimVar(name, lo, hi)
    s.b.dims.append(v)
    s.b.env[name] = lo + s.c.below(hi - lo + 1)
    s.b.sizes.ranges[name] = (lo, hi)
    return dims.symbol(name)


def _read(s: Sketch, t: TensorType) -> None:
    """Add a parameter, and mostly a kernel that reads it."""
    x = s.b.param(t, s.c)
    if s.c.below(3):
        s.on(s.c.pick(UNARY), x)


def _used(s: Sketch, n: Dim) -> None:
    """Add numbers of which there are as many as a size says."""
    t = TensorType(s.dtype(_DTYPES), (n,))
    line = s.apply("iota", (), freeze({"dtype": t.dtype, "shape": (n,), "axis": 0}))
    if line is not None:
        s.on(s.c.pick(("negative", "cumulative_sum", "sum")), line)


def _multiple(s: Sketch) -> None:
    """Let one axis tell a size: it is a multiple of it, or some more."""
    if "q" in s.b.env:
        return
    n = _declared(s, "q", s.c.below(2), _MOST)
    factor, more = s.c.pick(((1, 1), (2, 0), (3, 2), (2, 1)))
    row = s.c.pick(((), (3,), (2, 2)))
    _read(s, TensorType(s.dtype(_DTYPES), (dims.add(dims.mul(n, factor), more), *row)))
    _used(s, n)


def _several(s: Sketch) -> None:
    """Let the first of several axes tell nothing of a size at times: its factor is zero then."""
    if "q" in s.b.env:
        return
    n = _declared(s, "q", 0, _MOST)
    first, second = _declared(s, "u", 0, 2), _declared(s, "w", 1, 3)
    if s.c.below(2):
        s.b.env["u"] = 0
    dtype = s.dtype(_DTYPES)
    factors = [TensorType(DType.F32, (first, second))]
    products = [TensorType(dtype, (dims.mul(n, f),)) for f in (first, second)]
    for t in s.c.pick(((*factors, *products), (*products, *factors), (*products[::-1], *factors))):
        _read(s, t)
    _used(s, n)


def _remainder(s: Sketch) -> None:
    """Let values be as long as a size leaves of a number, or as the parts that it has of it."""
    if "q" in s.b.env:
        return
    n = _declared(s, "q", s.c.below(3), 11)
    _read(s, TensorType(s.dtype(_DTYPES), (n,)))
    for _ in range(2 + s.c.below(2)):
        by = s.c.pick((2, 3, 4, 5))
        parts = dims.floordiv(n, by)
        some = dims.sub(n, dims.mul(parts, by)) if s.c.below(3) else parts
        _used(s, dims.add(some, s.c.below(2)))


KINDS: Mapping[str, Callable[[Sketch], None]] = MappingProxyType(
    {"multiple": _multiple, "several": _several, "remainder": _remainder}
)
