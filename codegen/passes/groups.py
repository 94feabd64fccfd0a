"""Groups of nodes that become one function, and the module they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from refimpl.ir.graph import (
    CALL,
    PRIMITIVE,
    RESHAPE_ONLY,
    Attrs,
    Function,
    Module,
    Node,
    Param,
    attrs,
    structural_hash,
)
from refimpl.ir.types import TensorType

NAME = 40  # characters a function's name may have
IN_KERNEL: Attrs = ((PRIMITIVE, 1),)
VIEW: Attrs = ((PRIMITIVE, 1), (RESHAPE_ONLY, 1))


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes of one kernel, view or call, by position in the entry and in order.

    ``reads`` are stored values, parameters and weights; ``aligned`` those of them that are read
    at the index of the element computed and nowhere else; a ``pointwise`` group has no fold.
    """

    at: tuple[int, ...]
    nodes: tuple[Node, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    call: bool = False
    view: bool = False
    pointwise: bool = False
    aligned: frozenset[str] = frozenset()


def emit(m: Module, groups: Sequence[Group]) -> Module:
    """Make functions of groups, one for all that hash alike, and an entry that calls them."""
    entry = m.entry
    types = entry.types()
    names = _Names({f.name for f in m.functions})
    made: dict[str, Function] = {}
    calls: list[Node] = []
    for g in in_order(groups):
        if g.call:
            calls.append(g.nodes[0])
            continue
        f = _function(g, types)
        key = structural_hash(f)
        if key not in made:
            made[key] = replace(f, name=names.of(g))
        callee = attrs({"callee": made[key].name})
        calls.append(Node(g.writes, CALL, g.reads, tuple(types[w] for w in g.writes), callee))
    used = {a for n in calls for a in n.args} | set(entry.results)
    constants = tuple(n for n in entry.nodes if n.op == "constant" and n.results[0] in used)
    new = replace(entry, nodes=(*constants, *calls))
    return replace(m, functions=(*m.functions[:-1], *made.values(), new))


def _function(g: Group, types: dict[str, TensorType]) -> Function:
    params = tuple(Param(a, types[a]) for a in g.reads)
    return Function("", params, g.nodes, g.writes, VIEW if g.view else IN_KERNEL)


class _Names:
    """Readable names, unique in the module: C identifiers of at most ``NAME`` characters."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._count = 0

    def of(self, g: Group) -> str:
        ops = "_".join(n.op for n in g.nodes if n.op != "constant")
        while True:
            tail = f"_{self._count}"
            self._count += 1
            name = f"fused_{ops}"[: NAME - len(tail)].rstrip("_") + tail
            if name not in self._taken:
                self._taken.add(name)
                return name


def in_order(groups: Sequence[Group]) -> list[Group]:
    """Sort groups so that each follows those it reads from; else by what they store."""
    writer = {w: g for g in groups for w in g.writes}
    done: list[Group] = []
    state: dict[int, bool] = {}  # a group's last node: being visited, or finished
    for top in sorted(groups, key=lambda g: g.at[-1]):
        stack = [top]
        while stack:
            g = stack[-1]
            if g.at[-1] in state:
                stack.pop()
                if not state[g.at[-1]]:
                    state[g.at[-1]] = True
                    done.append(g)
                continue
            state[g.at[-1]] = False
            for a in reversed(g.reads):
                before = writer.get(a)
                if before is not None and before.at[-1] not in state:
                    stack.append(before)
                else:
                    assert before is None or state[before.at[-1]], f"cycle through {a}"
    return done
