"""The engine: what kills a mutant, what survives, what is kept, and what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from didyma.fuzz.steering.meter import Key, Wish
from didyma.refimpl.errors import DidymaError
from tests.mutants import named, unit_tests
from tests.mutants.__main__ import main
from tests.mutants.checks import Check, drawer
from tests.mutants.engine import Engine, HuntPlan
from tests.mutants.faults import Fault
from tests.mutants.forking import Say, forked, limit_cpu
from tests.mutants.hunting import Bounds, Queue, hunt
from tests.mutants.mutant import ROOT
from tests.mutants.reached import Reached
from tests.mutants.report import page, summary
from tests.mutants.state import State
from tests.mutants.target import Result, Target

INLINE = "codegen/passes/inline.py"


def target(name: str, file: str, old: str, new: str, levels: tuple[str, ...] = ()) -> Target:
    return replace(named.target(Fault(name, file, old, new, levels)), id=name)


def in_simplify(name: str, words: str) -> Target:
    """Put a statement at the start of a pass."""
    file = "codegen/passes/simplify.py"
    source = (ROOT / file).read_text(encoding="utf-8")
    line = next(x for x in source.splitlines() if x.startswith("def simplify("))
    at = source.index(line)
    body = source.index('"""\n', source.index('"""', at) + 3) + 4
    old = source[at:body]
    return target(name, file, old, f"{old}    {words}\n")


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    """What came of a handful of planted changes, in a process of its own.

    Children of a process that has run many tests inherit so much that they collect garbage seldom
    and slowly: they run out of memory and seem to hang.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as alone:
        return alone.submit(planted).result()


def planted() -> dict[str, Result]:
    """Return what comes of a handful of planted changes, on few programs."""
    plan = HuntPlan(seed=7, programs=4, seconds=2.0, jobs=2, grace=1.0, record=5.0)
    engine = Engine(plan, suite=lambda: ())
    targets = [
        target("shift", "codegen/emit/prelude/common.c", "((T)((U)(a) + (U)(b)))",
               "((T)((U)(a) - (U)(b)))"),
        in_simplify("unused", "_ = 1"),
        in_simplify("loops", "while True: pass"),
        in_simplify("dies", "import os; os.kill(os.getpid(), 11)"),
        in_simplify("raises", "raise ValueError(3)"),
        target("table", "codegen/emit/prelude/__init__.py", '"host": "#define FN static inline',
               '"host": "#define FN statically'),
        target("late", "codegen/emit/prelude/__init__.py", "if len(set(values)) < len(values):",
               "if True:"),
    ]  # fmt: skip
    state = State(None, {})
    engine.measure()
    engine.hunt(targets, [], state)
    engine.explain(targets, state)
    return state.results


def test_a_wrong_value_kills(results: dict[str, Result]) -> None:
    r = results["shift"]
    assert (r.outcome, r.how) == ("killed", "finding")
    assert r.programs > 0


def test_a_change_without_effect_survives_and_says_so(results: dict[str, Result]) -> None:
    r = results["unused"]
    assert (r.outcome, r.how, r.message) == ("survived", "", "")
    assert r.reached > 0
    assert "compile to the same" in r.effect
    assert not r.equivalent


@pytest.mark.parametrize(("name", "how"), [("loops", "hang"), ("dies", "crash")])
def test_a_hang_and_a_crash_kill(results: dict[str, Result], name: str, how: str) -> None:
    assert (results[name].outcome, results[name].how) == ("killed", how)


def test_an_error_kills_and_is_told(results: dict[str, Result]) -> None:
    assert results["raises"].how == "error"
    assert "ValueError: 3" in results["raises"].message


def test_a_change_at_module_level_is_imported_again(results: dict[str, Result]) -> None:
    assert results["table"].outcome == "killed"
    assert results["table"].check


def test_a_change_of_a_module_that_is_imported_late_is_planted(results: dict[str, Result]) -> None:
    assert results["late"].outcome == "killed"


# ---- parts


def run_unit_tests(file: Path, say: Say) -> None:
    with mock.patch.object(unit_tests, "every", return_value=(file,)):
        say(unit_tests.judge(0))


def test_a_unit_test_that_fails_is_a_finding(tmp_path: Path) -> None:
    bad, good, broken = (tmp_path / f"test_{name}.py" for name in ("bad", "good", "broken"))
    good.write_text("def test_it():\n    pass\n")
    bad.write_text("def test_it():\n    assert 1 == 2\n")
    broken.write_text("import nothing_of_that_name\n")
    ended = {e.work: e.said[-1] for e in forked([bad, good, broken], run_unit_tests, 2)}
    assert ended[good] is None
    assert ended[bad][:2] == ended[broken][:2] == ("tests", "test")
    assert "test_bad.py::test_it" in ended[bad][2]
    assert "nothing_of_that_name" in ended[broken][2]


def work(what: str, say: Say) -> None:
    say("begun")
    match what:
        case "spin":
            limit_cpu(0.2)
            while True:
                pass
        case "sleep":
            time.sleep(60)
        case "abort":
            os.abort()
        case "raise":
            raise ValueError
        case _:
            say("done")


def test_children_end_each_in_its_own_way() -> None:
    ended = {e.work: e for e in forked(["", "spin", "sleep", "abort", "raise"], work, 5, 2.0)}
    assert {w: e.how for w, e in ended.items()} == {
        "": "", "spin": "hang", "sleep": "hang", "abort": "SIGABRT", "raise": "exit code 70",
    }  # fmt: skip
    assert ended[""].said == ["begun", "done"]


def test_no_child_outlives_what_waits_for_it() -> None:
    began = time.monotonic()
    waiting = forked(["", "sleep"], work, 2, 60.0)
    assert next(waiting).work == ""
    waiting.close()
    assert time.monotonic() - began < 30


def bounds(seconds: float = 5.0, lost: str = "") -> Bounds:
    return Bounds(seconds, lambda check: 10.0, lambda check, cases, made: lost)


def test_the_check_that_took_least_time_is_next() -> None:
    said: list[Any] = []

    def slow(index: int) -> None:
        end = time.process_time() + 0.05
        while time.process_time() < end:
            pass

    def quick(index: int) -> tuple[str, str, str] | None:
        return ("level", "value", f"at {index}") if index == 5 else None

    checks = [Check("quick", 9, lambda: quick), Check("slow", 9, lambda: slow)]
    hunt(checks, {"quick": Queue(range(9)), "slow": Queue(range(9))}, bounds(), said.append)
    assert [s[1] for s in said[:-1]][:3] == ["quick", "slow", "quick"]
    assert said[-1][:3] == ("killed", "quick", 7)
    assert said[-1][4:] == ("level", "value", "at 5", 5)


def test_a_check_whose_cases_execute_the_mutant_sees_more_of_them() -> None:
    said: list[Any] = []
    executes = False

    def judge(hits: bool) -> Callable[[int], None]:
        def of(index: int) -> None:
            nonlocal executes
            end = time.process_time() + 0.005
            while time.process_time() < end:
                pass
            executes = hits

        return of

    checks = [Check("rare", 99, lambda: judge(False)), Check("often", 99, lambda: judge(True))]
    unknown = {c.name: Queue((), range(c.cases), 0.0) for c in checks}
    hunt(checks, unknown, bounds(0.3), said.append, lambda: executes)
    often = sum(s[1] == "often" for s in said)
    assert said[-1][0] == "survived"
    assert said[-1][4] == often > 0.9 * said[-1][2]


def test_cases_known_to_execute_the_mutant_are_first() -> None:
    said: list[Any] = []
    checks = [Check("a", 9, lambda: lambda index: None), Check("b", 9, lambda: lambda index: None)]
    hunt(checks, {"a": Queue([7], [1, 2]), "b": Queue([5, 6], [0])}, bounds(), said.append)
    assert {s[-1] for s in said[:3]} == {5, 6, 7}
    assert {s[-1] for s in said[3:-1]} == {0, 1, 2}


def test_a_late_check_waits_and_then_takes_turns_with_all_others() -> None:
    said: list[Any] = []

    def judge(index: int) -> None:
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass

    checks = [Check(name, 99, lambda: judge) for name in ("quick", "late")]
    cases = {"quick": Queue(range(99)), "late": Queue(range(99), late=0.1)}
    hunt(checks, cases, bounds(0.5), said.append)
    names = [s[1] for s in said[:-1]]
    assert "late" not in names[:4]
    assert 0.3 < names.count("late") / len(names) < 0.6


class Wishing:
    """A domain whose cases say what they were asked for."""

    free = 4

    def wanted(self) -> dict[Wish, Key]:
        wishes = [("rule", str(i)) for i in range(3)] + [("pair", str(i)) for i in range(9)]
        return {wish: ("key", *wish) for wish in wishes}

    def draw_wished(self, seed: int, index: int, wishes: tuple[Wish, ...]) -> tuple[Wish, ...]:
        return wishes


def test_campaigns_are_asked_for_every_wish_the_motifs_in_turn() -> None:
    domain: Any = Wishing()
    draw = drawer(domain, 7)
    drawn = [draw(i) for i in range(8)]
    assert drawn[domain.free - 1] == ()
    first = {w for wishes in drawn[:2] for w in wishes}
    assert {w for w in first if w[0] == "rule"} == {("rule", str(i)) for i in range(3)}
    asked = [w for wishes in drawn for w in wishes]
    assert sorted(asked) == sorted(domain.wanted())
    plain = mock.Mock(wanted=dict)
    assert drawer(plain, 7)(3) is plain.draw.return_value
    plain.draw.assert_called_once_with(7, 3)


def test_a_case_that_is_wrong_without_the_mutant_kills_nothing() -> None:
    t = replace(in_simplify("unused", "_ = 1"), engine="")
    broken = Check("broken", 3, lambda: lambda i: ("level", "value", "no") if i != 1 else None)
    engine = Engine(HuntPlan(seconds=2.0), suite=lambda: ())
    engine.measure(targets=1)
    engine.reached = Reached({"broken": 3})
    state = State(None, {})
    with mock.patch("tests.mutants.checks.checks", return_value=(broken,)):
        engine.hunt([t], [], state)
    assert state.results["unused"].outcome == "survived"
    assert state.results["unused"].programs == 1
    assert engine.reached.findings == ["broken 0: level: value: no", "broken 2: level: value: no"]


def test_a_hunt_ends_with_its_time() -> None:
    said: list[Any] = []
    endless = Check("endless", 10**5, lambda: lambda index: None)
    hunt([endless], {"endless": Queue(range(10**5))}, bounds(0.05), said.append)
    assert said[-1][0] == "survived"


def test_a_lost_decision_kills() -> None:
    r = Reached()
    r.decisions["decisions"] = {"fold": 0b1011, "rare": 0b1}
    made = Check("decisions", 4, lambda: lambda index: frozenset({"other"}))
    said: list[Any] = []
    cases = {"decisions": Queue(range(4))}
    hunt([made], cases, Bounds(5.0, lambda check: 10.0, r.lost), said.append)
    assert said[-1][:2] == ("killed", "decisions")
    assert said[-1][5:-1] == ("lost", "not in 4 programs: fold, made in 3 of them before")
    assert r.lost("decisions", range(4), {"fold"}) == ""
    assert r.lost("decisions", range(2), set()) == ""


def result(name: str, outcome: str = "killed", **words: Any) -> Result:
    return Result(name, "passes", name, outcome, file="codegen/x.py", **words)


def test_a_run_is_resumed_where_it_was_killed(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    state = State(file, {"seed": 1})
    state.keep(result("a", seconds=1.5))
    state.keep(result("b", "survived", diff="-x\n+y"))
    with file.open("a") as f:
        f.write('{"id": "c", "gro')  # the process was killed here
    again = State(file, {"seed": 1})
    assert again.results == state.results
    again.keep(result("d"))
    assert list(State(file, {"seed": 1}).results) == ["a", "b", "d"]


def test_a_file_of_another_run_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    State(file, {"seed": 1, "sources": "x"})
    with pytest.raises(DidymaError, match="another seed") as e:
        State(file, {"seed": 2, "sources": "x"})
    assert e.value.code == "bad-option"
    file.write_text("what\n")
    with pytest.raises(DidymaError) as e:
        State(file, {"seed": 1})
    assert e.value.code == "unreadable-file"
    with pytest.raises(DidymaError) as e:
        State(tmp_path, {"seed": 1})
    assert e.value.code in ("unreadable-file", "unwritable")


def test_a_summary_counts_and_shows_survivors() -> None:
    results = [
        result("a", check="host", how="finding", seconds=2.0, programs=3),
        result("b", check="host", how="crash", seconds=4.0, programs=5),
        result("c", "survived", diff="--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y", effect="1 of 2"),
        result("d", "identical", equivalent=True, reason="the bytecode is identical"),
        result("e", "unreached"),
    ]
    s = summary(results, 2, ["f"])
    wanted = {"killed": 2, "total": 5, "equivalent": 1, "kill_rate": 0.5, "median_seconds": 3.0,
              "not_run": 2, "by": {"host": 2}}  # fmt: skip
    assert {k: s[k] for k in wanted} == wanted
    assert [x["id"] for x in s["survivors"]] == ["c", "d", "e"]
    assert {"id", "file", "line", "diff", "equivalent", "reason"} <= s["survivors"][0].keys()
    text = page(results, "command")
    assert "| passes | 5 | 2 | 1 | 50.0 % | 3.00 s |" in text
    assert "not killed: 1 of 2\n\n```text\n-x\n+y\n```" in text


@pytest.mark.parametrize(
    "words",
    ["--sample -1", "--sample 0", "--seconds 0", "--jobs 0", "--minutes 0", "--programs 0"],
)
def test_bad_options_are_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    assert "bad-option" in capsys.readouterr().err


def test_options_that_are_none_are_refused() -> None:
    with pytest.raises(SystemExit) as e:
        main(["--sample", "many"])
    assert e.value.code == 2


def test_a_fault_whose_text_is_gone_is_stale_and_survives() -> None:
    t = named.target(Fault("gone", INLINE, "no such text", "", ()))
    assert t.stale == f"its text occurs 0 times in {INLINE}"
    state = State(None, {})
    Engine(HuntPlan()).hunt([t], [], state)
    assert state.results["gone"].outcome == "survived"
    assert state.results["gone"].reason == t.stale


def test_every_named_fault_can_be_planted() -> None:
    assert [(t.name, t.stale) for t in named.every() if t.stale] == []


def test_a_budget_that_cannot_finish_says_what_was_not_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    named_so = [t for t in named.every() if "barrier" in t.name]
    assert main(["--json", "--jobs", "1", "barrier", "--minutes", "0.0001"]) == 5
    said = capsys.readouterr()
    record = json.loads(said.out.splitlines()[-1])
    assert record["not_run"] == len(named_so)
    assert record["error"]["code"] == "unfinished"
    assert f"got:  0 of {len(named_so)} mutants hunted" in said.err
    assert "--resume FILE" in said.err


def test_too_small_a_budget_is_told_before_anything_is_judged(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(*_: object) -> None:
        pytest.fail("something was begun")

    for begun in ("texts", "measure", "hunt"):
        monkeypatch.setattr(Engine, begun, begin)
    assert main(["--sample", "400", "--jobs", "2", "--minutes", "0.1"]) == 5
    said = capsys.readouterr()
    assert "0 of 400 mutants hunted, which take 0.33 minutes at least" in said.err


PARENT = """
import time
from tests.mutants.forking import forked

def work(n, say):
    import os
    say(os.getpid())
    time.sleep(600)

def idle():
    print(*(c.ended.said[-1] for c in children if c.ended.said), flush=True)
    return True

children = []
import tests.mutants.forking as f
fork = f._fork
f._fork = lambda *words: children.append(fork(*words)) or children[-1]
list(forked(range(2), work, 2, idle=idle))
"""


def test_children_end_with_a_parent_that_is_killed() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout as out:
        pids = next(line.split() for line in out if len(line.split()) == 2)
        process.send_signal(signal.SIGKILL)
        process.wait()
    end = time.monotonic() + 30
    while any(map(alive, pids)):
        assert time.monotonic() < end
        time.sleep(0.05)


def alive(pid: str) -> bool:
    """Whether a process runs; one that has ended may still wait for its new parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
