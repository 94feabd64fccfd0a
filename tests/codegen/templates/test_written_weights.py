"""Kernels of attentions whose softmax is written in another way, or whose weights have factors."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import ModuleType

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.pipeline import compile
from didyma.codegen.templates import (
    attention,
    attention_mma,
    attention_tma,
    attention_wgmma,
)
from didyma.codegen.templates.language import Text
from didyma.refimpl.ir.types import Array
from tests.codegen.templates.judging import judged
from tests.codegen.templates.written import forms

SM_80 = dd.Options(target="sm_80")
TILED = "tiled_attention(each=2, height=16, lanes=8, width=16)"
MMA = "mma_attention(height=32, tall=16, width=16)"
WIDE = forms(
    dd.f32[2, 37, 8], dd.f32[2, 50, 8], dd.f32[2, 50, 12], dd.f32[2, 37, 50], dd.bool_[2, 37, 50]
)
NARROW = forms(
    dd.f16[2, 37, 24], dd.f16[2, 50, 24], dd.f16[2, 50, 16], dd.f16[2, 37, 50], dd.bool_[2, 37, 50]
)


SM_90A = dd.Options(target="sm_90a")
WGMMA, TMA = (
    "wgmma_attention(height=64, width=64)", "tma_attention(height=128, order=1, width=64)",
)  # fmt: skip
LONG = forms(
    dd.f16[2, 70, 64], dd.f16[2, 130, 64], dd.f16[2, 130, 64], dd.f16[2, 70, 130],
    dd.bool_[2, 70, 130],
)  # fmt: skip
WEIGHED = ("guarded", "rows kept", "divided last", "by logarithm")  # in short, of the forms


@pytest.mark.parametrize("form", WIDE)
def test_tiles_of_keys_are_right(form: str) -> None:
    assert judged(WIDE[form], TILED, suits=attention.TEMPLATE.space) == {""}


@pytest.mark.parametrize("form", NARROW)
def test_tensor_cores_are_right(form: str) -> None:
    suits = attention_mma.TEMPLATE.space
    assert judged(NARROW[form], MMA, options=SM_80, suits=suits) == {""}


def special(p: dd.Program, seed: int = 0) -> list[Array]:
    """Draw inputs of which rows see nothing, or few keys, and some numbers are not finite."""
    r = np.random.default_rng(seed)
    types = [x.type for x in p.module.entry.params]
    q, k, v, *more = (r.normal(size=tuple(map(int, t.shape))) for t in types)
    q[0, 3], k[1, 2], v[0, 7, 1], v[1, 45, 0] = np.nan, np.inf, np.inf, -np.inf
    q[0, 5], q[1, 10:20] = 40 * q[0, 5], 40 * q[1, 10:20]
    for x in more:
        x[:, 9], x[0, 11, :40] = -1.0, -1.0
        x[1, 4, 2], x[1, 6, 49] = np.inf, np.nan
    return [
        x > 0 if t.dtype is dd.bool_.dtype else x.astype(t.dtype.numpy)
        for x, t in zip((q, k, v, *more), types, strict=True)
    ]


def computed(p: dd.Program, point: str, options: dd.Options, given: list[Array]) -> Array:
    """Return the result of a program whose attention is one kernel."""
    loops = compile(p.module, options, until="lower").loops
    (name,) = (name for name in loops if "attention" in name)
    exe = dd.compile(p, options=options.changed({"kernels.choices": f"{name}: {point}"}))
    assert [k.name for k in exe.compiled.text.kernels] == [*loops]
    return np.asarray(exe(*given))


CASES = [
    (programs, point, options, form)
    for programs, point, options, some in (
        (WIDE, TILED, dd.Options(), WIDE), (NARROW, MMA, SM_80, NARROW),
        (LONG, WGMMA, SM_90A, WEIGHED), (LONG, TMA, SM_90A, WEIGHED),
    )
    for form in some
]  # fmt: skip


@pytest.mark.parametrize(("programs", "point", "options", "form"), CASES)
def test_rows_that_see_nothing_and_numbers_without_end_are_as_the_graph_says(
    programs: dict[str, dd.Program], point: str, options: dd.Options, form: str
) -> None:
    p = programs[form]
    given = special(p)
    got = computed(p, point, options, given)
    want = dd.interpret(p, *given)
    assert want.contains(got)
    assert np.isnan(got[0, 3]).all() == ("guarded" not in form)


@pytest.mark.parametrize("module", [attention_wgmma, attention_tma])
def test_groups_of_four_warps_are_right(module: ModuleType) -> None:
    point = WGMMA if module is attention_wgmma else TMA
    for form in ("guarded", "rows kept"):
        suits = module.TEMPLATE.space
        assert judged(LONG[form], point, options=SM_90A, suits=suits) == {""}, form


FAULTS = {  # of a module: its options, and changes of its text that some form must reveal
    "tiled": (attention, WIDE, TILED, dd.Options(), {
        "factor of another key": ('"column", the_power', '"column ^ 1", the_power'),
        "exponentials in the sum": ("powers = powers + power;", "powers = powers;"),
        "guard of the scale": ("scale[i] == scale[i] ? scale[i] : {{ zero }}", "scale[i]"),
        "empty rows": ("none ? sums[n] * {{ zero }} : mean", "mean"),
        "values of empty rows": ("sums[n] * {{ zero }} :", "{{ zero }} :"),
    }),
    "mma": (attention_mma, NARROW, MMA, SM_80, {
        "factor of another key": ('"column", the_power', '"column ^ 1", the_power'),
        "guard of the scale": ("scale[r] == scale[r] ? scale[r] : 0.0f", "scale[r]"),
        "empty rows": ("sees_none ? sums[n] * 0.0f : mean", "mean"),
        "values of empty rows": ("sums[n] * 0.0f :", "0.0f :"),
    }),
    "wgmma": (attention_wgmma, LONG, WGMMA, SM_90A, {
        "rows with no number": ("known[n / 2 % 2] != 0 && row", "row"),
        "empty rows": ("none ? 0.0f : scale[r]", "scale[r]"),
    }),
    "tma": (attention_tma, LONG, TMA, SM_90A, {
        "rows with no number": ("known[n / 2 % 2] != 0 && row", "row"),
        "empty rows": ("none ? 0.0f : scale[r]", "scale[r]"),
    }),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "fault"), [(name, fault) for name, f in FAULTS.items() for fault in f[-1]]
)
def test_a_planted_fault_is_found(name: str, fault: str) -> None:
    module, programs, point, options, faults = FAULTS[name]
    old, new = faults[fault]
    assert module.TEXT.source.count(old) == 1
    text = Text(module.TEXT.name, module.TEXT.source.replace(old, new))
    wrong = replace(module.TEMPLATE, render=partial(module.render, text=text))
    changed = options.changed({"kernels.codegens": (wrong,)})
    for form in ("guarded and kept", "guarded", "rows kept"):
        p = programs[form]
        if form == "guarded and kept" and module not in (attention, attention_mma):
            continue
        given = special(p)
        got = computed(p, point, changed, given)
        if not dd.interpret(p, *given).contains(got):
            return
    raise AssertionError("no form reveals the fault")
