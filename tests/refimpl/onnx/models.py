"""Small ONNX models for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from refimpl.ir.types import Array


def value(name: str, *shape: int | str, type: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """Declare a tensor."""
    return helper.make_tensor_value_info(name, type, list(shape))


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    opset: int = 17,
    **weights: Array,
) -> onnx.ModelProto:
    """Make a model; weights are initializers."""
    held = [numpy_helper.from_array(a, name) for name, a in weights.items()]
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def one(op: str, *shapes: Sequence[int | str], opset: int = 17, **attrs: Any) -> onnx.ModelProto:
    """Make a model of one node on floats."""
    names = [f"x{i}" for i in range(len(shapes))]
    node = helper.make_node(op, names, ["y"], name="the_node", **attrs)
    inputs = [value(n, *s) for n, s in zip(names, shapes, strict=True)]
    output = helper.make_empty_tensor_value_info("y")
    output.type.tensor_type.elem_type = TensorProto.FLOAT
    return model([node], inputs, [output], opset)


def f32(*values: Any) -> Array:
    """Return a vector of floats."""
    return np.array(values, np.float32)
