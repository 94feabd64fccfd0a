from __future__ import annotations

from itertools import product

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from didyma.codegen.memory.symbolic.ring import Ring
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.dims.polynomial import plus
from tests.codegen.memory.symbolic.cases import M, N, ranges, sizes


def ring(declared: tuple[DimVar, ...]) -> Ring:
    return Ring(declared, {v.name: v.name for v in declared})


def everywhere(declared: tuple[DimVar, ...], step: int = 1) -> list[dict[str, int]]:
    axes = [sorted({v.lo, v.hi, *range(v.lo, v.hi, step)}) for v in declared]
    names = [v.name for v in declared]
    return [dict(zip(names, at, strict=True)) for at in product(*axes)]


@settings(deadline=None)
@given(sizes(), ranges(), st.sampled_from([1, 8, 256]))
def test_source_says_what_the_size_is(d: Dim, declared: tuple[DimVar, ...], to: int) -> None:
    r = ring(declared)
    p = r.read(d)
    for env in everywhere(declared, 7):
        want = dims.evaluate(d, env)
        assert eval(r.source(p), dict(env)) == want
        up = eval(r.source(r.aligned(p, to)), dict(env))
        assert up % to == 0
        assert want <= up < want + to


@settings(deadline=None, max_examples=80)
@given(sizes(), sizes(), ranges(), st.booleans())
def test_what_is_proven_is_true(a: Dim, b: Dim, declared: tuple[DimVar, ...], align: bool) -> None:
    r = ring(declared)
    p, q = r.read(a), r.read(b)
    if align:
        p, q = r.aligned(p, 64), r.aligned(q, 64)
    difference = plus(p, q, -1)
    if r.nonnegative(difference):
        text = r.source(difference)
        assert all(eval(text, dict(env)) >= 0 for env in everywhere(declared, 3))


@settings(deadline=None, max_examples=40)
@given(sizes(), ranges())
def test_directions_are_true(d: Dim, declared: tuple[DimVar, ...]) -> None:
    r = ring(declared)
    p = r.aligned(r.read(d), 8)
    text = r.source(p)
    for s, way in r.directions(p).items():
        (v,) = (v for v in declared if v.name == s)
        for env in everywhere(declared, 5):
            if env[s] < v.hi and way:
                change = eval(text, {**env, s: env[s] + 1}) - eval(text, dict(env))
                assert change * way >= 0


@settings(deadline=None)
@given(sizes(), ranges())
def test_no_number_is_larger_than_the_magnitude(d: Dim, declared: tuple[DimVar, ...]) -> None:
    r = ring(declared)
    most = r.magnitude(r.aligned(r.read(d), 64))
    assert all(dims.evaluate(d, env) <= most for env in everywhere(declared, 5))


PROVABLE: list[tuple[Dim, Dim]] = [
    (dims.mul(N, N), dims.sub(dims.mul(4, N), 4)),  # (n - 2)²: touches 0 inside
    (dims.mul(N, M), N),
    (dims.add(dims.mul(N, N), 1000), dims.mul(50, N)),  # a sum with a negative term
    (dims.floordiv(dims.mul(3, N), 2), N),
    (dims.add(dims.maximum(N, M), 1), 2),
]


@pytest.mark.parametrize(("more", "less"), PROVABLE)
def test_proofs_reach(more: Dim, less: Dim) -> None:
    r = ring((DimVar("n", 2, 8192), DimVar("m", 1, 64)))
    assert r.nonnegative(plus(r.read(more), r.read(less), -1))


def test_false_claims_are_not_proven() -> None:
    r = ring((DimVar("n", 2, 8192), DimVar("m", 1, 64)))
    square = plus(r.read(dims.mul(N, N)), r.read(dims.add(dims.mul(4, N), -3)), -1)
    assert not r.nonnegative(square)  # negative at n = 2 alone
    assert not r.nonnegative(plus(r.read(N), r.read(M), -1))


def test_sizes_that_cannot_be_read() -> None:
    r = ring((DimVar("n", 2, 8),))
    with pytest.raises(DidymaError, match="unbound-dim"):
        r.read(M)
    with pytest.raises(DidymaError, match="bad-dim"):
        r.read(sympy.Pow(2, N))
