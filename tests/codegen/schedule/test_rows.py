"""Folds of the same rows are one kernel, which reads each element of a row once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.passes.rows import JOINED
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime.registry import engine
from didyma.codegen.runtime.simt import Simt, Traffic
from didyma.codegen.schedule import dispatch
from didyma.codegen.schedule.recipes.point import Point
from didyma.fuzz import levels
from didyma.oracle import lanes
from didyma.refimpl.ir.graph import CALL
from didyma.refimpl.ir.loop import Fold, For, PrimFunc, Stmt
from didyma.refimpl.ir.target import PORTABLE
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.verify import loop as laws
from didyma.tracer.tracing import Program
from tests.codegen.row_programs import APART, PROGRAMS, ROWS, X, log_softmax, softmax

N = dd.dim("n", 0, 3000)


def spread(x: dd.Tensor) -> dd.Tensor:
    return dd.std(x, axis=-1)


def columns(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x, axis=0)


def two_results(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    return dd.softmax(x, axis=-1), dd.max(x, axis=-1)


def statistics(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor, dd.Tensor]:
    mean = dd.mean(x, axis=(0, 2, 3))
    centred = x - dd.reshape(mean, (6, 1, 1))
    variance = dd.mean(centred * centred, axis=(0, 2, 3))
    return centred / dd.sqrt(dd.reshape(variance, (6, 1, 1)) + 1e-5), mean, variance


def centred_turned(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(dd.permute_dims(x, (1, 0)), axis=1)


def program(f: Callable[..., Any], *types: Any) -> Program:
    found: Program = dd.trace(*types)(f)
    return found


SHAPES: dict[str, Program] = {
    "spread": program(spread, X),
    "columns": program(columns, X),
    "halves": program(softmax, dd.f16[5, 33]),
    "two results": program(two_results, X),
    "statistics": program(statistics, dd.f32[4, 6, 5, 5]),
    "turned": program(centred_turned, X),
}
ALL = {name: r.program() for name, r in PROGRAMS.items()} | SHAPES


def kernels(p: Program, options: Options = ROWS) -> tuple[Compiled, list[PrimFunc]]:
    c = compile(p.module, options)
    return c, [k for ks in c.kernels.values() for k in ks if isinstance(k, PrimFunc)]


def drawn(p: Program, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    found = list[Array]()
    for x in p.module.entry.params:
        shape = tuple(d if isinstance(d, int) else 37 for d in x.type.shape)
        if x.type.dtype.is_float:
            found.append(rng.standard_normal(shape).astype(x.type.dtype.numpy))
        else:
            found.append(rng.integers(0, 2, shape).astype(x.type.dtype.numpy))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_rows_are_one_or_two_kernels(name: str) -> None:
    r = PROGRAMS[name]
    joined, apart = kernels(ALL[name])[1], kernels(ALL[name], APART)[1]
    assert [len(joined), len(apart)] == [r.joined, r.apart]
    assert r.joined <= 2
    assert dict(joined[0].attrs)["schedule"] == "rows"
    for k in joined:
        laws.verify(k)


@pytest.mark.parametrize("name", ALL)
def test_each_byte_is_read_and_written_once(name: str) -> None:
    p, traffic = ALL[name], Traffic()
    dd.compile(p, engine=Simt(traffic=traffic), options=ROWS)(*drawn(p))
    for k in kernels(p)[1]:
        row = max(_nbytes(k, b.name) for b in k.params)
        for b in k.params:
            loaded, stored = (t[k.name, b.name] for t in (traffic.read, traffic.written))
            if b.name in k.outputs:
                assert (loaded, stored) == (0, _nbytes(k, b.name)), b.name
            elif _nbytes(k, b.name) == row or len(k.params) == 2:
                assert (loaded, stored) == (_nbytes(k, b.name), 0), b.name
            else:  # every row reads it, and no row reads it twice
                assert stored == 0
                assert loaded <= max(row, 256 * _nbytes(k, b.name)), b.name


def _nbytes(k: PrimFunc, name: str) -> int:
    (b,) = (b for b in k.params if b.name == name)
    return math.prod(d for d in b.shape if isinstance(d, int)) * b.dtype.nbytes


@pytest.mark.parametrize("name", ALL)
def test_every_level_and_engine_agrees(name: str) -> None:
    report = dd.check(ALL[name], engines=["host", "simt"], options=ROWS, tries=1)
    assert report.agree, [str(f) for f in report.findings]


@pytest.mark.parametrize("name", PROGRAMS)
def test_joined_and_separate_kernels_lie_in_the_same_bars(name: str) -> None:
    p = ALL[name]
    inputs = drawn(p, 1)
    truth = dd.interpret(p, *inputs)
    for options in (ROWS, APART):
        assert truth.contains(dd.compile(p, engine="host", options=options)(*inputs))


@pytest.mark.parametrize("shape", [(5, N), (N, 5), (2, 5, N), (70, 5000), (5, 0), (0, 5), (1, 5)])
def test_rows_of_any_length_and_number(shape: tuple[Any, ...]) -> None:
    p = program(log_softmax, dd.f32[shape])
    assert len(kernels(p)[1]) == 1
    report = dd.check(p, engines=["host"], options=ROWS, tries=1)
    assert not report.findings, [str(f) for f in report.findings]


def test_a_short_symbolic_row_is_kept_and_a_long_one_is_read_at_each_stage() -> None:
    """A long one is folded in one pass, and read again for its results."""
    for most, reads in ((3000, 1), (1 << 20, 2)):
        p = program(softmax, dd.f32[3, dd.dim("n", 0, most)])
        traffic, (kernel,) = Traffic(), kernels(p)[1]
        dd.compile(p, engine=Simt(traffic=traffic), options=ROWS)(*drawn(p))
        assert traffic.read[kernel.name, "x"] == reads * 3 * 37 * 4


def test_a_row_is_held_or_read_again_as_the_run_chooses() -> None:
    """Softmax takes the largest, adds up, and divides: three reads unless the row is held."""
    p, most = program(softmax, dd.f32[3, dd.dim("n", 0, 3000)]), 3 * 37 * 4
    for force, reads in (("rows", 1), ("looped", 3)):
        options, traffic = ROWS.changed({"kernels.variants": 2, "kernels.force": force}), Traffic()
        dd.compile(p, engine=Simt(traffic=traffic), options=options)(*drawn(p))
        assert {n for (_, name), n in traffic.read.items() if name == "x"} == {reads * most}


def test_a_thread_that_cannot_hold_its_part_of_a_row_is_refused() -> None:
    (loops,) = kernels(program(softmax, dd.f32[64, 300]))[0].loops.values()
    point = Point.of("rows", groups=8, keep=1, lanes=4, online=0, wide=1)
    with pytest.raises(dd.DidymaError, match="values that go together"):
        dispatch.schedule(loops, ROWS, [point])
    dispatch.schedule(loops, ROWS, [Point.of("looped", groups=8, lanes=4, online=0, wide=1)])


def standardised(x: dd.Tensor, a: dd.Tensor, b: dd.Tensor, c: dd.Tensor) -> Any:
    """The result of a fold with the rows of four arrays is stored, and folded twice."""
    y = (x - dd.mean(x, axis=-1, keepdims=True)) * a + b * c
    spread = dd.mean(y * y, axis=-1, keepdims=True)
    return y, y - dd.max(y - spread, axis=-1, keepdims=True)


@pytest.mark.parametrize(("length", "count"), [(100, 1), (600, 2)])
def test_rows_that_registers_do_not_hold_are_not_loaded_more_often(length: int, count: int) -> None:
    small = Options().changed({"target": replace(PORTABLE, name="small", threads=32)})
    p = program(standardised, *[dd.f32[2, length]] * 4)
    moved = dict[bool, int]()
    for joins in (True, False):
        traffic, options = Traffic(), small.changed({"graph.rows": joins})
        dd.compile(p, engine=Simt(traffic=traffic), options=options)(*drawn(p))
        moved[joins] = traffic.read.total() + traffic.written.total()
    assert len(kernels(p, small)[1]) == count
    assert moved[True] < moved[False]


SPECIAL = ([math.inf, 1, 2, 3], [-math.inf] * 4, [math.nan, 0, 1, 2], [-math.inf, 5, 5, -math.inf],
           [math.inf, -math.inf, 0, 1], [0.0, -0.0, -0.0, 0.0], [math.nan] * 4)  # fmt: skip


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("name", ["softmax", "logsumexp", "rms_norm", "softmax_backward"])
def test_rows_with_special_values(name: str, dtype: DType) -> None:
    t, f = getattr(dd, str(dtype))[len(SPECIAL), 4], PROGRAMS[name].f
    p = program(f, *([t] * len(PROGRAMS[name].types)))
    special = np.array(SPECIAL).astype(dtype.numpy)
    others = [np.ones((len(SPECIAL), 4), dtype.numpy) for _ in p.module.entry.params[1:]]
    agrees(p, [special, *others])


def agrees(p: Program, inputs: list[Array]) -> None:
    engines = [engine(name) for name in ("host", "simt")]
    report = levels.check(p.module, inputs, engines, ROWS)
    assert not report.findings, [str(f) for f in report.findings]


@pytest.mark.parametrize("dtype", [DType.I8, DType.U8, DType.I32, DType.I64, DType.U64], ids=str)
def test_rows_of_integers(dtype: DType) -> None:
    def ranges(x: dd.Tensor) -> Any:
        top, first = dd.max(x, axis=1, keepdims=True), dd.argmax(x, axis=1)
        return dd.sum(dd.where(x == top, x, top - x), axis=1), first, top - x

    p = program(ranges, getattr(dd, str(dtype))[9, 50])
    rng = np.random.default_rng(0)
    assert len(kernels(p)[1]) == 1
    agrees(p, [rng.integers(0, 100, (9, 50)).astype(dtype.numpy)])


def test_a_fold_over_no_axes_makes_no_rows() -> None:
    m = parse_module("""
module {
  func @one(%x: bool[3, 1]) -> (%y, %every) attrs(Primitive=1) {
    %every = all(%x, axes=(), keepdims=true) : bool[3, 1]
    %y = logical_and(%x, %every) : bool[3, 1]
  }
  func @main(%x: bool[3, 1]) -> (%y, %every) {
    %y, %every = call @one(%x) : bool[3, 1], bool[3, 1]
  }
}
""")
    x = np.array([[True], [False], [True]])
    report = levels.check(m, [x], [engine("simt"), engine("host")], Options())
    assert not report.findings
    assert report.levels[-1].checked


def test_a_row_is_its_folds_and_then_its_elements() -> None:
    (loops,) = kernels(ALL["softmax"])[0].loops.values()
    s: Stmt = loops.body
    kinds: list[type[Stmt]] = []
    while isinstance(s, (For, Fold)):
        kinds.append(type(s))
        s = s.body
    assert kinds == [For, Fold, Fold, For]


@pytest.mark.parametrize("wide", [1, 2, 4])
@pytest.mark.parametrize(("groups", "width"), [(1, 32), (4, 64), (8, 16), (8, 128)])
@pytest.mark.parametrize("recipe", ["rows", "looped"])
def test_points_of_the_recipes_compute_the_same(
    recipe: str, groups: int, width: int, wide: int
) -> None:
    (loops,) = kernels(ALL["softmax_backward"])[0].loops.values()
    point = Point.of(recipe, groups=groups, lanes=width, wide=wide)
    (kernel,) = dispatch.schedule(loops, ROWS, [point])
    laws.verify(kernel)
    rng = np.random.default_rng(0)
    shapes = {b.name: tuple(d for d in b.shape if isinstance(d, int)) for b in kernel.params}
    operands = {n: rng.standard_normal(shapes[n], np.float32) for n in kernel.inputs}
    y, g = (operands[n].reshape(6, 100) for n in "yg")
    out = {kernel.outputs[0]: np.zeros(shapes[kernel.outputs[0]], np.float32)}
    lanes.run(kernel, {**operands, **out}, {})
    want = y * (g - np.sum(g * y, axis=1, keepdims=True))
    np.testing.assert_allclose(next(iter(out.values())).reshape(6, 100), want, rtol=1e-4, atol=1e-5)


def turned(x: dd.Tensor) -> Any:
    return dd.sum(x, axis=0), dd.sum(x, axis=1)


def unrelated(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
    return y - dd.sum(x, axis=1, keepdims=True)


def crosswise(x: dd.Tensor) -> dd.Tensor:
    """Each element is read with the sum of another row than its own."""
    return x - dd.sum(x, axis=1)


def mixed(x: dd.Tensor) -> dd.Tensor:
    """Rows are of other elements after the reshape."""
    total = dd.sum(x, axis=1, keepdims=True)
    return dd.reshape(x, (4, 9)) - dd.sum(dd.reshape(x - total, (4, 9)), axis=1, keepdims=True)


def product(x: dd.Tensor) -> dd.Tensor:
    """A matrix product stands between two folds of the same rows."""
    centred = x - dd.mean(x, axis=1, keepdims=True)
    return centred - dd.mean((centred @ x) * x, axis=1, keepdims=True)


def picked(x: dd.Tensor, at: dd.Tensor) -> dd.Tensor:
    return dd.sum(dd.take_along_axis(dd.log_softmax(x, axis=1), at, axis=1))


@pytest.mark.parametrize(
    ("f", "types", "times"),
    [
        (softmax, (X,), 2),
        (two_results, (X,), 3),
        (turned, (X,), 0),
        (unrelated, (X, X), 0),
        (crosswise, (dd.f32[8, 8],), 0),
        (mixed, (dd.f32[6, 6],), 0),
        (product, (dd.f32[8, 8],), 1),
        (softmax, (dd.f32[2, 100_000],), 0),
        (picked, (dd.f32[2, 100_000], dd.i64[2, 1]), 0),
        (picked, (dd.f32[2, 100], dd.i64[2, 1]), 2),
    ],
)
def test_groups_are_joined_where_that_saves_traffic(
    f: Callable[..., Any], types: tuple[Any, ...], times: int
) -> None:
    p, heard = program(f, *types), list[str]()
    joined = compile(p.module, ROWS, heard=lambda decision, _: heard.append(decision))
    assert heard.count(JOINED) == times
    assert _calls(joined) == _calls(kernels(p, APART)[0]) - times
    if times:
        report = dd.check(p, engines=["host"], options=ROWS, tries=1)
        assert report.agree, [str(x) for x in report.findings]


def _calls(c: Compiled) -> int:
    return sum(n.op == CALL for n in c.fused.entry.nodes)


def softmax_and_its_logarithm(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    return dd.softmax(x, axis=1), dd.log_softmax(x, axis=1)


def entropy(x: dd.Tensor) -> dd.Tensor:
    return -dd.sum(dd.softmax(x, axis=1) * dd.log_softmax(x, axis=1), axis=1)


def scales(x: dd.Tensor, y: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor, dd.Tensor]:
    """What is computed of a row as a whole is a result, too."""
    total = dd.sum(x, axis=1, keepdims=True)
    root = dd.sqrt(total * total + 1.0)
    return x / root + y, x * dd.exp(-root), root


@pytest.mark.parametrize(
    ("f", "types"),
    [
        (softmax_and_its_logarithm, (X,)), (softmax_and_its_logarithm, (dd.bf16[5, 1000],)),
        (entropy, (X,)), (scales, (X, X)),
    ],
)  # fmt: skip
def test_what_is_computed_of_rows_alone_stands_between_no_kernels(
    f: Callable[..., Any], types: tuple[Any, ...]
) -> None:
    p = program(f, *types)
    assert _calls(kernels(p)[0]) == 1
    report = dd.check(p, engines=["host", "simt"], options=ROWS, tries=1)
    assert report.agree, [str(x) for x in report.findings]


def detour(x: dd.Tensor) -> dd.Tensor:
    """What is computed of rows asks for a product of what the fold of the same rows gives, too."""
    total = dd.sum(x, axis=1, keepdims=True)
    product = (x * total) @ x
    return x * (dd.sqrt(dd.abs(total)) + product[:, :1])


def test_groups_that_need_others_are_not_joined_around_them() -> None:
    p = program(detour, dd.f32[8, 8])
    report = dd.check(p, engines=["host"], options=ROWS, tries=2)
    assert report.agree, [str(x) for x in report.findings]
