"""Rows that are folded in one pass, by clusters that stay and copy the next row meanwhile.

For rows that are too long for a block, and that the blocks of a cluster hold.  The blocks tell each
other once a row what they have, and wait for nothing else.  With ``keep`` threads keep the
exponentials of a softmax, whose results are products then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from didyma.codegen.schedule import paired, streamed
from didyma.codegen.schedule import rows as nests
from didyma.codegen.schedule.online import OnePass
from didyma.codegen.schedule.recipes import rows
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values, powers
from didyma.codegen.schedule.recipes.work import Work
from didyma.codegen.schedule.row_kernel import Threads
from didyma.codegen.schedule.rows import RowNest
from didyma.codegen.schedule.team import of_cluster
from didyma.refimpl.ir.loop import Const, Load, PrimFunc
from didyma.refimpl.verify.attributes import GIVEN

OWN = 64 << 10  # bytes of a row that are worth a block of a cluster
LONG = 1.5  # times what a block may share has a row of which one would keep too little
ROWS = 16  # of a cluster, at least, where that was faster: nothing covers the copies of its first
MOST = 32 << 10  # elements of a row for which the threads of a block have registers
FEW, MUCH = 512, 40  # threads of a block that keep terms, where each has more elements than that
AWAY = 12  # one in so many multiprocessors may lie where no cluster has room
BARRIERS = 16  # bytes of the two at which numbers come


def in_one_pass(work: Work, kept: int) -> tuple[RowNest, Mapping[Load, tuple[int, ...]], OnePass]:
    """Return rows that are folded in one pass, what their stages load, and that pass.

    Threads keep the terms of so many elements, but none where these are not all that stages have in
    common.
    """
    assert work.rows is not None
    assert work.row_online is not None
    nest, loads = work.row_kept(kept)
    if (once := paired.keeping(nest, work.row_online)) is None:
        return work.rows, work.row_loads, OnePass(work.row_online, 1)
    return nest, loads, once


def _fit(work: Work) -> Fit | None:
    target = work.facts.target
    if work.rows is None or work.row_across or target.cluster < 2 or not target.processors:
        return None
    if not {"cp_async", "mbarrier"} <= {*target.families}:
        return None
    if not isinstance(work.rows.length, Const) or work.row_online is None:
        return None
    if work.row_online.shift.dtype not in GIVEN or not _copied(work, values := default(work)):
        return None
    many = work.facts.largest(work.rows.nest.numel) >= ROWS * values["clusters"]
    fits = work.facts.largest(work.rows.length) <= MOST * values["blocks"]
    long = values["blocks"] == target.cluster and _nbytes(work) > LONG * target.room
    return Fit.TILED if many and fits and long and work.rows.each is not None else Fit.POOR


def _nbytes(work: Work) -> int:
    """Return the bytes of a row that several stages load."""
    assert work.rows is not None
    return work.facts.largest(work.rows.length) * work.row_nbytes


def _kept(work: Work, values: Values) -> int:
    """Return how many terms a thread keeps: as many as it has elements, or none."""
    assert work.rows is not None
    threads = values["lanes"] * values["blocks"]
    turns = nests.turns_of(work.facts, work.rows, threads, values["wide"])
    return (turns or 0) * values["wide"] * values.get("keep", 0)


def _copied(work: Work, values: Values) -> Sequence[Load]:
    """Return what threads copy of a row before they need it."""
    assert work.rows is not None
    threads, wide = values["lanes"] * values["blocks"], values["wide"]
    if work.row_edges(wide) or nests.turns_of(work.facts, work.rows, threads, wide) is None:
        return ()
    return work.row_copies(threads, wide, _kept(work, values))


def default(work: Work) -> Values:
    """Return as many blocks as a row is worth, and as many clusters as run at once.

    Fewer threads keep more terms each: they do less beside computing these.
    """
    assert work.rows is not None
    target, blocks = work.facts.target, 2
    while blocks < target.cluster and _nbytes(work) > OWN * blocks:
        blocks *= 2
    lanes, keep = target.threads, {"keep": 1} if work.row_values.shared else {}
    if keep and work.facts.largest(work.rows.length) > MUCH * FEW * blocks:
        lanes = min(lanes, FEW)
    values = {"blocks": blocks, "lanes": lanes, "wide": work.row_widths[0]}
    return values | keep | {"clusters": _together(work, blocks)}


def _together(work: Work, blocks: int) -> int:
    """Return how many clusters of so many blocks run at once, with a multiprocessor for each."""
    processors = work.facts.target.processors
    return max(1, (processors - processors // AWAY) // blocks)


def space(work: Work) -> Space:
    """Return the numbers of blocks of a cluster, of threads in each, and of clusters."""
    target, usual = work.facts.target, default(work)
    counts = (_together(work, n) for n in powers(2, target.cluster))
    clusters = {several * n for n in counts for several in (1, 2)}
    clusters |= {target.processors // n - k for n in powers(2, target.cluster) for k in range(3)}
    found = {
        "blocks": powers(2, target.cluster),
        "lanes": powers(target.warp, target.threads),
        "wide": work.row_widths,
        "clusters": tuple(sorted({1, 2, *(n for n in clusters if n > 0)})),
    }
    return found | ({"keep": (0, 1)} if "keep" in usual else {})


def block(work: Work, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes that they share: parts of folds, and rows."""
    assert work.rows is not None
    assert work.row_online is not None
    blocks, lanes, wide = values["blocks"], values["lanes"], values["wide"]
    _, parts = rows.block(work, {"groups": 1, "lanes": lanes, "wide": wide})
    told = 2 * of_cluster([work.row_online.shift.dtype] * 2, 1, blocks) + BARRIERS
    turns = nests.turns_of(work.facts, work.rows, lanes * blocks, wide) or 0
    own = sum(x.dtype.nbytes for x in _copied(work, values)) * turns * wide
    return lanes, 2 * parts + told + lanes * own


def _legal(work: Work, values: Values) -> bool:
    return bool(_copied(work, values)) and values["lanes"] >= work.facts.target.warp


def _build(work: Work, values: Values) -> PrimFunc:
    """Schedule clusters that take rows in turn, and copy the next while they compute."""
    nest, loads, once = in_one_pass(work, _kept(work, values))
    threads = Threads(1, values["lanes"], values["wide"], blocks=values["blocks"])
    return streamed.scheduled(work.facts, nest, threads, values["clusters"], loads, once)


RECIPE = Recipe("shared", _fit, default, space, block, _build, _legal)
