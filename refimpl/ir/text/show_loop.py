"""Prints loop programs.

    kernel @exp_0(a: f32[n, 4], out: f32[n]) writes (out) dims n in [1, 8] {
      for b in (n + 255) // 256 bound blockIdx.x {
        ...
        let x = a[i, 0]
        out[i] = exp(x) + 1.0:f32
      }
    }

Functions that are called stand between the braces before the first statement, and are written the
same way; ``call @row(a, out) dims (i)`` gives buffers for parameters and expressions for dims.
Parameters without brackets, after the others, are numbers: ``alpha: f32``, for which a call gives
expressions, ``call @row(a, out) scalars (2.0:f32)``.

A literal carries its dtype, except ``true``, ``false`` and integers of dtype i64.  A variable is
i64 and a load has its buffer's dtype unless they say otherwise: ``x:f32``.  ``f32(x)`` is a cast.
Infix: ``or``, ``xor``, ``and``, comparisons, ``<< >>``, ``+ -``, ``* / // %``, from loosest to
tightest; ``//`` and ``%`` round down; whatever else is written as a function of its IR name.
``ramp(i, 2, 4)`` is the vector of i, i + 2, i + 4 and i + 6, and ``broadcast(x, 4)`` has x in each
of four lanes: ``y[ramp(i, 1, 4)] = x[ramp(i, 2, 4)] * broadcast(2.0:f32, 4)``.

A fold gives its accumulators with what they start from, its axes, its combiner, and, if it has one,
how parts are merged:

    fold (m: f32 = -inf:f32, at = 0) over (k in n)
        by (x: f32, p) -> (select(x > m, x, m), select(x > m, p, at)) {
      yield (a[i, k], k)
    }
    out[i] = at

``evaluate x[i]`` drops a value, ``prefetch x[i + 8]`` says what will be read, and
``attr unroll = 4 { for ... }`` tells later levels a fact about a statement.

A block gives its variables with extents, kinds and values, a condition, and its regions, each from
``start`` on ``+: extent`` elements; what it does first stands between ``init`` and ``in``:

    block (i in n spatial = p, k in 8 reduce = q) where q < m
        reads (a[i +: 1, k +: 1]) writes (out[i +: 1]) init {
      out[i] = 0.0:f32
    } in {
      out[i] = out[i] + a[i, k]
    }

``realize t: f32[n, 8] local of [i +: 1, 0 +: 8] {`` has a part of a buffer; a producer is defined
first, ``compute t: f32[n, 8] local at (i, j) { t[i, j] = a[i, j] } in {``, and computed where it
is used, ``produce t[p +: 1, 0 +: 8] {``.

``extern "sort"(x) -> (y)`` calls a library routine; ``extern "sort"(x) -> alloc (t: f32[n])``
has it make a buffer, which ``free t`` releases.  A function with ``returns f32`` after what it
writes ends in ``return y[0]``.

Braces around one statement mean that statement, around none or several a ``Block`` of them; other
``Block``s say ``block``.  ``let``, ``exchange``, ``chain``, ``alloc``, ``place`` and
``extern ... -> alloc`` without braces, and ``fold`` without ``in`` and braces after its step, reign
to the end of the braces they stand in.
"""

from __future__ import annotations

from typing import assert_never

from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.expr import TRUE
from didyma.refimpl.ir.graph import Attrs
from didyma.refimpl.ir.text.graph import dims_text
from didyma.refimpl.ir.text.literals import (
    attrs_text,
    global_name,
    plain_name,
    quote,
    scalar_text,
    shape_text,
    word,
)
from didyma.refimpl.ir.types import DType

INFIX: dict[str, tuple[str, int]] = {
    "or": ("or", 1),
    "xor": ("xor", 2),
    "and": ("and", 3),
    "eq": ("==", 4),
    "ne": ("!=", 4),
    "lt": ("<", 4),
    "le": ("<=", 4),
    "gt": (">", 4),
    "ge": (">=", 4),
    "shl": ("<<", 5),
    "shr": (">>", 5),
    "add": ("+", 6),
    "sub": ("-", 6),
    "mul": ("*", 7),
    "div": ("/", 7),
    "floordiv": ("//", 7),
    "floormod": ("%", 7),
}
COMPARISON = 4  # does not chain
NEGATION = 8
_WORDS = (
    "true", "false", "nan", "inf", "and", "or", "xor", "in", "let", "for", "while", "if", "else",
    "alloc", "place", "over", "free", "extern", "call", "barrier", "cluster_barrier", "assert",
    "atomic", "block", "fold", "yield", "evaluate", "prefetch", "attr", "exchange", "chain",
    "realize", "compute", "produce", "return",
)  # fmt: skip
RESERVED = frozenset((*_WORDS, *(str(k) for k in ir.LoopKind)))


def dtype_of(e: ir.Expr) -> DType | None:
    """Return the dtype of an expression, or None where it lacks the operand that decides."""
    try:
        return e.dtype
    except IndexError:
        return None


def local_name(name: str) -> str:
    """Name of a buffer or variable."""
    return plain_name(name, RESERVED)


_REIGNING = (
    ir.Let, ir.Exchange, ir.Chain, ir.Allocate, ir.PlacementAllocate, ir.Fold, ir.ExternalAllocate
)  # fmt: skip


class LoopPrinter:
    """Prints one function; with ``typed`` off, without dtypes that only a parser needs."""

    def __init__(self, typed: bool = True) -> None:
        self.typed = typed
        self.lines: list[str] = []
        self.buffers: dict[str, DType] = {}
        self.vars: dict[str, DType] = {}

    # ---- expressions

    def expr(self, e: ir.Expr, level: int = 0) -> str:
        """Return the text of an expression, parenthesised if it binds no tighter than ``level``."""
        match e:
            case ir.Const(value, dtype):
                text = scalar_text(value, dtype)
                plain = dtype is DType.BOOL if isinstance(value, bool) else dtype is ir.INDEX
                return text if plain and not isinstance(value, float) else f"{text}:{dtype}"
            case ir.Var(name, dtype):
                known = not self.typed or self.vars.get(name, ir.INDEX) is dtype
                return local_name(name) if known else f"{local_name(name)}:{dtype}"
            case ir.Load(buffer, index, dtype):
                known = not self.typed or self.buffers.get(buffer) is dtype
                return f"{self.element(buffer, index)}{'' if known else f':{dtype}'}"
            case ir.Binary(op, lhs, rhs) | ir.Compare(op, lhs, rhs):
                return self._binary(op, lhs, rhs, level)
            case ir.Unary("neg", arg) if not isinstance(arg, ir.Const):
                text = f"-{self.expr(arg, NEGATION)}"
                return f"({text})" if level >= NEGATION else text
            case ir.Unary(op, arg):
                return f"{op}({self.expr(arg)})"
            case ir.Cast(arg, dtype):
                return f"{dtype}({self.expr(arg)})"
            case ir.Select(cond, then, other):
                return f"select({self.list((cond, then, other))})"
            case ir.Intrinsic(name, args):
                shown = name if e.record or name in ir.BITCASTS else f"%{quote(name)}"
                return f"{shown}({self.list(args)})"
            case ir.LetExpr(var, value, body):
                bound = self.binding(var, value)
                return f"({bound} in {self.expr(body)})"
            case ir.Ramp(base, stride, lanes):
                return f"ramp({self.expr(base)}, {stride}, {lanes})"
            case ir.Broadcast(value, lanes):
                return f"broadcast({self.expr(value)}, {lanes})"
            case _:
                assert_never(e)

    def _binary(self, op: str, lhs: ir.Expr, rhs: ir.Expr, level: int) -> str:
        if op not in INFIX:
            return f"{op}({self.list((lhs, rhs))})"
        mark, rank = INFIX[op]
        left = self.expr(lhs, rank if rank == COMPARISON else rank - 1)
        text = f"{left} {mark} {self.expr(rhs, rank)}"
        return f"({text})" if rank <= level else text

    def list(self, es: tuple[ir.Expr, ...]) -> str:
        """Return the text of expressions between commas."""
        return ", ".join([self.expr(e) for e in es])

    def element(self, buffer: str, index: tuple[ir.Expr, ...]) -> str:
        """Return the text of an element of a buffer: ``a[i, 0]``."""
        return f"{local_name(buffer)}[{self.list(index)}]"

    def binding(self, var: ir.Var, value: ir.Expr) -> str:
        """Return the text of a binding; note the variable."""
        return f"let {self.bound(var, value)}"

    def bound(self, var: ir.Var, value: ir.Expr) -> str:
        """Return the text of a variable and its value; note the variable."""
        text = self.expr(value)
        self.vars[var.name] = var.dtype
        known = not self.typed or dtype_of(value) is var.dtype
        return f"{local_name(var.name)}{'' if known else f': {var.dtype}'} = {text}"

    def declared(self, var: ir.Var) -> str:
        """Return the text of a variable that is i64 unless it says otherwise; note it."""
        self.vars[var.name] = var.dtype
        return f"{local_name(var.name)}{'' if var.dtype is ir.INDEX else f': {var.dtype}'}"

    def ranged(self, var: ir.Var, extent: ir.Expr) -> str:
        """Return the text of a variable and its extent; note the variable."""
        text = self.expr(extent)
        return f"{self.declared(var)} in {text}"

    def combiner(self, c: ir.Combiner) -> str:
        """Return the text of a combiner; note its operands."""
        return f"({', '.join(map(self.declared, c.operands))}) -> ({self.list(c.results)})"

    # ---- statements

    def block(self, s: ir.BlockRealize) -> str:
        """Return the text of a block's head; note its variables."""
        values = [(self.expr(v.extent), self.expr(v.value)) for v in s.vars]
        where = "" if s.where == TRUE else f" where {self.expr(s.where)}"
        bound = ", ".join(
            f"{self.declared(v.var)} in {extent} {v.kind} = {value}"
            for v, (extent, value) in zip(s.vars, values, strict=True)
        )
        reads, writes = (", ".join(map(self.region, rs)) for rs in (s.reads, s.writes))
        init = "" if s.init is None else " init"
        return f"block ({bound}){where} reads ({reads}) writes ({writes}){init}"

    def region(self, r: ir.Region) -> str:
        """Return the text of a region: ``a[i +: 1, 0 +: 8]``."""
        axes = zip(r.starts, r.extents, strict=True)
        text = ", ".join(f"{self.expr(start)} +: {self.expr(extent)}" for start, extent in axes)
        return f"{local_name(r.buffer)}[{text}]"

    def part(self, starts: tuple[ir.Expr, ...], extents: tuple[int, ...]) -> str:
        """Return the text of a part of a buffer, without its name."""
        axes = zip(starts, extents, strict=True)
        return ", ".join(f"{self.expr(start)} +: {extent}" for start, extent in axes)

    def buffer(self, b: ir.Buffer, scoped: bool) -> str:
        """Return the text of a declaration; note the buffer."""
        self.buffers[b.name] = b.dtype
        scope = f" {b.scope}" if scoped or b.scope is not ir.Scope.GLOBAL else ""
        return f"{local_name(b.name)}: {b.dtype}{shape_text(b.shape)}{scope}"

    def extern(self, name: str, inputs: tuple[str, ...], attrs: Attrs) -> str:
        """Return the text of an external call without what it gives."""
        args = [local_name(i) for i in inputs] + attrs_text(attrs)
        return f"extern {quote(name)}({', '.join(args)})"

    def head(self, s: ir.Stmt) -> str:
        """Return the text of a statement without its substatements."""
        match s:
            case ir.For(var, extent, _, kind, axis):
                text = self.ranged(var, extent)
                how = "" if kind is ir.LoopKind.SERIAL and not axis else f" {kind}"
                where = f" {word(axis)}" if axis else ""
                return f"for {text}{how}{where}"
            case ir.Fold(accs, axes, combine, merge=merge):
                starts = ", ".join([self.bound(a.var, a.start) for a in accs])
                ranges = ", ".join([self.ranged(a.var, a.extent) for a in axes])
                text = f"fold ({starts}) over ({ranges}) by {self.combiner(combine)}"
                return text if merge is None else f"{text} merge {self.combiner(merge)}"
            case ir.BlockRealize():
                return self.block(s)
            case ir.BufferRealize(buffer, starts, extents):
                part = self.part(starts, extents)
                return f"realize {self.buffer(buffer, True)} of [{part}]"
            case ir.Compute(buffer, vars):
                text = self.buffer(buffer, True)
                return f"compute {text} at ({', '.join(map(self.declared, vars))})"
            case ir.ProducerRealize(name, starts, extents):
                return f"produce {local_name(name)}[{self.part(starts, extents)}]"
            case ir.Yield(values):
                return f"yield ({self.list(values)})"
            case ir.If(cond):
                return f"if {self.expr(cond)}"
            case ir.While(cond):
                return f"while {self.expr(cond)}"
            case ir.Let(var, value):
                return self.binding(var, value)
            case ir.Store(buffer, index, value):
                return f"{self.element(buffer, index)} = {self.expr(value)}"
            case ir.Atomic(op, buffer, index, value):
                return f"atomic {op}({self.element(buffer, index)}, {self.expr(value)})"
            case ir.Allocate(buffer):
                return f"alloc {self.buffer(buffer, True)}"
            case ir.PlacementAllocate(buffer, over):
                return f"place {self.buffer(buffer, True)} over {local_name(over)}"
            case ir.Free(buffer):
                return f"free {local_name(buffer)}"
            case ir.ExternalCall(name, outputs, inputs, attrs):
                outs = ", ".join(local_name(o) for o in outputs)
                return f"{self.extern(name, inputs, attrs)} -> ({outs})"
            case ir.ExternalAllocate(name, buffers, inputs, attrs):
                made = ", ".join(self.buffer(b, False) for b in buffers)
                return f"{self.extern(name, inputs, attrs)} -> alloc ({made})"
            case ir.Return(value):
                return f"return {self.expr(value)}"
            case ir.Call(callee, args, dims, scalars):
                text = f"call {global_name(callee)}({', '.join(map(local_name, args))})"
                for word_, given in (("scalars", scalars), ("dims", dims)):
                    text += f" {word_} ({self.list(given)})" if given else ""
                return text
            case ir.Barrier(scope):
                return "barrier" if scope is ir.Scope.SHARED else f"{scope}_barrier"
            case ir.Exchange(var, value, mask):
                return f"exchange {self.bound(var, value)} by {mask}"
            case ir.Chain(var, op, start, value, states, totals):
                bound, first = self.bound(var, value), self.expr(start)
                by = f"{local_name(states)}, {local_name(totals)}"
                return f"chain {op} {bound} from {first} by {by}"
            case ir.Assert(cond, message):
                return f"assert {self.expr(cond)}, {quote(message)}"
            case ir.Evaluate(value):
                return f"evaluate {self.expr(value)}"
            case ir.Prefetch(buffer, index):
                return f"prefetch {self.element(buffer, index)}"
            case ir.AttrStmt(key, value):
                return f"attr {attrs_text(((key, value),))[0].replace('=', ' = ', 1)}"
            case ir.Block():
                return "block"
            case _:
                assert_never(s)

    def sequence(self, body: ir.Stmt, pad: str) -> None:
        """Print what stands between braces."""
        items = _items(body)
        while items:
            for s in items[:-1]:
                self.stmt(s, pad)
            last = items[-1]
            if not isinstance(last, _REIGNING):
                self.stmt(last, pad)
                return
            self.lines.append(pad + self.head(last))
            if isinstance(last, ir.Fold):
                self.lines[-1] += " {"
                self.sequence(last.step, pad + "  ")
                self.lines.append(pad + "}")
            items = _items(last.body)

    def stmt(self, s: ir.Stmt, pad: str) -> None:
        """Print a statement and what is below it."""
        head = pad + self.head(s)
        match s:
            case (
                ir.Store() | ir.Atomic() | ir.Free() | ir.ExternalCall() | ir.Call() | ir.Barrier()
                | ir.Assert() | ir.Yield() | ir.Evaluate() | ir.Prefetch() | ir.Return()
            ):  # fmt: skip
                self.lines.append(head)
            case ir.Fold(step=step, body=body) | ir.Compute(step=step, body=body):
                self.lines.append(head + " {")
                self.sequence(step, pad + "  ")
                self.lines.append(pad + "} in {")
                self.sequence(body, pad + "  ")
                self.lines.append(pad + "}")
            case ir.BlockRealize(init=init, body=body):
                self.lines.append(head + " {")
                if init is not None:
                    self.sequence(init, pad + "  ")
                    self.lines.append(pad + "} in {")
                self.sequence(body, pad + "  ")
                self.lines.append(pad + "}")
            case ir.Block(body):
                self.lines.append(head + " {")
                for b in body:
                    self.stmt(b, pad + "  ")
                self.lines.append(pad + "}")
            case ir.If(_, then, other):
                self.lines.append(head + " {")
                self.sequence(then, pad + "  ")
                if other is not None:
                    self.lines.append(pad + "} else {")
                    self.sequence(other, pad + "  ")
                self.lines.append(pad + "}")
            case (
                ir.For() | ir.While() | ir.Let() | ir.Allocate() | ir.PlacementAllocate()
                | ir.AttrStmt() | ir.Exchange() | ir.Chain() | ir.ExternalAllocate()
                | ir.BufferRealize() | ir.ProducerRealize()
            ):  # fmt: skip
                self.lines.append(head + " {")
                self.sequence(s.body, pad + "  ")
                self.lines.append(pad + "}")
            case _:
                assert_never(s)

    def function(self, f: ir.PrimFunc, pad: str = "") -> None:
        """Print a function."""
        self.vars = {v.name: ir.INDEX for v in f.dims} | {v.name: v.dtype for v in f.scalars}
        self.buffers = {}
        scalars = [f"{local_name(v.name)}: {v.dtype}" for v in f.scalars]
        params = ", ".join([*(self.buffer(b, False) for b in f.params), *scalars])
        outputs = ", ".join(local_name(o) for o in f.outputs)
        parts = [
            f"{'kernel' if _is_bound(f.body) else 'primfunc'} {global_name(f.name)}({params})",
            f"writes ({outputs})",
            "" if f.returns is None else f"returns {f.returns}",
            dims_text(f.dims),
            f"attrs({', '.join(attrs_text(f.attrs))})" if f.attrs else "",
        ]
        self.lines.append(pad + " ".join(p for p in parts if p) + " {")
        known = self.vars, self.buffers
        for g in f.functions:
            self.function(g, pad + "  ")
        self.vars, self.buffers = known
        self.sequence(f.body, pad + "  ")
        self.lines.append(pad + "}")


def _items(body: ir.Stmt) -> tuple[ir.Stmt, ...]:
    return body.body if isinstance(body, ir.Block) and len(body.body) != 1 else (body,)


def _is_bound(s: ir.Stmt) -> bool:
    while isinstance(s, (ir.Let, ir.Allocate, ir.PlacementAllocate)):
        s = s.body
    return isinstance(s, ir.For) and s.kind is ir.LoopKind.BOUND


def show_line(s: ir.Stmt) -> str:
    """Return the first line of a statement, for a message."""
    return LoopPrinter(typed=False).head(s)


def show_expr(e: ir.Expr) -> str:
    """Return the text of an expression for a message, without dtypes that only parsers need."""
    return LoopPrinter(typed=False).expr(e)
