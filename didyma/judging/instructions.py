"""Edits of a kernel's instructions, where its text is PTX: those of a line of the source together.

A compiler makes several instructions of an operation of a line, one for each element that a thread
holds; an edit changes all of one name.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from didyma.codegen.runtime.nvrtc import processor_time
from didyma.codegen.runtime.ptx.code import Imm, Instr, Operand, Reg, Vector, registers
from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.judging.evidence import Evidence
from didyma.judging.mending import Search, telling
from didyma.judging.rounds import Later, Round
from didyma.judging.task import Task
from didyma.judging.together import Copies, restoring
from didyma.refimpl.errors import DidymaError

Sizes: TypeAlias = Mapping[str, int]
Form: TypeAlias = Callable[[int, Instr, Sizes], Instr]  # of each instruction of a group, in order

_FLOATS = frozenset(("f16", "f32", "f64", "f16x2", "bf16", "bf16x2"))
_COMPARED = {
    "lt": ("le", "ge", "gt"), "le": ("lt", "gt", "ge"), "gt": ("ge", "le", "lt"),
    "ge": ("gt", "lt", "le"), "eq": ("ne",), "ne": ("eq",),
    "ltu": ("leu",), "leu": ("ltu",), "gtu": ("geu",), "geu": ("gtu",),
}  # fmt: skip
_INSTEAD = {
    "add": ("sub", "mul"), "sub": ("add",), "mul": ("add",), "max": ("min",), "min": ("max",),
    "and": ("or",), "or": ("and",),
}  # fmt: skip
_ARITHMETIC = frozenset((*_INSTEAD, "div", "fma", "ex2", "lg2", "rcp", "rsqrt", "sqrt"))
_COUNTING = frozenset((*_INSTEAD, "div", "fma", "mad", "mov", "rem", "selp", "setp", "shl", "shr"))
_NEAREST = 12  # groups whose results take an operand's place
_SLOWER, _LEAST = 4, 0.05  # times as long as without edit, and seconds, that one may take
_TOGETHER = 64  # edits that are tried side by side
_LONGER = 1.0  # seconds for the rounds after the first, and for more edits than one


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """An edit of the instructions of a name that come from a line, of one kernel of a task."""

    file: str
    line: int
    step: int
    places: tuple[int, ...]
    form: Form
    shown: str

    def of(self, task: Task, sizes: Sizes) -> Task:
        """Return a task with the edit, for a round of some sizes."""
        steps = [*task.steps]
        kernel = steps[self.step].kernel
        instrs = kernel.program.instrs
        made = {at: self.form(k, instrs[at], sizes) for k, at in enumerate(self.places)}
        steps[self.step] = replace(steps[self.step], kernel=kernel.changed(made))
        return replace(task, steps=tuple(steps))


def places(instrs: Sequence[Instr]) -> list[tuple[str, int]]:
    """Return files and lines of instructions, where the outermost function has them inlined.

    What was moved, and so has no line, counts to the last line of what it computes with, or else
    to the line that uses it first.
    """
    found, known = list[tuple[str, int]](), dict[int, tuple[str, int]]()
    for i in instrs:
        file, line = _place(i)
        if not line:
            of = (known[r] for r in registers(i.args[1:]) if r in known)
            file, line = max(of, key=lambda p: p[1], default=(file, 0))
        if line:
            known |= dict.fromkeys(registers(i.args[:1]), (file, line))
        found.append((file, line))
    users = dict[int, tuple[str, int]]()
    for at in reversed(range(len(instrs))):
        if not found[at][1]:
            of = (users[r] for r in registers(instrs[at].args[:1]) if r in users)
            found[at] = next(of, found[at])
        users |= dict.fromkeys(registers(instrs[at].args[1:]), found[at])
    return found


def _place(i: Instr) -> tuple[str, int]:
    loc = i.loc
    while loc and loc.outer:
        loc = loc.outer
    return (loc.file, loc.line) if loc else ("", i.at)


def mended(
    task: Task, failed: Sequence[Later], passed: Sequence[Later], seconds: float
) -> tuple[list[Change], list[tuple[str, int]]]:
    """Try edits for some seconds of processor time.

    Return those that make all rounds right, and the lines near which others are most likely.
    """
    begun = processor_time()
    stop = begun + seconds
    first, evidence = telling(task, failed)
    started = processor_time()
    first.run(task)
    limit = max(_LEAST, _SLOWER * (processor_time() - started))
    rest, found = (*failed, *passed), list[Change]()
    tried = changes(task)
    search = Search(tried, evidence)
    many = _TOGETHER if evidence.wrong.any() else 1
    while (now := processor_time()) < stop and (some := search.next(many)):
        if many > 1:
            right, known = restoring(_copies(task, some, first), first, evidence, stop - now)
            if not known:  # no copies of this kernel can run
                search.back(some)
                many = 1
            some = right
        for e in some:
            now = processor_time()
            if _mends(e, task, min(limit, stop - now), first, rest, evidence):
                if not found:
                    stop = min(stop, now + (now - begun) / 2 + _LONGER)
                found.append(e)
    rank = {e: k for k, e in enumerate(tried)}
    files = {e.line: e.file for e in tried}
    return sorted(found, key=rank.__getitem__), [(files[n], n) for n in search.places()]


def _copies(task: Task, some: Sequence[Change], r: Round) -> Copies[Change]:
    """Return a task each of whose copies has one of some edits, for the sizes of a round."""
    steps = [*task.steps]
    for k, s in enumerate(task.steps):
        instrs = s.kernel.program.instrs
        forms = {
            n: {at: e.form(j, instrs[at], r.case.env) for j, at in enumerate(e.places)}
            for n, e in enumerate(some, 1) if e.step == k
        }  # fmt: skip
        steps[k] = replace(s, kernel=s.kernel.varied(forms))
    return Copies(replace(task, steps=tuple(steps)), tuple(some))


def _mends(
    e: Change, task: Task, left: float, first: Round, rest: Sequence[Later], evidence: Evidence
) -> bool:
    """Return whether a kernel is right with an edit in all rounds.

    The first may take so many seconds, and the others together a second.
    """
    with suppress(DidymaError):  # an instruction that is none
        for k, r in enumerate((first, *(made() for made in rest))):
            begun = processor_time()
            ran = r.run(replace(e.of(task, r.case.env), timeout=left))
            right = r.right(task, ran.outputs)
            if not k and not any(f.kind == "hang" for f in ran.faults):
                evidence.meet(e.line, ran.outputs, right)
            left = _LONGER if not k else left - (processor_time() - begun)
            if ran.faults or not right.all() or left <= 0:
                return False
        return True
    return False


@dataclass(frozen=True, slots=True)
class _Group:
    """Instructions that come from a line and have one name and the same numbers."""

    file: str
    line: int
    places: tuple[int, ...]
    instrs: tuple[Instr, ...]
    width: str  # the bits of what they compute

    @property
    def first(self) -> Instr:
        return self.instrs[0]

    @property
    def of_floats(self) -> bool:
        return not _FLOATS.isdisjoint(self.first.mods)


def changes(task: Task) -> list[Change]:
    """Return edits of a task's instructions, those first that most likely make a kernel right."""
    names = sorted({v.name for v in task.spec.dims})
    found: list[tuple[float, Change]] = []
    for step, s in enumerate(task.steps):
        groups = _groups(s.kernel)
        for g in groups:
            of = (
                *_operations(g), *_numbers(g, names), *_taken(g, groups), *_scaled(g, groups),
                *_fewer(g),
            )  # fmt: skip
            for weight, shown, form in of:
                e = Change(g.file, g.line, step, g.places, form, f"`{shown}` for `{g.first.name}`")
                found.append((weight, e))
    return [e for _, e in sorted(found, key=lambda p: -p[0])]


def _groups(kernel: Kernel) -> list[_Group]:
    """Return the instructions of each name that come from a line, with the same numbers."""
    found: dict[tuple[str, int, tuple[str, ...]], list[int]] = {}
    instrs = kernel.program.instrs
    for at, (file, line) in enumerate(places(instrs)):
        numbers = (a.text for a in instrs[at].args if isinstance(a, Imm))
        if len(instrs[at].args) > 1 and line:
            found.setdefault((file, line, (instrs[at].name, *numbers)), []).append(at)
    return [
        _Group(
            file, line, tuple(row), tuple(instrs[at] for at in row), _width(kernel, instrs[row[0]])
        )
        for (file, line, _), row in found.items()
    ]  # fmt: skip


def _width(kernel: Kernel, i: Instr) -> str:
    """Return the bits of the registers that an instruction sets, as the last part of their type."""
    types = {kernel.program.regs[r] for r in registers(i.args[:1])}
    return ",".join(sorted(t.lstrip("bfsu") for t in types))


def _operations(g: _Group) -> Iterator[tuple[float, str, Form]]:
    """Yield other comparisons and operations."""
    op, mods = g.first.op, g.first.mods
    if op == "setp":
        for k, other in enumerate(_COMPARED.get(mods[0], ())):
            yield 2.0 - k, f"{op}.{other}", _named(op, (other, *mods[1:]))
    elif g.of_floats or "pred" in mods:
        for other in _INSTEAD.get(op, ()):
            yield 1.0, f"{other}.{mods[-1]}", _named(other, mods)


def _named(op: str, mods: tuple[str, ...]) -> Form:
    return lambda _, i, __: replace(i, op=op, mods=mods)


def _numbers(g: _Group, sizes: Sequence[str]) -> Iterator[tuple[float, str, Form]]:
    """Yield other numbers, which may be sizes, in the place of numbers."""
    for j, a in enumerate(g.first.args):
        if not j or not isinstance(a, Imm) or g.first.op not in _COUNTING:
            continue
        of_float = a.text[:2] in ("0f", "0F")
        for new in _reals(a.text) if of_float else _wholes(a.text):
            yield 1.0, f"{g.first.name} by {new}", _with(j, _constant(new))
        for n in sizes:
            yield 0.3, f"{g.first.name} by {n}", _with(j, _size(n, 1 if of_float else 0))
            if of_float:
                yield 0.3, f"{g.first.name} by 1 / {n}", _with(j, _size(n, -1))


def _constant(text: str) -> Callable[[Sizes], Imm]:
    return lambda _: Imm(text)


def _size(name: str, power: int) -> Callable[[Sizes], Imm]:
    """Return the number that a size is: a whole one, or a power of it in f32."""

    def made(sizes: Sizes) -> Imm:
        n = max(1, sizes[name])
        return Imm(_real(float(n) ** power) if power else str(n))

    return made


def _with(j: int, value: Callable[[Sizes], Imm]) -> Form:
    return lambda _, i, s: replace(i, args=(*i.args[:j], value(s), *i.args[j + 1 :]))


def _real(x: float) -> str:
    with np.errstate(all="ignore"):
        return f"0f{int(np.float32(x).view(np.uint32)):08X}"


def _reals(text: str) -> list[str]:
    """Return other numbers of f32 than one, as PTX writes them.

    >>> _reals("0f3F800000"), _reals("0f7F7FFFFF")[2]
    (['0f00000000', '0fBF800000', '0f40000000', '0f3F000000'], '0f7F800000')
    """
    (x,) = struct.unpack(">f", bytes.fromhex(text[2:].zfill(8)))
    near = (1.0, -math.inf) if not x else (0.0, -x, 2 * x, x / 2, 1 / x)
    return [_real(v) for v in dict.fromkeys(near) if v != x]


def _wholes(text: str) -> list[str]:
    """Return other whole numbers than one, and where it is zero, the f32 that is least."""
    if not text.lstrip("-").isdecimal():
        return []
    n = int(text)
    near = (1, -1) if not n else (n + 1, n - 1, 2 * n, n // 2)
    return [*(str(v) for v in dict.fromkeys(near) if v != n), *(() if n else (_real(-math.inf),))]


def _taken(g: _Group, groups: Sequence[_Group]) -> Iterator[tuple[float, str, Form]]:
    """Yield what other instructions compute, in the place of an operand of floats."""
    address = g.first.name == "add.s64"
    if not (address or (g.of_floats and g.first.op in _ARITHMETIC)):
        return
    before = [o for o in groups if o is not g and o.places[0] < g.places[0]]
    others = [o for o in before if (o.first.name == g.first.name if address else _gives(o))]
    others = [o for o in others if o.width == g.width]
    others.sort(key=lambda o: abs(o.line - g.line))
    for o in others[:_NEAREST]:
        given = [r for i in o.instrs for r in _registers(i.args[0])]
        if len(given) not in (1, len(g.instrs)):
            continue
        share = 1 / (1 + abs(o.line - g.line))
        for j in range(1, len(g.first.args)):
            yield share, f"what line {o.line} computes", _one(j, given)
        if len(g.first.args) > 2 and g.first.args[1] == g.first.args[2]:
            yield 1.5 * share, f"what line {o.line} computes", _both(given)


def _scaled(g: _Group, groups: Sequence[_Group]) -> Iterator[tuple[float, str, Form]]:
    """Yield sums of floats with a term multiplied by what other instructions compute."""
    if g.first.op != "add" or not g.of_floats:
        return
    before = [o for o in groups if o.places[0] < g.places[0] and _gives(o) and o.width == g.width]
    before.sort(key=lambda o: abs(o.line - g.line))
    for o in before[:_NEAREST]:
        given = [r for i in o.instrs for r in _registers(i.args[0])]
        if len(given) in (1, len(g.instrs)):
            share = 1 / (1 + abs(o.line - g.line))
            for j in (1, 2):
                yield share, f"fma by what line {o.line} computes", _fused(j, given)


def _fewer(g: _Group) -> Iterator[tuple[float, str, Form]]:
    """Yield operations of floats without an operand, or with two that change places."""
    op, kind = g.first.op, g.first.mods[-1:]
    if not g.of_floats or kind[0] not in ("f32", "f64"):
        return
    if op in ("add", "sub", "mul", "div"):
        for j in (1, 2):
            yield 0.4, f"operand {j} alone", _kept("mov", kind, (j,))
    if op in ("sub", "div"):
        yield 0.8, "operands 2 and 1", _kept(op, g.first.mods, (2, 1))
    if op == "fma":
        for js in ((1, 3), (2, 3)):
            yield 0.4, f"operand {js[0]} and the term", _kept("add", kind, js)
        yield 0.3, "the product alone", _kept("mul", kind, (1, 2))
        yield 0.3, "the term alone", _kept("mov", kind, (3,))


def _kept(op: str, mods: tuple[str, ...], operands: Sequence[int]) -> Form:
    """Return the form of another operation of some operands."""
    return lambda _, i, __: replace(
        i, op=op, mods=mods, args=(i.args[0], *(i.args[j] for j in operands))
    )


def _fused(j: int, given: Sequence[Reg]) -> Form:
    """Return the form of a sum whose operand ``j`` is multiplied."""

    def form(k: int, i: Instr, _: Sizes) -> Instr:
        by, other = given[k % len(given)], i.args[3 - j]
        mods = ("rn", *(m for m in i.mods if m != "rn"))
        return replace(i, op="fma", mods=mods, args=(i.args[0], i.args[j], by, other))

    return form


def _gives(g: _Group) -> bool:
    return g.of_floats or g.first.op == "ld"


def _registers(a: Operand) -> list[Reg]:
    parts = a.parts if isinstance(a, Vector) else (a,)
    return [r for r in parts if isinstance(r, Reg)]


def _one(j: int, given: Sequence[Reg]) -> Form:
    return lambda k, i, _: replace(i, args=(*i.args[:j], given[k % len(given)], *i.args[j + 1 :]))


def _both(given: Sequence[Reg]) -> Form:
    def form(k: int, i: Instr, _: Sizes) -> Instr:
        r = given[k % len(given)]
        return replace(i, args=(i.args[0], r, r, *i.args[3:]))

    return form
