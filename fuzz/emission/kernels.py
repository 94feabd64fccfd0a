"""Random kernels around random expressions: loops, branches, lanes, shared memory, functions.

Every store goes to an output of its own, at the thread's own index, and what a thread reads is an
input, its own register, or shared memory behind a barrier: no kernel has a race.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from didyma.fuzz.emission.expressions import DTYPES, REAL, Expressions, inexact
from didyma.fuzz.steering.names import C_WORDS
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.graph import Attrs
from didyma.refimpl.ir.loop import (
    ATOMIC_OPS,
    INDEX,
    Allocate,
    Assert,
    Atomic,
    AttrStmt,
    Barrier,
    Binary,
    BinaryOp,
    Block,
    Broadcast,
    Buffer,
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
    LoopKind,
    Prefetch,
    PrimFunc,
    Ramp,
    Scope,
    Select,
    Stmt,
    Store,
    Var,
    While,
)
from didyma.refimpl.ir.types import INTS, DType
from didyma.refimpl.ir.walk import exprs, map_stmt, stmts, subexprs

SIZE = 48  # elements of each input: a multiple of four, and more than the corners that decide most
SHORT = 20  # elements of a buffer that ends before the others
THREADS = (16, 32, 48)
LANES = 4  # of vectors
STATEMENTS = 5
NESTED = 5  # stores of an operation on the result of another, which follow them
RANGED = 5  # stores of divisions of numbers in known ranges
DEPTH = 4
ATOMICS = (DType.I32, DType.I64, DType.U32, DType.U64)
INPUTS = 2  # of each dtype that is read
BY_VALUE = (*INTS, DType.F32, DType.F64, DType.BOOL)  # dtypes of scalar parameters


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel, a binding of its dims, and the seed of the values that its buffers hold before."""

    kernel: PrimFunc
    env: tuple[tuple[str, int], ...]
    seed: int


class _Kernel:
    """A kernel in the making."""

    def __init__(self, r: Random) -> None:
        self.r = r
        self.outputs: list[Buffer] = []
        self.functions: list[PrimFunc] = []
        self.dims: list[DimVar] = []
        self.inputs = {
            d: [Buffer(f"{'xz'[k]}_{d}", d, (SIZE,)) for k in range(INPUTS)] for d in set(DTYPES)
        }
        self.short = {d: Buffer(f"w_{d}", d, (SHORT,)) for d in set(DTYPES)}
        self.x = Expressions(r, self.inputs, SIZE)
        self.at: Expr = ix.ZERO  # the thread's own index
        self.stored: list[Buffer] = []  # at that index

    def output(self, dtype: DType, size: Dim = SIZE) -> Buffer:
        """Make an output."""
        self.outputs.append(Buffer(f"y{len(self.outputs)}", dtype, (size,)))
        return self.outputs[-1]

    # ---- statements

    def statements(self, count: int, depth: int) -> Stmt:
        """Draw some statements."""
        many = tuple(self.statement(depth) for _ in range(count))
        return many[0] if len(many) == 1 else Block(many)

    def statement(self, depth: int) -> Stmt:
        """Draw a statement."""
        if depth <= 0 or self.r.random() < 0.4:
            return self.store()
        return self.r.choice(_STATEMENTS)(self, depth - 1)

    def store(self) -> Stmt:
        """Draw a store of a value."""
        if self.stored and self.r.random() < 0.15:
            return self.again()
        dtype = self.r.choice(DTYPES)
        value = self.x.root(dtype, self.r.randint(1, DEPTH))
        out = self.output(dtype)
        if not inexact(value):  # nothing is computed from what is
            self.stored.append(out)
        if dtype in INTS and self.r.random() < 0.1:  # an update of what was there
            value = Binary("xor", Load(out.name, (self.at,), dtype), value)
        return Store(out.name, (self.at,), value)

    def divided(self, by: Var) -> Stmt:
        """Draw a store of what a lane computes, divided by what all lanes share."""
        own = Var(self.x.fresh("v"), DType.F32)
        above = self.r.choice((own, Binary("add", own, self.x.load(DType.F32))))
        out = self.output(DType.F32)
        store = Store(out.name, (self.at,), Binary("div", above, by))
        return Let(own, self.x.value(DType.F32, 1), store)

    def small(self) -> Sequence[Stmt]:
        """Draw stores of small expressions."""
        values = [self.x.nested() for _ in range(NESTED)]
        values += [self.x.ranged() for _ in range(RANGED)]
        values += [self.x.any_literal(d) for d in (*REAL, *REAL)]
        return [Store(self.output(v.dtype).name, (self.at,), v) for v in values]

    def again(self) -> Stmt:
        """Draw a store, to a buffer or to another, of what the thread's element of it holds."""
        b = self.r.choice(self.stored)
        value: Expr = Load(b.name, (self.at,), b.dtype)
        if b.dtype in INTS:
            value = Binary(self.r.choice(("add", "xor", "max")), value, self.x.value(b.dtype, 1))
        to = b if self.r.random() < 0.5 else self.output(b.dtype)
        return Store(to.name, (self.at,), value)

    def branch(self, depth: int) -> Stmt:
        """Draw a branch."""
        other = self.statement(depth) if self.r.random() < 0.5 else None
        return If(self.x.decision(2), self.statement(depth), other)

    def let(self, depth: int) -> Stmt:
        """Draw a variable and statements that may use it."""
        dtype = self.r.choice(DTYPES)
        var = Var(self.x.fresh("v"), dtype)
        value = self.x.value(dtype, 2)
        self.x.bound.append(var)
        body = self.statements(self.r.randint(1, 2), depth)
        self.x.bound.pop()
        return Let(var, value, body)

    def fold(self, depth: int) -> Stmt:
        """Draw a loop that folds values into a register."""
        del depth
        r, dtype = self.r, self.r.choice((*INTS, DType.F32, DType.F64, DType.BOOL))
        register = Buffer(self.x.fresh("acc"), dtype, (), Scope.LOCAL)
        k = Var(self.x.fresh("k"))
        self.x.counters.append(k)
        value = self.x.value(dtype, 2)
        self.x.counters.pop()
        ops: tuple[BinaryOp, ...] = ("add", "mul", "min", "max", "sub")
        if dtype is DType.BOOL:
            ops = ("and", "or", "xor")
        step = Binary(r.choice(ops), Load(register.name, (), dtype), value)
        kind = r.choice((LoopKind.SERIAL, LoopKind.SERIAL, LoopKind.UNROLLED))
        loop = For(k, self.extent(kind), Store(register.name, (), step), kind)
        first = Store(register.name, (), self.x.literal(dtype))
        last = Store(self.output(dtype).name, (self.at,), Load(register.name, (), dtype))
        return Allocate(register, Block((first, loop, last)))

    def extent(self, kind: LoopKind) -> Expr:
        """Draw the extent of a short loop."""
        if kind is LoopKind.UNROLLED or not self.dims or self.r.random() < 0.6:
            return Const(self.r.choice((0, 1, 2, 3, 5)), INDEX)
        n = self.r.choice(self.dims)
        return ix.of_dim(dims.floordiv(dims.symbol(n.name), 16))

    def array(self, depth: int) -> Stmt:
        """Draw an array of registers, filled and read in loops."""
        del depth
        r, dtype = self.r, self.r.choice(DTYPES)
        count = r.choice((2, 3, 4))
        register = Buffer(self.x.fresh("regs"), dtype, (count,), Scope.LOCAL)
        k, j = Var(self.x.fresh("k")), Var(self.x.fresh("k"))
        self.x.counters.append(k)
        value = self.x.value(dtype, 2)
        self.x.counters.pop()
        kind = r.choice((LoopKind.SERIAL, LoopKind.UNROLLED))
        fill = For(k, ix.index(count), Store(register.name, (k,), value), kind)
        whole = self.output(dtype, SIZE * count)
        turned = Binary("floormod", Binary("add", j, ix.index(1)), ix.index(count))
        place = Binary("add", Binary("mul", self.at, ix.index(count)), j)
        read = Load(register.name, (turned,), dtype)
        return Allocate(
            register,
            Block((fill, For(j, ix.index(count), Store(whole.name, (place,), read)))),
        )

    def repeat(self, depth: int) -> Stmt:
        """Draw a loop that counts in a register."""
        del depth
        register = Buffer(self.x.fresh("count"), INDEX, (), Scope.LOCAL)
        dtype = self.r.choice(INTS)
        out = self.output(dtype)
        now = Load(register.name, (), INDEX)
        most = ix.index(self.r.choice((0, 1, 4)))
        test: Expr = Compare("lt", now, most)
        if self.r.random() < 0.5:  # a condition that takes a statement of its own in C
            seen = Var(self.x.fresh("seen"))
            test = LetExpr(seen, now, Compare("lt", seen, most))
        body = Block((
            Store(register.name, (), Binary("add", now, ix.ONE)),
            Store(out.name, (self.at,), Cast(Binary("mul", now, self.at), dtype)),
        ))  # fmt: skip
        first = Store(register.name, (), ix.ZERO)
        return Allocate(register, Block((first, While(test, body))))

    def atomic(self, depth: int) -> Stmt:
        """Draw an update of one element by several threads, in any order the same."""
        del depth
        dtype = self.r.choice(ATOMICS)
        out = self.output(dtype)
        place = Binary("floordiv", self.at, ix.index(4))
        op = self.r.choice(ATOMIC_OPS)
        return Atomic(op, out.name, (place,), self.x.value(dtype, 2))

    def vector(self, depth: int) -> Stmt:
        """Draw a store of four lanes, forwards or backwards."""
        del depth
        r, dtype = self.r, self.r.choice(DTYPES)
        out = self.output(dtype, SIZE * LANES)
        first = Binary("mul", self.at, ix.index(LANES))
        back = Binary("add", first, ix.index(LANES - 1))
        place = r.choice((Ramp(first, 1, LANES), Ramp(back, -1, LANES)))
        stride = r.choice((1, 1, 2, 3))
        base = ix.index(r.randrange(SIZE - (LANES - 1) * stride))
        source = r.choice(self.inputs[dtype])
        read = Load(source.name, (Ramp(base, stride, LANES),), dtype)
        same = Broadcast(self.x.value(dtype, 2), LANES)
        value: Expr = Select(Broadcast(self.x.decision(1), LANES), read, same)
        if dtype in INTS:
            value = Binary(r.choice(("add", "xor", "max")), read, same)
        return Store(out.name, (place,), value)

    def look(self, depth: int) -> Stmt:
        """Draw a statement that changes nothing: a dropped value, a hint, what holds."""
        del depth
        dtype = self.r.choice(DTYPES)
        source = self.r.choice(self.inputs[dtype])
        value = self.x.value(dtype, 2)
        return self.r.choice((
            Evaluate(value),
            Prefetch(source.name, (ix.index(self.r.randrange(SIZE)),)),
            Assert(Binary("or", Compare("ge", self.at, ix.ZERO), self.x.decision(1)), "in range"),
        ))  # fmt: skip

    def told(self, depth: int) -> Stmt:
        """Draw a statement with a remark, or a loop with a count of iterations to write out."""
        if self.r.random() < 0.5:
            return AttrStmt("remark", self.r.choice(("odd */ \\", "// two\nlines")), self.store())
        made = self.fold(depth)
        return map_stmt(made, lambda e: e, _unrolled) if isinstance(made, Allocate) else made

    def call(self, depth: int) -> Stmt:
        """Draw a call of a function that stores one value."""
        del depth
        dtype = self.r.choice(DTYPES)
        inner = _Kernel(self.r)
        place, i = self.output(dtype), DimVar(self.x.fresh("own", C_WORDS), 0, SIZE - 1)
        inner.x.counters = [Var(i.name)]
        inner.x.places = [Var(i.name)]
        drawn = (self.r.choice(BY_VALUE) for _ in range(self.r.randint(0, 2)))
        numbers = [Var(self.x.fresh("by"), d) for d in drawn]
        inner.x.bound = [*numbers]
        value = inner.x.root(dtype, 2)
        given = tuple(self.x.value(v.dtype, 1) for v in numbers)
        name = f"f{len(self.functions)}"
        params = [b for many in inner.inputs.values() for b in many if b.name in _loaded(value)]
        args = [b.name for b in params]
        attrs: Attrs = ()
        if dtype in INTS and self.r.random() < 0.3:  # what is written is given again
            params.append(replace(place, name=self.x.fresh("again")))
            args.append(place.name)
            attrs = (("noalias", False),)
            value = Binary("xor", value, Load(params[-1].name, (Var(i.name),), dtype))
        body = Store(place.name, (Var(i.name),), value)
        f = PrimFunc(
            name, (*params, place), (place.name,), body, (i,), attrs, scalars=tuple(numbers)
        )
        self.functions.append(f)
        return Call(name, (*args, place.name), (self.at,), given)


_STATEMENTS: tuple[Callable[[_Kernel, int], Stmt], ...] = (
    _Kernel.branch, _Kernel.branch, _Kernel.let, _Kernel.let, _Kernel.fold, _Kernel.fold,
    _Kernel.array, _Kernel.repeat, _Kernel.atomic, _Kernel.call, _Kernel.vector,
    _Kernel.look, _Kernel.told,
)  # fmt: skip


def _unrolled(s: Stmt) -> Stmt:
    """Return a block whose serial loops have a count of iterations to write out."""
    if isinstance(s, For) and s.kind is LoopKind.SERIAL:
        return AttrStmt("unroll", 3, s)
    return Block(tuple(map(_unrolled, s.body))) if isinstance(s, Block) else s


def draw(r: Random) -> Case:
    """Draw a kernel."""
    k = _Kernel(r)
    n: Dim = SIZE
    env: tuple[tuple[str, int], ...] = ()
    if r.random() < 0.4:
        k.dims.append(DimVar("n", 0, SIZE))
        k.x.counters.append(Var("n"))
        n, env = dims.symbol("n"), (("n", r.choice((0, 1, 17, 47, 48))),)
    body = r.choice(_FORMS)(k, n)
    used = _loaded(body)
    for f in k.functions:
        used |= _loaded(f.body)
    every = (b for d in dict.fromkeys(DTYPES) for b in (*k.inputs[d], k.short[d]))
    inputs = [b for b in every if b.name in used]
    params = (*inputs, *k.outputs)
    kernel = PrimFunc(
        "kernel", params, tuple(o.name for o in k.outputs), body, tuple(k.dims),
        functions=tuple(k.functions),
    )  # fmt: skip
    return Case(kernel, env, r.randrange(1 << 30))


def _threads(k: _Kernel, n: Dim) -> Stmt:
    """A thread for each element, in blocks that need not fill the size."""
    r = k.r
    threads = r.choice(THREADS)
    block, thread, at = Var("b"), Var("t"), Var("i")
    k.at = at
    k.x.counters += [block, thread, at]
    k.x.places = [at, at, thread]
    inner = Block((k.statements(STATEMENTS, 3), *k.small()))
    guarded = If(Compare("lt", at, ix.of_dim(n)), inner)
    number = Binary("add", Binary("mul", block, ix.index(threads)), thread)
    in_block = Let(at, number, guarded)
    blocks = ix.of_dim(dims.ceildiv(n, threads))
    return _bound(block, blocks, "blockIdx.x", _bound(thread, threads, "threadIdx.x", in_block))


def _serial(k: _Kernel, n: Dim) -> Stmt:
    """A loop of one thread."""
    at = Var("i")
    k.at = at
    k.x.counters.append(at)
    k.x.places = [at]
    kind = k.r.choice((LoopKind.SERIAL, LoopKind.PARALLEL))
    return For(at, ix.of_dim(n), k.statements(STATEMENTS, 2), kind)


def _wide(k: _Kernel, n: Dim) -> Stmt:
    """Four neighbours in each thread, by wide accesses where every lane makes them."""
    del n
    thread, lane = Var("t"), Var("v")
    k.at = Binary("add", Binary("mul", thread, ix.index(4)), lane)
    k.x.counters += [thread, lane]
    k.x.places = [k.at, k.at, k.at, thread]
    if k.r.random() < 0.5:
        k.x.end, k.x.short = SHORT, k.short
    stores: list[Stmt] = [k.store() for _ in range(STATEMENTS)]
    if k.r.random() < 0.3:
        stores.append(k.let(0))
    if k.r.random() < 0.2:
        stores.append(k.branch(0))
    by = Var(k.x.fresh("v"), DType.F32)
    if divides := k.r.random() < 0.4:
        stores.append(k.divided(by))
    loop: Stmt = For(lane, ix.index(4), Block(tuple(stores)), LoopKind.VECTORIZED)
    if divides:
        loop = Let(by, Load(k.inputs[DType.F32][0].name, (thread,), DType.F32), loop)
    return _bound(thread, SIZE // 4, "threadIdx.x", loop)


def _shared(k: _Kernel, n: Dim) -> Stmt:
    """Threads that read what their neighbours stored, behind a barrier."""
    del n
    thread, dtype = Var("t"), k.r.choice(DTYPES)
    k.at = thread
    k.x.counters.append(thread)
    k.x.places = [thread]
    tile = Buffer("tile", dtype, (SIZE,), Scope.SHARED)
    fill = Store(tile.name, (thread,), k.x.value(dtype, 3))
    k.x.buffers = {**k.inputs, dtype: [*k.inputs[dtype], tile]}
    rest = k.statements(3, 2)
    body = _bound(thread, SIZE, "threadIdx.x", Block((fill, Barrier(), rest)))
    return Allocate(tile, body)


_FORMS = (_threads, _threads, _threads, _wide, _wide, _serial, _shared)


def _bound(var: Var, extent: Expr | int, axis: str, body: Stmt) -> For:
    e = ix.index(extent) if isinstance(extent, int) else extent
    return For(var, e, body, LoopKind.BOUND, axis)


def _loaded(x: Stmt | Expr) -> set[str]:
    """Return the names of the buffers that are read."""
    every = subexprs(x) if isinstance(x, Expr) else exprs(x)
    hinted: list[Stmt] = [] if isinstance(x, Expr) else stmts(x)
    return {e.buffer for e in (*every, *hinted) if isinstance(e, Load | Prefetch)}
