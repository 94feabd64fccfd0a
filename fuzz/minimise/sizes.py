"""Make the tensors of a case smaller: symbols bound to less, sizes of parameters cut."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

import sympy

from didyma.fuzz.graphs import Case, used
from didyma.fuzz.minimise.search import greedy
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Attr, Function, Module, Node
from didyma.refimpl.ir.types import Array, Tensor, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.verify.graph import verify

Resize: TypeAlias = Callable[[Dim], Dim]


def shrink_sizes(case: Case) -> Generator[Case, bool, None]:
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
        if (fixed := _rewritten(m, lambda d: dims.substitute(d, sizes))) is not None:
            yield from _cut(case, fixed, {}, arrays)
    f = m.entry
    types = [p.type for p in f.params] + [t for n in f.nodes for t in n.types]
    for n in sorted({d for t in types for d in t.shape if isinstance(d, int)}, reverse=True):
        for k in _shorter(n, 1):
            if (smaller := _rewritten(m, _instead(n, k))) is not None:
                yield from _cut(case, smaller, env, arrays)
    yield from _axis_by_axis(case, env, arrays)


def _instead(n: int, k: int) -> Resize:
    return lambda d: k if d == n else d


def _axis_by_axis(case: Case, env: dict[str, int], arrays: Mapping[str, Array]) -> Iterator[Case]:
    """Yield cases in which one axis of one parameter is shorter."""
    f = case.module.entry
    for i, p in enumerate(f.params):
        for axis, n in enumerate(p.type.shape):
            for k in _shorter(n, 1) if isinstance(n, int) else ():
                t = p.type.with_shape(*p.type.shape[:axis], k, *p.type.shape[axis + 1 :])
                params = (*f.params[:i], replace(p, type=t), *f.params[i + 1 :])
                entry = _inferred(replace(f, params=params), lambda d: d)
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
        given = tuple((name, Tensor.of(_part(arrays[name], s, last))) for name, s in shapes.items())
        yield replace(case, module=m, env=bound, seeds=(0,) * len(given), given=given)


def _part(a: Array, shape: tuple[int, ...], last: bool) -> Array:
    """Return the first or the last elements of each axis."""
    parts = (slice(n - k, n) if last else slice(0, k) for n, k in zip(a.shape, shape, strict=True))
    return a[tuple(parts)].copy()


def _rewritten(m: Module, resize: Resize) -> Module | None:
    """Return a module with every size replaced, and results inferred; None where that fails."""
    functions: list[Function] = []
    for f in m.functions:
        params = tuple(replace(p, type=_resized(p.type, resize)) for p in f.params)
        g = _inferred(replace(f, params=params), resize)
        if g is None:
            return None
        functions.append(g)
    return used(replace(m, functions=tuple(functions)))


def _inferred(f: Function, resize: Resize) -> Function | None:
    """Return a function with types inferred from its parameters; None where an op refuses them."""
    types = {p.name: p.type for p in f.params}
    nodes: list[Node] = []
    for n in f.nodes:
        try:
            n = _node(n, types, resize)
        except (DidymaError, KeyError):
            return None
        nodes.append(n)
        types.update(zip(n.results, n.types, strict=True))
    return replace(f, nodes=tuple(nodes))


def _node(n: Node, types: Mapping[str, TensorType], resize: Resize) -> Node:
    if n.op not in OPS:
        return replace(n, types=tuple(_resized(t, resize) for t in n.types))
    kinds = {a.name: a.kind for a in OPS[n.op].attrs}
    attrs = tuple((name, _attr(value, kinds.get(name, ""), resize)) for name, value in n.attrs)
    inferred = OPS[n.op].infer([types[a] for a in n.args], dict(attrs))
    return replace(n, attrs=attrs, types=(inferred,))


def _attr(value: Attr, kind: str, resize: Resize) -> Attr:
    """Return an attribute with its sizes replaced; a constant keeps its first elements."""
    if isinstance(value, Tensor):
        shape = tuple(resize(d) for d in value.shape)
        if shape == value.shape:
            return value
        return Tensor.of(_part(value.array(), dims.values(shape, {}), last=False))
    if kind == "dims" and isinstance(value, tuple):
        return tuple(_attr(d, "dim", resize) for d in value)
    if kind == "dim" and isinstance(value, int | sympy.Expr):
        return resize(value)
    return value


def _resized(t: TensorType, resize: Resize) -> TensorType:
    return t.with_shape(*(resize(d) for d in t.shape))
