"""Programs of graphs with control flow: slips in the order of lines and their memory show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from didyma.codegen.pipeline import compile
from didyma.fuzz.domains.programs import Programs
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import Wait

DOMAIN = Programs()


def test_the_lines_of_programs_are_of_many_kinds() -> None:
    lines: Counter[str] = Counter()
    for index in range(40):
        case = DOMAIN.draw(3, index)
        assert case == DOMAIN.draw(3, index)
        made = compile(case.module, case.options(DOMAIN.options), until="plan")
        lines.update(type(x).__name__ for x in walk(made.program.lines))
    assert lines.keys() >= {"While", "If", "Carry", "Copy", "View", "Wait", "Call", "Place"}


def test_nothing_is_wrong_with_what_is_drawn() -> None:
    found = [DOMAIN.outcome(DOMAIN.draw(5, index)) for index in range(40)]
    assert [f for o in found for f in o.findings] == []
    assert len({key for o in found for key in o.covered}) > 100


def _in_turn(writer: Any, pairs: Sequence[tuple[str, str]]) -> None:
    """Copy values one after another, though the second may be what the first was."""
    for value, source in pairs:
        writer._copy(value, source)


def _no_waits(*_: object) -> Iterator[Wait]:
    return iter(())


def _always(*_: object) -> bool:
    return True


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
    assert any(DOMAIN.outcome(DOMAIN.draw(7, index)).findings for index in range(150))
