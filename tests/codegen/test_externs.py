"""External functions: judged against their bodies, called by names that tell them apart."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen import plugins
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import engine
from didyma.fuzz import levels
from didyma.fuzz.graphs import BYTES, Case, decode
from didyma.oracle.report import Report
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.graph import COMPILER, CONTROL, Module
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import Extern
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array
from didyma.refimpl.verify.graph import verify
from didyma.tracer.tracing import Program as Traced

TWO = """module {
  dims n in [1, 64]
  func @gemm(%x: f32[n, 8], %w: f32[8, 4]) -> (%y) attrs(Compiler="blas") {
    %y = matmul(%x, %w) : f32[n, 4]
  }
  func @turn(%x: f32[n, 4]) -> (%y) attrs(Compiler="blas") {
    %y = flip(%x, axes=(0,)) : f32[n, 4]
  }
  func @main(%x: f32[n, 8], %w: f32[8, 4]) -> (%z) {
    %y = call @gemm(%x, %w) : f32[n, 4]
    %a = exp(%y) : f32[n, 4]
    %b = call @turn(%a) : f32[n, 4]
    %z = add(%b, %y) : f32[n, 4]
  }
}
"""


def product(x: Array, w: Array) -> Array:
    return np.asarray(x @ w)


def turned(x: Array) -> Array:
    return x[::-1]


def ones(x: Array, w: Array) -> Array:
    del w
    return np.ones((len(x), 4), np.float32)


def either(x: Array, *w: Array) -> Array:
    return product(x, w[0]) if w else turned(x)


def raised(c: Array, x: Array) -> Array:
    return np.asarray(np.exp(x)) if c else x


def unraised(c: Array, x: Array) -> Array:
    del c
    return x


def first(x: Array, w: Array) -> Array:
    del w
    return x


def two(x: Array, w: Array) -> tuple[Array, Array]:
    return x @ w, x


def wide(x: Array, w: Array) -> Array:
    return (x @ w).astype(np.float64)


def read(text: str) -> Module:
    m = parse_module(text)
    verify(m)
    return m


def given() -> list[Array]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal((5, 8), np.float32), rng.standard_normal((8, 4), np.float32)]


def check(m: Module, inputs: list[Array], **implementations: Callable[..., Any]) -> Report:
    return levels.check(m, inputs, [engine("host"), engine("simt")], externs=implementations)


def names(m: Module) -> list[str]:
    return [x.name for x in walk(compile(m).program.lines) if isinstance(x, Extern)]


def test_a_body_runs_where_nobody_implements_it() -> None:
    m = read(TWO)
    report = check(m, given())
    assert report.agree, report.findings
    assert [v.name for v in report.levels][-3:] == ["program", "host", "simt"]
    want = graph.run(m, given())
    host = engine("host")
    (got,) = levels.runner(compile(m), host)(host, given())
    np.testing.assert_allclose(got, want[0], rtol=1e-5)


def test_a_right_implementation_agrees_at_a_level_of_its_own() -> None:
    report = check(read(TWO), given(), gemm=product, turn=turned)
    assert report.agree, report.findings
    rows = {v.name: v for v in report.levels}
    for name in ("extern gemm", "extern turn"):
        assert sum(c.checked for c in rows[name].comparisons) == 20


def test_a_wrong_implementation_is_found_and_named() -> None:
    calls: list[int] = []

    def gemm(x: Array, w: Array) -> Array:
        calls.append(1)
        half = x.astype(np.float16) @ w.astype(np.float16)
        return half.astype(np.float32)

    report = check(read(TWO), given(), gemm=gemm)
    assert {(f.level, f.where) for f in report.findings} == {("extern gemm", "@gemm")}
    assert len(calls) >= 3  # the engines called it too


def test_an_implementation_of_a_compiler_serves_all_its_functions() -> None:
    report = check(read(TWO), given(), blas=either)
    assert report.agree, report.findings
    assert {"extern gemm", "extern turn"} <= {v.name for v in report.levels}


def test_an_executable_runs_the_implementation() -> None:
    host, c = engine("host"), compile(read(TWO))
    (got,) = levels.runner(c, host, {"gemm": ones})(host, given())
    np.testing.assert_allclose(got, 1 + np.exp(1) * np.ones((5, 4)), rtol=1e-6)


def test_results_that_do_not_fit_are_refused() -> None:
    host, c = engine("host"), compile(read(TWO))
    for wrong in (first, two, wide):
        with pytest.raises(DidymaError, match=r"float32\[5, 4\]") as e:
            levels.runner(c, host, {"gemm": wrong})(host, given())
        assert e.value.code == "extern-result"


def test_a_name_that_is_no_external_function() -> None:
    with pytest.raises(DidymaError, match="blas, gemm, turn") as e:
        levels.runner(compile(read(TWO)), engine("host"), {"gem": product})
    assert e.value.code == "unknown-extern"


def test_an_installed_package_offers_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    info = tmp_path / "lib-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: lib\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{plugins.EXTERNS}]\nturn = numpy:flipud\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    report = check(read(TWO), given())
    assert report.agree, report.findings
    assert "extern turn" in {v.name for v in report.levels}
    assert "extern gemm" not in {v.name for v in report.levels}


def test_other_bodies_and_attributes_are_other_calls() -> None:
    before = names(read(TWO))
    assert len(set(before)) == 2
    assert before == names(read(TWO))
    again = names(read(TWO.replace("flip(%x, axes=(0,))", "flip(%x, axes=(1,))")))
    assert (again[0], again[1] == before[1]) == (before[0], False)
    level = names(read(TWO.replace('Compiler="blas"', 'Compiler="blas", level=3')))
    assert set(before).isdisjoint(level)
    assert all(name.startswith("blas.") for name in before)


def test_a_branch_is_part_of_a_body() -> None:
    text = """module {
  func @yes(%x: f32[4]) -> (%y) {
    %y = exp(%x) : f32[4]
  }
  func @no(%x: f32[4]) -> (%x) {
  }
  func @choose(%c: bool[], %x: f32[4]) -> (%y) attrs(Compiler="lib", NoInline=1) {
    %y = if(%c, %x, binds=(), otherwise="no", then="yes") : f32[4]
  }
  func @main(%c: bool[], %x: f32[4]) -> (%y) {
    %y = call @choose(%c, %x) : f32[4]
  }
}
"""
    inputs = [np.array(True), np.array([0, 1, -2, 3], np.float32)]
    assert check(read(text), inputs).agree
    report = check(read(text), inputs, choose=raised)
    assert report.agree, report.findings
    assert check(read(text), inputs, choose=unraised).findings
    assert names(read(text)) != names(read(text.replace("exp(%x)", "abs(%x)")))


def test_an_entry_may_be_external() -> None:
    text = """module {
  func @main(%x: f32[4]) -> (%x, %y, %y) attrs(Compiler="lib") {
    %y = exp(%x) : f32[4]
  }
}
"""
    report = check(read(text), [np.array([0, 1, -2, 3], np.float32)])
    assert report.agree, report.findings
    assert len(names(read(text))) == 1


def external(case: Case) -> bool:
    return any(COMPILER in f.attr for f in case.module.functions)


def test_campaigns_draw_external_functions() -> None:
    cases = [decode(random.Random(i).randbytes(BYTES)) for i in range(700)]
    cases = [c for c in cases if external(c)]
    found = [f for c in cases for f in c.module.functions if COMPILER in f.attr]
    assert len(cases) > 8
    assert any(n.op in CONTROL for f in found for n in f.nodes)
    for c in cases[:8]:
        report = levels.check(c.module, c.inputs(), [engine("host")])
        assert report.agree, report.findings


def test_the_face_takes_implementations() -> None:
    program = Traced(read(TWO))
    got = dd.compile(program, externs={"gemm": ones})(*given())
    np.testing.assert_allclose(got, 1 + np.exp(1) * np.ones((5, 4)), rtol=1e-6)
    report = dd.check(program, sizes={"n": 5}, externs={"gemm": ones})
    assert {f.level for f in report.findings} == {"extern gemm"}
