"""What ops share that move elements without computing: value and bar move alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from didyma.refimpl.ir.types import Array, TensorType
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.spec import AttrMap

Move: TypeAlias = Callable[[Sequence[Array], AttrMap, TensorType], Array]
BarRule: TypeAlias = Callable[
    [Sequence[Bar], AttrMap, Sequence[TensorType], TensorType, Contract], Bar
]


def contiguous(move: Move) -> Move:
    """Return the rule with a fresh row-major array as result."""

    def run(args: Sequence[Array], attrs: AttrMap, result: TensorType) -> Array:
        out = move(args, attrs, result)
        fresh = out.flags.owndata and out.flags.c_contiguous and not any(out is a for a in args)
        return out if fresh else np.array(out, order="C", copy=True)

    return run


def moved(move: Move) -> BarRule:
    """Return the bar rule that moves centres and errors alike."""

    def run(
        args: Sequence[Bar],
        attrs: AttrMap,
        types: Sequence[TensorType],
        result: TensorType,
        contract: Contract,
    ) -> Bar:
        del types, contract
        centre = move([a.c for a in args], attrs, result)
        return Bar(centre, move([a.e for a in args], attrs, result))

    return run
