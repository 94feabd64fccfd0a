"""Which work on the streams of a program comes after which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import Dispatch, Launch, Line, Wait
from didyma.refimpl.verify.ranges import Ranges


@dataclass(frozen=True, slots=True)
class StreamAccess:
    """An access to bytes of one allocation: of which value, on which stream, and when."""

    value: str
    range: tuple[Dim, Dim]
    stream: int
    tick: int
    write: bool


class Streams:
    """Orders the work on streams by vector clocks: what has ended of the others' before it starts.

    Streams are joined where a block of lines begins and ends.
    """

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self.tick = 0
        self.known: dict[int, dict[int, int]] = {}
        self.last: dict[int, int] = {}
        self.accesses: dict[int, list[StreamAccess]] = {}

    def join(self) -> None:
        """Let every stream wait for every other."""
        self.known.clear()
        self.last.clear()
        self.accesses.clear()

    def wait(self, stream: int, on: int) -> None:
        """Let later work of ``stream`` come after all work of ``on`` so far."""
        ended = self.known.setdefault(stream, {})
        for other, tick in (*self.known.get(on, {}).items(), (on, self.last.get(on, 0))):
            ended[other] = max(ended.get(other, 0), tick)

    def touch(
        self, value: str, storage: int, span: tuple[Dim, Dim], stream: int, write: bool
    ) -> StreamAccess | None:
        """Note an access; return an earlier one of another stream that it may meet, if any."""
        self.tick += 1
        self.last[stream] = self.tick
        ended = self.known.get(stream, {})
        before = self.accesses.setdefault(storage, [])
        conflict = next(
            (
                a
                for a in before
                if a.stream != stream
                and (a.write or write)
                and ended.get(a.stream, 0) < a.tick
                and not self.ranges.apart(a.range, span)
            ),
            None,
        )
        before.append(StreamAccess(value, span, stream, self.tick, write))
        return conflict


def several(lines: Sequence[Line]) -> bool:
    """Return whether lines use any stream but the first."""
    return any(
        isinstance(s, Wait) or (isinstance(s, Launch | Dispatch) and s.stream != 0)
        for s in walk(lines)
    )
