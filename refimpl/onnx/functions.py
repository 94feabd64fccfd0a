"""Operators that ONNX defines by other operators: their bodies."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import onnx

from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.onnx.nodes import HANDLERS
from didyma.refimpl.onnx.signature import Schema
from didyma.refimpl.onnx.tensors import code_of
from didyma.refimpl.onnx.values import Item

NOT_INLINED = frozenset({"Range"})  # its body is a loop


def body(
    schema: Schema, n: onnx.NodeProto, inputs: Sequence[Item | None], opset: int
) -> onnx.FunctionProto | None:
    """Return the function ONNX defines an operator by, at the nearest opset not above."""
    if n.op_type in NOT_INLINED:
        return None
    f = onnx.FunctionProto()
    if schema.has_function:
        version = _version(schema.function_opset_versions, opset)
        f.ParseFromString(schema.get_function_with_opset_version(version))
        return f
    if schema.has_context_dependent_function:
        version = _version(schema.context_dependent_function_opset_versions, opset)
        types = [_type(i.type if i is not None else None).SerializeToString() for i in inputs]
        try:
            text = schema.get_context_dependent_function_with_opset_version(
                version, n.SerializeToString(), types
            )
        except (
            RuntimeError,
            onnx.shape_inference.InferenceError,
        ) as e:  # onnx's own builder chokes on names or types
            raise ValueError(str(e)) from None
        if text:
            f.ParseFromString(text)
            return f
    return None


def defined(schema: Schema) -> bool:
    """Tell whether ONNX defines an operator by others."""
    return schema.has_function or schema.has_context_dependent_function


def _version(versions: Sequence[int], opset: int) -> int:
    return max((v for v in versions if v <= opset), default=min(versions))


def _type(t: TensorType | None) -> onnx.TypeProto:
    made = onnx.TypeProto()
    if t is not None:
        made.tensor_type.elem_type = code_of(t.dtype)
        for d in t.shape:
            size = made.tensor_type.shape.dim.add()
            if isinstance(d, int):
                size.dim_value = d
    return made


def nearest(op: str) -> str:
    """Say which operators there are that sound like one that is not."""
    close = get_close_matches(op, HANDLERS, 3, 0.5)
    some = f", for example {', '.join(close)}" if close else ""
    return f"one of the {len(HANDLERS)} operators of docs/onnx.md{some}"
