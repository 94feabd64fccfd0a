"""Make the tensors of a case smaller: symbols bound to less, sizes of parameters cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from didyma.fuzz.graphs import Case
from didyma.fuzz.minimise.retype import Retype, inferred, part, rewritten
from didyma.fuzz.minimise.search import Search, greedy
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array, Tensor
from didyma.refimpl.verify.graph import verify


def shrink_sizes(case: Case) -> Search[Case]:
    """Yield cases of smaller sizes, greedily.

    Inputs keep the first or the last elements of each axis, so that values that matter may stay.
    """
    return greedy(case, smaller_sizes)


def smaller_sizes(case: Case) -> Iterator[Case]:
    """Yield valid cases with smaller sizes."""
    m, env = case.module, dict(case.env)
    arrays = {p.name: a for p, a in zip(m.entry.params, case.inputs(), strict=True)}
    least = {v.name: v.lo for v in m.dims}
    for name, n in case.env:
        for k in _shorter(n, least[name]):
            yield from _cut(case, m, env | {name: k}, arrays)
    if env:
        sizes: Mapping[str, Dim] = dict(env)
        if (fixed := rewritten(m, Retype(lambda d: dims.substitute(d, sizes)))) is not None:
            yield from _cut(case, fixed, {}, arrays)
    f = m.entry
    types = [p.type for p in f.params] + [t for n in f.nodes for t in n.types]
    for n in sorted({d for t in types for d in t.shape if isinstance(d, int)}, reverse=True):
        for k in _shorter(n, 1):
            if (smaller := rewritten(m, Retype(_instead(n, k)))) is not None:
                yield from _cut(case, smaller, env, arrays)
    yield from _axis_by_axis(case, env, arrays)


def _instead(n: int, k: int) -> Callable[[Dim], Dim]:
    return lambda d: k if d == n else d


def _axis_by_axis(case: Case, env: dict[str, int], arrays: Mapping[str, Array]) -> Iterator[Case]:
    """Yield cases in which one axis of one parameter is shorter."""
    f = case.module.entry
    for i, p in enumerate(f.params):
        for axis, n in enumerate(p.type.shape):
            for k in _shorter(n, 1) if isinstance(n, int) else ():
                t = p.type.with_shape(*p.type.shape[:axis], k, *p.type.shape[axis + 1 :])
                params = (*f.params[:i], replace(p, type=t), *f.params[i + 1 :])
                entry = inferred(replace(f, params=params), Retype())
                if entry is not None:
                    functions = (*case.module.functions[:-1], entry)
                    yield from _cut(case, replace(case.module, functions=functions), env, arrays)


def _shorter(n: int, least: int) -> list[int]:
    """Sizes below ``n`` to try, the smallest first."""
    return sorted({k for k in (least, least + 1, n // 2, n - 1) if least <= k < n})


def _cut(
    case: Case, m: Module, env: Mapping[str, int], arrays: Mapping[str, Array]
) -> Iterator[Case]:
    """Yield cases of a module whose parameters are parts of arrays: the first, or the last."""
    try:
        verify(m)
        dims.check_ranges(env, m.dims)
        shapes = {p.name: dims.values(p.type.shape, env) for p in m.entry.params}
    except DidymaError:
        return
    bound = tuple((name, env[name]) for name, _ in case.env if name in env)
    for last in (False, True):
        given = tuple((name, Tensor.of(part(arrays[name], s, last))) for name, s in shapes.items())
        yield replace(case, module=m, env=bound, seeds=(0,) * len(given), given=given)
