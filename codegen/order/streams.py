"""Spread launches over streams, so that independent kernels may run at the same time.

A launch goes on where the last of what it reads was made, if nothing came there since, and else to
the stream that has the least work.  What one stream has written or read, another touches after a
wait; vector clocks say which waits are there already (Lamport, "Time, Clocks, and the Ordering of
Events in a Distributed System", 1978; Fidge and Mattern, 1988).  Where a block begins or ends, all
streams have waited for one another, and all lines but launches run on stream 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from didyma.refimpl.ir.lines import writes
from didyma.refimpl.ir.program import (
    Bind,
    Call,
    Carry,
    Copy,
    Dispatch,
    Extern,
    If,
    Launch,
    Line,
    Program,
    Repeat,
    View,
    Wait,
    While,
)

Clock: TypeAlias = dict[int, int]  # by stream: how much of its work is known to have ended


def spread(p: Program, count: int) -> Program:
    """Return a program without memory whose launches run on up to ``count`` streams.

    Functions that it calls stay on stream 0.
    """
    return replace(p, lines=tuple(_Spread(p, count).block(p.lines)))


class _Spread:
    """Where the work on each value was last done, and what each stream has waited for."""

    def __init__(self, p: Program, count: int) -> None:
        self.kernels = p.kernel
        self.root: dict[str, str] = {}  # the value whose bytes a value shows
        self.work: dict[str, dict[tuple[int, bool], int]] = {}  # (stream, written): last tick
        self.clocks: dict[int, Clock] = {s: {s: 0} for s in range(count)}
        self.last: dict[str, int] = {}  # the stream that made a value

    def block(self, lines: Sequence[Line]) -> Iterator[Line]:
        """Yield the lines of a block, with their streams and the waits before them."""
        self._join()
        for line in lines:
            yield from self._line(line)
        self._join()

    def _line(self, line: Line) -> Iterator[Line]:
        match line:
            case Launch() | Dispatch():
                written = writes(line, self.kernels)
                reads = [a for a in line.args if a not in written]
                stream = self._stream(reads)
                yield from self._waits(stream, reads, written)
                self.last |= {self._owner(w): stream for w in written}
                yield replace(line, stream=stream)
                return
            case Extern(_, outputs, inputs) | Call(_, outputs, inputs):
                yield from self._waits(0, inputs, outputs)
            case Copy(value, source):
                yield from self._waits(0, (source,), (value,))
            case Bind(_, value):
                yield from self._waits(0, (value,), ())
            case Carry(values):
                yield from self._waits(0, (), [v for pair in values for v in pair])
            case View(value, of):
                self.root[value] = self._owner(of)
            case If(cond, then, other):
                yield from self._waits(0, (cond,), ())
                line = replace(line, then=tuple(self.block(then)), other=tuple(self.block(other)))
            case While(test, _, body):
                line = replace(line, test=tuple(self.block(test)), body=tuple(self.block(body)))
            case Repeat(_, _, body):
                line = replace(line, body=tuple(self.block(body)))
            case _:
                pass
        yield line

    def _owner(self, value: str) -> str:
        return self.root.get(value, value)

    def _stream(self, reads: Sequence[str]) -> int:
        """Choose the stream of a launch."""
        for value in reversed(reads):
            made = self.last.get(self._owner(value))
            if made is not None:
                ticks = self.work[self._owner(value)]
                if ticks.get((made, True)) == self.clocks[made][made]:
                    return made
        return min(self.clocks, key=lambda s: (self.clocks[s][s], s))

    def _waits(self, stream: int, reads: Sequence[str], writes: Sequence[str]) -> Iterator[Wait]:
        """Yield the waits of the next work of a stream, and record that work."""
        clock = self.clocks[stream]
        clock[stream] += 1
        for value, written in (*((r, False) for r in reads), *((w, True) for w in writes)):
            done = self.work.setdefault(self._owner(value), {})
            for (other, wrote), tick in done.items():
                if (written or wrote) and clock.get(other, 0) < tick:
                    yield Wait(stream, other)
                    for s, seen in self.clocks[other].items():
                        clock[s] = max(clock.get(s, 0), seen)
            done[stream, written] = clock[stream]

    def _join(self) -> None:
        now = {s: clock[s] for s, clock in self.clocks.items()}
        for clock in self.clocks.values():
            clock.update(now)
