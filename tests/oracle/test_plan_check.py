"""The plan checker on plans that are known to be good or bad: it must not be fooled either way."""

from __future__ import annotations

import pytest

from oracle.plan_check import check
from refimpl.ir.dims import DimVar, symbol
from refimpl.ir.loop import Block, Buffer, PrimFunc
from refimpl.ir.program import (
    Allocate,
    Copy,
    Free,
    Launch,
    Line,
    PlacementAllocate,
    Program,
    Return,
    Reuse,
    View,
)
from refimpl.ir.types import DType, TensorType

F32 = DType.F32
N = symbol("n")


def kernel(name: str, inputs: int, outputs: int) -> PrimFunc:
    ins = tuple(Buffer(f"x{i}", F32, (4,)) for i in range(inputs))
    outs = tuple(Buffer(f"y{i}", F32, (4,)) for i in range(outputs))
    return PrimFunc(name, (*ins, *outs), tuple(b.name for b in outs), Block(()))


def program(*lines: Line, sizes: dict[str, int] | None = None) -> Program:
    names = {"x": 4, "a": 4, "b": 4, "c": 4, "v": 4} | (sizes or {})
    types = tuple((v, TensorType(F32, (n,))) for v, n in names.items())
    kernels = (kernel("one", 1, 1), kernel("two", 2, 1))
    return Program("p", (), ("x",), (), types, kernels, lines)


def kinds(p: Program) -> list[str]:
    return [e.kind for e in check(p, {})]


CHAIN = (Allocate("a"), Launch("one", ("x", "a")), Allocate("b"), Launch("one", ("a", "b")))

GOOD = {
    "a chain": (*CHAIN, Free("a"), Return(("b",))),
    "nothing freed": (*CHAIN, Return(("b",))),
    "an input returned": (Return(("x",)),),
    "reuse of a dead value": (*CHAIN, Reuse("c", "a"), Launch("one", ("b", "c")), Return(("c",))),
    "a view read": (
        Allocate("a"), Launch("one", ("x", "a")), View("v", "a"), Allocate("b"),
        Launch("one", ("v", "b")), Free("a"), Return(("b",)),
    ),
    "a copy": (Allocate("a"), Copy("a", "x"), Return(("a",))),
}  # fmt: skip

BAD: dict[str, tuple[str, tuple[Line, ...]]] = {
    "freed early": (
        "not-allocated",
        (Allocate("a"), Launch("one", ("x", "a")), Free("a"), Allocate("b"),
         Launch("one", ("a", "b")), Return(("b",))),
    ),
    "reused early": (
        "lost-value",
        (Allocate("a"), Launch("one", ("x", "a")), View("v", "a"), Reuse("b", "a"),
         Launch("one", ("x", "b")), Launch("one", ("v", "b")), Return(("b",))),
    ),
    "read before written": ("lost-value", (Allocate("a"), Return(("a",)))),
    "freed twice": ("double-free", (Allocate("a"), Free("a"), Free("a"), Return(("x",)))),
    "an input written": ("read-only", (Launch("one", ("x", "x")), Return(("x",)))),
    "an input freed": ("read-only", (Free("x"), Return(()))),
    "an input taken over": ("read-only", (Reuse("a", "x"), Return(()))),
    "an output over its input": (
        "overlap",
        (Allocate("a"), Launch("one", ("x", "a")), View("v", "a"), Launch("one", ("a", "v")),
         Return(("v",))),
    ),
    "result lost": (
        "lost-value",
        (*CHAIN, View("v", "b"), Reuse("c", "b"), Launch("one", ("x", "c")), Return(("v",))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_good_plans_pass(name: str) -> None:
    assert kinds(program(*GOOD[name])) == []


@pytest.mark.parametrize("name", BAD)
def test_bad_plans_are_named(name: str) -> None:
    kind, lines = BAD[name]
    assert kind in kinds(program(*lines))


def test_a_placement_must_fit() -> None:
    lines = (*CHAIN, PlacementAllocate("c", "a"), Return(("b",)))
    assert kinds(program(*lines)) == []
    assert "out-of-bounds" in kinds(program(*lines, sizes={"c": 5}))


def test_two_values_in_one_allocation_do_not_disturb_each_other() -> None:
    lines = (
        Allocate("a"), Launch("one", ("x", "a")), PlacementAllocate("b", "a", 0),
        Launch("one", ("x", "b")), Return(("b",)),
    )  # fmt: skip
    assert kinds(program(*lines, sizes={"a": 16})) == []


def test_sizes_are_those_of_the_binding() -> None:
    types = (
        ("x", TensorType(F32, (N,))),
        ("a", TensorType(F32, (N,))),
        ("c", TensorType(F32, (4,))),
    )
    k = PrimFunc("one", (Buffer("x0", F32, (N,)), Buffer("y0", F32, (N,))), ("y0",), Block(()))
    lines = (Allocate("a"), Launch("one", ("x", "a")), PlacementAllocate("c", "a"), Return(()))
    p = Program("p", (DimVar("n", 1, 8),), ("x",), (), types, (k,), lines)
    assert [e.kind for e in check(p, {"n": 4})] == []
    assert [e.kind for e in check(p, {"n": 3})] == ["out-of-bounds"]
