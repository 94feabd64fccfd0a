"""What a conformance case is, and when an engine passes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.types import Array, DType


@dataclass(frozen=True)
class LaunchCase:
    """One launch and what it must leave in the output buffers.

    ``initial`` holds every buffer before the launch, ``expected`` the outputs after it.  ``steps``
    is how many representable numbers an element may be away; 0 asks for equal bits, but a NaN
    is as good as another.  ``needs`` is the family of intrinsics that the text calls, if any.
    """

    group: str
    name: str
    text: KernelText
    kernel: Signature
    initial: tuple[Array, ...]
    expected: tuple[Array, ...]
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    steps: int = 0
    scalars: tuple[float, ...] = ()
    needs: str = ""


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """The group and name of a launch, and what was wrong with it; empty where nothing was."""

    group: str
    name: str
    wrong: str


Run: TypeAlias = Callable[[LaunchCase], list[Array]]  # launches a case and returns the outputs


def conform(cases: Iterable[LaunchCase], run: Run) -> list[LaunchOutcome]:
    """Run the cases; an exception is an outcome like any other."""
    outcomes: list[LaunchOutcome] = []
    for case in cases:
        try:
            wrong = judge(case, run(case))
        except Exception as e:
            wrong = f"{type(e).__name__}: {e}"
        outcomes.append(LaunchOutcome(case.group, case.name, wrong))
    return outcomes


def judge(case: LaunchCase, outputs: Iterable[Array]) -> str:
    """Say what is wrong with outputs; empty where nothing is."""
    for name, want, got in zip(case.kernel.outputs, case.expected, outputs, strict=True):
        bad = np.flatnonzero(~agree(want.reshape(-1), got.reshape(-1), case.steps))
        if bad.size:
            i = int(bad[0])
            inputs = ", ".join(
                f"{n}[{i}] = {a.reshape(-1)[i]!r}"
                for (n, _), a in zip(case.kernel.buffers, case.initial, strict=True)
                if n not in case.kernel.outputs and a.size == want.size
            )
            return (
                f"{bad.size} of {want.size} elements of {name}; first [{i}]: "
                f"want {want.reshape(-1)[i]!r}, got {got.reshape(-1)[i]!r}"
                + (f", with {inputs}" if inputs else "")
            )
    return ""


def agree(want: Array, got: Array, steps: int) -> Array:
    """Elementwise: equal bits, or both NaN, or a few representable numbers away with one sign.

    >>> agree(np.float32([0, 1, np.nan]), np.float32([-0.0, 1 + 2**-23, np.nan]), 1)
    array([False,  True,  True])
    """
    kind = np.dtype(f"u{want.dtype.itemsize}")
    same: Array = want.view(kind) == got.view(kind)
    if not DType.of(want).is_float:
        return same
    with np.errstate(invalid="ignore"):
        same |= (want != want) & (got != got)
        if steps:
            near = np.abs(_ordinal(want) - _ordinal(got)) <= steps
            same |= near & (want == want) & (got == got) & (np.signbit(want) == np.signbit(got))
    return same


def _ordinal(x: Array) -> Array:
    """Index of each number of one sign in the row of representable numbers."""
    bits = x.view(f"u{x.dtype.itemsize}")
    rank: Array = bits & np.array(np.iinfo(bits.dtype).max >> 1, bits.dtype)
    return rank.astype(np.int64)
