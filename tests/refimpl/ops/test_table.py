"""The table of ops as a whole: no op lacks a facet."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.dims import symbol
from didyma.refimpl.ir.types import ALL, Array, DType, TensorType
from didyma.refimpl.ops import OPS, bars
from didyma.refimpl.ops.bars import Contract
from didyma.refimpl.ops.spec import Kind, Op, Sample
from tests.refimpl.ops.draw import Dice

UNARY = (
    "abs negative sign square reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan"
    " asin acos atan sinh cosh tanh asinh acosh atanh erf floor ceil trunc round isnan isinf"
    " isfinite signbit logical_not bitwise_invert"
)
BINARY = (
    "add subtract multiply divide floor_divide trunc_divide remainder fmod pow atan2 copysign"
    " maximum minimum equal not_equal less less_equal greater greater_equal logical_and logical_or"
    " logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift"
)
OTHER = (
    "clip where cast constant iota reshape permute_dims broadcast_to slice concat pad flip sum prod"
    " min max mean any all argmin argmax cumulative_sum matmul conv max_pool avg_pool gather"
    " gather_elements scatter to"
)
EVERY = list(OPS.values())
ELEMENTWISE = [op for op in EVERY if op.kind is Kind.ELEMENTWISE]


def test_names() -> None:
    assert {*UNARY.split(), *BINARY.split(), *OTHER.split()} <= set(OPS)
    for names, arity in ((UNARY, 1), (BINARY, 2)):
        found = [OPS[n] for n in names.split()]
        assert all(op.arity == (arity, arity) for op in found)
        assert all(op.kind is Kind.ELEMENTWISE for op in found)


def same_bits(a: Array, b: Array) -> bool:
    nan = np.isnan(a.astype(np.float64))
    if (nan != np.isnan(b.astype(np.float64))).any():
        return False
    return a[~nan].tobytes() == b[~nan].tobytes()


@pytest.mark.parametrize("op", EVERY, ids=lambda op: op.name)
def test_every_facet_is_there(op: Op) -> None:
    assert op.doc.endswith(".")
    assert len(op.special) > 10
    assert op.dtypes
    assert len(set(op.dtypes)) == len(op.dtypes)
    operands = list(op.example.operands)
    types = [TensorType(DType.of(a), a.shape) for a in operands]
    attrs = dict(op.example.attrs)
    assert {a.name for a in op.attrs} == set(attrs)
    out = op.infer(types, attrs)
    value = op.apply(attrs).eval(operands, out)
    assert value.dtype == out.dtype.numpy
    assert value.shape == out.shape == op.example.result.shape
    assert same_bits(value, op.example.result), (value, op.example.result)
    bar = op.apply(attrs).bar([bars.exact(a) for a in operands], types, out, Contract())
    with np.errstate(all="ignore"):
        verdict = bars.judge(bars.store(bar, out.dtype), op.example.result, out.dtype)
    assert verdict.ok.all()
    assert not verdict.undecided.any()


@pytest.mark.parametrize("op", EVERY, ids=lambda op: op.name)
def test_too_many_operands_are_refused(op: Op) -> None:
    types = [TensorType(DType.of(a), a.shape) for a in op.example.operands]
    many = [*types, *[types[0] if types else TensorType(DType.F32)] * 2]
    if op.arity[1] >= len(many):
        many = many * op.arity[1]
    if op.name == "concat":
        many = []
    with pytest.raises(DidymaError) as e:
        op.infer(many, dict(op.example.attrs))
    assert e.value.code == "arity"


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_wrong_operands_are_refused(op: Op) -> None:
    attrs = dict(op.example.attrs)
    good = op.dtypes[0]
    n = op.arity[0]
    first = [DType.BOOL] if op.name == "where" else [good]
    dtypes = first + [good] * (n - 1)
    for bad in set(ALL) - {DType.BOOL if op.name == "where" else d for d in op.dtypes}:
        with pytest.raises(DidymaError) as e:
            op.infer([TensorType(bad), *(TensorType(d) for d in dtypes[1:])], attrs)
        assert e.value.code == "dtype-mismatch"
    if n == 1:
        return
    with pytest.raises(DidymaError) as e:
        op.infer([TensorType(d, (2 + i,)) for i, d in enumerate(dtypes)], attrs)
    assert e.value.code == "shape-mismatch"
    with pytest.raises(DidymaError) as e:
        op.infer(
            [*(TensorType(d, (symbol("n"),)) for d in dtypes[1:]), TensorType(dtypes[-1], (4,))]
            if op.name != "where"
            else [
                TensorType(DType.BOOL, (symbol("n"),)),
                TensorType(good, (4,)),
                TensorType(good, (4,)),
            ],
            attrs,
        )
    assert e.value.code == "shape-mismatch"
    with pytest.raises(DidymaError) as e:
        op.infer([TensorType(d, (), "cuda:1" if i else "") for i, d in enumerate(dtypes)], attrs)
    assert e.value.code == "device-mismatch"
    if len(op.dtypes) > 1:
        with pytest.raises(DidymaError) as e:
            op.infer([*(TensorType(d) for d in dtypes[:-1]), TensorType(op.dtypes[1])], attrs)
        assert e.value.code == "dtype-mismatch"


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_samples_fit_and_vary(op: Op) -> None:
    shape = (symbol("n"), 3, 4)
    seen: set[Sample] = set()
    for seed in range(80):
        dtype = op.dtypes[seed % len(op.dtypes)]
        found = op.sample(Dice(seed), TensorType(dtype, shape))
        assert found is not None
        assert TensorType(dtype, shape) in found.operands
        out = op.infer(found.operands, dict(found.attrs))
        assert out.shape == shape
        assert len(op.apply(dict(found.attrs)).domains(found.operands)) == len(found.operands)
        seen.add(found)
    assert len(seen) > 3 * len(op.dtypes) or op.arity == (1, 1)


def test_unsupported_dtypes_have_no_sample() -> None:
    assert OPS["exp"].sample(Dice(0), TensorType(DType.I32, (2,))) is None
    assert OPS["bitwise_and"].sample(Dice(0), TensorType(DType.F32, (2,))) is None
