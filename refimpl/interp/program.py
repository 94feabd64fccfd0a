"""The interpreter of programs: runs their lines on memory whose bytes remember who owns them.

A fresh allocation, a freed one and one taken over hold poison, and a line may touch a value only
while the value owns its bytes, so a plan that overlaps two live ranges is found whether or not it
changes a result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

import numpy as np

from didyma.refimpl.errors import DidymaError, counted
from didyma.refimpl.interp import loop
from didyma.refimpl.interp.faults import ProgramFault
from didyma.refimpl.interp.loop import Routine
from didyma.refimpl.interp.memory_use import MemoryUse
from didyma.refimpl.interp.program_memory import Held, ProgramMemory, embedded
from didyma.refimpl.interp.program_streams import Late, WorkQueues
from didyma.refimpl.ir import dims, strides
from didyma.refimpl.ir import program as ir
from didyma.refimpl.ir.concrete import concrete_attr
from didyma.refimpl.ir.kernel import Kernel, loops
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.text.program import show_instruction
from didyma.refimpl.ir.types import Array, from_memory, to_memory
from didyma.refimpl.verify.sharing import may_share
from didyma.refimpl.verify.symbols import caller_symbols

__all__ = ["LaunchFn", "ProgramFault", "run"]

LaunchFn: TypeAlias = Callable[[PrimFunc, dict[str, Array], Mapping[str, int]], None]

MOST_ROUNDS = 1 << 24  # of one loop


def run(
    p: ir.Program,
    inputs: Sequence[Array],
    launch: LaunchFn = loop.run,
    externals: Mapping[str, Routine] | None = None,
    late: Late | None = None,
    *,
    compare_inputs: bool = False,
    in_ring: bool = False,
    use: MemoryUse | None = None,
    variant: int = 0,
) -> list[Array]:
    """Run a program; the results are copies.

    ``launch`` runs a kernel in place on its buffers, at the sizes given; what the kernel must not
    write are read-only arrays.  A launcher that writes to addresses does not see that flag, and
    needs ``compare_inputs``: inputs and constants are copied first, and compared at the end.
    ``externals`` are the routines that ``Extern`` names.  With ``late`` the work of each stream
    is done only when it is waited for, in the order it says where nothing else does, so that a
    missing wait changes the results.  With ``in_ring`` floats are records of their values and
    payloads (``scalar_ring``) to ``launch`` and in the results; those of inputs are embedded.
    ``use`` is told what memory the run takes.  ``variant`` is the number of the kernel that each
    dispatch runs.

    Raises DidymaError for inputs that do not fit and symbols out of range, ProgramFault for a line
    that touches what is not its own, and what ``launch`` raises.
    """
    use = use or MemoryUse()
    means = _Means(launch, externals or {}, late, compare_inputs, in_ring, use, variant)
    this = _ProgramRun(p, bind(p, inputs), means)
    for name, array in zip(p.inputs, inputs, strict=True):
        this.borrow(name, array)
    for name, tensor in p.constants:
        this.borrow(name, np.frombuffer(tensor.data, np.uint8))
    for line in p.lines[:-1]:
        this.step(line)
    results = this.finish()
    use.finished = True
    return results


def bind(p: ir.Program, inputs: Sequence[Array]) -> dict[str, int]:
    """Return the values of the program's dims; DidymaError for inputs of another type."""
    if len(inputs) != len(p.inputs):
        raise DidymaError(
            "arity", p.name, got=counted(len(inputs), "input"), want=f"{len(p.inputs)}: {p.inputs}"
        )
    types = p.type
    for name, array in zip(p.inputs, inputs, strict=True):
        if array.dtype != types[name].dtype.numpy:
            raise DidymaError(
                "dtype-mismatch", name, got=str(array.dtype), want=str(types[name].dtype)
            )
    given = [(n, types[n], a) for n, a in zip(p.inputs, inputs, strict=True)]
    return strides.bind(given, p.dims)


@dataclass(frozen=True, slots=True)
class _Means:
    """What ``run`` was given to do the work of a program and of the functions that it calls."""

    launch: LaunchFn
    externals: Mapping[str, Routine]
    late: Late | None
    compare_inputs: bool
    in_ring: bool
    use: MemoryUse
    variant: int


class _ProgramRun:
    """Runs the lines of one program or function, in memory of its own."""

    def __init__(self, p: ir.Program, env: dict[str, int], means: _Means) -> None:
        late = means.late
        self.program = p
        self.means = means
        # Poison that is written at once would come before work that is done late.
        self.memory = ProgramMemory(
            p.type, env, p.lines[-1], poisons=late is None, use=means.use, in_ring=means.in_ring
        )
        self.streams = WorkQueues(late)
        self.kernels = p.kernel
        self.functions = p.function
        self.declared = {v.name: v for v in p.dims}
        self.originals: list[tuple[Array, Array]] = []
        self.shares: dict[tuple[str, str, str], bool] = {}

    def borrow(self, name: str, array: Array, payloads: Array | None = None) -> None:
        """Define an input or constant; its bytes, and payloads, stay the caller's."""
        t = self.memory.types[name]
        if t.strides is not None and payloads is None:
            array = strides.row(array, t, self.memory.env)
        data = np.ascontiguousarray(to_memory(array)).reshape(-1).view(np.uint8)
        if self.means.compare_inputs:
            self.originals.append((data, data.copy()))
        data = data[:]
        data.flags.writeable = False
        if self.means.in_ring and payloads is None:
            payloads = embedded(data, self.memory.types[name].memory.dtype)
        self.memory.lend(name, data, payloads)

    def step(self, line: ir.Line) -> None:
        """Run one line."""
        m = self.memory
        m.line = line
        match line:
            case ir.Launch():
                self._launch(line)
            case ir.Dispatch():
                self._launch(line.launch(self.means.variant))
            case ir.Allocate(value):
                m.allocate(value)
            case ir.Free(value):
                m.free(value)
            case ir.Reuse(value, over):
                m.take_over(value, over, m.spot(over).lo, whole=True)
            case ir.PlacementAllocate(value, over, offset):
                m.take_over(value, over, m.size(offset), whole=False)
            case ir.Arena():
                m.arena(line)
            case ir.Place(value, arena, offset):
                m.place(value, arena, m.size(offset))
            case ir.View(value, of, offset):
                m.view(value, of, m.size(offset))
            case ir.Strided():
                m.stride(line)
            case ir.Copy(value, source):
                self._copy(value, source)
            case ir.Extern():
                self._extern(line)
            case ir.Call():
                self._call(line)
            case ir.Wait(stream, on):
                self.streams.wait(stream, on)
            case ir.Assert(lhs, rhs, message):
                a, b = m.size(lhs), m.size(rhs)
                if a != b:
                    raise m.fault("assert", f"{message} ({a} != {b})")
            case ir.Bind() | ir.Carry() | ir.If() | ir.While() | ir.Repeat():
                self._control(line)
            case ir.Return():
                raise m.fault("unallocated", "Return before the last line")
            case _:
                assert_never(line)

    def finish(self) -> list[Array]:
        """Return copies of the results."""
        self.memory.line = self.program.lines[-1]
        self.streams.drain_all()
        results = [self._result(v) for v in self.program.results]
        for data, before in self.originals:
            if not np.array_equal(data, before):
                raise self.memory.fault("read-only", "an input or constant was written")
        return results

    def _result(self, value: str) -> Array:
        m = self.memory
        if value in m.strided:
            return m.shown(m.strided[value])
        t, held = m.types[value], m.held(value, write=False)
        if t.dtype.is_packed:
            return from_memory(held.values, t.dtype, dims.values(t.shape, m.env)).copy()
        return held.seen(held.values.shape).copy()

    # ---- control

    def _control(self, line: ir.Bind | ir.Carry | ir.If | ir.While | ir.Repeat) -> None:
        m = self.memory
        match line:
            case ir.Bind(dim, value):
                self._bind({dim: int(self._scalar(value))})
            case ir.Carry(values, sizes):
                new = {name: m.size(d) for name, d in sizes}
                dims.check_ranges(new, self.program.dims)
                m.carry(values, new)
            case ir.If(cond, then, other):
                self._block(then if self._scalar(cond) else other, line)
            case ir.While():
                self._while(line)
            case ir.Repeat(index, extent, body):
                self.streams.drain_all()  # also where there is no round
                for k in range(m.size(extent)):
                    self._bind({index: k})
                    self._block(body, line)
                m.env.pop(index, None)

    def _bind(self, new: Mapping[str, int]) -> None:
        dims.check_ranges(new, (self.declared[n] for n in new))
        self.memory.env.update(new)

    def _scalar(self, value: str) -> int | bool:
        """Return the one element of a value, once the first stream has come that far."""
        self.streams.drain(0)
        element: int | bool = self.memory.array(value, write=False).item()
        return element

    def _while(self, line: ir.While) -> None:
        for _ in range(MOST_ROUNDS):
            self._block(line.test, line)
            if not self._scalar(line.cond):
                return
            self._block(line.body, line)
        raise self.memory.fault("endless", f"more than {MOST_ROUNDS} rounds")

    def _block(self, lines: Sequence[ir.Line], head: ir.Line) -> None:
        """Run a block; what it makes must be gone at its end, except what is carried."""
        self.streams.drain_all()
        before = self.memory.names()
        for line in lines:
            self.step(line)
        self.memory.line = head
        self.streams.drain_all()
        self.memory.end_block(before)

    # ---- work

    def _copy(self, value: str, source: str) -> None:
        m = self.memory
        self.means.use.step("copy")
        target, data = m.held(value, write=True), m.held(source, write=False)
        shape = data.values.shape
        if target.values.dtype != data.values.dtype or target.values.shape != shape:
            raise m.fault("capacity", f"{value} and {source} differ in type")
        m.demand_apart([value], [source])
        self.streams.put(0, lambda: target.put(data.seen(shape)))

    def _launch(self, line: ir.Launch) -> None:
        m, kernel, args = self.memory, self.kernels[line.kernel], line.args
        if len(args) != len(kernel.params):
            raise m.fault("unallocated", f"{kernel.name} takes {len(kernel.params)} buffers")
        self.means.use.step(kernel.name)
        names = [b.name for b in kernel.params]
        operands: dict[str, Held] = {}  # those whose bytes an output takes over
        taken: dict[str, Array] = {}  # and these bytes
        for output, source in line.inplace:
            self._check_inplace(kernel, dict(zip(args, names, strict=True)), output, source)
            operands[source] = m.held(source, write=False)
            taken[source] = m.inherit(output, source)
        outputs = [a for n, a in zip(names, args, strict=True) if n in kernel.outputs]
        inputs = [a for n, a in zip(names, args, strict=True) if n not in kernel.outputs]
        m.demand_together(args)
        m.demand_apart(outputs, [a for a in inputs if a not in operands])
        arrays = {
            a: operands[a] if a in operands else m.held(a, write=n in kernel.outputs)
            for n, a in zip(names, args, strict=True)
        }
        env = dict(m.env)  # as it is here, also for work that is done late
        # A kernel may see a value under another shape of as many elements.
        shapes = [dims.values(b.shape, env) for b in kernel.params]

        def work() -> None:
            # What is read must not change while the kernel writes over it.
            copies = {source: operands[source].copy() for source in taken}
            for data in taken.values():
                data[...] = 0xFF
            seen = {**arrays, **copies}
            buffers = {n: seen[a].seen(s) for n, a, s in zip(names, args, shapes, strict=True)}
            meaning = loops(kernel)
            self.means.launch(meaning, {b.name: buffers[b.name] for b in meaning.params}, env)
            if self.means.in_ring:
                for n, a in zip(names, args, strict=True):
                    if n in kernel.outputs:
                        seen[a].put(buffers[n])

        self.streams.put(line.stream, work)

    def _check_inplace(
        self, kernel: Kernel, params: Mapping[str, str], output: str, source: str
    ) -> None:
        key = (kernel.name, params[output], params[source])
        if key not in self.shares:
            self.shares[key] = may_share(kernel, params[output], params[source])
        if not self.shares[key]:
            raise self.memory.fault(
                "in-place", f"{kernel.name} may read {key[2]} after it writes {key[1]}"
            )

    def _call(self, line: ir.Call) -> None:
        """Run a function in memory of its own, on the caller's buffers."""
        m = self.memory
        self.streams.drain_all()
        f = self.functions[line.callee]
        m.demand_apart(line.outputs, line.inputs)
        env = {v.name: m.size(dims.symbol(v.name)) for v in caller_symbols(f)}
        callee, outside = _ProgramRun(f, env, self.means), self.means.use.allocated
        for name, value in zip(f.inputs, line.inputs, strict=True):
            callee.borrow(name, m.array(value, write=False), m.payloads(value))
        for name, value in zip(f.outputs, line.outputs, strict=True):
            data = m.array(value, write=True).reshape(-1).view(np.uint8)
            callee.memory.lend(name, data, m.payloads(value), output=True)
        for inside in f.lines[:-1]:
            callee.step(inside)
        callee.finish()
        self.means.use.allocated = outside  # its arenas end with it

    def _extern(self, line: ir.Extern) -> None:
        m = self.memory
        for value in line.allocates:
            m.allocate(value)
        m.demand_together((*line.outputs, *line.inputs))
        m.demand_apart(line.outputs, line.inputs)
        outputs = [m.held(v, write=True) for v in line.outputs]
        inputs = [m.array(v, write=False) for v in line.inputs]
        externals = self.means.externals
        if line.name not in externals:
            raise DidymaError(
                "unknown-routine",
                show_instruction(line),
                got=line.name,
                want=f"one of {sorted(externals)}",
            )
        routine = externals[line.name]
        attrs = {k: concrete_attr(a, m.env) for k, a in line.attrs}

        def work() -> None:
            routine([held.values for held in outputs], inputs, attrs)
            for held in outputs:
                held.forget()

        self.streams.put(0, work)
