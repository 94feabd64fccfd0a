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

# Kinds of nodes that are no ops: a call, what runs functions on a condition, what binds a symbol.
CALL = "call"  # call(*operands); attr callee
IF = "if"  # if(cond, *captures); attrs then, otherwise, binds
WHILE = "while"  # while(*carried, *captures); attrs cond, body, carried, binds
SCAN = "scan"  # scan(*states, *scanned, *captures); attrs body, states, scanned, length, index
BIND = "bind"  # bind(n); no result; attr dim
CONTROL = (IF, WHILE, SCAN, BIND)
TO = "to"  # the op that copies a value to another device
PRIMITIVE = "Primitive"  # attr of a function that becomes one kernel
RESHAPE_ONLY = "reshape_only"  # attr of a Primitive whose result is its operand's bytes
NO_INLINE = "NoInline"  # attr of a function whose calls stay, down to the program
STAGES = "Stages"  # attr of a Primitive: positions of the nodes whose results it stores on the way
KERNEL = "Kernel"  # attr naming the kernel that a user wrote for a Primitive function
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
        """The attributes by name."""
        return dict(self.attrs)

    @property
    def callee(self) -> str:
        """The name of the function that a ``call`` node applies."""
        return str(self.attr["callee"])


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a function: its name and type."""

    name: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class Function:
    """A function of tensors; ``results`` name parameters or results of nodes."""

    name: str
    params: tuple[Param, ...]
    nodes: tuple[Node, ...]
    results: tuple[str, ...]
    attrs: Attrs = ()

    @property
    def attr(self) -> dict[str, Attr]:
        """The attributes by name."""
        return dict(self.attrs)

    def types(self) -> dict[str, TensorType]:
        """Return the type of every value by name, in the order of definition.

        Strides of parameters, which no value depends on, are left out.
        """
        table = {p.name: p.type.dense for p in self.params}
        for n in self.nodes:
            table.update(zip(n.results, n.types, strict=True))
        return table

    def stored_types(self) -> dict[str, TensorType]:
        """Return the types as of ``types``, those of parameters with their strides."""
        return self.types() | {p.name: p.type for p in self.params}

    def result_types(self) -> tuple[TensorType, ...]:
        """Return the types of the results, in order."""
        types = self.types()
        return tuple(types[r] for r in self.results)


@dataclass(frozen=True, slots=True)
class Module:
    """A program as a graph: functions, callees before callers, of which the last is the entry.

    ``dims`` declares every symbol of every function.
    """

    functions: tuple[Function, ...]
    dims: tuple[DimVar, ...] = ()

    @property
    def entry(self) -> Function:
        """The function that users call."""
        return self.functions[-1]

    def function(self, name: str) -> Function:
        """Return the function of that name; KeyError if there is none."""
        return {f.name: f for f in self.functions}[name]

    def ranges(self) -> dict[str, tuple[int, int]]:
        """Return the first and last value of each symbol's range, by name."""
        return {v.name: (v.lo, v.hi) for v in self.dims}


def structural_hash(f: Function) -> str:
    """Return a hash of a function that does not depend on its name or on those of its values.

    Two functions with one hash that call nothing lower to the same kernel.
    """
    number: dict[str, int] = {}

    def define(names: Iterable[str]) -> None:
        for name in names:
            number[name] = len(number)

    h = hashlib.sha256()
    define(p.name for p in f.params)
    h.update(repr([str(p.type) for p in f.params]).encode())
    for n in f.nodes:
        types = [str(t) for t in n.types]
        h.update(repr((n.op, [number[x] for x in n.args], types, attrs(n.attr))).encode())
        define(n.results)
    h.update(repr(([number[r] for r in f.results], f.attrs)).encode())
    return h.hexdigest()[:16]


def stages(f: Function) -> tuple[tuple[tuple[str, ...], tuple[Node, ...]], ...]:
    """Return the stages of a Primitive function, in order: what each stores, and its nodes.

    Each value that is stored on the way has a stage, and the results that are none of these have
    the last one.  The nodes of a stage are those that compute what it stores from operands and from
    what was stored before.
    """
    positions = f.attr.get(STAGES, ())
    assert isinstance(positions, tuple)
    ends = [f.nodes[n].results for n in positions if isinstance(n, int)]
    stored = {r for end in ends for r in end}
    defs = {r: i for i, n in enumerate(f.nodes) for r in n.results}
    found: list[tuple[tuple[str, ...], tuple[Node, ...]]] = []
    for end in (*ends, tuple(r for r in f.results if r not in stored)):
        todo, used = [*end], set[int]()
        while todo:
            i = defs.get(todo.pop())
            if i is not None and i not in used:
                used.add(i)
                todo += (a for a in f.nodes[i].args if a not in stored)
        found.append((end, tuple(f.nodes[i] for i in sorted(used))))
    return tuple(found)


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
