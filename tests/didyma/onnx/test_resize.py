"""Resize and Upsample over sizes that only the run tells, judged by ONNX's evaluator and by ORT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from didyma.fuzz.peers.ort import run_model
from didyma.onnx.load import load_model
from didyma.onnx.rules.resize_axes import simplest_fraction
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.types import Array
from tests.didyma.onnx.models import agrees, f32, free, model, one, value
from tests.didyma.onnx.test_control import ops

node = helper.make_node
MODES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
KINDS = ("linear", "cubic", *ROUNDINGS)
SIZES = ((1, 1), (1, 4), (2, 1), (3, 2), (3, 7), (4, 8), (5, 5), (6, 4), (8, 3), (9, 16))


def drawn(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def resize(
    spatial: Sequence[int | str], to: Sequence[int | str] | Array, kind: str, **attrs: Any
) -> onnx.ModelProto:
    """Resize the last axes of ``x`` by scales, or to the shape of ``z``."""
    attrs = {"axes": [2 + i for i in range(len(spatial))], **attrs}
    if kind in ROUNDINGS:
        attrs["nearest_mode"] = kind
        kind = "nearest"
    inputs = [value("x", 1, 2, *spatial)]
    names = list[str]()
    weights: dict[str, Array] = {"roi": f32(*attrs.pop("roi", []))}
    if isinstance(to, np.ndarray):
        names, weights["scales"] = ["x", "roi", "scales"], to
    else:
        names = ["x", "roi", "", "sizes"]
        inputs.append(value("z", *to))
    nodes = [node("Shape", ["z"], ["sizes"])] if len(names) > 3 else []
    nodes.append(node("Resize", names, ["y"], mode=kind, **attrs))
    return model(nodes, inputs, [free("y")], 19, **weights)


def evaluated(m: onnx.ModelProto, feeds: Mapping[str, Array]) -> Array:
    evaluator: Any = ReferenceEvaluator(m)
    return np.asarray(evaluator.run(None, dict(feeds))[0])


def ran(m: onnx.ModelProto, feeds: Mapping[str, Array]) -> Array:
    pytest.importorskip("onnxruntime")
    return run_model(m, feeds)[0]


def place(i: int, n: int, out: int, mode: str) -> Fraction:
    """Place of the operand as ONNX defines it, for a size that is given."""
    match mode:
        case "asymmetric":
            return Fraction(i * n, out)
        case "align_corners":
            return Fraction(i * (n - 1), out - 1) if out > 1 else Fraction(0)
        case "pytorch_half_pixel" if out == 1:
            return Fraction(0)
        case _:
            return Fraction((2 * i + 1) * n, 2 * out) - Fraction(1, 2)


def rounded(x: Fraction, how: str) -> int:
    match how:
        case "floor":
            return x.__floor__()
        case "ceil":
            return x.__ceil__()
        case "round_prefer_floor":
            return (x - Fraction(1, 2)).__ceil__()
        case _:
            return (x + Fraction(1, 2)).__floor__()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ROUNDINGS)
def test_nearest_to_a_size_is_exact(mode: str, how: str) -> None:
    m = load_model(resize(["n"], ["out"], how, coordinate_transformation_mode=mode))
    for n in range(1, 16):
        x = drawn(1, 2, n)
        fixed = resize([n], ["out"], how, coordinate_transformation_mode=mode)
        half = load_model(fixed)
        for out in range(1, 16):
            z = np.zeros(out, np.float32)
            at = [rounded(place(i, n, out, mode), how) for i in range(out)]
            want = x[:, :, np.clip(at, 0, n - 1)]
            for found in (m, half):
                np.testing.assert_array_equal(graph.run(found, [x, z])[0], want)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["linear", "cubic"])
def test_weighted_to_a_size_is_as_in_onnx_runtime(mode: str, kind: str) -> None:
    pytest.importorskip("onnxruntime")
    attrs = {"coordinate_transformation_mode": mode}
    m = resize(["h", "w"], ["p", "q"], kind, **attrs)
    found = load_model(m)
    for (h, p), (w, q) in zip(SIZES, reversed(SIZES), strict=True):
        x, z = drawn(1, 2, h, w), np.zeros((p, q), np.float32)
        (got,) = graph.run(found, [x, z])
        (want,) = run_model(m, {"x": x, "z": z})
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
        (known,) = graph.run(load_model(resize([h, w], [p, q], kind, **attrs)), [x, z])
        np.testing.assert_allclose(got, known, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_scales_are_as_for_known_sizes(mode: str, kind: str) -> None:
    for scales in ((0.5, 1.7), (2.0, 0.6), (3.0, 1 / 3), (1.25, 0.7)):
        attrs = {"coordinate_transformation_mode": mode}
        m = resize(["h", "w"], f32(*scales), kind, **attrs)
        found = load_model(m)
        for h, w in ((2, 3), (5, 8), (10, 15)):
            x = drawn(1, 2, h, w)
            (got,) = graph.run(found, [x])
            (known,) = graph.run(load_model(resize([h, w], f32(*scales), kind, **attrs)), [x])
            np.testing.assert_allclose(got, known, rtol=1e-6, atol=1e-6, strict=True)
            if kind in ("linear", "cubic"):  # else ORT's places, of 24 bits, are off where whole
                runs = evaluated if mode == "align_corners" else ran  # ORT rounds the size there
                want = runs(m, {"x": x})
                cut = tuple(slice(d) for d in want.shape)  # see the test of sizes below
                np.testing.assert_allclose(got[cut], want, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("scale", [0.1, 0.3, 0.6, 0.7, 0.8, 1 / 3, 1.1, 1.6, 2.3, 1333 / 480])
def test_sizes_are_what_the_scale_means(scale: float) -> None:
    pytest.importorskip("onnxruntime")
    m = resize(["n"], f32(scale), "linear")
    found = load_model(m)
    for n in (10, 20, 21, 30, 480):
        x = drawn(1, 2, n)
        (want,) = run_model(m, {"x": x})
        (got,) = graph.run(found, [x])
        assert got.shape == want.shape
        (known,) = graph.run(load_model(resize([n], f32(scale), "linear")), [x])
        assert known.shape == want.shape


@given(st.integers(1, 999), st.integers(1, 999))
def test_a_float_means_the_fraction_it_was_made_of(up: int, down: int) -> None:
    assert simplest_fraction(np.float32(up / down)) == Fraction(up, down)
    assert simplest_fraction(np.float32(-up / down)) == Fraction(-up, down)


@pytest.mark.parametrize("kind", ["linear", "cubic", "floor"])
@pytest.mark.parametrize("roi", [(0.25, 0.0, 0.75, 1.0), (0.4, 0.6, 0.6, 0.8), (0, 0, 1.25, 1.5)])
def test_crops(kind: str, roi: Sequence[float]) -> None:
    attrs: dict[str, Any] = {
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 7.0,
        "roi": roi,
    }
    m = resize(["h", "w"], ["p", "q"], kind, **attrs)
    found = load_model(m)
    for h, w, p, q in ((4, 5, 3, 7), (9, 3, 1, 1), (8, 6, 2, 5)):
        x, z = drawn(1, 2, h, w), np.zeros((p, q), np.float32)
        (got,) = graph.run(found, [x, z])
        (known,) = graph.run(load_model(resize([h, w], [p, q], kind, **attrs)), [x, z])
        np.testing.assert_allclose(got, known, rtol=1e-6, atol=1e-6)
        if kind != "floor":  # which f64 misses by a rounding where a place is whole
            want = evaluated(m, {"x": x, "z": z})
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["linear", "cubic"])
@pytest.mark.parametrize("outside", [0, 1])
def test_antialias_and_exclude_outside(kind: str, outside: int) -> None:
    for antialias in (0, 1):
        attrs = {"antialias": antialias, "exclude_outside": outside}
        by_size = resize(["n"], ["out"], kind, **attrs)
        found = load_model(by_size)
        for n, out in ((1, 1), (7, 3), (12, 5), (16, 4), (3, 8), (9, 2)):
            feeds = {"x": drawn(1, 2, n), "z": np.zeros(out, np.float32)}
            (got,) = graph.run(found, list(feeds.values()))
            want = evaluated(by_size, feeds)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
            by_scale = resize(["n"], f32(out / n), kind, **attrs)
            (got,) = graph.run(load_model(by_scale), [feeds["x"]])
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_aspect_ratio_is_kept(policy: str) -> None:
    m = resize(["h", "w"], ["p", "q"], "linear", keep_aspect_ratio_policy=policy)
    for h, w, p, q in ((4, 6, 8, 9), (5, 5, 3, 9), (7, 3, 2, 2), (2, 2, 2, 2)):
        agrees(m, {"x": drawn(1, 2, h, w), "z": np.zeros((p, q), np.float32)}, (h, w) == (4, 6))


@pytest.mark.parametrize("kind", ["linear", "cubic", "round_prefer_floor"])
def test_back_to_the_size_of_an_operand_at_every_level(kind: str) -> None:
    attrs = {"nearest_mode": kind, "mode": "nearest"} if kind in ROUNDINGS else {"mode": kind}
    nodes = [
        node("Conv", ["x", "w"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Shape", ["x"], ["sizes"]),
        node("Resize", ["c", "", "", "sizes"], ["r"], **attrs),
        node("Add", ["r", "x"], ["y"]),
    ]
    m = model(
        nodes, [value("x", "n", 2, "h", "w")], [free("y")], 19, w=np.trunc(drawn(2, 2, 3, 3) * 2)
    )
    for n, h, w in ((1, 1, 1), (2, 4, 7), (1, 9, 6)):
        agrees(m, {"x": drawn(n, 2, h, w)}, h == 4, atol=1e-5)


@pytest.mark.parametrize("antialias", [0, 1])
def test_sizes_that_the_run_tells(antialias: int) -> None:
    resized = node("Resize", ["x", "", "", "s"], ["y"], mode="linear", antialias=antialias)
    sizes = value("s", 3, type=TensorProto.INT64)
    m = model([resized], [value("x", 1, 2, "n"), sizes], [free("y")], 19)
    for n, out in ((5, 3), (4, 9)):
        agrees(m, {"x": drawn(1, 2, n), "s": np.array([1, 2, out])})


def test_whole_factors_only_move_places() -> None:
    by = f32(2, 3)
    moved = load_model(resize(["h", "w"], by, "round_prefer_floor"))
    assert ops(moved) == {"reshape", "broadcast_to"}
    x = drawn(1, 2, 3, 4)
    for how in ROUNDINGS:
        m = resize(["h", "w"], by, how)
        np.testing.assert_array_equal(
            graph.run(load_model(m), [x])[0], evaluated(m, {"x": x}), strict=True
        )


def test_upsample_in_its_two_forms() -> None:
    pytest.importorskip("onnxruntime")
    for mode in ("nearest", "linear"):
        old = one("Upsample", (1, 2, "h", "w"), opset=7, mode=mode, scales=[1.0, 1.0, 2.0, 3.0])
        new = model(
            [node("Upsample", ["x0", "s"], ["y"], mode=mode)],
            [value("x0", 1, 2, "h", "w")], [free("y")], 9, s=f32(1, 1, 2, 3),
        )  # fmt: skip
        for m in (old, new):
            agrees(m, {"x0": drawn(1, 2, 3, 5)}, levels=False)


def test_integers_are_weighted_as_floats() -> None:
    m = resize(["n"], ["out"], "linear")
    m.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    m.graph.output[0].type.tensor_type.elem_type = TensorProto.UINT8
    x = np.random.default_rng(7).integers(0, 256, (1, 2, 6)).astype(np.uint8)
    z = np.zeros(9, np.float32)
    for spatial in ("n", 6):
        m.graph.input[0].CopyFrom(value("x", 1, 2, spatial, type=TensorProto.UINT8))
        (got,) = graph.run(load_model(m), [x, z])
        at = np.clip((np.arange(9) + 0.5) * 6 / 9 - 0.5, 0, 5)
        low = np.minimum(at.astype(np.int64), 4)
        want: Array = x[0][:, low] * (low + 1 - at) + x[0][:, low + 1] * (at - low)
        between = np.abs(want - np.round(want)) > 1e-3  # else rounding decides what is cut off
        assert between.sum() > 6
        np.testing.assert_array_equal(got[0][between], want.astype(np.uint8)[between], strict=True)


def test_places_that_no_integer_holds_are_refused() -> None:
    with pytest.raises(DidymaError, match="numbers of up to") as e:
        load_model(resize(["n"], f32(1e-30), "linear"))
    assert e.value.code == "D-too-large"


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.nan])
def test_scales_must_be_positive(scale: float) -> None:
    with pytest.raises(DidymaError) as e:
        load_model(resize(["n"], f32(scale), "linear"))
    assert e.value.code == "onnx-broken"
