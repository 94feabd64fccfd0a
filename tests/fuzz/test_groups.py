"""Findings with one cause stand in one group, which keeps the smallest."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations
from unittest import mock

import pytest

from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.fuzz import levels, traits
from didyma.fuzz.graphs import BYTES, Case, decode
from didyma.fuzz.groups import KEPT, Example, Findings, Group
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
    findings = Findings()
    for e in many:
        findings.add(e)
    return findings.groups()


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
    leaks = [f"EngineMemoryFault: {n} bytes are never freed" for n in (96, 18)]
    assert len(grouped(*(found(1, kind="fault", message=m) for m in leaks))) == 1


def test_a_broken_plan_is_one_cause() -> None:
    law = "DidymaError: P-overlap at `@main, line 8`\n  got: bytes"
    many = [found(1, level="plan", kind="plan"), found(2, level="plan", kind="error", message=law)]
    assert len(grouped(*many)) == 1


def test_the_smallest_are_kept() -> None:
    many = [found(n, "x", nodes=n) for n in (5, 9, 3, 7, 4)]
    (g,) = grouped(*many)
    assert g.count == 5
    assert [e.size[0] for e in g.examples] == [3, 4, 5]
    assert len(g.examples) == KEPT
    (again,) = grouped(*many, found(3, "x", nodes=3))
    assert again.count == 6
    assert [e.size[0] for e in again.examples] == [3, 4, 5], "the same case is no other example"


def test_the_order_of_findings_makes_no_other_groups() -> None:
    one = [found(1, "a", "b"), found(2, "a", "c"), found(3, "b", "d"), found(4, "b", "e")]
    other = [found(5, "x", "y"), found(6, "y", "z")]
    for many in permutations([*one, *other]):
        groups = grouped(*many)
        assert sorted(len(g.common) for g in groups) == [1, 1, 2]
        assert {"b", "y"} <= {t for g in groups for t in g.common}


def test_a_wrong_value_and_an_access_out_of_bounds_may_have_one_cause() -> None:
    value = found(1, "remainder", "floormod of numbers", "an axis of 3")
    guard = "KernelFault: guard in f"
    fault = found(2, "roll", "floormod of numbers", kind="fault", message=guard)
    (g,) = grouped(value, fault)
    assert (g.kind, g.count, set(g.common)) == ("value", 2, {"floormod of numbers"})
    for other in (
        found(2, "an axis of 3", kind="fault", message=guard),
        found(2, "floormod of numbers", kind="fault", message=guard, level="kernel"),
    ):
        assert len(grouped(value, other)) == 2
    assert len(grouped(*(found(n, f"op {n}", kind="fault", message=guard) for n in (1, 2)))) == 1


def test_what_a_kernel_must_not_do_is_one_cause_wherever_it_runs() -> None:
    access = "LoopFault: out-of-bounds at `y[i] = x[i]`: y, axis 0: index 2 outside [0, 2)"
    kernel = found(1, kind="fault", level="kernel", message=access)
    program = found(2, kind="error", level="programs", message=access)
    (g,) = grouped(program, kernel, program)
    assert (g.level, g.kind, g.reason, g.count) == ("kernel", "fault", "out-of-bounds", 3)
    loop = found(3, kind="fault", level="loop", message=access)
    assert len(grouped(kernel, loop)) == 2, "what is lowered is not what is scheduled"


def test_errors_of_wrappers_are_one_cause_in_every_domain() -> None:
    planned = found(1, kind="wrapper", level="wrappers", where="best_fit", message="KeyError: 'm'")
    program = found(2, kind="error", level="program", where="wrapper", message="KeyError: 'n'")
    assert [(g.reason, g.count) for g in grouped(planned, program)] == [("KeyError", 2)]
    differs = found(3, kind="wrapper", level="wrappers", where="best_fit", message="%y differs")
    assert len(grouped(planned, differs)) == 2


def test_a_fault_and_a_wrong_value_of_one_op_are_one_group() -> None:
    """A tile read along the wrong axis is a wrong value, or an uninitialised read at its edge."""
    value = found(1, "permute_dims", "f16", level="kernel")
    fault = found(
        2, "permute_dims", kind="fault", message="LoopFault: uninitialised at", level="kernel"
    )
    (g,) = grouped(value, fault)
    assert g.count == 2


def test_findings_without_traits_join_the_largest_group() -> None:
    many = [found(1, "a"), found(2, "b"), found(3, "b", "c"), found(4), found(5)]
    assert [(set(g.common), g.count) for g in grouped(*many)] == [({"a"}, 1), ({"b"}, 4)]


def test_errors_are_told_apart_by_the_function_that_raised_them() -> None:
    def failed(m: str, wrong: str) -> frozenset[str]:
        with mock.patch(wrong, side_effect=KeyError("x")):
            made = levels.compiled(parse_module(m))
        assert isinstance(made, levels.Failed)
        return traits.of_error(made.error)

    shape, rule = (
        "didyma.codegen.lower.function.ix.of_dim",
        "didyma.codegen.lower.build.ScalarBuilder.rule",
    )
    assert failed(ADDED, shape) != failed(ADDED, rule)
    for where in (failed(ADDED, shape), failed(ADDED, rule)):
        assert all(t.startswith("raised in codegen/lower/") for t in where)
        assert len(where) == 1
    assert traits.of_error(KeyError("raised nowhere")) == frozenset()


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


DIVIDED = "module {{ func @main(%x: {d}[2], %y: {d}[2]) -> (%z) {{ %z = {op}(%x, %y) : {d}[2] }} }}"


@pytest.mark.parametrize(("dtype", "same"), [("u16", True), ("i16", False)])
def test_divisions_of_unsigned_integers_are_one_operation(dtype: str, same: bool) -> None:
    seen: list[frozenset[str]] = []
    for op in ("floor_divide", "trunc_divide"):
        compiled = compile(parse_module(DIVIDED.format(d=dtype, op=op)))
        seen.append(traits.of_kernels(compiled, next(iter(compiled.loops))))
    assert bool(seen[0] & seen[1] - {f"a conversion to {dtype}"}) is same


def test_sizes_that_stay_and_rare_dtypes_are_traits() -> None:
    assert set(traits.of_module(parse_module(PAIR.format(n=3)), {})) == {"an axis of 3", "f16"}
    assert not traits.of_module(parse_module(ADDED), {})
    wide = traits.of_module(parse_module(ADDED.replace("f32[2]", "f32[2, 2]")), {})
    assert set(wide) == {"more than 3 elements"}
    bound = ADDED.replace("{ func", "{ dims n in [1, 4] func").replace("f32[2]", "f32[n]")
    assert set(traits.of_module(parse_module(bound), {"n": 2})) == {"a symbolic size"}
