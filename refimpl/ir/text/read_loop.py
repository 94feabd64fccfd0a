"""Reads loop programs; ``show_loop`` describes the language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.expr import TRUE
from didyma.refimpl.ir.graph import Attr, Attrs
from didyma.refimpl.ir.text.read_expr import ExprReader, Find, nothing
from didyma.refimpl.ir.text.reader import Files
from didyma.refimpl.ir.text.show_loop import RESERVED

MAX_SCOPES = 400  # of bindings without braces that reign at one place

_FUNCTIONS = ("kernel", "primfunc")
_SCOPES = {str(s): s for s in ir.Scope}
_ATOMICS: dict[str, ir.AtomicOp] = {str(op): op for op in ir.ATOMIC_OPS}
_CHAINS: dict[str, ir.ChainOp] = {str(op): op for op in ir.CHAIN_OPS}
_ITERATIONS = {str(k): k for k in ir.IterKind}
_KINDS = {str(k): k for k in ir.LoopKind}


@dataclass(frozen=True, slots=True)
class _OpenLet:
    var: ir.Var
    value: ir.Expr
    mask: int = 0  # of an exchange


@dataclass(frozen=True, slots=True)
class _OpenChain:
    op: ir.ChainOp
    var: ir.Var
    value: ir.Expr
    start: ir.Expr
    states: str
    totals: str


@dataclass(frozen=True, slots=True)
class _OpenAllocate:
    buffer: ir.Buffer
    over: str | None


@dataclass(frozen=True, slots=True)
class _OpenFold:
    accs: tuple[ir.Accumulator, ...]
    axes: tuple[ir.Axis, ...]
    combine: ir.Combiner
    merge: ir.Combiner | None
    step: ir.Stmt


@dataclass(frozen=True, slots=True)
class _OpenExternal:
    name: str
    buffers: tuple[ir.Buffer, ...]
    inputs: tuple[str, ...]
    attrs: Attrs


_Open: TypeAlias = _OpenLet | _OpenChain | _OpenAllocate | _OpenFold | _OpenExternal


def _close(s: _Open, body: ir.Stmt) -> ir.Stmt:
    if isinstance(s, _OpenFold):
        return ir.Fold(s.accs, s.axes, s.combine, s.step, body, s.merge)
    if isinstance(s, _OpenLet):
        if s.mask:
            return ir.Exchange(s.var, s.value, s.mask, body)
        return ir.Let(s.var, s.value, body)
    if isinstance(s, _OpenChain):
        return ir.Chain(s.var, s.op, s.start, s.value, s.states, s.totals, body)
    if isinstance(s, _OpenExternal):
        return ir.ExternalAllocate(s.name, s.buffers, s.inputs, s.attrs, body)
    if s.over is None:
        return ir.Allocate(s.buffer, body)
    return ir.PlacementAllocate(s.buffer, s.over, body)


class LoopReader(ExprReader):
    """Reads loop functions; ``scopes`` counts bindings that reign without braces."""

    def __init__(
        self, text: str, source: str, files: Files | None = None, find: Find = nothing
    ) -> None:
        self.scopes = 0
        super().__init__(text, source, files, find)

    # ---- functions

    def functions(self) -> tuple[ir.PrimFunc, ...]:
        """Parse one or more functions, to the end of the text."""
        found = [self.primfunc()]
        while self.kind != "end":
            found.append(self.primfunc())
        return tuple(found)

    def primfunc(self) -> ir.PrimFunc:
        """Parse a loop function: ``primfunc @f(...) writes (...) dims ... attrs(...) { ... }``."""
        if self.word not in _FUNCTIONS:
            raise self.error("`kernel` or `primfunc`")
        self.next()
        self.buffers, self.vars = {}, {}
        name = self.function()
        self.expect("(")
        params, scalars = self._params()
        self.expect("writes")
        self.expect("(")
        outputs = self.items(self._buffer_name, ")")
        returns = self.dtype() if self.accept("returns") else None
        declared = self.dimvars()
        self.vars = {v.name: ir.INDEX for v in declared} | {v.name: v.dtype for v in scalars}
        attrs = self.attrs()
        self.expect("{")
        functions = self._functions()
        body = self._rest()
        return ir.PrimFunc(
            name, params, outputs, body, declared, attrs, functions, scalars, returns
        )

    def _params(self) -> tuple[tuple[ir.Buffer, ...], tuple[ir.Var, ...]]:
        """Take the parameters: buffers, and after them scalars, which have no brackets."""
        items = self.items(self._param, ")")
        buffers = tuple(x for x in items if isinstance(x, ir.Buffer))
        return buffers, tuple(x for x in items if isinstance(x, ir.Var))

    def _functions(self) -> tuple[ir.PrimFunc, ...]:
        """Take the functions that a function may call."""
        known = self.buffers, self.vars
        self.enter()
        found: list[ir.PrimFunc] = []
        while self.word in _FUNCTIONS and self.kinds[self.i + 1] == "global":
            found.append(self.primfunc())
        self.depth -= 1
        self.buffers, self.vars = known
        return tuple(found)

    def _param(self) -> ir.Buffer | ir.Var:
        at, scalar = self.i, self.words[min(self.i + 3, len(self.words) - 1)] in (",", ")")
        if scalar:
            var = self._declared()
            self.vars[var.name] = var.dtype
            return var
        if self.vars:
            raise self.error("a scalar: buffers stand before them", at=at)
        return self._buffer()

    def _buffer(self) -> ir.Buffer:
        name = self._buffer_name()
        self.expect(":")
        dtype, shape = self.dtype(), self.shape()
        scope = _SCOPES.get(self.word)
        if scope is not None:
            self.next()
        self.buffers[name] = dtype
        return ir.Buffer(name, dtype, shape, scope or ir.Scope.GLOBAL)

    # ---- statements

    def _body(self) -> ir.Stmt:
        self.expect("{")
        return self._rest()

    def _rest(self) -> ir.Stmt:
        """Take statements up to and with the closing brace."""
        scopes = self.scopes
        items: list[ir.Stmt | _Open] = []
        while not self.accept("}"):
            items.append(self._stmt())
        self.scopes = scopes
        below: list[ir.Stmt] = []
        for s in reversed(items):
            if isinstance(s, _Open):
                below = [_close(s, _join(below))]
            else:
                below.append(s)
        return _join(below)

    def _nested(self) -> ir.Stmt:
        self.enter()
        body = self._body()
        self.depth -= 1
        return body

    def _stmt(self) -> ir.Stmt | _Open:
        match self.word:
            case "for":
                return self._for()
            case "if":
                self.next()
                cond, then = self.expr(), self._nested()
                return ir.If(cond, then, self._nested() if self.accept("else") else None)
            case "while":
                self.next()
                return ir.While(self.expr(), self._nested())
            case "let":
                self.next()
                return self._scope(_OpenLet(*self._binding()))
            case "exchange":
                return self._exchange()
            case "chain":
                return self._chain()
            case "alloc":
                self.next()
                return self._scope(_OpenAllocate(self._buffer(), None))
            case "place":
                self.next()
                buffer = self._buffer()
                self.expect("over")
                return self._scope(_OpenAllocate(buffer, self._buffer_name()))
            case "fold":
                return self._fold_stmt()
            case "attr":
                self.next()
                return ir.AttrStmt(*self.named_attr(), self._nested())
            case "extern":
                return self._extern()
            case "realize" | "compute" | "produce":
                return self._tensor()
            case "block":
                return self._realized() if self.words[self.i + 1] == "(" else self._block()
            case _:
                return self._leaf()

    def _scope(self, s: _Open) -> ir.Stmt | _Open:
        if self.accept("in") if isinstance(s, _OpenFold) else self.at("{"):
            return _close(s, self._nested())
        self.scopes += 1
        if self.scopes > MAX_SCOPES:
            raise self.error(
                f"at most {MAX_SCOPES} levels of `let`, `exchange`, `chain`, `alloc`, `place`, "
                "`extern` and `fold`",
                got="one more",
            )
        return s

    def _exchange(self) -> ir.Stmt | _Open:
        self.next()
        var, value = self._binding()
        self.expect("by")
        at = self.i
        mask = self.integer()
        if mask < 1:
            raise self.error("a positive number", at=at)
        return self._scope(_OpenLet(var, value, mask))

    def _chain(self) -> ir.Stmt | _Open:
        self.next()
        op = _CHAINS.get(self.word)
        if op is None:
            raise self.error(f"one of {', '.join(_CHAINS)}")
        self.next()
        var, value = self._binding()
        self.expect("from")
        start = self.expr()
        self.expect("by")
        states = self._buffer_name()
        self.expect(",")
        return self._scope(_OpenChain(op, var, value, start, states, self._buffer_name()))

    def _block(self) -> ir.Stmt:
        self.next()
        self.expect("{")
        self.enter()
        body: list[ir.Stmt] = []
        while not self.accept("}"):
            at = self.i
            s = self._stmt()
            if isinstance(s, _Open):
                raise self.error("braces after it: this stands directly in a `block`", at=at)
            body.append(s)
        self.depth -= 1
        return ir.Block(tuple(body))

    def _realized(self) -> ir.Stmt:
        self.next()
        self.next()
        vars = self.items(self._iteration, ")")
        where = self.expr() if self.accept("where") else TRUE
        self.vars.update((v.var.name, v.var.dtype) for v in vars)
        self.expect("reads")
        self.expect("(")
        reads = self.items(self._region, ")")
        self.expect("writes")
        self.expect("(")
        writes = self.items(self._region, ")")
        init = None
        if self.accept("init"):
            init = self._nested()
            self.expect("in")
        return ir.BlockRealize(vars, where, reads, writes, init, self._nested())

    def _tensor(self) -> ir.Stmt:
        """Take what makes a part of a buffer."""
        word = self.next()
        if word == "compute":
            buffer = self._buffer()
            self.expect("at")
            self.expect("(")
            vars = self.items(self._declared, ")")
            self.vars.update((v.name, v.dtype) for v in vars)
            step = self._nested()
            self.expect("in")
            return ir.Compute(buffer, vars, step, self._nested())
        if word == "produce":
            name = self._buffer_name()
            starts, extents = self._part()
            return ir.ProducerRealize(name, starts, extents, self._nested())
        buffer = self._buffer()
        self.expect("of")
        starts, extents = self._part()
        return ir.BufferRealize(buffer, starts, extents, self._nested())

    def _part(self) -> tuple[tuple[ir.Expr, ...], tuple[int, ...]]:
        self.expect("[")
        axes = self.items(self._axis_of_part, "]")
        return tuple(a for a, _ in axes), tuple(n for _, n in axes)

    def _axis_of_part(self) -> tuple[ir.Expr, int]:
        start, extent = self._axis_of_region()
        if not isinstance(extent, ir.Const) or extent.dtype is not ir.INDEX:
            raise self.error("an integer as the extent before this")
        return start, int(extent.value)

    def _iteration(self) -> ir.IterVar:
        var = self._declared()
        self.expect("in")
        extent = self.expr()
        kind = _ITERATIONS.get(self.word)
        if kind is None:
            raise self.error(f"one of {', '.join(_ITERATIONS)}")
        self.next()
        self.expect("=")
        return ir.IterVar(var, extent, kind, self.expr())

    def _region(self) -> ir.Region:
        buffer = self._buffer_name()
        self.expect("[")
        axes = self.items(self._axis_of_region, "]")
        return ir.Region(buffer, tuple(a for a, _ in axes), tuple(n for _, n in axes))

    def _axis_of_region(self) -> tuple[ir.Expr, ir.Expr]:
        start = self.expr()
        self.expect("+:")
        return start, self.expr()

    def _fold_stmt(self) -> ir.Stmt | _Open:
        self.next()
        self.expect("(")
        accs = self.items(lambda: ir.Accumulator(*self._binding()), ")")
        self.expect("over")
        self.expect("(")
        axes = self.items(lambda: ir.Axis(*self._ranged()), ")")
        self.expect("by")
        combine = self._combiner()
        merge = self._combiner() if self.accept("merge") else None
        return self._scope(_OpenFold(accs, axes, combine, merge, self._nested()))

    def _combiner(self) -> ir.Combiner:
        self.expect("(")
        operands = self.items(self._declared, ")")
        for v in operands:
            self.vars[v.name] = v.dtype
        self.expect("->")
        self.expect("(")
        return ir.Combiner(operands, self._exprs(")"))

    def _declared(self) -> ir.Var:
        name = self._local("the name of a variable")
        return ir.Var(name, self.dtype() if self.accept(":") else ir.INDEX)

    def _ranged(self) -> tuple[ir.Var, ir.Expr]:
        var = self._declared()
        self.expect("in")
        extent = self.expr()
        self.vars[var.name] = var.dtype
        return var, extent

    def _for(self) -> ir.Stmt:
        self.next()
        var, extent = self._ranged()
        kind = _KINDS.get(self.word)
        axis = ""
        if kind is not None:
            self.next()
            axis = "" if self.at("{") else self.label("an axis such as blockIdx.x, or `{`")
        elif not self.at("{"):
            raise self.error(f"`{{` or one of {', '.join(_KINDS)}")
        body = self._nested()
        return ir.For(var, extent, body, kind or ir.LoopKind.SERIAL, axis)

    def _leaf(self) -> ir.Stmt:
        match self.word:
            case "free":
                self.next()
                return ir.Free(self._buffer_name())
            case "barrier":
                self.next()
                return ir.Barrier()
            case "cluster_barrier":
                self.next()
                return ir.Barrier(ir.Scope.CLUSTER)
            case "evaluate":
                self.next()
                return ir.Evaluate(self.expr())
            case "prefetch":
                self.next()
                return ir.Prefetch(*self._element())
            case "yield":
                self.next()
                self.expect("(")
                return ir.Yield(self._exprs(")"))
            case "assert":
                self.next()
                cond = self.expr()
                self.expect(",")
                return ir.Assert(cond, self.string())
            case "return":
                self.next()
                return ir.Return(self.expr())
            case "call":
                return self._call_stmt()
            case "atomic":
                self.next()
                op = _ATOMICS.get(self.word)
                if op is None:
                    raise self.error(f"one of {', '.join(_ATOMICS)}")
                self.next()
                self.expect("(")
                buffer, index = self._element()
                self.expect(",")
                value = self.expr()
                self.expect(")")
                return ir.Atomic(op, buffer, index, value)
            case _:
                if self.kind not in ("name", "value") or self.word in RESERVED:
                    raise self.error("a statement, or `}`")
                buffer, index = self._element()
                self.expect("=")
                return ir.Store(buffer, index, self.expr())

    def _extern(self) -> ir.Stmt | _Open:
        self.next()
        name = self.string()
        self.expect("(")
        inputs: list[str] = []
        attrs: list[tuple[str, Attr]] = []
        while not self.at(")"):
            if self.kind == "string" or self.words[min(self.i + 1, len(self.words) - 1)] == "=":
                attrs.append(self.named_attr())
            else:
                inputs.append(self._buffer_name())
            if not self.accept(","):
                break
        self.expect(")")
        self.expect("->")
        allocates = self.accept("alloc")
        self.expect("(")
        if allocates:
            made = self.items(self._buffer, ")")
            return self._scope(_OpenExternal(name, made, tuple(inputs), tuple(attrs)))
        outputs = self.items(self._buffer_name, ")")
        return ir.ExternalCall(name, outputs, tuple(inputs), tuple(attrs))

    def _call_stmt(self) -> ir.Stmt:
        self.next()
        callee = self.function()
        self.expect("(")
        args = self.items(self._buffer_name, ")")
        scalars, dims = (self._given(word) for word in ("scalars", "dims"))
        return ir.Call(callee, args, dims, scalars)

    def _given(self, word: str) -> tuple[ir.Expr, ...]:
        """Take the expressions that a call gives after a word, if it is there."""
        if not self.at(word) or self.words[self.i + 1] != "(":
            return ()
        self.next()
        self.next()
        return self._exprs(")")


def _join(below: list[ir.Stmt]) -> ir.Stmt:
    """Return the statement that statements between braces mean, given last first."""
    return below[0] if len(below) == 1 else ir.Block(tuple(reversed(below)))
