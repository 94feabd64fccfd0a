"""Faults in when a buffer is alive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from didyma.codegen.memory import liveness, values
from didyma.codegen.memory.liveness import Life, Lives, Range
from didyma.codegen.memory.planners import LiveBuffer
from didyma.oracle.kernels import reads_before_it_writes
from didyma.refimpl.ir.lines import blocks, operands, walk
from didyma.refimpl.ir.program import Copy, Extern, If, Launch, Line, Program, Return, View, While
from tests.mutants.memory.fault import Plant, ProgramFault, buffers, patched

GREEDY = "greedy_by_size"


def hidden(use: Callable[[Program], Callable[[Line, str], bool]]) -> Plant:
    """Let liveness not see some uses of values by lines."""

    def plant(bare: Program) -> AbstractContextManager[object]:
        hides = use(bare)

        def seen(line: Line) -> tuple[str, ...]:
            return tuple(v for v in operands(line) if not hides(line, v))

        return patched(liveness, "operands", seen)

    return plant


def spoilt(change: Callable[[Program, Lives, str, Life], Life]) -> Plant:
    """Let lives be other than they are."""

    def plant(bare: Program) -> AbstractContextManager[object]:
        def lives(*args: object) -> Lives:
            found = Lives(*args)  # type: ignore[arg-type]  # handed on as they come
            found.of = {v: change(bare, found, v, life) for v, life in found.of.items()}
            return found

        return patched(values, "Lives", lives)

    return plant


# ---- what is not seen


def _views(bare: Program, least: int) -> set[str]:
    """Views at so many hops from their root at least."""
    depth: dict[str, int] = {}
    for line in walk(bare.lines):
        if isinstance(line, View):
            depth[line.value] = depth.get(line.of, 0) + 1
    return {v for v, n in depth.items() if n >= least}


def through_views(bare: Program) -> Callable[[Line, str], bool]:
    views = _views(bare, 1)
    return lambda line, v: v in views


def through_nested_views(bare: Program) -> Callable[[Line, str], bool]:
    views = _views(bare, 2)
    return lambda line, v: v in views


def returned_views(bare: Program) -> Callable[[Line, str], bool]:
    views = _views(bare, 1)
    return lambda line, v: isinstance(line, Return) and v in views


def returned(bare: Program) -> Callable[[Line, str], bool]:
    del bare
    return lambda line, v: isinstance(line, Return)


def routine_inputs(bare: Program) -> Callable[[Line, str], bool]:
    del bare
    return lambda line, v: isinstance(line, Extern) and v in line.inputs


def updates(bare: Program) -> Callable[[Line, str], bool]:
    """Kernels that add to what is there."""
    old = {k.name: reads_before_it_writes(k) for k in bare.kernels}
    params = {k.name: [b.name for b in k.params] for k in bare.kernels}

    def hides(line: Line, v: str) -> bool:
        if not isinstance(line, Launch):
            return False
        pairs = zip(params[line.kernel], line.args, strict=True)
        return any(a == v and n in old[line.kernel] for n, a in pairs)

    return hides


def copied(bare: Program) -> Callable[[Line, str], bool]:
    del bare
    return lambda line, v: isinstance(line, Copy) and v == line.source


def conditions(bare: Program) -> Callable[[Line, str], bool]:
    del bare
    return lambda line, v: isinstance(line, If | While)


# ---- lives that are too short


def ends_early(b: LiveBuffer) -> LiveBuffer:
    live = b.live
    return replace(b, live=Range(live.start, max(live.start, live.end - 1)))


def starts_late(b: LiveBuffer) -> LiveBuffer:
    live = b.live
    return replace(b, live=Range(min(live.end, live.start + 1), live.end))


def unread_has_no_life(b: LiveBuffer) -> LiveBuffer:
    return replace(b, live=Range(b.live.start, b.live.end - 1)) if _once(b) else b


def _once(b: LiveBuffer) -> bool:
    return b.live.start == b.live.end


def scrap_has_no_life(bare: Program) -> AbstractContextManager[object]:
    """Workspaces alone: outputs that nothing reads, of lines that have others."""
    scrap: set[str] = set()
    for line in walk(bare.lines):
        if isinstance(line, Extern) and dict(line.attrs).get("workspace"):
            scrap.add(line.outputs[-1])
        elif isinstance(line, Launch):
            scrap.add(line.args[-1])
    return buffers(lambda b: unread_has_no_life(b) if b.name in scrap else b)(bare)


def _steps(lines: Sequence[Line]) -> Iterable[tuple[int, Line]]:
    """Lines with their steps, as liveness counts them: a line with blocks takes one after each."""
    step = 0

    def walk(some: Sequence[Line]) -> Iterable[tuple[int, Line]]:
        nonlocal step
        for line in some:
            yield step, line
            step += 1
            for b in blocks(line):
                yield from walk(b)
                step += 1

    yield from walk(lines)


def _used(bare: Program, lives: Lives, name: str, *, writes: bool) -> list[int]:
    """Steps of the lines that use a buffer."""
    found: list[int] = []
    for step, line in _steps(bare.lines):
        for v in operands(line):
            written = isinstance(line, Copy) and v == line.value
            if lives.root.get(v, v) == name and (writes or not written):
                found.append(step)
    return found


def last_line_in_a_loop(bare: Program, lives: Lives, name: str, life: Life) -> Life:
    """As if the loop were run through once: the end is the last line, not the loop's end."""
    used = _used(bare, lives, name, writes=True)
    return replace(life, live=Range(life.live.start, max(used))) if used else life


def first_line_in_a_loop(bare: Program, lives: Lives, name: str, life: Life) -> Life:
    used = _used(bare, lives, name, writes=True)
    return replace(life, live=Range(min(used), max(used))) if used else life


def last_read_of_what_is_carried(bare: Program, lives: Lives, name: str, life: Life) -> Life:
    """A carried value is dead from its last read on, until the copy at the body's end."""
    used = _used(bare, lives, name, writes=False)
    return replace(life, live=Range(life.live.start, max(used))) if used else life


def branch_result_ends_with_the_branch(bare: Program, lives: Lives, name: str, life: Life) -> Life:
    """What both sides write is tied to what they write it from, and dies with the branch."""
    end = -1
    for step, line in _steps(bare.lines):
        if isinstance(line, If) and name.startswith("r"):
            inside = {v for x in walk((line,)) for v in operands(x)}
            if name in inside:
                end = step + sum(1 + len(blocks(x)) for x in walk((line,))) - 1
    return replace(life, live=Range(life.live.start, min(life.live.end, end))) if end >= 0 else life


FAULTS: tuple[ProgramFault, ...] = (
    ProgramFault(
        1, "a loop taken for straight lines", "pytorch#66450",
        spoilt(last_line_in_a_loop), GREEDY,
    ),
    ProgramFault(
        1, "both ends of a life inside a loop", "pytorch#66450",
        spoilt(first_line_in_a_loop), GREEDY,
    ),
    ProgramFault(
        1, "a carried value dead after its last read",
        "tilelang-ascend#1156, pypto#768, PTOAS#913", spoilt(last_read_of_what_is_carried), GREEDY,
    ),
    ProgramFault(2, "a view's lifetime ignored", "pytorch#100314", hidden(through_views)),
    ProgramFault(
        2, "a view's lifetime ignored, in an arena", "LiteRT#8889, #8928",
        hidden(through_views), GREEDY,
    ),
    ProgramFault(
        2, "a view of a view ignored", "pytorch#100314 (PR 100332)", hidden(through_nested_views)
    ),
    ProgramFault(
        3, "an output reached through a view freed early", "pytorch#187678, onnxruntime#7767",
        hidden(returned_views),
    ),
    ProgramFault(3, "what is held outside freed", "tinygrad#16571", hidden(returned)),
    ProgramFault(
        4, "an output without a reader reused", "onnxruntime#21019", buffers(unread_has_no_life)
    ),
    ProgramFault(
        4, "an output without a reader reused, in an arena", "onnxruntime#21019",
        buffers(unread_has_no_life), GREEDY,
    ),
    ProgramFault(
        6, "lives that touch share, at any offset", "openxla/xla#46543", buffers(ends_early), GREEDY
    ),
    ProgramFault(
        6, "a life begins one line late", "openxla/xla#46543", buffers(starts_late), GREEDY
    ),
    ProgramFault(
        8, "a branch's result tied to what dies with it", "iree#19355",
        spoilt(branch_result_ends_with_the_branch), GREEDY,
    ),
    ProgramFault(9, "scratch shares with outputs", "tflite-micro#913", scrap_has_no_life, GREEDY),
    ProgramFault(13, "a routine's inputs not seen", "tvm#13976", hidden(routine_inputs)),
    ProgramFault(13, "a mutation not seen", "pytorch#173485", hidden(updates)),
    ProgramFault(13, "the source of a copy not seen", "tvm#13976", hidden(copied)),
    ProgramFault(13, "a condition not seen", "tvm#13976", hidden(conditions)),
)  # fmt: skip
