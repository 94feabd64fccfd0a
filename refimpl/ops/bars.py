"""Values with error bars: how far a correct implementation may be from the exact result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from refimpl.ir.types import Array


@dataclass(frozen=True, slots=True)
class Bar:
    """``c`` is the centre, ``e`` the largest error a correct implementation may show.

    ``c`` is float64 for f32, f16 and bf16, longdouble for f64, and the dtype itself for integers
    and bool.  ``e`` is float64, nonnegative; inf marks an undecided element.
    """

    c: Array
    e: Array


def sequential(n: int) -> int:
    """Longest chain of additions when n terms are added one after another."""
    return n


@dataclass(frozen=True, slots=True)
class Contract:
    """What an implementation states of itself.

    ``chain`` gives the longest chain of additions in a fold of n terms; ``ulp`` the error of each
    intrinsic in units in the last place of the compute dtype, ``default_ulp`` where it is silent;
    ``contraction`` whether a product and a sum may round once.
    """

    chain: Callable[[int], int] = sequential
    ulp: Mapping[str, float] = field(default_factory=dict[str, float])
    default_ulp: float = 4.0
    contraction: bool = True
