"""Blocks and streams: where a block begins or ends, all streams have waited for one another."""

from __future__ import annotations

from didyma.codegen.emit import cuda, wrapper
from didyma.codegen.memory import planner
from didyma.codegen.memory.plan import plan
from didyma.fuzz.allocator.domains import every, programs
from didyma.fuzz.allocator.kernels import At
from didyma.fuzz.allocator.maker import Maker
from didyma.oracle.plan_check import check
from didyma.refimpl.ir.program import Copy, Launch, Program
from didyma.refimpl.ir.types import DType, TensorType

T = TensorType(DType.I32, (64,))


def looped(rounds: int) -> Program:
    """Stream 1 makes a value; after a loop it is copied without another wait."""
    m = Maker()
    m.switch(1)
    (a,) = m.launch([(m.input(T), At.SHIFTED)], [T])
    m.switch(0)
    m.begin_repeat(rounds)
    m.end()
    return m.finish([a, m.copy(a)])


def test_a_loop_is_waited_for_though_it_has_no_round() -> None:
    for rounds in (0, 2):
        bare = looped(rounds)
        planned = plan(bare, planner("greedy_by_size"))
        assert any(isinstance(x, Launch) and x.stream for x in planned.lines)
        assert any(isinstance(x, Copy) for x in planned.lines)
        assert every(bare, planned, 0, run=True) == []
        text = wrapper.emit(planned, cuda.emit(planned.kernels))
        before, _, _ = text.partition("for turn0")
        assert before.rstrip().endswith("engine.join()")


def test_a_missing_wait_is_seen() -> None:
    m = Maker()
    m.switch(1)
    (a,) = m.launch([(m.input(T), At.SHIFTED)], [T])
    m.stream, m.clocks = 0, {}  # forget that stream 1 has to be waited for
    (b,) = m.launch([(a, At.SHIFTED)], [T])
    planned = plan(m.finish([b]), planner("none"))
    assert [e.kind for e in check(planned, {})] == ["race"]


def test_blocks_wait_for_a_stream_that_only_dispatches_use() -> None:
    """In this program one side of a branch dispatches on stream 1, which nothing else uses."""
    assert programs("wrappers", 285607549).verdicts == ()


def test_a_stream_whose_first_work_comes_after_a_call_waits_for_it() -> None:
    """In this program stream 1 first reads what a call made, and no line says that it waits."""
    assert programs("wrappers", 78686).verdicts == ()
