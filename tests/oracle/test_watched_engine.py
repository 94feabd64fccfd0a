"""What a generated wrapper does wrong with memory and streams is found, and named by its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime.host import Host
from didyma.codegen.runtime.simt import Simt
from didyma.fuzz import levels
from didyma.oracle.watched_engine import EngineMemoryFault, WatchedEngine
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp.memory_use import MemoryUse
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array

# A branch, a loop whose value grows, a function that stays, a constant.
SOURCE = """module {
  dims r in [0, 64]
  func @side(%a: f32[8]) -> (%s) {
    %c = cumulative_sum(%a, axis=0, exclusive=false, reverse=false) : f32[8]
    %s = exp(%c) : f32[8]
  }
  func @other(%a: f32[8]) -> (%s) {
    %f = flip(%a, axes=(0,)) : f32[8]
    %c = cumulative_sum(%f, axis=0, exclusive=false, reverse=false) : f32[8]
    %s = negative(%c) : f32[8]
  }
  func @test(%i: i64[], %g: f32[r], %x: f32[8]) -> (%b) {
    %n = constant(value=i64[] 2) : i64[]
    %b = less(%i, %n) : bool[]
  }
  func @body(%i: i64[], %g: f32[r], %x: f32[8]) -> (%j, %h) {
    %one = constant(value=i64[] 1) : i64[]
    %j = add(%i, %one) : i64[]
    %h = concat(%g, %x, axis=0) : f32[r + 8]
  }
  func @kept(%a: f32[8]) -> (%k) attrs(NoInline=1) {
    %c = cumulative_sum(%a, axis=0, exclusive=false, reverse=false) : f32[8]
    %d = flip(%a, axes=(0,)) : f32[8]
    %e = cumulative_sum(%d, axis=0, exclusive=false, reverse=false) : f32[8]
    %k = add(%c, %e) : f32[8]
  }
  func @main(%x: f32[8], %p: bool[]) -> (%y, %z, %last) {
    %zero = constant(value=i64[] 0) : i64[]
    %w = constant(value=f32[8] [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]) : f32[8]
    %s = if(%p, %x, binds=(), otherwise="other", then="side") : f32[8]
    %y = call @kept(%s) : f32[8]
    %i, %g = while(%zero, %x, %y, binds=("r",), body="body", carried=2, cond="test") : i64[], f32[r]
    %t = cumulative_sum(%g, axis=0, exclusive=false, reverse=false) : f32[r]
    %z = sum(%t, axes=(0,), keepdims=false) : f32[]
    %v = flip(%y, axes=(0,)) : f32[8]
    %u = cumulative_sum(%v, axis=0, exclusive=false, reverse=false) : f32[8]
    %last = add(%u, %w) : f32[8]
  }
}
"""
INPUTS = [np.arange(8, dtype=np.float32), np.array(True)]


def made(planner: str = "", streams: int = 1) -> Compiled:
    changes: dict[str, Any] = {"kernels.streams": streams}
    if planner:
        changes["memory.planner"] = planner
    return compile(parse_module(SOURCE), Options().changed(changes))


def found(c: Compiled, x: list[Array] = INPUTS) -> list[str]:
    """Return what the judge has against a wrapper, on the engine alone."""
    report = levels.judged(c, x, [Host()], details=False)
    return [f"{f.kind}: {f.message}" for f in report.findings]


def without(c: Compiled, pattern: str) -> Iterator[tuple[str, Compiled]]:
    """Yield the wrapper without each line that matches a pattern, in turn."""
    lines = c.wrapper.splitlines()
    for k, line in enumerate(lines):
        if re.match(pattern, line):
            pad = line[: len(line) - len(line.lstrip())]
            yield (
                line.strip(),
                replace(c, wrapper="\n".join([*lines[:k], f"{pad}pass", *lines[k + 1 :]])),
            )


def edited(c: Compiled, old: str, new: str) -> Compiled:
    """Return a wrapper in which one text has taken the place of another."""
    assert old in c.wrapper
    return replace(c, wrapper=c.wrapper.replace(old, new))


WAYS = [[INPUTS[0], np.array(p)] for p in (True, False)]
CHANGES: list[dict[str, Any]] = [
    {"planner": "linear_scan"},
    {"planner": "didyma"},
    {"streams": 2, "planner": "none"},
]


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_a_right_wrapper_is_not_accused(changes: dict[str, Any]) -> None:
    c = made(**changes)
    assert [found(c, way) for way in WAYS] == [[], []]


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_bytes_that_are_never_freed_are_found(changes: dict[str, Any]) -> None:
    c = made(**changes)
    lines = dict(without(c, r"\s*engine\.(free|unstack)\("))
    assert len(lines) >= 4
    for line, broken in lines.items():
        (message,) = found(broken)
        assert "never freed" in message, line
    (message,) = found(lines["engine.free(t)"])
    assert message.endswith(
        "96 bytes are never freed; allocated at " + at(c, "t = engine.allocate")
    )


def at(c: Compiled, start: str) -> str:
    """Return how a message quotes the line of a wrapper that starts so."""
    (k, line) = next(
        (k, x) for k, x in enumerate(c.wrapper.splitlines()) if x.strip().startswith(start)
    )
    return f"line {k + 1}: {line.strip()}"


def test_own_constants_that_stay_are_found() -> None:
    c = made(planner="didyma")
    assert len(c.program.constants) == 2  # an even number: the wrapper loads them
    ((_, broken),) = without(c, r"\s*rt\.unload")
    (message,) = found(broken)
    assert "8 bytes are never freed, and 1 more, 40 bytes in all" in message


def test_bytes_freed_later_than_the_plan_says_are_found() -> None:
    c = made(planner="linear_scan")
    late = edited(c, "    engine.free(t)\n", "")
    late = edited(late, "    results = [\n", "    engine.free(t)\n    results = [\n")
    (message,) = found(late)
    assert message.startswith("memory: step ")
    got, want = map(int, re.findall(r"with (\d+) bytes allocated", message))
    assert got == want + 96


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("engine.free(t)", "engine.free(t); engine.free(t)", "freed bytes are freed"),
        ("engine.free(c)", "engine.free(c); engine.copy(k, c)", "freed bytes are copied"),
        ("engine.free(c)", "engine.free(c); engine.view(c, 0, 4)", "freed bytes are viewed"),
        ("engine.free(c)", "engine.unstack(c)", "bytes of allocate go back by unstack"),
        ("engine.free(c)", "engine.free(engine.view(c, 0, 4))", "a view is freed"),
        (
            "engine.free(c)",
            "engine.view(c, 8, 32); engine.free(c)",
            "bytes 8 to 40 of 32 are viewed",
        ),
    ],
)
def test_what_is_done_to_freed_bytes_is_found(old: str, new: str, reason: str) -> None:
    (message,) = found(edited(made(planner="linear_scan"), old, new))
    assert message.startswith(f"fault: EngineMemoryFault: {reason} (at line ")


def test_work_that_does_not_wait_is_found() -> None:
    c = made(streams=2, planner="none")
    wrong = [
        edited(c, "engine.wait(0, 1)", "engine.wait(1, 0)"),
        edited(c, "engine.join()", "pass"),
    ]
    wrong += [edited(c, "engine.wait(0, 1)", "pass")]
    for broken in wrong:
        assert all("does not wait" in "".join(found(broken, way)) for way in WAYS)


@pytest.mark.parametrize("on", [Host(), Simt()], ids=lambda e: e.name)
def test_bytes_that_somebody_holds_after_an_error_are_found(on: Host | Simt) -> None:
    watched = WatchedEngine(on)
    watched.allocate(16)
    watched.demand_let_go()
    held = watched.view(watched.allocate(16), 4, 4)
    with pytest.raises(EngineMemoryFault, match="16 bytes are never freed"):
        watched.demand_let_go()
    assert held.nbytes == 4


def test_a_call_that_is_refused_lets_everything_go() -> None:
    c = parse_module(SOURCE.replace("r in [0, 64]", "r in [0, 20]"))
    backend = levels.EngineBackend(Simt(), compile(c))
    with pytest.raises(DidymaError, match="r = 24"):
        backend.run_program(INPUTS)


def test_an_input_that_is_written_is_found() -> None:
    (message,) = found(edited(made(), "    s = ", "    engine.copy(x, loaded[1])\n    s = "))
    assert "an input or a constant was written" in message


def test_what_a_run_takes_is_counted() -> None:
    use = MemoryUse()
    levels.EngineBackend(Host(), made(planner="linear_scan")).run_program(INPUTS, use)
    steps = [(re.sub(r"_\d+$", "", name), allocated) for name, allocated in use.steps[:3]]
    assert steps == [
        ("fused_cumulative_sum_exp", 32),
        ("fused_cumulative_sum", 96),
        ("fused_flip_cumulative_sum_add", 96),
    ]
    assert (use.allocated, use.most) == (0, 256)


@pytest.mark.parametrize("on", [Host(), Simt()], ids=lambda e: e.name)
def test_a_size_that_kernels_do_not_get_is_no_matter_of_memory(on: Host | Simt) -> None:
    backend = levels.EngineBackend(on, edited(made(), 'sizes["r"] = r', "pass"))
    with pytest.raises(DidymaError, match="unbound-dim"):
        backend.run_program(INPUTS)
