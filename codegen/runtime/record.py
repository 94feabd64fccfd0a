"""What a wrapper does on an engine, recorded: launches and copies of bytes without addresses.

A program without branches does the same for all inputs of the same shapes.  Its wrapper is run once
on an engine that only notes what is asked of it.  The memory that it takes is laid out in one
scratch block; each result has memory of its own, so that it outlives the others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

from didyma.codegen.runtime.device_array import DeviceArray
from didyma.codegen.runtime.geometry import Geometries, Geometry, check_buffers, words
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import (
    ALIGNMENT,
    Bind,
    Dispatch,
    Extern,
    If,
    Line,
    Program,
    Return,
    Strided,
    While,
)
from didyma.refimpl.ir.types import DType, nbytes_of

WRAPPER = "<wrapper>"  # what the wrapper's source was compiled as
LIMIT = 4096  # steps; a program with more repeats itself, and is not worth a recording
FIXED = -1  # the block of bytes whose address is known, such as constants


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of a block.

    Blocks are numbered: the inputs, the scratch block, the results; ``FIXED`` begins at address 0.
    """

    block: int
    offset: int
    nbytes: int

    def holds(self, other: Part) -> bool:
        """Return whether all bytes of another part are among these."""
        ends = other.offset + other.nbytes <= self.offset + self.nbytes
        return self.block == other.block and self.offset <= other.offset and ends

    def meets(self, other: Part) -> bool:
        """Return whether the two share a byte."""
        return self.block == other.block and (
            max(self.offset, other.offset)
            < min(self.offset + self.nbytes, other.offset + other.nbytes)
        )


@dataclass(frozen=True, slots=True)
class Launched:
    """A launch: its kernel, a part for each buffer, and words for its dims and scalars.

    ``after`` are the numbers of the steps that must have ended before, and ``line`` that of the
    wrapper's text.
    """

    signature: Signature
    geometry: Geometry
    args: tuple[Part, ...]
    scalars: tuple[int, ...]
    after: tuple[int, ...]
    line: int

    @property
    def parts(self) -> tuple[Part, ...]:
        """The bytes that it reads or writes."""
        return self.args

    @property
    def written(self) -> tuple[Part, ...]:
        """The bytes that it writes."""
        return self._of(written=True)

    @property
    def read(self) -> tuple[Part, ...]:
        """The bytes that it only reads."""
        return self._of(written=False)

    def _of(self, *, written: bool) -> tuple[Part, ...]:
        s = self.signature
        pairs = zip(s.buffers, self.args, strict=True)
        return tuple(p for (name, _), p in pairs if (name in s.outputs) is written)

    @property
    def where(self) -> str:
        """Name the launch to a reader."""
        return f"kernel {self.signature.name}, line {self.line} of the wrapper"


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy of bytes on the device.  It is in no graph, so it waits for all steps before."""

    target: Part
    source: Part

    @property
    def parts(self) -> tuple[Part, ...]:
        """The bytes that it reads or writes."""
        return self.target, self.source


Step = Launched | Copied


@dataclass(frozen=True, slots=True)
class Result:
    """An array that the program returns."""

    part: Part
    dtype: DType
    shape: tuple[int, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """The bytes that it has."""
        return (self.part,)


@dataclass(frozen=True, slots=True)
class Recording:
    """What a call does: steps in an order that is sound, over blocks of bytes.

    ``inputs`` counts the inputs, and ``scratch`` the bytes that no result needs.
    """

    inputs: int
    scratch: int
    steps: tuple[Step, ...]
    results: tuple[Result, ...]


def obstacle(p: Program) -> str:
    """Return why calls of a program cannot be recorded; empty if they can.

    >>> obstacle(Program("p", (), (), (), (), (), ()))
    ''
    """
    for f in (p, *p.functions):
        for line in walk(f.lines):
            if why := _obstacle(line):
                return why
    if lie := [v for v in p.inputs if p.type[v].strides is not None]:
        return f"the strides of {lie[0]} are declared"
    return "an input is returned" if any(v in p.inputs for v in _returned(p)) else ""


def _returned(p: Program) -> tuple[str, ...]:
    return tuple(v for x in p.lines if isinstance(x, Return) for v in x.values)


def _obstacle(line: Line) -> str:
    match line:
        case If() | While():
            return "a branch is taken by what is on the GPU"
        case Bind():
            return "a size is read from the GPU"
        case Extern():
            return f"the routine {line.name} is called from the host"
        case Dispatch():
            return "calls choose among kernels"
        case Strided():
            return f"{line.value} is returned as a view"
        case _:
            return ""


def record(
    run: Callable[..., list[Any]], text: KernelText, inputs: Sequence[DeviceArray]
) -> Recording:
    """Return what a wrapper does with inputs of these dtypes and shapes.

    ``run`` takes an engine, inputs and ``kernels``.  TooLong for more than ``LIMIT`` steps; other
    errors as of the wrapper for its inputs.
    """
    recorder = _Recorder(inputs)
    results: list[Result] = run(recorder, list(inputs), kernels=_Loaded(recorder, text))
    return apart(Recording(len(inputs), recorder.scratch, tuple(recorder.steps), tuple(results)))


class TooLong(Exception):
    """A call has more steps than are recorded."""


class _Recorder:
    """The engine that a wrapper is recorded on; its buffers are parts."""

    name = "record"

    def __init__(self, inputs: Sequence[DeviceArray]) -> None:
        self._given = inputs
        self.scratch = 0
        self.steps: list[Step] = []
        self._live: list[Part] = []  # of the scratch block, by offset
        self._streams = {0: frozenset[int]()}  # by stream: after which steps its next one runs

    def upload(self, array: DeviceArray) -> Part:
        number = next(i for i, a in enumerate(self._given) if a is array)
        return Part(number, 0, array.nbytes)

    def allocate(self, nbytes: int) -> Part:
        """Lay bytes out at the lowest place that is free."""
        size, at, index = -(-max(1, nbytes) // ALIGNMENT) * ALIGNMENT, 0, 0
        for index, p in enumerate((*self._live, None)):  # noqa: B007 - the place in the list
            if p is None or p.offset - at >= size:
                break
            at = p.offset + -(-max(1, p.nbytes) // ALIGNMENT) * ALIGNMENT
        part = Part(len(self._given), at, nbytes)
        self._live.insert(index, part)
        self.scratch = max(self.scratch, at + size)
        return part

    def free(self, buffer: Part) -> None:
        if len(self._streams) == 1 and buffer in self._live:  # else another may use it still
            self._live.remove(buffer)

    stack, unstack = allocate, free

    def view(self, buffer: Any, offset: int, nbytes: int) -> Part:
        of = part_of(buffer)
        assert 0 <= offset <= offset + nbytes <= of.nbytes, "a view outside its buffer"
        return Part(of.block, of.offset + offset, nbytes)

    def download(self, buffer: Any, dtype: str, shape: Sequence[int]) -> Result:
        of, nbytes = part_of(buffer), nbytes_of(dtype, shape)
        assert nbytes <= of.nbytes, "a download of more than there is"
        return Result(replace(of, nbytes=nbytes), DType(dtype), tuple(shape))

    def copy(self, target: Any, source: Any) -> None:
        of = part_of(source)
        if of.nbytes:
            to = replace(part_of(target), nbytes=of.nbytes)
            self.add(Copied(to, of), 0)

    def wait(self, stream: int, on: int) -> None:
        self._streams[stream] = self.after(stream) | self.after(on)

    def join(self) -> None:
        every = frozenset[int]().union(*self._streams.values())
        self._streams = dict.fromkeys(self._streams, every)

    def after(self, stream: int) -> frozenset[int]:
        """Return the steps after which the next one of a stream runs."""
        return self._streams.setdefault(stream, self._streams[0])

    def add(self, step: Step, stream: int) -> None:
        if len(self.steps) == LIMIT:
            raise TooLong
        self._streams[stream] = frozenset((len(self.steps),))
        self.steps.append(step)


class _Loaded:
    """The kernels of a recorded call."""

    def __init__(self, recorder: _Recorder, text: KernelText) -> None:
        self._recorder = recorder
        self._geometries = {s.name: Geometries(s) for s in text.kernels}

    def launch(
        self,
        kernel: str,
        buffers: Sequence[Any],
        dims: Mapping[str, int],
        stream: int = 0,
        scalars: Sequence[float] = (),
    ) -> None:
        geometries, args = self._geometries[kernel], tuple(map(part_of, buffers))
        s, g = geometries.signature, geometries(dims)
        check_buffers(s, g, [a.nbytes for a in args])
        if not g.empty:
            after = tuple(sorted(self._recorder.after(stream)))
            line = _line()
            step = Launched(s, g, args, tuple(words(s, scalars)), after, line)
            self._recorder.add(step, stream)


def _line() -> int:
    """Return the line of the wrapper that is being run; 0 where there is none."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage] - no public way is as quick
    while frame is not None and frame.f_code.co_filename != WRAPPER:
        frame = frame.f_back
    return 0 if frame is None else frame.f_lineno


def part_of(buffer: Any) -> Part:
    """Return a buffer of the recorder, or of the engine itself, as a part."""
    return buffer if isinstance(buffer, Part) else Part(FIXED, buffer.address, buffer.nbytes)


def apart(r: Recording) -> Recording:
    """Give each result memory of its own, if need be by a copy at the end.

    The results of ``r`` are where the wrapper leaves them; those of what is returned are blocks.
    """
    scratch, own = r.inputs, list[Result]()
    for number in range(len(r.results)):
        part = r.results[number].part
        to = Part(r.inputs + 1 + number, 0, part.nbytes)
        own.append(replace(r.results[number], part=to))
        first = _tenancy(r, part) if part.block == scratch else None
        if first is not None:
            r = _moved(r, part, to, first)
        elif to.nbytes:
            r = replace(r, steps=(*r.steps, Copied(to, part)))
    ends = (p.offset + p.nbytes for s in r.steps for p in s.parts if p.block == scratch)
    return replace(r, scratch=max(ends, default=0), results=tuple(own))


def _tenancy(r: Recording, part: Part) -> int | None:
    """Return the step from which on the bytes of a result hold it and nothing else.

    What earlier steps do with them is for values that are dead by then.  None where it has no such
    step: a value that shares some of the bytes is used until the end.
    """
    others = [i for i, s in enumerate(r.steps) if any(_crosses(p, part) for p in s.parts)]
    if any(_crosses(x.part, part) for x in r.results):
        return None
    if not others:
        return 0
    start = others[-1] + 1
    used = (s for s in r.steps[start:] if any(p.meets(part) for p in s.parts))
    match next(used, None):
        case Launched() as s if part in s.written and not any(p.meets(part) for p in s.read):
            return start
        case _:
            return None


def _crosses(p: Part, part: Part) -> bool:
    return p.meets(part) and not part.holds(p)


def _moved(r: Recording, source: Part, target: Part, first: int) -> Recording:
    """Return a recording in which from a step on the bytes of one part are another's."""

    def at(p: Part) -> Part:
        if not source.holds(p):
            return p
        return Part(target.block, p.offset - source.offset, p.nbytes)

    def step(s: Step) -> Step:
        match s:
            case Launched():
                return replace(s, args=tuple(map(at, s.args)))
            case Copied():
                return replace(s, target=at(s.target), source=at(s.source))

    results = (replace(x, part=at(x.part)) for x in r.results)
    steps = (*r.steps[:first], *map(step, r.steps[first:]))
    return replace(r, steps=steps, results=tuple(results))
