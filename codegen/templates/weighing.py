"""Tiles of attention that four warps weigh together: macros that texts begin with.

Four warps have 64 rows.  Scores become weights where they are, in registers, and the weights an
operand of the next product.  (J. Shah et al., *FlashAttention-3*, 2024.)  What a row is scaled by
need not be its largest score, but keep exponentials in range: it changes where a score exceeds it
by ``lazy``, so that most tiles leave the sums as they are.
"""

from __future__ import annotations

WEIGHING = """\
{% set rows, columns, T = size("query", 1), size("key", 1), dtype("query") %}
{% set lazy = "5.0f" %}
{% macro below(i, n, by) %}{% if n is string or n % by %}{{ i }} < {{ n }}{% endif %}{% endmacro %}
{% macro ask(body, into, turn) %}
    {{ modification(body, into, first_row="top", last_row="top + %d" % (height - 1),
                    first_column="(i64)%s * %d" % (turn, width),
                    last_column="(i64)%s * %d + %d" % (turn, width, width - 1)) }}
{% endmacro %}
{% macro start_weighing() %}
    f32 score[{{ width // 2 }}];
    __align__(16) {{ T }} weight[{{ width // 2 }}];
    f32 sums[{{ features // 2 }}];
    f32 top_score[2];
    f32 total[2];
    f32 scale[2];
    #pragma unroll
    for (u32 i = 0; i < {{ features // 2 }}; ++i) {
      sums[i] = 0.0f;
    }
    #pragma unroll
    for (u32 r = 0; r < 2; ++r) {
      top_score[r] = -inf_f32();
      total[r] = 0.0f;
    }
    u32 found = 0;
    i32 turn = 0;
{% endmacro %}
{% macro score_of(stage) %}
    #pragma unroll
    for (u32 i = 0; i < {{ width // 2 }}; ++i) {
      score[i] = 0.0f;
    }
    wgmma_fence();
{% for step in range(terms // 16) %}
    wgmma_m64n{{ width }}k16_{{ T }}_kk(
        score, &query_tile[mine * 4096 + {{ step // 4 * height * 64 + step % 4 * 16 }}],
        &key_tile[({{ stage }}) * {{ width * terms }} +
                  {{ step // 4 * width * 64 + step % 4 * 16 }}]);
{% endfor %}
    wgmma_commit();
{% endmacro %}
{% macro sum_of(stage) %}
{% for step in range(width // 16) %}
    wgmma_m64n{{ features }}k16_{{ T }}_rn(
        sums, &weight[{{ step * 8 }}],
        &value_tile[({{ stage }}) * {{ width * features }} +
                    {{ step // 4 * 64 * features + step % 4 * 1024 }}]);
{% endfor %}
    wgmma_commit();
{% endmacro %}
{% macro weigh(turn) %}
{{ ask("whole", "seen_by_all", turn) }}
    if (seen_by_all && top + {{ height }} <= {{ rows }} &&
        ((i64){{ turn }} + 1) * {{ width }} <= {{ columns }}) {
      #pragma unroll
      for (u32 n = 0; n < {{ width // 2 }}; ++n) {
        const i64 row = top + upper + lane / 4 + n / 2 % 2 * 8;
        const i64 column = (i64){{ turn }} * {{ width }} + (n / 4 * 8 + lane % 4 * 2 + n % 2);
        {{ modification("open_score", "opened", the_batch="batch", the_row="row",
                        the_column="column", the_dot="score[n]") }}
        score[n] = opened;
      }
    } else {
      #pragma unroll
      for (u32 n = 0; n < {{ width // 2 }}; ++n) {
        const i64 row = top + upper + lane / 4 + n / 2 % 2 * 8;
        const i64 column = (i64){{ turn }} * {{ width }} + (n / 4 * 8 + lane % 4 * 2 + n % 2);
        f32 changed = -inf_f32();
        if (row < {{ rows }} && column < {{ columns }}) {
          {{ modification("score", "found_score", the_batch="batch", the_row="row",
                          the_column="column", the_dot="score[n]") }}
          changed = found_score;
        }
        score[n] = changed;
      }
    }
    #pragma unroll
    for (u32 r = 0; r < 2; ++r) {
      f32 most = score[r * 2];
      f32 other = score[r * 2 + 1];
      #pragma unroll
      for (u32 j = 1; j < {{ width // 8 }}; ++j) {
        most = max_f32(most, score[j * 4 + r * 2]);
        other = max_f32(other, score[j * 4 + r * 2 + 1]);
      }
      most = max_f32(most, other);
      most = max_f32(most, shuffle_xor_f32(most, 1));
      most = max_f32(most, shuffle_xor_f32(most, 2));
      most = most > top_score[r] + {{ lazy }} ? most : top_score[r];
      const f32 base = most == -inf_f32() ? 0.0f : most * {{ log2e }};
      scale[r] = most == top_score[r] ? 1.0f : exp2_flush_f32(top_score[r] * {{ log2e }} - base);
      top_score[r] = most;
      f32 powers = 0.0f;
      f32 others = 0.0f;
      #pragma unroll
      for (u32 j = 0; j < {{ width // 8 }}; ++j) {
        const f32 one = exp2_flush_f32(score[j * 4 + r * 2] * {{ log2e }} - base);
        const f32 two = exp2_flush_f32(score[j * 4 + r * 2 + 1] * {{ log2e }} - base);
        score[j * 4 + r * 2] = one;
        score[j * 4 + r * 2 + 1] = two;
        powers = powers + one;
        others = others + two;
      }
      total[r] = total[r] * scale[r] + (powers + others);
    }
{% endmacro %}
{% macro rescale() %}
        if (scale[0] != 1.0f || scale[1] != 1.0f) {
          #pragma unroll
          for (u32 i = 0; i < {{ features // 2 }}; ++i) {
            sums[i] = sums[i] * scale[i / 2 % 2];
          }
        }
{% endmacro %}
{% macro round() %}
    #pragma unroll
    for (u32 i = 0; i < {{ width // 4 }}; ++i) {
      store2_{{ T }}(&weight[i * 2], narrow2_{{ T }}(score[i * 2], score[i * 2 + 1]));
    }
{% endmacro %}
"""
