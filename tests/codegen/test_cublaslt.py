"""The routine of cuBLASLt, as far as a machine without a GPU shows it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import numpy as np
import pytest

import didyma as dd
from didyma.codegen import plugins
from didyma.codegen.runtime import cublaslt, cuda_libraries
from didyma.codegen.runtime.cublaslt import CUBLASLT, algorithm, factors
from didyma.codegen.runtime.registry import engine
from didyma.codegen.select.choice import Choice, build
from didyma.codegen.select.runs import Bench
from didyma.refimpl.errors import EngineMissing
from didyma.refimpl.ir.graph import Function
from tests.codegen.templates.judging import request
from tests.errors.test_codes import says

HANDED = dd.Options(graph=dd.GraphOptions(routines=("cublaslt",)))


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    dd.register("routines", "cublaslt", CUBLASLT)
    yield
    plugins.remove(plugins.ROUTINES, "cublaslt")


@dd.trace(dd.bf16[3, 8, 40], dd.bf16[3, 24, 40])
def product(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return x @ dd.permute_dims(w, (0, 2, 1))


def function(program: dd.Program) -> Function:
    return dd.compile(program).compiled.fused.functions[0]


def test_products_of_equal_batches_have_factors_and_others_have_none() -> None:
    found = factors(function(product))
    assert found is not None
    assert sorted(found.operands) == [0, 1]
    assert found.turned == (False, True)

    @dd.trace(dd.bf16[3, 8, 40], dd.bf16[40, 24])
    def shared(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return x @ w

    @dd.trace(dd.i8[8, 40], dd.i8[40, 24])
    def bytes_(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return x @ w

    @dd.trace(dd.f32[8, 40], dd.f32[40, 24])
    def followed(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return dd.relu(x @ w)

    @dd.trace(dd.f32[8, 4, 40], dd.f32[4, 24, 40])
    def moved(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return dd.permute_dims(x, (1, 0, 2)) @ dd.permute_dims(w, (0, 2, 1))

    for program in (shared, bytes_, followed, moved):
        assert factors(function(program)) is None


def test_it_goes_to_the_processes_that_tune() -> None:
    assert pickle.loads(pickle.dumps(CUBLASLT)) == CUBLASLT
    assert pickle.loads(pickle.dumps(algorithm(2))).name == "cublaslt_2"


def test_where_no_gpu_is_the_body_runs_and_the_report_says_so() -> None:
    report = dd.check(product, options=HANDED, engines=["host"], tries=1)
    assert report.agree
    assert "without an implementation, so run by the reference: " in str(report)


def test_a_selection_on_another_engine_tells_why_the_routine_is_out() -> None:
    r = request(product)
    candidate = build(r.loop, r.options, Choice.parse("cublaslt()"), r.source)
    host = engine("host")
    inputs = [np.zeros((3, n, 40), np.uint16).view(dd.bf16.dtype.numpy) for n in (24, 8)]
    bench = Bench.of(host, r.loop, {}, inputs)
    with says("target-lacks", "cublaslt", "host"):
        bench.runner(candidate)()
    bench.free()


def nowhere(stem: str) -> Iterator[str]:
    return iter(() if stem else ("",))


def test_a_machine_without_the_library_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_libraries, "paths", nowhere)
    cublaslt.library.cache_clear()
    with pytest.raises(EngineMissing) as e:
        cublaslt.library()
    assert e.value.exit_code == 4
    cublaslt.library.cache_clear()
