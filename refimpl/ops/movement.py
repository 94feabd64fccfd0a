"""Facets that ops share which only move elements: their bars are moved as their values are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from didyma.refimpl.ir.types import Array, TensorType
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.spec import BarRule, Eval, Use

A = TypeVar("A")
MOVED = "Elements are moved as they are: NaN, infinities and the sign of zero are kept."


def contiguous(move: Eval[A]) -> Eval[A]:
    """Return a rule whose result is a fresh row-major array."""

    def run(args: Sequence[Array], attrs: A, result: TensorType) -> Array:
        out = move(args, attrs, result)
        fresh = out.flags.owndata and out.flags.c_contiguous and not any(out is a for a in args)
        return out if fresh else np.array(out, order="C", copy=True)

    return run


def moved(move: Eval[A]) -> BarRule[A]:
    """Return the bar rule that moves centres and errors as ``move`` moves values."""

    def run(args: Sequence[Bar], use: Use[A], _contract: Contract) -> Bar:
        centre = move([a.c for a in args], use.attrs, use.result)
        return Bar(centre, move([a.e for a in args], use.attrs, use.result))

    return run
