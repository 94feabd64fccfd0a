"""The template for four warps together: drawn problems and planted faults."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

import didyma as dd
from didyma.codegen.codegens import Asked
from didyma.codegen.options import Options
from didyma.codegen.runtime.registry import probe
from didyma.codegen.templates import wgmma
from didyma.codegen.templates.language import Text
from didyma.refimpl.ir.target import SM_90A
from didyma.tracer.tracing import Program
from tests.codegen.templates.draw import FAMILIES, NARROW, drawn
from tests.codegen.templates.faults import one_of_each
from tests.codegen.templates.judging import judged, request

GPU = Options(target="sm_90a")
_, DTYPES, SIZES = FAMILIES["wgmma_gemm"]
SEEDS = (0, 1, 2, 3, 4)
POINT = "wgmma_gemm(apart={apart}, free={free}, height=64, stages=4, tall=64, width=64)"
IN_TURNS = "wgmma_gemm(apart=2, free=2, height=128, stages=4, tall=64, width=256)"
WAIT = "      cp_async_wait({{ ahead - 1 if apart == 1 else 0 }});\n"
FENCE = "      proxy_fence();\n"
FAULTS = {
    "swizzle": ('(%s ^ (%s) %% 8) * %d" % (line, length, piece, line, lanes)',
                '%s * %d" % (line, length, piece, lanes)'),
    "copies": ("cp_async_wait({{ ahead - 1", "cp_async_wait({{ ahead"),
    "products": ("    wgmma_wait(1);\n", "    wgmma_wait(2);\n"),
    "sums": ("  wgmma_wait(0);\n", ""),
    "registers": ("    wgmma_fence();\n", ""),
    "proxy": (FENCE, ""),
    "late fence": (WAIT + FENCE, FENCE + WAIT),
    "barrier": ("    __syncthreads();\n    const u32 here", "    const u32 here"),
    "refilled": ("turn + {{ ahead }}", "turn + {{ ahead + 1 }}"),
    "panel": ("step * 1024]);", "step * 16]);"),
    "k-tail": ('below("term", terms, length)', '""'),
    "last tile": ("+ {{ length - 1 }}) / {{ length }}", ") / {{ length }}"),
    "rows": ('mask=all(below("row", rows, height), below', 'mask=all("", below'),
    "epilogue": ("i % {{ width // 32 }} * 32 + lane", "i * 32 + lane + 1"),
    "fragment": ("lane / 4 + j % 2 * 8", "lane / 4 + j % 2 * 4"),
    "first barrier": ("    wgmma_wait(1);\n    __syncthreads();", "    wgmma_wait(1);"),
    "turns": ("turn % {{ apart }} == filler", "turn % {{ apart }} != filler"),
    "narrow": ("total[{{ i * each }} + i] = sums{{ i }}[i]",
               "total[{{ i * each }} + i] = cast_bf16_f32(cast_f32_bf16(sums{{ i }}[i]))"),
}  # fmt: skip
FAULTS_OF_PIECES = {
    "place of a piece": ("next * {{ length }} + piece * {{ lanes }}",
                         "next * {{ length }} + piece"),
    "swizzle": ('{{ at("line", "piece") }};', "line * {{ length }} + piece * {{ lanes }};"),
    "k-tail": ('below("term", terms, length)', '""'),
    "line": ("{{ start }} + line;", "{{ start }} + line / 2;"),
}  # fmt: skip
FAULTS_OF_ROUNDING = {
    "unrounded piece": ("tf32_f32(several.{{ part }})", "several.{{ part }}"),
    "unrounded": ("tf32_f32(element)", "element"),
    "turned": ('{% if narrow and lies != "term" %}', "{% if false %}"),
    "place in a piece": ("line % {{ lanes }} +", "along % {{ lanes }} +"),
    "line": ("along + line / %d * %d", "along + line / %d / %d"),
    "step": ("step * {{ length // 4 }}]);", "step * 16]);"),
    "last tile": ("+ {{ length - 1 }}) / {{ length }}", ") / {{ length }}"),
}  # fmt: skip
FAULTS_OF_INTEGERS = {
    "k-tail": ("{{ inside }} ? {{ lanes }} : 0", "{{ inside }} ? 8 : 0"),
    "swizzle": ('(%s ^ (%s) %% 8) * %d" % (line, length, piece, line, lanes)',
                '%s * %d" % (line, length, piece, lanes)'),
    "swizzle of halves": ("{% set lanes = length // 8 %}", "{% set lanes = 8 %}"),
    "step": ("step * {{ length // 4 }}]);", "step * 16]);"),
    "narrow": ("total[{{ i * each }} + i] = sums{{ i }}[i]",
               "total[{{ i * each }} + i] = cast_i16_i32(cast_i32_i16(sums{{ i }}[i]))"),
    "sums": ("  wgmma_wait(0);\n", ""),
}  # fmt: skip


@dd.trace(dd.bf16[72, 264], dd.bf16[264, 72], dd.f32[72])
def layer(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return dd.tanh(x @ w + b)


def points(program: Program) -> list[str]:
    r = request(program, GPU)
    assert r.source is not None
    return list(map(str, wgmma.TEMPLATE.points(Asked(r.source, r.loop, SM_90A))))


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_products_are_right(seed: int) -> None:
    d = drawn(seed, DTYPES, SIZES)
    every = points(d.program)
    point = every[int(d.share * len(every))]
    assert judged(d.program, point, options=GPU) == {""}, f"{d.about}: {point}"


@pytest.mark.parametrize("seed", [0, 2])
def test_drawn_products_of_operands_of_a_byte_are_right(seed: int) -> None:
    d = drawn(seed, (dd.f32,), SIZES, narrow=NARROW)
    every = points(d.program)
    point = every[int(d.share * len(every))]
    assert judged(d.program, point, options=GPU) == {""}, f"{d.about}: {point}"


@pytest.mark.parametrize("seed", [2, 7])
def test_drawn_products_of_operands_rounded_to_tf32_are_right(seed: int) -> None:
    d = drawn(seed, (dd.f32,), (8, 16, 17, 33, 40, 64), rounded=True)
    every = points(d.program)
    point = every[int(d.share * len(every))]
    assert judged(d.program, point, options=GPU) == {""}, f"{d.about}: {point}"


@dd.trace(dd.i8[2, 72, 272], dd.i8[2, 40, 272], dd.f32[40])
def of_integers(x: dd.Tensor, w: dd.Tensor, scale: dd.Tensor) -> dd.Tensor:
    one, other = dd.astype(x, dd.i32), dd.astype(w, dd.i32)
    return dd.astype(one @ dd.permute_dims(other, (0, 2, 1)), dd.f32) * scale


@pytest.mark.parametrize("turned", [False, True])
def test_integers_of_a_byte_are_multiplied_where_lines_of_terms_are_copied(turned: bool) -> None:
    @dd.trace(dd.i8[72, 272], dd.i8[(272, 48) if turned else (48, 272)])
    def product(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        one, other = dd.astype(x, dd.i32), dd.astype(w, dd.i32)
        return one @ (other if turned else other.T)

    assert (points(product) == []) == turned


def test_a_product_of_integers_is_one_instruction_for_32_terms_of_four_warps() -> None:
    r = request(of_integers, GPU)
    for point in (POINT.format(apart=1, free=2), IN_TURNS):
        options = GPU.changed({"kernels.choices": f"{r.name}: {point}"})
        text = dd.compile(of_integers, options=options).text
        width = point.rsplit("=", 1)[1].rstrip(")")
        assert text.count(f"wgmma_m64n{width}k32_i8_kk(\n") == 1
        assert judged(of_integers, point, options=GPU) == {""}
    assert dd.compile(of_integers, options=GPU).text.count("wgmma_m") == 1
    if probe("ptx").runs:
        point = POINT.format(apart=1, free=2)
        assert judged(of_integers, point, options=GPU, engines=("ptx",)) == {""}


@pytest.mark.parametrize("fault", ["", *one_of_each(FAULTS_OF_INTEGERS)])
def test_a_planted_fault_in_products_of_integers_is_found(fault: str) -> None:
    assert is_right(of_integers, *FAULTS_OF_INTEGERS.get(fault, ("", ""))) == (not fault)


@dd.trace(dd.f32[40, 72], dd.f32[72, 40])
def rounded(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return dd.tf32(x) @ dd.tf32(w)


@dd.trace(dd.f8e4m3[40, 72], dd.f8e5m2[24, 72], dd.f32[24])
def of_bytes(x: dd.Tensor, w: dd.Tensor, scale: dd.Tensor) -> dd.Tensor:
    return (dd.astype(x, dd.f32) @ dd.astype(w, dd.f32).T) * scale


def test_operands_that_are_computed_are_loaded_by_pieces_where_they_lie_so() -> None:
    def loads(left: tuple[int, int], right: tuple[int, int], turned: bool) -> list[int]:
        @dd.trace(dd.f8e4m3[left], dd.i8[right])
        def product(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
            one, other = dd.astype(x, dd.bf16), dd.astype(w, dd.bf16)
            return one @ (other.T if turned else other)

        text = dd.compile(product, options=GPU).text
        assert "wgmma_m64n" in text
        return [text.count(f"= load8_{t}(") for t in ("f8e4m3", "i8")]

    assert loads((64, 128), (128, 64), False) == [2, 2], "before the loop, and in it"
    assert loads((64, 128), (64, 128), True) == [2, 2]
    assert loads((64, 128), (128, 65), False) == [2, 0]
    assert loads((64, 100), (64, 100), True) == [0, 0]


def is_right(program: Program, old: str, new: str) -> bool:
    """Return whether simt finds nothing wrong with a product whose text is so changed."""
    assert old in wgmma.TEXT.source
    text = Text("wgmma_gemm", wgmma.TEXT.source.replace(old, new) if old else wgmma.TEXT.source)
    template = replace(wgmma.TEMPLATE, render=partial(wgmma.render, text=text))
    point = POINT.format(apart=1, free=2)
    return judged(program, point, template, GPU, engines=("simt",)) == {""}


@pytest.mark.parametrize("fault", ["", *one_of_each(FAULTS_OF_PIECES)])
def test_a_planted_fault_in_pieces_that_are_computed_is_found(fault: str) -> None:
    assert is_right(of_bytes, *FAULTS_OF_PIECES.get(fault, ("", ""))) == (not fault)


def test_a_product_rounded_to_tf32_is_one_instruction_for_eight_terms_of_four_warps() -> None:
    r = request(rounded, GPU)
    point = POINT.format(apart=1, free=2)
    options = GPU.changed({"kernels.choices": f"{r.name}: {point}"})
    text = dd.compile(rounded, options=options).text
    assert text.count("wgmma_m64n64k8_tf32_kk(\n") == 1
    assert dd.compile(rounded, options=GPU).text.count("wgmma_m") == 0, "it has not been timed"
    assert judged(rounded, point, options=GPU, engines=("host", "ptx")) == {""}


@pytest.mark.parametrize("fault", ["", *one_of_each(FAULTS_OF_ROUNDING)])
def test_a_planted_fault_in_products_of_rounded_operands_is_found(fault: str) -> None:
    assert is_right(rounded, *FAULTS_OF_ROUNDING.get(fault, ("", ""))) == (not fault)


@pytest.mark.parametrize("fault", one_of_each(FAULTS))
def test_a_planted_fault_is_found_before_anything_is_timed(fault: str) -> None:
    old, new = FAULTS[fault]
    assert old in wgmma.TEXT.source
    text = Text("wgmma_gemm", wgmma.TEXT.source.replace(old, new))
    wrong = replace(wgmma.TEMPLATE, render=partial(wgmma.render, text=text))
    point = POINT.format(apart=1, free=1 if fault == "first barrier" else 2)
    point = IN_TURNS if fault == "turns" else point
    said = judged(layer, point, wrong, GPU, engines=("simt",))
    assert said != {""}


def test_the_kernel_without_a_fault_is_right() -> None:
    for free in (1, 2):
        assert judged(layer, POINT.format(apart=1, free=free), options=GPU) == {""}
    assert judged(layer, IN_TURNS, options=GPU) == {""}


@pytest.mark.parametrize("turned", [False, True])
def test_three_groups_share_the_lines_of_tiles_that_do_not_come_out_even(turned: bool) -> None:
    shapes = [(67, 200), (75, 67)] if turned else [(200, 67), (67, 75)]

    @dd.trace(*(dd.bf16[shape] for shape in shapes))
    def ragged(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return x.T @ w.T if turned else x @ w

    point = "wgmma_gemm(apart=1, free=1, height=192, stages=3, tall=64, width=256)"
    assert judged(ragged, point, options=GPU) == {""}


def test_what_nvrtc_makes_of_the_kernel_is_right() -> None:
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")
    assert judged(layer, POINT.format(apart=1, free=2), options=GPU, engines=("ptx",)) == {""}
