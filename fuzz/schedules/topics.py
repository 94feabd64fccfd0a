"""Topics: what a loop nest is like on which a step can go wrong, and that step.

A step that is drawn on its own seldom meets such a nest.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

from didyma.codegen.schedule.steps import records
from didyma.codegen.schedule.steps.loops import loops_of
from didyma.codegen.schedule.steps.records import Step
from didyma.fuzz.schedules.motifs import called, is_placed, moved, nearer, parted, spread, swapped
from didyma.fuzz.schedules.steps import is_update
from didyma.refimpl.ir.loop import Allocate, Block, For, If, PrimFunc, Store
from didyma.refimpl.ir.walk import exprs, stmts

Topic: TypeAlias = Literal[
    "order",
    "lanes",
    "ahead",
    "as one",
    "parts",
    "places",
    "sums",
    "threads",
    "calls",
    "moved",
    "clusters",
]
TOPICS: tuple[Topic, ...] = get_args(Topic)
EXACT: tuple[Topic, ...] = ("parts", "threads")  # whose steps reassociate
INEXACT: tuple[Topic, ...] = ("sums",)  # in which the order of floats shows

_FACTORS = (2, 3, 4)


def of_topic(topic: Topic, f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return the steps of a topic for a function; none where it has no place for them."""
    return _STEPS[topic](f, chance)


def _ordered(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return what takes the iterations of two loops in another order."""
    inner = [(x, x.body.then if isinstance(x.body, If) else x.body) for x in loops_of(f.body)]
    nests = [(x.var.name, y.var.name) for x, y in inner if isinstance(y, For)]
    if not nests:
        return []
    pair = chance.choice(nests)
    if chance.random() < 0.5:
        at_once = [records.Parallel(pair[1])] if chance.random() < 0.5 else []
        return [*at_once, records.Reorder(pair[::-1])]
    return [records.Tile(pair, (chance.choice(_FACTORS), chance.choice(_FACTORS)))]


def _lanes(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return what runs the iterations of innermost loops at once."""
    inner = [x.var.name for x in loops_of(f.body) if isinstance(x.body, Store)]
    chance.shuffle(inner)
    return [chance.choice((records.Vectorize, records.Parallel))(n) for n in inner]


def _ahead(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return what fills the buffers of loops ahead."""
    made = [
        (x.var.name, x.body.buffer.name) for x in loops_of(f.body) if isinstance(x.body, Allocate)
    ]
    return [records.Pipeline(*pair, chance.choice(_FACTORS)) for pair in made]


def _as_one(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return what makes one loop of two: of those in a row, or of those in one another."""
    pairs = [
        (x.var.name, y.var.name)
        for s in stmts(f.body)
        if isinstance(s, Block)
        for x, y in pairwise(s.body)
        if isinstance(x, For) and isinstance(y, For)
    ]
    nests = [(x.var.name, x.body.var.name) for x in loops_of(f.body) if isinstance(x.body, For)]
    if pairs and chance.random() < 0.6:
        return [records.Join(chance.choice(pairs))]
    return [records.Fuse(chance.choice(nests))] if nests else []


def _parts(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return what adds up the terms of a loop apart."""
    sums = [(s.buffer, x.var.name) for x in loops_of(f.body) for s in stmts(x.body) if is_update(s)]
    chance.shuffle(sums)
    return [records.Rfactor(*pair, f"part{n}") for n, pair in enumerate(sums[:2])]


def _placed(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return what copies elements whose places are read, in the loop of the places or outside."""
    far = [(e.buffer, x.var.name) for x in loops_of(f.body) for e in exprs(x.body) if is_placed(e)]
    if not far or chance.random() < 0.5:
        return nearer(f, chance)
    return [records.Stage(*chance.choice(far), into="close")]


def _sums(f: PrimFunc, chance: random.Random) -> list[Step]:
    return swapped(f, chance) if chance.random() < 0.5 else _ordered(f, chance)


_STEPS: Mapping[Topic, Callable[[PrimFunc, random.Random], list[Step]]] = MappingProxyType(
    {
        "order": _ordered, "lanes": _lanes, "ahead": _ahead, "as one": _as_one, "parts": _parts,
        "places": _placed, "sums": _sums, "threads": spread, "calls": called, "moved": moved,
        "clusters": parted,
    }
)  # fmt: skip
