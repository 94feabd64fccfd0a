"""Lives over loops, branches and streams, and what comes with bytes of its own."""

from __future__ import annotations

from itertools import combinations

from didyma.codegen.memory import planner
from didyma.codegen.memory.liveness import Lives, Range
from didyma.codegen.memory.plan import plan
from didyma.codegen.memory.values import bound, values_of
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.program import (
    Allocate,
    Arena,
    Bind,
    Carry,
    Copy,
    Extern,
    Free,
    If,
    Launch,
    Line,
    Place,
    Program,
    Repeat,
    Return,
    View,
    Wait,
    While,
)
from didyma.refimpl.ir.types import DType, TensorType


def run(*args: str, stream: int = 0) -> Launch:
    return Launch("k", args, stream)


def overlap(a: Range, b: Range) -> bool:
    return a.start <= b.end and b.start <= a.end


def together(*lines: Line) -> set[str]:
    """Pairs of buffers that may not share bytes."""
    of = Lives((*lines, Return(("out",))), ["x"]).of
    return {f"{a} {b}" for a, b in combinations(sorted(of), 2) if overlap(of[a].live, of[b].live)}


def test_what_a_loop_reads_is_alive_all_through_it() -> None:
    inner = (run("a", "b"), run("b", "c"), run("c", "s"))
    found = together(run("x", "a"), Repeat("i", 3, inner), run("s", "out"))
    # b and the last value of the body share no line; a and s outlive every turn
    assert found == {"a b", "a c", "a s", "b c", "b s", "c s", "out s"}


def test_locals_of_a_body_share_with_each_other_and_with_what_is_dead() -> None:
    body = (run("x", "b"), run("b", "c"), run("c", "d"), run("d", "s"))
    found = together(
        run("x", "a"), run("a", "s"), Repeat("i", 3, body), run("s", "e"), run("e", "out")
    )
    assert not {"a b", "b d", "a e", "b e", "d e"} & found
    assert {"b s", "c s", "d s", "a s"} <= found


def test_nested_loops_lengthen_to_the_outermost_that_is_inside_the_home() -> None:
    deep = Repeat("j", 2, (run("a", "b"), run("b", "t")))
    outer = Repeat("i", 2, (run("x", "a"), deep, run("t", "u"), run("u", "s")))
    lives = Lives((outer, run("s", "out"), Return(("out",))), ["x"])
    assert {n: life.block for n, life in lives.of.items()} == {
        "a": 1, "b": 2, "t": 1, "u": 1, "s": 0, "out": 0,
    }  # fmt: skip
    assert overlap(lives.of["a"].live, lives.of["t"].live)
    assert not overlap(lives.of["a"].live, lives.of["u"].live)
    assert not overlap(lives.of["b"].live, lives.of["u"].live)


def test_branches_share() -> None:
    choice = If("c", (run("x", "a"), run("a", "r")), (run("x", "b"), run("b", "r")))
    found = together(run("x", "c"), choice, run("r", "out"))
    assert "a b" not in found
    assert {"a r", "b r", "a c"} <= found


def test_a_while_keeps_what_its_test_reads() -> None:
    loop = While((run("s", "c"),), "c", (run("s", "n"), Copy("s", "n")))
    found = together(run("x", "a"), run("a", "s"), loop, run("s", "out"))
    assert {"c s", "n s", "c n"} <= found
    assert not {"a n", "a c"} & found


def test_views_of_parts_and_of_views_keep_the_whole() -> None:
    lines = (run("x", "a"), View("v", "a", 64), View("w", "v", 64), run("x", "b"), run("w", "out"))
    assert "a b" in together(*lines)


def test_bytes_pass_between_streams_after_a_wait_alone() -> None:
    first = (run("x", "a"), Wait(1, 0), run("a", "b", stream=1))
    last = (run("x", "c"), run("b", "c", "out"))
    assert "a c" not in together(*first, Wait(0, 1), *last)
    assert "a c" in together(*first, *last)
    assert "a c" in together(first[0], Wait(0, 1), *first[1:], *last)
    assert "a c" in together(*first, If("x", (Wait(0, 1),), ()), *last)


F32, I64 = DType.F32, DType.I64
U = symbol("u")


def program(*lines: Line, **types: TensorType) -> Program:
    given = {"x": TensorType(F32, (64,)), "out": TensorType(F32, (64,)), **types}
    return Program(
        "p", (DimVar("u", 0, 64),), ("x",), (), tuple(given.items()), (), (*lines, Return(("out",)))
    )


def test_whole_allocations_are_freed_once_other_streams_are_waited_for() -> None:
    lines = (run("x", "a"), run("a", "b", stream=1), run("x", "c"), run("c", "out"))
    values = values_of(program(*lines, **dict.fromkeys("abc", TensorType(F32, (64,)))))
    # in an arena a and b are in use to the end, for nothing waits for their stream
    assert bound(values, whole=False) == 4 * 256
    assert bound(values, whole=True) == 2 * 256


def test_what_has_no_size_yet_is_allocated_where_it_is_first_used() -> None:
    p = program(
        run("x", "n"), Bind("u", "n"), run("x", "v"), run("v", "out"),
        n=TensorType(I64, ()), v=TensorType(F32, (U,)),
    )  # fmt: skip
    lines = plan(p, planner("didyma")).lines
    assert lines.index(Bind("u", "n")) < lines.index(Allocate("v")) < lines.index(Free("v"))
    assert [x.value for x in lines if isinstance(x, Place)] == ["n", "out"]


def test_what_a_routine_allocates_is_only_freed() -> None:
    whole = TensorType(F32, (64,))
    p = program(Extern("f", ("a", "b"), ("x",), (), ("a",)), run("a", "b", "out"), a=whole, b=whole)
    lines = plan(p, planner("greedy_by_size")).lines
    assert Free("a") in lines
    assert sorted(x.value for x in lines if isinstance(x, Place)) == ["b", "out"]
    assert Allocate("a") not in lines


def test_what_grows_is_handed_on_and_freed_once() -> None:
    grown = TensorType(F32, (U,))
    body = (run("s", "t"), Carry((("s", "t"),), (("u", U + 1),)))
    p = program(
        Carry((), (("u", 1),)), run("x", "s"), Repeat("i", 3, body), run("s", "out"),
        s=grown, t=TensorType(F32, (U + 1,)),
    )  # fmt: skip
    assert values_of(p).alone == ("s", "t")
    planned = plan(p, planner("didyma"))
    (loop,) = (x for x in planned.lines if isinstance(x, Repeat))
    assert loop.body == (Allocate("t"), *body)
    assert planned.lines.count(Free("s")) == 1


def test_bodies_lie_in_the_arena_of_the_program() -> None:
    whole = TensorType(F32, (64,))
    body = (run("x", "a"), run("a", "b"), run("b", "s"))
    p = program(run("x", "s"), Repeat("i", 3, body), run("s", "out"), a=whole, b=whole, s=whole)
    planned = plan(p, planner("didyma"))
    (arena,) = (x for x in planned.lines if isinstance(x, Arena))
    assert arena.nbytes == 3 * 256
    assert arena.stack
    (loop,) = (x for x in planned.lines if isinstance(x, Repeat))
    assert not any(isinstance(x, Allocate) for x in (*planned.lines, *loop.body))
    whole_buffers = plan(p, planner("linear_scan"))
    (loop,) = (x for x in whole_buffers.lines if isinstance(x, Repeat))
    assert {Allocate("a"), Free("b")} <= set(loop.body)


def test_each_device_has_an_arena() -> None:
    a, b = TensorType(F32, (64,), "cuda:0"), TensorType(F32, (64,), "cuda:1")
    p = program(run("x", "a"), run("x", "b"), run("a", "b", "out"), a=a, b=b)
    arenas = [x for x in plan(p, planner("didyma")).lines if isinstance(x, Arena)]
    assert {x.device for x in arenas} == {"", "cuda:0", "cuda:1"}
