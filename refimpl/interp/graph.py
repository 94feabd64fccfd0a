"""Graphs run on NumPy: values, and bars of how far a correct implementation may be from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from refimpl.errors import DidymaError
from refimpl.interp.control import Machine, Step, concrete_attrs, last_uses
from refimpl.interp.doubt import Told, on_bars
from refimpl.ir import dims as d
from refimpl.ir.graph import CONTROL, Function, Module, Node
from refimpl.ir.types import Array, TensorType
from refimpl.ops import OPS
from refimpl.ops.bars import Bar, Contract

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
    with np.errstate(all="ignore"):
        return _Arrays(m, env).call(m.entry, [np.asarray(a) for a in inputs])


def walk(
    m: Module, inputs: Sequence[Array], visit: Visit, dims: Mapping[str, int] | None = None
) -> list[Array]:
    """Run the entry, control nodes by the reference and every other node as ``visit`` says.

    Calls are visited, not entered; what runs them by the reference does so in one go.
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
        for step in machine.steps(f):
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
    return tuple(t.bar for t in told(f, m, inputs, dims, contract, stored=stored))


def told(
    f: Function,
    m: Module,
    inputs: Sequence[Bar],
    dims: Mapping[str, int] | None = None,
    contract: Contract | None = None,
    *,
    stored: bool = False,
) -> tuple[Told, ...]:
    """Return ``bars``, and whether the shape of each is sure."""
    env = _bound(f, m, [b.c.shape for b in inputs], dims)
    machine = on_bars(m, env, contract or Contract(), stored=stored)
    with np.errstate(all="ignore"):
        return tuple(machine.call(f, [Told(b) for b in inputs]))


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
        t = use.types[0]
        out = OPS[step.node.op].eval(args, use.attrs, t)
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


class _Visited(_Arrays):
    def __init__(self, m: Module, env: Mapping[str, int], visit: Visit) -> None:
        super().__init__(m, env)
        self.visit = visit

    def node(self, f: Function, step: Step, args: list[Array]) -> Sequence[Array]:
        if step.node.op in CONTROL:
            return super().node(f, step, args)
        given = list(args)

        def by_reference() -> Sequence[Array]:
            plain = _Arrays(self.m, self.env)
            return plain.node(f, step, list(given))

        return self.visit(f, step.node, given, self.env, by_reference)


__all__ = [
    "Run",
    "Told",
    "Visit",
    "bars",
    "bind",
    "concrete_attrs",
    "last_uses",
    "run",
    "told",
    "values",
    "walk",
]
