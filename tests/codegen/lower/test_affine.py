"""Index polynomials against the expressions they stand for, by trying every index."""

from __future__ import annotations

import itertools
import random

import pytest

from didyma.codegen.lower.affine import Affine
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.dims.polynomial import coefficient
from didyma.refimpl.ir.loop import Binary, Const, Expr, Var

P, Q, R, N = Var("i"), Var("j"), Var("k"), Var("n")
SIZES = {"i": 3, "j": 4, "k": 6}


def affine() -> Affine:
    a = Affine()
    for name, size in SIZES.items():
        a.loop(Var(name), ix.index(size))
    return a


def value(e: Expr, env: dict[str, int]) -> int:
    match e:
        case Const(v):
            return int(v)
        case Var(name):
            return env[name]
        case Binary(op, lhs, rhs):
            a, b = value(lhs, env), value(rhs, env)
            known = {"add": a + b, "sub": a - b, "mul": a * b}
            if op in known:
                return known[op]
            return a // b if op == "floordiv" else a % b
        case _:
            raise TypeError(e)


def some(dice: random.Random, depth: int) -> Expr:
    if depth == 0 or dice.random() < 0.2:
        return dice.choice((P, Q, R, ix.index(dice.randint(-3, 6))))
    a = some(dice, depth - 1)
    match dice.randrange(5):
        case 0:
            return Binary("add", a, some(dice, depth - 1))
        case 1:
            return Binary("sub", a, some(dice, depth - 1))
        case 2:
            return Binary("mul", a, ix.index(dice.randint(-2, 12)))
        case 3:
            return Binary("floordiv", a, ix.index(dice.randint(1, 7)))
        case _:
            return Binary("floormod", a, ix.index(dice.randint(1, 7)))


ENVS = [dict(zip(SIZES, at, strict=True)) for at in itertools.product(*map(range, SIZES.values()))]


@pytest.mark.parametrize("seed", range(150))
def test_simplifying_changes_no_value_and_bounds_hold(seed: int) -> None:
    e, a = some(random.Random(seed), 4), affine()
    simple = a.simplify(e)
    found = [value(e, env) for env in ENVS]
    assert [value(simple, env) for env in ENVS] == found
    p = a.poly(e)
    high, low = a.upper(p), a.lower(p)
    if high is not None:
        assert max(found) <= high.get((), 0)
    if low is not None:
        assert min(found) >= low.get((), 0)
    for n in (1, 5, 20):
        if a.within(p, a.poly(ix.index(n))):
            assert 0 <= min(found) <= max(found) < n


def test_divisions_of_a_flat_index_come_out() -> None:
    a = affine()
    flat = ix.flatten([P, Q, R], [ix.index(s) for s in SIZES.values()])
    back = ix.unflatten(flat, [ix.index(s) for s in SIZES.values()])
    assert [a.simplify(e) for e in back] == [P, Q, R]


def test_symbolic_sizes_divide_out() -> None:
    a = Affine()
    a.loop(P, N)
    a.loop(Q, ix.mul(N, ix.index(2)))
    flat = ix.flatten([P, Q], [N, ix.mul(N, ix.index(2))])
    assert a.simplify(ix.floordiv(flat, ix.mul(N, ix.index(2)))) == P
    assert a.simplify(ix.mod(flat, ix.mul(N, ix.index(2)))) == Q
    assert a.within(a.poly(P), a.poly(N))
    assert not a.within(a.poly(Q), a.poly(N))
    assert not a.within(a.poly(ix.sub(P, ix.ONE)), a.poly(N))


def test_coefficients() -> None:
    a = affine()
    p = a.poly(ix.add(ix.mul(P, N), ix.mul(Q, ix.index(3)), ix.mul(R, R)))
    assert coefficient(p, "i") == {("n",): 1}
    assert coefficient(p, "j") == {(): 3}
    assert coefficient(p, "k") is None
    assert coefficient(p, "x") == {}


@pytest.mark.parametrize("least", [0, 1])
def test_a_remainder_is_below_its_divisor_unless_that_may_be_zero(least: int) -> None:
    a = Affine((DimVar("n", least, 8),))
    a.loop(P, ix.index(5))
    rest = a.poly(ix.mod(P, N))
    assert a.within(rest, a.poly(N)) is (least > 0)
    assert not a.within(rest, a.poly(ix.sub(N, ix.ONE)))
