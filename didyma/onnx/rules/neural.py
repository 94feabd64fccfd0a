"""Activations, normalisation, determinants and other composite functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from didyma.composites import composite
from didyma.composites.builder import Builder, Value
from didyma.onnx.context import Context, Handler, Inputs
from didyma.onnx.tensors import dtype_of
from didyma.onnx.values import Operand
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import exact_quotient

MAX_WINDOW = 1 << 10  # channels that LRN adds one by one


def _activation(f: Callable[[Builder, Value], Value]) -> Handler:
    def run(c: Context, x: Inputs) -> Sequence[Operand]:
        return [f(c.builder, c.operand(x, 0))]

    return run


def _leaky_relu(c: Context, x: Inputs) -> Sequence[Operand]:
    return [composite.leaky_relu(c.builder, c.operand(x, 0), c.real("alpha", 0.01))]


def _elu(c: Context, x: Inputs) -> Sequence[Operand]:
    return [composite.elu(c.builder, c.operand(x, 0), c.real("alpha", 1.0))]


def _selu(c: Context, x: Inputs) -> Sequence[Operand]:
    alpha, gamma = c.real("alpha", 1.6732632423543772), c.real("gamma", 1.0507009873554805)
    return [c.emit("multiply", composite.elu(c, c.operand(x, 0), alpha), gamma)]


def _hard_sigmoid(c: Context, x: Inputs) -> Sequence[Operand]:
    alpha, beta = c.real("alpha", 0.2), c.real("beta", 0.5)
    return [composite.hard_sigmoid(c.builder, c.operand(x, 0), alpha, beta)]


def _prelu(c: Context, x: Inputs) -> Sequence[Operand]:
    return [composite.prelu(c.builder, c.operand(x, 0), c.operand(x, 1))]


def _gelu(c: Context, x: Inputs) -> Sequence[Operand]:
    tanh = c.choice("approximate", "none", "tanh") == "tanh"
    return [composite.gelu(c.builder, c.operand(x, 0), tanh)]


def _softmax(f: Callable[[Builder, Value, int], Value]) -> Handler:
    def run(c: Context, x: Inputs) -> Sequence[Operand]:
        v = c.operand(x, 0)
        if c.opset >= 13:
            return [f(c.builder, v, c.axis(c.integer("axis", -1), v.type.rank))]
        # Before opset 13, the operand is a matrix: axes before ``axis``, and the others.
        axis = c.axis(c.integer("axis", 1), v.type.rank)
        two = dims.mul(*v.type.shape[:axis]), dims.mul(*v.type.shape[axis:])
        rows = f(c.builder, c.builder("reshape", [v], shape=two), 1)
        return [c.emit("reshape", rows, shape=v.type.shape)]

    return run


def _batch_norm(c: Context, x: Inputs) -> Sequence[Operand]:
    v, scale, bias, mean, var = (c.operand(x, i) for i in range(5))
    eps = c.real("epsilon", 1e-5)
    training = c.opset < 7 and not c.flag("is_test")
    if training or (c.opset < 14 and any(c.uses_output(i) for i in range(1, 5))):
        raise c.error(
            "batch normalisation in training", "batch normalisation in inference",
            "set is_test = 1" if c.opset < 7 else "ask for the first output alone",
        )  # fmt: skip
    if not c.flag("spatial", True):
        raise c.error("spatial = 0", "spatial = 1")
    if not c.flag("training_mode"):
        scale, bias, mean, var = (c.cast(p, v.type.dtype) for p in (scale, bias, mean, var))
        return [composite.batch_norm(c, v, scale, bias, mean, var, eps)]
    axes = tuple(i for i in range(v.type.rank) if i != 1)
    batch_mean = c.emit("mean", v, axes=axes, keepdims=False)
    centred = c.emit("subtract", v, composite.channelwise(c, batch_mean, v.type.rank))
    batch_var = c.emit("mean", c.emit("square", centred), axes=axes, keepdims=False)
    y = composite.batch_norm(c, v, scale, bias, batch_mean, batch_var, eps)
    keep = c.real("momentum", 0.9)
    means, variances = (
        c.emit("add", c.emit("multiply", old, keep), c.emit("multiply", new, 1 - keep))
        for old, new in ((mean, batch_mean), (var, batch_var))
    )
    return [y, means, variances]


def _lp_norm(c: Context, x: Inputs) -> Sequence[Operand]:
    """Import ``LpNormalization``: divide rows by their norms; rows of zeros stay zeros."""
    v, p = c.operand(x, 0), c.integer("p", 2)
    axes = (c.axis(c.integer("axis", -1), v.type.rank),)
    powers = c.emit("abs", v) if p == 1 else c.emit("square", v)
    norm = c.emit("sum", powers, axes=axes, keepdims=True)
    norm = norm if p == 1 else c.emit("sqrt", norm)
    empty = c.emit("equal", norm, 0)
    return [c.emit("divide", v, c.emit("where", empty, c.scalar(1, v), norm))]


def _lrn(c: Context, x: Inputs) -> Sequence[Operand]:
    """Import ``LRN``: divide by a power of the sum of squares of the neighbouring channels."""
    v, size = c.operand(x, 0), c.integer("size")
    rank, channels = v.type.rank, v.type.shape[1]
    if size < 1:
        raise c.broken(f"size {size}", "a size of at least 1")
    before, after = (size - 1) // 2, size // 2
    if isinstance(channels, int):  # windows end at the first and last channel
        before, after = min(before, channels), min(after, channels)
    if before + after >= MAX_WINDOW:
        raise c.error(f"size {size}", f"windows of at most {MAX_WINDOW} channels",
                    code="onnx-too-large")  # fmt: skip
    low, high = (tuple(p if i == 1 else 0 for i in range(rank)) for p in (before, after))
    squares = c.emit(
        "pad", c.emit("square", v), c.scalar(0, v), low=low, high=high, mode="constant"
    )
    total: Value | None = None
    for k in range(before + 1 + after):
        part = c.slice(squares, 1, k, dims.add(channels, k))
        total = part if total is None else c.emit("add", total, part)
    assert total is not None
    scaled = c.emit("multiply", total, c.real("alpha", 1e-4) / size)
    power = c.emit("pow", c.emit("add", scaled, c.real("bias", 1.0)), c.real("beta", 0.75))
    return [c.emit("divide", v, power)]


def _determinant(c: Context, v: Value) -> Value:
    """Return the determinant of n by n matrices, expanded along the first row."""
    n, rank = v.type.shape[-1], v.type.rank
    lead = v.type.shape[:-2]
    if n == 1:
        return c.reshape(v, *lead)
    assert isinstance(n, int)
    lower = c.emit("slice", v, starts=(*[0] * (rank - 2), 1, 0), stops=v.type.shape,
                   steps=(1,) * rank)  # fmt: skip
    total: Value | None = None
    for k in range(n):
        entry = c.emit(
            "slice", v, starts=(*[0] * (rank - 1), k), stops=(*lead, 1, k + 1), steps=(1,) * rank
        )
        rest = c.constant(np.array([i for i in range(n) if i != k], np.int64))
        minor = _determinant(c, c.emit("gather", lower, rest, axis=rank - 1))
        term = c.emit("multiply", c.reshape(entry, *lead), minor)
        total = term if total is None else c.emit("subtract" if k % 2 else "add", total, term)
    assert total is not None
    return total


def _det(c: Context, x: Inputs) -> Sequence[Operand]:
    v = c.operand(x, 0)
    n = v.type.shape[-1]
    if not isinstance(n, int) or not 1 <= n <= 4 or v.type.shape[-2] != n:
        raise c.error(f"the determinant of {v.type}", "square matrices of up to 4 rows")
    return [_determinant(c, v)]


def _instance_norm(c: Context, x: Inputs) -> Sequence[Operand]:
    v, scale, bias = (c.operand(x, i) for i in range(3))
    eps = c.real("epsilon", 1e-5)
    return [composite.instance_norm(c.builder, v, scale, bias, eps)]


def _group_norm(c: Context, x: Inputs) -> Sequence[Operand] | None:
    """Import ``GroupNormalization`` with a scale for each group, as before opset 21; else None."""
    if c.opset >= 21:
        return None
    v, scale, bias = (c.operand(x, i) for i in range(3))
    groups, shape = c.integer("num_groups"), v.type.shape
    for p in (scale, bias):
        if p.type.shape != (groups,):
            raise c.broken(f"{p.type} for {groups} groups", f"{p.type.dtype}[{groups}]")
    each = exact_quotient(shape[1], groups) if v.type.rank > 1 and groups > 0 else None
    if each is None:
        raise c.broken(f"{v.type} in {groups} groups", "equally many channels in each")
    rows = c.reshape(v, shape[0], groups, dims.mul(each, *shape[2:]))
    eps = c.real("epsilon", 1e-5)
    return [c.reshape(composite.instance_norm(c, rows, scale, bias, eps), *shape)]


def _layer_norm(c: Context, x: Inputs) -> Sequence[Operand]:
    """Import ``LayerNormalization``, whose statistics are computed in ``stash_type``."""
    v, scale, bias = c.operand(x, 0), c.operand(x, 1), c.optional(x, 2)
    dtype = v.type.dtype
    first = c.axis(c.integer("axis", -1), v.type.rank)
    axes = tuple(range(first, v.type.rank))
    eps = c.real("epsilon", 1e-5)
    if not (c.uses_output(1) or c.uses_output(2)):
        return [composite.layer_norm(c.builder, v, axes, scale, bias, eps)]
    stash = dtype_of(c.integer("stash_type", 1), c.where)
    wide = c.cast(v, stash)
    mean = c.emit("mean", wide, axes=axes, keepdims=True)
    centred = c.emit("subtract", wide, mean)
    variance = c.emit("mean", c.emit("square", centred), axes=axes, keepdims=True)
    root = c.emit("rsqrt", c.emit("add", variance, eps))
    y = c.emit("multiply", c.cast(c.emit("multiply", centred, root), dtype), scale)
    return [y if bias is None else c.emit("add", y, bias), mean, root]


def _trilu(c: Context, x: Inputs) -> Sequence[Operand]:
    if c.input(x, 0).type.rank < 2:
        raise c.broken(str(c.input(x, 0).type), "a matrix, or several")
    k = c.optional_input(x, 1)
    offset = c.ints(k)[0] if k is not None else 0
    upper = c.flag("upper", True)
    return [composite.triangle(c.builder, c.operand(x, 0), offset, upper)]


HANDLERS: dict[str, Handler] = {
    "Relu": _activation(composite.relu),
    "Selu": _selu,
    "Sigmoid": _activation(composite.sigmoid),
    "Softplus": _activation(composite.softplus),
    "Softsign": _activation(composite.softsign),
    "HardSwish": _activation(composite.hard_swish),
    "Mish": _activation(composite.mish),
    "LeakyRelu": _leaky_relu,
    "Elu": _elu,
    "HardSigmoid": _hard_sigmoid,
    "PRelu": _prelu,
    "Gelu": _gelu,
    "Softmax": _softmax(composite.softmax),
    "LogSoftmax": _softmax(composite.log_softmax),
    "BatchNormalization": _batch_norm,
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _instance_norm,
    "LayerNormalization": _layer_norm,
    "LpNormalization": _lp_norm,
    "LRN": _lrn,
    "Det": _det,
    "Trilu": _trilu,
}
