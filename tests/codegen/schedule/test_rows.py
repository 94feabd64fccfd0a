"""Folds of the same rows are one kernel, which reads each element of a row once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime.simt.memory import LaneArray
from didyma.codegen.schedule import dispatch
from didyma.codegen.schedule.recipes.point import Point
from didyma.oracle import lanes
from didyma.refimpl.ir.loop import Fold, For, PrimFunc, Stmt
from didyma.refimpl.verify import loop as laws
from didyma.tracer.tracing import Program

ROWS = Options().changed({"graph.rows": True})
X, W = dd.f32[6, 100], dd.f32[100]


def layer_norm_backward(x: dd.Tensor, g: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    centred = x - dd.mean(x, axis=-1, keepdims=True)
    scale = 1.0 / dd.sqrt(dd.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)
    unit, gw = centred * scale, g * w
    shift = dd.mean(gw * unit, axis=-1, keepdims=True)
    return scale * (gw - dd.mean(gw, axis=-1, keepdims=True) - unit * shift)


def softmax_backward(y: dd.Tensor, g: dd.Tensor) -> dd.Tensor:
    return y * (g - dd.sum(g * y, axis=-1, keepdims=True))


def batch_statistics(x: dd.Tensor) -> dd.Tensor:
    centred = x - dd.mean(x, axis=(0, 2), keepdims=True)
    return centred / dd.sqrt(dd.mean(centred * centred, axis=(0, 2), keepdims=True) + 1e-5)


def scores(s: dd.Tensor, mask: dd.Tensor) -> dd.Tensor:
    return dd.softmax(s * 0.125 + mask, axis=-1)


def softmax(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x, axis=-1)


def log_softmax(x: dd.Tensor) -> dd.Tensor:
    return dd.log_softmax(x, axis=-1)


def logsumexp(x: dd.Tensor) -> dd.Tensor:
    return dd.logsumexp(x, axis=-1)


def layer_norm(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return dd.layer_norm(x, w, b)


def rms_norm(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return dd.rms_norm(x, w)


def spread(x: dd.Tensor) -> dd.Tensor:
    return dd.std(x, axis=-1)


def columns(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x, axis=0)


def two_results(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    return dd.softmax(x, axis=-1), dd.max(x, axis=-1)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "softmax": (softmax, (X,)),
    "log_softmax": (log_softmax, (X,)),
    "logsumexp": (logsumexp, (X,)),
    "layer_norm": (layer_norm, (X, W, W)),
    "rms_norm": (rms_norm, (X, W)),
    "batch_statistics": (batch_statistics, (dd.f32[4, 3, 25],)),
    "spread": (spread, (X,)),
    "scores": (scores, (X, X)),
    "softmax_backward": (softmax_backward, (X, X)),
    "layer_norm_backward": (layer_norm_backward, (X, X, W)),
    "columns": (columns, (X,)),
    "halves": (softmax, (dd.f16[5, 33],)),
    "two results": (two_results, (X,)),
}


def program(name: str) -> Program:
    f, types = PROGRAMS[name]
    found: Program = dd.trace(*types)(f)
    return found


def made(p: Program, options: Options = ROWS) -> tuple[Compiled, list[PrimFunc]]:
    c = compile(p.module, options)
    return c, [k for ks in c.kernels.values() for k in ks if isinstance(k, PrimFunc)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_kernel_reads_and_writes_each_element_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = program(name)
    _, (kernel,) = made(p)
    assert dict(kernel.attrs)["schedule"] == "rows"
    laws.verify(kernel)
    moved: Counter[str] = Counter()

    def counting(method: str) -> Callable[..., Any]:
        plain = getattr(LaneArray, method)

        def count(a: LaneArray, at: Any, *rest: Any) -> Any:
            if a.kind == "global":
                moved[a.name] += at.size
            return plain(a, at, *rest)

        return count

    for method in ("read", "write"):
        monkeypatch.setattr(LaneArray, method, counting(method))
    report = dd.check(p, engines=["simt"], options=ROWS, tries=1)
    assert report.agree, [str(f) for f in report.findings]
    runs = moved[kernel.outputs[0]] // _numel(kernel, kernel.outputs[0])
    assert runs >= 1
    for b in kernel.params:
        if b.shape != (100,):  # a weight, which every row reads
            assert moved[b.name] == runs * _numel(kernel, b.name), b.name


def _numel(k: PrimFunc, name: str) -> int:
    (b,) = (b for b in k.params if b.name == name)
    n = 1
    for d in b.shape:
        assert isinstance(d, int)
        n *= d
    return n


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_level_and_the_host_agree(name: str) -> None:
    report = dd.check(program(name), engines=["host"], options=ROWS, tries=2)
    assert report.agree, [str(f) for f in report.findings]


N = dd.dim("n", 0, 3000)


@pytest.mark.parametrize("shape", [(5, N), (N, 5), (2, 5, N), (70, 5000)])
def test_rows_of_any_length_and_number(shape: tuple[Any, ...]) -> None:
    p = dd.trace(dd.f32[shape])(log_softmax)
    _, kernels = made(p)
    assert len(kernels) == 1
    report = dd.check(p, engines=["host"], options=ROWS, tries=1)
    assert report.agree, [str(f) for f in report.findings]


def test_a_row_is_its_folds_and_then_its_elements() -> None:
    c, _ = made(program("softmax"))
    (loops,) = c.loops.values()
    s: Stmt = loops.body
    kinds: list[type[Stmt]] = []
    while isinstance(s, (For, Fold)):
        kinds.append(type(s))
        s = s.body
    assert kinds == [For, Fold, Fold, For]


@pytest.mark.parametrize(("groups", "width"), [(1, 32), (4, 64), (8, 4), (8, 128)])
def test_points_of_the_recipe_compute_the_same(groups: int, width: int) -> None:
    c, _ = made(program("softmax_backward"))
    (loops,) = c.loops.values()
    (kernel,) = dispatch.schedule(loops, ROWS, [Point.of("rows", groups=groups, lanes=width)])
    laws.verify(kernel)
    rng = np.random.default_rng(0)
    operands = {n: rng.standard_normal((6, 100), np.float32) for n in kernel.inputs}
    y, g = operands["y"], operands["g"]
    out = {kernel.outputs[0]: np.zeros((6, 100), np.float32)}
    lanes.run(kernel, {**operands, **out}, {})
    want = y * (g - np.sum(g * y, axis=1, keepdims=True))
    np.testing.assert_allclose(next(iter(out.values())), want, rtol=1e-4, atol=1e-5)


def test_without_the_option_each_fold_is_a_kernel() -> None:
    assert len(made(program("softmax"), Options())[1]) == 3


def test_folds_of_other_rows_or_without_a_shared_array_stay_apart() -> None:
    def turned(x: dd.Tensor) -> Any:
        return dd.sum(x, axis=0), dd.sum(x, axis=1)

    def apart(x: dd.Tensor, y: dd.Tensor) -> Any:
        return y - dd.sum(x, axis=1, keepdims=True)

    def long(x: dd.Tensor) -> Any:
        return dd.softmax(x, axis=1)

    assert len(made(dd.trace(X)(turned))[1]) == 2
    assert len(made(dd.trace(X, X)(apart))[1]) == 2
    assert len(made(dd.trace(dd.f32[2, 100_000])(long))[1]) == 3


def test_a_kernel_between_two_keeps_them_apart() -> None:
    def f(x: dd.Tensor, w: dd.Tensor) -> Any:
        centred = x - dd.mean(x, axis=1, keepdims=True)
        return centred - dd.mean((centred @ w) * x, axis=1, keepdims=True)

    _, kernels = made(dd.trace(dd.f32[8, 8], dd.f32[8, 8])(f))
    assert len(kernels) > 2
    assert dd.check(dd.trace(dd.f32[8, 8], dd.f32[8, 8])(f), engines=["host"], options=ROWS).agree
