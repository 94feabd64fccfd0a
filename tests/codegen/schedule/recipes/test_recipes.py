"""Every point of every recipe is a right kernel, and the model's first one is what runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from didyma.codegen.lower import lower
from didyma.codegen.options import KernelOptions, Options
from didyma.codegen.schedule import dispatch
from didyma.codegen.schedule.dispatch import points, schedule
from didyma.codegen.schedule.recipes import Point, parse, show
from didyma.oracle import chains
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph as reference
from didyma.refimpl.ir.dims import Dim, DimVar, symbol
from didyma.refimpl.ir.graph import Attr, Module
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.target import PORTABLE, SM_90A, Target
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops.bars import Contract, exact, judge
from didyma.refimpl.verify import loop as laws
from tests.codegen.lower.judged import execute, primitive
from tests.codegen.make import Graph

LOW = KernelOptions(block=64, vectorise=False, short=4, full=8, few=2)
LONG = (DimVar("long", 0, 1 << 20),)
DIMS = (DimVar("n", 0, 40), DimVar("m", 0, 40))


def unary(op: str, *shape: int, dtype: DType = DType.F32, **a: Attr) -> Module:
    g = Graph()
    return primitive(g.module(g(op, g.param("x", *shape, dtype=dtype), **a)))


def product() -> Module:
    g = Graph()
    p = g("matmul", g.param("a", 9, 24), g.param("b", 24, 10))
    return primitive(g.module(g("exp", p)))


def symbolic() -> Module:
    g = Graph()
    x = g.param("x", symbol("n"), symbol("m"))
    return primitive(g.module(g("sum", x, axes=(1,), keepdims=False), dims=DIMS))


def taken() -> Module:
    g = Graph()
    x, at = g.param("x", 5, 4), g.param("at", 7, dtype=DType.I64)
    return primitive(g.module(g("gather", x, at, axis=0)))


def run(*shape: int, axis: int, exclusive: bool, reverse: bool) -> Module:
    return unary("cumulative_sum", *shape, axis=axis, exclusive=exclusive, reverse=reverse)


def scattered(*shape: int, count: int, reduction: str, dtype: DType = DType.F32) -> Module:
    """Scatter updates to a fifth of their number of places, the same in each column."""
    g = Graph()
    x, at = g.param("x", *shape, dtype=dtype), g.param("at", count, dtype=DType.I64)
    u = g.param("u", count, *shape[1:], dtype=dtype)
    if shape[1:]:
        at = g("reshape", at, shape=(count, 1))
        at = g("broadcast_to", at, shape=(count, *shape[1:]))
    return primitive(g.module(g("scatter", x, at, u, axis=0, reduction=reduction)))


def softmax(length: Dim = 40, rows: int = 5) -> Module:
    g = Graph()
    x = g.param("x", rows, length)
    e = g("exp", g("subtract", x, g("max", x, axes=(1,), keepdims=True)))
    d = g("divide", e, g("sum", e, axes=(1,), keepdims=True))
    return primitive(g.module(d, dims=() if isinstance(length, int) else LONG))


def centred(length: Dim) -> Module:
    g = Graph()
    x = g.param("x", 5, length)
    d = g("subtract", x, g("mean", x, axes=(1,), keepdims=True))
    v = g("mean", g("multiply", d, d), axes=(1,), keepdims=True)
    return primitive(g.module(g("multiply", d, g("rsqrt", v)), dims=LONG))


def gradients(rows: int, length: int) -> Module:
    """Fold rows along, use what that comes to for each element, and fold elements across rows."""
    g = Graph()
    x, y = g.param("x", rows, length), g.param("y", rows, length)
    s = g("sum", g("multiply", x, y), axes=(1,), keepdims=True)
    d = g("multiply", y, g("subtract", x, s))
    w, b = (g("sum", v, axes=(0,), keepdims=False) for v in (g("multiply", d, x), y))
    return primitive(g.module(s, d, w, b))


def scaled() -> Module:
    """Find the place of the largest product in each row; rows have their factors in common."""
    g = Graph()
    x, w = g.param("x", 4, 16384), g.param("w", 1, 16384)
    w = g("broadcast_to", w, shape=(4, 16384))
    return primitive(g.module(g("argmax", g("multiply", x, w), axis=1, keepdims=False)))


MODULES: Mapping[str, tuple[Module, Mapping[str, int], str]] = {
    "pointwise": (unary("exp", 6, 8), {}, "pointwise"),
    "gather": (taken(), {}, "gather"),
    "scatter": (scattered(40, count=6, reduction="add", dtype=DType.I32), {}, "pointwise"),
    "seek": (scattered(40, count=6, reduction="none"), {}, "seek"),
    "marks": (scattered(6, 16, count=70, reduction="none"), {}, "marks"),
    "segments": (scattered(300, 8, count=70, reduction="add"), {}, "segments"),
    "serial": (unary("sum", 70, 9, axes=(1,), keepdims=False), {}, "serial"),
    "row": (unary("sum", 5, 100, axes=(1,), keepdims=False), {}, "row"),
    "rows": (symbolic(), {"n": 7, "m": 33}, "row"),
    "argmax": (unary("argmax", 3, 70, axis=1, keepdims=False), {}, "row"),
    "full": (unary("sum", 40, 20, axes=(0, 1), keepdims=False), {}, "full"),
    "column": (unary("max", 50, 24, axes=(0,), keepdims=False), {}, "column"),
    "split": (unary("sum", 181, 204, axes=(0, 1), keepdims=False), {}, "split"),
    "split columns": (unary("sum", 5001, 7, axes=(0,), keepdims=False), {}, "split"),
    "split argmax": (unary("argmax", 2, 33333, axis=1, keepdims=False), {}, "split"),
    "champion": (scaled(), {}, "champion"),
    "transpose": (unary("permute_dims", 40, 33, axes=(1, 0)), {}, "transpose"),
    "wide transpose": (unary("permute_dims", 36, 100, axes=(1, 0)), {}, "transpose"),
    "matmul": (product(), {}, "matmul"),
    "softmax": (softmax(), {}, "rows"),
    "scan": (run(3, 300, axis=1, exclusive=False, reverse=False), {}, "scan"),
    "scan across": (run(60, 24, axis=0, exclusive=True, reverse=True), {}, "scan"),
    "chain": (run(2, 1500, axis=1, exclusive=False, reverse=False), {}, "chain"),
    "long softmax": (softmax(symbol("long")), {"long": 33}, "looped"),
    "long variance": (centred(symbol("long")), {"long": 45}, "looped"),
    "few rows": (softmax(4096), {}, "cluster"),
    "long rows": (softmax(131_104, 2), {}, "parted"),
    "rows of whole blocks": (softmax(640, 32), {}, "streamed"),
    "rows of whole clusters": (softmax(992, 33), {}, "shared"),
    "gradients": (gradients(70, 40), {}, "sweep"),
    "gradients of odd rows": (gradients(33, 9), {}, "sweep"),
    "gradients on a core": (gradients(7, 40), {}, "apart"),
}  # fmt: skip


def wanted(name: str) -> Options:
    """Return options for a module: of a target with clusters, or a core, where they are wanted."""
    targets = {"few rows": "sm_90a", "chain": "sm_90a", "gradients on a core": "cpu"}
    long = {"graph.long_run": 1024, "kernels.waits": True} if name == "chain" else {}
    if name == "long rows":
        return Options(target=replace(SM_90A, name="few", processors=4))
    if name == "rows of whole blocks":
        return Options(target=replace(SM_90A, name="small", threads=32, processors=1))
    if name == "rows of whole clusters":
        few = replace(SM_90A, name="pair", threads=32, processors=2, cluster=2)
        return Options(target=replace(few, shared=2560, dynamic=2560))
    return Options().changed({"target": targets.get(name, "portable"), **long})


def inputs(m: Module, env: Mapping[str, int]) -> list[Array]:
    rng = np.random.default_rng(3)
    found: list[Array] = []
    for p in m.entry.params:
        shape = [env[str(d)] if not isinstance(d, int) else d for d in p.type.shape]
        if p.type.dtype is DType.I64:
            found.append(np.arange(shape[0], dtype=np.int64) % 5)
        else:
            found.append(rng.standard_normal(shape).astype(p.type.dtype.numpy))
    return found


def agree(
    m: Module,
    p: PrimFunc,
    kernels: Sequence[PrimFunc],
    env: Mapping[str, int],
    target: Target = PORTABLE,
) -> None:
    for k in kernels:
        laws.verify(k, target)
    given = inputs(m, env)
    chain = chains.longest(kernels, env)
    contract = Contract() if chain is None else chains.with_chain(Contract(), chain)
    bars = reference.bars(m.entry, m, [exact(x) for x in given], env, contract)
    for bar, out in zip(bars, execute(kernels, p, given, env), strict=True):
        assert judge(bar, out, DType.of(out)).ok.all()


@pytest.mark.parametrize("name", MODULES)
def test_every_kind_of_point_is_right(name: str) -> None:
    """Of many points, those that the model ranks first and last, and some between."""
    m, env, recipe = MODULES[name]
    p = lower(m.entry, m)
    options = wanted(name)
    every = list(points(p, options))
    assert len(every) == len(set(every)) > 3
    assert every[0][0].recipe == recipe
    for chosen in [*every[:3], *islice(every, 3, None, max(1, len(every) // 8)), every[-1]]:
        agree(m, p, schedule(p, options, chosen), env, options.device)


@pytest.mark.parametrize("name", MODULES)
def test_the_first_point_is_what_the_model_takes(name: str) -> None:
    m, _, _ = MODULES[name]
    p = lower(m.entry, m)
    for options in (wanted(name), replace(wanted(name), kernels=LOW)):
        first = next(points(p, options))
        assert schedule(p, options, first) == schedule(p, options)


def test_every_recipe_has_a_nest_that_it_schedules_first() -> None:
    firsts = {
        point.recipe
        for name, (m, _, _) in MODULES.items()
        for point in next(points(lower(m.entry, m), wanted(name)))
    }
    assert firsts == set(dispatch.names())


def test_a_row_may_be_folded_by_other_recipes() -> None:
    m, _, _ = MODULES["row"]
    p = lower(m.entry, m)
    assert {x.recipe for (x,) in points(p, Options())} == {"row", "column", "serial"}


def test_text_round_trips() -> None:
    for m, _, _ in MODULES.values():
        for chosen in islice(points(lower(m.entry, m), Options()), 20):
            assert parse(show(chosen)) == chosen


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("strip(lanes=8, groups=4)", "parted, pointwise, row, rows"),
        ("row(lanes=8)", "row with groups, lanes, wide"),
        ("row(lanes=9, groups=8, wide=1)", "lanes of 1, 2, 4"),
        ("row(lanes=128, groups=8); row(lanes=128, groups=8)", "1 point"),
        ("matmul(tile=16)", "does not apply"),
        ("row(lanes=8, lanes=8)", "each once"),
        ("row lanes=8", "RECIPE(NAME=NUMBER"),
        ("", "RECIPE(NAME=NUMBER"),
        ("row(groups=1, lanes=1, wide=1)", "a warp at least"),
    ],
)
def test_what_is_no_point_of_the_function_is_refused(text: str, words: str) -> None:
    m, _, _ = MODULES["row"]
    with pytest.raises(DidymaError) as caught:
        schedule(lower(m.entry, m), Options(), parse(text))
    assert caught.value.code == "bad-choice"
    assert words in str(caught.value)


def test_points_of_several_nests_differ_in_one() -> None:
    m, _, _ = MODULES["scatter"]
    first, *rest = points(lower(m.entry, m), Options())
    assert [x.recipe for x in first] == ["pointwise", "scatter"]
    assert all(sum(a != b for a, b in zip(first, x, strict=True)) == 1 for x in rest)
    assert Point.of("scatter", block=64, wide=1) in {x[1] for x in rest}


@pytest.mark.parametrize("scaled", [False, True])
def test_columns_are_split_also_where_each_term_has_a_factor(scaled: bool) -> None:
    """Neighbouring factors of terms lie together, but most of what is read lies across."""
    g = Graph()
    x, y = (g.param(n, 8192, 512, dtype=DType.BF16) for n in "xy")
    terms = g("multiply", *(g("cast", v, dtype=DType.F32) for v in (x, y)))
    if scaled:
        terms = g("multiply", terms, g.param("r", 8192, 1))
    m = primitive(g.module(g("sum", terms, axes=(0,), keepdims=False)))
    (point, *_) = next(points(lower(m.entry, m), Options()))
    assert (point.recipe, point.table["side"]) == ("split", 32)
    assert point.table["parts"] > 16


def test_threads_of_many_gathered_rows_wait_for_two_at_once_in_small_blocks() -> None:
    g = Graph()
    x, at = g.param("x", 5, 4096), g.param("at", 7000, dtype=DType.I64)
    m = primitive(g.module(g("gather", x, at, axis=0)))
    ((point,), *_) = points(lower(m.entry, m), Options())
    assert point == Point.of("gather", block=128, each=2, wide=1)
    few, _, _ = MODULES["gather"]
    ((point,), *_) = points(lower(few.entry, few), Options())
    assert point.table["each"] == 1
