"""Values of the elements of a row that several stages compute alike, and the registers for them.

Two expressions have one number where they do the same to the same: so equal values are found behind
the lets of their stages.  (J. Cocke, *Global Common Subexpression Elimination*, 1970.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from didyma.codegen.schedule import row_threads
from didyma.codegen.schedule.nest import NestFacts
from didyma.codegen.schedule.rows import RowNest, RowValue, parts_of
from didyma.refimpl.ir.loop import (
    Binary,
    Const,
    Expr,
    Fold,
    Intrinsic,
    Let,
    LetExpr,
    Load,
    Stmt,
    Var,
)
from didyma.refimpl.ir.walk import (
    certain_children,
    expr_children,
    exprs,
    map_expr,
    map_stmt,
    stmt_exprs,
    stmts,
)

WORTH = 4  # operations for an element that are worth a register
SLOW = 8  # operations that an intrinsic or a division takes
LARGEST = 64  # nodes of an expression that is computed without its lets


@dataclass(frozen=True, slots=True)
class Shared:
    """A value that stage ``first`` computes, and the stages up to ``last`` use again."""

    number: int
    first: int
    last: int
    weight: int
    nbytes: int


@dataclass(slots=True)
class Values:
    """The values that stages of rows have in common, in the order in which they are computed."""

    facts: NestFacts
    rows: RowNest
    numbers: Numbers
    parts: tuple[Stmt, ...]
    shared: tuple[Shared, ...]
    made: dict[tuple[Shared, ...], RowNest] = field(
        default_factory=dict[tuple["Shared", ...], RowNest]
    )

    @staticmethod
    def of(facts: NestFacts, rows: RowNest) -> Values:
        """Find what stages have in common that is worth registers."""
        numbers, parts = Numbers(), tuple(parts_of(rows))
        inputs, axes = facts.operands, frozenset(v.name for v in rows.axes)
        first = dict[int, int]()
        for stage, part in enumerate(parts):
            for n in _certain(numbers, part):
                if numbers.suits(n, inputs, axes):
                    first.setdefault(n, stage)
        last = dict[int, int]()
        for stage, part in enumerate(parts):
            for n in _again(numbers, part, {n for n, s in first.items() if s < stage}):
                last[n] = stage
        found = (
            Shared(n, first[n], s, numbers.weights[n], max(4, numbers.exprs[n].dtype.nbytes))
            for n, s in last.items()
        )
        ordered = sorted(found, key=lambda x: (x.first, numbers.sizes[x.number], x.number))
        return Values(facts, rows, numbers, parts, tuple(ordered))

    def fitting(self, elements: int) -> tuple[Shared, ...]:
        """Return those for which a thread has registers if it holds so many elements."""
        found = list(self.shared)
        while found and row_threads.words(max(_live(found)), elements) > row_threads.KEPT:
            found.remove(min(found, key=lambda x: (x.weight, x.number)))
        return tuple(found)

    def kept(self, elements: int) -> RowNest:
        """Return rows whose stages keep and use the values that fit."""
        chosen = self.fitting(elements)
        if chosen not in self.made:
            self.made[chosen] = self._keeping(chosen)
        return self.made[chosen]

    def _keeping(self, chosen: Sequence[Shared]) -> RowNest:
        fresh, dtypes = self.facts.names.fresh, [self.numbers.exprs[x.number].dtype for x in chosen]
        loads = {x.number: Load(fresh("kept"), (), d) for x, d in zip(chosen, dtypes, strict=True)}
        steps = iter([self._using(s, loads) for s in self.parts])
        stages = tuple(
            replace(s, step=next(steps)) if isinstance(s, Fold) else s for s in self.rows.stages
        )
        values = tuple(
            RowValue(at.buffer, at.dtype, x.first, x.last, self._value(x.number, loads))
            for x, at in zip(chosen, loads.values(), strict=True)
        )
        return replace(self.rows, stages=stages, each=next(steps, None), values=values)

    def _value(self, number: int, loads: dict[int, Load]) -> Expr:
        def on_expr(e: Expr) -> Expr:
            return self._held(e, loads) or map_expr(on_expr, e)

        return map_expr(on_expr, self.numbers.exprs[number])

    def _using(self, s: Stmt, loads: dict[int, Load]) -> Stmt:
        """Return a stage that takes values from registers, without lets that nothing uses."""

        def on_expr(e: Expr) -> Expr:
            return self._held(e, loads) or map_expr(on_expr, e)

        def on_stmt(b: Stmt) -> Stmt:
            b = map_stmt(b, on_expr, on_stmt)
            if isinstance(b, Let):
                used = {e.name for e in exprs(b.body) if isinstance(e, Var)}
                return b if b.var.name in used else b.body
            return b

        return on_stmt(s) if loads else s

    def _held(self, e: Expr, loads: dict[int, Load]) -> Load | None:
        return None if isinstance(e, (Var, Const)) else loads.get(self.numbers.of(e))


def _live(values: Sequence[Shared]) -> list[int]:
    """Return the bytes of the values of an element that are kept from each stage to the next."""
    return [
        sum(x.nbytes for x in values if x.first <= s < x.last)
        for s in range(max(x.last for x in values))
    ]


@dataclass(slots=True)
class Numbers:
    """Numbers of expressions, and by number: one without lets, its nodes, its operations.

    ``known`` has the numbers of expressions by identity, and holds these.
    """

    table: dict[object, int] = field(default_factory=dict[object, int])
    lets: dict[str, int] = field(default_factory=dict[str, int])
    exprs: list[Expr] = field(default_factory=list[Expr])
    sizes: list[int] = field(default_factory=list[int])
    weights: list[int] = field(default_factory=list[int])
    names: list[frozenset[str]] = field(default_factory=list[frozenset[str]])
    loaded: list[frozenset[str]] = field(default_factory=list[frozenset[str]])
    known: dict[int, tuple[Expr, int]] = field(default_factory=dict[int, tuple[Expr, int]])

    def suits(self, n: int, inputs: frozenset[str], axes: frozenset[str]) -> bool:
        """Return whether a value is worth keeping: of elements of operands, and not too simple."""
        slow = self.weights[n] >= WORTH and self.sizes[n] <= LARGEST
        return slow and bool(self.names[n] & axes) and self.loaded[n] <= inputs

    def of(self, e: Expr) -> int:
        """Return the number of an expression."""
        if isinstance(e, Var):
            return self.lets[e.name] if e.name in self.lets else self._new((e.name,), e, ())
        if isinstance(e, Const):
            return self._new((repr(e.value), e.dtype), e, ())
        if id(e) not in self.known:
            self.known[id(e)] = e, self._of(e)
        return self.known[id(e)][1]

    def _of(self, e: Expr) -> int:
        if isinstance(e, LetExpr):
            self.lets[e.var.name] = self.of(e.value)
            return self.of(e.body)
        below = [self.of(x) for x in expr_children(e)]
        numbers = iter(below)
        key = map_expr(lambda _: Var(f"#{next(numbers)}"), e)
        own = (isinstance(e, Load), key) if below else (e,)
        plain = iter([self.exprs[n] for n in below])
        return self._new(own, map_expr(lambda _: next(plain), e), below)

    def _new(self, key: object, e: Expr, below: Sequence[int]) -> int:
        if key not in self.table:
            self.table[key] = len(self.exprs)
            self.exprs.append(e)
            self.sizes.append(1 + sum(self.sizes[n] for n in below))
            self.weights.append(operations(e) + sum(self.weights[n] for n in below))
            names, loaded = (
                frozenset[str]().union(*(table[n] for n in below))
                for table in (self.names, self.loaded)
            )
            self.names.append(names | {e.name} if isinstance(e, Var) else names)
            self.loaded.append(loaded | {e.buffer} if isinstance(e, Load) else loaded)
        return self.table[key]


def operations(e: Expr) -> int:
    """Return the operations of an expression, without those below it; none for an index."""
    match e:
        case Var() | Const() | Load():
            return 0
        case Intrinsic() | Binary("div" | "pow" | "floordiv" | "floormod"):
            return SLOW
        case _:
            return 1


def lets_of(numbers: Numbers, part: Stmt) -> dict[str, Expr]:
    """Give the lets of a stage the numbers of what they stand for."""
    found = dict[str, Expr]()
    for s in stmts(part):
        if isinstance(s, Let):
            found[s.var.name] = s.value
            numbers.lets[s.var.name] = numbers.of(s.value)
    return found


def _roots(part: Stmt) -> Iterator[Expr]:
    return (e for s in stmts(part) if not isinstance(s, Let) for e in stmt_exprs(s))


def _certain(numbers: Numbers, part: Stmt) -> Iterator[int]:
    """Yield the numbers of what a stage surely computes."""
    lets, todo, seen = lets_of(numbers, part), list(_roots(part)), set[int]()
    while todo:
        e = todo.pop()
        if isinstance(e, Var):
            todo += [lets[e.name]] if e.name in lets else []
        elif not isinstance(e, Const) and (n := numbers.of(e)) not in seen:
            seen.add(n)
            yield n
            todo += certain_children(e)


def _again(numbers: Numbers, part: Stmt, known: set[int]) -> Iterator[int]:
    """Yield the largest values of a stage that are known from an earlier one."""
    lets, todo, seen = lets_of(numbers, part), list(_roots(part)), set[int]()
    while todo:
        e = todo.pop()
        if isinstance(e, Var):
            todo += [lets[e.name]] if e.name in lets else []
        elif not isinstance(e, Const) and (n := numbers.of(e)) not in seen:
            seen.add(n)
            if n in known:
                yield n
            else:
                todo += expr_children(e)
