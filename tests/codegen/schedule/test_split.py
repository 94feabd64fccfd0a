"""Which blocks of a shared fold read what lies together in memory."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.runtime.simt import access
from didyma.codegen.runtime.simt.engine import Simt

ROWS, COLUMNS = 48, 64
SMALL = dd.Options().changed({"kernels.split": 1})  # sums of few terms are shared, too


@pytest.mark.parametrize(
    ("axis", "choice", "blocks"),
    [
        (0, "split(lanes=8, loads=1, parts=2, side=4)", 4),  # 4 blocks have columns side by side
        (1, "split(lanes=32, loads=1, parts=2, side=1)", 2),  # 2 blocks share a row
    ],
)
def test_blocks_that_follow_each_other_read_whole_rows(
    monkeypatch: pytest.MonkeyPatch, axis: int, choice: str, blocks: int
) -> None:
    read, real = defaultdict[int, set[int]](set), access.load

    def watched(r: Any, a: Any, index: Any, m: Any, *rest: Any, **named: Any) -> Any:
        if a.name == "x":
            who = r.who(m)
            found = zip(r.lanes(r.axes["blockIdx", "x"])[who], r.lanes(index)[who], strict=True)
            for block, i in found:
                read[int(block) // blocks].add(int(i))
        return real(r, a, index, m, *rest, **named)

    @dd.trace(dd.f32[ROWS, COLUMNS])
    def p(x: dd.Tensor) -> dd.Tensor:
        return dd.sum(x, axis=axis)

    (name,) = dd.compile(p, options=SMALL).compiled.loops
    exe = dd.compile(p, engine=Simt(), options=SMALL, choose={name: choice})
    monkeypatch.setattr(access, "load", watched)
    x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS), np.float32)
    assert dd.interpret(p, x).contains(exe(x))
    assert set[int]().union(*read.values()) == set(range(x.size))
    for n, some in enumerate(read[n] for n in sorted(read)):
        each = x.size // len(read)
        assert some == set(range(n * each, (n + 1) * each))
