"""The motif of what is rewritten for tensor cores: products, convolutions, sums of weighted values.

What is drawn is near to what graph passes look for, and at times another size, axis or reader keeps
a rewrite away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from didyma.fuzz.steering.company import after, before
from didyma.fuzz.steering.opsets import UNARY
from didyma.fuzz.steering.sketch import Sketch
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.target import SM_80, SM_90A
from didyma.refimpl.ir.types import DType, TensorType

_NARROW = (DType.F16, DType.BF16)
_BYTES = (DType.F8E4M3, DType.F8E5M2, DType.I8, DType.U8)
# Parts of a product and its terms, of which the last two do not go together.
_PARTS = ((2, 128), (2, 256), (3, 192), (4, 256), (0, 256), (2, 192))
_MOST = 4096  # elements of an operand


def cores(s: Sketch, kind: str) -> None:
    """Draw a piece for a target with tensor cores."""
    s.changes["target"] = s.c.pick((SM_80.name, SM_90A.name))
    s.b.most_elements = _MOST
    KINDS[kind](s)


def _product(s: Sketch) -> None:
    """Multiply matrices of few results and many terms, some of them cast or turned."""
    s.changes["graph.parts"], k = s.c.pick(_PARTS)
    s.changes["graph.converted"] = 0
    m, n = s.c.pick((8, 9, 16)), s.c.pick((8, 12, 17))
    dtype = s.c.pick((DType.F32, *_NARROW))
    x, y = (_cast_or_turned(s, dtype, shape) for shape in ((m, k), (k, n)))
    made = s.apply("matmul", (x, y)) if x and y else None
    if made and s.c.below(3):
        after(s, made)
        if s.c.chance(3):
            after(s, made)


def _cast_or_turned(s: Sketch, dtype: DType, shape: tuple[int, int]) -> str | None:
    """Return a matrix: an operand, or one that is cast to its dtype, turned, or both."""
    turned, cast = s.c.chance(2), s.c.chance(3)
    t = TensorType(s.c.pick((*_NARROW, DType.F32, *_BYTES)) if cast else dtype, shape)
    x = s.param(t.with_shape(*reversed(shape)) if turned else t)
    if x and turned:
        x = s.apply("permute_dims", (x,), freeze({"axes": (1, 0)}))
    if x and t.dtype is not dtype:
        x = s.apply("cast", (x,), freeze({"dtype": dtype}))
    return x


def _convolution(s: Sketch) -> None:
    """Draw one convolution of 16 bits or two, with pads, computed operands, and other readers."""
    groups = s.c.pick((1, 1, 2))
    each, outputs = s.c.pick((8, 16, 3, 5)), groups * s.c.pick((8, 9, 8, 4))
    places = s.c.pick(((5, 4), (3, 6), (9,)))
    t = TensorType(s.c.pick((*_NARROW, *_NARROW, DType.F32)), (2, groups * each, *places))
    x = _last(s, t) if s.c.chance(3) else s.param(t)
    x = x and (before(s, x)[0] if s.c.chance(3) else x)
    found = x and _convolved(s, x, outputs, each, groups)
    if found and s.c.chance(2):
        found = s.first_on((s.c.pick(UNARY), "abs"), found) or found
    if found and s.c.chance(2):
        found = _convolved(s, found, s.c.pick((8, 12)), outputs, 1) or found
    if found:
        after(s, found)
    if x and s.c.chance(3):  # the channels are read where they were, too
        after(s, x)


def _last(s: Sketch, t: TensorType) -> str | None:
    """Return a value of a type that is stored with its channels last."""
    x = s.param(t.with_shape(t.shape[0], *t.shape[2:], t.shape[1]))
    return x and s.apply(
        "permute_dims", (x,), freeze({"axes": (0, t.rank - 1, *range(1, t.rank - 1))})
    )


def _convolved(s: Sketch, x: str, outputs: int, each: int, groups: int) -> str | None:
    t = s.types()[x]
    rank = t.rank - 2
    window = tuple(s.c.pick((1, 1, 3)) for _ in range(rank))
    w = s.value(t.with_shape(outputs, each, *window)) if s.c.below(3) else None
    w = w or s.constant(t.with_shape(outputs, each, *window))
    edges = tuple(s.c.below(2) + (d > 1) for d in window)
    how = {"strides": tuple(1 + s.c.below(2) for _ in window), "dilations": (1,) * rank}
    return s.apply("conv", (x, w), freeze({**how, "low": edges, "high": edges, "groups": groups}))


def _attention(s: Sketch) -> None:
    """Weigh values by the softmax of scores; what is computed of scores may not be their own."""
    m, n, d, e = s.c.pick((4, 9, 16)), s.c.pick((8, 12, 33)), s.c.pick((8, 16)), s.c.pick((8, 3))
    lead = s.c.pick(((), (2,), (2, 3)))
    t = TensorType(s.c.pick((*_NARROW, DType.F32, DType.F64)), (*lead, m, d))
    q, k = s.param(t), _turned(s, t.with_shape(*lead, d, n))
    v = s.param(t.with_shape(*lead, n, e))
    scores = s.apply("matmul", (q, k)) if q and k else None
    if scores is None or v is None:
        return
    if s.c.chance(8):  # what only the attention would read otherwise
        after(s, s.c.pick((k or v, v)))
    score = before(s, scores, (len(lead) + 1,))[0] if s.c.chance(2) else scores
    axes = s.c.pick(((len(lead) + 1,),) * 6 + ((len(lead),),))
    kept = freeze({"axes": axes, "keepdims": True})
    of = scores if s.c.chance(8) else score
    top = s.apply("max", (of,), kept)
    shifted = top and s.apply("subtract", (score, top))
    powers = shifted and s.apply("exp", (shifted,))
    total = powers and s.apply("sum", (powers,), kept)
    weights = total and powers and s.apply("divide", (powers, total))
    form = s.c.pick(("", "", "", "late", "guarded", "factors"))
    if form == "late" and powers and total:
        late = s.apply("matmul", (powers, v))
        made = late and s.apply("divide", (late, total))
    else:
        weights = weights and _weighed(s, weights, form)
        made = weights and s.apply("matmul", (weights, v))
    if made and s.c.chance(3):  # what only gives its axes another order joins it
        order, at = [*range(len(lead) + 2)], s.c.below(len(lead) + 1)
        order[at], order[at + 1] = at + 1, at
        turned = s.apply("permute_dims", (made,), freeze({"axes": tuple(order)}))
        made = s.c.pick((made, turned or made))
    if made:
        after(s, made)
    if weights and s.c.chance(6):
        after(s, weights)


def _weighed(s: Sketch, weights: str, form: str) -> str | None:
    """Return weights with zeros in place of NaN, or with a factor for each; or as they are."""
    t = s.types()[weights]
    if form == "factors":
        by = s.value(t)
        return by and s.apply("multiply", (weights, by))
    if form == "guarded":
        zero = s.splat(np.zeros((), t.dtype.numpy), t.with_shape())
        bad = s.apply("isnan", (weights,))
        return bad and s.apply("where", (bad, zero, weights))
    return weights


def _weighted(s: Sketch) -> None:
    """Weigh values once or twice by what is computed of products, as gradients of attention are."""
    m, d = s.c.pick((4, 8)), s.c.pick((64, 64, 8))
    n = s.c.pick((m, m, 12))
    t = TensorType(s.c.pick((*_NARROW, DType.F32)), (2, m, d))
    pairs = [(s.value(t), s.value(t.with_shape(2, d, n))) for _ in range(2)]
    first, second = (s.apply("matmul", (a, b)) if a and b else None for a, b in pairs)
    powers = first and s.apply(s.c.pick(("exp", "abs", "square")), (first,))
    both = powers and second and s.apply("multiply", (powers, second))
    x = s.value(t.with_shape(2, n, d))
    one = x and both and s.apply("matmul", (both, x))
    y = one if one and m == n and s.c.chance(4) else s.value(t.with_shape(2, n, d))
    other = y and powers and s.apply("matmul", (powers, y))
    for made in filter(None, (one, other)):
        if s.c.chance(3):
            after(s, made)


def _turned(s: Sketch, t: TensorType) -> str | None:
    """Return a parameter of a type, at times one whose last two axes are exchanged."""
    if not s.c.chance(6):
        return s.param(t)
    *lead, a, b = range(t.rank)
    x = s.param(t.with_shape(*t.shape[:-2], t.shape[-1], t.shape[-2]))
    return x and s.apply("permute_dims", (x,), freeze({"axes": (*lead, b, a)}))


KINDS: Mapping[str, Callable[[Sketch], None]] = MappingProxyType(
    {
        "product": _product,
        "convolution": _convolution,
        "attention": _attention,
        "weighted": _weighted,
    }
)
