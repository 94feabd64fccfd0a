"""What the recipes with one thread a result share: block size, wide accesses, unrolling."""

from __future__ import annotations

from dataclasses import replace

from didyma.codegen.schedule.nest import unrolled
from didyma.codegen.schedule.pointwise import elementwise, shares_larger
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values, powers
from didyma.codegen.schedule.recipes.work import Work
from didyma.codegen.schedule.row_values import operations
from didyma.refimpl.ir.loop import PrimFunc, Stmt
from didyma.refimpl.ir.unfold import without_folds

LARGE = 1 << 20  # results from which on a device has many blocks to start
BLOCK = 128  # threads of such blocks: small ones fill a multiprocessor more evenly
SEVERAL = ("pointwise", "gather")  # kinds of nests of which a thread may have several results
EACH = 2  # elements, or groups of them, that a thread of such blocks waits for at once
MUCH = 32  # operations for a result in which a thread computes as long as it waits


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
    return usual | {"each": each(work) if large else 1} if work.kind in SEVERAL else usual


def space(work: Work) -> Space:
    """Return block sizes, wide accesses or not, and how often a body may be copied."""
    wide = (0, 1) if work.facts.wide else (0,)
    found = {"block": powers(32, work.facts.target.threads), "wide": wide}
    if work.loops:
        return found | {"unroll": (0, 4, 16, 64)}
    several = tuple(n for n in (1, 2, 4) if n <= max(1, work.results))
    return found | {"each": several} if work.kind in SEVERAL else found


def each(work: Work) -> int:
    """Return how many results, or groups of them, a thread of many blocks has.

    One of pointwise nests, unless rows share an operand of larger elements, which limits how many
    are loaded at once, or much is computed: then loads for the next wait meanwhile.
    """
    if work.kind == "gather" or shares_larger(work.facts):
        return EACH
    inside = (e for e in work.facts.inside if e.dtype.is_float)
    return EACH if sum(map(operations, inside)) >= MUCH else 1


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
