"""Which work on other streams has ended by when, as far as ``Wait`` lines say."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from didyma.refimpl.ir.program import Call, Copy, Extern, Launch, Line, Wait


def stream_of(line: Line) -> int:
    """Stream of a line's work; what is no launch runs on stream 0."""
    return line.stream if isinstance(line, Launch) else 0


@dataclass
class StreamWork:
    """Work on buffers by stream, and the waits, as the lines are met.

    ``done`` has for each buffer the last step of its work on each stream; ``waits`` the steps,
    blocks and streams of ``Wait`` lines.
    """

    all: frozenset[int]
    done: dict[str, dict[int, int]] = field(default_factory=dict[str, dict[int, int]])
    waits: list[tuple[int, int, Wait]] = field(default_factory=list[tuple[int, int, Wait]])

    @classmethod
    def of(cls, lines: Iterable[Line]) -> StreamWork | None:
        """Return the bookkeeping for a program, None where all work is on stream 0."""
        used = {stream_of(x) for x in lines if isinstance(x, Launch | Copy | Extern | Call)}
        return cls(frozenset(used)) if used - {0} else None

    def line(self, line: Line, step: int, block: int, root: Mapping[str, str]) -> None:
        """Note a line."""
        match line:
            case Wait():
                self.waits.append((step, block, line))
                return
            case Launch(_, args):
                values = args
            case Extern(_, outputs, inputs) | Call(_, outputs, inputs):
                values = (*outputs, *inputs)
            case Copy(value, source):
                values = (value, source)
            case _:
                return
        for v in values:
            self.done.setdefault(root.get(v, v), {})[stream_of(line)] = step

    def released(self, name: str, blocks: Collection[int], end: int, last: int) -> int:
        """First step, not before ``end``, after which no stream can overtake work on a buffer.

        Only waits in ``blocks``, the buffer's home and those around it, surely happen; ``last`` is
        the step of the return, which waits for everything.
        """
        work = self.done.get(name, {})
        if not work:
            return end
        seen = {s: {s} & work.keys() for s in self.all}
        if all(seen[s] == work.keys() for s in self.all):
            return end
        for step, block, wait in self.waits:
            if block not in blocks or wait.stream not in seen or wait.on not in seen:
                continue
            seen[wait.stream] |= {s for s in seen[wait.on] if work[s] < step}
            if all(found >= work.keys() for found in seen.values()):
                return max(end, step)
        return last
