"""The domain of targets: its laws by kernels that break them, and what it draws."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import pytest

from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.schedule import dispatch
from didyma.codegen.schedule.recipes.recipe import Recipe, Values
from didyma.codegen.schedule.recipes.work import Work
from didyma.fuzz.distilled import member
from didyma.fuzz.domains import targets
from didyma.fuzz.domains.targets import Targets
from didyma.fuzz.graphs import Case
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.program import Launch
from didyma.refimpl.ir.target import PORTABLE, SM_90A
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import DType

Three: TypeAlias = tuple[int, int, int]

GRAPH = """
module {
  func @main(%x: f32[4096, 6]) -> (%s) {
    %e = exp(%x) : f32[4096, 6]
    %s = sum(%e, axes=(0,), keepdims=false) : f32[6]
  }
}
"""


@pytest.fixture(scope="module")
def made() -> Compiled:
    return compile(parse_module(GRAPH), Options(target="sm_90a"))


def test_a_compile_keeps_the_laws_of_launches(made: Compiled) -> None:
    assert [*targets.laws(made, SM_90A, {})] == []


@pytest.mark.parametrize(
    ("block", "grid", "cluster", "says"),
    [
        ((2048, 1, 1), (1, 1, 1), 1, "a block of (2048, 1, 1) threads"),
        ((16, 1, 1), (1, 1, 1), 1, "16 threads, and the text is for"),
        ((32, 1, 1), (1, 65536, 1), 1, "a grid of [1, 65536, 1] blocks"),
        ((32, 1, 1), (4, 1, 1), 3, "clusters of 3"),
        ((32, 1, 1), (16, 1, 1), 16, "clusters of 16"),
    ],
)
def test_what_a_target_cannot_launch_is_found(
    made: Compiled, block: Three, grid: Three, cluster: int, says: str
) -> None:
    x, y, z = map(ix.index, grid)
    first = replace(made.text.kernels[0], block=block, grid=(x, y, z), cluster=cluster)
    text = replace(made.text, kernels=(first,))
    found = [message for _, message in targets.launches(text, SM_90A, {})]
    assert any(says in message for message in found), found


def test_shared_arrays_are_counted_kernel_by_kernel() -> None:
    source = """
extern "C" __global__ void __launch_bounds__(32) f(f32 *y) {
  __shared__ __align__(16) f32 s[4][8];
  __shared__ bf16 t[3];
}
extern "C" __global__ void __launch_bounds__(32) g(f32 *y) {
  __shared__ uint4 s[65536];
}
"""
    assert targets.shared_bytes(source, "f") == 4 * 8 * 4 + 3 * 2
    assert targets.shared_bytes(source, "g") == 65536 * 16


def test_more_shared_memory_than_a_target_has_is_found(made: Compiled) -> None:
    name = made.text.kernels[0].name
    body = f"{name}(f32 *y) {{ __shared__ f32 s[{SM_90A.room}]; }} __global__ "
    text = replace(made.text, source=body + made.text.source.replace(f"{name}(", "other("))
    found = [message for _, message in targets.launches(text, SM_90A, {})]
    assert found == [f"{4 * SM_90A.room} bytes of shared memory"]


def test_an_array_between_wide_accesses_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    head = 'extern "C" __global__ void __launch_bounds__(32) f(f32 *y) {'
    source = f"{head} __shared__ f32 s[5]; __shared__ f32 t[20000]; }}"
    text = KernelText(source, ())
    assert [*targets.launches(text, SM_90A, {})] == []
    monkeypatch.setattr("didyma.codegen.emit.dynamic.LEAST", 4)
    (found,) = targets.launches(text, SM_90A, {})
    assert found == ("f", "an array begins 20 bytes behind a multiple of 16")


def test_a_plan_that_loses_a_value_is_found(made: Compiled) -> None:
    lines = tuple(x for x in made.program.lines if not isinstance(x, Launch))
    program = replace(made.program, lines=lines)
    assert any(f.level == "plan" for f in targets.laws(replace(made, program=program), SM_90A, {}))


def test_inputs_that_lie_in_other_ways_are_read_or_copied(made: Compiled) -> None:
    text = targets.laid(made, Options(target="sm_90a"))
    assert "['x'] {}" in text or "[] {'x': " in text
    pinned = Options(target="sm_90a").changed({"kernels.schedules": "schedule @f {}"})
    assert "schedules are given for other layouts" in targets.laid(made, pinned)


def test_refusals_of_given_schedules_are_no_findings() -> None:
    domain = Targets()
    case = domain.draw(5, 1)
    wrong = replace(case, changes=(*case.changes, ("kernels.choices", "nothing: row()")))
    assert not domain.outcome(wrong).findings


def test_long_axes_and_narrow_floats_are_drawn() -> None:
    domain = Targets()
    cases = [domain.draw(5, i) for i in range(60)]
    types = [t for c in cases for t in c.module.entry.types().values()]
    sizes = {d for t in types for d in t.shape if isinstance(d, int)}
    assert sizes & {1024, 4096, 50257, 65536}
    assert {t.dtype for t in types} >= {DType.F32, DType.BF16, DType.F16}
    assert {dict(c.changes)["target"] for c in cases} == {"sm_90a", "sm_80", PORTABLE.name}
    assert cases == [domain.draw(5, i) for i in range(60)]


def offered() -> Case:
    m = parse_module(GRAPH)
    return Case(m, (), (3,), (("target", "sm_90a"),), offered=True)


def test_what_recipes_offer_for_loops_alone_is_read() -> None:
    domain = Targets()
    found = domain.outcome(replace(offered(), counted=True))
    assert set(found.counters) == {"text: offers"}
    assert not found.findings
    assert member(domain, offered(), 0, 0).case(domain) == offered()
    assert any(domain.draw(5, i).offered for i in range(12))


def test_a_recipe_that_says_too_little_of_its_block_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def roomy(r: Recipe) -> Recipe:
        def block(work: Work, values: Values) -> tuple[int, int]:
            threads, shared = r.block(work, values)
            return threads - 1, shared

        return replace(r, block=block)

    assert not Targets().outcome(offered()).findings
    monkeypatch.setattr(dispatch, "RECIPES", tuple(map(roomy, dispatch.RECIPES)))
    (f,) = Targets().outcome(offered()).findings
    assert (f.where, f.kind) == ("block", "room")

    def broken(*args: object, **options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("didyma.fuzz.offers.of_loop", broken)
    (f,) = Targets().outcome(offered()).findings
    assert f.kind == "error"


def test_an_error_of_a_compile_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Targets()
    case = domain.draw(5, 1)
    assert not domain.outcome(case).findings

    def broken(*args: object, **options: object) -> Compiled:
        raise ZeroDivisionError

    monkeypatch.setattr(targets, "compile", broken)
    (f,) = domain.outcome(case).findings
    assert (f.level, f.kind) == ("targets", "error")
    assert "ZeroDivisionError" in f.message
