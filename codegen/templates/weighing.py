"""Tiles of attention that four warps weigh together: macros that texts begin with.

Four warps have 64 rows.  Scores become weights where they are, in registers, and the weights an
operand of the next product.  (J. Shah et al., *FlashAttention-3*, 2024.)  What a row is scaled by
need not be its largest score, but keep exponentials in range: it changes where a score exceeds it
by ``lazy``, so that most tiles leave the sums as they are.  Warps that are ``alone``, which wait
for no others, find the largest score of a row only where one of their threads has such a score.
``power`` is that of 2 of which a score of 1 is the weight, and ``unit`` that of e; these and more
names come from ``scaling``.  A row with a score that is no number is not scaled by the others, so
where zeros take the place of weights, its weights are 0 until the row is done.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from didyma.codegen.emit.terms import literal
from didyma.codegen.templates.attention import weighing
from didyma.codegen.templates.attentions import is_ranged, limited
from didyma.codegen.templates.exact import LOG2_E, exact, written
from didyma.codegen.templates.problem import Problem
from didyma.codegen.templates.ranges import RANGES
from didyma.codegen.templates.scores import shortened
from didyma.refimpl.ir.loop import Binary, Const, Expr, LetExpr, Select, Var
from didyma.refimpl.ir.types import DType

LAZY = 5.0  # by which a score may exceed what its row is scaled by
RANGE = (2.0**-64, 2.0**64)  # of factors that become part of the power


def scaling(p: Problem) -> tuple[Problem, Mapping[str, int | str]]:
    """Return an attention as the macros take it, and the names that they use.

    A positive constant factor of the scores changes no order of them, so it is taken with the
    exponential; what remains ``changes`` a product or not.  Rows may see the keys between two
    ``limits``, or up to one.
    """
    dot = p.bodies["score"].inputs[-1]
    parts = {name: _split(p.bodies[name].value, dot) for name in ("score", "open_score")}
    factors = {factor for _, factor in parts.values()}
    factor = factors.pop() if len(factors) == 1 else None
    if factor is not None:
        bodies = {name: replace(p.bodies[name], value=value) for name, (value, _) in parts.items()}
        p = replace(p, bodies={**p.bodies, **bodies})
    p = limited(p)
    limits = sum(name in p.bodies for name in ("last_seen", "first_seen"))
    changes = int(p.bodies["open_score"].value != dot)
    steps, by = dict[str, int](), factor or Fraction(1)
    if limits and not changes:
        p = replace(p, bodies={k: v for k, v in p.bodies.items() if k != "open_score"})
    elif limits:
        p, steps, more = shortened(p)
        by *= more
    lazy = literal(LAZY / float(by), DType.F32).text
    texts = {"lazy": lazy, "unit": written(exact(by)), "power": written(exact(by * LOG2_E))}
    return p, {
        "limits": limits,
        "changes": changes,
        "ranged": is_ranged(p),
        "lse": int(p.line is not None),
        **weighing(p),
        **steps,
        **texts,
    }


def _split(e: Expr, dot: Var) -> tuple[Expr, Fraction | None]:
    """Return a score without its factor, and that; None if it is no multiple of the product."""
    match e:
        case LetExpr(var, value, body):
            inner, factor = _split(body, dot)
            return LetExpr(var, value, inner), factor
        case Select(_, then, Const(other)) if other == -math.inf:
            inner, factor = _split(then, dot)
            return replace(e, then=inner), factor
        case Binary("mul", part, Const(value)) | Binary("mul", Const(value), part):
            inner, factor = _split(part, dot)
            by = Fraction(value) * (factor or 1)
            return (inner, by) if RANGE[0] < by < RANGE[1] else (e, None)
        case _:
            return e, None


WEIGHING = (
    RANGES
    + """\
{% set rows, columns, T = size("query", 1), size("key", 1), dtype("query") %}
{% macro below(i, n, by) %}{% if n is string or n % by %}{{ i }} < {{ n }}{% endif %}{% endmacro %}
{% macro all(a, b) %}{{ a }}{{ " && " if a and b }}{{ b }}{% endmacro %}
{% macro start_weighing() %}
{% if held %}
    __align__(16) {{ T }} query_held[{{ terms // 2 }}];
{% endif %}
    f32 score[{{ width // 2 }}];
    __align__(16) {{ T }} weight[{{ width // 2 }}];
    f32 sums[{{ (summed + 31) // 32 * 16 }}];
    f32 top_score[2];
    f32 total[2];
    f32 scale[2];
{% if ranged and limits %}
    i32 row_first[2];
    i32 row_last[2];
{% endif %}
    #pragma unroll
    for (u32 i = 0; i < {{ (summed + 31) // 32 * 16 }}; ++i) {
      sums[i] = 0.0f;
    }
    #pragma unroll
    for (u32 r = 0; r < 2; ++r) {
      top_score[r] = -inf_f32();
      total[r] = 0.0f;
    }
{% endmacro %}
{% macro find_limits() %}
{% if ranged and limits %}
    #pragma unroll
    for (u32 r = 0; r < 2; ++r) {
      const i64 row = top + upper + lane / 4 + r * 8;
      {{ modification("last_seen", "ends", the_batch="batch", the_row="row") }}
      row_last[r] = (i32)max_i64(ends, -1);
      {{ modification("first_seen", "begins", the_batch="batch", the_row="row") }}
      row_first[r] = (i32)min_i64(begins, {{ columns }});
    }
{% endif %}
{% endmacro %}
{% macro score_of(stage) %}
    #pragma unroll
    for (u32 i = 0; i < {{ width // 2 }}; ++i) {
      score[i] = 0.0f;
    }
    wgmma_fence();
{% for step in range((own_terms + 15) // 16) %}
{% if held %}
    wgmma_m64n{{ width }}k16_{{ T }}_rk(
        score, &query_held[{{ step * 8 }}],
{% else %}
    wgmma_m64n{{ width }}k16_{{ T }}_kk(
        score, &query_tile[mine * 4096 + {{ step // 4 * height * 64 + step % 4 * 16 }}],
{% endif %}
        &key_tile[({{ stage }}) * {{ width * terms }} +
                  {{ step // 4 * width * 64 + step % 4 * 16 }}]);
{% endfor %}
    wgmma_commit();
{% endmacro %}
{% macro sum_of(stage) %}
{% for step in range(width // 16) %}
    wgmma_m64n{{ summed }}k16_{{ T }}_rn(
        sums, &weight[{{ step * 8 }}],
        &value_tile[({{ stage }}) * {{ width * features }} +
                    {{ step // 4 * 64 * features + step % 4 * 1024 }}]);
{% endfor %}
    wgmma_commit();
{% endmacro %}
{% macro weigh(turn) %}
    {
{{ ask("whole", "seen_by_all", turn) }}
{% if limits %}
{% if changes %}
{% set indexed = column_step or row_step %}
{% if indexed %}
    const i64 first_row = top + upper + lane / 4;
    const i64 first_column = (i64){{ turn }} * {{ width }} + lane % 4 * 2;
    {{ modification("apart", "first_apart", the_batch="batch", the_row="first_row",
                    the_column="first_column") }}
{% endif %}
    #pragma unroll
    for (u32 n = 0; n < {{ width // 2 }}; ++n) {
{% if indexed %}
      const i32 right_by = n / 4 * 8 + n % 2;
      const i32 down_by = n / 2 % 2 * 8;
      const f32 the_apart =
          first_apart + cast_i32_f32(right_by * {{ column_step }} + down_by * {{ row_step }});
{% endif %}
      const i64 row = top + upper + lane / 4 + n / 2 % 2 * 8;
      const i64 column = (i64){{ turn }} * {{ width }} + (n / 4 * 8 + lane % 4 * 2 + n % 2);
      {{ modification("open_score", "opened", the_batch="batch", the_row="row",
                      the_column="column", the_dot="score[n]",
                      **({"the_apart": "the_apart"} if indexed else {})) }}
      score[n] = opened;
    }
{% endif %}
    if (!seen_by_all || ((i64){{ turn }} + 1) * {{ width }} > {{ columns }}) {
      i32 low[2];
      i32 high[2];
      const i64 start = (i64){{ turn }} * {{ width }} + lane % 4 * 2;
      #pragma unroll
      for (u32 r = 0; r < 2; ++r) {
{% if ranged %}
        high[r] = max_i32(min_i32(row_last[r] - (i32)start, {{ width }}), -1);
        low[r] = max_i32(min_i32(row_first[r] - (i32)start, {{ width }}), 0);
{% else %}
        const i64 row = top + upper + lane / 4 + r * 8;
        {{ modification("last_seen", "ends", the_batch="batch", the_row="row") }}
        high[r] = (i32)max_i64(min_i64(ends - start, {{ width }}), -1);
        low[r] = 0;
{% if limits == 2 %}
        {{ modification("first_seen", "begins", the_batch="batch", the_row="row") }}
        low[r] = (i32)max_i64(min_i64(begins - start, {{ width }}), 0);
{% endif %}
{% endif %}
      }
      #pragma unroll
      for (u32 n = 0; n < {{ width // 2 }}; ++n) {
        const i32 near = n / 4 * 8 + n % 2;
        const u32 r = n / 2 % 2;
        score[n] = near <= high[r]{{ " && near >= low[r]" if limits == 2 }} ? score[n] : -inf_f32();
      }
    }
{% else %}
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
{% endif %}
    f32 largest[2];
    #pragma unroll
    for (u32 r = 0; r < 2; ++r) {
      f32 most = score[r * 2];
      f32 other = score[r * 2 + 1];
      #pragma unroll
      for (u32 j = 1; j < {{ width // 8 }}; ++j) {
        most = max_f32(most, score[j * 4 + r * 2]);
        other = max_f32(other, score[j * 4 + r * 2 + 1]);
      }
      largest[r] = max_f32(most, other);
      scale[r] = 1.0f;
    }
{% if alone %}
    if (any_b8(largest[0] > top_score[0] + {{ lazy }} || largest[1] > top_score[1] + {{ lazy }})) {
{% endif %}
    #pragma unroll
    for (u32 r = 0; r < 2; ++r) {
      f32 most = max_f32(largest[r], shuffle_xor_f32(largest[r], 1));
      most = max_f32(most, shuffle_xor_f32(most, 2));
      if (most > top_score[r] + {{ lazy }}) {
        scale[r] = exp2_flush_f32((top_score[r] - most) * {{ power }});
        top_score[r] = most;
      }
    }
{% if alone %}
    }
{% endif %}
    #pragma unroll
    for (u32 r = 0; r < 2; ++r) {
      const f32 base = top_score[r] == -inf_f32() ? 0.0f : top_score[r] * {{ power }};
      f32 powers = 0.0f;
      f32 odd_powers = 0.0f;
      #pragma unroll
      for (u32 j = 0; j < {{ width // 8 }}; ++j) {
        const f32 one = exp2_flush_f32(score[j * 4 + r * 2] * {{ power }} - base);
        const f32 two = exp2_flush_f32(score[j * 4 + r * 2 + 1] * {{ power }} - base);
        score[j * 4 + r * 2] = one;
        score[j * 4 + r * 2 + 1] = two;
        powers = powers + one;
        odd_powers = odd_powers + two;
      }
      total[r] = total[r] * scale[r] + (powers + odd_powers);
    }
{% if weighs %}
    u32 known[2];
    #pragma unroll
    for (u32 r = 0; r < 2; ++r) {
      f32 most = max_f32(largest[r], shuffle_xor_f32(largest[r], 1));
      most = max_f32(most, shuffle_xor_f32(most, 2));
      known[r] = most == most ? 1 : 0;
    }
    #pragma unroll
    for (u32 n = 0; n < {{ width // 2 }}; ++n) {
      const i64 row = top + upper + lane / 4 + n / 2 % 2 * 8;
      const i64 column = (i64){{ turn }} * {{ width }} + (n / 4 * 8 + lane % 4 * 2 + n % 2);
      f32 share = 0.0f;
      if (known[n / 2 % 2] != 0 && row < {{ rows }} && column < {{ columns }}) {
        {{ modification(weighs, "weighed", the_batch="batch", the_row="row", the_column="column",
                        the_power="score[n]") }}
        share = weighed;
      }
      score[n] = share;
    }
{% endif %}
    }
{% endmacro %}
{% macro invert_totals() %}
      #pragma unroll
      for (u32 r = 0; r < 2; ++r) {
        scale[r] = 1.0f / total[r];
{% if guarded %}
        const i64 row = top + upper + lane / 4 + r * 8;
        if (row < {{ rows }}) {
          {{ modification("empty", "none", the_batch="batch", the_row="row",
                          the_total="total[r]") }}
          scale[r] = none ? 0.0f : scale[r];
        }
{% endif %}
      }
{% endmacro %}
{% macro store_log(inside) %}
{% if lse %}
      #pragma unroll
      for (u32 r = 0; r < 2; ++r) {
        const i64 row = top + upper + lane / 4 + r * 8;
        const f32 log_sum =
            total[r] == 0.0f ? nan_f32() : log_f32(total[r]) + top_score[r] * {{ unit }};
        {{ store_line(("batch", "row"), "log_sum",
                      mask=["lane % 4 == 0", inside] | select | join(" && ")) }}
      }
{% endif %}
{% endmacro %}
{% macro rescale() %}
        if (scale[0] != 1.0f || scale[1] != 1.0f) {
          #pragma unroll
          for (u32 i = 0; i < {{ summed // 2 }}; ++i) {
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
)
