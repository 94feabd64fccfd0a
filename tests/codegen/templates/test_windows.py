"""Convolutions whose windows TMA fetches: drawn problems, and planted faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from random import Random

import pytest

import didyma as dd
from didyma.codegen.codegens import Asked
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import probe
from didyma.codegen.select.choice import Choice, build
from didyma.codegen.templates import tma
from didyma.codegen.templates.language import Text
from didyma.refimpl.ir.kernel import Images, TensorMap
from didyma.refimpl.ir.target import SM_90A
from didyma.tracer.tracing import Program
from tests.codegen.templates.faults import one_of_each
from tests.codegen.templates.judging import judged, points, request, with_map

GPU, SUITS = Options(target="sm_90a"), tma.space
# A device with so few multiprocessors that blocks have several tiles, and so little shared memory
# that stages are filled again.
FEW = replace(GPU, target=replace(SM_90A, processors=2, dynamic=96 << 10))
POINT = "tma_gemm(alternate=1, blocks=1, group=8, height=64, slots=0, width=64)"
BY_TWO = POINT.replace("blocks=1", "blocks=2")
BOXES = "tma_gemm(alternate=1, blocks=1, group=8, height=64, slots=2, width=128)"
FAULTS = {
    "image": ("image = top / ({{ lines }} * {{ places }})", "image = top / {{ places }}"),
    "line": ("top / {{ places }} % {{ lines }} *", "top / {{ places }} *"),
    "column": ("top % {{ places }} *", "top *"),
    "stride": ("* {{ stride_x }} - {{ low_x }}", "* 1 - {{ low_x }}"),
    "border": ("* {{ stride_y }} - {{ low_y }}", "* {{ stride_y }}"),
    "channels of a turn": ("turn % {{ parts }} * 64, x, y", "0, x, y"),
    "tap of a line": ("turn / {{ parts }} % {{ window_x }}", "turn % {{ window_x }}"),
    "tap": ("turn / {{ parts * window_x }} *", "0 *"),
    "dilation": ("% {{ window_x }} * {{ dilation_x }}", "% {{ window_x }}"),
    "last tile": ("taps * parts if taps", "taps * parts - 1 if taps"),
    "fence of what comes": ("        mbarrier_wait(&full[stage], phase);\n", ""),
    "bytes": ("mbarrier_expect(&full[stage], {{ height * 128 }})",
              "mbarrier_expect(&full[stage], {{ height * 64 }})"),
}  # fmt: skip


def _images(m: TensorMap) -> Images:
    assert m.images is not None
    return m.images


FAULTS_OF_MAPS: Mapping[str, tuple[str, Callable[[TensorMap], TensorMap]]] = {
    "channels": ("left_map", lambda m: replace(m, extents=(m.extents[0] + 8, *m.extents[1:]))),
    "channels of weights":
        ("right_map", lambda m: replace(m, extents=(m.extents[0] - 8, *m.extents[1:]))),
    "step of taps": ("right_map", lambda m: replace(m, steps=(m.steps[0], m.steps[1] + 8))),
    "pixels": ("left_map", lambda m: replace(m, rows=m.rows // 2)),
    "images": ("left_map", lambda m: replace(m, images=replace(_images(m), count=1))),
    "step of images": ("left_map", lambda m: replace(m, images=replace(_images(m), step=8))),
    "lower": ("left_map", lambda m: replace(m, images=replace(_images(m), lower=(-1, -2)))),
    "upper": ("left_map", lambda m: replace(m, images=replace(_images(m), upper=(0, 0)))),
    "strides": ("left_map", lambda m: replace(m, images=replace(_images(m), strides=(1, 1)))),
}  # fmt: skip


def drawn(seed: int) -> tuple[Program, str]:
    """Return a convolution of images with their channels last, and what a seed drew of it."""
    r = Random(seed)
    element, axes = r.choice((dd.f16, dd.bf16)), r.choice((1, 2, 2, 2))
    channels, out = 8 * r.choice((1, 3, 8, 9, 16)), 8 * r.choice((2, 3, 8, 9, 17))
    sizes = tuple(r.choice((5, 7, 9, 14)) for _ in range(axes))
    window = tuple(r.choice((1, 2, 3)) for _ in range(axes))
    stride = tuple(r.choice((1, 1, 2, 3)) for _ in range(axes))
    dilation, images = r.choice((1, 1, 2)), r.choice((1, 2, 3))
    padding = tuple(r.choice((0, 0, 1, 2)) for _ in range(axes))
    n = dd.dim("n", 1, images + 2) if r.random() < 0.4 else images
    by_out, biased = r.random() < 0.4, r.random() < 0.5
    after = r.choice(("positive", "relu", "square"))

    def f(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
        x = dd.moveaxis(x, -1, 1)
        order = (axes + 1, axes, *range(axes)) if by_out else (0, axes + 1, *range(1, axes + 1))
        y = dd.conv(x, dd.permute_dims(w, order), b if biased else None, stride, padding, dilation)
        y = dd.moveaxis(y, 1, -1)
        return {"relu": dd.relu, "square": dd.square}.get(after, dd.positive)(y)

    weights = (*window, channels, out) if by_out else (out, *window, channels)
    given = (n, *sizes, channels), weights, (out,)
    program: Program = dd.trace(*(element[shape] for shape in given))(f)
    return program, f"{sizes} {window} {stride} {dilation} {padding} {channels} {out} {by_out}"


@pytest.mark.parametrize("seed", [0, 2, 4, 7, 9, 13, 14])
def test_drawn_convolutions_are_right(seed: int) -> None:
    program, about = drawn(seed)
    every = points(request(program, FEW, tma.space), tma.TEMPLATE)
    point = every[seed * 7 % len(every)]
    assert judged(program, point, options=FEW, suits=tma.space) == {""}, f"{about}: {point}"


@dd.trace(dd.bf16[2, 9, 11, 72], dd.bf16[72, 3, 2, 72], dd.f32[72])
def layer(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    y = dd.conv(dd.moveaxis(x, -1, 1), dd.moveaxis(w, -1, 1), None, (1, 2), (1, 0), (1, 2))
    return dd.tanh(dd.moveaxis(y, 1, -1) + b)


@dd.trace(dd.bf16[2, 9, 16, 8], dd.bf16[72, 5, 5, 8])
def by_lines(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    y = dd.conv(dd.moveaxis(x, -1, 1), dd.moveaxis(w, -1, 1), None, 2, (2, 0))
    return dd.relu(dd.moveaxis(y, 1, -1))


def maps(program: Program, point: str = POINT) -> dict[str, TensorMap]:
    """Return the tensor maps of the kernel of a point, by their names."""
    r = request(program, GPU, tma.space)
    (kernel,) = build(r.loop, GPU, Choice.parse(point), r.source).text.kernels
    return {m.name: m for m in kernel.maps}


@pytest.mark.parametrize("program", [layer, by_lines])
def test_the_kernels_without_a_fault_are_right(program: Program) -> None:
    for point in (POINT, BY_TWO, *([BOXES] if program is by_lines else [])):
        assert judged(program, point, options=FEW, suits=tma.space) == {""}, point


def test_what_nvrtc_makes_of_the_kernel_is_right() -> None:
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")
    for program in (layer, by_lines):
        assert judged(program, POINT, options=FEW, suits=tma.space, engines=("ptx",)) == {""}


@pytest.mark.parametrize("fault", one_of_each(FAULTS))
def test_a_planted_fault_is_found_before_anything_is_timed(fault: str) -> None:
    old, new = FAULTS[fault]
    assert old in tma.TEXT.source
    text = Text("tma_gemm", tma.TEXT.source.replace(old, new))
    wrong = replace(tma.TEMPLATE, render=partial(tma.render, text=text))
    assert judged(layer, POINT, wrong, FEW, tma.space, engines=("simt",)) != {""}


@pytest.mark.parametrize("fault", FAULTS_OF_MAPS)
@pytest.mark.parametrize("engine", ["simt", "host"])
def test_a_planted_fault_in_a_map_is_found(fault: str, engine: str) -> None:
    wrong = with_map(tma.TEMPLATE, *FAULTS_OF_MAPS[fault])
    assert judged(layer, POINT, wrong, FEW, tma.space, engines=(engine,)) != {""}


def test_a_window_has_a_tap_of_each_line_where_few_channels_lie_together() -> None:
    assert maps(by_lines)["left_map"].extents == (5 * 8, 6, 9)
    assert maps(by_lines)["right_map"].extents == (5 * 8, 72, 5)
    assert maps(layer)["left_map"].extents == (72, 11, 9)


def test_few_channels_are_padded_with_the_border_of_columns() -> None:
    @dd.trace(dd.bf16[2, 15, 15, 3], dd.bf16[24, 7, 7, 3], dd.bf16[24])
    def first(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
        y = dd.conv(dd.moveaxis(x, -1, 1), dd.moveaxis(w, -1, 1), b, 2, 3)
        return dd.relu(dd.moveaxis(y, 1, -1))

    made = compile(first.module, GPU)
    (described,) = [m for k in made.text.kernels for m in k.maps if m.name == "left_map"]
    assert described.extents == (7 * 8, 8, 15)
    assert dd.check(first, options=GPU, engines=["simt", "host"], tries=1).agree


@pytest.mark.parametrize("what", ["groups", "channels", "far", "computed", "volume"])
def test_other_convolutions_are_left_to_others(what: str) -> None:
    groups, channels = 2 if what == "groups" else 1, 12 if what == "channels" else 16
    sizes = (5, 5, 5) if what == "volume" else (9, 9)
    window = (2,) * len(sizes)

    @dd.trace(dd.bf16[(2, *sizes, channels)], dd.bf16[(16, *window, channels // groups)])
    def other(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        x = dd.tanh(x) if what == "computed" else x
        y = dd.conv(dd.moveaxis(x, -1, 1), dd.moveaxis(w, -1, 1), None,
                    9 if what == "far" else 1, 1, 1, groups)  # fmt: skip
        return dd.moveaxis(y, 1, -1)

    r = request(other, GPU.changed({"graph.channels": False}))
    assert r.source is not None
    assert tma.space(Asked(r.source, r.loop, GPU.device)) is None
