"""Look for values that no row of a tile sees: a macro of the text of ``tma_attention``.

Nothing times an infinity is no number, so a value that is not finite spoils its feature for rows
that do not see it, too.  Blocks share the search: each tile of the values of a batch is claimed by
one of those that work on the batch, and ``known`` counts the tiles that are claimed, that are
finite, and that are not.  A block waits for those that others look at, which run already.  Only
where some tile is not finite, each block finds out which features are spoiled for its own rows.
"""

from __future__ import annotations

LOOKING = """\
{% macro add_odd(into, x) %}
{% for n in range(8) %}
{{ into % n }} = {{ into % n }} + cast_{{ T }}_f32({{ x }}.s{{ n }}) * 0.0f;
{% endfor %}
{% endmacro %}
{% macro share(value) %}
        named_barrier(15, {{ checkers }});
        if (checker == 0) {
          told[0] = {{ value }};
        }
        named_barrier(15, {{ checkers }});
{% endmacro %}
{% macro look() %}
{% set lines, pieces = checkers // (features // 8), features // 8 %}
        const u32 piece = checker % {{ pieces }};
{{ share("atomic_fetch_add_i32(&known[1 + batch * 3], 1)") }}
        i32 claimed = told[0];
        #pragma unroll 1
        while (claimed < turns) {
          if (checker == 0) {
            told[1] = 0;
            mbarrier_expect(&others[4], {{ width * features * 2 }});
{% for chunk in range(width // 64) %}
{{ fetch("value", "looked_at", 16, 64, features,
         ("(i64)claimed * %d + %d" % (width, chunk * 64), chunk * 64 * features), "&others[4]") }}
{% endfor %}
          }
          mbarrier_wait(&others[4], came);
          came = came ^ 1;
          f32 odd[2];
          odd[0] = 0.0f;
          odd[1] = 0.0f;
          #pragma unroll 4
          for (u32 line = checker / {{ pieces }}; line < {{ width }}; line = line + {{ lines }}) {
            const {{ T }}x8 x = load8_{{ T }}(
                &looked_at[(line / 64 * {{ pieces // 8 }} + piece / 8) * 4096 + line % 64 * 64 +
                           (piece % 8 ^ line % 8) * 8]);
{{ add_odd("odd[%d %% 2]", "x") | indent(12, first=True) }}
          }
          if (odd[0] + odd[1] != 0.0f) {
            atomic_max_i32(&told[1], 1);
          }
          named_barrier(15, {{ checkers }});
          if (checker == 0) {
            atomic_add_i32(&known[told[1] != 0 ? 3 + batch * 3 : 2 + batch * 3], 1);
          }
{{ share("atomic_fetch_add_i32(&known[1 + batch * 3], 1)") }}
          claimed = told[0];
        }
        i32 unusual = 0;
        if (checker == 0) {
          i32 finite = 0;
          while (finite + unusual < turns) {
            finite = atomic_fetch_add_i32(&known[2 + batch * 3], 0);
            unusual = atomic_fetch_add_i32(&known[3 + batch * 3], 0);
          }
        }
{{ share("unusual") }}
        f32 odd[8];
        #pragma unroll
        for (u32 n = 0; n < 8; ++n) {
          odd[n] = 0.0f;
        }
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
                      {{ address("value", ("batch", "column", "term")) }});
{{ add_odd("odd[%d]", "x") | indent(18, first=True) }}
                }
              }
            }
          }
        }
        mbarrier_wait(&others[3], taken);
        for (u32 n = checker; n <= {{ features }}; n = n + {{ checkers }}) {
          spoiled[n] = 0;
        }
        named_barrier(15, {{ checkers }});
        #pragma unroll
        for (u32 n = 0; n < 8; ++n) {
          if (odd[n] != 0.0f) {
            atomic_max_i32(&spoiled[piece * 8 + n], 1);
            atomic_max_i32(&spoiled[{{ features }}], 1);
          }
        }
        mbarrier_arrive(&others[2]);
{% endmacro %}
"""
