"""Other values of a kernel's arguments: what ``--arg`` leaves open, and other guesses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from didyma.codegen.runtime.ptx import sanitize as engine
from didyma.codegen.runtime.ptx import sources
from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.machine import Shape
from didyma.codegen.runtime.ptx.parameters import uses
from didyma.commands import guess
from didyma.refimpl.errors import DidymaError

_RANGE = re.compile(r"\b([A-Za-z_]\w*|\d+)=([iu]\d+):(-?\d+)\.\.(-?\d+)(?=[,}]|$)")
_OPTIONAL = re.compile(r"\b([A-Za-z_]\w*|\d+)=([^={}]*):or-null(?=[,}]|$)")
_WHOLE = re.compile(r"[iu]\d+:-?\d+$")
_ORDERS = 3  # of warps, in turn
_MOST = 1 << 20  # instructions of threads: enough have run, and the other values are left out
# What no other value shows: fewer elements are written where there are fewer; and of guesses, what
# waits for a number that the caller would know, or is refused by the kernel itself.
_USUAL = frozenset(("unwritten",))
_OF_GUESSES = _USUAL | {"hang", "trap", "assert"}


@dataclass(frozen=True, slots=True)
class Other:
    """Items of ``--arg`` for one more launch, and how they differ: ``n is 127``."""

    where: str
    items: tuple[str, ...]
    unseen: frozenset[str] = _USUAL


def first(items: Sequence[str]) -> list[str]:
    """Return items for the first launch: of a range the upper end, and no null pointer.

    DidymaError ``bad-option`` for a range without numbers.

    >>> first(["n=i32:0..9", "x=f32[9]:or-null"])
    ['n=i32:9', 'x=f32[9]']
    """
    for item in items:
        for m in _RANGE.finditer(item):
            if int(m[3]) > int(m[4]):
                want = "a range from the least number to the greatest"
                raise DidymaError("bad-option", f"--arg {item}", got=f"{m[3]}..{m[4]}", want=want)
    return [_OPTIONAL.sub(r"\1=\2", _RANGE.sub(r"\1=\2:\4", i)) for i in items]


def given(items: Sequence[str], shape: Shape) -> Iterator[Other]:
    """Yield what items leave open, one by one: numbers of ranges, and null pointers.

    Numbers are the ends of the range, and in it 1, the threads of a block and of all blocks, and
    one more and one less of each.

    >>> [o.where for o in given(["n=i32:1..40", "x=f32[40]:or-null"], Shape((1,) * 3, (32, 1, 1)))]
    ['n is 1', 'n is 2', 'n is 31', 'n is 32', 'n is 33', 'n is 39', 'x is null']
    """
    usual = first(items)
    ranges = [(k, m) for k, item in enumerate(items) for m in _RANGE.finditer(item)]
    for k, m in ranges:
        for value in _telling(int(m[3]), int(m[4]), shape):
            item = items[k][: m.start()] + f"{m[1]}={m[2]}:{value}" + items[k][m.end() :]
            yield Other(f"{m[1]} is {value}", _with(usual, k, first([item])[0]))
    if len(ranges) > 1:
        names = ", ".join(m[1] for _, m in ranges)
        least = first([_RANGE.sub(r"\1=\2:\3", i) for i in items])
        yield Other(f"{names} are the least", tuple(least))
    for k, item in enumerate(items):
        for m in _OPTIONAL.finditer(item):
            null = item[: m.start()] + f"{m[1]}=null" + item[m.end() :]
            yield Other(f"{m[1]} is null", _with(usual, k, first([null])[0]))


def guessed(
    text: str, kernel: Kernel, name: str, shape: Shape, items: Sequence[str]
) -> Iterator[Other]:
    """Yield other guesses than ``items``.

    The integers that the file does not tell are all one number, and arrays as large as it asks for.
    If one bounds the index of threads or addresses memory, the number is such that the last block
    has one thread with work or that all have; of several, one less or more than a block is wide.
    If one is compared for equality with an index, it is that of a thread.  What the kernel compares
    with null is null.
    """
    known = uses(kernel.program)
    names = [p.name for p in kernel.program.kernel.params]
    block, threads = shape.block[0], shape.blocks * shape.threads
    blank = guess.items(text, kernel, name, shape, 0)
    free = [k for k, item in enumerate(blank)
            if item != items[k] and _WHOLE.match(item.partition("=")[2])]  # fmt: skip
    which, open_ = ", ".join(items[k].partition("=")[0] for k in free), {names[k] for k in free}
    extents = list[int]()
    if open_ & known.sizes:
        extents += (
            [threads - shape.threads + 1, threads] if len(free) == 1 else [block - 1, block + 1]
        )
    if open_ & known.chosen:
        extents += [1, block - 1]
    for extent in dict.fromkeys(n for n in extents if n > 0):
        other = tuple(guess.items(text, kernel, name, shape, extent))
        yield Other(f"{which} {'is' if len(free) == 1 else 'are'} {extent}", other, _OF_GUESSES)
    for k, item in enumerate(items):
        if names[k] in known.optional and "[" in item:
            which = item.partition("=")[0]
            yield Other(f"{which} is null", _with(items, k, f"{which}=null"), _OF_GUESSES)


def _telling(low: int, high: int, shape: Shape) -> list[int]:
    """Return numbers of a range, but for its upper end, in order."""
    block, threads = shape.threads, shape.blocks * shape.threads
    near = (n + d for n in (block, threads) for d in (-1, 0, 1))
    found = {low, low + 1, 0, 1, high - 1, *near}
    return sorted(n for n in found if low <= n < high)


def _with(items: Sequence[str], k: int, item: str) -> tuple[str, ...]:
    return (*items[:k], item, *items[k + 1 :])


def more(
    source: sources.Source,
    kernel: Kernel,
    shape: Shape,
    launches: Iterator[tuple[Other, Sequence[engine.Argument]]],
    shared: int,
    seconds: float,
    done: engine.Sanitized,
) -> tuple[engine.Sanitized, tuple[str, ...]]:
    """Add what launches with other arguments find, each in one order; return what was tried.

    A fault counts once, where it shows first.
    """
    seen = {(f.kind, f.file, f.line) for f in done.findings}
    tried = list[str]()
    spent = 0
    for k, (other, args) in enumerate(launches):
        if spent > _MOST:
            break
        found = engine.sanitize(source, kernel, shape, args, shared, 1, seconds, first=k % _ORDERS)
        tried.append(other.where)
        spent += found.instructions
        fresh = [
            replace(f, where=other.where)
            for f in found.faults
            if (f.kind, f.file, f.line) not in seen and f.kind not in other.unseen
        ]
        seen |= {(f.kind, f.file, f.line) for f in fresh}
        done = replace(
            done, findings=(*done.faults, *fresh, *(f for f in done.findings if f.is_note)),
            instructions=done.instructions + found.instructions,
        )  # fmt: skip
    return done, tuple(tried)
