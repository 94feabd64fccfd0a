"""Fetch boxes of an operand of attention by TMA: macros that a text begins with.

Rows of an operand are described once for all batches, whose first element is a number of pieces of
eight elements away; a box has 64 elements of each of its rows.  A block describes its operands in
``words`` words of a workspace, ``WORDS`` for each.
"""

from __future__ import annotations

WORDS = 16  # of the description of an array

BOXES = """\
{% macro describe(name, at, extent, step, length, side) %}
    tensor_map3_{{ T }}(&maps[blockIdx.x * {{ words }} + {{ at }}],
        {{ address(name, ("0", "0", "0")) }},
        {{ length }}, {{ extent }}, 2147483647, {{ step }}, 8, {{ side }});
{% endmacro %}
{% macro fetch(name, tile, at, lines, length, start, barrier) %}
{% for panel in range(length // 64) %}
          tma_load3_{{ T }}(&{{ tile }}[{{ panel * lines * 64 }} + {{ start[1] }}],
              &maps[blockIdx.x * {{ words }} + {{ at }}], {{ panel * 64 }}, {{ start[0] }},
              {{ name }}_at, {{ barrier }});
{% endfor %}
{% endmacro %}
{% macro find_batch(name) %}
        const i64 {{ name }}_at = ({{ offset(name, "batch") }}) / 8;
{% endmacro %}
"""
