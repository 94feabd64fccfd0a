"""Boxes of the operands of a product, which threads fetch by TMA and four warps multiply.

``FETCH`` are macros that a text begins with.  A box has 64 terms of some rows or columns; or, of an
operand that lies in lines of rows or columns, 64 of these of some terms.  Each operand has a tensor
map (``maps``), with which the kernel is launched.  By ``share`` each of the blocks of a cluster
fetches a part of a box for all of them.
"""

from __future__ import annotations

from didyma.codegen.codegens import Asked, Values
from didyma.codegen.templates.hooks import ACCESS
from didyma.codegen.templates.language import Given
from didyma.codegen.templates.mma import narrowed
from didyma.codegen.templates.problem import Problem, Run, Subgraph
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.group_products import LINE
from didyma.refimpl.ir.kernel import TensorMap
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import substitute_expr

FETCH = """\
{% macro below(i, n, by) %}{% if n is string or n % by %}{{ i }} < {{ n }}{% endif %}{% endmacro %}
{% macro all(a, b) %}{{ a }}{{ " && " if a and b }}{{ b }}{% endmacro %}
{% macro fetch(name, side, start, by, batch, turn) %}
{% if by == "term" %}
            tma_load3_{{ T }}(&{{ name }}_tile[stage * {{ side * 64 }}],
                {{ described(name) }}, {{ turn }} * 64, {{ start }},
                {{ batch }}, &full[stage]);
{% else %}
{% for panel in range(side // 64) %}
            tma_load3_{{ T }}(&{{ name }}_tile[stage * {{ side * 64 }} + {{ panel * 4096 }}],
                {{ described(name) }}, {{ start }} + {{ panel * 64 }},
                {{ turn }} * 64, {{ batch }}, &full[stage]);
{% endfor %}
{% endif %}
{% endmacro %}
{% macro share(name, side, start, by, batch, turn, blocks) %}
{% set each = (side if by == "term" else 64) // blocks %}
            const u32 to = stage * {{ side * 64 }} + rank * {{ each * 64 }};
{% if by == "term" %}
            tma_share3_{{ T }}(&{{ name }}_tile[to],
                {{ described(name) }}, {{ turn }} * 64, {{ start }} + rank * {{ each }},
                {{ batch }}, &full[stage], {{ 2 ** blocks - 1 }});
{% else %}
{% for panel in range(side // 64) %}
            tma_share3_{{ T }}(&{{ name }}_tile[to + {{ panel * 4096 }}],
                {{ described(name) }}, {{ start }} + {{ panel * 64 }},
                {{ turn }} * 64 + rank * {{ each }}, {{ batch }}, &full[stage],
                {{ 2 ** blocks - 1 }});
{% endfor %}
{% endif %}
{% endmacro %}
"""
NEEDED = {"wgmma", "tma", "mbarrier"}  # families
RIGHT_COLUMN = 2  # the axis of the right operand that is of columns


def found(asked: Asked) -> Problem | None:
    """Return the product of 16-bit floats in runs of 16 bytes that a function is, or None.

    Neighbours in a run are of one product: an array whose batches lie together has no boxes.
    """
    return asked.once(_found)


def _found(asked: Asked) -> Problem | None:
    product = narrowed(asked) if {*asked.target.families} >= NEEDED else None
    if product is None or product[1].operands not in (DType.F16, DType.BF16):
        return None
    p, _ = product
    runs = [p.run(name, ACCESS) for name in p.operands]
    return p if all(run is not None and run.axis for run in runs) else None


def span(p: Problem, values: Values) -> int:
    """Return the columns of a tile that are fetched: whole lines, where lines have columns."""
    run = p.run("right", ACCESS)
    by = LINE if run is not None and run.axis == RIGHT_COLUMN else 1
    return -(-values["width"] // by) * by


def lies(p: Problem) -> dict[str, Given]:
    """Return how both operands lie: their axes of neighbours, and their batches.

    One that all batches share is an array of one.
    """
    names: dict[str, Given] = {}
    for name, axes in (("left", ("", "row", "term")), ("right", ("", "term", "column"))):
        run = _run(p, name)
        names |= {f"{name}_by": axes[run.axis], f"{name}_batch": batch_of(p, run)}
    return names


def batch_of(p: Problem, run: Run) -> str:
    """Return the batch of an array as a coordinate of its map."""
    return "0" if run.steps[0] == ix.index(0) or p.output.extents[0] == ix.index(1) else "batch"


def maps(p: Problem, height: int, width: int, blocks: int = 1) -> dict[str, TensorMap]:
    """Return the maps of both operands, whose boxes have so many rows and columns.

    As many ``blocks`` fetch a part of each box of columns.
    """
    found = dict[str, TensorMap]()
    for name, term, side, parts in (("left", 2, height, 1), ("right", 1, width, blocks)):
        run = _run(p, name)
        rows = (side if run.axis == term else LINE) // parts
        made = map_of(p, name, p.operands[name], run, rows)
        found[made.name] = made
    return found


def map_of(p: Problem, name: str, sub: Subgraph, run: Run, rows: int) -> TensorMap:
    """Return the map of an array that lies in runs; one that all batches share is an array of one.

    An array of no elements is one of one element, of which nothing is read.
    """
    near, other = run.axis, 3 - run.axis
    batches = p.dim(sub.extents[0]) if batch_of(p, run) != "0" else 1
    far = p.dim(run.steps[0]) if batch_of(p, run) != "0" else ACCESS
    start = substitute_expr(run.start, {sub.inputs[0].name: ix.index(0)})
    extents = (dims.maximum(1, p.dim(sub.extents[axis])) for axis in (near, other))
    x, y = extents
    return TensorMap(
        f"{name}_map",
        run.buffer,
        p.dim(start),
        (x, y, batches),
        (p.dim(run.steps[other]), far),
        rows,
    )


def _run(p: Problem, name: str) -> Run:
    run = p.run(name, ACCESS)
    assert run is not None, f"{name} does not lie in runs"
    return run
