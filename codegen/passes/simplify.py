"""Rewrites that keep every bit: rules, common subexpressions, dead code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from didyma.codegen.decisions import Heard, Match, unheard
from didyma.codegen.options import DEFAULT, Options
from didyma.codegen.passes import algebra, folding, movement
from didyma.codegen.passes.blocks import blocks
from didyma.codegen.passes.branches import simplify_control
from didyma.codegen.passes.dead import drop_dead
from didyma.codegen.passes.inline import used
from didyma.codegen.passes.values import Values
from didyma.refimpl.ir import control
from didyma.refimpl.ir.graph import CONTROL, Attr, Function, Module, Node, rename
from didyma.refimpl.ir.types import Tensor
from didyma.refimpl.ops import OPS

# A rule sees one node and the values before it.  It returns a better node that defines the same
# names with the same types, or several, of which the last does; the name of a value that is the
# same; or None.
Rewrite: TypeAlias = Callable[[Node, Values], Node | tuple[Node, ...] | str | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rewrite rule: its name, what it does to a node, and what it looks for."""

    name: str
    rewrite: Rewrite
    matches: tuple[Match, ...]


def rules(options: Options) -> tuple[Rule, ...]:
    """Return the rewrite rules in the order in which they are tried."""
    fold = partial(
        folding.fold, operand=options.graph.fold_operand, result=options.graph.fold_result
    )
    found = (
        Rule("drop identity movement", movement.identity, movement.IDENTITY),
        Rule("reshape instead of moving nothing", movement.as_reshape, movement.AS_RESHAPE),
        Rule("compose movement", movement.compose, movement.COMPOSE),
        Rule("repeat instead of moving", movement.repeat, movement.REPEATED),
        Rule("slice instead of gathering one row", movement.row, movement.ROW),
        Rule("cast once", movement.cast_once, movement.CAST_ONCE),
        Rule("neutral operand", algebra.neutral, algebra.NEUTRAL),
        Rule("involution or idempotence", algebra.unary, algebra.UNARY),
        Rule("equal operands", algebra.same, algebra.SAME),
        Rule("constant condition", algebra.condition, algebra.CONDITION),
        Rule("fold constants", fold, folding.FOLD),
        Rule("fold joined slices of constants", folding.fold_joined, ()),
        Rule("fold repeated constants", folding.fold_repeated, folding.REPEATED),
    )
    # On a GPU, a product may read its weights faster as they lie.
    moved = Rule("move constants once", folding.fold_moved, ())
    return (*found, moved) if options.device.in_turn else found


EQUAL_NODES = "merge equal nodes"
MAX_REWRITES = 32  # of one node; every rule shrinks something, so this is never reached


def simplify(m: Module, options: Options = DEFAULT, heard: Heard = unheard) -> Module:
    """Apply the rules to each node in order, merge equal nodes, and drop unused ones.

    This is done in the entry and in the functions that its control nodes run, innermost first.
    Branches with constant conditions, and loops that never run, are replaced by their results.  The
    new module computes the same bits, NaN payloads aside: each rule is exact in the dtype to which
    it applies.
    """
    table = {f.name: f for f in m.functions}
    checking = control.checking(m)
    chosen = rules(options)
    for f in blocks(m).values():
        table[f.name] = drop_dead(_rewrite(f, chosen, table, heard), checking)
    if all(table[f.name] == f for f in m.functions):
        return m
    return used(replace(m, functions=tuple(table.values())), m)


def _rewrite(
    f: Function, rules: Sequence[Rule], table: Mapping[str, Function], heard: Heard
) -> Function:
    values = Values.of(f)
    names: dict[str, str] = {}
    known: dict[object, tuple[str, ...]] = {}
    nodes: list[Node] = []

    def alone(g: Function) -> Function:
        return _rewrite(g, rules, table, unheard)

    # A stack of what is left to do: nodes, and names of results to enter after the nodes above.
    todo: list[Node | Mapping[str, str]] = list(reversed(f.nodes))
    while todo:
        old = todo.pop()
        if not isinstance(old, Node):
            names.update({k: names.get(v, v) for k, v in old.items()})
            continue
        n = rename(old, names) if names else old
        new: Node | tuple[Node, ...] | str = n
        if n.op in CONTROL:
            instead = simplify_control(n, values, table, values.names, alone)
            if instead is not None:
                heard(instead.rule, n.results[0])
                todo += [instead.names, *reversed(instead.nodes)]
                continue
        elif n.op in OPS:
            new = _apply(n, values, rules, heard)
        if isinstance(new, str):
            names[old.results[0]] = new
            continue
        if isinstance(new, tuple):
            todo += reversed(new)
            continue
        k = _key(new)
        if k in known:
            heard(EQUAL_NODES, new.results[0])
            names.update(zip(new.results, known[k], strict=True))
            continue
        known[k] = new.results
        values.define(new)
        nodes.append(new)
    return replace(f, nodes=tuple(nodes), results=tuple(names.get(r, r) for r in f.results))


def _apply(
    n: Node, values: Values, rules: Sequence[Rule], heard: Heard
) -> Node | tuple[Node, ...] | str:
    for _ in range(MAX_REWRITES):
        for rule in rules:
            better = rule.rewrite(n, values)
            if better is not None:
                heard(rule.name, n.results[0])
                break
        else:
            return n
        if isinstance(better, str):
            assert values.types[better] == n.types[0], (n, better)
            return better
        last = better[-1] if isinstance(better, tuple) else better
        assert last.results == n.results, (n, better)
        assert last.types == n.types, (n, better)
        if isinstance(better, tuple):
            return better
        n = better
    return n


def _key(n: Node) -> tuple[object, ...]:
    """Return a key that two nodes share only if they compute the same bits."""
    op = OPS.get(n.op)
    args = tuple(sorted(n.args)) if op is not None and op.laws.commutative else n.args
    return n.op, args, n.types, tuple((name, _bits(a)) for name, a in n.attrs)


def _bits(a: Attr) -> object:
    """Return a key under which -0.0 and 0.0 differ, as 1, 1.0 and True do; a NaN equals itself."""
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
