"""Functions of neural networks against plain NumPy, and the spellings that people know."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest

import didyma as dd
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array

R = np.random.default_rng(7)


Body: TypeAlias = (
    Callable[[Any], Any]
    | Callable[[Any, Any], Any]
    | Callable[[Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any], Any]
)


def some(*shape: int) -> Array:
    return R.standard_normal(shape).astype(np.float32)


def run(f: Body, *given: Array) -> tuple[Array, Any]:
    """Value and bar of a function traced on arrays."""
    names = [f"p{i}" for i in range(len(given))]
    space: dict[str, Any] = {"f": f}
    exec(f"def program({', '.join(names)}): return f({', '.join(names)})", space)
    types = [getattr(dd, a.dtype.name)[a.shape] for a in given]
    truth = dd.interpret(dd.trace(*types)(space["program"]), *given)
    return truth.values[0], truth.bars[0]


def agrees(f: Body, want: Array, *given: Array, rounded: Array | None = None) -> None:
    """The value lies in its bar, and so does NumPy's: of f64, or of f32 where each op rounds."""
    got, bar = run(f, *given)
    assert got.shape == want.shape
    assert (np.abs(got - bar.c) <= bar.e).all()
    near = np.abs(want.astype(got.dtype) - bar.c) <= bar.e
    if rounded is not None:
        near |= np.abs(rounded - bar.c) <= bar.e
    assert near.all()


def wide(*arrays: Array) -> Any:
    return [a.astype(np.float64) for a in arrays]


def softmax(x: Array, axis: int = -1) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


# Windows ------------------------------------------------------------------------------------------


def padded(x: Array, pads: Sequence[tuple[int, int]], value: float = 0.0) -> Array:
    return np.pad(x, ((0, 0), (0, 0), *pads), constant_values=value)


def views(x: Array, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Array:
    """Windows of a padded operand [batch, channels, windows..., places...], one by one."""
    counts = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)
    ]
    out = np.empty((*x.shape[:2], *counts, *kernel))
    for at in itertools.product(*map(range, counts)):
        cut: Any = tuple(
            slice(i * s, i * s + (k - 1) * d + 1, d)
            for i, s, k, d in zip(at, stride, kernel, dilation, strict=True)
        )
        here: Any = (slice(None), slice(None), *at)
        there: Any = (slice(None), slice(None), *cut)
        out[here] = x[there]
    return out


def conv(
    x: Array, w: Array, stride: Sequence[int], pads: Sequence[tuple[int, int]],
    dilation: Sequence[int], groups: int = 1,
) -> Array:  # fmt: skip
    x, w = wide(x, w)
    v = views(padded(x, pads), w.shape[2:], stride, dilation)
    rank, each = len(stride), w.shape[0] // groups
    parts: list[Array] = []
    for g in range(groups):
        channels = slice(g * w.shape[1], (g + 1) * w.shape[1])
        own = w[g * each : (g + 1) * each]
        axes = [1, *range(2 + rank, 2 + 2 * rank)], [1, *range(2, 2 + rank)]
        y = np.tensordot(v[:, channels], own, axes=axes)
        parts.append(np.moveaxis(y, -1, 1))
    return np.concatenate(parts, 1)


X, W, B = some(2, 4, 7, 6), some(6, 4, 3, 3), some(6)
CONVS: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "plain": ({}, ((1, 1), ((0, 0), (0, 0)), (1, 1))),
    "stride": ({"stride": 2, "padding": 1}, ((2, 2), ((1, 1), (1, 1)), (1, 1))),
    "tuples": ({"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2)},
               ((2, 1), ((0, 0), (2, 2)), (1, 2))),
    "pairs": ({"padding": ((1, 0), (0, 2))}, ((1, 1), ((1, 0), (0, 2)), (1, 1))),
    "lists": ({"stride": [1, 2], "padding": [[1, 1], [0, 0]]},
              ((1, 2), ((1, 1), (0, 0)), (1, 1))),
    "same": ({"padding": "same"}, ((1, 1), ((1, 1), (1, 1)), (1, 1))),
    "same, stride": ({"padding": "same", "stride": 2}, ((2, 2), ((1, 1), (0, 1)), (1, 1))),
    "valid": ({"padding": "valid", "dilation": 2}, ((1, 1), ((0, 0), (0, 0)), (2, 2))),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVS)
def test_conv(name: str) -> None:
    options, (stride, pads, dilation) = CONVS[name]
    want = conv(X, W, stride, pads, dilation)
    agrees(lambda x, w: dd.conv(x, w, **options), want, X, W)
    biased = want + B.astype(np.float64)[:, None, None]
    agrees(lambda x, w, b: dd.conv(x, w, b, **options), biased, X, W, B)


def test_conv_by_position_in_groups_and_of_other_ranks() -> None:
    w = some(4, 2, 3, 3)
    want = conv(X, w, (2, 2), ((1, 1), (1, 1)), (1, 1), 2)
    agrees(lambda x, w: dd.conv2d(x, w, None, 2, 1, 1, 2), want, X, w)
    x, w = some(1, 2, 9), some(3, 2, 4)
    agrees(lambda x, w: dd.conv1d(x, w, stride=3), conv(x, w, (3,), ((0, 0),), (1,)), x, w)
    x, w = some(1, 1, 4, 5, 3), some(2, 1, 2, 2, 2)
    want = conv(x, w, (1, 1, 1), ((0, 0),) * 3, (1, 1, 1))
    agrees(lambda x, w: dd.conv3d(x, w), want, x, w)


@pytest.mark.parametrize("options", [
    {}, {"stride": 2}, {"stride": 2, "padding": 1, "output_padding": 1}, {"dilation": 2},
    {"stride": (1, 3), "padding": (1, 0)}, {"groups": 2, "stride": 2},
])  # fmt: skip
def test_conv_transpose_scatters_what_conv_gathers(options: dict[str, Any]) -> None:
    groups = options.get("groups", 1)
    x, w = some(2, 4, 3, 2), some(4, 3, 3, 2)

    def two(name: str, default: int) -> tuple[int, int]:
        v = options.get(name, default)
        return (v, v) if isinstance(v, int) else v

    s, p, e, d = two("stride", 1), two("padding", 0), two("output_padding", 0), two("dilation", 1)
    sizes = [(n - 1) * s[i] + (k - 1) * d[i] + 1 + e[i]
             for i, (n, k) in enumerate(zip(x.shape[2:], w.shape[2:], strict=True))]  # fmt: skip
    whole = np.zeros((2, 3 * groups, *sizes))
    for c, i, j, k, m in itertools.product(range(4), range(3), range(2), range(3), range(2)):
        g = c // (4 // groups)
        place = i * s[0] + k * d[0], j * s[1] + m * d[1]
        whole[:, 3 * g : 3 * g + 3, place[0], place[1]] += (
            x[:, c, i, j, None].astype(np.float64) * w[c, :, k, m]
        )
    want = whole[:, :, p[0] : sizes[0] - p[0], p[1] : sizes[1] - p[1]]
    agrees(lambda x, w: dd.conv_transpose(x, w, **options), want, x, w)


POOLS: list[tuple[Any, dict[str, Any], tuple[Any, ...]]] = [
    (2, {}, ((2, 2), (2, 2), (0, 0))),
    (3, {"stride": 2, "padding": 1}, ((3, 3), (2, 2), (1, 1))),
    ((2, 3), {"stride": (1, 2)}, ((2, 3), (1, 2), (0, 0))),
]


@pytest.mark.parametrize("case", range(len(POOLS)))
def test_pools(case: int) -> None:
    kernel, options, (k, s, p) = POOLS[case]
    (x,) = wide(X)
    pads, places = [(n, n) for n in p], (-2, -1)
    top = views(padded(x, pads, -np.inf), k, s, (1, 1)).max(places)
    agrees(lambda x: dd.max_pool(x, kernel, **options), top, X)
    total = views(padded(x, pads), k, s, (1, 1)).sum(places)
    agrees(lambda x: dd.avg_pool(x, kernel, **options), total / math.prod(k), X)
    ones = views(padded(np.ones_like(x), pads), k, s, (1, 1)).sum(places)
    own = total / ones
    agrees(lambda x: dd.avg_pool(x, kernel, count_include_pad=False, **options), own, X)


# Normalisation, losses, attention -----------------------------------------------------------------


def normal(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(var + eps))


def channels(v: Array) -> Array:
    return v.astype(np.float64)[:, None, None]


def test_norms() -> None:
    (x,) = wide(X)
    w, b = some(4), some(4)
    mean, var = some(4), np.abs(some(4)) + np.float32(0.5)
    want = (x - channels(mean)) / np.sqrt(channels(var) + 1e-5)
    agrees(lambda x, m, v: dd.batch_norm(x, m, v), want, X, mean, var)
    agrees(lambda x, m, v, w, b: dd.batch_norm(x, m, v, w, b), want * channels(w) + channels(b),
           X, mean, var, w, b)  # fmt: skip
    groups = normal(x.reshape(2, 2, -1), (2,), 1e-5).reshape(x.shape)
    agrees(lambda x: dd.group_norm(x, 2), groups, X)
    agrees(lambda x, w, b: dd.group_norm(x, 2, w, b), groups * channels(w) + channels(b), X, w, b)
    each = normal(x, (2, 3), 1e-3)
    agrees(lambda x, w: dd.instance_norm(x, w, eps=1e-3), each * channels(w), X, w)
    last = some(6)
    rows = normal(x, (3,), 1e-5) * last
    agrees(lambda x, w: dd.layer_norm(x, w), rows, X, last)
    agrees(lambda x: dd.layer_norm(x, axis=(1, -1)), normal(x, (1, 3), 1e-5), X)
    root = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * last
    agrees(lambda x, w: dd.rms_norm(x, w), root, X, last)


def test_losses() -> None:
    x, y = some(5, 3), np.array([0, 2, -100, 1, 1])
    logs = np.log(softmax(x.astype(np.float64)))
    kept = y != -100
    each = np.where(kept, -logs[np.arange(5), np.where(kept, y, 0)], 0)
    for reduction, want in (("none", each), ("sum", each.sum()), ("mean", each.sum() / 4)):
        r: Any = reduction
        agrees(lambda x, y, r=r: dd.cross_entropy(x, y, reduction=r), np.asarray(want), x, y)
        agrees(lambda x, y, r=r: dd.nll_loss(dd.log_softmax(x), y, reduction=r),
               np.asarray(want), x, y)  # fmt: skip
    soft = softmax(some(5, 3).astype(np.float64)).astype(np.float32)
    agrees(dd.cross_entropy, np.asarray(-(soft * logs).sum(1).mean()), x, soft)
    images, labels = some(2, 3, 4), R.integers(0, 3, (2, 4))
    spread = -np.take_along_axis(np.log(softmax(images.astype(np.float64), 1)),
                                 labels[:, None], 1).mean()  # fmt: skip
    agrees(dd.cross_entropy, np.asarray(spread), images, labels)
    agrees(dd.mse_loss, ((x - soft).astype(np.float64) ** 2).mean(), x, soft)


def attention(
    q: Array, k: Array, v: Array, bias: Array | float = 0.0, scale: float | None = None
) -> Array:
    s = q @ np.swapaxes(k, -1, -2) * (scale or 1 / np.sqrt(q.shape[-1])) + bias
    return np.asarray(softmax(s) @ v)


def test_attention() -> None:
    q, k, v = some(2, 3, 4, 8), some(2, 3, 5, 8), some(2, 3, 5, 6)
    a, b, c = wide(q, k, v)
    sdpa = dd.scaled_dot_product_attention
    agrees(lambda q, k, v: sdpa(q, k, v), attention(a, b, c), q, k, v)
    agrees(lambda q, k, v: dd.attention(q, k, v, scale=0.5), attention(a, b, c, 0, 0.5), q, k, v)
    seen = np.arange(5) <= np.arange(4)[:, None]
    hidden = np.where(seen, 0, -np.inf)
    agrees(lambda q, k, v: sdpa(q, k, v, is_causal=True), attention(a, b, c, hidden), q, k, v)
    agrees(lambda q, k, v: sdpa(q, k, v, mask=dd.asarray(seen)), attention(a, b, c, hidden),
           q, k, v)  # fmt: skip
    bias = some(3, 4, 5)
    agrees(lambda q, k, v, m: sdpa(q, k, v, m), attention(a, b, c, bias), q, k, v, bias)
    slopes = np.array([0.5, 0.25, 0.125], np.float32)

    def alibi(s: dd.Tensor, batch: dd.Tensor, head: dd.Tensor, i: dd.Tensor, j: dd.Tensor) -> Any:
        del batch
        return s + dd.take(dd.asarray(slopes), head) * dd.astype(j - i, dd.f32)

    far = slopes[:, None, None] * (np.arange(5) - np.arange(4)[:, None])
    agrees(lambda q, k, v: sdpa(q, k, v, score_mod=alibi), attention(a, b, c, far), q, k, v)


@pytest.mark.parametrize("given", ["mask", "score_mod"])
def test_attention_has_the_dtype_of_its_values(given: str) -> None:
    def wider(s: dd.Tensor, *at: dd.Tensor) -> dd.Tensor:
        return dd.astype(s, dd.f32) + dd.astype(at[-1] - at[-2], dd.f32)

    types = [dd.bf16[2, 8, 16]] * 3

    @dd.trace(*types, dd.f32[2, 8, 8])
    def attended(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, m: dd.Tensor) -> dd.Tensor:
        of = dd.scaled_dot_product_attention
        return of(q, k, v, m) if given == "mask" else of(q, k, v, score_mod=wider)

    (result,) = attended.module.entry.result_types()
    assert result == dd.bf16[2, 8, 16].type


def test_attention_is_scaled_by_a_symbolic_depth() -> None:
    depth = dd.dim("depth", 0, 64)

    @dd.trace(dd.f32[2, depth], dd.f32[3, depth], dd.f32[3, 4])
    def attend(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
        return dd.scaled_dot_product_attention(q, k, v)

    for n in (0, 1, 7):
        q, k, v = some(2, n), some(3, n), some(3, 4)
        a, b, c = wide(q, k, v)
        want = attention(a, b, c, scale=1 / np.sqrt(max(n, 1)))
        assert dd.interpret(attend, q, k, v).contains(dd.compile(attend)(q, k, v))
        np.testing.assert_allclose(dd.compile(attend)(q, k, v), want, rtol=1e-5)


EQUATIONS = ["bik,bjk->bij", "bik,bjk", "bik->i", "bik->kib", "bik,bjk,bik->bk", "b...,b...->...",
             "bik,bjk->ijk", "bik,bjk->"]  # fmt: skip


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation: str) -> None:
    given = [some(2, 3, 4) for _ in equation.split("->")[0].split(",")]
    want = np.asarray(np.einsum(equation, *wide(*given)))
    agrees(functools.partial(dd.einsum, equation), want, *given)


@pytest.mark.parametrize("equation", ["ii->i", "ii", "iij->ij", "iji"])
def test_einsum_takes_diagonals(equation: str) -> None:
    x = some(*[3] * len(equation.split("->")[0]))
    agrees(lambda x: dd.einsum(equation, x), np.asarray(np.einsum(equation, *wide(x))), x)


def erf(x: Array) -> Array:
    from math import erf as one

    return np.asarray(np.vectorize(one)(x))


SHAPES: dict[str, Callable[[Any], Any]] = {
    "relu": lambda x: np.maximum(x, 0), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)), "softplus": lambda x: np.log1p(np.exp(x)),
    "softsign": lambda x: x / (1 + np.abs(x)), "log_softmax": lambda x: np.log(softmax(x)),
    "gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "hard_sigmoid": lambda x: (x / 6 + 0.5).clip(0, 1),
    "hard_swish": lambda x: x * (x / 6 + 0.5).clip(0, 1), "softmax": softmax,
    "elu": lambda x: x.clip(0) + np.expm1(x.clip(max=0)),
    "selu": lambda x: 1.0507009873554805 * (
        x.clip(0) + 1.6732632423543772 * np.expm1(x.clip(max=0))),
    "leaky_relu": lambda x: x.clip(0) + 0.01 * x.clip(max=0),
    "logsumexp": lambda x: np.log(np.exp(x).sum()),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_activations(name: str) -> None:
    x = some(3, 5)
    f = SHAPES[name]
    agrees(getattr(dd, name), np.asarray(f(*wide(x))), x, rounded=np.asarray(f(x)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_logsumexp_of_infinities(dtype: Any) -> None:
    """The definition, in numbers with infinities: exp(-inf) is 0, and log(0) is -inf."""
    x = np.array(
        [[1, np.inf, 2], [np.inf, -np.inf, 0], [-np.inf] * 3, [-np.inf, 3, -np.inf],
         [np.inf] * 3, [np.nan, np.inf, 0], [-np.inf, np.nan, -np.inf]], dtype
    )  # fmt: skip
    with np.errstate(divide="ignore"):
        want = np.log(np.exp(x.astype(np.float64)).sum(1, keepdims=True))
    got, bar = run(lambda x: dd.logsumexp(x, axis=1, keepdims=True), x)
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=1e-3)
    known = np.isnan(bar.e)
    assert not known.any()
    np.testing.assert_array_equal(bar.c[:, 0][[0, 1, 2, 4]], [np.inf, np.inf, -np.inf, np.inf])


def test_the_rest() -> None:
    x, w, b = some(2, 5), some(3, 5), some(3)
    a, c, d = wide(x, w, b)
    agrees(dd.linear, a @ c.T + d, x, w, b)
    slope = some(5)
    agrees(dd.prelu, a.clip(0) + slope * a.clip(max=0), x, slope)
    i = np.array([[1, 0], [2, 2]])
    agrees(lambda i, w: dd.embedding(i, w), c[i], i, w)
    got, _ = run(lambda i: dd.one_hot(i, 4, axis=0), i)
    assert np.array_equal(got, np.moveaxis(np.eye(4, dtype=np.int64)[i], -1, 0))
    tanh = 0.5 * a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3)))
    agrees(lambda x: dd.gelu(x, approximate="tanh"), tanh, x)
    agrees(lambda x: dd.pad(x, (1, 2), mode="edge"), np.pad(a, (1, 2), mode="edge"), x)
    agrees(lambda x: dd.pad(x, ((0, 1), (2, 0)), constant_values=4),
           np.pad(a, ((0, 1), (2, 0)), constant_values=4), x)  # fmt: skip
    agrees(lambda x: dd.split(x, [1, 3], axis=1)[1], np.split(a, [1, 3], axis=1)[1], x)
    agrees(lambda x: dd.dot(x, x.mT), a @ a.T, x)
    best = np.sort(a, -1)[:, ::-1][:, :2]
    agrees(lambda x: dd.topk(x, 2)[0], best, x)


def test_dropout_keeps_the_mean() -> None:
    x, seed = np.ones((40, 50), np.float32), np.array(3, np.uint64)
    got, _ = run(lambda x, s: dd.dropout(x, s, p=0.25), x, seed)
    assert set(np.unique(got)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((got == 0).mean() - 0.25) < 0.05


NEURAL = ("conv", "conv_transpose", "max_pool", "scaled_dot_product_attention", "cross_entropy")


@pytest.mark.parametrize("name", NEURAL)
def test_every_level_agrees(name: str) -> None:
    bodies: dict[str, Callable[[dd.Tensor], dd.Tensor]] = {
        "conv": lambda x: dd.conv(x, dd.asarray(W), dd.asarray(B), padding="same", stride=2),
        "conv_transpose": lambda x: dd.conv_transpose(x, dd.ones((4, 2, 2, 2)), stride=2),
        "max_pool": lambda x: dd.max_pool(x, 3, stride=2, padding=1),
        "scaled_dot_product_attention": lambda x: dd.scaled_dot_product_attention(
            x, x, x, is_causal=True),
        "cross_entropy": lambda x: dd.cross_entropy(x, dd.argmax(x, axis=1)),
    }  # fmt: skip

    @dd.trace(dd.f32[2, 4, 7, 6])
    def program(x: dd.Tensor) -> dd.Tensor:
        return bodies[name](x)

    report = dd.check(program, engines=("host", "simt"))
    assert report.agree, report.findings


WRONG: list[tuple[Callable[[dd.Tensor], Any], str]] = [
    (lambda x: dd.conv(x, dd.asarray(W), padding=-1), "padding"),
    (lambda x: dd.conv(x, dd.asarray(W), stride=(1, 2, 3)), "stride"),
    (lambda x: dd.conv(x, dd.asarray(W), padding="full"), "padding"),  # type: ignore[arg-type]  # a user's
    (lambda x: dd.conv(x, dd.asarray(W), strides=2), "stride"),  # type: ignore[call-arg]  # a user's
    (lambda x: dd.conv(dd.reshape(x, (-1, 6)), dd.asarray(W)), "spatial"),
    (lambda x: dd.conv_transpose(x, dd.ones((3, 2, 2, 2))), "weight"),
    (lambda x: dd.max_pool(x, 0), "kernel_size"),
    (lambda x: dd.group_norm(x, 3), "equal groups"),
    (lambda x: dd.batch_norm(x, dd.ones(3), dd.ones(3)), "channels"),
    (lambda x: dd.cross_entropy(x, dd.ones(3)), "target"),
    (lambda x: dd.nll_loss(x, dd.zeros(2, dtype=dd.i64)), "classes"),
    (lambda x: dd.layer_norm(x, (6,)), "axis"),  # type: ignore[arg-type]  # a user's
    (lambda x: dd.linear(x, dd.ones(6)), "out, in"),
    (lambda x: dd.gelu(x, approximate=True), "tanh"),  # type: ignore[arg-type]  # a user's
    (lambda x: dd.dropout(x, p=0.5), "seed"),  # type: ignore[call-arg]  # a user's
    (lambda x: dd.one_hot(x, 3), "integers"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_wrong_use_is_told(case: int) -> None:
    f, word = WRONG[case]

    def program(x: dd.Tensor) -> Any:
        return f(x)

    with pytest.raises(DidymaError, match="bad-call") as e:
        dd.trace(dd.f32[2, 4, 7, 6])(program)
    assert word in str(e.value)
