"""Ops without operands: ``constant`` and ``iota``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from didyma.refimpl.ir import expr as ex
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.loop import Cast, Const, Expr
from didyma.refimpl.ir.types import ALL as EVERY
from didyma.refimpl.ir.types import NUMBERS, Array, DType, Shape, Tensor, TensorType
from didyma.refimpl.ops.attributes import attributes, choice, integer, sizes, tensor
from didyma.refimpl.ops.bars import Bar, Contract, exact
from didyma.refimpl.ops.choose import pick
from didyma.refimpl.ops.examples import example
from didyma.refimpl.ops.payloads import of_result
from didyma.refimpl.ops.rules import attr_error, check_axis, concrete
from didyma.refimpl.ops.spec import Chooser, Index, Kind, Op, Read, Rules, Sample, Use, Work


@attributes
class Constant:
    """The tensor itself."""

    value: Tensor = tensor("the tensor")


def _constant_infer(_types: Sequence[TensorType], a: Constant) -> TensorType:
    return a.value.type


def _constant_eval(_args: Sequence[Array], a: Constant, _result: TensorType) -> Array:
    return a.value.array().copy()


def _constant_view(_args: Sequence[Array], a: Constant, _result: TensorType) -> Array:
    return a.value.array()


def _constant_bar(_args: Sequence[Bar], use: Use[Constant], _contract: Contract) -> Bar:
    return exact(use.attrs.value.array(), use.result.dtype)


def _constant_element(at: Index, _reads: Sequence[Read], use: Use[Constant]) -> Expr:
    value, compute = use.attrs.value, use.result.dtype.compute
    values = value.array().reshape(-1).astype(compute.numpy).tolist()
    literals = [Const(v, compute) for v in values] or [Const(compute.numpy.type(0).item(), compute)]
    if all(v == literals[0] for v in literals) or len(literals) == 1:
        return literals[0]
    return _lookup(ex.flatten(at, map(ex.index, value.shape)), literals, 0)


def _lookup(flat: Expr, literals: Sequence[Expr], first: int) -> Expr:
    """Return selects that find a literal by bisection of its offset."""
    if len(literals) == 1:
        return literals[0]
    half = len(literals) // 2
    low = _lookup(flat, literals[:half], first)
    high = _lookup(flat, literals[half:], first + half)
    return ex.select(ex.compare("lt", flat, ex.index(first + half)), low, high)


_PALETTE: tuple[float, ...] = (1, 0, 2, 3, -1, 0.5, -2.75, 7, 100, -0.0)
_SPECIALS = (float("inf"), float("-inf"), float("nan"), 1e-40, 3e38)


def _constant_sample(ch: Chooser, t: TensorType) -> Sample | None:
    shape = tuple(d if isinstance(d, int) else 1 for d in t.shape)
    n = int(np.prod(shape))
    if n > 64:
        shape, n = (), 1
    if t.dtype.is_float and ch.below(16) == 15:
        values: tuple[float, ...] = _PALETTE + _SPECIALS
    elif t.dtype.is_float:
        values = _PALETTE
    else:
        values = tuple(v for v in _PALETTE if v == int(v) and (v >= 0 or t.dtype.is_signed))
    drawn = [pick(ch, values) for _ in range(n)]
    with np.errstate(all="ignore"):
        wide = np.array(drawn, np.float64).astype(t.dtype.compute.numpy)
        value = wide.astype(t.dtype.numpy).reshape(shape)
    return Sample((), freeze({"value": Tensor.of(value)}))


@attributes
class Iota:
    """The result's type, and the axis along which it counts."""

    dtype: DType = choice("dtype of the result", NUMBERS)
    shape: Shape = sizes("shape of the result, at least one axis")
    axis: int = integer("axis to count along")


def _iota_infer(_types: Sequence[TensorType], a: Iota) -> TensorType:
    if not a.shape:
        raise attr_error("iota", "shape", a.shape, "at least one axis")
    check_axis("iota", a.axis, len(a.shape))
    return TensorType(a.dtype, a.shape)


def _count(a: Iota, dtype: DType) -> Array:
    """Return positions along an axis, cast to the compute dtype and then to ``dtype``."""
    shape = concrete(a.shape)
    with np.errstate(over="ignore"):
        line = np.arange(shape[a.axis]).astype(a.dtype.compute.numpy).astype(dtype.numpy)
    along = line.reshape([-1 if i == a.axis else 1 for i in range(len(shape))])
    return np.broadcast_to(along, shape).copy()


def _iota_eval(_args: Sequence[Array], a: Iota, _result: TensorType) -> Array:
    return _count(a, a.dtype)


def _iota_bar(_args: Sequence[Bar], use: Use[Iota], _contract: Contract) -> Bar:
    compute = use.attrs.dtype.compute
    return exact(_count(use.attrs, compute), compute)


def _iota_element(at: Index, _reads: Sequence[Read], use: Use[Iota]) -> Expr:
    i, dtype = at[use.attrs.axis], use.attrs.dtype
    return i if dtype is DType.I64 else Cast(i, dtype.compute)


def _iota_sample(ch: Chooser, t: TensorType) -> Sample | None:
    if t.dtype not in NUMBERS:
        return None
    shape = t.shape or (pick(ch, (3, 1, 5, 0)),)
    axis = ch.below(len(shape))
    return Sample((), freeze({"dtype": t.dtype, "shape": shape, "axis": axis}))


CONSTANT = Op(
    name="constant",
    doc="A tensor written in the program.",
    special="Every value is kept as it is, NaN with its payload.",
    kind=Kind.INJECTIVE,
    arity=(0, 0),
    dtypes=EVERY,
    rules=Rules(
        Constant,
        infer=_constant_infer,
        eval=_constant_eval,
        bar=_constant_bar,
        element=_constant_element,
        view=_constant_view,
        ring=of_result,
    ),
    sample=_constant_sample,
    work=Work.NONE,
    nearby=True,
    example=example([], [1, 2], (), DType.F32, value=Tensor.of(np.array([1, 2], np.float32))),
)

IOTA = Op(
    name="iota",
    doc="Counts 0, 1, 2, … along ``axis``; the same along every other axis.",
    special=(
        "Positions are i64 and cast to ``dtype``: integers wrap, f32 and f64 round to nearest, "
        "f16 and bf16 round by way of f32 and may overflow to infinity."
    ),
    kind=Kind.INJECTIVE,
    arity=(0, 0),
    dtypes=NUMBERS,
    rules=Rules(
        Iota,
        infer=_iota_infer,
        eval=_iota_eval,
        bar=_iota_bar,
        element=_iota_element,
        ring=of_result,
    ),
    sample=_iota_sample,
    nearby=True,
    example=example(
        [], [[0, 0], [1, 1], [2, 2]], (), DType.I32, dtype=DType.I32, shape=(3, 2), axis=0
    ),
)

ALL: tuple[Op, ...] = (CONSTANT, IOTA)
