"""The laws of what a function takes from outside and gives to it, other than by its parameters.

| law | says |
|---|---|
| L-extern | external calls stand at the top, and free there, once, what they allocate |
| L-return | a function that returns a number ends in one return of its dtype; no other has one |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.text import show_line
from didyma.refimpl.ir.walk import stmts
from didyma.refimpl.verify.scalars import Scalars

_REIGNING = (
    ir.Let | ir.Fold | ir.Allocate | ir.PlacementAllocate | ir.BufferRealize | ir.ExternalAllocate
)


def verify_call(s: ir.ExternalCall | ir.ExternalAllocate, known: Scalars) -> None:
    """Check what an external call reads and writes."""
    for name in s.inputs:
        known.buffer(name, s)
    if isinstance(s, ir.ExternalAllocate):
        for b in s.buffers:
            if b.scope is not ir.Scope.GLOBAL:
                raise known.broken("L-extern", s, f"{b.name}, {b.scope}", "device memory")
        return
    for n, name in enumerate(s.outputs):
        known.buffer(name, s)
        known.writable(s, name)
        if any(known.may_be_one(name, other) for other in (*s.inputs, *s.outputs[:n])):
            want = "once, as a routine reads nothing that it writes"
            raise known.broken("L-alias", s, f"{name}, which may be another here", want)


def verify(f: ir.PrimFunc, known: Scalars) -> None:
    """Raise DidymaError where external calls or a return stand in a wrong place."""
    every = stmts(f.body)
    _returned(f, every, known)
    made = {b.name: s for s in every if isinstance(s, ir.ExternalAllocate) for b in s.buffers}
    freed = set[str]()
    for s in top(f.body):
        match s:
            case ir.ExternalCall() | ir.ExternalAllocate():
                given = s.outputs if isinstance(s, ir.ExternalCall) else s.buffers
                if not given:
                    raise known.broken("L-extern", s, "no buffer that it fills", "at least one")
            case ir.Free(name) if name in made:
                freed.add(name)
            case _:
                _inside(s, frozenset(made), known)
    for name, s in made.items():
        if name not in freed:
            raise known.broken("L-extern", s, f"{name}, which nothing frees", f"`free {name}`")


def top(s: ir.Stmt) -> Iterator[ir.Stmt]:
    """Yield the statements at the top of a function, in order; an external call, then its body."""
    match s:
        case ir.Block(body):
            for b in body:
                yield from top(b)
        case ir.ExternalAllocate(body=body):
            yield s
            yield from top(body)
        case _:
            yield s


def _inside(s: ir.Stmt, made: frozenset[str], known: Scalars) -> None:
    """Check that a statement at the top holds no external call, nor frees what one made."""
    for below in stmts(s):
        is_call = isinstance(below, ir.ExternalCall | ir.ExternalAllocate)
        if is_call or (isinstance(below, ir.Free) and below.buffer in made):
            want = "nothing around it but braces and external calls"
            raise known.broken("L-extern", below, f"in `{show_line(s)}`", want)


def _returned(f: ir.PrimFunc, every: Sequence[ir.Stmt], known: Scalars) -> None:
    found = [s for s in every if isinstance(s, ir.Return)]
    if f.returns is None:
        if found:
            want = f"`returns {found[0].value.dtype}` in the head of @{f.name}"
            raise known.broken("L-return", found[0], "a function that returns nothing", want)
        return
    last = f.body
    while isinstance(last, ir.Block | _REIGNING):
        if isinstance(last, ir.Block) and not last.body:
            break
        last = last.body[-1] if isinstance(last, ir.Block) else last.body
    if len(found) != 1 or last is not found[0]:
        at = next((s for s in found if s is not last), last)
        raise known.broken("L-return", at, "another end", f"`return` of {f.returns} last, alone")
    if found[0].value.dtype is not f.returns:
        raise known.broken("L-return", found[0], str(found[0].value.dtype), str(f.returns))
