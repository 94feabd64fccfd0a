"""Tiles of weighted sums that four warps work on together: macros that a text begins with.

Four warps have 64 rows.  They start the ``products`` of a tile, compute weights where those are, in
registers, and make them an operand of the ``sums``.  Rows are in one of ``slots``, while those of
the next tile come to another.  What weights read of a row stays in registers while the rows do, and
of the first ``held`` products the rows themselves; what weights read of columns a warp of its own
brings to shared memory, with each tile.
"""

from __future__ import annotations

TILES = """\
{% set rows, columns, T = size("query", 1), size("key", 1), dtype("query") %}
{% set batches, groups = size("query", 0), height // 64 %}
{% set streams = [("key", terms), ("right", others)][:pairs] %}
{% set lines = [("query", terms), ("left", others)][:pairs] %}
{% set products = [("query", "key", terms, "dot"), ("left", "right", others, "other")][:pairs] %}
{% set sums = [("sums", "weight", "other" if two else "dot", shared or "value", "spoiled"),
               ("also_sums", "also_weight", "dot", also_shared or "also", "also_spoiled")]
              [:2 if two else 1] %}
{% set fetched = ["value"][:0 if shared else 1] +
                 (["also"] if two and not also_shared else []) %}
{% set every = terms + others + features * fetched | length %}
{% set steps = {"query": (own_terms + 15) // 16, "left": (own_others + 15) // 16} %}
{% set held_rows = lines[:held] | map("first") | list %}
{% macro below(i, n, by) %}{% if n is string or n % by %}{{ i }} < {{ n }}{% endif %}{% endmacro %}
{% macro all(a, b) %}{{ a }}{{ " && " if a and b }}{{ b }}{% endmacro %}
{% macro in_slot(length) %}{{ "slot * %d + " % (height * length) if slots > 1 }}{% endmacro %}
{% macro next_slot() %}
{% if slots > 1 %}
        slot = slot ^ 1;
        slot_phase = slot == 0 ? slot_phase ^ 1 : slot_phase;
{% else %}
        slot_phase = slot_phase ^ 1;
{% endif %}
{% endmacro %}
{% macro multiply(which) %}
{% for row, column, length, into in which %}
        #pragma unroll
        for (u32 n = 0; n < {{ width // 2 }}; ++n) {
          {{ into }}[n] = 0.0f;
        }
{% endfor %}
        wgmma_fence();
{% for row, column, length, into in which %}
{% for step in range(steps[row]) %}
{% if row in held_rows %}
        wgmma_m64n{{ width }}k16_{{ T }}_rk({{ into }}, &{{ row }}_held[{{ step * 8 }}],
{% else %}
        wgmma_m64n{{ width }}k16_{{ T }}_kk({{ into }},
            &{{ row }}_tile[{{ in_slot(length) }}mine * 4096 + none +
                {{ step // 4 * height * 64 + step % 4 * 16 }}],
{% endif %}
            &{{ column }}_tile[stage * {{ width * length }} +
                               {{ step // 4 * width * 64 + step % 4 * 16 }}]);
{% endfor %}
{% endfor %}
        wgmma_commit();
{% endmacro %}
{% macro sum_of(which, stage) %}
{% for into, weights, dots, tile, spoils in which %}
{% for step in range(width // 16) %}
        wgmma_m64n{{ summed }}k16_{{ T }}_rn({{ into }}, &{{ weights }}[{{ step * 8 }}],
            &{{ tile }}_tile[{{ stage }} * {{ width * features }} +
                {{ step // 4 * 64 * features + step % 4 * 1024 }}]);
{% endfor %}
{% endfor %}
        wgmma_commit();
{% endmacro %}
{% set read = {"the_batch": "batch", "the_row": "row", "the_column": "column"} %}
{% for n in range(of_rows) %}
{% set _ = read.update({"by_row_%d" % n: "of_row[%d + n / 2 %% 2]" % (2 * n)}) %}
{% endfor %}
{% for n in range(of_columns) %}
{% set _ = read.update({"by_column_%d" % n: "of_column_%d" % n}) %}
{% endfor %}
{% macro weight_of(body, value) %}
{% set given = dict(read, the_dot="dot[n]") %}
{% if pairs == 2 and (not two or body in ("open_score", "score")) %}
{% set _ = given.update({"the_other": "other[n]"}) %}
{% endif %}
{% if two and body in ("open_score", "score") %}
{% set _ = given.update({"the_also": given.pop("the_dot")}) %}
{% elif powered %}
          {{ modification("exponent", value ~ "_exponent", **given) }}
          const f32 {{ value }}_power = exp2_flush_f32({{ value }}_exponent);
{% set _ = given.update({"the_power": value ~ "_power"}) %}
{% endif %}
          {{ modification(body, value, **given) }}
{% endmacro %}
{% macro each() %}
        #pragma unroll
        for (u32 n = 0; n < {{ width // 2 }}; ++n) {
          const i64 row = (i64)((i32)top + (i32)(upper + lane / 4 + n / 2 % 2 * 8));
          const i64 column = (i64)(turn * {{ width }} + (i32)(n / 4 * 8 + lane % 4 * 2 + n % 2));
{% for n in range(of_columns) %}
          const f32 of_column_{{ n }} =
              by_column[stage * {{ width * of_columns }} + {{ n * width }} +
                        n / 4 * 8 + lane % 4 * 2 + n % 2];
{% endfor %}
{% endmacro %}
{% macro read_rows() %}
{% if of_rows %}
      f32 of_row[{{ 2 * of_rows }}];
      #pragma unroll
      for (u32 n = 0; n < 2; ++n) {
        const i64 row = top + upper + lane / 4 + n * 8;
{% for k in range(of_rows) %}
        of_row[{{ 2 * k }} + n] = 0.0f;
{% endfor %}
        if (row < {{ rows }}) {
{% for k in range(of_rows) %}
          {{ modification("by_row_%d" % k, "number_%d" % k, the_batch="batch", the_row="row") }}
          of_row[{{ 2 * k }} + n] = number_{{ k }};
{% endfor %}
        }
      }
{% endif %}
{% endmacro %}
{% macro hold_rows() %}
{% for row, length in lines[:held] %}
      __align__(16) {{ T }} {{ row }}_held[{{ length // 2 }}];
      #pragma unroll
      for (u32 i = 0; i < {{ steps[row] }}; ++i) {
        const u32 line = upper + lane % 16;
        const u32 piece = i % 4 * 2 + lane / 16;
        store8_{{ T }}(&{{ row }}_held[i * 8], ldmatrix4_{{ T }}(
            &{{ row }}_tile[{{ in_slot(length) }}i / 4 * {{ height * 64 }} + line * 64 +
                            (piece ^ line % 8) * 8]));
      }
{% endfor %}
{% endmacro %}
{% macro bring_columns() %}
      u32 stage = 0;
      u32 phase = 1;
      u32 taken = 0;
      i64 batch = 0;
{{ take_tile() }}
      #pragma unroll 1
      while (batch >= 0) {
        i32 turn = next_tile[2];
        const i32 last = next_tile[3];
        mbarrier_arrive(&others[1]);
        #pragma unroll 1
        while (turn < last) {
          f32 held[{{ of_columns * width // 32 }}];
          #pragma unroll
          for (u32 n = 0; n < {{ width // 32 }}; ++n) {
            const i64 column = (i64)turn * {{ width }} + n * 32 + lane;
{% for k in range(of_columns) %}
            held[{{ k * width // 32 }} + n] = 0.0f;
{% endfor %}
            if (column < {{ columns }}) {
{% for k in range(of_columns) %}
              {{ modification("by_column_%d" % k, "number_%d" % k, the_batch="batch",
                              the_column="column") }}
              held[{{ k * width // 32 }} + n] = number_{{ k }};
{% endfor %}
            }
          }
          mbarrier_wait(&empty[stage], phase);
          #pragma unroll
          for (u32 n = 0; n < {{ of_columns * width // 32 }}; ++n) {
            by_column[stage * {{ width * of_columns }} + n * 32 + lane] = held[n];
          }
          mbarrier_arrive(&full[stage]);
{{ next_stage() }}
          turn = turn + 1;
        }
{{ take_tile() }}
      }
{% endmacro %}
{% macro see() %}
        const i64 own_top = top + mine * 64;
{{ ask("whole", "seen_by_all", "turn", "own_top", 64) }}
        const u32 is_open = seen_by_all && own_top + 64 <= {{ rows }} &&
                            ((i64)turn + 1) * {{ width }} <= {{ columns }};
{% endmacro %}
{% macro weigh(open, score, into) %}
      if (is_open) {
{{ each() }}
{{ weight_of(open, open ~ "_weight") }}
          {{ into }}[n] = {{ open }}_weight;
        }
      } else {
{{ each() }}
          f32 found = 0.0f;
          if (row < {{ rows }} && column < {{ columns }}) {
{{ weight_of(score, score ~ "_weight") }}
            found = {{ score }}_weight;
          }
          {{ into }}[n] = found;
        }
      }
{% endmacro %}
{% macro stores(one, other) %}
{% set at, inside = ("batch", "row", "feature"), below("row", rows, height) %}
{% set chunk = all(inside, below("feature", own_features, 32)) %}
{% set each = all(inside, below("feature", own_features, 16)) %}
{% if wide and two %}
{{- store_outputs(at, one, other, mask=chunk) -}}
{% elif wide %}
{{- store_outputs(at, one, mask=chunk) -}}
{% elif two %}
{{- store_output(at, one, other, mask=each) -}}
{% else %}
{{- store_output(at, one, mask=each) -}}
{% endif %}
{% endmacro %}
{% macro round(which) %}
{% for into, weights, dots, tile, spoils in which %}
        #pragma unroll
        for (u32 i = 0; i < {{ width // 4 }}; ++i) {
          store2_{{ T }}(&{{ weights }}[i * 2],
                        narrow2_{{ T }}({{ dots }}[i * 2], {{ dots }}[i * 2 + 1]));
        }
{% endfor %}
{% endmacro %}
"""
