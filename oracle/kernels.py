"""Run the kernels of one Primitive function by the loop interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from refimpl.interp import loop
from refimpl.ir import dims
from refimpl.ir.loop import PrimFunc
from refimpl.ir.types import Array

POISON = 0xA5  # unlikely bytes in a buffer that a kernel has yet to write


def run_primfuncs(
    funcs: Sequence[PrimFunc], whole: PrimFunc, inputs: Sequence[Array], env: Mapping[str, int]
) -> tuple[Array, ...]:
    """Run the kernels of a Primitive in order by the loop interpreter.

    ``whole`` is the PrimFunc they come from: its parameters are the inputs, then the outputs,
    which start out poisoned.
    """
    given = dict(zip(whole.inputs, inputs, strict=True))
    buffers: dict[str, Array] = {}
    for p in whole.params:
        if p.name in given:
            buffers[p.name] = given[p.name]
        else:
            shape = [dims.evaluate(d, env) for d in p.shape]
            size = int(np.prod(shape, dtype=np.int64)) * p.dtype.nbytes
            raw = np.full(size, POISON, np.uint8)
            buffers[p.name] = raw.view(p.dtype.numpy).reshape(shape)
    for f in funcs:
        shaped = {
            p.name: buffers[p.name].reshape([dims.evaluate(d, env) for d in p.shape])
            for p in f.params
        }
        loop.run(f, shaped, env)
    return tuple(buffers[o] for o in whole.outputs)
