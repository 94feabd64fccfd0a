"""Operators in old operator sets, judged by NumPy or, where it has them, by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import onnx
import pytest
from onnx import helper

from didyma.fuzz.peers.ort import run_model
from didyma.onnx.load import load_model
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.types import Array
from tests.didyma.onnx.models import f32, free, model, value

Attrs: TypeAlias = Mapping[str, Any]
RNG = np.random.default_rng(7)
X = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
BOOLS = X > 0
ROUNDED = np.round(X)


def ints(*n: int) -> Array:
    return np.array(n, np.int64)


def node(op: str, opset: int, *operands: Array, known: int = 0, **attrs: Any) -> onnx.ModelProto:
    """Make a model of one node, the last ``known`` of whose operands are initializers."""
    names = [f"x{i}" for i in range(len(operands))]
    given = list(zip(names, operands, strict=True))
    first = len(given) - known
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in given[:first]
    ]
    made = helper.make_node(op, names, ["y"], name="the_node", **attrs)
    output = helper.make_empty_tensor_value_info("y")
    return model([made], inputs, [output], opset, **dict(given[first:]))


def run(op: str, opset: int, *operands: Array, known: int = 0, **attrs: Any) -> Array:
    m = load_model(node(op, opset, *operands, known=known, **attrs))
    (y,) = graph.run(m, operands[: len(operands) - known])
    return y


def refused(op: str, opset: int, *operands: Array, known: int = 0, **attrs: Any) -> DidymaError:
    with pytest.raises(DidymaError) as e:
        load_model(node(op, opset, *operands, known=known, **attrs))
    said = "\n".join([str(e.value), *getattr(e.value, "__notes__", [])])
    assert f"node {op} the_node (opset {opset})" in said
    return e.value


# Broadcasting before opset 7 ----------------------------------------------------------------------

BINARY: dict[str, tuple[Callable[[Array, Array], Array], Array]] = {
    "Add": (np.add, X),
    "Sub": (np.subtract, X),
    "Mul": (np.multiply, X),
    "Div": (np.divide, X),
    "Pow": (np.power, np.abs(X)),
    "And": (np.logical_and, BOOLS),
    "Or": (np.logical_or, BOOLS),
    "Xor": (np.logical_xor, BOOLS),
    "Equal": (np.equal, ROUNDED.astype(np.int32)),
    "Greater": (np.greater, ROUNDED),
    "Less": (np.less, ROUNDED),
}
SINCE = {"Add": (1, 6), "Sub": (1, 6), "Mul": (1, 6), "Div": (1, 6)}


@pytest.mark.parametrize("op", BINARY)
def test_a_second_operand_is_aligned_with_the_axis_named(op: str) -> None:
    f, x = BINARY[op]
    parts: tuple[tuple[Array, Attrs, tuple[int, ...]], ...] = (
        (x[0, 0, 0], {}, (5,)),
        (x[1, 2], {}, (4, 5)),
        (x[0, :, :, 0], {"axis": 1}, (3, 4, 1)),
        (x[:, 0, 0, 0], {"axis": 0}, (2, 1, 1, 1)),
        (x[0, :, 0, 0], {"axis": -3}, (3, 1, 1)),
        (x[0, 0, 0, 0], {}, ()),
        (x[0, 0, 0, :1], {"axis": 1}, (1, 1, 1)),
        (x[0, :, :1, 0], {"axis": 1}, (3, 1, 1)),
        (x[1], {"axis": 1}, (3, 4, 5)),
    )
    for opset in SINCE.get(op, (1, 6)):
        for part, attrs, shape in parts:
            part = np.ascontiguousarray(part)
            got = run(op, opset, x, part, broadcast=1, **attrs)
            np.testing.assert_allclose(got, f(x, part.reshape(shape)), rtol=1e-6)
        np.testing.assert_allclose(run(op, opset, x, x), f(x, x), rtol=1e-6)


def test_equal_sizes_are_no_reason_to_align_the_last_axes() -> None:
    x, y = X[0, :, :3, :3], f32(1, 10, 100)
    got = run("Mul", 6, x, y, broadcast=1, axis=0)
    assert got.tolist() == (x * y[:, None, None]).tolist()


@pytest.mark.parametrize("op", BINARY)
def test_shapes_that_an_old_opset_does_not_take_are_refused(op: str) -> None:
    x = BINARY[op][1]
    for part, attrs in (
        (x[0], {}),  # no broadcast
        (x[:1], {}),
        (x[0, :, 0, 0], {"broadcast": 1}),  # 3 against the last axis, 5
        (x[0, :, 0, 0], {"broadcast": 1, "axis": 2}),
        (x[0, 0], {"broadcast": 1, "axis": 3}),  # beyond the end
        (x[:, None], {"broadcast": 1}),  # of a larger rank
    ):
        part = np.ascontiguousarray(part)
        assert refused(op, 6, x, part, **attrs).code == "onnx-broken"
    e = refused(op, 6, x[:, :1], x, broadcast=1)
    assert e.code == "onnx-broken"  # the first operand is not spread


@pytest.mark.parametrize("op", ["Max", "Min", "Mean", "Sum"])
def test_before_opset_8_operands_of_these_have_one_shape(op: str) -> None:
    assert refused(op, 6, X, X[0]).want == "operands of one shape"
    want = {"Max": X, "Min": X, "Mean": X, "Sum": X + X}[op]
    np.testing.assert_allclose(run(op, 6, X, X), want, rtol=1e-6)
    assert run(op, 8, X, X[0]).shape == X.shape


def test_gemm_needs_the_attribute_to_spread_its_third_operand() -> None:
    a, b, bias = X[0, 0], X[0, 1].T.copy(), X[0, 2, :, 0].copy()
    assert refused("Gemm", 6, a, b, bias).want == "f32[4, 4], or broadcast = 1"
    np.testing.assert_allclose(run("Gemm", 6, a, b, bias, broadcast=1), a @ b + bias, rtol=1e-5)
    got = run("Gemm", 1, a, b.T.copy(), a @ b, transB=1)
    np.testing.assert_allclose(got, 2 * (a @ b), rtol=1e-5)


@pytest.mark.parametrize("opset", [6, 7, 13])
def test_the_third_operand_of_gemm_does_not_enlarge_the_product(opset: int) -> None:
    attrs = {"broadcast": 1} if opset < 7 else {}
    e = refused("Gemm", opset, X[0, 0, :1], X[0, 1].T.copy(), X[0, 2, :, :4].copy(), **attrs)
    assert (e.code, e.want) == ("onnx-broken", "a shape that broadcasts to f32[1, 4]")


# Slopes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize("rank", [2, 3, 4])
def test_before_opset_7_prelu_has_a_slope_a_channel(opset: int, rank: int) -> None:
    x = X.reshape(2, 3, *X.shape[2:rank], -1)[..., 0]
    for slope in (f32(0.5, -2, 10), f32(0.25), np.array(-3, np.float32)):
        spread = slope.reshape(-1, *[1] * (rank - 2)) if slope.size > 1 else slope.reshape(())
        for known in (0, 1):
            got = run("PRelu", opset, x, slope, known=known)
            assert got.tolist() == np.where(x < 0, x * spread, x).tolist()


def test_three_slopes_belong_to_the_channels_also_where_the_last_axis_has_three() -> None:
    x, slope = X[:, :, :, :3].copy(), f32(0.5, -2, 10)
    old, new = run("PRelu", 6, x, slope), run("PRelu", 7, x, slope)
    assert old.tolist() == np.where(x < 0, x * slope[:, None, None], x).tolist()
    assert new.tolist() == np.where(x < 0, x * slope, x).tolist()


def test_slopes_that_do_not_fit_the_channels_are_refused() -> None:
    e = refused("PRelu", 6, X, f32(1, 2, 3, 4, 5))
    assert (e.code, e.want) == ("onnx-broken", "one slope, or 3: one for each channel")


# Attributes that were written in another way ------------------------------------------------------


def test_cast_spelled_its_element_type() -> None:
    for word in ("INT32", "int32"):
        got = run("Cast", 1, X, to=word)
        assert got.dtype == np.int32
        assert got.tolist() == X.astype(np.int32).tolist()
    assert refused("Cast", 1, X, to="int33").got == "to = 'int33'"


def test_concat_and_split_had_other_defaults() -> None:
    assert run("Concat", 1, X, X).shape == (2, 6, 4, 5)
    made = helper.make_node("Split", ["x", "sizes"], ["a", "b"], axis=2)
    inputs = [helper.make_tensor_value_info("x", 1, X.shape)]
    m = model([made], inputs, [free("a"), free("b")], 1, sizes=f32(1, 3))
    a, b = graph.run(load_model(m), [X])
    assert (a.tolist(), b.tolist()) == (X[:, :, :1].tolist(), X[:, :, 1:].tolist())


def test_tile_repeated_one_axis() -> None:
    got = run("Tile", 1, X, f32(3), f32(1), known=2)
    assert got.tolist() == np.tile(X, (1, 3, 1, 1)).tolist()
    assert refused("Tile", 1, X, f32(2.5), f32(1), known=2).want == "integers"
    assert refused("Tile", 1, X, f32(2, 3), f32(1), known=2).want == "one number each"


def test_upsample_named_the_scales_of_two_axes() -> None:
    got = run("Upsample", 1, X, height_scale=2.0, width_scale=3.0)
    assert got.tolist() == X.repeat(2, 2).repeat(3, 3).tolist()
    assert refused("Upsample", 1, X[0], height_scale=2.0, width_scale=3.0).code == "onnx-broken"


def test_pad_and_reshape_had_attributes_for_operands() -> None:
    got = run("Pad", 1, X[0, 0], paddings=[1, 0, 0, 2], value=1.5)
    assert got.tolist() == np.pad(X[0, 0], ((1, 0), (0, 2)), constant_values=1.5).tolist()
    for known in (0, 1):
        got = run("Reshape", 1, X, shape=[0, -1, 10], known=known)
        assert got.tolist() == X.reshape(2, -1, 10).tolist()
    assert refused("Reshape", 1, X).got == "no shape"


def test_norm_pooling_wrote_its_power_as_a_float() -> None:
    got = run("GlobalLpPool", 1, X, p=3.0)
    want = np.power(np.sum(np.abs(X) ** 3, (2, 3), keepdims=True), 1 / 3)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    assert refused("GlobalLpPool", 1, X, p=2.5).got == "p = 2.5"
    assert refused("LpPool", 1, X, p=2.5, kernel_shape=[2, 2]).code == "onnx-unsupported"
    assert refused("LpPool", 1, X, p=3.0).want == "the attribute kernel_shape"


# Operators that only newer versions define by others ----------------------------------------------


def agree(op: str, opset: int, *operands: Array, known: int = 0, **attrs: Any) -> None:
    m = node(op, opset, *operands, known=known, **attrs)
    given = operands[: len(operands) - known]
    (want,) = run_model(m, {f"x{i}": a for i, a in enumerate(given)})
    (got,) = graph.run(load_model(m), given)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [1, 11, 13])
def test_channels_move_into_space_and_back(opset: int) -> None:
    x = RNG.standard_normal((2, 12, 2, 3)).astype(np.float32)
    agree("DepthToSpace", opset, x, blocksize=2)
    if opset > 1:
        agree("DepthToSpace", opset, x, blocksize=2, mode="CRD")
    agree("SpaceToDepth", opset, x.reshape(2, 2, 6, 6), blocksize=3)


def test_images_of_open_sizes_move_into_channels() -> None:
    made = helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2)
    m = load_model(model([made], [value("x", "n", 3, "h", "w")], [free("y")], 13))
    x = RNG.standard_normal((1, 3, 64, 96)).astype(np.float32)
    (y,) = graph.run(m, [x])
    want = x.reshape(1, 3, 32, 2, 48, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 12, 32, 48)
    assert y.tolist() == want.tolist()


def test_channels_and_sizes_that_blocks_do_not_fit_are_refused() -> None:
    e = refused("DepthToSpace", 13, X, blocksize=2)
    assert (e.code, e.got, e.want) == ("onnx-broken", "3 channels", "a multiple of 4")
    assert refused("SpaceToDepth", 13, X, blocksize=2).want == "multiples of 2"
    assert refused("DepthToSpace", 13, X, blocksize=0).got == "blocksize 0"
    assert refused("DepthToSpace", 13, X[0], blocksize=2).want == "a tensor of rank 4"


@pytest.mark.parametrize("opset", [1, 11, 13])
def test_the_logarithm_of_a_sum_of_exponentials(opset: int) -> None:
    agree("ReduceLogSumExp", opset, 100 * X, axes=[1, 3])
    agree("ReduceLogSumExp", opset, X, keepdims=0)
    inf = np.array([[np.inf, 1], [-np.inf, -np.inf], [np.nan, 1]], np.float32)
    assert str(run("ReduceLogSumExp", opset, inf, axes=[1], keepdims=0)) == "[ inf -inf  nan]"


@pytest.mark.parametrize(
    "op",
    ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare", "ReduceSum"],
)
def test_a_reduction_over_no_axes_does_all_but_the_reduction(op: str) -> None:
    agree(op, 18, X, noop_with_empty_axes=1)
    agree(op, 18, X, ints(), known=1, noop_with_empty_axes=1)
    agree(op, 18, np.abs(X), ints(), known=1)


@pytest.mark.parametrize("opset", [18, 20])
def test_before_opset_21_groups_have_a_scale_each(opset: int) -> None:
    x = RNG.standard_normal((2, 6, 4)).astype(np.float32)
    agree("GroupNormalization", opset, x, f32(1, 2, 3), f32(0, 0.5, -1), num_groups=3)
    e = refused("GroupNormalization", opset, x, np.ones(6, np.float32), f32(0, 1, 2), num_groups=3)
    assert (e.got, e.want) == ("f32[6] for 3 groups", "f32[3]")
    odd = np.ones((2, 7, 3), np.float32)
    e = refused("GroupNormalization", opset, odd, f32(1, 2, 3), f32(0, 1, 2), num_groups=3)
    assert e.want == "equally many channels in each"


def test_an_operator_that_was_taken_away_is_refused() -> None:
    e = refused("Scatter", 11, X[0, 0], np.zeros((1, 2), np.int64), X[0, :1, 0, :2].copy())
    assert e.got == "Scatter, which opset 11 removed"


# Defaults -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [1, 6, 11, 13])
def test_an_end_that_clip_leaves_out_is_the_largest_finite_number(opset: int) -> None:
    x = f32(np.inf, -np.inf, 3, np.nan)
    most = float(np.finfo(np.float32).max)
    np.testing.assert_array_equal(run("Clip", opset, x), f32(most, -most, 3, np.nan))
    half = run("Clip", opset, x.astype(np.float16))
    assert half[:3].tolist() == [65504, -65504, 3]
    if opset >= 6:
        assert run_model(node("Clip", opset, x), {"x0": x})[0].tolist()[:2] == [most, -most]


def test_clip_leaves_integers_alone() -> None:
    x = ints(-(2**63), 2**63 - 1)
    assert run("Clip", 13, x).tolist() == x.tolist()


@pytest.mark.parametrize(
    ("op", "want"),
    [
        ("LeakyRelu", float(np.float32(0.01)) * -3),
        ("HardSigmoid", float(np.float32(0.2)) * -0.75 + 0.5),
        (
            "Selu",
            float(np.float32(1.6732631921768188))
            * float(np.float32(1.0507010221481323))
            * np.expm1(-0.5),
        ),
    ],
)
def test_defaults_are_f32_numbers_in_f64_models_too(op: str, want: float) -> None:
    at = {"LeakyRelu": -3.0, "HardSigmoid": -0.75, "Selu": -0.5}[op]
    (got,) = run(op, 6, np.array([at]))
    assert got == pytest.approx(want, rel=1e-14)


def test_the_default_epsilon_is_an_f32_number() -> None:
    x = X.astype(np.float64)
    ones = np.full(3, 1e-6)
    m = node("BatchNormalization", 9, x, ones, ones, ones, ones, known=4)
    got = run("BatchNormalization", 9, x, ones, ones, ones, ones, known=4)
    (want,) = run_model(m, {"x0": x})
    np.testing.assert_allclose(got, want, rtol=1e-13)
