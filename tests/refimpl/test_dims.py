"""Sizes in sympy's own form, found without it."""

from __future__ import annotations

from random import Random

import sympy

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, canonical, symbol


def polynomial(r: Random) -> Dim:
    n, m, k = map(symbol, "nmk")
    monomials: list[Dim] = [1, n, m, k, n * m, n * n, k * n * m]
    factors = (1, 2, 3, 4, 64, 100, 256, -1, -4)
    terms = [dims.mul(r.choice(factors), r.choice(monomials)) for _ in range(r.randrange(1, 5))]
    return dims.add(*terms, r.choice((0, 0, 1, -3, 255, 256)))


def test_quotients_and_multiples_are_sympys() -> None:
    r = Random(0)
    for _ in range(120):
        d, by = polynomial(r), r.choice((2, 3, 4, 64, 256))
        whole = sympy.sympify(d)
        down = canonical(sympy.floor(whole / by))
        up = canonical(sympy.floor((whole + (by - 1)) / by))
        assert dims.floordiv(d, by) == down
        assert dims.ceildiv(d, by) == up
        assert dims.align(d, by) == dims.mul(up, by)


def test_maxima_are_sympys() -> None:
    r = Random(1)
    for _ in range(40):
        ds = [polynomial(r) for _ in range(r.randrange(2, 5))]
        assert dims.maximum(*ds) == canonical(sympy.Max(*ds))


def test_sizes_that_are_no_polynomials_too() -> None:
    n, m = symbol("n"), symbol("m")
    half = dims.floordiv(n, 2)
    assert dims.align(dims.maximum(n, m), 4) == canonical(
        4 * sympy.floor(sympy.Max(n, m) / 4 + sympy.Rational(3, 4))
    )
    for env in ({"n": 0, "m": 5}, {"n": 7, "m": 2}):
        assert (
            dims.evaluate(dims.align(dims.add(half, m), 8), env)
            == -(-(env["n"] // 2 + env["m"]) // 8) * 8
        )
        assert dims.evaluate(dims.maximum(half, m, 3), env) == max(env["n"] // 2, env["m"], 3)
