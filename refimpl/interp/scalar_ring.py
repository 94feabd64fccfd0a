"""What the operations of loop programs mean on records of a float's value and its payload.

In the ring (``refimpl.ops.ring``) every float is a record with the fields ``value`` and
``payload``; integers and bools stay as they are.  Arrays in memory are arrays of records; results
of operations are ``Pair``s of arrays until they are stored.  The tables are those of ``scalar``: to
the values is done what ``scalar`` does, so that they, and all that is decided by them, are the same
as without the ring.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from didyma.refimpl.interp import scalar
from didyma.refimpl.interp.scalar import Fn, Value
from didyma.refimpl.ir.intrinsic import Intrinsic
from didyma.refimpl.ir.loop import BITCASTS, INTRINSICS, AtomicOp, BinaryOp, CompareOp, UnaryOp
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import ring, ring_rules

PAYLOAD = np.dtype(np.uint64)
POISON = np.uint64(0x0123_4567_89AB)  # of a float that nobody has stored


def held(dtype: DType) -> np.dtype[Any]:
    """Return the NumPy dtype of an array in memory.

    >>> held(DType.F32).names, held(DType.I32)
    (('value', 'payload'), dtype('int32'))
    """
    return _record(dtype.numpy) if dtype.is_float else dtype.numpy


@cache
def _record(value: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype([("value", value), ("payload", PAYLOAD)], align=True)


class Pair:
    """Values and payloads of one shape, side by side: NumPy takes it for the array of records.

    Operations on arrays of one field each are several times as fast as on the fields of records.
    """

    __slots__ = ("payload", "value")

    def __init__(self, value: Array, payload: Array) -> None:
        self.value = value
        self.payload = payload

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        out = np.empty(self.shape, self.dtype)
        out["value"], out["payload"] = self.value, self.payload
        return out if dtype is None else out.astype(dtype, copy=bool(copy))

    def __getitem__(self, key: Any) -> Value:
        if isinstance(key, str):
            return self.value if key == "value" else self.payload
        return joined(self.value[key], self.payload[key])

    def __len__(self) -> int:
        return len(self.value)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the records."""
        return _record(self.value.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of records."""
        return self.value.shape

    @property
    def ndim(self) -> int:
        """The number of axes, which is not 0."""
        return self.value.ndim

    @property
    def size(self) -> int:
        """The number of records."""
        return self.value.size

    def reshape(self, *shape: Any) -> Value:
        """Return the same records in another shape."""
        return joined(self.value.reshape(*shape), self.payload.reshape(*shape))


def joined(value: Value, payload: Value) -> Value:
    """Return records of values and payloads, whose shapes broadcast, apart from their arguments."""
    if value.ndim == payload.ndim == 0:
        out = np.empty((), _record(value.dtype))
        out["value"], out["payload"] = value, payload
        return out[()]
    if value.shape != payload.shape:
        value, payload = np.broadcast_arrays(value, payload)
    return Pair(*(x if x.base is None else x.copy() for x in (value, payload)))


def embedded(value: Value) -> Value:
    """Return an array of records, or one, of floats that nothing has been computed from yet."""
    return np.asarray(joined(value, ring.embed(value)))[()]


def value_of(x: Value) -> Value:
    """Return the values of records; an array of anything else as it is."""
    return x["value"] if x.dtype.names else x


def payload_of(x: Value) -> Value:
    """Return the payloads of records; of numbers, those that they embed to."""
    return x["payload"] if x.dtype.names else ring.embed(x)


def forget(array: Array) -> None:
    """Make the payloads of an array UNKNOWN, if it has any."""
    if array.dtype.names:
        array["payload"] = ring.UNKNOWN


def _on_values(f: Fn) -> Fn:
    def apply(*args: Value) -> Value:
        return f(*map(value_of, args))

    return apply


def _unknown(f: Fn) -> Fn:
    def apply(*args: Value) -> Value:
        z = np.asarray(f(*map(value_of, args)))
        return joined(z, np.full(z.shape, ring.UNKNOWN))

    return apply


def _embedding(f: Fn) -> Fn:
    def apply(x: Value) -> Value:
        return embedded(f(x))

    return apply


def binary_fn(op: BinaryOp, dtype: DType) -> Fn:
    """Return the function of a binary operation; KeyError if the dtype has none."""
    of_values = scalar.binary_fn(op, dtype)
    if not dtype.is_float:
        return of_values

    def apply(a: Value, b: Value) -> Value:
        x, y = a["value"], b["value"]
        z = of_values(x, y)
        return joined(z, ring_rules.binary(op, a["payload"], b["payload"], x, y, z))

    return apply


def fold_fn(op: BinaryOp, dtype: DType) -> Fn:
    """Return what folds terms, one after another along the first axis, into a first operand.

    Sums of payloads are the same in any order.
    """
    if op != "add" or not dtype.is_float:
        return scalar.in_turn(binary_fn(op, dtype))
    of_values = scalar.fold_fn(op, dtype)

    def fold(before: Value, terms: Value) -> Value:
        value = of_values(before["value"], terms["value"])
        total = ring.sum_of(terms["payload"], axis=0)
        return joined(value, ring.add(before["payload"], total))

    return fold


def products_fn(dtype: DType) -> Fn:
    """Return what adds products, one after another along the first axis, to a first operand."""
    of_values = scalar.products_fn(dtype)
    if not dtype.is_float:
        return of_values

    def fold(before: Value, x: Value, y: Value) -> Value:
        value = of_values(before["value"], x["value"], y["value"])
        total = ring.dot(x["payload"], y["payload"])
        return joined(value, ring.add(before["payload"], total))

    return fold


def compare_fn(op: CompareOp, dtype: DType) -> Fn:
    """Return the function of a comparison of two operands of a dtype; the values decide."""
    of_values = scalar.compare_fn(op, dtype)
    if not dtype.is_float:
        return of_values
    return _on_values(of_values)


def unary_fn(op: UnaryOp, dtype: DType) -> Fn:
    """Return the function of a unary operation; KeyError if the dtype has none."""
    of_values = scalar.unary_fn(op, dtype)
    if not dtype.is_float:
        return of_values

    def apply(x: Value) -> Value:
        z = of_values(x["value"])
        return joined(z, ring_rules.unary(op, x["payload"], x["value"], z))

    return apply


def intrinsic_fn(name: str | Intrinsic, dtype: DType) -> Fn:
    """Return the function of an intrinsic on operands of a dtype; KeyError if it has none.

    Of a caller's own the payloads are UNKNOWN.
    """
    of_values = scalar.intrinsic_fn(name, dtype)
    if isinstance(name, Intrinsic):
        return _on_values(of_values) if name.predicate else _unknown(of_values)
    if name in BITCASTS and not dtype.is_float:
        return _embedding(of_values) if BITCASTS[name].is_float else of_values
    if name in BITCASTS or INTRINSICS[name].predicate:
        return _on_values(of_values)

    def apply(*args: Value) -> Value:
        values = [a["value"] for a in args]
        z = of_values(*values)
        return joined(z, ring_rules.intrinsic(name, [a["payload"] for a in args], values, z))

    return apply


def cast_fn(src: DType, dst: DType) -> Fn:
    """Return the conversion between two dtypes; every pair has one."""
    of_values = scalar.cast_fn(src, dst)
    if not dst.is_float:
        return _on_values(of_values) if src.is_float else of_values

    def convert(x: Value) -> Value:
        value, payload = (x["value"], x["payload"]) if src.is_float else (x, None)
        return joined(of_values(value), ring_rules.cast(payload, value, src, dst))

    return convert


def constant(value: float, dtype: DType) -> Value:
    """Return a literal of a dtype."""
    plain = scalar.constant(value, dtype)
    return embedded(plain) if dtype.is_float else plain


def fold(
    op: AtomicOp, payloads: Array, at: Array, before: Array, given: Array, after: Array
) -> None:
    """Do to payloads in place what an atomic did to the values beside them.

    ``given`` are the records that came to the places ``at``; ``before`` are the records that were
    there, and ``after`` the values that are there now.
    """
    if op in ("min", "max"):
        stay, come = before["value"] == after, given["value"] == after
        places = np.concatenate([at[stay], at[come]])
        _choose(
            payloads, at, places, np.concatenate([before["payload"][stay], given["payload"][come]])
        )
        return
    combine = ring_rules.BINARY[op]
    order = np.argsort(at, kind="stable")
    places, found = at[order], given["payload"][order]
    while places.size:
        first = np.append(True, places[1:] != places[:-1])
        if first.all():
            break
        turn = np.arange(places.size) - np.flatnonzero(first)[np.cumsum(first) - 1]
        left = turn % 2 == 0
        pairs = np.flatnonzero(left & np.append(~first[1:], False))
        found[pairs] = combine(found[pairs], found[pairs + 1])
        places, found = places[left], found[left]
    payloads[places] = combine(payloads[places], found)


def _choose(payloads: Array, at: Array, places: Array, found: Array) -> None:
    """Set the payloads ``at`` to what was found at their places, UNKNOWN where that is not one."""
    low, high = np.full(payloads.shape, ring.UNKNOWN), np.zeros(payloads.shape, PAYLOAD)
    np.minimum.at(low, places, found)
    np.maximum.at(high, places, found)
    payloads[at] = np.where(low == high, low, ring.UNKNOWN)[at]
