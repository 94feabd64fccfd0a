"""Default values for the symbolic sizes of a model, large enough that no value in it is empty.

A network that halves images five times leaves nothing of a small image, and sound shorter than a
window cannot be padded by reflection.  So sizes are grown until no value is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import index

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.graph import Attr, Function, Module
from didyma.refimpl.ir.types import Array, TensorType
from didyma.refimpl.ops.attributes import parse, specs
from didyma.refimpl.ops.slicing import Pad

MANY = 1 << 21  # elements in all: judging runs every level element by element
ROUNDS = 64
SCALES = (16, 64, 256, 1024)  # tried when a data-dependent size is out of its range


def default_sizes(m: Module, chosen: Mapping[str, int]) -> dict[str, int]:
    """Return a size for every symbol of the entry's inputs: those chosen, and one for each other.

    A size that nobody chose is one more than its least and at least 2, unlike every other size
    where its range allows that (equal sizes hide that two were swapped), and grows until no value
    is empty.  Where that takes more than ``MANY`` elements in all, it starts from the least.

    Errors: ``bad-option`` for a symbol that no input has or a size that is no integer,
    ``dim-out-of-range``.
    """
    inputs = control.input_symbols(m)
    free = [v for v in m.dims if v.name in inputs]
    for name, n in chosen.items():
        if name not in inputs:
            known = ", ".join(v.name for v in free) or "none: no input has a symbolic size"
            raise DidymaError(
                "bad-option", f"size {name} = {n}", got=name, want=f"a size of: {known}"
            )
        if isinstance(n, bool) or not hasattr(n, "__index__"):
            raise DidymaError("bad-option", f"size {name}", got=repr(n), want="an integer")
    chosen = {name: index(n) for name, n in chosen.items()}
    dims.check_ranges(chosen, m.dims)
    above = apart({v.name: max(v.lo + 1, 2) for v in free} | dict(chosen), free, chosen)
    least = apart({v.name: v.lo for v in free} | dict(chosen), free, chosen)
    small = above if elements(m, above) <= MANY else least
    return apart(fit(m, small, chosen), free, chosen)


def apart(
    wish: Mapping[str, int], declared: Sequence[DimVar], keep: Collection[str] = ()
) -> dict[str, int]:
    """Return sizes near those wished for, in range and unlike each other where that is possible.

    The sizes in ``keep`` stay; each other gives way upwards, and downwards at the end of its range.

    >>> apart({"n": 2, "m": 2, "k": 9}, [DimVar(s, 1, 4) for s in "nmk"])
    {'n': 2, 'm': 3, 'k': 4}
    """
    sizes = dict(wish)
    taken = {n for s, n in wish.items() if s in keep} | {v.lo for v in declared if v.lo == v.hi}
    for v in declared:
        if v.name not in sizes or v.name in keep:
            continue
        start = min(max(sizes[v.name], v.lo), v.hi)
        least = max(v.lo, min(1, start))  # to be empty is worse than to be equal
        near = (*range(start, start + len(taken) + 1), *range(start, start - len(taken) - 1, -1))
        sizes[v.name] = next((n for n in near if least <= n <= v.hi and n not in taken), start)
        taken.add(sizes[v.name])
    return sizes


def fit(m: Module, env: Mapping[str, int], keep: Collection[str] = ()) -> dict[str, int]:
    """Return sizes grown until no value is empty; those given if that takes too much.

    ``env`` binds the symbols of the entry's parameters; ``keep`` are those whose size is decided.
    Where growing from the others takes too much, they begin with their least.
    """
    least = {v.name: max(v.lo, 1) for v in m.dims}
    small = {s: n if s in keep else min(n, least[s]) for s, n in env.items()}
    return _grown(m, env, keep) or _grown(m, small, keep) or dict(env)


def _grown(m: Module, env: Mapping[str, int], keep: Collection[str]) -> dict[str, int] | None:
    most = {v.name: v.hi for v in m.dims}
    sizes = dict(env)
    for _ in range(ROUNDS):
        free = {s: min(most[s], 2 * n) for s, n in sizes.items() if s not in keep}
        names = {s for d in _starved(m, sizes) for s in _causes(d, sizes, most)}
        grown = {s: free[s] for s in names if s in free}
        if all(sizes[s] == n for s, n in grown.items()):
            return sizes if not names else None
        sizes |= grown
        if elements(m, sizes) > MANY:
            break
    return None


def elements(m: Module, env: Mapping[str, int]) -> int:
    """Elements of all values that the entry computes.

    Sizes that the run finds count with their least, and constants not at all: they do not grow.
    """
    known = {v.name: v.lo for v in m.dims} | dict(env)
    types = [t for n in m.entry.nodes if n.op != "constant" for t in n.types]
    return sum(dims.evaluate(t.numel, known) for t in types)


def _starved(m: Module, env: Mapping[str, int]) -> Iterator[Dim]:
    """Yield sizes that are too small: of empty values, and of axes padded by too much."""
    for f in m.functions:
        types: Mapping[str, TensorType] | None = None
        for n in f.nodes:
            yield from (d for t in n.types for d in t.shape if _at_most(d, 0, env))
            if n.op == "pad" and n.attr["mode"] == "reflect":
                types = types or f.types()
                yield from _mirrored(types[n.args[0]], n.attr, env)


def _causes(d: Dim, env: Mapping[str, int], most: Mapping[str, int]) -> Collection[str]:
    """Return symbols of a size; of several, those that alone can make it positive, if it is 0."""
    names = dims.free(d)
    alone = [s for s in names if dims.evaluate(d, {**env, s: most[s]}) > 0]
    return alone if alone and dims.evaluate(d, env) <= 0 else names


def _mirrored(t: TensorType, attrs: Mapping[str, Attr], env: Mapping[str, int]) -> Iterator[Dim]:
    pad = parse("pad", Pad, specs(Pad), attrs)
    for widths in (pad.low, pad.high):
        yield from (d for d, w in zip(t.shape, widths, strict=True) if _at_most(d, w, env))


def _at_most(d: Dim, limit: Dim, env: Mapping[str, int]) -> bool:
    """Return whether a symbolic size is known to be at most a limit."""
    if isinstance(d, int) or not set(dims.free((d, limit))) <= set(env):
        return False
    return dims.evaluate(d, env) <= dims.evaluate(limit, env)


def fit_run(
    m: Module,
    env: Mapping[str, int],
    free: Collection[str],
    values: Callable[[Mapping[str, int]], Sequence[Array]],
) -> dict[str, int]:
    """Return sizes at which the reference runs a module on ``values``, or else those given.

    The reference raises ``dim-out-of-range`` when a data-dependent size falls outside its declared
    range (for example, zero frames).  ``free`` are the symbols that may grow: each alone first,
    then all.
    """
    sizes = dict(env)
    if not control.bound(m) or not free or _runs(m, sizes, values):
        return sizes
    most = {v.name: v.hi for v in m.dims}
    each = [(s,) for s in sorted(free)]
    for scale in SCALES:
        for names in (*each, tuple(sorted(free)))[: len(each) + (len(each) > 1)]:
            tried = fit(m, sizes | {s: min(most[s], scale * sizes[s]) for s in names}, names)
            if elements(m, tried) <= MANY and _runs(m, tried, values):
                return tried
    return sizes


def _runs(
    m: Module,
    env: Mapping[str, int],
    values: Callable[[Mapping[str, int]], Sequence[Array]],
) -> bool:
    try:
        graph.run(m, values(env), env)
    except DidymaError as e:
        return e.code != "dim-out-of-range"
    return True


def products(m: Module, env: Mapping[str, int], f: Function) -> int:
    """Multiplications in the matrix products and convolutions of a function, as of ``elements``."""
    known = {v.name: v.lo for v in m.dims} | dict(env)
    types = f.types()
    found = 0
    for n in f.nodes:
        if n.op in ("matmul", "conv"):
            lhs, rhs = (types[a].shape for a in n.args)
            terms = lhs[-1] if n.op == "matmul" else dims.mul(*rhs[1:])
            found += dims.evaluate(dims.mul(n.types[0].numel, terms), known)
    return found
