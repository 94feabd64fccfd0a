"""Graphs drawn around what compilers do: every motif in turn, each of its kinds once a round.

What a campaign draws is a walk in a random order through all kinds of all motifs, such as every
pair of ops, and what its meter wishes for (``meter.py``).  The case of a seed, an index and some
wishes is a function of these alone, so processes that share out the indices share out the kinds
too, and any case can be drawn again by itself.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from didyma.codegen.options import USUAL
from didyma.fuzz import control
from didyma.fuzz.builder import GraphBuilder
from didyma.fuzz.chooser import Chooser, Dice
from didyma.fuzz.graphs import Case, drawn_planner, finished
from didyma.fuzz.steering.meter import Wish
from didyma.fuzz.steering.motifs import MOTIFS, ONCE, POINTED, RULES, Motif
from didyma.fuzz.steering.names import renamed
from didyma.fuzz.steering.rows import OPTION
from didyma.fuzz.steering.sketch import Sketch
from didyma.fuzz.steering.wishes import grant
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.graph import COMPILER, NO_INLINE, PRIMITIVE, Attr, Attrs
from didyma.refimpl.ir.types import PLAIN
from didyma.refimpl.verify.graph import verify


@dataclass(frozen=True, slots=True)
class Repertoire:
    """Which motifs graphs are made of, and how many a graph has."""

    motifs: tuple[Motif, ...]
    each: int


WHOLE = Repertoire(MOTIFS, 3)  # for every level and engine
REWRITES = Repertoire(RULES, 3)  # for graph passes alone
SCHEDULES = Repertoire(POINTED, 1)  # for kernels that are scheduled in any way
EACH = Repertoire(ONCE, 1)  # for near misses: each kind of piece as often as any other
NOTHING = Repertoire(POINTED, 0)  # for what is wished for alone
RENAMED = 16  # one graph in so many has awkward names
ENTERED = 24  # and one in so many an entry with an attribute
_RANGES = ((1, 8), (2, 13), (0, 5), (3, 24), (1, 40), (2, 3), (6, 6))
_WIDE = (*_RANGES, (1, 300), (0, 1000))  # few of whose sizes are near the most


def draw(
    seed: int, index: int, repertoire: Repertoire = WHOLE, wishes: Sequence[Wish] = ()
) -> Case:
    """Return the case of a campaign's seed that has an index, with the pieces wished for.

    They come first; two of them take the place of one turn of the walk.
    """
    with np.errstate(all="ignore"):  # corners of one dtype may lie outside of another
        return _drawn(Dice((seed << 64) + index), seed, index, repertoire, wishes)


def _drawn(
    c: Chooser, seed: int, index: int, repertoire: Repertoire, wishes: Sequence[Wish]
) -> Case:
    s = Sketch(GraphBuilder(control.draw, symbols(c, _WIDE)), c)
    s.bind_symbols()
    for wish in wishes:
        grant(s, wish)
    walked = repertoire.each - len(wishes) // 2
    for turn in range(index * repertoire.each, index * repertoire.each + walked):
        motif, kind = chosen(turn, seed, repertoire.motifs)
        motif.draw(s, *kind)
    if not s.b.params:
        s.start(PLAIN)
    case = returned(finished(s.b, c, RESULTS), c)
    drawn = dict(changes(c))
    if c.chance(12):
        drawn["graph.level"] = c.below(3)
    case = replace(case, changes=tuple({**drawn, **s.changes}.items()))
    case = replace(case, given=tuple(s.given.items()))
    case = renamed(case, c) if c.chance(RENAMED) else case
    return entered(case, c) if c.chance(ENTERED) else case


def returned(case: Case, c: Chooser) -> Case:
    """Return a case; one in four also returns a value or two that its nodes read."""
    f = case.module.entry
    have = [r for n in f.nodes for r in n.results if r not in f.results]
    more = {c.pick(have) for _ in range(c.pick((0, 0, 0, 1 + c.below(2))))} if have else set[str]()
    entry = replace(f, results=(*f.results, *sorted(more)))
    return replace(
        case, module=replace(case.module, functions=(*case.module.functions[:-1], entry))
    )


_ENTRIES: Sequence[tuple[str, Attr]] = ((COMPILER, "library"), (NO_INLINE, 1), (PRIMITIVE, 1))


def entered(case: Case, c: Chooser) -> Case:
    """Return a case whose entry is external, a Primitive, or not to be inlined, where it may be."""
    return _with_entry(case, (c.pick(_ENTRIES),))


def whole(case: Case) -> Case:
    """Return a case whose entry is a Primitive, of whatever ops, where it may be."""
    return _with_entry(case, ((PRIMITIVE, 1),))


def _with_entry(case: Case, attrs: Attrs) -> Case:
    entry = replace(case.module.entry, attrs=attrs)
    given = {s for p in entry.params for s in dims.free(p.type.shape)}
    if any(not given.issuperset(dims.free(t.shape)) for t in entry.result_types()):
        return case  # a function hands on no size that it binds itself
    m = replace(case.module, functions=(*case.module.functions[:-1], entry))
    try:
        verify(m)
    except DidymaError:
        return case
    return replace(case, module=m)


def changes(c: Chooser) -> tuple[tuple[str, Any], ...]:
    """Draw options of a compile: passes left out, joined rows, a planner, low thresholds."""
    found: dict[str, Any] = {name: False for name, one_in in _OFF if c.chance(one_in)}
    if planner := drawn_planner(c):
        found["memory.planner"] = planner
    if not c.chance(3):
        found["kernels.block"] = c.pick((32, 64, 128, 32))
    if c.chance(2):
        found[OPTION] = not USUAL[OPTION]
    if c.chance(8):
        found["kernels.atomics"] = True
    if not c.chance(3):
        found |= {name: c.pick(low) for name, low in _LOW.items() if not c.chance(3)}
    return tuple(found.items())


# What is left out, and in how many graphs it once is.
_OFF = (
    ("graph.simplify", 12), ("graph.fuse", 6), ("kernels.vectorise", 6),
    ("graph.channels", 12), ("graph.attention", 12),
)  # fmt: skip

# What lets small programs pass the thresholds that large ones pass.
_LOW: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "graph.fold_operand": (8, 0), "graph.fold_result": (0, 512),
        "graph.long_run": (8, 12, 16), "graph.kernel_cost": (8, 24, 1),
        "graph.again_cost": (0, 40), "graph.spread_cost": (0, 20), "graph.product_cost": (0, 6),
        "graph.outputs": (1, 2, 8), "kernels.full": (4, 16, 64), "kernels.few": (4, 16),
        "kernels.split": (4, 16, 64), "kernels.edges": (1, 2),
        "kernels.short": (0, 2, 4), "kernels.chain": (2, 4, 8), "kernels.unroll": (0, 2, 64),
        "kernels.held": (0, 0, 2), "kernels.online": (0, 1, 2, 4),
        "kernels.wide_product": (1, 2), "kernels.gathered": (2, 4), "memory.embedded": (0, 64),
    }
)  # fmt: skip
RESULTS = 16  # of a graph, at most


def symbols(
    c: Chooser, ranges: Sequence[tuple[int, int]] = _RANGES
) -> Sequence[tuple[DimVar, int]]:
    """Draw the symbols of a graph, each with another of some ranges, and values that differ."""
    found: list[tuple[DimVar, int]] = []
    left = list(ranges)
    for name in ("n", "m", "k")[: c.pick((0, 0, 0, 1, 1, 2, 2, 3))]:
        lo, hi = left.pop(c.below(len(left)))
        taken = {value for _, value in found}
        free = [v for v in range(lo, min(hi, lo + 12) + 1) if v not in taken] or [lo]
        found.append((DimVar(name, lo, hi), c.pick(free)))
    return found


@lru_cache(maxsize=4)
def _round(motifs: tuple[Motif, ...]) -> tuple[tuple[Motif, int], ...]:
    """Return the motifs of one round, spread evenly, each with its number among its own turns."""
    turns = [((k + 0.5) / m.weight, m.name, m, k) for m in motifs for k in range(m.weight)]
    return tuple((m, k) for *_, m, k in sorted(turns, key=lambda t: t[:2]))


def chosen(turn: int, seed: int, motifs: tuple[Motif, ...]) -> tuple[Motif, tuple[str, ...]]:
    """Return the motif of a turn, and which element of the product of its axes is drawn."""
    round_ = _round(motifs)
    lap, at = divmod(turn, len(round_))
    motif, k = round_[at]
    length = math.prod(map(len, motif.axes))
    count = lap * motif.weight + k
    again, place = divmod(count, length)
    return motif, item(motif.axes, position(length, f"{seed} {motif.name} {again}", place))


def position(length: int, order: str, place: int) -> int:
    """Return the number at a place of a random order of all numbers below ``length``.

    >>> sorted(position(6, "any", k) for k in range(6))
    [0, 1, 2, 3, 4, 5]
    """
    step, start = _order(length, order)
    return (place * step + start) % length


@lru_cache(maxsize=64)
def _order(length: int, order: str) -> tuple[int, int]:
    r = random.Random(order)
    step = r.randrange(length) or 1
    while math.gcd(step, length) != 1:
        step += 1
    return step, r.randrange(length)


def item(axes: Sequence[Sequence[str]], number: int) -> tuple[str, ...]:
    """Return one element of a product of sequences, by its number.

    >>> item(("ab", "xyz"), 4)
    ('b', 'y')
    """
    found: list[str] = []
    for axis in reversed(axes):
        number, at = divmod(number, len(axis))
        found.append(axis[at])
    return tuple(reversed(found))
