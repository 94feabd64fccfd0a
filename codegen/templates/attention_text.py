"""The text of ``tma_attention``: two threads fetch, others look, groups of warps multiply."""

from __future__ import annotations

from didyma.codegen.templates.boxes import BOXES
from didyma.codegen.templates.language import Text
from didyma.codegen.templates.looking import LOOKING
from didyma.codegen.templates.mending import MENDING
from didyma.codegen.templates.persistent import TAKING
from didyma.codegen.templates.tiles import TRADE
from didyma.codegen.templates.weighing import WEIGHING

TEXT = Text("tma_attention", WEIGHING + TRADE + BOXES + TAKING + LOOKING + MENDING + """\
{% set mends = 1 if checkers and boxed else 0 %}
{% set batches, uneven = size("query", 0), own_features % 64 %}
{% set inside = all("row >= 0", below("row", rows, 64)) if last_whole
    else below("row", rows, height) %}
{% set above = " - (down * %d - %s) / 64 * 64" % (height, rows) if last_whole %}
{% set slots = 6 if ranged else 4 %}
{% macro next_stage() %}
        stage = stage ^ 1;
        if (stage == 0) {
          phase = phase ^ 1;
        }
{% endmacro %}
{% macro share_ticket(type="i32 ") %}
{% if ranged %}
{% for by in all_lanes %}
        ticket = max_i32(ticket, shuffle_xor_i32(ticket, {{ by }}));
{% endfor %}
{% endif %}
        {{ type }}number = ticket;
{% endmacro %}
{% macro fetch_keys(last, until) %}
        #pragma unroll 1
        while ({{ last }} > {{ until }}) {
          {{ last }} = {{ last }} - 1;
          mbarrier_wait(&empty[stage], phase);
          mbarrier_expect(&full[stage], {{ width * terms * 2 }});
{{ fetch("key", "key_tile", width, terms,
         ("(i64)%s * %d" % (last, width), "stage * %d" % (width * terms)), "&full[stage]") }}
{{ next_stage() }}
        }
{% endmacro %}
{% macro store_boxes() %}
{{ find_batch("result") }}
{% for group in range(groups) %}
{% if last_whole %}
          if (top + {{ group * 64 }} >= 0) {
{% endif %}
{% for i in range(features // 64) %}
            tma_store3_{{ R }}({{ described("result") }}, {{ i * 64 }}, top + {{ group * 64 }},
                               result_at, &stored[{{ (group * features // 64 + i) * 4096 }}]);
{% endfor %}
{% if last_whole %}
          }
{% endif %}
{% endfor %}
          tma_commit();
          tma_wait(0);
          mbarrier_arrive(&others[2]);
{% endmacro %}
{{ def_kernel("query", "key", "value") }} {
  __shared__ __align__(1024) {{ T }} query_tile[{{ height * terms }}];
  __shared__ __align__(1024) {{ T }} key_tile[{{ 2 * width * terms }}];
  __shared__ __align__(1024) {{ T }} value_tile[{{ 2 * width * features }}];
{% if boxed %}
  __shared__ __align__(1024) {{ R }} stored[{{ height * features }}];
{% endif %}
  __shared__ __align__(8) u64 full[4];
  __shared__ __align__(8) u64 empty[4];
  __shared__ __align__(8) u64 others[5];
  __shared__ i64 next_tile[{{ slots + mends }}];
{% if order %}
  __shared__ __align__(8) u64 turn_of[{{ groups }}];
{% endif %}
{% if checkers %}
{% if mends %}
  __shared__ i32 first_odd[{{ features }}];
  __shared__ i32 last_odd[{{ features }}];
{% else %}
  __shared__ i32 spoiled[{{ features + 1 }}];
{% endif %}
  __shared__ __align__(1024) {{ T }} looked_at[{{ width * features }}];
  __shared__ i32 told[6];
{% endif %}
  const i32 down = ({{ rows }} + {{ height - 1 }}) / {{ height }};
  const i32 tiles = {{ batches }} * down;
  const i32 turns = ({{ columns }} + {{ width - 1 }}) / {{ width }};
  const u32 lane = threadIdx.x % 32;
{% if checkers %}
  i32 ticket = 0;
{% endif %}
  if (threadIdx.x == 0) {
{% if checkers %}
    ticket = atomic_fetch_add_i32(&known[0], 1);
{% endif %}
    for (u32 i = 0; i < 4; ++i) {
      mbarrier_init(&full[i], 1);
      mbarrier_init(&empty[i], {{ height // 16 }});
    }
{% for i in range(groups if order else 0) %}
    mbarrier_init(&turn_of[{{ i }}], 1);
{% endfor %}
    mbarrier_init(&others[0], 1);
    mbarrier_init(&others[1], {{ height * 2 + 1 + (checkers or boxed) }});
    mbarrier_init(&others[2], {{ 1 if boxed else [1, checkers] | max }});
    mbarrier_init(&others[3], {{ height * 2 }});
    mbarrier_init(&others[4], 1);
{% if mends %}
    told[0] = 0;
{% endif %}
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    setmaxnreg_dec({{ fewer }});
    if ({{ "threadIdx.x < 32" if ranged else "threadIdx.x == 0" }}) {
      u32 stage = 0;
      u32 phase = 1;
      u32 room = 1;
{% if checkers %}
{{ share_ticket() }}
{{ find_section(terms + features) }}
{% else %}
      i32 number = blockIdx.x;
{% endif %}
{% if ranged %}
      i64 key_at = 0;
      i32 left_turn = 0;
      i32 left_last = 0;
{% endif %}
      #pragma unroll 1
      while (number < tiles) {
{% if checkers %}
{% if not ranged %}
        ticket = atomic_fetch_add_i32(&known[0], 1);
{% endif %}
{{ find_place(1, above) }}
{% if ranged %}
{{ find_range() }}
{% endif %}
{{ find_turns() -}}
{% else %}
        const i64 batch = number / down;
        const i64 top = (i64)(down - 1 - number % down) * {{ height }};
        const i32 turn = 0;
        i32 last = turns;
{% endif %}
{% if ranged %}
        if (lane == 0) {
{{ fetch_keys("left_last", "left_turn") }}
{% endif %}
        mbarrier_wait(&others[1], room);
        room = room ^ 1;
        next_tile[0] = batch;
        next_tile[1] = top;
        next_tile[2] = turn;
        next_tile[3] = last;
{% if ranged %}
        next_tile[4] = all_first;
        next_tile[5] = all_last;
{% endif %}
{% if mends %}
        next_tile[{{ slots }}] = place;
{% endif %}
{{ find_batch("query") }}
{{ find_batch("key", "" if ranged else "const i64 ") }}
        mbarrier_expect(&others[0], {{ height * terms * 2 }});
{% if last_whole %}
        #pragma unroll 1
        for (u32 i = 0; i < {{ groups }}; ++i) {
          const i64 first = max_i64(top + i * 64, 0);
{{ fetch("query", "query_tile", height, terms, ("first", "i * 4096"), "&others[0]") }}
        }
{% else %}
{{ fetch("query", "query_tile", height, terms, ("top", "0"), "&others[0]") }}
{% endif %}
{% if ranged %}
        left_turn = turn;
        left_last = last;
        const i32 soon = max_i32(turn, last - 2);
{{ fetch_keys("left_last", "soon") }}
        ticket = atomic_fetch_add_i32(&known[0], 1);
        }
{% else %}
{{ fetch_keys("last", "turn") }}
{% endif %}
{% if checkers %}
{{ share_ticket("") }}
{% else %}
        number = number + gridDim.x;
{% endif %}
      }
{% if ranged %}
      if (lane == 0) {
{{ fetch_keys("left_last", "left_turn") }}
{% endif %}
      mbarrier_wait(&others[1], room);
      next_tile[0] = -1;
      mbarrier_arrive(&others[0]);
{% if ranged %}
      }
{% endif %}
    } else if (threadIdx.x == 32) {
      u32 stage = 0;
      u32 phase = 1;
      u32 taken = 0;
      i64 batch = 0;
{{ take_tile() }}
      #pragma unroll 1
      while (batch >= 0) {
        const i32 turn = next_tile[2];
        i32 last = next_tile[3];
        mbarrier_arrive(&others[1]);
{{ find_batch("value") }}
        #pragma unroll 1
        while (last > turn) {
          last = last - 1;
          mbarrier_wait(&empty[2 + stage], phase);
          mbarrier_expect(&full[2 + stage], {{ width * features * 2 }});
{% for chunk in range(width // 64) %}
{{ fetch("value", "value_tile", 64, features,
         ("(i64)last * %d + %d" % (width, chunk * 64),
          "stage * %d + %d" % (width * features, chunk * 64 * features)), "&full[2 + stage]") }}
{% endfor %}
{{ next_stage() }}
        }
{{ take_tile() }}
      }
{% if mends %}
    } else if (threadIdx.x >= 64) {
{{ look("value", slots, above) }}
{% elif checkers %}
    } else if (threadIdx.x >= 64) {
{{ search_for([("value", "1", "odd", "spoiled")]) }}
{% elif boxed %}
    } else if (threadIdx.x == 64) {
      u32 taken = 0;
      i64 batch = 0;
{{ take_tile() }}
      #pragma unroll 1
      while (batch >= 0) {
        const i64 top = next_tile[1];
        mbarrier_arrive(&others[1]);
        mbarrier_wait(&others[3], taken ^ 1);
{{ store_boxes() }}
{{ take_tile() }}
      }
{% endif %}
    }
  } else {
{{ begin_group() }}
{% if order %}
    u32 waits = mine == 0 ? 1 : 0;
{% endif %}
{{ take_tile() }}
    #pragma unroll 1
    while (batch >= 0) {
      const i64 top = next_tile[1];
      const i32 until = next_tile[2];
      i32 turn = next_tile[3];
{% if ranged %}
      const i32 all_first = next_tile[4];
      const i32 all_last = next_tile[5];
{% endif %}
{{ start_weighing() }}
{% if held %}
      #pragma unroll
      for (u32 i = 0; i < {{ (own_terms + 15) // 16 }}; ++i) {
        const u32 line = upper + lane % 16;
        const u32 piece = i % 4 * 2 + lane / 16;
        store8_{{ T }}(&query_held[i * 8], ldmatrix4_{{ T }}(
            &query_tile[i / 4 * {{ height * 64 }} + line * 64 + (piece ^ line % 8) * 8]));
      }
      mbarrier_arrive(&others[1]);
{% endif %}
      if (turn > until) {
        turn = turn - 1;
        mbarrier_wait(&full[stage], phase);
{{ score_of("stage") }}
{{ find_limits() }}
        wgmma_wait(0);
{{ arrive("&empty[stage]") }}
{{ weigh("turn") }}
{{ round() }}
        #pragma unroll 1
        while (turn > until) {
          turn = turn - 1;
          const u32 before = stage;
          const u32 parity = phase;
{{ next_stage() }}
          mbarrier_wait(&full[stage], phase);
{% if order %}
          mbarrier_wait(&turn_of[mine], waits);
          waits = waits ^ 1;
{% endif %}
{{ score_of("stage") }}
          mbarrier_wait(&full[2 + before], parity);
          wgmma_fence();
{{ sum_of("before") }}
{% if order %}
          if (threadIdx.x % 128 == 0) {
            mbarrier_arrive(&turn_of[mine == {{ groups - 1 }} ? 0 : mine + 1]);
          }
{% endif %}
          wgmma_wait(1);
{{ arrive("&empty[stage]") }}
{{ weigh("turn") }}
          wgmma_wait(0);
{{ arrive("&empty[2 + before]") }}
{{ round() }}
{{ rescale() }}
        }
{% if not held %}
        mbarrier_arrive(&others[1]);
{% endif %}
        mbarrier_wait(&full[2 + stage], phase);
        wgmma_fence();
{{ sum_of("stage") }}
        #pragma unroll
        for (u32 r = 0; r < 2; ++r) {
          total[r] = total[r] + shuffle_xor_f32(total[r], 1);
          total[r] = total[r] + shuffle_xor_f32(total[r], 2);
        }
{{ invert_totals() }}
        wgmma_wait(0);
{{ arrive("&empty[2 + stage]") }}
{{ next_stage() }}
      } else {
{% if not held %}
        mbarrier_arrive(&others[1]);
{% endif %}
{{ invert_totals() }}
      }
{{ store_log(inside) }}
{% if boxed %}
      mbarrier_wait(&others[2], taken);
{% elif checkers %}
      mbarrier_wait(&others[2], taken ^ 1);
      const u32 spoils = spoiled[{{ features }}] != 0;
{% endif %}
{% if mends %}
      f32 odd_sum = 0.0f;
      #pragma unroll
      for (u32 i = 0; i < {{ summed // 2 }}; ++i) {
        odd_sum = odd_sum + sums[i] * 0.0f;
      }
      if (odd_sum != 0.0f) {
        atomic_max_i32(&known[2 + batch], 1);
        atomic_max_i32(&told[0], 1);
      }
{% endif %}
{% if boxed %}
      #pragma unroll
      for (u32 i = 0; i < {{ features // 64 }}; ++i) {
        #pragma unroll
        for (u32 j = 0; j < 16{{ " && i * 16 + j < %d" % (own_features // 4) if uneven }}; ++j) {
          const u32 line = warp * 16 + j % 2 * 8 + lane / 4;
          const i64 row = top + mine * 64 + line;
          const i64 feature = i * 64 + j / 2 * 8 + lane % 4 * 2;
{% for part in "xy" %}
          const f32 mean_{{ part }} = sums[i * 32 + j * 2 + {{ loop.index0 }}] * scale[j % 2];
{% endfor %}
          {{ result("pair", ("batch", "row", "feature"), "mean_x", "mean_y", mask=inside) }}
          store2_{{ R }}(&stored[(mine * {{ features // 64 }} + i) * 4096 + line * 64 +
                                 (j / 2 ^ lane / 4) * 8 + lane % 4 * 2], pair);
        }
      }
      proxy_fence();
      mbarrier_arrive(&others[3]);
{% elif wide %}
      #pragma unroll
      for (u32 i = 0; i < {{ (summed + 31) // 32 }}; ++i) {
        #pragma unroll
        for (u32 n = 0; n < 2; ++n) {
          const i64 row = top + upper + n * 8 + lane / 4;
          const i64 feature = i * 32 + lane % 4 * 8;
{{ trade("sums[i * 16 + k / 2 * 4 + n * 2 + k % 2] * scale[n]", "mean") }}
{% if checkers %}
          if (spoils) {
            #pragma unroll
            for (u32 k = 0; k < 8; ++k) {
              mean[k] = spoiled[feature + k] != 0 ? nan_f32() : mean[k];
            }
          }
{% endif %}
          {{ store_outputs(("batch", "row", "feature"), "mean",
                           mask=all(inside, below("feature", own_features, 32))) }}
        }
      }
{% else %}
      #pragma unroll
      for (u32 n = 0; n < {{ summed // 2 }}; ++n) {
        const i64 row = top + upper + lane / 4 + n / 2 % 2 * 8;
        const i64 feature = n / 4 * 8 + lane % 4 * 2 + n % 2;
{% set nan = "spoils && spoiled[feature] != 0 ? nan_f32() : " if checkers else "" %}
        const f32 mean = {{ nan }}sums[n] * scale[n / 2 % 2];
        {{ store_output(("batch", "row", "feature"), "mean",
                        mask=all(inside, below("feature", own_features, 16))) }}
      }
{% endif %}
{% if checkers and not boxed %}
      mbarrier_arrive(&others[3]);
{% endif %}
{{ take_tile() }}
    }
  }
}
""")  # fmt: skip
