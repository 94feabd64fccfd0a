"""Results in float64, which no width of a bar and no rounding reaches."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.runtime.registry import engine
from didyma.fuzz.graphs import BYTES, Case, decode
from didyma.fuzz.levels import check
from didyma.oracle import compare
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops.bars import LEAST, Bar, exact

R = np.random.default_rng(0)
X = R.standard_normal((8, 64)).astype(np.float32)
W = (R.standard_normal((64, 64)) / 8).astype(np.float32)


def layers(depth: int) -> Module:
    @dd.trace(dd.f32[8, 64], dd.f32[64, 64])
    def net(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        for _ in range(depth):
            y = x @ w
            y = dd.maximum(y, y * 0.01)
            x = y / dd.sqrt(dd.mean(y * y, axis=-1, keepdims=True) + 1e-6)
        return x

    return net.module


def layers_by_hand(depth: int) -> Array:
    x, w = X.astype(np.float64), W.astype(np.float64)
    for _ in range(depth):
        y = x @ w
        y = np.maximum(y, y * np.float64(np.float32(0.01)))
        x = y / np.sqrt((y * y).mean(axis=-1, keepdims=True) + np.float64(np.float32(1e-6)))
    return x


@pytest.mark.parametrize("depth", [1, 8, 16])
def test_deep_networks_keep_their_float64_value(depth: int) -> None:
    (v,) = graph.reference(layers(depth), [X, W])
    np.testing.assert_allclose(v, layers_by_hand(depth), rtol=1e-12, atol=1e-12)


def test_the_largest_error_is_told_where_no_bar_decides() -> None:
    m = layers(8)
    (bar,) = graph.bars(m.entry, m, [exact(X), exact(W)], stored=True)
    assert np.isinf(bar.e).all()
    assert np.abs(bar.c - layers_by_hand(8)).max() > 0.1  # the centre is no reference
    report = check(m, [X, W], [engine("host")])
    off = {level.name: compare.total(level.comparisons).off for level in report.levels}
    assert 0 < off["program"] < 2e-6
    assert 0 < off["host"] < 2e-6
    assert np.isnan(off["kernel"])
    assert np.isnan(compare.total(check(m, [X, W], [], details=False).levels[-1].comparisons).off)


def softmaxes(x: dd.Tensor) -> dd.Tensor:
    for _ in range(6):
        x = dd.softmax(x * 3.0, axis=-1)
    return x


def softmaxes_by_hand(x: Array) -> Array:
    for _ in range(6):
        e = np.exp(3 * x - (3 * x).max(axis=-1, keepdims=True))
        x = e / e.sum(axis=-1, keepdims=True)
    return x


def root(x: dd.Tensor) -> dd.Tensor:
    return dd.sqrt((x + 1.0) * (x + 1.0) - x * x - 2.0 * x - 1.0 + 1e-6)


def root_by_hand(x: Array) -> Array:
    return np.asarray(np.sqrt((x + 1) * (x + 1) - x * x - 2 * x - 1 + np.float32(1e-6)))


def chosen(x: dd.Tensor) -> dd.Tensor:
    y = x * x - x
    return dd.where(y > dd.mean(y, axis=-1, keepdims=True), dd.exp(y), y - 1.0)


def chosen_by_hand(x: Array) -> Array:
    y = x * x - x
    return np.where(y > y.mean(axis=-1, keepdims=True), np.exp(y), y - 1)


def largest(x: dd.Tensor) -> dd.Tensor:
    y = dd.sin(x * 3.0) * x
    return dd.take(y, dd.argmax(dd.sum(y, axis=0), axis=0, keepdims=True), axis=1)


def largest_by_hand(x: Array) -> Array:
    y = np.sin(3 * x) * x
    return np.asarray(y[:, [np.argmax(y.sum(axis=0))]])


@pytest.mark.parametrize(
    ("f", "by_hand"),
    [
        (softmaxes, softmaxes_by_hand),
        (root, root_by_hand),
        (chosen, chosen_by_hand),
        (largest, largest_by_hand),
    ],
)
def test_decisions_are_taken_by_float64(
    f: Callable[[dd.Tensor], dd.Tensor], by_hand: Callable[[Array], Array]
) -> None:
    m = dd.trace(dd.f32[8, 64])(f).module
    (v,) = graph.reference(m, [X])
    np.testing.assert_allclose(v, by_hand(X.astype(np.float64)), rtol=1e-12, atol=1e-12)


def values(text: str, *inputs: Array) -> list[Array]:
    return graph.reference(parse_module(f"module {{ func @main{text} }}"), list(inputs))


def test_what_an_op_does_on_purpose_is_done() -> None:
    a = np.array([3e38, 0.1, -300.7, np.nan], np.float32)
    double, small, whole = values(
        """(%x: f32[4]) -> (%d, %h, %i) {
        %d = add(%x, %x) : f32[4]
        %h = cast(%x, dtype=f16) : f16[4]
        %i = cast(%x, dtype=i8) : i8[4]
        }""",
        a,
    )
    assert double.tolist()[:3] == [np.inf, 2 * float(a[1]), 2 * float(a[2])]
    assert small.tolist()[:3] == [np.inf, float(np.float16(0.1)), float(np.float16(-300.7))]
    assert whole.tolist() == [127, 0, -128, 0]
    (wrapped,) = values(
        "(%x: i8[2]) -> (%y) { %y = multiply(%x, %x) : i8[2] }", np.array([100, -128], np.int8)
    )
    assert wrapped.tolist() == [16, 0]


def test_what_is_only_stored_is_not_rounded() -> None:
    x = np.array([0.1, 60000], np.float16)
    (y,) = values(
        """(%x: f16[2]) -> (%z) {
        %y = divide(%x, %x) : f16[2]
        %e = exp(%y) : f16[2]
        %z = add(%e, %e) : f16[2]
        }""",
        x,
    )
    np.testing.assert_allclose(y, 2 * np.e, rtol=1e-15)


def test_loops_and_branches_go_as_float64_does() -> None:
    m = parse_module("""module {
      func @body(%s: f32[], %x: f32[]) -> (%t, %s) {
        %y = multiply(%s, %x) : f32[]
        %t = add(%y, %x) : f32[]
      }
      func @up(%x: f32[]) -> (%x) { }
      func @down(%x: f32[]) -> (%y) { %y = negative(%x) : f32[] }
      func @main(%s: f32[], %x: f32[20]) -> (%z, %rows) {
        %t, %rows = scan(%s, %x, body="body", index="", length=20, scanned=1, states=1)
                    : f32[], f32[20]
        %c = less(%t, %s) : bool[]
        %z = if(%c, %t, binds=(), otherwise="down", then="up") : f32[]
      }
    }""")
    s, x = np.array(0.3, np.float32), R.uniform(0.9, 1.1, 20).astype(np.float32)
    z, rows = graph.reference(m, [s, x])
    states = [float(s)]
    for a in x.tolist():
        states.append(states[-1] * a + a)
    np.testing.assert_allclose(rows, states[:-1], rtol=1e-14)
    np.testing.assert_allclose(z, -states[-1], rtol=1e-14)


@pytest.mark.parametrize(
    ("reference", "output", "off"),
    [
        (np.array([1.0, -4.0]), np.array([1.5, -4.0], np.float32), 0.125),
        (np.array([1.0, np.inf]), np.array([1.0, 7.0], np.float32), 0.0),
        (np.array([0.0]), np.array([1e-3], np.float32), np.inf),
        (np.array([np.nan]), np.array([1.0], np.float32), np.nan),
        (np.array([1.0]), np.array([1.0, 2.0], np.float32), np.nan),
        (np.array([1]), np.array([2], np.int32), np.nan),
        (np.zeros(0), np.zeros(0, np.float32), np.nan),
    ],
)
def test_the_distance_is_of_finite_floats_of_one_shape(
    reference: Array, output: Array, off: float
) -> None:
    found = compare.distance(reference, output)
    np.testing.assert_equal(found.off, off)
    assert (found.checked, found.total, found.agree) == (0, 0, True)


def test_the_total_has_the_largest_distance() -> None:
    many = [
        compare.distance(np.array([1.0]), np.array([y], np.float32)) for y in (1, 1.5, np.nan, 1.25)
    ]
    assert compare.total(many).off == 0.5
    assert np.isnan(compare.total([]).off)


WIDE = (DType.F64, DType.F32)


def unrounded(count: int) -> Iterator[tuple[int, Case]]:
    """Random programs without storage floats or float constants.

    Those are rounded where a program stores them, and exact operands where an op ends.
    """
    found, seed = 0, 0
    while found < count:
        case = decode(random.Random(seed).randbytes(BYTES))
        m = case.module
        types = [t for f in m.functions for n in f.nodes for t in n.types]
        made = [t for f in m.functions for n in f.nodes if not n.args for t in n.types]
        types += [p.type for f in m.functions for p in f.params]
        if all(t.dtype in WIDE or not t.dtype.is_float for t in types) and not any(
            t.dtype.is_float for t in made
        ):
            found += 1
            yield seed, case
        seed += 1


def test_it_lies_in_every_bar_that_decides() -> None:
    decided = 0
    for seed, case in unrounded(40):
        m, inputs = case.module, case.inputs()
        near = [exact(x) for x in inputs]
        near = [Bar(b.c, np.full(b.c.shape, LEAST * (b.c.dtype.kind == "f"))) for b in near]
        bars = graph.estimates(m.entry, m, near, stored=True)
        for t, v in zip(bars, graph.reference(m, inputs), strict=True):
            if not t.sure:
                continue
            c, e = t.bar.c, t.bar.e
            with np.errstate(all="ignore"):
                gap = np.abs(v.astype(np.longdouble) - c.astype(np.longdouble))
                inside = (v == c) | ((v != v) & (c != c)) | (gap <= e)
            assert (inside | (e == np.inf)).all(), seed
            decided += int(np.count_nonzero(e < np.inf))
    assert decided > 2_000
