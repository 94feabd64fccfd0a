"""The long benches in a short form: what they hold on a million values holds on a few thousand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from didyma.codegen.runtime.registry import engine, probe
from didyma.refimpl.ir.types import FLOATS, PLAIN, DType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.bars import Contract
from didyma.refimpl.ops.spec import Kind
from tests.bench import bars, corners, programs, ring, ring_ptx, round_trip, sweep, truth
from tests.bench.bed import COMPARISONS, Implementation
from tests.bench.kernels import POOL
from tests.bench.page import Shards, put
from tests.refimpl.ops.definitions import function


def test_correct_implementations_are_inside_and_faults_outside() -> None:
    tally = bars.run(range(7_000_000, 7_000_900), 96)
    assert not tally.alarms, tally.alarms[0][1]
    assert tally.undecided < 0.01 * tally.elements

    def seen(kind: str) -> float:
        planted = sum(n for k, n in tally.planted.items() if k.startswith(kind))
        return sum(n for k, n in tally.seen.items() if k.startswith(kind)) / planted

    assert seen("4 ulp") > 0.75  # of 900 kernels: the share of many is in docs/bars.md
    assert seen("NaN") > 0.97
    assert seen("infinity") > 0.97
    assert seen("sign of zero") == 1
    assert seen("lost") > 0.97
    assert bars.quantile(tally.width, 0.5) <= 1
    ops = {k.split()[0] for k in tally.used}
    assert {"sum", "matmul", "tanh", "where", "cast", "pow", "floor_divide"} <= ops


@pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")
def test_the_ring_sees_faults_in_folds_after_a_compiler() -> None:
    with np.errstate(all="ignore"):
        rows = [*ring_ptx.folds(8, np.random.default_rng(2))]
    assert len(rows) == 12
    assert {(share, unknown) for _, _, share, unknown in rows} == {("100 %", 0)}


def test_the_ring_sees_every_fault_in_a_fold_and_no_legal_order() -> None:
    with np.errstate(all="ignore"):
        for kind in ring.FOLDS:
            for fault, seen in ring.planted(kind, 1 << 12, 16).items():
                assert seen.by["ring"] == seen.planted == 16, fault
                assert not seen.alarms
        assert ring.narrow(64, 4).by["ring"] == 0
        assert [differ for _, _, differ in ring.orders(8000).values()] == [0, 0, 0, 0]


# In the beds of tests/refimpl/ops/test_bars_of_folds.py.
FOLDED = {"conv", "max_pool", "avg_pool", "cumulative_prod", "scatter"}
# Exact whatever an implementation does: which number it is, of its own dtype or a narrower one.
EXACT = {"isnan", "isinf", "isfinite", "signbit", "saturating_cast", "bitcast", "argmin", "argmax"}


def test_every_op_on_floats_has_a_bed() -> None:
    moves = {n for n, op in OPS.items() if op.kind in (Kind.INJECTIVE, Kind.RESHAPE)}
    rounds = {n for n, op in OPS.items() if set(op.dtypes) & set(FLOATS)} - moves - EXACT
    assert rounds - FOLDED - set(COMPARISONS) <= set(POOL)


def test_the_bed_reaches_the_edge_of_bars() -> None:
    """Implementations use most of what a contract allows: a bar cannot be much too wide."""
    with np.errstate(all="ignore"):
        x = np.linspace(0.5, 1.5, 4000, dtype=np.float32)
        doer = Implementation(np.random.default_rng(0), Contract(), jitter=True)
        off = np.abs(doer.function("exp", x).astype(np.float64) - np.exp(x.astype(np.float64)))
    used = off / np.spacing(np.exp(x.astype(np.float64)).astype(np.float32))
    assert 3.5 < used.max() <= 4


SWEPT = [t for t in sweep.tasks() if t.source.nbytes != 2 or t.op.name in ("exp", "round")]


@pytest.mark.parametrize("name", sorted({t.op.name for t in SWEPT}))
def test_ops_of_one_operand_are_inside_their_bars(name: str) -> None:
    for task in SWEPT:
        if task.op.name == name:
            done = sweep.run(task, 1500, "host")
            assert not done["wrong"], done["wrong"][0]
            assert max(done["seen"].values(), default=0.0) <= 4


@pytest.mark.parametrize("name", sorted(truth.FUNCTIONS))
def test_enclosures_agree_with_multiple_precision(name: str) -> None:
    """Arb and mpmath, of one real function: to 64 bits."""
    if name in ("reciprocal", "square"):
        return
    task = next(t for t in SWEPT if t.op.name == name and t.source is DType.F64)
    x = sweep.sample(task, 400, seed=5)
    with np.errstate(all="ignore"):
        ours = truth.function(name, x, DType.F64)
    for v, got in zip(x.tolist(), ours, strict=True):
        want = function(name, v)
        if isinstance(want, float):  # zero with a sign, infinity or NaN
            near = float(got)  # what under- or overflows f64 is a zero or an infinity there
            assert near == want or (np.isnan(near) and np.isnan(want)), (name, v, got, want)
        elif abs(want) < 1e4000 and abs(want) > 1e-4000:
            size = abs(want)
            high = float(got)
            low = float(got - np.longdouble(high)) if np.isfinite(high) else 0.0
            if np.isfinite(high) and abs(high) > 1e-290:
                assert abs(want - high - low) <= size * 2.0**-62, (name, v, got, want)


def test_sums_of_all_float_dtypes_are_swept() -> None:
    """The sweep has every op of one operand, and every float dtype of each that takes floats."""
    pairs = {(t.op.name, t.source) for t in sweep.tasks()}
    assert {op.name for op in sweep.UNARY} == sweep.KNOWN & {op.name for op in sweep.UNARY}
    for op in sweep.UNARY:
        assert {(op.name, d) for d in op.dtypes if d in PLAIN} <= pairs
    assert {d for n, d in pairs if n == "exp"} == set(FLOATS)


def test_random_programs_are_not_accused() -> None:
    found = programs.judge(9_000_000, 9_000_040, ["host"], lambda _: None)
    assert found["programs"] == 40
    assert not found["findings"]
    assert found["checked"] > 0.99 * found["elements"]


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.I32, DType.U8])
def test_corner_values_at_every_level(dtype: DType) -> None:
    names = (
        sorted(OPS)[int(dtype is DType.BF16) :: 4] if dtype is not DType.F32 else sorted(OPS)[::2]
    )
    rows, wrong = corners.run([engine("host")], names, [dtype], drawn=1)
    assert not wrong, wrong[0]
    assert rows[dtype].uses > 10
    assert rows[dtype].checked > 0.9 * rows[dtype].total


def test_texts_of_all_levels_read_back() -> None:
    done = round_trip.trips(range(8_000_001, 8_000_101))
    assert not done["wrong"], done["wrong"][0]
    assert {k.split(",")[0] for k in done["done"]} == {"graph", "loop", "program"}


def test_damaged_texts_of_all_levels_are_refused() -> None:
    done = round_trip.mutants(range(8_000_001, 8_000_401))
    assert not done["wrong"], done["wrong"][0]
    assert done["done"]["parse"] > 100
    assert done["slowest"] < 10


def test_ranges_are_kept_and_not_run_again(tmp_path: Path) -> None:
    file = tmp_path / "shards.jsonl"
    first = Shards(file)
    assert list(first.missing(0, 25, 10)) == [range(10), range(10, 20), range(20, 25)]
    first.keep(range(10), {"n": 1})
    first.keep(range(20, 25), {"n": 2})
    again = Shards(file)
    assert list(again.missing(0, 25, 10)) == [range(10, 20)]
    assert again.total("n") == 3


def test_a_table_replaces_the_one_before(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x -->\nold\n<!-- end of x -->\nb\n")
    put("x", ["new"], page)
    put("x", ["newer"], page)
    assert page.read_text() == "a\n<!-- x -->\n\nnewer\n\n<!-- end of x -->\nb\n"
    with pytest.raises(AssertionError, match="no section y"):
        put("y", [], page)
