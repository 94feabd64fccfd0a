"""What loaders in C++ call that takes values and returns values, as its comments say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from didyma.fuzz.cpp.machine import Fault, Refusal

_WIDE = 1 << 64


def signed(value: int) -> int:
    """Return an i64; overflow has no meaning."""
    if not -(_WIDE >> 1) <= value < _WIDE >> 1:
        raise Fault(f"{value} is no i64")
    return value


def _quotient(a: int, b: int) -> int:
    if not b:
        raise Fault(f"{a} is divided by 0")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda a, b: signed(a + b), "-": lambda a, b: signed(a - b),
    "*": lambda a, b: signed(a * b), "/": _quotient, "%": lambda a, b: a - _quotient(a, b) * b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    ">": lambda a, b: a > b, "<=": lambda a, b: a <= b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def _same(value: Any) -> Any:
    return value


def _wrapped(value: int) -> int:
    return (value + (_WIDE >> 1)) % _WIDE - (_WIDE >> 1)


def _unsigned(value: int) -> int:
    return value % _WIDE


def _number(text: str) -> int:
    return signed(int(text))


def _refused(code: str, *told: str) -> Refusal:
    del told
    return Refusal(code)


def _within(name: str, value: int, lo: int, hi: int) -> int:
    del name
    if not lo <= value <= hi:
        raise Refusal("dim-out-of-range")
    return value


def _equal(a: int, b: int, message: str) -> None:
    del message
    if a != b:
        raise Refusal("assertion")


def _bucket(name: str, size: int, row: Sequence[int]) -> int:
    del name
    for wide in row:
        if wide >= size:
            return wide
    raise Refusal("dim-out-of-range")


def _elements(data: bytearray, shape: Sequence[int], nbytes: int) -> Any:
    return np.frombuffer(bytes(data), f"V{nbytes}").reshape(shape)


def _filled(data: bytearray, shape: Sequence[int], wide: Sequence[int], nbytes: int) -> bytearray:
    room = np.zeros(wide, f"V{nbytes}")
    room[tuple(map(slice, shape))] = _elements(data, shape, nbytes)
    return bytearray(room.tobytes())


def _cut(data: bytearray, shape: Sequence[int], wide: Sequence[int], nbytes: int) -> bytearray:
    return bytearray(_elements(data, wide, nbytes)[tuple(map(slice, shape))].tobytes())


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "INT64_C": _same,
    "int64_t": _wrapped,
    "size_t": _unsigned,
    "static_cast": _unsigned,
    "uint64_t": _unsigned,
    "std::streamsize": _same,
    "std::string": _same,
    "std::to_string": str,
    "std::stoll": _number,
    "std::vector": bytearray,
    "didyma::Refused": _refused,
    "didyma::within": _within,
    "didyma::equal": _equal,
    "didyma::bucket": _bucket,
    "didyma::filled": _filled,
    "didyma::cut": _cut,
}
