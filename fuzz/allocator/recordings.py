"""Judge how recorded calls get results with memory of their own, on recordings that are drawn.

Steps use parts of a few bytes that overlap in every way.  The results must have the bytes that the
steps leave where the results were, nothing else may be in their memory when they begin, and what
nothing shares is written to its own memory without a copy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import TypeAlias

from didyma.codegen.runtime.geometry import Geometry
from didyma.codegen.runtime.record import (
    FIXED,
    Copied,
    Launched,
    Part,
    Recording,
    Result,
    Step,
    apart,
)
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.kernel import Signature
from didyma.refimpl.ir.types import DType

Memory: TypeAlias = dict[tuple[int, int], int]  # by block and place in it

ROOM = 12  # bytes of a block
ONCE = ix.ONE, ix.ONE, ix.ONE
GRID = Geometry((1, 1, 1), (), ())


def judged(r: Random) -> Iterator[str]:
    """Draw a recording; yield what is wrong with what ``apart`` makes of it, if anything is."""
    before = _recording(r)
    after = apart(before)
    want = [_shown(_ran(before), x.part) for x in before.results]
    got = [_shown(_ran(after), x.part) for x in after.results]
    if want != got:
        yield f"results {want} become {got}: {before}"
    numbers = [(x.dtype, x.shape, x.part.nbytes) for x in before.results]
    if [(x.dtype, x.shape, x.part.nbytes) for x in after.results] != numbers:
        yield f"results are {after.results}"
    own = range(before.inputs + 1, before.inputs + 1 + len(before.results))
    if [(x.part.block, x.part.offset) for x in after.results] != [(b, 0) for b in own]:
        yield f"results have no memory of their own: {after.results}"
    if not all(
        0 <= n < i for i, s in enumerate(after.steps) if isinstance(s, Launched) for n in s.after
    ):
        yield f"a step waits for itself or a later one: {after.steps}"
    parts = [p for s in after.steps for p in s.parts if p.block == before.inputs]
    if after.scratch != max((p.offset + p.nbytes for p in parts), default=0):
        yield f"{after.scratch} bytes of scratch memory for {parts}"
    copied = len(after.steps) - len(before.steps)
    needed = [x.part for x in before.results if x.part.nbytes and not _is_alone(before, x.part)]
    if not 0 <= copied <= len(needed):
        yield f"{copied} copies, though only {needed} share bytes: {before}"


def _is_alone(r: Recording, part: Part) -> bool:
    """Return whether bytes are those of one result that a launch makes, and of nothing else."""
    used = [(i, p) for i, s in enumerate(r.steps) for p in s.parts if _meet(p, part)]
    if part.block != r.inputs or any(p != part for _, p in used):
        return False
    if sum(_meet(x.part, part) for x in r.results) > 1:
        return False
    first = r.steps[used[0][0]] if used else None
    return isinstance(first, Launched) and part in first.written


def _ran(r: Recording) -> Memory:
    """Return what bytes hold once all steps have run in order; those of results begin unlike."""
    memory: Memory = {}
    for number, s in enumerate(r.steps):
        if isinstance(s, Copied):
            _write(memory, s.target, _shown(memory, s.source))
            continue
        known = b"".join(_shown(memory, p) + b"." for p in s.read)
        for place, p in enumerate(s.written):
            said = hashlib.blake2b(known, salt=bytes((number % 251, place))).digest()
            _write(memory, p, said[: p.nbytes])
    return memory


def _shown(memory: Memory, p: Part) -> bytes:
    """Return the bytes of a part; those that nobody wrote tell where they are."""
    return bytes(memory.get(at, (at[0] * 37 + at[1]) % 256) for at in sorted(_bytes(p)))


def _write(memory: Memory, p: Part, data: bytes) -> None:
    memory.update(zip(sorted(_bytes(p)), data, strict=True))


def _recording(r: Random) -> Recording:
    """Draw steps over inputs, scratch memory and a constant, and which parts are results."""
    inputs = r.randrange(3)
    known = [_part(r, inputs) for _ in range(r.randint(2, 5))]
    steps, held = list[Step](), set[tuple[int, int]]()
    for number in range(r.randint(1, 6)):
        steps.append(_step(r, number, inputs, known, held))
        match steps[-1]:
            case Launched() as s:
                held |= set[tuple[int, int]]().union(*map(_bytes, s.written))
            case Copied() as s:
                held |= _bytes(s.target)
    some = [p for p in (*(p for s in steps for p in s.parts), *known) if _bytes(p) <= held]
    results = [r.choice(some) for _ in range(r.randint(1, 3)) if some]
    if r.random() < 0.2:
        results.append(Part(r.choice((FIXED, *range(inputs))), 0, r.randint(0, ROOM)))
    shown = (Result(p, DType.U8, (p.nbytes,)) for p in results)
    return Recording(inputs, ROOM, tuple(steps), tuple(shown))


def _part(r: Random, block: int) -> Part:
    start = r.randrange(ROOM)
    return Part(block, start, r.randint(0 if r.random() < 0.1 else 1, ROOM - start))


def _near(r: Random, block: int, known: Sequence[Part]) -> Part:
    """Draw a part: a known one, or one that begins or ends a byte apart, or any."""
    p = r.choice(known)
    match r.randrange(6):
        case 0:
            return replace(p, nbytes=max(1, p.nbytes - 1))
        case 1 if p.offset:
            start = r.randrange(p.offset)
            return Part(block, start, p.offset - start)
        case 2 if p.offset + p.nbytes < ROOM:
            start = p.offset + p.nbytes
            return Part(block, start, r.randint(1, ROOM - start))
        case 3:
            return _part(r, block)
        case _:
            return p


def _step(
    r: Random, number: int, inputs: int, known: Sequence[Part], held: set[tuple[int, int]]
) -> Step:
    """Draw a step, which reads what bytes hold by then; of what it writes, it reads nothing."""
    after = tuple(range(number))
    written = [_near(r, inputs, known)]
    if r.random() < 0.2:
        source = _near(r, inputs, known)
        target = replace(written[0], nbytes=min(source.nbytes, written[0].nbytes))
        if not _meet(target, source) and _bytes(source) <= held:
            return Copied(target, replace(source, nbytes=target.nbytes))
    read = list[Part]()
    for _ in range(r.randrange(4)):
        p = _near(r, inputs, known)
        if not any(_meet(p, q) for q in (*written, *read)):
            if r.random() < 0.3:
                written.append(p)
            elif _bytes(p) <= held:
                read.append(p)
    read += [_part(r, r.choice((FIXED, *range(inputs))))] * (r.random() < 0.3)
    names = [f"b{i}" for i in range(len(written) + len(read))]
    outputs = tuple(names[: len(written)])
    buffers = tuple((n, DType.U8) for n in names)
    s = Signature(f"k{number}", buffers, (), outputs, (), ONCE, (1, 1, 1))
    return Launched(s, GRID, (*written, *read), (), after, 0)


def _meet(a: Part, b: Part) -> bool:
    return bool(_bytes(a) & _bytes(b))


def _bytes(p: Part) -> set[tuple[int, int]]:
    return {(p.block, i) for i in range(p.offset, p.offset + p.nbytes)}
