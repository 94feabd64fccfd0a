"""What the reference makes of a program in the ring, for the judge to compare with.

Bars forgive what rounding may do, and so a term that is as small as that.  Payloads forgive
nothing: every legal order of operations gives the same, so a difference is a mistake, however
small the values that it changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from didyma.oracle import compare
from didyma.oracle.compare import Comparison
from didyma.oracle.subject import Arrays, Env
from didyma.refimpl.interp.graph_ring import RingEstimate, payloads
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops.bars import Contract


def rewritten(
    source: Module, m: Module, inputs: Arrays, env: Env, contract: Contract
) -> list[Comparison]:
    """Compare the results of a rewritten graph with those of its source, floats alone.

    Errors as of ``payloads``.
    """
    want, got = (
        payloads(g.entry, g, inputs, env, contract, stored=True, folds=True) for g in (source, m)
    )
    rows = zip(source.entry.results, source.entry.result_types(), want, got, strict=True)
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

    def of(self, function: str, args: Sequence[Array], env: Env) -> tuple[RingEstimate, ...]:
        """Return the results of a Primitive with their payloads; those of integers are 0."""
        digest = hashlib.blake2b(digest_size=16)
        for a in args:
            digest.update(np.ascontiguousarray(a).tobytes())
        key = (function, digest.digest(), tuple(a.shape for a in args), tuple(env.items()))
        if key not in self._found:
            f = self.fused.function(function)
            self._found[key] = payloads(f, self.fused, args, env, self.contract)
        return self._found[key]
