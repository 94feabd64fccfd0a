"""Edits of instructions of a line: other operations, numbers and operands."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from didyma.codegen.runtime.ptx.code import Imm, Instr, Reg
from didyma.judging.groups import Group

Sizes: TypeAlias = Mapping[str, int]
Row: TypeAlias = tuple[Instr, ...]
Form: TypeAlias = Callable[[int, Instr, Sizes], Row]  # of each instruction of a group, in order
Weighed: TypeAlias = tuple[float, str, Form]  # how likely it mends a line, and what is told of it

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
_OFFSETS = frozenset(("add.s64", "mul.wide.s32", "mul.wide.u32", "shl.b64"))  # of addresses
_NEAREST = 12  # groups whose results take an operand's place


def operations(g: Group) -> Iterator[Weighed]:
    """Yield other comparisons and operations."""
    op, mods = g.first.op, g.first.mods
    if op == "setp":
        for k, other in enumerate(_COMPARED.get(mods[0], ())):
            yield 2.0 - k, f"{op}.{other}", _named(op, (other, *mods[1:]))
    elif g.of_floats or "pred" in mods:
        for other in _INSTEAD.get(op, ()):
            yield 1.0, f"{other}.{mods[-1]}", _named(other, mods)


def _named(op: str, mods: tuple[str, ...]) -> Form:
    return lambda _, i, __: (replace(i, op=op, mods=mods),)


def numbers(g: Group, sizes: Sequence[str]) -> Iterator[Weighed]:
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
        return Imm(real(float(n) ** power) if power else str(n))

    return made


def _with(j: int, value: Callable[[Sizes], Imm]) -> Form:
    return lambda _, i, s: (replace(i, args=(*i.args[:j], value(s), *i.args[j + 1 :])),)


def real(x: float) -> str:
    """Return a number of f32 as PTX writes it."""
    with np.errstate(all="ignore"):
        return f"0f{int(np.float32(x).view(np.uint32)):08X}"


def _reals(text: str) -> list[str]:
    """Return other numbers of f32 than one, as PTX writes them.

    >>> _reals("0f3F800000"), _reals("0f7F7FFFFF")[2]
    (['0f00000000', '0fBF800000', '0f40000000', '0f3F000000'], '0f7F800000')
    """
    (x,) = struct.unpack(">f", bytes.fromhex(text[2:].zfill(8)))
    near = (1.0, -math.inf) if not x else (0.0, -x, 2 * x, x / 2, 1 / x)
    return [real(v) for v in dict.fromkeys(near) if v != x]


def _wholes(text: str) -> list[str]:
    """Return other whole numbers than one, and where it is zero, the f32 that is least."""
    if not text.lstrip("-").isdecimal():
        return []
    n = int(text)
    near = (1, -1) if not n else (n + 1, n - 1, 2 * n, n // 2, 1)
    return [*(str(v) for v in dict.fromkeys(near) if v != n), *(() if n else (real(-math.inf),))]


def taken(g: Group, groups: Sequence[Group]) -> Iterator[Weighed]:
    """Yield what other instructions compute, in the place of an operand of floats."""
    address = g.first.name == "add.s64"
    if not (address or (g.of_floats and g.first.op in _ARITHMETIC)):
        return
    before = [o for o in groups if o is not g and o.places[0] < g.places[0]]
    others = [o for o in before if (o.first.name in _OFFSETS if address else o.gives)]
    others = [o for o in others if o.width == g.width]
    others.sort(key=lambda o: abs(o.line - g.line))
    for o in others[:_NEAREST]:
        given = o.given
        if len(given) not in (1, len(g.instrs)):
            continue
        share = 1 / (1 + abs(o.line - g.line))
        for j in range(1, len(g.first.args)):
            yield share, f"what line {o.line} computes", _one(j, given)
        if len(g.first.args) > 2 and g.first.args[1] == g.first.args[2]:
            yield 1.5 * share, f"what line {o.line} computes", _both(given)


def scaled(g: Group, groups: Sequence[Group]) -> Iterator[Weighed]:
    """Yield sums of floats with a term multiplied by what other instructions compute."""
    if g.first.op != "add" or not g.of_floats:
        return
    before = [o for o in groups if o.places[0] < g.places[0] and o.gives and o.width == g.width]
    before.sort(key=lambda o: abs(o.line - g.line))
    for o in before[:_NEAREST]:
        given = o.given
        if len(given) in (1, len(g.instrs)):
            share = 1 / (1 + abs(o.line - g.line))
            for j in (1, 2):
                yield share, f"fma by what line {o.line} computes", _fused(j, given)


def fewer(g: Group) -> Iterator[Weighed]:
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
    return lambda _, i, __: (
        replace(i, op=op, mods=mods, args=(i.args[0], *(i.args[j] for j in operands))),
    )


def _fused(j: int, given: Sequence[Reg]) -> Form:
    """Return the form of a sum whose operand ``j`` is multiplied."""

    def form(k: int, i: Instr, _: Sizes) -> Row:
        by, other = given[k % len(given)], i.args[3 - j]
        mods = ("rn", *(m for m in i.mods if m != "rn"))
        return (replace(i, op="fma", mods=mods, args=(i.args[0], i.args[j], by, other)),)

    return form


def _one(j: int, given: Sequence[Reg]) -> Form:
    return lambda k, i, _: (
        replace(i, args=(*i.args[:j], given[k % len(given)], *i.args[j + 1 :])),
    )


def _both(given: Sequence[Reg]) -> Form:
    def form(k: int, i: Instr, _: Sizes) -> Row:
        r = given[k % len(given)]
        return (replace(i, args=(i.args[0], r, r, *i.args[3:])),)

    return form
