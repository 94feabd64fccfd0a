"""Open sizes in arithmetic: what is cut, joined and compared with them, judged by ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from didyma.onnx.load import load_model
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.types import Array
from tests.didyma.onnx.models import agrees, free, model, value

I64 = TensorProto.INT64
node = helper.make_node

NUMBERS = {f"n{i}".replace("-", "m"): np.array([i]) for i in (-1, 0, 1, 2, 3, 4, 7)}


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 12])
def test_every_third_number_is_as_many_as_a_third_rounded_up(n: int) -> None:
    """A convolution in steps of 3 gives one more than is kept; a range tells what is kept."""
    nodes = [
        node("Unsqueeze", ["x", "n1"], ["x1"]),
        node("Conv", ["x1", "kernel"], ["y1"], pads=[1, 4], strides=[3]),
        node("Squeeze", ["y1", "n1"], ["y"]),
        node("Shape", ["x"], ["size"], start=1),
        node("Add", ["size", "n2"], ["more"]),
        node("Div", ["more", "n3"], ["third"]),
        node("Slice", ["y", "n0", "third", "n1"], ["kept"]),
        node("Squeeze", ["third"], ["count"]),
        node("Range", ["zero", "count", "one"], ["places"]),
        node("Less", ["places", "n2s"], ["mask"]),
        node("Where", ["mask", "kept", "nothing"], ["z"]),
    ]
    m = model(
        nodes, [value("x", "b", "n")], [free("z")], 17, **NUMBERS,
        kernel=np.ones((1, 1, 3), np.float32), nothing=np.zeros(1, np.float32), zero=np.array(0),
        one=np.array(1), n2s=np.array(2),
    )  # fmt: skip
    assert [v.name for v in agrees(m, {"x": numbers(2, n)}).dims] == ["b", "n"]


@pytest.mark.parametrize("n", [1, 2, 9])
def test_the_first_and_all_others_are_all(n: int) -> None:
    nodes = [
        node("Slice", ["x", "n0", "n1"], ["first"]),
        node("Slice", ["x", "n1", "most"], ["rest"]),
        node("Slice", ["x", "n0", "nm1"], ["before"]),
        node("Sub", ["rest", "before"], ["steps"]),
        node("Concat", ["first", "steps"], ["y"], axis=0),
        node("Add", ["y", "x"], ["z"]),
    ]
    m = model(
        nodes,
        [value("x", "n")],
        [free("z")],
        17,
        **NUMBERS,
        most=np.array([np.iinfo(np.int64).max]),
    )
    assert [v.name for v in agrees(m, {"x": numbers(n)}).dims] == ["n"]


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("n", [8, 11, 20])
def test_frames_of_a_sound_of_open_length(n: int, rank: int) -> None:
    shape = ("b", "n", 1)[:rank]
    nodes = [node("STFT", ["x", "step", "window"], ["y"])]
    window = np.hanning(8).astype(np.float32)
    m = model(nodes, [value("x", *shape)], [free("y")], step=np.array(4), window=window)
    agrees(m, {"x": numbers(2, n, 1).reshape((2, n, 1)[:rank])})


@pytest.mark.parametrize("n", range(1, 13))
def test_remainders_and_quotients_of_sizes_that_may_be_below_zero(n: int) -> None:
    nodes = [
        node("Shape", ["x"], ["size"]),
        node("Sub", ["size", "n4"], ["less"]),
        node("Mod", ["less", "n3"], ["left"]),
        node("Sub", ["size", "left"], ["end"]),
        node("Slice", ["x", "n0", "end"], ["y"]),
        node("Sub", ["size", "n7"], ["below"]),
        node("Div", ["below", "n2"], ["half"]),
        node("Div", ["below", "nm2"], ["turned"]),
        node("Concat", ["half", "turned", "left"], ["z"], axis=0),
        node("Add", ["z", "zeros"], ["w"]),
    ]
    m = model(
        nodes, [value("x", "n")], [free("y"), free("w", I64)], 17, **NUMBERS, nm2=np.array([-2]),
        zeros=np.zeros(3, np.int64),
    )  # fmt: skip
    agrees(m, {"x": numbers(n)})


@pytest.mark.parametrize("n", [10, 13, 25])
def test_rows_of_what_is_left_after_a_first_part(n: int) -> None:
    """The sound after its first 6 numbers, in rows of 4 times the batch."""
    nodes = [
        node("Shape", ["x"], ["size"], start=1),
        node("Shape", ["x"], ["batch"], end=1),
        node("Sub", ["size", "n6"], ["less"]),
        node("Mod", ["less", "n4"], ["left"]),
        node("Sub", ["size", "left"], ["end"]),
        node("Slice", ["x", "n6", "end", "n1"], ["y"]),
        node("Concat", ["batch", "nm1", "n4"], ["shape"], axis=0),
        node("Reshape", ["y", "shape"], ["z"]),
    ]
    m = model(nodes, [value("x", "b", "n")], [free("z")], 17, **NUMBERS, n6=np.array([6]))
    agrees(m, {"x": numbers(3, n)})


@pytest.mark.parametrize("op", ["LessOrEqual", "GreaterOrEqual", "Less", "Greater", "Equal"])
def test_comparisons_that_hold_for_every_size_are_known(op: str) -> None:
    """A half twice is at most the whole, but not always the whole."""
    nodes = [
        node("Shape", ["x"], ["size"]),
        node("Div", ["size", "n2"], ["half"]),
        node("Mul", ["half", "n2"], ["even"]),
        node("Add", ["size", "n1"], ["more"]),
        node(op, ["even", "more" if op in ("Less", "GreaterOrEqual") else "size"], ["c"]),
        node("Where", ["c", "x", "y"], ["z"]),
    ]
    m = model(nodes, [value("x", "n"), value("y", "n")], [free("z")], 17, **NUMBERS)
    for n in (1, 2, 5):
        f = agrees(m, {"x": numbers(n), "y": numbers(n + 1)[1:]})
    assert ([k.op for k in f.entry.nodes] == ["constant", "where"]) == (op != "Equal")


def test_a_size_that_is_two_others_together_is_told_by_them() -> None:
    """As attention's mask is as long as what is cached and what is new."""
    nodes = [
        node("Concat", ["a", "b"], ["ab"], axis=0),
        node("Mul", ["ab", "mask"], ["y"]),
        node("MatMul", ["w", "ab"], ["z"]),
    ]
    inputs = [value("a", "p"), value("b", "s"), value("mask", "t"), value("w", 2, "u")]
    m = model(nodes, inputs, [free("y"), free("z")])
    assert [v.name for v in load_model(m).dims] == ["p", "s"]
    a, b = numbers(3), numbers(2)
    agrees(m, {"a": a, "b": b, "mask": numbers(5), "w": numbers(2, 5)})
    for mask, w in ((4, 5), (5, 6)):
        with pytest.raises(DidymaError) as caught:
            graph.run(load_model(m), [a, b, numbers(mask), numbers(2, w)])
        assert caught.value.code == "dim-mismatch"


def test_what_was_halved_and_doubled_joins_what_it_was_at_multiples_of_32() -> None:
    nodes = [
        node("MaxPool", ["x"], ["half"], kernel_shape=[2], strides=[2]),
        node("Resize", ["half", "", "scales"], ["whole"], mode="nearest",
             coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        node("Concat", ["whole", "x"], ["y"], axis=1),
    ]  # fmt: skip
    scales = np.array([1, 1, 2], np.float32)
    m = model(nodes, [value("x", 1, 2, "n")], [free("y")], scales=scales)
    agrees(m, {"x": numbers(1, 2, 64)})
    with pytest.raises(DidymaError) as caught:
        graph.run(load_model(m), [numbers(1, 2, 65)])
    assert caught.value.code == "dim-mismatch"


def test_a_table_says_how_long_an_input_can_be() -> None:
    """The first rows of a table of 12, added to an input."""
    nodes = [
        node("Shape", ["x"], ["size"], end=1),
        node("Slice", ["table", "n0", "size", "n0"], ["rows"]),
        node("Add", ["x", "rows"], ["y"]),
    ]
    m = model(nodes, [value("x", "t", 3)], [free("y")], 17, **NUMBERS, table=numbers(12, 3))
    for t in (1, 12):
        f = agrees(m, {"x": numbers(t, 3)})
    assert [(v.name, v.hi) for v in f.dims] == [("t", 12)]
    with pytest.raises(DidymaError) as caught:
        graph.run(f, [numbers(13, 3)])
    assert caught.value.code == "dim-out-of-range"


def test_a_window_says_how_long_an_input_must_be() -> None:
    """The first 6 numbers and 2 more, times a window of 8."""
    nodes = [
        node("Slice", ["x", "n0", "n6"], ["first"]),
        node("Concat", ["first", "more"], ["both"], axis=0),
        node("Mul", ["both", "window"], ["y"]),
    ]
    m = model(
        nodes, [value("x", "n"), value("more", 2)], [free("y")], 17, **NUMBERS,
        n6=np.array([6]), window=numbers(8),
    )  # fmt: skip
    for n in (6, 9):
        f = agrees(m, {"x": numbers(n), "more": numbers(2)})
    assert [v.lo for v in f.dims] == [6]


def test_images_whose_channels_come_last_are_cut_into_windows() -> None:
    """Height and width, in the second and third place, are multiples of a window's."""
    nodes = [
        node("Shape", ["x"], ["size"]),
        node("Split", ["size", "ones"], ["b", "h", "w", "c"]),
        node("Div", ["h", "n4"], ["h4"]),
        node("Div", ["w", "n4"], ["w4"]),
        node("Concat", ["b", "h4", "n4", "w4", "n4", "c"], ["parts"], axis=0),
        node("Reshape", ["x", "parts"], ["apart"]),
        node("Transpose", ["apart"], ["y"], perm=[0, 1, 3, 2, 4, 5]),
    ]
    m = model(
        nodes, [value("x", "b", "h", "w", 3)], [free("y")], 17, **NUMBERS, ones=np.ones(4, int)
    )
    agrees(m, {"x": numbers(2, 32, 64, 3)})


def test_squeeze_without_axes_takes_open_sizes_to_be_larger_than_1() -> None:
    made = helper.make_node("Squeeze", ["x"], ["y"])
    m = model([made], [value("x", "n", 1, 5)], [free("y")])
    x = np.arange(10, dtype=np.float32).reshape(2, 1, 5)
    open_ = load_model(m)
    assert graph.run(open_, [x])[0].tolist() == x[:, 0].tolist()
    with pytest.raises(DidymaError) as e:  # ONNX removes both axes then
        graph.run(open_, [x[:1]])
    assert (e.value.code, e.value.got) == ("dim-out-of-range", "n = 1")
    (y,) = graph.run(load_model(m, sizes={"n": 1}), [x[:1]])
    assert y.shape == (5,)


W = np.ones((8, 3, 2, 2), np.float32)
NEEDED: dict[str, tuple[list[onnx.NodeProto], dict[str, Array], tuple[int, ...]]] = {
    "Gemm": ([node("Gemm", ["x", "w"], ["y"], transB=1)], {"w": W[:, :, 0, 0]}, (5, 3)),
    "MatMul": ([node("MatMul", ["x", "w"], ["y"])], {"w": W[0, :, 0]}, (4, 5, 3)),
    "Conv": ([node("Conv", ["x", "w"], ["y"])], {"w": W}, (1, 3, 64, 32)),
    "Conv of groups": (
        [node("Conv", ["x", "w"], ["y"], group=3)], {"w": W[:6, :1]}, (1, 3, 64, 32)
    ),
    "ConvTranspose": ([node("ConvTranspose", ["x", "w"], ["y"])], {"w": W}, (1, 8, 64, 32)),
    "Einsum": (
        [node("Einsum", ["x", "w"], ["y"], equation="bf,fo->bo")], {"w": W[0, :, 0]}, (5, 3)
    ),
    "LayerNormalization": (
        [node("LayerNormalization", ["x", "w", "w"], ["y"])], {"w": W[0, :, 0, 0]}, (5, 3)
    ),
    "BatchNormalization": (
        [node("BatchNormalization", ["x", *"wwww"], ["y"])], {"w": W[0, :, 0, 0]}, (2, 3, 5)
    ),
    "PRelu": ([node("PRelu", ["x", "w"], ["y"])], {"w": W[0, :, :1, 0]}, (2, 3, 5)),
    "Concat": ([node("Concat", ["x", "w"], ["y"], axis=0)], {"w": W[0, :, 0].T}, (5, 3)),
}  # fmt: skip


CHANNELS = ("BatchNormalization", "PRelu")


@pytest.mark.parametrize("name", NEEDED)
def test_an_open_size_that_weights_tell_is_that_number(name: str) -> None:
    nodes, weights, shape = NEEDED[name]
    held = {k: np.ascontiguousarray(w) for k, w in weights.items()}
    x = value("x", *(f"d{i}" for i in range(len(shape))))
    f = agrees(model(nodes, [x], [free("y")], 17, **held), {"x": numbers(*shape)})
    features = 1 if name in ("Conv", "Conv of groups", "ConvTranspose", *CHANNELS) else -1
    assert f.entry.params[0].type.shape[features] == shape[features]


def test_a_size_that_weights_contradict_is_refused() -> None:
    m = model(
        [node("MatMul", ["x", "w"], ["y"])], [value("x", "n", "f")], [free("y")], w=W[0, :, 0]
    )
    with pytest.raises(DidymaError) as e:
        load_model(m, sizes={"f": 4})
    assert e.value.code == "shape-mismatch"
    two = [node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["x", "v"], ["b"]),
           node("Add", ["a", "b"], ["y"])]  # fmt: skip
    with pytest.raises(DidymaError) as e:
        load_model(model(two, [value("x", "n", "f")], [free("y")], w=W[0, :, 0], v=W[:, 0, 0]))
    assert e.value.code == "shape-mismatch"
