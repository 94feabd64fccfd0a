"""What the reference makes of a program in the ring, for the judge to compare with.

Bars forgive what rounding may do, and so a term that is as small as that.  Payloads forgive
nothing: every legal order of operations gives the same, so a difference is a mistake, however
small the values that it changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace

import numpy as np

from didyma.oracle import compare
from didyma.oracle.compare import Comparison
from didyma.oracle.graph_ring import RingEstimate, payloads
from didyma.oracle.subject import Env
from didyma.refimpl.ir.graph import CALL, CONTROL, Function, Module
from didyma.refimpl.ir.kernel import ClaimedKernel
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops.bars import Contract
from didyma.refimpl.ops.ring import UNKNOWN


def judged(
    names: Sequence[str],
    got: Sequence[Array],
    want: Callable[..., Sequence[RingEstimate]],
    without: Container[int] = (),
) -> list[Comparison]:
    """Compare the payloads of those results that are records (``interp.scalar_ring``).

    ``want`` gives the reference's, with constants folded or not.  What folding changes is not
    compared: a compiler may fold some constants and leave others.  Results at the positions
    ``without`` are counted and not compared.
    """
    records = [i for i, a in enumerate(got) if a.dtype.names]
    left = [Comparison(0, got[i].size, 0.0, in_ring=True) for i in records if i in without]
    records = [i for i in records if i not in without]
    if not records:
        return left
    plain = want(folds=False)
    found = [_compared(names[i], plain[i], got[i]) for i in records]
    if not all(c.agree for c in found):
        folded = want(folds=True)
        found = [_compared(names[i], _where_equal(plain[i], folded[i]), got[i]) for i in records]
    return found + left


def scaled_logs(f: Function, kernels: Sequence[PrimFunc | ClaimedKernel]) -> frozenset[int]:
    """Return which results have logarithms of sums that a text for an attention may scale.

    A kernel may take any number near its largest score out of the exponentials of a row, and add it
    to the logarithm of their sum.  In the ring a logarithm is a tag, which hangs on that number.
    """
    if not any(isinstance(k, ClaimedKernel) for k in kernels):
        return frozenset()
    made = {r: n.op for n in f.nodes for r in n.results}
    if "exp" not in made.values() or [*made.values()].count("matmul") < 2:
        return frozenset()
    found = set[str]()
    for n in f.nodes:
        if (n.op == "log" and made.get(n.args[0]) == "sum") or not found.isdisjoint(n.args):
            found |= {*n.results}
    return frozenset(i for i, r in enumerate(f.results) if r in found)


def reached(m: Module, own: Mapping[str, frozenset[int]]) -> frozenset[int]:
    """Return which results of the entry depend on some results of functions, by position."""
    found = set[str]()
    for n in m.entry.nodes:
        if not found.isdisjoint(n.args) or (n.op in CONTROL and any(own.values())):
            found |= {*n.results}
        elif n.op == CALL:
            found |= {r for i, r in enumerate(n.results) if i in own.get(n.callee, ())}
    return frozenset(i for i, r in enumerate(m.entry.results) if r in found)


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
