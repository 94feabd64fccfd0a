"""Workspaces: buffers in device memory that a function allocates around its nests."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.loop import Allocate, Block, Buffer, For, LoopKind, PrimFunc, Scope
from didyma.refimpl.ir.types import Array, DType

_AT_ONCE = (LoopKind.PARALLEL, LoopKind.BOUND)
_POISON = 0xA5


def opened(f: PrimFunc) -> PrimFunc:
    """Return a function whose workspace is among its parameters, which it writes.

    A workspace is what a function allocates in device memory around several nests.
    """
    body, made = f.body, list[Buffer]()
    while isinstance(body, Allocate) and body.buffer.scope is Scope.GLOBAL:
        made.append(body.buffer)
        body = body.body
    several = isinstance(body, Block) and any(
        isinstance(s, For) and s.kind in _AT_ONCE for s in body.body
    )
    if not (made and several):
        return f
    results = tuple(b for b in f.params if b.name in f.outputs)
    operands = tuple(b for b in f.params if b.name not in f.outputs)
    names = tuple(b.name for b in made)
    return replace(
        f, params=(*operands, *made, *results), outputs=(*names, *f.outputs), body=body
    )  # fmt: skip


def given_room(
    f: PrimFunc,
    buffers: Mapping[str, Array],
    sizes: Mapping[str, int],
    held: Callable[[DType], np.dtype[np.generic]],
) -> tuple[PrimFunc, Mapping[str, Array]]:
    """Return a function with its workspace among its parameters, and an array for each of these.

    The bytes of the workspace are poison, which no stage may read before it has written them.
    """
    found = opened(f)
    if found is f:
        return f, buffers
    room = {
        b.name: _poisoned(dims.values(b.shape, sizes), held(b.dtype))
        for b in found.params
        if b.name not in buffers
    }
    return found, {**buffers, **room}


def _poisoned(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    raw = np.full(math.prod(shape) * dtype.itemsize, _POISON, np.uint8)
    return raw.view(dtype).reshape(shape)
