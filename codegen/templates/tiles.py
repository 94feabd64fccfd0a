"""In which order blocks take the tiles of a matrix: macros that texts of products begin with."""

from __future__ import annotations

# Tiles that run together are those of ``group`` rows of tiles and a few columns, which share more
# of the operands than a row of tiles would.
ORDER = """\
{% macro tile_counts(rows, columns, height, width) %}
  const i64 down = ({{ rows }} + {{ height - 1 }}) / {{ height }};
  const i64 across = ({{ columns }} + {{ width - 1 }}) / {{ width }};
{% endmacro %}
{% macro tile_place(number, height, width, group) %}
  const i64 batch = {{ number }} / (down * across);
  const i64 tile = {{ number }} % (down * across);
  const i64 first = tile / ({{ group }} * across) * {{ group }};
  const i64 together = down - first < {{ group }} ? down - first : {{ group }};
  const i64 top = (first + tile % ({{ group }} * across) % together) * {{ height }};
  const i64 side = tile % ({{ group }} * across) / together * {{ width }};
{% endmacro %}
"""
