"""Near misses: cases that differ in one place from one in which the compiler decided something.

What keeps a rewrite rule from where it does not hold is a condition, such as that a value has no
other reader, or that an axis is the last one.  A slip in it shows in graphs that are all that the
rule looks for but for that.  So a decision of a drawn graph is taken, the graph is changed in one
place near the value that it was about, and of some changes one after which the decision is no
longer made is best.  Changes come from a closed list: of an attribute, an operand, a dtype, a size,
an op, a reader more, or a function around a node.

It is mutation of a corpus by what it covers, as in fuzzers of programs (M. Zalewski, "american
fuzzy lop", 2014), with the decisions of the compiler as what is covered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.fuzz import counters
from didyma.fuzz.builder import MAX_ELEMENTS
from didyma.fuzz.chooser import Chooser
from didyma.fuzz.graphs import Case
from didyma.fuzz.minimise.retype import Retype, inferred, rewritten
from didyma.fuzz.steering.sketch import nearly
from didyma.fuzz.values import corners
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import (
    CALL,
    IF,
    NO_INLINE,
    PRIMITIVE,
    WHILE,
    Attr,
    Attrs,
    Function,
    Module,
    Node,
    Param,
    rename,
)
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.types import PLAIN, DType, Tensor, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.verify.graph import verify

TRIES = 6  # changes that are tried until one fits
BODIES = 4  # of so many changes, one is inside of a branch, a loop or a function
SQUARED = 4  # and before one in so many all axes are made as long: then others fit as well
MISSES = 2  # cases that are compiled until a decision is no longer made

Values: TypeAlias = Mapping[str, Sequence[str]]  # what decisions were about, by their names
Change: TypeAlias = Callable[[Module, int, Chooser], Module | None]  # of a node of the entry


def near_miss(case: Case, c: Chooser, base: Options) -> Case:
    """Return a case near one in which passes decided something; the case itself if none fits."""
    made = decided(case, base)
    if not made:
        return near(case, (), c) or case
    name = c.pick(sorted(made))
    value = c.pick(made[name])
    found = case
    for _ in range(MISSES):
        found = near(case, (value,), c) or found
        if value not in decided(found, base).get(name, ()):
            break
    return found


def decided(case: Case, base: Options) -> Values:
    """Return the values that each decision of the graph passes is about; none if they fail."""
    heard, hear = counters.listener()
    options = case.options(base)
    try:
        compile(case.module, options, until="fuse" if options.graph.fuse else "separate",
                heard=hear)  # fmt: skip
    except Exception:
        return {}  # which the judge of the case tells of
    return heard


def near(case: Case, about: Sequence[str], c: Chooser) -> Case | None:
    """Return a valid case that differs in one place near some values; None if no change fits.

    A case with loops that end on a condition stays as it is: changed, they might not end.
    """
    m = case.module
    if any(n.op == WHILE for f in m.functions for n in f.nodes):
        return None
    for _ in range(TRIES):
        inner = len(m.functions) > 1 and c.chance(BODIES)
        end = c.below(len(m.functions)) + 1 if inner else len(m.functions)
        below = replace(m, functions=m.functions[:end])
        numbers = _around(below.entry, about) or range(len(below.entry.nodes))
        if not numbers:
            return None
        before = (c.chance(SQUARED) and squared(below, c)) or below
        changed = c.pick(CHANGES)(before, c.pick(numbers), c)
        if changed is None or changed == below:
            continue
        whole = replace(changed, functions=(*changed.functions, *m.functions[end:]))
        if (found := _valid(case, whole)) is not None:
            return found
    return None


def _around(f: Function, about: Sequence[str]) -> Sequence[int]:
    """Return the nodes that make values, those that these read, and those that read these."""
    values = set(about)
    touching = [n for n in f.nodes if not values.isdisjoint((*n.args, *n.results))]
    values.update(v for n in touching for v in (*n.args, *n.results))
    return [i for i, n in enumerate(f.nodes) if not values.isdisjoint(n.results)]


def _valid(case: Case, m: Module) -> Case | None:
    """Return a case of a changed module, if it is valid and small, and inputs tell its sizes.

    Seeds of parameters stay.
    """
    env = dict(case.env)
    types = {p.name: p.type for p in m.entry.params}
    was = {p.name: p.type for p in case.module.entry.params}
    if not {s for t in types.values() for s in dims.free(t.shape)} <= env.keys():
        return None
    try:
        verify(m)
        dims.bind([(x, t.shape, dims.values(t.shape, env)) for x, t in types.items()], m.dims)
    except DidymaError:
        return None
    sized = (t for n in m.entry.nodes for t in n.types if env.keys() >= {*dims.free(t.shape)})
    if any(dims.evaluate(t.numel, env) > MAX_ELEMENTS for t in (*types.values(), *sized)):
        return None
    given = tuple((name, t) for name, t in case.given if types.get(name) == was.get(name))
    named = {v.name for v in m.dims}
    kept = tuple((name, n) for name, n in case.env if name in named)
    return replace(case, module=m, env=kept, given=given)


# ---- changes


def _with(m: Module, f: Function) -> Module | None:
    """Return a module with another entry, its types inferred anew; None if they do not fit."""
    g = inferred(f, Retype())
    return None if g is None else replace(m, functions=(*m.functions[:-1], g))


def _put(f: Function, at: int, *nodes: Node, instead: bool = True) -> Function:
    return replace(f, nodes=(*f.nodes[:at], *nodes, *f.nodes[at + instead :]))


def _fresh(f: Function, wish: str) -> str:
    names = f.types().keys()
    return next(n for i in range(len(names) + 1) if (n := f"{wish}{i}") not in names)


def attribute(m: Module, at: int, c: Chooser) -> Module | None:
    """Change an attribute by one, in its order, or in its last bit."""
    n = m.entry.nodes[at]
    specs = OPS[n.op].attrs if n.op in OPS else ()
    if not specs:
        return None
    spec = c.pick(specs)
    value = n.attr[spec.name]
    anew = isinstance(value, Tensor) and c.chance(2)
    new = _constant(value, c) if anew and isinstance(value, Tensor) else nearly(c, spec, value)
    if new is None:
        return None
    return _with(m, _put(m.entry, at, replace(n, attrs=freeze({**n.attr, spec.name: new}))))


def _constant(value: Tensor, c: Chooser) -> Tensor:
    """Return a constant that is another corner, everywhere or in one element."""
    array = value.array().copy()
    some = corners(value.dtype)
    corner = some[c.below(some.size)]
    if array.size and c.chance(2):
        array.reshape(-1)[c.below(array.size)] = corner
    else:
        array[...] = corner
    return Tensor.of(array)


def operand(m: Module, at: int, c: Chooser) -> Module | None:
    """Let a node read another value that is there, of the same type or of any."""
    n, types = m.entry.nodes[at], m.entry.types()
    if not n.args:
        return None
    place = c.below(len(n.args))
    have = [p.name for p in m.entry.params]
    have += [r for x in m.entry.nodes[:at] for r in x.results]
    others = [v for v in have if v != n.args[place]]
    same = [v for v in others if types[v] == types[n.args[place]]]
    chosen = same if same and not c.chance(3) else others
    return _reading(m, at, place, c.pick(chosen)) if chosen else None


def _reading(m: Module, at: int, place: int, value: str, *before: Node) -> Module | None:
    n = m.entry.nodes[at]
    args = (*n.args[:place], value, *n.args[place + 1 :])
    return _with(m, _put(m.entry, at, *before, replace(n, args=args)))


def between(m: Module, at: int, c: Chooser) -> Module | None:
    """Put an op between a node and one of its operands: a move, a cast, a part, a broadcast."""
    n, types = m.entry.nodes[at], m.entry.types()
    if not n.args:
        return None
    place = c.below(len(n.args))
    source = n.args[place]
    t = types[source]
    name = _fresh(m.entry, "near")
    ways = [*_ways(t, types[n.args[place - 1]], c)]
    op, some = c.pick(ways)
    made = Node((name,), op, (source,), (t,), freeze(some))
    return _reading(m, at, place, name, made)


def _ways(t: TensorType, other: TensorType, c: Chooser) -> Iterator[tuple[str, dict[str, Attr]]]:
    """Yield ops on a value of a type, with their attributes."""
    yield "cast", {"dtype": c.pick((other.dtype, t.dtype, c.pick(PLAIN)))}
    yield "abs", {}
    if t.dtype is DType.BOOL:
        yield "logical_not", {}
    else:
        yield "negative", {}
    yield "broadcast_to", {"shape": c.pick((other.shape, (2, *t.shape)))}
    yield "reshape", {"shape": c.pick(((1, *t.shape), (*t.shape, 1)))}
    if t.rank:
        axis = c.below(t.rank)
        yield "flip", {"axes": (axis,)}
        lo, hi = c.pick(((0, 1), (1, t.shape[axis]), (0, dims.add(t.shape[axis], -1))))
        yield (
            "slice",
            {
                "starts": tuple(lo if i == axis else 0 for i in range(t.rank)),
                "stops": tuple(hi if i == axis else d for i, d in enumerate(t.shape)),
                "steps": (1,) * t.rank,
            },
        )
    if t.rank > 1:
        at = c.below(t.rank - 1)
        axes = list(range(t.rank))
        axes[at], axes[at + 1] = at + 1, at
        yield "permute_dims", {"axes": tuple(axes)}


def swapped(m: Module, at: int, c: Chooser) -> Module | None:
    """Let two operands of a node change places."""
    n = m.entry.nodes[at]
    if len(n.args) < 2:
        return None
    i = c.below(len(n.args) - 1)
    args = (*n.args[:i], n.args[i + 1], n.args[i], *n.args[i + 2 :])
    return _with(m, _put(m.entry, at, replace(n, args=args)))


def relative(m: Module, at: int, c: Chooser) -> Module | None:
    """Take another op of the same kind that has the same attributes."""
    n, types = m.entry.nodes[at], m.entry.types()
    if n.op not in OPS or not n.args:
        return None
    like = [o for o in RELATIVES[n.op] if types[n.args[-1]].dtype in OPS[o].dtypes]
    return _with(m, _put(m.entry, at, replace(n, op=c.pick(like)))) if like else None


def _shape_of(op: str) -> tuple[object, ...]:
    o = OPS[op]
    return o.kind, o.arity, tuple(a.name for a in o.attrs)


RELATIVES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {a: tuple(b for b in OPS if b != a and _shape_of(a) == _shape_of(b)) for a in OPS}
)


def returned(m: Module, at: int, c: Chooser) -> Module | None:
    """Return one more value: that of a node, or what is computed from it alone."""
    f, n = m.entry, m.entry.nodes[at]
    if not n.results:
        return None
    value = c.pick(n.results)
    if c.chance(2) and value not in f.results:
        place = c.below(len(f.results) + 1)
        return _with(m, replace(f, results=(*f.results[:place], value, *f.results[place:])))
    t = f.types()[value]
    name = _fresh(f, "read")
    op, some = c.pick([*_ways(t, t, c)])
    reader = Node((name,), op, (value,), (t,), freeze(some))
    g = _put(f, c.pick((at + 1, len(f.nodes))), reader, instead=False)
    return _with(m, replace(g, results=(*f.results, name)))


def again(m: Module, at: int, c: Chooser) -> Module | None:
    """Compute a node a second time, for some of those that read it."""
    f, n = m.entry, m.entry.nodes[at]
    readers = [i for i, x in enumerate(f.nodes) if not {*x.args}.isdisjoint(n.results)]
    if len(n.results) != 1 or not readers or n.op not in OPS:
        return None
    reader, name = f.nodes[c.pick(readers)], _fresh(f, "again")
    twin = replace(n, results=(name,))
    chosen = rename(replace(reader, results=()), {n.results[0]: name})
    nodes = [replace(chosen, results=x.results) if x is reader else x for x in f.nodes]
    return _with(m, _put(replace(f, nodes=tuple(nodes)), at + 1, twin, instead=False))


def within(m: Module, at: int, c: Chooser) -> Module | None:
    """Put a node into a function: one that is called, stays, is a kernel, or is a branch."""
    f, n = m.entry, m.entry.nodes[at]
    if n.op not in OPS or not n.args:
        return None
    types = f.types()
    operands = tuple(dict.fromkeys(n.args))
    taken = {g.name for g in m.functions}
    name = next(x for i in range(len(taken) + 1) if (x := f"around{i}") not in taken)
    marks: Sequence[Attrs] = ((), ((NO_INLINE, 1),), ((PRIMITIVE, 1),))
    params = tuple(Param(a, types[a]) for a in operands)
    truths = [v for v in types if types[v] == TensorType(DType.BOOL) and _is_before(f, v, at)]
    branch = bool(truths) and c.chance(2)
    inner = Function(name, params, (n,), n.results, () if branch else c.pick(marks))
    if not branch:
        call = replace(n, op=CALL, args=operands, attrs=freeze({"callee": name}))
        g = _put(f, at, call)
        return replace(m, functions=(*m.functions[:-1], inner, g))
    other = replace(inner, name=f"{name}_else", nodes=(_turned(n, c),))
    sides: dict[str, Attr] = {"binds": (), "then": name, "otherwise": other.name}
    g = _put(f, at, replace(n, op=IF, args=(c.pick(truths), *operands), attrs=freeze(sides)))
    return replace(m, functions=(*m.functions[:-1], inner, other, g))


def _is_before(f: Function, value: str, at: int) -> bool:
    return all(value not in n.results for n in f.nodes[at:])


def _turned(n: Node, c: Chooser) -> Node:
    """Return a node with its operands in another order, or another op that is like its own."""
    if len(n.args) > 1 and c.chance(2):
        return replace(n, args=n.args[::-1])
    return replace(n, op=c.pick((n.op, *RELATIVES[n.op])))


def sizes(m: Module, at: int, c: Chooser) -> Module | None:
    """Let all sizes of one number be another one: equal to a second, one, none, or a symbol."""
    types = [t for n in m.entry.nodes[at : at + 1] for t in n.types]
    types += [m.entry.types()[a] for a in m.entry.nodes[at].args]
    have: list[Dim] = list(dict.fromkeys(d for t in types for d in t.shape))
    if not have:
        return None
    old = c.pick(have)
    numbers: list[Dim] = [1, 0, *have, *(dims.symbol(v.name) for v in m.dims)]
    if isinstance(old, int):
        numbers += (old + 1, max(old - 1, 0), 2 * old, 4)
    new = c.pick([d for d in dict.fromkeys(numbers) if d != old])
    return rewritten(m, Retype(size=lambda d: new if d == old else d))


def squared(m: Module, c: Chooser) -> Module | None:
    """Let all sizes of values that are numbers above one be one of them."""
    shapes = [t.shape for t in m.entry.types().values()]
    have = sorted({d for shape in shapes for d in shape if isinstance(d, int) and d > 1})
    if not have:
        return None
    new = c.pick(have)
    return rewritten(m, Retype(size=lambda d: new if isinstance(d, int) and d > 1 else d))


def dtypes(m: Module, at: int, c: Chooser) -> Module | None:
    """Let all values of one dtype have another one."""
    types = [*m.entry.nodes[at].types, *(m.entry.types()[a] for a in m.entry.nodes[at].args)]
    if not types:
        return None
    old = c.pick(types).dtype
    new = c.pick(PLAIN)
    return rewritten(m, Retype(dtype=lambda d: new if d is old else d))


def parameter(m: Module, at: int, c: Chooser) -> Module | None:
    """Let an operand of a node be a parameter of its own, of the same type or nearly that."""
    n = m.entry.nodes[at]
    params = [a for a in n.args if any(p.name == a for p in m.entry.params)]
    if not params:
        return None
    name = c.pick(params)
    t = next(p.type for p in m.entry.params if p.name == name).dense
    axis = c.below(t.rank) if t.rank else 0
    others = [t.with_dtype(c.pick(PLAIN)), t.with_shape(), t.with_shape(1, *t.shape)]
    if t.rank:
        shape = (*t.shape[:axis], 1, *t.shape[axis + 1 :])
        others += [t.with_shape(*shape), t.with_shape(*t.shape[1:]), t.with_shape(*t.shape[::-1])]
    new = c.pick(others)
    changed = [replace(p, type=new) if p.name == name else p for p in m.entry.params]
    return _with(m, replace(m.entry, params=tuple(changed)))


CHANGES: Sequence[Change] = (
    attribute, attribute, operand, operand, between, between, swapped, relative, returned,
    returned, again, within, sizes, sizes, dtypes, parameter,
)  # fmt: skip
