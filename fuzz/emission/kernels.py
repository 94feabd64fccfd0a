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
    Unary,
    Var,
    While,
)
from didyma.refimpl.ir.types import INTS, DType
from didyma.refimpl.ir.walk import exprs, map_stmt, stmts, subexprs

SIZE = 48  # elements of each input: a multiple of four, and more than the corners that decide most
SHORT = 20  # elements of a buffer that ends before the others
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


class Draft:
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
        """Draw a store of what a lane computes or has stored, divided by what all lanes share."""
        own = Var(self.x.fresh("v"), DType.F32)
        above = self.r.choice((own, Binary("add", own, self.x.load(DType.F32))))
        first, out = self.output(DType.F32), self.output(DType.F32)
        if self.r.random() < 0.4:  # of an element, or of what is computed of it in place
            x = self.r.choice(self.inputs[DType.F32])
            element: Expr = Load(x.name, (self.at,), DType.F32)
            of = self.r.choice((element, Binary("add", element, by), Unary("neg", element)))
            return Store(out.name, (self.at,), Binary("div", of, by))
        if self.r.random() < 0.4:  # of what the lane has stored just before
            stored = Store(first.name, (self.at,), above)
            below = Binary("div", Load(first.name, (self.at,), DType.F32), by)
            body: Stmt = Block((stored, Store(out.name, (self.at,), below)))
        else:
            body = Store(out.name, (self.at,), Binary("div", above, by))
        return Let(own, self.x.value(DType.F32, 1), body)

    def small(self) -> Sequence[Stmt]:
        """Draw stores of small expressions."""
        values = [self.x.nested() for _ in range(NESTED)]
        values += [self.x.ranged() for _ in range(RANGED)]
        values += [self.x.any_literal(d) for d in (*REAL, *REAL)]
        values += [x for d in REAL for x in (self.x.folded(d), self.x.literal(d))]
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

    def moving(self, depth: int) -> Stmt:
        """Draw a loop that changes the number of its rounds, which is read before the first."""
        del depth
        r = self.r
        end, total = (Buffer(self.x.fresh(n), INDEX, (), Scope.LOCAL) for n in ("end", "sum"))
        k, rounds, sum_ = Var(self.x.fresh("k")), *(Load(b.name, (), INDEX) for b in (end, total))
        fewer = Binary("floordiv", rounds, ix.index(2))
        more = Binary("min", Binary("add", rounds, ix.ONE), ix.index(7))
        step = Binary("add", Binary("mul", sum_, ix.index(3)), k)
        body = Block((Store(end.name, (), r.choice((fewer, more))), Store(total.name, (), step)))
        test: Expr = r.choice((rounds, Binary("max", rounds, ix.index(2))))
        loop: Stmt = For(k, test, body)
        statements = (
            Store(end.name, (), ix.index(r.choice((2, 3, 4)))),
            Store(total.name, (), ix.ONE),
            loop if r.random() < 0.7 else AttrStmt("unroll", 3, loop),
            Store(self.output(INDEX).name, (self.at,), sum_),
        )
        return Allocate(end, Allocate(total, Block(statements)))

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
        inner = Draft(self.r)
        place, i = self.output(dtype), DimVar(self.x.fresh("own", C_WORDS), 0, SIZE - 1)
        inner.x.counters = [Var(i.name)]
        inner.x.places = [Var(i.name)]
        drawn = (self.r.choice(BY_VALUE) for _ in range(self.r.randint(0, 2)))
        numbers = [Var(self.x.fresh("by"), d) for d in drawn]
        inner.x.bound = [*numbers]
        value = inner.x.root(dtype, 2)
        given = tuple(self.x.value(v.dtype, 1) for v in numbers)
        name = f"f{len(self.functions)}"
        params = [b for many in inner.inputs.values() for b in many if b.name in loaded(value)]
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

    def aliased(self, depth: int) -> Stmt:
        """Draw a call of a function whose lanes read by one name what they store by another."""
        del depth
        dtype = self.r.choice(DTYPES)
        place, other = self.output(dtype, SIZE * LANES), self.output(dtype, SIZE * LANES)
        inner, i = Draft(self.r), DimVar(self.x.fresh("own", C_WORDS), 0, SIZE - 1)
        lane, again = Var(self.x.fresh("v")), replace(place, name=self.x.fresh("again"))
        inner.x.counters, inner.x.places = [Var(i.name), lane], [Var(i.name)]
        value = inner.x.value(dtype, 1)
        params = [b for many in inner.inputs.values() for b in many if b.name in loaded(value)]
        at = (Binary("add", Binary("mul", Var(i.name), ix.index(LANES)), lane),)
        stores = [
            Store(place.name, at, value), Store(other.name, at, Load(again.name, at, dtype))
        ]  # fmt: skip
        self.r.shuffle(stores)
        body = For(lane, ix.index(LANES), Block(tuple(stores)), LoopKind.VECTORIZED)
        name = f"f{len(self.functions)}"
        given = (*(b.name for b in params), place.name, place.name, other.name)
        f = PrimFunc(
            name, (*params, again, place, other), (place.name, other.name), body, (i,),
            (("noalias", False),),
        )  # fmt: skip
        self.functions.append(f)
        return Call(name, given, (self.at,))


_STATEMENTS: tuple[Callable[[Draft, int], Stmt], ...] = (
    Draft.branch, Draft.branch, Draft.let, Draft.let, Draft.fold, Draft.fold,
    Draft.array, Draft.repeat, Draft.moving, Draft.atomic, Draft.call, Draft.aliased,
    Draft.vector, Draft.look, Draft.told,
)  # fmt: skip


def _unrolled(s: Stmt) -> Stmt:
    """Return a block whose serial loops have a count of iterations to write out."""
    if isinstance(s, For) and s.kind is LoopKind.SERIAL:
        return AttrStmt("unroll", 3, s)
    return Block(tuple(map(_unrolled, s.body))) if isinstance(s, Block) else s


def loaded(x: Stmt | Expr) -> set[str]:
    """Return the names of the buffers that are read."""
    every = subexprs(x) if isinstance(x, Expr) else exprs(x)
    hinted: list[Stmt] = [] if isinstance(x, Expr) else stmts(x)
    return {e.buffer for e in (*every, *hinted) if isinstance(e, Load | Prefetch)}
