"""Every elementwise op: its value, its bar and its loop rule, on every meeting of corner values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from didyma.refimpl.ir.loop import Cast, Expr
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops import OPS, bars
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.spec import Fold, Index, Kind, Op, Read, Scatter
from tests.refimpl.ops.corners import cases, reader, sweep
from tests.refimpl.ops.machine import Machine

ELEMENTWISE = [op for op in OPS.values() if op.kind is Kind.ELEMENTWISE]


def reads(types: list[TensorType]) -> list[Read]:
    def read(k: int) -> Read:
        def at(index: Index) -> Expr:
            del index
            return reader(k, types[k].dtype)

        return at

    return [read(k) for k in range(len(types))]


def stored(x: Any, out: TensorType) -> Array:
    shape = tuple(int(d) for d in out.shape if isinstance(d, int))
    return np.broadcast_to(np.asarray(x).astype(out.dtype.numpy), shape)


def wrong(bar: Bar, got: Array, out: TensorType, operands: list[Array]) -> str:
    """Say which elements are outside their bars."""
    verdict = bars.judge(bar, got, out.dtype)
    if verdict.ok.all():
        return ""
    at = tuple(np.argwhere(~verdict.ok)[0])
    grid = np.broadcast_arrays(*operands)
    args = [x[at] for x in grid]
    return f"{args}: got {got[at]!r}, want {bar.c[at]!r} ± {bar.e[at]} ({(~verdict.ok).sum()} bad)"


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_value_and_loop_rule_are_inside_the_bar(op: Op) -> None:
    rng = np.random.default_rng(1)
    for dtypes, attrs in cases(op):
        operands, out = sweep(op, dtypes, attrs)
        types = [TensorType(DType.of(x), x.shape) for x in operands]
        exact = [bars.exact(x) for x in operands]
        bar = op.apply(attrs).bar(exact, types, out, Contract())
        value = op.apply(attrs).eval(operands, out)
        index = tuple(reader(9, DType.I64) for _ in out.shape)
        rule = op.apply(attrs).element(index, reads(types), types, out)
        assert not isinstance(rule, (Fold, Scatter))
        assert rule.dtype is out.dtype.compute, (op.name, dtypes, rule)
        with np.errstate(all="ignore"):
            bar = bars.store(bar, out.dtype)
            wide = [x.astype(DType.of(x).compute.numpy) for x in operands]
            plain = Machine(wide).run(rule)
            noisy = Machine(wide, rng).run(rule)
        assert value.dtype == out.dtype.numpy
        assert bar.c.shape == bar.e.shape == value.shape == out.shape
        where = f"{op.name} of {dtypes} {attrs}: "
        for kind, got in (("value", value), ("rule", plain), ("noisy", noisy)):
            assert np.asarray(got).dtype == (value if kind == "value" else plain).dtype
            with np.errstate(all="ignore"):
                text = wrong(bar, stored(got, out), out, operands)
            assert not text, f"{where}{kind}: {text}"


def test_casts_round_through_f32() -> None:
    rule = (
        OPS["cast"]
        .apply({"dtype": DType.F16})
        .element(
            (),
            reads([TensorType(DType.F64)]),
            [TensorType(DType.F64)],
            TensorType(DType.F16),
        )
    )
    x = reader(0, DType.F64)
    assert rule == Cast(Cast(Cast(x, DType.F32), DType.F16), DType.F32)
