"""Gradients of attention by groups of four warps: judged, and faults planted in their text."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.nvrtc import NvrtcCompiler
from didyma.codegen.runtime.registry import probe
from didyma.codegen.templates import weighted_text, weighted_tma
from didyma.codegen.templates.language import Text
from didyma.refimpl.ir.target import TARGETS
from didyma.tracer.types import Element
from tests.codegen.templates.faults import one_of_each
from tests.codegen.templates.judging import judged

TEMPLATE, SUITS = weighted_tma.TEMPLATE, weighted_tma.TEMPLATE.space
POINT = "tma_weighted(height=128, stages={}, width={})"
OPTIONS = dd.Options(target="sm_90a")
# A device with so few multiprocessors that blocks have several tiles.
FEW = replace(OPTIONS, target=replace(TARGETS["sm_90a"], processors=2))
ONE = replace(OPTIONS, target=replace(TARGETS["sm_90a"], processors=1))


def gradients(
    which: slice, t: Element, sizes: tuple[int, ...], *, causal: bool, window: int | None = None
) -> dd.Program:
    """Trace some gradients, for sizes of batch, heads, heads of keys, queries, keys and depth."""
    b, h, own, n, m, d = sizes

    @dd.trace(
        t[b, h, n, d], t[b, h, n, d], t[b, own, m, d], t[b, own, m, d], t[b, h, n, d],
        dd.f32[b, h, n],
    )  # fmt: skip
    def f(
        g: dd.Tensor, q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, o: dd.Tensor, logs: dd.Tensor
    ) -> tuple[dd.Tensor, ...]:
        made = dd.scaled_dot_product_attention_backward(
            g, q, k, v, o, logs, causal, enable_gqa=h != own, window=window
        )
        return tuple(made)[which]

    return f


QUERIES, VALUES, BOTH = slice(1), slice(2, 3), slice(1, 3)
of_queries = gradients(QUERIES, dd.f16, (1, 2, 1, 66, 140, 64), causal=True)
windowed = gradients(BOTH, dd.f16, (1, 2, 1, 140, 200, 64), causal=True, window=40)
of_values = gradients(VALUES, dd.bf16, (1, 1, 1, 70, 130, 64), causal=False)
of_80 = gradients(BOTH, dd.f16, (1, 1, 1, 70, 65, 80), causal=True)
deep = gradients(QUERIES, dd.bf16, (1, 1, 1, 65, 70, 128), causal=False)
long_both = gradients(BOTH, dd.f16, (1, 1, 1, 130, 330, 64), causal=True)
long_deep = gradients(BOTH, dd.f16, (1, 1, 1, 130, 200, 128), causal=True)
deep_both = gradients(BOTH, dd.bf16, (1, 1, 1, 100, 65, 128), causal=False)


@pytest.mark.parametrize(
    ("program", "point"),
    [
        (of_queries, (2, 128)), (windowed, (3, 64)), (of_values, (2, 64)),
        (deep, (2, 64)), (deep_both, (2, 64)), (of_80, (2, 64)),
    ],
)  # fmt: skip
def test_gradients_are_right(program: dd.Program, point: tuple[int, ...]) -> None:
    assert judged(program, POINT.format(*point), options=FEW, suits=SUITS) == {""}


FAULTS = {
    "mask": ('{{ weight_of(score, score ~ "_weight") }}',
             '{{ weight_of(score, score ~ "_seen") }}\n{{ weight_of(open, score ~ "_weight") }}'),
    "tile that all see": ("seen_by_all && own_top", "seen_by_all || own_top"),
    "row of a weight": ("(i32)(upper + lane / 4 + n / 2 % 2 * 8)", "(i32)(upper + lane / 4)"),
    "rows that see all": ('"own_top", 64)', '"top", 64)'),
    "row of a number": ("[%d + n / 2 %% 2]", "[%d]"),
    "column of a number": ("n / 4 * 8 + lane % 4 * 2 + n % 2];", "n / 4 * 8 + lane % 4 * 2];"),
    "first tile": ("turn = wanted ? turn : turn + 1", "turn = turn + 1"),
    "last tile": ("last = wanted ? last : last - 1", "last = last - 1"),
    "batch": ('offset(name, "batch")', 'offset(name, "0")'),
    "panel of a row": ("step // 4 * height * 64 + step % 4 * 16", "step % 4 * 16"),
    "panel of a column": ("step // 4 * width * 64 + step % 4 * 16 }}]);", "step % 4 * 16 }}]);"),
    "panel of a box": ("{{ panel * lines * 64 }}", "{{ panel * 64 }}"),
    "value": ('shared or "value"', '"key" if shared == "right" else "right"'),
    "dtype of sums": ("        {{ into }}[i] = 0.0f;\n", "        {{ into }}[i] = 0.001f;\n"),
    "sums begin again": ("          {{ into }}[n] = 0.0f;\n", "          {{ into }}[n] = 1.0f;\n"),
    "wait for columns": ("          mbarrier_wait(&full[stage], phase);\n", ""),
    "wait for room": ("          mbarrier_wait(&empty[stage], phase);\n", ""),
    "wait for a place": ("        mbarrier_wait(&others[1], room);\n", ""),
    "wait for rows": ("      mbarrier_wait(&rows_full[slot], slot_phase);\n", ""),
    "wait for room of rows": ("        mbarrier_wait(&rows_empty[slot], slot_phase);\n", ""),
    "phase of room": ("u32 phase = 1;", "u32 phase = 0;"),
    "phase that stays": ("          phase = phase ^ 1;\n", ""),
    "no wait for products": ("          wgmma_wait(1);\n", "          wgmma_wait(2);\n"),
    "no wait for the second product": ('wgmma_wait(1);\n{{ weigh("open_score", "score", "other")',
                                       'wgmma_wait(2);\n{{ weigh("open_score", "score", "other")'),
    "no wait for sums": ('          wgmma_wait(0);\n{{ arrive("&empty[stage]") }}\n',
                         '{{ arrive("&empty[stage]") }}\n'),
    "released too early": ('          wgmma_wait(0);\n{{ arrive("&empty[stage]") }}\n',
                           '{{ arrive("&empty[stage]") }}\n          wgmma_wait(0);\n'),
    "released never": ('{{ arrive("&empty[stage]") }}\n', ""),
    "rows released too early": (
        "{{ hold_rows() }}\n", '{{ arrive("&rows_empty[slot]") }}\n{{ hold_rows() }}\n'),
    "few arrivals": ("mbarrier_init(&empty[i], {{ height // 16 }})",
                     "mbarrier_init(&empty[i], {{ height // 32 }})"),
    "bytes": ("{{ width * every * 2 }}", "{{ width * every }}"),
    "fence": ("        wgmma_fence();\n{% for", "{% for"),
    "wait for numbers of columns": ("{{ 33 if of_columns else 1 }}", "1"),
    "stage of numbers": ("by_column[stage * {{ width * of_columns }} + n * 32", "by_column[n * 32"),
    "power": ("exp2_flush_f32({{ value }}_exponent)",
              "exp2_flush_f32({{ value }}_exponent * 1.02f)"),
    "epilogue": ("i * 32 + lane % 4 * 8;", "i * 32;"),
    "rows": ('below("row", rows, height)', '""'),
    "second sum": ('given.pop("the_dot")', 'given.pop("the_dot") and "other[n]"'),
}  # fmt: skip
SHOWN = {  # which program shows a fault, where it is not that of queries
    windowed: ("first tile", "last tile", "wait for room", "phase that stays", "released never",
               "released too early", "column of a number", "wait for numbers of columns",
               "stage of numbers", "second sum", "wait for a place", "few arrivals",
               "tile that all see"),
    long_both: ("rows that see all", "wait for rows", "rows released too early"),
    long_deep: ("wait for room of rows",),
    deep: ("panel of a row", "panel of a column", "panel of a box", "value"),
    deep_both: ("no wait for the second product", "no wait for sums"),
}  # fmt: skip


@pytest.mark.parametrize("fault", one_of_each(FAULTS))
def test_a_planted_fault_is_found_before_anything_is_timed(fault: str) -> None:
    old, new = FAULTS[fault]
    assert old in weighted_text.TEXT.source
    text = Text("tma_weighted", weighted_text.TEXT.source.replace(old, new))
    wrong = replace(TEMPLATE, render=partial(weighted_tma.render, text=text))
    program = next((p for p, faults in SHOWN.items() if fault in faults), of_queries)
    few = ONE if program in (long_both, long_deep) else FEW
    options = few.changed({"kernels.codegens": (wrong,)})
    point = POINT.format(3 if program is long_deep else 2, 64)  # with room for one tile of rows
    assert judged(program, point, wrong, options, SUITS, engines=["simt"]) != {""}


def test_values_that_no_row_sees_spoil_results_if_they_are_not_finite() -> None:
    r = np.random.default_rng(0)
    b, h, own, n, m, d = 1, 2, 1, 140, 200, 64
    shapes = ((b, h, n, d), (b, h, n, d), (b, own, m, d), (b, own, m, d), (b, h, n, d))
    g, q, k, v, o = (r.normal(size=s).astype(np.float16) for s in shapes)
    q[0, 1, 139, 5], g[0, 0, 3, 9] = np.inf, np.nan
    logs = r.normal(size=(b, h, n)).astype(np.float32)
    made = dd.compile(windowed, options=FEW, engine="simt")
    assert str(made.choices).count("tma_weighted") == 1
    of_k, of_v = (np.isfinite(np.asarray(x))[0] for x in made(g, q, k, v, o, logs))
    unseen = slice(190, None)  # keys that no query sees
    assert not of_k[0, unseen, 5].any()
    assert of_k[0, unseen][:, [4, 6]].all()
    assert not of_v[0, unseen, 9].any()
    assert of_v[0, unseen][:, [8, 10]].all()


def test_a_compile_takes_it_and_its_products_follow_each_other() -> None:
    program = gradients(slice(3), dd.bf16, (1, 2, 2, 256, 256, 128), causal=True)
    made = compile(program.module, OPTIONS)
    assert made.text.source.count("setmaxnreg_inc") == 2
    assert " exp_f32(" not in made.text.source
    cubin = NvrtcCompiler("sm_90a").compile(made.text)
    assert not cubin.remarks
    assert "wgmma.mma_async" in cubin.ptx


def test_what_nvrtc_makes_of_the_kernels_is_right() -> None:
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")
    point = POINT.format(2, 64)
    assert judged(deep_both, point, options=OPTIONS, suits=SUITS, engines=("ptx",)) == {""}


def test_features_that_are_half_a_line_are_left_to_others() -> None:
    @dd.trace(*[dd.f16[1, 2, 130, n] for n in (32, 64, 64, 32, 32)], dd.f32[1, 2, 130])
    def of_values(
        g: dd.Tensor, q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, o: dd.Tensor, logs: dd.Tensor
    ) -> dd.Tensor:
        return dd.scaled_dot_product_attention_backward(g, q, k, v, o, logs).v

    made = dd.compile(of_values, options=OPTIONS, engine="host")
    assert [r["choice"].split("(")[0] for r in made.choices["choices"].values()] == ["mma_weighted"]
