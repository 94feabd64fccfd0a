"""Judge plans for symbolic sizes: proof over the declared ranges, and sampled bindings with edges.

``check`` looks at what code says, binding by binding; ``prove`` at who lies on whom, for all
bindings at once.  This is the judge's own, second algebra of sizes: planners and verifiers decide
by ``didyma.refimpl.ir.dims``, and a mistake there must not be believed here.  So nothing here calls
its proofs or bounds; common are only the expressions themselves and their values at a binding.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any, TypeAlias

import sympy

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar

MOST_CHAINS = 64  # chains of buffers compared for one pair; with more it stays open
UNBOUNDED = 1 << 200  # no size is larger
SPLITS = 6  # halvings of the ranges before a pair stays open


@dataclass(frozen=True, slots=True)
class PlacedBuffer:
    """A buffer of ``size`` bytes that is alive from step ``lower`` up to but not at ``upper``."""

    name: str
    size: Dim
    lower: int
    upper: int


@dataclass(frozen=True, slots=True)
class PlanFault:
    """A fault of a plan; ``kind`` is one of ``overlap``, ``misaligned``, ``out-of-arena``,
    ``missing``.
    """

    kind: str
    message: str


Placed: TypeAlias = Callable[[Mapping[str, int]], tuple[int, Mapping[str, int]]]


def bindings(declared: Sequence[DimVar], count: int, seed: int = 0) -> Iterator[dict[str, int]]:
    """Yield every corner of the ranges, their neighbours, and ``count`` log-uniform bindings."""
    rnd = Random(seed)
    edges = [sorted({v.lo, min(v.lo + 1, v.hi), max(v.hi - 1, v.lo), v.hi}) for v in declared]
    names = [v.name for v in declared]
    corners = list(product(*edges)) if len(declared) < 5 else [next(product(*edges))]
    for corner in corners:
        yield dict(zip(names, corner, strict=True))
    for _ in range(count):
        yield {v.name: _log_uniform(v, rnd) for v in declared}


def _log_uniform(v: DimVar, rnd: Random) -> int:
    ratio = (v.hi + 1) / (v.lo + 1)
    at = round((v.lo + 1) * float(ratio ** rnd.random())) - 1
    near = 1 << max(at, 1).bit_length()
    at = rnd.choice([at, at, near - 1, near, near + 1])
    return min(max(at, v.lo), v.hi)


def check(
    blocks: Sequence[PlacedBuffer], alignment: int, placed: Placed, at: Iterator[Mapping[str, int]]
) -> list[PlanFault]:
    """Return the faults at the first of the bindings that has any; empty when none has."""
    for env in at:
        peak, offsets = placed(env)
        if faults := check_at(blocks, alignment, peak, offsets, env):
            return faults
    return []


def check_at(
    blocks: Sequence[PlacedBuffer],
    alignment: int,
    peak: int,
    offsets: Mapping[str, int],
    env: Mapping[str, int],
) -> list[PlanFault]:
    """Return the faults of the offsets at one binding, by a sweep over time and address."""
    faults: list[PlanFault] = []
    size = {b.name: dims.evaluate(b.size, env) for b in blocks}
    if missing := size.keys() ^ offsets.keys():
        return [PlanFault("missing", f"{sorted(missing)} at {dict(env)}")]
    for b in blocks:
        o = offsets[b.name]
        if o % alignment:
            faults.append(PlanFault("misaligned", f"{b.name} at {o}, {dict(env)}"))
        if o < 0 or o + size[b.name] > peak:
            faults.append(PlanFault("out-of-arena", f"{b.name} at {o} of {peak}, {dict(env)}"))
    births = sorted((b for b in blocks if size[b.name]), key=lambda b: b.lower)
    alive: list[tuple[int, int, str, int]] = []
    for b in births:
        alive = [a for a in alive if a[3] > b.lower]
        start = offsets[b.name]
        stop = start + size[b.name]
        faults += [
            PlanFault("overlap", f"{b.name} [{start}, {stop}) and {n} [{s}, {e}), {dict(env)}")
            for s, e, n, _ in alive
            if s < stop and start < e
        ]
        insort(alive, (start, stop, b.name, b.upper))
    return faults


@dataclass(frozen=True, slots=True)
class ProofResult:
    """How many conflicting pairs provably never overlap, and the pairs without such a proof."""

    proven: int
    open: tuple[tuple[str, str], ...]


def prove(
    blocks: Sequence[PlacedBuffer],
    declared: Sequence[DimVar],
    alignment: int,
    below: Mapping[str, Sequence[str]],
) -> ProofResult:
    """Prove that no conflicting pair overlaps for any binding within the declared ranges.

    ``below`` gives, of each block, those whose aligned ends its offset is the greatest of.  A pair
    is apart if one is below the other, through any number of others; or if whatever chain carries
    the one's end is no longer than some chain that carries the other's offset.
    """
    p = _Proof(blocks, declared, alignment, below)
    pairs = [
        (a.name, b.name)
        for i, a in enumerate(blocks)
        for b in blocks[:i]
        if a.lower < b.upper and b.lower < a.upper
    ]
    undecided = tuple(pair for pair in pairs if not p.apart(*pair))
    return ProofResult(len(pairs) - len(undecided), undecided)


Chain: TypeAlias = tuple[tuple[int, int], ...]  # (which size, how often), sorted
Box: TypeAlias = tuple[tuple[int, int], ...]  # ranges of the declared dims


@dataclass
class _Proof:
    blocks: Sequence[PlacedBuffer]
    declared: Sequence[DimVar]
    alignment: int
    below: Mapping[str, Sequence[str]]
    sizes: list[Dim] = field(default_factory=list[Dim])
    of: dict[str, int] = field(default_factory=dict[str, int])
    under: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    known: dict[tuple[Chain, Box], bool] = field(default_factory=dict[tuple[Chain, Box], bool])
    corners: dict[tuple[int, ...], tuple[int, ...]] = field(
        default_factory=dict[tuple[int, ...], tuple[int, ...]]
    )
    chains: dict[str, frozenset[Chain] | None] = field(
        default_factory=dict[str, frozenset[Chain] | None]
    )

    def __post_init__(self) -> None:
        for b in self.blocks:
            if b.size not in self.sizes:
                self.sizes.append(b.size)
            self.of[b.name] = self.sizes.index(b.size)
        self.sizes = [self._aligned(d) for d in self.sizes]
        for name in self._bottom_up():
            self.under[name] = frozenset(self.below[name]).union(
                *(self.under[j] for j in self.below[name])
            )
            self.chains[name] = self._offset(name)

    def _bottom_up(self) -> list[str]:
        done: dict[str, None] = {}
        for b in self.blocks:
            todo = [b.name]
            while todo:
                name = todo[-1]
                wait = [j for j in self.below[name] if j not in done]
                assert not set(wait) & set(todo), "buffers lie on one another in a circle"
                if wait:
                    todo.append(wait[0])
                else:
                    done[todo.pop()] = None
        return list(done)

    def _aligned(self, d: Dim) -> Dim:
        aligned = all(c % self.alignment == 0 for c in map(_factor, _terms(d)))
        return d if aligned else dims.align(d, self.alignment)

    def _offset(self, name: str) -> frozenset[Chain] | None:
        found: set[Chain] = set() if self.below[name] else {()}
        for j in self.below[name]:
            ends = self._end(j)
            if ends is None:
                return None
            found |= ends
        return frozenset(found) if len(found) <= MOST_CHAINS else None

    def _end(self, name: str) -> frozenset[Chain] | None:
        chains = self.chains[name]
        size = self.of[name]
        return None if chains is None else frozenset(_plus(c, {size: 1}) for c in chains)

    def apart(self, a: str, b: str) -> bool:
        """Return whether one provably ends where the other starts, or before."""
        if a in self.under[b] or b in self.under[a]:
            return True
        return self._before(a, b) or self._before(b, a)

    def _before(self, a: str, b: str) -> bool:
        ends, offsets = self._end(a), self.chains[b]
        if ends is None or offsets is None:
            return False
        box = tuple((v.lo, v.hi) for v in self.declared)
        return self._covered(ends, offsets, box, SPLITS)

    def _covered(
        self, ends: frozenset[Chain], offsets: frozenset[Chain], box: Box, splits: int
    ) -> bool:
        """Return whether each end is at most some offset, in the box or in each of its halves."""
        rest = [e for e in ends if not any(self._at_most(e, o, box) for o in offsets)]
        if not rest:
            return True
        wide = [i for i, (lo, hi) in enumerate(box) if lo < hi]
        if not splits or not wide:
            return False
        for corner in product(*box):
            tops = [self._value(o, corner) for o in offsets]
            if any(self._value(e, corner) > max(tops) for e in rest):
                return False
        i = max(wide, key=lambda i: (box[i][1] + 1) / (box[i][0] + 1))
        lo, hi = box[i]
        mid = min(math.isqrt((lo + 1) * (hi + 1)), hi - 1)
        parts = ((*box[:i], part, *box[i + 1 :]) for part in ((lo, mid), (mid + 1, hi)))
        return all(self._covered(frozenset(rest), offsets, p, splits - 1) for p in parts)

    def _value(self, c: Chain, corner: tuple[int, ...]) -> int:
        if corner not in self.corners:
            env = {v.name: x for v, x in zip(self.declared, corner, strict=True)}
            self.corners[corner] = dims.values(self.sizes, env)
        return sum(n * self.corners[corner][k] for k, n in c)

    def _at_most(self, a: Chain, b: Chain, box: Box) -> bool:
        difference = _plus(b, {k: -n for k, n in a})
        if all(n > 0 for _, n in difference):
            return True
        if any(self._value(difference, corner) < 0 for corner in product(*box)):
            return False
        key = (difference, box)
        if key not in self.known:
            self.known[key] = self._nonnegative(difference, box)
        return self.known[key]

    def _nonnegative(self, c: Chain, box: Box) -> bool:
        d = dims.add(*(dims.mul(n, self.sizes[k]) for k, n in c))
        if isinstance(d, int):
            return d >= 0
        ranges = {v.name: x for v, x in zip(self.declared, box, strict=True)}
        if _interval(d, ranges)[0] >= 0:
            return True
        # every symbol is its lower bound and something nonnegative more
        moved = {dims.symbol(n): dims.symbol(n) + lo for n, (lo, _) in ranges.items()}
        return all(t.is_nonnegative for t in _terms(dims.canonical(d.subs(moved))))


def _interval(e: Any, ranges: Mapping[str, tuple[int, int]]) -> tuple[Any, Any]:
    """Return an interval that contains every value of an expression, in sympy's numbers."""
    if isinstance(e, sympy.Symbol):
        return ranges[e.name]
    if e.is_Rational:
        return e, e
    parts = [_interval(a, ranges) for a in e.args]
    lows, highs = [lo for lo, _ in parts], [hi for _, hi in parts]
    if e.func is sympy.Mul:
        corners = [math.prod(ends) for ends in product(*parts)]
        return min(corners), max(corners)
    if e.func is sympy.Pow and lows[0] >= 0 and lows[1] >= 0:
        return lows[0] ** lows[1], highs[0] ** highs[1]
    if e.func is sympy.Mod and lows[1] > 0:
        return 0, highs[1] - 1
    fold = _FOLDS.get(e.func)
    return (fold(lows), fold(highs)) if fold else (-UNBOUNDED, UNBOUNDED)


_FOLDS: Mapping[Any, Callable[[Sequence[Any]], Any]] = {
    sympy.Add: sum,
    sympy.Max: max,
    sympy.Min: min,
    sympy.floor: lambda x: math.floor(x[0]),
    sympy.ceiling: lambda x: math.ceil(x[0]),
}


def _terms(d: Dim) -> Sequence[Any]:
    e: Any = sympy.sympify(d)
    return e.args if e.func is sympy.Add else (e,)


def _factor(term: Any) -> int:
    """An integer that divides a term wherever it is evaluated."""
    if term.is_Integer:
        return int(term)
    factors = term.args if term.func is sympy.Mul else ()
    rational = [f for f in factors if f.is_Rational and not f.is_Integer]
    return 1 if rational else math.prod(int(f) for f in factors if f.is_Integer)


def _plus(c: Chain, more: Mapping[int, int]) -> Chain:
    total = dict(c)
    for k, n in more.items():
        total[k] = total.get(k, 0) + n
    return tuple(sorted((k, n) for k, n in total.items() if n))
