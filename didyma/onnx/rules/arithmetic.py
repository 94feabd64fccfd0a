"""Arithmetic, comparison, reduction and products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np

from didyma.onnx.context import Context
from didyma.onnx.rules import random
from didyma.onnx.values import Item, size
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops.builder import Value
from didyma.refimpl.ops.conversion import largest

Inputs: TypeAlias = Sequence[Item | None]
Handler: TypeAlias = Callable[[Context, Inputs], Sequence[Item]]


def _plain(op: str) -> Handler:
    def run(c: Context, x: Inputs) -> Sequence[Item]:
        return [c.emit(op, *(c.operand(x, i) for i in range(len(x))))]

    return run


def _variadic(op: str) -> Handler:
    def run(c: Context, x: Inputs) -> Sequence[Item]:
        args = [c.operand(x, i) for i in range(len(x))]
        return [reduce(lambda a, b: c.emit(op, a, b), args)]

    return run


def _mean(c: Context, x: Inputs) -> Sequence[Item]:
    (total,) = _variadic("add")(c, x)
    whole = c.value(total)
    count = c.builder.scalar(len(x), whole.type.dtype)
    return [c.emit("divide", whole, count)]


def _div(c: Context, x: Inputs) -> Sequence[Item]:
    a, b = c.operand(x, 0), c.operand(x, 1)
    return [c.emit("divide" if a.type.dtype.is_float else "trunc_divide", a, b)]


def _mod(c: Context, x: Inputs) -> Sequence[Item]:
    a, b = c.operand(x, 0), c.operand(x, 1)
    return [c.emit("fmod" if c.attrs.get("fmod", 0) else "remainder", a, b)]


def _pow(c: Context, x: Inputs) -> Sequence[Item]:
    a, b = c.operand(x, 0), c.operand(x, 1)
    if a.type.dtype is b.type.dtype:
        return [c.emit("pow", a, b)]
    # The exponent may be of another type; the result has the base's.
    wide = a.type.dtype if a.type.dtype.is_float else DType.F64 if b.type.dtype.is_float else None
    if wide is None:
        return [c.emit("pow", a, c.builder("cast", [b], dtype=a.type.dtype))]
    p = c.builder("pow", [_cast_to(c, a, wide), _cast_to(c, b, wide)])
    return [_cast_to(c, p, a.type.dtype)]


def _cast_to(c: Context, v: Value, dtype: DType) -> Value:
    return v if v.type.dtype is dtype else c.builder("cast", [v], dtype=dtype)


def _clip(c: Context, x: Inputs) -> Sequence[Item]:
    """Limit to an interval; an absent end is the least or the greatest finite number."""
    v = c.operand(x, 0)
    dtype = v.type.dtype
    for i, name, op, sign in ((1, "min", "maximum", -1), (2, "max", "minimum", 1)):
        end = c.optional(x, i)
        if end is None and name in c.attrs:
            end = c.builder.scalar(c.attrs[name], dtype)
        if end is None and dtype.is_float:
            end = c.builder.scalar(sign * largest(dtype), dtype)
        v = v if end is None else c.emit(op, v, end)
    return [v]


def _bit_shift(c: Context, x: Inputs) -> Sequence[Item]:
    way = "left" if c.choice("direction", "LEFT", "RIGHT") == "LEFT" else "right"
    return [c.emit(f"bitwise_{way}_shift", c.operand(x, 0), c.operand(x, 1))]


def _is_inf(c: Context, x: Inputs) -> Sequence[Item]:
    v = c.operand(x, 0)
    result = c.builder("isinf", [v])
    for sign, compare in (("detect_negative", "less"), ("detect_positive", "greater")):
        if not c.attrs.get(sign, 1):
            wrong = c.builder(compare, [v, c.builder.scalar(0, v.type.dtype)])
            right = c.builder("logical_not", [wrong])
            result = c.builder("logical_and", [result, right])
    return [result]


def _reduce(
    op: str,
    before: Callable[[Context, Value], Value] | None = None,
    after: Callable[[Context, Value], Value] | None = None,
) -> Handler:
    def run(c: Context, x: Inputs) -> Sequence[Item]:
        v = c.operand(x, 0)
        axes = c.axes(x, 1, v.type.rank)
        if before is not None:
            v = before(c, v)
        if axes or not c.flag("noop_with_empty_axes"):  # else all but the reduction is done
            name = _OF_BOOL[op] if v.type.dtype is DType.BOOL else op
            chosen = axes or tuple(range(v.type.rank))
            v = c.emit(name, v, axes=chosen, keepdims=c.flag("keepdims", True))
        return [after(c, v) if after is not None else v]

    return run


_OF_BOOL = {"max": "any", "min": "all"}


def _one(op: str) -> Callable[[Context, Value], Value]:
    def run(c: Context, v: Value) -> Value:
        return c.builder(op, [v])

    return run


def _reduce_log_sum_exp(c: Context, x: Inputs) -> Sequence[Item]:
    """Logarithm of the sum of exponentials, in f64: so large operands do not overflow."""
    v = c.operand(x, 0)
    (y,) = _LOG_SUM_EXP(c, [c.cast(v, DType.F64), *x[1:]])
    return [c.cast(c.value(y), v.type.dtype)]


def _arg(op: str) -> Handler:
    def run(c: Context, x: Inputs) -> Sequence[Item]:
        v = c.operand(x, 0)
        axis = c.axis(c.integer("axis", 0), v.type.rank)
        if c.flag("select_last_index"):
            found = c.emit(op, c.emit("flip", v, axes=(axis,)), axis=axis, keepdims=True)
            last = c.value(size(dims.sub(v.type.shape[axis], 1)))
            found = c.do("subtract", last, found)
            if c.flag("keepdims", True):
                return [found]
            return [c.reshape(found, *(d for i, d in enumerate(v.type.shape) if i != axis))]
        return [c.emit(op, v, axis=axis, keepdims=c.flag("keepdims", True))]

    return run


def _cumsum(c: Context, x: Inputs) -> Sequence[Item]:
    v = c.operand(x, 0)
    if len(x) < 2 or x[1] is None:
        raise c.bad("no axis", "an axis")
    axis = c.axis(c.ints(x[1])[0], v.type.rank)
    flags = {k: c.flag(k) for k in ("exclusive", "reverse")}
    return [c.emit("cumulative_sum", v, axis=axis, **flags)]


def _dropout(c: Context, x: Inputs) -> Sequence[Item]:
    """Identity, unless in training: which is random."""
    v = c.operand(x, 0)
    training = c.opset < 7 and not c.flag("is_test")
    if (mode := c.maybe(x, 2)) is not None:
        training = bool(c.number(mode))
    if training:
        given = c.maybe(x, 1)
        ratio = c.real("ratio", 0.5) if given is None else float(c.number(given))
        if not 0 <= ratio < 1:
            raise c.wrong(f"a ratio of {ratio}", "0 <= ratio < 1")
        if ratio:
            return random.dropout(c, v, ratio)
    if not c.wants(1):
        return [v]
    one = c.builder.scalar(True, DType.BOOL if c.opset >= 10 else v.type.dtype)
    return [v, c.emit("broadcast_to", one, shape=v.type.shape)]


def _size(c: Context, x: Inputs) -> Sequence[Item]:
    from didyma.onnx.values import settle

    total = np.empty((), object)
    item = x[0]
    if item is None:
        raise c.bad("no operand", "a tensor")
    total[()] = dims.mul(*item.type.shape)
    return [settle(total, DType.I64)]


_LOG_SUM_EXP = _reduce("sum", before=_one("exp"), after=_one("log"))
_SAME: dict[str, str] = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "And": "logical_and", "Asin": "asin",
    "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh", "BitwiseAnd": "bitwise_and",
    "BitwiseNot": "bitwise_invert", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor",
    "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Equal": "equal", "Erf": "erf", "Exp": "exp",
    "Floor": "floor", "Greater": "greater", "GreaterOrEqual": "greater_equal", "IsNaN": "isnan",
    "Less": "less", "LessOrEqual": "less_equal", "Log": "log", "Mul": "multiply",
    "Neg": "negative", "Not": "logical_not", "Or": "logical_or", "Reciprocal": "reciprocal",
    "Round": "round", "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Sqrt": "sqrt",
    "Sub": "subtract", "Tan": "tan", "Tanh": "tanh", "Where": "where", "Xor": "logical_xor",
    "Add": "add",
}  # fmt: skip

HANDLERS: dict[str, Handler] = {
    **{name: _plain(op) for name, op in _SAME.items()},
    "Sum": _variadic("add"),
    "Max": _variadic("maximum"),
    "Min": _variadic("minimum"),
    "Mean": _mean,
    "Div": _div,
    "Mod": _mod,
    "Pow": _pow,
    "Clip": _clip,
    "BitShift": _bit_shift,
    "IsInf": _is_inf,
    "ReduceSum": _reduce("sum"),
    "ReduceMean": _reduce("mean"),
    "ReduceMax": _reduce("max"),
    "ReduceMin": _reduce("min"),
    "ReduceProd": _reduce("prod"),
    "ReduceL1": _reduce("sum", before=_one("abs")),
    "ReduceL2": _reduce("sum", before=_one("square"), after=_one("sqrt")),
    "ReduceSumSquare": _reduce("sum", before=_one("square")),
    "ReduceLogSum": _reduce("sum", after=_one("log")),
    "ReduceLogSumExp": _reduce_log_sum_exp,
    "ArgMax": _arg("argmax"),
    "ArgMin": _arg("argmin"),
    "CumSum": _cumsum,
    "Dropout": _dropout,
    "Size": _size,
}
