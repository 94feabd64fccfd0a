"""Sequences of tensors, judged by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from didyma.fuzz.peers.ort import run_model
from didyma.onnx.context import NotConstant
from didyma.onnx.load import load_model
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.types import Array
from tests.didyma.onnx.models import free, model, value

N = helper.make_node
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
Y = -X


def ints(*n: int) -> Array:
    return np.array(n, np.int64)


def at(n: int) -> Array:
    return np.array(n, np.int64)


def made(
    nodes: Sequence[onnx.NodeProto], result: int = TensorProto.FLOAT, /, **weights: Array
) -> onnx.ModelProto:
    inputs = [value("x", *X.shape), value("y", *Y.shape)]
    return model(nodes, inputs, [free("z", result)], 17, **weights)


def agree(m: onnx.ModelProto) -> Array:
    (want,) = run_model(m, {"x": X, "y": Y})
    (got,) = graph.run(load_model(m), [X, Y])
    assert got.dtype == want.dtype
    assert got.tolist() == want.tolist()
    return got


PAIR = N("SequenceConstruct", ["x", "y"], ["s"])


@pytest.mark.parametrize("n", [0, 1, -1, -2])
def test_an_element_is_taken_by_its_position(n: int) -> None:
    agree(made([PAIR, N("SequenceAt", ["s", "n"], ["z"])], n=at(n)))


@pytest.mark.parametrize("n", [None, 0, 1, 2, -1, -2])
def test_an_element_is_put_in_before_a_position(n: int | None) -> None:
    where = [] if n is None else ["n"]
    nodes = [
        PAIR,
        N("Add", ["x", "x"], ["w"]),
        N("SequenceInsert", ["s", "w", *where], ["t"]),
        N("ConcatFromSequence", ["t"], ["z"], axis=-2),
    ]
    agree(made(nodes, **({} if n is None else {"n": at(n)})))


@pytest.mark.parametrize("n", [None, 0, 1, -1, -2])
def test_an_element_is_left_out(n: int | None) -> None:
    nodes = [
        PAIR,
        N("SequenceErase", ["s"] if n is None else ["s", "n"], ["t"]),
        N("ConcatFromSequence", ["t"], ["z"], axis=0, new_axis=1),
    ]
    agree(made(nodes, **({} if n is None else {"n": at(n)})))


@pytest.mark.parametrize("axis", [0, 2, -1, 3])
def test_elements_are_stacked_along_a_new_axis(axis: int) -> None:
    agree(made([PAIR, N("ConcatFromSequence", ["s"], ["z"], axis=axis, new_axis=1)]))


@pytest.mark.parametrize(
    ("attrs", "parts", "n"),
    [
        ({}, None, 1),
        ({"axis": -1}, None, 3),
        ({"axis": 1, "keepdims": 0}, None, 2),
        ({"axis": 2}, at(3), 1),
        ({"axis": 2}, at(2), 0),
        ({"axis": 2}, ints(1, 3), 1),
        ({"axis": 1, "keepdims": 0}, ints(2, 0, 1), 1),
    ],
)
def test_a_tensor_is_split(attrs: dict[str, Any], parts: Array | None, n: int) -> None:
    names = ["x"] if parts is None else ["x", "parts"]
    split = N("SplitToSequence", names, ["s"], **attrs)
    held = {} if parts is None else {"parts": parts}
    agree(made([split, N("SequenceAt", ["s", "n"], ["z"])], n=at(n), **held))
    agree(made([split, N("SequenceLength", ["s"], ["z"])], TensorProto.INT64, **held))


def test_sizes_of_parts_keep_the_axis() -> None:
    # ONNX Runtime fails on this, which ONNX allows: keepdims is ignored where sizes are given.
    split = N("SplitToSequence", ["x", "parts"], ["s"], axis=2, keepdims=0)
    m = made([split, N("SequenceAt", ["s", "n"], ["z"])], parts=at(3), n=at(0))
    (got,) = graph.run(load_model(m), [X, Y])
    assert got.tolist() == X[:, :, :3].tolist()


def appending() -> onnx.GraphProto:
    """Body of a loop that adds a product of x to a sequence in each round."""
    nodes = [
        N("Cast", ["i"], ["f"], to=1),
        N("Mul", ["x", "f"], ["row"]),
        N("SequenceInsert", ["held", "row"], ["longer"]),
        N("Identity", ["going"], ["still"]),
    ]
    held, longer = (
        helper.make_tensor_sequence_value_info(name, 1, None) for name in ("held", "longer")
    )
    inputs = [value("i", type=TensorProto.INT64), value("going", type=TensorProto.BOOL), held]
    return helper.make_graph(nodes, "body", inputs, [free("still", TensorProto.BOOL), longer])


def grown(count: str) -> list[onnx.NodeProto]:
    return [
        N("SequenceEmpty", [], ["none"]),
        N("Identity", ["none"], ["first"]),
        N("Loop", [count, "", "first"], ["s"], body=appending()),
        N("ConcatFromSequence", ["s"], ["z"], axis=0),
    ]


def test_a_loop_lets_a_sequence_grow() -> None:
    assert agree(made(grown("count"), count=at(5))).shape == (10, 3, 4)


def test_a_loop_whose_rounds_only_an_input_tells_is_refused_by_name() -> None:
    inputs = [value("x", *X.shape), value("count", type=TensorProto.INT64)]
    with pytest.raises(NotConstant) as e:
        load_model(model(grown("count"), inputs, [free("z")]))
    assert e.value.inputs == ("count",)


def test_a_branch_yields_a_sequence_where_it_is_known_which_is_taken() -> None:
    def branch(name: str, *items: str) -> onnx.GraphProto:
        out = helper.make_tensor_sequence_value_info(name, 1, None)
        return helper.make_graph([N("SequenceConstruct", items, [name])], name, [], [out])

    choose = N(
        "If", ["yes"], ["s"], then_branch=branch("a", "y", "x"), else_branch=branch("b", "x")
    )
    m = made([choose, N("SequenceAt", ["s", "n"], ["z"])], yes=np.array(True), n=at(0))
    assert agree(m).tolist() == Y.tolist()


def test_sequence_map_is_written_out() -> None:
    body = helper.make_graph(
        [N("Neg", ["e"], ["r"])], "body", [value("e", *X.shape)], [value("r", *X.shape)]
    )
    nodes = [
        PAIR,
        N("SequenceMap", ["s"], ["t"], body=body),
        N("ConcatFromSequence", ["t"], ["z"], axis=0),
    ]
    (got,) = graph.run(load_model(made(nodes)), [X, Y])
    assert got.tolist() == np.concatenate([-X, -Y]).tolist()


@pytest.mark.parametrize(
    ("nodes", "code", "got", "node"),
    [
        ([PAIR, N("SequenceAt", ["s", "two"], ["z"])], "onnx-broken", "position 2", "SequenceAt"),
        ([PAIR, N("SequenceErase", ["s", "two"], ["t"]), N("SequenceAt", ["t", "two"], ["z"])],
         "onnx-broken", "position 2", "SequenceErase"),
        ([PAIR, N("SequenceInsert", ["s", "x", "nine"], ["t"]), N("SequenceLength", ["t"], ["z"])],
         "onnx-broken", "position 9", "SequenceInsert"),
        ([PAIR, N("SequenceInsert", ["s", "two"], ["t"]), N("SequenceAt", ["t", "two"], ["z"])],
         "onnx-broken", "a tensor of i64", "SequenceInsert"),
        ([PAIR, N("Relu", ["s"], ["z"])], "onnx-unsupported", "a sequence of tensors", "Relu"),
        ([N("SequenceAt", ["x", "two"], ["z"])], "onnx-broken", "a tensor", "SequenceAt"),
        ([N("SequenceEmpty", [], ["s"]), N("ConcatFromSequence", ["s"], ["z"], axis=0)],
         "onnx-broken", "an empty sequence", "ConcatFromSequence"),
        ([N("SplitToSequence", ["x", "nine"], ["s"]), N("SequenceAt", ["s", "nine"], ["z"])],
         "onnx-broken", "position 9", "SequenceAt"),
        ([N("SplitToSequence", ["x", "parts"], ["s"]), N("SequenceLength", ["s"], ["z"])],
         "onnx-broken", "parts of 1, 2", "SplitToSequence"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_its_node(
    nodes: list[onnx.NodeProto], code: str, got: str, node: str
) -> None:
    with pytest.raises(DidymaError) as e:
        load_model(made(nodes, two=at(2), nine=at(9), parts=ints(1, 2)))
    assert (e.value.code, e.value.got) == (code, got)
    assert f"node {node} (opset 17)" in e.value.where


def test_a_sequence_is_no_output() -> None:
    out = helper.make_tensor_sequence_value_info("s", 1, None)
    with pytest.raises(DidymaError) as e:
        load_model(model([PAIR], [value("x", 2), value("y", 2)], [out]))
    assert (e.value.code, e.value.where) == ("onnx-unsupported", "model: output s")
