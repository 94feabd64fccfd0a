"""The meaning of ops in the ring, by the one fact that all exact arithmetic obeys.

A number is embedded as itself.  So where an op's result is exact, its payload is the embedding of
the value that the op's NumPy meaning yields: an oracle that shares nothing with the rules.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from didyma.refimpl.ir.types import FLOATS, Array
from didyma.refimpl.ops import OPS, bars, ring, ring_rules
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.ring import UNKNOWN
from didyma.refimpl.ops.spec import Kind, Op
from tests.refimpl.ops.draw import Dice, Use, sample, use

TAGS = {"atan2", *ring_rules.SMOOTH} - {"neg"}
USES = 15


def of(u: Use, given: list[Bar] | None = None) -> tuple[Array, Bar]:
    """Return the payloads of a use of an op on embedded operands, and its bar."""
    applied = u.op.apply(u.attrs)
    given = given or [bars.exact(a) for a in u.args]
    with np.errstate(all="ignore"):
        payloads = [np.asarray(ring.embed(a)) for a in u.args]
        out = applied.bar(given, u.types, u.result, Contract())
        return applied.ring(given, payloads, u.types, u.result, out), out


@cache
def floats(name: str) -> list[Use]:
    """Return uses of an op on whole numbers whose results are floats; none if it has none."""
    op, found = OPS[name], list[Use]()
    for seed in range(USES):
        dice = Dice(seed)
        for dtypes in (FLOATS, op.dtypes):
            if set(dtypes) & set(op.dtypes):
                s = sample(op, dice, [d for d in dtypes if d in op.dtypes])
                found.append(use(op, s, dice, wild=False))
    return [u for u in found if u.result.dtype.is_float]


YIELD_FLOATS = [op for op in OPS.values() if floats(op.name)]


def test_most_ops_yield_floats() -> None:
    assert 60 < len(YIELD_FLOATS) < len(OPS)


@pytest.mark.parametrize("op", YIELD_FLOATS, ids=lambda op: op.name)
def test_an_op_that_computes_floats_has_a_rule(op: Op) -> None:
    rules = op.rules
    moves = op.kind in (Kind.INJECTIVE, Kind.RESHAPE) and op.arity != (0, 0)
    assert rules.ring is not None or moves


@pytest.mark.parametrize("op", YIELD_FLOATS, ids=lambda op: op.name)
def test_an_exact_result_has_the_payload_of_its_value(op: Op) -> None:
    checked = 0
    for u in floats(op.name):
        payload, out = of(u)
        value = u.eval()
        assert payload.shape == value.shape
        assert payload.dtype == np.uint64
        with np.errstate(all="ignore"):
            want = ring.embed(value)
            wide = value.astype(np.float64)
            exact = (payload != UNKNOWN) & (out.e <= bars.LEAST) & (wide == out.c)
            exact &= np.rint(256 * wide) == 256 * wide  # a correctly rounded quotient has no bar
            if op.name in ("cast", "saturating_cast"):
                exact &= wide == u.args[0].astype(np.float64)
        if op.name not in TAGS:
            assert np.array_equal(payload[exact], np.asarray(want)[exact]), u
        checked += int(np.count_nonzero(payload != UNKNOWN))
    assert checked > 20
