"""Programs that read inputs in other layouts give the bits of those for row-major order."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.layouts import variant as variants
from didyma.codegen.layouts.layout import Layout, Span
from didyma.codegen.layouts.variant import Variant, variant
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime.registry import engine
from didyma.fuzz.levels import runner

from .views import view

GAPS: Layout = (Span(0), Span(1, 40))
ODD: Layout = (Span(0), Span(1, 37, 5))
TURNED: Layout = (Span(1), Span(0))
REPEATED: Layout = (Span(0, 1, 0, 0), Span(1))
N = dd.dim("n", 1, 64)


def program(function: Any, *types: Any) -> Compiled:
    return compile(dd.trace(*types or (dd.f32[8, 32],))(function).module, Options(target="sm_90a"))


def softmax(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x, axis=-1)


def plus(x: dd.Tensor) -> dd.Tensor:
    return dd.exp(x) + 1.0


def returned(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    return x, x + 1.0


def reshaped(x: dd.Tensor) -> dd.Tensor:
    return softmax(dd.reshape(x, (16, 16)))


def branched(x: dd.Tensor) -> Any:
    return dd.cond(dd.sum(x) > 0.0, plus, dd.negative, x)


def both(x: dd.Tensor, y: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    return softmax(x), plus(y)


def of(c: Compiled, layout: Layout, options: Options | None = None) -> Variant:
    (x, *_) = c.source.entry.params
    return variant(c, options or Options(target="sm_90a"), {x.name: layout})


@pytest.mark.parametrize(
    ("function", "layout", "schedule"),
    [
        (softmax, GAPS, "rows"),
        (softmax, REPEATED, "rows"),
        (plus, GAPS, "pointwise_wide"),
        (plus, ODD, "pointwise"),
        (plus, TURNED, "transpose"),
        (plus, REPEATED, "pointwise_wide"),
        (dd.matrix_transpose, TURNED, "pointwise_wide"),
    ],
)
def test_a_layout_that_costs_nothing_is_taken(function: Any, layout: Layout, schedule: str) -> None:
    made = of(program(function), layout)
    assert made.compiled is not None
    assert not made.refused
    (kernel,) = made.compiled.program.kernels
    assert dict(kernel.attrs)["schedule"] == schedule


@pytest.mark.parametrize(
    ("function", "layout", "why"),
    [
        (softmax, TURNED, "lie apart"),
        (softmax, ODD, "another order"),
        (dd.matrix_transpose, (Span(0), Span(1, 64, 0, 2)), "lie apart"),
        (returned, GAPS, "returns it"),
        (reshaped, GAPS, "another shape"),
        (branched, GAPS, "no kernel"),
    ],
)
def test_a_layout_that_would_cost_more_or_change_bits_is_not(
    function: Any, layout: Layout, why: str
) -> None:
    made = of(program(function), layout)
    assert made.compiled is None
    assert why in made.refused["x"]


def test_small_elements_that_no_wide_access_reaches_are_copied() -> None:
    assert "one by one" in of(program(plus, dd.bf16[8, 32]), ODD).refused["x"]
    assert of(program(plus, dd.bf16[8, 32]), GAPS).compiled is not None


def test_large_programs_and_symbols_and_choices_take_none(monkeypatch: pytest.MonkeyPatch) -> None:
    small = program(plus)
    monkeypatch.setattr(variants, "MOST", 0)
    assert "more than 0" in of(small, GAPS).refused["x"]
    monkeypatch.undo()
    several = Options(target="sm_90a").changed({"kernels.variants": 3})
    chooses = compile(dd.trace(dd.f32[8, 32])(softmax).module, several)
    assert "choose" in of(chooses, GAPS, several).refused["x"]
    symbolic = program(plus, dd.f32[N, N])
    assert "symbol" in of(symbolic, GAPS).refused["x"]
    assert of(symbolic, TURNED).compiled is not None


def test_other_inputs_are_taken_beside_one_that_is_not() -> None:
    c = program(both, dd.f32[8, 32], dd.f32[8, 32])
    made = variant(c, Options(target="sm_90a"), {"x": TURNED, "y": TURNED})
    assert set(made.taken) == {"y"}
    assert set(made.refused) == {"x"}


def test_gaps_between_rows_are_not_read() -> None:
    c, simt = program(softmax), engine("simt")
    made = of(c, GAPS).compiled
    assert made is not None
    rng = np.random.default_rng(0)
    root = np.full((8, 40), np.nan, np.float32)
    root[:, :32] = rng.standard_normal((8, 32), np.float32)
    (got,) = runner(made, simt)(simt, [root])
    (want,) = runner(c, simt)(simt, [np.ascontiguousarray(root[:, :32])])
    assert got.tobytes() == want.tobytes()


def test_views_are_drawn_of_every_kind() -> None:
    rng, root = Random(0), np.arange(64).reshape(4, 4, 4)
    drawn = [view(root, rng) for _ in range(200)]
    assert any(0 in x.strides for x in drawn)
    assert any(min(x.strides, default=0) < 0 for x in drawn)


def test_an_input_may_have_the_name_of_a_symbol() -> None:
    def named(n: dd.Tensor) -> dd.Tensor:
        return plus(n)

    c = program(named, dd.f32[N, 32])
    assert [p.name for p in c.source.entry.params] == ["n"] == [v.name for v in c.source.dims]
    made = of(c, GAPS)
    assert (made.taken, made.refused) == ({"n": GAPS}, {})
