"""The template for convolutions whose channels do not mix: drawn problems and planted faults."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.templates import depthwise
from didyma.codegen.templates.language import Text
from didyma.tracer.tracing import Program
from tests.codegen.templates.faults import one_of_each
from tests.codegen.templates.judging import judged, points, request

GPU = dd.Options(target="sm_80")
POINT = "depthwise_conv(down=2, each=4, lanes=1)"
WIDE = "depthwise_conv(down=4, each=2, lanes=4)"
FAULTS = {
    "rows": ('mask=all(below("to_row", rows, down)', 'mask=all(""'),
    "columns": ('below("to_column", columns, each)', '""'),
    "reach": ('reached("row", rows, down, "u", step_down, high)', '""'),
    "tap": ("taps[y * {{ wide }} + x]", "taps[x * {{ high }} + y]"),
    "stride": ("n / {{ each }} * {{ step_down }} + y == u", "n / {{ each }} + y == u"),
    "last row": ("step_down + high }}; ++u", "step_down + high - 1 }}; ++u"),
    "narrow": ("sums[n] = sums[n] +", "sums[n] = cast_f16_f32(cast_f32_f16(sums[n])) +"),
}  # fmt: skip
LAST_FAULTS = {
    "rows": ('all(below("to_row", rows, down)', 'all(""'),
    "columns": ('below("to_column", columns, each)', '""'),
    "reach": ('all(reached("row", rows, 0 if past else down, "u", step_down, high)', 'all(""'),
    "wait for weights": ("  __syncthreads();\n", ""),
    "weights of a channel": ("[n + n / {{ own_taps }}]", "[n]"),
    "channels of a thread": ("% {{ span }} * {{ lanes }};", "% {{ span }};"),
    "lanes of a line": ("+ x) * {{ lanes }} + lane]\n", "+ x) * {{ lanes }}]\n"),
    "tap": ("taps[(y * {{ wide }} + x)", "taps[(x * {{ high }} + y)"),
    "stride": ("* {{ step_across }} + x)", "+ x)"),
    "open row": ("+ {{ open }} - j) % {{ open }};", "+ j) % {{ open }};"),
    "row that begins": ("+ n] = {{ zero }};", "+ n] = sums[0];"),
    "last row": ("(down - 1) * step_down + high %}", "(down - 1) * step_down + high - 1 %}"),
    "narrow": ("sums[to] = sums[to] +", "sums[to] = cast_f16_f32(cast_f32_f16(sums[to])) +"),
}  # fmt: skip


def layer(
    x: tuple[Any, ...], window: tuple[int, int], *, last: bool, dtype: Any = dd.f32,
    stride: Any = 1, padding: Any = 0, dilation: int = 1,
) -> Program:  # fmt: skip
    """A depthwise convolution, with a bias for each channel, of images (batch, channels, …)."""
    channels = x[1]

    def f(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
        x = dd.moveaxis(x, -1, 1) if last else x
        y = dd.relu(
            dd.conv(x, w, None, stride, padding, dilation, channels)
            + dd.reshape(b, (channels, 1, 1))
        )
        return dd.moveaxis(y, 1, -1) if last else y

    given = (x[0], *x[2:], channels) if last else x
    made: Program = dd.trace(dtype[given], dtype[(channels, 1, *window)], dtype[(channels,)])(f)
    return made


def drawn(seed: int) -> Program:
    """What a seed draws of dtypes, layouts, windows, strides, borders, and a symbolic batch."""
    r = Random(seed)
    images = r.choice((2, dd.dim("n", 1, 3)))
    shape = (images, r.choice((1, 3, 8, 40)), r.randint(7, 13), r.randint(7, 19))
    window = r.choice(((3, 3), (5, 5), (1, 3), (2, 1), (7, 7)))
    return layer(
        shape, window, last=r.random() < 0.5, dtype=r.choice((dd.f32, dd.f16, dd.bf16)),
        stride=r.choice((1, 1, 2, (2, 1), 3)), padding=r.choice((0, 1, 2, (1, 0))),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_drawn_convolutions_are_right(seed: int) -> None:
    program = drawn(seed)
    every = points(request(program, GPU, depthwise.space), depthwise.TEMPLATE)
    point = every[seed * 7 % len(every)]
    assert judged(program, point, options=GPU, suits=depthwise.space) == {""}, point


PLAIN = layer((1, 3, 11, 13), (3, 2), last=False, stride=2)
PAIRS = layer((1, 8, 12, 8), (3, 2), last=True, stride=2, padding=1, dtype=dd.bf16)
OPEN = layer((1, 8, 9, 8), (3, 2), last=True, stride=(1, 2), dtype=dd.bf16)


@pytest.mark.parametrize("fault", [None, *one_of_each(FAULTS)])
def test_a_planted_fault_is_found(fault: str | None) -> None:
    old, new = FAULTS[fault] if fault else ("", "")
    assert old in depthwise.TEXT.source
    source = depthwise.TEXT.source
    text = Text("depthwise_conv", source.replace(old, new) if fault else source)
    wrong = replace(depthwise.TEMPLATE, render=partial(depthwise.render, text=text))
    said = judged(PLAIN, POINT, wrong, GPU, depthwise.space, engines=("simt",))
    assert (said == {""}) == (fault is None)


@pytest.mark.parametrize("fault", one_of_each(LAST_FAULTS))
def test_a_fault_with_channels_last_is_found(fault: str) -> None:
    old, new = LAST_FAULTS[fault]
    assert old in depthwise.LAST.source
    text = Text("depthwise_conv", depthwise.LAST.source.replace(old, new))
    wrong = replace(depthwise.TEMPLATE, render=partial(depthwise.render, text=text))
    said = [judged(p, WIDE, wrong, GPU, depthwise.space, ("simt",)) for p in (PAIRS, OPEN)]
    assert said != [{""}, {""}]


@pytest.mark.parametrize("program", [PAIRS, OPEN])
def test_threads_of_several_channels_are_right(program: Program) -> None:
    for lanes in (1, 2, 4, 8):
        point = f"depthwise_conv(down=4, each=2, lanes={lanes})"
        assert judged(program, point, options=GPU, suits=depthwise.space) == {""}, lanes


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("columns", [1, dd.dim("wide", 1, 2)])
def test_images_narrower_than_a_window_have_no_results(columns: Any, last: bool) -> None:
    p = layer((1, 8, 1, columns), (1, 2), last=last)
    image = np.zeros((1, 1, 1, 8) if last else (1, 8, 1, 1), np.float32)
    taps, bias = np.zeros((8, 1, 1, 2), np.float32), np.zeros(8, np.float32)
    found = np.asarray(dd.compile(p, engine="simt", options=GPU)(image, taps, bias))
    assert found.shape == ((1, 1, 0, 8) if last else (1, 8, 1, 0))


def test_a_compile_for_a_gpu_takes_it_for_images_without_dilation_alone() -> None:
    def choice(p: Program, target: str = "sm_80") -> str:
        (found,) = dd.compile(p, options=dd.Options(target=target)).choices["choices"].values()
        return str(found["choice"].split("(")[0])

    assert choice(PLAIN) == "depthwise_conv"
    assert choice(layer((1, 3, 9, 13), (3, 3), last=True, dtype=dd.bf16)) == "depthwise_conv"
    assert choice(PLAIN, "portable") != "depthwise_conv"
    assert choice(layer((1, 3, 9, 13), (3, 3), last=False, dilation=2)) != "depthwise_conv"
    assert choice(layer((1, 3, 9, 13), (3, 3), last=False, dtype=dd.i32)) != "depthwise_conv"

    def read_two(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return dd.conv(x, w, None, 1, 0, 1, 3)

    pairs: Program = dd.trace(dd.f32[1, 6, 9, 13], dd.f32[3, 2, 3, 3])(read_two)
    assert choice(pairs) != "depthwise_conv", "two channels mix in each of a result"
