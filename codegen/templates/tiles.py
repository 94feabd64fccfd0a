"""Macros that texts of products begin with.

``ORDER`` says in which order blocks take the tiles of a matrix.  By ``EXCHANGE`` each four warps
hand over 32 columns of their sums in shared memory, so that a thread stores neighbours together; by
``TRADE`` four threads trade eight sums each by shuffles instead.  ``ROUNDED`` rounds the elements
of a fragment to tf32, which it loads one by one where lines of shared memory are of one term.
"""

from __future__ import annotations

# Tiles that run together are those of ``group`` rows of tiles and a few columns, which share more
# of the operands than a row of tiles would.
ORDER = """\
{% macro tile_counts(rows, columns, height, width) %}
  const i64 down = ({{ rows }} + {{ height - 1 }}) / {{ height }};
  const i64 across = ({{ columns }} + {{ width - 1 }}) / {{ width }};
{% endmacro %}
{% macro tile_place(number, height, width, group, within="") %}
  const i64 batch = {{ number }} / (down * across);
  const i64 tile = {{ number }} % (down * across);
  const i64 first = tile / ({{ group }} * across) * {{ group }};
  const i64 together = down - first < {{ group }} ? down - first : {{ group }};
  const i64 top = (first + tile % ({{ group }} * across) % together) * {{ height }}{{ within }};
  const i64 side = tile % ({{ group }} * across) / together * {{ width }};
{% endmacro %}
"""
EXCHANGE = """\
{% macro exchange(sums) %}
        named_barrier(mine + 1, 128);
        #pragma unroll
        for (u32 j = 0; j < 8; ++j) {
          f32x2 pair;
          pair.x = {{ sums % "" }};
          pair.y = {{ sums % " + 1" }};
          store2_f32(&part[(mine * 64 + warp * 16 + lane / 4 + j % 2 * 8) * 40 + j / 2 * 8 +
                           lane % 4 * 2], pair);
        }
        named_barrier(mine + 1, 128);
{% endmacro %}
"""
# Of the sums of a product of four warps, four threads hold two neighbours each of every eight in a
# row.  Each gets eight neighbours of four such groups: a matrix of four by four pairs is turned.
TRADE = """\
{% macro swap(first, apart, lanes, sum) %}
          #pragma unroll
          for (u32 k = 0; k < 4; ++k) {
            const u32 a = {{ first }};
            const b8 gives = lane / {{ lanes }} % 2 == 1;
            const f32 traded = shuffle_xor_f32(
                gives ? {{ sum }}[a] : {{ sum }}[a + {{ apart }}], {{ lanes }});
            {{ sum }}[a] = gives ? traded : {{ sum }}[a];
            {{ sum }}[a + {{ apart }}] = gives ? {{ sum }}[a + {{ apart }}] : traded;
          }
{% endmacro %}
{% macro trade(sums, sum="sum") %}
          f32 {{ sum }}[8];
          #pragma unroll
          for (u32 k = 0; k < 8; ++k) {
            {{ sum }}[k] = {{ sums }};
          }
{{ swap("k / 2 * 4 + k % 2", 2, 1, sum) }}
{{ swap("k", 4, 2, sum) }}
{% endmacro %}
"""
ROUNDED = """\
{% macro rounded(fragment, parts) %}
{% for part in parts %}
        {{ fragment }}.{{ part }} = tf32_f32({{ fragment }}.{{ part }});
{% endfor %}
{% endmacro %}
{% macro turned(fragment, tile, first, length, parts) %}
        f32x{{ parts | length }} {{ fragment }};
{% for part, (across, down) in parts.items() %}
        {{ fragment }}.{{ part }} = tf32_f32(
            {{ tile }} + {{ swizzled("step * 8 + %d + lane %% 4" % down,
                "((%s + %d) / 4 + lane / 16)" % (first, across), length) }} + lane / 4 % 4]);
{% endfor %}
{% endmacro %}
"""
