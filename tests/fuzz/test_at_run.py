"""The level `at-run` sees a chooser that picks what gives NaN, or lets a NaN pass."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.options import KernelOptions, Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime.registry import engine
from didyma.codegen.select import at_run as chooser
from didyma.fuzz import at_run
from didyma.fuzz.levels import runner
from didyma.refimpl.ir.types import Array


@dd.trace(dd.f32[6, 90])
def sums(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(x, axis=1)


def messages() -> list[str]:
    c: Compiled = compile(sums.module, Options(kernels=KernelOptions(variants=3)))
    x = np.arange(540, dtype=np.float32).reshape(6, 90)
    host = engine("host")
    level = at_run.judged(c, [x], host, partial(runner, c, host, None))
    return [f.message for f in level.findings]


def nothing(a: Array) -> Array:
    return np.zeros(a.shape)


def test_the_chooser_is_right() -> None:
    assert messages() == []


def test_nans_that_nobody_looks_for_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chooser, "_special", nothing)
    found = messages()
    assert any("is picked, which gives NaN" in m for m in found)
    assert any("a NaN passes where finite numbers are demanded" in m for m in found)
