"""The domain of index arithmetic: its nests are lawful, and slips are found, nothing else."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from didyma.codegen.lower.affine import Affine, Poly
from didyma.codegen.options import Options
from didyma.codegen.schedule import lanes, transpose
from didyma.codegen.schedule.nest import NestFacts
from didyma.fuzz.domains.indices import Indices
from didyma.fuzz.indices import judge as judges
from didyma.fuzz.indices.judge import judge
from didyma.fuzz.indices.nests import draw
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims.polynomial import constant, plus
from didyma.refimpl.ir.loop import Binary, Expr
from didyma.refimpl.ir.text import parse_loop, show
from didyma.refimpl.verify import loop as laws


def test_nests_are_lawful_and_print_and_parse() -> None:
    for seed in range(15):
        nest = draw(Random(seed)).kernel
        laws.verify(nest)
        assert parse_loop(show(nest)) == (nest,)


def test_index_arithmetic_and_schedules_are_right() -> None:
    domain = Indices()
    schedules: Counter[str] = Counter()
    for index in range(40):
        found = judge(domain.draw(11, index), Options())
        assert [str(f) for f in found.findings] == []
        assert found.total > 0
        schedules.update(found.schedules)
    assert {"pointwise", "pointwise_wide", "transpose", "gather"} <= set(schedules)


class Looser(Affine):
    """Takes every index that is not too large to lie within a size."""

    def within(self, p: Poly, n: Poly) -> bool:
        high = self.upper(p)
        return high is not None and all(
            k >= 0 for k in plus(plus(n, constant(-1)), high, -1).values()
        )


class Lower(Affine):
    """Takes the largest remainder for one less than it is."""

    def _atom(self, e: Expr, bound: Poly | None = None) -> Poly:
        remainder = isinstance(e, Binary) and e.op == "floormod"
        return super()._atom(e, plus(bound, constant(-1)) if bound and remainder else bound)


class Positive(Affine):
    """Loses the sign of negative terms."""

    def expr(self, p: Poly) -> Expr:
        return super().expr({m: abs(k) if m else k for m, k in p.items()})


@pytest.mark.parametrize("slip", [Looser, Lower, Positive])
def test_slips_in_affine_arithmetic_are_found(
    slip: type[Affine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judges, "Affine", slip)
    assert _found_by("affine")


def test_slips_in_schedules_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    part_of_size = lanes.part_of_size

    def of_first(facts: NestFacts, _: Expr, n: int) -> Expr | None:
        return part_of_size(facts, facts.nest.extents[0], n)

    def unguarded(*_: object) -> list[Expr]:
        return [ix.TRUE]

    with monkeypatch.context() as m:  # the first size for the last
        m.setattr(lanes, "part_of_size", of_first)
        assert _found_by("kernel")
    with monkeypatch.context() as m:  # tiles of which one axis is never guarded
        m.setattr(transpose, "tail", unguarded)
        assert _found_by("kernel")


def _found_by(level: str) -> bool:
    domain, options = Indices(), Options()
    cases = (domain.draw(5, index) for index in range(100))
    return any(f.level == level for case in cases for f in judge(case, options).findings)
