"""Which lanes take a branch; loops, and those that do not end: whose state comes again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np

from didyma.codegen.runtime.simt import meets
from didyma.codegen.runtime.simt.access import Mask, Run, Value, both
from didyma.codegen.runtime.simt.values import truth

Exec: TypeAlias = Callable[[Run, Mask], None]

_FIRST = 256  # rounds before a loop is looked at
_EVERY = 16  # rounds from one look to the next

Contents: TypeAlias = dict[str, tuple[bytes, bytes]]  # of arrays by name: values and payloads


def contents(r: Run) -> Contents:
    """Return what is in the memory of a run."""
    return {
        name: (a.data.tobytes(), b"" if a.payloads is None else a.payloads.tobytes())
        for name, a in r.arrays.items()
    }


class StoppedError(Exception):
    """A fault that ends a launch: its kind, what, in how many threads, on which line."""


def split(r: Run, m: Mask, cond: Value) -> tuple[Mask, bool, Mask, bool]:
    """Return lanes for which a condition holds, whether there are any, and so for the others."""
    t = truth(cond)
    if np.ndim(t) == 0:
        return m, bool(t), m, not t
    yes, no = both(m, t), both(m, ~t)
    any_yes, any_no = bool(yes.any()), bool(no.any())
    return (m if not any_no else yes), any_yes, (m if not any_yes else no), any_no


@dataclass(slots=True)
class Stillness:
    """Looks at one loop, whose rounds are counted.

    A state is kept at each power of two of rounds, as Brent's search for cycles does.  Memory is
    compared once the variables, which are cheaper, have come again.
    """

    rounds: int = 0
    mask: Mask = None
    variables: dict[str, Value] | None = None
    rests: int = 0
    memory: Contents | None = None

    def unchanged(self, r: Run, m: Mask) -> Contents | None:
        """Count a round; return what is in memory if the whole state has come again, else None.

        Groups that run in turn must not have run meanwhile: they may have changed alone.
        """
        self.rounds += 1
        n = self.rounds
        if n < _FIRST or n % _EVERY:
            return None
        if n & (n - 1) == 0 or self.variables is None or self.rests != _rests(r):
            self._keep(r, m)
            return None
        if not _equal(self.mask, m) or not _same(self.variables, r.variables):
            return None
        now = contents(r)
        if self.memory is None:
            self.memory = now
            return None
        return now if now == self.memory else None

    def _keep(self, r: Run, m: Mask) -> None:
        self.mask, self.rests, self.memory = m, _rests(r), None
        self.variables = {k: meets.copied(v) for k, v in r.variables.items()}


def repeat(
    r: Run, m: Mask, cond: Callable[[Run, Mask], Value], body: Sequence[Exec], line: int
) -> None:
    """Run a loop until its condition holds for no lane, or report that it never ends."""
    still = Stillness()
    while True:
        m, going, _, _ = split(r, m, cond(r, m))
        if not going:
            return
        if (before := still.unchanged(r, m)) is not None:
            _let_others(r, m, before, line)
            still = Stillness()
        if still.rounds > r.rounds:
            detail = f"a loop has more than {r.rounds} rounds"
            raise StoppedError("hang", detail, len(r.who(m)), line)
        for part in body:
            part(r, m)


def _let_others(r: Run, m: Mask, before: Contents, line: int) -> None:
    """Let groups run that may change the memory that a loop waits for."""
    detail, lanes = "a loop does not end: nothing changes any more", len(r.who(m))
    if r.turn is None:
        raise StoppedError("hang", detail, lanes, line)
    r.turn.wait(lambda: contents(r) != before, lambda: r.report("hang", detail, lanes, line))


def _rests(r: Run) -> int:
    return 0 if r.turn is None else r.turn.rests


def _same(one: Mapping[str, Value], other: Mapping[str, Value]) -> bool:
    return one.keys() == other.keys() and all(_equal(v, other[k]) for k, v in one.items())


def _equal(a: Value, b: Value) -> bool:
    if a is b:
        return True
    if isinstance(a, dict):
        return isinstance(b, dict) and _same(
            cast("dict[str, Value]", a), cast("dict[str, Value]", b)
        )
    x, y = np.asarray(a), np.asarray(b)
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
