"""Windows over sizes that only the run tells, judged by ONNX Runtime at several of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import engine
from didyma.fuzz.levels import runner
from didyma.fuzz.peers.ort import run_model
from didyma.onnx.export import to_model
from didyma.onnx.load import load_model
from didyma.refimpl.interp import graph
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array
from tests.didyma.onnx.models import free, model, value

node = helper.make_node
H, W = dims.symbol("h"), dims.symbol("w")
SIZES = ((7, 8), (12, 5), (3, 4), (1, 2), (16, 9))
DRAW = np.random.default_rng(0)
WEIGHTS = DRAW.standard_normal((4, 2, 3, 5)).astype(np.float32)
POINTS = DRAW.standard_normal((4, 2, 1, 1)).astype(np.float32)
SMALL = DRAW.integers(-9, 9, (3, 2, 3, 3)).astype(np.int8)


def open_sizes(*nodes: onnx.NodeProto, opset: int = 18, **weights: Array) -> onnx.ModelProto:
    """Make a model from x to y over images of open sizes."""
    return model(nodes, [value("x", 1, 2, "h", "w")], [free("y")], opset, **weights)


def image(h: int, w: int) -> Array:
    return np.random.default_rng(h * 100 + w).standard_normal((1, 2, h, w)).astype(np.float32)


def agrees(m: onnx.ModelProto, *sizes: tuple[int, int], levels: bool = False) -> Module:
    """Require ONNX Runtime's values at each size, of the graph and of the program on the host."""
    pytest.importorskip("onnxruntime")
    found = load_model(m)
    assert found.entry.params[0].type.shape == (1, 2, H, W)
    host = engine("host")
    program = runner(compile(found), host) if levels else None
    for h, w in sizes or SIZES:
        x = image(h, w)
        (want, *_) = run_model(m, {"x": x})
        runs = [graph.run(found, [x])]
        if program is not None:
            runs.append(program(host, [x]))
        for got, *_ in runs:
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, strict=True)
    return found


def pool(op: str, **attrs: Any) -> onnx.ModelProto:
    return open_sizes(node(op, ["x"], ["y"], **attrs), opset=19)


AUTO = ("SAME_UPPER", "SAME_LOWER")
POOLS: tuple[tuple[str, Mapping[str, int]], ...] = (
    ("MaxPool", {}),
    ("AveragePool", {"count_include_pad": 0}),
    ("AveragePool", {"count_include_pad": 1}),
    ("LpPool", {}),
)
IDS = ["max", "avg", "avg-counted", "lp"]


@pytest.mark.parametrize("auto", AUTO)
@pytest.mark.parametrize(("op", "attrs"), POOLS, ids=IDS)
@pytest.mark.parametrize(
    ("kernel", "strides"), [((3, 3), (2, 2)), ((2, 5), (2, 3)), ((4, 3), (1, 3))]
)
def test_pools_of_the_same_size(
    auto: str, op: str, attrs: Mapping[str, int], kernel: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    m = pool(op, kernel_shape=kernel, strides=strides, auto_pad=auto, **attrs)
    want = [dims.ceildiv(n, s) for n, s in zip((H, W), strides, strict=True)]
    levels = kernel == (2, 5)
    assert agrees(m, levels=levels).entry.result_types()[0].shape == (1, 2, *want)


@pytest.mark.parametrize("auto", AUTO)
@pytest.mark.parametrize("strides", [(2, 2), (3, 1), (2, 3)])
def test_convolutions_of_the_same_size(auto: str, strides: tuple[int, ...]) -> None:
    wide = node("Conv", ["x", "w"], ["a"], strides=strides, auto_pad=auto)
    points = node("Conv", ["x", "p"], ["b"], strides=strides, auto_pad=auto)
    m = open_sizes(wide, points, node("Add", ["a", "b"], ["y"]), w=WEIGHTS, p=POINTS)
    found = agrees(m, levels=True)
    want = [dims.ceildiv(n, s) for n, s in zip((H, W), strides, strict=True)]
    assert found.entry.result_types()[0].shape == (1, 4, *want)


@pytest.mark.parametrize("auto", AUTO)
def test_windows_with_gaps_of_the_same_size(auto: str) -> None:
    """TensorFlow pads by no less than nothing; ONNX Runtime refuses to pool then."""
    m = load_model(pool("MaxPool", kernel_shape=(2, 1), strides=(3, 4), auto_pad=auto))
    program, host = runner(compile(m), engine("host")), engine("host")
    for h, w in SIZES:
        x = image(h, w)
        before = int(h % 3 == 1 and auto == "SAME_LOWER")
        tall = np.pad(x, ((0, 0),) * 2 + ((before, 2), (0, 0)), constant_values=-np.inf)
        want = np.maximum(
            tall[:, :, : h + before : 3, ::4], tall[:, :, 1 : h + before + 1 : 3, ::4]
        )
        for (got,) in (graph.run(m, [x]), program(host, [x])):
            np.testing.assert_array_equal(got, want)


def test_integer_convolutions_of_the_same_size() -> None:
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        node("ConvInteger", ["q", "w", "zero"], ["i"], strides=(2, 2), auto_pad="SAME_UPPER"),
        node("Cast", ["i"], ["y"], to=TensorProto.FLOAT),
    ]
    scale, zero = np.array(0.05, np.float32), np.array(9, np.uint8)
    agrees(open_sizes(*nodes, scale=scale, zero=zero, w=SMALL), levels=True)


def test_branches_and_depths_of_the_same_size_meet() -> None:
    """SAME, explicit pads and 1 x 1 windows in steps of 2, four levels deep."""
    nodes: list[onnx.NodeProto] = []
    at = "x"
    for k in range(4):
        y = "y" if k == 3 else f"y{k}"
        same: dict[str, Any] = {"strides": (2, 2), "auto_pad": "SAME_UPPER"}
        nodes += [
            node("MaxPool", [at], [f"a{k}"], kernel_shape=(3, 3), **same),
            node("AveragePool", [at], [f"b{k}"], kernel_shape=(3, 3), strides=(2, 2),
                 pads=(1, 1, 1, 1)),
            node("MaxPool", [at], [f"c{k}"], kernel_shape=(1, 1), strides=(2, 2)),
            node("MaxPool", [at], [f"d{k}"], kernel_shape=(2, 2), strides=(2, 2), ceil_mode=1),
            node("Sum", [f"{s}{k}" for s in "abcd"], [y]),
        ]  # fmt: skip
        at = y
    agrees(open_sizes(*nodes), (33, 48), (5, 1), (16, 7))


def test_what_is_halved_and_doubled_is_cut_to_what_it_was() -> None:
    """A network that goes down by SAME and back up, with a branch across."""
    down: dict[str, Any] = {"strides": (2, 2), "auto_pad": "SAME_UPPER", "kernel_shape": (3, 3)}
    nodes = [
        node("MaxPool", ["x"], ["a"], **down),
        node("MaxPool", ["a"], ["b"], **down),
        node("ConvTranspose", ["b", "w"], ["c"], strides=(2, 2), auto_pad="SAME_UPPER"),
        node("Shape", ["a"], ["s"]),
        node("Slice", ["c", "zeros", "s"], ["d"]),
        node("Add", ["a", "d"], ["y"]),
    ]
    weights = DRAW.standard_normal((2, 2, 2, 2)).astype(np.float32)
    agrees(open_sizes(*nodes, w=weights, zeros=np.zeros(4, np.int64)), levels=True)


CEILED: tuple[dict[str, Any], ...] = (
    {"kernel_shape": (3, 3), "strides": (2, 2)},
    {"kernel_shape": (2, 2), "strides": (2, 2)},
    {"kernel_shape": (3, 2), "strides": (2, 3), "pads": (1, 0, 1, 1)},
    {"kernel_shape": (2, 3), "strides": (3, 3), "pads": (0, 2, 1, 2)},
    {"kernel_shape": (4, 1), "strides": (3, 2), "pads": (1, 0, 2, 0)},
    {"kernel_shape": (2, 3), "strides": (2, 3), "pads": (1, 1, 1, 1), "dilations": (2, 1)},
)


@pytest.mark.parametrize(("op", "attrs"), POOLS, ids=IDS)
@pytest.mark.parametrize("case", range(len(CEILED)))
def test_pools_of_the_last_part_of_a_window(op: str, attrs: Mapping[str, int], case: int) -> None:
    m = pool(op, ceil_mode=1, **CEILED[case], **attrs)
    sizes = tuple(s for s in SIZES if min(s) > 3)
    found = agrees(m, *sizes, levels=case == 3)
    shape = found.entry.result_types()[0].shape
    assert not any("Min" in dims.text(d) for d in shape), shape
    known = {"h": 12, "w": 5}
    again = load_model(m, sizes=known).entry.result_types()[0].shape
    assert again == dims.values(shape, known)


@pytest.mark.parametrize(
    ("op", "attrs"), [*POOLS[:3], ("Conv", {})], ids=["max", "avg", "avg-counted", "conv"]
)
def test_symbolic_pads_are_written_as_onnx(op: str, attrs: Mapping[str, int]) -> None:
    pytest.importorskip("onnxruntime")
    given: dict[str, Any] = {"strides": (2, 3), "auto_pad": "SAME_LOWER", **attrs}
    if op == "Conv":
        m = open_sizes(node(op, ["x", "w"], ["y"], **given), w=WEIGHTS)
    else:
        m = pool(op, kernel_shape=(3, 4), **given)
    again = to_model(load_model(m))
    (name,) = (i.name for i in again.graph.input)
    for h, w in SIZES:
        x = image(h, w)
        (want,), (got,) = run_model(m, {"x": x}), run_model(again, {name: x})
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, strict=True)


def test_wrapped_pads_of_open_sizes() -> None:
    pads = np.array([0, 0, 2, 3, 0, 1, 1, 0], np.int64)
    m = open_sizes(node("Pad", ["x", "p"], ["y"], mode="wrap"), opset=19, p=pads)
    shape = agrees(m, (3, 4), (2, 3), (5, 9), levels=True).entry.result_types()[0].shape
    assert shape == (1, 3, H + 3, W + 3)


def test_wrapped_pads_as_wide_as_an_axis() -> None:
    nodes = [
        node("Shape", ["x"], ["s"], start=2),
        node("Concat", ["zero", "s", "zero", "s"], ["p"], axis=0),
        node("Pad", ["x", "p"], ["y"], mode="wrap"),
    ]
    found = load_model(open_sizes(*nodes, opset=19, zero=np.zeros(2, np.int64)))
    for h, w in SIZES:
        (got,) = graph.run(found, [image(h, w)])
        np.testing.assert_array_equal(got, np.tile(image(h, w), (1, 1, 3, 3)))


PLACED: tuple[dict[str, Any], ...] = (
    {"strides": (2, 2), "auto_pad": "SAME_LOWER"},
    {"strides": (2, 3), "pads": (1, 0, 1, 2), "ceil_mode": 1},
    {"strides": (1, 2), "pads": (0, 1, 2, 1), "storage_order": 1},
    {"dilations": (2, 1)},
)


@pytest.mark.parametrize("case", range(len(PLACED)))
def test_maxima_with_their_places(case: int) -> None:
    pooled = node("MaxPool", ["x"], ["m", "at"], kernel_shape=(3, 3), **PLACED[case])
    named = node("Cast", ["at"], ["f"], to=TensorProto.FLOAT)
    m = open_sizes(pooled, named, node("Concat", ["m", "f"], ["y"], axis=1))
    agrees(m, (7, 8), (12, 6), (5, 9), levels=True)


@pytest.mark.parametrize("with_shape", [False, True])
def test_maxima_are_put_back(with_shape: bool) -> None:
    nodes = [
        node("MaxPool", ["x"], ["m", "at"], kernel_shape=(2, 2), strides=(2, 2)),
        node("Shape", ["x"], ["s"]),
        node("MaxUnpool", ["m", "at", "s"][: 3 if with_shape else 2], ["y"], kernel_shape=(2, 2),
             strides=(2, 2)),
    ]  # fmt: skip
    found = agrees(open_sizes(*nodes), (6, 8), (4, 2), levels=True)
    twice = tuple(dims.mul(2, dims.floordiv(n, 2)) for n in (H, W))
    assert found.entry.result_types()[0].shape == (1, 2, *((H, W) if with_shape else twice))


@pytest.mark.parametrize("auto", AUTO)
@pytest.mark.parametrize("strides", [(2, 3), (1, 1)])
def test_transposed_convolutions_of_the_same_size(auto: str, strides: tuple[int, ...]) -> None:
    weights = np.moveaxis(WEIGHTS, 0, 1)
    wide = node("ConvTranspose", ["x", "w"], ["y"], strides=strides, auto_pad=auto)
    found = agrees(open_sizes(wide, w=np.ascontiguousarray(weights)), levels=True)
    want = [dims.mul(n, s) for n, s in zip((H, W), strides, strict=True)]
    assert found.entry.result_types()[0].shape == (1, 4, *want)


TRANSPOSED: tuple[tuple[dict[str, Any], Dim | None], ...] = (
    ({"strides": (2, 2), "pads": (1, 2, 1, 2), "output_padding": (1, 1)}, dims.mul(2, H)),
    ({"strides": (2, 2)}, dims.add(dims.mul(2, H), 1)),
    ({"strides": (3, 4), "pads": (2, 3, 2, 4)}, None),
)


@pytest.mark.parametrize("case", range(len(TRANSPOSED)))
def test_transposed_convolutions_of_open_sizes(case: int) -> None:
    attrs, height = TRANSPOSED[case]
    weights = np.ascontiguousarray(np.moveaxis(WEIGHTS, 0, 1))
    m = open_sizes(node("ConvTranspose", ["x", "w"], ["y"], **attrs), w=weights)
    shape = agrees(m, (7, 8), (12, 5), (3, 4), levels=True).entry.result_types()[0].shape
    assert height is None or shape[2] == height


def test_columns_of_an_image_of_open_sizes() -> None:
    """Each window's largest element in all its places."""
    nodes = [
        node("MaxPool", ["x"], ["m"], kernel_shape=(2, 2), strides=(2, 2)),
        node("Reshape", ["m", "rows"], ["c"]),
        node("Concat", ["c"] * 4, ["columns"], axis=1),
        node("Shape", ["x"], ["image"], start=2),
        node("Col2Im", ["columns", "image", "block"], ["y"], strides=(2, 2)),
    ]
    rows, block = np.array([0, 0, -1], np.int64), np.array([2, 2], np.int64)
    agrees(open_sizes(*nodes, rows=rows, block=block), (6, 8), (3, 5), levels=True)
