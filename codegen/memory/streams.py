"""When work on other streams has ended, as far as ``Wait`` lines order it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from didyma.refimpl.ir.program import (
    Bind,
    Call,
    Copy,
    Dispatch,
    Extern,
    If,
    Launch,
    Line,
    Wait,
    While,
)

_Launches = Launch | Dispatch
_Work = _Launches | Copy | Extern | Call | Bind | If | While  # what reads or writes values


def stream_of(line: Line) -> int:
    """Return the stream of a line's work; all lines but launches run on stream 0."""
    return line.stream if isinstance(line, _Launches) else 0


@dataclass
class StreamWork:
    """Records the work on buffers by stream, and the waits, in the order of the lines.

    ``done`` has for each buffer the last step of its work on each stream; ``waits`` the steps,
    blocks and streams of ``Wait`` lines.
    """

    all: frozenset[int]
    done: dict[str, dict[int, int]] = field(default_factory=dict[str, dict[int, int]])
    waits: list[tuple[int, int, Wait]] = field(default_factory=list[tuple[int, int, Wait]])

    @classmethod
    def of(cls, lines: Iterable[Line]) -> StreamWork | None:
        """Return an empty record for a program; None if all its work is on stream 0."""
        used = {stream_of(x) for x in lines if isinstance(x, _Work)}
        return cls(frozenset(used)) if used - {0} else None

    def line(self, line: Line, step: int, block: int, root: Mapping[str, str]) -> None:
        """Record a line."""
        match line:
            case Wait():
                self.waits.append((step, block, line))
                return
            case Launch() | Dispatch():
                values = line.args
            case Extern(_, outputs, inputs) | Call(_, outputs, inputs):
                values = (*outputs, *inputs)
            case Copy(value, source):
                values = (value, source)
            case Bind(_, value) | If(value) | While(_, value):
                values = (value,)
            case _:
                return
        for v in values:
            self.done.setdefault(root.get(v, v), {})[stream_of(line)] = step

    def released(self, name: str, home: int, end: int, last: int) -> int:
        """Return the first step, not before ``end``, by which all streams wait for a buffer's work.

        Only waits in ``home``, the block of the buffer, surely happen; ``last`` is its last step,
        where everything is waited for.
        """
        work = self.done.get(name, {})
        if not work:
            return end
        seen = {s: {s} & work.keys() for s in self.all}
        if all(seen[s] == work.keys() for s in self.all):
            return end
        for step, block, wait in self.waits:
            if block != home or wait.stream not in seen or wait.on not in seen:
                continue
            seen[wait.stream] |= {s for s in seen[wait.on] if work[s] < step}
            if all(found >= work.keys() for found in seen.values()):
                return max(end, step)
        return last
