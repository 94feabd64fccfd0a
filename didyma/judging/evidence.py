"""What edits of a line change: at fault is likely a line whose edits change what is wrong.

The idea is that of M. Papadakis and Y. Le Traon, *Metallaxis-FL: mutation-based fault
localization*, 2015; the measure is that of Ochiai.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from didyma.refimpl.ir.types import Array

_NOTHING = 0.3  # of edits that change nothing
_NEARLY_ALL = 0.9  # of the elements: most edits change all of those


class OfLine(Protocol):
    """An edit of a line."""

    @property
    def line(self) -> int:
        """The line, counted from 1."""
        ...


@dataclass(frozen=True, slots=True)
class Evidence:
    """How alike, by lines, what edits change in a round's outputs is to what is wrong there.

    ``wrong`` tells the wrong ones of all elements of the outputs ``before`` any edit.  Each output
    counts as much as any other, however few elements it has: if two of them are wrong, then a line
    on which one alone depends is not at fault.
    """

    wrong: Array
    before: tuple[Array, ...]
    alike: dict[int, float] = field(default_factory=dict[int, float])

    def meet(self, line: int, outputs: Sequence[Array], right: Array) -> None:
        """Take note of what a kernel with an edited line leaves; ``right`` are its right elements.

        >>> wrong, before = np.array([True, False]), (np.array([1, 2]),)
        >>> found = Evidence(wrong, before)
        >>> found.meet(3, [np.array([5, 2])], np.array([False, True]))
        >>> found.meet(4, [np.array([5, 5])], np.array([False, False]))
        >>> bool(found.weight(3) > found.weight(4))
        True
        """
        changed = np.concatenate([_differ(a, b) for a, b in zip(self.before, outputs, strict=True)])
        if not (changed.any() and self.wrong.any()):
            self.alike.setdefault(line, _NOTHING)
            return
        wrong = self._share(self.wrong)
        measure = self._share(changed & self.wrong) / math.sqrt(self._share(changed) * wrong)
        if not (~right & ~self.wrong).any() and not right.all():  # else other rounds refute it
            measure += self._share(right & self.wrong) / wrong
        self.alike[line] = max(self.alike.get(line, 0.0), measure)

    @property
    def tells(self) -> bool:
        """Whether some elements are wrong, and enough are right to tell lines apart."""
        return bool(self.wrong.any()) and self._share(self.wrong) < _NEARLY_ALL

    def _share(self, of: Array) -> float:
        """Return the mean share that some elements have of each output."""
        ends = np.cumsum([o.size for o in self.before])
        return float(np.mean([r.mean() for r in np.split(of, ends[:-1]) if r.size]))

    def weight(self, line: int) -> float:
        """Return how much sooner than others edits of a line are worth trying."""
        if line not in self.alike:
            return 1.0
        measure = self.alike[line]
        return max(0.1, 3 * measure**2) if self.tells else max(0.3, min(1.0, measure))


def _differ(a: Array, b: Array) -> Array:
    """Return which elements of two arrays have other bits."""
    x, y = (np.ascontiguousarray(v).reshape(-1) for v in (a, b))
    if not x.size:
        return np.zeros(0, np.bool_)
    rows = x.view(np.uint8) != y.view(np.uint8)
    return np.asarray(rows.reshape(x.size, -1).any(axis=1))
