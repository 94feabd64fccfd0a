"""Look for values that no row of a tile sees: macros that texts begin with.

Nothing times an infinity is no number, so a value that is not finite spoils its feature for rows
that do not see it, too.  Blocks share the search: each tile of the values of a batch is claimed by
one of those that work on the batch, and ``known`` counts, from ``at`` on, the tiles that are
claimed, that are finite, and that are not.  A block waits for those that others look at, which run
already; where all are known to be finite, it reads one count.  Only where some tile is not finite,
each block finds out which features are spoiled for its own rows: ``search`` finds the features of
an operand that are ``odd``, a bit for each of eight, and ``tell`` marks them.  ``search_for`` does
so for tile after tile: for each operand it is given the name, its counts in ``known``, and the
words for what is found.  It tells at once of a tile whose rows see a key of each tile of keys, and
of others once they are known.
"""

from __future__ import annotations

LOOKING = """\
{% macro add_odd(into, x) %}
{% for n in range(8) %}
{{ into % n }} = {{ into % n }} + cast_{{ T }}_f32({{ x }}.s{{ n }}) * 0.0f;
{% endfor %}
{% endmacro %}
{% macro bring(name, turn) %}
            mbarrier_expect(&others[4], {{ width * features * 2 }});
{% for chunk in range(width // 64) %}
{{ fetch(name, "looked_at", 64, features,
         ("(i64)%s * %d + %d" % (turn, width, chunk * 64), chunk * 64 * features), "&others[4]") }}
{% endfor %}
{% endmacro %}
{% macro add_up() %}
{% set lines, pieces = checkers // (own_features // 8), own_features // 8 %}
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
{% endmacro %}
{% macro share(value) %}
        if (checker == 0) {
          told[0] = {{ value }};
        }
        named_barrier(15, {{ checkers }});
{% endmacro %}
{% macro search(name, at, odd) %}
{% set lines, pieces = checkers // (own_features // 8), own_features // 8 %}
        i32 finite_{{ name }} = 0;
        if (checker == 0) {
          finite_{{ name }} = atomic_fetch_add_i32(&known[1 + {{ at }} + batch * 3], 0);
          told[0] = finite_{{ name }} == turns ? turns
                    : atomic_fetch_add_i32(&known[{{ at }} + batch * 3], 1);
        }
        named_barrier(15, {{ checkers }});
        i32 claimed_{{ name }} = told[0];
        #pragma unroll 1
        while (claimed_{{ name }} < turns) {
          if (checker == 0) {
            told[1] = 0;
{{ bring(name, "claimed_" ~ name) }}
            told[2 + came] = atomic_fetch_add_i32(&known[{{ at }} + batch * 3], 1);
          }
{{ add_up() }}
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
{% macro search_for(at_values) %}
      u32 taken = 0;
      i64 batch = 0;
      u32 came = 0;
      const u32 checker = threadIdx.x - 64;
      const u32 piece = checker % {{ own_features // 8 }};
{{ take_tile() }}
      #pragma unroll 1
      while (batch >= 0) {
        const i32 begin = next_tile[2];
        const i32 end = next_tile[3];
        mbarrier_arrive(&others[1]);
        const b8 sees_all = begin == 0 && end == turns;
{% for name, at, odd, spoiled in at_values %}
        u32 {{ odd }} = 0;
{% endfor %}
        if (sees_all) {
{{ tell(at_values) }}
        }
{% for name, at, odd, spoiled in at_values %}
{{ find_batch(name) }}
        named_barrier(15, {{ checkers }});
{{ search(name, at, odd) }}
{% endfor %}
        if (!sees_all) {
{{ tell(at_values) }}
        }
{{ take_tile() }}
      }
{% endmacro %}
"""
