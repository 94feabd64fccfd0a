"""Sums weighted by what products are, by groups of four warps: gradients of attention.

A block has ``height`` rows of one batch, of which each group has 64.  One thread fetches tiles of
``width`` columns, by the copies of TMA, into a ring of ``stages``, and where there is room the rows
of the next tile beside those of this one; groups multiply what has come, each at its own pace, so
that one computes weights while another multiplies, and the weighted sum of one tile runs beside the
weights of the next.  A value that is an operand of the products, too, is fetched once.  A warp
brings what weights read of columns.  (J. Shah et al., *FlashAttention-3*, 2024.)  Values of a tile
of which no row sees a column count all the same, since nothing times an infinity is no number:
where there are such tiles, further warps look for what is not finite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from didyma.codegen.codegens import Asked, Template, Values
from didyma.codegen.templates import persistent, weighted_mma
from didyma.codegen.templates.attention_mma import is_copied, whole
from didyma.codegen.templates.attention_tma import ALIGNED, LEAST, STORED
from didyma.codegen.templates.attentions import is_ranged
from didyma.codegen.templates.hooks import ACCESS, WIDE
from didyma.codegen.templates.language import Given, Text
from didyma.codegen.templates.lines import Lines, after, lined
from didyma.codegen.templates.persistent import registers, rendered, threads
from didyma.codegen.templates.powers import powered
from didyma.codegen.templates.problem import Problem
from didyma.codegen.templates.suiting import suited
from didyma.codegen.templates.weighted_mma import lengths
from didyma.codegen.templates.weighted_text import TEXT
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.group_products import LINE, ROWS
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.loop import Const, Var
from didyma.refimpl.ir.walk import subexprs

SPACE: Mapping[str, tuple[int, ...]] = MappingProxyType({
    "height": (128,),
    "width": (64, 128),
    "stages": (2, 3),
})  # fmt: skip
NEEDED = {"cp_async", "mma", "wgmma", "tma", "mbarrier"}  # families


def space(asked: Asked) -> Mapping[str, tuple[int, ...]] | None:
    """Return the values of the parameters, or None for a function that is no such sum."""
    return None if _found(asked) is None else SPACE


def _found(asked: Asked) -> Lines | None:
    """Return a weighted sum whose operands all lie in runs along their last axes.

    Of two sums, weights of the first are computed of those of the second.
    """
    known = weighted_mma.narrowed(asked) if {*asked.target.families} >= NEEDED else None
    if known is None or is_ranged(known[0]):
        return None
    p = known[0]
    features, *terms = lengths(p)
    if min(features, *terms) < LEAST or not all(is_copied(p, x) for x in p.operands):
        return None
    weights = ("score", "open_score", "also_score", "open_also")
    found = lined(p, [x for x in weights if x in p.bodies])
    whole = found.problem if "also" not in p.operands else after(found.problem, weights)
    own = [x for x in weights[2 if "also" in p.operands else 0 :] if x in p.bodies]
    return None if whole is None else replace(found, problem=powered(whole, own))


def _checkers(p: Problem) -> int:
    """Return how many threads look for values that are not finite: none if rows see all."""
    return 0 if isinstance(p.bodies["seen"].value, Const) else persistent.CHECKERS


def _shared_tile(p: Problem, values: Values, name: str = "value") -> str:
    """Return the operand of a product of which values are the same tiles; "" for none."""
    if name not in p.operands:
        return ""
    _, *terms = lengths(p)
    of_values = p.run(name, ACCESS), p.operands[name].extents
    for other, length in zip(("key", "right"), terms, strict=False):
        same = (p.run(other, ACCESS), p.operands[other].extents) == of_values
        if same and (values["width"] == LINE or length == LINE):
            return other
    return ""


def _fetched(p: Problem, values: Values) -> int:
    """Return the elements of all operands that are fetched for a column, in whole lines."""
    features, *terms = (whole(n, LINE) for n in lengths(p))
    own = (x for x in VALUES if x in p.operands and not _shared_tile(p, values, x))
    return sum(terms) + features * len([*own])


def _count(p: Problem) -> int:
    """Return how many sums there are."""
    return sum(x in p.operands for x in VALUES)


def _room(p: Problem, values: Values) -> int:
    """Return the registers that a thread has left beside its sums, products, weights and rows."""
    features, *terms = lengths(p)
    width, sums = values["width"], _count(p) * whole(features, STORED)
    used = sums // 2 + len(terms) * width // 2 + width // 4
    return registers(values)[1] - OTHERS - used


def _slots(asked: Asked, values: Values) -> int:
    """Return how many tiles of rows there is room for: two, of which one is fetched, or one."""
    return 2 if _nbytes(asked, values, 2) + ALIGNED <= asked.target.dynamic else 1


def _held(p: Problem, values: Values) -> int:
    """Return of how many products a thread keeps its share of the rows in registers."""
    _, *terms = lengths(p)
    room = _room(p, values) - SPARE
    return sum(sum(map(whole, terms[: n + 1])) // 4 <= room for n in range(len(terms)))


SPARE = 16  # registers that are left for addresses where rows are held
OTHERS = 24  # registers of a thread beside these


def block(asked: Asked, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes of its tiles."""
    fits = _room(_problem(asked).problem, values) >= 0
    return threads(values) if fits else 0, _nbytes(asked, values, _slots(asked, values))


def _nbytes(asked: Asked, values: Values, slots: int) -> int:
    """Return the bytes of the tiles of a block that has so many tiles of rows."""
    p, of_columns = (found := _problem(asked)).problem, found.of_columns
    features, *terms = (whole(n, LINE) for n in lengths(p))
    height, width, every = values["height"], values["width"], sum(terms)
    streamed = values["stages"] * width * _fetched(p, values)
    tiles = 2 * (slots * height * every + streamed)
    looked = 2 * width * features + 4 * (_count(p) * (features + 1) + 4) if _checkers(p) else 0
    columns = 4 * values["stages"] * width * of_columns
    return tiles + persistent.BARRIERS + looked + columns


def cost(asked: Asked, values: Values) -> float:
    """Estimate the time of a kernel, in cycles of a multiprocessor."""
    p = _problem(asked).problem
    features, *terms = lengths(p)
    if not block(asked, values)[0]:
        return float("inf")
    height, width, every = values["height"], values["width"], sum(terms)
    batch, rows, _ = map(p.expected, p.output.extents)
    columns = p.expected(p.operands["value"].extents[1])
    sums = features * _count(p)
    read = every * width + sum(terms[_held(p, values) :]) * ROWS + sums * width
    products = height * width * (every + sums) / persistent.PRODUCTS_A_CYCLE
    reads = height // ROWS * read * 2 / SHARED_A_CYCLE
    powers = height * width / persistent.POWERS_A_CYCLE
    fetched = 2 * width * _fetched(p, values) / persistent.FETCHED_A_CYCLE
    free = values["stages"] - (1 if "also" in p.operands else 2)
    step = max(products, reads, powers, fetched) + WAIT / (free + SOME)
    start = persistent.START + (ROWS_WAIT if _slots(asked, values) == 1 else 0)
    waves = -(-batch * -(-rows // height) // (asked.target.processors or persistent.PROCESSORS))
    return waves * (-(-columns // width) * step + start)


VALUES = ("value", "also")  # operands that are summed, weighted
SHARED_A_CYCLE = 128  # bytes of shared memory that products read
# Cycles that a turn waits for columns, by the stages that groups do not hold, and a tile for its
# rows, unless they come while another is multiplied; of times of an H200.
WAIT, SOME, ROWS_WAIT = 145, 0.1, 4700


def render(asked: Asked, values: Values, text: Text = TEXT) -> TextKernel:
    """Write the kernel."""
    p = (found := _problem(asked)).problem
    features, terms, *others = lengths(p)
    names: dict[str, Given] = {
        "terms": whole(terms, LINE), "features": whole(features, LINE), "summed": whole(features),
        "own_features": features, "others": whole(sum(others), LINE), "pairs": 1 + len(others),
        "own_terms": terms, "own_others": sum(others),
        "checkers": _checkers(p), "ranged": 0,
        "shared": _shared_tile(p, values), "two": int("also" in p.operands),
        "powered": int("exponent" in p.bodies), "held": _held(p, values),
        "of_rows": found.of_rows, "of_columns": found.of_columns,
        "also_shared": _shared_tile(p, values, "also"),
        "wide": int(p.stored(WIDE) is not None),
        "slots": _slots(asked, values),
        "falling": int("first_row" not in _corners(p)),
    }  # fmt: skip
    rows = {"query": values["height"], "left": values["height"], "value": LINE, "also": LINE}
    boxes = {
        x: rows.get(x, values["width"])
        for x in p.operands
        if _checkers(p) or x not in VALUES or not _shared_tile(p, values, x)
    }
    names["operands"] = " ".join(boxes)
    longest = ix.maximum(p.operands["value"].extents[1], ix.index(max(terms, *others, 0)))
    p = replace(p, operands={x: p.operands[x] for x in boxes})
    return rendered(text, p, asked, values, names, longest, boxes, _count(found.problem))


def _corners(p: Problem) -> set[str]:
    """Return at which corners of a tile it is asked whether some row sees some column."""
    return {e.name for e in subexprs(p.bodies["seen"].value) if isinstance(e, Var)}


_problem = suited(_found)


def best(asked: Asked) -> bool:
    """Return whether there are rows for two groups, and columns for a tile; or there are two sums.

    No other template writes these.  Of two products of 200 terms and more, no block has room.
    """
    found = _found(asked)
    if found is None or next(TEMPLATE.points(asked), None) is None:
        return False
    if "also" in found.problem.operands:
        return True
    p = found.problem
    _, rows, _ = map(p.expected, p.output.extents)
    return rows > ROWS and p.expected(p.operands["value"].extents[1]) >= LINE


TEMPLATE = Template("tma_weighted", space, cost, render, block, best)
