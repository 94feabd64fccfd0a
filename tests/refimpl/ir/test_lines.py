from __future__ import annotations

from didyma.refimpl.ir.dims import symbol
from didyma.refimpl.ir.lines import (
    binds,
    blocks,
    nested,
    operands,
    rewrite,
    walk,
    with_blocks,
    writes,
)
from didyma.refimpl.ir.loop import Block, Buffer, PrimFunc
from didyma.refimpl.ir.program import Bind, Carry, Copy, Extern, If, Launch, Line, Repeat, While
from didyma.refimpl.ir.types import DType

A, B, C, D = (Copy(x, "s") for x in "abcd")
BRANCH = If("c", (B,), (Repeat("i", 3, (C,)),))
LINES: tuple[Line, ...] = (A, BRANCH, While((D,), "t", (A, B)))


def test_lines_are_walked_in_the_order_of_the_text() -> None:
    _, branch, loop = LINES
    assert list(walk(LINES)) == [A, branch, B, BRANCH.other[0], C, loop, D, A, B]


def test_blocks_have_the_numbers_by_which_they_are_rewritten() -> None:
    met: list[tuple[int, int, Line]] = []

    def note(line: Line, block: int, index: int) -> Line:
        met.append((block, index, line))
        return line

    assert rewrite(LINES, note) == LINES
    numbered = list(enumerate(nested(LINES)))
    assert sorted(k for k, b in numbered for _ in b) == sorted(k for k, _, _ in met)
    assert all(numbered[k][1][i] == line for k, i, line in met)


def test_a_line_may_become_several_or_none() -> None:
    def twice(line: Line, block: int, index: int) -> tuple[Line, ...]:
        return () if line == C else (line, line) if (block, index) == (0, 0) else (line,)

    got = rewrite(LINES, twice)
    assert got == (A, A, If("c", (B,), (Repeat("i", 3, ()),)), LINES[2])


def test_blocks_are_put_back_where_they_were() -> None:
    for line in LINES[1:]:
        assert with_blocks(line, blocks(line)) == line


def test_what_a_line_reads_writes_and_binds() -> None:
    f = [Buffer(x, DType.F32, (2,)) for x in "xy"]
    kernels = {"k": PrimFunc("k", tuple(f), ("y",), Block(()))}
    carry = Carry((("a", "b"),), (("n", symbol("m")),))
    table: list[tuple[Line, tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = [
        (Launch("k", ("p", "q")), ("p", "q"), ("q",), ()),
        (Launch("unknown", ("p", "q")), ("p", "q"), ("p", "q"), ()),
        (Extern("r", ("o",), ("i",)), ("o", "i"), ("o",), ()),
        (Bind("n", "v"), ("v",), (), ("n",)),
        (carry, ("a", "b"), ("a",), ("n",)),
        (BRANCH, ("c",), (), ()),
        (Repeat("i", 3, (C,)), (), (), ("i",)),
    ]
    for line, used, written, bound in table:
        assert (operands(line), writes(line, kernels), binds(line)) == (used, written, bound)
