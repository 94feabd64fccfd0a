"""The manager of graph passes: levels, required, disabled and user passes, listeners, times."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import didyma as dd
from didyma.codegen import plugins
from didyma.codegen.options import GraphOptions, Options
from didyma.codegen.pipeline import PASSES, Fused, Step, compile, stages
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.text import parse_module
from didyma.tracer.tracing import Program
from tests.errors.test_codes import says
from tests.pages import register

TEXT = """module {
  func @main(%x: f32[6, 8]) -> (%z) {
    %one = constant(value=f32[] 1.0) : f32[]
    %y = multiply(%x, %one) : f32[6, 8]
    %e = exp(%y) : f32[6, 8]
    %z = cumulative_sum(%e, axis=1, exclusive=false, reverse=false) : f32[6, 8]
  }
}
"""


def names(**choices: Any) -> list[str]:
    return [s.name for s in stages(Options(graph=GraphOptions(**choices)))][:-6]


def same(m: Module) -> Module:
    return m


def test_a_level_has_the_passes_of_the_lower_ones() -> None:
    runs = [names(level=level) for level in range(4)]
    assert runs == [
        ["inline", "place", "slices", "stacks", "separate"],
        ["inline", "place", "simplify", "slices", "stacks", "separate"],
        ["inline", "place", "simplify", "slices", "stacks", "fuse"],
        ["inline", "place", "simplify", "runs", "slices", "stacks", "fuse"],
    ]
    assert names() == runs[3], "the usual level"


def test_required_and_disabled_passes() -> None:
    assert names(level=0, required=("fuse",)) == ["inline", "place", "slices", "stacks", "fuse"]
    assert names(disabled=("runs", "fuse")) == names(level=1)
    assert names(fuse=False) == names(disabled=("fuse",))
    assert names(simplify=False, required=("simplify",)) == names(disabled=("runs",))


@pytest.mark.parametrize("level", range(4))
def test_every_level_computes_the_same(level: int) -> None:
    m = parse_module(TEXT)
    options = Options(graph=GraphOptions(level=level))
    report = dd.check(Program(m), engines=["host"], options=options, tries=2)
    assert report.agree, report.findings


def doubled(m: Module) -> Module:
    """Return a module that computes another function: the judge must say so."""
    return parse_module(TEXT.replace("1.0", "2.0")) if m.entry.nodes else m


def test_a_pass_of_a_callers_own_runs_before_fusion_and_is_judged() -> None:
    m = parse_module(TEXT)
    assert names(passes=(same,))[-4:] == ["same", "slices", "stacks", "fuse"]
    wrong = Options(graph=GraphOptions(passes=(doubled,)))
    report = dd.check(Program(m), engines=["host"], options=wrong, tries=2)
    assert {f.where for f in report.findings if f.level == "passes"} >= {"doubled"}
    assert wrong.record()["graph"]["passes"] == ("doubled",)
    assert repr(wrong) == "Options(graph=GraphOptions(passes=('doubled',)))"


def test_a_pass_may_be_registered_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(
        tmp_path,
        f"""
        [project]
        name = "mine"
        version = "1"
        [project.entry-points."{plugins.PASSES}"]
        same = "{__name__}:same"
        """,
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert names(passes=("same",))[-4:] == ["same", "slices", "stacks", "fuse"]
    with says("unknown-pass", "other", "same"):
        names(passes=("other",))


def nothing(m: Module) -> Any:
    del m


def broken(m: Module) -> Any:
    f = m.entry
    return replace(m, functions=(*m.functions[:-1], replace(f, results=("nothing",))))


def test_what_is_no_pass_is_refused() -> None:
    m = parse_module(TEXT)
    number: Any = 3
    with says("bad-pass", "a int"):
        names(passes=(number,))
    with says("bad-pass", "returns a NoneType"):
        compile(m, Options(graph=GraphOptions(passes=(nothing,))))
    with says("G-result", "nothing"):
        compile(m, Options(graph=GraphOptions(passes=(broken,))))
    for choices in ({"required": ("fold",)}, {"disabled": ("fold",)}):
        with says("unknown-pass", "fold", "inline, place, simplify, runs"):
            names(**choices)
    with says("bad-option", "graph.disabled = inline", "a pass that compiles need"):
        names(disabled=("inline",))
    with says("bad-option", "required, too"):
        names(disabled=("fuse",), required=("fuse",))


def test_a_listener_hears_each_step_with_its_time_and_result() -> None:
    heard: list[Step] = []
    c = compile(parse_module(TEXT), listen=heard.append)
    assert [s.name for s in heard] == [s.name for s in stages(Options())]
    assert c.times == tuple((s.name, s.seconds) for s in heard)
    assert all(seconds >= 0 for _, seconds in c.times)
    assert heard[-1].made == c
    assert all(isinstance(s.made, Fused) for s in heard)
    assert compile(parse_module(TEXT)) == c, "times do not make two compiles differ"


def test_passes_have_names_of_their_own() -> None:
    assert len({p.name for p in PASSES}) == len(PASSES)


PACKED = """module {
  dims i in [0, 1]
  func @step(%a: f32[3], %b: i4[3]) -> (%a, %b, %c) {
    %c = cast(%a, dtype=i4) : i4[3]
  }
  func @main(%x: f32[3], %y: i4[2, 3]) -> (%last, %rows, %made) {
    %last, %rows, %made = scan(%x, %y, body="step", index="i", length=2, scanned=1, states=1) : f32[3], i4[2, 3], i4[2, 3]
  }
}
"""  # noqa: E501 - a line of the text format


@pytest.mark.parametrize("level", range(4))
def test_rows_of_no_whole_bytes_are_scanned_at_every_level(level: int) -> None:
    options = Options(graph=GraphOptions(level=level))
    report = dd.check(Program(parse_module(PACKED)), engines=["host"], options=options, tries=2)
    assert report.agree, report.findings


BOUND = """module {
  dims m in [0, 1], n in [0, 1]
  func @main(%x: i64[], %y: i64[]) -> (%a, %b) {
    () = bind(%x, dim="m")
    %a = iota(axis=0, dtype=f32, shape=(m,)) : f32[m]
    () = bind(%y, dim="n")
    %b = iota(axis=0, dtype=i32, shape=(n,)) : i32[n]
  }
}
"""


def test_fusion_keeps_every_size_that_a_function_binds() -> None:
    fused = dict(compile(parse_module(BOUND), until="fuse").passes)["fuse"]
    assert [n.attr["dim"] for n in fused.entry.nodes if n.op == "bind"] == ["m", "n"]
