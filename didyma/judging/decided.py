"""How much of each output the bars of a judgement decide, and what to say where that is little."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from didyma.refimpl.ops.bars import Bar

_FEW = 0.5  # share of an output's elements, below which a verdict rests on few
_WIDE = 1 / 8  # of the largest element of an output: a bar that accepts much
_MANY = 0.1  # share of decided elements with such bars, from which on a verdict says so


@dataclass(slots=True)
class Decided:
    """How many elements of an output were ``checked`` against a bar, of ``total``.

    Those that are not hang on a decision, such as which of two numbers is larger, that rounding
    may turn.  Where either outcome gives a number, the bar contains both, so it is ``wide``: more
    than an eighth of the output's largest element.
    """

    checked: int = 0
    total: int = 0
    wide: int = 0

    def meet(self, bar: Bar, checked: int) -> None:
        """Count the elements of a round, of which so many were checked."""
        self.checked += checked
        self.total += bar.e.size
        if bar.e.size and bar.c.dtype.kind == "f":
            known = np.isfinite(bar.e) & np.isfinite(bar.c)
            largest = np.abs(bar.c[known]).max(initial=0.0)
            self.wide += int(np.count_nonzero(bar.e[known] > _WIDE * largest)) if largest else 0


def warnings(decided: Mapping[str, Decided]) -> Iterator[str]:
    """Yield a sentence for each output of which few elements are decided, or many loosely.

    >>> [*warnings({"y": Decided(5, 100)})]
    ['only 5 of 100 elements of y are decided in rounds of ordinary numbers']
    """
    for name, d in decided.items():
        if d.checked < _FEW * d.total:
            share = f"{d.checked} of {d.total}"
            yield f"only {share} elements of {name} are decided in rounds of ordinary numbers"
        if d.wide > _MANY * d.checked:
            share = f"{d.wide} of {d.checked}"
            yield f"{share} decided elements of {name} may be off by an eighth of its largest one"
