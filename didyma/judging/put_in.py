"""Edits that put an instruction before one of a line: a term that an operand lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

from didyma.codegen.runtime.ptx.code import Imm, Instr, Operand, Reg
from didyma.codegen.runtime.ptx.kernel import SPARES, Kernel
from didyma.judging.forms import Form, Row, Sizes, Weighed, real
from didyma.judging.groups import Group

Parts: TypeAlias = tuple[tuple[tuple[int, ...], Form], ...]  # places, each with a form

_WHOLE = frozenset(("add", "cvt", "div", "mad", "mov", "mul", "selp", "setp", "shl", "shr", "st"))
_ROOTS = frozenset(("sqrt", "rsqrt"))
_EPSILONS = (1e-5, 1e-6, 1e-8, 1e-12, 1e-3)
_NEAREST = 6  # groups whose results are added
_SHIFTS = frozenset(("shr", "div"))


def terms(g: Group, groups: Sequence[Group], kernel: Kernel) -> Iterator[Weighed]:
    """Yield whole operands to which what a line nearby computes is added.

    An index may lack where a tile starts, a quotient what rounds it up.
    """
    if g.first.op not in _WHOLE or g.of_floats or "pred" in g.first.mods:
        return
    others = [o for o in groups if o.width == "32" and o.first.op != "ld" and not o.of_floats]
    others.sort(key=lambda o: (not _counts(o.first), abs(o.line - g.line)))
    places = [j for j, a in enumerate(g.first.args) if j and _is_whole(kernel, a)]
    for j in places:
        divisor = g.first.args[2] if g.first.op in _SHIFTS and j == 1 else None
        if isinstance(divisor, Imm) and divisor.text.isdecimal():
            n = int(divisor.text)
            more = (1 << min(n, 31)) - 1 if g.first.op == "shr" else n - 1
            yield 1.0, f"operand 1 + {more}", _added(kernel, j, [Imm(str(more))])
        for o in (o for o in others[:_NEAREST] if o is not g):
            if len(row := o.given) in (1, len(g.instrs)):
                share = 0.5 if _counts(o.first) else 0.5 / (1 + abs(o.line - g.line))
                yield share, f"operand {j} + what line {o.line} computes", _added(kernel, j, row)


def _counts(i: Instr) -> bool:
    """Return whether an instruction adds a number to what it sets, as that of a loop does."""
    return i.op == "add" and isinstance(i.args[2], Imm) and i.args[0] == i.args[1]


def _is_whole(kernel: Kernel, a: Operand) -> bool:
    return isinstance(a, Reg) and kernel.program.regs[a.index] in ("b32", "u32", "s32")


def _added(kernel: Kernel, j: int, terms: Sequence[Operand]) -> Form:
    """Return the form whose operand ``j`` has a term of 32 bits added."""
    return _before(kernel, j, "b32", ("s32",), terms)


def _before(
    kernel: Kernel, j: int, kind: str, mods: tuple[str, ...], terms: Sequence[Operand]
) -> Form:
    """Return the form with an addition before it, of one term, or of one for each instruction."""
    spare = kernel.spare(kind)

    def form(k: int, i: Instr, _: Sizes) -> Row:
        add = replace(i, op="add", mods=mods, args=(spare, i.args[j], terms[k % len(terms)]))
        return add, replace(i, args=(*i.args[:j], spare, *i.args[j + 1 :]))

    return form


def rooted(g: Group, kernel: Kernel, numbers: Sequence[float]) -> Iterator[Weighed]:
    """Yield roots of f32 to whose operand a small number is added, first those that are known."""
    if g.first.op not in _ROOTS or g.first.mods[-1:] != ("f32",):
        return
    for x in dict.fromkeys(chain(numbers, _EPSILONS)):
        form = _before(kernel, 1, "f32", ("rn", "f32"), [Imm(real(x))])
        yield 1.2 if x in numbers else 0.6, f"operand 1 + {x:g}", form


def grown(g: Group, groups: Sequence[Group], kernel: Kernel) -> Iterator[tuple[float, str, Parts]]:
    """Yield what a line sets, added to what it was, where other lines set it, too: a sum.

    The line may set it in two instructions, of which one is for elements that a mask leaves out.
    """
    own = g.given
    if g.first.op not in ("mov", "ld") or not 0 < len(own) == len(g.instrs) <= SPARES:
        return
    if isinstance(g.first.args[1], Imm) or g.first.mods[-1:] not in (("f32",), ("b32",), ("u32",)):
        return
    here = [o for o in groups if o.line == g.line and o.given == own]
    others = [o for o in groups if o.line != g.line and own[0] in o.given]
    if not others or max(here, key=lambda o: o.places) is not g:
        return
    spares = [kernel.spare("f32", k) for k in range(len(own))]

    def keep(k: int, i: Instr, _: Sizes) -> Row:
        kept = replace(i, op="mov", mods=("b32",), args=(spares[k], own[k]), guard=None)
        return kept, i

    def add(k: int, i: Instr, _: Sizes) -> Row:
        more = replace(
            i, op="add", mods=("rn", "f32"), args=(own[k], own[k], spares[k]), guard=None
        )
        return i, more

    def both(k: int, i: Instr, sizes: Sizes) -> Row:
        return (*keep(k, i, sizes), *add(k, i, sizes)[1:])

    first = min(here, key=lambda o: o.places)
    parts = ((g.places, both),) if first is g else ((first.places, keep), (g.places, add))
    yield 0.8, "its sum with what it was", parts
