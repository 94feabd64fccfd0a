"""What the recipes with one thread a result share: block size, wide accesses, unrolling."""

from __future__ import annotations

from dataclasses import replace

from didyma.codegen.schedule.nest import unrolled
from didyma.codegen.schedule.pointwise import elementwise
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values, powers
from didyma.codegen.schedule.recipes.work import Work
from didyma.refimpl.ir.loop import PrimFunc, Stmt
from didyma.refimpl.ir.unfold import without_folds

LARGE = 1 << 20  # results from which on a device has many blocks to start
BLOCK = 128  # threads of such blocks: small ones fill a multiprocessor more evenly
EACH = 2  # gathered elements, or groups of them, that a thread of such blocks waits for at once


def straight(name: str) -> Recipe:
    """Return the recipe of the nests of a class that have no fold, with one thread an element."""

    def fit(work: Work) -> Fit | None:
        return Fit.SHORT if work.fold is None and work.kind == name else None

    return Recipe(name, fit, default, space, block, build)


def default(work: Work) -> Values:
    """Return what the options say, as far as the target allows, in smaller blocks if many."""
    large, wide = work.results >= LARGE, int(work.facts.wide)
    if work.loops:
        unroll = work.facts.options.kernels.unroll
        return {"block": work.facts.block, "wide": wide, "unroll": unroll}
    usual = {"block": min(work.facts.block, BLOCK) if large else work.facts.block, "wide": wide}
    return usual | {"each": EACH if large else 1} if work.kind == "gather" else usual


def space(work: Work) -> Space:
    """Return block sizes, wide accesses or not, and how often a body may be copied."""
    wide = (0, 1) if work.facts.wide else (0,)
    found = {"block": powers(32, work.facts.target.threads), "wide": wide}
    if work.loops:
        return found | {"unroll": (0, 4, 16, 64)}
    return found | {"each": (1, 2, 4)} if work.kind == "gather" else found


def block(work: Work, values: Values) -> tuple[int, int]:
    """Return the threads of a block, which shares no memory."""
    del work
    return values["block"], 0


def build(work: Work, values: Values, body: Stmt | None = None) -> PrimFunc:
    """Schedule one thread for each result, or for each four.

    ``body``, if given, does what the nest's does in another way.
    """
    facts = work.serial
    if body is not None:
        facts.nest = replace(facts.nest, body=without_folds(body, facts.names))
    facts.block, facts.wide = values["block"], bool(values["wide"])
    if "unroll" in values:
        facts.nest = replace(facts.nest, body=unrolled(facts.nest.body, values["unroll"]))
    return elementwise(facts, work.kind, values.get("each", 1))
