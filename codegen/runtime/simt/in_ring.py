"""Kernel text in the ring: each float is a record of its value and its payload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pycparser import c_ast as c

from didyma.codegen.emit.intrinsics import c_type
from didyma.codegen.runtime.simt import intrinsics
from didyma.codegen.runtime.simt.access import Value
from didyma.codegen.runtime.simt.memory import Lanes
from didyma.codegen.runtime.simt.values import BINARY, NUMPY, Fn, literal
from didyma.refimpl.interp import scalar_ring
from didyma.refimpl.ir.loop import BINARY_OPS, INTRINSICS, UNARY_OPS, BinaryOp, UnaryOp
from didyma.refimpl.ir.types import BYTES, DType

_DTYPES = {c_type(d): d for d in BYTES}
_BINARY: dict[str, BinaryOp] = {op: op for op in BINARY_OPS}
_UNARY: dict[str, UnaryOp] = {op: op for op in UNARY_OPS}
_OPERATORS: dict[str, BinaryOp] = {"+": "add", "-": "sub", "*": "mul", "/": "div"}


class InRing:
    """Floats, storage floats among them, are records; a literal of a storage float is its bits."""

    def zeros(self, type_name: str, size: int) -> Lanes:
        """Return records of zeros, whose payloads are those of nothing stored."""
        return np.zeros(size, scalar_ring.held(_DTYPES[type_name]))

    def memory(self, type_name: str, size: int) -> tuple[Lanes, Lanes | None]:
        """Return fresh elements, and their payloads if they are floats."""
        dtype = _DTYPES[type_name]
        if not dtype.is_float:
            return np.zeros(size, NUMPY[type_name]), None
        return np.zeros(size, dtype.numpy), np.zeros(size, scalar_ring.PAYLOAD)

    def converter(self, type_name: str) -> Fn:
        """Return the conversion of a value to a type."""
        dtype = _DTYPES[type_name]
        if not dtype.is_float:
            return _to_number(NUMPY[type_name])
        return _to_float(dtype)

    def literal(self, n: c.Constant) -> Value:
        """Return the value of a literal."""
        value = literal(n)
        return scalar_ring.embedded(value) if value.dtype.kind == "f" else value

    def binary(self, op: str) -> Fn:
        """Return what one of C's operators does."""
        plain, name = BINARY[op], _OPERATORS.get(op)

        def apply(a: Value, b: Value) -> Value:
            a, b = np.asarray(a)[()], np.asarray(b)[()]
            if a.dtype.names is None and b.dtype.names is None:
                return plain(a, b)
            if name is None:  # a comparison
                return plain(scalar_ring.value_of(a), scalar_ring.value_of(b))
            x, y = _record(a), _record(b)
            wide = np.result_type(x["value"], y["value"])
            return scalar_ring.binary_fn(name, DType.of(np.empty(0, wide)))(x, y)

        return apply

    def negative(self, v: Value) -> Value:
        """Return ``-v``."""
        if v.dtype.names is None:
            return np.negative(v)
        return scalar_ring.unary_fn("neg", DType.of(v["value"]))(v)

    def choose(self, cond: Value, then: Value, other: Value) -> Value:
        """Return ``cond ? then : other``."""
        a, b = np.asarray(then), np.asarray(other)
        if a.dtype.names != b.dtype.names:  # one is the literal of a storage float
            dtype = DType.of((a if a.dtype.names else b)["value"])
            a, b = (np.asarray(_to_float(dtype)(x)) for x in (a, b))
        return np.where(cond, a, b)

    def function(self, name: str) -> Fn:
        """Return what an intrinsic computes from arguments of the types that it declares."""
        op, _, last = name.rpartition("_")
        if op.startswith("cast_"):
            source, target = _DTYPES[op.removeprefix("cast_")], _DTYPES[last]
            plain = intrinsics.function(name)
            if source.is_float:
                return scalar_ring.cast_fn(source, target)
            return _cast_of_number(source, target) if target.is_float else plain
        if op.startswith("bitcast_"):
            source = _DTYPES[op.removeprefix("bitcast_")]
            return scalar_ring.intrinsic_fn(f"as_{_DTYPES[last].value}", source)
        dtype = _DTYPES[last]
        if not dtype.is_float:
            return intrinsics.function(name)
        if op in ("inf", "nan"):
            value = scalar_ring.embedded(intrinsics.function(name)())
            return lambda: value
        if op in _BINARY:
            return scalar_ring.binary_fn(_BINARY[op], dtype)
        if op in _UNARY:
            return scalar_ring.unary_fn(_UNARY[op], dtype)
        op = op.removesuffix("_flush")  # what is flushed is far below any bar
        assert op in INTRINSICS, name
        return scalar_ring.intrinsic_fn(op, dtype)


def _record(v: Value) -> Value:
    return v if v.dtype.names else scalar_ring.embedded(v)


def _cast_of_number(source: DType, target: DType) -> Fn:
    convert = scalar_ring.cast_fn(source, target)

    def convert_bool(x: Value) -> Value:
        return convert(x != 0)

    return convert_bool if source is DType.BOOL else convert


def _to_number(held: np.dtype[Any]) -> Fn:
    def convert(v: Value) -> Value:
        return scalar_ring.value_of(np.asarray(v)).astype(held)[()]

    return convert


def _to_float(dtype: DType) -> Callable[[Any], Value]:
    """Return the conversion to a float; what is no record may be the bits of a storage float."""

    def convert(v: Value) -> Value:
        a = np.asarray(v)
        if a.dtype.names:
            if a.dtype["value"] == dtype.numpy:
                return v
            return scalar_ring.joined(a["value"].astype(dtype.numpy), a["payload"])
        if dtype.compute is not dtype and a.dtype.kind in "iu":
            return scalar_ring.embedded(a.astype(f"u{dtype.nbytes}").view(dtype.numpy)[()])
        return scalar_ring.embedded(a.astype(dtype.numpy)[()])

    return convert
