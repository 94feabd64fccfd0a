"""Activations, normalisations, losses and attention, under the names of the field."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias, overload

from didyma.composites import composite
from didyma.functions import reductions
from didyma.functions.axes import Axis, axes_of, axis_in, axis_of, composed, promoted, rank, shape
from didyma.functions.creation import arange
from didyma.functions.joining import repeat
from didyma.functions.products import matmul
from didyma.functions.public import public, wrong
from didyma.functions.shaping import astype, reshape
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import DType
from didyma.tracer.tensor import Tensor, apply, common, scalar
from didyma.tracer.types import Element, i64

Activation: TypeAlias = Callable[[Tensor], Tensor]
Reduction: TypeAlias = Literal["mean", "sum", "none"]
ScoreMod: TypeAlias = Callable[..., Tensor]


def _activation(body: Callable[..., object], formula: str) -> Activation:
    name = body.__name__

    def f(x: Tensor, /) -> Tensor:
        return composed(body, x)  # type: ignore[arg-type]  # it is generic in the builder

    f.__name__ = f.__qualname__ = name
    f.__doc__ = (
        f"{formula}, of each element.\n\nFloats of any shape.  Example: ``dd.{name}(x)``.\n"
        "Errors: ``dtype-mismatch``."
    )
    return public(f)


relu = _activation(composite.relu, "The larger of ``x`` and 0, numbers of any dtype")
selu = _activation(composite.selu, "Scaled ``elu`` with the constants of Klambauer et al. (2017)")
sigmoid = _activation(composite.sigmoid, "``1 / (1 + exp(-x))``")
silu = _activation(composite.silu, "``x * sigmoid(x)``, also called swish")
hard_sigmoid = _activation(composite.hard_sigmoid, "``clip(x / 6 + 1 / 2, 0, 1)``")
hard_swish = _activation(composite.hard_swish, "``x * hard_sigmoid(x)``")
softplus = _activation(composite.softplus, "``log(1 + exp(x))``")
softsign = _activation(composite.softsign, "``x / (1 + |x|)``")
mish = _activation(composite.mish, "``x * tanh(softplus(x))``")


@public
def leaky_relu(x: Tensor, /, negative_slope: float = 0.01) -> Tensor:
    """``x`` where it is not negative, else ``negative_slope * x``.

    Floats of any shape.  Example: ``dd.leaky_relu(x, 0.2)``.  Errors: ``dtype-mismatch``.
    """
    return composed(composite.leaky_relu, x, negative_slope)


@public
def prelu(x: Tensor, /, weight: Tensor) -> Tensor:
    """``x`` where it is not negative, else ``weight * x``.

    A vector of weights has one for each channel, axis 1, of ``x``; one weight is for all.
    Example: ``dd.prelu(x, w)``.  Errors: ``shape-mismatch``, ``dtype-mismatch``.
    """
    x, weight = promoted([x, weight])
    if rank(weight) == 1 and rank(x) > 2:
        weight = apply("reshape", weight, shape=(*shape(weight), *(1,) * (rank(x) - 2)))
    return composed(composite.prelu, x, weight)


@public
def elu(x: Tensor, /, alpha: float = 1.0) -> Tensor:
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)``.

    Floats of any shape.  Example: ``dd.elu(x)``.  Errors: ``dtype-mismatch``.
    """
    return composed(composite.elu, x, alpha)


@public
def gelu(x: Tensor, /, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    """``x`` times the normal distribution function of ``x``: by erf, or approximately by tanh.

    Floats of any shape.  Example: ``dd.gelu(x, approximate="tanh")``.  Errors: ``dtype-mismatch``.
    """
    return composed(composite.gelu, x, approximate == "tanh")


@public
def softmax(x: Tensor, /, axis: int = -1) -> Tensor:
    """Exponentials along an axis, divided by their sum.

    Floats of any shape.  Example: ``dd.softmax(x, axis=1)``.
    Errors: ``bad-axis``, ``dtype-mismatch``.
    """
    return composed(composite.softmax, x, axis_of(x, axis))


@public
def log_softmax(x: Tensor, /, axis: int = -1) -> Tensor:
    """Logarithm of the softmax along an axis, without forming it.

    Floats of any shape.  Example: ``dd.log_softmax(x)``.  Errors: ``bad-axis``, ``dtype-mismatch``.
    """
    return composed(composite.log_softmax, x, axis_of(x, axis))


@public
def layer_norm(
    x: Tensor,
    /,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    axis: Axis = -1,
    *,
    eps: float = 1e-5,
) -> Tensor:
    """Subtract the mean over axes, divide by the standard deviation, scale and shift.

    Floats; ``weight`` and ``bias`` are broadcast.  Where PyTorch takes a shape to normalise over,
    name the axes.  Example: ``dd.layer_norm(x, w, b, axis=-1)``.
    Errors: ``bad-axis``, ``shape-mismatch``, ``dtype-mismatch``.
    """
    return composed(composite.layer_norm, x, axes_of(x, axis), weight, bias, eps)


@public
def rms_norm(
    x: Tensor, /, weight: Tensor | None = None, axis: Axis = -1, *, eps: float = 1e-6
) -> Tensor:
    """Divide by the root of the mean square over axes, and scale.

    Floats; ``weight`` is broadcast.  Example: ``dd.rms_norm(x, w)``.
    Errors: ``bad-axis``, ``shape-mismatch``, ``dtype-mismatch``.
    """
    return composed(composite.rms_norm, x, axes_of(x, axis), weight, eps)


def _channels(x: Tensor, name: str, *vectors: Tensor | None) -> None:
    """Check that a tensor has channels, and vectors one number for each of them."""
    if rank(x) < 2:
        raise wrong(f"dd.{name}", str(x.value.type), "a tensor [batch, channels, ...]")
    for v in vectors:
        if v is not None and shape(v) != (shape(x)[1],):
            got = f"{v.value.type} for {dims.text(shape(x)[1])} channels"
            raise wrong(f"dd.{name}", got, "vectors with one number a channel")


@public
def batch_norm(
    x: Tensor,
    /,
    mean: Tensor,
    var: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    eps: float = 1e-5,
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` with given vectors along axis 1.

    ``x`` is [batch, channels, ...], in the order of PyTorch's function; statistics are not taken.
    Example: ``dd.batch_norm(x, mean, var, w, b)``.  Errors: ``bad-call``, ``dtype-mismatch``.
    """
    _channels(x, "batch_norm", mean, var, weight, bias)
    return composed(composite.batch_norm, x, weight, bias, mean, var, eps)


@public
def group_norm(
    x: Tensor,
    /,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each group of channels, then scale and shift each channel.

    ``x`` is [batch, channels, ...].  Example: ``dd.group_norm(x, 8, w, b)``.
    Errors: ``bad-call`` where the channels cannot be split into equal groups, ``dtype-mismatch``.
    """
    _channels(x, "group_norm", weight, bias)
    count = shape(x)[1]
    divisible = num_groups >= 1 and dims.equal(
        dims.mul(dims.floordiv(count, num_groups), num_groups), count
    )
    if not divisible:
        got = f"{num_groups} groups of {dims.text(count)} channels"
        raise wrong("dd.group_norm", got, "equal groups")
    return composed(composite.group_norm, x, num_groups, weight, bias, eps)


@public
def instance_norm(
    x: Tensor, /, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
) -> Tensor:
    """Normalise each channel over the spatial axes, then scale and shift it.

    ``x`` is [batch, channels, spatial, ...].  Example: ``dd.instance_norm(x, w, b)``.
    Errors: ``bad-call``, ``dtype-mismatch``.
    """
    _channels(x, "instance_norm", weight, bias)
    return composed(composite.instance_norm, x, weight, bias, eps)


@public
def one_hot(x: Tensor, /, num_classes: int, *, dtype: Element = i64, axis: int = -1) -> Tensor:
    """Return 1 at the index along a new axis, else 0.

    Integers of any shape; a negative one counts from the end, one out of range has no place.
    Example: ``dd.one_hot(labels, 10, dtype=dd.f32)``.  Errors: ``bad-axis``, ``bad-call``.
    """
    if not x.value.type.dtype.is_int or num_classes < 0:
        got = f"{x.value.type} and {num_classes} classes"
        raise wrong("dd.one_hot", got, "integers, and at least no classes")
    at = axis_in(rank(x) + 1, axis, x)
    return composed(composite.one_hot, x, num_classes, dtype.dtype, at)


def _reduced(loss: Tensor, reduction: Reduction) -> Tensor:
    if reduction == "none":
        return loss
    return apply(reduction, loss, axes=tuple(range(rank(loss))), keepdims=False)


@public
def mse_loss(x: Tensor, /, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Mean of the squared differences; their sum, or each by itself.

    Floats, promoted and broadcast.  Example: ``dd.mse_loss(y, target)``.
    Errors: ``shape-mismatch``, ``dtype-mismatch``.
    """
    x, target = promoted([x, target])
    return _reduced(apply("square", apply("subtract", x, target)), reduction)


@public
def nll_loss(
    x: Tensor, /, target: Tensor, *, ignore_index: int = -100, reduction: Reduction = "mean"
) -> Tensor:
    """Negative log-likelihood: minus the logarithm of the probability of each target class.

    ``x`` holds logarithms [batch, classes, ...], or [classes]; ``target`` the classes, integers of
    its shape without axis 1.  Places where the target is ``ignore_index`` count as 0 and are left
    out of the mean.  Example: ``dd.nll_loss(dd.log_softmax(x, axis=1), y)``.
    Errors: ``bad-call``, ``dtype-mismatch``.
    """
    at = min(rank(x), 2) - 1
    rest = tuple(n for a, n in enumerate(shape(x)) if a != at)
    if at < 0 or shape(target) != rest or not target.value.type.dtype.is_int:
        got = f"{x.value.type} and a target of type {target.value.type}"
        raise wrong("dd.nll_loss", got, "classes along axis 1, and integers without it")
    kept = apply("not_equal", target, scalar(target, ignore_index))
    index = apply("where", kept, target, scalar(target, 0))
    column = apply("reshape", index, shape=(*rest[:at], 1, *rest[at:]))
    taken = apply("gather_elements", x, column, axis=at)
    loss = apply("negative", apply("reshape", taken, shape=rest))
    loss = apply("where", kept, loss, scalar(loss, 0))
    if reduction != "mean":
        return _reduced(loss, reduction)
    count = _reduced(kept.astype(loss.value.type.dtype), "sum")
    return apply("divide", _reduced(loss, "sum"), count)


@public
def cross_entropy(
    x: Tensor,
    /,
    target: Tensor,
    *,
    axis: int | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    """Cross entropy of logits [batch, classes, ...], or [classes], with the target.

    The target holds classes, integers without axis 1, or probabilities of the shape of ``x``, for
    which the mean is over all places but the classes.
    Example: ``dd.cross_entropy(logits, labels)``.  Errors: ``bad-call``, ``dtype-mismatch``.
    """
    at = min(rank(x), 2) - 1
    if axis is not None and axis_of(x, axis) != at:
        raise wrong("dd.cross_entropy", f"axis = {axis}", "classes along axis 1",
                    "dd.moveaxis(logits, axis, 1)")  # fmt: skip
    logs = log_softmax(x, at)
    if target.value.type.dtype.is_int:
        return nll_loss(logs, target, ignore_index=ignore_index, reduction=reduction)
    if shape(target) != shape(x):
        raise wrong("dd.cross_entropy", f"{x.value.type} and a target of type {target.value.type}",
                    "classes as integers, or probabilities of the same shape")  # fmt: skip
    products = apply("multiply", *promoted([logs, target]))
    loss = apply("negative", apply("sum", products, axes=(at,), keepdims=False))
    return _reduced(loss, reduction)


def for_heads(q: Tensor, x: Tensor, name: str) -> Tensor:
    """Return keys or values with each head as often as neighbouring heads of queries share it."""
    if min(rank(q), rank(x)) < 3:
        types = f"{q.value.type} and {x.value.type}"
        raise wrong("dd.scaled_dot_product_attention", types, "tensors [..., heads, length, depth]")
    heads, own = shape(q)[-3], shape(x)[-3]
    times = dims.exact_quotient(heads, own)
    if not isinstance(times, int):
        got = f"{dims.text(heads)} heads of queries and {dims.text(own)} of {name}"
        raise wrong("dd.scaled_dot_product_attention", got, "a multiple of the heads of keys")
    return x if times == 1 else repeat(x, times, axis=rank(x) - 3)


def places(x: Tensor) -> list[Tensor]:
    """Return the index of each element along each axis, i64 of size 1 along the others."""
    b, sizes = common(x), shape(x)
    return [
        Tensor(b, b("iota", [], dtype=DType.I64, axis=a,
                    shape=tuple(n if i == a else 1 for i, n in enumerate(sizes))))
        for a in range(len(sizes))
    ]  # fmt: skip


class Attended(NamedTuple):
    """The result of an attention, and the logarithm of the softmax's sum for each query."""

    out: Tensor
    logsumexp: Tensor


@overload
def scaled_dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    score_mod: ScoreMod | None = None,
    return_lse: Literal[False] = False,
) -> Tensor: ...


@overload
def scaled_dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    score_mod: ScoreMod | None = None,
    return_lse: Literal[True],
) -> Attended: ...


@public
def scaled_dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    score_mod: ScoreMod | None = None,
    return_lse: bool = False,
) -> Tensor | Attended:
    """``softmax(q @ transposed k * scale + mask) @ v`` over the last two axes.

    ``q`` is [..., queries, depth], ``k`` [..., keys, depth], ``v`` [..., keys, width]; leading axes
    are broadcast.  A bool ``mask`` is true where a query sees a key; a float one is added.
    ``is_causal`` lets query *i* see the keys up to *i*.  ``scale`` is ``1 / sqrt(depth)`` if not
    given, also for a symbolic depth.  With ``enable_gqa``, several neighbouring heads of ``q``, on
    the axis before the last two, share one of ``k`` and ``v``.  ``score_mod(score, *indices)``
    changes scores first; ``indices`` are integers for each of their axes, such as batch, head,
    query and key.  If a mask or changed scores are of a wider dtype, so is the softmax, whose
    weights are rounded to the dtype of ``v``.  With ``return_lse`` the softmax is computed in f32
    (f64 for f64), and the result is the attention and the logarithm of each query's sum of
    exponentials, [..., queries], of which gradients are computed; it is NaN for a query that sees
    no key.
    Example: ``dd.scaled_dot_product_attention(q, k, v, is_causal=True)``.
    Errors: ``bad-call``, ``shape-mismatch``, ``dtype-mismatch``.
    """
    q, k, v = promoted([q, k, v])
    if min(rank(t) for t in (q, k, v)) < 2:
        types = ", ".join(str(t.value.type) for t in (q, k, v))
        raise wrong("dd.scaled_dot_product_attention", types, "tensors [..., length, depth]")
    if enable_gqa:
        k, v = (for_heads(q, x, name) for x, name in ((k, "keys"), (v, "values")))
    s = composed(composite.scores, q, k, scale)
    if score_mod is not None:
        s = score_mod(s, *places(s))
    never = scalar(s, -math.inf)
    if mask is not None:
        if mask.value.type.dtype is DType.BOOL:
            s = apply("where", mask, s, never)
        else:
            s = apply("add", *promoted([s, mask]))
    if is_causal:
        rows, columns = shape(s)[-2:]
        row = apply("reshape", arange(rows), shape=(rows, 1))
        s = apply("where", apply("greater_equal", row, arange(columns)), s, never)
    if not return_lse:
        return matmul(astype(softmax(s), Element(v.value.type.dtype)), v)
    wide = astype(s, Element(s.value.type.dtype.compute))
    top = reductions.max(wide, axis=-1, keepdims=True)
    powers = apply("exp", apply("subtract", wide, top))
    total = reductions.sum(powers, axis=-1, keepdims=True)
    weights = astype(apply("divide", powers, total), Element(v.value.type.dtype))
    lse = apply("add", apply("log", total), top)
    return Attended(matmul(weights, v), reshape(lse, shape(lse)[:-1]))


__all__ = [
    "batch_norm", "cross_entropy", "elu", "gelu", "group_norm", "hard_sigmoid", "hard_swish",
    "instance_norm", "layer_norm", "leaky_relu", "log_softmax", "mish", "mse_loss", "nll_loss",
    "one_hot", "prelu", "relu", "rms_norm", "scaled_dot_product_attention", "selu", "sigmoid",
    "silu", "softmax", "softplus", "softsign",
]  # fmt: skip
