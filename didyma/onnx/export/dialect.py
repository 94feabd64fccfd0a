"""Which element types an ONNX operator takes, and which types may represent another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import onnx

from didyma.onnx.schemas import schema_of
from didyma.onnx.tensors import SATURATED, code_of
from didyma.refimpl.ir.types import ALL, DType

OPSET = 22  # the oldest that has bf16 for most operators, so that most peers read it
# The opsets that introduced other types and operators; a model needs the latest that it uses.
LATER_TYPES: Mapping[DType, int] = {
    DType.F4E2M1: 23,
    DType.F8E8M0: 24,
    DType.I2: 25,
    DType.U2: 25,
}
LATER_OPS: Mapping[str, int] = {"bitcast": 26}

Allowed: TypeAlias = Mapping[str, frozenset[DType]]
# Returns the allowed element types that an implementation supports, by type variable.
Narrow: TypeAlias = Callable[[str, int, Allowed], Allowed]


class How(Enum):
    """What an operator does with elements, which decides what other types may represent them."""

    VALUE = "value"  # computes with values: a type that holds all of them
    WRAPS = "wraps"  # adds and multiplies modulo 2**bits: an integer of as many bits
    MOVES = "moves"  # moves elements: any type of as many bits


_SIGNED = (DType.I16, DType.I32, DType.I64)
_WIDER: Mapping[DType, tuple[DType, ...]] = {
    DType.F16: (DType.F32, DType.F64),
    DType.BF16: (DType.F32, DType.F64),
    DType.F32: (DType.F64,),
    DType.I8: _SIGNED,
    DType.U8: _SIGNED,
    DType.I16: _SIGNED[1:],
    DType.U16: _SIGNED[1:],
    DType.I32: _SIGNED[2:],
    DType.U32: _SIGNED[2:],
    DType.BOOL: (DType.U8, DType.I32),
    **dict.fromkeys(SATURATED, (DType.F32, DType.F64)),
    DType.I4: (DType.I8, *_SIGNED),
    DType.U4: (DType.U8, *_SIGNED),
    DType.I2: (DType.I8, *_SIGNED),
    DType.U2: (DType.U8, *_SIGNED),
    DType.F4E2M1: (DType.F32, DType.F64),
    DType.F8E8M0: (DType.F32, DType.F64),
}
_SAME_BITS: Mapping[DType, tuple[DType, ...]] = {
    DType.U64: (DType.I64,),
    DType.I64: (DType.U64,),
    DType.U32: (DType.I32,),
}


def candidates(dtype: DType, how: How) -> tuple[DType, ...]:
    """Return the types that may represent another, the nearest first.

    >>> candidates(DType.U32, How.VALUE), candidates(DType.U32, How.WRAPS)
    ((<DType.I64: 'i64'>,), (<DType.I32: 'i32'>, <DType.I64: 'i64'>))
    """
    more = () if how is How.VALUE else _SAME_BITS.get(dtype, ())
    return (*more, *_WIDER.get(dtype, ()))


@dataclass(frozen=True, slots=True)
class OperandTypes:
    """Type variables of an operator's operands, the last of which repeats, and of its result."""

    inputs: tuple[str, ...]
    output: str
    allowed: Allowed

    def variable(self, i: int) -> str:
        """Return the type variable of operand ``i``."""
        return self.inputs[min(i, len(self.inputs) - 1)]


def type_name(dtype: DType) -> str:
    """Return ONNX's name of a tensor type.

    >>> type_name(DType.BF16)
    'tensor(bfloat16)'
    """
    return f"tensor({onnx.TensorProto.DataType.Name(code_of(dtype)).lower()})"


class Dialect:
    """ONNX as its schemas define it, or the part of it that an implementation supports.

    ``narrow`` gets an operator, the opset of its schema and the types that this allows.
    """

    def __init__(self, narrow: Narrow | None = None) -> None:
        self._narrow = narrow
        self._cache: dict[tuple[str, int], OperandTypes] = {}

    def takes(self, op: str, opset: int) -> OperandTypes:
        """Return what an operator takes at an opset."""
        if (op, opset) not in self._cache:
            self._cache[op, opset] = self._read(op, opset)
        return self._cache[op, opset]

    def _read(self, op: str, opset: int) -> OperandTypes:
        schema = schema_of(op, opset)
        assert schema is not None, op
        names = {type_name(d): d for d in ALL}
        allowed: dict[str, frozenset[DType]] = {}
        for c in schema.type_constraints:
            ours = (names.get(t) for t in c.allowed_type_strs)
            allowed[c.type_param_str] = frozenset(d for d in ours if d is not None)
        inputs = tuple(i.type_str for i in schema.inputs)
        for t in inputs:
            if t in names:
                allowed[t] = frozenset((names[t],))
        limited = self._narrow(op, schema.since_version, allowed) if self._narrow else allowed
        return OperandTypes(inputs, schema.outputs[0].type_str, limited)
