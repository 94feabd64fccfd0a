"""Ask which tiles of keys the rows of a tile see: macros that texts of attention begin with.

Conditions that compare the indices of row and key alone are computed at the corners of a tile.
What memory tells of the rows, such as where the sequence of each begins and ends, is read once for
a tile of rows: each warp finds the first and the last key that some row sees, and those between
which every row sees every key.
"""

from __future__ import annotations

RANGES = """\
{% set all_lanes = (16, 8, 4, 2, 1) %}
{% macro ask(body, into, turn, top="top", lines=height) %}
    {{ modification(body, into ~ ("_here" if ranged else ""), first_row=top,
                    last_row="%s + %d" % (top, lines - 1),
                    first_column="(i64)%s * %d" % (turn, width),
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
{% macro find_range() %}
      i32 some_first = 2147483647;
      i32 some_last = -1;
      i32 all_first = 0;
      i32 all_last = 2147483647;
      for (u32 n = lane; n < {{ height }}; n = n + 32) {
        const i64 row = top + n;
        {{ modification("first_key", "begins", the_batch="batch", the_row="row") }}
        {{ modification("last_key", "ends", the_batch="batch", the_row="row") }}
        some_first = min_i32(some_first, (i32)begins);
        some_last = max_i32(some_last, (i32)ends);
        all_first = max_i32(all_first, (i32)begins);
        all_last = min_i32(all_last, (i32)ends);
      }
{% for by in all_lanes %}
      some_first = min_i32(some_first, shuffle_xor_i32(some_first, {{ by }}));
      some_last = max_i32(some_last, shuffle_xor_i32(some_last, {{ by }}));
      all_first = max_i32(all_first, shuffle_xor_i32(all_first, {{ by }}));
      all_last = min_i32(all_last, shuffle_xor_i32(all_last, {{ by }}));
{% endfor %}
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
