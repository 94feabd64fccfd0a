"""What control nodes of a graph refer to and bind, for verifiers, interpreters and passes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace

import sympy

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import (
    BIND,
    CALL,
    IF,
    SCAN,
    WHILE,
    Attr,
    Module,
    Node,
)
from didyma.refimpl.ir.types import TensorType

# Attributes that name functions, by node kind, in the order in which the functions run.
REFERENCES: Mapping[str, tuple[str, ...]] = {
    CALL: ("callee",),
    IF: ("then", "otherwise"),
    WHILE: ("cond", "body"),
    SCAN: ("body",),
}


def references(n: Node) -> tuple[str, ...]:
    """Return the names of the functions that a node calls or runs.

    >>> references(Node((), CALL, (), (), (("callee", "f"),)))
    ('f',)
    """
    names = REFERENCES.get(n.op)
    if names is None:
        return ()
    attr = n.attr
    return tuple(str(attr[k]) for k in names)


def rename_references(n: Node, names: Mapping[str, str]) -> Node:
    """Replace the names of the functions that a node calls or runs; others stay."""
    kinds = REFERENCES.get(n.op, ())
    if not kinds:
        return n
    new = tuple((k, names.get(str(v), v) if k in kinds else v) for k, v in n.attrs)
    return n if new == n.attrs else replace(n, attrs=new)


def rebound(n: Node) -> tuple[str, ...]:
    """Return the symbols that an ``if`` or ``while`` binds by the shapes of its results."""
    if n.op not in (IF, WHILE):
        return ()
    names = n.attr["binds"]
    assert isinstance(names, tuple)
    return tuple(str(s) for s in names)


def binds(n: Node) -> tuple[str, ...]:
    """Return the symbols that have a value after a node, and none before it."""
    return (str(n.attr["dim"]),) if n.op == BIND else rebound(n)


def inner(n: Node) -> tuple[str, ...]:
    """Return the symbols that have a value inside the functions that a node runs, not before it."""
    if n.op == SCAN:
        index = str(n.attr["index"])
        return (index,) if index else ()
    return rebound(n) if n.op == WHILE else ()


def count(n: Node, name: str) -> int:
    """Return an attribute that is an int, such as ``carried``."""
    value = n.attr[name]
    assert isinstance(value, int), n
    return value


def extent(n: Node) -> Dim:
    """Return how often the body of a ``scan`` runs."""
    length = n.attr["length"]
    assert isinstance(length, (int, sympy.Expr)), n
    return length


def input_symbols(m: Module) -> frozenset[str]:
    """Return the symbols that the entry's parameters bind; nodes bind the others."""
    return frozenset(dims.free(d for p in m.entry.params for d in p.type.sizes))


def shape_symbols(m: Module) -> frozenset[str]:
    """Return the symbols in the shapes of the entry's parameters, on which values may depend."""
    return frozenset(dims.free(d for p in m.entry.params for d in p.type.shape))


def bound(m: Module) -> frozenset[str]:
    """Return the symbols that nodes of a module bind, after them or inside what they run."""
    return frozenset(s for f in m.functions for n in f.nodes for s in (*binds(n), *inner(n)))


def attr_symbols(a: Attr) -> tuple[str, ...]:
    """Return the symbols that occur in an attribute."""
    if isinstance(a, sympy.Expr):
        return dims.free(a)
    if isinstance(a, tuple):
        return tuple(s for x in a if not isinstance(x, int) for s in attr_symbols(x))
    return ()


def symbols(n: Node) -> frozenset[str]:
    """Return the symbols in the types and attributes of a node."""
    sizes = [d for t in n.types for d in t.shape if not isinstance(d, int)]
    return frozenset((*dims.free(sizes), *(s for _, a in n.attrs for s in attr_symbols(a))))


def solve(
    want: Iterable[TensorType], got: Iterable[TensorType], unknown: Collection[str]
) -> dict[str, Dim]:
    """Return the sizes that make the wanted types the given ones.

    The first axis that is a symbol alone gives its size.  Whether the types agree otherwise is
    for the caller to check.

    >>> from didyma.refimpl.ir.types import DType
    >>> n = dims.symbol("n")
    >>> solve([TensorType(DType.F32, (n, 2 * n))], [TensorType(DType.F32, (3, 6))], ["n"])
    {'n': 3}
    """
    sizes: dict[str, Dim] = {}
    for w, g in zip(want, got, strict=False):
        for a, b in zip(w.shape, g.shape, strict=False):
            if isinstance(a, sympy.Symbol) and a.name in unknown:
                sizes.setdefault(a.name, b)
    return sizes


def put_type(t: TensorType, sizes: Mapping[str, Dim]) -> TensorType:
    """Replace symbols in a type, all at once."""
    if not sizes or all(isinstance(d, int) for d in t.shape):
        return t
    return t.with_shape(*(dims.substitute(d, sizes) for d in t.shape))


def put_types(ts: Sequence[TensorType], sizes: Mapping[str, Dim]) -> tuple[TensorType, ...]:
    """Replace symbols in types, all at once."""
    return tuple(put_type(t, sizes) for t in ts)


def checks(n: Node, checking: Set[str]) -> bool:
    """Return whether a node binds a symbol, or calls or runs a function that does."""
    return bool(binds(n)) or not checking.isdisjoint(references(n))


def checking(m: Module) -> frozenset[str]:
    """Return the names of the functions that bind a symbol, also in what they call or run.

    To bind a symbol is to check that its value is in its range, so such functions may fail.
    """
    names: set[str] = set()
    for f in m.functions:
        if any(checks(n, names) for n in f.nodes):
            names.add(f.name)
    return frozenset(names)


def mentioned(m: Module) -> dict[str, frozenset[str]]:
    """Return the symbols that each function, and what it calls or runs, mentions."""
    if not m.dims:
        return {f.name: frozenset() for f in m.functions}
    table: dict[str, frozenset[str]] = {}
    for f in m.functions:
        names = set(dims.free(d for p in f.params for d in p.type.shape))
        for n in f.nodes:
            names |= symbols(n)
            names.update(*(table[r] for r in references(n)))
        table[f.name] = frozenset(names)
    return table
