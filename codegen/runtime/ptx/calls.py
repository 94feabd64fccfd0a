"""Calls: of functions in the list, through pointers too, and of those that the device brings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from didyma.codegen.runtime.ptx.code import Slot, Symbol, unknown
from didyma.codegen.runtime.ptx.flat import LEVELS, Call, Callee, Program
from didyma.codegen.runtime.ptx.memory import GLOBAL, VALID, Allocation
from didyma.codegen.runtime.ptx.operands import Action, Operands
from didyma.codegen.runtime.ptx.running import leave
from didyma.codegen.runtime.ptx.taint import unset
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

FUNCTIONS = 0x6000_0000_0000  # addresses of functions, which are no memory
HEAP = 1 << 20  # bytes for what kernels allocate
_ALIGN, _RED = 16, 64  # of an allocation, and the bytes behind it that belong to none


def compile_call(ops: Operands, program: Program, at: int) -> Callable[[Machine], Any]:
    """Compile a call; lanes may call different functions."""
    call, target, ins = program.calls[at], ops.at(0), ops.ins
    if isinstance(target, Symbol):
        body = call.callees.get(target.name)

        def direct(m: Machine) -> int:
            if body is None:
                raise unknown(ins, f"{target.name} calls itself more than {LEVELS} times")
            _enter(m, call, body, m.ids, at)
            return body.start

        return direct
    read, names = ops.source(0, "u64"), program.functions

    def indirect(m: Machine) -> Array:
        ids, addresses = m.ids, m.active(read(m)).astype(np.int64)
        to = np.zeros(ids.size, np.int64)
        found_: list[int] = np.unique(addresses).tolist()
        for address in found_:
            mine, k = addresses == address, (address - FUNCTIONS) // 64
            if not 0 <= k < len(names):
                m.report("bad-call", f"a call of {address:#x}, which is no function", ids[mine])
                leave(m, ids[mine])
            elif (found := call.callees.get(names[k])) is None:
                raise unknown(ins, f"a call of {names[k]} through a pointer of another type")
            else:
                _enter(m, call, found, ids[mine], at)
                to[mine] = found.start
        return to

    return indirect


def _enter(m: Machine, call: Call, body: Callee, ids: Array, at: int) -> None:
    _copied(m, call.params, body.params, ids)
    if body.frame not in m.frames:
        m.frames[body.frame] = np.zeros(m.size, np.int64)
    m.frames[body.frame][ids] = at
    unset(m, body.unset, ids)


def _copied(m: Machine, source: tuple[int, ...], to: tuple[int, ...], ids: Array) -> None:
    for a, b in zip(source, to, strict=False):
        size = min(m.slots[a].shape[1], m.slots[b].shape[1])
        m.slots[b][ids, :size] = m.slots[a][ids, :size]
        if m.shadow is not None:
            m.shadow.copied(a, b, ids, size)
        if a in m.taints.slots or b in m.taints.slots:
            _copied_taint(m, a, b, ids, size)


def _copied_taint(m: Machine, a: int, b: int, ids: Array, size: int) -> None:
    slots = m.taints.slots
    if b not in slots:
        slots[b] = np.zeros(m.slots[b].shape, np.bool_)
    slots[b][ids, :size] = slots[a][ids, :size] if a in slots else False
    m.taints.origin[-1 - b] = m.taints.origin.get(-1 - a, m.at)
    if not slots[b].any():
        del slots[b]


def compile_return(program: Program, at: int) -> Callable[[Machine], Any]:
    """Compile a return: results go to the slots of the callers."""
    body = program.frames[at]

    def back(m: Machine) -> Any:
        ids, callers_ = m.ids, m.frames[body.frame][m.ids]
        for pc in np.unique(callers_).tolist():
            _copied(m, body.returns, program.calls[pc].returns, ids[callers_ == pc])
        return int(callers_[0]) + 1 if (callers_ == callers_[0]).all() else callers_ + 1

    return back


def allocates(program: Program) -> bool:
    """Return whether a kernel allocates memory."""
    return any(i.op == "extern" and i.mods[0] == "malloc" for i in program.instrs)


def compile_extern(ops: Operands) -> Action | None:
    """Compile a call of a function of the device; printing does nothing."""
    ins = ops.ins
    if ins.op != "extern":
        return None
    slots = [o.number for o in ins.args if isinstance(o, Slot)]
    match ins.mods[0]:
        case "vprintf":
            return lambda m: None
        case "malloc":
            return lambda m: _allocate(m, *slots)
        case "free":
            return lambda m: _release(m, slots[0])
        case _:
            return None


def _heap(m: Machine) -> dict[int, int]:
    """Return the sizes of what is allocated by address; under 0, what comes next."""
    found: dict[int, int] = m.memory.heap
    if not found:
        found[0] = m.symbols["the heap"]
    return found


def _allocate(m: Machine, result: int, size: int) -> None:
    heap, space = _heap(m), m.memory.spaces[0]
    sizes = m.slots[size][m.ids, :8].copy().view(np.uint64)[:, 0]
    for lane, n in zip(m.ids.tolist(), sizes.tolist(), strict=True):
        start, address = heap[0], 0
        if start + n + _RED <= space.size:
            space.allow(Allocation("memory of malloc", start, n))
            heap[0] = start + -(-(n + _RED) // _ALIGN) * _ALIGN
            address = GLOBAL + start
            heap[address] = n
        m.slots[result][lane, :8] = np.frombuffer(address.to_bytes(8, "little"), np.uint8)


def _release(m: Machine, given: int) -> None:
    heap, space = _heap(m), m.memory.spaces[0]
    for lane in m.ids.tolist():
        address = int(m.slots[given][lane, :8].copy().view(np.uint64)[0])
        size = heap.pop(address, None) if address else None
        if size is not None:
            start = address - GLOBAL
            space.flags[start : start + size] &= np.uint8(255 ^ VALID)
        elif address:
            text = f"free of {address:#x}, which malloc did not give or which was freed before"
            m.report("bad-free", text, np.array([lane]))
