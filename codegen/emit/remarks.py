"""Loop programs as the comments of kernel text: one short line a statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from refimpl.ir import dims
from refimpl.ir.loop import (
    Allocate,
    Assert,
    Atomic,
    Barrier,
    Binary,
    Block,
    Buffer,
    Cast,
    Compare,
    Const,
    Expr,
    ExternalCall,
    For,
    Free,
    If,
    Intrinsic,
    Let,
    LetExpr,
    Load,
    PlacementAllocate,
    PrimFunc,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
)


def headline(s: Stmt) -> str:
    """Return a statement without the statements below it, on one line.

    >>> headline(Store("y", (Var("i"),), Binary("add", Var("i"), Const(1, Var("i").dtype))))
    'y[i] = add(i, 1)'
    """
    match s:
        case Block():
            return "block"
        case For(var, extent, _, kind, axis):
            how = f" {axis or kind}" if axis or kind != "serial" else ""
            return f"for {var.name} < {_expr(extent)}{how}"
        case If(cond):
            return f"if {_expr(cond)}"
        case Let(var, value):
            return f"let {var.name} = {_expr(value)}"
        case Store(buffer, at, value):
            return f"{buffer}[{_list(at)}] = {_expr(value)}"
        case Atomic(op, buffer, at, value):
            return f"atomic {op} {buffer}[{_list(at)}], {_expr(value)}"
        case Allocate(buffer):
            return f"allocate {_buffer(buffer)}"
        case PlacementAllocate(buffer, over):
            return f"allocate {_buffer(buffer)} over {over}"
        case Free(buffer):
            return f"free {buffer}"
        case ExternalCall(name, outputs, inputs):
            return f"{', '.join(outputs)} = call {name}({', '.join(inputs)})"
        case Barrier():
            return "barrier"
        case Assert(cond, message):
            return f"assert {_expr(cond)}: {message}"
        case _:
            assert_never(s)


def comment(line: str) -> str:
    """Return a line as a comment that stays one, whatever names it holds.

    >>> comment('add "x\\\\"')
    "// add 'x/'"
    """
    harmless = line.replace("\\", "/").replace('"', "'")
    return "// " + "".join(c if c.isascii() and c.isprintable() else "?" for c in harmless)


def outline(f: PrimFunc) -> Iterator[str]:
    """Yield the lines of a function: what it computes, then its loop program."""
    source = dict(f.attrs).get("source")
    if isinstance(source, tuple) and source:
        yield f"computes {', '.join(map(str, source))}"
    sizes = "".join(f", {d.name} in {d.lo}..{d.hi}" for d in f.dims)
    yield f"{f.name}({', '.join(_buffer(b) for b in f.params)}{sizes})"
    yield from _body(f.body, 1)


def _body(s: Stmt, depth: int) -> Iterator[str]:
    match s:
        case Block(body):
            for b in body:
                yield from _body(b, depth)
            return
        case Let(body=body) | Allocate(body=body) | PlacementAllocate(body=body):
            yield "  " * depth + headline(s)
            yield from _body(body, depth)
            return
        case For(body=body):
            yield "  " * depth + headline(s)
            yield from _body(body, depth + 1)
        case If(_, then, other):
            yield "  " * depth + headline(s)
            yield from _body(then, depth + 1)
            if other is not None:
                yield "  " * depth + "else"
                yield from _body(other, depth + 1)
        case Store() | Atomic() | Free() | ExternalCall() | Barrier() | Assert():
            yield "  " * depth + headline(s)
        case _:
            assert_never(s)


def _buffer(b: Buffer) -> str:
    scope = "" if b.scope == "global" else f" {b.scope}"
    return f"{b.name}: {b.dtype}[{', '.join(map(dims.text, b.shape))}]{scope}"


def _list(es: Iterable[Expr]) -> str:
    return ", ".join(map(_expr, es))


def _expr(e: Expr) -> str:
    match e:
        case Var(name):
            return name
        case Const(value):
            return str(value)
        case Binary(op, a, b) | Compare(op, a, b):
            return f"{op}({_expr(a)}, {_expr(b)})"
        case Load(buffer, at):
            return f"{buffer}[{_list(at)}]"
        case Select(cond, then, other):
            return f"select({_expr(cond)}, {_expr(then)}, {_expr(other)})"
        case Cast(arg, dtype):
            return f"{dtype}({_expr(arg)})"
        case Unary(op, arg):
            return f"{op}({_expr(arg)})"
        case Intrinsic(name, args):
            return f"{name}({_list(args)})"
        case LetExpr(var, value, body):
            return f"(let {var.name} = {_expr(value)} in {_expr(body)})"
        case _:
            assert_never(e)
