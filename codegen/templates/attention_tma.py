"""Attention whose keys and values two threads fetch, while groups of four warps go their own way.

A block has ``height`` rows of one batch, of which each group has 64.  One thread fetches tiles of
``width`` keys, by the copies of TMA, another their values, two tiles of each; groups multiply what
has come and say when it may be replaced.  So one group takes exponentials while another multiplies,
and in a group the weighted sum of one tile runs beside the exponentials of the next.  The last keys
that rows see come first.  One result alone goes by TMA, too, where shared memory has room for it: a
thread stores it while groups are at the next tile.  After the producer and consumer warps of J.
Shah et al., *FlashAttention-3*, 2024.  Where memory tells what rows see, which takes long to read,
the next tile is found while the last two tiles of keys are still to be multiplied.  Values of a
tile of which no row sees a key count all the same, since nothing times an infinity is no number: a
result that goes by TMA is mended in the end where some value is not finite (``mending``), and for
others further warps look at all values before (``looking``).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from didyma.codegen.codegens import Asked, Template, Values
from didyma.codegen.emit.intrinsics import c_type
from didyma.codegen.templates import attention_text, persistent
from didyma.codegen.templates.attention import chain, inner, weighing
from didyma.codegen.templates.attention_mma import is_copied, narrowed, whole
from didyma.codegen.templates.attentions import FACTORED, is_ranged
from didyma.codegen.templates.hooks import ACCESS, WIDE
from didyma.codegen.templates.language import Given, Text
from didyma.codegen.templates.persistent import registers, rendered, threads
from didyma.codegen.templates.problem import Problem
from didyma.codegen.templates.results import result
from didyma.codegen.templates.suiting import suited
from didyma.codegen.templates.weighing import scaling
from didyma.refimpl.ir.group_products import LINE, ROWS
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.loop import Const, Var
from didyma.refimpl.ir.walk import subexprs

TEXT = attention_text.TEXT
SPACE: Mapping[str, tuple[int, ...]] = MappingProxyType({
    "height": (128, 192),
    "width": (64, 128),
    "order": (0, 1),
})  # fmt: skip
NEEDED = {"cp_async", "wgmma", "tma", "mbarrier"}  # families
LEAST = LINE  # terms and features: what is shorter fills lines badly
STORED = 32  # features that threads trade before they store them
OTHERS, ADDRESSES = 28, 2  # registers of a thread beside what it sums, and for each line of tiles
ALIGNED = 1024  # bytes that may lie unused between arrays


def space(asked: Asked) -> Mapping[str, tuple[int, ...]] | None:
    """Return the values of the parameters, or None for a function that is no such attention."""
    return None if _found(asked) is None else SPACE


def _found(asked: Asked) -> Problem | None:
    """Return an attention of four warps whose operands all lie in runs along their last axes."""
    known = narrowed(asked) if {*asked.target.families} >= NEEDED else None
    if known is None or min(inner(known[0])) < LEAST or FACTORED in known[0].bodies:
        return None
    return known[0] if all(is_copied(known[0], x) for x in known[0].operands) else None


def _checkers(p: Problem) -> int:
    """Return how many threads look for values that are not finite: none if rows see all keys."""
    sees_all = isinstance(p.bodies["seen"].value, Const) and not is_ranged(p)
    return 0 if sees_all else persistent.CHECKERS


def _room(p: Problem, values: Values) -> int:
    """Return the registers that a thread which multiplies has left for its rows of the query."""
    terms, features = inner(p)
    used = whole(features, STORED) // 2 + values["width"] // 2 + values["width"] // 4
    lines = (whole(terms, LINE) + whole(features, LINE)) // LINE
    return registers(values)[1] - OTHERS - ADDRESSES * lines - used


def block(asked: Asked, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes of its tiles."""
    p = _problem(asked)
    shared = _beside(p, values) + (_stored(p, values) if _boxed(asked, values) else 0)
    return threads(values) if _room(p, values) >= 0 else 0, shared


def _beside(p: Problem, values: Values) -> int:
    """Return the bytes of shared memory beside those from which results are stored."""
    terms, features = (whole(n, LINE) for n in inner(p))
    height, width = values["height"], values["width"]
    tiles = 2 * (height * terms + 2 * width * (terms + features))
    looked = 2 * width * features + 4 * (2 * features + 6) if _checkers(p) else 0
    return tiles + persistent.BARRIERS + looked


def _stored(p: Problem, values: Values) -> int:
    """Return the bytes from which results are stored in boxes."""
    return 2 * values["height"] * whole(inner(p)[1], LINE)


def _boxed(asked: Asked, values: Values) -> bool:
    """Return whether results are stored in boxes: those that may be, where there is room."""
    p = _problem(asked)
    room = asked.target.dynamic - _beside(p, values) - ALIGNED
    return _stored(p, values) <= room and result(p, ACCESS) is not None


def cost(asked: Asked, values: Values) -> float:
    """Estimate the time of a kernel, in cycles of a multiprocessor.

    Groups overlap products with exponentials; to take turns pays where the latter take longer.
    """
    p = _problem(asked)
    terms, features = inner(p)
    if not block(asked, values)[0]:
        return float("inf")
    height, width = values["height"], values["width"]
    batch, rows, _ = map(p.expected, p.output.extents)
    columns = p.expected(p.operands["key"].extents[1])
    products = height * width * (terms + features) / persistent.PRODUCTS_A_CYCLE
    powers = height * width / persistent.POWERS_A_CYCLE
    fetched = 2 * width * (terms + features) / persistent.FETCHED_A_CYCLE
    needless = bool(values["order"]) != (powers > products)
    step = max(products, powers, fetched) + persistent.TURN + ORDER * needless
    tiles = batch * -(-rows // height)
    waves = -(-tiles // (asked.target.processors or persistent.PROCESSORS))
    return waves * (-(-columns // width) * step + persistent.START)


ORDER = 60  # cycles of a tile, where groups take turns without need, or do not


def render(asked: Asked, values: Values, text: Text = TEXT) -> TextKernel:
    """Write the kernel."""
    p, power = scaling(_problem(asked))
    terms, features = inner(p)
    stored = result(p, ACCESS) if _boxed(asked, values) else None
    names: dict[str, Given] = {
        "terms": whole(terms, LINE), "own_terms": terms,
        "features": whole(features, LINE), "summed": whole(features), "own_features": features,
        "checkers": _checkers(p),
        "groups": values["height"] // ROWS,
        "held": int(_room(p, values) >= whole(terms) // 4),
        "alone": 1, "boxed": int(stored is not None),
        "R": "" if stored is None else c_type(stored.value.value.dtype),
        "wide": int(p.stored(WIDE) is not None),
        "last_whole": int(_is_last_whole(p, values)), **power,
    }  # fmt: skip
    height = ROWS if names["last_whole"] else values["height"]
    boxes = {"query": height, "key": values["width"], "value": LINE}
    if names["boxed"]:
        boxes["result"] = ROWS
    return rendered(text, p, asked, values, names, chain(p, values["width"], terms), boxes)


def _is_last_whole(p: Problem, values: Values) -> bool:
    """Return whether the last tile of rows has rows for all groups, in place of the first.

    The tile that has not is then one of few keys, where rows see more keys the later they are.
    Rows before the first are computed like others, so nothing may be read for a row.
    """
    last, rows = p.bodies.get("last_seen"), p.output.extents[1]
    if last is None or is_ranged(p) or "empty" in p.bodies or weighing(p)["weighs"]:
        return False
    grows = any(isinstance(e, Var) and e == last.inputs[1] for e in subexprs(last.value))
    return grows and not (isinstance(rows, Const) and -rows.value % values["height"] < ROWS)


_problem = suited(_found)


def best(asked: Asked) -> bool:
    """Return whether there are rows for two groups, and keys for a tile."""
    p = _found(asked)
    if p is None:
        return False
    _, rows, _ = map(p.expected, p.output.extents)
    return rows > ROWS and p.expected(p.operands["key"].extents[1]) >= LINE


TEMPLATE = Template("tma_attention", space, cost, render, block, best)
