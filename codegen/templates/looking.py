"""Look for values that no row of a tile sees: macros that texts begin with.

Nothing times an infinity is no number, so a value that is not finite spoils its feature for rows
that do not see it, too.  Blocks share the search: each tile of the values of a batch is claimed by
one of those that work on the batch, and ``known`` counts, from ``at`` on, the tiles that are
claimed, that are finite, and that are not.  A block waits for those that others look at, which run
already; where all are known to be finite, it reads one count.  Only where some tile is not finite,
each block finds out which features are spoiled for its own rows: ``search`` finds the features of
an operand that are ``odd``, a bit for each of eight, and ``tell`` marks them.  ``look`` does so for
tile after tile: for each operand it is given the name, its counts in ``known``, and the words for
what is found.  Without a text of its caller, it tells at once of a tile whose rows see a key of
each tile of keys, and of others once they are known; the text of a caller comes in place of both,
behind the marks.  Where there are only a ``few`` tiles of keys, of which the last rows see all,
nobody searches: the block that has those rows finds whether their sums are finite, and tells the
others.  So that it runs before others wait for it, blocks claim all tiles.
"""

from __future__ import annotations

LOOKING = """\
{% macro add_odd(into, x) %}
{% for n in range(8) %}
{{ into % n }} = {{ into % n }} + cast_{{ T }}_f32({{ x }}.s{{ n }}) * 0.0f;
{% endfor %}
{% endmacro %}
{% macro share(value) %}
        if (checker == 0) {
          told[0] = {{ value }};
        }
        named_barrier(15, {{ checkers }});
{% endmacro %}
{% macro search(name, at, odd, few) %}
{% set lines, pieces = checkers // (own_features // 8), own_features // 8 %}
        i32 finite_{{ name }} = 0;
        if (checker == 0) {
          finite_{{ name }} = atomic_fetch_add_i32(&known[1 + {{ at }} + batch * 3], 0);
          told[0] = {{ "published || " if few }}finite_{{ name }} == turns ? turns
                    : atomic_fetch_add_i32(&known[{{ at }} + batch * 3], 1);
        }
        named_barrier(15, {{ checkers }});
        i32 claimed_{{ name }} = told[0];
        #pragma unroll 1
        while (claimed_{{ name }} < turns) {
          if (checker == 0) {
            told[1] = 0;
            mbarrier_expect(&others[4], {{ width * features * 2 }});
{% for chunk in range(width // 64) %}
{{ fetch(name, "looked_at", 64, features,
         ("(i64)claimed_%s * %d + %d" % (name, width, chunk * 64), chunk * 64 * features),
         "&others[4]") }}
{% endfor %}
            told[2 + came] = atomic_fetch_add_i32(&known[{{ at }} + batch * 3], 1);
          }
          mbarrier_wait(&others[4], came);
          came = came ^ 1;
          f32 some[2];
          some[0] = 0.0f;
          some[1] = 0.0f;
          #pragma unroll 4
          for (u32 i = 0; i < {{ (width + lines - 1) // lines }}; ++i) {
            const u32 line = (checker / {{ pieces }} + i * {{ lines }}) % {{ width }};
            const {{ T }}x8 x = load8_{{ T }}(
                &looked_at[(line / 64 * {{ features // 64 }} + piece / 8) * 4096 + line % 64 * 64 +
                           (piece % 8 ^ line % 8) * 8]);
{{ add_odd("some[%d %% 2]", "x") | indent(12, first=True) }}
          }
          if (some[0] + some[1] != 0.0f) {
            atomic_max_i32(&told[1], 1);
          }
          named_barrier(15, {{ checkers }});
          if (checker == 0) {
            atomic_add_i32(&known[(told[1] != 0 ? 2 : 1) + {{ at }} + batch * 3], 1);
          }
          claimed_{{ name }} = told[3 - came];
        }
        i32 unusual_{{ name }} = 0;
        if (checker == 0) {
          while (finite_{{ name }} + unusual_{{ name }} < turns) {
            finite_{{ name }} = atomic_fetch_add_i32(&known[1 + {{ at }} + batch * 3], 0);
            unusual_{{ name }} = atomic_fetch_add_i32(&known[2 + {{ at }} + batch * 3], 0);
          }
        }
        named_barrier(15, {{ checkers }});
{{ share("unusual_%s" % name) }}
        if (told[0] != 0) {
          #pragma unroll 1
          for (i32 turn = 0; turn < turns; ++turn) {
            if (turn < begin || turn >= end) {
              #pragma unroll 1
              for (u32 line = checker / {{ pieces }}; line < {{ width }};
                   line = line + {{ lines }}) {
                const i64 column = (i64)turn * {{ width }} + line;
                if (column < {{ columns }}) {
                  const i64 term = piece * 8;
                  const {{ T }}x8 x = load8_{{ T }}(
                      {{ address(name, ("batch", "column", "term")) }});
{% for n in range(8) %}
                  {{ odd }} = cast_{{ T }}_f32(x.s{{ n }}) * 0.0f != 0.0f ? {{ odd }} | {{ 2 ** n }}
                            : {{ odd }};
{% endfor %}
                }
              }
            }
          }
        }
{% endmacro %}
{% macro tell(found) %}
        mbarrier_wait(&others[3], taken);
{% for name, at, odd, spoiled in found %}
        for (u32 n = checker; n <= {{ features }}; n = n + {{ checkers }}) {
          {{ spoiled }}[n] = 0;
        }
{% endfor %}
        named_barrier(15, {{ checkers }});
        #pragma unroll
        for (u32 n = 0; n < 8; ++n) {
{% for name, at, odd, spoiled in found %}
          if (({{ odd }} >> n & 1) != 0) {
            atomic_max_i32(&{{ spoiled }}[piece * 8 + n], 1);
            atomic_max_i32(&{{ spoiled }}[{{ features }}], 1);
          }
{% endfor %}
        }
        mbarrier_arrive(&others[2]);
{% endmacro %}
{% macro look(at_values, few=0, above="") %}
      u32 taken = 0;
      i64 batch = 0;
      u32 came = 0;
      const u32 checker = threadIdx.x - 64;
      const u32 piece = checker % {{ own_features // 8 }};
{% if few %}
      const i64 last_top = (i64)(down - 1) * {{ height }}{{ above }};
{{ ask("seen", "sees_first", "0", "last_top") }}
{{ ask("seen", "sees_last", "(turns - 1)", "last_top") }}
      const b8 published = turns <= {{ few }} && sees_first && sees_last;
{% endif %}
{% if caller is defined %}
      #pragma unroll 1
      for (u32 n = checker; n <= {{ features }}; n = n + {{ checkers }}) {
        spoiled[n] = 0;
      }
{% endif %}
{{ take_tile() }}
      #pragma unroll 1
      while (batch >= 0) {
{% if caller is defined %}
        if (checker == 0) {
          told[5] = next_tile[1];
        }
{% endif %}
        const i32 begin = next_tile[2];
        const i32 end = next_tile[3];
        mbarrier_arrive(&others[1]);
        const b8 sees_all = begin == 0 && end == turns;
{% for name, at, odd, spoiled in at_values %}
        u32 {{ odd }} = 0;
{% endfor %}
{% if caller is not defined %}
        if (sees_all) {
{{ tell(at_values) }}
        }
{% endif %}
{% if few %}
        if (sees_all && published) {
          mbarrier_wait(&others[3], taken ^ 1);
          if (checker == 0) {
            atomic_max_i32(&known[(told[4] != 0 ? 2 : 1) + {{ at_values[0][1] }} + batch * 3],
                           turns);
            told[4] = 0;
          }
        } else {
{% endif %}
{% for name, at, odd, spoiled in at_values %}
{{ find_batch(name) }}
        named_barrier(15, {{ checkers }});
{{ search(name, at, odd, few) }}
{% endfor %}
{% if few %}
        }
{% endif %}
{% if caller is defined %}
        #pragma unroll
        for (u32 n = 0; n < 8; ++n) {
          if ((odd >> n & 1) != 0) {
            atomic_max_i32(&spoiled[piece * 8 + n], 1);
            atomic_max_i32(&spoiled[{{ features }}], 1);
          }
        }
        named_barrier(15, {{ checkers }});
{{ caller() }}
{% else %}
        if (!sees_all) {
{{ tell(at_values) }}
        }
{% endif %}
{{ take_tile() }}
      }
{% endmacro %}
"""
