from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.emit import wrapper
from didyma.codegen.options import KernelOptions, Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime.host import Host
from didyma.codegen.schedule import dispatch
from didyma.fuzz import levels
from didyma.oracle import plan_check
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp.program import run
from didyma.refimpl.ir.lines import most_variants, settled, walk
from didyma.refimpl.ir.program import Dispatch, Launch, Line, Program
from didyma.refimpl.ir.text import parse, show
from didyma.refimpl.verify import program as laws

OPTIONS = Options(kernels=KernelOptions(variants=3))
n = dd.dim("n", 1, 64)


@dd.trace(dd.f32[n, 300], dd.f32[n, 300])
def weighted(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return dd.sum(x - w, axis=1)


X = np.random.default_rng(0).standard_normal((5, 300), np.float32)
W = np.random.default_rng(1).standard_normal((5, 300), np.float32)


@pytest.fixture(scope="module")
def made() -> Compiled:
    return compile(weighted.module, OPTIONS)


def dispatches(p: Program) -> list[Dispatch]:
    return [line for line in walk(p.lines) if isinstance(line, Dispatch)]


def with_lines(p: Program, old: Line, new: Line) -> Program:
    return replace(p, lines=tuple(new if line == old else line for line in p.lines))


def test_variants_are_recipes_that_differ_in_kind(made: Compiled) -> None:
    ((first, *others),) = made.variants.values()
    assert [x.point.recipe for x in (first, *others)] == ["row", "serial", "column"]
    assert len({x.digest for x in (first, *others)}) == 3
    (line,) = dispatches(made.program)
    assert [name for name, _ in line.variants] == [
        "fused_subtract_sum_0", "fused_subtract_sum_0_serial", "fused_subtract_sum_0_column"
    ]  # fmt: skip


def test_a_variant_of_one_nest_leaves_the_others_as_they_are() -> None:
    @dd.trace(dd.u64[5, 6, 16], dd.i64[5, 4, 16], dd.u64[5, 4, 16])
    def met(x: dd.Tensor, at: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
        return dd.scatter(x, at, y, axis=2, reduction="min")

    options = OPTIONS.changed({"kernels.short": 2})
    c = compile(met.module, options)
    varied = set[int]()
    for v in (v for row in c.variants.values() for v in row):
        loop = c.loops[v.function]
        usual = dispatch.by_nest(loop, options)
        chosen = dispatch.by_nest(loop, options, v.choice.points)
        assert len(v.choice.points) == len(usual) == 2
        assert [k for k in range(2) if chosen[k] != usual[k]] in ([], [v.nest])
        (kernel,) = chosen[v.nest]
        assert replace(v.kernel, name=kernel.name) == kernel
        varied.add(v.nest)
    assert varied == {0, 1}


def test_a_program_with_dispatches_reads_back(made: Compiled) -> None:
    assert parse(show(made.program)) == made.program
    assert "dispatch (%sum) by @fused_subtract_sum_0(%x, %w, %sum) or " in show(made.program)


def test_without_the_option_there_is_no_dispatch() -> None:
    c = compile(weighted.module)
    assert not dispatches(c.program)
    assert "dispatch" not in c.wrapper
    assert settled(c.program, 2) is c.program


def test_equal_kernels_are_one_variant() -> None:
    @dd.trace(dd.f32[1])
    def alone(x: dd.Tensor) -> dd.Tensor:
        return dd.exp(x)

    c = compile(alone.module, Options(kernels=KernelOptions(variants=8)))
    assert not c.variants, "one element takes one thread of a block of any size"
    assert not dispatches(c.program)


def test_each_number_launches_its_variant(made: Compiled) -> None:
    assert most_variants(made.program) == 3
    for number in range(4):
        (kernel,) = (x.kernel for x in settled(made.program, number).lines if isinstance(x, Launch))
        (line,) = dispatches(made.program)
        assert kernel == line.variants[number % 3][0]


def test_the_interpreter_runs_the_variant_asked_for(made: Compiled) -> None:
    want = (X - W).sum(1, dtype=np.float64)
    results = [run(made.program, [X, W], variant=k)[0] for k in range(3)]
    for got in results:
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    assert len({a.tobytes() for a in results}) > 1, "variants add up in different orders"


def test_every_variant_is_judged_at_every_level(made: Compiled) -> None:
    report = levels.judged(made, [X, W], [Host()])
    assert report.agree
    once = levels.judged(compile(weighted.module), [X, W], [Host()])
    for name in ("kernel", "program", "host"):
        (many,) = (x for x in report.levels if x.name == name)
        (one,) = (x for x in once.levels if x.name == name)
        assert len(many.comparisons) == 3 * len(one.comparisons)


def swapped(p: Program, number: int) -> Program:
    """Return a program whose dispatch gives one variant its operands in the other order."""
    (line,) = dispatches(p)
    kernel, (x, w, y) = line.variants[number]
    other = (kernel, (w, x, y))
    variants = (*line.variants[:number], other, *line.variants[number + 1 :])
    return with_lines(p, line, replace(line, variants=variants))


@pytest.mark.parametrize("number", [1, 2])
def test_another_argument_order_is_found_by_the_judge(made: Compiled, number: int) -> None:
    p = swapped(made.program, number)
    laws.verify(p)
    text = wrapper.emit(p, made.text)
    c = replace(made, program=p, wrapper=text)
    report = levels.judged(c, [X, W], [Host()])
    assert {f.level for f in report.findings} == {"program", "host"}
    assert all(f.message.endswith(f"by variant {number}") for f in report.findings)


def test_an_output_left_unwritten_breaks_a_law(made: Compiled) -> None:
    (line,) = dispatches(made.program)
    more = replace(line, outputs=(*line.outputs, "x"))
    with pytest.raises(DidymaError, match=r"P-dispatch .*"):
        laws.verify(with_lines(made.program, line, more))


def test_a_plan_is_replayed_with_every_variant(made: Compiled) -> None:
    (line,) = dispatches(made.program)
    kernel, (x, _, y) = line.variants[2]
    unwritten = replace(line, variants=(*line.variants[:2], (kernel, (x, "gone", y))))
    p = with_lines(made.program, line, unwritten)
    p = replace(p, types=(*p.types, ("gone", p.type["w"])))
    assert plan_check.check(made.program, {"n": 5}) == []
    assert [e.kind for e in plan_check.check(p, {"n": 5})] == ["not-allocated"]


def test_results_are_in_place_where_every_variant_allows_it() -> None:
    @dd.trace(dd.f32[8, 16])
    def chain(x: dd.Tensor) -> dd.Tensor:
        return dd.sum(dd.sin(dd.exp(x)), axis=0)

    c = compile(chain.module, OPTIONS.changed({"graph.fuse": False}))
    (taken,) = [line for line in dispatches(c.program) if line.inplace]
    assert taken.inplace == (("sin", "exp"),)
    for kernel, _ in taken.variants:
        head = c.text.source[c.text.source.index(f"{kernel}(") :].partition("{")[0]
        assert "__restrict__" not in head, "its operand and its result share bytes"
    x = np.random.default_rng(2).standard_normal((8, 16), np.float32)
    assert plan_check.check(c.program, {}) == []
    assert levels.judged(c, [x], [Host()]).agree


def test_streams_and_functions_may_dispatch() -> None:
    layer = dd.noinline(weighted_square)

    @dd.trace(dd.f32[8, 40], dd.f32[8, 40])
    def net(x: dd.Tensor, w: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        return layer(x, w), dd.sum(w, axis=1)

    c = compile(net.module, OPTIONS.changed({"kernels.streams": 2}))
    assert any(dispatches(f) for f in c.program.functions)
    assert parse(show(c.program)) == c.program
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal((8, 40), np.float32) for _ in range(2)]
    assert levels.judged(c, inputs, [Host()]).agree


def weighted_square(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return dd.sum(x * x * w, axis=1)


def test_rows_held_or_read_again_and_folds_by_one_thread_are_variants() -> None:
    @dd.trace(dd.f32[3, 40])
    def softmax(x: dd.Tensor) -> dd.Tensor:
        return dd.softmax(x, axis=1)

    c = compile(softmax.module, OPTIONS)
    (row,) = c.variants.values()
    assert [x.point.recipe for x in row] == ["rows", "looped", "serial"]
    x = np.random.default_rng(4).standard_normal((3, 40), np.float32)
    assert levels.judged(c, [x], [Host()]).agree
