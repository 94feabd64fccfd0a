"""Findings with one cause stand in one group, which keeps the smallest."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.fuzz import traits
from didyma.fuzz.graphs import BYTES, Case, decode
from didyma.fuzz.groups import KEPT, Example, Group, cause, group_of
from didyma.oracle.report import Finding
from didyma.refimpl.ir.text import parse_module


def case(seed: int) -> Case:
    return decode(random.Random(seed).randbytes(BYTES))


def found(
    seed: int = 0, *traits: str, nodes: int = 1, kind: str = "value", **others: str
) -> Example:
    level, where = others.get("level", "host"), others.get("where", "fused_0")
    f = Finding(level, where, kind, others.get("message", "got 1, want 2"))
    return example(case(seed), f, *traits, nodes=nodes)


def example(case: Case, f: Finding, *traits: str, nodes: int = 1) -> Example:
    return Example(case, f, frozenset(traits), (nodes, case.elements()), "host")


def grouped(*many: Example) -> list[Group]:
    groups: list[Group] = []
    for e in many:
        group = group_of(groups, e)
        if group is None:
            group = Group(*cause(e.finding), e.traits)
            groups.append(group)
        group.add(e)
    return groups


def test_what_has_a_trait_in_common_is_one_group() -> None:
    (g,) = grouped(found(1, "a loop", "add"), found(2, "a loop", "max"), found(3, "a loop"))
    assert (g.count, set(g.common)) == (3, {"a loop"})
    assert len(grouped(found(1, "add"), found(2, "max"))) == 2
    first, second = grouped(found(1, "add"), found(2, "max", "i8"), found(3, "max", "add", "i8"))
    assert (first.count, second.count) == (1, 2), "the group with most in common"


def test_levels_kinds_and_reasons_stand_apart() -> None:
    apart = (
        found(1), found(1, level="loop"), found(1, kind="hang"),
        found(1, kind="error", message="ValueError: 3 is too many"),
        found(1, kind="error", message="KeyError: 'x'"),
        found(1, kind="crash", message="the process died: SIGSEGV"),
        found(1, kind="crash", message="the process died: SIGABRT"),
        found(1, level="passes", where="fuse"), found(1, level="passes", where="inline"),
    )  # fmt: skip
    assert len(grouped(*apart)) == len(apart)
    assert len(grouped(*apart, *apart)) == len(apart)


def test_numbers_and_names_are_no_reasons() -> None:
    messages = ("ValueError: 3 is too many", "ValueError: 4 is too many")
    assert len(grouped(*(found(1, kind="error", message=m) for m in messages))) == 1
    faults = [f"LoopFault: race at `x[{i}] = 1`: lanes 0 and {i}" for i in range(3)]
    (g,) = grouped(*(found(1, kind="fault", message=m) for m in faults))
    assert g.reason == "race"


def test_a_broken_plan_is_one_cause() -> None:
    law = "DidymaError: P-overlap at `@main, line 8`\n  got: bytes"
    many = [found(1, level="plan", kind="plan"), found(2, level="plan", kind="error", message=law)]
    assert len(grouped(*many)) == 1


def test_the_smallest_are_kept() -> None:
    (g,) = grouped(*(found(n, "x", nodes=n) for n in (5, 9, 3, 7, 4)))
    assert g.count == 5
    assert [e.size[0] for e in g.examples] == [3, 4, 5]
    assert len(g.examples) == KEPT
    again = g.add(found(3, "x", nodes=3))
    assert again is not None, "the same case is no other example"
    assert (g.count, len(g.examples)) == (6, KEPT)


def test_size_breaks_ties() -> None:
    small, large = parse_module(PAIR.format(n=1)), parse_module(PAIR.format(n=7))
    cases = [replace(case(1), module=m, env=(), seeds=(0, 0)) for m in (large, small)]
    (g,) = grouped(*(example(c, found(1).finding) for c in cases))
    assert [e.case.elements() for e in g.examples] == [2, 14]


PAIR = """module {{
  func @main(%x: f16[{n}], %y: f16[{n}]) -> (%z) {{
    %z = maximum(%x, %y) : f16[{n}]
  }}
}}"""
REDUCED = (
    "module { func @main(%x: f16[3]) -> (%z) { %z = max(%x, axes=(0,), keepdims=false) : f16[] } }"
)
ADDED = "module { func @main(%x: f32[2]) -> (%z) { %z = add(%x, %x) : f32[2] } }"


@pytest.mark.parametrize("text", [PAIR.format(n=3), REDUCED])
def test_ops_that_come_down_to_one_operation_share_a_trait(text: str) -> None:
    compiled = compile(parse_module(text), Options())
    (name,) = compiled.loops
    seen = traits.of_kernels(compiled, name)
    assert "max of numbers" in seen
    other = compile(parse_module(ADDED), Options())
    (name,) = other.loops
    assert seen.isdisjoint(traits.of_kernels(other, name))


def test_sizes_that_stay_and_rare_dtypes_are_traits() -> None:
    assert set(traits.of_types(parse_module(PAIR.format(n=3)), {})) == {"an axis of 3", "f16"}
    assert not traits.of_types(parse_module(ADDED), {})
    wide = traits.of_types(parse_module(ADDED.replace("f32[2]", "f32[2, 2]")), {})
    assert set(wide) == {"more than 3 elements"}
