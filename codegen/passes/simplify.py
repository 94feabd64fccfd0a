"""Rewrites that keep every bit: rules, common subexpressions, dead code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from codegen.passes import algebra, folding, movement
from codegen.passes.values import Values
from refimpl.ir.graph import Attr, Function, Module, Node, rename
from refimpl.ir.types import Tensor

# A rule sees one node and the values before it.  It returns a better node that defines the same
# names with the same types, the name of a value that is the same, or None.
Rule: TypeAlias = Callable[[Node, Values], Node | str | None]

RULES: tuple[tuple[str, Rule], ...] = (
    ("drop identity movement", movement.identity),
    ("reshape instead of moving nothing", movement.as_reshape),
    ("compose movement", movement.compose),
    ("cast once", movement.cast_once),
    ("neutral operand", algebra.neutral),
    ("involution or idempotence", algebra.unary),
    ("equal operands", algebra.same),
    ("known condition", algebra.condition),
    ("fold constants", folding.fold),
)
COMMUTATIVE = frozenset((
    "add", "multiply", "maximum", "minimum", "equal", "not_equal", "logical_and", "logical_or",
    "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor",
))  # fmt: skip
MAX_REWRITES = 32  # of one node; every rule shrinks something, so this is never reached


def simplify(m: Module) -> Module:
    """Apply ``RULES`` to each node from the top, merge equal nodes, drop what nobody uses.

    The result computes the same bits, but for NaN payloads and, where an intermediate of f16 or
    bf16 disappears, nothing at all: each rule is exact in the dtype it applies to.
    """
    entry = _drop_dead(_rewrite(m.entry, RULES))
    if entry == m.entry:
        return m
    return replace(m, functions=(*m.functions[:-1], entry))


def _rewrite(f: Function, rules: Sequence[tuple[str, Rule]]) -> Function:
    values = Values.of(f)
    names: dict[str, str] = {}
    known: dict[object, tuple[str, ...]] = {}
    nodes: list[Node] = []
    for old in f.nodes:
        new = _apply(rename(old, names) if names else old, values, rules)
        if isinstance(new, str):
            names[old.results[0]] = new
            continue
        k = _key(new)
        if k in known:
            names.update(zip(new.results, known[k], strict=True))
            continue
        known[k] = new.results
        values.define(new)
        nodes.append(new)
    return replace(f, nodes=tuple(nodes), results=tuple(names.get(r, r) for r in f.results))


def _apply(n: Node, values: Values, rules: Sequence[tuple[str, Rule]]) -> Node | str:
    for _ in range(MAX_REWRITES):
        for _, rule in rules:
            better = rule(n, values)
            if better is not None:
                break
        else:
            return n
        if isinstance(better, str):
            assert values.types[better] == n.types[0], (n, better)
            return better
        assert better.results == n.results, (n, better)
        assert better.types == n.types, (n, better)
        n = better
    return n


def _key(n: Node) -> tuple[object, ...]:
    """What two nodes have in common when they compute the same bits."""
    args = tuple(sorted(n.args)) if n.op in COMMUTATIVE else n.args
    return n.op, args, n.types, tuple((name, _bits(a)) for name, a in n.attrs)


def _bits(a: Attr) -> object:
    """Tell -0.0 from 0.0 and 1 from 1.0 and True; a NaN equals itself."""
    match a:
        case float():
            return "float", a.hex()
        case bool():
            return "bool", a
        case tuple():
            return tuple(_bits(x) for x in a)
        case Tensor():
            return a.dtype, a.shape, a.data
        case _:
            return a


def _drop_dead(f: Function) -> Function:
    live = set(f.results)
    kept: list[Node] = []
    for n in reversed(f.nodes):
        if not live.isdisjoint(n.results):
            live.update(n.args)
            kept.append(n)
    return f if len(kept) == len(f.nodes) else replace(f, nodes=tuple(reversed(kept)))
