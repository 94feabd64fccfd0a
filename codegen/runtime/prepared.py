"""Calls that are ready to run: all that depends on shapes is done once, and calls give addresses.

Every address that a kernel is given has a cell in one table, and a launch is told where its cells
are.  A call writes the cells of blocks that have moved and starts the launches: one by one or,
where there are several, as a CUDA graph from the third call on a stream on.
"""

from __future__ import annotations

import ctypes
import weakref
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from didyma.codegen.runtime import driver
from didyma.codegen.runtime.didyma_runtime.maps import WORDS, Described
from didyma.codegen.runtime.driver import DriverError
from didyma.codegen.runtime.graphs import Graph, Kernel
from didyma.codegen.runtime.record import FIXED, Copied, Launched, Part, Recording

FEWEST = 4  # launches that a graph is made for; fewer start sooner one by one
KEPT = 4  # graphs of a call on a stream, for so many sets of addresses that come again and again
STREAMS = 8  # that a call remembers
_SEEN = 2  # calls on a stream before a graph is made for it
_WORD = 8

Blocks = tuple[int, ...]  # the addresses of the inputs, the scratch block and the results


@dataclass(slots=True)
class _OnStream:
    """What a stream has seen of a call: how often, and its graphs, by the addresses they know.

    ``starts`` are the arguments of the driver's launches.
    """

    handle: ctypes.c_void_p
    starts: tuple[tuple[object, ...], ...]
    calls: int = 0
    graphs: dict[Blocks, Graph] = field(default_factory=dict[Blocks, Graph])


class Prepared:
    """A recorded call on the device; ``functions`` are the handles of its kernels by name.

    ``shared`` are the bytes of shared memory that launches of some of them ask for.
    With ``graphs`` it is replayed as a graph where that pays.  Kernels whose code waits for what
    precedes them begin ``early``.
    """

    def __init__(
        self, r: Recording, functions: Mapping[str, int], shared: Mapping[str, int], *,
        graphs: bool, early: bool = False,
    ) -> None:  # fmt: skip
        self.recording = r
        self._launched = [s for s in r.steps if isinstance(s, Launched)]
        self._functions = [functions[s.signature.name] for s in self._launched]
        self._shared = [shared.get(s.signature.name, 0) for s in self._launched]
        self._table = _Table(self._launched, r.inputs + 1 + len(r.results))
        self._blocks: Blocks = (0,) * (r.inputs + 1 + len(r.results))
        self._graphs = graphs and not unreplayed(r)
        self._groups = tuple(_groups(r))
        self._streams: dict[int, _OnStream] = {}
        self._early = early
        self._launch = driver.launcher(early=early)
        weakref.finalize(self, _close_all, self._streams).atexit = False

    def run(self, blocks: Blocks, stream: int, *, captured: bool | None = None) -> None:
        """Start the call on a stream, by its handle, with its arrays at these addresses.

        ``captured`` says whether work on the stream is being recorded, if that is known.

        Errors: ``launch-failed``, ``device-lost``, ``too-large``.
        """
        if blocks != self._blocks:
            self._table.move(blocks, self._blocks)
            self._blocks = blocks
        on = self._streams.get(stream) or self._on(stream)
        try:
            if self._graphs and self._is_replayed(on, stream, captured):
                self._replay(on, blocks)
            else:
                self._each(on)
        except DriverError as e:
            _close(on)
            raise driver.failure(e.code, "a call of the program", e.function) from e

    def _on(self, stream: int) -> _OnStream:
        if len(self._streams) == STREAMS:
            _close_all(self._streams)
        handle = ctypes.c_void_p(stream)
        starts = tuple(
            driver.launch(f, s.geometry.grid, s.signature.block, n, handle, args, early=self._early)
            for f, s, n, args in zip(
                self._functions, self._launched, self._shared, self._table.arguments, strict=True
            )
        )
        found = self._streams[stream] = _OnStream(handle, starts)
        return found

    def _each(self, on: _OnStream) -> None:
        """Start the launches one by one."""
        launch, starts, bases = self._launch, on.starts, self._blocks
        for first, last, copies in self._groups:
            for n in range(first, last):
                if code := launch(*starts[n]):
                    raise self._refused(n, code)
            _copy(copies, bases, on)

    def _refused(self, number: int, code: int) -> Exception:
        s = self._launched[number]
        what = f"{s.geometry.grid} blocks of {s.signature.block} threads"
        return driver.failure(code, s.where, what)

    def _is_replayed(self, on: _OnStream, stream: int, captured: bool | None) -> bool:
        """Count a call, and return whether a graph is to run it."""
        on.calls += 1
        if on.calls <= _SEEN:
            return False
        return not (driver.is_captured(stream) if captured is None else captured)

    def _replay(self, on: _OnStream, blocks: Blocks) -> None:
        (on.graphs.get(blocks) or self._graph(on, blocks)).start(on.handle)
        for _, _, copies in self._groups:
            _copy(copies, blocks, on)

    def _graph(self, on: _OnStream, blocks: Blocks) -> Graph:
        """Return a graph for addresses that none knows: a new one, or the oldest of enough."""
        if len(on.graphs) < KEPT:
            rows = zip(
                self._functions, self._launched, self._shared, self._table.arguments, strict=True
            )
            kernels = [Kernel(f, s.geometry.grid, s.signature.block, n, a) for f, s, n, a in rows]
            graph = Graph(kernels, [s.after for s in self._launched], early=self._early)
        else:
            known = next(iter(on.graphs))
            graph = on.graphs[known]
            graph.update(self._table.readers(blocks, known))
            del on.graphs[known]
        on.graphs[blocks] = graph
        return graph


class _Table:
    """The arguments of launches: ``arguments`` points each launch to its cells and maps."""

    def __init__(self, launched: Sequence[Launched], blocks: int) -> None:
        cells: dict[tuple[int, int], int] = {}
        maps: dict[tuple[int, int, Described], int] = {}
        rows: list[list[tuple[int, int]]] = []
        readers: list[set[int]] = [set() for _ in range(blocks)]
        for n, s in enumerate(launched):
            dims = (d & 0xFFFF_FFFF_FFFF_FFFF for d in s.geometry.dims)
            known = [(FIXED, word) for word in (*dims, *s.scalars)]
            keys = [(p.block, p.offset) for p in s.args]
            described = [(*keys[d.buffer], d) for d in s.geometry.maps]
            row = [(cells.setdefault(k, len(cells)), 0) for k in keys]
            row += [(maps.setdefault(k, len(maps)), 1) for k in described]
            row += [(cells.setdefault(k, len(cells)), 0) for k in known]
            rows.append(row)
            for p in s.args:
                if p.block != FIXED:
                    readers[p.block].add(n)
        self._cells = array("Q", (offset for _, offset in cells))
        self._maps = array("Q", bytes(_WORD * WORDS * len(maps)))
        at = [(a.buffer_info()[0], n) for a, n in ((self._cells, 1), (self._maps, WORDS))]
        self._rows = [
            array("Q", (at[kind][0] + _WORD * at[kind][1] * c for c, kind in row)) for row in rows
        ]
        self.arguments = [ctypes.c_void_p(row.buffer_info()[0]) for row in self._rows]
        self._of = [
            [(cell, offset) for (block, offset), cell in cells.items() if block == b]
            for b in range(blocks)
        ]
        self._described = [
            [(cell, offset, d) for (block, offset, d), cell in maps.items() if block == b]
            for b in range(blocks)
        ]
        for (block, offset, d), cell in maps.items():
            if block == FIXED:
                self._describe(cell, offset, d)
        self._readers = readers
        self._unions: dict[tuple[int, ...], tuple[int, ...]] = {}

    def move(self, blocks: Blocks, before: Blocks) -> None:
        """Write the cells of blocks whose addresses have changed."""
        cells = self._cells
        every = zip(blocks, before, self._of, self._described, strict=True)
        for now, old, row, described in every:
            if now != old:
                for cell, offset in row:
                    cells[cell] = now + offset
                for cell, offset, d in described:
                    self._describe(cell, now + offset, d)

    def _describe(self, cell: int, address: int, d: Described) -> None:
        first = cell * WORDS
        self._maps[first : first + WORDS] = array("Q", driver.tensor_map(address, d))

    def readers(self, blocks: Blocks, before: Blocks) -> tuple[int, ...]:
        """Return the launches that are given an address in a block that has moved."""
        moved = tuple([b for b, now in enumerate(blocks) if now != before[b]])
        found = self._unions.get(moved)
        if found is None:
            found = tuple(sorted(set[int]().union(*(self._readers[b] for b in moved))))
            if len(self._unions) < 64:  # of the many sets of blocks, few are ever seen
                self._unions[moved] = found
        return found


def unreplayed(r: Recording) -> str:
    """Return why a recorded call is not replayed as a graph; empty if it is."""
    launches = sum(isinstance(s, Launched) for s in r.steps)
    if any(isinstance(s, Copied) for s in r.steps[:launches]):
        return "bytes are copied between launches"
    return "" if launches >= FEWEST else f"it has {launches} launches, of at least {FEWEST}"


def _groups(r: Recording) -> Iterator[tuple[int, int, tuple[Copied, ...]]]:
    """Yield runs of launches, by the numbers of the first and after the last, and their copies."""
    first = 0
    pending: tuple[int, int] = (0, 0)
    for is_launch, run in groupby(r.steps, lambda s: isinstance(s, Launched)):
        steps = list(run)
        if is_launch:
            pending = (first, first + len(steps))
            first += len(steps)
        else:
            yield pending[0], pending[1], tuple(s for s in steps if isinstance(s, Copied))
            pending = (first, first)
    if pending[0] < pending[1]:
        yield pending[0], pending[1], ()


def _close(on: _OnStream) -> None:
    for graph in on.graphs.values():
        graph.close()
    on.graphs.clear()
    on.calls = 0


def _close_all(streams: dict[int, _OnStream]) -> None:
    for on in streams.values():
        _close(on)
    streams.clear()


def _copy(copies: Sequence[Copied], blocks: Blocks, on: _OnStream) -> None:
    for c in copies:
        target, source = _address(c.target, blocks), _address(c.source, blocks)
        driver.copy(target, source, c.source.nbytes, on.handle.value or 0)


def _address(p: Part, blocks: Blocks) -> int:
    return p.offset if p.block == FIXED else blocks[p.block] + p.offset
