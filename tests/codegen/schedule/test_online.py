"""Two folds of a row in one pass: fewer reads, and the values of folding the row twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import probe
from didyma.codegen.runtime.simt import Simt, Traffic
from didyma.codegen.runtime.simt.engine import SimtKernels
from didyma.codegen.schedule.dispatch import points
from didyma.fuzz import levels
from didyma.oracle import chains
from didyma.refimpl.interp.graph import bars
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.loop import (
    AttrStmt,
    Barrier,
    Binary,
    Exchange,
    For,
    Let,
    Prefetch,
    PrimFunc,
    Store,
    Var,
)
from didyma.refimpl.ir.target import SM_90A, Target
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ir.walk import stmts
from didyma.refimpl.ops.bars import Contract, exact, judge
from didyma.tracer.tracing import Program

LENGTH = 96
INF = np.inf


def softmax(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x, axis=1)


def log_sum(x: dd.Tensor) -> dd.Tensor:
    return dd.logsumexp(x, axis=1)


def variance(x: dd.Tensor) -> dd.Tensor:
    return dd.var(x, axis=1)


def normalised(x: dd.Tensor) -> dd.Tensor:
    centred = x - dd.mean(x, axis=1, keepdims=True)
    return centred * dd.rsqrt(dd.mean(centred * centred, axis=1, keepdims=True) + 1e-5)


def masked(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(dd.where(x > 0, x * 0.5, -INF), axis=1)


FOUND: dict[str, tuple[Callable[..., Any], int]] = {
    "softmax": (softmax, 2), "log_sum": (log_sum, 1), "variance": (variance, 1),
    "normalised": (normalised, 2), "masked": (masked, 2),
}  # fmt: skip


def nearest(x: dd.Tensor) -> dd.Tensor:
    """The smallest element stands in place of the largest one."""
    return dd.sum(dd.exp(dd.min(x, axis=1, keepdims=True) - x), axis=1)


def scaled(x: dd.Tensor) -> dd.Tensor:
    """The exponents are not distances from the largest element."""
    return dd.sum(dd.exp(x * 2.0 - dd.max(x, axis=1, keepdims=True)), axis=1)


def weighted(x: dd.Tensor) -> dd.Tensor:
    """The terms are no exponentials alone."""
    return dd.sum(x * dd.exp(x - dd.max(x, axis=1, keepdims=True)), axis=1)


def apart(x: dd.Tensor) -> dd.Tensor:
    """The squares are of distances from something else than the mean."""
    return dd.sum(dd.square(x - dd.sum(x, axis=1, keepdims=True) / 95.0), axis=1)


def product(x: dd.Tensor) -> dd.Tensor:
    """The distances are multiplied by other ones."""
    mean = dd.mean(x, axis=1, keepdims=True)
    return dd.sum((x - mean) * (x - 2.0 * mean), axis=1)


def pinned(p: Program, online: int, lanes: int = 32, groups: int = 1, wide: int = 4) -> Options:
    """Return options by which threads read rows again, or take two folds in one pass."""
    return chosen(p, f"looped(groups={groups}, lanes={lanes}, online={online}, wide={wide})")


def held(p: Program, online: int, lanes: int = 32, groups: int = 1, wide: int = 4) -> Options:
    """Return options by which threads hold rows, and meet for two folds at once or apart."""
    (loops,) = compile(p.module, Options(), until="lower").loops.values()
    tables = {x.recipe: x.table for (x,) in points(loops, Options())}
    keep = "keep=0, " if "keep" in tables["rows"] else ""
    return chosen(p, f"rows(groups={groups}, {keep}lanes={lanes}, online={online}, wide={wide})")


def chosen(p: Program, point: str, target: str | Target = "portable") -> Options:
    options = Options(target=target)
    (name,) = compile(p.module, options, until="lower").loops
    return options.changed({"kernels.choices": f"{name}: {point}"})


def program(
    f: Callable[..., Any], dtype: Any = dd.f32, rows: int = 4, length: int = LENGTH
) -> Program:
    types: tuple[Any, ...] = (dtype[rows, length],)
    found: Program = dd.trace(*types)(f)
    return found


def rows_of(numbers: int) -> Array:
    """Return rows in whose parts special values stand, and rows of many sizes."""
    rng = np.random.default_rng(numbers)
    x = rng.standard_normal((16, LENGTH)) * 10.0 ** rng.integers(-3, 4, (16, 1))
    at, half = rng.integers(LENGTH), LENGTH // 2
    x[1], x[2, : 3 * half // 2], x[3, half:] = -INF, -INF, -INF
    x[4, at], x[5, at], x[6, at] = INF, -INF, np.nan
    x[7], x[8], x[9] = 3.25, 3e38, 1e20
    x[10], x[11] = np.arange(LENGTH) / 64, -np.arange(LENGTH) / 64
    x[12, :half], x[13, 0] = 1e6, 1e30
    x[14, 0], x[14, -1] = INF, -INF
    x[15] += 1e4
    return x


@pytest.mark.parametrize("online", [1, 2, 8])
@pytest.mark.parametrize("name", FOUND)
def test_one_pass_reads_a_row_once_less(name: str, online: int) -> None:
    f, reads = FOUND[name]
    p = program(f)
    x = rows_of(0)[:4].astype(np.float32)
    for turns, want in ((0, reads + 1), (online, reads)):
        traffic = Traffic()
        dd.compile(p, engine=Simt(traffic=traffic), options=pinned(p, turns))(x)
        assert sum(traffic.read.values()) == want * x.nbytes


@pytest.mark.parametrize("name", ["softmax", "normalised"])
def test_threads_that_hold_a_row_use_no_element_while_they_meet(name: str) -> None:
    """A loop over elements comes before the first barrier, and for the results after the last."""
    p, between = program(FOUND[name][0], rows=8), list[int]()
    x = rows_of(0)[:8].astype(np.float32)
    for online in (0, 1):
        options, traffic = held(p, online, lanes=64, groups=2, wide=2), Traffic()
        exe = dd.compile(p, engine=Simt(traffic=traffic), options=options)
        assert dd.interpret(p, x).contains(exe(x))
        assert sum(traffic.read.values()) == x.nbytes
        (kernels,) = compile(p.module, options, until="schedule").kernels.values()
        found = [s for k in kernels if isinstance(k, PrimFunc) for s in stmts(k.body)]
        first, *_, last = (n for n, s in enumerate(found) if isinstance(s, Barrier))
        between.append(sum(isinstance(s, For) for s in found[first:last]))
    assert between[0] > between[1] == 0


SMALL = replace(SM_90A, threads=128, shared=32 << 10, dynamic=32 << 10)


@pytest.mark.parametrize(
    ("name", "recipe", "blocks", "online", "shelf", "length"),
    [
        ("softmax", "looped(back=1, groups", 1, 4, 12, 66_000),
        ("normalised", "looped(back=1, groups", 1, 2, 12, 66_000),
        ("softmax", "cluster(back=1, blocks", 2, 4, 12, 66_000),
        ("normalised", "cluster(back=1, blocks", 8, 4, 12, 66_000),
        ("softmax", "looped(back=1, groups", 1, 4, 12, 66_001),
        ("normalised", "looped(back=1, groups", 1, 4, 12, 66_003),
        ("normalised", "cluster(back=1, blocks", 8, 4, 12, 66_001),
    ],
)
def test_what_one_pass_reads_first_stays_in_shared_memory(
    name: str, recipe: str, blocks: int, online: int, shelf: int, length: int
) -> None:
    """A thread reads again what is not on the shelf of its block."""
    p, x = dd.trace(dd.f32[8, length])(FOUND[name][0]), np.random.default_rng(3)
    point = f"{recipe}={blocks}, lanes=128, online={online}, shelf={{}}, wide=4)"
    rows, again = x.standard_normal((8, length), np.float32), list[int]()
    for held in (shelf, 0):
        traffic, options = Traffic(), chosen(p, point.format(held), SMALL)
        exe = dd.compile(p, engine=Simt(traffic=traffic), options=options)
        assert dd.interpret(p, rows).contains(exe(rows))
        again.append(sum(traffic.read.values()) - rows.nbytes)
        assert ("load4_pass_f32(&x" in exe.text) == (held > 0)
    assert again == [8 * 4 * (length - shelf * blocks * 512), rows.nbytes]


def test_threads_announce_a_later_row_before_they_meet() -> None:
    """It is the one that the next block takes, as two blocks run at once."""
    p: Program = dd.trace(dd.f32[8, 66_000])(softmax)
    target = replace(SMALL, name="some", processors=2)
    point = "looped(back=1, groups=1, lanes=128, online=4, shelf=12, wide=4)"
    (made,) = compile(p.module, chosen(p, point, target), until="schedule").kernels.values()
    found = [s for k in made if isinstance(k, PrimFunc) for s in stmts(k.body)]
    first, *_ = (n for n, s in enumerate(found) if isinstance(s, Prefetch))
    loops = [n for n, s in enumerate(found) if isinstance(s, For) and s.extent != ix.ONE]
    met = next(n for n, s in enumerate(found) if isinstance(s, Exchange))
    assert max(n for n in loops if n < met) < first < met
    row = next(s.value for s in found if isinstance(s, Let) and s.var.name == "later")
    assert row == Binary("add", Var("row"), ix.index(2))


@pytest.mark.parametrize(
    ("f", "dtype", "processors", "said"),
    [
        (softmax, "f32", 2, True), (softmax, "f32", 8, False), (softmax, "bf16", 2, True),
        (normalised, "f32", 2, True), (normalised, "bf16", 2, False),
    ],
)  # fmt: skip
def test_rows_are_announced_that_a_block_will_take_if_registers_suffice(
    f: Callable[..., Any], dtype: str, processors: int, *, said: bool
) -> None:
    wide = 16 // DType(dtype).nbytes
    p: Program = dd.trace({"f32": dd.f32, "bf16": dd.bf16}[dtype][8, 66_000])(f)
    target = replace(SMALL, name="some", processors=processors)
    point = f"looped(back=1, groups=1, lanes=128, online=4, shelf=12, wide={wide})"
    text = compile(p.module, chosen(p, point, target)).text.source
    assert text.count(f"prefetch_{dtype}(&x[") == said


@pytest.mark.parametrize(("blocks", "passes"), [(4, []), (8, [False, True, True])])
def test_what_is_not_touched_again_passes_by_caches_that_hold_the_rest(
    blocks: int, passes: list[bool]
) -> None:
    """Four blocks leave too much of a row of 4 MiB: what is shelved, and two loops of results."""
    p = dd.trace(dd.f32[256, 1 << 20])(softmax)
    point = f"cluster(back=1, blocks={blocks}, lanes=1024, online=4, shelf=12, wide=4)"
    (made,) = compile(p.module, chosen(p, point, "sm_90a"), until="schedule").kernels.values()
    (kernel,) = (k for k in made if isinstance(k, PrimFunc))
    found = [s.body for s in stmts(kernel.body) if isinstance(s, AttrStmt) and s.key == "cache"]
    stored = [
        any(isinstance(x, Store) and x.buffer in kernel.outputs for x in stmts(s)) for s in found
    ]
    assert stored == passes


def test_a_shelf_that_one_pass_does_not_fill_is_refused() -> None:
    p = dd.trace(dd.f32[8, 102_400])(softmax)
    point = "looped(back=1, groups=1, lanes=1024, online=0, shelf=12, wide=4)"
    options = chosen(p, point, "sm_90a")
    with pytest.raises(dd.DidymaError, match="values that go together"):
        compile(p.module, options)


def test_one_pass_over_kept_values_is_refused() -> None:
    p = program(softmax)
    kept = chosen(p, "rows(groups=1, keep=1, lanes=32, online=1, wide=4)")
    with pytest.raises(dd.DidymaError, match="values that go together"):
        compile(p.module, kept)


@pytest.mark.parametrize("dtype", [dd.f32, dd.bf16])
@pytest.mark.parametrize(("lanes", "groups", "wide"), [(32, 1, 2), (8, 4, 1), (64, 2, 2)])
@pytest.mark.parametrize("name", FOUND)
def test_special_values_are_those_of_folding_twice_where_threads_hold_rows(
    name: str, lanes: int, groups: int, wide: int, dtype: Any
) -> None:
    p = program(FOUND[name][0], dtype, 16)
    exe = dd.compile(p, engine="host", options=held(p, 1, lanes, groups, wide))
    for seed in range(4):
        x = rows_of(seed).astype(dtype.dtype.numpy)
        assert dd.interpret(p, x).contains(exe(x))


@pytest.mark.parametrize("dtype", [dd.f32, dd.f64, dd.bf16])
@pytest.mark.parametrize(
    ("online", "lanes", "groups", "wide"), [(1, 32, 1, 2), (2, 8, 4, 1), (4, 64, 2, 2)]
)
@pytest.mark.parametrize("name", FOUND)
def test_special_values_are_those_of_folding_twice(
    name: str, online: int, lanes: int, groups: int, wide: int, dtype: Any
) -> None:
    p = program(FOUND[name][0], dtype, 16)
    exe = dd.compile(p, engine="host", options=pinned(p, online, lanes, groups, wide))
    for seed in range(4):
        x = rows_of(seed).astype(dtype.dtype.numpy)
        assert dd.interpret(p, x).contains(exe(x))


@pytest.mark.parametrize("pin", [pinned, held])
@pytest.mark.parametrize("dtype", [dd.f32, dd.bf16])
@pytest.mark.parametrize("length", [93, 34, 17])
@pytest.mark.parametrize("name", FOUND)
def test_special_values_of_rows_that_begin_between_accesses(
    name: str, length: int, dtype: Any, pin: Callable[..., Options]
) -> None:
    p = program(FOUND[name][0], dtype, 16, length)
    exe = dd.compile(p, engine="host", options=pin(p, 1, wide=4))
    for seed in range(4):
        x = np.ascontiguousarray(rows_of(seed)[:, -length:]).astype(dtype.dtype.numpy)
        assert dd.interpret(p, x).contains(exe(x))


@pytest.mark.parametrize("pin", [pinned, held])
def test_one_pass_over_rows_with_edges_agrees_at_every_level(pin: Callable[..., Options]) -> None:
    p = dd.trace(dd.f32[4, 93])(normalised)
    report = dd.check(p, engines=["host", "simt"], options=pin(p, 1), tries=2)
    assert report.agree, [str(f) for f in report.findings]


class Whole(Simt):
    """Computes the exponentials that may be 0."""

    def load(self, text: KernelText) -> SimtKernels:
        assert text.source.count("exp_flush_f32(") == 1
        return super().load(replace(text, source=text.source.replace("exp_flush_f32", "exp_f32")))


@pytest.mark.parametrize("pin", [pinned, held])
def test_sums_lose_the_exponentials_that_may_be_zero(pin: Callable[..., Options]) -> None:
    """Each thread's sum has a term of 1, beside terms that f32 holds as subnormal numbers alone."""
    p, x = program(log_sum), np.random.default_rng(5).uniform(-104, 0, (4, LENGTH))
    options, x = pin(p, 1), x.astype(np.float32)
    flushed, whole = (dd.compile(p, engine=e, options=options)(x) for e in (Simt(), Whole()))
    assert np.array_equal(np.asarray(flushed), np.asarray(whole))


def test_what_nvrtc_makes_of_a_sum_has_its_terms() -> None:
    if not (state := probe("ptx")).runs:
        pytest.skip(f"ptx: {state.why}")
    p = program(log_sum)
    report = dd.check(p, engines=["ptx"], options=pinned(p, 2), tries=1)
    assert report.agree, [str(f) for f in report.findings]


@pytest.mark.parametrize("name", FOUND)
def test_every_level_and_engine_agrees_in_bars_of_the_kernels_own_chains(name: str) -> None:
    p = program(FOUND[name][0])
    for options in (pinned(p, 2), held(p, 1)):
        report = dd.check(p, engines=["host", "simt"], options=options, tries=2)
        assert report.agree, [str(f) for f in report.findings]


@pytest.mark.parametrize("pin", [pinned, held])
def test_variances_of_whole_numbers_have_the_roundings_of_corrections(
    pin: Callable[..., Options],
) -> None:
    """Three elements of a thread have a mean that is rounded, where that of the row is whole."""
    p, outside = program(variance, rows=256), list[int]()
    options = pin(p, 1, wide=1)
    compiled = compile(p.module, options)
    ((name, kernels),) = compiled.kernels.items()
    most = chains.longest(kernels, {})
    assert most is not None
    fused, exe = dict(compiled.passes)["fuse"], dd.compile(p, engine="host", options=options)
    for corrections in (0, chains.rescalings(kernels, {}, Contract())):
        contract, wrong = chains.with_chain(Contract(), most, corrections), 0
        for seed in range(8):
            x = np.random.default_rng(seed).integers(-9, 10, (256, LENGTH)).astype(np.float32)
            x[:, 0] -= x.sum(1) % LENGTH
            (bar,) = bars(fused.function(name), fused, [exact(x)], {}, contract)
            y = exe(x)
            assert isinstance(y, np.ndarray)
            wrong += not judge(bar, y, DType.F32).ok.all()
        outside.append(wrong)
    assert outside[0] > outside[1] == 0


@pytest.mark.parametrize("pin", [pinned, held])
def test_parts_whose_means_round_to_one_number_are_corrected_in_the_ring(
    pin: Callable[..., Options],
) -> None:
    """Each mean but the first is above one by less than half a unit in its last place."""
    p, x = program(variance), np.ones((4, LENGTH), np.float32)
    x[:, ::5] += np.float32(2.0**-23)
    compiled = compile(p.module, pin(p, 1))
    report = levels.judged(compiled, [x], [Simt()], details=False, ring=True)
    assert not report.findings, [str(f) for f in report.findings]
    for name in ("kernel", "simt"):
        (level,) = (v for v in report.levels if v.name == name)
        assert level.ring_checked == level.ring_total > 0


@pytest.mark.parametrize("f", [variance, normalised])
def test_the_reference_takes_one_pass_over_whole_numbers_for_correct(f: Callable[..., Any]) -> None:
    p = program(f, rows=256)
    exe = dd.compile(p, engine="host", options=pinned(p, 1, wide=1))
    twice = dd.compile(p, engine="host", options=pinned(p, 0, wide=1))
    differ = False
    for seed in range(4):
        x = np.random.default_rng(seed).integers(-9, 10, (256, LENGTH)).astype(np.float32)
        x[:, 0] -= x.sum(1) % LENGTH
        truth, y = dd.interpret(p, x), exe(x)
        assert isinstance(y, np.ndarray)
        assert truth.contains(y)
        assert not truth.contains(y * np.float32(1 + 2.0**-9))
        differ |= not np.array_equal(y, twice(x))
    assert differ, "two folds of one pass round otherwise"


def test_a_sum_that_nothing_corrects_is_exact_of_whole_numbers() -> None:
    def sums(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        return dd.sum(x, axis=1), dd.sum(x - dd.sum(x, axis=0), axis=1)

    for bar in dd.interpret(program(sums), np.ones((4, LENGTH), np.float32)).bars:
        assert not bar.e.any()


@pytest.mark.parametrize("f", [nearest, scaled, weighted, apart, product])
def test_other_folds_of_one_row_are_not_taken_for_such(f: Callable[..., Any]) -> None:
    (loop,) = compile(program(f).module, Options(), until="lower").loops.values()
    tables = {p.recipe: p.table for (p,) in points(loop, Options())}
    assert "online" not in tables["looped"]


def test_the_model_takes_one_pass_where_a_row_is_not_held_but_on_a_processor() -> None:
    p = program(softmax)
    x = rows_of(1)[:4].astype(np.float32)
    never: dict[str, Any] = {"kernels.held": 0, "kernels.online": 0}
    on_cpu: dict[str, Any] = {"kernels.held": 0, "target": "cpu"}
    for changes, reads in (({}, 1), ({"kernels.held": 0}, 2), (never, 3), (on_cpu, 3)):
        traffic = Traffic()
        dd.compile(p, engine=Simt(traffic=traffic), options=Options().changed(changes))(x)
        assert sum(traffic.read.values()) == reads * x.nbytes
