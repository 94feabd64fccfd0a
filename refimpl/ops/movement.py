"""The rules of ops that only move elements: their bars are moved as their values are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from didyma.refimpl.ir.types import Array, TensorType
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.spec import Element, Eval, Infer, Rules, Use

A = TypeVar("A")
MOVED = "Elements are moved as they are: NaN, infinities and the sign of zero are kept."


def moving(
    record: type[A], infer: Infer[A], move: Eval[A], element: Element[A], *, view: bool = False
) -> Rules[A]:
    """Return the rules of an op that moves elements by the function ``move``.

    With ``view`` the result of ``move`` may be handed to who only reads it.
    """

    def fresh(args: Sequence[Array], attrs: A, result: TensorType) -> Array:
        out = move(args, attrs, result)
        own = out.flags.owndata and out.flags.c_contiguous and not any(out is a for a in args)
        return out if own else np.array(out, order="C", copy=True)

    def bar(args: Sequence[Bar], use: Use[A], _contract: Contract) -> Bar:
        centre = move([a.c for a in args], use.attrs, use.result)
        return Bar(centre, move([a.e for a in args], use.attrs, use.result))

    return Rules(record, infer, fresh, bar, element, view=move if view else None)
