"""`didyma minimise`: findings become small cases for replay, and scripts that stand alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from didyma.codegen.options import GraphOptions, KernelOptions, Options
from didyma.commands.judge import Task, Verdict, judge
from didyma.fuzz import replay
from didyma.fuzz.minimise.script import script
from didyma.fuzz.replay import Recorded
from didyma.oracle.report import Finding
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array, DType, Tensor
from tests.didyma.cli import didyma
from tests.didyma.planting import careless, inline
from tests.didyma.test_bad_input import refused_with
from tests.test_house import ROOT
from tests.warm import python

CHAIN = """module {
  func @main(%x: f32[4, 6], %y: f32[6]) -> (%d, %c) {
    %a = add(%x, %y) : f32[4, 6]
    %b = sqrt(%a) : f32[4, 6]
    %c = negative(%b) : f32[4, 6]
    %d = exp(%c) : f32[4, 6]
  }
}
"""


def finding(path: Path, source: str = CHAIN, **others: Any) -> Path:
    m = parse_module(source)
    drawn = {
        p.name: Tensor.of(np.full([int(d) for d in p.type.shape], 7.5, np.float32))
        for p in m.entry.params
    }
    seeds = tuple(range(len(m.entry.params)))
    r = Recorded(
        m, seeds, {}, ("host",), Options(kernels=KernelOptions(block=64)), drawn=drawn, **others
    )
    return replay.save(path, r)


def test_a_finding_becomes_a_case_of_one_node_and_a_script(tmp_path: Path) -> None:
    path, out, repro = finding(tmp_path / "f.dym"), tmp_path / "small.dym", tmp_path / "repro.py"
    with careless():
        said = didyma("minimise", path, "-o", out, "--script", repro, "--json")
    assert said.code == 1, said.err
    r = said.json
    assert (r["level"], r["kind"]) == ("host", "value")
    assert r["signature"] == ["host", "value", ""]
    assert (r["before"], r["after"]["nodes"]) == ({"nodes": 4, "elements": 30}, 1)
    assert r["after"]["elements"] == 1
    assert r["needed"] == []
    passes = {f"graph.{name}" for name in ("simplify", "fuse", "rows", "attention", "channels")}
    passes |= {f"kernels.{name}" for name in ("vectorise", "contract", "waits")}
    assert set(r["left_out"]) == {*passes, "memory.planner", "memory.views"}
    assert r["options"] == {}, "blocks of 64 threads do not matter"
    small = replay.load(out)
    assert [n.op for n in small.module.entry.nodes] == ["exp"]
    assert small.finding is not None
    assert "exp(" in repro.read_text(encoding="utf-8")
    kernel = r["kernel"]
    assert kernel["after"] < kernel["before"]
    assert "exp(" in kernel["text"]
    assert "for " not in kernel["text"], "one element, and no loop"
    alone = Path(kernel["script"])
    assert alone == tmp_path / "repro_kernel.py"
    names: dict[str, Any] = {"__name__": "script"}
    exec(alone.read_text(encoding="utf-8"), names)
    assert names["main"]() == 0, "right without the fault"
    with careless():
        assert names["main"]() == 1


def test_a_minimised_case_still_disagrees_and_agrees_once_the_fault_is_gone(
    tmp_path: Path,
) -> None:
    path, out = finding(tmp_path / "f.dym"), tmp_path / "small.dym"
    with careless():
        assert didyma("minimise", path, "-o", out, "--json").code == 1
        r = replay.load(out)
        task = Task(r.module, r.env, r.seeds, r.engines, r.options, given=r.values)
        assert [f.level for f in judge(task, lambda _: None).report.findings] == ["host"]
    assert not judge(task, lambda _: None).report.findings


def test_what_agrees_has_nothing_to_minimise(tmp_path: Path) -> None:
    path = finding(tmp_path / "f.dym")
    with inline():
        said = didyma("minimise", path, "--json", "-o", tmp_path / "small.dym")
        assert "nothing to minimise" in didyma("minimise", path, "-o", tmp_path / "small.dym").out
    assert (said.code, said.json["agree"]) == (5, True)
    assert not (tmp_path / "small.dym").exists()


def in_this_process(task: Task, timeout: float, **others: object) -> Verdict:
    """Judge where the fault is planted."""
    del timeout, others
    return judge(task, lambda _: None)


def test_a_program_that_a_check_finds_wrong_is_minimised(tmp_path: Path) -> None:
    path, out = tmp_path / "p.dym", tmp_path / "small.dym"
    path.write_text(CHAIN, encoding="utf-8")
    with careless(), mock.patch("didyma.commands.minimise.guarded", in_this_process):
        said = didyma("minimise", path, "-e", "host", "-o", out)
        assert said.code == 1, said.err
    assert "4 nodes, 30 elements -> 1 node, 1 element" in said.out
    assert f"didyma replay {out}" in said.out
    assert [n.op for n in replay.load(out).module.entry.nodes] == ["exp"]


def test_bad_input_is_refused_before_anything_is_judged(tmp_path: Path) -> None:
    path = finding(tmp_path / "f.dym")
    missing = tmp_path / "no" / "small.dym"
    with mock.patch("didyma.commands.minimise.search", side_effect=AssertionError):
        refused_with(didyma("minimise", path, "-o", missing, "--json"), "unwritable", "small.dym")
        refused_with(
            didyma("minimise", tmp_path / "none.dym", "--json"), "unreadable-file", "none.dym"
        )
        refused_with(didyma("minimise", path, "-e", "hots", "--json"), "unknown-engine", "hots")


VALUES: dict[str, Array] = {
    "f32": np.array([[np.nan, -0.0], [np.inf, 0.1]], np.float32),
    "f16": np.array([1, 65504], np.float16),
    "u64": np.array([2**64 - 1, 0], np.uint64),
    "bool": np.array([True, False]),
    "f64": np.zeros((2, 0)),
    "i8": np.array(-3, np.int8),
    "bf16": np.array([1.5, np.nan]).astype(DType.BF16.numpy),
    "payload": np.array([0x7FC12345, 1], np.uint32).view(np.float32),
    "many": np.random.default_rng(1).standard_normal((9, 40)).astype(np.float32),
}


@pytest.mark.parametrize("dtype", VALUES)
def test_a_script_holds_every_bit_of_its_inputs(dtype: str) -> None:
    x = VALUES[dtype]
    t = Tensor.of(x)
    text = f"module {{ func @main(%x: {t.type}) -> (%x) {{ }} }}"
    r = Recorded(
        parse_module(text),
        (1,),
        {},
        ("host",),
        Options(graph=GraphOptions(fuse=False)),
        given={"x": t},
    )
    names: dict[str, Any] = {"__name__": "script"}
    exec(script(r), names)
    (again,) = names["INPUTS"]
    assert again.tobytes() == x.tobytes()
    assert (again.dtype, again.shape) == (x.dtype, x.shape)
    assert """Options().changed({'graph.fuse': False})""" in script(r)


def test_a_script_runs_by_itself(tmp_path: Path) -> None:
    f = Finding("host", "fused_0", "value", 'got "1" \\ of """ 2')
    r = replay.load(finding(tmp_path / "f.dym", finding=f))
    (tmp_path / "repro.py").write_text(script(r), encoding="utf-8")
    done = python("repro.py", cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": ""})
    assert (done.returncode, done.stdout) == (0, "agree\n"), done.stderr
