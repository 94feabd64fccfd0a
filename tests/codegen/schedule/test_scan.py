"""A running sum or product is one kernel, which reads and writes each byte once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime.simt import Simt, Traffic
from didyma.oracle import chains
from didyma.refimpl.ir.loop import Barrier, Exchange, For, LoopKind, PrimFunc
from didyma.refimpl.ir.target import CPU, PORTABLE
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ir.walk import stmts
from didyma.refimpl.verify import loop as laws
from didyma.tracer.tracing import Program

N, M = dd.dim("n", 0, 90), dd.dim("m", 0, 40)
HOW: list[dict[str, bool]] = [
    {}, {"reverse": True}, {"exclusive": True}, {"reverse": True, "exclusive": True}
]  # fmt: skip
OPS: dict[str, Callable[..., dd.Tensor]] = {"sum": dd.cumulative_sum, "prod": dd.cumulative_prod}


def traced(f: Callable[..., dd.Tensor], *types: Any) -> Program:
    found: Program = dd.trace(*types)(f)
    return found


def running(t: Any, axis: int, how: dict[str, bool] = HOW[0], op: str = "sum") -> Program:
    def f(x: dd.Tensor) -> dd.Tensor:
        return OPS[op](x, axis=axis, **how)

    return traced(f, t)


def kernel(p: Program, **options: Any) -> tuple[Compiled, PrimFunc]:
    c = compile(p.module, dd.Options().changed(options))
    ((k,),) = c.kernels.values()
    assert isinstance(k, PrimFunc)
    laws.verify(k)
    assert dict(k.attrs)["schedule"] == "scan"
    return c, k


SHAPES: list[tuple[tuple[int, ...], int]] = [
    ((6, 64), 1), ((3, 70), 1), ((2, 1200), 1), ((7,), 0), ((2, 33, 8), 1), ((3, 5, 7), 0),
    ((2, 5, 1), 1), ((70, 24), 0), ((90, 12), 0),
]  # fmt: skip


@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_every_level_and_engine_agrees(
    shape: tuple[int, ...], axis: int, how: dict[str, bool]
) -> None:
    p = running(dd.f32[shape], axis, how)
    kernel(p)
    report = dd.check(p, engines=["host", "simt"], tries=1)
    assert report.agree, [str(f) for f in report.findings]


@pytest.mark.parametrize("how", HOW[:3], ids=str)
@pytest.mark.parametrize(
    ("shape", "axis"), [((N,), 0), ((3, N), 1), ((N, 5), 0), ((M, 64), 1), ((M, N, 8), 1)]
)
def test_symbolic_sizes(shape: tuple[Any, ...], axis: int, how: dict[str, bool]) -> None:
    p = running(dd.f32[shape], axis, how)
    kernel(p)
    report = dd.check(p, engines=["host"], tries=2)
    assert report.agree, [str(f) for f in report.findings]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f64", "i8", "i32", "u8", "i64"])
def test_dtypes(dtype: str, op: str) -> None:
    for shape, axis in (((5, 256), 1), ((40, 32), 0)):
        p = running(getattr(dd, dtype)[shape], axis, HOW[axis == 0], op)
        kernel(p)
        report = dd.check(p, engines=["host"], tries=1)
        assert report.agree, [str(f) for f in report.findings]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((5, 64), 1), ((2, 4096), 1), ((1, 9000), 1), ((300, 64), 0)]
)
def test_each_byte_is_read_and_written_once(shape: tuple[int, ...], axis: int, dtype: str) -> None:
    p, traffic = running(getattr(dd, dtype)[shape], axis), Traffic()
    c, k = kernel(p)
    x = np.ones(shape, c.source.entry.params[0].type.dtype.numpy)
    dd.compile(p, engine=Simt(traffic=traffic))(x)
    nbytes = math.prod(shape) * x.itemsize
    assert (traffic.read.total(), traffic.written.total()) == (nbytes, nbytes)
    lanes = {
        s.extent for s in stmts(k.body) if isinstance(s, For) and s.kind is LoopKind.VECTORIZED
    }
    assert [getattr(n, "value", None) for n in lanes] == [16 // x.itemsize]


def test_short_lines_need_no_barrier_and_long_ones_one() -> None:
    for length, barriers in ((64, 0), (512, 0), (4096, 1), (8192, 1), (10_000, 1)):
        _, k = kernel(running(dd.f32[64, length], 1))
        assert sum(isinstance(s, Barrier) for s in stmts(k.body)) == barriers
        assert any(isinstance(s, Exchange) for s in stmts(k.body))


def test_a_chain_of_additions_grows_with_the_number_of_turns_alone() -> None:
    """A thread adds 4, a warp 5 times, 4 vectors and 8 warps: far from 4096 one after another."""
    _, k = kernel(running(dd.f32[64, 4096], 1))
    one = chains.longest([k], {})
    assert one is not None
    assert 12 <= one <= 24
    _, k = kernel(running(dd.f32[64, 1 << 20], 1))
    most = chains.longest([k], {})
    assert most is not None
    assert 128 <= most <= 192  # turns of 512 threads with 16 elements each


def test_the_chain_that_is_derived_is_no_shorter_than_the_true_one() -> None:
    """Of 1 and terms that vanish beside it, each addition loses what the chain is long."""
    p = running(dd.f32[1, 8192], 1)
    _, k = kernel(p)
    chain = chains.longest([k], {})
    assert chain is not None
    x = np.full((1, 8192), 1 + 2.0**-20, np.float32)
    options = dd.Options().changed({"target": replace(PORTABLE, name="any")})
    got = np.asarray(dd.compile(p, engine="host", options=options)(x), np.float64)
    want = np.cumsum(x.astype(np.float64), 1)
    assert (np.abs(got - want) <= want * chain * 2.0**-24).all()


def test_engines_give_the_same_bits() -> None:
    rng = np.random.default_rng(1)
    for shape, axis in (((3, 2500), 1), ((130, 20), 0)):
        p = running(dd.f32[shape], axis)
        x = rng.standard_normal(shape).astype(np.float32)
        options = dd.Options().changed({"target": replace(PORTABLE, name="any")})
        found = [np.asarray(dd.compile(p, engine=e, options=options)(x)) for e in ("host", "simt")]
        assert np.array_equal(found[0], found[1])


def test_what_is_not_finite_spreads_to_what_comes_later() -> None:
    x = np.ones((2, 600), np.float32)
    x[0, 100], x[1, 300], x[1, 400] = np.nan, np.inf, -np.inf
    got = np.asarray(dd.compile(running(dd.f32[2, 600], 1), engine="host")(x))
    with np.errstate(invalid="ignore"):
        assert np.array_equal(got, np.cumsum(x, 1), equal_nan=True)


def test_what_follows_is_done_in_the_same_kernel() -> None:
    def f(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
        return dd.exp(dd.cumulative_sum(x, axis=1)) * y

    p = traced(f, dd.bf16[5, 96], dd.bf16[96])
    kernel(p)
    report = dd.check(p, engines=["host"], tries=1)
    assert report.agree, [str(f) for f in report.findings]


def test_a_core_takes_a_line_by_one_thread() -> None:
    """Where threads of a block run in turn, none waits for another."""
    for shape, axis in (((40, 100), 1), ((100, 40), 0)):
        p = running(dd.f32[shape], axis)
        _, k = kernel(p, target=CPU)
        assert not any(isinstance(s, Barrier | Exchange) for s in stmts(k.body))
        x: Array = np.arange(4000, dtype=np.float32).reshape(shape)
        got = dd.compile(p, engine="host", options=dd.Options().changed({"target": CPU}))(x)
        assert np.array_equal(np.asarray(got), np.cumsum(x, axis))


def test_what_is_read_at_places_that_are_bound_may_be_read_by_vectors() -> None:
    def both(x: dd.Tensor) -> dd.Tensor:
        along = dd.reshape(dd.cumulative_sum(dd.reshape(x, (96,)), axis=0), (6, 16))
        return along & dd.cumulative_sum(x, axis=0, exclusive=True)

    options = dd.Options().changed({"graph.long_run": 8, "graph.spread_cost": 0})
    report = dd.check(traced(both, dd.i32[6, 16]), engines=["simt"], options=options, tries=1)
    assert report.agree, [str(f) for f in report.findings]
