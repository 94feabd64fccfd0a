"""Judge each Primitive function alone, on the inputs that reach it, against its own subgraph.

So the bar of a Primitive covers the rounding of its own kernels and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from typing import TypeAlias

from didyma.oracle import chains, compare, ring
from didyma.oracle.recorder import Recorder
from didyma.oracle.ring import PrimitivePayloads
from didyma.oracle.subject import Env
from didyma.refimpl.interp import graph as interpreter
from didyma.refimpl.interp.scalar_ring import value_of
from didyma.refimpl.ir import strides
from didyma.refimpl.ir.concrete import concrete_type
from didyma.refimpl.ir.graph import CALL, COMPILER, RESHAPE_ONLY, Function, Module, Node
from didyma.refimpl.ir.kernel import Kernel
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops import OPS, bars
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.spec import Kind

Runner: TypeAlias = Callable[[str, Sequence[Array], Env], Sequence[Array]]
Kernels: TypeAlias = Callable[[str], Sequence[Kernel]]

_FOLDS = (Kind.REDUCTION, Kind.OPAQUE)


def exact(a: Array) -> Bar:
    """Return the bar of an input, which has width zero."""
    return bars.exact(a, DType.of(a))


def concrete(types: Iterable[TensorType], env: Env) -> tuple[TensorType, ...]:
    """Return types with every symbol replaced by its value."""
    return tuple(concrete_type(t, env) for t in types)


class PrimitiveBars:
    """The bars of the results of a fused module's Primitives.

    Several levels ask for the bars of the same Primitive on the same inputs, so they are cached.
    """

    def __init__(self, fused: Module, contract: Contract) -> None:
        self.fused = fused
        self.contract = contract
        self._bars: dict[object, tuple[Bar, ...]] = {}
        self._has_fold: dict[str, bool] = {}

    def bars(
        self, function: str, args: Sequence[Array], env: Env, kernels: Sequence[Kernel]
    ) -> tuple[Bar, ...]:
        """Return the bars of a Primitive's results on exact inputs, of a ``precision``."""
        f = self.fused.function(function)
        chain, again = self.precision(function, env, kernels)
        digest = hashlib.blake2b(digest_size=16)
        for a in args:
            digest.update(a.tobytes())
        key = (
            f.name,
            chain,
            again,
            digest.digest(),
            tuple(a.shape for a in args),
            tuple(env.items()),
        )
        if key not in self._bars:
            contract = (
                self.contract if chain is None else chains.with_chain(self.contract, chain, again)
            )
            inputs = [exact(a) for a in args]
            self._bars[key] = interpreter.bars(f, self.fused, inputs, env, contract)
        return self._bars[key]

    def precision(
        self, function: str, env: Env, kernels: Sequence[Kernel]
    ) -> tuple[int | None, int]:
        """Return what the widths of a Primitive's bars hang on, beside its inputs.

        Where it adds floats up, that is the longest chain of additions in ``kernels``, and how
        often these may rescale a part; None where no length is known, so that bars are as wide as
        the contract says.
        """
        f = self.fused.function(function)
        chain = chains.longest(kernels, env) if self._adds_floats(f) else None
        return chain, 0 if chain is None else chains.rescalings(kernels, env, self.contract)

    def _adds_floats(self, f: Function) -> bool:
        if f.name not in self._has_fold:
            self._has_fold[f.name] = any(
                n.op in OPS and OPS[n.op].kind in _FOLDS and n.types[0].dtype.is_float
                for n in f.nodes
            )
        return self._has_fold[f.name]


def plain(a: Array) -> Array:
    """Return the values of records; another array as it is."""
    return value_of(a).copy() if a.dtype.names else a


def judge_primitives(
    level: Recorder,
    known: PrimitiveBars,
    inputs: Sequence[Array],
    env: Env,
    run: Runner,
    kernels: Kernels,
    *,
    payloads: PrimitivePayloads,
    run_externs: bool = False,
    without: Container[str] = (),
) -> tuple[Array, ...]:
    """Run the entry of a fused module, each Primitive by ``run``, and judge each result.

    ``kernels`` gives the loop programs of a Primitive, from which the order of its sums is read.
    External functions are run by ``run`` too with ``run_externs``, else by the reference, as are
    the functions ``without`` kernels, whose results the program returns as views.  After a
    Primitive with a wrong result the reference's values are used, so that it alone is blamed.
    Results that are records have their payloads judged by ``payloads``, where the values are right.
    Returns the results of the entry.
    """
    m = known.fused
    functions = {f.name: f for f in m.functions}

    def judged(n: Node, args: list[Array], env: Env) -> Sequence[Array]:
        got = run(n.callee, strides.rows(functions[n.callee].params, args, env), env)
        outs = [plain(a) for a in got]
        used = kernels(n.callee)
        if level.sample((n.callee, *(k.name for k in used))):
            want = known.bars(n.callee, args, env, used)
            rows = zip(n.results, want, outs, concrete(n.types, env), strict=True)
            found = [compare.compare(*row) for row in rows]
            level.compare(n.callee, found)
            if all(c.agree for c in found):
                want_payloads = partial(payloads.of, n.callee, args, env)
                without = ring.scaled_logs(functions[n.callee], used)
                level.compare(n.callee, ring.judged(n.results, got, want_payloads, without))
        return outs

    def visit(
        _: Function, n: Node, args: list[Array], env: Env, by_reference: interpreter.Run
    ) -> Sequence[Array]:
        if n.op != CALL or RESHAPE_ONLY in functions[n.callee].attr or n.callee in without:
            return by_reference()
        if COMPILER in functions[n.callee].attr:  # judged at a level of its own
            return run(n.callee, args, env) if run_externs else by_reference()
        before = len(level.findings)
        outs = level.guard(n.callee, partial(judged, n, args, env))
        return by_reference() if outs is None or len(level.findings) > before else outs

    return tuple(interpreter.walk(m, inputs, visit, env))
