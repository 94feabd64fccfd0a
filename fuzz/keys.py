"""What a graph covers, as keys to count: ops by dtype, rank, attribute, value, neighbour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import ml_dtypes
import numpy as np

from didyma.fuzz.domains.domain import Key
from didyma.fuzz.steering.meter import MATTERED as MATTERED  # with the other keys
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Attr, Function, Module
from didyma.refimpl.ir.types import PLAIN, Array, DType, Tensor
from didyma.refimpl.ops import OPS

DTYPE, RANK, ATTRIBUTE, PAIR, DECISION = "dtype", "rank", "attribute", "pair", "decision"
OPERAND, VALUE = "operand", "value"
ENGINE = "engine"  # that judged a program
EXAMINED = "examined"  # of a decision that was made, as is MATTERED
PLACES = 3  # operands of one op that are told apart


def of_graph(m: Module) -> dict[Key, None]:
    """Return the keys of a graph's nodes, each once, in order."""
    found: dict[Key, None] = {}
    for f in m.functions:
        found |= dict.fromkeys(_of_nodes(f))
    return found


def _of_nodes(f: Function) -> Iterator[Key]:
    types = f.types()
    maker = {r: n.op for n in f.nodes for r in n.results}
    for n in f.nodes:
        if n.op in OPS:
            first = types[n.args[0]] if n.args and n.op != "where" else n.types[0]
            yield DTYPE, n.op, str(first.dtype)
            symbolic = any(dims.free(types[v].shape) for v in (*n.args, *n.results))
            yield RANK, n.op, f"{len(first.shape)}{' symbolic' * symbolic}"
            for name, value in n.attrs:
                yield ATTRIBUTE, n.op, f"{name}: {_class(value)}"
        for place, a in enumerate(n.args):
            if a in maker:
                yield PAIR, maker[a], n.op
                if len(n.args) > 1 and place < PLACES:
                    yield OPERAND, maker[a], f"{n.op} {place}"


def _class(value: Attr) -> str:
    """Return the class of an attribute: what it is like, not what it is."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return "negative" if value < 0 else "0" if value == 0 else "1" if value == 1 else "more"
        case tuple():
            return "empty" if not value else " ".join(sorted({_class(v) for v in value}))
        case Tensor():
            return "scalar" if not value.shape else "array"
        case str():
            return str(value)
        case _:
            return "symbolic"


def of_values(m: Module, inputs: Sequence[Array]) -> dict[Key, None]:
    """Return each op of the entry with each kind of value among those that it is given directly.

    These are inputs and constants; what other ops compute is not looked at.
    """
    given = dict(zip((p.name for p in m.entry.params), inputs, strict=True))
    dtypes = {p.name: p.type.dtype for p in m.entry.params}
    kinds: dict[str, tuple[str, ...]] = {}
    found: dict[Key, None] = {}
    for n in m.entry.nodes:
        if n.op == "constant":
            value = n.attr["value"]
            assert isinstance(value, Tensor)
            given[n.results[0]], dtypes[n.results[0]] = value.array(), value.dtype
        for a in n.args if n.op in OPS else ():
            if a in given:
                if a not in kinds:
                    kinds[a] = tuple(kinds_of(given[a], dtypes[a]))
                found |= dict.fromkeys((VALUE, n.op, kind) for kind in kinds[a])
    return found


FLOAT_KINDS = ("nan", "inf", "-inf", "-0", "0", "1", "negative", "fraction", "tiny", "huge")
INT_KINDS = ("least", "most", "0", "1", "negative", "below width", "width")


def kinds_of(x: Array, dtype: DType) -> Iterator[str]:
    """Yield the kinds of values that an array holds; none of complex, packed and Boolean ones.

    ``tiny`` is less than the least normal number of the dtype, and not zero; ``huge`` is more than
    the root of its largest; ``width`` is the number of its bits, or more.

    >>> list(kinds_of(np.float32([0.0, np.nan, -2.5]), DType.F32))
    ['nan', '0', 'negative', 'fraction']
    """
    yield from (kind for kind, of_kind in by_kind(x, dtype).items() if of_kind.any())


def by_kind(x: Array, dtype: DType) -> Mapping[str, Array]:
    """Return for each kind of values which elements of an array are of it, as ``kinds_of`` says."""
    if dtype not in PLAIN or dtype is DType.BOOL or not x.size:
        return {}
    return _floats(x, dtype) if dtype.is_float else _ints(x, dtype)


def _floats(x: Array, dtype: DType) -> dict[str, Array]:
    found = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]  # it has none
    limits = cast("np.finfo[np.floating[Any]]", found)
    least, most = float(limits.smallest_normal), float(limits.max)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        size, below = np.abs(wide), np.signbit(wide)
        finite, zero = np.isfinite(wide), wide == 0
        tests = (
            np.isnan(wide), wide == np.inf, wide == -np.inf, zero & below, zero & ~below,
            wide == 1, finite & (wide < 0), finite & (wide != np.trunc(wide)),
            ~zero & (size < least), finite & (size > np.sqrt(most)),
        )  # fmt: skip
    return dict(zip(FLOAT_KINDS, tests, strict=True))


def _ints(x: Array, dtype: DType) -> dict[str, Array]:
    least, most = dtype.limits
    bits = dtype.bits
    tests = (
        x == least, x == most, x == 0, x == 1, x < 0, x == bits - 1, (x >= bits) & (x != most),
    )  # fmt: skip
    return dict(zip(INT_KINDS, tests, strict=True))
