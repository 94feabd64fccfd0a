"""Operands of large products are converted in memory, where TMA then fetches them."""

from __future__ import annotations

from typing import Any

import pytest

import didyma as dd
from didyma.codegen.pipeline import compile
from didyma.tracer.tracing import Program

GPU = dd.Options(target="sm_90a")
ALL = GPU.changed({"graph.converted": 0})
ENGINES = ("simt", "host")


def product(
    left: Any, right: Any, wide: Any, size: int = 1024, turned: bool = False, terms: int = 0
) -> Program:
    """Trace a product of matrices that are converted to one dtype before."""
    k = terms or size

    def f(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        x, w = dd.astype(x, wide), dd.astype(w, wide)
        return dd.relu(x @ (dd.transpose(w, (1, 0)) if turned else w))

    made: Program = dd.trace(left[size, k], right[(size, k) if turned else (k, size)])(f)
    return made


def stored(p: Program, options: dd.Options = GPU) -> list[str]:
    """Return the dtypes of what the kernels of a program store, but for its last one."""
    fused = compile(p.module, options, until="lower").fused
    *before, _ = (n for n in fused.entry.nodes if n.callee)
    return [t.dtype.value for n in before for t in n.types]


@pytest.mark.parametrize(
    ("p", "dtypes"),
    [
        (product(dd.f8e4m3, dd.f8e5m2, dd.f32), ["bf16", "bf16"]),
        (product(dd.f8e4m3, dd.f8e4m3, dd.f16, turned=True), ["f16", "f16"]),
        (product(dd.f16, dd.i8, dd.f32), ["f16"]),
        (product(dd.bf16, dd.u8, dd.bf16, terms=256), ["bf16"]),
        (product(dd.f32, dd.f32, dd.bf16), ["bf16", "bf16"]),
        (product(dd.f32, dd.f8e4m3, dd.f32), []),  # on no tensor core
        (product(dd.f16, dd.bf16, dd.f32), []),  # there is no such instruction
        (product(dd.f8e4m3, dd.f8e4m3, dd.f16, 1020), []),  # rows begin between pieces
        (product(dd.f8e4m3, dd.f8e4m3, dd.f16, 256), []),  # small
    ],
)
def test_what_large_products_read_is_stored_in_16_bits(p: Program, dtypes: list[str]) -> None:
    assert stored(p) == dtypes
    assert stored(p, dd.Options(target="sm_80")) == []


def test_tma_fetches_what_was_converted() -> None:
    for p in (product(dd.f8e4m3, dd.f8e5m2, dd.f32), product(dd.i8, dd.i8, dd.f32, turned=True)):
        choices = dd.compile(p, options=GPU, engine="simt").choices["choices"].values()
        assert {row["choice"].split("(")[0] for row in choices} == {"pointwise", "tma_gemm"}


def test_rows_that_the_run_counts_are_few_at_least() -> None:
    def f(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return x @ dd.astype(w, dd.bf16)

    n = dd.dim("n", 1, 4096)
    for terms, count in ((1024, 1), (8192, 2)):
        p = dd.trace(dd.bf16[n, terms], dd.i8[terms, 4096])(f)
        assert len(compile(p.module, GPU, until="lower").loops) == count


@pytest.mark.parametrize(
    "p",
    [
        product(dd.f8e4m3, dd.f8e5m2, dd.f32, 40),
        product(dd.u8, dd.f16, dd.f32, 24, turned=True),
        product(dd.f8e4m3fnuz, dd.i8, dd.f16, 16, turned=True),
    ],
)
def test_results_lie_in_their_bars(p: Program) -> None:
    assert stored(p, ALL)
    assert dd.check(p, options=ALL, engines=ENGINES, tries=1).agree


def test_two_products_read_what_is_converted_once() -> None:
    def f(x: dd.Tensor, a: dd.Tensor, b: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        x, a, b = (dd.astype(y, dd.f32) for y in (x, a, b))
        return x @ a, x @ b

    p = dd.trace(dd.f8e4m3[16, 24], dd.f8e4m3[24, 32], dd.f8e4m3[24, 40])(f)
    assert stored(p, ALL).count("bf16") == 3
    assert dd.check(p, options=ALL, engines=ENGINES, tries=1).agree
