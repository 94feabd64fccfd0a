"""What follows a product is loaded several elements at once, where they lie so in memory."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.select.choice import Choice, build
from tests.codegen.templates.judging import judged, request
from tests.codegen.templates.test_cluster import GPU

BOXES = "tma_gemm(alternate=1, blocks=1, group=8, height=128, slots=2, width=64)"
THREADS = "tma_gemm(alternate=0, blocks=1, group=8, height=128, slots=0, width=64)"
LANES = {BOXES: 2, THREADS: 8}
F32 = "fma_gemm(depth=8, height=64, slices=1, stages=1, tall=8, width=64)"


def traced(after: Callable[..., dd.Tensor], *more: tuple[int, ...]) -> dd.Program:
    """A product of 136 by 72 results, and what follows of it and of further operands."""

    def f(x: dd.Tensor, w: dd.Tensor, a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
        return after(x @ w, a, b)

    types = (dd.bf16[(136, 264)], dd.bf16[(264, 72)], *(dd.bf16[s] for s in more))
    return dd.trace(*types)(f)


def loads(program: dd.Program, point: str, options: Options) -> list[str]:
    """The calls of wide loads in the kernel of a program."""
    r = request(program, options)
    text = build(r.loop, r.options, Choice.parse(point), r.source).text.source
    return re.findall(r"\bload\d+_\w+(?=\()", text)


def plain(y: dd.Tensor, a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return dd.tanh(y + a) + b


def shifted(y: dd.Tensor, a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return y + a[:, 8:80] + b[:, 1:73]


def crossed(y: dd.Tensor, a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return y + dd.transpose(a, (1, 0)) + b


def chosen(y: dd.Tensor, a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return dd.where(y > 0, a, y) + b


CASES = {  # what follows, the shapes of a and b, and how many of the two are loaded together
    "plain": (plain, (72,), (136, 72), 2),
    "shifted": (shifted, (136, 80), (136, 80), 1),
    "crossed": (crossed, (72, 136), (136, 1), 0),
    "chosen": (chosen, (136, 72), (72,), 1),
}


@pytest.mark.parametrize("point", LANES)
@pytest.mark.parametrize("name", CASES)
def test_neighbours_are_loaded_together(name: str, point: str) -> None:
    after, a, b, count = CASES[name]
    program = traced(after, a, b)
    assert judged(program, point, options=GPU, engines=("simt", "host")) == {""}
    found = loads(program, point, GPU)
    assert found == [f"load{LANES[point]}_bf16"] * count


def test_a_product_of_f32_loads_four() -> None:
    @dd.trace(dd.f32[72, 36], dd.f32[36, 68], dd.f32[68], dd.f32[72, 68])
    def f(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor, z: dd.Tensor) -> dd.Tensor:
        return x @ w + b + z

    options = Options(target="sm_80")
    assert judged(f, F32, options=options, engines=("simt", "host")) == {""}
    assert loads(f, F32, options).count("load4_f32") >= 2
