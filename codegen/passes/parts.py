"""Sum long products in parts, where the tiles of their results would leave a device idle.

A product of few results and many terms has few tiles for a GPU of many multiprocessors.  So its
terms are cut into parts: a batch of products, whose sums in f32 a second kernel adds up in the
order of the parts, and goes on from there.  No result depends on which part is done first.  Known
as split-K, here with the parts in memory ("parallel" in NVIDIA's CUTLASS).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product

from didyma.codegen.decisions import Heard, unheard
from didyma.codegen.passes.blocks import blocks
from didyma.codegen.passes.rewriting import Rewriting
from didyma.codegen.templates.cluster import HEIGHTS, WIDTHS
from didyma.codegen.templates.fetching import NEEDED
from didyma.codegen.templates.pace import CLUSTERS, cycles, shared_cycles
from didyma.refimpl.ir.graph import Function, Module, Node
from didyma.refimpl.ir.group_products import LINE
from didyma.refimpl.ir.target import Target
from didyma.refimpl.ir.types import DType, TensorType

CUT = "sum a long product in parts"
SUMMED = frozenset({DType.F16, DType.BF16, DType.F32})
LEAST = 8  # rows and columns of a product that is computed by tiles
SIDES = ((64, 64), (64, 128), (128, 64), (128, 128), (128, 256))  # of tiles
# Fitted to 65 times of an H200: cycles of a second kernel, and bytes of parts that pass in one of
# a multiprocessor; parts at most, and the share of the time that is worth them.  What takes so many
# times the best estimate is not worth timing.
SECOND, PASSED = 3000, 4
MOST, GAIN, NEAR = 16, 0.97, 1.25


def in_parts(m: Module, target: Target, number: int, heard: Heard) -> Module:
    """Cut the terms of products that leave multiprocessors idle, if the target has ``mma``.

    The ``number`` of parts is that of the option ``graph.parts``.
    """
    if number == 1 or "mma" not in target.families:
        return m
    entered = blocks(m)
    functions = (
        _rewritten(f, target, number, heard) if f.name in entered else f for f in m.functions
    )
    return replace(m, functions=tuple(functions))


def count(rows: int, columns: int, terms: int, processors: int, *, clusters: bool = False) -> int:
    """Return into how many parts to cut the terms of a product; 1 where that does not pay.

    With ``clusters`` one kernel can cut them, too (``cluster_gemm``).

    >>> count(4096, 4096, 4096, 132), count(512, 512, 16384, 132), count(16, 4096, 4096, 132)
    (1, 4, 4)
    >>> count(16, 4096, 4096, 132, clusters=True)
    1
    """
    times = _times(rows, columns, terms, processors, clusters)
    best = min(times, key=lambda n: times[n])
    return best if times[best] < GAIN * times[1] else 1


def _times(
    rows: int, columns: int, terms: int, processors: int, clusters: bool
) -> Mapping[int, float]:
    """Estimate the cycles of a product by the numbers of parts into which it can be cut."""
    sizes = (1, max(rows, columns), min(rows, columns))
    shared = (
        shared_cycles(sides, sizes, -(-terms // LINE), n)
        for sides in product(HEIGHTS, WIDTHS)
        for n in range(2, len(CLUSTERS) + 1)
    )
    together = min(shared) if clusters else float("inf")

    def time(parts: int) -> float:
        turns = terms // parts // LINE
        waves = ((-(-rows // h) * -(-columns // w) * parts, (h, w)) for h, w in SIDES)
        of_tiles = (
            cycles(sides, (2 * LINE, 2 * LINE), turns, -(-n // processors)) for n, sides in waves
        )
        passed = 2 * parts * rows * columns * DType.F32.nbytes / (PASSED * processors)
        once = min(of_tiles)
        return once + SECOND + passed if parts > 1 else min(once, together)

    return {n: time(n) for n in range(1, MOST + 1) if n == 1 or terms % (n * LINE) == 0}


def numbers(m: Module, target: Target) -> tuple[int, ...]:
    """Return the numbers of parts that are worth timing for some product of a fused module.

    They are those by which the model estimates little more time than by the best.
    """
    found = set[int]()
    for f in m.functions:
        types = f.types()
        for sizes in filter(None, (_sizes(n, types, target) for n in f.nodes)):
            times = _times(*sizes)
            found |= {n for n, t in times.items() if t <= NEAR * min(times.values())}
    return tuple(sorted(found))


def _rewritten(f: Function, target: Target, number: int, heard: Heard) -> Function:
    types = f.types()
    found = [_parts(n, types, target, number) for n in f.nodes]
    if all(parts == 1 for parts in found):
        return f
    work = Cutting(f, "part", heard=heard)
    for n, parts in zip(f.nodes, found, strict=True):
        if parts == 1:
            work.add(n)
        else:
            work.cut(n, parts)
    return replace(f, nodes=tuple(work.nodes))


def _parts(n: Node, types: dict[str, TensorType], target: Target, number: int) -> int:
    """Return the parts of a node; 1 for what cannot be cut."""
    sizes = _sizes(n, types, target)
    if sizes is None:
        return 1
    rows, columns, terms, processors, clusters = sizes
    if number:
        return 1 if terms % (number * LINE) else number
    return count(rows, columns, terms, processors, clusters=clusters)


def _sizes(
    n: Node, types: dict[str, TensorType], target: Target
) -> tuple[int, int, int, int, bool] | None:
    """Return what ``count`` asks for; None for anything but a product of two known matrices."""
    if n.op != "matmul" or n.types[0].dtype not in SUMMED or n.types[0].rank != 2:
        return None
    rows, columns = n.types[0].shape
    terms = types[n.args[0]].shape[1]
    if not (isinstance(rows, int) and isinstance(columns, int) and isinstance(terms, int)):
        return None
    if min(rows, columns) < LEAST:
        return None
    halves = n.types[0].dtype.nbytes == DType.F16.nbytes
    clusters = halves and NEEDED.issubset(target.families)
    return rows, columns, terms, target.processors, clusters


@dataclass
class Cutting(Rewriting):
    """A function of which some products are cut."""

    heard: Heard = unheard

    def cut(self, n: Node, parts: int) -> None:
        """Add a product as a batch of products, and the sum of the batch."""
        t = n.types[0]
        pieces = (self.pieces(a, axis, parts) for a, axis in zip(n.args, (1, 0), strict=True))
        sums = self.op("matmul", *pieces)
        self.heard(CUT, n.results[0])
        total = self.op("sum", sums, axes=(0,), keepdims=False)
        last = Node(n.results, "cast", (total,), n.types, (("dtype", t.dtype),))
        if t.dtype is DType.F32:
            last = replace(self.nodes.pop(), results=n.results)
        self.add(last)

    def pieces(self, value: str, axis: int, parts: int) -> str:
        """Return a matrix in f32, with an axis cut into parts, which come first.

        What is cut is the stored matrix, which costs nothing, before it is turned and converted.
        """
        order, casts = [0, 1], [DType.F32]
        while n := self.moved(value):
            if n.op == "cast":
                casts.append(n.types[0].dtype)
            else:
                order = [1 - a for a in order]
            (value,) = n.args
        at, shape = order[axis], self.types[value].shape
        terms = shape[at]
        assert isinstance(terms, int)
        cut = (*shape[:at], parts, terms // parts, *shape[at + 1 :])
        value = self.op("reshape", value, shape=cut)
        turned = (at, *(a + (a >= at) for a in order))
        if turned != (0, 1, 2):
            value = self.op("permute_dims", value, axes=turned)
        for dtype in reversed(casts):
            if self.types[value].dtype is not dtype:
                value = self.op("cast", value, dtype=dtype)
        return value

    def moved(self, value: str) -> Node | None:
        """Return what turns a matrix, or converts it to a dtype that is no narrower."""
        n = self.defs.get(value)
        if n is None or n.op not in ("cast", "permute_dims"):
            return None
        widens = self.types[n.args[0]].dtype.bits <= n.types[0].dtype.bits
        return n if widens and (n.op == "cast" or n.attr["axes"] == (1, 0)) else None
