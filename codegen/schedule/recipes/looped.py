"""Rows that are folded several times or used after a fold, loaded again at each stage.

With ``online``, two folds of which one asks for the other are one stage, in which each thread takes
so many turns at once.  With ``back``, every second stage begins at the end of a row.  With
``shelf``, what that one stage loads in its first turns stays in shared memory for the results: that
and what caches hold of the rest need not be read again from device memory.  Before the threads of
such a row meet, each announces a line of memory of a later row, so that memory is busy meanwhile.
Where caches have room for all of the rest, what is touched for the last time is to leave them
first.  Exponentials that are computed again are multiplied by the inverse of their sum.
"""

from __future__ import annotations

from dataclasses import replace

from didyma.codegen.schedule.inverse import by_inverse
from didyma.codegen.schedule.online import OnePass
from didyma.codegen.schedule.recipes import rows
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values, fills_warp
from didyma.codegen.schedule.recipes.work import Work
from didyma.codegen.schedule.row_kernel import Threads, scheduled
from didyma.refimpl.ir.loop import Const, PrimFunc

_SHAPE = ("groups", "lanes", "wide", "each")
TURNS = (0, 1, 2, 4, 8)  # in which a thread may take elements at once
ONCE = 128  # threads of a row that is read once, where rows are many
MANY = 1 << 18  # threads that fill a device
NEAR = 128 << 10  # bytes of a row that the cache of a multiprocessor may keep
# Bytes of a row that a thread best takes at once where it corrects exponentials, or has few
# registers, as the threads of a block with a multiprocessor to itself have.
LITTLE = 64
ALONE = 4  # bytes of an element that is loaded without a neighbour: those of a register
RESERVED = 1 << 10  # bytes of shared memory that a block takes beside its own
# Elements that a thread takes at once where two blocks have one: of exponentials, unless they are
# of two bytes, and of others.
HALF = (16, 32)
LINES = 1  # of memory that a thread announces of a later row
CACHE = 48 << 20  # bytes that the cache of a device keeps until blocks read them again


def _fit(work: Work) -> Fit | None:
    if work.rows is None:
        return None
    return Fit.TILED if work.row_halves else Fit.ALONG


def _build(work: Work, values: Values) -> PrimFunc:
    """Schedule ``lanes`` threads for each row, and ``groups`` rows in a block."""
    assert work.rows is not None
    once = one_pass(work, values)
    name = "rows" if once is None else "rows_once"
    threads, back = _announcing(work, values), bool(values.get("back"))
    nest = by_inverse(work.facts, work.rows)
    shelved, passing = values.get("shelf", 0), is_cached(work, values)
    return scheduled(
        work.facts, nest, threads, None, name, once,
        back=back, shelved=shelved, passing=passing,
    )  # fmt: skip


def _announcing(work: Work, values: Values) -> Threads:
    """Return threads that announce the beginning of the row that their block takes next.

    They do so if they have a shelf, unless nothing is known of the device or rows are few.  Where
    elements are narrow and no function is computed of them, threads would have too many registers
    for two blocks.
    """
    assert work.rows is not None
    found, online, target = rows.threads(work, values), work.row_online, work.facts.target
    later = target.threads // _threads(values) * target.processors * found.groups
    many = 0 < 2 * later <= work.facts.largest(work.rows.nest.numel)
    if online is None or not many or not values.get("shelf"):
        return found
    large = all(x.dtype.nbytes >= ALONE for x in work.row_loads)
    return replace(found, ahead=later, lines=LINES) if online.scale or large else found


def one_pass(work: Work, values: Values) -> OnePass | None:
    """Return the folds that values of the parameters ask to do in one pass."""
    turns, online = values.get("online", 0), work.row_online
    return OnePass(online, turns) if turns and online is not None else None


def usual_turns(work: Work, values: Values) -> int:
    """Return how many turns a thread best takes at once in one pass for two folds.

    0, so no such pass, where the target prefers other work to reading each element once, and where
    exponentials of a row are computed again for its results and caches hold
    what is read again.
    """
    some, order, online = (
        work.facts.options.kernels.online,
        work.facts.target.order,
        work.row_online,
    )
    assert work.rows is not None
    if online is None or not some or order[0] != Fit.TILED:
        return 0
    again = work.rows.each is not None and online.scale and rows.holds(work, rows.default(work))
    together = values["wide"] * values.get("each", 1)
    if online.scale or is_alone(work, values):
        nbytes = max((x.dtype.nbytes for x in work.row_loads), default=1)
        some = min(some, LITTLE // (nbytes if together > 1 else max(nbytes, ALONE)))
    return 0 if again else max(1, some // together)


def back(work: Work) -> Values:
    """Return whether every second pass best begins at the end: if rows are longer than caches near.

    Nothing where nothing is known of the device.
    """
    assert work.rows is not None
    loads = {x for x, stages in work.row_loads.items() if len(stages) > 1}
    nbytes = work.facts.largest(work.rows.length) * sum(x.dtype.nbytes for x in loads)
    return {"back": int(nbytes > NEAR)} if work.facts.target.processors else {}


def shelf(work: Work, values: Values, shared: int) -> dict[str, int]:
    """Return in how many turns a thread best puts what it loads in shared memory.

    As many as there is room for beside ``shared`` bytes, where one block or two have a
    multiprocessor and read rows again.
    """
    assert work.rows is not None
    online, length, target = values.get("online", 0), work.rows.length, work.facts.target
    together = target.threads // _threads(values)
    if not (values.get("back") and online and 1 <= together <= 2 and isinstance(length, Const)):
        return {}
    one = turn(work, values)
    room = (target.room + RESERVED) // together - RESERVED - shared
    turns = min(room // one, work.facts.largest(length) // _elements(values)) if one else 0
    return {"shelf": turns - turns % online} if turns >= online else {}


def turn(work: Work, values: Values) -> int:
    """Return the bytes that the threads of a block may put in shared memory in a turn."""
    assert work.rows is not None
    if work.row_online is None:
        return 0
    loads = work.row_shelvable(values["wide"])
    return _threads(values) * values["wide"] * sum(x.dtype.nbytes for x in loads)


def is_alone(work: Work, values: Values) -> bool:
    """Return whether a block has a multiprocessor to itself."""
    return 2 * _threads(values) > work.facts.target.threads


def is_cached(work: Work, values: Values) -> bool:
    """Return whether the cache of a device holds what all blocks at once have on no shelf."""
    assert work.rows is not None
    turns = -(-work.facts.largest(work.rows.length) // _elements(values))
    left = (turns - values.get("shelf", 0)) * turn(work, values)
    return left * work.facts.target.processors <= CACHE


def is_whole(work: Work, values: Values) -> bool:
    """Return whether a row has what threads are to put in shared memory, some turns at a time."""
    assert work.rows is not None
    shelved, online = values.get("shelf", 0), values.get("online", 0)
    fits = shelved * _elements(values) <= work.facts.largest(work.rows.length)
    return not shelved or (online > 0 and shelved % online == 0 < turn(work, values) and fits)


def _elements(values: Values) -> int:
    """Return the elements of a row that its threads take in a turn."""
    return values["lanes"] * values.get("blocks", 1) * values["wide"]


def _threads(values: Values) -> int:
    return values.get("groups", 1) * values["lanes"]


def _block(work: Work, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes that it shares: parts of folds, and a shelf."""
    threads, parts = rows.block(work, values)
    return threads, parts + values.get("shelf", 0) * turn(work, values)


def _default(work: Work) -> Values:
    """Return as many threads a row as others have, or fewer where one pass is all there is.

    Of rows side by side whose elements are smaller than a register, a thread has several, and each
    of them as many more threads.
    """
    assert work.rows is not None
    found = {k: v for k, v in rows.default(work).items() if k in _SHAPE}
    found |= back(work)
    if len(work.row_counts) > 1 and 0 < work.row_nbytes < ALONE:
        each = min(work.row_each, found["groups"])
        found |= {"each": each, "groups": found["groups"] // each, "lanes": found["lanes"] * each}
    if work.row_online is None:
        return found
    if work.row_halves:
        large = max((x.dtype.nbytes for x in work.row_loads), default=ALONE) >= ALONE
        most = HALF[0] if work.row_online.scale and large else HALF[1]
        found |= {"groups": 1, "lanes": work.facts.target.threads // 2, "back": 1}
        found |= {"online": max(1, most // found["wide"])}
        return found | {"shelf": _own_shelf(work, found)}
    turns, count = usual_turns(work, found), work.facts.largest(work.rows.nest.numel)
    lanes = found["lanes"]
    while turns and work.rows.each is None and lanes > ONCE and lanes // 2 * count >= MANY:
        lanes //= 2
    found = {**found, "lanes": lanes, "online": turns}
    own = _own_shelf(work, found) if is_alone(work, found) else 0
    return found | ({"shelf": own} if _shelves(work, found) else {})


def _own_shelf(work: Work, values: Values) -> int:
    return shelf(work, values, rows.block(work, values)[1]).get("shelf", 0)


def _shelves(work: Work, values: Values) -> set[int]:
    """Return the numbers of turns with which shared memory is full, of one block or two."""
    most = work.facts.target.threads
    shapes = ({**values, "groups": 1, "lanes": n} for n in (most // 2, most))
    some = ({**shape, "back": 1, "online": n} for shape in shapes for n in TURNS)
    return {n for x in some if (n := _own_shelf(work, x))}


def _space(work: Work) -> Space:
    found = {k: v for k, v in rows.space(work).items() if k in _SHAPE}
    found |= dict.fromkeys(back(work), (0, 1))
    if work.row_online is None:
        return found
    default = _default(work)
    found |= {"shelf": (0, *_shelves(work, default))} if "shelf" in default else {}
    return found | {"online": TURNS}


def _legal(work: Work, values: Values) -> bool:
    return fills_warp(work, values) and is_whole(work, values)


RECIPE = Recipe("looped", _fit, _default, _space, _block, _build, _legal)
