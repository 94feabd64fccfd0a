"""Judge a result in place, twice: by the addresses its kernel touches, and by running it.

``interference`` compares, at given sizes, every element that the kernel loads of the operand with
every element that it stores of the result: each must be loaded by the thread that stores it, and
before.  It needs no data, and blames a kernel even where the values happen to agree.

``launch`` runs the kernel.  The program interpreter runs a kernel's lanes together and loads before
it stores, which hides a read of another element.  So the kernel is run apart, with the operand
changed where the result is not looked at: an element of the result that changes then has read
another's bytes.  Where threads tell one another what they have read, as those of a softmax do, it
may change all the same, and the addresses decide.  Neither shares anything with the proof that the
laws ask for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from didyma.oracle import lanes
from didyma.oracle.accesses import ElementAccess, LoopAxis, accesses
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.expand import expand
from didyma.refimpl.ir.kernel import ClaimedKernel, Kernel
from didyma.refimpl.ir.loop import Barrier, Buffer, Chain, Exchange, PrimFunc
from didyma.refimpl.ir.lowered import written_out
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ir.walk import stmts


def interference(k: PrimFunc, output: str, operand: str, env: Mapping[str, int]) -> str:
    """Return why ``output`` may not have the bytes of ``operand``; empty where it may.

    Of a kernel with more than ``accesses.MOST_POINTS`` iterations, the first and the last of each
    loop are compared.
    """
    buffers = {b.name: b for b in k.params}
    shapes = {n: dims.values(buffers[n].shape, env) for n in (output, operand)}
    found = accesses(written_out(expand(k)).body, shapes, env)
    unit = math.gcd(buffers[output].dtype.nbytes, buffers[operand].dtype.nbytes)
    for store in (a for a in found if a.writes and a.buffer == output):
        for load in (a for a in found if not a.writes and a.buffer == operand):
            both: list[LoopAxis] = []
            for a, b in zip(store.loops, load.loops, strict=False):
                if a is not b:
                    break
                both.append(a)
            if why := _clash(store, load, _Units(buffers, env, unit, tuple(both))):
                return f"@{k.name} reads {operand} {why} {output}, which has its bytes"
    return ""


class Overwrites:
    """``interference`` of the kernels of one program, worked out once for each of their sizes."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], str] = {}

    def why_not(self, k: Kernel, output: str, operand: str, env: Mapping[str, int]) -> str:
        """Return ``interference``; ``env`` may hold more than the kernel's sizes."""
        if isinstance(k, ClaimedKernel):
            return "the order in which a kernel of text reads and writes is not known"
        sizes = {v.name: env[v.name] for v in k.dims}
        key = (k.name, output, operand, *sizes.values())
        if key not in self._known:
            self._known[key] = interference(k, output, operand, sizes)
        return self._known[key]


@dataclass(frozen=True, slots=True)
class _Units:
    """How elements become units of bytes, and the loops that a store and a load share."""

    buffers: Mapping[str, Buffer]
    env: Mapping[str, int]
    unit: int
    loops: tuple[LoopAxis, ...]

    def shape(self, buffer: str) -> tuple[int, ...]:
        return dims.values(self.buffers[buffer].shape, self.env)

    def units(self, buffer: str) -> int:
        return self.buffers[buffer].dtype.nbytes // self.unit


@dataclass(frozen=True, slots=True)
class _Touched:
    """The units that an access touches, the thread that does, and its turn of the serial loops."""

    at: Array
    thread: Array
    turn: Array


_OTHER_THREAD = "in a thread other than the one that writes"
_TOO_LATE = "after it writes"


def _clash(store: ElementAccess, load: ElementAccess, to: _Units) -> str:
    if store.index is None or load.index is None:  # any element
        threads = math.prod(x.rounds.size for x in to.loops if not x.serial)
        turns = math.prod(x.rounds.size for x in to.loops if x.serial)
        if threads > 1:
            return _OTHER_THREAD
        return _TOO_LATE if turns > 1 or load.position > store.position else ""
    s, r = _touched(store, store.index, to), _touched(load, load.index, to)
    size = math.prod(to.shape(store.buffer)) * to.units(store.buffer)
    r = _within(r, size)
    writer = np.full(size, -1)
    writer[s.at] = s.thread
    several = np.zeros(size, np.bool_)
    several[s.at[writer[s.at] != s.thread]] = True
    by = writer[r.at]
    if ((by >= 0) & ((by != r.thread) | several[r.at])).any():
        return _OTHER_THREAD
    first = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(first, s.at, s.turn)
    late = r.turn > first[r.at] if load.position < store.position else r.turn >= first[r.at]
    return _TOO_LATE if late.any() else ""


def _within(t: _Touched, size: int) -> _Touched:
    keep = t.at < size
    return _Touched(t.at[keep], t.thread[keep], t.turn[keep])


def _touched(a: ElementAccess, index: tuple[Array, ...], to: _Units) -> _Touched:
    """Where an access is made, at every iteration of the loops that matter to it."""
    at: Array = np.zeros((), np.int64)
    made: Array = np.ones((), np.bool_)
    for i, n in zip(index, to.shape(a.buffer), strict=True):
        at = at * n + i
        made = made & (i >= 0) & (i < n)
    for c in a.conditions:
        made = made & c
    thread: Array = np.zeros((), np.int64)
    turn: Array = np.zeros((), np.int64)
    for x in to.loops:
        if x.serial:
            turn = turn * x.rounds.size + x.rounds
        else:
            thread = thread * x.rounds.size + x.rounds
    arrays = np.broadcast_arrays(at, made, thread, turn)
    at, thread, turn = (x[arrays[1]] for x in (arrays[0], arrays[2], arrays[3]))
    n = to.units(a.buffer)
    return _Touched(
        (at[:, None] * n + np.arange(n)).ravel(), np.repeat(thread, n), np.repeat(turn, n)
    )


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
        lanes.run(k, buffers, env)
        return
    want = _apart(k, buffers, env, {})
    told = any(isinstance(s, Barrier | Chain | Exchange) for s in stmts(k.body))
    for o, i in pairs:
        if not told:
            _alone(k, buffers, env, o, i, want[o])
        elif why := interference(k, o, i, env):
            raise InterferenceError(why)
    lanes.run(k, buffers, env)
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
    lanes.run(k, copies, env)
    return copies


def _alone(
    k: PrimFunc, buffers: Mapping[str, Array], env: Mapping[str, int], o: str, i: str, want: Array
) -> None:
    """Raise InterferenceError if a part of the result depends on another part of the operand.

    Parts of the operand are changed in turn; only the same parts of the result may change.
    """
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
