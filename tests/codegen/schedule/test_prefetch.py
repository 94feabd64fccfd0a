"""What blocks announce of the rows that later blocks load."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.runtime.simt import access
from didyma.codegen.runtime.simt.engine import Simt
from didyma.refimpl.ir.target import SM_90A

ROWS, LENGTH, LINE = 24, 1000, 128


def norm(length: int) -> dd.Program:
    def traced(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return x * dd.rsqrt(dd.mean(x * x, axis=-1, keepdims=True) + 1e-6) * w

    made: dd.Program = dd.trace(dd.f32[ROWS, length], dd.f32[length])(traced)
    return made


def options(p: dd.Program, choice: str) -> dd.Options:
    """Pin the only function to a schedule, on a device with two multiprocessors."""
    two = dd.Options(target=replace(SM_90A, name="two", processors=2))
    (name,) = dd.compile(p, options=two).compiled.loops
    return two.changed({"kernels.choices": f"{name}: {choice}"})


@pytest.mark.parametrize(
    ("ahead", "groups", "first"), [(0, 1, ROWS), (1, 1, 2), (4, 1, 8), (1, 2, 4), (2, 4, 16)]
)
def test_every_line_of_each_later_row_is_announced(
    monkeypatch: pytest.MonkeyPatch, ahead: int, groups: int, first: int
) -> None:
    announced, real = Counter[tuple[int, int]](), access.prefetch

    def watched(r: Any, a: Any, index: Any, m: Any, line: int) -> None:
        assert a.name == "x"
        places = r.lanes(index)[r.who(m)]
        announced.update((int(i) // LENGTH, int(i) % LENGTH * 4 // LINE) for i in places)
        real(r, a, index, m, line)

    monkeypatch.setattr(access, "prefetch", watched)
    p = norm(LENGTH)
    chosen = options(p, f"rows(ahead={ahead}, groups={groups}, lanes=64, wide=4)")
    x = np.random.default_rng(0).standard_normal((ROWS, LENGTH), np.float32)
    w = np.linspace(-1, 1, LENGTH, dtype=np.float32)
    got = dd.compile(p, engine=Simt(), options=chosen)(x, w)
    assert dd.interpret(p, x, w).contains(got)
    lines = -(-LENGTH * 4 // LINE)
    want = {(row, line) for row in range(first, ROWS) for line in range(lines)}
    assert announced == Counter(want)


@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("recipe", ["looped(back={}, groups=2", "cluster(back={}, blocks=2"])
def test_rows_read_from_the_end_agree_at_every_level(recipe: str, back: int) -> None:
    p = norm(5000)
    chosen = options(p, f"{recipe.format(back)}, lanes=32, wide=4)")
    report = dd.check(p, engines=["simt"], options=chosen, tries=1)
    assert report.agree, [str(f) for f in report.findings]


def test_of_equal_elements_the_first_is_found_wherever_rows_are_read_from() -> None:
    def traced(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        first = dd.argmax(x, axis=-1, keepdims=True)
        return dd.astype(first, dd.f32) + x, dd.argmin(x, axis=-1)

    p: dd.Program = dd.trace(dd.f32[64, 6])(traced)
    chosen = options(p, "looped(back=1, groups=32, lanes=1, wide=1)")
    x = np.zeros((64, 6), np.float32)
    total, place = dd.compile(p, engine=Simt(), options=chosen)(x)
    assert not total.any()
    assert not place.any()
