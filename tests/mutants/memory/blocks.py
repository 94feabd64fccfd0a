"""Faults where a program has blocks, streams or results in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from didyma.codegen.memory import allocate, inplace, values
from didyma.codegen.memory.arena import Placement, Problem, solve
from didyma.codegen.memory.arena.problem import placement
from didyma.codegen.memory.insert import Insertion
from didyma.codegen.memory.liveness import Lives
from didyma.codegen.memory.plan import Variants
from didyma.codegen.memory.streams import StreamWork
from didyma.codegen.memory.values import values_of
from didyma.refimpl.ir import program as ir
from didyma.refimpl.ir.lines import operands
from didyma.refimpl.ir.program import Line, Program
from tests.mutants.memory.fault import Plant, ProgramFault, patched

GREEDY = "greedy_by_size"


def branches_apart(bare: Program) -> AbstractContextManager[object]:
    """Each block's arena is planned by itself, and all of them begin at 0."""
    borrowed = frozenset((*bare.inputs, *(n for n, _ in bare.constants)))
    block = {v: life.block for v, life in Lives(bare.lines, borrowed).of.items()}

    def solved(p: Problem, name: str, *limits: object, **others: object) -> Placement:
        del limits, others
        offsets = np.zeros(p.count, np.int64)
        for k in {block[n] for n in p.names}:
            which = np.flatnonzero(np.array([block[n] == k for n in p.names]))
            offsets[which] = solve(p.pick(which), name).offsets
        return placement(p, offsets)

    return patched(allocate, "solve", solved)


def rewritten(change: Callable[[Sequence[Line]], Sequence[Line]]) -> Plant:
    """Change the lines of the planned program, each block's by itself."""

    def all_(lines: Sequence[Line]) -> tuple[Line, ...]:
        return tuple(change([_inside(line, all_) for line in lines]))

    def plant(bare: Program) -> AbstractContextManager[object]:
        del bare
        run = Insertion.run

        def wrong(self: Insertion) -> Program:
            p = run(self)
            return replace(p, lines=all_(p.lines))

        return patched(Insertion, "run", wrong)

    return plant


def _inside(line: Line, all_: Callable[[Sequence[Line]], tuple[Line, ...]]) -> Line:
    match line:
        case ir.If(cond, then, other):
            return ir.If(cond, all_(then), all_(other))
        case ir.While(test, cond, body):
            return ir.While(all_(test), cond, all_(body))
        case ir.Repeat(index, extent, body):
            return ir.Repeat(index, extent, all_(body))
        case _:
            return line


def once(change: Callable[[Sequence[Line]], Sequence[Line] | None]) -> Plant:
    """Change one block of the planned program: the first in which there is what to change."""

    def plant(bare: Program) -> AbstractContextManager[object]:
        done: list[bool] = []

        def first(lines: Sequence[Line]) -> Sequence[Line]:
            found = None if done else change(lines)
            if found is None:
                return lines
            done.append(True)
            return found

        return rewritten(first)(bare)

    return plant


def a_free_lost(lines: Sequence[Line]) -> Sequence[Line] | None:
    at = [i for i, x in enumerate(lines) if isinstance(x, ir.Free)]
    return None if not at else [*lines[: at[0]], *lines[at[0] + 1 :]]


def a_free_twice(lines: Sequence[Line]) -> Sequence[Line] | None:
    at = [i for i, x in enumerate(lines) if isinstance(x, ir.Free)]
    return None if not at else [*lines[: at[0] + 1], *lines[at[0] :]]


def a_free_earlier(lines: Sequence[Line]) -> Sequence[Line] | None:
    """A value is freed a line before its last use, in a loop's body or a branch too."""
    for i, x in enumerate(lines):
        if isinstance(x, ir.Free) and i and x.value in operands(lines[i - 1]):
            return [*lines[: i - 1], x, lines[i - 1], *lines[i + 1 :]]
    return None


def a_copy_lost(lines: Sequence[Line]) -> Sequence[Line] | None:
    at = [i for i, x in enumerate(lines) if isinstance(x, ir.Copy)]
    return None if not at else [*lines[: at[0]], *lines[at[0] + 1 :]]


def a_late_allocation(lines: Sequence[Line]) -> Sequence[Line] | None:
    """An allocation and the line after it change places."""
    for i, x in enumerate(lines[:-1]):
        if isinstance(x, ir.Allocate) and x.value in operands(lines[i + 1]):
            return [*lines[:i], lines[i + 1], x, *lines[i + 2 :]]
    return None


def results_in_another_order(lines: Sequence[Line]) -> Sequence[Line] | None:
    last = lines[-1]
    if isinstance(last, ir.Return) and len(last.values) > 1:
        return [*lines[:-1], ir.Return(last.values[::-1])]
    return None


def arena_half(lines: Sequence[Line]) -> Sequence[Line] | None:
    for i, x in enumerate(lines):
        if isinstance(x, ir.Arena) and isinstance(x.nbytes, int) and x.nbytes > 512:
            return [*lines[:i], replace(x, nbytes=x.nbytes // 2), *lines[i + 1 :]]
    return None


def arena_elsewhere(lines: Sequence[Line]) -> Sequence[Line] | None:
    for i, x in enumerate(lines):
        if isinstance(x, ir.Arena):
            return [*lines[:i], replace(x, device="cuda:7"), *lines[i + 1 :]]
    return None


# ---- results in place


def searching(name: str, wrong: Callable[..., object]) -> Plant:
    """Answer one of the questions wrongly that are asked before a result is put in place."""

    def plant(bare: Program) -> AbstractContextManager[object]:
        del bare
        return patched(inplace.InPlaceSearch, name, wrong)

    return plant


def always_in_place(bare: Program) -> AbstractContextManager[object]:
    """Put results in place wherever it was found that they may be, higher peak or not."""
    del bare
    return patched(Variants, "best", _in_place)


def _in_place(self: Variants, bare: Program) -> object:
    plain = values_of(bare)
    return self.one(values_of(inplace.in_place(bare, plain.lives, plain.alone)))


def in_place(**wrong: Callable[..., object]) -> Plant:
    """Results in place, whatever the peak, by wrong answers to questions of the search."""

    def plant(bare: Program) -> AbstractContextManager[object]:
        stack = ExitStack()
        for name, answer in wrong.items():
            stack.enter_context(searching(name, answer)(bare))
        stack.enter_context(always_in_place(bare))
        return stack

    return plant


def _used_here(self: Any, value: str, line: ir.Launch, block: int, index: int) -> bool:
    """An operand may be read again later."""
    del block, index
    return bool(self.own(value, line))


def _owned(self: Any, value: str, line: ir.Launch) -> bool:
    """An operand may be read under two names by the same launch."""
    del line
    return value in self.lives.of and value not in self.alone


def _larger(self: Any, new: str, old: str) -> bool:
    """A result is larger than what it lies on."""
    a, b = self.types[new], self.types[old]
    sizes = isinstance(a.nbytes, int) and isinstance(b.nbytes, int)
    return bool(sizes and a.device == b.device and a.nbytes > b.nbytes > 0)


def _fits_within(self: Any, new: str, old: str) -> bool:
    """A result is smaller than what it lies on."""
    a, b = self.types[new], self.types[old]
    sizes = isinstance(a.nbytes, int) and isinstance(b.nbytes, int)
    return bool(sizes and a.device == b.device and 0 < a.nbytes < b.nbytes)


def _anything(self: Any, k: object, new: str, old: str) -> bool:
    """A kernel may read any element of what it writes over."""
    del self, k, new, old
    return True


def _shown(self: Any, value: str) -> str:
    """A view stands for all of what it shows, even where it shows a part, or other elements."""
    return str(self.lives.root.get(value, value))


# ---- streams and late sizes


def streams_unseen(bare: Program) -> AbstractContextManager[object]:
    """All work is in the order of the lines."""
    del bare

    def none(lines: object) -> None:
        del lines

    return patched(StreamWork, "of", none)


def streams_by_hops(bare: Program) -> AbstractContextManager[object]:
    """A buffer is free after its last line, whatever other streams still do."""
    del bare

    def at_once(self: object, name: str, blocks: object, end: int, last: int) -> int:
        del self, name, blocks, last
        return end

    return patched(StreamWork, "released", at_once)


def sizes_known_early(bare: Program) -> AbstractContextManager[object]:
    """Symbols that the run binds are taken for known: space is handed on at once."""
    del bare

    def none(*args: object) -> set[str]:
        del args
        return set()

    def nowhere(*args: object) -> tuple[frozenset[str], frozenset[str]]:
        del args
        return frozenset(), frozenset()

    stack = ExitStack()
    stack.enter_context(patched(values, "_late_sizes", none))
    stack.enter_context(patched(values, "_handed_on", nowhere))
    return stack


FAULTS: tuple[ProgramFault, ...] = (
    ProgramFault(5, "in place where another line reads on", "onnxruntime#7645",
                 in_place(dies=_used_here)),
    ProgramFault(5, "in place of what the same launch reads under two names", "onnxruntime#7645",
                 in_place(own=_owned)),
    ProgramFault(5, "in place though other elements are read", "openxla/xla#49176",
                 in_place(may=_anything)),
    ProgramFault(6, "in place of a smaller operand", "openxla/xla#46543",
                 in_place(same=_larger, may=_anything)),
    ProgramFault(6, "in place of what a view shows a part of", "openxla/xla#49176",
                 in_place(whole=_shown, same=_fits_within, may=_anything)),
    ProgramFault(7, "reuse across streams without a wait", "onnxruntime#32466", streams_unseen),
    ProgramFault(7, "bytes free before another stream is done", "onnxruntime#32466",
                 streams_by_hops, GREEDY),
    ProgramFault(12, "a size used before it is known", "pytorch#159839", sizes_known_early),
    ProgramFault(8, "a branch's arena over live outer values", "executorch#21494",
                 branches_apart, GREEDY),
    ProgramFault(3, "a free one line early", "pytorch#187678", once(a_free_earlier)),
    ProgramFault(7, "a free forgotten", "onnxruntime#19480", once(a_free_lost)),
    ProgramFault(7, "bytes freed twice", "onnxruntime#19480", once(a_free_twice)),
    ProgramFault(12, "bytes allocated after they are used", "pytorch#159839",
                 once(a_late_allocation)),
    ProgramFault(10, "an arena smaller than what it holds", "AMDMIGraphX#4992",
                 once(arena_half), GREEDY),
    ProgramFault(11, "an arena of another device", "pytorch _inductor", once(arena_elsewhere),
                 GREEDY),
    ProgramFault(5, "a copy elided whose source changes", "onnxruntime#7645", once(a_copy_lost)),
    ProgramFault(14, "results handed back in another order", "torch-spyre#4022",
                 once(results_in_another_order)),
)  # fmt: skip
