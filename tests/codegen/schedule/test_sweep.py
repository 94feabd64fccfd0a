"""Gradients of rows beside those of weights: one kernel reads each element once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.passes.sweep import SWEPT
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.nvrtc import NvrtcCompiler
from didyma.codegen.runtime.simt import Simt, Traffic
from didyma.codegen.schedule.dispatch import first
from didyma.refimpl.ir.loop import PrimFunc
from didyma.tracer.tracing import Program
from tests.codegen import row_programs

ROWS, LENGTH = 64, 1024
X, W = dd.f32[ROWS, LENGTH], dd.f32[LENGTH]


def softmax_gradients(y: dd.Tensor, g: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    dx = row_programs.softmax_backward(y, g)
    return dx, dd.sum(dx, axis=0)


def narrow_gradients(x: dd.Tensor, g: dd.Tensor, w: dd.Tensor) -> tuple[dd.Tensor, ...]:
    """Gradients of a layer norm that is computed in f32, of and for bf16."""
    wide = [dd.astype(v, dd.f32) for v in (x, g, w)]
    found = row_programs.layer_norm_gradients(*wide)
    return tuple(dd.astype(v, dd.bf16) for v in found)


def narrow_rms(x: dd.Tensor, g: dd.Tensor, w: dd.Tensor) -> tuple[dd.Tensor, ...]:
    """Gradients of an RMS norm that is computed in f32, of and for bf16."""
    dx, dw = row_programs.rms_norm_gradients(*(dd.astype(v, dd.f32) for v in (x, g, w)))
    return dd.astype(dx, dd.bf16), dw


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "rms norm": (row_programs.rms_norm_gradients, (X, X, W)),
    "layer norm": (row_programs.layer_norm_gradients, (X, X, W)),
    "softmax": (softmax_gradients, (X, X)),
    "bf16": (narrow_gradients, (dd.bf16[ROWS, LENGTH],) * 2 + (dd.bf16[LENGTH],)),
}


def decisions(program: Program) -> list[str]:
    """Return what the compiler decides of a program."""
    found = list[str]()

    def heard(decision: str, value: str) -> None:
        del value
        found.append(decision)

    compile(program.module, heard=heard)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_element_of_the_operands_is_read_once(name: str) -> None:
    f, types = PROGRAMS[name]
    program, traffic = dd.trace(*types)(f), Traffic()
    engines: list[Engine] = [Simt(traffic=traffic)]
    assert dd.check(program, engines=engines, tries=1).agree
    assert decisions(program).count(SWEPT) == 1
    launches = compile(program.module).kernels
    assert sum(dict(k.attrs).get("schedule") == "rows_sweep" for ks in launches.values() for k in ks
               if isinstance(k, PrimFunc)) == 1  # fmt: skip
    traffic = Traffic()
    rng = np.random.default_rng(3)
    given = [rng.standard_normal([int(d) for d in p.type.shape]).astype(p.type.dtype.numpy)
             for p in program.module.entry.params]  # fmt: skip
    dd.compile(program, engine=Simt(traffic=traffic))(*given)
    read = Counter[str]()
    for (_, buffer), n in traffic.read.items():
        read[buffer] += n
    whole = {p.name: p.type for p in program.module.entry.params if p.type.rank == 2}
    assert {x: read[x] for x in whole} == {x: t.nbytes for x, t in whole.items()}


def test_rows_that_are_few_or_long_or_rounded_stay_apart() -> None:
    rms, layer = row_programs.rms_norm_gradients, row_programs.layer_norm_gradients
    for f, shape, dtype in (
        (rms, (6, 100), dd.f32), (rms, (4, 1 << 15), dd.f32), (layer, (64, 1024), dd.bf16),
    ):  # fmt: skip
        program = dd.trace(dtype[shape], dtype[shape], dtype[shape[-1]])(f)
        assert SWEPT not in decisions(program)


def test_a_core_takes_a_kernel_for_rows_and_one_for_columns() -> None:
    program = dd.trace(X, X, W)(row_programs.rms_norm_gradients)
    (loop,) = compile(program.module, until="lower").loops.values()
    points = [first(loop, Options().changed({"target": t})) for t in ("portable", "cpu")]
    assert [[p.recipe for p in ps] for ps in points] == [["sweep"], ["apart"]]


@pytest.mark.parametrize(
    ("name", "rows", "length", "want"),
    [
        ("rms norm", 1 << 15, 4096, "sweep(blocks=528, groups=1, lanes=256, wide=4)"),
        ("rms norm", 512, 4096, "sweep(blocks=128, groups=1, lanes=256, wide=4)"),
        ("layer norm", 1 << 15, 4096, "sweep(blocks=264, groups=1, lanes=512, wide=4)"),
        ("layer norm", 1 << 16, 1024, "sweep(blocks=396, groups=4, lanes=64, wide=4)"),
        ("bf16", 1 << 15, 4096, "sweep(blocks=396, groups=1, lanes=256, wide=4)"),
        ("bf16 rms", 1 << 15, 4096, "sweep(blocks=528, groups=1, lanes=128, wide=8)"),
        ("bf16 rms", 1 << 11, 4096, "sweep(blocks=512, groups=1, lanes=256, wide=8)"),
    ],
)
def test_threads_have_registers_for_their_part_of_a_row_and_its_sums(
    name: str, rows: int, length: int, want: str
) -> None:
    f = narrow_rms if name == "bf16 rms" else PROGRAMS[name][0]
    dtype, options = dd.bf16 if "bf16" in name else dd.f32, Options(target="sm_90a")
    program: Program = dd.trace(dtype[rows, length], dtype[rows, length], dtype[length])(f)
    (loop,) = compile(program.module, options, until="lower").loops.values()
    assert [str(x) for x in first(loop, options)] == [want]
    pytest.importorskip("nvidia.cu13", reason="no NVRTC")
    found = NvrtcCompiler().compile(compile(program.module, options).text).resources
    assert not [r.kernel for r in found if r.spills]


def test_results_are_those_of_the_formulas() -> None:
    rng = np.random.default_rng(1)
    x, g, w = (
        rng.standard_normal((ROWS, LENGTH)),
        rng.standard_normal((ROWS, LENGTH)),
        np.ones(LENGTH),
    )
    program = dd.trace(X, X, W)(row_programs.layer_norm_gradients)
    found = dd.compile(program, engine="simt")(*(v.astype(np.float32) for v in (x, g, w)))
    unit = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + row_programs.EPS)
    for got, want in zip(found[1:], ((g * unit).sum(0), g.sum(0)), strict=True):
        assert np.abs(np.asarray(got) - want).max() < 1e-3 * np.abs(want).max()
