"""Engines, planners and peers of another distribution work by name; Didyma does not change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.plugins import files_of_the_pages, install, run

GRAPH = """module {
  func @main(%x: f32[8, 8]) -> (%z) {
    %y = matmul(%x, %x) : f32[8, 8]
    %z = exp(%y) : f32[8, 8]
  }
}
"""
TWO = """module {
  func @main(%a: f32[8, 8], %b: f32[8, 8]) -> (%c) {
    %c = matmul(%a, %b) : f32[8, 8]
  }
}
"""
TRACE = "id,lower,upper,size\na,0,2,100\nb,1,3,200\nc,2,4,100\n"

BROKEN = """
[project]
name = "wreck"
version = "2.0"
[project.entry-points."didyma.engines"]
sunken = "wreck:Engine"
adrift = "wreck_that_is_not_there:Engine"
[project.entry-points."didyma.planners"]
stranded = "wreck:PLANNER"
[project.entry-points."didyma.peers"]
lost = "wreck:Peer"
[tool.setuptools]
py-modules = ["wreck"]
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the documentation, and one that cannot be imported."""
    folder = tmp_path_factory.mktemp("site")
    install(folder, files_of_the_pages())
    install(folder, {"pyproject.toml": BROKEN, "wreck.py": "raise OSError('no such device')\n"})
    (folder / "x.dym").write_text(GRAPH)
    (folder / "trace.csv").write_text(TRACE)
    return folder


def test_python_takes_the_names(site: Path) -> None:
    script = """
import numpy as np, didyma as dd
p = dd.load("x.dym")
x = np.eye(8, dtype=np.float32)
run = dd.compile(p, engine="abacus", planner="first_fit")
assert dd.interpret(p, x).contains(run(x))
assert run.engine.launches.total() > 0
report = dd.check(p, engines=["abacus"], planner="first_fit")
assert report.agree and report.levels[-1].name == "abacus", report
plus = dd.trace(dd.f32[2])(lambda x: dd.exp(x) + x)
report = dd.check(plus, engines="simt", peers="longhand")
assert report.agree and report.levels[-2].name == "longhand", report
"""
    done = run("-c", script, path=str(site), cwd=site)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_line_takes_the_names(site: Path) -> None:
    how = ("--engine", "abacus", "--planner", "first_fit", "--peer", "longhand", "--json")
    done = run("-m", "didyma", "check", "x.dym", *how, path=str(site), cwd=site)
    assert done.returncode == 0, done.stderr
    names = [level["name"] for level in json.loads(done.stdout)["levels"]]
    assert names[-3:] == ["abacus", "longhand", "longhand, by kernel"]


def test_a_campaign_takes_the_names_to_its_workers(site: Path, tmp_path: Path) -> None:
    how = ("--engine", "abacus", "--planner", "first_fit", "--json", "--seconds", "3")
    where = ("--domain", "graphs", "--domain", "planners", "--findings", str(tmp_path))
    words = ("-m", "didyma", "fuzz", *how, "--jobs", "1", *where)
    done = run(*words, path=str(site), cwd=site)
    assert done.returncode == 0, done.stderr + done.stdout
    said = json.loads(done.stdout)
    assert said["engines"]["abacus"]["programs"] > 0


def test_plan_takes_the_planner(site: Path) -> None:
    words = ("-m", "didyma", "plan", "trace.csv", "--json", "--planner")
    done = run(*words, "first_fit", path=str(site), cwd=site)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["offsets"] == {"a": 0, "b": 100, "c": 0}
    rows = json.loads(run(*words, "all", path=str(site), cwd=site).stdout)
    found = {row["planner"]: row.get("peak", row.get("error")) for row in rows}
    assert found["first_fit"] == 300
    assert found["stranded"] == "broken-plugin"


def test_options_take_the_names(site: Path) -> None:
    (site / "two.dym").write_text(TWO)
    more = ("passes=even", "routines=gemm")
    options = [word for choice in more for word in ("--option", f"graph.{choice}")]
    words = ("-m", "didyma", "check", "two.dym", "--tries", "1", "--json", "--engine", "host")
    own = ("--option", "kernels.codegens=tiled", "--option", "kernels.recipes=narrow")
    done = run(*words, *options, *own, path=str(site), cwd=site)
    assert done.returncode == 0, done.stderr
    levels = [level["name"] for level in json.loads(done.stdout)["levels"]]
    assert "extern fused_matmul_0" in levels


def test_parts_lists_what_is_registered(site: Path) -> None:
    done = run("-m", "didyma", "parts", "--json", path=str(site), cwd=site)
    rows = {(p["kind"], p["name"]): p["origin"] for p in json.loads(done.stdout)["parts"]}
    assert rows["passes", "even"] == rows["routines", "gemm"] == "abacus 1.0"
    assert rows["engines", "sunken"] == "wreck 2.0"
    assert rows["recipes", "row"] == rows["codegens", "loops"] == "didyma"
    shown = run("-m", "didyma", "parts", path=str(site), cwd=site).stdout
    assert "narrow" in shown


def test_doctor_lists_what_is_registered(site: Path) -> None:
    done = run("-m", "didyma", "doctor", "--json", path=str(site), cwd=site)
    rows = {row["name"]: row for row in json.loads(done.stdout)["engines"]}
    assert rows["abacus"]["runs"]
    assert "abacus 1.0" in rows["abacus"]["why"]
    assert not rows["sunken"]["runs"]
    assert "no such device" in rows["sunken"]["why"]
    assert "wreck 2.0" in rows["sunken"]["mend"]
    assert not rows["adrift"]["runs"]
    peers = {row["name"]: row for row in json.loads(done.stdout)["peers"]}
    assert "abacus 1.0" in peers["longhand"]["why"]
    assert not peers["lost"]["runs"]


REFUSED = (
    (("--engine", "abaci"), ("unknown-engine", "abacus", "host")),
    (("--planner", "last_fit"), ("unknown-planner", "first_fit", "linear_scan")),
    (("--engine", "sunken"), ("broken-plugin", "OSError: no such device", "wreck 2.0")),
    (("--engine", "adrift"), ("broken-plugin", "wreck_that_is_not_there", "wreck 2.0")),
    (("--planner", "stranded"), ("broken-plugin", "no such device", "wreck 2.0")),
    (("--peer", "longhands"), ("unknown-peer", "longhand", "onnxruntime")),
    (("--peer", "lost"), ("broken-plugin", "no such device", "wreck 2.0")),
)


def test_a_wrong_name_is_refused(site: Path) -> None:
    script = """
import json, sys
from tests.didyma.cli import didyma
said = [didyma("check", "x.dym", *words) for words in json.loads(sys.argv[1])]
print(json.dumps([(s.code, s.err) for s in said]))
"""
    asked = json.dumps([words for words, _ in REFUSED])
    done = run("-c", script, asked, path=str(site), cwd=site)
    assert done.returncode == 0, done.stderr
    for (words, said), (code, err) in zip(REFUSED, json.loads(done.stdout), strict=True):
        assert code == 2, words
        assert "Traceback" not in err
        assert all(word in err for word in said), err


def test_no_plug_in_is_imported_before_its_name_is_asked_for(site: Path) -> None:
    script = """
import sys
import didyma as dd
dd.check(dd.load("x.dym"), engines=["host", "simt"])
assert not {"abacus", "wreck"} & set(sys.modules), sys.modules
"""
    done = run("-c", script, path=str(site), cwd=site)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("class Mine:\n    name = 'mine'\n", ("bad-engine", "without load")),
        ("class Mine:\n    name = 'ours'\n", ("broken-plugin", "'ours'")),
        ("def Mine():\n    return 1 / 0\n", ("ZeroDivisionError", "mine 1.0")),
    ],
)
def test_what_is_registered_must_be_an_engine(
    tmp_path: Path, module: str, said: tuple[str, ...]
) -> None:
    config = (
        '[project]\nname = "mine"\nversion = "1.0"\n'
        '[project.entry-points."didyma.engines"]\nmine = "mine:Mine"\n'
        '[tool.setuptools]\npy-modules = ["mine"]\n'
    )
    install(tmp_path, {"pyproject.toml": config, "mine.py": module})
    (tmp_path / "x.dym").write_text(GRAPH)
    words = ("-m", "didyma", "check", "x.dym", "--engine", "mine")
    done = run(*words, path=str(tmp_path), cwd=tmp_path)
    assert done.returncode == 2
    assert all(word in done.stderr for word in said), done.stderr


def test_a_planner_of_whole_allocations_plans_programs_and_no_traces(tmp_path: Path) -> None:
    config = (
        '[project]\nname = "hoard"\nversion = "1.0"\n'
        '[project.entry-points."didyma.planners"]\nhoard = "hoard:PLANNER"\n'
        '[tool.setuptools]\npy-modules = ["hoard"]\n'
    )
    module = (
        "from didyma.codegen.memory.planners import Planner, ReusePlan\n"
        "PLANNER = Planner('hoard', whole=lambda buffers, sizes: ReusePlan({}, hold=True))\n"
    )
    install(tmp_path, {"pyproject.toml": config, "hoard.py": module})
    (tmp_path / "x.dym").write_text(GRAPH)
    (tmp_path / "trace.csv").write_text(TRACE)
    codes: dict[str, int] = {}
    for words in ("check x.dym", "plan trace.csv"):
        asked = ("-m", "didyma", *words.split(), "--planner", "hoard")
        done = run(*asked, path=str(tmp_path), cwd=tmp_path)
        codes[words] = done.returncode
    assert codes == {"check x.dym": 0, "plan trace.csv": 2}
    assert "bad-option at `--planner hoard`" in done.stderr


def test_two_distributions_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("left", "right"):
        config = (
            f'[project]\nname = "{name}"\nversion = "1.0"\n'
            f'[project.entry-points."didyma.planners"]\nboth = "{name}:PLANNER"\n'
            f'[tool.setuptools]\npy-modules = ["{name}"]\n'
        )
        install(tmp_path, {"pyproject.toml": config, f"{name}.py": ""})
    (tmp_path / "x.dym").write_text(GRAPH)
    words = ("-m", "didyma", "check", "x.dym", "--planner", "both")
    done = run(*words, path=str(tmp_path), cwd=tmp_path)
    assert done.returncode == 2
    assert "broken-plugin" in done.stderr
    assert "left 1.0, right 1.0" in done.stderr


def test_the_conformance_suites_of_the_pages_pass(site: Path) -> None:
    tests = {name: body for name, body in files_of_the_pages().items() if name.startswith("test_")}
    assert sorted(tests) == [
        "test_abacus.py",
        "test_first_fit.py",
        "test_longhand.py",
        "test_parts.py",
    ]
    for name, body in tests.items():
        (site / name).write_text(body)
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)
    done = run(*words, path=str(site), cwd=site)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


WRONG = """
from abacus import Abacus
from longhand import Longhand
from didyma.codegen.memory.arena import ArenaPlanner, placement
from didyma.testing import EngineConformance, PeerConformance, PlannerConformance


class Forgetful(Abacus):
    def copy(self, target, source):
        pass


class Slanted(Abacus):
    def download(self, buffer, dtype, shape):
        found = super().download(buffer, dtype, shape)
        return abs(found) if dtype.is_float else found


class TestForgetful(EngineConformance):
    engine = Forgetful()
    graphs = 1  # a loop whose counter is never copied has no end


class TestSlanted(EngineConformance):
    engine = Slanted()
    graphs = 4


class TestOverlapping(PlannerConformance):
    planner = ArenaPlanner("overlapping", lambda p, budget: placement(p, 0 * p.size))


class Hasty(Longhand):
    functions = {**Longhand.functions, "exp": lambda x: x + 1}


class Idle(Longhand):
    functions = {}


class Scribbling(Longhand):
    def run(self, m, inputs, model=None):
        results = super().run(m, inputs)
        inputs[0].fill(0)
        return results


class Sorted(Longhand):
    def run(self, m, inputs, model=None):
        return super().run(m, inputs)[::-1]


class TestHasty(PeerConformance):
    peer = Hasty()


class TestIdle(PeerConformance):
    peer = Idle()


class TestScribbling(PeerConformance):
    peer = Scribbling()


class TestSorted(PeerConformance):
    peer = Sorted()
"""


def test_the_conformance_suites_fail_what_is_wrong(site: Path) -> None:
    (site / "test_wrong.py").write_text(WRONG)
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_wrong.py", "--tb=no", "-rf")
    out = run(*words, path=str(site), cwd=site).stdout
    failed = {line for line in out.splitlines() if line.startswith("FAILED")}
    for kind, tests in (
        ("TestForgetful", ("test_a_buffer_keeps_its_bytes", "test_a_stack_gives_and_takes")),
        ("TestSlanted", ("test_kernels[operators", "test_graphs[")),
        ("TestOverlapping", ("test_plan[program", "test_plan[graph", "test_plan[trace")),
        ("TestHasty", ("test_program[op exp]",)),
        ("TestIdle", ("test_program[the f32 add is not refused]",)),
        ("TestScribbling", ("test_program[op negative]",)),
        ("TestSorted", ("test_program[an input that is a result",)),
    ):
        for test in tests:
            assert any(f"{kind}::{test}" in line for line in failed), f"{kind}: {test} passed"
