"""What a kernel states about its own arithmetic: the contract that it is judged by."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from didyma.judging import fast_math
from didyma.judging.expressions import evaluate
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import bars
from didyma.refimpl.ops.bars import LEAST, Bar, Contract
from didyma.refimpl.ops.factors import FORMATS
from didyma.refimpl.ops.liberties import LEAST_NORMAL

ACCUMULATORS = ("f32", "bf16", "f16")
FACTORS = ("f32", *FORMATS)
# Of ``x / y`` as the product with a reciprocal, and of ``x / sqrt(y)`` as ``x * rsqrt(y)``, whose
# 2 ulp are up to 3 of the root.
RECIPROCALS: Mapping[str, float] = MappingProxyType({"div": 2.0, "sqrt": 3.0})


@dataclass(frozen=True, slots=True)
class Declared:
    """A contract as its author declares it.

    ``accumulate`` is the dtype in which sums are kept.  ``order`` is the order of additions:
    ``any``, ``sequential``, ``tree``, or an expression of ``n`` for the longest chain of additions
    in a sum of n terms.  ``fast_math`` allows fast intrinsics and lets subnormal numbers be zeros.
    ``finite`` promises nothing for infinities and NaN.  ``structure`` states that each result is
    made of the same terms as in the specification, in any order, which is judged in the ring.
    ``multiply`` is the format to which factors of f32 in products of matrices and in convolutions
    may be rounded.

    DidymaError ``bad-option`` for others.
    """

    accumulate: str = "f32"
    order: str = "any"
    fast_math: bool = False
    finite: bool = False
    structure: bool = False
    multiply: str = "f32"

    def __post_init__(self) -> None:
        if self.accumulate not in ACCUMULATORS:
            want = f"one of {', '.join(ACCUMULATORS)}"
            raise DidymaError("bad-option", "--accumulate", got=self.accumulate, want=want)
        if self.multiply not in FACTORS:
            want = f"one of {', '.join(FACTORS)}"
            raise DidymaError("bad-option", "--multiply", got=self.multiply, want=want)
        if self.order not in ("any", "sequential", "tree"):
            evaluate(self.order, {"n": 1024}, "--order")

    @property
    def rules(self) -> Contract:
        """The contract as the reference's bars take it."""
        kept = None if self.accumulate == "f32" else DType(self.accumulate)
        factors = "" if self.multiply == "f32" else self.multiply
        found = Contract(accumulate=kept, reordered=True, ulp=RECIPROCALS, factors=factors)
        if self.fast_math:
            found = replace(found, ulp=fast_math.ULPS, looser=fast_math.LOOSER, flush=True)
        if self.order == "any":
            return replace(found, rescaled=bars.at_each_level)
        return replace(found, chain=self._chain())

    def _chain(self) -> Callable[[int], int]:
        if self.order == "sequential":
            return bars.sequential
        if self.order == "tree":
            return lambda n: max(0, n - 1).bit_length()
        return lambda n: math.ceil(evaluate(self.order, {"n": n}, "--order"))

    def widened(self, b: Bar, dtype: DType) -> Bar:
        """Return a bar that forgives what is no part of the contract, such as a zero's sign."""
        if not dtype.is_float:
            return b
        e = np.where((b.c == 0) & (b.e == 0), LEAST, b.e)
        if self.finite:
            e = np.where(np.isfinite(b.c), e, np.inf)
        if self.fast_math and dtype.compute is DType.F32:
            with np.errstate(invalid="ignore"):  # an infinity that is undecided
                small = np.abs(b.c.astype(np.float64)) - e < LEAST_NORMAL
            e = np.where(small, np.maximum(e, LEAST_NORMAL), e)
        return Bar(b.c, e)

    def promised(self, x: Array) -> Array:
        """Return input values for which the contract promises something."""
        kind = DType.of(x)
        if not kind.is_float or not (self.finite or self.fast_math):
            return x
        with np.errstate(all="ignore"):
            wide = x.astype(np.float64)
            strange = ~np.isfinite(wide)
            if self.fast_math:
                strange |= (wide != 0) & (np.abs(wide) < LEAST_NORMAL)
        return np.where(strange, np.ones((), x.dtype), x)
