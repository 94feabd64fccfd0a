"""Composites against their formulas in float64, and as functions with bars."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

import didyma as dd
from didyma.composites import composite, numeric
from didyma.composites.builder import Value
from didyma.composites.composite import Emit
from didyma.composites.recipes import RECIPES, Body, Recipe, start
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.graph import Function, Module
from didyma.refimpl.ir.types import ALL, Array, DType, TensorType
from didyma.refimpl.ops import bars
from tests.refimpl.ops.draw import Dice, values

F64 = DType.F64


def run(body: Body, *args: Array) -> Array:
    b, params = start([TensorType(DType.of(a), a.shape) for a in args])
    f = b.function("f", [body(b, params)])
    return graph.run(Module((f,)), args)[0]


def x64(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape) * 3


def norm(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    centred = x - x.mean(axes, keepdims=True)
    return np.asarray(centred / np.sqrt(x.var(axes, keepdims=True) + eps))


def soft(x: Array, axis: int) -> Array:
    e = np.exp(x)
    return np.asarray(e / e.sum(axis, keepdims=True))


def sig(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


ERF = np.vectorize(math.erf, otypes=[np.float64])
X, V, Q = x64(2, 3, 4, 5), x64(3), x64(2, 4, 6)
K, W = x64(2, 5, 6), x64(2, 5, 3)
Case = tuple[str, Body, list[Array], Array]

CASES: list[Case] = [
    ("relu", lambda b, p: composite.relu(b, p[0]), [X], np.maximum(X, 0)),
    ("leaky", lambda b, p: composite.leaky_relu(b, p[0], 0.1), [X], np.where(X < 0, X * 0.1, X)),
    ("prelu", lambda b, p: composite.prelu(b, p[0], p[1]), [X, X[0, 0]],
     np.where(X < 0, X * X[0, 0], X)),
    ("elu", lambda b, p: composite.elu(b, p[0], 2.0), [X], np.where(X > 0, X, 2 * np.expm1(X))),
    ("selu", lambda b, p: composite.selu(b, p[0]), [X],
     1.0507009873554805 * np.where(X > 0, X, 1.6732632423543772 * np.expm1(X))),
    ("sigmoid", lambda b, p: composite.sigmoid(b, p[0]), [X], sig(X)),
    ("silu", lambda b, p: composite.silu(b, p[0]), [X], X * sig(X)),
    ("hard_sigmoid", lambda b, p: composite.hard_sigmoid(b, p[0]), [X], np.clip(X / 6 + .5, 0, 1)),
    ("hard_swish", lambda b, p: composite.hard_swish(b, p[0]), [X], X * np.clip(X / 6 + .5, 0, 1)),
    ("softplus", lambda b, p: composite.softplus(b, p[0]), [X], np.log1p(np.exp(X))),
    ("softsign", lambda b, p: composite.softsign(b, p[0]), [X], X / (1 + np.abs(X))),
    ("mish", lambda b, p: composite.mish(b, p[0]), [X], X * np.tanh(np.log1p(np.exp(X)))),
    ("gelu", lambda b, p: composite.gelu(b, p[0]), [X], X * (1 + ERF(X / math.sqrt(2))) / 2),
    ("gelu tanh", lambda b, p: composite.gelu(b, p[0], True), [X],
     X / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * X**3)))),
    ("softmax", lambda b, p: composite.softmax(b, p[0], -2), [X], soft(X, 2)),
    ("log_softmax", lambda b, p: composite.log_softmax(b, p[0], 1), [X], np.log(soft(X, 1))),
    ("logsumexp", lambda b, p: composite.logsumexp(b, p[0], (0, -1)), [X],
     np.log(np.exp(X).sum((0, 3)))),
    ("variance", lambda b, p: composite.variance(b, p[0], (1, 3)), [X], X.var((1, 3))),
    ("std", lambda b, p: composite.std(b, p[0], (-1,), True, 1), [X],
     X.std(-1, ddof=1, keepdims=True)),
    ("layer_norm", lambda b, p: composite.layer_norm(b, p[0], (-2, -1), p[1], p[2], 1e-3),
     [X, X[0, 0], X[1, 1]], norm(X, (2, 3), 1e-3) * X[0, 0] + X[1, 1]),
    ("rms_norm", lambda b, p: composite.rms_norm(b, p[0], (-1,), p[1]), [X, X[0, 0, 0]],
     X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-6) * X[0, 0, 0]),
    ("batch_norm", lambda b, p: composite.batch_norm(b, p[0], p[1], p[2], p[3], p[4]),
     [X, V, V + 1, V - 1, V**2],
     (X - (V - 1)[:, None, None]) / np.sqrt(V**2 + 1e-5)[:, None, None] * V[:, None, None]
     + (V + 1)[:, None, None]),
    ("instance_norm", lambda b, p: composite.instance_norm(b, p[0], p[1], p[2]), [X, V, V + 1],
     norm(X, (2, 3), 1e-5) * V[:, None, None] + (V + 1)[:, None, None]),
    ("global_avg", lambda b, p: composite.global_avg_pool(b, p[0]), [X],
     X.mean((2, 3), keepdims=True)),
    ("global_max", lambda b, p: composite.global_max_pool(b, p[0]), [X],
     X.max((2, 3), keepdims=True)),
    ("linear", lambda b, p: composite.linear(b, *p), [X, x64(5, 2), x64(2)],
     X @ x64(5, 2) + x64(2)),
    ("linear 1-D", lambda b, p: composite.linear(b, *p), [V, x64(3, 2)], V @ x64(3, 2)),
    ("attention", lambda b, p: composite.attention(b, p[0], p[1], p[2]), [Q, K, W],
     soft(Q @ K.swapaxes(1, 2) / math.sqrt(6), -1) @ W),
    ("triangle", lambda b, p: composite.triangle(b, p[0], -1), [X], np.tril(X, -1)),
    ("triangle upper", lambda b, p: composite.triangle(b, p[0], 1, True), [X], np.triu(X, 1)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_formula(case: Case) -> None:
    _, body, args, want = case
    np.testing.assert_allclose(run(body, *args), want, rtol=1e-12, atol=1e-12)


def test_one_hot() -> None:
    def body(b: Emit[Value], p: Sequence[Value]) -> Value:
        return composite.one_hot(b, p[0], 3, DType.I32, 0, on=5, off=-1)

    out = run(body, np.array([0, 2, -1, 3, -4], np.int64))
    assert out.T.tolist() == [[5, -1, -1], [-1, -1, 5], [-1, -1, 5], [-1, -1, -1], [-1, -1, -1]]


STABLE: list[Body] = [
    lambda b, p: composite.softmax(b, p[0]),
    lambda b, p: composite.log_softmax(b, p[0]),
    lambda b, p: composite.softplus(b, p[0]),
]


def test_softmax_and_softplus_do_not_overflow() -> None:
    x = np.array([[1000.0, -1000.0, 999.0]], np.float32)
    for body in STABLE:
        assert np.isfinite(run(body, x)).all()


def test_a_count_known_at_run_time() -> None:
    t = TensorType(F64, (symbol("n"), 2))
    b, (p,) = start([t])
    f = b.function("f", [composite.variance(b, p, (0, 1), correction=1)])
    m = Module((f,), (DimVar("n", 0, 9),))
    x = x64(4, 2)
    np.testing.assert_allclose(graph.run(m, [x])[0], x.var(ddof=1))


@pytest.mark.parametrize("recipe", RECIPES, ids=[r.name for r in RECIPES])
def test_recipes_run_inside_their_bars(recipe: Recipe) -> None:
    made = 0
    for seed in range(12):
        dice = Dice(seed)
        dtype = (DType.F32, DType.F16, F64, DType.I64, DType.BF16, DType.I8)[seed % 6]
        shape = tuple((2, 3, 1, 5, 4)[dice.below(5)] for _ in range(1 + dice.below(4)))
        f = recipe.function(dice, TensorType(dtype, shape))
        if f is None:
            continue
        made += 1
        check(f, dice)
    assert made >= 2


@pytest.mark.parametrize("dtype", ALL)
def test_recipes_propose_what_their_ops_take(dtype: DType) -> None:
    """A dtype that a composite is not for is declined, not drawn and then refused."""
    for seed, recipe in enumerate(RECIPES * 3):
        dice = Dice(seed)
        shape = tuple((2, 3, 1)[dice.below(3)] for _ in range(dice.below(4)))
        f = recipe.function(dice, TensorType(dtype, shape))
        assert f is None or f.params[0].type.dtype is dtype


def check(f: Function, dice: Dice) -> None:
    args = [values(p.type, dice, wild=False) for p in f.params]
    m = Module((f,))
    with np.errstate(all="ignore"):
        exact = [bars.exact(a, DType.of(a)) for a in args]
        (bar,) = graph.bars(f, m, exact, {}, stored=True)
        (out,) = graph.run(m, args)
    assert f.result_types()[0].shape == out.shape
    assert np.all(bars.judge(bar, out, DType.of(out)).ok), (f, args, out, bar)


def test_attention_scales_by_a_symbolic_depth() -> None:
    depth = symbol("depth")
    b, params = start([TensorType(F64, (n, depth)) for n in (4, 5)] + [TensorType(F64, (5, 3))])
    f = b.function("f", [composite.attention(b, params[0], params[1], params[2])])
    got = graph.run(Module((f,), (DimVar("depth", 1, 9),)), [Q[0], K[0], W[0]])[0]
    want = soft(Q[0] @ K[0].T / math.sqrt(6), -1) @ W[0]
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_tf32_has_eleven_bits_of_the_nearest_number_and_goes_away_from_zero_between_two() -> None:
    bits = np.random.default_rng(1).integers(0, 1 << 32, 4000, np.uint32)
    ties = (bits & 0xFFFFE000) | 0x1000
    x = np.concatenate([bits, ties, ties - 1]).view(np.float32)
    x = np.append(
        x, np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3.4028235e38, 1e-45], np.float32)
    )
    with np.errstate(all="ignore"):
        step = np.exp2(np.maximum(np.frexp(np.float64(x))[1] - 11, -136))
        want = (np.copysign(np.floor(np.abs(x) / step + 0.5), x) * step).astype(np.float32)
    got = run(lambda b, p: numeric.tf32(b, p[0]), x)
    finite = np.isfinite(x)
    assert np.array_equal(got[finite].view(np.uint32), want[finite].view(np.uint32))
    assert np.array_equal(got[~finite], x[~finite], equal_nan=True)


def test_only_f32_is_rounded_to_tf32() -> None:
    with pytest.raises(dd.DidymaError) as e:
        dd.trace(dd.f16[3])(dd.tf32)
    assert "bad-call at `dd.tf32`\n  got:  f16\n  want: f32" in str(e.value)
