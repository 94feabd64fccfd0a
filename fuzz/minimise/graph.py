"""Make a case that shows a disagreement smaller, on the graph itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from didyma.codegen.passes.dead import drop_dead
from didyma.codegen.passes.inline import inline
from didyma.fuzz.graphs import Case, used
from didyma.fuzz.minimise.search import Search, fewest, greedy
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp.graph import values
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.graph import (
    CALL,
    COMPILER,
    NO_INLINE,
    PRIMITIVE,
    WHILE,
    Function,
    Module,
    Node,
    Param,
    attrs,
    rename,
)
from didyma.refimpl.ir.types import Tensor
from didyma.refimpl.verify.graph import verify


def shrink(case: Case) -> Search[Case]:
    """Yield cases of smaller graphs, greedily."""
    return greedy(case, candidates)


def cut_out(case: Case) -> Search[Case]:
    """Yield cases of fewer nodes of the entry: values that they read have become inputs.

    Such an input has the value that the reference gives it in the whole graph.
    """
    f, inputs = case.module.entry, case.inputs()
    try:
        known = values(f, case.module, inputs, dict(case.env))
    except Exception:
        return  # the fault may be the reference's own, and nothing is known then
    given = {name: Tensor.of(x) for name, x in known.items()}
    bounds = _counts(f, case.module)

    def made(chosen: Sequence[int]) -> Case | None:
        nodes = [f.nodes[i] for i in sorted({*fixed, *chosen})]
        return next(_valid([_cut(case, nodes, given)]), None)

    numbers = range(len(f.nodes))
    fixed = [i for i in numbers if not bounds.isdisjoint(f.nodes[i].results)]
    yield from fewest([i for i in numbers if i not in fixed], made)


def _cut(case: Case, nodes: Sequence[Node], known: Mapping[str, Tensor]) -> Case:
    """Return a case of some nodes of the entry; other values that they read are inputs."""
    f, types = case.module.entry, case.module.entry.types()
    made = {r for n in nodes for r in n.results}
    read = dict.fromkeys(a for n in nodes for a in n.args if a not in made)
    sinks = made - {a for n in nodes for a in n.args}
    ends = dict.fromkeys(r for n in nodes for r in n.results if r in sinks)
    results = [r for r in f.results if r in made] or list(f.results)
    results += [r for r in ends if r not in results]
    seeds = dict(zip((p.name for p in f.params), case.seeds, strict=True))
    outside = dict.fromkeys([*read, *(r for r in results if r not in made)])
    params = [p for p in f.params if p.name in outside]
    params += [Param(a, types[a]) for a in outside if a not in seeds]
    given = tuple((p.name, known[p.name]) for p in params)
    wider = replace(case, given=given)
    return _pruned(wider, params, nodes, results, [seeds.get(p.name, 0) for p in params])


def shrink_to_constants(case: Case) -> Search[Case]:
    """Yield cases of fewer nodes, in which constants stand for parts of the entry, greedily.

    Such a constant has the value that the reference gives the part.  A fault that only constants
    show, such as one of constant folding, is lost where the value becomes an input.
    """
    return greedy(case, _constants)


def _constants(case: Case) -> Iterator[Case]:
    f = case.module.entry
    try:
        known = values(f, case.module, case.inputs(), dict(case.env))
    except Exception:
        return  # the fault may be the reference's own, and nothing is known then
    inputs = tuple((p.name, Tensor.of(known[p.name])) for p in f.params)
    whole = replace(case, given=inputs)  # values that a seed draws may depend on their readers
    fixed = _counts(f, case.module).union(f.results)
    for i, n in reversed(list(enumerate(f.nodes))):
        if n.op == "constant" or len(n.results) != 1 or n.results[0] in fixed:
            continue
        if dims.free(n.types[0].shape):
            continue
        value = attrs({"value": Tensor.of(known[n.results[0]])})
        constant = Node(n.results, "constant", (), n.types, value)
        nodes = (*f.nodes[:i], constant, *f.nodes[i + 1 :])
        smaller = _pruned(whole, f.params, nodes, f.results, case.seeds)
        if len(smaller.module.entry.nodes) < len(f.nodes):
            yield from _valid([smaller])


def candidates(case: Case) -> Iterator[Case]:
    """Yield smaller cases that are valid.

    One result alone, an inner value as the result, a node made an input; a branch or body in the
    place of the node that runs it, a loop that is not entered; and in any function a value that
    gives way to one it is computed from, or a node gone whose results nothing reads.
    """
    yield from _valid(_proposals(case))


def _valid(cases: Iterable[Case]) -> Iterator[Case]:
    for smaller in cases:
        try:
            verify(smaller.module)
        except DidymaError:
            continue  # such as a size that nothing binds any more
        if _sized(smaller):
            yield smaller


def _sized(case: Case) -> bool:
    """Return whether a case binds every symbol of its inputs' sizes.

    A node that became an input may have a size that only a run of the nodes before it bound.
    """
    names = {s for p in case.module.entry.params for s in dims.free(p.type.shape)}
    return names <= dict(case.env).keys()


def _proposals(case: Case) -> Iterator[Case]:
    f = case.module.entry
    if len(f.results) > 1:
        for r in f.results:
            yield _pruned(case, f.params, f.nodes, (r,), case.seeds)
    for n in f.nodes[:-1]:
        if n.results:
            smaller = _pruned(case, f.params, f.nodes, n.results, case.seeds)
            if len(smaller.module.entry.nodes) < len(f.nodes):
                yield smaller
    counts = _counts(f, case.module)
    for i, n in enumerate(f.nodes):
        if not counts.isdisjoint(n.results):
            continue
        made = tuple(Param(r, t) for r, t in zip(n.results, n.types, strict=True))
        nodes = f.nodes[:i] + f.nodes[i + 1 :]
        seeds = (*case.seeds, *range(i + 1, i + 1 + len(made)))
        if made and nodes and not set(n.results) & set(f.results):
            yield _pruned(case, (*f.params, *made), nodes, f.results, seeds)
    m = case.module
    for g in m.functions:
        if g.attr.keys() & {COMPILER, NO_INLINE, PRIMITIVE}:
            yield _of(case, _with(m, replace(g, attrs=())))
    if (inlined := inline(m)) != m:
        yield _of(case, inlined)
    for g in case.module.functions:
        for module in _within(case.module, g):
            yield _of(case, module)


def _within(m: Module, f: Function) -> Iterator[Module]:
    """Yield modules in which an operand replaces one node of a function; loops must still end."""
    loops = [n for g in m.functions for n in g.nodes if n.op == WHILE]
    if any(control.references(n)[0] == f.name for n in loops):
        return
    counts = _counts(f, m)
    if any(control.references(n)[1] == f.name for n in loops):
        counts |= {f.results[0]}
    read = {*f.results, *(a for n in f.nodes for a in n.args)}
    for i, n in enumerate(f.nodes):
        if read.isdisjoint(n.results):  # such as what binds a size
            yield _with(m, replace(f, nodes=(*f.nodes[:i], *f.nodes[i + 1 :])))
        if not counts.isdisjoint(n.results):
            continue
        if control.references(n) and n.op != CALL and not control.binds(n):
            for name in control.references(n):
                callee = attrs({"callee": name})
                for args in (n.args, n.args[1:]):
                    call = replace(n, op=CALL, args=args, attrs=callee)
                    yield _with(m, replace(f, nodes=(*f.nodes[:i], call, *f.nodes[i + 1 :])))
        types = f.types()
        for shift in range(2 if control.references(n) else len(n.args)):
            given = n.args[shift : shift + len(n.results)]
            if n.results and [types[a] for a in given] == list(n.types):
                yield _with(m, _without(f, n, given))
        if len(n.results) == 1:
            origins = _origins(f, n)
            like = [a for a in types if a in origins and types[a] == n.types[0]]
            yield from (_with(m, _without(f, n, (a,))) for a in like[:1])


def _without(f: Function, n: Node, given: Sequence[str]) -> Function:
    """Return a function in which other values stand in the places of a node's results."""
    names = dict(zip(n.results, given, strict=True))
    nodes = tuple(rename(x, names) for x in f.nodes if x is not n)
    return replace(f, nodes=nodes, results=tuple(names.get(r, r) for r in f.results))


def _origins(f: Function, n: Node) -> set[str]:
    """Return what a node is computed from, by way of at least one other node."""
    by = {r: x for x in f.nodes for r in x.results}
    found, rest = set[str](), [a for x in n.args if x in by for a in by[x].args]
    while rest:
        a = rest.pop()
        if a not in found:
            found.add(a)
            rest += by[a].args if a in by else ()
    return found


def _counts(f: Function, m: Module) -> set[str]:
    """Values that bound how often loops run: the first count, the limit, and what it is made of.

    Of a call of what has loops, any operand may be one.
    """
    loop: set[str] = set()
    for g in m.functions:
        if any(n.op == WHILE or not loop.isdisjoint(control.references(n)) for n in g.nodes):
            loop.add(g.name)
    by = {r: n for n in f.nodes for r in n.results}
    ends = {
        a
        for n in f.nodes
        if n.op == WHILE
        for a in (n.args[0], *n.args[control.count(n, "carried") :][:1])
    }
    ends |= {a for n in f.nodes if n.op == CALL and n.callee in loop for a in n.args}
    return ends | {a for e in ends if e in by for a in by[e].args}


def _with(m: Module, f: Function) -> Module:
    return replace(m, functions=tuple(f if g.name == f.name else g for g in m.functions))


def _of(case: Case, m: Module) -> Case:
    """Return a case of a smaller module of the same parameters."""
    f = m.entry
    return _pruned(replace(case, module=m), f.params, f.nodes, f.results, case.seeds)


def _pruned(
    case: Case,
    params: Sequence[Param],
    nodes: Sequence[Node],
    results: Sequence[str],
    seeds: Sequence[int],
) -> Case:
    """Return a case of what the results need, and nothing else."""
    f = replace(case.module.entry, params=tuple(params), nodes=tuple(nodes), results=tuple(results))
    m = used(_with(case.module, f))
    checking = control.checking(m)
    m = used(replace(m, functions=tuple(drop_dead(g, checking) for g in m.functions)))
    read = {a for n in m.entry.nodes for a in n.args} | set(results)
    inputs = [(p, s) for p, s in zip(params, seeds, strict=True) if p.name in read]
    m = used(_with(m, replace(m.entry, params=tuple(p for p, _ in inputs))))
    input_symbols = control.input_symbols(m)
    env = tuple((name, n) for name, n in case.env if name in input_symbols)
    names = {p.name for p, _ in inputs}
    given = tuple((name, t) for name, t in case.given if name in names)
    seeds = [s for _, s in inputs]
    return replace(case, module=m, env=env, seeds=tuple(seeds), given=given)
