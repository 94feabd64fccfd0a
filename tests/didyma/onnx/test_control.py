"""Branches, loops, scans and recurrent layers that run, judged by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import engine
from didyma.fuzz.levels import runner
from didyma.onnx.context import NotConstant
from didyma.onnx.load import load_model
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.graph import Module
from tests.didyma.onnx.models import agrees, free, model, value

I64, BOOL = TensorProto.INT64, TensorProto.BOOL
node = helper.make_node


def body(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[Any], outputs: Sequence[Any]
) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "body", list(inputs), list(outputs))


def ops(m: Module) -> set[str]:
    return {n.op for f in m.functions for n in f.nodes}


def branch(count: int) -> onnx.ModelProto:
    """Make an If of branches of several nodes, the sizes of whose results differ."""
    then = [node("Mul", ["x" if i == 0 else f"t{i - 1}", "x"], [f"t{i}"]) for i in range(count)]
    other = [node("Add", ["x" if i == 0 else f"e{i - 1}", "x"], [f"e{i}"]) for i in range(count)]
    other.append(node("Concat", [f"e{count - 1}", "x"], ["e"], axis=0))
    made = node(
        "If", ["c"], ["y"],
        then_branch=body(then, [], [free(f"t{count - 1}")]),
        else_branch=body(other, [], [free("e")]),
    )  # fmt: skip
    return model([made], [value("c", type=BOOL), value("x", 3)], [free("y")])


@pytest.mark.parametrize("taken", [True, False])
def test_an_if_runs_the_branch_it_takes(taken: bool) -> None:
    x = np.array([0.5, -1, 2], np.float32)
    assert "if" in ops(agrees(branch(6), {"c": np.array(taken), "x": x}))


def test_sizes_of_a_branch_are_asserted_where_it_is_taken() -> None:
    """Both of two small branches may be computed, but not where one of them may refuse."""
    then = [node("Expand", ["x", "n"], ["wide"]), node("ReduceSum", ["wide"], ["t"], keepdims=0)]
    other = [node("ReduceMax", ["x"], ["e"], keepdims=0)]
    made = node(
        "If", ["c"], ["y"],
        then_branch=body(then, [], [free("t")]), else_branch=body(other, [], [free("e")]),
    )  # fmt: skip
    m = load_model(
        model([made], [value("c", type=BOOL), value("x", 1), value("n", 1, type=I64)], [free("y")])
    )
    x = np.array([2.5], np.float32)
    for c, n, want in ((True, 4, 10.0), (False, -4, 2.5), (False, 4, 2.5)):
        assert graph.run(m, [np.array(c), x, np.array([n])])[0] == want
    with pytest.raises(DidymaError, match="dim-out-of-range"):
        graph.run(m, [np.array(True), x, np.array([-4])])


def test_what_no_result_needs_is_left_out() -> None:
    nodes = [
        node("Expand", ["x", "n"], ["wide"]),
        node("ReduceSum", ["wide"], ["unused"], keepdims=0),
        node("Neg", ["x"], ["y"]),
    ]
    found = load_model(model(nodes, [value("x", 1), value("n", 1, type=I64)], [free("y")]))
    assert [n.op for n in found.entry.nodes] == ["negative"]
    assert found.dims == ()


def loop(test: Sequence[onnx.NodeProto], grows: bool = False) -> onnx.ModelProto:
    """Make a Loop that adds up rounds and collects them; ``test`` yields ``again``."""
    nodes = [
        node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        node("Concat", ["s", "x"], ["s1"], axis=0) if grows else node("Add", ["s", "f"], ["s1"]),
        node("Identity", ["f"], ["row"]),
        *test,
    ]
    inner = body(
        nodes,
        [value("i", type=I64), value("going", type=BOOL), free("s")],
        [value("again", type=BOOL), free("s1"), free("row")],
    )
    made = node("Loop", ["n", "", "x"], ["last", "rows"], body=inner)
    return model([made], [value("n", type=I64), value("x", 2)], [free("last"), free("rows")])


X = np.array([1, 2], np.float32)
FOREVER = (node("Identity", ["going"], ["again"]),)
UNTIL = (
    node("Constant", [], ["three"], value_int=3),
    node("Less", ["i", "three"], ["again"]),
)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_loop_that_only_counts_is_a_scan(n: int) -> None:
    found = agrees(loop(FOREVER), {"n": np.array(n), "x": X})
    assert "scan" in ops(found)
    assert "while" not in ops(found)


@pytest.mark.parametrize("n", [0, 2, 9])
def test_a_loop_that_its_body_ends(n: int) -> None:
    assert "while" in ops(agrees(loop(UNTIL), {"n": np.array(n), "x": X}))


@pytest.mark.parametrize("n", [0, 3])
def test_values_that_grow(n: int) -> None:
    agrees(loop(FOREVER, grows=True), {"n": np.array(n), "x": X})


def test_values_that_change_their_type_are_refused() -> None:
    m = loop(UNTIL)
    inner = next(a.g for a in m.graph.node[0].attribute if a.name == "body")
    inner.node[1].CopyFrom(node("Cast", ["s"], ["s1"], to=TensorProto.DOUBLE))
    with pytest.raises(DidymaError) as caught:
        load_model(m)
    assert caught.value.code == "onnx-control"


@pytest.mark.parametrize("back", [0, 1])
def test_a_scan_of_a_size_that_the_input_tells(back: int) -> None:
    inner = body(
        [node("Add", ["s", "x"], ["s1"]), node("Mul", ["s1", "w"], ["y"])],
        [free("s"), free("x")],
        [free("s1"), free("y")],
    )
    made = node(
        "Scan", ["s0", "xs"], ["last", "ys"], body=inner, num_scan_inputs=1,
        scan_input_axes=[1], scan_input_directions=[back], scan_output_axes=[1],
    )  # fmt: skip
    m = model(
        [made], [value("s0", 3), value("xs", 3, "n"), value("w", 3)], [free("last"), free("ys")]
    )
    rng = np.random.default_rng(0)
    feeds = {
        k: rng.standard_normal(s).astype(np.float32)
        for k, s in (("s0", (3,)), ("xs", (3, 7)), ("w", (3,)))
    }
    found = agrees(m, feeds)
    assert "scan" in ops(found)
    assert [v.name for v in found.dims] == ["n"]


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_over_a_size_that_the_input_tells(op: str, direction: str) -> None:
    gates, ways = {"RNN": 1, "GRU": 3, "LSTM": 4}[op], 1 + (direction == "bidirectional")
    rng = np.random.default_rng(1)
    shapes = {"w": (ways, gates * 3, 2), "r": (ways, gates * 3, 3), "b": (ways, 2 * gates * 3)}
    weights = {k: rng.standard_normal(s).astype(np.float32) for k, s in shapes.items()}

    def made(length: int | str) -> onnx.ModelProto:
        layer = node(
            op, ["x", "w", "r", "b", "lengths"], ["y", "h"], hidden_size=3, direction=direction
        )
        inputs = [value("x", length, 2, 2), value("lengths", 2, type=TensorProto.INT32)]
        return model([layer], inputs, [free("y"), free("h")], 17, **weights)

    x = rng.standard_normal((5, 2, 2)).astype(np.float32)
    feeds = [x, np.array([5, 3], np.int32)]
    symbolic, static = load_model(made("n")), load_model(made(5))
    assert "scan" in ops(symbolic)
    assert "scan" not in ops(static)
    host = engine("host")
    want = graph.run(static, feeds)
    for got in (graph.run(symbolic, feeds), runner(compile(symbolic), host)(host, feeds)):
        for a, b in zip(want, got, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def test_squeeze_narrows_the_range_of_a_size() -> None:
    pool = node("MaxPool", ["x"], ["p"], kernel_shape=[4], strides=[4])
    squeeze = node("Squeeze", ["p", "axes"], ["y"])
    m = model([pool, squeeze], [value("x", 1, 2, "n")], [free("y")], axes=np.array([2], np.int64))
    (n,) = load_model(m).dims
    assert (n.lo, n.hi) == (4, 7)
    agrees(m, {"x": np.arange(10, dtype=np.float32).reshape(1, 2, 5)})


def test_sizes_that_must_be_equal_are_one() -> None:
    m = model(
        [node("Add", ["a", "b"], ["y"])], [value("a", "m", 2), value("b", "n", 2)], [free("y")]
    )
    assert [v.name for v in load_model(m).dims] == ["m"]


def expanded(other: str) -> onnx.ModelProto:
    """Multiply what is expanded to a size of the run with as many numbers as another tells."""
    nodes = [
        node("Gather", ["shape", "zero"], ["n"]),
        node("Gather", ["other", "zero"], ["m"]),
        node("Range", ["zero", other, "one"], ["counted"]),
        node("Expand", ["x", "shape"], ["wide"]),
        node("Mul", ["wide", "counted"], ["y"]),
    ]
    inputs = [value(name, 1, type=I64) for name in ("x", "shape", "other")]
    return model(nodes, inputs, [free("y", I64)], zero=np.array(0), one=np.array(1))


@pytest.mark.parametrize("n", [0, 1, 4])
def test_sizes_that_one_value_tells_are_one(n: int) -> None:
    feeds = {"x": np.array([3]), "shape": np.array([n]), "other": np.array([7])}
    agrees(expanded("n"), feeds)


def test_sizes_of_the_run_that_are_not_seen_to_be_equal_are_held_equal() -> None:
    m = expanded("m")
    agrees(m, {"x": np.array([3]), "shape": np.array([4]), "other": np.array([4])})
    with pytest.raises(DidymaError) as caught:
        graph.run(load_model(m), [np.array([3]), np.array([4]), np.array([5])])
    assert caught.value.code == "dim-out-of-range"
    assert "unequal" in caught.value.where


def test_sizes_of_inputs_that_differ_are_told_at_once() -> None:
    nodes = [node("Concat", ["a", "a"], ["aa"], axis=0), node("Add", ["aa", "a"], ["y"])]
    with pytest.raises(DidymaError) as caught:
        load_model(model(nodes, [value("a", "m")], [free("y")]))
    assert caught.value.code == "shape-mismatch"


def test_a_size_of_the_run_is_held_to_what_inputs_tell() -> None:
    """As many numbers as are counted, added to an input; one of them only, squeezed."""
    nodes = [
        node("NonZero", ["mask"], ["at"]),
        node("Squeeze", ["at", "front"], ["places"]),
        node("Add", ["places", "x"], ["y"]),
        node("Min", ["n", "one"], ["few"]),
        node("ConstantOfShape", ["few"], ["zeros"]),
        node("Squeeze", ["zeros", "front"], ["zero"]),
    ]
    inputs = [value("mask", 4, type=BOOL), value("x", "k", type=I64), value("n", 1, type=I64)]
    m = model(nodes, inputs, [free("y", I64), free("zero")], front=np.array([0]), one=np.array([1]))
    feeds = {"mask": np.array([1, 0, 1, 1], np.bool_), "x": np.arange(3), "n": np.array([7])}
    agrees(m, feeds)
    for name, wrong in (("x", np.arange(2)), ("n", np.array([0]))):
        with pytest.raises(DidymaError) as caught:
            graph.run(load_model(m), list({**feeds, name: wrong}.values()))
        assert caught.value.code == "dim-out-of-range"


def test_what_is_computed_of_a_size_of_the_run_is_a_size() -> None:
    """What is not zero is laid out in rows whose number is computed of how many there are."""
    nodes = [
        node("NonZero", ["x"], ["at"]),
        node("ReduceSum", ["ones"], ["n"], keepdims=0),
        node("Mul", ["n", "two"], ["twice"]),
        node("Unsqueeze", ["n", "front"], ["n1"]),
        node("Unsqueeze", ["twice", "front"], ["rows"]),
        node("Expand", ["k", "n1"], ["one"]),
        node("Concat", ["one", "one"], ["both"], axis=0),
        node("Concat", ["rows", "three"], ["shape"], axis=0),
        node("Expand", ["k", "shape"], ["wide"]),
        node("Concat", ["three", "rows"], ["turned"], axis=0),
        node("Reshape", ["wide", "turned"], ["y"]),
        node("ConstantOfShape", ["rows"], ["zeros"]),
        node("Sum", ["y", "zeros", "both"], ["z"]),
    ]
    m = model(
        [node("Cast", ["x"], ["ones"], to=I64), *nodes], [value("x", 6, type=BOOL)],
        [free("z"), free("at", I64)],
        two=np.array(2), three=np.array([3]), front=np.array([0]), k=np.array(1.5, np.float32),
    )  # fmt: skip
    for x in ([1, 0, 1, 1, 0, 0], [1] * 6):
        found = agrees(m, {"x": np.array(x, np.bool_)})
    assert str(found.entry.result_types()[0]) == "f32[3, 2*u_size]"


def test_a_loop_that_must_be_written_out_names_the_input_that_ends_it() -> None:
    """A row of a round's own number is of one size only where the rounds are known."""
    rows = [
        node("Add", ["i", "one"], ["next"]),
        node("Unsqueeze", ["i", "front"], ["start"]),
        node("Unsqueeze", ["next", "front"], ["stop"]),
        node("Slice", ["table", "start", "stop"], ["row"]),
        node("Add", ["s", "row"], ["s1"]),
        node("Identity", ["going"], ["again"]),
    ]
    inner = body(
        rows, [value("i", type=I64), value("going", type=BOOL), free("s")],
        [value("again", type=BOOL), free("s1")],
    )  # fmt: skip
    table = np.array([3, 1, 4], np.float32)
    m = model(
        [node("Loop", ["n", "c", "x"], ["last"], body=inner)],
        [value("c", type=BOOL), value("x", 1)], [free("last")],
        n=np.array(3), one=np.array(1), front=np.array([0]), table=table,
    )  # fmt: skip
    with pytest.raises(NotConstant) as caught:
        load_model(m)
    assert caught.value.inputs == ("c",)
    x = np.array([0.5], np.float32)
    known = load_model(m, values={"c": np.array(True)})
    assert graph.run(known, [x])[0].tolist() == [8.5]
