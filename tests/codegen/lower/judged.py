"""Lowered and scheduled functions against the reference, one function at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from didyma.codegen.lower import lower
from didyma.codegen.options import Options
from didyma.codegen.passes.fuse import fuse
from didyma.codegen.passes.simplify import simplify
from didyma.codegen.schedule import schedule
from didyma.oracle import lanes
from didyma.refimpl.interp import graph as reference
from didyma.refimpl.ir.dims import evaluate
from didyma.refimpl.ir.graph import CALL, PRIMITIVE, RESHAPE_ONLY, Function, Module
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.types import Array, DType, from_memory, to_memory
from didyma.refimpl.ops.bars import Contract, exact, judge
from didyma.refimpl.verify import loop as laws


def array(values: object, dtype: DType = DType.F32) -> Array:
    """Make an array of a dtype."""
    return np.asarray(values, dtype.numpy)


def primitive(m: Module) -> Module:
    """Make the entry one Primitive function."""
    f = m.entry
    named = Function(f.name, f.params, f.nodes, f.results, ((PRIMITIVE, 1),))
    return Module((named,), m.dims)


def execute(
    kernels: Sequence[PrimFunc], p: PrimFunc, inputs: Sequence[Array], env: Mapping[str, int]
) -> list[Array]:
    """Run kernels in order on bytes that nobody has written."""
    memory: dict[str, Array] = {}
    given = iter(inputs)
    for b in p.params:
        shape = tuple(evaluate(d, env) for d in b.shape)
        if b.name in p.outputs:
            memory[b.name] = _unset(b.dtype, shape)
        else:
            memory[b.name] = np.array(to_memory(next(given)))
    for k in kernels:
        for b in k.params:
            if b.name not in memory:  # which kernels of one function share
                shape = tuple(evaluate(d, env) for d in b.shape)
                memory[b.name] = _unset(b.dtype, shape)
        views = {
            b.name: memory[b.name].reshape([evaluate(d, env) for d in b.shape]) for b in k.params
        }
        lanes.run(k, views, {d.name: env[d.name] for d in k.dims})
    return [memory[o] for o in p.outputs]


def _unset(dtype: DType, shape: tuple[int, ...]) -> Array:
    count = dtype.nbytes * int(np.prod(shape, dtype=np.int64))
    return np.full(count, 0xA5, np.uint8).view(dtype.numpy).reshape(shape)


def classes(kernels: Sequence[PrimFunc]) -> list[str]:
    """Return the schedules that kernels got."""
    return [str(dict(k.attrs)["schedule"]) for k in kernels]


def agree(
    f: Function,
    m: Module,
    inputs: Sequence[Array],
    env: Mapping[str, int],
    options: Options | None = None,
) -> list[str]:
    """Hold both loop levels of a Primitive function to the reference's bars.

    Returns the schedules of its kernels.
    """
    bars = reference.bars(f, m, [exact(x) for x in inputs], env, Contract())
    p = lower(f, m)
    kernels = schedule(p, options or Options())
    for level, run in (("loop", (p,)), ("kernel", kernels)):
        for k in run:
            laws.verify(k)
        outs = execute(run, p, inputs, env)
        for bar, raw, t in zip(bars, outs, f.result_types(), strict=True):
            out = from_memory(raw, t.dtype, [evaluate(d, env) for d in t.shape])
            wrong = ~judge(bar, out, t.dtype).ok
            assert not wrong.any(), f"{level} of {f.name}: {out[wrong]} for {bar.c[wrong]}"
    return classes(kernels)


def agree_everywhere(m: Module, inputs: Sequence[Array], env: Mapping[str, int]) -> list[str]:
    """Hold every kernel of a module to the reference, on the reference's own values."""
    fused = fuse(simplify(m))
    known = reference.values(fused.entry, fused, inputs, env)
    found: list[str] = []
    for n in fused.entry.nodes:
        if n.op == CALL:
            f = fused.function(n.callee)
            if f.attr.get(PRIMITIVE) and not f.attr.get(RESHAPE_ONLY):
                found += agree(f, fused, [known[a] for a in n.args], env)
    return found
