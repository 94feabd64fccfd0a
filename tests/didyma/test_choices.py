"""Engines, planners and options are given by name or as objects, wherever a caller chooses."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.memory.arena import ArenaPlanner
from didyma.codegen.memory.arena.registry import arena_planner
from didyma.codegen.memory.planners import LiveBuffer, Planner, ReusePlan, planner
from didyma.codegen.memory.sizes import FitProver
from didyma.codegen.runtime.host import Host
from didyma.codegen.runtime.registry import engine
from didyma.fuzz import replay
from didyma.fuzz.peers.registry import peer
from didyma.tracer.tracing import Program
from tests.errors.test_codes import says


class Counting(Host):
    """An engine of a caller's own."""

    name = "counting"

    def __init__(self) -> None:
        super().__init__()
        self.launched = 0

    def load(self, text: Any) -> Any:
        self.launched += 1
        return super().load(text)


def nothing_twice(buffers: Sequence[LiveBuffer], sizes: FitProver) -> ReusePlan:
    del buffers, sizes
    return ReusePlan({})


MINE = Planner("mine", whole=nothing_twice)


@pytest.fixture(scope="module")
def program() -> Program:
    @dd.trace(dd.f32[8, 8])
    def chain(x: dd.Tensor) -> dd.Tensor:
        return dd.softmax(x @ x, axis=0) @ x

    return chain


def test_a_compile_takes_objects(program: Program) -> None:
    x = np.eye(8, dtype=np.float32)
    mine = Counting()
    run = dd.compile(program, engine=mine, planner=MINE)
    assert run.engine is mine
    assert mine.launched == 1
    assert np.asarray(run(x)).tobytes() == np.asarray(dd.compile(program)(x)).tobytes()


def test_a_compile_follows_its_options() -> None:
    @dd.trace(dd.f32[4096])
    def wide(x: dd.Tensor) -> dd.Tensor:
        return dd.exp(x)

    blocks = [
        dd.compile(wide, options=dd.Options(kernels=dd.KernelOptions(block=n))).compiled.text
        for n in (64, 128)
    ]
    assert [text.kernels[0].block[0] for text in blocks] == [64, 128]


def test_a_check_takes_objects_and_names_the_engine(program: Program) -> None:
    mine = Counting()
    options = dd.Options(memory=dd.MemoryOptions(planner=arena_planner("greedy_by_size")))
    report = dd.check(program, engines=[mine, "simt"], options=options)
    assert report.agree
    assert [level.name for level in report.levels][-2:] == ["counting", "simt"]
    assert mine.launched


def test_a_planner_takes_the_place_of_that_of_the_options(program: Program) -> None:
    options = dd.Options(memory=dd.MemoryOptions(planner="didyma"))
    separate = dd.compile(program, options=options, planner="none").compiled.program
    assert separate == dd.compile(program, planner="none").compiled.program
    assert separate != dd.compile(program, options=options).compiled.program


def test_an_arena_planner_is_a_planner_of_programs(program: Program) -> None:
    other = ArenaPlanner("other", arena_planner("greedy_by_size").run)
    assert planner(other) == Planner("other", arena=other)
    here = dd.compile(program, planner=other).compiled.program
    assert here == dd.compile(program, planner="greedy_by_size").compiled.program


def test_options_with_an_object_are_recorded_by_name_and_go_to_other_processes(
    program: Program, tmp_path: Path
) -> None:
    options = dd.Options(memory=dd.MemoryOptions(planner=MINE), kernels=dd.KernelOptions(block=64))
    assert pickle.loads(pickle.dumps(options)) == options
    assert dd.Options.recorded(options.record()) == dd.Options(
        memory=dd.MemoryOptions(planner="mine"), kernels=dd.KernelOptions(block=64)
    )
    seeds = (1,)
    r = replay.Recorded(program.module, seeds, {}, ("host",), options)
    read = replay.load(replay.save(tmp_path / "x.dym", r, "said"))
    assert read.options == dd.Options(
        memory=dd.MemoryOptions(planner="mine"), kernels=dd.KernelOptions(block=64)
    )


class Half:
    """An engine that cannot give memory back."""

    name = "half"

    def load(self, text: object) -> object:
        return text

    allocate = view = upload = download = copy = stack = unstack = wait = load


def test_what_is_no_engine_is_refused(program: Program) -> None:
    wrong: Any = Half()
    with says("bad-engine", "Half without free, join"):
        dd.compile(program, engine=wrong)
    with says("bad-engine", "Half without free, join"):
        dd.check(program, engines=[wrong])
    wrong = Host
    with says("bad-engine", "the class Host", "pass Host()"):
        dd.compile(program, engine=wrong)
    wrong = None
    with says("bad-engine", "NoneType without name (a str), load"):
        engine(wrong)


def test_what_is_no_planner_is_refused(program: Program) -> None:
    wrong: Any = nothing_twice
    with says("bad-planner", "a function", 'Planner("mine", whole=function)'):
        dd.compile(program, planner=wrong)
    with says("bad-planner", "without whole and arena"):
        dd.compile(program, planner=Planner("idle"))
    with says("unknown-planner", "guess", "linear_scan"):
        dd.check(program, options=dd.Options(memory=dd.MemoryOptions(planner="guess")))


class Mute:
    """A peer that runs nothing."""

    name = "mute"


def test_what_is_no_peer_is_refused(program: Program) -> None:
    wrong: Any = Mute()
    three: Any = 3
    with says("bad-peer", "Mute without contract, run"):
        dd.check(program, engines="simt", peers=[wrong])
    with says("bad-peer", "int without name (a str), contract, run"):
        peer(three)
    with says("unknown-peer", "nobody", "onnxruntime"):
        dd.check(program, engines="simt", peers="nobody")


def negative(x: dd.Tensor) -> dd.Tensor:
    return -x


SPLIT = "schedule @fused_negative_0 {\n  split i0 by 4\n}\n"
WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "options": ({"options": {"kernels.block": 64}}, "bad-option", "Options().changed"),
    "kernels": ({"kernels": 3}, "bad-call", "a dict of names to TextKernels"),
    "externs": ({"externs": [abs]}, "bad-call", "a dict of names to functions of arrays"),
    "schedules": ({"schedules": SPLIT}, "bad-call", "a dict of names to schedules"),
    "a name": ({"schedules": {3: SPLIT}}, "bad-call", "a dict of names to schedules"),
    "a schedule": ({"schedules": {"fused_negative_0": 3}}, "bad-call", "a list of steps"),
    "a step": ({"schedules": {"fused_negative_0": ["split i0 by 4"]}}, "bad-call", "Split("),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("call", [dd.compile, dd.check])
def test_arguments_of_another_type_are_refused(name: str, call: Any) -> None:
    given, code, said = WRONG[name]
    with says(code, said):
        call(dd.trace(dd.f32[8])(negative), **given)


@pytest.mark.parametrize(
    "given", [None, 3, [("fused_negative_0", "pointwise(block=64, each=1, wide=1)")]]
)
def test_what_chooses_nothing_is_refused(given: Any) -> None:
    with says("bad-choice", '"at-run"'):
        dd.compile(dd.trace(dd.f32[8])(negative), choose=given)


def test_a_choice_for_a_function_that_a_program_has_not_is_refused() -> None:
    traced = dd.trace(dd.f32[8])(negative)
    (name,) = dd.compile(traced).choices["choices"]
    for given, there in ((name, True), ("fused_negative", False)):
        kernels = dd.KernelOptions(choices=f"{given}: pointwise(block=64, each=1, wide=1)")
        if there:
            dd.compile(traced, options=dd.Options(kernels=kernels))
        else:
            with says("bad-choice", "kernels.choices: fused_negative", f"one of {name}"):
                dd.compile(traced, options=dd.Options(kernels=kernels))
