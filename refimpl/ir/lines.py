"""Walks over the lines of programs: nested blocks, rebuilding, and the names that a line uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import TypeAlias, assert_never

from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import (
    Allocate,
    Arena,
    Assert,
    Bind,
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
    Repeat,
    Return,
    Reuse,
    View,
    Wait,
    While,
)

Block: TypeAlias = tuple[Line, ...]


def blocks(line: Line) -> tuple[Block, ...]:
    """Return the blocks of a line, in the order of the text."""
    match line:
        case If(_, then, other):
            return (then, other)
        case While(test, _, body):
            return (test, body)
        case Repeat(_, _, body):
            return (body,)
        case _:
            return ()


def with_blocks(line: Line, inner: Sequence[Block]) -> Line:
    """Return a line with other blocks; TypeError for a line without any."""
    match line:
        case If(cond):
            return If(cond, *inner)
        case While(_, cond, _):
            return While(inner[0], cond, inner[1])
        case Repeat(index, extent):
            return Repeat(index, extent, *inner)
        case _:
            raise TypeError(f"a line without blocks: {line}")


def walk(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield every line, in the order of the text; a line comes before those of its blocks."""
    for line in lines:
        yield line
        for block in blocks(line):
            yield from walk(block)


def nested(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """Yield lines as a block, and every block below; the k-th is what ``rewrite`` calls block k."""
    yield lines
    for line in lines:
        for block in blocks(line):
            yield from nested(block)


def rewrite(
    lines: Sequence[Line], change: Callable[[Line, int, int], Sequence[Line] | Line]
) -> Block:
    """Return lines with each, innermost first, changed by its block's number and its index there.

    Blocks are numbered in the order of the text, the outermost being 0.
    """
    numbers = count()

    def block(lines: Sequence[Line]) -> Block:
        number = next(numbers)
        out: list[Line] = []
        for i, line in enumerate(lines):
            inner = tuple(block(b) for b in blocks(line))
            new = change(with_blocks(line, inner) if inner else line, number, i)
            out += new if isinstance(new, Sequence) else (new,)
        return tuple(out)

    return block(lines)


def operands(line: Line) -> tuple[str, ...]:
    """Return the values whose bytes a line itself reads or writes, those of its blocks aside."""
    match line:
        case Launch(_, args):
            return args
        case Extern(_, outputs, inputs) | Call(_, outputs, inputs):
            return (*outputs, *inputs)
        case Copy(value, source):
            return (value, source)
        case View(_, of):
            return (of,)
        case Bind(_, value):
            return (value,)
        case Carry(values):
            return tuple(name for pair in values for name in pair)
        case If(cond) | While(cond=cond):
            return (cond,)
        case Return(values):
            return values
        case (
            Allocate() | Free() | Reuse() | PlacementAllocate() | Arena() | Place() | Wait()
            | Assert() | Repeat()
        ):  # fmt: skip
            return ()
        case _:
            assert_never(line)


def writes(line: Line, kernels: Mapping[str, PrimFunc]) -> tuple[str, ...]:
    """Return the values whose bytes a line itself writes; of an unknown kernel, all arguments."""
    match line:
        case Launch(kernel, args):
            if (k := kernels.get(kernel)) is None:
                return args
            pairs = zip(args, k.params, strict=True)
            return tuple(a for a, b in pairs if b.name in k.outputs)
        case Extern(_, outputs) | Call(_, outputs):
            return outputs
        case Copy(value):
            return (value,)
        case Carry(pairs):
            return tuple(v for v, _ in pairs)
        case _:
            return ()


def binds(line: Line) -> tuple[str, ...]:
    """Return the symbols that a line itself gives a value."""
    match line:
        case Bind(symbol) | Repeat(symbol):
            return (symbol,)
        case Carry(_, sizes):
            return tuple(s for s, _ in sizes)
        case _:
            return ()
