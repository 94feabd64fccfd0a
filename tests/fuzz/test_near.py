"""Near misses of drawn graphs: valid, the same each time, and often without the decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from unittest import mock

import numpy as np
import pytest

from didyma.codegen.options import Options
from didyma.fuzz.chooser import Dice
from didyma.fuzz.domains.passes import Passes
from didyma.fuzz.graphs import Case
from didyma.fuzz.steering.draw import draw
from didyma.fuzz.steering.near import CHANGES, decided, near, near_miss
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.verify.graph import verify


def cases(count: int) -> Iterator[Case]:
    """Yield the graphs of a seed."""
    return (draw(5, i) for i in range(count))


def test_every_change_makes_some_valid_graph_another_one() -> None:
    fits: Counter[str] = Counter()
    for i, case in enumerate(cases(36)):
        for change in dict.fromkeys(CHANGES):
            m = change(case.module, i % len(case.module.entry.nodes), Dice(i))
            if m is None or m == case.module:
                continue
            try:
                verify(m)
            except DidymaError:  # which `near` leaves out
                continue
            fits[change.__name__] += 1
    assert {c.__name__ for c in CHANGES} == {name for name, n in fits.items() if n > 1}


def test_a_case_nearby_runs_and_is_drawn_again() -> None:
    changed = 0
    for i, case in enumerate(cases(36)):
        found = near(case, (), Dice(i))
        assert found == near(case, (), Dice(i))
        if found is not None:
            changed += found != case
            verify(found.module)
            with np.errstate(all="ignore"):
                graph.run(found.module, found.inputs())
    assert changed > 24


@pytest.mark.parametrize(("size", "told"), [("floor(n/2)", False), ("n + 1", True)])
def test_no_change_leaves_a_size_that_no_input_tells(size: str, told: bool) -> None:
    text = """
        module {{
          dims n in [2, 9]
          func @main(%x: f32[{0}]) -> (%y) {{
            %y = exp(%x) : f32[{0}]
          }}
        }}"""
    case = Case(parse_module(text.format("n")), env=(("n", 4),), seeds=(1,))
    change = mock.Mock(return_value=parse_module(text.format(size)))
    with mock.patch("didyma.fuzz.steering.near.CHANGES", (change,)):
        assert (near(case, (), Dice(1)) is not None) is told


def test_what_was_decided_is_often_decided_no_more() -> None:
    gone = 0
    for i, case in enumerate(cases(120)):
        before = {(k, v) for k, vs in decided(case, Options()).items() for v in vs}
        found = near_miss(case, Dice(i), Options())
        after = {(k, v) for k, vs in decided(found, Options()).items() for v in vs}
        gone += not before <= after
    assert gone > 30


def test_half_of_the_graphs_for_passes_are_near_others() -> None:
    domain = Passes()
    odd = [domain.draw(3, i) for i in range(1, 8, 2)]
    assert odd == [domain.draw(3, i) for i in range(1, 8, 2)]
