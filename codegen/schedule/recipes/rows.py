"""Rows that are folded several times or used after a fold, by threads that hold them: read once.

With ``online``, two folds of which one asks for the other are one stage: a thread takes the shift
of what it holds, then the threads of a row meet for one and for the other, with no pass between.

Without ``keep``, exponentials are computed for their sum, and again for what is divided by it.

With ``ahead``, threads that have loaded their row announce one that a later block will load.

Of rows that lie side by side in memory a thread may have ``each``.
"""

from __future__ import annotations

from collections.abc import Mapping

from didyma.codegen.schedule import prefetch, row_kernel, row_threads, rows
from didyma.codegen.schedule.inverse import by_inverse
from didyma.codegen.schedule.online import OnePass
from didyma.codegen.schedule.recipes.recipe import (
    Fit,
    Recipe,
    Space,
    Values,
    at_least,
    fills_warp,
    powers,
)
from didyma.codegen.schedule.recipes.work import Work
from didyma.codegen.schedule.row_kernel import Threads
from didyma.codegen.schedule.rows import RowNest
from didyma.codegen.schedule.team import shared
from didyma.refimpl.ir.loop import Const, Fold, Load, PrimFunc

ROOM = 1024  # threads of a multiprocessor that hold rows, as registers allow
ANNOUNCED = 512  # bytes of a row that are worth announcing
MOST = 48  # registers that a thread of a full block has for what it holds
MUCH = 32  # those that are much where it folds twice in one pass
LINE = 128  # bytes of rows side by side that memory gives as well as more
NARROW = 2  # bytes of an element that takes less room than its exponential
KEPT_AHEAD = 11 << 20  # bytes that a cache keeps until they are used, beside what is written


def _fit(work: Work) -> Fit | None:
    if work.rows is None or not holds(work, values := default(work)):
        return None
    if work.row_halves:
        return Fit.POOR
    passes = sum(isinstance(s, Fold) for s in work.rows.stages) - values.get("online", 0)
    covered = passes == 1 or values.get("ahead", 0) > 0
    return Fit.TILED if are_held(work, values, covered=covered) else Fit.POOR


def are_held(work: Work, values: Values, *, covered: bool) -> bool:
    """Return whether holding rows beats reading them again.

    ``covered`` says whether rows are on their way while a block with a multiprocessor to itself
    computes.
    """
    assert work.rows is not None
    length, (groups, lanes) = work.facts.largest(work.rows.length), work.row_shape
    alone, options = row_threads.held_alone(work.row_sizes) if covered else 0, work.facts.options
    if work.row_across and row_threads.words(sum(work.row_sizes), -(-length // lanes)) > MOST:
        return False
    return row_threads.suits(length, groups, lanes, values["wide"], options, alone)


def holds(work: Work, values: Values) -> bool:
    """Return whether the threads of a row are enough to hold it."""
    assert work.rows is not None
    lanes, width = values["lanes"], values["wide"]
    return rows.turns_of(work.facts, work.rows, lanes, width) is not None


def default(work: Work) -> Values:
    """Return as many threads a row as its length asks for, and rows that fill a block.

    With ``keep``, threads keep what several stages compute of an element.
    """
    assert work.rows is not None
    groups, lanes = work.row_shape
    found = {"groups": groups, "lanes": lanes, "wide": work.row_widths[0]}
    found |= {"each": 1} if len(work.row_counts) > 1 else {}
    if work.row_values.shared:
        narrow = _is_narrow(work, found)
        groups, lanes = _fuller(work, found) if narrow else (groups, lanes)
        found |= {"groups": groups, "lanes": lanes, "keep": int(not narrow)}
    found |= {"ahead": ahead(work, groups, lanes)} if announces(work) else {}
    if not work.row_online:
        return found
    once = int(_at_once(work, found))
    return found | {"online": once} | (_fewer(work, groups, lanes) if once else {})


def _fuller(work: Work, values: Values) -> tuple[int, int]:
    """Return the rows of a block and the threads of each, half of them if fewer have nothing then.

    That is so where rows are just longer than what some turns of the threads take.  But rows that
    may be announced stay so.
    """
    assert work.rows is not None
    groups, lanes, wide = values["groups"], values["lanes"], values["wide"]
    fewer = max(1, 2 * row_threads.FEW_BLOCK // lanes), lanes // 2
    units = work.facts.largest(work.rows.length) // wide
    half, usual = -(-units // (lanes // 2)), -(-units // lanes)
    many = lanes * work.facts.largest(work.rows.nest.numel) > row_threads.BUSY
    good = many and half < 2 * usual and (half - 1) * wide <= row_threads.HELD
    said = announces(work) and ahead(work, groups, lanes) and not ahead(work, *fewer)
    return fewer if good and not said else (groups, lanes)


def _fewer(work: Work, groups: int, lanes: int) -> dict[str, int]:
    """Return half of the rows side by side, with twice the threads, where one had too much to hold.

    Those rows must fill a line of memory.
    """
    assert work.rows is not None
    own = -(-work.facts.largest(work.rows.length) // lanes)
    much = MUCH <= row_threads.words(sum(work.row_sizes), own) <= MOST
    wide = work.row_across and groups // 2 * max(work.row_sizes) >= LINE
    return {"groups": groups // 2, "lanes": lanes * 2} if much and wide else {}


def _is_narrow(work: Work, values: Values) -> bool:
    """Return whether exponentials of narrow elements are all that stages have in common.

    Then threads have room for twice as many elements if they compute exponentials again.  That pays
    where a warp or more have a row, unless nobody computes while they load.
    """
    largest = max((x.dtype.nbytes for x in work.row_loads), default=NARROW + 1)
    alone = 2 * values["groups"] * values["lanes"] > work.facts.target.threads
    if alone or largest > NARROW or values["lanes"] < work.facts.target.warp:
        return False
    few = work.row_online is not None and bool(work.row_online.scale)
    return few and len(work.row_values.shared) == 1


def announces(work: Work) -> bool:
    """Return whether blocks may announce rows: it is known how many run at once."""
    assert work.rows is not None
    return work.facts.target.processors > 0 and not work.row_across


def ahead(work: Work, groups: int, lanes: int) -> int:
    """Return how many blocks of a multiprocessor's before it does one announce what it will load.

    As many as run there at once; 0 where rows are short, few, or so long that the cache would lose
    what is announced before it is used.
    """
    assert work.rows is not None
    facts, processors = work.facts, work.facts.target.processors
    length, count = (facts.largest(e) for e in (work.rows.length, work.rows.nest.numel))
    outer = {v.name for v in work.rows.nest.index}
    nbytes = length * sum(x.dtype.nbytes for x in work.row_loads if prefetch.varies(x, outer))
    blocks = max(1, ROOM // (groups * lanes))
    rows_ = blocks * processors * groups
    if not isinstance(work.rows.length, Const) or nbytes < ANNOUNCED:
        return 0
    return blocks if 0 < 2 * rows_ <= count and rows_ * nbytes <= KEPT_AHEAD else 0


def _at_once(work: Work, values: Values) -> bool:
    """Return whether two folds of a row are best done in one pass.

    That pays where a block has a multiprocessor to itself, so that none computes while its threads
    wait for each other, and where a thread's correction is no function such as an exponential.
    Rows that are only folded need not be held for it.
    """
    assert work.rows is not None
    online, target = work.row_online, work.facts.target
    if online is None or online.scale or work.rows.each is None:
        return False
    if not work.facts.options.kernels.online:
        return False
    alone = 2 * values["groups"] * values["lanes"] > target.threads
    usual = target.order[0] == Fit.TILED and not values.get("keep")
    return alone and usual


def space(work: Work) -> Space:
    """Return the numbers of rows in a block, of threads for each, and of elements at once."""
    assert work.rows is not None
    length, results = (work.facts.largest(e) for e in (work.rows.length, work.rows.nest.numel))
    threads = work.facts.target.threads
    found = {
        "groups": powers(1, min(threads, at_least(results))),
        "lanes": powers(1, min(threads, at_least(length))),
        "wide": work.row_widths,
    }
    found |= {"each": work.row_counts} if len(work.row_counts) > 1 else {}
    found |= {"keep": (0, 1)} if work.row_values.shared else {}
    found |= {"ahead": (0, 1, 2, 4, 8)} if announces(work) else {}
    return found | {"online": (0, 1)} if work.row_online else found


def shared_of(work: Work, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes that they share: parts of folds, and picks."""
    nest, loads = elements(work, values)
    kept = rows.kept_loads(work.facts, nest, values["lanes"], values["wide"], loads)
    picks = sum(x.dtype.nbytes for x in rows.picks(work.facts, nest, kept))
    threads, parts = block(work, values)
    return threads, parts + values["groups"] * values.get("each", 1) * picks


def block(work: Work, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes that they share: parts of folds."""
    assert work.rows is not None
    threads = values["groups"] * values["lanes"]
    folds = [[a.var.dtype for a in s.accs] for s in work.rows.stages if isinstance(s, Fold)]
    target, (groups, lanes) = work.facts.target, (values["groups"], values["lanes"])
    parts = (shared(target, d, groups, lanes, across=work.row_across) for d in folds)
    return threads, values.get("each", 1) * sum(parts)


def is_legal(work: Work, values: Values) -> bool:
    """Return whether values go together, for threads that hold a row."""
    one = not (values.get("keep") and values.get("online"))
    return one and holds(work, values) and fills_warp(work, values)


def _build(work: Work, values: Values) -> PrimFunc:
    """Schedule ``lanes`` threads for each row, and ``groups`` rows in a block."""
    nest, loads = elements(work, values)
    once = OnePass(work.row_online, 1) if values.get("online") and work.row_online else None
    kept_ = values.get("keep") or values.get("online")
    found = nest if kept_ else by_inverse(work.facts, nest)
    again = work.row_online if found is not nest else None
    own = threads(work, values)
    return row_kernel.scheduled(work.facts, found, own, loads, once=once, again=again)


def elements(work: Work, values: Values) -> tuple[RowNest, Mapping[Load, tuple[int, ...]]]:
    """Return the rows with what their threads keep, and what their stages load."""
    return work.row_kept(kept(work, values))


def kept(work: Work, values: Values) -> int:
    """Return of how many elements a thread keeps what several stages compute."""
    assert work.rows is not None
    turns = rows.turns_of(work.facts, work.rows, values["lanes"], values["wide"])
    return (turns or 0) * values["wide"] * values.get("keep", 0)


def threads(work: Work, values: Values) -> Threads:
    """Return the threads that values of the parameters ask for."""
    groups, ahead = values["groups"], values.get("ahead", 0) * work.facts.target.processors
    wide, across, each = values["wide"], work.row_across, values.get("each", 1)
    return Threads(groups, values["lanes"], wide, across, 1, groups * ahead, each)


RECIPE = Recipe("rows", _fit, default, space, shared_of, _build, is_legal)
