"""Small ONNX models for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import engine
from didyma.fuzz.levels import runner
from didyma.fuzz.peers.ort import run_model
from didyma.onnx.load import load_model
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array


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
    """Make a model in the oldest format that has its opset; weights are initializers."""
    held = [numpy_helper.from_array(a, name) for name, a in weights.items()]
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), held)
    opsets = [helper.make_opsetid("", opset)]
    version = helper.find_min_ir_version_for(opsets, ignore_unknown=True)
    return helper.make_model(graph, opset_imports=opsets, ir_version=version)


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


def free(name: str, type: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """Declare an output whose shape the model does not tell."""
    made = helper.make_empty_tensor_value_info(name)
    made.type.tensor_type.elem_type = type
    return made


def agrees(
    m: onnx.ModelProto, feeds: Mapping[str, Array], levels: bool = True, atol: float = 1e-6
) -> Module:
    """Require ONNX Runtime's values of the graph and of the program on the host."""
    pytest.importorskip("onnxruntime")
    want = run_model(m, feeds)
    found = load_model(m)
    given = [feeds[p.name] for p in found.entry.params]
    runs = [graph.run(found, given)]
    if levels:
        host = engine("host")
        runs.append(runner(compile(found), host)(host, given))
    for got in runs:
        for w, g in zip(want, got, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=atol, strict=True)
    return found
