"""What the reference makes of a program in the ring, for the judge to compare with.

Bars forgive what rounding may do, and so a term that is as small as that.  Payloads forgive
nothing: every legal order of operations gives the same, so a difference is a mistake, however
small the values that it changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from didyma.oracle import compare
from didyma.oracle.compare import Comparison
from didyma.oracle.graph_ring import RingEstimate, payloads
from didyma.oracle.subject import Env
from didyma.refimpl.ir.graph import Function, Module
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops.bars import Contract
from didyma.refimpl.ops.ring import UNKNOWN


def judged(
    names: Sequence[str], got: Sequence[Array], want: Callable[..., Sequence[RingEstimate]]
) -> list[Comparison]:
    """Compare the payloads of those results that are records (``interp.scalar_ring``).

    ``want`` gives the reference's, with constants folded or not.  What folding changes is not
    compared: a compiler may fold some constants and leave others.
    """
    records = [i for i, a in enumerate(got) if a.dtype.names]
    if not records:
        return []
    plain = want(folds=False)
    found = [_compared(names[i], plain[i], got[i]) for i in records]
    if all(c.agree for c in found):
        return found
    folded = want(folds=True)
    return [_compared(names[i], _where_equal(plain[i], folded[i]), got[i]) for i in records]


def _compared(name: str, want: RingEstimate, got: Array) -> Comparison:
    if not want.sure or want.payload.shape != got.shape:  # which the values decide
        return Comparison(0, got.size, 0.0, in_ring=True)
    return compare.payloads(name, want.payload, got["payload"], (want.bar.c, got["value"]))


def _where_equal(plain: RingEstimate, folded: RingEstimate) -> RingEstimate:
    same = plain.payload == folded.payload
    return replace(plain, payload=np.where(same, plain.payload, UNKNOWN))


def rewritten(
    source: Function, want: Sequence[RingEstimate], got: Sequence[RingEstimate]
) -> list[Comparison]:
    """Compare results of a rewritten graph with its source's: floats, of a shape that is sure."""
    rows = zip(source.results, source.result_types(), want, got, strict=True)
    return [
        compare.payloads(name, w.payload, g.payload, (w.bar.c, g.bar.c))
        for name, t, w, g in rows
        if t.dtype.is_float and w.sure and g.sure
    ]


class PrimitivePayloads:
    """The payloads of the results of a fused module's Primitives, on inputs that are embedded.

    Several levels ask for those of the same Primitive on the same inputs, so they are cached.
    """

    def __init__(self, fused: Module, contract: Contract) -> None:
        self.fused = fused
        self.contract = contract
        self._found: dict[object, tuple[RingEstimate, ...]] = {}

    def of(
        self, function: str, args: Sequence[Array], env: Env, *, folds: bool = False
    ) -> tuple[RingEstimate, ...]:
        """Return the results of a Primitive with their payloads; those of integers are 0.

        ``folds`` is as of ``graph_ring``.
        """
        digest = hashlib.blake2b(digest_size=16)
        for a in args:
            digest.update(np.ascontiguousarray(a).tobytes())
        shapes = tuple(a.shape for a in args)
        key = (function, digest.digest(), shapes, tuple(env.items()), folds)
        if key not in self._found:
            f = self.fused.function(function)
            self._found[key] = payloads(f, self.fused, args, env, self.contract, folds=folds)
        return self._found[key]
