"""Intrinsics that give bits another meaning, on patterns of every kind."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from didyma.oracle.conformance.case import LaunchCase
from didyma.oracle.conformance.scalars import Sweep, c
from didyma.refimpl.ir.types import F8, Array, DType

_PAIRS = (
    (DType.F64, DType.U64),
    (DType.F32, DType.U32),
    (DType.F16, DType.U16),
    (DType.BF16, DType.U16),
    *((d, DType.U8) for d in F8),
)


def cases() -> Iterator[LaunchCase]:
    """All cases of bitcasts; NaN has any bits, so none is read as an integer."""
    sweep = Sweep("bits")
    for real, whole in _PAIRS:
        patterns = _patterns(whole)
        numbers: Array = patterns.view(real.numpy)
        a, b = c(real), c(whole)
        sweep.add(f"bitcast_{b}_{a}", f"bitcast_{b}_{a}(a)", (patterns,), numbers)
        with np.errstate(invalid="ignore"):
            plain = numbers[numbers == numbers]
        sweep.add(f"bitcast_{a}_{b}", f"bitcast_{a}_{b}(a)", (plain,), plain.view(whole.numpy))
    yield from sweep.cases()


def _patterns(whole: DType) -> Array:
    """Every pattern of a byte or two, else each bit alone, runs of ones, and random ones."""
    if whole.bits <= 16:
        return np.arange(1 << whole.bits, dtype=np.uint32).astype(whole.numpy)
    bits = [1 << i for i in range(whole.bits)]
    runs = [(1 << i) - 1 for i in range(whole.bits + 1)]
    above = [((1 << whole.bits) - 1) ^ r for r in runs]
    rng = np.random.default_rng(0)
    some = rng.integers(0, 1 << whole.bits, 500, np.uint64) if whole.bits < 64 else (
        rng.integers(0, np.iinfo(np.uint64).max, 500, np.uint64, endpoint=True)
    )  # fmt: skip
    return np.concatenate([np.array([*bits, *runs, *above], np.uint64), some]).astype(whole.numpy)
