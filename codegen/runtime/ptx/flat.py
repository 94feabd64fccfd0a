"""A kernel with the functions that it calls as one list of instructions.

Each function has registers, local variables and parameters of its own, as a lane is at most once in
it.  A function that can call itself is there once for each level of its recursion.  What is called
stands before what calls it: lanes with the smallest program counter run first, so those that are in
a call return before the others go on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from didyma.codegen.runtime.ptx.code import (
    Function,
    Instr,
    KernelParam,
    Module,
    Not,
    Operand,
    Pair,
    Place,
    Reg,
    Slot,
    Symbol,
    Tensor,
    Variable,
    Vector,
    unknown,
)
from didyma.codegen.runtime.ptx.unset import unset
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array

LEVELS = 24  # of recursion


@dataclass(frozen=True, slots=True)
class Callee:
    """A function in the list: where it begins, its slots, and which return address is its own.

    ``unset`` are its registers that may be read before they are set, and where that is.
    """

    name: str
    start: int
    params: tuple[int, ...]
    returns: tuple[int, ...]
    frame: int
    unset: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A call: its caller's slots, and what may be called, by name."""

    params: tuple[int, ...]
    returns: tuple[int, ...]
    callees: Mapping[str, Callee]


@dataclass(slots=True)
class Program:
    """The instructions of a kernel, from ``start``; ``slots`` are the sizes of parameters of calls.

    ``calls`` are by the number of the instruction; ``frames`` of the returns likewise.
    """

    kernel: Function
    regs: list[str] = field(default_factory=list[str])
    instrs: list[Instr] = field(default_factory=list[Instr])
    slots: list[int] = field(default_factory=list[int])
    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    labels: dict[str, int] = field(default_factory=dict[str, int])
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    functions: tuple[str, ...] = ()
    calls: dict[int, Call] = field(default_factory=dict[int, Call])
    frames: dict[int, Callee] = field(default_factory=dict[int, Callee])
    bodies: list[Callee] = field(default_factory=list[Callee])
    unset: tuple[tuple[int, int], ...] = ()
    start: int = 0


def flatten(module: Module, kernel: str) -> Program:
    """List a kernel with what it calls; DidymaError ``unknown-kernel``."""
    top = module.functions.get(kernel)
    if top is None or not top.entry or not top.defined:
        raise DidymaError(
            "unknown-kernel", kernel, got=kernel, want=f"one of {', '.join(module.kernels)}"
        )
    p = Program(top, variables=_used(module), functions=tuple(module.functions))
    flat = _Flattener(module, p)
    body = flat.emit(top, 0)
    p.start, p.unset = body.start, body.unset
    last = p.instrs[-1] if p.instrs else None
    p.instrs.append(Instr("exit", (), (), None, last.loc if last else None, last.at if last else 0))
    return p


def _used(module: Module) -> dict[str, Variable]:
    """Return a module's variables but for those of device memory that nothing names.

    Headers bring hundreds of them, each of which would be put into the memory of every launch.
    """
    found = {
        n: v for n, v in module.variables.items() if v.space not in ("global", "const")
    }  # fmt: skip
    todo = [s for f in module.functions.values() for i in f.instrs for s in _symbols(i.args)]
    todo += [s for v in found.values() for _, s, _ in v.refers]
    while todo:
        v = module.variables.get(todo.pop())
        if v and v.name not in found:
            found[v.name] = v
            todo += [s for _, s, _ in v.refers]
    return {n: v for n, v in module.variables.items() if n in found}


def callers(program: Program, frames: Mapping[int, Array], lane: int, pc: int) -> tuple[int, ...]:
    """Return the calls that a lane is in at an instruction, the innermost first."""
    bodies = sorted(program.bodies, key=lambda b: b.start)
    starts, out = [b.start for b in bodies], list[int]()
    while pc < program.start:
        frame = frames.get(bodies[bisect_right(starts, pc) - 1].frame)
        if frame is None:
            break
        pc = int(frame[lane])
        out.append(pc)
    return tuple(out)


def _symbols(operands: tuple[Operand, ...]) -> Iterator[str]:
    for o in operands:
        match o:
            case Symbol(name):
                yield name
            case Vector(parts) | Tensor(parts):
                yield from _symbols(parts)
            case Place(base):
                yield from _symbols((base,))
            case _:
                pass


class _Flattener:
    def __init__(self, module: Module, program: Program) -> None:
        self.module = module
        self.out = program
        self.count = 0
        self.made: dict[tuple[str, int], Callee] = {}
        named = {s for v in module.variables.values() for _, s, _ in v.refers}
        for f in module.functions.values():
            for i in f.instrs:
                named |= {*_symbols(i.args if i.op != "call" else ())}
        self.pointed = [f for n, f in module.functions.items() if n in named and f.defined]
        self.undefined = dict[str, dict[int, int]]()
        self.cycles = self._cycles()

    def callees(self, ins: Instr) -> list[Function]:
        """Return the functions with bodies that a call may reach."""
        symbols = [a.name for a in ins.args if isinstance(a, Symbol)]
        if isinstance(_target(ins), Symbol):
            f = self.module.functions.get(symbols[0])
            return [f] if f and f.defined else []
        given, taken = _passed(ins)
        return [f for f in self.pointed if (len(f.params), len(f.returns)) == (given, taken)]

    def _cycles(self) -> set[str]:
        """Return the functions that can call themselves."""
        next_ = {
            n: {c.name for i in f.instrs if i.op == "call" for c in self.callees(i)}
            for n, f in self.module.functions.items()
        }
        out = set[str]()
        for n in next_:
            seen, todo = set[str](), [*next_[n]]
            while todo:
                if (m := todo.pop()) not in seen:
                    seen.add(m)
                    todo += next_[m]
            out |= {n} & seen
        return out

    def unset(self, f: Function) -> dict[int, int]:
        """Return what a function may read unset; the optimiser reads such registers in vain."""
        if not self.module.debug:
            return {}
        if f.name not in self.undefined:
            self.undefined[f.name] = unset(f)
        return self.undefined[f.name]

    def instance(self, f: Function, level: int) -> Callee | None:
        """Return a function as callers of a level reach it; None if the level is too deep."""
        at = level + 1 if f.name in self.cycles else 0
        if at > LEVELS:
            return None
        if (f.name, at) not in self.made:
            self.made[f.name, at] = self.emit(f, at)
        return self.made[f.name, at]

    def emit(self, f: Function, level: int) -> Callee:
        """Append a function, after all that it calls."""
        p, me, base = self.out, self.count, len(self.out.regs)
        self.count += 1
        p.regs += f.regs
        slots, local = dict[str, int](), dict[str, str]()
        own = () if f.entry else (*f.params, *f.returns)
        for v in (*own, *f.variables.values()):
            if v.space == "param":
                slots[v.name] = len(p.slots)
                p.slots.append(max(v.size, 8))
            else:
                local[v.name] = name = f"{v.name}@{me}" if v.space == "local" else v.name
                p.variables[name] = replace(v, name=name)
        calls = {
            at: {c.name: self.instance(c, level) for c in self.callees(i)}
            for at, i in enumerate(f.instrs) if i.op == "call"
        }  # fmt: skip
        params = {q.name for q in f.params} if f.entry else set[str]()
        moved = _Moved(base, slots, {*f.labels, *f.targets}, params, local, me)
        for name, given in f.targets.items():
            p.targets[f"{me}:{name}"] = tuple(f"{me}:{g}" for g in given)
        start = len(p.instrs)
        p.labels |= {f"{me}:{name}": start + at for name, at in f.labels.items()}
        out = Callee(
            f.name, start, tuple(slots[v.name] for v in f.params) if not f.entry else (),
            tuple(slots[v.name] for v in f.returns), me,
            tuple((base + r, start + at) for r, at in self.unset(f).items()),
        )  # fmt: skip
        for at, ins in enumerate(f.instrs):
            guard = (Reg(ins.guard[0].index + base), ins.guard[1]) if ins.guard else None
            new = Instr(ins.op, ins.mods, tuple(map(moved, ins.args)), guard, ins.loc, ins.at)
            if ins.op == "ret" and not f.entry:
                p.frames[len(p.instrs)] = out
            elif ins.op == "call":
                new = self.call(new, calls[at])
            p.instrs.append(new)
        if not f.entry:  # a function may end without a return
            p.frames[len(p.instrs)] = out
            p.instrs.append(Instr("ret", (), (), None, None, f.instrs[-1].at if f.instrs else 0))
            p.bodies.append(out)
        return out

    def call(self, ins: Instr, callees: Mapping[str, Callee | None]) -> Instr:
        """Note a call, or leave it to the machine if what it calls has no body."""
        target = _target(ins)
        vectors = [a for a in ins.args if isinstance(a, Vector)]
        if isinstance(target, Symbol) and not callees:
            given = tuple(o for v in vectors for o in v.parts)
            return Instr("extern", (target.name,), given, ins.guard, ins.loc, ins.at)
        returns = isinstance(ins.args[0], Vector)
        to = vectors[0].parts if returns else ()
        rest = vectors[1:] if returns else vectors
        known = {n: c for n, c in callees.items() if c is not None}
        self.out.calls[len(self.out.instrs)] = Call(
            _numbers(ins, rest[0].parts if rest else ()), _numbers(ins, to), known
        )
        return replace(ins, args=(target,))


def _target(ins: Instr) -> Operand:
    return next(a for a in ins.args if not isinstance(a, Vector))


def _passed(ins: Instr) -> tuple[int, int]:
    """Return how many parameters a call passes, and how many results it takes."""
    vectors = [len(a.parts) for a in ins.args if isinstance(a, Vector)]
    if not isinstance(ins.args[0], Vector):
        return (vectors[0] if vectors else 0), 0
    return (vectors[1] if len(vectors) > 1 else 0), vectors[0]


def _numbers(ins: Instr, parts: tuple[Operand, ...]) -> tuple[int, ...]:
    if not all(isinstance(o, Slot) for o in parts):
        raise unknown(ins, "a parameter in a register")
    return tuple(o.number for o in parts if isinstance(o, Slot))


@dataclass(frozen=True, slots=True)
class _Moved:
    """Renames the operands of a function to what they are in the program."""

    base: int
    slots: Mapping[str, int]
    jumps: set[str]
    params: set[str]
    local: Mapping[str, str]
    me: int

    def __call__(self, o: Operand) -> Operand:
        match o:
            case Reg(i):
                return Reg(self.base + i)
            case Symbol(name, off):
                if name in self.slots:
                    return Slot(self.slots[name], off)
                if name in self.jumps:
                    return Symbol(f"{self.me}:{name}")
                if name in self.params:
                    return KernelParam(name, off)
                return Symbol(self.local.get(name, name), off)
            case Place(b, off):
                return Place(self(b), off)
            case Vector(parts):
                return Vector(tuple(map(self, parts)))
            case Tensor(parts):
                return Tensor(tuple(map(self, parts)))
            case Pair(a, b):
                return Pair(self(a), self(b))
            case Not(a):
                return Not(self(a))
            case _:
                return o
