"""The domain of graph passes: correct ones are never accused, and slips in rules are found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from didyma.codegen.passes import algebra, movement
from didyma.codegen.passes.values import Values
from didyma.fuzz.domains.domain import Outcome
from didyma.fuzz.domains.passes import Passes
from didyma.refimpl.ir.graph import Node, attrs


def outcomes(count: int) -> Iterator[Outcome]:
    """Yield the outcomes of the first cases of a seed."""
    domain = Passes()
    judge = domain.judge()
    return (judge(domain.draw(11, i)) for i in range(count))


def found(count: int) -> bool:
    """Return whether one of the first cases shows a finding."""
    return any(o.findings for o in outcomes(count))


def test_passes_that_are_right_are_not_accused() -> None:
    seen = list(outcomes(60))
    assert not any(o.findings for o in seen)
    assert sum(o.checked for o in seen) > 15_000
    assert {"neutral operand", "cast once"} <= {k[1] for o in seen for k in o.covered}


def test_a_slip_in_a_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = movement.compose

    def slip(n: Node, values: Values) -> Node | None:
        better = right(n, values)
        if better is None or n.op != "permute_dims":
            return better
        axes = better.attr["axes"]
        assert isinstance(axes, tuple)
        return replace(better, attrs=attrs({"axes": tuple(reversed(axes))}))

    monkeypatch.setattr(movement, "compose", slip)
    assert found(300)


def test_a_neutral_element_at_either_side_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    table = vars(algebra)["_NEUTRAL"]
    either = {k: tuple((at, b) for _, b in v for at in (0, 1)) for k, v in table.items()}
    monkeypatch.setattr(algebra, "_NEUTRAL", either)
    assert found(300)
