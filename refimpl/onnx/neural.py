"""Activations, normalisations and other composites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from refimpl.ir import dims
from refimpl.onnx.context import Context
from refimpl.onnx.values import Item, Known
from refimpl.ops import composite
from refimpl.ops.builder import Builder, Value

Inputs: TypeAlias = Sequence[Item | None]
Handler: TypeAlias = Callable[[Context, Inputs], Sequence[Item]]


def _activation(f: Callable[[Builder, Value], Value]) -> Handler:
    def run(c: Context, x: Inputs) -> Sequence[Item]:
        return [f(c.builder, c.operand(x, 0))]

    return run


def _leaky_relu(c: Context, x: Inputs) -> Sequence[Item]:
    return [composite.leaky_relu(c.builder, c.operand(x, 0), c.real("alpha", 0.01))]


def _elu(c: Context, x: Inputs) -> Sequence[Item]:
    return [composite.elu(c.builder, c.operand(x, 0), c.real("alpha", 1.0))]


def _hard_sigmoid(c: Context, x: Inputs) -> Sequence[Item]:
    alpha, beta = c.real("alpha", 0.2), c.real("beta", 0.5)
    return [composite.hard_sigmoid(c.builder, c.operand(x, 0), alpha, beta)]


def _prelu(c: Context, x: Inputs) -> Sequence[Item]:
    return [composite.prelu(c.builder, c.operand(x, 0), c.operand(x, 1))]


def _gelu(c: Context, x: Inputs) -> Sequence[Item]:
    tanh = c.attrs.get("approximate", "none") == "tanh"
    return [composite.gelu(c.builder, c.operand(x, 0), tanh)]


def _softmax(f: Callable[[Builder, Value, int], Value]) -> Handler:
    def run(c: Context, x: Inputs) -> Sequence[Item]:
        v = c.operand(x, 0)
        if c.opset >= 13:
            return [f(c.builder, v, c.axis(c.integer("axis", -1), v.type.rank))]
        # Before opset 13 the operand is seen as a matrix, split at the axis.
        axis = c.axis(c.integer("axis", 1), v.type.rank)
        two = dims.mul(*v.type.shape[:axis]), dims.mul(*v.type.shape[axis:])
        rows = f(c.builder, c.builder("reshape", [v], shape=two), 1)
        return [c.emit("reshape", rows, shape=v.type.shape)]

    return run


def _batch_norm(c: Context, x: Inputs) -> Sequence[Item]:
    if c.attrs.get("training_mode", 0) or len([o for o in c.outputs if o]) > 1:
        raise c.bad("batch normalisation in training mode", "inference")
    v, scale, bias, mean, var = (c.operand(x, i) for i in range(5))
    eps = c.real("epsilon", 1e-5)
    return [composite.batch_norm(c.builder, v, scale, bias, mean, var, eps)]


def _instance_norm(c: Context, x: Inputs) -> Sequence[Item]:
    v, scale, bias = (c.operand(x, i) for i in range(3))
    eps = c.real("epsilon", 1e-5)
    return [composite.instance_norm(c.builder, v, scale, bias, eps)]


def _layer_norm(c: Context, x: Inputs) -> Sequence[Item]:
    if len([o for o in c.outputs if o]) > 1:
        raise c.bad("the outputs Mean and InvStdDev", "the normalised values alone")
    v, scale, bias = c.operand(x, 0), c.operand(x, 1), c.optional(x, 2)
    first = c.axis(c.integer("axis", -1), v.type.rank)
    axes = tuple(range(first, v.type.rank))
    eps = c.real("epsilon", 1e-5)
    return [composite.layer_norm(c.builder, v, axes, scale, bias, eps)]


def _one_hot(c: Context, x: Inputs) -> Sequence[Item]:
    at = c.operand(x, 0)
    depth, pair = x[1], x[2]
    if depth is None or not isinstance(pair, Known):
        raise c.bad("OneHot whose values are computed at run time", "known values")
    off, on = pair.array.tolist()
    axis = c.integer("axis", -1)
    return [composite.one_hot(c.builder, at, c.ints(depth)[0], pair.dtype, axis, on, off)]


def _trilu(c: Context, x: Inputs) -> Sequence[Item]:
    k = x[1] if len(x) > 1 else None
    offset = c.ints(k)[0] if k is not None else 0
    upper = c.flag("upper", True)
    return [composite.triangle(c.builder, c.operand(x, 0), offset, upper)]


HANDLERS: dict[str, Handler] = {
    "Relu": _activation(composite.relu),
    "Selu": _activation(composite.selu),
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
    "InstanceNormalization": _instance_norm,
    "LayerNormalization": _layer_norm,
    "OneHot": _one_hot,
    "Trilu": _trilu,
}
