"""What imported models mean, judged by onnx's own evaluator; and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from didyma.onnx.context import NotConstant
from didyma.onnx.load import load_model
from didyma.refimpl.interp import graph
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import Array
from tests.didyma.onnx.models import f32, model, one, value

X = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
I64 = TensorProto.INT64

OPSETS: dict[str, tuple[Callable[[], onnx.ModelProto], ...]] = {
    "Clip": (
        lambda: one("Clip", X.shape, opset=6, min=-0.5, max=0.25),
        lambda: with_weights("Clip", 13, f32(-0.5).reshape(()), f32(0.25).reshape(())),
    ),
    "Softmax": (lambda: one("Softmax", X.shape, opset=13, axis=2),),
    "Slice": (
        lambda: one("Slice", X.shape, opset=9, starts=[1, -3], ends=[9, -1], axes=[1, 3]),
        lambda: with_weights("Slice", 13, ints(-1, 3), ints(-9, 0), ints(2, 3), ints(-2, -1)),
    ),
    "Unsqueeze": (
        lambda: one("Unsqueeze", X.shape, opset=11, axes=[0, -1]),
        lambda: with_weights("Unsqueeze", 13, ints(0, -1)),
    ),
    "Pad": (
        lambda: one("Pad", X.shape, opset=2, pads=[0, 1, 0, 2, 1, 0, 0, 1], value=1.5),
        lambda: with_weights("Pad", 13, ints(0, 1, 0, 2, 1, 0, 0, 1)),
    ),
    "ReduceSum": (
        lambda: one("ReduceSum", X.shape, opset=11, axes=[1, -1], keepdims=0),
        lambda: with_weights("ReduceSum", 13, ints(1, -1)),
    ),
    "Hardmax": (lambda: one("Hardmax", X.shape, opset=13, axis=1),),
    "Dropout": (
        lambda: one("Dropout", X.shape, opset=7, ratio=0.5),
        lambda: one("Dropout", X.shape, opset=13),
    ),
}


def ints(*n: int) -> Array:
    return np.array(n, np.int64)


def with_weights(op: str, opset: int, *weights: Array) -> onnx.ModelProto:
    names = [f"w{i}" for i in range(len(weights))]
    node = helper.make_node(op, ["x0", *names], ["y"])
    out = helper.make_empty_tensor_value_info("y")
    return model(
        [node], [value("x0", *X.shape)], [out], opset, **dict(zip(names, weights, strict=True))
    )


@pytest.mark.parametrize("op", OPSETS)
def test_each_opset_means_what_it_says(op: str) -> None:
    for make in OPSETS[op]:
        m = make()
        evaluator: Any = ReferenceEvaluator(m)
        (want,) = evaluator.run(None, {"x0": X})
        (got,) = graph.run(load_model(m), [X])
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)


def test_before_opset_13_softmax_sees_a_matrix() -> None:
    # onnx's evaluator does not: it follows opset 13 in every opset.
    (got,) = graph.run(load_model(one("Softmax", X.shape, opset=11, axis=2)), [X])
    rows = np.exp(X.reshape(6, 20).astype(np.float64))
    want = (rows / rows.sum(1, keepdims=True)).reshape(X.shape)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_negative_pads_cut() -> None:
    m = with_weights("Pad", 13, ints(0, 1, -1, 2, 0, 0, 0, -1))
    (got,) = graph.run(load_model(m), [X])
    want = np.pad(X[:, :, 1:, :-1], ((0, 0), (1, 0), (0, 0), (2, 0)))
    np.testing.assert_array_equal(got, want)


def test_symbolic_sizes_stay_symbolic_through_shape_arithmetic() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["y"]),
    ]
    m = load_model(
        model(nodes, [value("x", "n", 4)], [value("y", "n", 2, 2)], zero=ints(0), rest=ints(2, 2))
    )
    n = dims.symbol("n")
    assert m.entry.result_types()[0].shape == (n, 2, 2)
    assert [v.name for v in m.dims] == ["n"]
    (out,) = graph.run(m, [np.arange(12, dtype=np.float32).reshape(3, 4)])
    assert out.shape == (3, 2, 2)


def test_two_sizes_called_by_a_question_mark_may_differ() -> None:
    m = load_model(
        model(
            [helper.make_node("Relu", ["x"], ["y"])], [value("x", "?", "?")], [value("y", "?", "?")]
        )
    )
    assert len(m.dims) == 2


def test_sizes_may_be_fixed() -> None:
    m = model(
        [helper.make_node("Relu", ["x"], ["y"])], [value("x", "n", "m")], [value("y", "n", "m")]
    )
    assert load_model(m, sizes={"n": 3}).entry.params[0].type.shape == (3, dims.symbol("m"))


def test_values_that_must_be_known_are_named_and_can_be_given() -> None:
    m = model(
        [helper.make_node("Reshape", ["x", "to"], ["y"])],
        [value("x", 4), value("to", 2, type=I64)],
        [helper.make_empty_tensor_value_info("y")],
    )
    with pytest.raises(NotConstant) as e:
        load_model(m)
    assert e.value.inputs == ("to",)
    special = load_model(m, values={"to": ints(2, -1)})
    assert [p.name for p in special.entry.params] == ["x"]
    assert special.entry.result_types()[0].shape == (2, 2)


def test_a_weight_that_is_used_twice_enters_once() -> None:
    nodes = [helper.make_node("Add", ["x", "w"], ["a"]), helper.make_node("Mul", ["a", "w"], ["y"])]
    m = load_model(model(nodes, [value("x", 2)], [value("y", 2)], w=f32(1, 2)))
    assert [n.results[0] for n in m.entry.nodes if n.op == "constant"] == ["w"]


def test_functions_of_the_model_are_inlined_with_their_attributes() -> None:
    body = helper.make_node("LeakyRelu", ["a"], ["b"])
    reference = onnx.AttributeProto(name="alpha", ref_attr_name="slope")
    reference.type = onnx.AttributeProto.FLOAT
    body.attribute.append(reference)
    f = helper.make_function(
        "own", "f", ["a"], ["b"], [body], [helper.make_opsetid("", 17)], ["slope"]
    )
    m = model(
        [helper.make_node("f", ["x"], ["y"], domain="own", slope=0.5)],
        [value("x", 2)],
        [value("y", 2)],
    )
    m.opset_import.append(helper.make_opsetid("own", 1))
    m.functions.append(f)
    (out,) = graph.run(load_model(m), [f32(-4, 4)])
    assert out.tolist() == [-2, 4]


def branches(condition: str) -> onnx.ModelProto:
    def body(op: str) -> onnx.GraphProto:
        return helper.make_graph([helper.make_node(op, ["x"], ["b"])], op, [], [value("b", 2)])

    node = helper.make_node(
        "If", [condition], ["y"], then_branch=body("Relu"), else_branch=body("Neg")
    )
    inputs = [value("x", 2), value("c", type=TensorProto.BOOL)]
    return model([node], inputs, [value("y", 2)], k=np.array(True))


@pytest.mark.parametrize("c", [True, False])
def test_a_branch_is_chosen_at_run_time(c: bool) -> None:
    (out,) = graph.run(load_model(branches("c")), [f32(-1, 2), np.array(c)])
    assert out.tolist() == ([0, 2] if c else [1, -2])


def test_a_known_branch_is_the_only_one_imported() -> None:
    assert "negative" not in [n.op for n in load_model(branches("k")).entry.nodes]


def test_names_are_kept() -> None:
    nodes = [
        helper.make_node("Neg", ["x"], ["layer/a:0"]),
        helper.make_node("Exp", ["layer/a:0"], ["y"]),
    ]
    m = load_model(model(nodes, [value("x", 2)], [value("y", 2)]))
    assert {"layer/a:0", "y"} <= {r for n in m.entry.nodes for r in n.results}


def test_what_a_reshape_drops_has_one_element() -> None:
    """An image's height comes down to 1; a second path meets it there as 1."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[3, 1], strides=[3, 1]),
        helper.make_node("Shape", ["p"], ["s"]),
        helper.make_node("Gather", ["s", "kept"], ["t"]),
        helper.make_node("Reshape", ["p", "t"], ["r"]),
        helper.make_node("Unsqueeze", ["r", "two"], ["u"]),
        helper.make_node("Concat", ["p", "u"], ["y"], axis=1),
    ]
    made = model(
        nodes, [value("x", 1, 2, "h", "w")], [helper.make_empty_tensor_value_info("y")], 17,
        kept=ints(0, 1, 3), two=ints(2),
    )  # fmt: skip
    m = load_model(made)
    assert {(v.lo, v.hi) for v in m.dims} >= {(3, 5)}
    x = X.reshape(1, 2, 4, 15)
    (got,) = graph.run(m, [x], {"h": 4, "w": 15})
    np.testing.assert_array_equal(got, np.concatenate([x[:, :, :3].max(2, keepdims=True)] * 2, 1))


def test_what_is_left_of_a_quotient_that_fits() -> None:
    """Rows of n // 2 + 1, eight times as many elements: the axis marked -1 has 8."""
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["p"]),
        helper.make_node("Slice", ["p", "from", "far", "axis", "by"], ["q"]),
        helper.make_node("Shape", ["q"], ["s"], start=0, end=1),
        helper.make_node("Concat", ["s", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["q", "t"], ["y"]),
    ]
    made = model(
        nodes, [value("x", "n", 4, 2)], [helper.make_empty_tensor_value_info("y")], 17,
        pads=ints(0, 0, 0, 1, 0, 0), **{"from": ints(0), "far": ints(1 << 40), "axis": ints(0)},
        by=ints(2), rest=ints(-1),
    )  # fmt: skip
    (t,) = load_model(made).entry.result_types()
    assert t.shape[1] == 8
    assert dims.free(t.shape[0]) == ("n",)
