"""The shape of a launch: special registers of its lanes, and in which order its warps go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from didyma.refimpl.ir.types import Array


@dataclass(frozen=True, slots=True)
class Shape:
    """Threads of a block, blocks of the grid and of a cluster, along three axes.

    Of several ``copies`` of the grid, each runs by itself, on memory of its own.  The first one has
    number 0, the others those from ``second`` on.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    copies: int = 1
    second: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def padded(self) -> int:
        """Lanes of a block: whole warps."""
        return -(-self.threads // 32) * 32

    @property
    def blocks(self) -> int:
        """Blocks of all copies of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2] * self.copies


COPY = "envreg31"  # the special register with the number of a lane's copy of the grid
RANDOM = 6  # the first schedule of which the order is random


def order(schedule: int, n: int, padded: int, ranks: Array | None = None) -> Array:
    """Return keys by which groups of ``n`` lanes go first, of blocks of ``padded`` lanes.

    In clusters it is the ``ranks`` of lanes by which blocks go, so that one can end before another.
    At first all go together.  Then blocks and the warps of each go by halves, the last ones first
    and the first ones first; then the first warp of a block waits for all others, they wait for it,
    and for the last one; from ``RANDOM`` on the order is random.
    """
    per, blocks = padded >> 5, n // padded
    warps = np.arange(n) >> 5
    block, warp = warps // per, warps % per
    if ranks is not None:
        block, blocks = ranks.astype(np.int64), int(ranks.max()) + 1
    half = block * 2 // blocks * 2 + warp * 2 // per
    keys: Array
    match schedule:
        case 0:
            keys = np.zeros(n, np.int64)
        case 1:
            keys = 3 - half
        case 2:
            keys = half
        case 3:
            keys = warp == 0
        case 4:
            keys = warp > 0
        case 5:
            keys = warp < per - 1
        case _:
            count = n >> 5
            chosen = np.random.default_rng(schedule).permutation(min(8, count))
            keys = chosen[warps * chosen.size // count]
    return keys.astype(np.int64) << 24


def specials(shape: Shape, lane: Array) -> dict[str, Any]:
    """Return the special registers of lanes of the grid by name: arrays, or one value for all."""
    thread = lane % shape.padded
    copy, block = np.divmod(lane // shape.padded, shape.blocks // shape.copies)
    number = np.where(copy > 0, copy + shape.second - 1, 0)

    def axes(name: str, i: Array, extents: tuple[int, int, int]) -> dict[str, Any]:
        x, y, _ = extents
        parts = (i % x, i // x % y, i // (x * y))
        return {f"{name}.{a}": p.astype(np.uint32) for a, p in zip("xyz", parts, strict=True)}

    found = axes("tid", thread, shape.block) | axes("ctaid", block, shape.grid)
    for name, extents in (("ntid", shape.block), ("nctaid", shape.grid)):
        found |= {f"{name}.{a}": np.uint32(e) for a, e in zip("xyz", extents, strict=True)}
    for a in "xyz":
        c = np.uint32(shape.cluster["xyz".index(a)])
        at, count = found[f"ctaid.{a}"], found[f"nctaid.{a}"]
        found |= {f"cluster_ctaid.{a}": at % c, f"cluster_nctaid.{a}": c}
        found |= {f"clusterid.{a}": at // c, f"nclusterid.{a}": count // c}
    x, y, z = (found[f"cluster_ctaid.{a}"] for a in "xyz")
    cx, cy, cz = map(np.uint32, shape.cluster)
    bit = np.uint64(1) << (thread % 32).astype(np.uint64)
    masks = {
        "eq": bit, "lt": bit - np.uint64(1), "le": 2 * bit - np.uint64(1),
        "gt": ~(2 * bit - np.uint64(1)), "ge": ~(bit - np.uint64(1)),
    }  # fmt: skip
    found |= {f"lanemask_{k}": v.astype(np.uint32) for k, v in masks.items()}
    return found | {
        "laneid": (thread % 32).astype(np.uint32), "warpid": (thread // 32).astype(np.uint32),
        "nwarpid": np.uint32(shape.padded // 32), "smid": (block % 132).astype(np.uint32),
        "nsmid": np.uint32(132), "gridid": np.uint64(1), "cluster_ctarank": x + cx * (y + cy * z),
        "cluster_nctarank": cx * cy * cz, "is_explicit_cluster": np.bool_(cx * cy * cz > 1),
        "reserved_smem_offset_begin": np.uint32(0), "reserved_smem_offset_cap": np.uint32(1024),
        "reserved_smem_offset_end": np.uint32(1024), "reserved_smem_offset_0": np.uint32(0),
        "reserved_smem_offset_1": np.uint32(8), "current_graph_exec": np.uint64(0),
        "aggr_smem_size": np.uint32(0), COPY: number.astype(np.uint32),
    }  # fmt: skip
