"""Tuning end to end: the judge, the command, and compiles that take what was measured."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any, TypeAlias

import numpy as np
import pytest

import didyma as dd
from didyma.candidates import Bars
from didyma.codegen.emit import cuda
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Lowered
from didyma.codegen.pipeline import compile as compile_module
from didyma.codegen.runtime.engine import KernelFault
from didyma.codegen.runtime.registry import engine
from didyma.codegen.select import worker
from didyma.codegen.select.cache import Cache, Pick
from didyma.codegen.select.choice import Candidate, Choice, build
from didyma.codegen.select.choosers import Request
from didyma.codegen.select.selector import Limits, Lost
from didyma.codegen.select.worker import Say
from didyma.commands import tune as command
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.kernel import loops
from didyma.refimpl.ir.loop import Barrier, Binary, Block, Const, Expr, PrimFunc, Stmt
from didyma.refimpl.ir.walk import map_expr, map_stmt
from didyma.show import tune as show
from didyma.tuning import Tuner, target
from tests.codegen.select.make import inline
from tests.warm import python


@dd.trace(dd.f32[40, 300])
def rows(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(x * 2.0, axis=1)


@dd.trace(dd.f32[8, 8], dd.f32[8, 8])
def pair(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
    return x - y


FAST = Limits(seconds=0.5, candidates=3)


def lowered(program: dd.Program) -> tuple[Lowered, str, PrimFunc]:
    made = compile_module(program.module, Options(), until="lower")
    ((name, loop),) = made.loops.items()
    return made, name, loop


Change: TypeAlias = Callable[[Expr], Expr] | Stmt | None


def judge(program: dd.Program, text: str, change: Change = None) -> str:
    """Judge a choice, or what a change makes of its kernels, on host."""
    made, name, loop = lowered(program)
    choice = Choice.parse(text)
    good = build(loop, Options(), choice)
    bars = Bars(made.fused, name, loop, {}, seed=5)
    if change is None:
        return bars(good, engine("host"))
    kernels = tuple(changed(loops(k), change) for k in good.kernels)
    return bars(Candidate(choice, kernels, cuda.emit(kernels)), engine("host"))


def changed(k: PrimFunc, change: Change) -> PrimFunc:
    def on_expr(e: Expr) -> Expr:
        e = map_expr(on_expr, e)
        return change(e) if isinstance(change, FunctionType) else e

    def on_stmt(s: Stmt) -> Stmt:
        s = map_stmt(s, on_expr, on_stmt)
        return Block(()) if s == change else s

    return replace(k, body=on_stmt(k.body))


def longer(e: Expr) -> Expr:
    """Guard a row of 300 terms as one of 301."""
    return replace(e, value=301) if isinstance(e, Const) and e.value == 300 else e


def maximum(e: Expr) -> Expr:
    return (
        replace(e, op="max") if isinstance(e, Binary) and e.op == "add" and e.dtype.is_float else e
    )


def test_the_judge_lets_right_candidates_pass() -> None:
    for text in (
        "row(groups=8, lanes=32, wide=1)",
        "row(groups=64, lanes=4, wide=1)",
        "column(layers=8, side=32)",
    ):
        assert judge(rows, text) == ""


def test_the_judge_sees_wrong_values() -> None:
    assert "elements are wrong" in judge(rows, "row(groups=8, lanes=32, wide=1)", maximum)


def test_the_judge_sees_a_missing_barrier() -> None:
    assert "race" in judge(rows, "row(groups=4, lanes=64, wide=1)", Barrier())


def test_the_judge_sees_a_missing_guard() -> None:
    try:
        found = judge(rows, "row(groups=8, lanes=32, wide=1)", longer)
    except KernelFault as e:
        found = str(e)
    assert "out-of-bounds" in found


def test_the_judge_sees_another_order_of_arguments() -> None:
    made, name, loop = lowered(pair)
    good = build(loop, Options(), Choice.parse("pointwise(block=256, each=1, wide=1)"))
    (kernel,) = map(loops, good.kernels)
    x, y, out = kernel.params
    swapped = replace(good, kernels=(replace(kernel, params=(y, x, out)),))
    bars = Bars(made.fused, name, loop, {}, seed=5)
    assert bars(good, engine("host")) == ""
    assert "elements are wrong" in bars(swapped, engine("host"))


def test_the_judge_checks_both_ends_of_a_large_grid() -> None:
    """Threads beyond the last element are in the last block alone."""

    @dd.trace(dd.f32[(1 << 18) + 3])
    def program(x: dd.Tensor) -> dd.Tensor:
        return dd.exp(x)

    def unguarded(e: Expr) -> Expr:
        return replace(e, value=1 << 20) if isinstance(e, Const) and e.value == (1 << 18) + 3 else e

    found = judge(program, "pointwise(block=256, each=1, wide=0)", unguarded)
    assert "out-of-bounds" in found


def request(program: dd.Program) -> tuple[Lowered, Request]:
    made, name, loop = lowered(program)
    return made, Request(name, loop, Options(), "host", target(engine("host")), {})


def test_two_tuners_at_once_agree(tmp_path: Path) -> None:
    made, r = request(rows)
    tuner = Tuner(made.fused, Cache(tmp_path / "c.sqlite"), FAST, isolate=inline)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(tuner.measure, (r, r))
    assert first == second == tuner.cache.get(r.key.digest)


def test_tuning_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    """What was judged before the kill is not judged again."""
    made, r = request(rows)
    heard: list[str] = []

    def until_two(name: str, count: int, trial: object) -> None:
        heard.append(name)
        if count == 2:
            raise KeyboardInterrupt

    cache = Cache(tmp_path / "c.sqlite")
    limits = Limits(seconds=60, candidates=3)
    with pytest.raises(KeyboardInterrupt):
        Tuner(made.fused, cache, limits, until_two, inline).measure(r)
    assert cache.get(r.key.digest) is None
    assert len(cache.verdicts(r.key.digest)) == 2
    heard.clear()
    with contextlib.suppress(KeyboardInterrupt):
        Tuner(made.fused, cache, limits, until_two, inline).measure(r)
    assert len(heard) == 1
    assert cache.get(r.key.digest) is not None


def test_a_lost_child_is_no_verdict(tmp_path: Path) -> None:
    """It may be the machine's fault, so the next tuning tries the candidate again."""
    made, r = request(rows)
    lost: list[str] = []

    def losing(f: Callable[..., Any], args: tuple[Any, ...], seconds: float, say: Say) -> Any:
        if f is worker.examine and not lost:
            lost.append(str(args[2][0]))
            say(json.dumps({"begin": lost[0]}))
            return Lost("hang: planted")
        return inline(f, args, seconds, say)

    cache = Cache(tmp_path / "c.sqlite")
    _, found = Tuner(made.fused, cache, Limits(seconds=60, candidates=3), isolate=losing).tune(r)
    assert [t.choice for t in found.trials if t.reason] == lost
    known = {v.choice for v in cache.verdicts(r.key.digest).values()}
    assert known == {t.choice for t in found.trials} - set(lost)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the rows were tuned by the command, for a moment."""
    folder = tmp_path_factory.mktemp("tuned")
    (folder / "rows.dym").write_text(str(rows), encoding="utf-8")
    arguments = ("tune", "rows.dym", "--seconds", "1", "--jobs", "1", "--export", "picks.json")
    done = run(folder, *arguments)
    (folder / "out.txt").write_text(done.stdout, encoding="utf-8")
    (folder / "err.txt").write_text(done.stderr, encoding="utf-8")
    return folder


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    done = python("-m", "didyma", *words, "--cache", "c.sqlite", cwd=folder, env=os.environ)
    done.check_returncode()
    return done


def test_a_killed_command_loses_nothing(tmp_path: Path) -> None:
    """What was judged before the kill stands in the file, and the next run ends what is left."""
    (tmp_path / "pair.dym").write_text(str(pair), encoding="utf-8")
    _, r = request(pair)
    cache = Cache(tmp_path / "c.sqlite")
    words = ("tune", "pair.dym", "--seconds", "600", "--jobs", "1", "--cache", "c.sqlite")
    with subprocess.Popen([sys.executable, "-m", "didyma", *words], cwd=tmp_path) as killed:
        while not (before := cache.verdicts(r.key.digest)):
            assert killed.poll() is None
            time.sleep(0.01)
        killed.kill()
    assert before.items() <= cache.verdicts(r.key.digest).items()
    assert cache.picks() == []
    run(tmp_path, "tune", "pair.dym", "--seconds", "1", "--jobs", "1")
    assert [p.key for p in cache.picks()] == [r.key.digest]
    assert before.items() <= cache.verdicts(r.key.digest).items()


def test_the_command_prints_a_table_and_progress(tuned: Path) -> None:
    out = (tuned / "out.txt").read_text(encoding="utf-8")
    assert "AUTOTUNE fused_multiply_sum_0(40×300, 40)" in out
    assert "100.0%" in out
    assert "picked " in out
    assert "exported 1 pick" in out
    assert ": judged 1: serial(" in (tuned / "err.txt").read_text(encoding="utf-8")


def test_the_command_writes_a_log(tuned: Path) -> None:
    (line,) = (tuned / "c.jsonl").read_text(encoding="utf-8").splitlines()
    row = json.loads(line)
    assert row["engine"] == "host"
    assert row["trials"]
    assert row["choice"] in {t["choice"] for t in row["trials"]}


def wanted(folder: Path, **fields: Any) -> command.Wanted:
    file, cache = folder / "rows.dym", folder / "c.sqlite"
    usual = command.Wanted(file, "host", (), (), 1.0, 20.0, 0.0, 1, cache, None, None, False, True)
    return replace(usual, **fields)


def document(folder: Path, capsys: pytest.CaptureFixture[str], **fields: Any) -> dict[str, Any]:
    assert command.tune(wanted(folder, **fields)) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_second_run_answers_from_the_cache(
    tuned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(tuned, capsys)
    (row,) = found["functions"]
    assert row["from_cache"]


ANSWER = """
import json, sys
from collections import Counter
from pathlib import Path
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.host import Host
from didyma.codegen.schedule import dispatch
from didyma.codegen.select import Cache, Tuned
from didyma.codegen.select.choosers import choose_all
from didyma.files import read_module
from didyma.tuning import target

lowered = compile(read_module(Path("rows.dym")), Options(), until="lower")
host = target(Host())
done, modules = Counter(), {*sys.modules}
places = {f.__code__: f.__name__ for f in (dispatch.schedule, dispatch.points, Host.load)}
sys.setprofile(lambda frame, event, _: done.update(
    [places[frame.f_code]] if event == "call" and frame.f_code in places else []
))
found = choose_all(lowered.loops, Options(), Tuned(Cache(Path("c.sqlite"))), "host", host)
sys.setprofile(None)
choices = [str(c) for c in found.values()]
print(json.dumps({"choices": choices, "done": done, "imported": [*{*sys.modules} - modules]}))
"""


def test_another_process_answers_from_the_cache_without_work(tuned: Path) -> None:
    """It makes the picked kernel's text, to compare its hash, and ranks and compiles nothing."""
    words = [sys.executable, "-c", ANSWER]
    done = subprocess.run(words, cwd=tuned, capture_output=True, text=True, check=True)
    (pick,) = Cache(tuned / "c.sqlite").picks()
    assert json.loads(done.stdout) == {
        "choices": [pick.choice], "done": {"schedule": 1}, "imported": []
    }  # fmt: skip


def test_picks_go_from_cache_to_cache(
    tuned: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = tmp_path / "other.sqlite"
    found = document(tuned, capsys, file=None, imports=tuned / "picks.json", cache=other)
    assert found["imported"] == 1
    assert Cache(other).picks() == Cache(tuned / "c.sqlite").picks()
    again = tmp_path / "again.json"
    assert document(tuned, capsys, file=None, export=again, cache=other)["exported"] == 1
    assert again.read_bytes() == (tuned / "picks.json").read_bytes()
    assert document(tuned, capsys, file=None, clear=True, cache=other)["cleared"] == 1


def test_nothing_to_do_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DidymaError, match="nothing to do"):
        command.tune(wanted(tmp_path, file=None))


def test_a_compile_takes_the_choices_of_a_record(tmp_path: Path) -> None:
    _, name, _ = lowered(rows)
    usual = dd.compile(rows)
    pinned = dd.compile(rows, choose={name: "column(layers=8, side=32)"})
    assert "schedule='fold'" in usual.text, "one thread a row, for a core"
    assert pinned.choices["choices"][name]["choice"] == "column(layers=8, side=32)"
    assert pinned.text != usual.text
    x = np.ones((40, 300), np.float32)
    assert np.array_equal(pinned(x), usual(x))
    file = tmp_path / "choices.json"
    file.write_text(json.dumps(pinned.choices), encoding="utf-8")
    assert dd.compile(rows, choose=file).text == pinned.text
    assert dd.compile(rows, choose=usual.choices).text == usual.text


def test_a_compile_takes_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    _, r = request(rows)
    choice = "serial(block=64, parts=1, unroll=16, wide=1)"
    text = build(r.loop, r.options, Choice.parse(choice)).digest
    row = Pick(r.key.digest, choice, text, r.key.function, r.target, r.key.text, 1.0, 2.0)
    Cache(tmp_path / "didyma" / "choices.sqlite").add(row)
    assert dd.compile(rows, choose="cached").choices["choices"][r.name]["choice"] == choice
    assert dd.compile(rows, choose="tuned").choices["choices"][r.name]["choice"] == choice


def test_a_file_that_is_no_record_is_refused() -> None:
    with pytest.raises(DidymaError, match="heuristic") as caught:
        dd.compile(rows, choose="fastest")
    assert caught.value.code == "unreadable-file"


@pytest.mark.parametrize(
    ("picked", "says"),
    [("slow", "since no other is faster beyond noise"), ("fast", "first choice takes 2 ms")],
)
def test_the_table_says_why_the_first_row_is_not_picked(
    picked: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = {"fast": 1.99e-3, "slow": 2e-3}
    trials = [{"choice": c, "seconds": s, "reason": ""} for c, s in seconds.items()]
    show.table(
        {
            "function": "f", "sizes": [[4]], "choice": picked, "seconds": seconds[picked],
            "usual": seconds["slow"], "from_cache": False, "trials": trials,
        }
    )  # fmt: skip
    out = capsys.readouterr().out
    assert f"{picked} *" in out
    assert says in out
