"""The step ``inline``: a value is computed where it is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from didyma.codegen.schedule.folds import freshened
from didyma.codegen.schedule.steps.accesses import Access, Scan, scan
from didyma.codegen.schedule.steps.dependence import (
    AT_ONCE,
    Dependence,
    Dependences,
    Direction,
    refuse,
)
from didyma.codegen.schedule.steps.loops import names_of, replaced, sequence
from didyma.codegen.schedule.steps.records import Inline
from didyma.codegen.schedule.steps.split import wrong
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    Allocate,
    Barrier,
    Block,
    Expr,
    For,
    Let,
    Load,
    PrimFunc,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.text import show_line
from didyma.refimpl.ir.walk import (
    exprs,
    items,
    map_expr,
    map_stmt,
    stmts,
    subexprs,
    substitute_expr,
)


@dataclass(frozen=True, slots=True)
class Producer:
    """The one nest that computes a buffer made inside: each element once, from its index.

    ``index`` are the variables of its loops, by axis, and ``value`` what is stored.
    """

    declaration: Allocate
    nest: Stmt
    index: tuple[Var, ...]
    value: Expr
    after: tuple[Stmt, ...]


def inline(step: Inline, f: PrimFunc, *, unchecked: bool = False) -> PrimFunc:
    """Return a function in which the uses of a name compute its value.

    DidymaError ``no-such-value``, ``bad-step``, ``dependence``.
    """
    known = scan(f)
    for s in stmts(f.body):
        if isinstance(s, Let) and s.var.name == step.name:
            return _variable(known, s, unchecked)
        if isinstance(s, Allocate) and s.buffer.name == step.name:
            return _buffer(known, producer(f, s), unchecked)
    values = [s.var.name for s in stmts(f.body) if isinstance(s, Let)]
    made = [s.buffer.name for s in stmts(f.body) if isinstance(s, Allocate)]
    raise DidymaError(
        "no-such-value", f"@{f.name}", got=step.name,
        want=f"a `let` or a buffer made inside: {', '.join([*values, *made]) or 'none'}",
    )  # fmt: skip


def _variable(known: Scan, s: Let, unchecked: bool) -> PrimFunc:
    read = [a for a in known.accesses if a.stmt is s]
    if not unchecked:
        for part in until_used(s.body, s.var.name):
            unchanged(f"inline {s.var.name}", known, read, part)
    names = names_of(known.func)
    first = [True]

    def on_expr(e: Expr) -> Expr:
        if isinstance(e, Var) and e.name == s.var.name:
            return _again(s.value, names, first)
        return map_expr(on_expr, e)

    def on_stmt(b: Stmt) -> Stmt:
        return map_stmt(b, on_expr, on_stmt)

    return replace(known.func, body=replaced(known.func.body, s, on_stmt(s.body)))


def _again(value: Expr, names: Names, first: list[bool]) -> Expr:
    """Return a value to write, with names of its own but for the first time."""
    if first.pop():
        first.append(False)
        return value
    first.append(False)
    return freshened(value, names)


def until_used(body: Stmt, name: str) -> Iterator[Stmt]:
    """Yield the parts of a statement that write something before the last use of a name.

    Where threads meet at a barrier, others may be ahead of the one that uses it: then the whole
    statement counts.
    """
    if any(isinstance(s, Barrier) for s in stmts(body)):
        yield body
        return
    parts = items(body)
    last = max((n for n, s in enumerate(parts) if name in _mentioned(s)), default=-1)
    yield from parts[: max(last, 0)]
    match parts[last] if last >= 0 else None:
        case Let(_, _, inner) | Allocate(_, inner):
            yield from until_used(inner, name)
        case Store() | None:  # it writes last
            pass
        case s:
            yield s


def unchanged(step: str, known: Scan, read: Sequence[Access], body: Stmt) -> None:
    """Check that nothing that was read is written in a statement; DidymaError ``dependence``.

    Both are in one iteration of the loops around them; threads may meet at a barrier.
    """
    dependences = Dependences(known)
    for b in known.within(body):
        for a in read:
            others: dict[str, Direction] = {x.var.name: "*" for x in a.loops if x.kind in AT_ONCE}
            if b.writes and dependences.may(a, b, others):
                raise refuse(
                    step, Dependence(a, b, ""), "values that stay the same until they are used"
                )


def producer(f: PrimFunc, s: Allocate) -> Producer:
    """Return what computes a buffer; DidymaError ``bad-step`` where that is no plain nest."""
    body: Stmt = s
    while isinstance(body, Allocate):
        body = body.body
    name, parts = s.buffer.name, items(body)
    at = next((n for n, x in enumerate(parts) if name in _stored(x)), None)
    if at is not None and not any(name in _loaded(x) for x in parts[: at + 1]):
        found = _plain(parts[at], s)
        if found is not None and not any(name in _stored(x) for x in parts[at + 1 :]):
            return Producer(s, parts[at], *found, parts[at + 1 :])
    raise wrong(
        f, f"`{show_line(s)}`",
        "a buffer that one nest computes, before all uses, each element once from its own index",
    )  # fmt: skip


def _mentioned(s: Stmt) -> set[str]:
    return {e.name for e in exprs(s) if isinstance(e, Var)} | _loaded(s)


def _stored(s: Stmt) -> set[str]:
    return {a.buffer for a in stmts(s) if isinstance(a, Store)}


def _loaded(s: Stmt) -> set[str]:
    return {e.buffer for e in exprs(s) if isinstance(e, Load)}


def _plain(s: Stmt, made: Allocate) -> tuple[tuple[Var, ...], Expr] | None:
    """Return the variables and the value of a nest that stores each element once."""
    loops: dict[str, For] = {}
    lets: dict[str, Expr] = {}
    while isinstance(s, (For, Let)):
        if isinstance(s, For):
            loops[s.var.name] = s
        else:
            lets[s.var.name] = substitute_expr(s.value, lets)
        s = s.body
    if not isinstance(s, Store):
        return None
    index = tuple(i for i in s.index if isinstance(i, Var))
    if len(index) < len(s.index) or [v.name for v in index] != list(dict.fromkeys(loops)):
        return None
    sizes = map(ix.of_dim, made.buffer.shape)
    if any(loops[v.name].extent != n for v, n in zip(index, sizes, strict=True)):
        return None
    value = substitute_expr(s.value, lets)
    return None if any(isinstance(e, Load) and e.buffer == s.buffer for e in subexprs(value)) else (
        index, value
    )  # fmt: skip


def _buffer(known: Scan, made: Producer, unchecked: bool) -> PrimFunc:
    f, name = known.func, made.declaration.buffer.name
    read = [a for a in known.within(made.nest) if not a.writes]
    for s in until_used(sequence(made.after), name) if not unchecked else ():
        unchanged(f"inline {name}", known, read, s)
    names, first = names_of(f), [True]

    def on_expr(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer == name:
            at = dict(zip((v.name for v in made.index), map(on_expr, e.index), strict=True))
            return substitute_expr(_again(made.value, names, first), at)
        return map_expr(on_expr, e)

    def on_stmt(s: Stmt) -> Stmt:
        if isinstance(s, Block):
            return sequence(on_stmt(b) for b in s.body if b is not made.nest)
        if s is made.declaration:
            assert isinstance(s, Allocate)
            return on_stmt(s.body)
        return Block(()) if s is made.nest else map_stmt(s, on_expr, on_stmt)

    return replace(f, body=on_stmt(f.body))
