"""Graphs run on NumPy: values, and bars of how far a correct implementation may be from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp.graph_bars import Estimate, on_bars
from didyma.refimpl.interp.graph_float64 import in_float64
from didyma.refimpl.interp.graph_machine import Machine, Step, concrete_attrs, last_uses
from didyma.refimpl.ir import dims as d
from didyma.refimpl.ir.graph import CALL, CONTROL, Function, Module, Node, Param, is_called
from didyma.refimpl.ir.types import Array, TensorType
from didyma.refimpl.ops.bars import Bar, Contract, exact
from didyma.refimpl.ops.spec import Kind

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
        return _own(_Views(m, env).call(m.entry, list(given)), given)


class Prepared:
    """A module to be run many times: what does not depend on its inputs is computed once.

    That is kept, like the constants that it replaces, and laid out for who reads it.
    """

    def __init__(self, m: Module) -> None:
        self.m = m
        machine = _Views(m, {})
        with np.errstate(all="ignore"):
            self._entry, self._known = _folded(m, machine)
        # sizes that a step has worked out are those of one run
        self._steps = {} if m.dims else machine.prepared

    def run(self, inputs: Sequence[Array], dims: Mapping[str, int] | None = None) -> list[Array]:
        """Return the results of the entry function; errors as of ``run``."""
        machine = _Views(self.m, bind(self.m.entry, self.m, inputs, dims))
        machine.prepared |= self._steps
        given = [np.asarray(a) for a in inputs]
        with np.errstate(all="ignore"):
            return _own(machine.call(self._entry, [*given, *self._known]), given, self._known)


def _folded(m: Module, machine: _Views) -> tuple[Function, list[Array]]:
    """Return the entry with what it knows before it runs as further parameters, and that."""
    entry = m.entry
    known: dict[str, Array] = {}
    types: dict[str, TensorType] = {}
    left: list[Node] = []
    asked = set(entry.results)  # by what is left to run
    spread = set(asked)  # by what is slow to read an array whose elements are not side by side
    for step in [Step(n, (), bool(m.dims)) for n in entry.nodes]:
        n = step.node
        if step.op is not None and not step.symbols and all(a in known for a in n.args):
            (name,) = n.results
            (known[name],) = machine.node(entry, step, [known[a] for a in n.args])
            types[name] = n.types[0]
            continue
        left.append(n)
        asked.update(n.args)
        if step.op is None or step.op.kind is not Kind.ELEMENTWISE:
            spread.update(n.args)
    kept = {name: a for name, a in known.items() if name in asked}
    for name in spread & kept.keys():
        if 0 in kept[name].strides:
            kept[name] = kept[name].copy()
    params = (*entry.params, *(Param(name, types[name]) for name in kept))
    return replace(entry, params=params, nodes=tuple(left)), list(kept.values())


def _own(
    results: Sequence[Array], given: Sequence[Array], kept: Sequence[Array] = ()
) -> list[Array]:
    """Copy what shares memory with more than an input that is a result: it may be written."""

    def own(r: Array) -> Array:
        if any(r is a for a in given):
            return r
        alone = r.flags.owndata and r.flags.c_contiguous and not any(r is a for a in kept)
        return r if alone else r.copy()

    return [own(r) for r in results]


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
    machine = _Arrays(m, bind(f, m, inputs, dims))
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
    machine = on_bars(m, env, contract or Contract(), stored=stored)
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
        return in_float64(m, env).call(m.entry, given)


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


class _Arrays(Machine[Array]):
    def apply(self, f: Function, step: Step, args: list[Array]) -> Sequence[Array]:
        del f
        use = step.sized(self.env)
        t, out = use.type, use.op.eval(args, use.type)
        assert out.shape == t.shape, f"{out.shape} for {t}"
        assert out.dtype == t.dtype.numpy, f"{out.dtype} for {t}"
        return (out,)

    def shape(self, value: Array) -> tuple[int, ...]:
        return value.shape

    def truth(self, value: Array) -> bool:
        return bool(value)

    def size(self, value: Array) -> int:
        return int(value)

    def take(self, value: Array, i: int) -> Array:
        return np.asarray(value[i, ...])

    def stack(self, slices: Sequence[Array], t: TensorType) -> Array:
        whole = np.empty([int(str(s)) for s in t.shape], t.dtype.numpy)
        for i, s in enumerate(slices):
            whole[i] = s
        return whole


class _Views(_Arrays):
    """Machine whose values nobody writes: they may share memory, also with the module."""

    def apply(self, f: Function, step: Step, args: list[Array]) -> Sequence[Array]:
        use = step.sized(self.env)
        t, out = use.type, use.op.view(args, use.type)
        assert out.shape == t.shape, f"{out.shape} for {t}"
        assert out.dtype == t.dtype.numpy, f"{out.dtype} for {t}"
        return (out,)


class _Visited(_Arrays):
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
            plain = _Arrays(self.m, self.env)
            return plain.node(f, step, list(given))

        return self.visit(f, n, given, self.env, by_reference)


__all__ = [
    "Estimate",
    "Prepared",
    "Run",
    "Visit",
    "bars",
    "bind",
    "concrete_attrs",
    "estimates",
    "last_uses",
    "reference",
    "run",
    "values",
    "walk",
]
