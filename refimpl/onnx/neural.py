"""Activations, normalisations and other composites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from refimpl.ir import dims
from refimpl.onnx.load import Context
from refimpl.onnx.math import axis_of, emit, operand, optional
from refimpl.onnx.values import Item, Known, ints
from refimpl.ops import composite
from refimpl.ops.builder import Builder, Value

Inputs: TypeAlias = Sequence[Item | None]
Handler: TypeAlias = Callable[[Context, Inputs], Sequence[Item]]


def _activation(f: Callable[[Builder, Value], Value]) -> Handler:
    def run(c: Context, x: Inputs) -> Sequence[Item]:
        return [f(c.builder, operand(c, x, 0))]

    return run


def _leaky_relu(c: Context, x: Inputs) -> Sequence[Item]:
    return [composite.leaky_relu(c.builder, operand(c, x, 0), float(c.attrs.get("alpha", 0.01)))]


def _elu(c: Context, x: Inputs) -> Sequence[Item]:
    return [composite.elu(c.builder, operand(c, x, 0), float(c.attrs.get("alpha", 1.0)))]


def _hard_sigmoid(c: Context, x: Inputs) -> Sequence[Item]:
    alpha, beta = float(c.attrs.get("alpha", 0.2)), float(c.attrs.get("beta", 0.5))
    return [composite.hard_sigmoid(c.builder, operand(c, x, 0), alpha, beta)]


def _prelu(c: Context, x: Inputs) -> Sequence[Item]:
    return [composite.prelu(c.builder, operand(c, x, 0), operand(c, x, 1))]


def _gelu(c: Context, x: Inputs) -> Sequence[Item]:
    tanh = c.attrs.get("approximate", "none") == "tanh"
    return [composite.gelu(c.builder, operand(c, x, 0), tanh)]


def _softmax(f: Callable[[Builder, Value, int], Value]) -> Handler:
    def run(c: Context, x: Inputs) -> Sequence[Item]:
        v = operand(c, x, 0)
        if c.opset >= 13:
            return [f(c.builder, v, axis_of(c, int(c.attrs.get("axis", -1)), v.type.rank))]
        # Before opset 13 the operand is seen as a matrix, split at the axis.
        axis = axis_of(c, int(c.attrs.get("axis", 1)), v.type.rank)
        two = dims.mul(*v.type.shape[:axis]), dims.mul(*v.type.shape[axis:])
        rows = f(c.builder, c.builder("reshape", [v], shape=two), 1)
        return [emit(c, "reshape", rows, shape=v.type.shape)]

    return run


def _batch_norm(c: Context, x: Inputs) -> Sequence[Item]:
    if c.attrs.get("training_mode", 0) or len([o for o in c.outputs if o]) > 1:
        raise c.bad("batch normalisation in training mode", "inference")
    v, scale, bias, mean, var = (operand(c, x, i) for i in range(5))
    eps = float(c.attrs.get("epsilon", 1e-5))
    return [composite.batch_norm(c.builder, v, scale, bias, mean, var, eps)]


def _instance_norm(c: Context, x: Inputs) -> Sequence[Item]:
    v, scale, bias = (operand(c, x, i) for i in range(3))
    eps = float(c.attrs.get("epsilon", 1e-5))
    return [composite.instance_norm(c.builder, v, scale, bias, eps)]


def _layer_norm(c: Context, x: Inputs) -> Sequence[Item]:
    if len([o for o in c.outputs if o]) > 1:
        raise c.bad("the outputs Mean and InvStdDev", "the normalised values alone")
    v, scale, bias = operand(c, x, 0), operand(c, x, 1), optional(c, x, 2)
    first = axis_of(c, int(c.attrs.get("axis", -1)), v.type.rank)
    axes = tuple(range(first, v.type.rank))
    eps = float(c.attrs.get("epsilon", 1e-5))
    return [composite.layer_norm(c.builder, v, axes, scale, bias, eps)]


def _one_hot(c: Context, x: Inputs) -> Sequence[Item]:
    at = operand(c, x, 0)
    depth, pair = x[1], x[2]
    if depth is None or not isinstance(pair, Known):
        raise c.bad("OneHot whose values are computed at run time", "known values")
    off, on = pair.array.tolist()
    axis = int(c.attrs.get("axis", -1))
    return [composite.one_hot(c.builder, at, ints(depth, c.where)[0], pair.dtype, axis, on, off)]


def _trilu(c: Context, x: Inputs) -> Sequence[Item]:
    k = x[1] if len(x) > 1 else None
    offset = ints(k, c.where)[0] if k is not None else 0
    upper = bool(c.attrs.get("upper", 1))
    return [composite.triangle(c.builder, operand(c, x, 0), offset, upper)]


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
