"""The plan checker on plans that are known to be good or bad: it must not be fooled either way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from didyma.oracle.plan_check import check, replay
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.expr import index
from didyma.refimpl.ir.loop import Block, Buffer, For, Load, LoopKind, PrimFunc, Store, Var
from didyma.refimpl.ir.program import (
    Allocate,
    Arena,
    Call,
    Carry,
    Copy,
    Extern,
    Free,
    If,
    Launch,
    Line,
    Place,
    PlacementAllocate,
    Program,
    Repeat,
    Return,
    Reuse,
    View,
    Wait,
    While,
)
from didyma.refimpl.ir.types import DType, TensorType

F32 = DType.F32
N = symbol("n")


def kernel(name: str, inputs: int, outputs: int) -> PrimFunc:
    ins = tuple(Buffer(f"x{i}", F32, (4,)) for i in range(inputs))
    outs = tuple(Buffer(f"y{i}", F32, (4,)) for i in range(outputs))
    return PrimFunc(name, (*ins, *outs), tuple(b.name for b in outs), Block(()))


def program(*lines: Line, sizes: dict[str, int] | None = None) -> Program:
    names = dict.fromkeys("xabcdv", 4) | {"r": 1, "l": 400} | (sizes or {})
    types = [(v, TensorType(F32, (n,))) for v, n in names.items()]
    types += [("t", TensorType(DType.BOOL)), ("s", TensorType(DType.BOOL))]
    types += [("far", TensorType(F32, (4,), "cuda:1"))]
    kernels = (kernel("one", 1, 1), kernel("two", 2, 1), kernel("test", 1, 1), MORE)
    return Program("p", (), ("x", "t"), (), tuple(types), kernels, lines)


INDEX = Var("i")
MORE = PrimFunc(
    "more", (Buffer("x0", F32, (4,)), Buffer("y0", F32, (4,))), ("y0",),
    For(INDEX, index(4), Store("y0", (INDEX,), Load("y0", (INDEX,), F32)), LoopKind.PARALLEL),
)  # fmt: skip


def kinds(p: Program) -> list[str]:
    return [e.kind for e in check(p, {})]


CHAIN = (Allocate("a"), Launch("one", ("x", "a")), Allocate("b"), Launch("one", ("a", "b")))

GOOD = {
    "a chain": (*CHAIN, Free("a"), Return(("b",))),
    "an input returned": (Return(("x",)),),
    "reuse of a dead value": (
        *CHAIN, Reuse("c", "a"), Launch("one", ("b", "c")), Free("b"), Return(("c",)),
    ),
    "a view read": (
        Allocate("a"), Launch("one", ("x", "a")), View("v", "a"), Allocate("b"),
        Launch("one", ("v", "b")), Free("a"), Return(("b",)),
    ),
    "a copy": (Allocate("a"), Copy("a", "x"), Return(("a",))),
    "in place": (
        Allocate("a"), Launch("one", ("x", "a")), Launch("one", ("a", "b"), inplace=(("b", "a"),)),
        Return(("b",)),
    ),
    "an arena": (
        Arena("m", 272), Place("a", "m", 256), Launch("one", ("x", "a")), Place("b", "m", 0),
        Launch("one", ("a", "b")), Free("a"), Place("c", "m", 256), Launch("one", ("b", "c")),
        Allocate("d"), Copy("d", "c"), Free("b"), Free("c"), Return(("d",)),
    ),
    "returned from an arena": (
        Arena("m", 16), Place("a", "m", 0), Launch("one", ("x", "a")), Return(("a",)),
    ),
    "a whole written in parts": (
        Allocate("d"), View("v", "d"), Launch("one", ("x", "v")), Allocate("b"),
        Launch("one", ("d", "b")), Free("d"), Return(("b",)),
    ),
    "a branch": (
        Allocate("a"), If("t", (Launch("one", ("x", "a")),), (Copy("a", "x"),)), Return(("a",)),
    ),
    "a loop": (
        Allocate("a"), Copy("a", "x"), Allocate("s"),
        While(
            (Launch("test", ("a", "s")),), "s",
            (Allocate("b"), Launch("one", ("a", "b")), Copy("a", "b"), Free("b")),
        ),
        Free("s"), Return(("a",)),
    ),
    "a loop in a branch": (
        Allocate("a"), Copy("a", "x"),
        If("t", (
            Allocate("s"),
            While((Launch("test", ("a", "s")),), "s", (Launch("one", ("x", "a")),)),
            Free("s"),
        ), ()),
        Return(("a",)),
    ),
    "rounds": (
        Allocate("a"), Copy("a", "x"),
        Repeat("i", 3, (Allocate("b"), Launch("one", ("a", "b")), Carry((("a", "b"),), ()))),
        Return(("a",)),
    ),
    "rows of a whole": (
        Allocate("a"),
        Repeat("i", 4, (View("r", "a", 4 * symbol("i")), Launch("one", ("x", "r")))),
        Return(("a",)),
    ),
    "rows of a large whole": (
        Allocate("l"),
        Repeat("i", 400, (View("r", "l", 4 * symbol("i")), Launch("one", ("x", "r")))),
        Return(("l",)),
    ),
    "a test's own memory": (
        Allocate("a"), Copy("a", "x"), Allocate("s"),
        While((Allocate("b"), Launch("one", ("a", "b")), Launch("test", ("b", "s")), Free("b")),
              "s", (Copy("a", "x"),)),
        Free("s"), Return(("a",)),
    ),
    "another stream, waited for": (
        Allocate("a"), Launch("one", ("x", "a"), stream=1), Wait(0, 1), Allocate("b"),
        Launch("one", ("a", "b")), Free("a"), Return(("b",)),
    ),
    "an output of the routine's own": (
        Extern("f", ("a",), ("x",), allocates=("a",)), Return(("a",)),
    ),
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
    "read before written": ("unwritten", (Allocate("a"), Return(("a",)))),
    "made again in each test": (
        "double-allocation",
        (Allocate("a"), Copy("a", "x"),
         While((Allocate("s"), Launch("test", ("a", "s"))), "s", (Copy("a", "x"),)),
         Free("s"), Return(("a",))),
    ),
    "never freed": ("leak", (*CHAIN, Return(("b",)))),
    "a view freed": (
        "not-owner", (Allocate("a"), Launch("one", ("x", "a")), View("v", "a"), Free("v"),
                      Return(("a",))),
    ),
    "allocated again": (
        "double-allocation",
        (Allocate("a"), Launch("one", ("x", "a")), Free("a"), Allocate("a"), Return(("a",))),
    ),
    "an old element read before any was written": (
        "unwritten", (Allocate("a"), Launch("more", ("x", "a")), Return(("a",))),
    ),
    "another device's bytes": (
        "device", (*CHAIN, PlacementAllocate("far", "a"), Free("far"), Return(("b",))),
    ),
    "off the alignment": (
        "misaligned",
        (Arena("m", 512), Place("a", "m", 4), Launch("one", ("x", "a")), Free("a"), Return(())),
    ),
    "placed onto another": (
        "lost-value",
        (Arena("m", 512), Place("a", "m", 0), Launch("one", ("x", "a")), Place("b", "m", 0),
         Launch("one", ("a", "b")), Return(())),
    ),
    "beyond the arena": (
        "out-of-bounds", (Arena("m", 15), Place("a", "m", 0), Free("a"), Return(())),
    ),
    "returned with another's bytes": (
        "overlap",
        (Allocate("a"), Launch("one", ("x", "a")), View("v", "a"), Return(("a", "v"))),
    ),
    "carried on from an arena": (
        "escape",
        (Arena("m", 16), Place("b", "m", 0), Launch("one", ("x", "b")), Carry((("a", "b"),), ()),
         Return(("a",))),
    ),
    "in place of what is read again": (
        "not-allocated",
        (Allocate("a"), Launch("one", ("x", "a")), Launch("one", ("a", "b"), inplace=(("b", "a"),)),
         Allocate("c"), Launch("one", ("a", "c")), Free("b"), Return(("c",))),
    ),
    "in place of what a view reads": (
        "overlap",
        (Allocate("a"), Launch("one", ("x", "a")), View("v", "a"),
         Launch("two", ("a", "v", "b"), inplace=(("b", "a"),)), Return(("b",))),
    ),
    "freed on one way": (
        "branches",
        (Allocate("a"), Launch("one", ("x", "a")), If("t", (Free("a"),), ()), Return(("a",))),
    ),
    "clobbered on one way": (
        "lost-value",
        (Arena("m", 16), Place("a", "m", 0), Launch("one", ("x", "a")), Allocate("b"),
         If("t", (Place("c", "m", 0), Launch("one", ("x", "c")), Free("c")), ()),
         Launch("one", ("a", "b")), Return(("b",))),
    ),
    "clobbered for the next round": (
        "lost-value",
        (Allocate("b"), Arena("m", 16), Place("a", "m", 0), Launch("one", ("x", "a")),
         Repeat("i", 2, (Launch("one", ("a", "b")), Place("c", "m", 0), Launch("one", ("x", "c")),
                         Free("c"))),
         Return(("b",))),
    ),
    "freed for the next test": (
        "not-allocated",
        (Allocate("s"), Allocate("a"), Launch("one", ("x", "a")),
         While((Launch("test", ("a", "s")),), "s", (Free("a"),)), Free("s"), Return(())),
    ),
    "read without a wait": (
        "race",
        (Allocate("a"), Launch("one", ("x", "a"), stream=1), Allocate("b"),
         Launch("one", ("a", "b")), Free("a"), Return(("b",))),
    ),
    "carried and read": (
        "not-allocated",
        (Allocate("a"), Launch("one", ("x", "a")), Allocate("b"), Launch("one", ("a", "b")),
         Carry((("a", "b"),), ()), Allocate("c"), Launch("two", ("a", "b", "c")), Free("a"),
         Return(("c",))),
    ),
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
    lines = (*CHAIN, PlacementAllocate("c", "a"), Free("c"), Return(("b",)))
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
    lines = (
        Allocate("a"), Launch("one", ("x", "a")), PlacementAllocate("c", "a"), Free("c"),
        Return(()),
    )  # fmt: skip
    p = Program("p", (DimVar("n", 1, 8),), ("x",), (), types, (k,), lines)
    assert [e.kind for e in check(p, {"n": 4})] == []
    assert [e.kind for e in check(p, {"n": 3})] == ["out-of-bounds"]


def calling(*body: Line, lines: tuple[Line, ...] = ()) -> Program:
    """A program with a function of input x and output y: f32[m], m being the caller's."""
    types = tuple((v, TensorType(F32, (symbol("m"),))) for v in "xyz")
    f = Program(
        "f", (DimVar("m", 1, 99),), ("x",), (), types, (), (*body, Return(())), outputs=("y",)
    )
    called = Call("f", ("a",), ("x",))
    p = program(*(lines or (Allocate("a"), called, Return(("a",)))))
    return replace(p, functions=(f,), dims=(DimVar("m", 1, 99),))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("", (Copy("y", "x"),)),
        ("", (Allocate("z"), Copy("z", "x"), Copy("y", "z"), Free("z"))),
        ("unwritten", ()),
        ("read-only", (Copy("y", "x"), Copy("x", "y"))),
        ("read-only", (Copy("y", "x"), Free("y"))),
        ("leak", (Copy("y", "x"), Allocate("z"))),
        ("double-allocation", (Copy("y", "x"), Allocate("y"))),
        ("not-allocated", (Copy("y", "z"),)),
    ],
)
def test_functions_are_judged_where_they_are_called(kind: str, body: tuple[Line, ...]) -> None:
    found = check(calling(*body), {"m": 4})
    assert [e.kind for e in found[:1]] == [kind] * bool(kind)
    assert all(e.message.startswith("in @f, line ") and e.step == 1 for e in found)


def test_what_a_call_touches_is_judged() -> None:
    call = Call("f", ("a",), ("b",))
    apart = (Allocate("a"), Allocate("b"), call, Free("b"), Return(("a",)))
    assert [e.kind for e in check(calling(Copy("y", "x"), lines=apart), {"m": 4})] == ["unwritten"]
    same = (Allocate("b"), Copy("b", "x"), View("a", "b"), call, Return(("b",)))
    assert [e.kind for e in check(calling(Copy("y", "x"), lines=same), {"m": 4})] == ["overlap"]


def test_a_function_takes_its_peak_beside_what_is_there() -> None:
    p = calling(Allocate("z"), Copy("z", "x"), Copy("y", "z"), Free("z"))
    assert replay(p, {"m": 4}).peak == 512
    assert replay(p, {"m": 99}).peak == 768
