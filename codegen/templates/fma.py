"""Products of f32 matrices without tensor cores, at the pace of multiplications and additions.

A block computes ``height`` by ``width`` results, of which a thread has ``tall`` by 8 in registers,
in squares of 4 by 4.  Of each term it loads runs of four elements of both tiles; a warp is 4 by 8
threads, so that each load of a warp is of 64 or 128 bytes in a row.  While a tile of
``depth`` terms is multiplied, the elements of the next are on their way to registers; they go to
the other half of shared memory, so that a turn has one barrier.  Where both operands are arrays,
asynchronous copies may fetch tiles into several ``stages`` of shared memory instead, by 16 bytes or
by element.  Of few tiles, each may be of several ``slices``: teams of threads that have a part of
the terms of each turn, and in the end a part of the results.  After Volkov and Demmel,
"Benchmarking GPUs to Tune Dense Linear Algebra" (SC 2008).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from didyma.codegen.codegens import Asked, Template, Values
from didyma.codegen.templates.fma_text import COPIED, FETCHED
from didyma.codegen.templates.hooks import ACCESS
from didyma.codegen.templates.language import Given, Launch, Text
from didyma.codegen.templates.problem import Problem
from didyma.codegen.templates.products import product
from didyma.codegen.templates.suiting import suited
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.types import DType

SPACE: Mapping[str, tuple[int, ...]] = MappingProxyType({
    "height": (64, 128, 256),
    "width": (64, 128, 256),
    "depth": (8, 16),
    "tall": (8, 16),
    "slices": (1, 2),
    "stages": (1, 3),
})  # fmt: skip
SMALL = 1 << 28  # elements of arrays whose places i32 counts, with those of a border
EACH, WIDE = 8, 4  # columns of a thread, and neighbours that are stored together
MOST = 256  # threads of a block
BROAD = (128, 256, 16)  # rows and columns of a tile, and rows of a thread, that pay with copies
AXES = {"left": ("", "row", "term"), "right": ("", "term", "column")}  # of operands
GROUP = 8  # tiles down that blocks which run together share, with those across


def space(asked: Asked) -> Mapping[str, tuple[int, ...]] | None:
    """Return the values of the parameters, or None for a function that is no such product."""
    return None if _found(asked) is None else SPACE


def _found(asked: Asked) -> Problem | None:
    p = asked.once(product)
    dtypes = {DType.F64} if p is None else {x.value.dtype for x in p.operands.values()}
    return p if p is not None and {*dtypes, p.output.inputs[3].dtype} == {DType.F32} else None


def block(asked: Asked, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes of its tiles, and of what slices hand over.

    None fits of which a thread has less than a run of a tile to fetch.  Copies go with threads of
    8 rows, or with tiles of 256 columns if those come by 16 bytes, which go with nothing else.
    """
    p = _problem(asked)
    height, width, tall, slices = (values[n] for n in ("height", "width", "tall", "slices"))
    threads = height // tall * (width // EACH) * slices
    stages, copied = values["stages"], all(_copied(p, name)[0] for name in ("left", "right"))
    ring = max(2, stages) * values["depth"] * (height + width + 2 * WIDE)
    shared = ring + (slices > 1) * slices * height * width
    broad = stages > 1 and (height, width, tall) == BROAD and _copied(p, "right")[1]
    usual = width < BROAD[1] and (stages == 1 or tall == EACH)
    if not (broad or usual) or (stages > 1 and not copied):
        return 0, 0
    wide = {n: p.run(n, ACCESS) if stages == 1 else _copied(p, n)[1] for n in ("left", "right")}
    runs = ((side, WIDE if wide[n] else 1) for n, side in (("left", height), ("right", width)))
    filled = all(side * values["depth"] % (threads * run) == 0 for side, run in runs)
    return threads if threads <= MOST and filled else 0, shared * DType.F32.nbytes


def cost(asked: Asked, values: Values) -> float:
    """Estimate the time of a kernel, in cycles.

    A multiprocessor multiplies and adds 128 pairs at once; a barrier ends each turn, and elements
    are fetched by threads one by one.
    """
    p, (threads, _) = _problem(asked), block(asked, values)
    if not threads:
        return float("inf")
    height, width, depth = values["height"], values["width"], values["depth"]
    batch, rows, columns = map(p.expected, p.output.extents)
    tiles = batch * -(-rows // height) * -(-columns // width)
    terms = p.expected(p.operands["left"].extents[2])
    turns = -(-terms // depth)
    processors = asked.target.processors or PROCESSORS
    room = max(1, SUMS // (threads * values["tall"] * EACH))
    together = max(1, min(room, -(-tiles // processors)))
    running = together * threads
    busy = min(1.0, running / LANES) * math.pow(min(1.0, running / MOST), ALONE)
    products = height * width * depth / LANES / busy
    if values["stages"] > 1:
        products *= BY_COPIES if width < BROAD[1] else BROADER
    elif rows % height or columns % width or terms % depth:
        products *= MASKED
    if values["stages"] == 1 and not all(p.run(name, ACCESS) for name in AXES):
        products *= ONE_BY_ONE
    step = SHARE * products + (height + width) * depth / LOADED
    waves = -(-tiles // (processors * together))
    return waves * turns * (together * step + BARRIER)


# Fitted to 101 times of an H200: multiprocessors, multiplications in a cycle of one, sums that it
# holds at once, elements that it fetches in a cycle, cycles of a turn, and what few threads lose.
PROCESSORS, LANES, SHARE, SUMS, LOADED, BARRIER, ALONE = 132, 128, 1.22, 1 << 15, 84, 65, 0.13
# Likewise to 45 later times: what products take longer where copies fetch, also of 256 columns, and
# where they do not but tiles go beyond the matrix or elements are fetched one by one.
BY_COPIES, BROADER, MASKED, ONE_BY_ONE = 1.01, 0.98, 1.05, 1.2


def render(asked: Asked, values: Values, text: Text | None = None) -> TextKernel:
    """Write the kernel."""
    p, copied = _problem(asked), values["stages"] > 1
    batch, rows, columns = p.output.extents
    down, across = (
        ix.ceildiv(n, ix.index(values[side])) for n, side in ((rows, "height"), (columns, "width"))
    )
    grid = (p.dim(ix.mul(batch, down, across)), 1, 1)
    names: dict[str, Given] = {"group": GROUP, "wide": int(p.stored(WIDE) is not None),
                               "count": "i32" if _is_small(p) else "i64"}  # fmt: skip
    for name, axes in AXES.items():
        run = p.run(name, ACCESS)
        names[f"{name}_by"] = "" if run is None else axes[run.axis]
        if copied:
            names[f"{name}_by"], names[f"{name}_wide"] = _copied(p, name)
    text = text or (COPIED if copied else FETCHED)
    return text.render(p, values, Launch(grid, (block(asked, values)[0], 1, 1), None, names))


def _copied(p: Problem, name: str) -> tuple[str, int]:
    """Return along which axis an operand lies that copies fetch, and whether they do by 16 bytes.

    Those are of neighbours that are so in shared memory, too: rows of the left, columns of the
    right operand.  The axis is empty where something is computed of it, or it lies otherwise.
    """
    run = p.run(name, DType.F32.nbytes)
    by = "" if run is None else AXES[name][run.axis]
    return by, int(by in ("row", "column") and p.run(name, ACCESS) is not None)


def _is_small(p: Problem) -> bool:
    """Return whether i32 counts all places of the operands, and those beside them."""
    shapes = [b.shape for b in p.loop.params]
    known = all(isinstance(n, int) for shape in shapes for n in shape)
    return known and max(math.prod(map(int, shape)) for shape in shapes) < SMALL


_problem = suited(_found)


def best(asked: Asked) -> bool:
    """Return whether there is enough to do: a tile of results, and of terms."""
    p = _found(asked)
    if p is None:
        return False
    _, rows, columns = map(p.expected, p.output.extents)
    terms = p.expected(p.operands["left"].extents[2])
    return min(rows, columns) >= min(SPACE["height"]) and terms >= min(SPACE["depth"])


TEMPLATE = Template("fma_gemm", space, cost, render, block, best)
