from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from didyma.codegen.memory.symbolic import SymbolicBuffer, SymbolicPlan, plan
from didyma.codegen.memory.symbolic.arcs import Arcs, Orientation, Sum
from didyma.codegen.memory.symbolic.ring import Ring
from didyma.codegen.memory.symbolic.source import source
from didyma.codegen.memory.symbolic.stack import Stack
from didyma.oracle.symbolic_plan import bindings, check, prove
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.dims.polynomial import Poly
from tests.codegen.memory.symbolic.cases import (
    S,
    below,
    blocks,
    buffers,
    decoder,
    random_trace,
    ranges,
)

ALIGNMENT = 64


def arcs(bs: list[SymbolicBuffer], declared: tuple[DimVar, ...], ring: Ring) -> tuple[Arcs, Stack]:
    stack = Stack.of([(b.lower, b.upper) for b in bs])
    hints = list(bindings(declared, 1))[:3]
    sums = [
        Sum(ring.aligned(ring.read(b.size), ALIGNMENT), tuple(up(b, env) for env in hints))
        for b in bs
    ]
    return Arcs(ring, stack.conflicts, sums), stack


def up(b: SymbolicBuffer, env: Mapping[str, int]) -> int:
    return -(-dims.evaluate(b.size, env) // ALIGNMENT) * ALIGNMENT


def ends(o: Orientation, sizes: list[int]) -> tuple[list[int], int]:
    off = [0] * len(sizes)
    for i in o.order:
        off[i] = max((off[j] + sizes[j] for j in o.below[i]), default=0)
    return off, max(off[j] + sizes[j] for j in o.top)


@settings(deadline=None, max_examples=40)
@given(buffers(12), ranges(), st.randoms(use_true_random=False))
def test_deleted_terms_change_no_offset(
    bs: list[SymbolicBuffer], declared: tuple[DimVar, ...], random: Random
) -> None:
    ring = Ring(declared, {v.name: v.name for v in declared})
    a, stack = arcs(bs, declared, ring)
    order = tuple(random.sample(range(len(bs)), len(bs)))
    o = a.reduce(order)
    for env in bindings(declared, 6):
        sizes = [up(b, env) for b in bs]
        assert ends(o, sizes) == (stack.offsets(order, sizes), stack.peak(order, sizes))


def test_terms_are_deleted() -> None:
    """Most of what lies below is implied or dominated."""
    p = plan(decoder(), [DimVar("S", 16, 8192)], ALIGNMENT)
    stack = Stack.of([(b.lower, b.upper) for b in p.buffers])
    arcs_before = sum(map(len, stack.conflicts)) // 2
    (o,) = p.orientations
    assert sum(map(len, o.below)) < arcs_before / 2


# Planted faults: what the checker must see.


def rebuilt(p: SymbolicPlan, o: Orientation, align: int = ALIGNMENT) -> str:
    ring = Ring(p.declared, {"S": "S"})
    texts = [ring.source(ring.aligned(ring.read(b.size), align)) for b in p.buffers]
    names = [b.name for b in p.buffers]
    return source(["S"], texts, range(len(texts)), names, [o])


def kinds(p: SymbolicPlan, code: str) -> set[str]:
    names: dict[str, Callable[[int], tuple[int, int, tuple[int, ...]]]] = {}
    exec(code, names)

    def placed(env: Mapping[str, int]) -> tuple[int, Mapping[str, int]]:
        peak, _, offsets = names["place"](env["S"])
        return peak, {b.name: o for b, o in zip(p.buffers, offsets, strict=True)}

    envs = bindings(p.declared, 200)
    return {f.kind for f in check(blocks(list(p.buffers)), ALIGNMENT, placed, envs)}


@pytest.fixture(scope="module")
def sound() -> SymbolicPlan:
    return plan(random_trace(3, 30), [DimVar("S", 16, 8192)], ALIGNMENT, 1, moves=200)


def test_the_checker_passes_what_is_sound(sound: SymbolicPlan) -> None:
    assert kinds(sound, rebuilt(sound, sound.orientations[0])) == set()
    verdict = prove(blocks(list(sound.buffers)), sound.declared, ALIGNMENT, below(sound, 0))
    assert verdict.open == ()


def test_a_missing_term_is_seen(sound: SymbolicPlan) -> None:
    (o,) = sound.orientations
    wide = [i for i, js in enumerate(o.below) if len(js) > 1]
    assert wide
    seen = proven = 0
    for i in wide:
        for j in o.below[i]:
            less = tuple(k for k in o.below[i] if k != j)
            worse = Orientation(o.order, (*o.below[:i], less, *o.below[i + 1 :]), o.top)
            seen += bool(kinds(sound, rebuilt(sound, worse)) & {"overlap"})
            without = {**below(sound, 0), sound.buffers[i].name: []}
            without[sound.buffers[i].name] = [sound.buffers[k].name for k in less]
            bs = blocks(list(sound.buffers))
            proven += not prove(bs, sound.declared, ALIGNMENT, without).open
    terms = sum(len(o.below[i]) for i in wide)
    # a term may be needed where no sample falls, or not be needed for all that is proven
    assert seen >= 0.8 * terms
    assert seen + proven <= terms


def test_dominance_believed_from_one_hint_is_seen(
    sound: SymbolicPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A faulty proof: what holds at the hint is taken to hold everywhere."""

    def at_hint(self: Ring, p: Poly) -> bool:
        return bool(eval(self.source(p), {"S": 512}) >= 0)

    monkeypatch.setattr(Ring, "nonnegative", at_hint)
    bs = list(sound.buffers)
    ring = Ring(sound.declared, {"S": "S"})
    hint = {"S": 512}
    stack = Stack.of([(b.lower, b.upper) for b in bs])
    sums = [Sum(ring.aligned(ring.read(b.size), ALIGNMENT), (up(b, hint),)) for b in bs]
    wrong = Arcs(ring, stack.conflicts, sums).reduce(sound.orientations[0].order)
    monkeypatch.undo()
    assert "overlap" in kinds(sound, rebuilt(sound, wrong))
    names = [b.name for b in bs]
    under = {names[i]: [names[j] for j in js] for i, js in enumerate(wrong.below)}
    assert prove(blocks(bs), sound.declared, ALIGNMENT, under).open


def test_dropped_alignment_is_seen() -> None:
    bs = [SymbolicBuffer(f"b{i}", dims.mul(4, S), i, i + 2) for i in range(4)]
    p = plan(bs, [DimVar("S", 16, 8192)], ALIGNMENT, moves=10)
    assert kinds(p, rebuilt(p, p.orientations[0])) == set()
    assert "misaligned" in kinds(p, rebuilt(p, p.orientations[0], align=1))
