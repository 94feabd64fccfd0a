"""Elementwise arithmetic, comparisons, reductions and cumulative sums."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from didyma.composites.builder import Value
from didyma.onnx.context import Context, Handler, Inputs
from didyma.onnx.elementwise import OPS
from didyma.onnx.rules import random
from didyma.onnx.values import Operand, size
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops.conversion import largest


def _plain(op: str) -> Handler:
    def run(c: Context, x: Inputs) -> Sequence[Operand]:
        return [c.emit(op, *(c.operand(x, i) for i in range(len(x))))]

    return run


def _combined(c: Context, op: str, x: Inputs) -> Value:
    args = [c.operand(x, i) for i in range(len(x))]
    return reduce(lambda a, b: c.emit(op, a, b), args)


def _variadic(op: str) -> Handler:
    def run(c: Context, x: Inputs) -> Sequence[Operand]:
        return [_combined(c, op, x)]

    return run


def _mean(c: Context, x: Inputs) -> Sequence[Operand]:
    return [c.emit("divide", _combined(c, "add", x), len(x))]


def _div(c: Context, x: Inputs) -> Sequence[Operand]:
    a, b = c.operand(x, 0), c.operand(x, 1)
    return [c.emit("divide" if a.type.dtype.is_float else "trunc_divide", a, b)]


def _mod(c: Context, x: Inputs) -> Sequence[Operand]:
    a, b = c.operand(x, 0), c.operand(x, 1)
    return [c.emit("fmod" if c.attrs.get("fmod", 0) else "remainder", a, b)]


def _pow(c: Context, x: Inputs) -> Sequence[Operand]:
    a, b = c.operand(x, 0), c.operand(x, 1)
    if a.type.dtype is b.type.dtype:
        return [c.emit("pow", a, b)]
    # The exponent may have another type; the result has that of the base.
    wide = a.type.dtype if a.type.dtype.is_float else DType.F64 if b.type.dtype.is_float else None
    if wide is None:
        return [c.emit("pow", a, c.builder("cast", [b], dtype=a.type.dtype))]
    p = c.builder("pow", [_cast_to(c, a, wide), _cast_to(c, b, wide)])
    return [_cast_to(c, p, a.type.dtype)]


def _cast_to(c: Context, v: Value, dtype: DType) -> Value:
    return v if v.type.dtype is dtype else c.builder("cast", [v], dtype=dtype)


def _clip(c: Context, x: Inputs) -> Sequence[Operand]:
    """Import ``Clip``; an omitted end is the least or the greatest finite number."""
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


def _bit_shift(c: Context, x: Inputs) -> Sequence[Operand]:
    way = "left" if c.choice("direction", "LEFT", "RIGHT") == "LEFT" else "right"
    return [c.emit(f"bitwise_{way}_shift", c.operand(x, 0), c.operand(x, 1))]


def _is_inf(c: Context, x: Inputs) -> Sequence[Operand]:
    v = c.operand(x, 0)
    result = c.builder("isinf", [v])
    for sign, compare in (("detect_negative", "less"), ("detect_positive", "greater")):
        if not c.attrs.get(sign, 1):
            wrong = c.builder(compare, [v, c.builder.scalar(0, v.type.dtype)])
            right = c.builder("logical_not", [wrong])
            result = c.builder("logical_and", [result, right])
    return [result]


def _reduce(op: str, before: str = "", after: str = "") -> Handler:
    """Return the rule of a reduction, with elementwise ops before and after it."""

    def run(c: Context, x: Inputs) -> Sequence[Operand]:
        v = c.operand(x, 0)
        axes = c.axes(x, 1, v.type.rank)
        total = _reduced(c, op, c.builder(before, [v]) if before else v, axes)
        return [c.builder(after, [total]) if after else total]

    return run


def _reduced(c: Context, op: str, v: Value, axes: tuple[int, ...] | None) -> Value:
    """Return a reduction over axes; without axes, over all or none, as the node says."""
    if not axes and c.flag("noop_with_empty_axes"):
        return v
    name = _OF_BOOL[op] if v.type.dtype is DType.BOOL else op
    chosen = axes or tuple(range(v.type.rank))
    return c.emit(name, v, axes=chosen, keepdims=c.flag("keepdims", True))


_OF_BOOL = {"max": "any", "min": "all"}


def _reduce_log_sum_exp(c: Context, x: Inputs) -> Sequence[Operand]:
    """Import ``ReduceLogSumExp``, in f64 so that large operands do not overflow."""
    v = c.operand(x, 0)
    total = _reduced(c, "sum", c.builder("exp", [c.cast(v, DType.F64)]), c.axes(x, 1, v.type.rank))
    return [c.cast(c.builder("log", [total]), v.type.dtype)]


def _arg(op: str) -> Handler:
    def run(c: Context, x: Inputs) -> Sequence[Operand]:
        v = c.operand(x, 0)
        axis = c.axis(c.integer("axis", 0), v.type.rank)
        if c.flag("select_last_index"):
            from_end = c.emit(op, c.emit("flip", v, axes=(axis,)), axis=axis, keepdims=True)
            last = c.value(size(dims.sub(v.type.shape[axis], 1)))
            index = c.emit("subtract", last, from_end)
            if c.flag("keepdims", True):
                return [index]
            return [c.reshape(index, *(d for i, d in enumerate(v.type.shape) if i != axis))]
        return [c.emit(op, v, axis=axis, keepdims=c.flag("keepdims", True))]

    return run


def _cumsum(c: Context, x: Inputs) -> Sequence[Operand]:
    v = c.operand(x, 0)
    if len(x) < 2 or x[1] is None:
        raise c.error("no axis", "an axis")
    axis = c.axis(c.ints(x[1])[0], v.type.rank)
    flags = {k: c.flag(k) for k in ("exclusive", "reverse")}
    return [c.emit("cumulative_sum", v, axis=axis, **flags)]


def _dropout(c: Context, x: Inputs) -> Sequence[Operand]:
    """Import ``Dropout``: the identity, unless the node is in training mode."""
    v = c.operand(x, 0)
    training = c.opset < 7 and not c.flag("is_test")
    if (mode := c.optional_input(x, 2)) is not None:
        training = bool(c.number(mode))
    if training:
        given = c.optional_input(x, 1)
        ratio = c.real("ratio", 0.5) if given is None else float(c.number(given))
        if not 0 <= ratio < 1:
            raise c.broken(f"a ratio of {ratio}", "0 <= ratio < 1")
        if ratio:
            return random.dropout(c, v, ratio)
    if not c.uses_output(1):
        return [v]
    one = c.builder.scalar(True, DType.BOOL if c.opset >= 10 else v.type.dtype)
    return [v, c.emit("broadcast_to", one, shape=v.type.shape)]


def _size(c: Context, x: Inputs) -> Sequence[Operand]:
    return [size(dims.mul(*c.input(x, 0).type.shape))]


HANDLERS: dict[str, Handler] = {
    **{name: _plain(op) for name, op in OPS.items()},
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
    "ReduceL1": _reduce("sum", before="abs"),
    "ReduceL2": _reduce("sum", before="square", after="sqrt"),
    "ReduceSumSquare": _reduce("sum", before="square"),
    "ReduceLogSum": _reduce("sum", after="log"),
    "ReduceLogSumExp": _reduce_log_sum_exp,
    "ArgMax": _arg("argmax"),
    "ArgMin": _arg("argmin"),
    "CumSum": _cumsum,
    "Dropout": _dropout,
    "Size": _size,
}
