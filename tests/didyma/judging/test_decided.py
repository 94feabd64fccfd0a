"""A verdict "correct" says so where it rests on few decided elements, or on wide bars."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from didyma.codegen.runtime.ptx.sources import Source
from didyma.codegen.runtime.registry import probe
from didyma.judging.decided import Decided, warnings
from didyma.judging.judge import judge
from didyma.judging.making import make_task
from didyma.judging.task import Draw
from didyma.refimpl.ops.bars import Bar
from didyma.show import judge_kernel as show
from tests.didyma.judging.kernels import KERNELS

pytestmark = pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")


def test_elements_without_a_bar_and_with_a_wide_one_are_counted() -> None:
    found = Decided()
    found.meet(Bar(np.array([8.0, 1.0, 2.0, 3.0]), np.array([0.0, 2.0, np.inf, np.inf])), 2)
    assert found == Decided(checked=2, total=4, wide=1)
    assert [w.split(" elements")[0] for w in warnings({"y": found})] == ["1 of 2 decided"]
    found.meet(Bar(np.zeros(2), np.full(2, np.inf)), 0)
    assert next(warnings({"y": found})).startswith("only 2 of 6 elements of y are decided")


def test_a_right_kernel_is_told_to_rest_on_little_where_it_does() -> None:
    k = KERNELS["add"]
    draw = Draw(rounds=2)
    found = judge(make_task(Source(k.text, "k.cu"), k.spec.module, k.launch, draw=draw))
    assert found.warnings == []
    (name,) = found.decided
    found.decided[name] = replace(found.decided[name], checked=1)
    record = show.record(found, "k.cu")
    assert record["warnings"] == found.warnings
    assert f"  warning: {found.warnings[0]}" in [*show.lines(record)]
