"""Composites as standalone functions with random attributes, which fuzzed graphs call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from didyma.composites import complex as complexes
from didyma.composites import composite, fourier
from didyma.composites.builder import Builder, Value
from didyma.composites.composite import Emit
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Function
from didyma.refimpl.ir.types import FLOATS, SIGNED, DType, TensorType
from didyma.refimpl.ops.choose import flag, pick, size, subset
from didyma.refimpl.ops.spec import Chooser


def start(types: Sequence[TensorType]) -> tuple[Builder, list[Value]]:
    """Return a builder of a function, and its parameters ``p0``, ``p1``, ….

    >>> b, (x,) = start([TensorType(DType.F32, (3,))])
    >>> b.function("f", [composite.relu(b, x)]).result_types() == (TensorType(DType.F32, (3,)),)
    True
    """
    b = Builder()
    return b, [b.param(f"p{i}", t) for i, t in enumerate(types)]


Body: TypeAlias = Callable[[Emit[Value], Sequence[Value]], Value]
Proposal: TypeAlias = tuple[tuple[TensorType, ...], Body]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A composite, and how to propose a use of it on an operand of a given type."""

    name: str
    propose: Callable[[Chooser, TensorType], Proposal | None]

    def function(self, ch: Chooser, t: TensorType, name: str | None = None) -> Function | None:
        """Return a standalone function with chosen attributes, whose first operand has type t."""
        proposal = self.propose(ch, t) if t.dtype in FLOATS or self.name == "one_hot" else None
        if proposal is None:
            return None
        types, body = proposal
        b, params = start(types)
        return b.function(name or self.name, [body(b, params)])


def _unary(f: Callable[[Emit[Value], Value], Value]) -> Callable[[Chooser, TensorType], Proposal]:
    def propose(_ch: Chooser, t: TensorType) -> Proposal:
        def body(b: Emit[Value], p: Sequence[Value]) -> Value:
            return f(b, p[0])

        return (t,), body

    return propose


def _spatial(
    f: Callable[[Emit[Value], Value], Value],
) -> Callable[[Chooser, TensorType], Proposal | None]:
    def propose(ch: Chooser, t: TensorType) -> Proposal | None:
        return _unary(f)(ch, t) if t.rank >= 3 else None

    return propose


def _along(
    f: Callable[[Emit[Value], Value, int], Value],
) -> Callable[[Chooser, TensorType], Proposal | None]:
    def propose(ch: Chooser, t: TensorType) -> Proposal | None:
        if t.rank == 0:
            return None
        axis = -1 - ch.below(t.rank)

        def body(b: Emit[Value], p: Sequence[Value]) -> Value:
            return f(b, p[0], axis)

        return (t,), body

    return propose


def _slope(ch: Chooser, t: TensorType) -> Proposal:
    alpha = pick(ch, (0.01, 0.5, -1.0, 2.0))
    bent = pick(ch, (composite.leaky_relu, composite.elu))

    def body(b: Emit[Value], p: Sequence[Value]) -> Value:
        return bent(b, p[0], alpha)

    return (t,), body


def _prelu(ch: Chooser, t: TensorType) -> Proposal:
    slope = t.with_shape(*t.shape[ch.below(t.rank + 1) :])

    def body(b: Emit[Value], p: Sequence[Value]) -> Value:
        return composite.prelu(b, p[0], p[1])

    return (t, slope), body


def _gelu(ch: Chooser, t: TensorType) -> Proposal:
    approximate = flag(ch)

    def body(b: Emit[Value], p: Sequence[Value]) -> Value:
        return composite.gelu(b, p[0], approximate)

    return (t,), body


def _spread(ch: Chooser, t: TensorType) -> Proposal:
    axes, keepdims, correction = subset(ch, t.rank), flag(ch), ch.below(2)
    measure = pick(ch, (composite.variance, composite.std))

    def body(b: Emit[Value], p: Sequence[Value]) -> Value:
        return measure(b, p[0], axes, keepdims, correction)

    return (t,), body


def _logsumexp(ch: Chooser, t: TensorType) -> Proposal:
    axes, keepdims = subset(ch, t.rank), flag(ch)

    def body(b: Emit[Value], p: Sequence[Value]) -> Value:
        return composite.logsumexp(b, p[0], axes, keepdims)

    return (t,), body


def _layer_norm(ch: Chooser, t: TensorType) -> Proposal | None:
    if t.rank == 0:
        return None
    count = 1 + ch.below(t.rank)
    axes = tuple(range(-count, 0))
    affine = t.with_shape(*t.shape[t.rank - count :])
    extra = ch.below(3)
    eps = pick(ch, (1e-5, 1e-3, 1e-6))

    def body(b: Emit[Value], p: Sequence[Value]) -> Value:
        scale, bias = (*p[1:], None, None)[:2]
        return composite.layer_norm(b, p[0], axes, scale, bias, eps)

    return (t, *[affine] * extra), body


def _rms_norm(ch: Chooser, t: TensorType) -> Proposal | None:
    if t.rank == 0:
        return None
    scaled = flag(ch)

    def body(b: Emit[Value], p: Sequence[Value]) -> Value:
        return composite.rms_norm(b, p[0], (-1,), p[1] if scaled else None)

    return (t, *[t.with_shape(t.shape[-1])] * scaled), body


def _batch_norm(ch: Chooser, t: TensorType) -> Proposal | None:
    if t.rank < 2:
        return None
    vector = t.with_shape(t.shape[1])
    by_instance = t.rank >= 3 and flag(ch)

    def body(b: Emit[Value], p: Sequence[Value]) -> Value:
        if by_instance:
            return composite.instance_norm(b, p[0], p[1], p[2])
        variance = b("square", (p[4],))  # not negative
        return composite.batch_norm(b, p[0], p[1], p[2], p[3], variance)

    return (t, *[vector] * (2 if by_instance else 4)), body


def _linear(ch: Chooser, t: TensorType) -> Proposal | None:
    if t.rank == 0:
        return None
    columns, biased = size(ch, 8), flag(ch)

    def body(b: Emit[Value], p: Sequence[Value]) -> Value:
        return composite.linear(b, p[0], p[1], p[2] if biased else None)

    weight = t.with_shape(t.shape[-1], columns)
    return (t, weight, *[t.with_shape(columns)] * biased), body


def _attention(ch: Chooser, t: TensorType) -> Proposal | None:
    if t.rank < 2:
        return None
    batch, depth = t.shape[:-2], t.shape[-1]
    keys, width = pick(ch, (3, 2, 5, 1)), pick(ch, (2, 4, 1))

    def body(b: Emit[Value], p: Sequence[Value]) -> Value:
        return composite.attention(b, p[0], p[1], p[2])

    return (t, t.with_shape(*batch, keys, depth), t.with_shape(*batch, keys, width)), body


def _one_hot(ch: Chooser, t: TensorType) -> Proposal | None:
    if t.dtype not in SIGNED:
        return None
    depth, axis = pick(ch, (3, 1, 5)), ch.below(t.rank + 1)
    dtype = pick(ch, (DType.F32, DType.I32, DType.F16))

    def body(b: Emit[Value], p: Sequence[Value]) -> Value:
        return composite.one_hot(b, p[0], depth, dtype, axis)

    return (t,), body


def _triangle(ch: Chooser, t: TensorType) -> Proposal | None:
    if t.rank < 2:
        return None
    offset, upper = pick(ch, (0, 1, -1, 2)), flag(ch)

    def body(b: Emit[Value], p: Sequence[Value]) -> Value:
        return composite.triangle(b, p[0], offset, upper)

    return (t,), body


def _complex(ch: Chooser, t: TensorType) -> Proposal:
    one = pick(ch, (complexes.absolute, complexes.angle, complexes.exp, complexes.conjugate))
    two = pick(ch, (complexes.multiply, complexes.divide, None))

    def body(b: Emit[Value], p: Sequence[Value]) -> Value:
        z = complexes.pair(b, p[0], p[1])
        return one(b, z) if two is None else two(b, z, complexes.pair(b, p[1], p[2]))

    return (t, t, t)[: 2 if two is None else 3], body


def _complex_matmul(ch: Chooser, t: TensorType) -> Proposal | None:
    if t.rank < 2:
        return None
    other = t.with_shape(*t.shape[:-2], t.shape[-1], size(ch, 4))

    def body(b: Emit[Value], p: Sequence[Value]) -> Value:
        x, y = complexes.pair(b, p[0], p[0]), complexes.pair(b, p[1], p[2])
        return complexes.matmul(b, x, y)

    return (t, other, other), body


def _dft(ch: Chooser, t: TensorType) -> Proposal | None:
    if not t.rank or not all(isinstance(d, int) and d for d in t.shape):
        return None
    n, axis = pick(ch, (4, 3, 1, 8, 7, 12, 30)), ch.below(t.rank)
    real, inverse, onesided = flag(ch), flag(ch), flag(ch)

    def body(b: Emit[Value], p: Sequence[Value]) -> Value:
        x = b("reshape", (p[0],), shape=(*t.shape, 1)) if real else complexes.pair(b, p[0], p[0])
        return fourier.dft(b, x, n, axis, inverse, onesided)

    return (t,), body


def _stft(ch: Chooser, t: TensorType) -> Proposal | None:
    if not t.rank or not isinstance(t.shape[-1], int) or t.shape[-1] < 2:
        return None
    n, step = pick(ch, (2, 1, t.shape[-1])), 1 + ch.below(3)
    windowed, onesided = flag(ch), flag(ch)

    def body(b: Emit[Value], p: Sequence[Value]) -> Value:
        x = b("reshape", (p[0],), shape=(dims.mul(*t.shape[:-1]), t.shape[-1], 1))
        return fourier.stft(b, x, n, step, p[1] if windowed else None, onesided)

    return (t, *[t.with_shape(n)] * windowed), body


RECIPES: tuple[Recipe, ...] = (
    Recipe("relu", _unary(composite.relu)),
    Recipe("sigmoid", _unary(composite.sigmoid)),
    Recipe("silu", _unary(composite.silu)),
    Recipe("gelu", _gelu),
    Recipe("bent_relu", _slope),
    Recipe("prelu", _prelu),
    Recipe("selu", _unary(composite.selu)),
    Recipe("hard_sigmoid", _unary(composite.hard_sigmoid)),
    Recipe("hard_swish", _unary(composite.hard_swish)),
    Recipe("softplus", _unary(composite.softplus)),
    Recipe("softsign", _unary(composite.softsign)),
    Recipe("mish", _unary(composite.mish)),
    Recipe("softmax", _along(composite.softmax)),
    Recipe("log_softmax", _along(composite.log_softmax)),
    Recipe("logsumexp", _logsumexp),
    Recipe("spread", _spread),
    Recipe("layer_norm", _layer_norm),
    Recipe("rms_norm", _rms_norm),
    Recipe("batch_norm", _batch_norm),
    Recipe("global_avg_pool", _spatial(composite.global_avg_pool)),
    Recipe("global_max_pool", _spatial(composite.global_max_pool)),
    Recipe("linear", _linear),
    Recipe("attention", _attention),
    Recipe("one_hot", _one_hot),
    Recipe("triangle", _triangle),
    Recipe("complex", _complex),
    Recipe("complex_matmul", _complex_matmul),
    Recipe("dft", _dft),
    Recipe("stft", _stft),
)
