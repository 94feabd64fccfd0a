"""What the reference makes of the inputs of a judgement, and what levels owe to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from didyma.oracle import compare
from didyma.oracle.recorder import Recorder
from didyma.oracle.subject import Arrays
from didyma.refimpl.errors import DidymaError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Truth:
    """What the reference makes of the inputs: results, or the error with which it refuses them.

    ``in_float64`` are the results computed in float64, where they were asked for and exist.
    """

    results: Arrays = ()
    in_float64: Arrays | None = None
    refusal: DidymaError | None = None


def as_the_reference(refusal: DidymaError | None, run: Callable[[], T | None]) -> T | None:
    """Run; where the reference refuses the inputs, the run must raise an error of the same code."""
    try:
        results = run()
    except DidymaError as e:
        if refusal is None or e.code != refusal.code:
            raise
        return None
    if refusal is not None:
        raise RuntimeError(f"it runs, where the reference says {refusal}")
    return results


def compare_with_float64(level: Recorder, truth: Truth, got: Arrays) -> None:
    """Record how far results are from those in float64; no distance is a finding."""
    if truth.in_float64 is not None:
        rows = zip(truth.in_float64, got, strict=True)
        level.comparisons += [compare.distance(*row) for row in rows]
