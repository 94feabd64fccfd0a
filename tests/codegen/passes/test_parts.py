"""Products of few results and many terms are summed in parts."""

from __future__ import annotations

from typing import Any

import pytest

import didyma as dd
from didyma.codegen.passes import parts
from didyma.codegen.pipeline import compile
from didyma.refimpl.ir.target import SM_80, SM_90A
from didyma.tracer.tracing import Program
from tests.codegen.templates import draw

ENGINES = ("simt", "host")
TWO = dd.Options(target="sm_80").changed({"graph.parts": 2})


def product(
    dtype: Any, rows: int, columns: int, *, terms: Any = 256, turned: bool = False
) -> Program:
    shape = (columns, terms) if turned else (terms, columns)

    def f(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
        return dd.relu(x @ (dd.transpose(w, (1, 0)) if turned else w) + b)

    made: Program = dd.trace(dtype[rows, terms], dtype[shape], dtype[(columns,)])(f)
    return made


def matmuls(p: Program, options: dd.Options) -> list[tuple[Any, ...]]:
    """The shapes of the products that a compile makes of a program."""
    nodes = (n for f in compile(p.module, options, until="lower").fused.functions for n in f.nodes)
    return [n.types[0].shape for n in nodes if n.op == "matmul"]


@pytest.mark.parametrize(
    ("p", "target"),
    [
        (product(dd.bf16, 17, 40), "sm_80"),
        (product(dd.f16, 16, 24, turned=True), "sm_90a"),
        (product(dd.f32, 24, 16, turned=True), "sm_80"),
    ],
)
def test_parts_add_up_to_the_product(p: Program, target: str) -> None:
    options = dd.Options(target=target).changed({"graph.parts": 2})
    ((count, *_),) = matmuls(p, options)
    assert count == 2
    assert len(compile(p.module, options, until="lower").loops) == 2, "nothing else is stored"
    assert dd.check(p, options=options, engines=ENGINES, tries=1).agree


@pytest.mark.parametrize("seed", [34, 73])
def test_drawn_products_are_right_in_parts(seed: int) -> None:
    cut = draw.in_parts(seed)
    assert cut is not None
    program, options, about = cut
    assert dd.check(program, options=options, engines=ENGINES, tries=1).agree, about


def test_operands_of_parts_are_copied_as_they_lie() -> None:
    for turned in (False, True):
        made = dd.compile(product(dd.bf16, 32, 64, turned=turned), options=TWO)
        assert made.text.count("cp_async16_") == 2


def test_a_part_that_is_left_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = parts.Cutting.pieces

    def shifted(self: Any, value: str, axis: int, count: int) -> str:
        found = cut(self, value, axis, count)
        return self.op("flip", found, axes=(0,)) if axis else found

    monkeypatch.setattr(parts.Cutting, "pieces", shifted)
    report = dd.check(product(dd.bf16, 16, 24), options=TWO, engines=["host"], tries=1)
    assert not report.agree


def test_products_that_fill_the_device_or_are_of_unknown_size_stay_whole() -> None:
    k, whole = dd.dim("k", 128, 4096), [(16, 24)]
    assert matmuls(product(dd.bf16, 16, 24, terms=k), TWO) == whole
    assert matmuls(product(dd.bf16, 16, 24, terms=160), TWO) == whole, "parts end between lines"
    assert matmuls(product(dd.bf16, 4, 24), TWO) == [(4, 24)], "too few rows for tiles"
    assert matmuls(product(dd.i32, 16, 24), TWO) == whole
    long = product(dd.bf16, 16, 24, terms=8192)
    assert matmuls(long, dd.Options()) == whole, "no tensor cores"
    gpu = dd.Options(target="sm_80")
    assert matmuls(long, gpu.changed({"graph.parts": 1})) == whole
    ((count, *_),) = matmuls(long, gpu)
    assert count == parts.count(16, 24, 8192, SM_80.processors) > 1
    gpu = dd.Options(target="sm_90a")
    shared = product(dd.bf16, 16, 4096, terms=4096)
    assert matmuls(shared, gpu) == [(16, 4096)], "blocks of a cluster share the terms"
    ((count, *_),) = matmuls(product(dd.f32, 16, 24, terms=8192), gpu)
    assert count == parts.count(16, 24, 8192, SM_90A.processors) > 1


def test_the_model_cuts_where_multiprocessors_are_idle_and_never_a_line() -> None:
    def count(rows: int, columns: int, terms: int) -> int:
        return parts.count(rows, columns, terms, SM_90A.processors)

    assert count(4096, 4096, 4096) == count(1024, 1024, 512) == count(64, 64, 100) == 1
    assert count(512, 512, 16384) > 1
    for terms in (2048, 5120, 64 * 81, 64 * 127):
        found = count(64, 64, terms)
        assert found > 1 or terms == 64 * 127
        assert terms % (64 * found) == 0
