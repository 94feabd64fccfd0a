"""Graphs in the ring: legal rewritings keep every payload, mistakes do not, doubt is UNKNOWN."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.oracle.graph_ring import RingEstimate, payloads
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops import ring
from didyma.refimpl.ops.ring import UNKNOWN

RNG = np.random.default_rng(3)
X = RNG.standard_normal((3, 8)).astype(np.float32)
Y = RNG.standard_normal((3, 8)).astype(np.float32)
W = RNG.standard_normal((8, 4)).astype(np.float32)


def run(body: str, *inputs: Array, stored: bool = False, folds: bool = False) -> RingEstimate:
    """Return the value %z of a function whose parameters are %x, %y and %w."""
    params = ", ".join(
        f"%{n}: {'f32' if a.dtype == np.float32 else 'i64'}[{', '.join(map(str, a.shape))}]"
        for n, a in zip("xyw", inputs, strict=False)
    )
    m = parse_module(f"module {{ func @main({params}) -> (%z) {{ {body} }} }}")
    (z,) = payloads(m.entry, m, inputs, stored=stored, folds=folds)
    return z


ROW = "axes=(1,), keepdims=true"
# The same numbers, written in two legal ways.
SAME = {
    "a sum in two halves": (
        f"%z = sum(%x, {ROW}) : f32[3, 1]",
        "%a = slice(%x, starts=(0, 0), stops=(3, 3), steps=(1, 1)) : f32[3, 3]"
        " %b = slice(%x, starts=(0, 7), stops=(3, 2), steps=(1, -1)) : f32[3, 5]"
        f" %c = sum(%b, {ROW}) : f32[3, 1]  %d = sum(%a, {ROW}) : f32[3, 1]"
        " %z = add(%c, %d) : f32[3, 1]",
    ),
    "a mean and a sum times a reciprocal": (
        f"%z = mean(%x, {ROW}) : f32[3, 1]",
        f"%s = sum(%x, {ROW}) : f32[3, 1]  %c = constant(value=f32[] 8.0) : f32[]"
        " %r = reciprocal(%c) : f32[]  %z = multiply(%s, %r) : f32[3, 1]",
    ),
    "a variance in two passes and in one": (
        f"%m = mean(%x, {ROW}) : f32[3, 1]  %d = subtract(%x, %m) : f32[3, 8]"
        f" %q = square(%d) : f32[3, 8]  %z = mean(%q, {ROW}) : f32[3, 1]",
        f"%q = square(%x) : f32[3, 8]  %e = mean(%q, {ROW}) : f32[3, 1]"
        f" %m = mean(%x, {ROW}) : f32[3, 1]  %n = square(%m) : f32[3, 1]"
        " %z = subtract(%e, %n) : f32[3, 1]",
    ),
    "softmax with and without its maximum": (
        f"%m = max(%x, {ROW}) : f32[3, 1]  %d = subtract(%x, %m) : f32[3, 8]"
        f" %e = exp(%d) : f32[3, 8]  %s = sum(%e, {ROW}) : f32[3, 1]"
        " %z = divide(%e, %s) : f32[3, 8]",
        f"%e = exp(%x) : f32[3, 8]  %s = sum(%e, {ROW}) : f32[3, 1]"
        " %r = reciprocal(%s) : f32[3, 1]  %z = multiply(%e, %r) : f32[3, 8]",
    ),
    "a product of matrices, and of sums": (
        "%a = add(%x, %y) : f32[3, 8]  %z = matmul(%a, %w) : f32[3, 4]",
        "%a = matmul(%x, %w) : f32[3, 4]  %b = matmul(%y, %w) : f32[3, 4]"
        " %z = add(%a, %b) : f32[3, 4]",
    ),
    "tanh and its expansion by exp": (
        "%z = tanh(%x) : f32[3, 8]",
        "%n = negative(%x) : f32[3, 8]  %e = exp(%x) : f32[3, 8]  %f = exp(%n) : f32[3, 8]"
        " %a = subtract(%e, %f) : f32[3, 8]  %b = add(%e, %f) : f32[3, 8]"
        " %z = divide(%a, %b) : f32[3, 8]",
    ),
    "x / 2 and x * 0.5": (
        "%c = constant(value=f32[] 2.0) : f32[]  %z = divide(%x, %c) : f32[3, 8]",
        "%c = constant(value=f32[] 0.5) : f32[]  %z = multiply(%x, %c) : f32[3, 8]",
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_two_legal_ways_have_the_same_payloads(name: str) -> None:
    one, other = (run(body, X, Y, W) for body in SAME[name])
    assert np.array_equal(one.payload, other.payload)
    assert not (one.payload == UNKNOWN).any()
    assert len(np.unique(one.payload)) == one.payload.size


WRONG = {
    "a term less": f"%a = slice(%x, starts=(0, 1), stops=(3, 8), steps=(1, 1)) : f32[3, 7]"
    f" %z = sum(%a, {ROW}) : f32[3, 1]",
    "a term twice": f"%a = slice(%x, starts=(0, 0), stops=(3, 1), steps=(1, 1)) : f32[3, 1]"
    f" %s = sum(%x, {ROW}) : f32[3, 1]  %z = add(%s, %a) : f32[3, 1]",
    "another sum": f"%z = sum(%y, {ROW}) : f32[3, 1]",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_has_other_payloads(name: str) -> None:
    right = run(f"%z = sum(%x, {ROW}) : f32[3, 1]", X, Y)
    assert not (right.payload == run(WRONG[name], X, Y).payload).any()


CLOSE = np.array([2.0, 5.0, 7.0], np.float32)  # x / 3 * 3 is x, or is it?
THIRDS = (
    "%c = constant(value=f32[] 3.0) : f32[]  %d = divide(%x, %c) : f32[3]"
    " %r = multiply(%d, %c) : f32[3] "
)
OPEN = {
    "maximum": "%z = maximum(%x, %r) : f32[3]",
    "floor": "%z = floor(%r) : f32[3]",
    "sign": "%s = subtract(%x, %r) : f32[3]  %z = sign(%s) : f32[3]",
    "where": "%c = less(%r, %x) : bool[3]  %z = where(%c, %x, %y) : f32[3]",
    "cast": "%i = cast(%r, dtype=i32) : i32[3]  %z = cast(%i, dtype=f32) : f32[3]",
    "gather": "%i = cast(%r, dtype=i64) : i64[3]  %z = gather(%x, %i, axis=0) : f32[3]",
    "remainder": "%z = remainder(%r, %x) : f32[3]",
    "scatter": "%i = cast(%r, dtype=i64) : i64[3]"
    ' %z = scatter(%x, %i, %y, axis=0, reduction="add") : f32[3]',
}


@pytest.mark.parametrize("name", OPEN)
def test_what_bars_leave_open_is_unknown(name: str) -> None:
    y = np.array([10.0, 20.0, 30.0], np.float32)
    body = OPEN[name]
    if name == "maximum":  # 3 * (x / 3) is x in the ring, too
        assert np.array_equal(run(THIRDS + body, CLOSE, y).payload, ring.embed(CLOSE))
        body = "%e = exp(%x) : f32[3]  %q = log(%e) : f32[3]  %z = maximum(%x, %q) : f32[3]"
    assert (run(THIRDS + body, CLOSE, y).payload == UNKNOWN).all()
    known = THIRDS.replace("3.0) : f32[]  %d", "0.5) : f32[]  %d") + OPEN[name]
    assert not (run(known, CLOSE, y).payload == UNKNOWN).any()


def test_the_sign_of_a_nan_is_unknown() -> None:
    x = np.array([-2.0, 5.0, 7.0], np.float32)
    roots = run("%r = sqrt(%x) : f32[3]  %z = negative(%r) : f32[3]", x)
    assert not (roots.payload == UNKNOWN).any()
    for last in "%z = abs(%r) : f32[3]", "%z = copysign(%x, %r) : f32[3]":
        z = run("%r = sqrt(%x) : f32[3]  " + last, x)
        assert np.array_equal(z.payload == UNKNOWN, [True, False, False])


@pytest.mark.parametrize("op", ["max", "min"])
def test_an_extreme_is_known_where_one_element_surely_wins(op: str) -> None:
    x = np.array([[1, 5, 5], [2, 3, np.inf]], np.float32)
    z = run(f"%z = {op}(%x, axes=(1,), keepdims=false) : f32[2]", x)
    want = [ring.embed(5), UNKNOWN] if op == "max" else [ring.embed(1), ring.embed(2)]
    assert np.array_equal(z.payload, want)


def test_a_constant_may_be_folded_before_the_run() -> None:
    value = float(np.float32(np.exp(np.float64(np.float32(0.3)))))
    written = "%k = constant(value=f32[] 0.3) : f32[]  %e = exp(%k) : f32[]  "
    folded = f"%e = constant(value=f32[] {value!r}) : f32[]  "
    use = "%z = multiply(%x, %e) : f32[3, 8]"
    apart = run(written + use, X), run(folded + use, X)
    assert not (apart[0].payload == apart[1].payload).any()
    one, other = (run(text + use, X, folds=True, stored=True) for text in (written, folded))
    assert np.array_equal(one.payload, other.payload)
    assert not (one.payload == UNKNOWN).any()


def test_an_element_of_constants_may_be_folded_alone() -> None:
    values = "%k = constant(value=f32[2] [0.3, 0.7]) : f32[2]  "
    both = values + "%a = concat(%x, %k, axis=0) : f32[5]  "
    moved = (
        both + "%b = slice(%a, starts=(3,), stops=(5,), steps=(1,)) : f32[2]  %z = exp(%b) : f32[2]"
    )
    direct = values + "%z = exp(%k) : f32[2]"
    one, other = (run(text, CLOSE, folds=True) for text in (moved, direct))
    assert np.array_equal(one.payload, other.payload)
    exp = np.exp(np.array([0.3, 0.7], np.float32).astype(np.float64)).astype(np.float32)
    assert np.array_equal(one.payload, ring.embed(exp))


SPECIAL = (
    "%c = constant(value=f32[3] [inf, -inf, nan]) : f32[3]"
    "  %l = constant(value=f32[3] [0.3, 0.3, 0.3]) : f32[3]"
    "  %k = constant(value=f32[] 0.7) : f32[]  "
)
OF_SPECIAL = {
    "copysign": "%v = copysign(%l, %c) : f32[3]",
    "tanh": "%v = tanh(%c) : f32[3]",
    "greater": "%b = greater(%c, %l) : bool[3]  %v = cast(%b, dtype=f32) : f32[3]",
    "isnan": "%b = isnan(%c) : bool[3]  %v = cast(%b, dtype=f32) : f32[3]",
}


@pytest.mark.parametrize("name", OF_SPECIAL)
def test_infinities_and_nan_are_constants_too(name: str) -> None:
    text = SPECIAL + OF_SPECIAL[name]
    z = run(text + "  %z = divide(%v, %k) : f32[3]", folds=True)
    unspecified = name == "copysign"  # the sign of NaN
    decided = ~np.isnan(z.bar.c) & ~np.array([False, False, unspecified])
    assert np.array_equal(z.payload != UNKNOWN, decided)
    v = run(text.replace("%v", "%z")).bar.c.astype(np.float32)
    rounded = v / np.float32(0.7)
    assert np.array_equal(z.payload[decided], ring.embed(rounded)[decided])


CONTROL = """module {{
  func @then(%x: f32[3]) -> (%y) {{ %y = exp(%x) : f32[3] }}
  func @otherwise(%x: f32[3]) -> (%y) {{ %y = negative(%x) : f32[3] }}
  func @main(%x: f32[3], %k: f32[]) -> (%z) {{
    %e = {condition} : f32[]
    %c = less(%k, %e) : bool[]
    %z = if(%c, %x, binds=(), otherwise="otherwise", then="then") : f32[3]
  }}
}}"""


def test_a_branch_is_followed_only_where_it_is_decided() -> None:
    k = np.asarray(np.float32(2.0))
    for condition, want in (("exp(%k)", "exp"), ("square(%k)", "exp"), ("negative(%k)", "neg")):
        m = parse_module(CONTROL.format(condition=condition))
        (z,) = payloads(m.entry, m, [CLOSE, k])
        p = ring.embed(CLOSE)
        assert np.array_equal(z.payload, ring.exp(p) if want == "exp" else ring.negate(p))
    text = CONTROL.format(condition="exp(%k)").replace("%k, %e", "%d, %k")
    undo = "%d = log(%e) : f32[]\n    %c"
    m = parse_module(text.replace("%c", undo, 1))
    (z,) = payloads(m.entry, m, [CLOSE, k])
    assert (z.payload == UNKNOWN).all()


def test_a_scan_adds_up_its_slices() -> None:
    m = parse_module("""module {
      func @step(%s: f32[4], %x: f32[4]) -> (%t, %u) {
        %t = add(%s, %x) : f32[4]
        %u = exp(%t) : f32[4]
      }
      func @main(%s: f32[4], %x: f32[5, 4]) -> (%t, %u) {
        %t, %u = scan(%s, %x, binds=(), body="step", index="", length=5, scanned=1, states=1)
            : f32[4], f32[5, 4]
      }
    }""")
    s, x = np.zeros(4, np.float32), RNG.standard_normal((5, 4)).astype(np.float32)
    t, u = payloads(m.entry, m, [s, x])
    sums = ring.running_sum(ring.embed(x), 0)
    assert np.array_equal(t.payload, sums[-1])
    assert np.array_equal(u.payload, ring.exp(sums))
