"""The memory of a running module is what the plan says, at each size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.artifacts import build
from didyma.artifacts.load import load
from didyma.codegen.memory.peak import peak
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.refimpl.ir.types import Array
from didyma.tracer.tensor import Tensor
from tests.bench.peaks import Counted

n, m = dd.dim("n", 1, 200), dd.dim("m", 1, 50)
SIZES = [(1, 1), (1, 50), (2, 3), (7, 16), (31, 1), (64, 64 % 50), (99, 17), (128, 50), (200, 1),
         (200, 50)]  # fmt: skip


@dd.trace(dd.f32[n, m], dd.f32[m, m], dd.f32[n])
def net(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    h = dd.tanh(x @ w)
    for _ in range(3):
        h = dd.softmax(h @ w, axis=1) + b[:, None]
    return h, dd.cumulative_sum(dd.concat([b, dd.sum(h, axis=1)]), axis=0)


@dd.noinline
def layer(x: Tensor, w: Tensor) -> Tensor:
    return dd.sort(x @ w, axis=0)


@dd.trace(dd.f32[n, m], dd.f32[m, m], dd.f32[n])
def calls(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return dd.matmul(b, layer(layer(x, w), w))


def given(rows: int, columns: int) -> list[Array]:
    r = np.random.default_rng(rows)
    shapes: Sequence[tuple[int, ...]] = ((rows, columns), (columns, columns), (rows,))
    return [r.normal(size=s).astype(np.float32) for s in shapes]


@pytest.mark.parametrize("planner", ["didyma", "linear_scan", "none"])
@pytest.mark.parametrize("program", [net, calls], ids=["net", "calls"])
def test_the_peak_of_a_run_is_that_of_the_plan(
    program: dd.Program, planner: str, tmp_path: Path
) -> None:
    c = compile(program.module, Options().changed({"memory.planner": planner}))
    build.write(tmp_path / "built", build.contents({"host": build.Target(c)}))
    module: Mapping[str, Any] = load(tmp_path / "built").module
    engine, kernels, weights, _ = module["load"]()
    peaks: list[int] = []
    for rows, columns in SIZES:
        on = Counted(engine)
        module["run"](on, given(rows, columns), kernels, weights)
        assert on.now == 0
        assert on.most == peak(c.program, {"n": rows, "m": columns})
        peaks.append(on.most)
    assert len({*peaks}) > 5
