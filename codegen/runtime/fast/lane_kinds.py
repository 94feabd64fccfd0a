"""How values of kernel text differ between the threads of a block that run as lanes of a loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from pycparser import c_ast as c

if TYPE_CHECKING:
    from didyma.codegen.runtime.fast.lane_digits import Digits

Kind: TypeAlias = int | str
"""An int is the step of an integer from lane to lane, 0 for what all lanes share."""

AGAIN: Final = "again"  # an integer that each lane computes anew where it is needed
VARYING: Final = "varying"  # anything else: kept for each lane

AXES: Final = ("threadIdx", "blockIdx", "blockDim", "gridDim")
INTEGERS: Final = ("i64", "i32")
_IMPURE: Final = ("atomic_", "store", "prefetch_", "assert_", "shuffle_")


def nodes(n: c.Node) -> Iterator[c.Node]:
    """Yield a node and all below it."""
    yield n
    for _, child in n.children():
        yield from nodes(child)


def names(n: c.Node) -> set[str]:
    """Return the identifiers that a node mentions."""
    return {x.name for x in nodes(n) if isinstance(x, c.ID)}


def type_name(t: c.Node) -> str:
    """Return the name of the type that a declaration bottoms out in."""
    while not isinstance(t, c.IdentifierType):
        t = t.type
    return str(t.names[0])


def literal(n: c.Node) -> int | None:
    """Return the value of an integer literal, negative ones included."""
    match n:
        case c.Constant(type=t, value=v) if "int" in t and "f" not in t:
            return int(v.rstrip("uUlL"), 0)
        case c.UnaryOp(op="-", expr=inner):
            value = literal(inner)
            return None if value is None else -value
        case _:
            return None


def assigned(n: c.Node) -> set[str]:
    """Return the variables that a statement writes, apart from declarations."""
    found: set[str] = set()
    for x in nodes(n):
        target = None
        if isinstance(x, c.Assignment):
            target = x.lvalue
        elif isinstance(x, c.UnaryOp) and ("++" in x.op or "--" in x.op):
            target = x.expr
        while isinstance(target, (c.ArrayRef, c.StructRef)):
            target = target.name
        if isinstance(target, c.ID):
            found.add(target.name)
    return found


def unique(function: c.FuncDef) -> None:
    """Give variables that share a name in different scopes names of their own."""
    seen: set[str] = set()

    def visit(n: c.Node, scope: dict[str, str]) -> None:
        if isinstance(n, (c.Compound, c.For)):
            scope = dict(scope)
        if isinstance(n, c.ID):
            n.name = scope.get(n.name, n.name)
            return
        if isinstance(n, c.StructRef):
            visit(n.name, scope)  # not the field
            return
        if isinstance(n, c.FuncCall):
            if n.args:
                visit(n.args, scope)
            return
        for _, child in n.children():
            visit(child, scope)
        if isinstance(n, c.Decl) and n.name:
            name, count = n.name, 1
            while name in seen:
                name, count = f"{n.name}__{count}", count + 1
            seen.add(name)
            scope[n.name] = name
            n.name = name
            t = n.type
            while not isinstance(t, c.TypeDecl):
                t = t.type
            t.declname = name

    scope: dict[str, str] = {}
    for p in function.decl.type.args.params:
        visit(p, scope)
    visit(function.body, scope)


def step(n: c.Node, steps: Mapping[str, int | None]) -> int | None:
    """Return by how much an index grows where variables grow by these steps; None if unknown."""
    match n:
        case c.Constant():
            return 0
        case c.ID(name=name):
            return steps.get(name, 0)
        case c.BinaryOp(op=("+" | "-") as op, left=left, right=right):
            a, b = step(left, steps), step(right, steps)
            return None if a is None or b is None else a + b if op == "+" else a - b
        case c.BinaryOp(op="*", left=left, right=right):
            a, b = step(left, steps), step(right, steps)
            if a == 0 and b == 0:
                return 0
            by_left, by_right = literal(left), literal(right)
            if a is not None and by_right is not None:
                return a * by_right
            return b * by_left if b is not None and by_left is not None else None
        case _:
            below = [step(x, steps) for _, x in n.children()]
            return 0 if all(s == 0 for s in below) else None


@dataclass(slots=True)
class Kinds:
    """The kinds of a kernel's values.

    ``wide`` says that lanes are threads of more axes than x; ``readonly`` are the arrays that no
    thread writes.  ``of`` learns the kind of each variable, ``written`` are those assigned after
    their declaration.
    """

    wide: bool
    readonly: Set[str]
    written: Set[str]
    integers: set[str] = field(default_factory=set[str])
    of: dict[str, Kind] = field(default_factory=dict[str, Kind])
    digits: Digits | None = None

    def grows(self, n: c.Node) -> int | None:
        """Return by how much an index grows from lane to lane; None where it is not known."""
        low = self.digits.low.keys() if self.digits is not None else set[str]()
        mine = {v: k if isinstance(k, int) else None for v, k in self.of.items() if v not in low}
        alone = step(n, mine)
        if self.digits is None or alone is None:
            return alone
        joined = self.digits.steps(n)
        return None if joined is None else alone + joined

    def kind(self, n: c.Node) -> Kind:
        """Return the kind of an expression."""
        match n:
            case c.Constant():
                return 0
            case c.ID(name=name):
                return self.of.get(name, VARYING)
            case c.StructRef(name=c.ID(name=name)) if name in AXES:
                axis = n.field.name
                return AGAIN if name == "threadIdx" and (axis == "x" or self.wide) else 0
            case c.StructRef(name=base):
                return 0 if self.kind(base) == 0 else VARYING
            case c.BinaryOp():
                return self._binary(n)
            case c.UnaryOp(op="-", expr=inner):
                kind = self.kind(inner)
                return -kind if isinstance(kind, int) and self.integer(inner) else kind
            case c.UnaryOp(op=("!" | "~"), expr=inner):
                return self._all(inner)
            case c.UnaryOp(op="&", expr=c.ArrayRef() as inner):
                return self.kind(inner)
            case c.Cast(expr=inner):
                return self._all(inner)
            case c.TernaryOp(cond=a, iftrue=x, iffalse=y):
                return self._all(a, x, y)
            case c.ArrayRef(name=c.ID(name=name), subscript=at):
                return 0 if name in self.readonly and self.kind(at) == 0 else VARYING
            case c.FuncCall(name=c.ID(name=name), args=args):
                if name.startswith(_IMPURE):
                    return VARYING
                return self._all(*(args.exprs if args else ()))
            case _:
                return VARYING

    def _all(self, *parts: c.Node) -> Kind:
        kinds = [self.kind(p) for p in parts]
        if all(k == 0 for k in kinds):
            return 0
        return VARYING if VARYING in kinds else AGAIN

    def integer(self, n: c.Node) -> bool:
        """Return whether an expression is a signed integer of i64 variables and literals."""
        return all(
            (isinstance(x, c.ID) and x.name in self.integers)
            or literal(x) is not None
            or (isinstance(x, c.BinaryOp) and x.op in "+-*/%")
            or (isinstance(x, c.UnaryOp) and x.op == "-")
            for x in nodes(n)
        )

    def _binary(self, n: c.BinaryOp) -> Kind:
        left, right = self.kind(n.left), self.kind(n.right)
        if left == 0 and right == 0:
            return 0
        if VARYING in (left, right):
            return VARYING
        if isinstance(left, int) and isinstance(right, int) and self.integer(n):
            if n.op == "+":
                return left + right
            if n.op == "-":
                return left - right
            if n.op == "*":
                by_left, by_right = literal(n.left), literal(n.right)
                if by_right is not None:
                    return left * by_right
                if by_left is not None:
                    return right * by_left
        if n.op in ("/", "%"):
            by = literal(n.right)
            return AGAIN if by is not None and by > 0 and by & (by - 1) == 0 else VARYING
        return AGAIN
