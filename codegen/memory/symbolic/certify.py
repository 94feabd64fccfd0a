"""How far a plan is from the lower bound, over all of the declared range: witnessed, and proven.

Peaks and loads never fall as sizes grow.  So over a box of bindings the ratio is at most the
peak of the greatest sizes over the load of the least; boxes in which that is too much are split
(branch and bound).  Sizes that all grow in proportion to one symbol, but for alignment, need that
symbol at one value only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from didyma.codegen.memory.symbolic.ring import Ring
from didyma.codegen.memory.symbolic.stack import Stack
from didyma.refimpl.ir.dims.polynomial import Poly

Numbers: TypeAlias = npt.NDArray[Any]  # int64, or Python ints where they might not suffice
TOLERANCE = 0.002
BUDGET = 60_000  # boxes


@dataclass(frozen=True, slots=True)
class Certificate:
    """The worst peak found, the bound it is compared with, and what holds everywhere.

    ``proven`` bounds the ratio at every binding of the declared ranges; None if some size goes
    up and down as a symbol grows.
    """

    worst: float
    at: Mapping[str, int]
    peak: int
    lower_bound: int
    proven: float | None
    evaluated: int


@dataclass(frozen=True, slots=True)
class Sized:
    """A different size: ``raw`` as declared, ``aligned`` as placed, ``most`` at most.

    ``most`` is never below ``aligned`` and grows in proportion to ``raw``, but for a constant.
    """

    raw: Poly
    aligned: Poly
    most: Poly


def proportional(ring: Ring, classes: Sequence[Sized]) -> list[str]:
    """Symbols of which every size has the same power in each term."""
    found: list[str] = []
    for v in ring.declared:
        powers = {m.count(v.name) for c in classes for m in c.raw}
        atoms = [name for c in classes for m in c.raw for name in m if name in ring.atoms]
        hidden = v.name in ring.prover.atoms.symbols(atoms)
        if not hidden and v.hi >= 1 and len(powers) == 1 and powers != {0}:
            found.append(v.name)
    return found


def _max(*arrays: Numbers) -> Numbers:
    out = arrays[0]
    for a in arrays[1:]:
        out = np.maximum(out, a)
    return out


def _min(*arrays: Numbers) -> Numbers:
    out = arrays[0]
    for a in arrays[1:]:
        out = np.minimum(out, a)
    return out


@dataclass
class Certifier:
    """Evaluates a plan's own code on many bindings at once."""

    ring: Ring
    classes: Sequence[Sized]
    of: Sequence[int]
    stack: Stack
    code: str
    orientations: int
    _names: dict[str, Any] = field(init=False)
    _fixed: dict[str, int] = field(init=False)
    evaluated: int = 0

    def __post_init__(self) -> None:
        self._names = {"max": _max, "min": _min}
        exec(compile(self.code, "<plan>", "exec"), self._names)
        free = proportional(self.ring, self.classes)
        self._fixed = {v.name: max(v.lo, 1) for v in self.ring.declared if v.name in free}
        most = sum(self.ring.magnitude(self.classes[c].aligned) for c in self.of)
        self._dtype: Any = np.int64 if most < 2**62 else object

    def certify(self, points: Sequence[Mapping[str, int]]) -> Certificate:
        """Try the given bindings; then split the declared range until little is left to gain."""
        names = [v.name for v in self.ring.declared]
        given = self._array([[p[n] for n in names] for p in points], len(names))
        best = self._worst(given, None)
        proven: float | None = None
        if self._monotone():
            best, proven = self._split(best, self._fixed)
            if self._fixed and proven > best[3] * (1 + 2 * TOLERANCE):
                # alignment counts here: take those symbols as they are
                best, again = self._split(best, {})
                proven = min(proven, again)
        at, peak, load, ratio = best
        env = dict(zip(names, map(int, at), strict=True))
        return Certificate(ratio, env, peak, load, proven, self.evaluated)

    def _array(self, rows: Sequence[Sequence[int]], width: int) -> Numbers:
        return np.array(rows, dtype=self._dtype).reshape(len(rows), width)

    def _monotone(self) -> bool:
        return all(d != 0 for c in self.classes for d in self.ring.directions(c.aligned).values())

    def _split(self, best: _Worst, fixed: Mapping[str, int]) -> tuple[_Worst, float]:
        declared = self.ring.declared
        low = [fixed.get(v.name, v.lo) for v in declared]
        high = [fixed.get(v.name, v.hi) for v in declared]
        lo, hi = self._array([low], len(low)), self._array([high], len(high))
        proven = 1.0
        bounding = [self._corner(way, loose=bool(fixed)) for way in (1, -1)]
        spent = self.evaluated + BUDGET
        while len(lo):
            best = self._worst(lo, best)
            self.evaluated += len(lo)
            peaks = self._peaks(bounding[0](lo, hi), len(lo))
            loads = self._loads(bounding[1](lo, hi), len(lo))
            bound = _ratios(peaks, loads)
            final = (lo == hi).all(axis=1)
            good = bound <= max(best[3], 1.0) * (1 + TOLERANCE)
            done = final | good | (self.evaluated > spent)
            proven = max(proven, *bound[done], 1.0)
            lo, hi = _halves(lo[~done], hi[~done])
        return best, float(proven) * (1 + 1e-12)

    def _corner(self, way: int, *, loose: bool) -> Callable[[Numbers, Numbers], list[Numbers]]:
        """Function of boxes: the greatest (least, for -1) each size can be in each.

        ``loose`` bounds replace alignment, so that they are in proportion where sizes are.
        """
        names = [v.name for v in self.ring.declared]
        params = [self.ring.names[n] for n in names]
        made: list[tuple[Callable[..., Numbers], list[bool]]] = []
        for c in self.classes:
            p = c.aligned
            if loose:
                p = c.most if way > 0 else c.raw
            ways = self.ring.directions(c.aligned)
            at_high = [ways.get(n, 1) == way for n in names]
            text = f"lambda {', '.join(params)}: {self.ring.source(p)}"
            made.append((eval(text, self._names), at_high))

        def corner(lo: Numbers, hi: Numbers) -> list[Numbers]:
            return [f(*((hi if up else lo)[:, d] for d, up in enumerate(ups))) for f, ups in made]

        return corner

    def _worst(self, points: Numbers, best: _Worst | None) -> _Worst:
        sizes = self._names["sizes"](*points.T)
        peaks = self._peaks(sizes, len(points))
        loads = self._loads(sizes, len(points))
        ratios = _ratios(peaks, loads)
        k = int(np.argmax(ratios))
        if best is not None and ratios[k] <= best[3]:
            return best
        return points[k], int(peaks[k]), int(loads[k]), float(ratios[k])

    def _peaks(self, sizes: Sequence[Numbers], count: int) -> Numbers:
        each = (self._names[f"orientation_{k}"](*sizes)[0] for k in range(self.orientations))
        return np.broadcast_to(_min(*each), (count,))

    def _loads(self, sizes: Sequence[Numbers], count: int) -> Numbers:
        born: list[list[int]] = [[] for _ in range(self.stack.steps + 1)]
        dead: list[list[int]] = [[] for _ in range(self.stack.steps + 1)]
        for i, c in enumerate(self.of):
            born[self.stack.first[i]].append(c)
            dead[self.stack.end[i]].append(c)
        now = np.zeros(count, self._dtype)
        most = now
        for t in range(self.stack.steps):
            now = now + sum(sizes[c] for c in born[t]) - sum(sizes[c] for c in dead[t])
            most = np.maximum(most, now)
        return most


_Worst: TypeAlias = tuple[Numbers, int, int, float]


def _ratios(peaks: Numbers, loads: Numbers) -> npt.NDArray[np.float64]:
    p, q = peaks.astype(np.float64), loads.astype(np.float64)
    none = np.where(p > 0, np.inf, 1.0)
    return np.divide(p, q, out=none, where=q > 0)


def _halves(lo: Numbers, hi: Numbers) -> tuple[Numbers, Numbers]:
    """Split each box in two at the geometric mean of its widest side."""
    if not len(lo):
        return lo, hi
    spread = (hi + 1).astype(np.float64) / (lo + 1).astype(np.float64)
    rows, side = np.arange(len(lo)), np.argmax(spread, axis=1)
    a, b = lo[rows, side], hi[rows, side]
    mean = np.sqrt((a + 1).astype(np.float64) * (b + 1).astype(np.float64)) - 1
    mid = np.clip(mean.astype(lo.dtype), a, b - 1)
    left, right = hi.copy(), lo.copy()
    left[rows, side], right[rows, side] = mid, mid + 1
    return np.concatenate([lo, right]), np.concatenate([left, hi])
