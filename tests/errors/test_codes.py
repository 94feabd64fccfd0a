"""Codes of errors that no text of a program can cause: from Python, a size, a device, a model."""

from __future__ import annotations

import builtins
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
import sympy
from onnx import TensorProto, helper

import didyma as dd
from didyma.codegen.runtime import didyma_runtime
from didyma.codegen.runtime.device_array import borrow
from didyma.composites.builder import Builder
from didyma.files import read_module
from didyma.onnx import load_bytes
from didyma.onnx_backend import backend_for
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import DType, TensorType
from didyma.tracer.tensor import Tensor


def says(code: str, *words: str) -> pytest.RaisesExc[DidymaError]:
    """The error has the code, and its text the words."""
    return pytest.RaisesExc(
        DidymaError, check=lambda e: e.code == code and all(w in str(e) for w in words)
    )


def test_sizes() -> None:
    n = dims.symbol("n")
    with says("fractional-dim", "3/2"):
        dims.evaluate(n / sympy.Integer(2), {"n": 3})
    anything: Any = sympy
    with says("bad-dim", "sin(n)"):
        dims.evaluate(anything.Function("sin")(n), {"n": 3})
    with says("unbound-dim", "n"):
        dims.evaluate(n + 1, {"m": 3})


def test_axes() -> None:
    b = Builder()
    x = Tensor(b, b.param("x", TensorType(DType.F32, (2, 3))))
    with says("bad-axis", "axis 2"):
        dd.sum(x, axis=2)
    with says("bad-axis", "axes of size 1"):
        dd.squeeze(x, axis=1)


def test_a_name_of_two_parameters() -> None:
    b = Builder()
    b.param("x", TensorType(DType.F32, ()))
    with says("redefined", "%x"):
        b.param("x", TensorType(DType.F32, ()))


def test_an_assertion_of_a_program() -> None:
    didyma_runtime.equal(3, 3, "n == m")
    with pytest.raises(didyma_runtime.Refused, match="assertion at `n == m`\n  got:  3 and 4"):
        didyma_runtime.equal(3, 4, "n == m")


def test_a_level_that_is_none() -> None:
    with says("unknown-level", "rtl", "simt"):
        backend_for("rtl")


def test_the_extra_that_reads_onnx(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> types.ModuleType:
        if name == "didyma.onnx":
            raise ModuleNotFoundError("No module named 'onnx'", name="onnx")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with says("extra-missing", "pip install"):
        read_module(tmp_path / "m.onnx")


class Device:
    """An array that says it is on a device."""

    def __init__(self, **interface: object) -> None:
        self.__cuda_array_interface__ = interface


def test_arrays_on_a_device() -> None:
    interface = {"shape": (2, 3), "typestr": "<f4", "data": (64, False)}
    with says("not-contiguous", "(3, 1)"):
        borrow(Device(**interface, strides=(4, 8)), 0)
    assert borrow(Device(**interface, strides=None), 0).nbytes == 24


def model(
    nodes: Sequence[onnx.NodeProto],
    weights: Sequence[onnx.TensorProto] = (),
    result: Sequence[int] = (2, 3),
) -> bytes:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, result)
    graph = helper.make_graph(nodes, "g", [x], [y], list(weights))
    opset = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opset).SerializeToString()


def weight(dims: Sequence[int], location: str) -> onnx.TensorProto:
    t = onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims)
    t.data_location = TensorProto.EXTERNAL
    t.external_data.add(key="location", value=location)
    return t


ADD = helper.make_node("Add", ["x", "w"], ["y"], name="sum")


def test_models() -> None:
    with says("onnx-mismatch", "f32[2, 4]", "f32[2, 3]"):
        load_bytes(model([helper.make_node("Exp", ["x"], ["y"])], result=(2, 4)), "m.onnx")
    with says("onnx-external-data", "../secrets"):
        load_bytes(model([ADD], [weight([3], "../secrets")]), "m.onnx")
    with says("onnx-too-large", "bytes"):
        load_bytes(model([ADD], [weight([1 << 20, 1 << 20], "w.bin")]), "m.onnx")


def test_a_loop_without_end() -> None:
    true = helper.make_tensor("t", TensorProto.BOOL, [], [True])
    on = helper.make_node("Constant", [], ["go"], value=true)
    body = helper.make_graph(
        [on, helper.make_node("Identity", ["v"], ["out"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [2, 3]),
        ],
        [
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("out", TensorProto.FLOAT, [2, 3]),
        ],
    )
    with says("onnx-control", "trip count"):
        load_bytes(model([helper.make_node("Loop", ["", "", "x"], ["y"], body=body)]), "m.onnx")
