"""Plans for sizes that are not known yet: who lies on whom, and code that says where.

A plan is an acyclic orientation of the conflict graph: of two buffers alive at once one is below
the other, and ``offset(i) = Max(offset(j) + align(size(j)))`` over the ``j`` below ``i``.  Nothing
can overlap, for any size.  This generalises the split trees of PyTorch Inductor's
``memory_planning.py``, which are its series-parallel cases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from random import Random
from typing import TypeAlias

import sympy

from didyma.codegen.memory.symbolic.arcs import Arcs, Orientation, Sum
from didyma.codegen.memory.symbolic.certify import Certificate, Certifier, Sized, proportional
from didyma.codegen.memory.symbolic.ring import Ring
from didyma.codegen.memory.symbolic.search import OrderSearch
from didyma.codegen.memory.symbolic.source import identifiers, source
from didyma.codegen.memory.symbolic.stack import Order, Stack
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.dims.polynomial import Poly, constant, plus
from didyma.refimpl.ir.program import ALIGNMENT

PlaceFunction: TypeAlias = Callable[..., tuple[int, int, tuple[int, ...]]]

REFINEMENTS = 4  # times that the worst binding found becomes a sample
WORTH = 1.002  # by how much it must be worse than the samples for that
ROUNDS, MOVES = 40, 1500


@dataclass(frozen=True, slots=True)
class SymbolicBuffer:
    """A buffer of ``size`` bytes, alive from step ``lower`` up to but not at ``upper``."""

    name: str
    size: Dim
    lower: int
    upper: int


@dataclass(frozen=True, slots=True)
class SymbolicPlacement:
    """Where everything is under one binding, and in which orientation."""

    peak: int
    orientation: int
    offsets: Mapping[str, int]


@dataclass(frozen=True)
class SymbolicPlan:
    """Orientations of the buffers (sorted by lifetime, size and name), and code that places them.

    ``code`` defines ``place(*dims)``, dims in declared order, which returns the least peak among
    the orientations, the orientation's index and the offsets in the order of ``buffers``.
    ``scales``: all sizes are multiples of one expression, so one placement serves all bindings.
    """

    buffers: tuple[SymbolicBuffer, ...]
    declared: tuple[DimVar, ...]
    alignment: int
    orientations: tuple[Orientation, ...]
    code: str
    certificate: Certificate
    scales: bool

    @cached_property
    def function(self) -> PlaceFunction:
        """The compiled ``place``."""
        names: dict[str, PlaceFunction] = {}
        exec(compile(self.code, "<plan>", "exec"), names)
        return names["place"]

    def place(self, env: Mapping[str, int]) -> SymbolicPlacement:
        """Place all buffers; DidymaError ``dim-out-of-range``, ``unbound-dim``."""
        dims.check_ranges(env, self.declared)
        at = [dims.evaluate(dims.symbol(v.name), env) for v in self.declared]
        peak, k, offsets = self.function(*at)
        return SymbolicPlacement(
            peak, k, dict(zip((b.name for b in self.buffers), offsets, strict=True))
        )

    def offsets(self, k: int) -> dict[str, Dim]:
        """Offsets of an orientation as expressions; shared parts are shared objects."""
        found: dict[int, Dim] = {}
        aligned = [dims.align(b.size, self.alignment) for b in self.buffers]
        o = self.orientations[k]
        for i in o.order:
            terms = [_sum(found[j], aligned[j]) for j in o.below[i]]
            found[i] = _greatest(terms)
        return {self.buffers[i].name: found[i] for i in sorted(found)}

    @property
    def most_terms(self) -> int:
        """Terms of the largest ``Max`` of an offset."""
        return max((len(b) for o in self.orientations for b in o.below), default=0)


def _sum(a: Dim, b: Dim) -> Dim:
    # as it stands: to expand would evaluate each Max anew
    return a + b if isinstance(a, int) and isinstance(b, int) else sympy.Add(a, b)


def _greatest(terms: Sequence[Dim]) -> Dim:
    if len(terms) < 2:
        return terms[0] if terms else 0
    if all(isinstance(t, int) for t in terms):
        return dims.maximum(*terms)
    # sympy would compare all pairs, which takes minutes and finds little: arcs are reduced already
    return sympy.Max(*terms, evaluate=False)


def plan(
    buffers: Sequence[SymbolicBuffer],
    declared: Sequence[DimVar],
    alignment: int = ALIGNMENT,
    k: int = 4,
    moves: int = MOVES,
) -> SymbolicPlan:
    """Plan buffers of symbolic sizes with up to ``k`` orientations.

    ``moves`` limits each of the local searches.  The order of ``buffers`` does not matter.

    Errors: ``unbound-dim``, ``bad-dim``,
    ``negative-size``, ``inverted-lifetime``, ``buffer-twice``, ``bad-planner-option``.
    """
    _check(buffers, declared, alignment, k)
    ordered = tuple(sorted(buffers, key=_key))
    planner = _SymbolicPlanner(ordered, tuple(declared), alignment, k, moves)
    return planner.run()


def _key(b: SymbolicBuffer) -> tuple[int, int, str, str]:
    return b.lower, b.upper, dims.text(b.size), b.name


def _check(
    buffers: Sequence[SymbolicBuffer], declared: Sequence[DimVar], alignment: int, k: int
) -> None:
    for what, value in (("alignment", alignment), ("k", k)):
        if value < 1:
            raise DidymaError("bad-planner-option", what, got=str(value), want="at least 1")
    ranges = {v.name: (v.lo, v.hi) for v in declared}
    seen: set[str] = set()
    for b in buffers:
        if b.name in seen:
            raise DidymaError("buffer-twice", b.name, got="two buffers of that name", want="one")
        seen.add(b.name)
        if b.lower >= b.upper:
            raise DidymaError(
                "inverted-lifetime", b.name, got=f"[{b.lower}, {b.upper})", want="lower < upper"
            )
        if missing := [s for s in dims.free(b.size) if s not in ranges]:
            raise DidymaError(
                "unbound-dim", b.name, got=f"declared: {sorted(ranges)}", want=str(missing)
            )
        if dims.bounds(b.size, ranges)[0] < 0:
            ring = Ring(tuple(declared), {n: n for n in ranges})
            if not ring.nonnegative(ring.read(b.size)):
                raise DidymaError(
                    "negative-size", b.name, got=dims.text(b.size), want="proven to be at least 0"
                )


@dataclass
class _SymbolicPlanner:
    buffers: tuple[SymbolicBuffer, ...]
    declared: tuple[DimVar, ...]
    alignment: int
    k: int
    moves: int
    ring: Ring = field(init=False)
    classes: list[Sized] = field(default_factory=list[Sized])
    of: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        self.ring = Ring(self.declared, identifiers([v.name for v in self.declared]))
        index: dict[Dim, int] = {}
        for b in self.buffers:
            if b.size not in index:
                index[b.size] = len(index)
                raw = self.ring.read(b.size)
                self.classes.append(self._sized(raw))
            self.of.append(index[b.size])
        self.sources = [self.ring.source(c.aligned) for c in self.classes]
        self.names = [b.name for b in self.buffers]
        self.stack = Stack.of([(b.lower, b.upper) for b in self.buffers])
        self.points = _samples(self.declared, proportional(self.ring, self.classes))
        self.reduced: dict[Order, Orientation] = {}

    def _sized(self, raw: Poly) -> Sized:
        aligned = self.ring.aligned(raw, self.alignment)
        slack = self.alignment - 1 if aligned != raw else 0
        return Sized(raw, aligned, plus(raw, constant(slack)))

    def run(self) -> SymbolicPlan:
        scales = self._scales()
        params = [self.ring.names[v.name] for v in self.declared]
        empty = source(params, self.sources, self.of, self.names, ())
        made: dict[str, Callable[..., tuple[int, ...]]] = {}
        exec(compile(empty.split("\n\n\n")[0], "<sizes>", "exec"), made)

        def sizes(env: Mapping[str, int]) -> tuple[int, ...]:
            found = made["sizes"](*(env[v.name] for v in self.declared))
            return tuple(found[c] for c in self.of)

        search = OrderSearch(self.stack, [sizes(p) for p in self.points])
        values = search.samples[:: max(1, len(search.samples) // 8)]
        weights = [
            Sum(self.classes[c].aligned, tuple(v[i] for v in values)) for i, c in enumerate(self.of)
        ]
        arcs = Arcs(self.ring, self.stack.conflicts, weights)
        seeds = search.seeds(self._hints(len(search.samples)))
        orders = search.choose(seeds, self.k)
        for left in reversed(range(REFINEMENTS + 1)):
            orders = search.improved(orders, self.k, seeds, rounds=ROUNDS, moves=self.moves)
            code, certificate = self._finish(orders, arcs, params)
            known = max(min(c) for c in zip(*map(search.ratios, orders), strict=True))
            if not left or certificate.worst <= known * WORTH:
                break
            self.points.append(dict(certificate.at))
            search.add(sizes(certificate.at))
        else:
            raise AssertionError("the last round ends the search")
        kept = tuple(self.reduced[o] for o in orders)
        return SymbolicPlan(
            self.buffers, self.declared, self.alignment, kept, code, certificate, scales
        )

    def _finish(
        self, orders: Sequence[Order], arcs: Arcs, params: Sequence[str]
    ) -> tuple[str, Certificate]:
        for o in orders:
            if o not in self.reduced:
                self.reduced[o] = arcs.reduce(o)
        kept = [self.reduced[o] for o in orders]
        code = source(params, self.sources, self.of, self.names, kept)
        judge = Certifier(self.ring, self.classes, self.of, self.stack, code, len(kept))
        return code, judge.certify(self.points)

    def _scales(self) -> bool:
        """Tell whether all sizes are multiples of one polynomial."""
        some = [c.raw for c in self.classes if c.raw]
        if not some:
            return True
        m = min(some[0])
        return all(
            p.keys() == some[0].keys() and all(p[n] * some[0][m] == some[0][n] * p[m] for n in p)
            for p in some
        )

    def _hints(self, samples: int) -> list[int]:
        """The samples to place at: fewer where there are more buffers."""
        wanted = 2 if self._scales() else max(3, min(12, 1200 // (1 + len(self.buffers))))
        step = max(1, (samples - 1) // (wanted - 1))
        return list(range(0, samples, step))


def _samples(declared: Sequence[DimVar], fixed: Sequence[str]) -> list[dict[str, int]]:
    """Bindings: log-uniform in each symbol, with both ends; scaled symbols at both ends only."""
    free = [v for v in declared if v.name not in fixed]
    if len(free) > 2:
        rnd = Random(0)
        sides = [[(v.name, v.lo), (v.name, v.hi)] for v in declared]
        some = [[rnd.choice(e) for e in sides] for _ in range(10)]
        corners = [dict(c) for c in ([e[0] for e in sides], [e[1] for e in sides], *some)]
        inner = [{v.name: rnd.choice(_axis(v, 9)) for v in declared} for _ in range(24)]
        chosen = [*corners, *inner]
    else:
        steps = {0: 2, 1: 16, 2: 5}[len(free)]
        lines = [_axis(v, steps) for v in free]
        ends = [(v.lo, v.hi) for v in declared if v.name in fixed]
        order = [*(v.name for v in free), *(v.name for v in declared if v.name in fixed)]
        low = [e[0] for e in ends]
        high = [e[1] for e in ends]
        chosen = [
            dict(zip(order, (*at, *some), strict=True))
            for at in product(*lines)
            for some in ((low, high) if ends and len(free) < 2 else (high,))
        ]
    return list({tuple(sorted(c.items())): c for c in chosen}.values())


def _axis(v: DimVar, steps: int) -> list[int]:
    low = max(v.lo, 1)
    if v.hi <= low:
        return sorted({v.lo, v.hi})
    inner = {round(low * (v.hi / low) ** (s / (steps - 1))) for s in range(steps)}
    return sorted({v.lo, v.hi, *inner})
