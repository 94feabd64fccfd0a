"""A kernel of PTX compiled to functions of the machine: stretches of straight code, and jumps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from didyma.codegen.runtime.ptx import barriers, calls, in_ring, in_ring_warps, wgmma
from didyma.codegen.runtime.ptx.access import compile_access, space_of
from didyma.codegen.runtime.ptx.alu import compile_alu
from didyma.codegen.runtime.ptx.bulk import compile_bulk
from didyma.codegen.runtime.ptx.clusters import compile_map
from didyma.codegen.runtime.ptx.code import (
    OPCODES,
    SIZES,
    Instr,
    Module,
    Reg,
    Symbol,
    is_known,
    unknown,
)
from didyma.codegen.runtime.ptx.copies import compile_copy
from didyma.codegen.runtime.ptx.flat import flatten
from didyma.codegen.runtime.ptx.matrices import compile_matrices
from didyma.codegen.runtime.ptx.mbarriers import compile_mbarrier
from didyma.codegen.runtime.ptx.meaning import Meaning, compile_function
from didyma.codegen.runtime.ptx.meeting import (
    ALL,
    MATRICES,
    Body,
    compile_meeting,
    compile_warp,
    meets,
)
from didyma.codegen.runtime.ptx.memory import Allocation
from didyma.codegen.runtime.ptx.operands import Action, Operands, Source
from didyma.codegen.runtime.ptx.rules import Rule, rule_of
from didyma.codegen.runtime.ptx.running import leave
from didyma.codegen.runtime.ptx.stillness import tested
from didyma.codegen.runtime.ptx.taint import use
from didyma.codegen.runtime.ptx.tensors import compile_tensor
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

Row: TypeAlias = tuple[Instr, ...]
Stretch: TypeAlias = "tuple[list[tuple[int, Action]], int | None, int]"
_JUMPS = frozenset(("bra", "brx", "call", "exit", "ret", "trap", "brkpt"))
_BARRIERS = frozenset(("bar", "barrier"))
_PLAIN = frozenset(("param", "local", "const"))  # spaces in which nothing races
_FIRST = 1024  # bytes of shared memory below the first variable
_GAP = 256  # bytes between variables of shared and local memory
SPARES = 8  # registers of each type for instructions that are put in
_SPARE = tuple(kind for kind in ("pred", "b16", "b32", "b64", "f32", "f64") for _ in range(SPARES))
DYNAMIC = 48 << 10  # bytes of dynamic shared memory, where a launch does not tell them


_STRAIGHT = (
    compile_alu, compile_access, compile_map, compile_tensor, compile_bulk, compile_copy,
    compile_mbarrier, wgmma.compile_group, calls.compile_extern,
    compile_function,
)  # fmt: skip


class Kernel:
    """A kernel: its code, and where its variables and parameters lie.

    With a ``meaning`` of its constants it runs in the ring.  DidymaError ``unknown-kernel``;
    ``unknown-instruction``, with its line.
    """

    def __init__(self, module: Module, name: str, meaning: Meaning | None = None) -> None:
        self.program = flatten(module, name)
        self.meaning = meaning
        self.name = name
        self.unset = module.unset
        self.attempts = module.attempts
        self.cluster = self.program.kernel.cluster
        self._place()
        instrs = self.program.instrs
        for i in instrs:
            if i.op not in OPCODES:
                raise unknown(i)
        self.cell = _cell(instrs)
        self.reaches_peers = max(self.cluster) > 1 or any(i.op == "mapa" for i in instrs)
        self.synchronises = any(map(_synchronises, instrs))
        self.tested = frozenset[int]()
        if any("volatile" in i.mods for i in instrs):
            self.tested = tested(instrs, local=bool(self.local))
        self.reductions: dict[int, barriers.Reduction] = {}
        self.ends: dict[int, Callable[[Machine], Any]] = {}
        self.in_products = wgmma.registers_of(instrs)
        self.jumps = frozenset(k for k, i in enumerate(instrs) if i.op in ("bra", "brx"))
        jumped = [self.program.labels.get(o.name) for i in instrs if i.op == "bra"
                  for o in i.args if isinstance(o, Symbol)]  # fmt: skip
        listed = [self.program.labels.get(t) for ts in self.program.targets.values() for t in ts]
        starts = {self.program.start, *(s for s in (*jumped, *listed) if s is not None)}
        starts |= {c.start for call in self.program.calls.values() for c in call.callees.values()}
        for at, i in enumerate(instrs):
            if _ends(i):
                starts |= {at, at + 1}
        self.starts = sorted(s for s in starts if s < len(instrs))
        self.stretches: dict[int, Stretch] = {}
        self.rules: dict[int, Rule] = {}
        self.before: dict[int, Row] = {}  # instructions that run before one
        self.forms: dict[int, dict[int, Row]] = {}  # of instructions, by copies of the grid

    def stretch(self, pc: int) -> Stretch:
        """Return the straight code from a counter, which is compiled at its first use."""
        found = self.stretches.get(pc)
        if found is None:
            k, instrs = bisect_right(self.starts, pc), self.program.instrs
            after = self.starts[k] if k < len(self.starts) else len(instrs)
            code = [(at, self._compile(instrs[at], at)) for at in range(pc, after)]
            last = after - 1 if after - 1 in self.ends else None
            found = self.stretches[pc] = [(at, f) for at, f in code if f], last, after
        return found

    def spare(self, kind: str, k: int = 0) -> Reg:
        """Return one of ``SPARES`` registers of a type that only instructions put in name.

        >>> from didyma.codegen.runtime.ptx.text import parse
        >>> k = Kernel(parse(".entry k() { .reg .b32 %r<2>; mov.u32 %r1, %tid.x; ret; }"), "k")
        >>> k.spare("pred").index == len(k.program.regs)
        True
        """
        return Reg(len(self.program.regs) + _SPARE.index(kind) + k)

    def changed(self, rows: Mapping[int, Row]) -> Kernel:
        """Return the kernel with others in the place of some instructions.

        A row runs in order.  None of it is a jump; all but the last one meet no other lanes.
        """
        made = copy(self)
        made.before = {at: row[:-1] for at, row in rows.items()}
        instrs = [rows.get(at, (i,))[-1] for at, i in enumerate(self.program.instrs)]
        regs = [*self.program.regs, *_SPARE]
        made.program = replace(self.program, instrs=instrs, regs=regs)
        made.stretches, made.ends, made.reductions, made.rules = {}, {}, {}, {}
        return made

    def varied(self, forms: Mapping[int, Mapping[int, Row]]) -> Kernel:
        """Return the kernel of which copies of a grid, by number, have other instructions.

        None of these is a jump, or meets other lanes; where the engine runs no such instruction,
        that of the kernel runs.
        """
        made = self.changed({})
        made.forms = {}
        for number, rows in forms.items():
            for at, row in rows.items():
                made.forms.setdefault(at, {})[number] = row
        return made

    def holding(self, left: Mapping[str, bytes]) -> Kernel:
        """Return the kernel with what launches before have left in variables of the module."""
        made = copy(self)
        rows = self.program.variables.items()
        own = {n: replace(v, init=left.get(v.name, v.init)) for n, v in rows}
        made.program = replace(self.program, variables=own)
        return made

    def lines(self, file: str) -> set[int]:
        """Return the lines of a file from which comes what has run."""
        ran = (
            self.program.instrs[pc].loc
            for start, (_, _, after) in self.stretches.items()
            for pc in range(start, after)
        )
        return {loc.line for loc in ran if loc and loc.file == file}

    def spread(self, m: Machine, at: int) -> None:
        """Let an instruction that runs next spread the taint of registers."""
        ins = self.program.instrs[at]
        rule = self.rules.get(at)
        if rule is None:
            rule = self.rules[at] = rule_of(ins, self.program.regs)
        ids = m.ids
        if ins.guard is not None:
            use(m, ins.guard[0].index, ids)
            ids = ids[m.holds((ins.guard[0].index, ins.guard[1]))]
        if ids.size:
            rule(m, ids)

    def line(self, pc: int) -> str:
        """Return the source line of an instruction, such as ``k.cu:3``."""
        loc = self.program.instrs[pc].loc
        return f"{loc.file}:{loc.line}" if loc else f"line {self.program.instrs[pc].at} of the PTX"

    def complete(self, m: Machine) -> None:
        """Release the barriers that all have reached."""
        barriers.complete(m)

    def _place(self) -> None:
        shared, local = _FIRST, 0
        self.shared: list[Allocation] = []
        self.local: list[Allocation] = []
        self.offsets: dict[str, int] = {}
        dynamic: list[str] = []
        for v in self.program.variables.values():
            if v.space == "shared" and v.size:
                shared = -(-shared // max(v.align, 16)) * max(v.align, 16)
                self.offsets[v.name] = shared
                self.shared.append(Allocation(f"shared {_short(v.name)}", shared, v.size))
                shared += v.size + _GAP
            elif v.space == "shared":
                dynamic.append(v.name)
            elif v.space == "local":
                local = -(-local // 16) * 16
                self.offsets[v.name] = local
                self.local.append(Allocation("local memory", local, v.size))
                local += v.size + 64
        self.shared_end = -(-shared // 1024) * 1024
        self.local_end = local
        self.shared_bytes = sum(a.size for a in self.shared)
        self.offsets |= dict.fromkeys(dynamic, self.shared_end)
        self.takes_dynamic = bool(dynamic)  # shared memory whose size the launch tells
        self.param_at: dict[str, int] = {}
        self.param_bytes = 0
        for v in self.program.kernel.params:
            self.param_bytes = -(-self.param_bytes // v.align) * v.align
            self.param_at[v.name] = self.param_bytes
            self.param_bytes += v.size

    def _compile(self, ins: Instr, at: int) -> Action | None:
        """Compile an instruction; what the engine does not run is refused where lanes reach it."""
        try:
            own = self._compiled(ins, at)
            if own is not None and (before := self.before.get(at)):
                own = _in_order([f for i in before if (f := self._compiled(i, at))] + [own])
            if own is None or at not in self.forms:
                return own
            others = {k: self._form(row, at) for k, row in self.forms[at].items()}
            return _varied(own, {k: f for k, f in others.items() if f})
        except DidymaError as e:
            refusal = e

            def refuse(m: Machine) -> NoReturn:
                raise refusal

            return refuse if ins.guard is None else _guarded(refuse, ins)

    def _form(self, row: Row, at: int) -> Action | None:
        """Compile another form of an instruction; None for one that the engine does not run."""
        with suppress(DidymaError):
            made = [self._compiled(i, at) for i in row]
            return None if None in made else _in_order([f for f in made if f])
        return None

    def _compiled(self, ins: Instr, at: int) -> Action | None:
        """Compile an instruction: the function for a straight one; the end of a stretch is kept."""
        if ins.op != "extern" and (strange := [x for x in ins.mods if not is_known(x)]):
            raise unknown(ins, f"no modifier .{strange[0]} is known")
        ops = Operands(ins, self.program.regs)
        try:
            if ins.op in _JUMPS or _stops(ins):
                self.ends[at] = self._jump(ops, at)
                return None
            if _ends(ins):
                end = self._meeting(ops, at)
                self.ends[at] = end if ins.guard is None else _guarded_end(end, ins, at)
                return None
            f = next((f for compile_ in _STRAIGHT if (f := compile_(ops))), None)
        except (KeyError, IndexError, StopIteration, ValueError) as e:
            raise unknown(ins) from e
        if f is None:
            raise unknown(ins)
        if self.in_products:
            f = wgmma.watched(f, ins, self.in_products)
        if self.meaning is not None:
            f = in_ring.watched(f, ops, self.meaning)
        return f if ins.guard is None else _guarded(f, ins)

    def _meeting(self, ops: Operands, at: int) -> Callable[[Machine], Any]:
        ins = ops.ins
        if not meets(ins.op, ins.mods):
            end, reduction = barriers.compile_barrier(ops, at)
            if reduction:
                self.reductions[at] = reduction
            return end
        body, mask = self._body(ops)
        if self.meaning is not None:
            body = in_ring_warps.watched(body, ops, self.meaning)
        return compile_meeting(body, mask, at)

    @staticmethod
    def _body(ops: Operands) -> tuple[Body, Source]:
        if ops.ins.op == "wgmma":
            return wgmma.compile_product(ops), lambda m: ALL
        if ops.ins.op in MATRICES:
            return compile_matrices(ops), lambda m: ALL
        return compile_warp(ops)

    def _jump(self, ops: Operands, at: int) -> Callable[[Machine], Any]:
        ins, p = ops.ins, self.program
        guard = ins.guard and (ins.guard[0].index, ins.guard[1])
        match ins.op:
            case "bra":
                goal = self._label(ops, 0)
                return (lambda m: goal) if guard is None else _branch(guard, goal, at + 1)
            case "brx":
                table = ops.at(1)
                if not isinstance(table, Symbol) or guard:
                    raise unknown(ins)
                goals = np.array([p.labels[t] for t in p.targets[table.name]])
                index = ops.source(0, "u32")
                return lambda m: _together(goals[m.active(index(m))])
            case "call":
                call = calls.compile_call(ops, self.program, at)
                return call if ins.guard is None else _guarded_end(call, ins, at)
            case "ret" if at in self.program.frames:
                back = calls.compile_return(self.program, at)
                return back if ins.guard is None else _guarded_end(back, ins, at)
            case _:
                return _leave(ins, guard, at)

    def _label(self, ops: Operands, k: int) -> int:
        o = ops.at(k)
        if not isinstance(o, Symbol) or o.name not in self.program.labels:
            raise unknown(ops.ins, f"no label {o.name}" if isinstance(o, Symbol) else "no label")
        return self.program.labels[o.name]


def _short(name: str) -> str:
    """Return a variable's name without what a compiler made of its function's.

    >>> _short("_ZZ4scanE4sums"), _short("buffer")
    ('sums', 'buffer')
    """
    tail = name[name.rindex("E") + 1 :] if name.startswith("_ZZ") and "E" in name else name
    return tail.lstrip("0123456789") if tail[:1].isdigit() else tail


def _ends(ins: Instr) -> bool:
    return ins.op in _JUMPS or ins.op in _BARRIERS or meets(ins.op, ins.mods) or _stops(ins)


def _stops(ins: Instr) -> bool:
    """Whether an instruction calls what ends a thread by an assertion."""
    return ins.op == "extern" and ins.mods[0].startswith("__assert")


def _synchronises(ins: Instr) -> bool:
    return ins.op in ("fence", "membar") or bool({"acquire", "release", "acq_rel"} & {*ins.mods})


def _cell(instrs: list[Instr]) -> int:
    """Return the bytes of the narrowest access to memory that lanes share, at most 4."""
    best = 4
    for i in instrs:
        if i.op in ("ld", "st", "atom", "red", "ldu") and space_of(i.mods) not in _PLAIN:
            best = min(best, SIZES.get(i.mods[-1], 4))
        if i.op == "wmma" and i.mods[0] != "mma":
            best = min(best, SIZES.get(i.mods[-1], 4))
    return best


def _together(to: Array) -> Any:
    return int(to[0]) if (to == to[0]).all() else to


def _branch(guard: tuple[int, bool], goal: int, other: int) -> Callable[[Machine], Any]:
    def branch(m: Machine) -> Any:
        taken = m.holds(guard)
        count = np.count_nonzero(taken)
        if count in (0, taken.size):
            return goal if count else other
        return np.where(taken, goal, other)

    return branch


def _varied(f: Action, others: Mapping[int, Action]) -> Action:
    """Return an instruction that is another one in some copies of the grid."""
    numbers = np.array([*others])

    def run(m: Machine) -> None:
        keep = m.ids
        place = keep // (m.size // m.shape.copies)
        number = np.where(place, m.shape.second + place - 1, 0)
        for ids, g in (
            (keep[~np.isin(number, numbers)], f),
            *((keep[number == k], g) for k, g in others.items()),
        ):
            if ids.size:
                m.select(ids)
                g(m)
        m.select(keep)

    return run


def _in_order(actions: Sequence[Action]) -> Action:
    if len(actions) == 1:
        return actions[0]

    def run(m: Machine) -> None:
        for f in actions:
            f(m)

    return run


def _guarded(f: Action, ins: Instr) -> Action:
    assert ins.guard is not None
    guard = ins.guard[0].index, ins.guard[1]

    def run(m: Machine) -> None:
        holds = m.holds(guard)
        if holds.all():
            f(m)
        elif holds.any():
            keep = m.ids
            m.select(keep[holds])
            f(m)
            m.select(keep)

    return run


def _guarded_end(f: Callable[[Machine], Any], ins: Instr, at: int) -> Callable[[Machine], Any]:
    assert ins.guard is not None
    guard = ins.guard[0].index, ins.guard[1]

    def run(m: Machine) -> Any:
        holds = m.holds(guard)
        if holds.all():
            return f(m)
        if holds.any():
            keep = m.ids
            m.pc[keep[~holds]] = at + 1
            m.select(keep[holds])
            to = f(m)
            if to is not None:
                m.pc[m.ids] = to
            return None
        return at + 1

    return run


def _leave(ins: Instr, guard: tuple[int, bool] | None, at: int) -> Callable[[Machine], Any]:
    def end(m: Machine) -> None:
        ids = m.ids
        if guard is not None:
            m.pc[ids] = at + 1
            ids = ids[m.holds(guard)]
        if ids.size and ins.op in ("trap", "brkpt"):
            m.report("trap", "a trap is reached", ids)
        if ids.size and ins.op == "extern":
            m.report("assert", "an assertion fails", ids)
        leave(m, ids)

    return end
