"""What a contract allows an op of f32 beside the errors of its own rule.

Functions here are to be called under ``np.errstate(all="ignore")``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops.bars import UNIT, Bar, Contract, as_error

LEAST_NORMAL = 2.0**-126  # of f32
NEAR_OVERFLOW = 2.0**104  # of f32: a factor of 2**24 below the largest number
LARGEST_POWER = 2.0**127  # of f32
_SOFTPLUS_OF_ZERO = math.log(2) - 1e-6
SUMS = ("add", "subtract")
OF_TERMS = ("sum", "matmul", "conv")
PRODUCTS = ("multiply", "divide")
OF_ELEMENTS = ("add", "subtract", "multiply", "square")  # ops whose results may overflow
OF_MANY = (
    "sum", "mean", "prod", "matmul", "conv", "cumulative_sum", "cumulative_prod", "avg_pool",
)  # fmt: skip


def loosened(contract: Contract, name: str, operands: Sequence[Bar], b: Bar, dtype: DType) -> Bar:
    """Return the bar of an op's result, with ``looser``, ``flush`` and ``reordered`` of a contract.

    NaN and infinities stay what they are, unless they become undecided.
    """
    if dtype.compute is not DType.F32:
        return b
    more = contract.looser.get(name)
    e = b.e
    if more is not None:
        extra = more(operands, b)
        e = np.where(np.isfinite(b.c) | np.isinf(extra), as_error(e + extra), e)
    if contract.flush:
        near = (np.abs(b.c) - e < LEAST_NORMAL) & ((b.c != 0) | (e > 0))
        e = np.where(near, as_error(e + LEAST_NORMAL), e)
    if contract.reordered and name in (*OF_ELEMENTS, *OF_MANY):
        e = np.where(_near_overflow(name, operands, b), np.inf, e)
    return b if e is b.e else Bar(b.c, e)


def softplus(contract: Contract, b: Bar, dtype: DType) -> Bar:
    """Return the bar of ``max(x, 0) + log1p(exp(-|x|))`` that may be ``log1p(exp(x))``.

    Of a positive x, the error of its exponential is an absolute one of the logarithm, which is
    then wrong by its own error as well.
    """
    if not contract.reordered or dtype.compute is not DType.F32:
        return b
    ulps = contract.of("exp", dtype.compute) + contract.of("log1p", dtype.compute) * b.c
    more = np.where(b.c > _SOFTPLUS_OF_ZERO, ulps * 2 * UNIT[DType.F32], 0.0)
    return Bar(b.c, np.where(np.isfinite(b.c), as_error(b.e + more), b.e))


def _near_overflow(name: str, operands: Sequence[Bar], b: Bar) -> Array:
    """Return where finite operands have a result that overflows, or nearly does."""
    near = np.abs(b.c) >= NEAR_OVERFLOW
    if not near.any() or all(np.isfinite(x.c).all() for x in operands):
        return near
    if name in OF_ELEMENTS:
        for x in operands:
            near = near & np.isfinite(x.c)
        return near
    if name == "matmul":
        return near & ~_meets_unbounded(*operands)
    return near & np.isfinite(b.c)  # infinities may be those of an operand


def _meets_unbounded(left: Bar, right: Bar) -> Array:
    """Return which elements of a matrix product have an infinity or NaN among their factors."""
    a, b = (~np.isfinite(x.c) for x in (left, right))
    both: Array = np.matmul(a, np.ones_like(b)) | np.matmul(np.ones_like(a), b)
    return both


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a sum that several ops make, some of which are sums of an op themselves.

    ``count`` is the longest chain of their additions, and one; ``size`` is the sum of their
    magnitudes, ``carried`` that of magnitudes times their own counts; ``error`` is their own.
    ``reach`` is that of the factors of one matrix product, if they are no more.
    """

    count: int
    size: Array
    carried: Array
    error: Array
    reach: Reach | None = None

    @classmethod
    def of(cls, b: Bar, count: int = 1, reach: Reach | None = None) -> Terms:
        """Return one term, which is the sum of so many."""
        size = np.abs(b.c.astype(np.float64))
        return cls(count, size, size * count, b.e, reach)

    def joined(self, other: Terms) -> Terms:
        """Return the terms of both."""
        return Terms(
            self.count + other.count, self.size + other.size, self.carried + other.carried,
            self.error + other.error,
        )  # fmt: skip

    def times(self, factor: Array, error: Array, reach: Reach | None) -> Terms:
        """Return the terms times a factor; ``error`` is then that of their sum."""
        return Terms(self.count, self.size * factor, self.carried * factor, error, reach)

    def moved(self, move: Callable[[Sequence[Bar]], Bar]) -> Terms:
        """Return the terms of elements that are moved as those of a bar are."""
        shape = self.size.shape

        def of(a: Array, b: Array) -> tuple[Array, Array]:
            made = move([Bar(*(np.array(np.broadcast_to(x, shape)) for x in (a, b)))])
            return made.c, made.e

        size, carried = of(self.size, self.carried)
        error, _ = of(self.error, self.error)
        reach = self.reach and Reach(*of(self.reach.most, self.reach.least))
        return Terms(self.count, size, carried, error, reach)

    @property
    def roundings(self) -> Array:
        """What a term loses in the additions of all others, if it comes first."""
        lost: Array = UNIT[DType.F32] * (self.count * self.size - self.carried)
        return lost


def added(
    contract: Contract, name: str, known: Sequence[Terms | None], operands: Sequence[Bar], b: Bar
) -> tuple[Bar, Terms | None]:
    """Return the bar of an op's result of f32, and its terms if it is a sum.

    Where sums may be formed in another order, ``x + s * (w @ v) + b`` may begin with any of its
    terms, and what comes first rounds in each addition of the others.  The factor may be that of
    each term, which then rounds once more, and may overflow alone.  ``known`` are the terms of
    operands that are sums.
    """
    if not contract.reordered:
        return b, None
    if name in OF_TERMS:
        reach = Reach.of_product(*operands) if name == "matmul" else None
        return b, Terms.of(b, contract.chain(_terms(name, operands, b)) + 1, reach)
    if name in PRODUCTS:
        return _scaled(name, known, operands, b)
    if name not in SUMS:
        return b, None
    left, right = (t or Terms.of(x) for t, x in zip(known, operands, strict=True))
    terms = left.joined(right)
    if not any(known):
        return b, terms
    e = np.maximum(b.e, terms.error + terms.roundings)
    return Bar(b.c, np.where(np.isfinite(b.c) & ~np.isnan(e), as_error(e), b.e)), terms


def _scaled(
    name: str, known: Sequence[Terms | None], operands: Sequence[Bar], b: Bar
) -> tuple[Bar, Terms | None]:
    """Return the bar and the terms of a sum times a factor, or divided by it."""
    k = 0 if known[0] else 1
    terms = known[k]
    if terms is None or known[1 - k] or (name == "divide" and k):
        return b, None
    factor = np.abs(operands[1 - k].c.astype(np.float64))
    factor = 1 / factor if name == "divide" else factor
    sizes = terms.size * factor  # of the products, of which each rounds once, though terms cancel
    once = np.maximum(operands[k].e * factor / max(1, terms.count - 1), UNIT[DType.F32] * sizes)
    e = np.where(np.isfinite(b.c) & np.isfinite(once), as_error(b.e + once), b.e)
    e = np.where(np.isfinite(b.c) & (sizes >= NEAR_OVERFLOW), np.inf, e)
    reach = terms.reach
    if reach is not None:
        own = Reach.of(operands[1 - k])
        reach = reach.joined(own.inverse() if name == "divide" else own)
        e = np.where(reach.outside & ~np.isnan(b.c), np.inf, e)
    return Bar(b.c, e), terms.times(factor, e, reach)


def _terms(name: str, operands: Sequence[Bar], b: Bar) -> int:
    """Return of how many terms a result of a sum is made."""
    shapes = [x.c.shape for x in operands]
    if name == "matmul":
        return int(shapes[0][-1])
    if name == "conv":
        return math.prod(shapes[1][1:])
    return math.prod(shapes[0]) // max(1, b.c.size)


@dataclass(frozen=True, slots=True)
class Reach:
    """The greatest and the least magnitude of a product of some of an element's factors."""

    most: Array
    least: Array

    @classmethod
    def of(cls, b: Bar) -> Reach:
        """Return the reach of one factor; zeros, infinities and NaN change that of no other."""
        size = np.abs(b.c.astype(np.float64))
        size = np.where(np.isfinite(size) & (size > 0), size, 1.0)
        return cls(np.maximum(size, 1.0), np.minimum(size, 1.0))

    @classmethod
    def of_product(cls, left: Bar, right: Bar) -> Reach:
        """Return the reach of the factors of each element of a matrix product."""
        a, b = cls.of(left), cls.of(right)
        return cls(
            np.maximum(
                a.most.max(-1, keepdims=True, initial=1), b.most.max(-2, keepdims=True, initial=1)
            ),
            np.minimum(
                a.least.min(-1, keepdims=True, initial=1), b.least.min(-2, keepdims=True, initial=1)
            ),
        )

    def inverse(self) -> Reach:
        """Return the reach of the factors' reciprocals."""
        return Reach(1 / self.least, 1 / self.most)

    @property
    def outside(self) -> Array:
        """Whether some of the factors have a product outside of the range of normal f32."""
        out: Array = (self.most >= LARGEST_POWER) | (self.least < LEAST_NORMAL)
        return out

    def joined(self, other: Reach) -> Reach:
        """Return the reach of the factors of both."""
        return Reach(self.most * other.most, self.least * other.least)


def multiplied(
    contract: Contract, name: str, known: Sequence[Reach | None], operands: Sequence[Bar], b: Bar
) -> tuple[Bar, Reach | None]:
    """Return the bar of an op's result, and its reach if it is a product.

    Where products may be formed in another order, an element of three factors or more is undecided
    if some of them have a product outside of the range of normal f32: ``x * (r * g)`` may overflow
    where ``x * r * g`` does not.  ``known`` are the reaches of operands that are products.
    """
    if not contract.reordered or name not in PRODUCTS:
        return b, None
    left, right = (r or Reach.of(x) for r, x in zip(known, operands, strict=True))
    reach = left.joined(right.inverse() if name == "divide" else right)
    if not any(known):
        return b, reach
    return Bar(b.c, np.where(reach.outside & ~np.isnan(b.c), np.inf, b.e)), reach
