"""Graphs run on NumPy: values, and bars of how far a correct implementation may be from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from didyma.refimpl.errors import DidymaError, counted
from didyma.refimpl.interp.graph_bars import Bars, Estimate
from didyma.refimpl.interp.graph_float64 import InFloat64
from didyma.refimpl.interp.graph_machine import Arrays, Step
from didyma.refimpl.ir import dims as d
from didyma.refimpl.ir.graph import CALL, CONTROL, Function, Module, Node, is_called
from didyma.refimpl.ir.types import Array, TensorType
from didyma.refimpl.ops.bars import Bar, Contract, exact

# What a walk calls for each op and call: the function it stands in, the node, its operands, the
# symbols bound, and what runs the node by the reference.
Run: TypeAlias = Callable[[], Sequence[Array]]
Visit: TypeAlias = Callable[[Function, Node, list[Array], Mapping[str, int], Run], Sequence[Array]]


def run(m: Module, inputs: Sequence[Array], dims: Mapping[str, int] | None = None) -> list[Array]:
    """Results of the entry function.

    ``dims`` binds symbols that no input's shape tells.  Errors: ``input-count``, ``input-dtype``,
    those of ``dims.bind``, and ``dim-out-of-range`` of sizes bound at run time.  Values are freed
    at their last use.
    """
    env = bind(m.entry, m, inputs, dims)
    given = [np.asarray(a) for a in inputs]
    with np.errstate(all="ignore"):
        return own(Views(m, env).call(m.entry, list(given)), given)


def own(
    results: Sequence[Array], given: Sequence[Array], kept: Sequence[Array] = ()
) -> list[Array]:
    """Copy what shares memory with more than an input that is a result: it may be written."""

    def one(r: Array) -> Array:
        if any(r is a for a in given):
            return r
        alone = r.flags.owndata and r.flags.c_contiguous and not any(r is a for a in kept)
        return r if alone else r.copy()

    return [one(r) for r in results]


def walk(
    m: Module, inputs: Sequence[Array], visit: Visit, dims: Mapping[str, int] | None = None
) -> list[Array]:
    """Run the entry, control nodes by the reference and every other node as ``visit`` says.

    Calls are visited, not entered, but for those of functions that stay; what runs them by the
    reference does so in one go.
    """
    env = bind(m.entry, m, inputs, dims)
    with np.errstate(all="ignore"):
        return _Visited(m, env, visit).call(m.entry, [np.asarray(a) for a in inputs])


def values(
    f: Function, m: Module, inputs: Sequence[Array], dims: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Every SSA value of a function of the module, parameters included."""
    machine = _Copies(m, bind(f, m, inputs, dims))
    found: dict[str, Array] = {p.name: np.asarray(a) for p, a in zip(f.params, inputs, strict=True)}
    with np.errstate(all="ignore"):
        for step in machine.prepare(f).steps:
            n = step.node
            outs = machine.node(f, step, [found[a] for a in n.args])
            found.update(zip(n.results, outs, strict=True))
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
    it calls or runs is a kernel of its own, whose results are rounded when stored.  With
    ``stored`` any intermediate may have been stored and rounded on the way, or not.  What depends
    on an undecided condition or size is undecided.
    """
    return tuple(t.bar for t in estimates(f, m, inputs, dims, contract, stored=stored))


def estimates(
    f: Function,
    m: Module,
    inputs: Sequence[Bar],
    dims: Mapping[str, int] | None = None,
    contract: Contract | None = None,
    *,
    stored: bool = False,
) -> tuple[Estimate, ...]:
    """Return ``bars``, and whether the shape of each is sure."""
    env = _bound(f, m, [b.c.shape for b in inputs], dims)
    machine = Bars(m, env, contract or Contract(), stored)
    with np.errstate(all="ignore"):
        return tuple(machine.call(f, [Estimate(b) for b in inputs]))


def reference(
    m: Module, inputs: Sequence[Array], dims: Mapping[str, int] | None = None
) -> list[Array]:
    """Results of the entry function in float64, rounded nowhere; in longdouble where they are f64.

    Integers and bools are of their compute dtype.  ``exact`` says what this is the value of; it is
    no bar's, and an implementation that decides otherwise may have another, or another shape.
    Errors as of ``run``.

    >>> from didyma.refimpl.ir.text import parse_module
    >>> m = parse_module(
    ...     "module { func @main(%x: f32[]) -> (%z) {"
    ...     "  %y = add(%x, %x) : f32[]  %z = divide(%x, %y) : f32[] } }"
    ... )
    >>> reference(m, [np.float32(3.0)])
    [array(0.5)]
    """
    env = bind(m.entry, m, inputs, dims)
    with np.errstate(all="ignore"):
        given = [
            exact(np.asarray(a), p.type.dtype).c
            for a, p in zip(inputs, m.entry.params, strict=True)
        ]
        return InFloat64(m, env).call(m.entry, given)


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
            "input-count", f"@{f.name}", got=counted(len(shapes), "input"), want=f"{len(f.params)}"
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


class _Copies(Arrays):
    """Machine whose values are arrays of their own, which may be written."""

    def apply(self, f: Function, step: Step, args: list[Array]) -> Sequence[Array]:
        del f
        use = step.sized(self.env)
        return _checked(use.op.eval(args, use.type), use.type)


class Views(Arrays):
    """Machine whose values nobody writes: they may share memory, also with the module."""

    def apply(self, f: Function, step: Step, args: list[Array]) -> Sequence[Array]:
        """Return the result of an op."""
        del f
        use = step.sized(self.env)
        return _checked(use.op.view(args, use.type), use.type)


def _checked(out: Array, t: TensorType) -> tuple[Array]:
    assert out.shape == t.shape, f"{out.shape} for {t}"
    assert out.dtype == t.dtype.numpy, f"{out.dtype} for {t}"
    return (out,)


class _Visited(_Copies):
    def __init__(self, m: Module, env: Mapping[str, int], visit: Visit) -> None:
        super().__init__(m, env)
        self.visit = visit

    def node(self, f: Function, step: Step, args: list[Array]) -> Sequence[Array]:
        n = step.node
        entered = n.op == CALL and is_called(self.functions[n.callee])
        if entered or n.op in CONTROL:
            return super().node(f, step, args)
        given = list(args)

        def by_reference() -> Sequence[Array]:
            plain = _Copies(self.m, self.env)
            plain.prepared = self.prepared
            return plain.node(f, step, list(given))

        return self.visit(f, n, given, self.env, by_reference)
