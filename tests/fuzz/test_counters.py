"""Counters of cases: each by hand, and that a kept program whose counters change is a finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

from didyma.codegen.options import Options
from didyma.codegen.pipeline import Fused, compile
from didyma.fuzz import census, counters, distilled, worker
from didyma.fuzz.counters import Sizes
from didyma.fuzz.distilled import KEPT, Member
from didyma.fuzz.domains import registry
from didyma.fuzz.graphs import Case
from didyma.refimpl.interp.memory_use import MemoryUse
from didyma.refimpl.ir.program import Program, Repeat, Return, Wait
from didyma.refimpl.ir.text import parse_loop, parse_module, show

KERNEL = """
kernel @k(x: f32[n, 8], y: f32[n, 8]) writes (y) dims n in [0, 9] {
  for i in n bound blockIdx.x {
    barrier
    for j in 2 {
      for k in 4 vectorized {
        y[i, j * 4 + k] = x[i, j * 4 + k] + x[i, 0]
      }
    }
  }
}
"""
GRAPH = """
module {
  func @main(%x: f32[4, 6]) -> (%s) {
    %e = exp(%x) : f32[4, 6]
    %s = sum(%e, axes=(1,), keepdims=false) : f32[4]
  }
}
"""


def test_accesses_of_a_kernel_are_counted_by_its_loops() -> None:
    (k,) = parse_loop(KERNEL)
    assert counters.of_kernels([k], {"n": 3}) == {
        "launches": 1, "steps": 1 + 2, "slots": 3 * 3, "barriers": 3, "accesses": 3 * 2 * 3,
        "moved": 3 * 2 * 3 * 4 * 4, "operations": 3 * 2 * 5, "sectors": 3 * 2 * 3,
    }  # fmt: skip
    assert counters.of_kernels([k], {"n": 0})["moved"] == 0


CHOICE = """
kernel @k(x: f32[8], y: f32[8]) writes (y) {
  alloc a: f32[4] local
  for i in 2 parallel {
    for j in 3 {
      if x[j] > 0.0:f32 {
        a[i] = x[j]
        y[j] = 1.0:f32
      } else {
        y[j] = 2.0:f32
      }
    }
  }
}
"""


def test_a_thread_runs_the_longer_side_of_each_condition_and_parallel_loops_once() -> None:
    (k,) = parse_loop(CHOICE)
    got = counters.of_kernels([k], {})
    assert got["steps"] == 3 * 2
    assert got["tests"] == 2 * 3
    assert got["scratch"] == 4 * 4
    assert got["own"] == 2 * 3


IDLE = """
kernel @k(x: f32[n], y: f32[n]) writes (y) dims n in [0, 99] {
  for b in (n + 31) // 32 bound blockIdx.x {
    for t in 32 bound threadIdx.x {
      if b * 32 + t < n {
        y[b * 32 + t] = x[b * 32 + t]
      }
    }
  }
}
"""


@pytest.mark.parametrize(("n", "slots"), [(0, 0), (1, 32), (32, 32), (33, 64)])
def test_lanes_that_idle_take_slots(n: int, slots: int) -> None:
    (k,) = parse_loop(IDLE)
    assert counters.of_kernels([k], {"n": n})["slots"] == slots


APART = """
kernel @k(x: f32[64, 64], i: i32[64], y: f32[64, 64]) writes (y) {{
  for b in 64 bound blockIdx.x {{
    for t in 64 bound threadIdx.x {{
      let a = {at}
      y[b, t] = x[{x}]
    }}
  }}
}}
"""


@pytest.mark.parametrize(
    ("at", "x", "sectors"),
    [
        ("t", "b, a", 4), ("t", "a, b", 32), ("t // 2", "b, a", 2), ("0", "b, a", 1),
        ("t", "b, i[a]", 4),
    ],
)  # fmt: skip
def test_threads_that_lie_apart_touch_sectors_of_their_own(at: str, x: str, sectors: int) -> None:
    (k,) = parse_loop(APART.format(at=at, x=x))
    warps = 64 * 64 // 32
    assert counters.of_kernels([k], {})["sectors"] == warps * (4 + sectors)  # 4 of the store


@pytest.mark.parametrize(("fuse", "calls", "nbytes"), [(True, 1, 112), (False, 2, 304)])
def test_a_graph_needs_a_call_for_each_function(fuse: bool, calls: int, nbytes: int) -> None:
    last = "fuse" if fuse else "separate"
    made = compile(parse_module(GRAPH), Options().changed({"graph.fuse": fuse}), until=last)
    assert isinstance(made, Fused)
    got = counters.of_graph(made.fused, {})
    assert got == {
        "calls": calls, "bytes": nbytes, "elements": 28, "results": 1, "constants": 0, "copies": 0
    }  # fmt: skip


def test_a_run_is_counted_by_its_steps() -> None:
    use = MemoryUse(steps=[("k", 0), ("copy", 64), ("k", 64)], most=64)
    assert counters.of_run(use) == {"launches": 2, "copies": 1, "peak": 64}


@pytest.mark.parametrize("domain", ["passes", "lowering", "programs"])
def test_a_counter_of_a_member_that_changes_is_a_finding(
    domain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (d,) = registry.make(registry.Setup(("host", "simt")), [domain])
    every = distilled.members(domain)
    key, m = min(((k, m) for k, m in every.items() if m.counters), key=lambda x: x[1].ms)
    opened, wishes = worker.Opened(d), [(KEPT, key)]
    assert not opened.drawn(0, 0, wishes)[1].findings
    name, value = max(
        ((k, n) for k, n in m.counters.items() if not k.startswith(counters.TEXT)),
        key=lambda x: x[1],
    )
    fewer = replace(m, counters={**m.counters, name: value - 1})
    changed = MappingProxyType({**every, key: fewer})

    def members(domain: str) -> Mapping[str, Member]:
        del domain
        return changed

    monkeypatch.setattr(distilled, "members", members)
    (f,) = opened.drawn(0, 0, wishes)[1].findings
    assert (f.level, f.kind) == ("counters", "counter")
    assert f.message.startswith(f"{name} {value}, kept {value - 1} (if it is meant, run")
    options = Options().changed({"memory.planner": "greedy_by_breadth"})
    (other,) = registry.make(registry.Setup(("host", "simt"), options), [domain])
    assert not worker.Opened(other).drawn(0, 0, wishes)[1].findings


def test_lines_of_all_blocks_and_functions_are_counted() -> None:
    f = Program("f", (), (), (), (), (), (Wait(0, 2), Return(())))
    lines = (Wait(0, 1), Repeat("i", 3, (Wait(1, 0),)), Return(()))
    p = Program("p", (), (), (), (), (), lines, functions=(f,))
    assert counters.of_lines(p) == {"waits": 3, "lines": 4 + 2, "functions": 1}


def test_counters_that_are_unlike_those_kept_are_named() -> None:
    kept = counters.of_decisions({"cast once": ["x", "y"], "a long run in blocks": ["z"]})
    assert counters.unlike(kept, kept) == ""
    assert counters.unlike({**kept, "made: cast once": 3}, kept) == "made: cast once 3, kept 2"
    now = {"made: cast once": 2, "tests": 1}
    assert counters.unlike(now, kept) == "made: a long run in blocks 0, kept 1; tests 1, kept 0"


@pytest.mark.parametrize(
    ("now", "worse"),
    [({"moved": 8, "made: a": 2}, False), ({"moved": 9, "made: a": 2}, True),
     ({"moved": 7, "made: a": 3}, False), ({"moved": 8, "made: a": 1}, True)],
)  # fmt: skip
def test_fewer_decisions_and_more_of_all_else_are_worse(now: Sizes, worse: bool) -> None:
    assert counters.needs_more(now, {"moved": 8, "made: a": 2}) is worse


def test_all_stages_of_a_kept_program_are_counted() -> None:
    case = Case(parse_module(GRAPH), (), (1,))
    made = compile(case.module, until="fuse")
    assert census.counted(case, made, Options()) == {}
    got = census.counted(replace(case, counted=True), made, Options(), loaders=True)
    assert got["graph: calls"] == got["kernels: launches"] == 1
    assert got["graph: nodes"] == 3, "two of the function, and its call"
    assert got["program: peak"] == 256, "the result alone, at its alignment"
    texts = {k.removeprefix(counters.TEXT) for k in got if k.startswith(counters.TEXT)}
    assert texts == {"graph", "kernels", "wrapper", "JSON", "C++ header", "C++ loader"}
    assert got["text: graph"] == counters.digest(show(made.fused))


@pytest.mark.parametrize(
    ("other", "is_other"),
    [("x[i] = y[j] + 1.5f;", True), ("x[i] = y[i] + 2.5f;", True), ("x[i] = y[i] + 1;", True),
     ("x[i] = y[i] + 0x1.8p-3f;", True), ("x[i] = y[i] + 1e30f;", True),
     ("x[i] = y[i] + 1.5000001f;", False), ("x[i] = y[i] + 0x1.8000001p0f;", False)],
)  # fmt: skip
def test_a_digest_tells_texts_apart_but_for_last_digits(other: str, is_other: bool) -> None:
    assert (counters.digest(other) != counters.digest("x[i] = y[i] + 1.5f;")) is is_other


def test_a_digest_takes_what_rounding_leaves_of_zero_for_zero() -> None:
    assert counters.digest("x = 1.2e-16f;") == counters.digest("x = 0.0f;")


def test_a_text_is_neither_more_nor_less_than_another() -> None:
    a, b = counters.of_texts({"JSON": "a"}), counters.of_texts({"JSON": "b"})
    assert counters.unlike(a, b) == "text: JSON is another"
    assert not counters.needs_more(a, b)
    assert not counters.needs_more(b, a)


@pytest.mark.parametrize(
    ("one", "other"),
    [('"data":"AAAA"}', '"data":"BBBB"}'),
     ('rt.constant("f32", (2,), "AA")', 'rt.constant("f32", (2,), "BB")')],
)  # fmt: skip
def test_bytes_of_constants_are_no_part_of_a_digest(one: str, other: str) -> None:
    assert counters.digest(one) == counters.digest(other)


def test_a_program_that_needs_less_is_held_to_it() -> None:
    (d,) = registry.make(registry.Setup(("host", "simt")), ["indices"])
    opened = worker.Opened(d)
    for key, m in [*distilled.members("indices").items()][:4]:
        _, o = opened.drawn(0, 0, [(KEPT, key)])
        assert not o.findings
        assert dict(o.counters) == dict(m.counters)
