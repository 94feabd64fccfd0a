"""Sums of f32 that several ops make, in the orders that kernels of other people choose."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.refimpl.interp.graph import bars as bars_of
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import bars
from didyma.refimpl.ops.bars import Contract, Verdict

HALF, TWO = np.float32(0.5), np.float32(2.0)
ANY = Contract(reordered=True)


def judged(op: str, a: Array, c: Array, out: Array) -> Verdict:
    """Judge a result as ``0.5 * c + (a @ a.T) * 2``, or with another op in place of the product."""
    m, k = a.shape
    graph = parse_module(f"""module {{
      func @main(%a: f32[{m}, {k}], %c: f32[{m}, {m}]) -> (%y) {{
        %t = permute_dims(%a, axes=(1, 0)) : f32[{k}, {m}]
        %p = matmul(%a, %t) : f32[{m}, {m}]
        %two = constant(value=f32[] filled 2.0) : f32[]
        %s = {op}(%p, %two) : f32[{m}, {m}]
        %half = constant(value=f32[] filled 0.5) : f32[]
        %h = multiply(%half, %c) : f32[{m}, {m}]
        %y = add(%h, %s) : f32[{m}, {m}]
      }}
    }}""")
    exact = [bars.exact(x, DType.F32) for x in (a, c)]
    (bar,) = bars_of(graph.entry, graph, exact, {}, ANY)
    return bars.judge(bar, out, DType.F32)


def begun(a: Array, first: Array, scale: np.float32, many: int) -> Array:
    """Add scaled terms to what comes first, one by one."""
    value = first.copy()
    for q in range(many):
        value += (scale * a[:, q])[:, None] * a[None, :, q]
    return value


@pytest.mark.parametrize("op", ["multiply", "divide"])
def test_a_scaled_product_may_begin_with_an_addend_and_be_scaled_by_terms(op: str) -> None:
    rng = np.random.default_rng(1)
    a = rng.standard_normal((24, 40)).astype(np.float32)
    c = (1e4 * rng.standard_normal((24, 24))).astype(np.float32)
    scale = TWO if op == "multiply" else HALF
    for addend in (c, np.float32(1e-5) * c):
        assert judged(op, a, addend, begun(a, HALF * addend, scale, 40)).ok.all()
        late = begun(a, np.zeros_like(c), scale, 40) + HALF * addend
        assert judged(op, a, addend, late).ok.all()
    small = np.float32(1e-5) * c
    for many, factor in ((39, scale), (40, scale * np.float32(1.001))):
        wrong = judged(op, a, small, begun(a, HALF * small, factor, many))
        assert np.mean(wrong.ok) < 0.05


def test_a_sum_of_which_a_part_is_taken_may_begin_with_what_is_added_then() -> None:
    graph = parse_module("""module {
      func @main(%a: f32[1, 16, 32], %b: f32[1, 32, 16], %c: f32[16, 16]) -> (%y) {
        %p = matmul(%a, %b) : f32[1, 16, 16]
        %r = reshape(%p, shape=(16, 16)) : f32[16, 16]
        %t = permute_dims(%r, axes=(1, 0)) : f32[16, 16]
        %y = add(%t, %c) : f32[16, 16]
      }
    }""")
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((1, 16, 32), (1, 32, 16)))
    c = (1e4 * rng.standard_normal((16, 16))).astype(np.float32)
    exact = [bars.exact(x, DType.F32) for x in (a, b, c)]
    (bar,) = bars_of(graph.entry, graph, exact, {}, ANY)
    begun = c.T.copy()
    for q in range(32):
        begun += a[0][:, q, None] * b[0][q]
    assert bars.judge(bar, begun.T, DType.F32).ok.all()
    lost = begun - a[0][:, :1] * b[0][:1]
    assert np.mean(bars.judge(bar, lost.T, DType.F32).ok) < 0.1
    (strict,) = bars_of(graph.entry, graph, exact, {}, Contract())
    assert not bars.judge(strict, begun.T, DType.F32).ok.all()


def test_a_factor_of_each_term_may_overflow() -> None:
    a = np.array([[3e38, 1.0], [2e-38, 2.0]], np.float32)
    c = np.zeros((2, 2), np.float32)
    with np.errstate(over="ignore"):
        got = judged("multiply", a, c, begun(a, c, TWO, 2))
    assert got.undecided.tolist() == [[True, True], [True, False]]
    assert not judged("multiply", a[1:], c[1:, 1:], np.array([[9.5]], np.float32)).ok.any()


def test_a_sum_that_overflows_is_undecided_beside_a_row_with_an_infinity() -> None:
    a = np.array([[3e38, 3e38], [1.0, 1.0], [np.inf, 1.0]], np.float32)
    c = np.full((3, 3), -np.inf, np.float32)
    with np.errstate(all="ignore"):
        got = judged("multiply", a, c, begun(a, c, TWO, 2))
    assert got.undecided[0, 1]
    assert got.ok[:2, :2].all()
    assert not got.undecided[[1, 2], [1, 2]].any()


def softplus_of(x: Array, out: Array, floor: float = 0.0) -> Verdict:
    """Judge a result as ``max(x, floor) + log1p(exp(-|x|))``."""
    graph = parse_module(f"""module {{
      func @main(%x: f32[{x.size}]) -> (%y) {{
        %size = abs(%x) : f32[{x.size}]
        %below = negative(%size) : f32[{x.size}]
        %small = exp(%below) : f32[{x.size}]
        %least = constant(value=f32[] filled {floor}) : f32[]
        %line = maximum(%x, %least) : f32[{x.size}]
        %rest = log1p(%small) : f32[{x.size}]
        %y = add(%line, %rest) : f32[{x.size}]
      }}
    }}""")
    (bar,) = bars_of(graph.entry, graph, [bars.exact(x, DType.F32)], {}, ANY)
    return bars.judge(bar, out, DType.F32)


@pytest.mark.parametrize("ulps", [-2, 2])
def test_softplus_may_be_the_logarithm_of_one_and_an_exponential(ulps: int) -> None:
    x = np.linspace(-20, 20, 4001, dtype=np.float32)
    exact = np.log1p(np.exp(x.astype(np.float64)))
    power = np.exp(x.astype(np.float64)).astype(np.float32)
    near = power.view(np.int32) + np.int32(ulps)
    out = np.log1p(near.view(np.float32).astype(np.float64)).astype(np.float32)
    assert softplus_of(x, out).ok.all()
    assert not softplus_of(x, (exact + 3e-6 * (1 + exact)).astype(np.float32)).ok[x > 0].any()
    other = np.maximum(x, 1) + (exact - np.maximum(x, 0))
    moved = (other + 6e-7 * np.maximum(x, 1)).astype(np.float32)
    assert not softplus_of(x, moved, floor=1.0).ok[x > 2].any(), "no softplus"
