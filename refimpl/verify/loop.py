"""The laws of loop programs; and of the modules beside it: calls, vectors and so on.

| law | says |
|---|---|
| L-twice | no two variables, buffers or dims of a function have the same name |
| L-param | outputs are parameters, each once; only a called function has some off device memory |
| L-scalar | a scalar parameter is a number that is computed with: f32, f64, an integer or a bool |
| L-scope | a buffer made inside is shared or local, of constant shape; around nests, global |
| L-extent | a loop runs an i64 variable over an i64 extent |
| L-constant-extent | vectorized and unrolled loops, and thread axes, have constant extents |
| L-axis | a bound loop names an axis, no other loop does, and each axis is bound once |
| L-fold | a fold has accumulators, and a combiner gives each its next value, of its dtype |
| L-yield | a fold's step has one yield, in no parallel loop, of what the combiner takes |
| L-block | a block holds what one thread does alone, and its regions hang on its variables |
| L-outermost | nothing but bound loops and allocations is around a bound loop; the grid first |
| L-grid | a grid axis extends over dims alone, and to 65535 at most along y and z |
| L-threads | a block has 1 to 1024 threads, 64 at most along z |
| L-shared | shared buffers need a block of threads, and 48 KiB at most, or what the target has |
| L-barrier | every thread reaches a barrier or exchange: nothing around it depends on the thread |
| L-store | only outputs and buffers made inside are written |
| L-store-dtype | a stored value has its buffer's dtype |
| L-atomic | an atomic acts on i32, i64, u32, u64, f32 or f64, in shared or device memory |
| L-free | what is freed is a buffer made inside, no parameter |
| L-prefetch | what is prefetched is in device memory |
| L-place | a buffer is placed over one made inside, of its scope and at least as large |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import assert_never

from didyma.refimpl.errors import DidymaError, counted
from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.target import PORTABLE, Target
from didyma.refimpl.ir.text import show_expr, show_line
from didyma.refimpl.ir.text.literals import attr_text
from didyma.refimpl.ir.text.show_loop import LoopPrinter
from didyma.refimpl.ir.types import DType, TensorType
from didyma.refimpl.ir.vectors import is_vector
from didyma.refimpl.ir.walk import expr_children, exprs, stmt_exprs, stmts, subexprs
from didyma.refimpl.ir.workspace import opened
from didyma.refimpl.verify import axes, outside, regions, tensors
from didyma.refimpl.verify.attributes import verify_attribute, verify_copies, verify_waits
from didyma.refimpl.verify.calls import Calls, Weight
from didyma.refimpl.verify.clusters import Clusters
from didyma.refimpl.verify.exchanges import verify_partners, verify_value
from didyma.refimpl.verify.scalars import Construct, Scalars
from didyma.refimpl.verify.sizes import Sizes
from didyma.refimpl.verify.vectors import verify_store

_CONSTANT = (ir.LoopKind.VECTORIZED, ir.LoopKind.UNROLLED)
_ALONE = ir.Barrier | ir.Exchange | ir.Chain | ir.Call | ir.Free | ir.PlacementAllocate
_NO_ATOMICS = (ir.Scope.LOCAL, ir.Scope.CLUSTER)
_AT_ONCE = (ir.LoopKind.PARALLEL, ir.LoopKind.VECTORIZED)


def verify(f: ir.PrimFunc, target: Target = PORTABLE) -> None:
    """Raise DidymaError at the first broken law; ``target`` sets the limits of a block."""
    above: dict[str, ir.PrimFunc] = {}
    weights: dict[str, Weight] = {}
    for g in f.functions:
        where = f"{f.name}, @{g.name}"
        if g.name in above or g.name == f.name:
            want = "one function of a name"
            raise DidymaError("L-function-twice", f"@{where}", got=f"@{g.name} again", want=want)
        weights[g.name] = _Verifier(g, above, where, target, called=True).function(weights)
        above[g.name] = g
    _Verifier(opened(f), above, f.name, target).function(weights)


class _Verifier:
    """Checks the statements of one function.

    ``fold`` is the fold whose step this is, ``yields`` counts those so far of the steps around,
    ``bound`` holds the extents of axes, and ``per_thread`` the variables that threads differ in.
    ``outer`` is true as long as nothing but bound loops and allocations is around; ``divergent``
    is the text of the nearest statement around that threads may disagree on, and ``uneven`` that of
    the nearest on which blocks may.  ``called`` tells whether calls name the function.
    """

    def __init__(
        self,
        f: ir.PrimFunc,
        functions: Mapping[str, ir.PrimFunc],
        where: str,
        target: Target,
        called: bool = False,
    ) -> None:
        self.f = f
        self.target = target
        self.scalars = Scalars(where, f.outputs, () if f.noalias else f.params)
        self.sizes = Sizes(f.dims, f"@{where}")
        self.calls = Calls(self.scalars, self.sizes, functions)
        self.called = called
        self.bound: dict[str, ir.Expr] = {}
        self.per_thread: set[str] = set()
        self.made: set[str] = set()
        self.shared = 0
        self.outer = True
        self.divergent = self.uneven = ""
        self.clusters = Clusters(self.scalars, target)
        self.fold: ir.Fold | None = None
        self.yields = 0
        self.producers: dict[str, ir.Compute] = {}

    def function(self, weights: Mapping[str, Weight]) -> Weight:
        f = self.f
        if self.called:
            self.calls.nested(f)
        for v in f.dims:
            self.scalars.vars[v.name] = ir.INDEX
        for number in f.scalars:
            self.scalars.parameter(number)
        for b in f.params:
            self._buffer(b, b.name)
            if b.scope is not ir.Scope.GLOBAL and not self.called:
                raise self.broken("L-param", b.name, str(b.scope), "a parameter in device memory")
        noalias = dict(f.attrs).get("noalias", True)
        if not isinstance(noalias, bool):
            raise self.broken("L-noalias", "noalias", attr_text(noalias), "true or false")
        names = [b.name for b in f.params]
        if len(set(f.outputs)) != len(f.outputs) or not set(f.outputs) <= set(names):
            raise self.broken(
                "L-param", "writes", ", ".join(f.outputs), f"some of {', '.join(names)}, each once"
            )
        self.stmt(f.body)
        threads = math.prod(_size(e) for axis, e in self.bound.items() if _is_thread(axis))
        if not 1 <= threads <= self.target.threads:
            want = f"1 to {self.target.threads}"
            raise self.broken("L-threads", "block", f"{threads} threads", want)
        verify_partners(self.scalars, f.body, threads, self.target.warp)
        in_block = any(_is_thread(axis) or axis == ir.RANK for axis in self.bound)
        if self.shared > (self.target.room if in_block else 0):
            got = f"{self.shared} bytes for {threads if in_block else 0} threads"
            want = f"at most {self.target.room} bytes, in a block of threads"
            raise self.broken("L-shared", "shared buffers", got, want)
        self.clusters.verify(f.body)
        outside.verify(f, self.scalars)
        regions.verify(f, self.scalars.where)
        return self.calls.weight(f, weights)

    def broken(self, law: str, at: Construct, got: str, want: str) -> DidymaError:
        return self.scalars.broken(law, at, got, want)

    def _buffer(self, b: ir.Buffer, at: ir.Stmt | str) -> None:
        self.scalars.declare(b.name, at)
        self.scalars.unpacked(b.dtype, at)
        self.sizes.shape(b.shape, b.dtype, f"@{self.scalars.where}, {b.name}")
        self.scalars.buffers[b.name] = b

    # ---- statements

    def stmt(self, s: ir.Stmt) -> None:
        match s:
            case ir.For():
                self._for(s)
            case ir.Allocate(buffer, body):
                self._make(s, buffer)
                self.stmt(body)
                self.scalars.hide(buffer)
            case ir.PlacementAllocate():
                self._place(s)
            case ir.Compute():
                tensors.compute(self, s)
            case _:
                self.outer = False
                self._inner(s)

    def _inner(self, s: ir.Stmt) -> None:
        match s:
            case ir.Block(body):
                for b in body:
                    self.stmt(b)
            case ir.If(cond, then, other):
                self.scalars.condition(cond)
                self._under(s, self._differs(cond), then)
                if other is not None:
                    self._under(s, self._differs(cond), other)
            case ir.While(cond, body):
                self.scalars.condition(cond)
                self._under(s, self._differs(cond), body)
            case ir.Fold():
                self._fold(s)
            case ir.Yield(values):
                self._yield(s, values)
            case ir.BlockRealize():
                self._block(s)
            case ir.BufferRealize():
                tensors.buffer_realize(self, s)
            case ir.ProducerRealize():
                tensors.producer_realize(self, s)
            case ir.Let(var, value, body):
                self.scalars.bind(var, self.scalars.expr(value), s)
                if self._differs(value):
                    self.per_thread.add(var.name)
                self.stmt(body)
                self.scalars.leave(var)
            case ir.Store(name, index, value):
                self.scalars.in_vector = is_vector(s)
                self._write(s, name, self.scalars.access(name, index, s), value)
                if self.scalars.in_vector:
                    verify_store(s, self.scalars)
                self.scalars.in_vector = False
            case ir.Atomic(_, name, index, value):
                place = self.scalars.access(name, index, s)
                self._write(s, name, place, value)
                if place.dtype not in self.target.atomics or place.scope in _NO_ATOMICS:
                    want = f"{', '.join(self.target.atomics)}, shared or global"
                    raise self.broken("L-atomic", s, f"{place.dtype} {place.scope}", want)
            case ir.Free(name):
                self.scalars.buffer(name, s)
                self._own(s, name, "L-free")
                self.scalars.freed.add(name)
            case ir.ExternalCall():
                outside.verify_call(s, self.scalars)
            case ir.ExternalAllocate(buffers=buffers, body=body):
                outside.verify_call(s, self.scalars)
                for buffer in buffers:
                    self._buffer(buffer, s)
                    self._owned(buffer)
                self.stmt(body)
                self.scalars.hide(*buffers)
            case ir.Call():
                self.calls.call(s)
            case ir.Barrier(ir.Scope.CLUSTER):
                self.clusters.barrier(s, self.divergent or self.uneven)
            case ir.Barrier():
                self._barrier("barrier")
            case ir.Exchange() | ir.Chain():
                self._barrier(s)
                verify_value(self.scalars, s, self.target)
                self.per_thread.add(s.var.name)
                self.stmt(s.body)
            case ir.Assert(cond):
                self.scalars.condition(cond)
            case ir.Evaluate(value) | ir.Return(value):
                self.scalars.expr(value)
            case ir.Prefetch(name, index):
                if (scope := self.scalars.access(name, index, s).scope) is not ir.Scope.GLOBAL:
                    raise self.broken("L-prefetch", s, f"{name}, {scope}", "device memory")
            case ir.AttrStmt():
                verify_attribute(self.scalars, s)
                self.stmt(s.body)
                verify_copies(self.scalars, s, self.f.outputs, self.target)
                verify_waits(self.scalars, s, self.target)
            case ir.For() | ir.Allocate() | ir.PlacementAllocate() | ir.Compute():
                raise AssertionError(s)  # pragma: no cover - see stmt
            case _:
                assert_never(s)

    def _under(self, s: ir.Stmt, divergent: bool, body: ir.Stmt) -> None:
        """Check a statement below one that threads, or blocks, may disagree on."""
        before = self.divergent, self.uneven
        if divergent:
            self.divergent = show_line(s)
        bound, dims = isinstance(s, ir.For) and s.kind is ir.LoopKind.BOUND, self.f.dims
        if not bound and not all(axes.is_over(e, dims) for e in stmt_exprs(s)):
            self.uneven = show_line(s)
        self.stmt(body)
        self.divergent, self.uneven = before

    def _barrier(self, at: Construct) -> None:
        if not any(map(_is_thread, self.bound)):
            raise self.broken("L-barrier", at, "no block of threads", "bound thread axes")
        if self.divergent:
            raise self.broken(
                "L-barrier",
                at,
                f"under `{self.divergent}`",
                "nothing around it that threads of a block may disagree on",
            )

    def _differs(self, e: ir.Expr) -> bool:
        """Return whether threads of a block may see different values, by what is mentioned."""
        if not self.per_thread:
            return False
        match e:
            case ir.Var(name):
                return name in self.per_thread
            case ir.Load(name) if self.scalars.buffers[name].scope is ir.Scope.LOCAL:
                return True
            case ir.LetExpr(var, value, body):
                if self._differs(value):
                    self.per_thread.add(var.name)
                return self._differs(body)
            case _:
                return any(self._differs(c) for c in expr_children(e))

    def _write(self, s: ir.Stmt, name: str, b: ir.Buffer, value: ir.Expr) -> None:
        dtype = self.scalars.expr(value)
        if dtype is not b.dtype:
            raise self.broken("L-store-dtype", s, str(dtype), f"{b.dtype}, the dtype of {name}")
        self.scalars.writable(s, name)

    def _own(self, s: ir.Stmt, name: str, law: str) -> None:
        if name not in self.made:
            raise self.broken(law, s, f"parameter {name}", "a buffer made inside")

    # ---- buffers made inside

    def _make(self, s: ir.Stmt, b: ir.Buffer) -> int:
        self._buffer(b, s)
        sizes = [d for d in b.shape if isinstance(d, int)]
        if b.scope is ir.Scope.GLOBAL or len(sizes) != len(b.shape):
            got = f"{b.scope} {TensorType(b.dtype, b.shape)}"
            raise self.broken("L-scope", s, got, "a shared or local buffer of constant shape")
        nbytes = math.prod(sizes) * b.dtype.nbytes
        if b.scope is ir.Scope.CLUSTER:
            self.clusters.make(s, b, self.bound if self.outer else None)
            self.shared += math.prod(sizes[1:]) * b.dtype.nbytes
        if b.scope is ir.Scope.SHARED and isinstance(s, ir.Allocate):
            self.shared += nbytes
        self._owned(b)
        return nbytes

    def _owned(self, b: ir.Buffer) -> None:
        self.made.add(b.name)
        self.scalars.written.add(b.name)

    def _place(self, s: ir.PlacementAllocate) -> None:
        over = self.scalars.buffer(s.over, s)
        self._own(s, s.over, "L-place")
        nbytes = self._make(s, s.buffer)
        room = math.prod(d for d in over.shape if isinstance(d, int)) * over.dtype.nbytes
        if nbytes > room or over.scope is not s.buffer.scope:
            want = f"at most {room} bytes, {over.scope}"
            raise self.broken("L-place", s, f"{nbytes} bytes, {s.buffer.scope}", want)
        self.scalars.freed.add(s.over)
        self.stmt(s.body)
        self.scalars.hide(s.buffer)

    # ---- loops

    def _for(self, s: ir.For) -> None:
        dtype = self.scalars.expr(s.extent)
        if dtype is not ir.INDEX or s.var.dtype is not ir.INDEX:
            got = f"{s.var.dtype} over an extent of {dtype}"
            raise self.broken("L-extent", s, got, f"{ir.INDEX} over an extent of {ir.INDEX}")
        if s.kind in _CONSTANT or _is_thread(s.axis) or s.axis == ir.RANK:
            self._constant_extent(s)
        if s.kind is ir.LoopKind.BOUND or s.axis:
            self._axis(s)
        else:
            self.outer = False
        self.scalars.declare(s.var.name, s)
        self.scalars.vars[s.var.name] = ir.INDEX
        differs = self._differs(s.extent)
        if differs or _is_thread(s.axis):
            self.per_thread.add(s.var.name)
        around = self.fold
        if s.kind in _AT_ONCE:
            self.fold = None
        self._under(s, differs or s.kind in _AT_ONCE, s.body)
        self.fold = around
        self.scalars.leave(s.var)

    # ---- folds

    def _fold(self, s: ir.Fold) -> None:
        for a in s.accs:
            dtype = self.scalars.expr(a.start)
            if dtype is not a.var.dtype:
                raise self.broken("L-fold", s, f"{a.var.name} from {dtype}", str(a.var.dtype))
        for x in s.axes:
            if x.var.dtype is not ir.INDEX or self.scalars.expr(x.extent) is not ir.INDEX:
                got = f"{x.var.dtype} over an extent of {x.extent.dtype}"
                raise self.broken("L-extent", s, got, f"{ir.INDEX} over an extent of {ir.INDEX}")
        differs = any(self._differs(x.extent) for x in s.axes)
        for x in s.axes:
            self.scalars.declare(x.var.name, s)
            self.scalars.vars[x.var.name] = ir.INDEX
            self.per_thread.update((x.var.name,) if differs else ())
        around, before = self.fold, self.yields
        self.fold = s
        self._under(s, differs, s.step)
        own = self.yields - before
        if own != 1:
            raise self.broken("L-yield", s, counted(own, "yield"), "one")
        self.fold, self.yields = around, before
        self.scalars.leave(*(x.var for x in s.axes))
        for a in s.accs:
            self.scalars.declare(a.var.name, s)
            self.scalars.vars[a.var.name] = a.var.dtype
        for c in (s.combine,) if s.merge is None else (s.combine, s.merge):
            self._combiner(s, c)
        if s.merge is not None and [v.dtype for v in s.merge.operands] != _dtypes(s):
            got = ", ".join(v.dtype for v in s.merge.operands) or "none"
            want = f"operands of {', '.join(_dtypes(s))}: accumulators of another part"
            raise self.broken("L-fold", s, f"merges operands of {got}", want)
        inside = (*(a.start for a in s.accs), *s.combine.results, *exprs(s.step))
        if differs or any(map(self._differs, inside)):
            self.per_thread.update(a.var.name for a in s.accs)
        self.stmt(s.body)
        self.scalars.leave(*(a.var for a in s.accs))

    def _combiner(self, s: ir.Fold, c: ir.Combiner) -> None:
        """Check a combiner, whose operands nothing else sees."""
        for v in c.operands:
            self.scalars.declare(v.name, s)
            self.scalars.vars[v.name] = v.dtype
        dtypes = [self.scalars.expr(e) for e in c.results]
        if dtypes != _dtypes(s) or not dtypes:
            want = f"one for each accumulator: {', '.join(_dtypes(s)) or 'at least one'}"
            raise self.broken("L-fold", s, f"results of {', '.join(dtypes) or 'none'}", want)
        self.scalars.leave(*c.operands)

    def _yield(self, s: ir.Yield, values: tuple[ir.Expr, ...]) -> None:
        if self.fold is None:
            want = "in the step of a fold, in no parallel loop of it"
            raise self.broken("L-yield", s, "a yield elsewhere", want)
        self.yields += 1
        dtypes = [self.scalars.expr(e) for e in values]
        taken = [v.dtype for v in self.fold.combine.operands]
        if dtypes != taken:
            got, want = (", ".join(ds) or "nothing" for ds in (dtypes, taken))
            raise self.broken("L-yield", s, got, f"{want}, as the combiner takes")

    # ---- blocks

    def _block(self, s: ir.BlockRealize) -> None:
        """Check a block, which sees its own variables, dims and scalars; ``regions`` proves."""
        for below in (b for body in (s.init, s.body) if body is not None for b in stmts(body)):
            if isinstance(below, _ALONE) or (isinstance(below, ir.For) and below.axis):
                got = f"`{show_line(below)}` in a block"
                raise self.broken("L-block", s, got, "loads and stores of one thread")
        self.scalars.condition(s.where)
        for v in s.vars:
            dtype = self.scalars.expr(v.value)
            if dtype is not ir.INDEX or v.var.dtype is not ir.INDEX:
                got = f"{v.var.name}: {v.var.dtype} = {dtype}"
                raise self.broken("L-domain", s, got, str(ir.INDEX))
        differs = self._differs(s.where)
        around, fold = self.scalars.vars, self.fold
        seen = [*(ir.Var(d.name) for d in self.f.dims), *self.f.scalars]
        self.scalars.vars, self.fold = {v.name: v.dtype for v in seen}, None
        for v in s.vars:
            if (dtype := self.scalars.expr(v.extent)) is not ir.INDEX:
                raise self.broken("L-extent", s, f"an extent of {dtype}", str(ir.INDEX))
            if self._differs(v.value):
                self.per_thread.add(v.var.name)
        for v in s.vars:
            self.scalars.declare(v.var.name, s)
            self.scalars.vars[v.var.name] = ir.INDEX
        for r in (*s.reads, *s.writes):
            self._region(s, r)
        for r in s.writes:
            self.scalars.writable(s, r.buffer)
        for body in (s.init, s.body):
            if body is not None:
                self._under(s, differs, body)
        self.scalars.vars, self.fold = around, fold

    def _region(self, s: ir.BlockRealize, r: ir.Region) -> None:
        for es in (r.starts, r.extents):
            self.scalars.access(r.buffer, es, s)
        inside = [x for e in (*r.starts, *r.extents) for x in subexprs(e)]
        text = LoopPrinter(typed=False).region(r)
        if any(isinstance(x, ir.Load) for x in inside):
            want = "variables of the block, dims and literals"
            raise self.broken("L-block", s, f"a load in {text}", want)
        used = {x.name for x in inside if isinstance(x, ir.Var)}
        reduced = [v.var.name for v in s.vars if v.kind is ir.IterKind.REDUCE]
        if r in s.writes and (names := [n for n in reduced if n in used]):
            got = f"{text}, which hangs on the reduce variable {names[0]}"
            raise self.broken("L-block", s, got, "the same elements whatever reduce variables are")

    def _constant_extent(self, s: ir.For) -> None:
        if not isinstance(s.extent, ir.Const) or _size(s.extent) < 0:
            raise self.broken("L-constant-extent", s, show_expr(s.extent), "a nonnegative literal")

    def _axis(self, s: ir.For) -> None:
        axes.verify_place(self.scalars, s, self.bound if self.outer else None)
        if s.axis == ir.RANK:
            self.clusters.ranks(s, shared=self.shared)
        else:
            axes.verify_extent(self.scalars, s, self.f.dims, self.target)
        self.bound[s.axis] = s.extent


def _dtypes(s: ir.Fold) -> list[DType]:
    return [a.var.dtype for a in s.accs]


def _is_thread(axis: str) -> bool:
    return axis.startswith("thread")


def _size(e: ir.Expr) -> int:
    return int(e.value) if isinstance(e, ir.Const) else 0
