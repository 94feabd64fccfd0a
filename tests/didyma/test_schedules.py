"""Schedules and loop functions from the face: compile, check, load, and ``didyma schedule``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.schedule.steps.records import Bind, Split
from didyma.refimpl.ir.graph import structural_hash
from tests.didyma.cli import didyma

LOOPS = """primfunc @total(a: f32[n, 24], b: f32[n]) writes (b) dims n in [1, 64] {
  for i in n parallel {
    alloc acc: f32[] local
    acc[] = 0.5:f32
    for k in 24 {
      acc[] = acc[] + a[i, k]
    }
    b[i] = acc[]
  }
}
"""
STEPS = """schedule @total {
  split i by 4
  stage a at i_inner
  unroll k
}
"""


@dd.trace(dd.f32[6, 32], dd.f32[6, 32])
def shown(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
    return dd.exp(x) * y


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "total.dym").write_text(LOOPS)
    (tmp_path / "total.dys").write_text(STEPS)
    return tmp_path


def loops(folder: Path) -> dd.LoopProgram:
    found = dd.load(folder / "total.dym")
    assert isinstance(found, dd.LoopProgram)
    return found


@pytest.mark.parametrize("engine", ["host", "simt"])
def test_a_loop_function_is_compiled_and_run_alone(folder: Path, engine: str) -> None:
    program = loops(folder)
    assert program.inputs == ("a",)
    x = np.arange(5 * 24, dtype=np.float32).reshape(5, 24)
    run = dd.compile(program, engine=engine, schedules={"total": folder / "total.dys"})
    assert np.array_equal(run(x), x.sum(axis=1) + np.float32(0.5))
    assert "i_outer" in run.text
    assert repr(run) == f"LoopExecutable total on {engine}"
    with pytest.raises(dd.DidymaError, match="input-count"):
        run()
    with pytest.raises(dd.DidymaError, match="dtype-mismatch"):
        run(x.astype(np.float64))


def test_a_loop_function_is_judged_alone(folder: Path) -> None:
    report = dd.check(loops(folder), engines="host", schedules={"total": STEPS})
    assert report.agree
    assert [level.name for level in report.levels] == ["loop", "kernel", "host"]
    with pytest.raises(dd.DidymaError, match="bad-option"):
        dd.check(loops(folder), engines="host", sizes={"m": 3})


def test_what_a_schedule_reassociates_is_decided_where_it_is_equal(folder: Path) -> None:
    text = "schedule @total {\n  rfactor acc over k\n}"
    report = dd.check(loops(folder), engines="host", schedules={"total": text})
    levels = {level.name: level for level in report.levels}
    assert not report.findings
    assert levels["loop"].checked == levels["loop"].total
    assert levels["kernel"].checked <= levels["kernel"].total


def test_a_schedule_of_a_primitive_is_taken_by_name_and_by_hash() -> None:
    plain = dd.compile(shown)
    (name,) = plain.compiled.loops
    key_of = structural_hash(plain.compiled.fused.function(name))
    steps = (Split("i0", 4), Bind("i0_outer", "blockIdx.x"), Bind("i0_inner", "threadIdx.x"))
    x, y = np.random.default_rng(1).standard_normal((2, 6, 32)).astype(np.float32)
    for key in (name, key_of):
        made = dd.compile(shown, schedules={key: steps[:1]})
        assert "i0_outer" in made.text
        assert np.array_equal(made(x, y), plain(x, y))
    with pytest.raises(dd.DidymaError, match=r"L-|bad-step") as e:  # a guard around rows
        dd.compile(shown, schedules={name: (*steps, Bind("i1", "threadIdx.x"))})
    assert e.value.file == f"schedules['{name}']"
    assert e.value.line == 5
    assert dd.check(shown, engines="host", schedules={name: steps}).agree


def test_a_schedule_for_another_function_is_refused(folder: Path) -> None:
    for key, text in (("other", STEPS), ("total", STEPS.replace("@total", "@other"))):
        with pytest.raises(dd.DidymaError) as e:
            dd.compile(loops(folder), schedules={key: text})
        assert e.value.code == "unknown-function"
        assert e.value.shown.startswith("schedule @")
    with pytest.raises(dd.DidymaError, match="unknown-function"):
        dd.compile(shown, schedules={"total": STEPS})


def test_a_schedule_for_another_function_has_its_place_in_the_file(folder: Path) -> None:
    (folder / "late.dys").write_text("# of another\n\n" + STEPS.replace("@total", "@other"))
    with pytest.raises(dd.DidymaError) as e:
        dd.compile(loops(folder), schedules={"total": folder / "late.dys"})
    assert (e.value.file, e.value.line) == (str(folder / "late.dys"), 3)
    said = didyma(
        "schedule", str(folder / "total.dym"), "--schedule", str(folder / "late.dys"), "--json"
    )
    assert (said.json["error"]["file"], said.json["error"]["line"]) == (
        str(folder / "late.dys"), 3,
    )  # fmt: skip


def test_the_command_prints_each_step(folder: Path) -> None:
    file, steps = str(folder / "total.dym"), str(folder / "total.dys")
    said = didyma("schedule", file, "--schedule", steps)
    assert said.code == 0
    assert said.out.count("primfunc @total") == 4
    assert "# stage a at i_inner in registers into a_stage" in said.out
    record = didyma("schedule", file, "--schedule", steps, "--json").json
    assert record["function"] == "total"
    assert [s["step"].partition(" ")[0] for s in record["steps"]] == [
        "",
        "split",
        "stage",
        "unroll",
    ]
    assert record["steps"][1]["loops"] == ["i_outer", "i_inner", "k"]


def test_the_command_refuses_what_it_cannot_schedule(folder: Path) -> None:
    (folder / "graph.dym").write_text("module {\n  func @f(%x: f32[2]) -> (%x) {\n  }\n}\n")
    (folder / "two.dym").write_text(LOOPS + LOOPS.replace("@total", "@again"))
    (folder / "bad.dys").write_text("schedule @total {\n  slice i by 8\n}\n")
    (folder / "other.dys").write_text("schedule @other {\n}\n")
    cases = {
        ("graph.dym", "total.dys"): "unknown-format", ("two.dym", "total.dys"): "several-functions",
        ("total.dym", "bad.dys"): "unknown-step", ("total.dym", "other.dys"): "unknown-function",
    }  # fmt: skip
    for (file, steps), code in cases.items():
        said = didyma("schedule", str(folder / file), "--schedule", str(folder / steps), "--json")
        assert said.code == 2
        assert said.json["error"]["code"] == code


def test_the_command_takes_steps_for_a_target(folder: Path) -> None:
    (folder / "near.dys").write_text("schedule @total {\n  stage a at i in cluster\n}\n")
    call = ("schedule", str(folder / "total.dym"), "--schedule", str(folder / "near.dys"), "--json")
    for target, code in (
        ("portable", "target-lacks"),
        ("sm_90a", "bad-step"),
        ("x", "unknown-target"),
    ):
        said = didyma(*call, "--target", target)
        assert said.json["error"]["code"] == code
    assert didyma(*call).json["error"]["got"] == "the portable target"


@pytest.mark.parametrize("asked", [{"choose": "at-run"}, {"kernels": {"total": 3}}])
def test_a_loop_function_has_no_choices(folder: Path, asked: dict[str, Any]) -> None:
    with pytest.raises(dd.DidymaError, match="for a loop function") as e:
        dd.compile(loops(folder), **asked)
    assert e.value.code == "bad-call"


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_scheduled_function_has_no_choice_besides(kind: type[Any]) -> None:
    steps = kind([Split("i0", 2), Bind("i0_outer", "blockIdx.x")])
    (name,) = dd.compile(shown).compiled.loops
    made = dd.compile(shown, schedules={name: steps})
    assert "i0_outer" in made.text
    assert made.choices["choices"] == {}
    again = dd.compile(shown, schedules={name: steps}, choose=made.choices)
    assert again.text == made.text
    with pytest.raises(dd.DidymaError, match="and a schedule of steps") as e:
        dd.compile(shown, schedules={name: steps}, choose=dd.compile(shown).choices)
    assert e.value.code == "bad-choice"


def test_the_command_judges_what_it_has_made(folder: Path) -> None:
    file, steps = str(folder / "total.dym"), str(folder / "total.dys")
    said = didyma("schedule", file, "--schedule", steps, "--check", "--json")
    assert said.code == 0
    levels = said.json["verdict"]["levels"]
    assert [x["name"] for x in levels] == ["loop", "kernel", "simt", "host"]
    assert all(x["agree"] for x in levels)

    beyond = folder / "beyond.dym"
    beyond.write_text(LOOPS.replace("a[i, k]", "a[i, k + 1]"))
    wrong = didyma("schedule", str(beyond), "--check")
    assert wrong.code == 1
    assert "out-of-bounds" in wrong.out
    graph = didyma("check", file)
    assert graph.code == 2
    assert "didyma schedule FILE --check" in graph.err


def test_blocks_of_a_cluster_are_judged_on_simt(folder: Path) -> None:
    steps = folder / "cluster.dys"
    steps.write_text("""schedule @total {
  bind i to blockIdx.x
  split k by 6
  reduce_across acc over k_outer by cluster
}
""")
    words = ("schedule", str(folder / "total.dym"), "--schedule", str(steps), "--check", "--json")
    said = didyma(*words, "--target", "sm_90a")
    assert said.code == 0
    assert [x["name"] for x in said.json["verdict"]["levels"]] == ["loop", "kernel", "simt"]
