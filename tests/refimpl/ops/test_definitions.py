"""Elementwise values against their definitions, on every meeting of corner values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from didyma.refimpl.ir.types import ALL, F8, Array, DType, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Kind, Op
from tests.refimpl.ops import small_floats
from tests.refimpl.ops.corners import cases, corners, sweep
from tests.refimpl.ops.definitions import mp, of_floats, of_ints, wrap

OTHERWISE = ("where", "cast", "saturating_cast", "bitcast")
NAMED = [op for op in OPS.values() if op.kind is Kind.ELEMENTWISE and op.name not in OTHERWISE]
BITS = {DType.F64: (53, -1074), DType.F32: (24, -149), DType.F16: (11, -24), DType.BF16: (8, -133)}
MOST = {DType.F64: 1023, DType.F32: 127, DType.F16: 15, DType.BF16: 127}


def ulp(v: Any, dtype: DType) -> Any:
    """Last place of a dtype at a real number."""
    bits, least = BITS[dtype]
    exponent = int(mp.floor(mp.log(abs(v), 2))) if v != 0 else least
    return mp.mpf(2) ** max(exponent - bits + 1, least)


def fault(got: float, want: Any, dtype: DType, share: float) -> str:
    """Say how a float differs from the exact value; ``share`` of an ulp may separate them."""
    if isinstance(want, (float, int)):
        if math.isnan(want) or math.isnan(got):
            return "" if math.isnan(want) == math.isnan(got) else "NaN"
        if math.isinf(want) or (want == 0):
            same = got == want and math.copysign(1, got) == math.copysign(1, want)
            return "" if same else "special"
        want = mp.mpf(want)
    if math.isnan(got):
        return "NaN"
    if (want < 0) != (math.copysign(1.0, got) < 0):
        return "sign"
    limit = mp.mpf(2) ** (MOST[dtype] + 1)
    if math.isinf(got):
        return "" if abs(want) > limit - 2 * ulp(limit / 2, dtype) else "overflow"
    if abs(want) > limit:
        return "no overflow"
    off = abs(mp.mpf(got) - want) / ulp(want, dtype)
    return "" if off <= share else f"{float(off):.3f} ulp"


# f16 and bf16 are rounded to f32 first: a little more than half an ulp.
SHARE = {DType.F32: 0.5 + 2.0**-20, DType.F16: 0.5 + 2.0**-10, DType.BF16: 0.5 + 2.0**-10}
F64_LIBRARY = 2.0  # of f64 functions, by the platform's library
ROUNDED = {"add", "subtract", "multiply", "divide", "square", "reciprocal", "sqrt", "remainder"}


def allowed(op: Op, dtype: DType) -> float:
    if op.name == "floor_divide":
        return 2.0
    if dtype is DType.F64:
        return 0.5 if op.name in ROUNDED else F64_LIBRARY
    return SHARE[dtype]


def of_list(x: Array) -> list[Any]:
    return x.astype(DType.of(x).compute.numpy).reshape(-1).tolist()


@pytest.mark.parametrize("op", NAMED, ids=lambda op: op.name)
def test_floats(op: Op) -> None:
    for dtypes, attrs in cases(op):
        dtype = dtypes[0]
        if not dtype.is_float:
            continue
        operands, out = sweep(op, dtypes, attrs)
        if len(operands) == 3:
            operands = [
                x.reshape(-1)[::3].reshape([-1 if d > 1 else 1 for d in x.shape]) for x in operands
            ]
            out = op.infer([TensorType(dtype, x.shape) for x in operands], attrs)
        value = op.apply(attrs).eval(operands, out)
        grid = [g.reshape(-1).astype(np.float64) for g in np.broadcast_arrays(*operands)]
        for i, got in enumerate(of_list(value)):
            args = [float(g[i]) for g in grid]
            want = of_floats(op.name, args)
            if want is None:
                continue
            if out.dtype is DType.BOOL:
                assert got is want, (op.name, dtype, args, got, want)
            else:
                text = fault(got, want, dtype, allowed(op, dtype))
                assert not text, (op.name, dtype, args, got, str(want)[:30], text)


@pytest.mark.parametrize("op", NAMED, ids=lambda op: op.name)
def test_integers(op: Op) -> None:
    for dtypes, attrs in cases(op):
        dtype = dtypes[0]
        if not dtype.is_int:
            continue
        operands, out = sweep(op, dtypes, attrs)
        value = op.apply(attrs).eval(operands, out)
        grid = [g.reshape(-1).tolist() for g in np.broadcast_arrays(*operands)]
        for i, got in enumerate(value.reshape(-1).tolist()):
            args = [g[i] for g in grid]
            want = of_ints(op.name, args, dtype)
            if out.dtype is not DType.BOOL:
                want = wrap(int(want), 8 * dtype.nbytes, dtype.is_signed)
            assert got == want, (op.name, dtype, args)


@pytest.mark.parametrize(
    "op", [op for op in NAMED if DType.BOOL in op.dtypes], ids=lambda o: o.name
)
def test_truth_values(op: Op) -> None:
    dtypes = [DType.BOOL] * op.arity[0]
    operands, out = sweep(op, dtypes, {})
    value = op.apply({}).eval(operands, out).reshape(-1).tolist()
    grid = [g.reshape(-1).tolist() for g in np.broadcast_arrays(*operands)]
    name = op.name.removeprefix("logical_").removeprefix("bitwise_")
    for i, got in enumerate(value):
        x, y = grid[0][i], grid[-1][i]
        table = {
            "and": x and y, "or": x or y, "xor": x != y, "not": not x, "invert": not x,
            "equal": x == y, "not_equal": x != y,
        }  # fmt: skip
        assert got is table[name]


def cast_fault(x: Any, got: Any, source: DType, to: DType) -> str:
    if to is DType.BOOL:
        return "" if bool(got) is bool(x != 0) else "truth"
    number = float(x) if source.is_float else int(x)
    if to.is_int:
        least, most = to.limits
        if not source.is_float:
            want = wrap(int(number), to.bits, to.is_signed)
        elif math.isnan(number):
            want = 0
        else:
            want = int(max(least, min(most, number)))
            want = want if math.isinf(number) else max(least, min(most, int(number)))
        return "" if int(got) == want else f"want {want}"
    if to in (*F8, DType.F4E2M1):
        with np.errstate(over="ignore"):
            near = small_floats.cast(float(np.float32(number)), to)
        same = float(got) == near and math.copysign(1, got) == math.copysign(1, near)
        return "" if same or (near != near and got != got) else f"want {near}"
    if source.is_float and (not math.isfinite(number) or number == 0):
        return fault(float(got), number, to, 0.0)
    if number == 0:
        return fault(float(got), 0.0, to, 0.0)
    share = 0.5 if to in (DType.F64, DType.F32) else SHARE[to]
    return fault(float(got), mp.mpf(number), to, share)


@pytest.mark.parametrize("to", ALL)
def test_casts(to: DType) -> None:
    op = OPS["cast"]
    for source in ALL:
        x = corners(source, op.corners)
        out = op.infer([TensorType(source, x.shape)], {"dtype": to})
        for v, got in zip(of_list(x), of_list(op.apply({"dtype": to}).eval([x], out)), strict=True):
            text = cast_fault(v, got, source, to)
            assert not text, (source, to, v, got, text)


def test_where_takes_the_chosen_bits() -> None:
    op = OPS["where"]
    x, y = np.array([np.nan, -0.0, 1.0], np.float32), np.array([np.inf], np.float32)
    types = [TensorType(DType.BOOL, (3,)), TensorType(DType.F32, (3,)), TensorType(DType.F32, (1,))]
    got = op.apply({}).eval([np.array([True, True, False]), x, y], op.infer(types, {}))
    assert np.isnan(got[0])
    assert np.signbit(got[1])
    assert got[2] == np.inf
