"""The template for f32 without tensor cores: drawn problems and planted faults."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.select.choice import Choice
from didyma.codegen.templates import fma, fma_text
from didyma.codegen.templates.language import Text
from tests.codegen.templates.draw import FAMILIES, drawn
from tests.codegen.templates.faults import one_of_each
from tests.codegen.templates.judging import judged, points, request

GPU = Options(target="sm_80")
_, DTYPES, SIZES = FAMILIES["fma_gemm"]
POINT = "fma_gemm(depth=8, height=64, slices=1, stages=1, tall=8, width=64)"
COPIED = POINT.replace("stages=1", "stages=3")
SLICED = "fma_gemm(depth=8, height=64, slices=2, stages=1, tall=16, width=64)"
BOTH = "fma_gemm(depth=8, height=64, slices=2, stages=3, tall=8, width=64)"
BARRIER = '{{- "    }" }}\n    __syncthreads();\n  }'
FAULTS = {
    "barrier": (BARRIER, '{{- "    }" }}\n  }'),
    "lanes": ("{{ lane * (side + 4) }}", "{{ lane * side }}"),
    "one buffer": ("const u32 there = (turn + 1) % 2;", "const u32 there = turn % 2;"),
    "k-tail": ('all(below("row", rows, height), below("term", terms, depth))', '""'),
    "last tile": ("+ {{ depth - 1 }}) / {{ depth }};", ") / {{ depth }};"),
    "rows": ('mask=all(below("row", rows, height), below', 'mask=all("", below'),
    "square": ("height * 4 // tall,", "height * 2 // tall,"),
    "element": ("of_left[n / 8] * of_right[n % 8]", "of_left[n % 8] * of_right[n / 8]"),
    "narrow": ("sums[n] = sums[n] +", "sums[n] = cast_f16_f32(cast_f32_f16(sums[n])) +"),
    "alignment": ("{{ side + 4 }}", "{{ side + 3 }}"),
    "sum of a slice": ("other * {{ all_sums }} + slice", "slice * {{ all_sums }} + slice"),
    "terms of a slice": ('"slice * %d + " % each', '"0 * %d + " % each'),
    "rows of a slice": ('"slice * %d + " % (tall', '"0 * %d + " % (tall'),
    "kept by a slice": ("+ slice * {{ kept_sums }}", "+ 0 * {{ kept_sums }}"),
    "wait for a slice": ("  }\n  __syncthreads();\n  f32", "  }\n  f32"),
}  # fmt: skip
TURN = "        cp_async_wait({{ stages - 2 }});\n        __syncthreads();\n        if"
COPIED_FAULTS = {
    "barrier": (TURN, TURN.replace("        __syncthreads();\n", "")),
    "wait": (TURN, TURN.replace("- 2", "- 1")),
    "stage": ("there = here;", "there = after;"),
    "first stage": ("u32 there = {{ stages - 1 }};", "u32 there = {{ stages - 2 }};"),
    "k-tail": ('all(below("row", rows, height), below("term", terms, depth))', '""'),
    "last tile": ("+ {{ depth - 1 }}) / {{ depth }};", ") / {{ depth }};"),
    "rows": ('all(below("row", rows, height), below("term"', 'all("", below("term"'),
    "element": ("{{ tall }} + n / 8] *", "{{ tall }} + n % 8] *"),
    "narrow": ("sums[n] = sums[n] +", "sums[n] = cast_f16_f32(cast_f32_f16(sums[n])) +"),
    "half": ("(k + 1) % 2", "k % 2"),
    "alignment": ("{{ side + 4 }}", "{{ side + 3 }}"),
}  # fmt: skip


@dd.trace(dd.f32[72, 36], dd.f32[68, 36], dd.f32[68])
def turned(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return dd.tanh(x @ dd.transpose(w, (1, 0)) + b)


@dd.trace(dd.f32[72, 37], dd.f32[37, 68], dd.f32[68])
def layer(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return dd.tanh(x @ w + b)


@pytest.mark.parametrize("seed", range(4))
def test_drawn_products_are_right(seed: int) -> None:
    d = drawn(seed, DTYPES, SIZES)
    every = points(request(d.program, GPU), fma.TEMPLATE)
    point = every[int(d.share * len(every))]
    assert judged(d.program, point, options=GPU) == {""}, f"{d.about}: {point}"


@pytest.mark.parametrize("fault", one_of_each(FAULTS))
def test_a_planted_fault_is_found_before_anything_is_timed(fault: str) -> None:
    old, new = FAULTS[fault]
    assert old in fma_text.FETCHED.source
    text = Text("fma_gemm", fma_text.FETCHED.source.replace(old, new))
    wrong = replace(fma.TEMPLATE, render=partial(fma.render, text=text))
    program = turned if fault == "lanes" else layer
    point = SLICED if "slice" in fault else POINT
    assert judged(program, point, wrong, GPU, engines=("simt",)) != {""}


@pytest.mark.parametrize("fault", one_of_each(COPIED_FAULTS))
def test_a_fault_among_copies_is_found(fault: str) -> None:
    old, new = COPIED_FAULTS[fault]
    assert old in fma_text.COPIED.source
    text = Text("fma_gemm", fma_text.COPIED.source.replace(old, new))
    wrong = replace(fma.TEMPLATE, render=partial(fma.render, text=text))
    assert judged(layer, COPIED, wrong, GPU, engines=("simt",)) != {""}


def test_the_kernel_without_a_fault_is_right() -> None:
    for point in (POINT, SLICED, COPIED, BOTH):
        assert judged(layer, point, options=GPU) == {""}
    for point in (POINT, COPIED):
        assert judged(turned, point, options=GPU, engines=("simt",)) == {""}


def test_tiles_of_256_columns_are_copied_by_16_bytes() -> None:
    broad = {
        Choice.parse(p).points[0] for p in points(request(layer, GPU), fma.TEMPLATE) if "256)" in p
    }
    assert {(v["height"], v["tall"], v["stages"]) for v in (p.table for p in broad)} == {
        (128, 16, 3)
    }
    assert judged(layer, str(min(broad, key=str)), options=GPU) == {""}
    assert not [p for p in points(request(turned, GPU), fma.TEMPLATE) if "width=256" in p]


def test_each_thread_fetches_at_least_a_run_of_each_tile() -> None:
    @dd.trace(dd.f32[72, 72], dd.f32[100, 72])
    def by_terms(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return x @ w.T

    every = points(request(by_terms, GPU), fma.TEMPLATE)
    assert "fma_gemm(depth=8, height=256, slices=2, stages=1, tall=16, width=64)" not in every
    tall = [p for p in every if "width=64" in p and "height=64" not in p]
    assert len(tall) > 3
    for point in tall[::3]:
        assert judged(by_terms, point, options=GPU, engines=("simt",)) == {""}, point
