"""Graphs run on NumPy: values, and bars of how far a correct implementation may be from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sympy

from refimpl.errors import DidymaError
from refimpl.ir import dims as d
from refimpl.ir.graph import CALL, Attr, Function, Module, Node
from refimpl.ir.types import Array, DType, TensorType
from refimpl.ops import OPS
from refimpl.ops.bars import Bar, Contract, perhaps_stored, settle, store
from refimpl.ops.spec import Kind

# Ops that take a product whose overflow is still open: they may be fused with it, pass it on, or
# (sums) know of it.
_FUSIBLE = frozenset({"add", "subtract", "negative", "sum", "cumulative_sum", "mean"})
_MOVEMENT = (Kind.INJECTIVE, Kind.RESHAPE)


def run(m: Module, inputs: Sequence[Array], dims: Mapping[str, int] | None = None) -> list[Array]:
    """Results of the entry function.

    ``dims`` binds symbols that no input's shape tells.  Errors: ``input-count``, ``input-dtype``,
    and those of ``dims.bind``.  Values are freed at their last use.
    """
    with np.errstate(all="ignore"):
        return _call(m.entry, m, inputs, bind(m.entry, m, inputs, dims))


def values(
    f: Function, m: Module, inputs: Sequence[Array], dims: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Every SSA value of a function of the module, parameters included."""
    env = bind(f, m, inputs, dims)
    found: dict[str, Array] = {p.name: np.asarray(a) for p, a in zip(f.params, inputs, strict=True)}
    with np.errstate(all="ignore"):
        for n in f.nodes:
            found.update(zip(n.results, _node(n, m, found, f, env), strict=True))
    return found


def bars(
    f: Function,
    m: Module,
    inputs: Sequence[Bar],
    dims: Mapping[str, int] | None = None,
    contract: Contract | None = None,
    *,
    stored: bool = False,
) -> tuple[Bar, ...]:
    """Bars of the results of a function, as found in memory after they are stored.

    The function is taken to be one kernel: intermediates of f16 and bf16 stay in f32.  A function
    it calls is a kernel of its own, whose results are rounded when stored.  With ``stored`` any
    intermediate may have been stored and rounded on the way, or not.
    """
    env = _bound(f, m, [b.c.shape for b in inputs], dims)
    with np.errstate(all="ignore"):
        return _bars(f, m, inputs, env, contract or Contract(), stored)


def bind(
    f: Function, m: Module, inputs: Sequence[Array], dims: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Check inputs against the parameters of a function and bind the module's symbols.

    Errors: ``input-count``, ``input-dtype``, ``rank-mismatch``, ``dim-mismatch``,
    ``dim-out-of-range``.
    """
    env = _bound(f, m, [np.shape(a) for a in inputs], dims)
    for p, a in zip(f.params, inputs, strict=True):
        if np.asarray(a).dtype != p.type.dtype.numpy:
            raise DidymaError(
                "input-dtype",
                f"%{p.name}: {p.type}",
                got=str(np.asarray(a).dtype),
                want=str(p.type.dtype.numpy),
                help="convert the input before the call",
            )
    return env


def _bound(
    f: Function, m: Module, shapes: Sequence[tuple[int, ...]], dims: Mapping[str, int] | None
) -> dict[str, int]:
    if len(shapes) != len(f.params):
        raise DidymaError(
            "input-count", f"@{f.name}", got=f"{len(shapes)} inputs", want=f"{len(f.params)}"
        )
    declared = list(m.dims)
    pairs = list(zip(f.params, shapes, strict=True))
    if dims:
        # A given symbol is one more input axis: bound first, then checked wherever it occurs.
        names = tuple(d.symbol(k) for k in dims)
        given = [("dims", names, tuple(dims.values()))]
    else:
        if all(p.type.shape == s for p, s in pairs):
            return {}
        given = []
    return d.bind([*given, *((f"%{p.name}", p.type.shape, s) for p, s in pairs)], declared)


@dataclass(frozen=True, slots=True)
class _Use:
    """A node whose symbols have been replaced by ints."""

    attrs: Mapping[str, Attr]
    operands: tuple[TensorType, ...]
    result: TensorType


def _concrete_type(t: TensorType, env: Mapping[str, int]) -> TensorType:
    if all(type(s) is int for s in t.shape):
        return t
    return TensorType(t.dtype, tuple(d.evaluate(s, env) for s in t.shape), t.device)


def _concrete_attr(a: Attr, env: Mapping[str, int]) -> Attr:
    if isinstance(a, sympy.Expr):
        return d.evaluate(a, env)
    if isinstance(a, tuple):
        return tuple(_concrete_attr(x, env) for x in a)
    return a


def concrete_attrs(n: Node, env: Mapping[str, int]) -> dict[str, Attr]:
    """Attributes of a node with every symbol replaced by its int."""
    return {k: _concrete_attr(v, env) for k, v in n.attrs}


def _concrete(n: Node, types: Sequence[TensorType], env: Mapping[str, int]) -> _Use:
    return _Use(
        concrete_attrs(n, env),
        tuple(types),
        _concrete_type(n.types[0], env),
    )


def _note(e: Exception, n: Node, f: Function) -> None:
    results = ", ".join(f"%{r}" for r in n.results)
    args = ", ".join(f"%{a}" for a in n.args)
    e.add_note(f"while executing {results} = {n.op}({args}) in @{f.name}")


def _node(
    n: Node, m: Module, found: Mapping[str, Array], f: Function, env: Mapping[str, int]
) -> Sequence[Array]:
    args = [found[a] for a in n.args]
    try:
        if n.op == CALL:
            return _call(m.function(n.callee), m, args, env)
        types = [TensorType(DType.of(a), a.shape) for a in args]
        use = _concrete(n, types, env)
        out = OPS[n.op].eval(args, use.attrs, use.result)
        assert out.shape == use.result.shape, f"{out.shape} for {use.result}"
        assert out.dtype == use.result.dtype.numpy, f"{out.dtype} for {use.result}"
    except Exception as e:
        _note(e, n, f)
        raise
    return (out,)


def last_uses(f: Function) -> list[tuple[str, ...]]:
    """For each node, the values that no later node and no result needs."""
    kept = set(f.results)
    dead: list[tuple[str, ...]] = []
    for n in reversed(f.nodes):
        names = {*n.args, *n.results} - kept
        kept |= names
        dead.append(tuple(names))
    dead.reverse()
    return dead


def _call(f: Function, m: Module, inputs: Sequence[Array], env: Mapping[str, int]) -> list[Array]:
    found = {p.name: np.asarray(a) for p, a in zip(f.params, inputs, strict=True)}
    for n, dead in zip(f.nodes, last_uses(f), strict=True):
        found.update(zip(n.results, _node(n, m, found, f, env), strict=True))
        for name in dead:
            del found[name]
    return [found[r] for r in f.results]


def _bars(
    f: Function,
    m: Module,
    inputs: Sequence[Bar],
    env: Mapping[str, int],
    contract: Contract,
    stored: bool,
) -> tuple[Bar, ...]:
    found = {p.name: b for p, b in zip(f.params, inputs, strict=True)}
    types = {p.name: _concrete_type(p.type, env) for p in f.params}
    for n in f.nodes:
        args = [found[a] for a in n.args]
        result_types = [_concrete_type(t, env) for t in n.types]
        try:
            if n.op == CALL:
                outs = _bars(m.function(n.callee), m, args, env, contract, stored)
            else:
                outs = (_op_bar(n, args, [types[a] for a in n.args], env, contract),)
        except Exception as e:
            _note(e, n, f)
            raise
        if stored:
            outs = tuple(
                perhaps_stored(b, t.dtype) for b, t in zip(outs, result_types, strict=True)
            )
        found.update(zip(n.results, outs, strict=True))
        types.update(zip(n.results, result_types, strict=True))
    return tuple(store(found[r], types[r].dtype) for r in f.results)


def _op_bar(
    n: Node,
    args: Sequence[Bar],
    types: Sequence[TensorType],
    env: Mapping[str, int],
    contract: Contract,
) -> Bar:
    op = OPS[n.op]
    if n.op not in _FUSIBLE and op.kind not in _MOVEMENT:
        settled = {a: settle(b, t.dtype) for a, b, t in zip(n.args, args, types, strict=True)}
        args = [settled[a] for a in n.args]  # one bar for one value: x * x is a square
    use = _concrete(n, types, env)
    return op.bar(args, use.attrs, use.operands, use.result, contract)
