"""Campaigns judge a share of the graphs in the ring, and keep what only the ring sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from didyma.codegen.options import Options
from didyma.codegen.runtime.simt import Simt
from didyma.codegen.runtime.simt.memory import SimtBuffer
from didyma.fuzz import replay
from didyma.fuzz.campaign import Plan, run
from didyma.fuzz.domains.graphs import Graphs
from didyma.fuzz.executor import InlineExecutor
from didyma.fuzz.graphs import Case
from didyma.fuzz.records import record
from didyma.fuzz.result import Tally
from didyma.fuzz.worker import Batch
from didyma.oracle.report import Finding
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops import ring

SUM = parse_module("""module {
  func @main(%x: f32[3, 4]) -> (%z) {
    %y = sum(%x, axes=(1,), keepdims=false) : f32[3]
    %z = exp(%y) : f32[3]
  }
}""")


@dataclass(slots=True)
class Lossy(Simt):
    """The engine with a fault that no value shows: results have a term more."""

    name: str = "lossy"

    def in_ring(self) -> Lossy:
        return Lossy(self.name, ring=True)

    def download(self, buffer: SimtBuffer, dtype: str, shape: Sequence[int]) -> Array:
        got = Simt.download(self, buffer, dtype, shape)
        if got.dtype.names:
            got["payload"] = ring.add(got["payload"], ring.UNIT)
        return got


def case(*, ring: bool) -> Case:
    return Case(SUM, (), (3,), ring=ring)


def test_one_graph_in_so_many_is_judged_in_the_ring() -> None:
    domain = Graphs(("simt",), ring_every=3)
    assert [domain.draw(1, i).ring for i in range(6)] == [True, False, False] * 2
    assert not replace(domain, ring_every=0).draw(1, 0).ring


def test_what_was_compared_in_the_ring_is_counted() -> None:
    judge = Graphs(("simt",)).judge()
    with_ring, without = judge(case(ring=True)), judge(case(ring=False))
    assert with_ring.ring_checked == with_ring.ring_total > 0
    assert (without.ring_checked, without.ring_total) == (0, 0)
    loops = 3  # elements: loops whose kernels are right are judged in the ring alone
    assert with_ring.checked == with_ring.total == without.checked + loops
    assert without.checked == without.total
    batch, tally = Batch(), Tally()
    batch.add(replace(with_ring, ring_checked=1, ring_total=4), 0.1, fresh=True)
    tally.add(batch)
    assert tally.ring_share == 0.25
    assert Tally().ring_share is None


def test_what_only_the_ring_sees_is_a_finding_of_its_kind() -> None:
    judge = Graphs((Lossy(),)).judge()
    assert not judge(case(ring=False)).findings
    first, *_ = judge(case(ring=True)).findings
    assert (first.level, first.kind) == ("lossy", "ring")
    assert "fused_sum" in first.where


def test_a_finding_of_the_ring_is_replayed_in_the_ring(tmp_path: Path) -> None:
    for kind in ("ring", "value"):
        found = Finding("lossy", "fused_sum_exp_0", kind, "")
        recorded = replay.Recorded(SUM, (3,), {}, ("simt",), Options(), finding=found)
        again = replay.load(replay.save(tmp_path / f"{kind}.dym", recorded))
        assert again.case.ring == (kind == "ring")


def test_a_campaign_makes_what_only_the_ring_sees_smaller(tmp_path: Path) -> None:
    domain = Graphs((Lossy(),), ring_every=1)
    plan = Plan((domain,), seed=1, stop_after=1, shrink_seconds=1.0, findings=tmp_path)
    r = run(plan, executor=InlineExecutor())
    (group,) = r.groups
    assert (group.level, group.kind) == ("lossy", "ring")
    assert group.smallest.case.ring
    d = record(r, [domain])["domains"]["graphs"]
    assert d["ring_total"] > 0
    assert 0 < d["ring_share"] <= 1
