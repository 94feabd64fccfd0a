"""A kernel's launch judged for faults of memory and synchronisation, in several orders of warps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import process_time

import numpy as np

from didyma.codegen.runtime.ptx.code import Loc
from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.kinds import FLOATS
from didyma.codegen.runtime.ptx.launch import Launch, Pointer, Region, Value, launch
from didyma.codegen.runtime.ptx.machine import Report, Shape
from didyma.codegen.runtime.ptx.shape import RANDOM
from didyma.codegen.runtime.ptx.sources import Source
from didyma.refimpl.errors import DidymaError, counted
from didyma.refimpl.ir.target import PORTABLE
from didyma.refimpl.ir.types import Array

NOTES = frozenset(("same-value", "refused"))  # kinds that are worth a note, and no fault
_PATIENT, _LONGER = 2.0, 10  # seconds, and times as long, that a launch may take after a fault
_SHARED = 227 << 10  # bytes of shared memory that a block may have


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument: an array, or a scalar of no axes.  An ``output`` counts as unwritten.

    One with ``fields`` is a structure of these, as C lays it out; it has no value of its own.
    ``written`` says which bytes are written before the launch: if it is None, none of an output
    and all of another array.  The address that is passed is that of the byte ``start``.
    """

    name: str
    value: Array
    output: bool = False
    fields: tuple[Argument, ...] = ()
    written: Array | None = None
    start: int = 0

    @property
    def align(self) -> int:
        """The alignment in bytes of what is passed."""
        if self.fields:
            return max(f.align for f in self.fields)
        return 8 if self.value.ndim else self.value.itemsize

    @property
    def passed(self) -> int:
        """The bytes that are passed: those of a number, of an address, or of a structure."""
        if not self.fields:
            return 8 if self.value.ndim else self.value.itemsize
        last = list(self.offsets())[-1] + self.fields[-1].passed
        return -(-last // self.align) * self.align

    def offsets(self) -> Iterator[int]:
        """Yield the offset in bytes of each field."""
        end = 0
        for f in self.fields:
            end = -(-end // f.align) * f.align
            yield end
            end += f.passed

    def arrays(self) -> Iterator[Argument]:
        """Yield the arrays that are passed by address: itself, or those of its fields."""
        if self.fields:
            for f in self.fields:
                yield from f.arrays()
        elif self.value.ndim:
            yield self


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault, or a note, where it is in the source.

    ``line`` is 0 where no line is known.  ``inlined`` are the lines into which its function was
    inlined, ``other`` the line of the access that it races with.  ``schedule`` is the order of
    warps in which it was seen first; ``where`` says with which other arguments, if any.
    """

    kind: str
    detail: str
    file: str
    line: int
    source: str
    inlined: tuple[str, ...]
    other: str
    threads: int
    schedule: int
    where: str = ""

    @property
    def is_note(self) -> bool:
        """Whether it is no fault."""
        return self.kind in NOTES

    @property
    def lines(self) -> tuple[int, ...]:
        """The lines of its file that it names."""
        file, _, number = self.other.rpartition(":")
        other = int(number) if number.isdecimal() and file == self.file else 0
        return tuple(n for n in (self.line, other) if n)


@dataclass(frozen=True, slots=True)
class Sanitized:
    """What the launches of a kernel found; ``outputs`` are the arguments after the last one.

    ``written`` has for each of them which bytes are written, ``writers`` which instruction wrote a
    byte last, or -1; ``met`` the names of the arrays that atomics and ordered loads were seen to
    access; ``left`` the bytes of variables of the module that the last launch has changed.
    """

    findings: tuple[Finding, ...]
    schedules: int
    instructions: int
    outputs: tuple[Array, ...]
    written: tuple[Array, ...] = ()
    met: frozenset[str] = frozenset()
    writers: tuple[Array, ...] = ()
    left: Mapping[str, bytes] = field(default_factory=dict[str, bytes])

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The findings that are no notes."""
        return tuple(f for f in self.findings if not f.is_note)


def sanitize(
    source: Source,
    kernel: Kernel,
    shape: Shape,
    args: Sequence[Argument],
    shared: int = 0,
    schedules: int = 3,
    seconds: float = 60.0,
    *,
    first: int = 0,
    also: Sequence[Kernel] = (),
) -> Sanitized:
    """Run a launch in several orders of warps; return what the checks found.

    ``first`` is the number of the first order.  ``also`` are other translations of the kernel, such
    as the unoptimised one, which run once each, or in as many random orders if threads wait for
    what others write.  Once a fault is known, a launch that takes far longer than those before is
    stopped, and tells nothing.
    Errors: ``launch-failed`` for a launch that no device runs, ``input-count``, ``bad-option`` for
    an argument that does not fit the parameter.
    """
    _demand_room(kernel, shape, shared)
    _demand_fit(kernel, args)
    found: dict[tuple[str, str, int, str], Finding] = {}
    steps, after, met = 0, list[Array](), set[str]()
    written, writers, left = list[Array](), list[Array](), dict[str, bytes]()
    arrays = [a for given in args for a in given.arrays()]
    runs = [(kernel, k) for k in range(first, first + schedules)]
    hung, longest = False, 0.0
    more = [(k, n) for k in also for n in _orders(k, first, schedules)]
    for translation, schedule in (*runs, *more):
        if hung and translation is not kernel:
            break  # as it would again, more slowly
        regions, given = passed(args)
        known = any(not f.is_note for f in found.values())
        limit = min(seconds, max(_PATIENT, _LONGER * longest)) if known else seconds
        begun = process_time()
        done = launch(translation, shape, regions, given, shared, schedule, limit)
        longest = max(longest, process_time() - begun)
        if done.late and limit < seconds:
            break
        steps += done.lane_steps
        met |= {arrays[k].name for k in done.met}
        told = () if translation is kernel else {(k, file, str(n)) for k, file, n, _ in found}
        for f in (
            *_findings(source, done, schedule),
            *_unset(source, done, schedule),
            *_unwritten(source, done, arrays, regions, schedule),
        ):
            if any((f.kind, *at.rsplit(":", 1)) in told for at in f.inlined):
                continue  # at the line into which the other translation inlined it
            found.setdefault((f.kind, f.file, f.line, f.detail if f.kind == "unwritten" else ""), f)
        if translation is kernel:
            after = [
                r.data.view(a.value.dtype).reshape(a.value.shape)
                for r, a in zip(regions, arrays, strict=True)
            ]
            written, writers = [r.written for r in regions], [r.writers for r in regions]
            left = done.left
        hung |= any(r.kind == "hang" for r in done.reports.values())
        if done.late:
            break  # it would take as long in other orders
    ordered = sorted(found.values(), key=lambda f: (f.is_note, f.schedule))
    return Sanitized(
        tuple(ordered), schedules, steps, tuple(after), tuple(written), frozenset(met),
        tuple(writers), left,
    )  # fmt: skip


def _orders(kernel: Kernel, first: int, schedules: int) -> range:
    """Return in which orders another translation of a kernel runs."""
    if kernel.synchronises:
        return range(RANDOM + first, RANDOM + first + schedules)
    return range(first, first + min(1, schedules))


def passed(args: Sequence[Argument]) -> tuple[list[Region], list[Value]]:
    """Return the memory of a launch with such arguments, one region for each array, and them."""
    arrays = [a for given in args for a in given.arrays()]
    regions = [Region(f"argument {a.name}", bytes_of(a.value), written_before(a)) for a in arrays]
    numbers = iter(range(len(regions)))
    return regions, [_given(a, numbers) for a in args]


def written_before(a: Argument) -> Array:
    """Return which bytes of an array are written before a launch."""
    return np.full(a.value.nbytes, not a.output) if a.written is None else a.written.copy()


def _given(a: Argument, numbers: Iterator[int]) -> Value:
    """Return what is passed for an argument; ``numbers`` are those of the arrays, in order."""
    if a.fields:
        return tuple(_parts(a, 0, numbers))
    return Pointer(next(numbers), a.start) if a.value.ndim else a.value.tobytes()


def _parts(
    a: Argument, first: int, numbers: Iterator[int]
) -> Iterator[tuple[int, Pointer | bytes]]:
    for at, f in zip(a.offsets(), a.fields, strict=True):
        if f.fields:
            yield from _parts(f, first + at, numbers)
        else:
            yield first + at, Pointer(next(numbers), f.start) if f.value.ndim else f.value.tobytes()


def bytes_of(a: Array) -> Array:
    """Return the bytes of an array."""
    return np.frombuffer(np.ascontiguousarray(a).tobytes(), np.uint8).copy()


def _demand_room(kernel: Kernel, shape: Shape, shared: int) -> None:
    total = kernel.shared_bytes + shared
    fits = all(n <= most for n, most in zip(shape.grid, PORTABLE.grid, strict=True))
    whole = all(n % c == 0 for n, c in zip(shape.grid, kernel.cluster, strict=True))
    if fits and whole and PORTABLE.has_room(shape.block) and total <= _SHARED:
        return
    raise DidymaError(
        "launch-failed", f"kernel {kernel.name}",
        got=f"{' x '.join(map(str, shape.grid))} blocks of {' x '.join(map(str, shape.block))} "
        f"threads with {total} bytes of shared memory",
        want=f"at most {PORTABLE.threads} threads and {_SHARED} bytes in a block, and "
        f"{' x '.join(map(str, PORTABLE.grid))} blocks, in whole clusters",
    )  # fmt: skip


def _demand_fit(kernel: Kernel, args: Sequence[Argument]) -> None:
    params = kernel.program.kernel.params
    if len(params) != len(args):
        raise DidymaError(
            "input-count", f"kernel {kernel.name}", got=counted(len(args), "argument"),
            want=f"{len(params)}, of {', '.join(str(p.size) for p in params)} bytes",
        )  # fmt: skip
    for k, (p, a) in enumerate(zip(params, args, strict=True)):
        if a.passed != p.size:
            what = f"a scalar of {a.passed} bytes" if a.value.ndim == 0 else "an array"
            what = f"a structure of {a.passed} bytes" if a.fields else what
            raise DidymaError(
                "bad-option", f"argument {a.name}", got=what,
                want=f"what fits parameter {k} of {kernel.name}, which has {p.size} bytes",
            )  # fmt: skip
        if _is_of_other_kind(a, p.kind):
            raise DidymaError(
                "bad-option", f"argument {a.name}", got=f"a number of {a.value.dtype}",
                want=f"{'a float' if p.kind in FLOATS else 'an integer'}: parameter {k} of "
                f"{kernel.name} is {p.kind} in PTX",
            )  # fmt: skip


def _is_of_other_kind(a: Argument, kind: str) -> bool:
    """Return whether one of a number and its parameter is an integer and the other a float."""
    if a.fields or a.value.ndim:
        return False
    return kind in FLOATS if a.value.dtype.kind in "iub" else kind[0] in "su"


def _findings(source: Source, done: Launch, schedule: int) -> Iterator[Finding]:
    for r in done.reports.values():
        yield _finding(source, done.kernel, r, schedule)


def _finding(source: Source, kernel: Kernel, r: Report, schedule: int) -> Finding:
    ins = kernel.program.instrs[r.pc]
    detail, file, line = r.detail, "", 0
    places = _from_own_line(ins.loc, source)
    if places:
        file, line = places[0].file, places[0].line
    elif source.file.endswith(".ptx"):
        file, line = source.file, ins.at
    if ins.loc and ins.loc != places[0]:
        detail = f"{detail}, in {ins.loc.file}:{ins.loc.line}"
    outer = tuple(f"{o.file}:{o.line}" for o in places[1:])
    outer += tuple(kernel.line(pc) for pc in r.callers)
    other = kernel.line(r.other) if r.other >= 0 else ""
    if r.other >= 0 and (met := _from_own_line(kernel.program.instrs[r.other].loc, source)):
        other = f"{met[0].file}:{met[0].line}"
    text = source.line(file, line)
    return Finding(r.kind, detail, file, line, text, outer, other, r.lanes, schedule)


def _from_own_line(loc: Loc | None, source: Source) -> list[Loc]:
    """Return a place and those into which it was inlined, from the first in the source's own file.

    What is inlined from headers into no function of that file begins where it is.
    """
    places = [*([loc] if loc else ()), *_outer(loc)]
    own = next((k for k, p in enumerate(places) if p.file == source.file), 0)
    return places[own:]


def _outer(loc: Loc | None) -> Iterator[Loc]:
    while loc and (loc := loc.outer):
        yield loc


def _unset(source: Source, done: Launch, schedule: int) -> Iterator[Finding]:
    """Yield a finding for each read of a variable that no path has set, of which no code is left.

    Inline PTX may take a variable for its result alone.
    """
    at = {n: v for n, v in done.kernel.unset if "asm" not in source.line(source.file, n)}
    for n in sorted(at.keys() & done.kernel.lines(source.file)) if at else ():
        detail = f"variable {at[n]} is read, which nothing has set"
        text = source.line(source.file, n)
        yield Finding("uninitialised", detail, source.file, n, text, (), "", 1, schedule)


def _unwritten(
    source: Source,
    done: Launch,
    arrays: Sequence[Argument],
    regions: Sequence[Region],
    schedule: int,
) -> Iterator[Finding]:
    """Yield a finding for each output with elements that nothing has written."""
    if not done.ended:
        return
    for a, r in zip(arrays, regions, strict=True):
        whole = r.written.reshape(-1, a.value.itemsize).all(1)
        same = (r.data == bytes_of(a.value)).reshape(-1, a.value.itemsize).all(1)
        untouched = ~whole & same & ~written_before(a).reshape(-1, a.value.itemsize).all(1)
        lost_values = (("uninitialised", ~whole & ~untouched), ("unwritten", untouched & a.output))
        for kind, where in lost_values:
            lost = np.flatnonzero(where)
            if lost.size:
                at = f"argument {a.name}[{_index(int(lost[0]), a.value.shape)}]"
                detail = f"{at} gets a value that nothing has written"
                if kind == "unwritten":
                    detail = f"{at} is never written; {lost.size} elements are not"
                yield _at_kernel(source, done, kind, detail, int(lost.size), schedule)


def _index(flat: int, shape: tuple[int, ...]) -> str:
    found: list[int] = [int(i) for i in np.unravel_index(flat, shape)]
    return ", ".join(map(str, found))


def _at_kernel(
    source: Source, done: Launch, kind: str, detail: str, count: int, schedule: int
) -> Finding:
    """Return a finding that belongs to the whole kernel."""
    program = done.kernel.program
    ins = program.instrs[program.start]
    file, line = (ins.loc.file, ins.loc.line) if ins.loc else (source.file, ins.at)
    return Finding(kind, detail, file, line, source.line(file, line), (), "", count, schedule)
