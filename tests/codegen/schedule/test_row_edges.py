"""Rows that begin between accesses are read and written by whole accesses, and element by element
only at their two ends."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.simt import Simt, Traffic
from didyma.codegen.schedule import dispatch
from didyma.codegen.schedule.recipes.point import Point
from didyma.codegen.schedule.recipes.recipe import fits
from didyma.codegen.schedule.recipes.work import Work
from didyma.refimpl.ir.expand import expand
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.workspace import opened
from didyma.refimpl.verify import loop as laws
from didyma.tracer.tracing import Program
from tests.codegen.row_programs import softmax

SM_90A = Options(target="sm_90a")
SPLIT = SM_90A.changed({"kernels.split": 64})
ROWS, OPEN, LONG = dd.dim("rows", 0, 9), dd.dim("n", 0, 400), dd.dim("n", 0, 9000)


def sums(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(x, axis=1)


def places(x: dd.Tensor) -> dd.Tensor:
    return dd.argmax(x, axis=1)


def from_second(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(x[:, 1:], axis=1)


def rms_norm(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return x / dd.sqrt(dd.mean(x * x, axis=-1, keepdims=True) + 1e-5) * w


def shifted(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x[:, :-2] + y, axis=1)


def at_place(x: dd.Tensor, at: dd.Tensor) -> dd.Tensor:
    return -dd.take_along_axis(dd.log_softmax(x, axis=1), at, axis=1)


def program(f: Callable[..., Any], *types: Any) -> Program:
    found: Program = dd.trace(*types)(f)
    return found


@dataclass(frozen=True, slots=True)
class Case:
    """A function of rows, and the recipes that are tried."""

    function: Callable[..., Any]
    types: tuple[Any, ...]
    recipes: tuple[str, ...] = ("rows", "looped", "cluster")


CASES = {
    "bf16": Case(softmax, (dd.bf16[5, 133],)),
    "f32": Case(softmax, (dd.f32[6, 67],)),
    "f64": Case(softmax, (dd.f64[3, 65],)),
    "three axes": Case(softmax, (dd.f32[3, 2, 43],)),
    "shorter than two accesses": Case(softmax, (dd.bf16[9, 9],)),
    "rows open": Case(softmax, (dd.bf16[ROWS, 133],)),
    "length open": Case(softmax, (dd.f32[3, OPEN],)),
    "slice": Case(from_second, (dd.f32[6, 67],), ("row",)),
    "operands apart": Case(shifted, (dd.f32[6, 67], dd.f32[6, 65])),
    "weights": Case(rms_norm, (dd.bf16[5, 133], dd.bf16[133])),
    "pick": Case(at_place, (dd.f32[5, 133], dd.i64[5, 1])),
    "sums": Case(sums, (dd.f32[6, 67],), ("row",)),
    "sums, length open": Case(sums, (dd.f32[3, OPEN],), ("row",)),
    "i8": Case(sums, (dd.i8[5, 333],), ("row",)),
    "one row": Case(dd.sum, (dd.f32[1003],), ("full",)),
    "one row, shared": Case(dd.sum, (dd.f32[10003],), ("split",)),
    "rows, shared": Case(sums, (dd.bf16[3, 5003],), ("split",)),
    "slice, shared": Case(from_second, (dd.f32[2, 4999],), ("split",)),
    "length open, shared": Case(sums, (dd.bf16[3, LONG],), ("split",)),
}


def ranked(loops: PrimFunc, options: Options, recipe: str) -> list[Point]:
    """Return the points of one recipe for a loop nest, the best first: those of all take long."""
    (work,) = Work.all_of(expand(opened(loops)), options)
    (found,) = (r for _, r in fits(work, dispatch.recipes(options)) if r.name == recipe)
    return [point for _, point in sorted(found.points(work), key=lambda pair: pair[0])]


def points(p: Program, recipe: str) -> list[tuple[str, Point]]:
    """Return the points of a recipe that take most at once: of few threads, and of many."""
    ((name, loops),) = compile(p.module, SPLIT, until="lower").loops.items()
    found = ranked(loops, SPLIT, recipe)
    if recipe == "split":
        return [(name, found[0]), (name, found[1])]
    most = max(x.table["wide"] for x in found)
    wide = sorted((x for x in found if x.table["wide"] == most), key=lambda x: x.table["lanes"])
    assert most > 1
    return [(name, wide[0]), (name, wide[len(wide) // 2])]


@pytest.mark.parametrize(("name", "recipe"), [(n, r) for n, c in CASES.items() for r in c.recipes])
def test_rows_agree_at_every_level(name: str, recipe: str) -> None:
    p = program(CASES[name].function, *CASES[name].types)
    for function, point in points(p, recipe):
        options = SPLIT.changed({"kernels.choices": f"{function}: {point}"})
        for kernels in compile(p.module, options, until="schedule").kernels.values():
            for k in kernels:
                assert isinstance(k, PrimFunc)
                laws.verify(k, SM_90A.device)
        report = dd.check(p, engines=["simt"], options=options, tries=1)
        assert report.agree, [str(f) for f in report.findings]


@pytest.mark.parametrize("shape", [(6, 67), (2, 5003)])
def test_the_first_of_equal_elements_of_odd_rows_is_found(shape: tuple[int, int]) -> None:
    p, x = program(places, dd.f32[shape]), np.ones(shape, np.float32)
    ((name, loops),) = compile(p.module, SPLIT, until="lower").loops.items()
    tried = set[str]()
    for (point,) in dispatch.points(loops, SPLIT):
        if point.recipe in ("row", "split") and point.recipe not in tried:
            tried.add(point.recipe)
            options = SPLIT.changed({"kernels.choices": f"{name}: {point}"})
            found = dd.compile(p, engine="simt", options=options)(x)
            assert not np.any(found), str(point)
    assert tried


def traffic(f: Callable[..., Any], *shape: int, recipe: str) -> Traffic:
    p = program(f, dd.f32[shape])
    found = Traffic()
    ((name, point), _) = points(p, recipe)
    options = SPLIT.changed({"kernels.choices": f"{name}: {point}"})
    rng = np.random.default_rng(0)
    dd.compile(p, engine=Simt(traffic=found), options=options)(
        rng.standard_normal(shape, np.float32)
    )
    return found


def least_accesses(rows: int, length: int) -> int:
    """Return in how many accesses of 16 bytes, and of elements, rows of f32 can be taken."""
    total = 0
    for first in range(0, rows * length, length):
        inner = (first + length) // 4 - -(-first // 4)
        total += inner + length - 4 * inner
    return total


@pytest.mark.parametrize("length", [64, 65, 66, 67, 71, 4, 5, 6, 7])
@pytest.mark.parametrize("recipe", ["rows", "cluster"])
def test_rows_are_read_and_written_once_by_as_few_accesses_as_can_be(
    recipe: str, length: int
) -> None:
    t = traffic(softmax, 7, length, recipe=recipe)
    assert t.read.total() == t.written.total() == 7 * length * 4
    assert t.accesses.total() == 2 * least_accesses(7, length)


@pytest.mark.parametrize("length", [64, 65, 66, 67])
def test_sums_of_rows_read_them_by_as_few_accesses_as_can_be(length: int) -> None:
    t = traffic(sums, 7, length, recipe="row")
    assert (t.read.total(), t.written.total()) == (7 * length * 4, 7 * 4)
    assert t.accesses.total() == least_accesses(7, length) + 7


@pytest.mark.parametrize("length", [5000, 5001, 5002, 5003])
def test_shared_rows_are_read_by_as_few_accesses_as_can_be(length: int) -> None:
    t = traffic(sums, 3, length, recipe="split")
    parts = t.written.total() // 4 - 3  # of which a second kernel makes three sums
    assert t.read.total() == 4 * (3 * length + parts)
    assert parts > 3
    assert t.accesses.total() == least_accesses(3, length) + 2 * parts + 3


@pytest.mark.parametrize(
    ("shape", "dtype", "width"),
    [
        ((4096, 1000), "f32", 4),
        ((4096, 1001), "f32", 4),
        ((4096, 1001), "bf16", 8),
        ((4096, 1002), "f32", 2),  # accesses of 8 bytes have no edges
        ((4096, 1002), "bf16", 8),
        ((4096, 1004), "bf16", 4),
        ((4096, 15), "f32", 1),  # too short
        ((4096, OPEN), "f32", 4),
    ],
)
def test_the_model_takes_edges_where_rows_are_worth_them(
    shape: tuple[Any, ...], dtype: str, width: int
) -> None:
    p = program(softmax, getattr(dd, dtype)[shape])
    (loops,) = compile(p.module, SM_90A, until="lower").loops.values()
    assert ranked(loops, SM_90A, "rows")[0].table["wide"] == width


def guards(text: str) -> set[str]:
    """Return the conditions of branches around whole accesses to rows."""
    return set(re.findall(r"if \((.*k\w* < \w+.*)\) {", text))


@pytest.mark.parametrize(
    ("length", "sure"),
    [
        (1024, None),  # all four turns of 32 threads with eight elements each are whole
        (1000, 3),
        (1001, 3),
        (775, 3),  # 96 accesses wherever it begins
        (774, 2),  # 96 or 95: it may begin and end between accesses
    ],
)
def test_only_turns_that_may_be_beyond_a_row_are_guarded(length: int, sure: int | None) -> None:
    made = compile(program(softmax, dd.bf16[65_536, length]).module, SM_90A)
    found = guards(made.text.source)
    assert bool(found) == (sure is not None)
    assert all(re.match(rf"turn\w* < {sure} \|\| k", x) for x in found)


def test_what_is_in_shared_memory_of_a_row_has_no_guards() -> None:
    """Of the 98 turns of a row of 50,001 all but the last are within it."""
    made = compile(program(softmax, dd.bf16[4096, 50_001]).module, SM_90A)
    (loops,) = made.loops.values()
    (point,) = dispatch.first(loops, SM_90A)
    shelf = 512 * 8 * dict(point.values)["shelf"]
    text = made.text.source
    before = text[: text.index(f"x_shelf[{shelf}]")], text[text.index("store8_bf16(&x_shelf[") :]
    stored = text[len(before[0]) : text.index("store8_bf16(&x_shelf[")]
    read = text[text.rindex("load8_bf16(&x_shelf[") - 400 : text.rindex("load8_bf16(&x_shelf[")]
    assert not guards(stored)
    assert not guards(read)


def test_loads_of_all_turns_of_a_row_are_in_one_branch() -> None:
    """Of rows of which some blocks have one and others two."""
    made = compile(program(rms_norm, dd.bf16[1001, 4099], dd.bf16[4099]).module, SM_90A)
    text = made.text.source
    start = text.index("if (row < 1001) {")
    assert text.count("if (row < 1001") == 3
    assert start < text.index("load8_bf16(&x[")
