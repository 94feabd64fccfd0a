"""Arrays of others: those whose elements are put side by side, and those that DLPack hands over."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from itertools import product
from random import Random
from typing import Any

import numpy as np

from didyma.codegen.runtime import dlpack, strided
from didyma.codegen.runtime.engine import Engine
from didyma.fuzz.parts.told import code_of, differ
from didyma.refimpl.ir.types import Array, DType

KINDS = (np.float64, np.float32, np.float16, np.int8, np.int64, np.uint16, np.uint32, np.bool_)
UNKNOWN = (DType.I4, DType.U2, DType.F4E2M1)  # dtypes that DLPack does not hand over


def judged(r: Random, engine: Engine) -> Iterator[str]:
    """Yield what is wrong with a kernel that packs, or with what is borrowed and lent."""
    if r.random() < 0.5:
        yield from _packed(r, engine)
    else:
        yield from _borrowed(r)
        yield from _lent(r)


def _drawn(r: Random) -> tuple[Array, Sequence[int]]:
    """Return an array of any strides, and these in elements."""
    dtype = np.dtype(r.choice(KINDS))
    shape = [r.choice((1, 2, 3, 4)) if r.random() < 0.95 else 0 for _ in range(r.randrange(5))]
    shape = [*shape[:2], r.choice((90, 256, 257))] if r.random() < 0.15 else shape
    order = r.sample(range(len(shape)), len(shape)) if r.random() < 0.5 else [*range(len(shape))]
    strides, step = [0] * len(shape), r.choice((1, 1, 1, 2, 3))
    for axis in reversed(order):
        strides[axis] = step * r.choice((1, 1, 1, -1))
        step *= max(1, shape[axis])
        step += r.choice((0, 0, 0, 1, 4))
        strides[axis] = 0 if r.random() < 0.1 else strides[axis]
    if 0 in shape:
        return np.zeros(shape, dtype), [s // dtype.itemsize for s in np.zeros(shape, dtype).strides]
    steps = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    first = -sum(s for s in steps if s < 0)
    before = r.randrange(3)
    row = _values(r, before + 1 + sum(map(abs, steps)), dtype)
    at = row[before + first :]
    bytes_ = [s * dtype.itemsize for s in strides]
    return np.lib.stride_tricks.as_strided(at, shape, bytes_), strides


def _values(r: Random, count: int, dtype: np.dtype[Any]) -> Array:
    most = 2 if dtype == np.bool_ else 100
    return np.array([r.randrange(most) for _ in range(count)]).astype(dtype)


def _packed(r: Random, engine: Engine) -> Iterator[str]:
    """The kernel that packs has each element of an array, wherever that lies."""
    array, strides = _drawn(r)
    shape, size = array.shape, array.itemsize
    lies = [sum(i * s for i, s in zip(at, strides, strict=True))
            for at in product(*map(range, shape))]  # fmt: skip
    low, high = (min(lies), max(lies)) if lies else (0, -1)
    found = strided.sizes(shape, strides)
    names = {f"n{k}": n for k, n in enumerate(shape)} | {f"s{k}": s for k, s in enumerate(strides)}
    want = {"count": len(lies), "span": high - low + 1, "first": -low, **names}
    if not lies:
        want["first"] = found["first"]  # of no element
    yield from differ(found, want, f"sizes of {shape} by {strides}")
    if not lies:
        return
    text = strided.text(len(shape), size)
    (s,) = text.kernels
    start = array.__array_interface__["data"][0] + low * size
    words = ctypes.string_at(start, (high - low + 1) * size)
    # what holds it is no longer than the elements, so that a guard tells of others
    x, y = (
        engine.upload(np.frombuffer(words, np.uint8)),
        engine.upload(np.zeros(array.nbytes, np.uint8)),
    )
    try:
        engine.load(text).launch(s.name, [x, y], found)
        got = engine.download(y, "u8", (array.nbytes,)).tobytes()
    finally:
        engine.free(x)
        engine.free(y)
    yield from differ(got, array.tobytes(), f"what is packed of {shape} by {strides}")


def _borrowed(r: Random) -> Iterator[str]:
    """What is borrowed says of itself what the array does, and is packed if that is."""
    array, strides = _drawn(r)
    found = dlpack.borrow(array)
    address = array.__array_interface__["data"][0]
    told = (found.dtype.numpy, found.shape, found.device)
    yield from differ(told, (array.dtype, array.shape, (1, 0)), "a borrowed array")
    if array.size:
        moves = [
            (s, t) for s, t, n in zip(found.strides, strides, array.shape, strict=True) if n > 1
        ]
        yield from differ([s for s, _ in moves], [t for _, t in moves], f"strides of {array.shape}")
        yield from differ(found.address, address, "its address")
    packed = bool(array.flags.c_contiguous)
    yield from differ(found.is_packed, packed, f"{array.shape} by {strides} is packed")
    code = code_of(dlpack.borrow, np.zeros(2, r.choice((np.complex64, np.complex128))))
    yield from differ(code, "input-dtype", "complex numbers")


class _Lender:
    """Hands over a capsule, as arrays of other libraries do."""

    def __init__(self, capsule: object) -> None:
        self.capsule = capsule

    def __dlpack__(self, **asked: Any) -> object:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU, 0


def _lent(r: Random) -> Iterator[str]:
    """What is lent has the elements of its memory, and comes back once, taken over or not."""
    shape = tuple(r.randint(1, 4) for _ in range(r.randrange(4)))
    dtype = DType.of(np.empty(0, r.choice(KINDS)))
    memory = _values(r, math.prod(shape), dtype.numpy)
    address, back, before = memory.__array_interface__["data"][0], list[int](), dlpack.lent()

    def lend(t: DType) -> object:
        return dlpack.lend(address, t, shape, (dlpack.CPU, 0), lambda: back.append(1))

    held: Any = _Lender(lend(dtype))
    yield from differ((dlpack.lent(), len(back)), (before + 1, 0), f"what is lent of {shape}")
    if r.random() < 0.7:
        array = np.from_dlpack(held)
        want = memory.reshape(shape)
        yield from differ((array.dtype, array.tolist()), (dtype.numpy, want.tolist()), "an array")
        held.capsule = None
        yield from differ(back, [], "what came back of what is held")
        del array
    held.capsule = None
    yield from differ((dlpack.lent(), back), (before, [1]), "what came back")
    yield from differ(code_of(lend, r.choice(UNKNOWN)), "device-unsupported", "a packed dtype")
