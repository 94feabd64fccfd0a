"""What is known of a kernel on any engine, and the check that its buffers are large enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .dtypes import dtype_of
from .maps import Described
from .refused import Refused

Extents = Callable[[Mapping[str, int]], tuple[int, ...]]  # of the sizes by name
Shapes = Callable[[Mapping[str, int]], tuple[tuple[int, ...], ...]]


Maps = Callable[[Mapping[str, int]], tuple[Described, ...]]


def no_maps(sizes: Mapping[str, int]) -> tuple[Described, ...]:
    """Return the maps of a kernel that has none."""
    del sizes
    return ()


@dataclass(frozen=True, slots=True)
class Kernel:
    """How a kernel is launched.

    ``grid``, ``sizes`` and ``shapes`` are functions of the sizes by name: its blocks, the elements
    of each of the ``buffers``, which are names and dtypes, and the shapes of the ``outputs``.
    ``nodes`` are those of the graph that it computes.  ``shared`` are the bytes of shared memory
    that a launch on a GPU asks for, beside those that the kernel declares.  ``maps`` are the tensor
    maps that a launch passes, likewise of the sizes.
    """

    buffers: tuple[tuple[str, str], ...]
    outputs: tuple[str, ...]
    dims: tuple[str, ...]
    grid: Extents
    sizes: Extents
    block: tuple[int, int, int]
    shapes: Shapes
    nodes: tuple[str, ...] = ()
    shared: int = 0
    maps: Maps = no_maps


def needs(k: Kernel, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the bytes that each buffer of a launch must have."""
    pairs = zip(k.buffers, k.sizes(sizes), strict=True)
    return tuple(count * dtype_of(dtype).itemsize for (_, dtype), count in pairs)


def require_room(kernel: str, k: Kernel, at: int, nbytes: int, needed: int) -> None:
    """Raise ``buffer-too-small`` where a kernel's buffer of a number has less than it needs."""
    if nbytes < needed:
        name, dtype = k.buffers[at]
        want = f"{needed // dtype_of(dtype).itemsize} elements of {dtype}"
        where = f"{kernel}, buffer {name}"
        raise Refused("buffer-too-small", where, got=f"{nbytes} bytes", want=want)
