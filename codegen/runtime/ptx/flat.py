"""A kernel with all that it calls as one list of instructions.

Each call has registers and parameters of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from didyma.codegen.runtime.ptx.code import (
    Function,
    Instr,
    KernelParam,
    Loc,
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
from didyma.refimpl.errors import DidymaError

_DEPTH = 64  # calls within calls


@dataclass(slots=True)
class Program:
    """The instructions of a kernel; ``slots`` are the sizes of parameters of calls."""

    kernel: Function
    regs: list[str] = field(default_factory=list[str])
    instrs: list[Instr] = field(default_factory=list[Instr])
    slots: list[int] = field(default_factory=list[int])
    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    labels: dict[str, int] = field(default_factory=dict[str, int])
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


def flatten(module: Module, kernel: str) -> Program:
    """Write out the calls of a kernel.

    DidymaError ``unknown-kernel``; ``unknown-instruction`` for calls through pointers, and
    recursion.
    """
    top = module.functions.get(kernel)
    if top is None or not top.entry or not top.defined:
        raise DidymaError(
            "unknown-kernel", kernel, got=kernel, want=f"one of {', '.join(module.kernels)}"
        )
    p = Program(top, variables=dict(module.variables))
    _Flattener(module, p).emit(top, {}, (), None)
    last = p.instrs[-1] if p.instrs else None
    p.instrs.append(Instr("exit", (), (), None, last.loc if last else None, last.at if last else 0))
    return p


class _Flattener:
    def __init__(self, module: Module, program: Program) -> None:
        self.module = module
        self.out = program
        self.count = 0

    def emit(
        self, f: Function, bound: Mapping[str, int], chain: tuple[str, ...], outer: Loc | None
    ) -> None:
        """Append a function, whose parameters are in slots."""
        p, me, base = self.out, self.count, len(self.out.regs)
        self.count += 1
        p.regs += f.regs
        slots, local = dict(bound), dict[str, str]()
        for v in f.variables.values():
            if v.space == "param":
                slots[v.name] = len(p.slots)
                p.slots.append(max(v.size, 8))
            else:
                local[v.name] = name = f"{v.name}@{me}" if v.space == "local" else v.name
                p.variables[name] = replace(v, name=name)
        jumps = {*f.labels, *f.targets}
        params = {q.name for q in f.params} if f.entry else set[str]()

        def moved(o: Operand) -> Operand:
            match o:
                case Reg(i):
                    return Reg(base + i)
                case Symbol(name, off):
                    if name in slots:
                        return Slot(slots[name], off)
                    if name in jumps:
                        return Symbol(f"{me}:{name}")
                    if name in params:
                        return KernelParam(name, off)
                    return Symbol(local.get(name, name), off)
                case Place(b, off):
                    return Place(moved(b), off)
                case Vector(parts):
                    return Vector(tuple(map(moved, parts)))
                case Tensor(parts):
                    return Tensor(tuple(map(moved, parts)))
                case Pair(a, b):
                    return Pair(moved(a), moved(b))
                case Not(a):
                    return Not(moved(a))
                case _:
                    return o

        for name, given in f.targets.items():
            p.targets[f"{me}:{name}"] = tuple(f"{me}:{g}" for g in given)
        starts = dict[int, list[str]]()
        for name, at in f.labels.items():
            starts.setdefault(at, []).append(name)
        for at, ins in enumerate((*f.instrs, None)):
            for name in starts.get(at, ()):
                p.labels[f"{me}:{name}"] = len(p.instrs)
            if ins is None:
                break
            loc = ins.loc and (replace(ins.loc, outer=outer) if outer else ins.loc)
            guard = (Reg(ins.guard[0].index + base), ins.guard[1]) if ins.guard else None
            if ins.op == "ret" and not f.entry:
                back = (Symbol(f"{me}:return"),)
                p.instrs.append(Instr("bra", (), back, guard, loc, ins.at))
            elif ins.op == "call":
                args = tuple(map(moved, ins.args))
                self.call(replace(ins, args=args, guard=guard, loc=loc), (*chain, f.name))
            else:
                p.instrs.append(Instr(
                    ins.op, ins.mods, tuple(map(moved, ins.args)), guard, loc, ins.at
                ))  # fmt: skip
        p.labels[f"{me}:return"] = len(p.instrs)

    def call(self, ins: Instr, chain: tuple[str, ...]) -> None:
        """Write out what a call calls, or leave it to the machine if it has no body."""
        p = self.out
        vectors = [a for a in ins.args if isinstance(a, Vector)]
        name = next((a.name for a in ins.args if isinstance(a, Symbol)), None)
        if name is None:
            raise unknown(ins, "a call through a pointer")
        callee = self.module.functions.get(name)
        if callee is None or not callee.defined:
            given = tuple(o for v in vectors for o in v.parts)
            p.instrs.append(Instr("extern", (name,), given, ins.guard, ins.loc, ins.at))
            return
        if name in chain or len(chain) > _DEPTH:
            raise unknown(ins, f"{name} calls itself")
        returns = isinstance(ins.args[0], Vector)
        rest = vectors[1:] if returns else vectors
        pairs = list(zip(callee.params, rest[0].parts if rest else (), strict=False))
        pairs += zip(callee.returns, vectors[0].parts if returns else (), strict=False)
        to = {v.name: a.number for v, a in pairs if isinstance(a, Slot)}
        past = f"{self.count}:past"
        if ins.guard:
            flipped = (ins.guard[0], not ins.guard[1])
            p.instrs.append(Instr("bra", (), (Symbol(past),), flipped, ins.loc, ins.at))
        self.emit(callee, to, chain, ins.loc)
        p.labels[past] = len(p.instrs)
