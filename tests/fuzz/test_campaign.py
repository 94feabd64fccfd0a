"""Campaigns: what they find, what a crash or a hang costs, and how they end.

Faults are planted in a copy of the source, as `nox -s mutants` does, and the command is run there.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from didyma.codegen.runtime.engine import Loaded
from didyma.codegen.runtime.registry import engine
from didyma.fuzz.campaign import Plan, run
from didyma.fuzz.distilled import members
from didyma.fuzz.domains.graphs import Graphs
from didyma.fuzz.domains.plans import Plans
from didyma.fuzz.domains.registry import DOMAINS
from didyma.fuzz.executor import InlineExecutor
from didyma.fuzz.graphs import Case
from didyma.fuzz.replay import load
from didyma.fuzz.result import Result
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.text import parse_module
from tests.didyma.cli import ROOT
from tests.mutants.copies import plant
from tests.mutants.faults import FAULTS
from tests.warm import python


def didyma(where: Path, *words: str | Path) -> tuple[int, Any]:
    """Run a command of the copy of the source in a folder: exit code, JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "didyma", *map(str, words), "--json"],
        cwd=where,
        env={**os.environ, "PYTHONPATH": str(where)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode in (0, 1, 5), done.stderr
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)


def warm(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of this checkout in a process that need not import it again."""
    return python("-m", "didyma", *words, cwd=ROOT, env=os.environ, seconds=240)


def test_a_disagreement_is_found_shrunk_written_and_replayed(tmp_path: Path) -> None:
    where = tmp_path / "copy"
    (fault,) = [f for f in FAULTS if f.name == "a reduction that skips its last element"]
    plant(where, fault)
    folder = tmp_path / "findings"
    words = ("--domain", "graphs", "--jobs", "1", "--engine", "host", "--stop-after", "1")
    code, said = didyma(
        where, "fuzz", "--seconds", "400", *words, "--seed", "1", "--findings", folder
    )
    assert code == 1
    (f,) = said["findings"]
    assert f["level"] == "loop"
    assert f["kind"] == "value"
    assert f["nodes"] == 1, "shrunk to the op at fault"
    assert [p.name for p in folder.iterdir()] == [Path(f["file"]).name]
    assert [g["count"] for g in said["groups"]] == [1]
    assert len(load(Path(f["file"])).module.entry.nodes) == f["nodes"]
    code, again = didyma(where, "replay", f["file"])
    assert code == 1
    first = again["findings"][0]
    assert (first["level"], first["message"]) == (f["level"], f["message"])
    mended = warm("replay", f["file"], "--json")
    assert (mended.returncode, json.loads(mended.stdout)["agree"]) == (0, True)


class Wrong:
    """An engine that cannot load a text with a kernel that subtracts."""

    name = "wrong"

    def __init__(self) -> None:
        self._host = engine("host")

    def __reduce__(self) -> tuple[type[Wrong], tuple[()]]:
        return Wrong, ()

    def load(self, text: KernelText) -> Loaded:
        if any("subtract" in k.name for k in text.kernels):
            raise ValueError("no subtraction")
        return self._host.load(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)


class EnoughError(Exception):
    """Ends a campaign."""


def test_a_disagreement_that_is_being_shrunk_is_kept_when_the_campaign_ends(
    tmp_path: Path,
) -> None:
    wrong: Any = Wrong()

    def progress(r: Result) -> None:
        if list(tmp_path.glob("*.dym")):
            assert not r.groups, "it is being shrunk"
            raise EnoughError

    with pytest.raises(EnoughError):
        run(Plan((Graphs((wrong,)),), seed=1, findings=tmp_path), progress, InlineExecutor())
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("wrong-error-")
    assert load(file).campaign_seed == 1


STRUCK: Mapping[str, Callable[[], object]] = {
    "floor": lambda: time.sleep(999),
    "tan": lambda: ctypes.string_at(0),
    "log": lambda: os._exit(7),
}


class Striking(Wrong):
    """An engine that hangs or ends its process when it loads a kernel of one of three ops."""

    name = "striking"

    def __reduce__(self) -> tuple[type[Wrong], tuple[()]]:
        return Striking, ()

    def load(self, text: KernelText) -> Loaded:
        for op, strike in STRUCK.items():
            if any(op in k.name for k in text.kernels):
                strike()
        return self._host.load(text)


class OneOpEach(Graphs):
    """Graphs of two nodes, the second of one of four ops in turn."""

    def draw(self, seed: int, index: int) -> Case:
        op = ("floor", "negative", "tan", "log")[index]
        n = 3 + index
        m = parse_module(f"""module {{
  func @main(%a: f32[{n}]) -> (%c) {{
    %b = square(%a) : f32[{n}]
    %c = {op}(%b) : f32[{n}]
  }}
}}""")
        return Case(m, (), (seed + index,))


def test_a_crash_or_a_hang_costs_its_case_alone(tmp_path: Path) -> None:
    striking: Any = Striking()
    plan = Plan(
        (OneOpEach((striking,)),), count=4, seed=1, jobs=2, hang_seconds=5, shrink_seconds=60,
        metered=False, findings=tmp_path,
    )  # fmt: skip
    r = run(plan)
    assert r.cases == 4, "the campaign went on after each"
    expected = {("floor", "hang", "no answer within 5 s"),
                ("tan", "crash", "the process died: SIGSEGV"),
                ("log", "crash", "the process died: exit code 7")}  # fmt: skip
    found = {
        (load(Path(e.file)).module.entry.nodes[-1].op, e.finding.kind, e.finding.message)
        for g in r.groups
        for e in g.examples
    }
    assert found == expected
    assert {(f.level, f.where) for g in r.groups for e in g.examples for f in [e.finding]} == {
        ("striking", "process")
    }
    assert [g.count for g in r.groups] == [1, 1, 1]
    assert {len(g.smallest.case.module.entry.nodes) for g in r.groups} == {1}, "they were shrunk"
    assert {e.file for g in r.groups for e in g.examples} == {str(p) for p in tmp_path.iterdir()}


def test_one_seed_gives_one_sequence_of_graphs() -> None:
    def graphs(seed: int) -> list[str]:
        domain = Graphs(("host",))
        return [repr(domain.draw(seed, i)) for i in range(12)]

    first = graphs(5)
    assert graphs(5) == first
    assert len({*first, *graphs(6), *graphs(7)}) == 36, "no two campaigns share a graph"


def test_it_ends_in_time_and_says_what_it_saw(tmp_path: Path) -> None:
    start = time.monotonic()
    words = ("--seconds", "12", "--jobs", "2", "--findings", str(tmp_path), "--json")
    done = warm("fuzz", *words)
    took = time.monotonic() - start
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert set(said) == {
        "seed", "jobs", "programs", "seconds", "cpu_seconds", "programs_per_minute",
        "checked_share", "findings", "groups", "domains", "median_nodes", "coverage", "engines",
        "unexplained_deaths", "lost_processes",
    }  # fmt: skip
    assert 12 <= said["seconds"] < 12 + 30
    assert took < 12 + 90, "starting and ending included, on a busy machine"
    assert said["findings"] == said["groups"] == []
    assert said["checked_share"] > 0.9
    assert set(said["engines"]) == {"simt", "host"}
    domains = said["domains"]
    assert list(domains) == list(DOMAINS)
    assert sum(d["cases"] for d in domains.values()) == said["programs"] > 0
    assert all(d["cases"] for d in domains.values()), "each gets its share"
    assert said["engines"]["host"]["programs"] == domains["graphs"]["cases"]
    graphs, on_simt = domains["graphs"]["cases"], said["engines"]["simt"]["programs"]
    assert 0 < on_simt <= graphs
    assert on_simt < graphs or graphs <= len(members("graphs")), "it is slow for those drawn"
    assert said["programs_per_minute"] == pytest.approx(
        60 * said["programs"] / said["seconds"], rel=0.01
    )
    assert 0 < said["coverage"]["pairs"] <= said["coverage"]["possible"]
    assert list(tmp_path.iterdir()) == []


def in_session(session: int) -> list[int]:
    """Processes of a session that are not dead."""
    return [pid for pid, _, _ in _processes(session)]


def judging(session: int) -> int:
    """Return how many workers of a campaign have had time to judge a program.

    The leader of its session has a child that does the imports, and forks the workers.
    """
    return sum(
        parent != session and seconds >= WARM_SECONDS
        for pid, parent, seconds in _processes(session)
        if pid != session
    )


def _processes(session: int) -> list[tuple[int, int, float]]:
    """Return process, parent and processor seconds of what is alive in a session."""
    found: list[tuple[int, int, float]] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            found.append((int(stat.parent.name), int(fields[1]), seconds))
    return found


WARM_SECONDS = 0.6  # of each worker: more than a first program takes


def ignoring() -> None:
    """Ignore SIGINT from here on, as a shell does for its background jobs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def ended(
    words: tuple[str | Path, ...], how: signal.Signals, ignored: bool
) -> tuple[int, str, str]:
    """Start Python, let it judge for a while, end it: its exit code and output; nothing is left."""
    with subprocess.Popen(
        [sys.executable, *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=ignoring if ignored else None,
    ) as process:
        try:
            patience = time.monotonic() + 120
            while judging(process.pid) < 2 and time.monotonic() < patience:
                time.sleep(0.1)
            assert judging(process.pid) >= 2
            if how is signal.SIGINT:  # a terminal tells the whole group
                os.killpg(process.pid, how)
            else:
                process.send_signal(how)
            out, err = process.communicate(timeout=60)
            end = time.monotonic() + 60
            while in_session(process.pid) and time.monotonic() < end:
                time.sleep(0.05)
            assert in_session(process.pid) == []
        finally:  # whatever fails above, nothing goes on
            for pid in in_session(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    assert "Traceback" not in err
    return process.returncode, out, err


MINUTES = ("--seconds", "600", "--jobs", "2", "--json")
needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="needs /proc to see processes"
)


@needs_proc
@pytest.mark.parametrize(
    ("how", "ignored"),
    [
        (signal.SIGINT, False),
        (signal.SIGINT, True),
        (signal.SIGTERM, False),
        (signal.SIGTERM, True),
        (signal.SIGKILL, False),
    ],
)
def test_no_process_is_left_behind(how: signal.Signals, ignored: bool, tmp_path: Path) -> None:
    words = ("-m", "didyma", "fuzz", "--findings", tmp_path, *MINUTES)
    code, out, err = ended(words, how, ignored)
    if how is signal.SIGKILL:
        assert (code, out) == (-how, "")
    else:
        assert code == 128 + how
        assert "interrupted" in err
        assert json.loads(out)["programs"] > 0


@needs_proc
@pytest.mark.parametrize(
    ("module", "how"),
    [
        (("didyma", "fuzz", "--memory"), signal.SIGINT),
        (("didyma.fuzz.allocator",), signal.SIGTERM),
    ],
)
def test_a_campaign_on_plans_tells_what_it_saw_when_it_is_stopped(
    module: tuple[str, ...], how: signal.Signals
) -> None:
    code, out, _ = ended(("-m", *module, *MINUTES), how, ignored=True)
    assert code == 128 + how
    assert json.loads(out)["programs"] > 0


def test_the_share_of_an_idle_campaign_is_whole() -> None:
    r = Result()
    assert (r.cases, r.all.checked_share, r.all.median_size) == (0, 1.0, 0)


def test_a_campaign_draws_a_seed_prints_it_and_repeats_it(tmp_path: Path) -> None:
    options = ["--seconds", "3", "--jobs", "1", "--domain", "emission"]
    words = ("fuzz", *options, "--findings", str(tmp_path))
    seeds: list[int] = []
    for _ in range(2):
        done = warm(*words)
        done.check_returncode()
        (printed,) = re.findall(r"^seed (\d+)$", done.stderr, re.MULTILINE)
        assert f"--seed {printed} --jobs 1" in done.stdout
        seeds.append(int(printed))
    assert seeds[0] != seeds[1]
    assert max(seeds) < 10**9, "short enough to type"
    said = json.loads(warm(*words, "--seed", str(seeds[0]), "--json").stdout)
    assert (said["seed"], said["jobs"]) == (seeds[0], 1)


def test_a_plan_draws_a_seed_of_its_own() -> None:
    assert Plan(()).seed != Plan(()).seed
    assert Plan((Plans(),), 1.0, seed=7).seed == 7
