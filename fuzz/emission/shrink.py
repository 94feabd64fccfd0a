"""Smaller kernels of a kernel: statements dropped and unwrapped, expressions cut down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from didyma.fuzz.emission.kernels import Case
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    Allocate,
    Assert,
    Atomic,
    AttrStmt,
    Barrier,
    Block,
    Call,
    Cast,
    Compare,
    Const,
    Evaluate,
    Expr,
    For,
    If,
    Let,
    LetExpr,
    Load,
    Prefetch,
    PrimFunc,
    Scope,
    Stmt,
    Store,
    Unary,
    While,
)
from didyma.refimpl.ir.target import SM_90A
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import expr_children, exprs, stmts, substitute
from didyma.refimpl.verify import loop as laws


def smaller(case: Case) -> Iterator[Case]:
    """Yield kernels of one innermost statement, then those that lack one thing anywhere."""
    singles = [s for s in _single(case.kernel.body) if s != case.kernel.body]
    for body in (*singles, *_variants(case.kernel.body)):
        kernel = _trimmed(replace(case.kernel, body=body))
        try:
            laws.verify(kernel, SM_90A)
        except DidymaError:
            continue  # such as a variable whose declaration is gone
        yield replace(case, kernel=kernel)


def _single(s: Stmt) -> Iterator[Stmt]:
    """Yield a statement with one of its innermost statements alone, inside what is around that.

    What has registers of its own stays whole.
    """
    match s:
        case Block(body):
            for b in body:
                yield from _single(b)
        case For(body=body) if _branches(body):
            yield from (replace(s, body=b) for b in _single(body))
        case Let(body=body) if _branches(body):
            yield from (replace(s, body=b) for b in _single(body))
        case If(cond, then, other) if other is not None or _branches(then):
            yield from (If(cond, b) for b in _single(then))
            if other is not None:
                yield from (If(Unary("not", cond), b) for b in _single(other))
        case Allocate(buffer, body) if buffer.scope is Scope.SHARED:
            yield from (replace(s, body=b) for b in _single(body))
        case _:
            yield s


def _branches(s: Stmt) -> bool:
    """Return whether there is more than one way down to the innermost statements."""
    return isinstance(s, Block | If | For | Let)


def _variants(x: Any) -> Iterator[Any]:
    """Yield what a statement or expression can be replaced by, then smaller ones of its parts."""
    yield from _direct(x)
    for f in fields(x):
        part: Any = getattr(x, f.name)
        if isinstance(part, tuple):
            parts: list[Any] = [*part]
            for i, each in enumerate(parts):
                if hasattr(each, "__dataclass_fields__"):
                    for v in _variants(each):
                        yield replace(x, **{f.name: (*parts[:i], v, *parts[i + 1 :])})
        elif isinstance(part, Expr | Stmt) and not _is_place(x, f.name):
            for v in _variants(part):
                yield replace(x, **{f.name: v})


def _is_place(x: Any, name: str) -> bool:
    """Return whether a part is a declaration, or an extent that must stay as it is."""
    return name in ("var", "buffer") or (isinstance(x, For) and name == "extent")


def _direct(x: Any) -> Iterator[Any]:
    match x:
        case Block(body):
            yield from body
            yield from (Block((*body[:i], *body[i + 1 :])) for i in range(len(body)))
        case If(_, then, other):
            yield then
            if other is not None:
                yield other
                yield If(x.cond, then)
        case Let(var, value, body):
            yield substitute(body, {var.name: value})
        case Allocate() | AttrStmt():
            yield x.body
        case For(var) if not x.axis:
            yield substitute(x.body, {var.name: ix.ZERO})
        case (
            For() | While() | Store() | Atomic() | Call() | Barrier() | Evaluate() | Prefetch()
            | Assert()
        ):  # fmt: skip
            pass
        case _:
            yield from _simpler(x)


def _simpler(e: Expr) -> Iterator[Expr]:
    """Yield parts of an expression that have its dtype, and the literals 0 and 1."""
    yield from (c for c in expr_children(e) if c.dtype is e.dtype and not isinstance(e, Load))
    if isinstance(e, Compare | Cast | Load | LetExpr) or expr_children(e):
        kind = bool if e.dtype is DType.BOOL else int if e.dtype.is_int else float
        yield from (Const(kind(n), e.dtype) for n in (0, 1))


def _trimmed(f: PrimFunc) -> PrimFunc:
    """Return a kernel without the parameters, dims and functions that nothing uses."""
    called = {s.callee for s in stmts(f.body) if isinstance(s, Call)}
    functions = tuple(g for g in f.functions if g.name in called)
    named = {e.buffer for e in exprs(f.body) if isinstance(e, Load)}
    for s in stmts(f.body):
        if isinstance(s, Store | Atomic | Prefetch):
            named.add(s.buffer)
        if isinstance(s, Call):
            named.update(s.args)
    params = tuple(b for b in f.params if b.name in named)
    outputs = tuple(o for o in f.outputs if o in named)
    return replace(f, params=params, outputs=outputs, functions=functions)
