"""Attention whose tiles two threads fetch: drawn problems, and faults planted in its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.engine import KernelFault
from didyma.codegen.runtime.nvrtc import NvrtcCompiler
from didyma.codegen.runtime.registry import probe
from didyma.codegen.templates import attention_tma
from didyma.codegen.templates.language import Text
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.target import TARGETS
from didyma.tracer.tracing import Program
from tests.codegen.templates.draw_attention import drawn
from tests.codegen.templates.faults import one_of_each
from tests.codegen.templates.judging import judged, points, request

SEEDS = (4, 9, 12, 15)  # whose operands lie in runs of 16 bytes
LENGTHS = (1, 5, 17, 64, 65, 130, 257)
POINT = "tma_attention(height={}, order=1, width={})"
TEMPLATE, SUITS = attention_tma.TEMPLATE, attention_tma.TEMPLATE.space
OPTIONS = dd.Options(target="sm_90a")
Odd = Mapping[tuple[int, int, int], float]  # values that are not finite, by their places
# A device with so few multiprocessors that blocks have several tiles.
FEW = replace(OPTIONS, target=replace(TARGETS["sm_90a"], processors=2))


@dd.trace(dd.bf16[2, 66, 64], dd.bf16[1, 150, 64], dd.bf16[1, 150, 64], dd.bf16[66, 150])
def windowed(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, bias: dd.Tensor) -> dd.Tensor:
    def near(score: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
        i, j = places[-2:]
        return dd.where(i - j < 30, score, -float("inf"))

    out = dd.scaled_dot_product_attention(q, k, v, bias, True, score_mod=near, enable_gqa=True)
    return dd.tanh(out)


def recent(score: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    i, j = places[-2:]
    return dd.where(i - j < 60, score, -float("inf"))


def nearby(score: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    i, j = places[-2:]
    ahead = dd.where(j - i < 60, score, -float("inf"))
    return dd.where(i - j < 30, ahead, -float("inf"))


@dd.trace(dd.f16[2, 130, 64], dd.f16[2, 140, 64], dd.f16[2, 140, 64])
def near(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    return dd.scaled_dot_product_attention(q, k, v, score_mod=nearby)


@dd.trace(dd.f16[2, 65, 128], dd.f16[2, 210, 128], dd.f16[2, 210, 64])
def plain(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    def larger(score: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
        return score * 8.0

    return dd.scaled_dot_product_attention(q, k, v, score_mod=larger)


@dd.trace(dd.f16[1, 66, 64], dd.f16[1, 70, 64], dd.f16[1, 70, 64])
def small(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    return dd.scaled_dot_product_attention(q, k, v)


@dd.trace(dd.f16[1, 257, 64], dd.f16[1, 70, 64], dd.f16[1, 70, 64])
def three(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    """Have three tiles of 128 rows, so that one of two blocks has two."""
    return dd.scaled_dot_product_attention(q, k, v)


@dd.trace(dd.f16[1, 66, 64], dd.f16[1, 70, 64], dd.f16[1, 70, 64])
def widened(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    """Return f32, so that results are not stored in boxes."""
    return dd.astype(dd.scaled_dot_product_attention(q, k, v), dd.f32)


@dd.trace(dd.f16[1, 140, 64], dd.f16[1, 150, 64], dd.f16[1, 150, 64])
def causal(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    """Have a first tile that is not whole, and logarithms of its rows."""
    return dd.scaled_dot_product_attention(q, k, v, is_causal=True, return_lse=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_attentions_are_right(seed: int) -> None:
    d = drawn(seed, (dd.f16, dd.bf16)[seed % 2], (80, 128), LENGTHS)
    every = points(request(d.program, FEW, SUITS), TEMPLATE)
    point = every[int(d.share * len(every))]
    assert judged(d.program, point, options=FEW, suits=SUITS) == {""}, f"{d.about}: {point}"


def test_what_the_faults_are_planted_in_is_right() -> None:
    for program, height in zip(PROGRAMS, HEIGHTS, strict=True):
        point = POINT.format(height, 64)
        assert judged(program, point, options=FEW, suits=SUITS) == {""}


PROGRAMS, HEIGHTS = (plain, small, windowed, near, widened, causal), (128, 192, 128, 128, 192, 128)
RELEASED, WAITED = '{{ arrive("&empty[stage]") }}\n', "          wgmma_wait(1);\n"
READ = "      mbarrier_arrive(&others[1]);\n"
FAULTS = {
    "mask": ("near <= high[r]", "near < high[r]"),
    "mask of a score that reads": (
        'the_column="column", the_dot', 'the_column="column + 1", the_dot'),
    "first key": ("near >= low[r]", "near > low[r]"),
    "row of a limit": ("lane / 4 + r * 8", "lane / 4"),
    "no rescaling": ("sums[i] = sums[i] * scale[i / 2 % 2]", "sums[i] = sums[i]"),
    "total": ("total[r] * scale[r]", "total[r]"),
    "power": ("score[j * 4 + r * 2] * {{ power }}", "score[j * 4 + r * 2] * 1.4427f"),
    "k-tail": (" || ((i64){{ turn }} + 1) * {{ width }} > {{ columns }}", ""),
    "batch": ('offset(name, "batch")', 'offset(name, "0")'),
    "order of tiles": ("within / together", "within % together"),
    "first tile of keys": ("turn = wanted ? turn : turn + 1", "turn = turn + 1"),
    "last tile of keys": ("last = wanted ? last : last - 1", "last = last - 1"),
    "panel of the terms": ("step // 4 * width * 64", "0"),
    "panel of the query": ("i / 4 * {{ height * 64 }}", "0"),
    "swizzle": ("(piece ^ line % 8) * 8", "piece * 8"),
    "panel of a box": ("{{ panel * lines * 64 }}", "{{ panel * 64 }}"),
    "chunk of the values": ("chunk * 64 * features", "chunk * 64"),
    "wait for keys": ("          mbarrier_wait(&full[stage], phase);\n", ""),
    "wait for values": ("          mbarrier_wait(&full[2 + before], parity);\n", ""),
    "wait for the last values": ("        mbarrier_wait(&full[2 + stage], phase);\n", ""),
    "wait for checkers": ("      mbarrier_wait(&others[2], taken ^ 1);\n", ""),
    "wait for room": ("          mbarrier_wait(&empty[stage], phase);\n", ""),
    "wait for room of values": ("          mbarrier_wait(&empty[2 + stage], phase);\n", ""),
    "wait for room of the query": ("        mbarrier_wait(&others[1], room);\n", ""),
    "query released too early": (
        "{{ start_weighing() }}\n", "{{ start_weighing() }}\n" + READ),
    "phase of room": ("u32 phase = 1;", "u32 phase = 0;"),
    "phase that stays": ("          phase = phase ^ 1;\n", ""),
    "stage of a tile": ('{{ arrive("&empty[2 + stage]") }}\n{{ next_stage() }}',
                        '{{ arrive("&empty[2 + stage]") }}\n'),
    "released too early": (WAITED + RELEASED, RELEASED + WAITED),
    "released never": (RELEASED, ""),
    "values released too early": (
        '          wgmma_wait(0);\n{{ arrive("&empty[2 + before]") }}\n',
        '{{ arrive("&empty[2 + before]") }}\n          wgmma_wait(0);\n'),
    "few arrivals": ("mbarrier_init(&empty[i], {{ height // 16 }})",
                     "mbarrier_init(&empty[i], {{ height // 32 }})"),
    "bytes": ("mbarrier_expect(&full[stage], {{ width * terms * 2 }})",
              "mbarrier_expect(&full[stage], {{ width * terms }})"),
    "no wait for scores": (WAITED, "          wgmma_wait(2);\n"),
    "fence of registers": ("    wgmma_fence();\n{% for step", "{% for step"),
    "exchange": ("lane / {{ lanes }} % 2 == 1", "lane / {{ lanes }} % 2 == 0"),
    "exchange of rows": ("k / 2 * 4 + n * 2 + k % 2", "k / 2 * 4 + k % 2"),
    "order": ("? 0 : mine + 1]", "? 0 : mine]"),
    "epilogue": ("i * 32 + lane % 4 * 8;", "i * 32;"),
    "fence of results": ("      proxy_fence();\n", ""),
    "wait for stores": ("        tma_wait(0);\n", ""),
    "wait for stored tiles": ("          tma_stored(0);\n", ""),
    "wait for room of results": ("      mbarrier_wait(&others[2], taken);\n", ""),
    "wait for results": ("        mbarrier_wait(&others[3], taken ^ 1);\n", ""),
    "sums that tell": ("odd_sum != 0.0f", "odd_sum > 0.0f"),
    "batch whose sums tell": (
        "known[2 + batch], 1);\n        atomic", "known[2], 1);\n        atomic"),
    "values to answer for": ("low < begin || high > end", "low < begin"),
    "share of a tile": ("(i32)next_tile[{{ slot }}] * share", "0"),
    "tile of values to look at": ("turn * {{ width }} < high", "turn * {{ width }} < low"),
    "fence of a stored tile": ("device_fence();\n          atomic_add", "atomic_add"),
    "wait until all are stored": ("while (done < tiles)", "while (done < 0)"),
    "who mends a batch": ("2) < 2 ? 1 : 0", "2) > 2 ? 1 : 0"),
    "first odd value": ("first_odd[n] < begin", "first_odd[n] > begin"),
    "last odd value": ("last_odd[n] >= end", "last_odd[n] > end + {{ columns }}"),
    "swizzle of results": ("(j / 2 ^ lane / 4) * 8", "j / 2 * 8"),
    "place of results": ("top + {{ group * 64 }},", "top,"),
    "row of a result": ("warp * 16 + j % 2 * 8 + lane / 4", "warp * 16 + lane / 4"),
    "rows": ('else below("row", rows, height) %}', 'else "" %}'),
    "rows before the first": ('all("row >= 0", below("row", rows, 64))', 'below("row", rows, 64)'),
    "unseen values": ("if (told[0] != 0) {", "if (told[0] > turns) {"),
    "values before those seen": ("turn < begin || turn >= end", "turn >= end"),
    "values after those seen": ("turn < begin || turn >= end", "turn < begin"),
    "tiles that are claimed": ("claimed_{{ name }} < turns", "claimed_{{ name }} + 1 < turns"),
    "who is told at once": ("sees_all = begin == 0 && end == turns", "sees_all = begin == 0"),
    "told twice": ("        if (!sees_all) {\n", "        {\n"),
    "what is claimed next": ("told[3 - came]", "told[2 + came]"),
    "barrier before a search": (
        "        named_barrier(15, {{ checkers }});\n{{ search", "{{ search"),
    "wait for what is looked at": ("          mbarrier_wait(&others[4], came);\n", ""),
    "lines that are looked at": ("line % 64 * 64 +", "0 +"),
    "what is counted": ("told[1] != 0 ? 2 : 1", "told[1] == 0 ? 2 : 1"),
    "spoiled are read": ("        mbarrier_wait(&others[3], taken);\n", ""),
    "spoiled stay": ("{{ spoiled }}[n] = 0;\n", "{{ spoiled }}[n] = {{ spoiled }}[n];\n"),
}  # fmt: skip


WIDE = ("chunk of the values",)
UNSEEN = (
    "wait for checkers", "unseen values", "values before those seen", "values after those seen",
    "tiles that are claimed", "who is told at once", "told twice", "what is claimed next",
    "sums that tell", "batch whose sums tell", "values to answer for", "share of a tile",
    "tile of values to look at", "fence of a stored tile", "wait for stored tiles",
    "wait until all are stored",
    "who mends a batch", "first odd value", "last odd value", "barrier before a search",
    "wait for what is looked at", "lines that are looked at", "what is counted",
    "spoiled are read", "spoiled stay",
)  # fmt: skip


SHOWN = {  # which program shows a fault, where it is not the smallest
    windowed: ("mask of a score that reads", "batch", "order of tiles", "first tile of keys",
               "last tile of keys"),
    widened: ("exchange", "exchange of rows", "epilogue", "rows"),
    causal: ("rows before the first",),
    plain: ("no rescaling", "total", "panel of a box", "panel of the terms", "panel of the query"),
    near: ("first key", "row of a limit", "wait for room", "wait for room of values",
           "wait for room of the query", "phase that stays", "stage of a tile",
           "released too early", "released never", "values released too early", "few arrivals",
           "wait for stores", "wait for room of results"),
}  # fmt: skip


@dd.trace(dd.f16[2, 270, 64], dd.f16[2, 330, 64], dd.f16[2, 330, 64])
def unseen(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    return dd.scaled_dot_product_attention(q, k, v, is_causal=True, score_mod=recent)


@dd.trace(dd.f16[2, 270, 64], dd.f16[2, 330, 64], dd.f16[2, 330, 64])
def unseen_widened(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    """Have a window, and results that are not stored in boxes."""
    out = dd.scaled_dot_product_attention(q, k, v, is_causal=True, score_mod=recent)
    return dd.astype(out, dd.f32)


@dd.trace(dd.f16[2, 270, 64], dd.f16[2, 330, 64], dd.f16[2, 330, 64])
def unseen_early(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    """Have first rows that see fewer keys than others, so that their block ends first."""

    def nearby(score: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
        i, j = places[-2:]
        return dd.where(j - i < 60, recent(score, i, j), -float("inf"))

    return dd.scaled_dot_product_attention(q, k, v, score_mod=nearby)


@dd.trace(*[dd.f16[2, 330, 64]] * 3)
def seen(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    """Have tiles whose rows see all keys, and then others."""
    return dd.scaled_dot_product_attention(q, k, v, is_causal=True)


@dd.trace(*[dd.f16[2, 330, 64]] * 2, dd.f16[2, 330, 128])
def seen_long(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    """Have twice as many features as terms."""
    return dd.scaled_dot_product_attention(q, k, v, is_causal=True)


@dd.trace(*[dd.f16[2, 330, 64]] * 3)
def seen_widened(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    """Have results that are not stored in boxes."""
    out = dd.scaled_dot_product_attention(q, k, v, is_causal=True)
    return dd.astype(out, dd.f32)


@dd.trace(*[dd.f16[2, 330, 64]] * 3)
def seen_mended(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    """Have 7 in place of what is no number."""
    out = dd.scaled_dot_product_attention(q, k, v, is_causal=True)
    return dd.where(dd.isnan(out), 7.0, out)


ODD = {
    (0, 329, 3): np.inf, (0, 170, 9): np.nan, (0, 130, 60): -np.inf, (1, 5, 20): np.nan,
    **{(1, n, 12): np.inf for n in range(5, 330, 63)},
}  # fmt: skip
FIRST = {(1, 2, 5): np.nan}
LAST = {(1, 329, 5): np.nan}  # in one batch alone, whose last rows may not see it


def spoiling(options: dd.Options = FEW) -> bool:
    """Return whether values that are not finite spoil their features and no others, on simt."""
    choice = {"kernels.choices": f"fused_attention_0: {POINT.format(128, 64)}"}
    options = options.changed(choice)
    cases = ((unseen, ODD), (unseen, LAST), (unseen_widened, ODD), (seen, ODD), (seen, LAST),
             (seen_widened, ODD), (seen_long, ODD))  # fmt: skip
    try:
        each = [_spoilt(p, odd, options) for p, odd in cases]
        one, six = (
            replace(options, target=replace(TARGETS["sm_90a"], processors=n)) for n in (1, 6)
        )
        mended = _spoilt(seen_mended, ODD, one)  # one block has tiles of both batches
        early = _spoilt(unseen_early, FIRST, six)
    except KernelFault:
        return False
    whole = each[3]
    alike = np.array_equal(mended, np.where(np.isnan(whole), np.float16(7), whole))
    found = [*zip(each, (odd for _, odd in cases), strict=True), (early, FIRST)]
    return alike and all(_is_spoilt(got, odd) for got, odd in found)


def _spoilt(program: Program, odd: Odd, options: dd.Options) -> np.ndarray:
    """Return the result of a program with some odd values, on simt."""
    r = np.random.default_rng(0)
    sizes = [dims.values(p.type.shape, {}) for p in program.module.entry.params]
    q, k, v = (r.normal(size=n).astype(np.float16) for n in sizes)
    for at, x in odd.items():
        v[at] = x
    return np.asarray(dd.compile(program, options=options, engine="simt")(q, k, v))


def _is_spoilt(got: np.ndarray, odd: Odd) -> bool:
    spoiled = np.zeros((2, 1, got.shape[-1]), np.bool_)
    for batch, _, feature in odd:
        spoiled[batch, 0, feature] = True
    return bool((np.isfinite(got) != spoiled).all())


@pytest.mark.parametrize("fault", one_of_each(FAULTS))
def test_a_planted_fault_is_found_before_anything_is_timed(fault: str) -> None:
    old, new = FAULTS[fault]
    assert old in attention_tma.TEXT.source
    text = Text("tma_attention", attention_tma.TEXT.source.replace(old, new))
    wrong = replace(TEMPLATE, render=partial(attention_tma.render, text=text))
    options = FEW.changed({"kernels.codegens": (wrong,)})
    if fault in UNSEEN:
        assert not spoiling(options)
        return
    point = POINT.format(128, 128 if fault in WIDE else 64)
    program = next((p for p, faults in SHOWN.items() if fault in faults), small)
    assert judged(program, point, wrong, options, SUITS, engines=["simt"]) != {""}


def test_blocks_may_have_different_numbers_of_tiles() -> None:
    assert judged(three, POINT.format(128, 64), None, FEW, SUITS, engines=["simt"]) == {""}


def test_values_that_no_row_sees_spoil_results_if_they_are_not_finite() -> None:
    assert spoiling()


def test_a_compile_takes_it_and_its_products_follow_each_other() -> None:
    """Registers of operands must be whole before a fence, or the assembler splits the products."""

    @dd.trace(dd.bf16[2, 256, 128], dd.bf16[2, 256, 128], dd.bf16[2, 256, 128])
    def causal(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
        return dd.scaled_dot_product_attention(q, k, v, is_causal=True)

    made = compile(causal.module, OPTIONS)
    assert "tma_load3_bf16(" in made.text.source
    cubin = NvrtcCompiler("sm_90a").compile(made.text)
    assert not cubin.remarks
    assert all((r.spills, r.stack) == (0, 0) for r in cubin.resources)
    between = [
        x
        for x in cubin.ptx.split("wgmma.mma_async")[1:-1]
        if "wgmma.fence" not in x and "wgmma.wait" not in x
    ]
    assert between
    assert not any("prmt" in x or "cvt.rn" in x for x in between)


BESIDE = [dd.f16[2, 70, 3, 64]] * 3


@dd.trace(*BESIDE)
def beside(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    """Have heads side by side, and logarithms of their rows."""
    q, k, v = (dd.permute_dims(x, (0, 2, 1, 3)) for x in (q, k, v))
    out, lse = dd.scaled_dot_product_attention(q, k, v, is_causal=True, return_lse=True)
    return dd.permute_dims(out, (0, 2, 1, 3)), lse


def test_heads_that_lie_side_by_side_are_stored_in_boxes() -> None:
    assert "tma_store3_f16(" in compile(beside.module, OPTIONS).text.source
    assert judged(beside, POINT.format(128, 64), options=FEW, suits=SUITS) == {""}


def test_what_nvrtc_makes_of_the_kernel_is_right() -> None:
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")
    point = POINT.format(128, 64)
    assert judged(windowed, point, options=OPTIONS, suits=SUITS, engines=("ptx",)) == {""}
