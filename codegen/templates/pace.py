"""How long products take whose tiles are fetched while others are multiplied."""

from __future__ import annotations

from didyma.codegen.templates.problem import Problem
from didyma.refimpl.ir.group_products import GROUP, LINE

# Fitted to 510 times of an H200: products and bytes fetched in a cycle of a multiprocessor; cycles
# of a turn, of a tile, and of a block.  Results stored in a cycle, by threads or in boxes, and
# cycles of a tile, were fitted to 195 later times, of kernels with tensor maps that the host makes.
# Tiles and blocks differ where groups take tiles in turn, and where results are stored in boxes.
PRODUCTS_A_CYCLE, SHARE, FETCHED_A_CYCLE, LEAST = 2048, 1.03, 65, 300
NARROW = 10  # columns that a product takes as many cycles for beside its own
EPILOGUE, START = (10, 12), (2760, 3690)
TILE = ((2260, 500), (1650, 500))
# Cycles of a thread for each result that a costly function follows, and for each element that it
# has for itself; so many times as many where the other group multiplies meanwhile, and where a
# thread has more than so many sums.  Fitted to 47 times of 6 products.
COSTLY, LOADED, MEANWHILE = 50, 35, 2
MANY, CROWDED = 128, 1.5
# What of these a group that multiplies meanwhile waits for; of two products of 4,096 rows.
HELD = 0.4
# What blocks cost that share, of a turn and of all, fitted to 190 pairs of times without and with.
TOGETHER, CLUSTER = 1.05, 1200


def cycles(
    sides: tuple[int, int],
    lines: tuple[float, float],
    turns: int,
    waves: int,
    *,
    blocks: int = 1,
    hidden: bool = False,
    boxes: bool = False,
    followed: tuple[float, int] = (0, 0),
) -> float:
    """Estimate the cycles of a product that multiprocessors do in so many waves of tiles.

    ``sides`` are the rows and columns of a tile, ``lines`` the bytes that are fetched for each of
    them in a turn, of which there are as many to a tile.  So many ``blocks`` share what is fetched
    for columns.  Where stores are ``hidden``, groups take tiles in turn: one stores while the other
    multiplies.  With ``boxes`` TMA stores.  Sums are ``followed`` by what ``Problem.followed`` has.
    """
    height, width = sides
    products = SHARE * height * (width + NARROW) * LINE / PRODUCTS_A_CYCLE
    own = (height + width) * 2.0 * LINE
    fetched = max(own, height * lines[0] + width * lines[1] / blocks) / FETCHED_A_CYCLE
    step = max(products, fetched, LEAST)
    stores, start = height * width / EPILOGUE[boxes], START[boxes]
    each = height * width / (GROUP if hidden else 2 * GROUP)
    rest = each * after(followed) * (CROWDED if each > MANY else 1)
    tile = TILE[hidden][boxes] + (HELD * rest if hidden else 0)
    stores += rest * (MEANWHILE if hidden and waves > 1 else 1)
    if blocks > 1:
        step, start = TOGETHER * step, CLUSTER + start
    once = turns * step
    if hidden:
        once = max(once + tile, (once + stores) / 2)
        return start + waves * once + stores
    return start + waves * (once + tile + stores)


def after(followed: tuple[float, int]) -> float:
    """Return the cycles of a thread for what follows a sum, as of ``Problem.followed``."""
    calls, elements = followed
    return COSTLY * calls + LOADED * elements


# Likewise, fitted to 65 times of kernels whose blocks share terms: blocks that read a line of the
# cache and are served apart, bytes that all multiprocessors fetch and one exchanges in a cycle.
READERS, FETCHED_BY_ALL, EXCHANGED, MEETING = 8, 4300, 4.8, 5500
CLUSTERS = (132, 66, 39, 30, 22, 17, 15, 15)  # of one block and more that an H200 runs at once


def at_once(processors: int, blocks: int) -> int:
    """Return how many clusters of so many blocks run at once.

    >>> at_once(132, 1), at_once(132, 4), at_once(5, 2)
    (132, 30, 2)
    """
    return max(1, min(processors // blocks, CLUSTERS[blocks - 1]))


def shared_cycles(
    sides: tuple[int, int],
    sizes: tuple[int, int, int],
    turns: int,
    parts: int,
    lines: tuple[float, float] = (2.0 * LINE, 2.0 * LINE),
) -> float:
    """Estimate the cycles of products whose terms clusters share, of so many blocks for each tile.

    ``sizes`` are batches, rows and columns, ``turns`` those of all blocks of a cluster.
    """
    (height, width), (batch, rows, columns) = sides, sizes
    down, across = -(-rows // height), -(-columns // width)
    waves = -(-batch * down * across // CLUSTERS[parts - 1])
    at_once = min(1.0, CLUSTERS[parts - 1] / (batch * down * across))
    of_left = min(height, rows) * down * min(across, READERS) * lines[0]
    of_right = min(width, columns) * across * min(down, READERS) * lines[1]
    of_all = parts * batch * (of_left + of_right) * at_once / FETCHED_BY_ALL
    products = SHARE * height * (width + NARROW) * LINE / PRODUCTS_A_CYCLE
    fetched = (height * lines[0] + width * lines[1]) / FETCHED_A_CYCLE
    once = -(-turns // parts) * max(products, fetched, of_all, LEAST)
    return waves * (MEETING + once + 4 * height * width / EXCHANGED)


def lines(p: Problem, name: str, nbytes: int) -> float:
    """Return the bytes of the cache for each 64 terms of an operand, or for 64 rows of a term.

    Where they begin between lines of the cache they take more than their own.
    """
    run = p.run(name, nbytes)
    own = 2.0 * LINE
    if run is None or not run.axis:  # neighbours that lie together are of other products
        return own
    return own * (BETWEEN if p.expected(run.steps[3 - run.axis]) % LINE else 1.0)


BETWEEN = 2.0  # fitted to four products of an H200 with rows of such operands
