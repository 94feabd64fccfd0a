"""Judge a result in place by running its kernel: no thread may see what another has written.

The program interpreter runs a kernel's lanes together and loads before it stores, which hides a
read of another element.  So the kernel is run apart, with the operand changed where the result is
not looked at: an element of the result that changes then has read another's bytes.  Shares nothing
with the proof that the laws ask for.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from didyma.refimpl.interp import loop
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.types import Array


class InterferenceError(Exception):
    """A kernel's result depends on the order of its threads where it lies on an operand."""


def launch(k: PrimFunc, buffers: dict[str, Array], env: Mapping[str, int]) -> None:
    """Run a kernel by the loop interpreter; InterferenceError if it may not run in place."""
    pairs = [
        (o, b.name)
        for o in k.outputs
        for b in k.params
        if b.name not in k.outputs and _same(buffers[o], buffers[b.name])
    ]
    if not pairs:
        loop.run(k, buffers, env)
        return
    want = _apart(k, buffers, env, {})
    for o, i in pairs:
        _alone(k, buffers, env, o, i, want[o])
    loop.run(k, buffers, env)
    for o in k.outputs:
        if buffers[o].tobytes() != want[o].tobytes():
            raise InterferenceError(f"@{k.name}: {o} differs where {pairs} lie on one another")


def _same(a: Array, b: Array) -> bool:
    return 0 < a.nbytes == b.nbytes and a.ctypes.data == b.ctypes.data


def _apart(
    k: PrimFunc, buffers: Mapping[str, Array], env: Mapping[str, int], other: Mapping[str, Array]
) -> dict[str, Array]:
    """Run on copies; ``other`` are operands to use instead."""
    copies = {n: np.array(other.get(n, a)) for n, a in buffers.items()}
    loop.run(k, copies, env)
    return copies


def _alone(
    k: PrimFunc, buffers: Mapping[str, Array], env: Mapping[str, int], o: str, i: str, want: Array
) -> None:
    """Each part of the result hangs on no other part of the operand whose bytes it has."""
    grain = max(want.itemsize, buffers[i].itemsize)
    parts = np.arange(-(-want.nbytes // grain))
    for changed in (parts % 2 == 0, parts % 2 == 1, parts % 3 == 0, parts == parts[-1]):
        mask = np.repeat(changed, grain)[: want.nbytes]
        raw = np.frombuffer(buffers[i].tobytes(), np.uint8).copy()
        raw[mask] ^= 0x15
        operand = raw.view(buffers[i].dtype).reshape(buffers[i].shape)
        got = _apart(k, buffers, env, {i: operand})[o]
        a, b = (np.frombuffer(x.tobytes(), np.uint8) for x in (got, want))
        if (a != b)[~mask].any():
            raise InterferenceError(f"@{k.name}: {o} lies on {i}, whose other elements it reads")
