"""When two values of a program may share memory.

Two values share bytes only in these ways; every other overlap breaks a law of ``program``.

| way | when | law |
|---|---|---|
| in turn | the first is dead: freed, taken over or carried | P-gone, P-over, P-overlap |
| a view | it shows bytes of a value that lives, and is not written | P-view, P-written |
| in place | a launch's output takes the bytes of an operand that dies there | P-inplace |

Whether a kernel works in place is proven here, from its loops.  It does where each thread reads an
element of the operand only before it writes the same element of the output, and no other thread,
nor another turn of a loop, ever touches that element: every load and every store have one index,
which differs from one iteration of the loops around both to the next.  Indices are compared as
polynomials over loop variables and sizes, in which ``3 * (i // 3) + i % 3`` is ``i``.  What is not
proven is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.expand import expand
from didyma.refimpl.ir.expr import of_dim
from didyma.refimpl.ir.loop import (
    Allocate,
    Atomic,
    Binary,
    Block,
    Buffer,
    Const,
    Expr,
    ExternalCall,
    For,
    If,
    Let,
    LetExpr,
    Load,
    PlacementAllocate,
    PrimFunc,
    Stmt,
    Store,
    Var,
    While,
)
from didyma.refimpl.ir.walk import expr_children, stmt_exprs

Atom: TypeAlias = tuple[object, ...]
Poly: TypeAlias = dict[tuple[Atom, ...], int]  # sorted factors of a term -> its coefficient
_ANY_SIZE = 9973  # stands for a size when terms are put in order


def may_share(kernel: PrimFunc, output: str, source: str) -> bool:
    """Return whether a kernel's parameter ``output`` may have the bytes of ``source``."""
    buffers = {b.name: b for b in kernel.params}
    out, src = buffers[output], buffers[source]
    if out.dtype.nbytes != src.dtype.nbytes or not dims.equal(_numel(out), _numel(src)):
        return False
    walk = _Walk(output, source)
    try:
        walk.stmt(expand(kernel).body, ())
    except _Unclear:
        return False
    same = out.shape == src.shape
    return bool(walk.stores) and all(
        _one_by_one(load, store, same, out, src) for load in walk.loads for store in walk.stores
    )


def _numel(b: Buffer) -> dims.Dim:
    return dims.mul(*b.shape)


class _Unclear(Exception):
    """The kernel contains a statement that this analysis does not handle."""


@dataclass(frozen=True, slots=True)
class _Loop:
    var: Atom
    extent: Poly | None


@dataclass(frozen=True, slots=True)
class _Access:
    place: int  # in the order of the text
    index: tuple[Poly, ...]
    loops: tuple[_Loop, ...]


class _Walk:
    """Collects where a kernel loads one buffer and stores another, in the order of its text."""

    def __init__(self, output: str, source: str) -> None:
        self.output = output
        self.source = source
        self.names: dict[str, Poly] = {}
        self.loaded = itertools.count()
        self.place = 0
        self.loads: list[_Access] = []
        self.stores: list[_Access] = []

    def stmt(self, s: Stmt, loops: tuple[_Loop, ...]) -> None:
        for e in stmt_exprs(s):
            self.expr(e, loops)
        self.place += 1
        match s:
            case Block(body):
                for b in body:
                    self.stmt(b, loops)
            case For(var, extent, body):
                loop = self.loop(var.name, extent)
                self.stmt(body, loops if loop is None else (*loops, loop))
            case While(_, body):
                self.stmt(body, (*loops, _Loop(("while", self.place), None)))
            case If(_, then, other):
                self.stmt(then, loops)
                if other is not None:
                    self.stmt(other, loops)
            case Let(var, value, body):
                self.let(var, value)
                self.stmt(body, loops)
            case Allocate(_, body) | PlacementAllocate(_, _, body):
                self.stmt(body, loops)
            case Store(buffer, index, _):
                if buffer == self.output:
                    polys = tuple(self.poly(i) for i in index)
                    self.stores.append(_Access(self.place, polys, loops))
            case Atomic(_, buffer) if buffer == self.output:
                raise _Unclear
            case ExternalCall():
                raise _Unclear
            case _:
                pass

    def let(self, var: Var, value: Expr) -> None:
        if not var.dtype.is_float:  # no index hangs on a float but through a cast
            self.names[var.name] = self.poly(value)

    def loop(self, name: str, extent: Expr) -> _Loop | None:
        size = self.poly(extent)
        if size == {(): 1}:
            self.names[name] = {}
            return None
        var: Atom = ("loop", name)
        self.names[name] = _atom(var)
        return _Loop(var, size)

    def expr(self, e: Expr, loops: tuple[_Loop, ...]) -> None:
        if isinstance(e, LetExpr):
            self.expr(e.value, loops)
            self.let(e.var, e.value)
            self.expr(e.body, loops)
            return
        for c in expr_children(e):
            self.expr(c, loops)
        if isinstance(e, Load):
            if e.buffer == self.output:
                raise _Unclear
            if e.buffer == self.source:
                self.place += 1
                polys = tuple(self.poly(i) for i in e.index)
                self.loads.append(_Access(self.place, polys, loops))

    def poly(self, e: Expr) -> Poly:
        """An index as a polynomial; what loads has a value of its own wherever it stands."""
        if _loads(e):
            return _atom(("load", next(self.loaded)))
        return _poly(e, self.names)


def _loads(e: Expr) -> bool:
    return isinstance(e, Load) or any(map(_loads, expr_children(e)))


# ---- polynomials


def _poly(e: Expr, names: Mapping[str, Poly]) -> Poly:
    """An index as a polynomial; what is no sum, product or quotient is an atom of its own."""
    match e:
        case Const(value):
            return _constant(int(value))
        case Var(name):
            return names.get(name, _atom(("dim", name)))
        case Binary("add", a, b):
            return _sum(_poly(a, names), _poly(b, names))
        case Binary("sub", a, b):
            return _sum(_poly(a, names), _scale(_poly(b, names), -1))
        case Binary("mul", a, b):
            return _product(_poly(a, names), _poly(b, names))
        case Binary("floordiv", a, b):
            return _quotient(_poly(a, names), _poly(b, names))
        case Binary("floormod", a, b):
            x, y = _poly(a, names), _poly(b, names)
            return _sum(x, _scale(_product(y, _quotient(x, y)), -1))
        case _:
            return _atom(("expr", e))


def _constant(value: int) -> Poly:
    return {(): value} if value else {}


def _atom(a: Atom) -> Poly:
    return {(a,): 1}


def _sum(a: Poly, b: Poly) -> Poly:
    out = dict(a)
    for term, c in b.items():
        out[term] = out.get(term, 0) + c
    return {t: c for t, c in out.items() if c}


def _scale(a: Poly, by: int) -> Poly:
    return {t: c * by for t, c in a.items()}


def _product(a: Poly, b: Poly) -> Poly:
    out: Poly = {}
    for s, c in a.items():
        for t, d in b.items():
            term = tuple(sorted((*s, *t), key=repr))
            out[term] = out.get(term, 0) + c * d
    return {t: c for t, c in out.items() if c}


def _quotient(a: Poly, b: Poly) -> Poly:
    if b == {(): 1}:
        return a
    if a.keys() <= {()} and b.keys() == {()}:
        return _constant(a.get((), 0) // b[()])
    return _atom(("floordiv", _key(a), _key(b)))


def _key(p: Poly) -> tuple[object, ...]:
    return tuple(sorted(p.items(), key=repr))


def _linear(p: Poly, var: Atom) -> Poly | None:
    """The factor of a variable; None where it also stands in a power or a quotient."""
    factor: Poly = {}
    for term, c in p.items():
        within = [a for a in term if a == var]
        rest = tuple(a for a in term if a != var)
        if len(within) > 1 or any(_mentions(a, var) for a in rest):
            return None
        if within:
            factor[rest] = c
    return factor


def _mentions(a: object, var: Atom) -> bool:
    """Return whether a variable occurs in an atom, a nest of tuples."""
    if a == var or not isinstance(a, tuple):
        return a == var
    return any(_mentions(x, var) for x in cast("tuple[object, ...]", a))


# ---- the judgement


def _one_by_one(load: _Access, store: _Access, same: bool, out: Buffer, src: Buffer) -> bool:
    """Return whether a load reads each element before, and only before, a store changes it."""
    if load.place >= store.place:
        return False
    common: list[_Loop] = []
    for a, b in zip(load.loops, store.loops, strict=False):
        if a != b:
            break
        common.append(a)
    written, read = _bounded(store.index, out), _bounded(load.index, src)
    flat = _flat(store.index, out)
    if not (same and written == read) and _flat(written, out) != _flat(read, src):
        return False
    # An index within its buffer on every axis is told by its place, and its place by it.
    return _apart(store.index, common) or _apart((flat,), common)


def _bounded(index: tuple[Poly, ...], b: Buffer) -> tuple[Poly, ...]:
    """An index that is within bounds: on an axis of one element, it is 0."""
    return tuple({} if d == 1 else i for i, d in zip(index, b.shape, strict=True))


def _flat(index: tuple[Poly, ...], b: Buffer) -> Poly:
    at: Poly = {}
    for i, d in zip(index, b.shape, strict=True):
        at = _sum(_product(at, _poly(of_dim(d), {})), i)
    return at


def _apart(index: tuple[Poly, ...], loops: list[_Loop]) -> bool:
    """Return whether any two iterations have different indices, as digits of a mixed radix have."""
    left = list(loops)
    for component in index:
        mine = [x for x in left if any(_mentions(t, x.var) for t in component)]
        if not _counts(component, mine):
            return False
        left = [x for x in left if x not in mine]
    return not left


def _counts(p: Poly, loops: list[_Loop]) -> bool:
    factors: list[tuple[Poly, Poly]] = []
    for x in loops:
        factor = _linear(p, x.var)
        if factor is None or x.extent is None:
            return False
        if _value(factor) < 0:
            factor = _scale(factor, -1)
        factors.append((factor, x.extent))
    factors.sort(key=lambda f: _value(f[0]))
    reach: Poly = {(): 1}  # more than what the loops so far add up to
    for factor, extent in factors:
        if any(c < 0 for c in _sum(factor, _scale(reach, -1)).values()):
            return False
        reach = _sum(reach, _product(factor, _sum(extent, {(): -1})))
    return True


def _value(p: Poly) -> int:
    return sum(c * _ANY_SIZE ** len(t) for t, c in p.items())
