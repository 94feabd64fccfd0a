"""Attention whose rows see the keys that memory tells: judged, and faults planted in its text."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import ModuleType

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.runtime.engine import KernelFault
from didyma.codegen.templates import attention_mma, attention_tma, attention_wgmma
from didyma.codegen.templates.language import Text
from didyma.refimpl.ir.target import TARGETS
from tests.codegen.templates.faults import one_of_each

OPTIONS = dd.Options(target="sm_90a")
FEW = replace(OPTIONS, target=replace(TARGETS["sm_90a"], processors=2))
TEMPLATES = {
    attention_mma: "mma_attention(height=64, tall=16, width=32)",
    attention_wgmma: "wgmma_attention(height=64, width=64)",
    attention_tma: "tma_attention(height=128, order=0, width=64)",
}
ROWS, COLUMNS = 132, 200
ALL, EACH = (ROWS,), (2, ROWS)  # rows of all batches alike, or of each


def ranged(of: tuple[int, ...], *, causal: bool = False) -> dd.Program:
    """Trace an attention whose rows see keys between ends that two arrays hold."""

    @dd.trace(
        dd.f16[2, ROWS, 64], dd.f16[2, COLUMNS, 64], dd.f16[2, COLUMNS, 64],
        dd.i32[(*of, 1)], dd.i32[(*of, 1)],
    )  # fmt: skip
    def f(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, first: dd.Tensor, last: dd.Tensor) -> dd.Tensor:
        def seen(score: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
            j = places[-1]
            score = dd.where(j >= dd.astype(first, dd.i64), score, -float("inf"))
            return dd.where(j <= dd.astype(last, dd.i64), score, -float("inf"))

        return dd.scaled_dot_product_attention(q, k, v, is_causal=causal, score_mod=seen)

    return f


def right(
    options: dd.Options, of: tuple[int, ...] = EACH, engine: str = "simt", *, causal: bool = False
) -> bool:
    """Return whether an engine gives what the definition does, which says who sees no key."""
    r = np.random.default_rng(len(of))
    q, k, v = (r.normal(size=(2, n, 64)).astype(np.float16) for n in (ROWS, COLUMNS, COLUMNS))
    moved, wide = np.array([[0], [60]]), np.array([[0], [160]])
    first = np.arange(ROWS) * 9 // 10 + np.arange(ROWS) // 128 * 40 - moved
    first = first + r.integers(-9, 9, EACH)
    last = first + r.integers(-2, 70, EACH) + wide
    first, last = ((x if of == EACH else x[0])[..., None] for x in (first, last))
    given = (q, k, v, first.astype(np.int32), last.astype(np.int32))
    got = np.asarray(dd.compile(ranged(of, causal=causal), options=options, engine=engine)(*given))
    j, i = np.arange(COLUMNS), np.arange(ROWS)[:, None]
    seen = (j >= first) & (j <= last) & ((i >= j) | (not causal))
    score = q.astype(np.float64) @ k.astype(np.float64).swapaxes(1, 2) / 8
    score = np.where(seen, score, -np.inf)
    with np.errstate(invalid="ignore"):
        weight = np.exp(score - score.max(-1, keepdims=True))
        weight = weight / weight.sum(-1, keepdims=True)
    want, size = weight @ v, np.nan_to_num(weight) @ np.abs(v)
    off = np.abs(got - want) > 2.0**-10 * (size + np.abs(want)) + 1e-6
    return bool((np.isnan(want) == np.isnan(got)).all() and not off.any())


def options(module: ModuleType, text: Text | None = None) -> dd.Options:
    """Return options that choose a template, or one of another text."""
    changed: dict[str, object] = {"kernels.choices": f"fused_attention_0: {TEMPLATES[module]}"}
    if text is not None:
        wrong = replace(module.TEMPLATE, render=partial(module.render, text=text))
        changed["kernels.codegens"] = (wrong,)
    return FEW.changed(changed)


@pytest.mark.parametrize("module", TEMPLATES, ids=lambda m: m.TEMPLATE.name)
def test_rows_see_what_memory_tells(module: ModuleType) -> None:
    assert right(options(module))
    assert right(options(module), ALL, "host", causal=True)


FAULTS = {
    "last key of a tile": (attention_mma, "<= some_last", "< some_last - 63"),
    "first key of a tile": (attention_mma, "> some_first - {{ width }}", "> some_first"),
    "first key that all see": (attention_mma, ">= all_first", ">= all_first - 40"),
    "last key that all see": (attention_mma, "<= all_last - {{ width - 1 }}", "<= all_last"),
    "rows of a range": (attention_mma, "n < {{ height }}; n = n + 32", "n < 32; n = n + 32"),
    "rows of the last tile": (attention_tma, "const i64 row = top + n;", "const i64 row = n;"),
    "lanes of a range": (attention_mma, "(16, 8, 4, 2, 1)", "(8, 4, 2, 1)"),
    "batch of a range": (
        attention_tma, '"first_key", "begins", the_batch="batch"',
        '"first_key", "begins", the_batch="0"'),
    "last tile of keys": (attention_tma, "some_last / {{ width }} + 1", "some_last / {{ width }}"),
    "first tile of keys": (
        attention_tma, "turn = some_first / {{ width }}", "turn = some_first / {{ width }} + 1"),
    "keys that all see": (attention_tma, "next_tile[5] = all_last", "next_tile[5] = some_last"),
    "place of keys": (attention_tma, '"(i64)%s * %d" % (last, width)', '"(i64)%s * 9" % last'),
}  # fmt: skip


@pytest.mark.parametrize("fault", one_of_each(FAULTS))
def test_a_planted_fault_is_found(fault: str) -> None:
    module, old, new = FAULTS[fault]
    assert module.TEXT.source.count(old) == 1
    text = Text(module.TEMPLATE.name, module.TEXT.source.replace(old, new))
    with suppress(KernelFault):
        assert not right(options(module, text), engine="host")
