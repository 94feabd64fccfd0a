"""Every engine passes the one suite; where an engine is absent, the skip says why."""

from __future__ import annotations

import pytest

from didyma.codegen.runtime.host import Host, Order
from didyma.codegen.runtime.nvrtc import Nvrtc
from didyma.codegen.runtime.registry import NAMES, engine, probe
from didyma.fuzz import conform as emitting
from didyma.fuzz.conform import Runner
from didyma.oracle import lanes
from didyma.oracle.conformance import LaunchCase, calls, conform
from didyma.refimpl.ir.expand import expand
from didyma.refimpl.ir.target import PORTABLE, SM_80, SM_90A
from didyma.refimpl.verify import loop as laws


@pytest.fixture(scope="module")
def suite() -> list[LaunchCase]:
    return list(emitting.suite())


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("nvrtc", "host-fast", "ptx")])
def test_engine_passes_every_case(name: str, suite: list[LaunchCase]) -> None:
    state = probe(name)
    if not state.runs:
        pytest.skip(f"{name}: {state.why}")
    e = engine(name)
    of_its_targets = {c.name for c in emitting.suite(e)}
    suited = [c for c in suite if c.name in of_its_targets]
    wrong = [o for o in conform(suited, Runner(e)) if o.wrong]
    assert not wrong


def test_ptx_passes_a_sample() -> None:
    """One in twenty-five of each group; all take minutes, most of them for chains of blocks."""
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")
    groups, e = dict[str, list[LaunchCase]](), engine("ptx")
    for c in emitting.suite(e):
        groups.setdefault(c.group, []).append(c)
    sample = [c for g in groups.values() for c in g[::25] if not c.name.startswith("chains")]
    assert not [o for o in conform(sample, Runner(e)) if o.wrong]


def test_an_engine_is_asked_for_what_its_targets_have(suite: list[LaunchCase]) -> None:
    class Plain(Host):
        targets = (PORTABLE,)

    class Ampere(Host):
        targets = (SM_80,)

    class Hopper(Host):
        targets = (SM_90A,)

    engines = Plain(), Ampere(), Hopper()
    plain, ampere, hopper = ([c.needs for c in emitting.suite(e)] for e in engines)
    assert {*plain} == {""}
    assert {*ampere} == {"", "cp_async", "mma"}
    assert {*hopper} == {*ampere, "wgmma", "tma", "mbarrier"}
    assert hopper == [c.needs for c in suite]


@pytest.mark.parametrize("order", ["reverse", 1, 2])
def test_order_of_threads_does_not_matter_where_nothing_races(
    order: Order, suite: list[LaunchCase]
) -> None:
    whole = [c for c in suite if c.group in ("structure", "calls", "families")]
    assert not [o for o in conform(whole, Runner(Host(order=order))) if o.wrong]


def test_suite_covers_every_intrinsic(suite: list[LaunchCase]) -> None:
    from didyma.codegen.emit.intrinsics import TABLE

    text = "\n".join({c.text.source for c in suite})
    assert [name for name in TABLE if f"{name}(" not in text] == []


def test_every_text_compiles_for_the_gpu(suite: list[LaunchCase]) -> None:
    """The texts that ask most of the prelude; all of them would take half a minute."""
    state = probe("nvrtc")
    if not state.runs:
        pytest.skip(f"nvrtc: {state.why}")
    nvrtc = Nvrtc()
    names = (
        *(
            "atomics f32",
            "atomics i64",
            "wide bf16 by 8",
            "wide u8 by 16",
            "scan",
            "reduction of 1 u8",
        ),
        *("norms of 33 rows", "turned bf16", "counts by add", "lanes in a callee", "scalars"),
        *("shuffles f64", "shuffles u8", "copies f8e4m3", "rows of matrices bf16"),
        "product m16n8k16_bf16",
    )
    texts = {c.name: c.text for c in suite if c.name in names}
    assert set(texts) == set(names)
    for text in texts.values():
        loaded = nvrtc.load(text)
        assert [r.kernel for r in loaded.cubin.resources] == [k.name for k in text.kernels]
        assert loaded.cubin.resources[0].spills == 0


@pytest.mark.parametrize("case", list(calls.cases()), ids=lambda c: c.name)
def test_the_interpreter_passes_the_loop_programs(case: calls.LoopCase) -> None:
    laws.verify(case.kernel)
    for kernel in (case.kernel, expand(case.kernel)):
        laws.verify(kernel)
        buffers = {b.name: a.copy() for b, a in zip(kernel.params, case.initial, strict=True)}
        lanes.run(kernel, buffers, case.dims, scalars=case.scalars)
        for name, want in zip(kernel.outputs, case.expected, strict=True):
            assert buffers[name].tobytes() == want.tobytes()
