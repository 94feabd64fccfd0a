"""Programs of graphs with control flow: slips in the order of lines and their memory show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from didyma.codegen.emit.binding import Told, told
from didyma.codegen.memory.inplace import InPlaceSearch
from didyma.codegen.order.streams import _Spread  # pyright: ignore[reportPrivateUsage] - to slip in
from didyma.codegen.passes import place
from didyma.codegen.passes.merge import GroupGraph
from didyma.fuzz import control
from didyma.fuzz.builder import GraphBuilder
from didyma.fuzz.chooser import Dice
from didyma.fuzz.domains.programs import REPERTOIRE, Programs
from didyma.fuzz.graphs import Case, finished
from didyma.fuzz.steering.draw import symbols
from didyma.fuzz.steering.sketch import Sketch
from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.program import Carry, Line, Program, Wait

DOMAIN = Programs()


def test_nothing_is_wrong_with_what_is_drawn() -> None:
    cases = [DOMAIN.draw(5, index) for index in range(80)]
    assert cases[-1] == DOMAIN.draw(5, 79)
    found = [DOMAIN.outcome(case) for case in cases]
    assert [f for o in found for f in o.findings] == []
    covered = {key for o in found for key in o.covered}
    assert len(covered) > 100
    lines = {key[1] for key in covered if key[0] == "line"}
    assert lines >= {"While", "If", "Carry", "Copy", "View", "Wait", "Call", "Place"}


def _in_turn(writer: Any, pairs: Sequence[tuple[str, str]]) -> None:
    """Copy values one after another, though the second may be what the first was."""
    for value, source in pairs:
        writer._copy(value, source)


def _no_waits(*_: object) -> Iterator[Wait]:
    return iter(())


def _always(*_: object) -> bool:
    return True


def _huge(*_: object) -> int:
    return 1 << 40


def _nothing(*_: object) -> str:
    return ""


@pytest.mark.parametrize(
    ("where", "slip"),
    [
        ("order.blocks.BlockWriter._assign", _in_turn),
        ("order.streams._Spread._waits", _no_waits),
        ("memory.elide.Elision.unchanged", _always),
        ("emit.holders.Holders.release", _nothing),
    ],
)
def test_a_slip_is_found_soon(
    where: str, slip: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"didyma.codegen.{where}", slip)
    assert any(DOMAIN.outcome(DOMAIN.draw(8, index)).findings for index in range(150))


def _of_kind(motif: str, kind: str, seed: int) -> Case:
    """Return a program of one piece, whose values share whatever bytes they may."""
    c = Dice(seed)
    s = Sketch(GraphBuilder(control.draw, symbols(c)), c)
    s.bind_symbols()
    next(m for m in REPERTOIRE.motifs if m.name == motif).draw(s, kind)
    found = {"memory.eager": True, "graph.fuse": seed % 2 > 0} | s.changes
    return replace(finished(s.b, c), changes=tuple(found.items()))


def _dies_at_its_line(self: InPlaceSearch, value: str, line: Any, block: int, index: int) -> bool:
    """Take a line of another block for that of a value's last use, if it has the same number."""
    del block
    return self.own(value, line) and self.lives.of[value].last == index


def _waits_as_the_first(self: GroupGraph, i: int, j: int) -> None:
    """Let a merged group run after what its first group runs after, whatever the second needs."""
    after = self.groups[i].after
    JOIN(self, i, j)
    self.groups[i] = replace(self.groups[i], after=after)


def _waits_for_what_is_new(self: Any, line: Line) -> Iterator[Line]:
    """Let a loop hand values on before other streams have read those that it hands them to."""
    if isinstance(line, Carry):
        yield from self._waits(0, (), [new for _, new in line.values])
        yield line
    else:
        yield from LINE(self, line)


def _first_alone(p: Program) -> Iterator[Told]:
    """Read each size from the first place that may tell it, whatever that tells."""
    return (replace(t, places=t.places[:1]) for t in told(p))


JOIN = GroupGraph.join
LINE: Callable[..., Iterator[Line]] = vars(_Spread)["_line"]


@pytest.mark.parametrize(
    ("motif", "kind", "where", "slip"),
    [
        ("carried", "rounds in turn", "memory.inplace.InPlaceSearch.dies", _dies_at_its_line),
        ("control", "cut between kernels", "passes.merge.GroupGraph.join", _waits_as_the_first),
        ("carried", "rounds of growth", "order.streams._Spread._line", _waits_for_what_is_new),
        ("told", "several", "emit.binding.told", _first_alone),
        ("carried", "rounds of a part", "memory.views.sum", any),  # of writers, once or more often
    ],
)
def test_a_slip_is_found_by_the_piece_that_is_drawn_for_it(
    motif: str,
    kind: str,
    where: str,
    slip: Callable[..., object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = [_of_kind(motif, kind, seed) for seed in range(24)]
    assert not any(DOMAIN.outcome(case).findings for case in cases)
    monkeypatch.setattr(f"didyma.codegen.{where}", slip, raising=False)
    assert any(DOMAIN.outcome(case).findings for case in cases)


def test_a_plan_is_held_to_the_capacity_that_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = (DOMAIN.draw(4, index) for index in range(300))
    cases = [c for c in drawn if "memory.capacity" in dict(c.changes) and not c.module.dims][:12]
    assert not any(DOMAIN.outcome(case).findings for case in cases)
    monkeypatch.setattr("didyma.codegen.memory.allocate.lower_bound", _huge)
    assert any(DOMAIN.outcome(case).findings for case in cases)


def test_no_planner_searches_long_for_a_capacity() -> None:
    options = [dict(Programs().draw(11, index).changes) for index in range(600)]
    some = [o for o in options if "memory.capacity" in o]
    assert some
    assert any(o.get("memory.planner") == "canonical" for o in options)
    assert all(o.get("memory.planner") != "canonical" for o in some)


def test_control_nodes_stand_inside_of_one_another() -> None:
    found = [DOMAIN.outcome(_of_kind("carried", "nested", seed)) for seed in range(40)]
    assert not any(o.findings for o in found)
    around = {key[2] for o in found for key in o.covered if key[0] == "block"}
    assert len([a for a in around if a.count("/") > 1]) > 3


def test_parts_are_cut_from_behind_beyond_the_end() -> None:
    cases = [_of_kind("shared", "cuts", seed) for seed in range(40)]
    assert not any(DOMAIN.outcome(case).findings for case in cases)
    entries = [case.module.entry for case in cases]
    cuts = [
        (f.types()[n.args[0]].shape, n.attr) for f in entries for n in f.nodes if "starts" in n.attr
    ]
    beyond = 0
    for shape, ends in cuts:
        starts = ends["starts"]
        assert isinstance(starts, tuple)
        beyond += any(int(str(a)) >= int(str(d)) for a, d in zip(starts, shape, strict=True))
    assert 5 < beyond < len(cuts) - 5


def test_a_copy_taken_for_one_of_another_value_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    brought = place._Placement._to  # pyright: ignore[reportPrivateUsage]  # the fault is planted in it

    def first(self: Any, n: Node) -> str:
        like = (v for v in self.there.values() if self.types[v] == n.types[0])
        return next(like, "") or brought(self, n)

    monkeypatch.setattr(place._Placement, "_to", first)  # pyright: ignore[reportPrivateUsage]  # the fault is planted in it
    found = (DOMAIN.outcome(DOMAIN.draw(11, k)).findings for k in range(40))
    assert next(f[0].where for f in found if f) == "place"
