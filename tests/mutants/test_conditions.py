"""Terms that decide alone are counted, also those that Python does not come to."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from tests.mutants.conditions import Counted, Counts, report

_SOURCE = """
def fits(a, b, c):
    if not a:
        return "none"
    return "all" if b and c[0] > b else "some"
def either(a, b):
    return a or b
def told(a, b):
    found = []
    same = a == b
    found.append(same)
    if any(x > 1 for x in a):
        found += [not b]
    return found
def named(a):
    return a or "none"
"""


def instrumented() -> tuple[Counts, dict[str, Any]]:
    """Return the functions of the source, and what their conditions call."""
    counts = Counts()
    tree = Counted("passes/x.py", counts).visit(ast.parse(_SOURCE))
    names: dict[str, Any] = {"__term__": counts}
    exec(compile(ast.fix_missing_locations(tree), "x", "exec"), names)
    return counts, names


def counted(*calls: tuple[str, tuple[Any, ...]]) -> list[str]:
    """Return what is reported after some calls of the functions of the source."""
    counts, names = instrumented()
    plain: dict[str, Any] = {}
    exec(_SOURCE, plain)
    for name, args in calls:
        assert names[name](*args) == plain[name](*args)
    counts.next_case()
    return [line for line in report(counts) if line.startswith("never")]


def test_a_guard_is_to_hold_and_not_to_hold() -> None:
    assert "never: passes/x.py:3: False: not a" in counted(("fits", (0, 1, [2])))
    assert not any("not a" in line for line in counted(("fits", (0, 1, [])), ("fits", (1, 0, [0]))))


def test_a_term_is_to_decide_alone() -> None:
    first, second = "never: passes/x.py:5: False: b", "never: passes/x.py:5: False: c[0] > b"
    assert {first, second} <= {*counted(("fits", (1, 1, [2])))}
    assert first in counted(("fits", (1, 0, [0]))), "without it the second decides the same"
    assert first not in counted(("fits", (1, 0, [2])))
    assert first not in counted(("fits", (1, 0, []))), "without it an error is raised"
    assert second not in counted(("fits", (1, 1, [0])))


def test_a_term_of_a_disjunction_decides_by_its_truth() -> None:
    never = counted(("either", (1, 1)), ("either", (0, 0)))
    assert [line for line in never if "x.py:7" in line] == [
        "never: passes/x.py:7: True: a",
        "never: passes/x.py:7: True: b",
    ]
    assert not [x for x in counted(("either", (1, 0)), ("either", (0, 1))) if "x.py:7" in x]


def test_a_boundary_decides_where_both_sides_are_equal() -> None:
    boundary = "never: passes/x.py:5: True: boundary of c[0] > b"
    assert boundary in counted(("fits", (1, 1, [2])))
    assert boundary not in counted(("fits", (1, 2, [2])))


def test_a_term_that_is_dropped_decides_nothing() -> None:
    counts, names = instrumented()
    fits: Callable[..., object] = names["fits"]
    either: Callable[..., object] = names["either"]
    told: Callable[..., object] = names["told"]
    texts = [f"{t.decides} {t.text}" for t in counts.terms]
    calls: Sequence[tuple[str, Callable[[], object], object]] = (
        ("True not a", lambda: fits(0, 1, [2]), "all"),
        ("False not a", lambda: fits(1, 1, [2]), "none"),
        ("False b", lambda: fits(1, 0, [2]), "all"),
        ("False c[0] > b", lambda: fits(1, 1, [0]), "all"),
        ("True boundary of c[0] > b", lambda: fits(1, 2, [2]), "all"),
        ("True a", lambda: either(1, 0), 0),
        ("True kept a == b", lambda: told([1], [1]), [False]),
        ("False kept a == b", lambda: told([1], [0]), [True]),
        ("True kept not b", lambda: told([2], 0), [False, False]),
        ("True the other of any((x > 1 for x in a))", lambda: told([2, 0], 0), [False]),
        ("True statement found.append(same)", lambda: told([0], 0), []),
        ("True statement found += [not b]", lambda: told([2], 0), [False]),
    )
    for dropped, call, want in calls:
        counts.dropped = -1
        assert call() != want
        counts.dropped = texts.index(dropped)
        assert call() == want, dropped


def test_a_kept_comparison_is_to_have_either_value() -> None:
    assert "never: passes/x.py:10: False: kept a == b" in counted(("told", ([1], [1])))
    assert "never: passes/x.py:10: True: kept a == b" in counted(("told", ([1], [2])))
    both = counted(("told", ([2], [2])), ("told", ([2], [])))
    assert [line for line in both if "kept" in line] == ["never: passes/x.py:12: False: kept x > 1"]


def test_any_is_to_differ_from_all() -> None:
    never = "never: passes/x.py:12: True: the other of any((x > 1 for x in a))"
    assert never in counted(("told", ([2, 3], 0)), ("told", ([0], 0)))
    for a in ([], [0, 2], [2, 0]):
        assert never not in counted(("told", (a, 0)))


def test_a_statement_is_to_run() -> None:
    never = "never: passes/x.py:13: True: statement found += [not b]"
    assert never in counted(("told", ([0], 0)))
    assert never not in counted(("told", ([2], 0)))


def test_a_constant_stands_in_for_what_is_empty() -> None:
    assert [x for x in counted(("named", ("",))) if "x.py:16" in x] == [
        "never: passes/x.py:16: True: a"
    ]
    assert not [x for x in counted(("named", ("some",))) if "x.py:16" in x]
