"""The interpreter of programs: an arena whose bytes remember which value owns them.

A fresh allocation, a freed one and one taken over hold poison, and a line may touch a value only
while the value owns its bytes, so a plan that overlaps two live ranges is found whether or not it
changes a result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

import numpy as np

from refimpl.errors import DidymaError
from refimpl.interp import loop
from refimpl.interp.faults import ProgramFault, ProgramFaultKind
from refimpl.interp.loop import Routine
from refimpl.ir import dims
from refimpl.ir.loop import PrimFunc
from refimpl.ir.program import (
    ALIGNMENT,
    Allocate,
    Assert,
    Copy,
    Extern,
    Free,
    Launch,
    Line,
    PlacementAllocate,
    Program,
    Return,
    Reuse,
    View,
)
from refimpl.ir.text.program import show_instruction
from refimpl.ir.types import Array, DType, TensorType

__all__ = ["LaunchFn", "ProgramFault", "run"]

LaunchFn: TypeAlias = Callable[[PrimFunc, dict[str, Array], Mapping[str, int]], None]

POISON = 0xFF  # fills floats: a NaN of each
OTHER_POISON = 0xA5  # fills the others: an integer nobody expects, and no bool


def run(
    p: Program,
    inputs: Sequence[Array],
    launch: LaunchFn = loop.run,
    externals: Mapping[str, Routine] | None = None,
) -> list[Array]:
    """Run a program; the results are copies.

    ``externals`` are the routines that ``Extern`` names.  Raises DidymaError for inputs that do not
    fit, ProgramFault for a line that touches what is not its own, and what ``launch`` raises.
    """
    machine = _Machine(p, bind(p, inputs), launch, externals or {})
    for name, array in zip(p.inputs, inputs, strict=True):
        machine.lend(name, array)
    for name, tensor in p.constants:
        machine.lend(name, tensor.array())
    for line in p.lines[:-1]:
        machine.step(line)
    return machine.finish()


def bind(p: Program, inputs: Sequence[Array]) -> dict[str, int]:
    """Return the values of the program's dims; DidymaError for inputs of another type."""
    if len(inputs) != len(p.inputs):
        raise DidymaError(
            "arity", p.name, got=f"{len(inputs)} inputs", want=f"{len(p.inputs)}: {p.inputs}"
        )
    types = p.type
    for name, array in zip(p.inputs, inputs, strict=True):
        if array.dtype != types[name].dtype.numpy:
            raise DidymaError(
                "dtype-mismatch", name, got=str(array.dtype), want=str(types[name].dtype)
            )
    shapes = [(n, types[n].shape, a.shape) for n, a in zip(p.inputs, inputs, strict=True)]
    return dims.bind(shapes, p.dims)


class _Allocation:
    """Bytes, and who owns which of them; several values may own disjoint ranges."""

    __slots__ = ("data", "lent", "owners")

    def __init__(self, data: Array, lent: bool) -> None:
        self.data = data
        self.lent = lent  # the caller's: never written, freed or reused
        self.owners: dict[str, tuple[int, int]] = {}

    def take(self, value: str, lo: int, hi: int) -> None:
        """Make ``value`` the owner of a range, and nobody else of any byte in it."""
        self.owners = {v: (a, b) for v, (a, b) in self.owners.items() if b <= lo or hi <= a}
        self.owners[value] = (lo, hi)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value lies; ``owner`` is the value itself, or the one it is a view of."""

    allocation: _Allocation
    lo: int
    hi: int
    owner: str


class _Machine:
    """The state of a run: allocations, and the place of every value defined so far."""

    def __init__(
        self,
        p: Program,
        env: Mapping[str, int],
        launch: LaunchFn,
        externals: Mapping[str, Routine],
    ) -> None:
        self.program = p
        self.env = env
        self.launch = launch
        self.externals = externals
        self.types: dict[str, TensorType] = p.type
        self.kernels: dict[str, PrimFunc] = p.kernel
        self.places: dict[str, _Place] = {}
        self.originals: list[tuple[Array, Array]] = []
        self.line: Line = p.lines[-1]

    def lend(self, name: str, array: Array) -> None:
        """Define an input or constant; its bytes stay the caller's."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if self.launch is not loop.run:  # which honours the read-only flag; others may not
            self.originals.append((data, data.copy()))
        data = data[:]
        data.flags.writeable = False
        allocation = _Allocation(data, lent=True)
        allocation.owners[name] = (0, data.size)
        self.places[name] = _Place(allocation, 0, data.size, name)

    def step(self, line: Line) -> None:
        """Run one line."""
        self.line = line
        match line:
            case Launch(kernel, args):
                self._launch(self.kernels[kernel], args)
            case Allocate(value):
                self._allocate(value)
            case Free(value):
                self._free(value)
            case Reuse(value, over):
                self._take_over(value, over, self._place(over).lo, whole=True)
            case PlacementAllocate(value, over, offset):
                self._take_over(value, over, dims.evaluate(offset, self.env), whole=False)
            case View(value, of):
                self._view(value, of)
            case Copy(value, source):
                self._copy(value, source)
            case Extern():
                self._extern(line)
            case Assert(lhs, rhs, message):
                a, b = dims.evaluate(lhs, self.env), dims.evaluate(rhs, self.env)
                if a != b:
                    raise self._fault("assert", f"{message} ({a} != {b})")
            case Return():
                raise self._fault("unallocated", "Return before the last line")
            case _:
                assert_never(line)

    def finish(self) -> list[Array]:
        """Return copies of the results."""
        self.line = self.program.lines[-1]
        results = [self._array(v, write=False).copy() for v in self.program.results]
        for data, before in self.originals:
            if not np.array_equal(data, before):
                raise self._fault("read-only", "an input or constant was written")
        return results

    def _fault(self, kind: ProgramFaultKind, detail: str) -> ProgramFault:
        return ProgramFault(kind, show_instruction(self.line), detail)

    def _nbytes(self, value: str) -> int:
        return dims.evaluate(self.types[value].nbytes, self.env)

    def _place(self, value: str) -> _Place:
        """Place of a defined value, which need no longer own it."""
        if value not in self.places:
            raise self._fault("unallocated", f"{value} has no bytes yet")
        return self.places[value]

    def _owned(self, value: str) -> _Place:
        """Place of a value that owns its bytes."""
        place = self._place(value)
        owners = place.allocation.owners
        if place.owner not in owners:
            taken = [v for v, (a, b) in owners.items() if a < place.hi and place.lo < b]
            now = f"now of {', '.join(taken)}" if taken else "now free"
            via = "" if place.owner == value else f", a view of {place.owner},"
            raise self._fault(
                "ownership", f"{value}{via} does not own bytes {place.lo}..{place.hi}, {now}"
            )
        return place

    def _define(self, value: str, place: _Place) -> None:
        if value in self.places:
            raise self._fault("double-allocation", f"{value} has bytes already")
        self.places[value] = place

    def _poison(self, place: _Place, dtype: DType) -> None:
        place.allocation.data[place.lo : place.hi] = POISON if dtype.is_float else OTHER_POISON

    def _array(self, value: str, *, write: bool) -> Array:
        """Return a value's elements, in place; read-only unless they may be written."""
        place, t = self._owned(value), self.types[value]
        if write and place.allocation.lent:
            raise self._fault("read-only", f"{value} is the caller's")
        shape = tuple(dims.evaluate(d, self.env) for d in t.shape)
        array = place.allocation.data[place.lo : place.hi].view(t.dtype.numpy).reshape(shape)
        if not write:
            array.flags.writeable = False
        return array

    def _allocate(self, value: str) -> None:
        size = self._nbytes(value)
        allocation = _Allocation(np.empty(size, np.uint8), lent=False)
        place = _Place(allocation, 0, size, value)
        self._define(value, place)
        allocation.take(value, 0, size)
        self._poison(place, self.types[value].dtype)

    def _free(self, value: str) -> None:
        place = self._owned(value)
        if place.allocation.lent:
            raise self._fault("read-only", f"{value} is the caller's")
        if place.owner != value:
            raise self._fault("ownership", f"{value} is a view of {place.owner}")
        self._poison(place, self.types[value].dtype)
        del place.allocation.owners[value]

    def _take_over(self, value: str, over: str, lo: int, *, whole: bool) -> None:
        old = self._place(over)
        allocation = old.allocation
        if allocation.lent:
            raise self._fault("read-only", f"{over} is the caller's")
        if not allocation.owners:
            raise self._fault("freed", f"the allocation of {over} went back")
        hi = lo + self._nbytes(value)
        if lo < 0 or hi > allocation.data.size or (whole and hi != old.hi):
            size = old.hi - old.lo if whole else allocation.data.size
            raise self._fault("capacity", f"{value} wants bytes {lo}..{hi} of {size}")
        if lo % ALIGNMENT:
            raise self._fault("capacity", f"byte {lo} is no multiple of {ALIGNMENT}")
        place = _Place(allocation, lo, hi, value)
        self._define(value, place)
        allocation.owners.pop(old.owner, None)  # by this line it is dead, views and all
        allocation.take(value, lo, hi)
        self._poison(place, self.types[value].dtype)

    def _view(self, value: str, of: str) -> None:
        place = self._owned(of)
        if self._nbytes(value) != self._nbytes(of):
            raise self._fault("capacity", f"{value} and {of} differ in size")
        self._define(value, place)

    def _copy(self, value: str, source: str) -> None:
        target, data = self._array(value, write=True), self._array(source, write=False)
        if target.dtype != data.dtype or target.shape != data.shape:
            raise self._fault("capacity", f"{value} and {source} differ in type")
        self._apart([value], [source])
        target[...] = data

    def _apart(self, outputs: Sequence[str], inputs: Sequence[str]) -> None:
        """Fault if a written value is also read, or written twice, by the same line."""
        written = [self._owned(v).owner for v in outputs]
        touched = written + [self._owned(v).owner for v in inputs]
        for owner in written:
            if touched.count(owner) > 1:
                raise self._fault("ownership", f"{owner} is written under two names")

    def _launch(self, kernel: PrimFunc, args: Sequence[str]) -> None:
        if len(args) != len(kernel.params):
            raise self._fault("unallocated", f"{kernel.name} takes {len(kernel.params)} buffers")
        outputs = set(kernel.outputs)
        names = [b.name for b in kernel.params]
        pairs = list(zip(names, args, strict=True))
        self._apart(
            [a for n, a in pairs if n in outputs], [a for n, a in pairs if n not in outputs]
        )
        # A kernel may see a value under another shape of as many elements.
        buffers = {
            b.name: self._array(a, write=b.name in outputs).reshape(
                tuple(dims.evaluate(d, self.env) for d in b.shape)
            )
            for b, a in zip(kernel.params, args, strict=True)
        }
        self.launch(kernel, buffers, self.env)

    def _extern(self, line: Extern) -> None:
        self._apart(line.outputs, line.inputs)
        outputs = [self._array(v, write=True) for v in line.outputs]
        inputs = [self._array(v, write=False) for v in line.inputs]
        if line.name not in self.externals:
            raise DidymaError(
                "unknown-routine",
                show_instruction(line),
                got=line.name,
                want=f"one of {sorted(self.externals)}",
            )
        self.externals[line.name](outputs, inputs, dict(line.attrs))
