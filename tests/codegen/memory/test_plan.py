from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from didyma.codegen.memory import PLANNERS, peak, planner, unplanned_total
from didyma.codegen.memory.insert import Insertion
from didyma.codegen.memory.liveness import Life, Lives, Range
from didyma.codegen.memory.plan import plan
from didyma.codegen.memory.planners import LiveBuffer, linear_scan
from didyma.codegen.memory.sizes import FitProver
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.dims import Dim, DimVar, evaluate, floordiv, symbol
from didyma.refimpl.ir.dims.prover import Prover
from didyma.refimpl.ir.lines import operands
from didyma.refimpl.ir.program import (
    Allocate,
    Assert,
    Copy,
    Free,
    Launch,
    Line,
    Place,
    PlacementAllocate,
    Program,
    Return,
    Reuse,
    View,
)
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import DType, TensorType
from tests.codegen.memory.replay import Broken, bare_program, replay

F32 = DType.F32
SLOW = ("hill_climb", "canonical", "exact")


def corners(p: Program) -> list[dict[str, int]]:
    """Bindings at the ends of the ranges, and one between."""
    ends = [sorted({v.lo, (v.lo + v.hi) // 2, v.hi}) for v in p.dims]
    names = [v.name for v in p.dims]
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*ends)]


@pytest.mark.parametrize("name", sorted(PLANNERS))
def test_random_programs_keep_every_value(name: str) -> None:
    if name == "exact":
        pytest.importorskip("ortools", reason="the planner exact needs its extra")
    reused = symbolic = 0
    for seed in range(60 if name not in SLOW else 15):
        bare = bare_program(seed)
        p = plan(bare, planner(name))
        for env in corners(bare):
            replay(p, env)
            assert peak(p, env) <= unplanned_total(p, env)
        kinds = [type(line) for line in p.lines]
        reused += Reuse in kinds or PlacementAllocate in kinds or shares(p)
        symbolic += any(
            isinstance(line, PlacementAllocate) and not isinstance(p.type[line.over].nbytes, int)
            for line in p.lines
        )
        assert tuple(x for x in p.lines if isinstance(x, Launch | View | Return)) == bare.lines
    assert (reused > 3) == (name != "none")
    assert (symbolic > 0) == (name == "linear_scan")


def shares(p: Program) -> bool:
    """Tell whether an arena hands out a byte twice."""
    places = [(x.arena, x.offset) for x in p.lines if isinstance(x, Place)]
    return len(set(places)) < len(places)


@pytest.mark.parametrize("name", ["none", "linear_scan", "size_class"])
def test_buffers_in_one_place_are_never_alive_together(name: str) -> None:
    """Lifetimes are derived again, by closing over aliases until nothing changes."""
    for seed in range(300, 450):
        bare = bare_program(seed)
        p = plan(bare, planner(name))
        place: dict[str, str] = {}
        for line in p.lines:
            if isinstance(line, Allocate):
                place[line.value] = line.value
            elif isinstance(line, Reuse | PlacementAllocate):
                place[line.value] = place[line.over]
        alive = {v: lifetime(bare, v) for v in place}
        for a, b in itertools.combinations(place, 2):
            if place[a] == place[b]:
                assert max(alive[a]) < min(alive[b]) or max(alive[b]) < min(alive[a])


def lifetime(bare: Program, value: str) -> set[int]:
    names = {value}
    while True:
        more = {x.value for x in bare.lines if isinstance(x, View) and x.of in names} - names
        if not more:
            break
        names |= more
    found: set[int] = set()
    for i, line in enumerate(bare.lines):
        match line:
            case Launch(_, args) | Return(args):
                mentioned = set(args)
            case View(_, of):
                mentioned = {of}
            case _:
                raise AssertionError(line)
        if names & mentioned:
            found.add(i)
    return found


def program(
    *lines: Line, results: tuple[str, ...] = (), dims: tuple[DimVar, ...] = (), **types: TensorType
) -> Program:
    return Program("p", dims, ("x",), (), tuple(types.items()), (), (*lines, Return(results)))


def vec(*shape: object, dtype: DType = F32) -> TensorType:
    return TensorType(dtype, shape)  # type: ignore[arg-type]  # ints and sympy expressions alike


CHAIN = program(
    Launch("f", ("x", "a")),
    Launch("g", ("a", "b")),
    Launch("h", ("b", "c")),
    results=("c",),
    x=vec(64),
    a=vec(64),
    b=vec(64),
    c=vec(64),
)


def test_a_chain_needs_two_buffers() -> None:
    p = plan(CHAIN, planner("linear_scan"))
    assert p.lines == (
        Allocate("a"),
        Launch("f", ("x", "a")),
        Allocate("b"),
        Launch("g", ("a", "b")),
        Reuse("c", "a"),
        Launch("h", ("b", "c")),
        Free("b"),
        Return(("c",)),
    )
    assert (peak(p, {}), unplanned_total(p, {})) == (512, 768)


def test_none_holds_everything_to_the_end() -> None:
    p = plan(CHAIN, planner("none"))
    assert [x for x in p.lines if isinstance(x, Allocate | Free | Reuse)] == [
        Allocate("a"),
        Allocate("b"),
        Allocate("c"),
        Free("a"),
        Free("b"),
    ]
    assert peak(p, {}) == unplanned_total(p, {}) == 768


def test_the_peak_may_come_early() -> None:
    p = program(
        Allocate("a"),
        Free("a"),
        Allocate("b"),
        Free("b"),
        x=vec(64),
        a=vec(300),
        b=vec(1),
    )
    assert (peak(p, {}), unplanned_total(p, {})) == (1280, 1536)


def test_a_view_of_a_view_keeps_the_root_alive() -> None:
    bare = program(
        Launch("f", ("x", "a")),
        View("v", "a"),
        View("w", "v"),
        Launch("g", ("x", "b")),
        Launch("h", ("w", "b", "c")),
        results=("c",),
        x=vec(64),
        a=vec(64),
        v=vec(8, 8),
        w=vec(4, 16),
        b=vec(64),
        c=vec(64),
    )
    p = plan(bare, planner("linear_scan"))
    assert replay(p, {}) == 3


def test_a_result_reached_through_a_view_is_not_freed() -> None:
    bare = program(
        Launch("f", ("x", "a")),
        View("v", "a"),
        Launch("g", ("x", "b")),
        results=("v",),
        x=vec(64),
        a=vec(64),
        v=vec(8, 8),
        b=vec(64),
    )
    p = plan(bare, planner("linear_scan"))
    assert Free("a") not in p.lines
    assert Free("b") in p.lines
    assert replay(p, {}) == 2


def test_an_output_nobody_reads_shares_with_no_other_of_its_kernel() -> None:
    bare = program(
        Launch("f", ("x", "dead", "a")),
        Launch("g", ("a", "b")),
        results=("b",),
        x=vec(64),
        dead=vec(64),
        a=vec(64),
        b=vec(64),
    )
    p = plan(bare, planner("linear_scan"))
    assert Reuse("b", "dead") in p.lines
    assert replay(p, {}) == 2


def test_the_most_recently_freed_that_fits_is_taken() -> None:
    bare = program(
        Launch("f", ("x", "a", "b", "c")),
        Launch("g", ("a",)),
        Launch("g", ("b",)),
        Launch("g", ("c",)),
        Launch("h", ("d",)),
        results=("d",),
        x=vec(1),
        a=vec(64),
        b=vec(64),
        c=vec(16),
        d=vec(32),
    )
    p = plan(bare, planner("linear_scan"))
    assert PlacementAllocate("d", "b") in p.lines


def test_a_reused_allocation_keeps_its_first_size() -> None:
    """A large, then b small in its place, then c large again: c fits a's bytes, not b's."""
    bare = program(
        Launch("f", ("x", "a")),
        Launch("g", ("b",)),
        Launch("h", ("c",)),
        results=("c",),
        x=vec(1),
        a=vec(64),
        b=vec(2, dtype=DType.I8),
        c=vec(64),
    )
    p = plan(bare, planner("linear_scan"))
    assert PlacementAllocate("b", "a") in p.lines
    assert PlacementAllocate("c", "b") in p.lines
    assert peak(p, {}) == 256


def test_empty_buffers_give_no_room_and_need_none() -> None:
    bare = program(
        Launch("f", ("x", "a")),
        Launch("g", ("b",)),
        Launch("h", ("c",)),
        results=("c",),
        x=vec(1),
        a=vec(0),
        b=vec(64),
        c=vec(0, 5),
    )
    p = plan(bare, planner("linear_scan"))
    assert [x for x in p.lines if isinstance(x, Allocate)] == [Allocate("a"), Allocate("b")]
    assert peak(p, {}) == 256


n, m = symbol("n"), symbol("m")


@pytest.mark.parametrize(
    ("held", "wanted", "shared"),
    [
        (vec(n), vec(n, dtype=DType.I32), True),
        (vec(n), vec(m), False),
        (vec(2 * n + 1), vec(2 * n), True),
        (vec(2 * n), vec(2 * n + 1), False),
        (vec(n, m), vec(n), False),  # m may be 0
        (vec(n, m + 1), vec(n), True),
        (vec(40), vec(n), True),  # n is at most 40
        (vec(39), vec(n), False),
        (vec(n), vec(0), True),
    ],
)
def test_symbolic_sizes_share_when_proven(
    held: TensorType, wanted: TensorType, shared: bool
) -> None:
    dims = (DimVar("n", 0, 40), DimVar("m", 0, 8))
    bare = program(
        Launch("f", ("x", "a")),
        Launch("g", ("x", "b")),
        results=("b",),
        dims=dims,
        x=vec(1),
        a=held,
        b=wanted,
    )
    p = plan(bare, planner("linear_scan"))
    assert any(isinstance(x, Reuse | PlacementAllocate) for x in p.lines) == shared
    for env in corners(p):
        replay(p, env)


def test_proofs_hold_at_every_point_of_small_ranges() -> None:
    exprs: list[Dim] = [
        n,
        m,
        n * m,
        n + m,
        n * n,
        2 * n,
        3 * m + 1,
        n * m + n,
        n + m + 5,
        floordiv(n, 2),
    ]
    ranges = {"n": (1, 4), "m": (0, 5)}
    proven = 0
    for a, b in itertools.product(exprs, exprs):
        if Prover(ranges).at_least(a, b):
            proven += 1
            for x, y in itertools.product(range(1, 5), range(6)):
                env = {"n": x, "m": y}
                assert evaluate(a, env) >= evaluate(b, env), (a, b, env)
    assert proven > 20


def test_devices_do_not_share() -> None:
    bare = program(
        Launch("f", ("x", "a")),
        Launch("g", ("x", "b")),
        results=("b",),
        x=vec(1),
        a=TensorType(F32, (64,), "cuda:0"),
        b=TensorType(F32, (64,), "cuda:1"),
    )
    assert replay(plan(bare, planner("linear_scan")), {}) == 2


def test_an_unknown_planner_is_refused_with_the_names() -> None:
    with pytest.raises(DidymaError, match="linear_scan, none, size_class"):
        planner("best")


def ends_early(bare: Program, lives: Lives, name: str) -> Life:
    del bare
    life = lives.of[name]
    end = max(life.live.start, life.live.end - 1)
    return replace(life, live=Range(life.live.start, end), last=end)


def ignores_views(bare: Program, lives: Lives, name: str) -> Life:
    at = [i for i, x in enumerate(bare.lines) if name in operands(x)]
    return replace(lives.of[name], live=Range(at[0], at[-1]), first=at[0], last=at[-1])


def forgets_results(bare: Program, lives: Lives, name: str) -> Life:
    life = lives.of[name]
    end = max(life.live.start, min(life.live.end, len(bare.lines) - 2))
    return replace(life, live=Range(life.live.start, end), last=end)


@pytest.mark.parametrize("mutant", [ends_early, ignores_views, forgets_results])
def test_the_replay_sees_broken_plans(mutant: Callable[[Program, Lives, str], Life]) -> None:
    seen = 0
    for seed in range(100):
        bare = bare_program(seed)
        lives = Lives(bare.lines, bare.inputs)
        lives.of = {name: mutant(bare, lives, name) for name in lives.of}
        buffers = [LiveBuffer(name, bare.type[name], life.live) for name, life in lives.of.items()]
        out = Insertion(bare, lives)
        sizes = FitProver({v.name: (v.lo, v.hi) for v in bare.dims})
        out.whole([b.name for b in buffers], linear_scan(buffers, sizes))
        try:
            replay(out.run(), corners(bare)[-1])
        except Broken:
            seen += 1
    assert seen >= 10


def test_sizes_answers_are_remembered() -> None:
    sizes = FitProver({"n": (0, 4)})
    assert sizes.fits(vec(n), vec(n + 1))
    assert not sizes.fits(vec(n + 1), vec(n))


def test_copies_are_uses() -> None:
    bare = program(
        Launch("f", ("x", "a")),
        Launch("g", ("x", "b")),
        Copy("c", "a"),
        results=("a", "b", "c"),
        x=vec(64),
        a=vec(64),
        b=vec(64),
        c=vec(64),
    )
    assert replay(plan(bare, planner("linear_scan")), {}) == 3


@pytest.mark.parametrize(("name", "most"), [("size_class", 2048), ("linear_scan", 2048)])
def test_open_sizes_keep_a_capacity_in_whole_allocations(name: str, most: int) -> None:
    m = parse_module("""
      module {
        dims n in [1, 1000]
        func @main(%x: f32[n]) -> (%c) {
          %a = cumulative_sum(%x, axis=0, exclusive=false, reverse=false) : f32[n]
          %b = cumulative_sum(%a, axis=0, exclusive=true, reverse=false) : f32[n]
          %c = max(%b, axes=(0,), keepdims=false) : f32[]
        }
      }""")
    p = compile(m, Options(), until="plan").program
    assert not [x for x in p.lines if isinstance(x, Assert)]
    options = Options().changed({"memory.capacity": most, "memory.planner": name})
    p = compile(m, options, until="plan").program
    (within,) = (x for x in p.lines if isinstance(x, Assert))
    assert within.message == f"memory is within {most} bytes"
    for n in (1, 64, 250, 251, 1000):
        kept = evaluate(within.lhs, {"n": n}) == most
        assert kept == (peak(p, {"n": n}) <= most)


def test_a_capacity_holds_what_called_functions_of_open_sizes_take_beside() -> None:
    m = parse_module("""
      module {
        dims n in [0, 3], m in [2, 3]
        func @folded(%a: f32[n, m]) -> (%c) attrs(NoInline=1) {
          %b = cumulative_sum(%a, axis=1, exclusive=false, reverse=false) : f32[n, m]
          %c = cumulative_sum(%b, axis=1, exclusive=false, reverse=false) : f32[n, m]
        }
        func @main(%x: f32[n, m]) -> (%z) {
          %y = cumulative_sum(%x, axis=0, exclusive=false, reverse=true) : f32[n, m]
          %z = call @folded(%y) : f32[n, m]
        }
      }""")
    free = compile(m, Options(), until="plan").program
    most = peak(free, {"n": 3, "m": 3})
    for capacity, refused in ((most, False), (most - 256, True)):
        options = Options().changed({"memory.capacity": capacity})
        p = compile(m, options, until="plan").program
        asserted = [x for x in p.lines if isinstance(x, Assert)]
        assert bool(asserted) == refused
        for x in asserted:
            assert evaluate(x.lhs, {"n": 0, "m": 2}) == capacity
            assert evaluate(x.lhs, {"n": 3, "m": 3}) == most


def test_open_sizes_keep_a_capacity_where_results_are_in_place() -> None:
    m = parse_module("""
      module {
        dims n in [1, 1000]
        func @main(%x: f32[n]) -> (%c) {
          %a = cumulative_sum(%x, axis=0, exclusive=false, reverse=false) : f32[n]
          %b = square(%a) : f32[n]
          %c = max(%b, axes=(0,), keepdims=false) : f32[]
        }
      }""")
    options = Options().changed({"memory.capacity": 2048, "graph.fuse": False})
    p = compile(m, options, until="plan").program
    assert any(x.inplace for x in p.lines if isinstance(x, Launch))
    (within,) = (x for x in p.lines if isinstance(x, Assert))
    assert within.message == "memory is within 2048 bytes"
