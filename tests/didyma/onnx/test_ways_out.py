"""Errors about operators name the node, its operator set and the way out."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import helper

from didyma.onnx.load import load_model
from didyma.refimpl.errors import DidymaError
from tests.didyma.onnx.models import f32, free, model, value


def refused(op: str, domain: str = "", opset: int = 17, **attrs: Any) -> DidymaError:
    node = helper.make_node(op, ["x"], ["y"], name="n", domain=domain, **attrs)
    m = model([node], [value("x", 2, 3)], [free("y")], opset)
    if domain:
        m.opset_import.append(helper.make_opsetid(domain, 1))
    with pytest.raises(DidymaError) as e:
        load_model(m, "m.onnx")
    assert e.value.code == "onnx-unsupported"
    return e.value


def test_an_operator_that_came_later() -> None:
    e = refused("Gelu")
    assert e.where == "m.onnx: node Gelu n (opset 17)"
    assert e.got == "Gelu, which opset 20 introduced"
    assert "opset 20" in e.help


def test_an_operator_that_went() -> None:
    e = refused("Upsample", opset=10, mode="nearest")
    assert (e.got, e.want) == ("Upsample, which opset 10 removed", "an operator of opset 10")


def test_an_operator_that_onnx_runtime_writes() -> None:
    e = refused("QuickGelu", "com.microsoft")
    assert e.where == "m.onnx: node QuickGelu n (com.microsoft 1)"
    assert (e.got, "optimisations" in e.help) == ("the operator com.microsoft::QuickGelu", True)


def test_an_operator_of_another_domain() -> None:
    assert "a function of the model" in refused("Foo", "org.example").help


def test_a_name_that_nobody_knows() -> None:
    e = refused("Relux")
    assert "Relu, PRelu" in e.want
    assert "its name" in e.help


def test_an_operator_set_of_the_future() -> None:
    assert "newer onnx" in refused("Relu", opset=99).help


def test_windows_that_do_not_fit_the_operand() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[2, 2])
    weights = f32(*range(9)).reshape(1, 1, 3, 3)
    with pytest.raises(DidymaError) as e:
        load_model(model([node], [value("x", 1, 1, 9)], [free("y")], w=weights))
    assert e.value.code == "onnx-broken"
    assert e.value.got == "windows of 2 axes, 2 strides, 1 dilations and 2 pads"
