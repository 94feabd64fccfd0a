"""The interpreter of programs: an arena whose bytes remember which value owns them.

A fresh allocation, a freed one and one taken over hold poison, and a line may touch a value only
while the value owns its bytes, so a plan that overlaps two live ranges is found whether or not it
changes a result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, assert_never

import numpy as np

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import loop
from didyma.refimpl.interp.faults import ProgramFault
from didyma.refimpl.interp.graph_machine import concrete_attr
from didyma.refimpl.interp.loop import Routine
from didyma.refimpl.interp.program_memory import Memory, Spot
from didyma.refimpl.interp.program_streams import Late, Queues, Work
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import (
    Allocate,
    Arena,
    Assert,
    Bind,
    Call,
    Carry,
    Copy,
    Extern,
    Free,
    If,
    Launch,
    Line,
    Place,
    PlacementAllocate,
    Program,
    Repeat,
    Return,
    Reuse,
    View,
    Wait,
    While,
)
from didyma.refimpl.ir.text.program import show_instruction
from didyma.refimpl.ir.types import Array, from_memory, to_memory
from didyma.refimpl.verify.sharing import may_share
from didyma.refimpl.verify.symbols import given

__all__ = ["LaunchFn", "ProgramFault", "run"]

LaunchFn: TypeAlias = Callable[[PrimFunc, dict[str, Array], Mapping[str, int]], None]

MOST_ROUNDS = 1 << 24  # of one loop


def run(
    p: Program,
    inputs: Sequence[Array],
    launch: LaunchFn = loop.run,
    externals: Mapping[str, Routine] | None = None,
    late: Late | None = None,
    *,
    compare_inputs: bool = False,
) -> list[Array]:
    """Run a program; the results are copies.

    ``launch`` runs a kernel in place on its buffers, at the sizes given; what the kernel must not
    write are read-only arrays.  A launcher that writes to addresses does not see that flag, and
    needs ``compare_inputs``: inputs and constants are copied first, and compared at the end.
    ``externals`` are the routines that ``Extern`` names.  With ``late`` the work of each stream
    is done only when it is waited for, in the order it says where nothing else does, so that a
    missing wait changes the results.

    Raises DidymaError for inputs that do not fit and symbols out of range, ProgramFault for a line
    that touches what is not its own, and what ``launch`` raises.
    """
    machine = _Machine(p, bind(p, inputs), launch, externals or {}, late, compare_inputs)
    for name, array in zip(p.inputs, inputs, strict=True):
        machine.borrow(name, array)
    for name, tensor in p.constants:
        machine.borrow(name, np.frombuffer(tensor.data, np.uint8))
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


class _Machine(Memory):
    """The state of a run."""

    def __init__(
        self,
        p: Program,
        env: dict[str, int],
        launch: LaunchFn,
        externals: Mapping[str, Routine],
        late: Late | None,
        compare_inputs: bool,
    ) -> None:
        super().__init__(p.type, env, p.lines[-1])
        self.program = p
        self.launch = launch
        self.externals = externals
        self.late: Late | None = late
        self.compare_inputs = compare_inputs
        self.kernels: dict[str, PrimFunc] = p.kernel
        self.functions = p.function
        self.declared = {v.name: v for v in p.dims}
        self.originals: list[tuple[Array, Array]] = []
        self.queues = Queues(late) if late is not None else None
        self.poisons = late is None  # which would come before the late work
        self.carried: set[str] = set()
        self.shares: dict[tuple[str, str, str], bool] = {}

    def borrow(self, name: str, array: Array) -> None:
        """Define an input or constant; its bytes stay the caller's."""
        data = np.ascontiguousarray(to_memory(array)).reshape(-1).view(np.uint8)
        if self.compare_inputs:
            self.originals.append((data, data.copy()))
        data = data[:]
        data.flags.writeable = False
        self.lend(name, data)

    def step(self, line: Line) -> None:
        """Run one line."""
        self.line = line
        match line:
            case Launch():
                self._launch(line)
            case Allocate(value):
                self.allocate(value)
            case Free(value):
                self.free(value)
            case Reuse(value, over):
                self.take_over(value, over, self.spot(over).lo, whole=True)
            case PlacementAllocate(value, over, offset):
                self.take_over(value, over, self.size(offset), whole=False)
            case Arena():
                self.arena(line)
            case Place(value, arena, offset):
                self.place(value, arena, self.size(offset))
            case View(value, of, offset):
                self.view(value, of, self.size(offset))
            case Copy(value, source):
                self._copy(value, source)
            case Extern():
                self._extern(line)
            case Call():
                self._call(line)
            case Wait(stream, on):
                if self.queues is not None:
                    self.queues.wait(stream, on)
            case Assert(lhs, rhs, message):
                a, b = self.size(lhs), self.size(rhs)
                if a != b:
                    raise self.fault("assert", f"{message} ({a} != {b})")
            case Bind() | Carry() | If() | While() | Repeat():
                self._control(line)
            case Return():
                raise self.fault("unallocated", "Return before the last line")
            case _:
                assert_never(line)

    def finish(self) -> list[Array]:
        """Return copies of the results."""
        self.line = self.program.lines[-1]
        if self.queues is not None:
            self.queues.drain_all()
        results = [self._result(v) for v in self.program.results]
        for data, before in self.originals:
            if not np.array_equal(data, before):
                raise self.fault("read-only", "an input or constant was written")
        return results

    def _result(self, value: str) -> Array:
        t, held = self.types[value], self.array(value, write=False)
        if t.dtype.is_packed:
            return from_memory(held, t.dtype, dims.values(t.shape, self.env)).copy()
        return held.copy()

    # ---- control

    def _control(self, line: Bind | Carry | If | While | Repeat) -> None:
        match line:
            case Bind(dim, value):
                self._bind({dim: int(self._scalar(value))})
            case Carry(values, sizes):
                new = {name: self.size(d) for name, d in sizes}
                dims.check_ranges(new, self.program.dims)
                self.carry(values, new)
                self.carried.update(v for v, _ in values)
            case If(cond, then, other):
                self._block(then if self._scalar(cond) else other, line)
            case While():
                self._while(line)
            case Repeat(index, extent, body):
                if self.queues is not None:
                    self.queues.drain_all()  # also where there is no round
                for k in range(self.size(extent)):
                    self._bind({index: k})
                    self._block(body, line)
                self.env.pop(index, None)

    def _bind(self, new: Mapping[str, int]) -> None:
        dims.check_ranges(new, (self.declared[n] for n in new))
        self.env.update(new)

    def _scalar(self, value: str) -> int | bool:
        """The one element of a value, once the first stream has come that far."""
        if self.queues is not None:
            self.queues.drain(0)
        element: int | bool = self.array(value, write=False).item()
        return element

    def _while(self, line: While) -> None:
        for _ in range(MOST_ROUNDS):
            self._block(line.test, line)
            if not self._scalar(line.cond):
                return
            self._block(line.body, line)
        raise self.fault("endless", f"more than {MOST_ROUNDS} rounds")

    def _block(self, lines: Sequence[Line], head: Line) -> None:
        """Run a block; what it makes must be gone at its end, but for what is carried."""
        if self.queues is not None:
            self.queues.drain_all()
        outer, arenas = set(self.spots), set(self.arenas)
        for line in lines:
            self.step(line)
        self.line = head
        if self.queues is not None:
            self.queues.drain_all()
        for name in [n for n in self.spots if n not in outer]:
            spot = self.spots[name]
            alive = spot.owner == name and name in spot.allocation.owners
            if alive and name in self.carried:
                continue
            if alive:
                raise self.fault("leak", f"{name} is alive at the end of a block that made it")
            del self.spots[name]
        for name in [n for n in self.arenas if n not in arenas]:
            del self.arenas[name]

    # ---- work

    def _do(self, stream: int, work: Work) -> None:
        if self.queues is None:
            work()
        else:
            self.queues.put(stream, work)

    def _copy(self, value: str, source: str) -> None:
        target, data = self.array(value, write=True), self.array(source, write=False)
        if target.dtype != data.dtype or target.shape != data.shape:
            raise self.fault("capacity", f"{value} and {source} differ in type")
        self._apart([value], [source])

        def work() -> None:
            target[...] = data

        self._do(0, work)

    def _apart(self, outputs: Sequence[str], inputs: Sequence[str]) -> None:
        """Fault if bytes that a line writes are also read, or written twice, by it."""
        written = [self.owned(v) for v in outputs]
        touched = [*written, *(self.owned(v) for v in inputs)]
        for i, a in enumerate(written):
            for b in touched[i + 1 :]:
                if a.owner == b.owner and _meet(a, b):
                    raise self.fault("ownership", f"{a.owner} is written under two names")

    def _launch(self, line: Launch) -> None:
        kernel, args = self.kernels[line.kernel], line.args
        if len(args) != len(kernel.params):
            raise self.fault("unallocated", f"{kernel.name} takes {len(kernel.params)} buffers")
        names = [b.name for b in kernel.params]
        kept: dict[str, Array] = {}  # operands whose bytes an output takes over
        old: dict[str, Array] = {}
        for output, source in line.inplace:
            self._check_inplace(kernel, dict(zip(args, names, strict=True)), output, source)
            kept[source] = self.array(source, write=False)
            old[source] = self.inherit(output, source)
        outputs = [a for n, a in zip(names, args, strict=True) if n in kernel.outputs]
        inputs = [a for n, a in zip(names, args, strict=True) if n not in kernel.outputs]
        self._apart(outputs, [a for a in inputs if a not in kept])
        arrays = {
            a: kept[a] if a in kept else self.array(a, write=n in kernel.outputs)
            for n, a in zip(names, args, strict=True)
        }
        env = dict(self.env) if self.queues is not None else self.env
        # A kernel may see a value under another shape of as many elements.
        shapes = [dims.values(b.shape, env) for b in kernel.params]

        def work() -> None:
            given = dict(arrays)
            for source, data in old.items():
                given[source] = arrays[source].copy()  # what is read must not change under way
                data[...] = 0xFF
            self.launch(
                kernel,
                {n: given[a].reshape(s) for n, a, s in zip(names, args, shapes, strict=True)},
                env,
            )

        self._do(line.stream, work)

    def _check_inplace(
        self, kernel: PrimFunc, params: Mapping[str, str], output: str, source: str
    ) -> None:
        key = (kernel.name, params[output], params[source])
        if key not in self.shares:
            self.shares[key] = may_share(*(kernel, *key[1:]))
        if not self.shares[key]:
            raise self.fault(
                "in-place", f"{kernel.name} may read {key[2]} after it writes {key[1]}"
            )

    def _call(self, line: Call) -> None:
        """Run a function in memory of its own, on the caller's buffers."""
        if self.queues is not None:
            self.queues.drain_all()
        f = self.functions[line.callee]
        self._apart(line.outputs, line.inputs)
        env = {v.name: self.size(dims.symbol(v.name)) for v in given(f)}
        inner = _Machine(f, env, self.launch, self.externals, self.late, self.compare_inputs)
        for name, value in zip(f.inputs, line.inputs, strict=True):
            inner.borrow(name, self.array(value, write=False))
        for name, value in zip(f.outputs, line.outputs, strict=True):
            inner.lend(name, self.array(value, write=True).reshape(-1).view(np.uint8), output=True)
        for inside in f.lines[:-1]:
            inner.step(inside)
        inner.finish()

    def _extern(self, line: Extern) -> None:
        for value in line.allocates:
            self.allocate(value)
        self._apart(line.outputs, line.inputs)
        outputs = [self.array(v, write=True) for v in line.outputs]
        inputs = [self.array(v, write=False) for v in line.inputs]
        if line.name not in self.externals:
            raise DidymaError(
                "unknown-routine",
                show_instruction(line),
                got=line.name,
                want=f"one of {sorted(self.externals)}",
            )
        routine = self.externals[line.name]
        attrs = {k: concrete_attr(a, self.env) for k, a in line.attrs}
        self._do(0, lambda: routine(outputs, inputs, attrs))


def _meet(a: Spot, b: Spot) -> bool:
    return a.lo < b.hi and b.lo < a.hi
