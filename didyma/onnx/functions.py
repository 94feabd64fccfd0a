"""Operators that ONNX defines as functions of other operators, and errors for unknown operators."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import onnx

from didyma.onnx.context import Context
from didyma.onnx.nodes import HANDLERS
from didyma.onnx.schemas import NEWEST, Schema, schema_of
from didyma.onnx.tensors import code_of
from didyma.onnx.values import Entry, TensorList

NOT_INLINED = frozenset({"Range"})  # whose body is a loop


def body(
    schema: Schema, n: onnx.NodeProto, inputs: Sequence[Entry | None], opset: int
) -> onnx.FunctionProto | None:
    """Return the function that defines an operator, of the latest opset up to ``opset``, if any."""
    if n.op_type in NOT_INLINED:
        return None
    f = onnx.FunctionProto()
    if schema.has_function:
        version = _version(schema.function_opset_versions, opset)
        f.ParseFromString(schema.get_function_with_opset_version(version))
        return f
    if schema.has_context_dependent_function:
        version = _version(schema.context_dependent_function_opset_versions, opset)
        types = [_type(i).SerializeToString() for i in inputs]
        try:
            text = schema.get_context_dependent_function_with_opset_version(
                version, n.SerializeToString(), types
            )
        except (
            RuntimeError,
            onnx.shape_inference.InferenceError,
        ) as e:  # onnx cannot build the function for these names or types
            raise ValueError(str(e)) from None
        if text:
            f.ParseFromString(text)
            return f
    return None


def defined(schema: Schema) -> bool:
    """Return whether ONNX defines an operator as a function."""
    return schema.has_function or schema.has_context_dependent_function


def _version(versions: Sequence[int], opset: int) -> int:
    return max((v for v in versions if v <= opset), default=min(versions))


def _type(entry: Entry | None) -> onnx.TypeProto:
    made = onnx.TypeProto()
    if isinstance(entry, TensorList):
        made.sequence_type.elem_type.tensor_type.elem_type = code_of(entry.dtype)
    elif entry is not None:
        made.tensor_type.elem_type = code_of(entry.type.dtype)
        for d in entry.type.shape:
            size = made.tensor_type.shape.dim.add()
            if isinstance(d, int):
                size.dim_value = d
    return made


def refusal(c: Context, op: str, domain: str) -> Exception:
    """Return the error for an operator that cannot be imported at its opset."""
    if domain:
        help = "give the operator as a function of the model, or export with operators of ai.onnx"
        if domain == "com.microsoft":
            help = "ONNX Runtime's optimisations write this operator: export without them"
        return c.error(f"the operator {domain}::{op}", "an operator of ai.onnx", help)
    first = next((v for v in range(1, NEWEST + 1) if schema_of(op, v) is not None), 0)
    if first > c.opset:
        help = f"export the model with opset {first}, or use onnx.version_converter"
        return c.error(
            f"{op}, which opset {first} introduced", f"an operator of opset {c.opset}", help
        )
    close = get_close_matches(op, HANDLERS, 3, 0.5)
    some = f", for example {', '.join(close)}" if close else ""
    want = f"one of the {len(HANDLERS)} operators of docs/onnx.md{some}"
    help = "" if first else "this is not an operator of ONNX: compare its name and its domain"
    return c.error(f"the operator {op}", want, help)
