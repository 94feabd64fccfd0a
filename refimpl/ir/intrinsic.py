"""Intrinsics of a caller's own: functions of floats that kernels of text call by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class Intrinsic:
    """A function of floats, which texts call as ``NAME_f32`` and ``NAME_f64``.

    ``meaning`` computes it with NumPy, on ``operands`` arrays of one float dtype, f64 or wider; the
    reference is its result, rounded once.  ``ulp`` is how far an implementation may be from that,
    in units in the last place.  ``text`` is its C for the preludes ``host`` and ``cuda``, in which
    ``T`` stands for f32 and f64 in turn, and ``@`` for what C adds to the name of a function of
    floats.  Of vectors, ``NAME_f32x4`` and ``NAME_f64x4`` do the same in each lane.
    """

    name: str
    operands: int
    meaning: Callable[..., Any]
    ulp: float
    text: Mapping[str, str]
