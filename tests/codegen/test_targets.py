"""Targets: what laws take from them, which engines have them, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.options import KernelOptions, Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.engine import Loaded
from didyma.codegen.runtime.host import Host
from didyma.codegen.runtime.registry import engine, targets
from didyma.codegen.schedule import dispatch
from didyma.codegen.schedule.recipes import column, rows
from didyma.codegen.schedule.steps.apply import apply
from didyma.codegen.schedule.steps.records import Bind, Memory, Stage
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.loop import For, LoopKind, PrimFunc, Var
from didyma.refimpl.ir.program import Arena, Copy
from didyma.refimpl.ir.target import PORTABLE, SM_90A, TARGETS
from didyma.refimpl.ir.text import parse_loop, parse_program
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import stmts
from didyma.refimpl.verify import loop, program
from tests.errors.test_codes import says

SMALL = replace(PORTABLE, name="small", threads=64, shared=128, dynamic=0, stack=1024, atomics=())
KERNEL = """kernel @k(x: f32[256], y: f32[256]) writes (y) {
  for b in 2 bound blockIdx.x {
    for t in 128 bound threadIdx.x {
      y[b * 128 + t] = x[b * 128 + t]
    }
  }
}
"""
STACK = """program @main {
  inputs (%x)
  types {
    %x: f32[512]
    %y: f32[512]
  }
  lines {
    arena %a of 2048 stack
    place %y in %a at 0
    copy %y from %x
    return (%y)
  }
}
"""
STEPS = """schedule @fused_negative_0 {
  split i0 by 128
  bind i0_outer to blockIdx.x
  bind i0_inner to threadIdx.x
}"""


class Plain(Host):
    """An engine of a caller's own that has the portable target alone."""

    name = "plain"
    targets = (PORTABLE,)


def opposite(x: dd.Tensor) -> dd.Tensor:
    return -x


def negated() -> dd.Program:
    return dd.trace(dd.f32[300])(opposite)


def test_a_target_covers_what_asks_for_less() -> None:
    assert all(t.covers(PORTABLE) for t in TARGETS.values())
    assert PORTABLE.covers(SMALL)
    assert not SMALL.covers(PORTABLE)
    assert not replace(SM_90A, architecture="sm_80").covers(SM_90A)
    assert not replace(SM_90A, families=("mma",)).covers(SM_90A)
    assert {name: t.name for name, t in TARGETS.items()} == {n: n for n in TARGETS}


def test_laws_take_the_limits_of_a_target() -> None:
    (k,) = parse_loop(KERNEL)
    loop.verify(k)
    with says("L-threads", "128 threads", "1 to 64"):
        loop.verify(k, SMALL)
    p = parse_program(STACK)
    program.verify(p)
    with says("P-stack", "at most 1024"):
        program.verify(p, target=SMALL)


@pytest.mark.parametrize("size", [600, dd.dim("n", 1, 600)])
def test_an_arena_is_on_the_stack_where_the_target_has_room_for_it(size: int | dd.Size) -> None:
    """2,400 bytes, which are less than 100 KiB and more than 1 KiB."""
    m = dd.trace(dd.f32[size])(opposite).module
    for target, on_stack in ((PORTABLE, True), (replace(PORTABLE, stack=1024), False)):
        p = compile(m, Options(target=target)).program
        assert [x.stack for x in p.lines if isinstance(x, Arena)] == [on_stack]


def test_a_target_that_has_more_gets_the_same_kernels() -> None:
    m = negated().module
    assert compile(m, Options(target="sm_90a")).text == compile(m).text


def row_sums(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(x, axis=1)


def column_sums(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(x, axis=0)


def total(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(x)


def turned(x: dd.Tensor) -> dd.Tensor:
    return -x.T  # as it is, it needs no kernel


def product(x: dd.Tensor) -> dd.Tensor:
    return x @ x.T


def softmax(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x, axis=1)


FUNCTIONS = (opposite, row_sums, column_sums, total, turned, product, softmax)


@pytest.mark.parametrize(("threads", "shared"), [(1, 0), (16, 600), (100, 128)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_kernels_keep_within_a_target_of_less(
    function: Callable[[dd.Tensor], dd.Tensor], threads: int, shared: int
) -> None:
    target = replace(SMALL, threads=threads, shared=shared, access=4, stack=PORTABLE.stack)
    options = Options(target=target)
    x = np.random.default_rng(0).standard_normal((96, 65), np.float32)
    program = dd.trace(dd.f32[96, 65])(function)
    made = compile(program.module, options)
    for k in made.program.kernels:
        assert isinstance(k, PrimFunc)
        loop.verify(k, target)
        assert not any(isinstance(s, For) and s.kind is LoopKind.VECTORIZED for s in stmts(k.body))
    got = dd.compile(program, engine="simt", options=options)(x)
    assert dd.interpret(program, x).contains(got)


def test_updates_are_atomic_where_the_target_can() -> None:
    @dd.trace(dd.i32[9], dd.i64[20], dd.i32[20])
    def counted(x: dd.Tensor, at: dd.Tensor, new: dd.Tensor) -> dd.Tensor:
        return dd.scatter(x, at, new, axis=0, reduction="add")

    x, at = np.zeros(9, np.int32), np.arange(20) % 9
    for target, updates in ((PORTABLE, True), (SMALL, False)):
        made = dd.compile(counted, engine="simt", options=dd.Options(target=target))
        assert ("atomic" in made.text) == updates
        assert np.array_equal(np.asarray(made(x, at, x[at] + 1)), np.bincount(at))


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ("row(groups=8, lanes=32, wide=1)", "256 threads with 0 bytes"),
        ("serial(block=128, parts=0, unroll=0, wide=0)", "128 threads with 0 bytes"),
    ],
)
def test_a_choice_with_larger_blocks_is_refused(choice: str, words: str) -> None:
    m = dd.trace(dd.f32[96, 65])(row_sums).module
    options = Options(target=SMALL, kernels=KernelOptions(choices=f"fused_sum_0: {choice}"))
    with says("target-lacks", words, "at most 64 threads and 128 bytes, as small has"):
        compile(m, options)


def test_a_recipe_that_no_target_has_room_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "RECIPES", (rows.RECIPE, column.RECIPE))
    with says("target-lacks", "small", "a target with room for blocks of column"):
        compile(
            dd.trace(dd.f32[96, 65])(row_sums).module,
            Options(target=replace(SMALL, shared=0)),
        )


def test_steps_keep_the_limits_of_the_target() -> None:
    m = negated().module
    options = Options(kernels=KernelOptions(schedules=STEPS))
    assert compile(m, options).program.kernels
    with says("L-threads", "128 threads", "1 to 64"):
        compile(m, options.changed({"target": SMALL}))


def test_a_step_binds_no_more_than_there_are_along_an_axis() -> None:
    (f,) = parse_loop(
        "primfunc @f(x: f32[70], y: f32[70]) writes (y) { for i in 70 parallel { y[i] = x[i] } }"
    )
    assert apply(Bind("i", "threadIdx.y"), f) != f
    with says("L-threads", "for i in 70 bound threadIdx.z", "at most 64 along threadIdx.z"):
        apply(Bind("i", "threadIdx.z"), f)
    narrow = replace(PORTABLE, name="narrow", grid=(64, 64, 64))
    with says("L-grid", "at most 64 along blockIdx.x"):
        apply(Bind("i", "blockIdx.x"), f, narrow)
    assert PORTABLE.covers(narrow)
    assert not narrow.covers(PORTABLE)


@pytest.mark.parametrize("name", ["simt", "host"])
@pytest.mark.parametrize(
    ("grid", "block", "got"),
    [
        ((1, "n", 1), (1, 1, 1), "1 x 65536 x 1 blocks"),
        ((1, 1, 1), (1, 1, 65), "1 x 1 x 65 threads"),
    ],
)
def test_no_engine_launches_what_no_gpu_runs(
    name: str,
    grid: tuple[int | str, ...],
    block: tuple[int, int, int],
    got: str,
) -> None:
    x, y, z = (ix.index(n) if isinstance(n, int) else Var(n) for n in grid)
    source = 'extern "C" __global__ void k(f32 *y, i64 n) {\n  y[0] = 1.0f;\n}\n'
    signature = Signature("k", (("y", DType.F32),), (ix.ONE,), ("y",), ("n",), (x, y, z), block)
    on = engine(name)
    loaded = on.load(KernelText(source, (signature,)))
    with says("launch-failed", "kernel k", got, "put the longest axis along x"):
        loaded.launch("k", [on.allocate(4)], {"n": 1 << 16})


@pytest.mark.parametrize(
    ("f", "of_gpu"),
    [(row_sums, "reduce_row"), (softmax, "rows"), (product, "matmul"), (turned, "transpose")],
)
def test_a_compile_for_host_gives_each_result_to_one_thread(
    f: Callable[[dd.Tensor], dd.Tensor], of_gpu: str
) -> None:
    p = dd.trace(dd.f32[48, 65])(f)
    one = "pointwise" if f is turned else "fold"
    for engine_, options, schedule in (
        ("host", None, one),
        ("host", dd.Options(target="sm_90a"), of_gpu),
        ("simt", None, of_gpu),
        ("simt", dd.Options(target="cpu"), one),
        (Plain(), None, of_gpu),
    ):
        run = dd.compile(p, engine=engine_, options=options)
        assert f"schedule='{schedule}'" in run.text


def test_the_judge_runs_the_kernels_of_a_gpu_on_host() -> None:
    class Listening(Host):
        """Engine ``host`` that keeps the texts it loads."""

        def __init__(self) -> None:
            super().__init__()
            self.texts: list[str] = []

        def load(self, text: KernelText) -> Loaded:
            self.texts.append(text.source)
            return super().load(text)

    p, host = dd.trace(dd.f32[96, 65])(row_sums), Listening()
    assert dd.check(p, engines=[host], tries=1).agree
    assert host.texts
    assert all("schedule='reduce_row'" in text for text in host.texts)


def test_the_order_of_a_target_ranks_recipes_and_ends_with_those_it_does_not_name() -> None:
    m = dd.trace(dd.f32[96, 65])(row_sums).module
    for order, schedule in (
        (("poor",), "reduce_column"),
        (("alone", "along"), "fold"),
        (("along", "alone"), "reduce_row"),
    ):
        c = compile(m, Options(target=replace(PORTABLE, name="own", order=order)))
        assert f"schedule='{schedule}'" in c.text.source


def test_engines_of_the_cpu_imitate_every_target() -> None:
    x = np.arange(300, dtype=np.float32)
    for name in ("simt", "host"):
        assert {*targets(engine(name))} == {*TARGETS.values()}
        run = dd.compile(negated(), engine=name, options=dd.Options(target="sm_90a"))
        assert np.array_equal(np.asarray(run(x)), -x)


@pytest.mark.parametrize("target", ["sm_90a", SM_90A])
def test_an_engine_without_the_target_is_refused(target: str | dd.Target) -> None:
    options = dd.Options(target=target)
    with says("wrong-target", "engine plain", "a program for sm_90a", "portable"):
        dd.compile(negated(), engine=Plain(), options=options)
    with says("wrong-target", "engine plain"):
        dd.check(negated(), engines=["host", Plain()], options=options)
    assert dd.check(negated(), engines=[Plain()], tries=1).agree


def test_a_target_is_recorded_by_its_name() -> None:
    assert Options(target=SM_90A).record()["target"] == "sm_90a"
    assert Options.recorded(Options(target=SM_90A).record()).device == SM_90A
    assert Options.recorded({"version": 2}).device == PORTABLE
    with pytest.raises(DidymaError, match="unknown-target"):
        Options(target="sm_10")


def test_memory_of_clusters_needs_blocks_of_one() -> None:
    (k,) = parse_loop(KERNEL)
    step = Stage("x", "t", Memory.CLUSTER, "staged")
    with says("target-lacks", "the portable target"):
        apply(step, k)
    with says("bad-step", "a loop bound to clusterRank"):
        apply(step, k, SM_90A)


@pytest.mark.parametrize(("access", "copied"), [(16, 0), (32, 0), (64, 1)])
def test_rows_of_a_scan_are_views_where_kernels_may_take_them(access: int, copied: int) -> None:
    """A row of 32 bytes may be narrower than the widest access of the target."""

    @dd.trace(dd.f32[4, 8])
    def running(x: dd.Tensor) -> dd.Tensor:
        def round_(s: dd.Tensor, v: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
            return s + v, s * v

        return dd.scan(round_, x[0], x)[1]

    target = replace(PORTABLE, name="other", access=access)
    p = compile(running.module, Options(target=target)).program
    program.verify(p, target=target)
    stored = [x for x in walk(p.lines) if isinstance(x, Copy) and x.value == "scan_1_row"]
    assert len(stored) == copied
