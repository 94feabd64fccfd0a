"""Launches spread over streams: what may run at the same time, and the waits that are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from didyma.codegen.memory import planner
from didyma.codegen.memory.plan import plan
from didyma.codegen.options import GraphOptions, KernelOptions, Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import engine
from didyma.fuzz.graphs import BYTES, decode
from didyma.fuzz.levels import check
from didyma.oracle import plan_check
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.lines import rewrite, walk
from didyma.refimpl.ir.program import Launch, Line, Program, Wait
from didyma.refimpl.ir.text import parse_module

TWO_CHAINS = """module {
  func @main(%x: f32[64], %y: f32[64]) -> (%d) {
    %a = sum(%x, axes=(0,), keepdims=true) : f32[1]
    %b = sum(%y, axes=(0,), keepdims=true) : f32[1]
    %d = cumulative_sum(%s, axis=0, exclusive=false, reverse=false) : f32[1]
  }
}""".replace("    %d =", "    %s = add(%a, %b) : f32[1]\n    %d =")


def bare(text: str, streams: int) -> Program:
    return compile(
        parse_module(text),
        Options(kernels=KernelOptions(streams=streams), graph=GraphOptions(fuse=False)),
        until="order",
    ).bare


def shape(p: Program) -> list[str]:
    """Streams of launches, and waits, in order."""
    found: list[str] = []
    for line in walk(p.lines):
        if isinstance(line, Launch):
            found.append(str(line.stream))
        if isinstance(line, Wait):
            found.append(f"{line.stream}<{line.on}")
    return found


def test_independent_chains_run_on_streams_of_their_own_and_meet_behind_a_wait() -> None:
    assert shape(bare(TWO_CHAINS, 1)) == ["0"] * 4
    assert shape(bare(TWO_CHAINS, 2)) == ["0", "1", "1<0", "1", "1"]


def test_no_more_streams_than_asked_for() -> None:
    assert {int(x) for x in shape(bare(TWO_CHAINS, 8)) if "<" not in x} <= {0, 1, 2}


@pytest.mark.parametrize("streams", [0, 9, -1])
def test_streams_out_of_range(streams: int) -> None:
    with pytest.raises(DidymaError, match="bad-option"):
        Options(kernels=KernelOptions(streams=streams))


def test_a_missing_wait_is_seen() -> None:
    """Of each wait that is left out of a program, the judge tells."""
    p = bare(TWO_CHAINS, 2)
    waits = [x for x in walk(p.lines) if isinstance(x, Wait)]
    assert waits
    for left_out in waits:

        def without(x: Line, *place: int, wait: Wait = left_out) -> Sequence[Line]:
            del place
            return () if x is wait else (x,)

        lines = rewrite(p.lines, without)
        errors = plan_check.check(plan(replace(p, lines=lines), planner("none")), {})
        assert "race" in {e.kind for e in errors}


@pytest.mark.parametrize("seed", range(24))
def test_plans_of_graphs_with_streams_are_sound(seed: int) -> None:
    case = decode(Random(seed).randbytes(BYTES), controlled=2)
    options = case.options(Options()).changed({"kernels.streams": 2 + seed % 2})
    report = check(case.module, case.inputs(), [engine("host")], options)
    assert [str(f) for f in report.findings] == []


def test_the_bytes_of_a_size_are_read_before_another_stream_writes_them() -> None:
    """A plan once gave the bytes of a bound size to a kernel of another stream."""
    case = decode(Random(40).randbytes(BYTES), controlled=2)
    compile(case.module, case.options(Options()).changed({"kernels.streams": 2}))
