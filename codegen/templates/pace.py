"""How long products take whose tiles are fetched while others are multiplied."""

from __future__ import annotations

from didyma.codegen.templates.problem import Problem
from didyma.refimpl.ir.group_products import LINE

# Fitted to 468 times of an H200: products, bytes fetched and results stored in a cycle of a
# multiprocessor, and cycles of a turn, of a tile and of a block.  Results and tiles were fitted
# again, to 140 later times.
PRODUCTS_A_CYCLE, SHARE, FETCHED_A_CYCLE, EPILOGUE = 2048, 1.08, 57, 8
LEAST, TILE, START = 346, 1200, 1270


def cycles(
    sides: tuple[int, int], lines: tuple[float, float], turns: int, waves: int, hidden: bool = False
) -> float:
    """Estimate the cycles of a product that multiprocessors do in so many waves of tiles.

    ``sides`` are the rows and columns of a tile, ``lines`` the bytes that are fetched for each of
    them in a turn, of which there are as many to a tile.  Where they are ``hidden``, the stores of
    all tiles but the last take no time of their own.
    """
    height, width = sides
    products = SHARE * height * width * LINE / PRODUCTS_A_CYCLE
    fetched = (height * lines[0] + width * lines[1]) / FETCHED_A_CYCLE
    step = max(products, fetched, LEAST)
    stores = height * width / EPILOGUE
    shown = stores / waves if hidden else stores
    return START + waves * (turns * step + shown + TILE)


def lines(p: Problem, name: str, nbytes: int) -> float:
    """Return the bytes of the cache for each 64 terms of an operand, or for 64 rows of a term.

    Where they begin between lines of the cache they take more than their own.
    """
    run = p.run(name, nbytes)
    own = 2.0 * LINE
    if run is None:
        return own
    return own * (BETWEEN if p.expected(run.steps[3 - run.axis]) % LINE else 1.0)


BETWEEN = 1.75  # fitted to four products of an H200 with rows of such operands
