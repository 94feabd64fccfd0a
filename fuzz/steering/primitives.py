"""Graphs whose Primitive functions are drawn, and not chosen by fusion.

Fusion makes only some Primitive functions: it computes no fold twice, lets nothing follow a
scatter, and merges results of one shape alone.  Lowering and schedules must be right for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from didyma.fuzz.chooser import Chooser
from didyma.fuzz.graphs import Case
from didyma.refimpl.ir.graph import CALL, PRIMITIVE, Function, Node, Param, attrs
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Kind

MOST = 6  # nodes of one Primitive function, beside constants
FOLDING = (Kind.REDUCTION, Kind.OPAQUE)


def cut(case: Case, c: Chooser) -> Case:
    """Return a case whose nodes are divided among Primitive functions at random.

    Each has some nodes in a row, of which at most one folds or is opaque; its results are the
    values that are read outside of it, and sometimes others.  A graph that calls or runs functions,
    or whose entry has an attribute, stays as it is.
    """
    f = case.module.entry
    if f.attrs or any(n.op not in OPS for n in f.nodes) or len(case.module.functions) > 1:
        return case
    scalars = {n.results[0]: n for n in f.nodes if n.op == "constant" and not n.types[0].rank}
    weights = tuple(n for n in f.nodes if n.op == "constant" and n.types[0].rank)
    parts = list(_parts([n for n in f.nodes if n.op != "constant"], c))
    functions: list[Function] = []
    calls: list[Node] = []
    wanted = set(f.results)
    for number in reversed(range(len(parts))):
        made = _function(f"part_{number}", parts[number], scalars, f, wanted, c)
        if made is None:
            continue
        functions.insert(0, made)
        reads = tuple(p.name for p in made.params)
        callee = attrs({"callee": made.name})
        calls.insert(0, Node(made.results, CALL, reads, made.result_types(), callee))
        wanted.update(reads)
    kept = tuple(n for n in scalars.values() if n.results[0] in wanted)
    main = replace(f, nodes=(*kept, *weights, *calls))
    # Simplification would leave little of what was drawn.
    changes = dict(case.changes) | ({} if c.chance(4) else {"graph.simplify": False})
    m = replace(case.module, functions=(*functions, main))
    return replace(case, module=m, changes=tuple(changes.items()))


def _parts(nodes: Sequence[Node], c: Chooser) -> Iterator[list[Node]]:
    """Yield nodes in a row, at most one of which folds."""
    part: list[Node] = []
    most = 1 + c.below(MOST)
    for n in nodes:
        folds = OPS[n.op].kind in FOLDING and any(OPS[x.op].kind in FOLDING for x in part)
        if part and (folds or len(part) == most):
            yield part
            part, most = [], 1 + c.below(MOST)
        part.append(n)
    if part:
        yield part


def _function(
    name: str,
    part: Sequence[Node],
    scalars: dict[str, Node],
    f: Function,
    wanted: set[str],
    c: Chooser,
) -> Function | None:
    """Return a Primitive function of some nodes; None if nothing reads any of them."""
    made = [r for n in part for r in n.results]
    results = [r for r in made if r in wanted]
    if not results:
        return None
    if c.chance(4):  # also a value that is read inside alone
        results = list(dict.fromkeys((*results, c.pick(made))))
    read = dict.fromkeys(a for n in part for a in n.args if a not in made)
    inside = tuple(scalars[a] for a in read if a in scalars)
    types = f.types()
    params = tuple(Param(a, types[a]) for a in read if a not in scalars)
    return Function(name, params, (*inside, *part), tuple(results), attrs({PRIMITIVE: 1}))
