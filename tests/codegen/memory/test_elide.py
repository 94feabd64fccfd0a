"""Copies that go, copies that stay; every plan is judged and run."""

from __future__ import annotations

from random import Random
from unittest import mock

import pytest

from didyma.codegen.memory import peak, planner
from didyma.codegen.memory import plan as planning
from didyma.codegen.memory.plan import plan
from didyma.fuzz.allocator import kernels
from didyma.fuzz.allocator.domains import every
from didyma.fuzz.allocator.judge import bindings
from didyma.fuzz.allocator.kernels import At, Read
from didyma.fuzz.allocator.maker import Maker
from didyma.fuzz.allocator.programs import mixed, program
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import Carry, Copy, Launch, Line, Program, Repeat, Return, View
from didyma.refimpl.ir.types import DType, TensorType

T = TensorType(DType.I32, (64,))
PLANNERS = ("didyma", "linear_scan", "greedy_by_size", "size_class")


def left(bare: Program) -> int:
    """Copies that every planner's program keeps; all of them are judged and run."""
    found: set[int] = set()
    for name in PLANNERS:
        planned = plan(bare, planner(name))
        assert every(bare, planned, 0, run=True) == []
        found.add(sum(isinstance(x, Copy) for x in walk(planned.lines)))
    (count,) = found
    return count


def one(m: Maker, *reads: str) -> str:
    """Launch a kernel that reads values, shifted, so that nothing is in place."""
    return m.launch([(r, At.SHIFTED) for r in reads], [T])[0]


def test_a_copy_of_what_dies_is_its_source() -> None:
    m = Maker()
    a = one(m, m.input(T))
    c = m.copy(a)
    m.update(c, [])
    bare = m.finish([one(m, c)])
    assert left(bare) == 0
    assert peak(plan(bare, planner("didyma")), {}) == 512


def test_a_copy_of_what_is_read_on_stays_where_one_of_them_changes() -> None:
    for changed in (0, 1):
        m = Maker()
        a = one(m, m.input(T))
        both = (a, m.copy(a))
        m.update(both[changed], [])
        assert left(m.finish([one(m, *both)])) == 1


def test_a_copy_that_nobody_changes_is_its_source() -> None:
    m = Maker()
    a = one(m, m.input(T))
    c = m.copy(a)
    assert left(m.finish([one(m, a, c), one(m, c)])) == 0


def test_an_input_is_never_written_nor_returned() -> None:
    m = Maker()
    x = m.input(T)
    only_read, written, returned = m.copy(x), m.copy(x), m.copy(x)
    m.update(written, [])
    assert left(m.finish([one(m, only_read, written), returned])) == 2


def test_a_value_returned_twice_is_copied() -> None:
    m = Maker()
    a = one(m, m.input(T))
    assert left(m.finish([a, a])) == 1


def test_a_copy_of_a_view_is_one_of_the_whole_too() -> None:
    m = Maker()
    a = one(m, m.input(T))
    v = m.view(m.view(a, TensorType(DType.I32, (8, 8))), T)
    c = m.copy(v)
    m.update(c, [])
    assert left(m.finish([c])) == 0


def test_a_part_that_would_keep_much_alive_is_copied() -> None:
    wide = TensorType(DType.I32, (4096,))
    m = Maker()
    x = m.input(T)
    (a,) = m.launch([(x, At.SHIFTED)], [wide])
    c = m.copy(m.view(a, T, 256))
    (b,) = m.launch([(x, At.SHIFTED)], [wide])
    assert left(m.finish([one(m, b), one(m, c)])) == 1


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_what_a_loop_carries_is_made_where_it_is_kept(rounds: int) -> None:
    m = Maker()
    a = one(m, m.input(T))
    (state,) = m.begin_while([a], rounds)
    m.update(state, [])
    one(m)  # made while nobody reads the state: it is written over it
    m.end()
    assert left(m.finish([state])) == 0


def test_what_a_loop_reads_until_the_end_of_a_round_is_not_written_over() -> None:
    m = Maker()
    a = one(m, m.input(T))
    (state,) = m.begin_while([a], 2)
    one(m, state)
    m.end()
    assert left(m.finish([state])) == 1


def test_a_loop_starts_from_a_copy_where_its_start_is_read_again() -> None:
    m = Maker()
    a = one(m, m.input(T))
    (state,) = m.begin_while([a], 2)
    m.update(state, [])
    m.end()
    assert left(m.finish([one(m, a, state)])) >= 1


def test_both_sides_of_a_branch_write_its_result() -> None:
    m = Maker()
    x = m.input(T)
    m.begin_if(x, [T], 2)
    one(m, x)
    m.begin_else()
    one(m, one(m, x))
    m.end()
    (result,) = m.known()[-1:]
    assert left(m.finish([result])) == 0


def test_a_value_of_an_outer_block_is_not_a_branchs_result() -> None:
    """It would be so though the branch is not taken."""
    m = Maker()
    x = m.input(T)
    a = one(m, x)
    m.begin_if(x, [T], 2)
    (result,) = m.block.carried
    m.block.names.append(a)  # the last value of the type: the side copies it
    m.begin_else()
    m.end()
    assert left(m.finish([result])) == 1


def rows(of: TensorType) -> Program:
    """Each round makes a row and copies it into the whole."""
    k = symbol("k")
    row = of.with_shape(*of.shape[1:])
    make = kernels.kernel("make", [Read(T, At.SHIFTED)], [row], 3)
    end = kernels.kernel("end", [Read(of, At.SHIFTED)], [T], 5)
    lines: tuple[Line, ...] = (
        Repeat(
            "k", 4,
            (View("row", "whole", dims.mul(k, row.nbytes)), Launch("make", ("x", "made")),
             Copy("row", "made")),
        ),
        Launch("end", ("whole", "y")),
        Return(("y",)),
    )  # fmt: skip
    types = (("x", T), ("whole", of), ("row", row), ("made", row), ("y", T))
    return Program("p", (DimVar("k", 0, 3),), ("x",), (), types, (make, end), lines)


def test_rows_are_made_in_their_whole_where_kernels_may_write_them() -> None:
    assert left(rows(TensorType(DType.I32, (4, 12)))) == 0
    assert left(rows(TensorType(DType.I32, (4, 13)))) == 1


def test_what_another_stream_reads_is_not_written_under_it() -> None:
    m = Maker()
    a = one(m, m.input(T))
    m.switch(1)
    b = one(m, a)
    m.switch(0)
    c = m.copy(a)
    m.update(c, [])
    assert left(m.finish([b, c])) == 1


def test_what_grows_is_handed_on_as_it_is() -> None:
    m = Maker()
    m.input(T)
    grown = m.grow(DType.I32, 2)
    loop = m.block.lines.pop()
    first = m.block.lines.pop()
    assert isinstance(first, Carry)
    ((value, start),) = first.values
    copy = m.fresh("c", m.types[start])
    m.block.lines += [Copy(copy, start), Carry(((value, copy),), first.dims), loop]
    assert left(m.finish([one(m, grown)])) == 0


def unelided(bare: Program, name: str) -> Program:
    def as_it_is(p: Program, cost: object, target: object) -> Program:
        del cost, target
        return p

    with mock.patch.object(planning, "elided", as_it_is):
        return plan(bare, planner(name))


def test_no_peak_is_higher_without_copies() -> None:
    lower = 0
    for seed in (*range(120), 3053):  # the last has values on two devices, alive one after another
        bare = program(seed, mixed(seed))
        if not any(isinstance(x, Copy) for x in walk(bare.lines)):
            continue
        name = PLANNERS[seed % len(PLANNERS)]
        ours, plain = plan(bare, planner(name)), unelided(bare, name)
        ends = bindings(bare.dims, Random(seed))[:2]
        peaks = [(peak(ours, env), peak(plain, env)) for env in ends]
        assert all(a <= b for a, b in peaks), seed
        lower += any(a < b for a, b in peaks)
    assert lower > 5
