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
from didyma.refimpl.ir.graph import Function, Module, Node
from didyma.refimpl.ir.kernel import ClaimedKernel
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.types import Array, Tensor
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


def merges(f: Function, kernels: Sequence[PrimFunc | ClaimedKernel]) -> bool:
    """Return whether a text may multiply constants of an attention's scores, rounded once.

    Their product has another payload than its factors in turn.  So it may be where a score has
    several constants that are no powers of two, is divided by one, or has one and a sum.
    """
    ops = [n.op for n in f.nodes]
    if not any(isinstance(k, ClaimedKernel) for k in kernels):
        return False
    if "exp" not in ops or ops.count("matmul") < 2:
        return False
    uneven = {n.results[0] for n in f.nodes if n.op == "constant" and _is_uneven(n)}
    shown = set(uneven)
    for n in f.nodes:
        if n.op in ("broadcast_to", "reshape", "cast") and n.args[0] in shown:
            shown |= {*n.results}
    divided = any(n.op == "divide" and n.args[1] in shown for n in f.nodes)
    sums = sum(n.op in ("add", "subtract") and n.types[0].dtype.is_float for n in f.nodes)
    return divided or len(uneven) > 1 or (len(uneven) == 1 and sums > 1)  # one is of the softmax


def _is_uneven(n: Node) -> bool:
    """Return whether a constant has a float whose product with another float may be rounded."""
    value = n.attr["value"]
    if not isinstance(value, Tensor) or not value.dtype.is_float:
        return False
    parts = np.frexp(np.abs(value.array().astype(np.float64)))[0]
    return bool((np.isfinite(parts) & (parts != 0) & (parts != 0.5)).any())


def left_out(got: Sequence[Array]) -> list[Comparison]:
    """Return comparisons that count the elements of records and have checked none of them."""
    return [Comparison(0, a.size, 0.0, in_ring=True) for a in got if a.dtype.names]


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
