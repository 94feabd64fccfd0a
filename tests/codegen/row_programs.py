"""Programs that fold rows and use them again, and their gradients, as the field writes them.

Each stands with the types of its parameters and the number of kernels that it is with the usual
options, and with ``graph.rows`` false.  Gradients are written out from their formulas: ``g`` is the
gradient of the result.  Programs named ``gradients`` return those of weights and biases, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import didyma as dd
from didyma.codegen.options import Options
from didyma.tracer.tracing import Program

ROWS, APART = Options(), Options().changed({"graph.rows": False})
EPS = 1e-5
X, W = dd.f32[6, 100], dd.f32[100]
IMAGE, CHANNELS = dd.f32[4, 6, 5, 5], dd.f32[6]
LOGITS, LABELS = dd.f32[9, 40], dd.i64[9]


def softmax(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x, axis=-1)


def softmax_backward(y: dd.Tensor, g: dd.Tensor) -> dd.Tensor:
    return y * (g - dd.sum(g * y, axis=-1, keepdims=True))


def log_softmax(x: dd.Tensor) -> dd.Tensor:
    return dd.log_softmax(x, axis=-1)


def log_softmax_backward(y: dd.Tensor, g: dd.Tensor) -> dd.Tensor:
    return g - dd.exp(y) * dd.sum(g, axis=-1, keepdims=True)


def logsumexp(x: dd.Tensor) -> dd.Tensor:
    return dd.logsumexp(x, axis=-1)


def logsumexp_backward(x: dd.Tensor, g: dd.Tensor) -> dd.Tensor:
    return dd.reshape(g, (6, 1)) * dd.softmax(x, axis=-1)


def layer_norm(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return dd.layer_norm(x, w, b)


def _norm_backward(x: dd.Tensor, gw: dd.Tensor, axis: Any, centre: bool = True) -> dd.Tensor:
    """Return the gradient of ``x`` normalised along axes, of which ``gw`` is that of the result."""
    return _norm_gradient(x, gw, axis, centre)[0]


def _norm_gradient(
    x: dd.Tensor, gw: dd.Tensor, axis: Any, centre: bool = True
) -> tuple[dd.Tensor, dd.Tensor]:
    """Return the gradient of ``x``, as above, and ``x`` normalised."""

    def mean(v: dd.Tensor) -> dd.Tensor:
        return dd.mean(v, axis=axis, keepdims=True)

    centred = x - mean(x) if centre else x
    scale = 1.0 / dd.sqrt(mean(centred * centred) + EPS)
    unit = centred * scale
    kept = gw - mean(gw) if centre else gw
    return scale * (kept - unit * mean(gw * unit)), unit


def layer_norm_backward(x: dd.Tensor, g: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return _norm_backward(x, g * w, -1)


def layer_norm_gradients(x: dd.Tensor, g: dd.Tensor, w: dd.Tensor) -> tuple[dd.Tensor, ...]:
    gx, unit = _norm_gradient(x, g * w, -1)
    return gx, dd.sum(g * unit, axis=0), dd.sum(g, axis=0)


def rms_norm(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return dd.rms_norm(x, w)


def rms_norm_backward(x: dd.Tensor, g: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return _norm_backward(x, g * w, -1, centre=False)


def rms_norm_gradients(x: dd.Tensor, g: dd.Tensor, w: dd.Tensor) -> tuple[dd.Tensor, ...]:
    gx, unit = _norm_gradient(x, g * w, -1, centre=False)
    return gx, dd.sum(g * unit, axis=0)


def batch_norm(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    mean, spread = dd.mean(x, axis=(0, 2, 3)), dd.var(x, axis=(0, 2, 3))
    return dd.batch_norm(x, mean, spread, w, b)


def batch_norm_backward(x: dd.Tensor, g: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return _norm_backward(x, g * dd.reshape(w, (6, 1, 1)), (0, 2, 3))


def batch_norm_gradients(x: dd.Tensor, g: dd.Tensor, w: dd.Tensor) -> tuple[dd.Tensor, ...]:
    axes = (0, 2, 3)
    gx, unit = _norm_gradient(x, g * dd.reshape(w, (6, 1, 1)), axes)
    return gx, dd.sum(g * unit, axis=axes), dd.sum(g, axis=axes)


def group_norm(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return dd.group_norm(x, 2, w, b)


def group_norm_backward(x: dd.Tensor, g: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    groups = (4, 2, 3, 5, 5)
    gw = dd.reshape(g * dd.reshape(w, (6, 1, 1)), groups)
    return dd.reshape(_norm_backward(dd.reshape(x, groups), gw, (2, 3, 4)), (4, 6, 5, 5))


def group_norm_gradients(x: dd.Tensor, g: dd.Tensor, w: dd.Tensor) -> tuple[dd.Tensor, ...]:
    groups, axes = (4, 2, 3, 5, 5), (0, 2, 3)
    gw = dd.reshape(g * dd.reshape(w, (6, 1, 1)), groups)
    gx, unit = _norm_gradient(dd.reshape(x, groups), gw, (2, 3, 4))
    weight = dd.sum(g * dd.reshape(unit, (4, 6, 5, 5)), axis=axes)
    return dd.reshape(gx, (4, 6, 5, 5)), weight, dd.sum(g, axis=axes)


def cross_entropy(x: dd.Tensor, labels: dd.Tensor) -> dd.Tensor:
    return dd.cross_entropy(x, labels)


def cross_entropy_backward(x: dd.Tensor, labels: dd.Tensor) -> dd.Tensor:
    return (dd.softmax(x, axis=1) - dd.one_hot(labels, 40, dtype=dd.f32)) / 9.0


def soft_cross_entropy(x: dd.Tensor, target: dd.Tensor) -> dd.Tensor:
    return dd.cross_entropy(x, target)


def soft_cross_entropy_backward(x: dd.Tensor, target: dd.Tensor) -> dd.Tensor:
    total = dd.sum(target, axis=1, keepdims=True)
    return (dd.softmax(x, axis=1) * total - target) / 9.0


def scores(s: dd.Tensor, mask: dd.Tensor) -> dd.Tensor:
    return dd.softmax(dd.where(mask, s * 0.125, -math.inf), axis=-1)


def scores_backward(y: dd.Tensor, g: dd.Tensor, mask: dd.Tensor) -> dd.Tensor:
    return dd.where(mask, softmax_backward(y, g) * 0.125, 0.0)


def causal_scores(s: dd.Tensor) -> dd.Tensor:
    seen = dd.arange(20) <= dd.reshape(dd.arange(12), (12, 1))
    return dd.softmax(dd.where(seen, s * 0.125, -math.inf), axis=-1)


@dataclass(frozen=True, slots=True)
class Rows:
    """A program, and how many kernels it is as joined rows, and as kernels of one fold each."""

    f: Callable[..., Any]
    types: tuple[Any, ...]
    joined: int = 1
    apart: int = 3

    def program(self) -> Program:
        found: Program = dd.trace(*self.types)(self.f)
        return found


NAMED: tuple[Rows, ...] = (
    Rows(softmax, (X,)),
    Rows(softmax_backward, (X, X), apart=2),
    Rows(log_softmax, (X,)),
    Rows(log_softmax_backward, (X, X), apart=2),
    Rows(logsumexp, (X,), apart=2),
    Rows(logsumexp_backward, (X, dd.f32[6])),
    Rows(layer_norm, (X, W, W)),
    Rows(layer_norm_backward, (X, X, W), apart=6),
    Rows(layer_norm_gradients, (X, X, W), joined=2, apart=8),
    Rows(rms_norm, (X, W), apart=2),
    Rows(rms_norm_backward, (X, X, W), apart=4),
    Rows(rms_norm_gradients, (X, X, W), joined=2, apart=5),
    Rows(batch_norm, (IMAGE, CHANNELS, CHANNELS), apart=4),
    Rows(batch_norm_backward, (IMAGE, IMAGE, CHANNELS), apart=6),
    Rows(batch_norm_gradients, (IMAGE, IMAGE, CHANNELS), apart=8),
    Rows(group_norm, (IMAGE, CHANNELS, CHANNELS)),
    Rows(group_norm_backward, (IMAGE, IMAGE, CHANNELS), apart=6),
    Rows(group_norm_gradients, (IMAGE, IMAGE, CHANNELS), joined=2, apart=8),
    Rows(cross_entropy, (LOGITS, LABELS), joined=2, apart=5),
    Rows(cross_entropy_backward, (LOGITS, LABELS)),
    Rows(soft_cross_entropy, (LOGITS, LOGITS), joined=2, apart=4),
    Rows(soft_cross_entropy_backward, (LOGITS, LOGITS), apart=4),
    Rows(scores, (dd.f32[2, 3, 12, 20], dd.bool_[12, 20]), apart=4),
    Rows(scores_backward, (X, X, dd.bool_[6, 100]), apart=2),
    Rows(causal_scores, (dd.f32[2, 3, 12, 20],), apart=4),
)
PROGRAMS = {r.f.__name__: r for r in NAMED}
