"""Library routines as candidates beside kernels: judged, timed, picked, and obeyed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.candidates import Bars
from didyma.codegen import plugins
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.routines import Routine
from didyma.codegen.runtime.registry import engine
from didyma.codegen.select import worker
from didyma.codegen.select.cache import Cache
from didyma.codegen.select.choice import Candidate, Choice, build, ranked
from didyma.codegen.select.choosers import Request, Tuned
from didyma.codegen.select.race import Clock
from didyma.codegen.select.runs import Bench
from didyma.codegen.select.selector import Limits, Lost
from didyma.codegen.select.worker import Task, examine
from didyma.refimpl.ir.graph import Function
from didyma.tuning import Tuner, isolated, target
from tests.codegen.select.make import impatient, inline
from tests.errors.test_codes import says

LIMITS = Limits(seconds=8.0, timeout=60.0, candidates=8)
SECONDS = 2.0**-8  # of a kernel, by a clock that is a fake


@dd.trace(dd.f32[48, 64], dd.f32[64, 40])
def product(a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return a @ b


def multiplies(f: Function) -> bool:
    return [n.op for n in f.nodes] == ["matmul"]


def blas(a: Any, b: Any) -> Any:
    return np.matmul(a, b)


def doubled(a: Any, b: Any) -> Any:
    return np.matmul(a, b) * np.float32(2)


def turned(a: Any, b: Any) -> Any:
    return np.matmul(a, b).T


def sleeps(a: Any, b: Any) -> Any:
    time.sleep(600)
    return np.matmul(a, b)


HANGS = Routine("hangs", multiplies, sleeps)
BLAS, WRONG, OTHER = (
    Routine("blas", multiplies, blas),
    Routine("wrong", multiplies, doubled),
    Routine("other", multiplies, turned),
)


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_CALLED", {})


def request() -> tuple[Any, Request]:
    made = compile(product.module, until="lower")
    ((name, loop),) = made.loops.items()
    source = made.fused.function(name)
    r = Request(name, loop, Options(), "host", target(engine("host")), {}, source)
    return made.fused, r


def given() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((48, 64)), rng.standard_normal((64, 40))
    return a.astype(np.float32), b.astype(np.float32)


@pytest.fixture
def quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a clock that only runs advance say that routines take half the time of kernels."""
    usual, now = Bench.runner, [0.0]

    def runner(bench: Bench, c: Candidate) -> Callable[[], None]:
        run = usual(bench, c)

        def timed() -> None:
            run()
            now[0] += SECONDS if c.routine is None else SECONDS / 2

        return timed

    monkeypatch.setattr(Bench, "runner", runner)

    def clock_of(engine: str) -> Clock:
        del engine
        return lambda: now[0]

    monkeypatch.setattr(worker, "clock_of", clock_of)


@pytest.mark.usefixtures("quicker")
def test_a_routine_wins_and_a_later_compile_obeys(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c.sqlite")
    with dd.register("routines", "blas", BLAS):
        fused, r = request()
        pick = Tuner(fused, cache, replace(LIMITS, seconds=600.0), isolate=inline).measure(r)
        assert (pick.choice, pick.seconds, pick.usual) == ("blas()", SECONDS / 2, SECONDS)
        exe = dd.compile(product, choose=Tuned(cache))
        assert not exe.compiled.loops
        record = exe.choices
        assert record["choices"][r.name]["choice"] == "blas()"
        a, b = given()
        assert np.array_equal(exe(a, b), np.matmul(a, b))
        assert dd.interpret(product, a, b).contains(exe(a, b))
        again = dd.compile(product, choose=record)
        assert np.array_equal(again(a, b), np.matmul(a, b))
        usual = dd.compile(product)
        assert usual.compiled.loops, "a compile that was not asked for it makes a kernel"
    assert Tuned(cache).choose(r) == r.usual, "the routine is gone"
    with says("bad-choice", "blas", "one of"):
        dd.compile(product, choose=record)


def test_a_child_gets_the_routines_that_a_call_registered() -> None:
    fused, r = request()
    judge = Bars(fused, r.name, r.loop, {}, seed=5)
    task = Task(r.loop, r.options, "host", {}, 5, r.source, (("didyma.routines", "blas", BLAS),))
    said: list[str] = []
    got = isolated(examine, (task, judge, [Choice.parse("blas()")], 60.0), 200.0, said.append)
    assert not isinstance(got, Lost)
    assert json.loads(said[-1]) == {"choice": "blas()", "reason": ""}


def test_wrong_routines_are_judged_out() -> None:
    with dd.register("routines", "wrong", WRONG), dd.register("routines", "other", OTHER):
        fused, r = request()
        judge, host = Bars(fused, r.name, r.loop, {}, seed=5), engine("host")
        wrong, other = (
            build(r.loop, r.options, Choice.parse(f"{name}()"), r.source)
            for name in ("wrong", "other")
        )
        assert "elements are wrong" in judge(wrong, host)
        assert wrong.digest != other.digest
        with says("extern-result", "other", "[48, 40]", "[40, 48]"):
            judge(other, host)


def test_a_choice_keeps_a_function_from_the_routines_of_the_options() -> None:
    with dd.register("routines", "blas", BLAS):
        _, r = request()
        plain = Options().changed({"graph.routines": ("blas",)})
        assert not compile(product.module, plain).loops
        pinned = plain.changed({"kernels.choices": f"{r.name}: {r.usual}"})
        assert [*compile(product.module, pinned).loops] == [r.name]
        named = plain.changed({"kernels.choices": f"{r.name}: blas()"})
        assert not compile(product.module, named).loops
        assert "blas()" in [str(c) for c in ranked(r.loop, r.options, r.source)]


def test_a_routine_that_hangs_costs_its_timeout_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits(seconds=600.0, timeout=200.0, candidates=2)
    isolate = impatient(monkeypatch, "hangs()")
    with dd.register("routines", "hangs", HANGS):
        fused, r = request()
        usual, hangs = r.usual, Choice.parse("hangs()")

        def two(*given: object) -> Iterator[Choice]:
            yield from (usual, hangs)

        monkeypatch.setattr("didyma.codegen.select.selector.ranked", two)
        _, found = Tuner(fused, Cache(tmp_path / "c.sqlite"), limits, isolate=isolate).tune(r)
    assert {t.choice: t.reason for t in found.trials} == {
        str(usual): "", "hangs()": "hang: no answer within 200 s"
    }  # fmt: skip
    assert found.picked.choice == str(usual)
    assert found.picked.seconds is not None


def test_tuning_leaves_the_random_state_alone(tmp_path: Path) -> None:
    def state() -> tuple[object, str]:
        return random.getstate(), repr(np.random.get_state())  # what others draw from

    fused, r = request()
    before = state()
    few = Limits(seconds=1.0, candidates=2)
    Tuner(fused, Cache(tmp_path / "c.sqlite"), few, isolate=inline).measure(r)
    assert state() == before
