"""Live ranges of the buffers of a program, over its lines and those of nested blocks.

Steps number the lines as they are written: a plain line is one step, and a line with blocks is the
steps of its blocks between a step of its own before and one after.  A buffer's *home* is the
innermost block that has all its uses, so a buffer of an outer block that a loop touches is in use
through the whole loop, carried or not, while a buffer local to a loop's body may share bytes with
other such buffers, with buffers that are dead throughout the loop, and with the other branch's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from didyma.codegen.memory.streams import StreamWork
from didyma.refimpl.ir.lines import blocks, operands, walk
from didyma.refimpl.ir.program import Dispatch, Launch, Line, Strided, View


@dataclass(frozen=True, slots=True)
class Range:
    """The first and the last step at which a buffer is in use, both included."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Life:
    """The steps at which a buffer is in use, and its first and last line in its home block.

    Blocks are numbered as they are met, the program's own being 0.
    """

    live: Range
    block: int
    first: int
    last: int


def roots(lines: Iterable[Line]) -> dict[str, str]:
    """Return, for each value without an allocation of its own, the value whose bytes it has.

    A view has the bytes of the value it shows, and an in-place output those of the input it
    replaces; chains are followed to their end.
    """
    found: dict[str, str] = {}
    for line in walk(lines):
        if isinstance(line, View | Strided):
            found[line.value] = found.get(line.of, line.of)
        elif isinstance(line, Launch | Dispatch) and line.inplace:
            for new, old in line.inplace:
                found[new] = found.get(old, old)
    return found


@dataclass(slots=True)
class _Uses:
    """First and last line of a buffer's uses so far, and the path of blocks down to its home."""

    path: tuple[tuple[int, int], ...]
    first: int
    last: int


@dataclass
class Lives:
    """The lives of a program's buffers, by the name of the value that first has the bytes.

    ``borrowed`` values (inputs and constants) and ``outputs`` belong to the caller and have no
    life here.  ``root`` is that of ``roots``; ``spans`` gives, for each block,
    first and last step of each of its lines.
    """

    lines: Sequence[Line]
    borrowed: Collection[str] = ()
    outputs: Collection[str] = ()
    root: dict[str, str] = field(init=False)
    spans: list[list[tuple[int, int]]] = field(default_factory=list[list[tuple[int, int]]])
    of: dict[str, Life] = field(default_factory=dict[str, Life])

    def __post_init__(self) -> None:
        self.root = roots(self.lines)
        self.borrowed = frozenset(self.borrowed)
        self._at: list[Line] = []  # by step
        self._uses: dict[str, _Uses] = {}
        self._streams = StreamWork.of(walk(self.lines))
        self._block(self.lines, ())
        for name, uses in self._uses.items():
            block = uses.path[-1][0]
            spans = self.spans[block]
            start, end = spans[uses.first][0], spans[uses.last][1]
            if self._streams is not None:
                end = max(end, self._released(name, block, end))
            self.of[name] = Life(Range(start, end), block, uses.first, uses.last)

    def alone_on(self, value: str, stream: int) -> bool:
        """Return whether no stream but this one works on a buffer."""
        return self._streams is None or self._streams.done.get(value, {}).keys() <= {stream}

    def streams(self, value: str) -> tuple[int, ...]:
        """Return the streams that work on a buffer; none if the program uses one stream."""
        return () if self._streams is None else tuple(sorted(self._streams.done.get(value, {})))

    def last_step(self, value: str) -> int:
        """Return the last step at which a line uses a buffer, whatever other streams still do."""
        life = self.of[value]
        return self.spans[life.block][life.last][1]

    def line(self, step: int) -> Line:
        """Return the innermost line at a step."""
        return self._at[step]

    def _block(self, lines: Sequence[Line], path: tuple[tuple[int, int], ...]) -> None:
        block = len(self.spans)
        spans: list[tuple[int, int]] = []
        self.spans.append(spans)
        for i, line in enumerate(lines):
            here = (*path, (block, i))
            first = len(self._at)
            for value in operands(line):
                self._use(value, here)
            if self._streams is not None:
                self._streams.line(line, first, block, self.root)
            self._at.append(line)
            for b in blocks(line):
                self._block(b, here)
                self._at.append(line)
            spans.append((first, len(self._at) - 1))

    def _use(self, value: str, path: tuple[tuple[int, int], ...]) -> None:
        owner = self.root.get(value, value)
        if owner in self.borrowed or owner in self.outputs:
            return
        uses = self._uses.get(owner)
        i = path[-1][1]
        if uses is None:
            self._uses[owner] = _Uses(path, i, i)
        elif uses.path[-1][0] == path[-1][0]:
            uses.last = i
        else:
            self._widen(uses, path)

    def _widen(self, uses: _Uses, path: tuple[tuple[int, int], ...]) -> None:
        """Move the home up to the innermost block that has the old uses and the new one."""
        depth = 0
        for (a, _), (b, _) in zip(uses.path, path, strict=False):
            if a != b:
                break
            depth += 1
        at = path[depth - 1][1]
        if depth < len(uses.path):
            uses.first = uses.path[depth - 1][1]
            uses.path = uses.path[:depth]
        uses.last = at

    def _released(self, name: str, block: int, end: int) -> int:
        """Return the step by which every stream has waited for the work on a buffer.

        That is at the latest where its home block ends: there every stream waits for every other.
        """
        assert self._streams is not None
        return self._streams.released(name, block, end, self.spans[block][-1][1])
