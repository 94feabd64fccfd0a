"""Tensor graphs: functions of SSA values, immutable, compared by value.

A name defines one value; a node may define several.  Everything a pass changes, it rebuilds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import sympy

from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.types import DType, Tensor, TensorType

Attr: TypeAlias = "bool | int | float | str | DType | Tensor | sympy.Expr | tuple[Attr, ...]"
Attrs: TypeAlias = tuple[tuple[str, Attr], ...]

CALL = "call"  # the one node kind that is no op: applies the function named by attr `callee`
# Node kinds that are no ops either: they run functions by a condition, or bind a symbol to a value.
IF = "if"  # if(cond, *captures); attrs then, otherwise, binds
WHILE = "while"  # while(*carried, *captures); attrs cond, body, carried, binds
SCAN = "scan"  # scan(*states, *scanned, *captures); attrs body, states, scanned, length, index
BIND = "bind"  # bind(n); no result; attr dim
CONTROL = (IF, WHILE, SCAN, BIND)
PRIMITIVE = "Primitive"  # attr of a function that becomes one kernel
RESHAPE_ONLY = "reshape_only"  # attr of a Primitive whose result is its operand's bytes
NO_INLINE = "NoInline"  # attr of a function whose calls stay, down to the program
COMPILER = "Compiler"  # attr naming the external compiler or library that a function goes to


def attrs(items: Mapping[str, Attr]) -> Attrs:
    """Freeze attributes, sorted by name."""
    return tuple(sorted(items.items()))


@dataclass(frozen=True, slots=True)
class Node:
    """One use of an op: ``results = op(args, **attrs) : types``."""

    results: tuple[str, ...]
    op: str
    args: tuple[str, ...]
    types: tuple[TensorType, ...]
    attrs: Attrs = ()

    @property
    def attr(self) -> dict[str, Attr]:
        """Attributes by name."""
        return dict(self.attrs)

    @property
    def callee(self) -> str:
        """The function a ``call`` node applies."""
        return str(self.attr["callee"])


@dataclass(frozen=True, slots=True)
class Param:
    """A function's operand."""

    name: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class Function:
    """Tensors in, tensors out.  ``results`` name parameters or node results."""

    name: str
    params: tuple[Param, ...]
    nodes: tuple[Node, ...]
    results: tuple[str, ...]
    attrs: Attrs = ()

    @property
    def attr(self) -> dict[str, Attr]:
        """Attributes by name."""
        return dict(self.attrs)

    def types(self) -> dict[str, TensorType]:
        """Type of every value, in definition order."""
        found = {p.name: p.type for p in self.params}
        for n in self.nodes:
            found.update(zip(n.results, n.types, strict=True))
        return found

    def result_types(self) -> tuple[TensorType, ...]:
        """Types of the results, in order."""
        types = self.types()
        return tuple(types[r] for r in self.results)


@dataclass(frozen=True, slots=True)
class Module:
    """Functions, callees before callers; the last is the entry.

    ``dims`` declares every symbol of every function.
    """

    functions: tuple[Function, ...]
    dims: tuple[DimVar, ...] = ()

    @property
    def entry(self) -> Function:
        """The function a user calls."""
        return self.functions[-1]

    def function(self, name: str) -> Function:
        """Return the function of that name; KeyError if there is none."""
        return {f.name: f for f in self.functions}[name]

    def ranges(self) -> dict[str, tuple[int, int]]:
        """Inclusive range of each symbol."""
        return {v.name: (v.lo, v.hi) for v in self.dims}


def structural_hash(f: Function, callees: Mapping[str, str] | None = None) -> str:
    """Hash of a function up to the names of its values (and its own).

    ``callees`` gives the hashes of functions it calls.  Two functions with one hash lower to the
    same kernel.
    """
    number: dict[str, int] = {}

    def define(names: Iterable[str]) -> None:
        for name in names:
            number[name] = len(number)

    h = hashlib.sha256()
    define(p.name for p in f.params)
    h.update(repr([str(p.type) for p in f.params]).encode())
    for n in f.nodes:
        a = n.attr
        if n.op == CALL and callees:
            a["callee"] = callees.get(n.callee, n.callee)
        types = [str(t) for t in n.types]
        h.update(repr((n.op, [number[x] for x in n.args], types, attrs(a))).encode())
        define(n.results)
    h.update(repr(([number[r] for r in f.results], f.attrs)).encode())
    return h.hexdigest()[:16]


def is_called(f: Function) -> bool:
    """Return whether a function is compiled once, and called by the program."""
    return NO_INLINE in f.attr and COMPILER not in f.attr


def rename(n: Node, names: Mapping[str, str]) -> Node:
    """Replace operand and result names; names that are not in the table stay."""
    return replace(
        n,
        results=tuple(names.get(r, r) for r in n.results),
        args=tuple(names.get(a, a) for a in n.args),
    )
