"""The values of rounds: those of a range that was given lie at its ends, too."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.runtime.ptx.sources import Source
from didyma.codegen.runtime.registry import probe
from didyma.judging import inputs
from didyma.judging.judge import Outcome, judge
from didyma.judging.making import Launch, make_task
from didyma.judging.task import Draw
from tests.didyma.judging.kernels import ADD, added

pytestmark = pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")
WITHIN = Draw(ranges={"a": (0.0, 1.0), "b": (-1.0, 2.0)}, rounds=12, most=512)


def test_what_is_wrong_at_the_ends_of_a_range_alone_is_wrong_for_ordinary_numbers() -> None:
    text = ADD.replace("+ b[i]", "+ (b[i] == -1 || b[i] == 2 ? 0 : b[i])")
    launch = Launch(grid="cdiv(n, 64)", block="64")
    found = judge(make_task(Source(text, "k.cu"), added.module, launch, draw=WITHIN))
    assert found.outcome is Outcome.WRONG
    assert not found.only_special
    drawn = np.concatenate([inputs.values(found.task, c)[1] for c in found.cases])
    assert (drawn.min(), drawn.max()) == (-1, 2)
