"""Every slip still has a place to be planted."""

from __future__ import annotations

from pathlib import Path

from tests.mutants import form_slips, step_proofs, step_slips
from tests.mutants.slips import FAULTS, SLIPS

ROOT = Path(__file__).parents[2]


def test_each_slip_changes_one_place() -> None:
    every = (*FAULTS, *step_slips.FAULTS, *step_proofs.FAULTS, *form_slips.FAULTS)
    for f in every:
        text = (ROOT / f.file).read_text(encoding="utf-8")
        assert text.count(f.old) == 1, f.name
        assert f.new not in (f.old, text)
    assert len({f.name for f in every}) == len(every)
    assert {len(v) >= 5 for v in SLIPS.values()} == {True}
