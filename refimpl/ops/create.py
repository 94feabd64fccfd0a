"""Ops without operands: tensors known before the program runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ex
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.loop import Cast, Const, Expr
from didyma.refimpl.ir.types import ALL as EVERY
from didyma.refimpl.ir.types import NUMBERS, Array, DType, Tensor, TensorType
from didyma.refimpl.ops.bars import Bar, Contract, exact
from didyma.refimpl.ops.choose import pick
from didyma.refimpl.ops.rules import attr_error, check, get_axis, get_dims, get_dtype, get_tensor
from didyma.refimpl.ops.spec import (
    AttrMap,
    AttrSpec,
    Chooser,
    Example,
    Index,
    Kind,
    Op,
    Read,
    Sample,
)


def _constant_infer(types: Sequence[TensorType], attrs: AttrMap) -> TensorType:
    if types:
        check("constant", types, 0)
    return get_tensor("constant", attrs, "value").type


def _constant_eval(args: Sequence[Array], attrs: AttrMap, result: TensorType) -> Array:
    return _constant_view(args, attrs, result).copy()


def _constant_view(args: Sequence[Array], attrs: AttrMap, result: TensorType) -> Array:
    del args, result
    return get_tensor("constant", attrs, "value").array()


def _constant_bar(
    args: Sequence[Bar],
    attrs: AttrMap,
    types: Sequence[TensorType],
    result: TensorType,
    contract: Contract,
) -> Bar:
    del args, types, contract
    return exact(get_tensor("constant", attrs, "value").array(), result.dtype)


def _constant_element(
    at: Index,
    reads: Sequence[Read],
    types: Sequence[TensorType],
    attrs: AttrMap,
    result: TensorType,
) -> Expr:
    del reads, types
    tensor = get_tensor("constant", attrs, "value")
    compute = result.dtype.compute
    values = tensor.array().reshape(-1).astype(compute.numpy).tolist()
    literals = [Const(v, compute) for v in values] or [Const(compute.numpy.type(0).item(), compute)]
    if all(v == literals[0] for v in literals) or len(literals) == 1:
        return literals[0]
    return _lookup(ex.flatten(at, map(ex.index, tensor.shape)), literals, 0)


def _lookup(flat: Expr, literals: Sequence[Expr], first: int) -> Expr:
    """Choose by bisection of the offset: as deep as the logarithm of the count."""
    if len(literals) == 1:
        return literals[0]
    half = len(literals) // 2
    low = _lookup(flat, literals[:half], first)
    high = _lookup(flat, literals[half:], first + half)
    return ex.select(ex.compare("lt", flat, ex.index(first + half)), low, high)


def small_shape(shape: Sequence[dims.Dim], size: int) -> tuple[int, ...]:
    """Shape with every symbol replaced by a size."""
    return tuple(d if isinstance(d, int) else size for d in shape)


_PALETTE: tuple[float, ...] = (1, 0, 2, 3, -1, 0.5, -2.75, 7, 100, -0.0)
_SPECIALS = (float("inf"), float("-inf"), float("nan"), 1e-40, 3e38)


def _constant_sample(ch: Chooser, t: TensorType) -> Sample | None:
    shape = small_shape(t.shape, 1)
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


def _iota_infer(types: Sequence[TensorType], attrs: AttrMap) -> TensorType:
    if types:
        check("iota", types, 0)
    dtype = get_dtype("iota", attrs, "dtype", NUMBERS)
    shape = get_dims("iota", attrs, "shape")
    if not shape:
        raise attr_error("iota", "shape", shape, "at least one axis")
    get_axis("iota", attrs, "axis", len(shape))
    return TensorType(dtype, shape)


def _count(attrs: AttrMap, result: TensorType, finish: Callable[[Array], Array]) -> Array:
    axis = get_axis("iota", attrs, "axis", result.rank)
    shape = small_shape(result.shape, 0)
    line = finish(np.arange(shape[axis], dtype=np.int64))
    along = line.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return np.broadcast_to(along, shape).copy()


def _iota_eval(args: Sequence[Array], attrs: AttrMap, result: TensorType) -> Array:
    del args

    def finish(line: Array) -> Array:
        with np.errstate(over="ignore"):
            return line.astype(result.dtype.compute.numpy).astype(result.dtype.numpy)

    return _count(attrs, result, finish)


def _iota_bar(
    args: Sequence[Bar],
    attrs: AttrMap,
    types: Sequence[TensorType],
    result: TensorType,
    contract: Contract,
) -> Bar:
    del args, types, contract
    compute = result.dtype.compute
    return exact(_count(attrs, result, lambda line: line.astype(compute.numpy)), compute)


def _iota_element(
    at: Index,
    reads: Sequence[Read],
    types: Sequence[TensorType],
    attrs: AttrMap,
    result: TensorType,
) -> Expr:
    del reads, types
    i = at[get_axis("iota", attrs, "axis", result.rank)]
    return i if result.dtype is DType.I64 else Cast(i, result.dtype.compute)


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
    attrs=(AttrSpec("value", "tensor", "the tensor"),),
    dtypes=EVERY,
    infer=_constant_infer,
    eval=_constant_eval,
    view=_constant_view,
    bar=_constant_bar,
    element=_constant_element,
    sample=_constant_sample,
    example=Example(
        (),
        np.array([1, 2], np.float32),
        freeze({"value": Tensor.of(np.array([1, 2], np.float32))}),
    ),
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
    attrs=(
        AttrSpec("dtype", "dtype", "dtype of the result", tuple(NUMBERS)),
        AttrSpec("shape", "dims", "shape of the result, at least one axis"),
        AttrSpec("axis", "int", "axis to count along"),
    ),
    dtypes=NUMBERS,
    infer=_iota_infer,
    eval=_iota_eval,
    bar=_iota_bar,
    element=_iota_element,
    sample=_iota_sample,
    example=Example(
        (),
        np.array([[0, 0], [1, 1], [2, 2]], np.int32),
        freeze({"dtype": DType.I32, "shape": (3, 2), "axis": 0}),
    ),
)

ALL: tuple[Op, ...] = (CONSTANT, IOTA)
