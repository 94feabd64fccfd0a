"""Replace branches with constant conditions, and loops that never run, by their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from didyma.codegen.passes.inline import BodyBuilder
from didyma.codegen.passes.values import Values
from didyma.refimpl.ir import control
from didyma.refimpl.ir.graph import CALL, Function, Node, Param, attrs
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.types import Tensor, TensorType

BRANCH = "a branch that is known"
LOOP = "a loop that never runs"
SCAN = "a scan of no steps"


@dataclass(frozen=True, slots=True)
class Replacement:
    """What replaces a control node by a rule: nodes, and the values instead of each result."""

    rule: str

    nodes: Sequence[Node]
    names: Mapping[str, str]


def simplify_control(
    n: Node,
    values: Values,
    table: Mapping[str, Function],
    supply: Names,
    simplify: Callable[[Function], Function],
) -> Replacement | None:
    """Return what replaces a control node; None if that is unknown, or if it binds symbols."""
    if control.rebound(n):
        return None
    match n.op:
        case "if":
            return _branch(n, values, table, supply)
        case "while":
            return _loop(n, values, table, simplify)
        case "scan":
            return _scan(n)
        case _:
            return None


def _branch(
    n: Node, values: Values, table: Mapping[str, Function], supply: Names
) -> Replacement | None:
    """Splice the branch that a constant condition selects, or that both sides call."""
    then, otherwise = control.references(n)
    known = values.splat(n.args[0])
    if known is None and then != otherwise:
        return None
    chosen = table[otherwise if known == b"\x00" else then]
    spliced = BodyBuilder(supply)
    spliced.splice(Node(n.results, CALL, n.args[1:], n.types), chosen)
    return Replacement(BRANCH, spliced.nodes, spliced.names)


def _loop(
    n: Node,
    values: Values,
    table: Mapping[str, Function],
    simplify: Callable[[Function], Function],
) -> Replacement | None:
    """Replace a loop whose test is false at once by the values that it starts with."""
    test = table[control.references(n)[0]]
    constants: list[Node] = []
    params: list[Param] = []
    for p, a in zip(test.params, n.args, strict=True):
        value = values.constant(a)
        if value is None:
            params.append(p)
        else:
            constants.append(_constant(p.name, value, p.type))
    first = Function(test.name, tuple(params), (*constants, *test.nodes), test.results)
    simple = simplify(first)
    known = Values.of(simple)
    for node in simple.nodes:
        known.define(node)
    if known.splat(simple.results[0]) != b"\x00":
        return None
    start = n.args[: control.count(n, "carried")]
    return Replacement(LOOP, (), dict(zip(n.results, start, strict=True)))


def _scan(n: Node) -> Replacement | None:
    """Replace a scan of no steps by its first states and empty stacks."""
    k = control.count(n, "states")
    shapes = [[d for d in t.shape if isinstance(d, int)] for t in n.types[k:]]
    static = all(len(s) == t.rank for s, t in zip(shapes, n.types[k:], strict=True))
    if control.extent(n) != 0 or not static:
        return None
    empty = [
        _constant(r, Tensor(t.dtype, tuple(s), b""), t)
        for r, t, s in zip(n.results[k:], n.types[k:], shapes, strict=True)
    ]
    return Replacement(SCAN, empty, dict(zip(n.results[:k], n.args[:k], strict=True)))


def _constant(name: str, value: Tensor, t: TensorType) -> Node:
    return Node((name,), "constant", (), (t,), attrs({"value": value}))
