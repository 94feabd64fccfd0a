"""Rows that are folded several times, by the threads of the blocks of a cluster: read once.

For rows that are too long for the registers of one block, or too few for all multiprocessors.  The
blocks give each other the results of their parts of a fold, through their shared memory.
"""

from __future__ import annotations

from didyma.codegen.schedule import row_kernel, rows
from didyma.codegen.schedule.inverse import by_inverse
from didyma.codegen.schedule.recipes import looped
from didyma.codegen.schedule.recipes import rows as held
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values, powers
from didyma.codegen.schedule.recipes.work import Work
from didyma.codegen.schedule.row_kernel import Threads
from didyma.codegen.schedule.team import of_cluster
from didyma.refimpl.ir.loop import Const, Fold, PrimFunc
from didyma.refimpl.ir.target import Target

LONG = 32 << 10  # bytes of a row that one block of a cluster holds at least
WHOLE = 256 << 10  # bytes of a row from which on many rows are shared, too
AGAIN, TIMES = 96 << 10, 3  # likewise, where one block would read them so often
SIDE = (4, 256)  # blocks that hold one of many such rows, and threads of each
SHORT = 8 << 10  # bytes of a row that are worth a block, where rows are few
HELD = 128  # bytes of a row that a thread holds, of at least LEAST threads
LEAST = 128
LANES = 512  # threads of a block, at most, whose cluster does not hold a row
LARGE = 4  # bytes of an element; of smaller ones fewer blocks run at once with products
SLOW = 8  # blocks that wait for each other longer than reading a row a second time takes


def _fit(work: Work) -> Fit | None:
    if work.rows is None or work.row_across or work.facts.target.cluster < 2:
        return None
    if not isinstance(work.rows.length, Const) or work.row_halves:
        return Fit.POOR
    if (values := _shelved(work)) is not None:
        return Fit.ALONG if values["blocks"] > 1 else Fit.POOR
    if _shape(work)[0] < 2:
        return Fit.POOR
    if not _holds(work, values := default(work)):
        return Fit.ALONG
    count, processors = work.facts.largest(work.rows.nest.numel), work.facts.target.processors
    slow = values["blocks"] >= SLOW and not _are_few(count, processors)
    return Fit.POOR if slow and looped.usual_turns(work, values) else Fit.TILED


def _nbytes(work: Work) -> int:
    """Return the bytes of a row that several stages load."""
    assert work.rows is not None
    several = [x.dtype.nbytes for x, stages in work.row_loads.items() if len(stages) > 1]
    return work.facts.largest(work.rows.length) * (sum(several) or 1)


def _shape(work: Work) -> tuple[int, int]:
    """Return how many blocks a row is worth, by the model, and the threads of each.

    The blocks of a cluster wait for each other, so many rows gain only where one block would read
    them again and a cluster can hold them; few rows gain as long as multiprocessors are idle.
    """
    assert work.rows is not None
    target, count = work.facts.target, work.facts.largest(work.rows.nest.numel)
    nbytes, blocks = _nbytes(work), 1
    while blocks < target.cluster and _are_few(count * blocks, target.processors):
        if nbytes <= SHORT * blocks:
            break
        blocks *= 2
    if blocks == 1 and AGAIN < nbytes <= WHOLE and _reads(work) >= TIMES:
        return min(SIDE[0], target.cluster), SIDE[1]
    while blocks < target.cluster and LONG * blocks < nbytes <= _most_held(target):
        if blocks == 1 and nbytes <= WHOLE:
            break
        blocks *= 2
    lanes = LEAST
    while lanes < target.threads and nbytes > HELD * lanes * max(2, blocks):
        lanes *= 2
    return blocks, lanes


def _reads(work: Work) -> int:
    """Return how often one block would read a row that it does not hold."""
    assert work.rows is not None
    folds = sum(isinstance(s, Fold) for s in work.rows.stages)
    both = looped.usual_turns(work, held.default(work)) > 0
    return folds - both + (work.rows.each is not None)


def _is_large(work: Work) -> bool:
    """Return whether elements are too large for a thread to have room for quotients beside them."""
    return max((x.dtype.nbytes for x in work.row_loads), default=0) >= LARGE


def _are_few(blocks: int, processors: int) -> bool:
    """Return whether an eighth of the multiprocessors or more would have no block."""
    return 8 * blocks < 7 * processors


def _most_held(target: Target) -> int:
    """Return the bytes of a row that a cluster can hold."""
    return HELD // 2 * target.threads * target.cluster


def _holds(work: Work, values: Values) -> bool:
    """Return whether the threads of a row are enough to hold it."""
    assert work.rows is not None
    lanes = values["lanes"] * values["blocks"]
    return rows.turns_of(work.facts, work.rows, lanes, values["wide"]) is not None


def default(work: Work) -> Values:
    """Return as many blocks a row as it is worth, and threads that hold little each."""
    if (values := _shelved(work)) is not None:
        return {**values, "blocks": max(2, values["blocks"])}
    found, back = _held(work), looped.back(work)
    again = not _holds(work, found)
    if again:
        found["lanes"] = min(LANES, found["lanes"])
    found |= back if again else dict.fromkeys(back, 0)
    turns = looped.usual_turns(work, found) if again else 0
    return found | {"online": turns} if work.row_online else found


def _held(work: Work) -> dict[str, int]:
    """Return the blocks of a row, and the threads of each, that hold it if any do."""
    blocks, lanes = _shape(work)
    return {"blocks": max(2, blocks), "lanes": lanes, "wide": work.row_widths[0]}


def _shelved(work: Work) -> Values | None:
    """Return the fewest blocks with which the cache holds what is on no shelf, or else the most.

    None where a cluster holds the row, or there is no shelf.
    """
    if work.row_online is None or _holds(work, found := _held(work)):
        return None
    found |= {"blocks": _shape(work)[0], "lanes": work.facts.target.threads, **looped.back(work)}
    while True:
        found |= {"online": looped.usual_turns(work, found)}
        values = found | looped.shelf(work, found, _shared(work, found))
        if "shelf" not in values:
            return None
        if looped.is_cached(work, values) or 2 * values["blocks"] > work.facts.target.cluster:
            return values
        found |= {"blocks": 2 * found["blocks"]}


def space(work: Work) -> Space:
    """Return the numbers of blocks for a row, of threads in each, and of elements at once."""
    target = work.facts.target
    found = {
        "blocks": powers(2, target.cluster),
        "lanes": powers(target.warp, target.threads),
        "wide": work.row_widths,
    } | dict.fromkeys(looped.back(work), (0, 1))
    found |= {k: (0, v) for k, v in default(work).items() if k == "shelf"}
    return found | {"online": looped.TURNS} if work.row_online else found


def _legal(work: Work, values: Values) -> bool:
    again = any(values.get(k) for k in ("online", "back", "shelf"))
    return looped.is_whole(work, values) and not (again and _holds(work, values))


def _block(work: Work, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes that it shares, those of a shelf among them."""
    shelved = values.get("shelf", 0) * looped.turn(work, values)
    return values["lanes"], _shared(work, values) + shelved


def _shared(work: Work, values: Values) -> int:
    """Return the bytes that a block shares for parts of folds, and picks."""
    assert work.rows is not None
    blocks, lanes, wide = values["blocks"], values["lanes"], values["wide"]
    _, parts = held.block(work, {"groups": 1, "lanes": lanes, "wide": wide})
    folds = [[a.var.dtype for a in s.accs] for s in work.rows.stages if isinstance(s, Fold)]
    kept = rows.kept_loads(work.facts, work.rows, lanes * blocks, wide, work.row_loads)
    picks = sum(x.dtype.nbytes for x in rows.picks(work.facts, work.rows, kept))
    return parts + sum(of_cluster(d, 1, blocks) for d in folds) + picks


def _build(work: Work, values: Values) -> PrimFunc:
    """Schedule ``blocks`` blocks for each row, of ``lanes`` threads each."""
    assert work.rows is not None
    threads = Threads(1, values["lanes"], values["wide"], blocks=values["blocks"])
    loads = work.row_loads if _holds(work, values) else None
    nest = by_inverse(work.facts, work.rows) if loads is None or _is_large(work) else work.rows
    once = looped.one_pass(work, values)
    back, shelved = bool(values.get("back")), values.get("shelf", 0)
    return row_kernel.scheduled(
        work.facts, nest, threads, loads, "rows_cluster", once,
        back=back, shelved=shelved, passing=looped.is_cached(work, values),
    )  # fmt: skip


RECIPE = Recipe("cluster", _fit, default, space, _block, _build, _legal)
