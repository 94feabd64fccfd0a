"""Walks over the lines of programs: nested blocks, rebuilding, and the names that a line uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TypeAlias, assert_never

from didyma.refimpl.ir import program as ir
from didyma.refimpl.ir.kernel import Kernel

Block: TypeAlias = tuple[ir.Line, ...]


def blocks(line: ir.Line) -> tuple[Block, ...]:
    """Return the blocks of a line, in the order of the text."""
    match line:
        case ir.If(_, then, other):
            return (then, other)
        case ir.While(test, _, body):
            return (test, body)
        case ir.Repeat(_, _, body):
            return (body,)
        case _:
            return ()


def with_blocks(line: ir.Line, inner: Sequence[Block]) -> ir.Line:
    """Return a line with other blocks; TypeError for a line without any."""
    match line:
        case ir.If(cond):
            return ir.If(cond, *inner)
        case ir.While(_, cond, _):
            return ir.While(inner[0], cond, inner[1])
        case ir.Repeat(index, extent):
            return ir.Repeat(index, extent, *inner)
        case _:
            raise TypeError(f"a line without blocks: {line}")


def walk(lines: Iterable[ir.Line]) -> Iterator[ir.Line]:
    """Yield every line, in the order of the text; a line comes before those of its blocks."""
    for line in lines:
        yield line
        for block in blocks(line):
            yield from walk(block)


def nested(lines: Sequence[ir.Line]) -> Iterator[Sequence[ir.Line]]:
    """Yield lines as a block, and every block below; the k-th is what ``rewrite`` calls block k."""
    yield lines
    for line in lines:
        for block in blocks(line):
            yield from nested(block)


def rewrite(
    lines: Sequence[ir.Line], change: Callable[[ir.Line, int, int], Sequence[ir.Line] | ir.Line]
) -> Block:
    """Return lines with each, innermost first, changed by its block's number and its index there.

    Blocks are numbered in the order of the text, the outermost being 0.
    """
    numbers = count()

    def block(lines: Sequence[ir.Line]) -> Block:
        number = next(numbers)
        out: list[ir.Line] = []
        for i, line in enumerate(lines):
            inner = tuple(block(b) for b in blocks(line))
            new = change(with_blocks(line, inner) if inner else line, number, i)
            out += new if isinstance(new, Sequence) else (new,)
        return tuple(out)

    return block(lines)


def settled(p: ir.Program, number: int) -> ir.Program:
    """Return a program in which each dispatch launches its variant of a number, modulo their count.

    Its functions are settled too.  A program without dispatches is returned as it is.
    """

    def change(line: ir.Line, block: int, index: int) -> ir.Line:
        del block, index
        return line.launch(number) if isinstance(line, ir.Dispatch) else line

    if most_variants(p) == 1:
        return p
    functions = tuple(settled(f, number) for f in p.functions)
    return replace(p, lines=rewrite(p.lines, change), functions=functions)


def launches_of(line: ir.Line) -> tuple[ir.Launch, ...]:
    """Return a launch, or the launches that a dispatch chooses among; none for another line."""
    match line:
        case ir.Launch():
            return (line,)
        case ir.Dispatch():
            return line.launches
        case _:
            return ()


def most_variants(p: ir.Program) -> int:
    """Return how many variants the widest dispatch of a program or its functions has; else 1."""
    lines = (line for q in (*p.functions, p) for line in walk(q.lines))
    return max((len(x.variants) for x in lines if isinstance(x, ir.Dispatch)), default=1)


def operands(line: ir.Line) -> tuple[str, ...]:
    """Return the values whose bytes a line itself reads or writes, those of its blocks aside."""
    match line:
        case ir.Launch(_, args):
            return args
        case ir.Dispatch():
            return line.args
        case ir.Extern(_, outputs, inputs) | ir.Call(_, outputs, inputs):
            return (*outputs, *inputs)
        case ir.Copy(value, source):
            return (value, source)
        case ir.View(_, of) | ir.Strided(_, of):
            return (of,)
        case ir.Bind(_, value):
            return (value,)
        case ir.Carry(values):
            return tuple(name for pair in values for name in pair)
        case ir.If(cond) | ir.While(cond=cond):
            return (cond,)
        case ir.Return(values):
            return values
        case (
            ir.Allocate() | ir.Free() | ir.Reuse() | ir.PlacementAllocate() | ir.Arena()
            | ir.Place() | ir.Wait() | ir.Assert() | ir.Repeat()
        ):  # fmt: skip
            return ()
        case _:
            assert_never(line)


def writes(line: ir.Line, kernels: Mapping[str, Kernel]) -> tuple[str, ...]:
    """Return the values whose bytes a line itself writes; of an unknown kernel, all arguments."""
    match line:
        case ir.Launch(kernel, args):
            if (k := kernels.get(kernel)) is None:
                return args
            pairs = zip(args, k.params, strict=True)
            return tuple(a for a, b in pairs if b.name in k.outputs)
        case ir.Extern(_, outputs) | ir.Call(_, outputs) | ir.Dispatch(outputs):
            return outputs
        case ir.Copy(value):
            return (value,)
        case ir.Carry(pairs):
            return tuple(v for v, _ in pairs)
        case _:
            return ()


def binds(line: ir.Line) -> tuple[str, ...]:
    """Return the symbols that a line itself gives a value."""
    match line:
        case ir.Bind(symbol) | ir.Repeat(symbol):
            return (symbol,)
        case ir.Carry(_, sizes):
            return tuple(s for s, _ in sizes)
        case _:
            return ()
