"""The accesses of a function to its buffers, each with the loops around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from didyma.refimpl.ir.loop import (
    INDEX,
    Allocate,
    Atomic,
    Binary,
    Buffer,
    Call,
    Chain,
    Exchange,
    Expr,
    ExternalAllocate,
    ExternalCall,
    For,
    Free,
    If,
    Let,
    LetExpr,
    Load,
    PlacementAllocate,
    Prefetch,
    PrimFunc,
    Select,
    Stmt,
    Store,
    Var,
    While,
)
from didyma.refimpl.ir.text import show_line
from didyma.refimpl.ir.walk import (
    expr_children,
    stmt_children,
    stmt_exprs,
    subexprs,
    substitute_expr,
)

EXACT = ("min", "max", "and", "or", "xor")  # in any order the same bits, whatever the dtype
SHOWN = 120  # characters of a statement in a message
COMMUTING = ("add", "mul", *EXACT)


@dataclass(frozen=True, slots=True)
class Access:
    """One load, store or update in the text of a function.

    ``index`` is None where it may be any element.  ``loops`` are those around the access and
    ``owners`` those around the declaration of the buffer, outermost first.  ``update`` is the
    operation of a statement ``a[i] = op(a[i], ...)``, or of an atomic one, to which the access
    belongs; ``guards`` counts the conditions around it.
    """

    position: int
    buffer: str
    index: tuple[Expr, ...] | None
    writes: bool
    stmt: Stmt
    loops: tuple[For, ...]
    owners: tuple[str, ...]
    update: str = ""
    is_atomic: bool = False
    guards: int = 0

    def __str__(self) -> str:
        text = show_line(self.stmt)
        text = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
        return f"`{text}` {'writes' if self.writes else 'reads'} {self.buffer}"


@dataclass(frozen=True, slots=True)
class Scan:
    """What is known of a function's buffers: accesses, declarations, and values of variables.

    ``lets`` has the values of index variables, written out over loop variables, dims and loads;
    ``opaque`` the variables that a ``let`` binds to anything else.  ``roots`` gives the buffer
    whose memory a buffer is placed over, or itself.
    """

    func: PrimFunc
    accesses: tuple[Access, ...]
    buffers: Mapping[str, Buffer]
    lets: Mapping[str, Expr]
    opaque: frozenset[str]
    roots: Mapping[str, str]

    @property
    def written(self) -> frozenset[str]:
        """The buffers that some statement writes, by the name of their memory."""
        return frozenset(self.roots[a.buffer] for a in self.accesses if a.writes)

    def within(self, s: Stmt) -> list[Access]:
        """Return the accesses of a statement of the function and its substatements."""
        inside = set(map(id, _all(s)))
        return [a for a in self.accesses if id(a.stmt) in inside]


def scan(f: PrimFunc) -> Scan:
    """Collect the accesses of a function, in the order of its text."""
    walk = _Collector({b.name: b for b in f.params})
    walk.stmt(f.body, (), 0)
    return Scan(f, tuple(walk.found), walk.buffers, walk.lets, frozenset(walk.opaque), walk.roots)


def _all(s: Stmt) -> Iterator[Stmt]:
    yield s
    for c in stmt_children(s):
        yield from _all(c)


class _Collector:
    """Walks a function once."""

    def __init__(self, params: dict[str, Buffer]) -> None:
        self.buffers = params
        self.owners: dict[str, tuple[str, ...]] = dict.fromkeys(params, ())
        self.roots = {name: name for name in params}
        self.lets: dict[str, Expr] = {}
        self.opaque: set[str] = set()
        self.found: list[Access] = []

    def stmt(self, s: Stmt, loops: tuple[For, ...], guards: int) -> None:
        update = update_of(s)
        for e in stmt_exprs(s):
            self.expr(e, s, loops, guards, update)
        match s:
            case Store(buffer, index):
                self.add(buffer, index, s, loops, guards, True, update)
            case Atomic(op, buffer, index):
                self.add(buffer, index, s, loops, guards, True, op, atomic=True)
            case Prefetch(buffer, index):
                self.add(buffer, index, s, loops, guards, False)
            case ExternalCall(_, outputs, inputs):
                for name in inputs:
                    self.add(name, None, s, loops, guards, False)
                for name in outputs:
                    self.add(name, None, s, loops, guards, True)
            case ExternalAllocate(_, buffers, inputs):
                for name in inputs:
                    self.add(name, None, s, loops, guards, False)
                for b in buffers:
                    self.buffers[b.name] = b
                    self.owners[b.name], self.roots[b.name] = (), b.name
                    self.add(b.name, None, s, loops, guards, True)
            case Call(_, args):
                for name in args:
                    self.add(name, None, s, loops, guards, False)
                    self.add(name, None, s, loops, guards, True)
            case Free(name):
                self.add(name, None, s, loops, guards, True)
            case Let(var, value):
                self.bind(var, value)
            case Exchange(var):
                self.opaque.add(var.name)
            case Chain(var, _, _, _, states, totals):
                self.opaque.add(var.name)
                for name in (states, totals):
                    self.add(name, None, s, loops, guards, False)
                    self.add(name, None, s, loops, guards, True)
            case Allocate(b) | PlacementAllocate(b):
                self.buffers[b.name] = b
                self.owners[b.name] = tuple(x.var.name for x in loops)
                over = s.over if isinstance(s, PlacementAllocate) else b.name
                self.roots[b.name] = self.roots.get(over, b.name)
            case _:
                pass
        inner = (*loops, s) if isinstance(s, For) else loops
        deeper = guards + isinstance(s, If | While)
        for child in stmt_children(s):
            self.stmt(child, inner, deeper)

    def expr(self, e: Expr, s: Stmt, loops: tuple[For, ...], guards: int, update: str) -> None:
        if isinstance(e, LetExpr):
            self.bind(e.var, e.value)
        for n, c in enumerate(expr_children(e)):
            chosen = isinstance(e, Select) and n > 0
            self.expr(c, s, loops, guards + chosen, update)
        if isinstance(e, Load):
            own = isinstance(s, Store) and s.buffer == e.buffer
            self.add(e.buffer, e.index, s, loops, guards, False, update if own else "")

    def bind(self, var: Var, value: Expr) -> None:
        if var.dtype is INDEX:
            self.lets[var.name] = substitute_expr(value, self.lets)
        else:
            self.opaque.add(var.name)

    def add(
        self,
        buffer: str,
        index: Sequence[Expr] | None,
        s: Stmt,
        loops: tuple[For, ...],
        guards: int,
        writes: bool,
        update: str = "",
        *,
        atomic: bool = False,
    ) -> None:
        at = None if index is None else tuple(index)
        if at is not None and self.lets:
            at = tuple(substitute_expr(i, self.lets) for i in at)
        owners = self.owners[buffer]
        self.found.append(
            Access(len(self.found), buffer, at, writes, s, loops, owners, update, atomic, guards)
        )


def update_of(s: Stmt) -> str:
    """Return the operation of a statement ``a[i] = op(a[i], term)``; empty for another one.

    The operation is commutative and associative but for rounding, and ``term`` reads no ``a``.
    """
    if not isinstance(s, Store) or not isinstance(s.value, Binary):
        return ""
    op, mine, term = s.value.op, s.value.lhs, s.value.rhs
    if op not in COMMUTING or not isinstance(mine, Load) or _reads(term, s.buffer):
        return ""
    same = mine.buffer == s.buffer and mine.index == s.index
    return op if same and not any(_reads(i, s.buffer) for i in s.index) else ""


def _reads(e: Expr, buffer: str) -> bool:
    return any(isinstance(x, Load) and x.buffer == buffer for x in subexprs(e))


def commutes(op: str, b: Buffer, reassociates: bool) -> bool:
    """Return whether updates by an operation may be made in another order.

    Sums and products of floats only where the step declares that it reassociates.
    """
    return op in EXACT or (op in COMMUTING and (reassociates or not b.dtype.is_float))
