"""Boxes of operands and of the result of attention, by TMA: macros that a text begins with.

A box has 64 elements of each of its rows.  A tensor map describes an array (``maps``), with which
the kernel is launched: it has rows of all batches, whose first element is a number of pieces of
eight elements away.
"""

from __future__ import annotations

from collections.abc import Mapping

from didyma.codegen.templates.hooks import ACCESS
from didyma.codegen.templates.problem import Problem
from didyma.codegen.templates.results import result
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.kernel import TensorMap
from didyma.refimpl.ir.walk import substitute_expr

BOXES = """\
{% macro fetch(name, tile, lines, length, start, barrier) %}
{% for panel in range(length // 64) %}
          tma_load3_{{ T }}(&{{ tile }}[{{ panel * lines * 64 }} + {{ start[1] }}],
              {{ described(name) }}, {{ panel * 64 }}, {{ start[0] }},
              {{ name }}_at, {{ barrier }});
{% endfor %}
{% endmacro %}
{% macro find_batch(name, type="const i64 ") %}
        {{ type }}{{ name }}_at = ({{ offset(name, "batch") }}) / 8;
{% endmacro %}
"""
PIECE = 8  # elements, to multiples of which batches begin
FAR = (1 << 31) - 1  # pieces to which they may begin


def maps(p: Problem, rows: Mapping[str, int]) -> dict[str, TensorMap]:
    """Return the maps of operands that lie in runs along their last axes, by the rows of a box.

    ``result`` may be among them.
    """
    return {m.name: m for m in (_map(p, name, n) for name, n in rows.items())}


def _map(p: Problem, name: str, rows: int) -> TensorMap:
    """Return a map; an array of no elements is one of one row, which nobody reads or stores."""
    if name == "result":
        stored = result(p, ACCESS)
        assert stored is not None, "no one result"
        sub, run = stored.place, stored.run
    else:
        found = p.run(name, ACCESS)
        assert found is not None, f"{name} does not lie in runs"
        sub, run = p.operands[name], found
    start = substitute_expr(run.start, {sub.inputs[0].name: ix.ZERO})
    _, lines, length = (dims.maximum(1, p.dim(n)) for n in sub.extents)
    step = p.dim(run.steps[1])
    return TensorMap(
        f"{name}_map", run.buffer, p.dim(start), (length, lines, FAR), (step, PIECE), rows
    )
