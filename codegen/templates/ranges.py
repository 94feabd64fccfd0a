"""Ask which tiles of keys the rows of a tile see: macros that texts of attention begin with.

Conditions that compare the indices of row and key alone are computed at the corners of a tile.
What memory tells of the rows, such as where the sequence of each begins and ends, is read once for
a tile of rows: each warp finds the first and the last key that some row sees, and those between
which every row sees every key.
"""

from __future__ import annotations

RANGES = """\
{% macro ask(body, into, turn) %}
    {{ modification(body, into ~ ("_here" if ranged else ""), first_row="top",
                    last_row="top + %d" % (height - 1), first_column="(i64)%s * %d" % (turn, width),
                    last_column="(i64)%s * %d + %d" % (turn, width, width - 1)) }}
{% if ranged %}
    const u32 {{ into }} = {{ into }}_here &&
{% if body == "seen" %}
        (i64){{ turn }} * {{ width }} <= some_last &&
        (i64){{ turn }} * {{ width }} > some_first - {{ width }};
{% else %}
        (i64){{ turn }} * {{ width }} >= all_first &&
        (i64){{ turn }} * {{ width }} <= all_last - {{ width - 1 }};
{% endif %}
{% endif %}
{% endmacro %}
{% macro find_range(own="0") %}
      i32 reach[5];
      #pragma unroll
      for (u32 i = 0; i < 4; ++i) {
        reach[i] = -2147483647;
      }
      reach[4] = {{ own }};
      for (u32 n = lane; n < {{ height }}; n = n + 32) {
        const i64 row = top + n;
        {{ modification("first_key", "begins", the_batch="batch", the_row="row") }}
        {{ modification("last_key", "ends", the_batch="batch", the_row="row") }}
        reach[0] = max_i32(reach[0], -(i32)begins);
        reach[1] = max_i32(reach[1], (i32)ends);
        reach[2] = max_i32(reach[2], (i32)begins);
        reach[3] = max_i32(reach[3], -(i32)ends);
      }
      #pragma unroll
      for (u32 i = 0; i < 5; ++i) {
{% for by in (16, 8, 4, 2, 1) %}
        reach[i] = max_i32(reach[i], shuffle_xor_i32(reach[i], {{ by }}));
{% endfor %}
      }
      const i32 some_first = -reach[0];
      const i32 some_last = reach[1];
      const i32 all_first = reach[2];
      const i32 all_last = -reach[3];
{% endmacro %}
{% macro find_turns() %}
{% if ranged %}
        const i32 until = some_last / {{ width }} + 1;
        i32 turn = some_first / {{ width }};
        i32 last = until < turns ? until : turns;
{% else %}
        i32 turn = 0;
        i32 last = turns;
{% endif %}
        u32 wanted_first = 0;
        while (turn < last && wanted_first == 0) {
{{ ask("seen", "wanted", "turn") }}
          wanted_first = wanted;
          turn = wanted ? turn : turn + 1;
        }
        u32 wanted_last = 0;
        while (last > turn && wanted_last == 0) {
{{ ask("seen", "wanted", "(last - 1)") }}
          wanted_last = wanted;
          last = wanted ? last : last - 1;
        }
{% endmacro %}
"""
