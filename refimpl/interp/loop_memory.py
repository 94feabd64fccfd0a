"""The memory of a thread of loop programs: elements that are unset until they are stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from didyma.refimpl.interp.faults import stmt_fault
from didyma.refimpl.interp.scalar import Value
from didyma.refimpl.interp.scalar_ring import forget, value_of
from didyma.refimpl.ir import dims as sizes
from didyma.refimpl.ir.loop import Buffer, PrimFunc, Scope, Stmt
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ir.workspace import given_room


@dataclass(frozen=True, slots=True)
class Contents:
    """What a buffer holds: its elements, which of them have been stored, and whether it is dead.

    ``origin`` is the index of the first of them, if a part of the buffer is realized; else empty.
    """

    data: Array
    stored: Array
    dead: bool = False
    origin: tuple[int, ...] = ()

    def place(self, at: tuple[int, ...]) -> tuple[int, ...]:
        """Return where among the elements an index is."""
        return tuple(i - o for i, o in zip(at, self.origin, strict=True)) if self.origin else at


Box: TypeAlias = tuple[range, ...]  # elements: indices on each axis


@dataclass(frozen=True, slots=True)
class Limits:
    """What a block may touch of the buffers ``known`` outside it: those it makes are its own."""

    known: frozenset[str]
    reads: Mapping[str, Sequence[Box]]
    writes: Mapping[str, Sequence[Box]]

    def check(self, name: str, at: tuple[int, ...], s: Stmt, *, writes: bool) -> None:
        """Raise LoopFault ``region`` where statement ``s`` touches an element of no region."""
        if name not in self.known:
            return
        boxes = [*self.writes.get(name, ()), *(() if writes else self.reads.get(name, ()))]
        if not any(all(i in axis for i, axis in zip(at, box, strict=True)) for box in boxes):
            how = "written" if writes else "read"
            raise stmt_fault("region", s, f"{name}, element {at} is {how} outside its regions")


@dataclass(frozen=True, slots=True)
class Memory:
    """The buffers that one thread knows, by name; ``held`` gives the NumPy dtype of elements.

    ``limits`` are the regions of the blocks around.

    ``block`` has the shared buffers of its block.  The n-th that one thread makes of a name is the
    n-th that any other makes; ``made`` counts them.
    """

    held: Callable[[DType], np.dtype[Any]]
    buffers: dict[str, Contents]
    block: dict[tuple[str, int], Contents] = field(default_factory=dict[tuple[str, int], Contents])
    made: Counter[str] = field(default_factory=Counter[str])
    limits: tuple[Limits, ...] = ()

    def within(self, limits: Limits) -> Memory:
        """Return the memory that a block sees: what it makes is its own, and ends with it."""
        return replace(self, buffers=dict(self.buffers), limits=(*self.limits, limits))

    def fork(self) -> Memory:
        """Return the memory of a thread that begins with the buffers that this one has."""
        return replace(self, buffers=dict(self.buffers), made=Counter(self.made))

    def given(self, names: Mapping[str, str]) -> Memory:
        """Return what a function that is called knows: buffers of this thread by other names."""
        return replace(self, buffers={new: self.buffers[old] for new, old in names.items()})

    def make(self, b: Buffer) -> Contents:
        """Make a buffer whose elements are yet to be stored: the block's, or this thread's own."""
        shape = [sizes.evaluate(d, {}) for d in b.shape]
        m = Contents(np.zeros(shape, self.held(b.dtype)), np.zeros(shape, bool))
        if b.scope is Scope.SHARED:
            self.made[b.name] += 1
            m = self.block.setdefault((b.name, self.made[b.name]), m)
        self.buffers[b.name] = m
        return m

    def take(self, b: Buffer, array: Array) -> None:
        """Make a buffer of an array whose elements are all stored."""
        data = np.zeros(array.shape, self.held(b.dtype))
        value_of(data)[...] = array
        forget(data)
        self.buffers[b.name] = Contents(data, np.ones(array.shape, bool))

    def values(self, names: Sequence[str], s: Stmt) -> list[Array]:
        """Return the values of whole buffers, all of whose elements statement ``s`` reads."""
        for n in names:
            for at in np.ndindex(self.buffers[n].data.shape):
                self.load(n, at, s)
        return [value_of(self.buffers[n].data) for n in names]

    def realize(self, b: Buffer, origin: Sequence[Value], extents: tuple[int, ...]) -> None:
        """Make a part of a buffer."""
        m = self.make(replace(b, shape=extents))
        self.buffers[b.name] = replace(m, origin=tuple(map(int, origin)))

    def free(self, name: str) -> None:
        """Make a buffer dead for what this thread does from here on."""
        m = self.buffers[name]
        self.buffers[name] = replace(m, stored=np.zeros(m.data.shape, bool), dead=True)

    def place(self, b: Buffer, over: str, s: Stmt) -> None:
        """Make a buffer of the bytes of another, for statement ``s``."""
        old = self.buffers[over]
        if (need := self.make(b).data.nbytes) > old.data.nbytes:
            detail = f"{b.name} needs {need} bytes, {over} has {old.data.nbytes}"
            raise stmt_fault("out-of-bounds", s, detail)
        if old.dead:
            raise stmt_fault("uninitialised", s, f"{over} is freed")
        self.free(over)

    def element(self, name: str, index: Sequence[Value], s: Stmt) -> tuple[int, ...]:
        """Return the element at an index, which statement ``s`` accesses."""
        at, m = tuple(map(int, index)), self.buffers[name]
        first = m.origin or (0,) * len(at)
        for axis, (i, low, size) in enumerate(zip(at, first, m.data.shape, strict=True)):
            if not low <= i < low + size:
                detail = f"{name}, axis {axis}: index {i} outside [{low}, {low + size})"
                raise stmt_fault("out-of-bounds", s, detail)
        return at

    def load(self, name: str, at: tuple[int, ...], s: Stmt) -> Value:
        """Return what an element holds, for statement ``s``."""
        for limits in self.limits:
            limits.check(name, at, s, writes=False)
        m = self.buffers[name]
        if not m.stored[m.place(at)]:
            raise stmt_fault("uninitialised", s, f"{name}, element {at} was never stored")
        element: Value = m.data[m.place(at)]
        return element.copy() if element.dtype.names else element  # which is a view of the array

    def store(self, name: str, at: tuple[int, ...], value: Value, s: Stmt) -> None:
        """Set an element, for statement ``s``."""
        for limits in self.limits:
            limits.check(name, at, s, writes=True)
        m = self.buffers[name]
        if m.dead:
            raise stmt_fault("uninitialised", s, f"{name} is freed")
        m.data[m.place(at)] = value
        m.stored[m.place(at)] = True


def memory_of(
    f: PrimFunc,
    buffers: Mapping[str, Array],
    dims: Mapping[str, int],
    held: Callable[[DType], np.dtype[np.generic]],
) -> tuple[PrimFunc, Memory]:
    """Return a function that has its workspace among its parameters, and what these hold.

    All elements of the arrays that are given are stored, and none of the workspace is.
    """
    whole, arrays = given_room(f, buffers, dims, held)
    begun = {name: np.full(a.shape, name in buffers) for name, a in arrays.items()}
    return whole, Memory(
        held, {p.name: Contents(arrays[p.name], begun[p.name]) for p in whole.params}
    )
