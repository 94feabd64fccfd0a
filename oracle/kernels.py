"""Run the kernels of one Primitive function by the loop interpreter, and find what they read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from didyma.oracle import lanes
from didyma.refimpl.interp import scalar_ring
from didyma.refimpl.interp.program import LaunchFn
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.expand import expand
from didyma.refimpl.ir.kernel import ClaimedKernel, Kernel, loops
from didyma.refimpl.ir.loop import (
    Atomic,
    Buffer,
    Chain,
    Expr,
    ExternalCall,
    Load,
    PrimFunc,
    Select,
    Store,
)
from didyma.refimpl.ir.lowered import written_out
from didyma.refimpl.ir.types import Array, DType, TensorType, from_memory, to_memory
from didyma.refimpl.ir.walk import expr_children, stmts
from didyma.refimpl.ir.workspace import opened
from didyma.refimpl.ops import ring

POISON = 0xA5  # unlikely bytes in a buffer that a kernel has yet to write


def run_primfuncs(
    funcs: Sequence[Kernel],
    before: PrimFunc,
    inputs: Sequence[Array],
    env: Mapping[str, int],
    results: Sequence[TensorType],
    launch: LaunchFn = lanes.run,
    *,
    in_ring: bool = False,
) -> tuple[Array, ...]:
    """Run the kernels of a Primitive in order by a loop interpreter.

    ``before`` is the PrimFunc that they were made from: its parameters are the inputs, then the
    outputs, which start out poisoned and are the values of the types ``results``; so does scratch,
    the parameters of kernels alone.  With ``in_ring``
    the launcher gets, and the results are, records of floats and their payloads.
    """
    given = dict(zip(before.inputs, map(to_memory, inputs), strict=True))
    buffers = {p.name: _begun(p, given.get(p.name), env, in_ring) for p in before.params}
    for f in (opened(loops(k)) for k in funcs):
        for p in f.params:
            if p.name not in buffers:  # what kernels of one function hand on
                buffers[p.name] = _begun(p, None, env, in_ring)
        shaped = {
            p.name: buffers[p.name].reshape([dims.evaluate(d, env) for d in p.shape])
            for p in f.params
        }
        launch(f, shaped, env)
    named = zip(before.outputs, results, strict=True)
    return tuple(_result(buffers[o], t.dtype, dims.values(t.shape, env)) for o, t in named)


def _begun(b: Buffer, given: Array | None, env: Mapping[str, int], in_ring: bool) -> Array:
    """Return the array of a buffer that holds what was given, or else poison."""
    if given is not None:
        values, payloads = given, ring.embed(given) if in_ring else None
    else:
        shape = [dims.evaluate(d, env) for d in b.shape]
        raw = np.full(math.prod(shape) * b.dtype.nbytes, POISON, np.uint8)
        values, payloads = raw.view(b.dtype.numpy).reshape(shape), scalar_ring.POISON
    if in_ring and b.dtype.is_float:
        values = np.asarray(scalar_ring.joined(values, payloads))
    return values


def _result(a: Array, dtype: DType, shape: tuple[int, ...]) -> Array:
    return a.reshape(shape) if a.dtype.names else from_memory(a, dtype, shape)


def reads_before_it_writes(k: Kernel) -> frozenset[str]:
    """Outputs whose old content a kernel surely reads: ``y[i] = y[i] + ...``, or an atomic first.

    A load of another element, or under a condition, may be one of what the kernel itself stored.
    """
    if isinstance(k, ClaimedKernel):  # its results are new, and other workspace holds nothing
        return frozenset(k.text.zeroed)
    stored: set[str] = set()
    found: set[str] = set()
    outputs = set(k.outputs)
    for s in stmts(written_out(expand(k)).body):
        match s:
            case Atomic(_, buffer) | Chain(states=buffer):
                found |= {buffer} - stored
            case Store(buffer, index, value):
                if buffer not in stored and any(
                    e.buffer == buffer and e.index == index for e in _loads(value)
                ):
                    found.add(buffer)
                stored.add(buffer)
            case ExternalCall(_, written):
                stored.update(written)
            case _:
                pass
    return frozenset(found & outputs)


def _loads(e: Expr) -> Iterator[Load]:
    """Loads that are made whatever a condition says."""
    if isinstance(e, Load):
        yield e
    for c in (e.cond,) if isinstance(e, Select) else expr_children(e):
        yield from _loads(c)


def told(launch: LaunchFn, alive: Callable[[], None]) -> LaunchFn:
    """Return what runs a kernel, and says before that there is progress."""

    def run(f: PrimFunc, buffers: dict[str, Array], env: Mapping[str, int]) -> None:
        alive()
        launch(f, buffers, env)

    return run
