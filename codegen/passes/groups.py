"""Groups of nodes, each of which becomes one Primitive function, and the module of them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from didyma.codegen.decisions import Heard, unheard
from didyma.codegen.passes.blocks import blocks
from didyma.codegen.passes.dead import drop_dead
from didyma.refimpl.ir import control
from didyma.refimpl.ir.graph import (
    CALL,
    PRIMITIVE,
    RESHAPE_ONLY,
    STAGES,
    Attrs,
    Function,
    Module,
    Node,
    Param,
    attrs,
    structural_hash,
)
from didyma.refimpl.ir.types import TensorType

SHARED = "share an equal kernel"
NAME = 40  # characters a function's name may have
IN_KERNEL: Attrs = ((PRIMITIVE, 1),)
VIEW: Attrs = ((PRIMITIVE, 1), (RESHAPE_ONLY, 1))


@dataclass(frozen=True, slots=True)
class FusionGroup:
    """The nodes of one kernel, view or call, in order, with their positions in the function.

    ``reads`` are stored values, parameters and weights; ``aligned`` are those of them that are read
    only at the index of the element computed, as far as is known of groups that were not joined; a
    ``pointwise`` group has no fold.  A group runs ``after`` those that bind these symbols, and
    stores the values ``stages`` on the way.
    """

    at: tuple[int, ...]
    nodes: tuple[Node, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    call: bool = False
    view: bool = False
    pointwise: bool = False
    aligned: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    binds: frozenset[str] = frozenset()
    stages: tuple[str, ...] = ()


Grouping: TypeAlias = Callable[[Function, Mapping[str, frozenset[str]]], Sequence[FusionGroup]]


def emit(m: Module, grouping: Grouping, heard: Heard = unheard) -> Module:
    """Make a function of each group and replace the group by a call; equal groups share a function.

    This is done in the entry and in the functions that its control nodes run, without what their
    results do not need.
    """
    mentioned = control.mentioned(m)
    checking = control.checking(m)
    names = _KernelNames({f.name for f in m.functions})
    made: dict[str, Function] = {}
    entered = blocks(m)
    new: dict[str, Function] = {}
    for given in entered.values():
        f = drop_dead(given, checking)
        types = f.types()
        groups = in_order(grouping(f, mentioned))
        nodes = [g.nodes[0] if g.call else _call(g, types, made, names, heard) for g in groups]
        used = {a for n in nodes for a in n.args} | set(f.results)
        constants = tuple(n for n in f.nodes if n.op == "constant" and n.results[0] in used)
        new[f.name] = replace(f, nodes=(*constants, *nodes))
    kept = (f for f in m.functions if f.name not in entered)
    return replace(m, functions=(*kept, *made.values(), *new.values()))


def _call(
    g: FusionGroup,
    types: dict[str, TensorType],
    made: dict[str, Function],
    names: _KernelNames,
    heard: Heard,
) -> Node:
    f = _function(g, types)
    key = structural_hash(f)
    if key in made:
        heard(SHARED, g.writes[0])
    else:
        made[key] = replace(f, name=names.of(g))
    callee = attrs({"callee": made[key].name})
    return Node(g.writes, CALL, g.reads, tuple(types[w] for w in g.writes), callee)


def _function(g: FusionGroup, types: dict[str, TensorType]) -> Function:
    params = tuple(Param(a, types[a]) for a in g.reads)
    made = VIEW if g.view else IN_KERNEL
    if g.stages:
        at = {r: i for i, n in enumerate(g.nodes) for r in n.results}
        made = attrs({**dict(made), STAGES: tuple(at[s] for s in g.stages)})
    return Function("", params, g.nodes, g.writes, made)


class _KernelNames:
    """A supply of unique function names: C identifiers of at most ``NAME`` characters."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._count = 0

    def of(self, g: FusionGroup) -> str:
        ops = "_".join(n.op for n in g.nodes if n.op != "constant")
        ops = "attention" if g.stages else ops
        while True:
            tail = f"_{self._count}"
            self._count += 1
            name = f"fused_{ops}"[: NAME - len(tail)].rstrip("_") + tail
            if name not in self._taken:
                self._taken.add(name)
                return name


def in_order(groups: Sequence[FusionGroup]) -> list[FusionGroup]:
    """Sort groups topologically: each follows those that it reads from or takes symbols from."""
    writer = {w: g for g in groups for w in g.writes}
    binder = {s: g for g in groups for s in g.binds}
    done: list[FusionGroup] = []
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
            needs = [writer.get(a) for a in reversed(g.reads)]
            for before in (*needs, *(binder.get(s) for s in sorted(g.after))):
                if before is not None and before.at[-1] not in state:
                    stack.append(before)
                else:
                    assert before is None or state[before.at[-1]], f"cycle through {before.writes}"
    return done
