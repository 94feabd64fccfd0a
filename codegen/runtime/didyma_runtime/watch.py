"""What may be asked of each launch: its results, its time, a check, a range of a profiler.

The variable ``DIDYMA_LOG`` is read when this module is imported.  With the word ``kernel`` in it
each launch is written to stderr, and with ``wrapper`` each line of a program as it begins.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from inspect import currentframe
from itertools import count
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import numpy as np

from .checks import require_finite
from .dtypes import Array, from_memory, nbytes_of
from .kernels import Kernel
from .refused import Refused

LOG = frozenset(os.environ.get("DIDYMA_LOG", "").replace(",", " ").split())
_LEVELS = ("graph", "loop", "schedule", "plan", "kernel", "wrapper")  # a compile writes all of them


class Line(NamedTuple):
    """A line of a program: its text, and the values that a launch is given."""

    text: str
    values: tuple[str, ...] = ()


def lines(*rows: Any) -> dict[int, Line]:
    """Return the lines of a program by the numbers of a module's lines.

    A row is the first and the last number, a text, and the values that a launch is given.
    """
    return {
        number: line
        for first, last, text, *values in rows
        for line in [Line(text, tuple(values))]
        for number in range(first, last + 1)
    }


class Launch(NamedTuple):
    """A launch that has ended.

    ``line`` is that of the program, and ``nodes`` are those of the graph that the kernel computes.
    ``results`` are what it wrote, by the names of the values, and ``dtypes`` their dtypes: views,
    to copy if they are to stay.  ``nbytes`` counts the bytes of its buffers, each once, and
    ``seconds`` is the time that it took.
    """

    kernel: str
    line: str
    nodes: tuple[str, ...]
    results: Mapping[str, Array]
    dtypes: tuple[str, ...]
    nbytes: int
    seconds: float


Watch = Callable[[Launch], object]
Around = Callable[[str], AbstractContextManager[Any]]


class Watched:
    """Kernels of which each launch is told to some, and has a context around it."""

    def __init__(
        self,
        kernels: Any,
        line: Callable[[FrameType | None], Line],
        watches: Sequence[Watch],
        around: Around,
    ) -> None:
        self._kernels, self._line = kernels, line
        self._watches, self._around = watches, around

    def launch(
        self, kernel: str, buffers: Sequence[Any], sizes: Mapping[str, int], stream: int = 0
    ) -> None:
        """Run a kernel and tell of it; errors as of ``Kernels``, and those of who is told."""
        k = self._kernels.table[kernel]
        line = self._line(currentframe())
        with self._around(kernel):
            seconds = self._kernels.timed(kernel, buffers, sizes, stream)
        if not self._watches:
            return
        counts = k.sizes(sizes)
        nbytes = sum(nbytes_of(d, (n,)) for (_, d), n in zip(k.buffers, counts, strict=True))
        results = dict(_results(k, line.values, buffers, sizes, self._kernels.read))
        dtypes = tuple(d for name, d in k.buffers if name in k.outputs)
        told = Launch(kernel, line.text, k.nodes, results, dtypes, nbytes, seconds)
        for watch in self._watches:
            watch(told)


def _line(file: str, lines: Mapping[int, Line], frame: FrameType | None) -> Line:
    """Return the line of a module's program from which a launch came, some calls up."""
    while frame is not None:
        if frame.f_code.co_filename == file and frame.f_lineno in lines:
            return lines[frame.f_lineno]
        frame = frame.f_back
    return Line("")


def _results(
    k: Kernel,
    values: Sequence[str],
    buffers: Sequence[Any],
    sizes: Mapping[str, int],
    read: Callable[[Any, int], Array],
) -> Iterator[tuple[str, Array]]:
    shapes = dict(zip(k.outputs, k.shapes(sizes), strict=True))
    for i, ((name, dtype), b) in enumerate(zip(k.buffers, buffers, strict=True)):
        if name in shapes:
            raw = read(b, nbytes_of(dtype, shapes[name]))
            yield values[i] if values else name, from_memory(raw, dtype, shapes[name])


def watched(
    kernels: Any,
    run: Callable[..., Any],
    lines: Mapping[int, Line],
    *,
    finite: bool,
    watch: Watch | None,
    around: Around | None,
    synchronous: bool = False,
) -> Any:
    """Return kernels whose launches by ``run`` are watched as asked; the same where none is.

    Where launches are to be ``synchronous``, each has ended before the next line runs.

    Refused ``bad-option`` where the log is asked for a word that names no level.
    """
    if strange := sorted(LOG.difference(_LEVELS)):
        want = f"some of {', '.join(_LEVELS)}, with commas between"
        raise Refused("bad-option", "DIDYMA_LOG", strange[0], want)
    asked = [_finite] if finite else []
    watches: list[Watch] = [*asked, *([_told] if "kernel" in LOG else [])]
    watches += [watch] if watch else []
    if kernels is None or not (watches or around or synchronous):
        return kernels
    line = partial(_line, run.__code__.co_filename, lines)
    return Watched(kernels, line, watches, around or nullcontext)


def _finite(x: Launch) -> None:
    """Raise ``not-finite`` where a result has a NaN or an infinity."""
    for (name, a), dtype in zip(x.results.items(), x.dtypes, strict=True):
        require_finite(a, dtype, f"kernel {x.kernel}, result {name}")


def _told(x: Launch) -> None:
    rate = x.nbytes / x.seconds / 1e9
    took = f"{1e6 * x.seconds:.1f} us, {x.nbytes} bytes, {rate:.2f} GB/s"
    print(f"kernel {x.kernel}: {took}: {x.line}", file=sys.stderr)


def dumped(folder: Path) -> Watch:
    """Return what writes the results of launches as files ``NUMBER-NAME.npy``, in order."""
    numbers = count()

    def watch(x: Launch) -> None:
        for name, a in x.results.items():
            np.save(folder / f"{next(numbers):03}-{name}.npy", a, allow_pickle=False)

    return watch


def locate(e: Exception, run: Callable[..., Any], lines: Mapping[int, Line]) -> None:
    """Add notes to an exception: the lines of the program from which it came, outermost first."""
    for note in _places(e.__traceback__, run.__code__.co_filename, lines):
        e.add_note(note)


def _places(tb: TracebackType | None, file: str, lines: Mapping[int, Line]) -> Iterator[str]:
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == file and tb.tb_lineno in lines:
            yield f"{Path(file).name}, line {tb.tb_lineno}: {lines[tb.tb_lineno].text}"
        tb = tb.tb_next


def traced(run: Callable[..., Any], lines: Mapping[int, Line]) -> Callable[..., Any]:
    """Return the function of a module: with ``wrapper`` in the log, one that writes its lines."""
    file = run.__code__.co_filename
    if "wrapper" not in LOG:
        return run

    before: list[Line | None] = [None]

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        del arg
        if frame.f_code.co_filename != file:
            return None
        line = lines.get(frame.f_lineno) if event == "line" else None
        if line is not None and line is not before[0]:
            print(f"line {frame.f_lineno}: {line.text}", file=sys.stderr)
            before[0] = line
        return trace

    def call(*args: Any, **named: Any) -> Any:
        other = sys.gettrace()
        sys.settrace(trace)
        try:
            return run(*args, **named)
        finally:
            sys.settrace(other)

    return call
