"""Loop nests whose places and numbers of iterations are read, guarded, or of several threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from didyma.fuzz.schedules.maker import MARGIN, Maker
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    INDEX,
    Allocate,
    Atomic,
    AtomicOp,
    Barrier,
    Binary,
    BinaryOp,
    Block,
    Buffer,
    Compare,
    Expr,
    For,
    If,
    Let,
    Load,
    LoopKind,
    PlacementAllocate,
    Scope,
    Select,
    Stmt,
    Store,
    Var,
)

FEW = 3  # columns that there always are, with the margin, where their number is not known
Draw = Callable[[Maker, Var, Var], Stmt]
TABLE = "d"  # the parameter that has places


def gathered(m: Maker, i: Var, j: Var) -> Stmt:
    """Return rows at places that are computed before, read or written where there is a place.

    Beyond its last row, ``at`` has no element: a place may be read under its condition alone.
    """
    count = m.sides[0] if isinstance(m.sides[0], int) else 1
    at, p = Buffer(m.name("at"), INDEX, (count,), Scope.LOCAL), m.loop()
    factor, shift = ix.index(m.chance.choice((0, 1, 2, 3))), ix.index(m.chance.choice((0, 1)))
    place = ix.mod(ix.add(ix.mul(p, factor), shift), ix.index(count))
    fill = For(p, ix.index(count), Store(at.name, (p,), place))
    there = Load(at.name, (i,), INDEX)
    body = _at_place(m, there, i, j)
    if m.chance.random() < 0.3:  # the place changes from one iteration to the next
        turned = ix.mod(ix.add(there, ix.ONE), ix.index(count))
        body = Block((body, Store(at.name, (i,), turned)))
    beyond = m.chance.choice((0, 0, 1, 2))
    if beyond:
        body = If(ix.compare("lt", i, ix.index(count)), body)
    return Allocate(at, Block((fill, For(i, ix.index(count + beyond), For(j, m.columns, body)))))


ATOMIC: tuple[AtomicOp, ...] = ("add", "add", "max", "min")


def looked_up(m: Maker, i: Var, j: Var) -> Stmt:
    """Return rows at places that a parameter gives, which nothing writes.

    Beyond its last row it has no element: a place may be read under its condition alone.
    """
    if all(b.name != TABLE for b in m.buffers):
        m.buffers.append(Buffer(TABLE, INDEX, m.shape[:1]))
    count = m.sides[0] if isinstance(m.sides[0], int) else 1
    given = Load(TABLE, (ix.add(i, ix.index(MARGIN)),), INDEX)  # of the last row: its last element
    body = _at_place(m, ix.mod(given, ix.index(count)), i, j)
    beyond = m.chance.choice((0, 0, 1, 2))
    if beyond:
        body = If(ix.compare("lt", i, m.rows), body)
    return For(i, ix.add(m.rows, ix.index(beyond)), For(j, m.columns, body))


def _at_place(m: Maker, there: Expr, i: Var, j: Var) -> Stmt:
    """Return a store that reads, or writes, a row whose number is read."""
    target = m.target()
    if m.chance.random() < 0.6:
        read = Load(m.any() if m.chance.random() < 0.3 else "a", (there, j), m.dtype)
        # No other element of ``a``, whose place would be known.
        other = m.number(1) if m.exact else m.load(i, j, m.target())
        return Store(target, m.at(i, j), Binary(m.op(), read, other))
    if m.dtype.is_int and m.dtype.bits == 32 and m.chance.random() < 0.4:
        return Atomic(m.chance.choice(ATOMIC), target, (there, j), m.load(i, j, "a"))
    old = Load(target, (there, j), m.dtype)
    return Store(target, (there, j), Binary(m.op(), old, m.load(i, j, "a")))


def padded(m: Maker, i: Var, j: Var) -> Stmt:
    """Return a store of what is read where it is in bounds, and of a number elsewhere."""
    far = ix.index(MARGIN + 1)
    k, size = m.chance.choice(((i, m.rows), (j, m.columns)))
    if m.chance.random() < 0.5:
        inside, moved = ix.compare("ge", k, far), ix.sub(k, far)
    else:
        inside, moved = ix.compare("lt", k, ix.sub(size, ix.ONE)), ix.add(k, far)
    place = (moved, j) if k is i else (i, moved)
    read = Load(m.any(), place, m.dtype)
    if m.chance.random() < 0.4:
        one: Stmt = Store(m.target(), (i, j), Binary(m.op(), read, m.load(i, j, "a")))
        return m.over(i, j, If(inside, one))
    value = Binary(m.op(), Select(inside, read, m.number(0)), m.load(i, j, "a"))
    return m.over(i, j, Store(m.target(), (i, j), value))


def ragged(m: Maker, i: Var, j: Var) -> Stmt:
    """Return rows of a length that is read, and that their elements may change."""
    length = Buffer(m.name("length"), INDEX, (), Scope.LOCAL)
    now = Load(length.name, (), INDEX)
    longer = Store(length.name, (), ix.minimum(ix.add(now, ix.ONE), m.columns))
    body = m.some(i, j) if m.chance.random() < 0.3 else Block((m.store(i, j), longer))
    rows = m.over(i, j, body, now)
    return Allocate(length, Block((Store(length.name, (), ix.ONE), rows)))


def placed(m: Maker, i: Var, j: Var) -> Stmt:
    """Return stores at a place that has a name."""
    at, shift = Var(m.name("at"), INDEX), ix.index(m.chance.choice((0, 1, 2)))
    target, other = m.chance.sample("bc", 2)
    first = Store(target, (at, j), m.load(i, j, "a"))
    near = Load(target if m.chance.random() < 0.7 else other, m.at(i, j), m.dtype)
    second = Store(other, (i, j), Binary(m.op(), near, m.load(i, j, "a")))
    both = [first, second]
    m.chance.shuffle(both)
    return m.over(i, j, Let(at, ix.add(i, shift), Block(tuple(both))))


def deep(m: Maker, i: Var, j: Var) -> Stmt:
    """Return three loops around one store, whose elements depend on all of them."""
    k, target = m.loop(), m.target()
    turns = m.chance.choice((2, 3))
    i_, j_ = m.chance.choice(((ix.add(i, k), j), (i, ix.add(j, k)), (i, j)))
    if m.chance.random() < 0.5:
        i_, j_ = i, j
        read = Load(target, m.chance.choice(((ix.add(i, k), j), (i, ix.add(j, k)))), m.dtype)
    else:
        read = Load(target, m.at(i, j), m.dtype)
    value = Binary(m.op(), read, m.load(i, j, "a"))
    nest = [(i, m.rows), (j, m.columns), (k, ix.index(turns))]
    if m.chance.random() < 0.3:
        m.chance.shuffle(nest)
    body: Stmt = Store(target, (i_, j_), value)
    for v, n in reversed(nest):
        body = For(v, n, body)
    return body


def product(m: Maker, i: Var, j: Var) -> Stmt:
    """Return sums of products, as of matrices, or of sums, where products are not exact."""
    r = m.loop()
    terms = [Load(m.any(), at, m.dtype) for at in ((i, r), (r, j))]
    target = m.target()
    sides = [n if isinstance(n, int) else FEW for n in m.sides]
    term: Expr = Load("a", (i, r), m.dtype) if m.exact else Binary("mul", *terms)
    step = Store(target, (i, j), Binary("add", Load(target, (i, j), m.dtype), term))
    return m.over(i, j, For(r, ix.index(FEW if FEW in sides else min(sides)), step))


def shared(m: Maker, i: Var, j: Var) -> Stmt:
    """Return threads that read what their neighbours keep in shared memory, between barriers."""
    count = m.sides[1] if isinstance(m.sides[1], int) else 1
    row, r = Buffer(m.name("row"), m.dtype, (count + MARGIN,), Scope.SHARED), m.loop()
    v, beyond = Var(m.name("v"), m.dtype), ix.add(r, ix.index(count))

    def near() -> Load:
        return Load(row.name, (ix.add(j, ix.index(m.chance.choice((0, 1, 2)))),), m.dtype)

    fill = Store(row.name, (j,), Load("a", (i, j), m.dtype))
    more = Store(row.name, (beyond,), Load("a", (i, beyond), m.dtype))
    edge = If(ix.compare("eq", j, ix.ZERO), For(r, ix.index(MARGIN), more))
    again = Store(row.name, (j,), Binary(m.op(), v, Load("a", (i, j), m.dtype)))
    last = Store(m.target(), (i, j), Binary(m.op(), v, near()))
    inner = Let(v, near(), Block((Barrier(), again, Barrier(), last)))
    body = Block((fill, edge, Barrier(), inner))
    threads = For(j, ix.index(count), body, LoopKind.BOUND, "threadIdx.x")
    return For(i, m.rows, Allocate(row, threads), LoopKind.BOUND, "blockIdx.x")


def folded(m: Maker, i: Var, j: Var) -> Stmt:
    """Return sums of several loops, some of them under a condition, or used before their end."""
    acc, r = Buffer(m.name("acc"), m.dtype, (), Scope.LOCAL), m.loop()
    now = Load(acc.name, (), m.dtype)
    term = m.load(i, j, "a")
    if m.chance.random() < 0.2:
        term = Binary(m.op(), term, now)
    step: Stmt = Store(acc.name, (), Binary(m.op(), now, term))
    if m.chance.random() < 0.3:
        step = If(Compare("lt", m.load(i, j, "a"), Load("a", (i, r), m.dtype)), step)
    inner: Stmt = For(r, ix.index(m.chance.choice((1, 2))), step)
    kind = m.chance.randrange(4)
    if kind == 0:  # the result of a row so far
        inner = Block((inner, Store(m.target(), (i, j), now)))
    elif kind == 1:
        inner = Block((inner, Store(acc.name, (), Binary(m.op(), now, m.load(i, j, "a")))))
    rows = For(j, m.columns, inner)
    last = Store(m.target(), (i, ix.ZERO), now)
    first = Store(acc.name, (), m.number(m.chance.choice((0, 1, 2))))
    return For(i, m.rows, Allocate(acc, Block((first, rows, last))))


# ---- nests of topics


def skewed(m: Maker, i: Var, j: Var) -> Stmt:
    """Return stores that need the row before at a later column, or an earlier one, or both turned.

    With an earlier column the order of the loops is free, but either carries what is needed if it
    is the outer one.
    """
    target, far = m.target(), ix.ONE
    places = [(ix.add(i, far), j), (i, ix.add(j, far))]
    m.chance.shuffle(places)
    if m.chance.random() < 0.4:
        places = [(ix.add(i, far), ix.add(j, far)), (i, j)]
    near = Load(target, places[1], m.dtype)
    return m.over(i, j, Store(target, places[0], Binary(m.op(), near, m.load(i, j, "a"))))


def checked(m: Maker, i: Var, j: Var) -> Stmt:
    """Return rows that are written under a condition on what one of their elements was before."""
    target = m.target()
    before = Load(target, (i, m.chance.choice((ix.ZERO, ix.ONE))), m.dtype)
    inner = For(j, m.columns, Store(target, (i, j), m.load(i, j, "a")))
    return For(i, m.rows, If(Compare("lt", before, Load("a", (i, ix.ZERO), m.dtype)), inner))


def so_far(m: Maker, i: Var, j: Var) -> Stmt:
    """Return sums, of all or of a row or column, and the result of each from term to term."""
    target, other = m.chance.sample("bc", 2)
    there = m.chance.choice(((ix.ZERO, ix.ZERO), (i, ix.ZERO), (ix.ZERO, j)))
    now = Load(target, there, m.dtype)
    op: BinaryOp = m.chance.choice(("add", "add", "max"))
    step = Store(target, there, Binary(op, now, m.load(i, j, "a")))
    return m.over(i, j, Block((step, Store(other, (i, j), now))))


def carried(m: Maker, i: Var, j: Var) -> Stmt:
    """Return few iterations, each of which needs what another wrote, or writes what it read."""
    target, far = m.target(), ix.index(m.chance.choice((1, 1, 2)))
    places = [(i, ix.add(j, far)), (i, j)]
    m.chance.shuffle(places)
    near = Load(target, places[1], m.dtype)
    one = Store(target, places[0], Binary(m.op(), near, m.load(i, j, "a")))
    return m.over(i, j, one, ix.index(m.few(1)))


def filled(m: Maker, i: Var, j: Var) -> Stmt:
    """Return rows that are copied before they are used, some of which are written meanwhile.

    Their number may be read, and shrink in the loop.
    """
    target, r = m.target(), m.loop()
    near = Buffer(m.name("near"), m.dtype, (m.few(1),), Scope.LOCAL)
    source = target if m.chance.random() < 0.5 else "a"
    fill = For(r, ix.index(m.few(1)), Store(near.name, (r,), Load(source, (i, r), m.dtype)))
    shift = ix.index(m.chance.choice((0, 1, 2)))
    value = Binary(m.op(), Load(near.name, (j,), m.dtype), m.load(i, j, "a"))
    use = For(j, ix.index(m.few(1)), Store(target, (ix.add(i, shift), j), value))
    if m.chance.random() < 0.6:
        return For(i, m.rows, Allocate(near, Block((fill, use))))
    count = Buffer(m.name("count"), INDEX, (), Scope.LOCAL)
    now = Load(count.name, (), INDEX)
    fewer = Store(count.name, (), ix.maximum(ix.ONE, ix.sub(now, ix.ONE)))
    rows = For(i, now, Allocate(near, Block((fill, use, fewer))))
    return Allocate(count, Block((Store(count.name, (), m.rows), rows)))


def taken_over(m: Maker, i: Var, j: Var) -> Stmt:
    """Return rows that are copied and used, and others that are copied to the same memory then."""
    names, count = (m.name("near"), m.name("over")), m.few(1)
    near, over = (Buffer(n, m.dtype, (count,), Scope.LOCAL) for n in names)

    def copied(b: Buffer, k: Var) -> tuple[Stmt, Stmt]:
        last, at = m.loop(), ix.index(count)
        value = Binary(m.op(), Load(b.name, (last,), m.dtype), m.load(i, last, "a"))
        fill = Store(b.name, (k,), Load("a", (i, k), m.dtype))
        return For(k, at, fill), For(last, at, Store(m.target(), (i, last), value))

    later = PlacementAllocate(over, near.name, Block(copied(over, m.loop())))
    return For(i, m.rows, Allocate(near, Block((*copied(near, j), later))))


def either(m: Maker, i: Var, j: Var) -> Stmt:
    """Return two loops of which the inner one stands on one side of a condition, or on the other.

    Both sides write near one another.
    """
    k, target = m.loop(), m.target()
    cond = ix.compare("lt", i, ix.index(m.chance.choice((0, 1, 2))))
    sides = [For(v, m.columns, Store(target, m.at(i, v), m.load(i, v))) for v in (j, k)]
    return For(i, m.rows, If(cond, *sides))


def uneven(m: Maker, i: Var, j: Var) -> Stmt:
    """Return two loops in a row, one of which may be longer by an iteration."""
    counts = [m.few(0), m.few(0) - m.chance.choice((0, 1, 1))]
    m.chance.shuffle(counts)
    k, last = m.loop(), m.loop()
    first = For(i, ix.index(counts[0]), For(j, m.columns, m.store(i, j)))
    return Block((first, For(k, ix.index(counts[1]), For(last, m.columns, m.store(k, last)))))


def recounted(m: Maker, i: Var, j: Var) -> Stmt:
    """Return two loops in a row whose number of iterations is read, and that the first may change.

    Neither needs anything else of the other.
    """
    count = Buffer(m.name("count"), INDEX, (), Scope.LOCAL)
    now, most = Load(count.name, (), INDEX), m.few(0)
    first, new = m.chance.choice(((1, 2), (most, max(1, most - 1)), (most, 1), (most, most)))
    k, last = m.loop(), m.loop()
    one, two = m.chance.sample("bc", 2)
    rows = For(j, m.columns, Store(one, (i, j), m.load(i, j, "a")))
    body = Block((rows, Store(count.name, (), ix.index(min(new, most)))))
    more = For(last, m.columns, Store(two, (k, last), m.load(k, last, "a")))
    loops = Block((Store(count.name, (), ix.index(first)), For(i, now, body), For(k, now, more)))
    return Allocate(count, loops)


def around(m: Maker, i: Var, j: Var) -> Stmt:
    """Return elements that are each made of neighbours in ``a`` alone."""
    value = Binary(m.op(), m.load(i, j, "a"), m.load(i, j, "a"))
    return m.over(i, j, Store(m.target(), (i, j), value))


def turning(m: Maker, i: Var, j: Var) -> Stmt:
    """Return sums at a place that changes from one term, or one row, to the next."""
    at, target = Buffer(m.name("at"), INDEX, (), Scope.LOCAL), m.target()
    now = Load(at.name, (), INDEX)
    there = (now, ix.ZERO) if m.chance.random() < 0.5 else (now, i)
    op: BinaryOp = m.chance.choice(("add", "max", "min"))
    step = Store(target, there, Binary(op, Load(target, there, m.dtype), m.load(i, j, "a")))
    move = Store(at.name, (), ix.mod(ix.add(now, ix.ONE), ix.index(m.few(0))))
    row = For(j, ix.index(m.few(1)), step)
    body: Stmt = Block((row, move))
    if m.chance.random() < 0.7:
        both = [step, move]
        m.chance.shuffle(both)
        body = replace(row, body=Block(tuple(both)))
    rows = For(i, ix.index(min(m.few(0), m.few(1))), body)
    return Allocate(at, Block((Store(at.name, (), ix.ZERO), rows)))


def summed(m: Maker, i: Var, j: Var) -> Stmt:
    """Return sums along rows or columns, of which the order of the terms shows."""
    target = m.target()
    there = m.chance.choice(((i, ix.ZERO), (ix.ZERO, j)))
    op: BinaryOp = m.chance.choice(("add", "add", "mul"))
    old = Load(target, there, m.dtype)
    return m.over(i, j, Store(target, there, Binary(op, old, m.load(i, j, "a"))))
