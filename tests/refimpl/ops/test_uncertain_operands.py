"""Bars of operands that are bars themselves: whatever the operands were, the result is inside."""

from collections.abc import Sequence

import numpy as np
import pytest

from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import bars
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.spec import Op
from tests.refimpl.ops import draw
from tests.refimpl.ops.ours import OURS

SINGLE = (DType.F32, DType.F64)
FLOAT_OPS = [op for op in OURS if DType.F32 in op.dtypes and op.arity[0] > 0]
NAMES = [op.name for op in FLOAT_OPS]


def widened(x: Array, dice: draw.Dice, least: float) -> Bar:
    """An operand with an error around it; indices stay exact."""
    b = bars.exact(x, DType.of(x))
    if x.dtype.kind != "f":
        return b
    size = np.where(np.isfinite(b.c), np.abs(b.c), 0).astype(np.float64)
    e = size * 10.0 ** dice.rng.integers(-6, -1, x.shape)
    sure = (dice.rng.integers(0, 3, x.shape) == 0) | ~np.isfinite(b.c)
    return Bar(b.c, np.where(sure, 0.0, e + least))


def somewhere(b: Bar, x: Array, dice: draw.Dice) -> Array:
    """An operand inside its bar: at one of the ends, or between."""
    if x.dtype.kind != "f":
        return x
    where = dice.rng.choice([-1.0, 1.0, 0.3, -0.6], x.shape)
    moved = b.c + where * b.e
    y = moved.astype(x.dtype)
    return np.where((b.e > 0) & (np.abs(y - b.c) <= b.e), y, x).astype(x.dtype)


def verdict(op: Op, u: draw.Use, operands: Sequence[Bar], out: Array) -> bars.Verdict:
    with np.errstate(all="ignore"):
        bar = op.apply(u.attrs).bar(operands, u.types, u.result, Contract())
        return bars.judge(bars.store(bar, u.result.dtype), out, u.result.dtype)


@pytest.mark.parametrize("op", FLOAT_OPS, ids=NAMES)
def test_results_of_operands_within_their_bars_are_inside(op: Op) -> None:
    decided = 0
    for seed in range(16):
        dice = draw.Dice(3000 + seed)
        u = draw.use(op, draw.sample(op, dice, SINGLE), dice, wild=seed % 4 != 0)
        with np.errstate(all="ignore"):
            operands = [widened(a, dice, 1e-3 if seed % 2 else 0.0) for a in u.args]
            for _ in range(3):
                args = tuple(somewhere(b, a, dice) for b, a in zip(operands, u.args, strict=True))
                out = op.apply(u.attrs).eval(args, u.result)
                v = verdict(op, u, operands, out)
                assert np.all(v.ok), (seed, u, operands, args, out)
                decided += int((~v.undecided).sum())
    assert decided > 100


@pytest.mark.parametrize(
    "name", ["sum", "mean", "max", "matmul", "conv", "avg_pool", "cumulative_sum", "prod"]
)
def test_errors_of_operands_are_not_made_larger_than_they_are(name: str) -> None:
    op = next(o for o in OURS if o.name == name)
    seen: list[float] = []
    for seed in range(30):
        dice = draw.Dice(seed)
        u = draw.use(op, draw.sample(op, dice, [DType.F64]), dice, wild=False)
        positive = tuple(np.abs(a) + 1 for a in u.args)
        if any(a.size > 200 for a in positive):
            continue
        operands = [Bar(a.astype(np.longdouble), 1e-3 * a) for a in positive]
        top = op.apply(u.attrs).eval(tuple(a * (1 + 1e-3) for a in positive), u.result)
        with np.errstate(all="ignore"):
            bar = op.apply(u.attrs).bar(operands, u.types, u.result, Contract())
            gap = np.asarray(top - bar.c, np.float64)
        sure = np.isfinite(bar.e) & np.isfinite(gap) & (gap > 0)
        seen += (bar.e / np.where(sure, gap, 1))[sure].tolist()
    # all errors upwards reach the end of the bar, and the bar ends not far beyond
    assert min(seen) > 0.999
    assert np.median(seen) < 1.01
    assert max(seen) < 1.5
