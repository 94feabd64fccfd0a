"""Scores that are polynomials of the product: judged, where it is infinite, and with faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import ModuleType

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.pipeline import compile
from didyma.codegen.templates import attention_tma, attention_wgmma
from didyma.codegen.templates.language import Text
from didyma.tracer.tracing import Program
from tests.codegen.templates.judging import judged

Change = Callable[..., dd.Tensor]
POINTS = {
    attention_tma: "tma_attention(height=128, order=0, width=64)",
    attention_wgmma: "wgmma_attention(height=64, width=64)",
}
OPTIONS = dd.Options(target="sm_90a")


def away(places: tuple[dd.Tensor, ...]) -> dd.Tensor:
    return dd.astype(places[-1] - places[-2], dd.f32)


def six(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    return (s + away(places) * 0.01) / 2.0 + s * s / 4.0


def cubic(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    return 0.01 * (s * s * s) + (s + 3.0) * 0.5 - away(places) * 0.25


def crossing(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    """Be no number where the product is infinite, though Horner's scheme says otherwise."""
    return 0.01 * (s * s * s) - (s + 3.0) * 0.5 - away(places) * 0.25


def steep(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    """Grow by two with each row, and fall by three with each column."""
    i, j = places[-2:]
    return s + dd.astype(i * 2 - j * 3 + 7, dd.f32) * 0.125 + 1.0


def huge(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    """Have an index that is no float, so that it is converted for each element."""
    i, j = places[-2:]
    return s + dd.astype((j - i) * 1048577, dd.f32) / 2097152.0


def capped(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    return 4.0 * dd.tanh((s - 0.5) / 3.0)


def falling(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    """Be no number where the product is infinite, though Horner's scheme says minus infinity."""
    return s - s * s


def scaled(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    return s * 3.0 * 0.5


def named(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    """Use polynomials more than once: of a high power, one that is no number, and of no product."""
    high, low, far = s * s * s * s, s - s * s, away(places) * 0.25
    return dd.tanh(high) * high + dd.tanh(low) * low + dd.tanh(far) * s + far * s


CHANGES = (six, cubic, crossing, steep, huge, capped, falling, scaled, named)


def program(change: Change, *, causal: bool = True, logs: bool = False) -> Program:
    def attention(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> tuple[dd.Tensor, ...]:
        if logs:
            return dd.scaled_dot_product_attention(
                q, k, v, None, causal, score_mod=change, return_lse=True
            )
        return (dd.scaled_dot_product_attention(q, k, v, None, causal, score_mod=change),)

    side = dd.f16[2, 140, 64]
    return dd.trace(side, side, side)(attention)


def shown(change: Change) -> str:
    choice = {"kernels.choices": f"fused_attention_0: {POINTS[attention_tma]}"}
    return compile(program(change).module, OPTIONS.changed(choice)).text.source


@pytest.mark.parametrize("module", POINTS)
@pytest.mark.parametrize("change", CHANGES)
def test_scores_are_right(module: ModuleType, change: Change) -> None:
    p = program(change, causal=change is not cubic, logs=change in (six, capped))
    assert judged(p, POINTS[module], options=OPTIONS, suits=module.TEMPLATE.space) == {""}


def test_polynomials_are_short() -> None:
    assert ") * the_dot + the_apart;" in shown(six)  # the factor of the index is part of the power
    assert ") * the_dot * the_dot" not in shown(crossing)
    assert "first_apart" in shown(steep)
    assert "first_apart" not in shown(huge)
    assert " / 3.0f" not in shown(capped)
    assert "4.0f * tanh" not in shown(capped)
    assert "const f32 opened" not in shown(scaled)
    assert " - 4.194304e+06f) * 0.3f" in shown(behind)


@dd.trace(*[dd.f16[2, 140, 64]] * 3, dd.f32[2])
def sloped(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, slopes: dd.Tensor) -> dd.Tensor:
    """Have a factor of the index for each head."""

    def lower(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
        return s + away(places) * dd.reshape(slopes, (2, 1, 1))

    return dd.scaled_dot_product_attention(q, k, v, None, True, score_mod=lower)


@pytest.mark.parametrize("module", POINTS)
def test_a_score_may_read_for_its_batch_what_no_key_hides(module: ModuleType) -> None:
    choice = {"kernels.choices": f"fused_attention_0: {POINTS[module]}"}
    text = compile(sloped.module, OPTIONS.changed(choice)).text.source
    assert "found_score" not in text
    assert judged(sloped, POINTS[module], options=OPTIONS, suits=module.TEMPLATE.space) == {""}


def near(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    """Be small where the terms of the polynomial are large."""
    return (s - 300.0) * (s - 300.0) * (s - 300.0)


def behind(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    """Be small where the index and a constant, times a factor, are large."""
    return s + (dd.astype(places[-1] - places[-2] + 4194304, dd.f32) - 4194304.0) * 0.3


def test_a_product_of_sums_that_is_small_beside_their_terms_is_right() -> None:
    r = np.random.default_rng(0)
    q, k, v = (np.zeros((2, 140, 64), np.float16) for _ in "qkv")
    q[..., 0], k[..., 0] = 1, 2400  # the product is near 300
    q[..., 1:4], k[..., 1:4] = (r.integers(-2, 3, (2, 140, 3)) for _ in "qk")
    v[:] = r.normal(size=v.shape)
    p = program(near)
    choice = {"kernels.choices": f"fused_attention_0: {POINTS[attention_tma]}"}
    got = dd.compile(p, options=OPTIONS.changed(choice), engine="simt")(q, k, v)
    assert dd.interpret(p, q, k, v).contains(got)


@pytest.mark.parametrize("change", [six, falling])
def test_infinite_products_spoil_the_rows_that_they_should(change: Change) -> None:
    r = np.random.default_rng(0)
    q, k, v = (r.normal(size=(2, 140, 64)).astype(np.float16) for _ in "qkv")
    q[0, 3, 5], q[1, 60, 7] = np.inf, -np.inf
    p = program(change, causal=False)
    choice = {"kernels.choices": f"fused_attention_0: {POINTS[attention_tma]}"}
    got = dd.compile(p, options=OPTIONS.changed(choice), engine="simt")(q, k, v)
    truth = dd.interpret(p, q, k, v)
    assert np.isnan(truth.values[0]).any()
    assert truth.contains(got)


FAULTS = {
    "column": (attention_tma, "right_by * {{ column_step }}", "right_by"),
    "row": (attention_tma, " + down_by * {{ row_step }}", ""),
    "first row": (attention_tma, "the_row=\"first_row\"", "the_row=\"top\""),
    "first column": (
        attention_tma, "* {{ width }} + lane % 4 * 2;\n    {{ mod", "* {{ width }};\n    {{ mod"),
    "column of an element": (attention_tma, "right_by = n / 4 * 8 + n % 2", "right_by = n / 4 * 8"),
    "power": (attention_tma, "top_score[r] * {{ power }};", "top_score[r] * 1.442695f;"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    module, old, new = FAULTS[fault]
    assert old in module.TEXT.source
    text = Text("tma_attention", module.TEXT.source.replace(old, new))
    template = module.TEMPLATE
    wrong = replace(template, render=partial(module.render, text=text))
    options = OPTIONS.changed({"kernels.codegens": (wrong,)})
    point = POINTS[module]
    said = judged(
        program(steep, logs=True), point, wrong, options, template.space, engines=["simt"]
    )
    assert said != {""}


def soft(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    return dd.tanh(s / 30.0) * 30.0


def attended(change: Change | None, scale: float | None = None) -> Program:
    @dd.trace(*[dd.f16[2, 70, 64]] * 3)
    def f(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
        return dd.scaled_dot_product_attention(
            q, k, v, is_causal=True, scale=scale, score_mod=change
        )

    return f


@pytest.mark.parametrize(
    ("program", "share"),
    [
        (attended(None, 0.3), 1.0), (attended(soft), 1.0), (attended(six), 1.0),
        (program(six, logs=True), 64 / 65),  # all but the logarithms of sums
    ],
)  # fmt: skip
def test_the_ring_compares_scores_whose_constants_a_text_multiplies(
    program: Program, share: float
) -> None:
    report = dd.check(program, options=OPTIONS, engines=["simt"], tries=1)
    assert report.agree
    (level,) = (x for x in report.levels if x.name == "simt")
    assert 0.95 * share < level.ring_checked / level.ring_total <= share


@pytest.mark.parametrize("change", [None, six])
def test_a_sum_that_is_wrong_is_seen_in_the_ring(change: Change | None) -> None:
    source = attention_tma.TEXT.source
    old = "total[r] = total[r] * scale[r] + (powers + odd_powers);"
    assert old in source
    text = Text("tma_attention", source.replace(old, old.replace("powers + odd", "odd")))
    wrong = replace(attention_tma.TEMPLATE, render=partial(attention_tma.render, text=text))
    report = dd.check(
        attended(change, 0.3), options=OPTIONS.changed({"kernels.codegens": (wrong,)}),
        engines=["simt"], tries=1,
    )  # fmt: skip
    assert not report.agree
