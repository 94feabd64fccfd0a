"""Judge the results of peers by the reference's bars: end to end, and kernel by kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from didyma.fuzz.peers.peer import REFUSALS, Peer
from didyma.oracle.compare import Comparison, compare, distance
from didyma.oracle.primitives import concrete, exact
from didyma.oracle.recorder import Recorder
from didyma.oracle.report import Level
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.concrete import concrete_attrs
from didyma.refimpl.ir.graph import CALL, RESHAPE_ONLY, Function, Module, Node, Param
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops.bars import ANYONES, LEAST, Bar


def end_to_end(
    peer: Peer,
    m: Module,
    inputs: Sequence[Array],
    env: Mapping[str, int],
    model: bytes | None = None,
) -> Level:
    """Judge a peer's results of a whole module by the accumulated bars of the module.

    ``model`` is the ONNX model that the module was imported from, if it was.  The sign of a zero is
    not judged, as ONNX leaves it open which of two equal zeros a choice returns.  Where the peer
    refuses the program or its inputs, nothing is decided, and a note says why.
    """
    level = Recorder(peer.name, peer.name)

    def run() -> None:
        try:
            outs = peer.run(m, inputs, model)
        except DidymaError as e:
            if e.code not in REFUSALS:
                raise
            level.note = f"not judged, since it refused ({e.code}): {e.got}"
            return
        _compare(level, peer, m, inputs, env, outs)
        with suppress(DidymaError):  # a size that float64 decides may be out of its range
            wanted = graph.reference(m, inputs, env)
            level.comparisons += [distance(*pair) for pair in zip(wanted, outs, strict=True)]

    with np.errstate(all="ignore"):
        level.guard(peer.name, run)
    return level.level()


def by_kernel(peer: Peer, fused: Module, inputs: Sequence[Array], env: Mapping[str, int]) -> Level:
    """Judge a peer on each Primitive of a fused module alone, on the reference's own operands.

    End to end, bars grow with the depth of a model until they decide nothing; these do not.
    """
    level = Recorder(f"{peer.name}, by kernel", peer.name)
    functions = {f.name: f for f in fused.functions}

    def visit(
        _: Function, n: Node, args: list[Array], bound: Mapping[str, int], run: graph.Run
    ) -> Sequence[Array]:
        if n.op == CALL and RESHAPE_ONLY not in functions[n.callee].attr and level.sample(n.callee):
            alone = Module((replace(functions[n.callee], attrs=()),), fused.dims)
            level.guard(n.callee, partial(_kernel, level, peer, alone, args, dict(bound)))
        return run()

    with suppress(DidymaError):  # where the reference refuses the inputs, earlier levels say so
        graph.walk(fused, inputs, visit, env)
    return level.level()


def accepts(peer: Peer, m: Module, inputs: Sequence[Array], model: bytes) -> bool:
    """Return whether a peer runs the ONNX model of a module on some inputs."""
    try:
        peer.run(m, inputs, model)
    except DidymaError:
        return False
    return True


def _kernel(
    level: Recorder, peer: Peer, m: Module, args: Sequence[Array], env: Mapping[str, int]
) -> None:
    """Judge one kernel; where the peer refuses it, its elements count as undecided."""
    try:
        outs = peer.run(_without_symbols(m, env), args)
    except DidymaError as e:
        if e.code not in REFUSALS:
            raise
        sizes = (int(dims.evaluate(t.numel, env)) for t in m.entry.result_types())
        level.comparisons += [Comparison(0, n, 0.0) for n in sizes]
        return
    _compare(level, peer, m, args, env, outs)


def _compare(
    level: Recorder,
    peer: Peer,
    m: Module,
    inputs: Sequence[Array],
    env: Mapping[str, int],
    outs: Sequence[Array],
) -> None:
    f = m.entry
    bounds = graph.estimates(
        f, m, [exact(a) for a in inputs], env, peer.contract or ANYONES, stored=True
    )
    for name, bound, out, open_type in zip(f.results, bounds, outs, f.result_types(), strict=True):
        bar, t = bound.bar, open_type.with_shape(*bound.bar.c.shape)
        if not bound.sure and out.shape != bar.c.shape:
            level.comparisons.append(Comparison(0, bar.c.size, 0.0))
            continue
        if t.dtype.is_float:
            bar = Bar(bar.c, np.maximum(bar.e, LEAST))
        level.compare(f.name, [compare(name, bar, out, t)])


def _without_symbols(m: Module, env: Mapping[str, int]) -> Module:
    """Return a module of one function with numbers for its sizes."""
    f = m.entry
    nodes = tuple(
        replace(n, types=concrete(n.types, env), attrs=freeze(concrete_attrs(n, env)))
        for n in f.nodes
    )
    params = tuple(Param(p.name, *concrete((p.type,), env)) for p in f.params)
    return Module((replace(f, params=params, nodes=nodes),))
