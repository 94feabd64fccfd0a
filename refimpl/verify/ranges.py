"""Byte ranges of symbolic ends: which hold others, which lie apart.

What is a number is compared as one.  Of symbolic sizes a proof is tried first; failing that, they
are compared at the ends of the symbols' ranges and at some sizes between, the same ones every
time.  An index of a ``Repeat`` is below its extent in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from refimpl.errors import DidymaError
from refimpl.ir import dims
from refimpl.ir.dims import Dim
from refimpl.verify.sizes import Sizes

_SAMPLES = 12


class Ranges:
    """Answers for one program; ``extents`` are those of its indices, outer ones first.

    ``told`` are the symbols that lines give a value once and for all, in their order.
    """

    def __init__(
        self, sizes: Sizes, extents: Mapping[str, Dim], told: Sequence[tuple[str, Dim]] = ()
    ) -> None:
        self.sizes = sizes
        self.extents = extents
        self.told = told
        self._values: dict[Dim, tuple[int, ...]] = {}
        self._bindings: list[dict[str, int]] | None = None

    def at_least(self, a: Dim, b: Dim) -> bool:
        """Tell whether ``a >= b`` is proven, or holds at every size tried."""
        if isinstance(a, int) and isinstance(b, int):
            return a >= b
        if a == b or self.sizes.at_least(self._lowest(dims.sub(a, b)), 0):
            return True
        return all(x >= y for x, y in zip(self.values(a), self.values(b), strict=True))

    def multiple(self, d: Dim, of: int) -> bool:
        """Tell whether ``d`` is a multiple of a number at every size tried."""
        if isinstance(d, int):
            return d % of == 0
        return all(x % of == 0 for x in self.values(d))

    def apart(self, a: tuple[Dim, Dim], b: tuple[Dim, Dim]) -> bool:
        """Tell whether two ranges share no byte at any size tried; an empty one never does."""
        ends = (*a, *b)
        if all(isinstance(d, int) for d in ends):
            return _apart(*(int(d) for d in ends))
        if a == b:
            return a[0] == a[1]
        if a[1] == b[0] or b[1] == a[0]:
            return True
        return all(_apart(*four) for four in zip(*(self.values(d) for d in ends), strict=True))

    def covered(self, written: Sequence[tuple[Dim, Dim]], lo: Dim, hi: Dim) -> bool:
        """Tell whether ranges put end to end hold all from ``lo`` to ``hi``."""
        if lo == hi or (lo, hi) in written:
            return True
        at = lo
        for _ in range(len(written)):
            further = [e for b, e in written if e != at and (b == at or self._inside(b, e, at))]
            if not further:
                return False
            for e in further:
                if e == hi or self.at_least(e, hi):
                    return True
            at = further[-1]
        return False

    def _inside(self, b: Dim, e: Dim, at: Dim) -> bool:
        return self.at_least(at, b) and self.at_least(e, dims.add(at, 1))

    def _lowest(self, d: Dim) -> Dim:
        """Replace indices, inner ones first, by what makes a size that is linear in them least."""
        for name in reversed(list(self.extents)):
            if isinstance(d, int):
                return d
            index = dims.symbol(name)
            if index not in d.free_symbols:
                continue
            slope = dims.canonical(d.diff(index))
            if not isinstance(slope, int) and index in slope.free_symbols:
                return d
            if self.sizes.at_least(slope, 0):
                d = dims.substitute(d, {name: 0})
            elif self.sizes.at_least(dims.mul(slope, -1), 0):
                d = dims.substitute(d, {name: dims.sub(self.extents[name], 1)})
        return d

    def values(self, d: Dim) -> tuple[int, ...]:
        """A size at every binding tried."""
        if self._bindings is None:
            self._bindings = self._draw()
        if isinstance(d, int):
            return (d,) * len(self._bindings)
        if d not in self._values:
            self._values[d] = tuple(_value(d, env) for env in self._bindings)
        return self._values[d]

    def _draw(self) -> list[dict[str, int]]:
        r = Random(0)
        ranges = self.sizes.ranges
        drawn: list[dict[str, int]] = [
            {n: lo for n, (lo, _) in ranges.items()},
            {n: hi for n, (_, hi) in ranges.items()},
        ]
        for k in range(_SAMPLES):
            near = k % 3 == 0  # small sizes are where plans differ
            drawn.append(
                {
                    n: r.randint(lo, min(hi, lo + 16) if near else hi)
                    for n, (lo, hi) in ranges.items()
                }
            )
        for env in drawn:
            for name, d in self.told:
                env[name] = _value(d, env)
        # where a loop never runs at all, the rest of the program still has to be looked at
        return [env for env in drawn if self._bound_indices(env)] or drawn

    def _bound_indices(self, env: dict[str, int]) -> bool:
        """Bring indices below their extents; false where there is no iteration."""
        runs = True
        for name, extent in self.extents.items():
            most = _value(extent, env)
            runs = runs and (most > 0 or extent == 0)
            env[name] %= max(most, 1)
        return runs


def _apart(a: int, b: int, c: int, d: int) -> bool:
    return a == b or c == d or b <= c or d <= a


def _value(d: Dim, env: Mapping[str, int]) -> int:
    try:
        return dims.evaluate(d, env)
    except (DidymaError, ArithmeticError, TypeError):  # no size at all there
        return -1
