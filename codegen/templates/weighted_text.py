"""The text of ``tma_weighted``: a thread fetches, others look, groups of warps multiply."""

from __future__ import annotations

from didyma.codegen.templates.boxes import BOXES
from didyma.codegen.templates.language import Text
from didyma.codegen.templates.looking import LOOKING
from didyma.codegen.templates.persistent import RING, TAKING
from didyma.codegen.templates.ranges import RANGES
from didyma.codegen.templates.tiles import TRADE
from didyma.codegen.templates.weighted_tiles import TILES

_MACROS = RANGES + TRADE + BOXES + RING + TAKING + LOOKING + TILES
TEXT = Text("tma_weighted", _MACROS + """\
{{ def_kernel(*operands.split()) }} {
{% for row, length in lines %}
  __shared__ __align__(1024) {{ T }} {{ row }}_tile[{{ slots * height * length }}];
{% endfor %}
{% for column, length in streams %}
  __shared__ __align__(1024) {{ T }} {{ column }}_tile[{{ stages * width * length }}];
{% endfor %}
{% for name in fetched %}
  __shared__ __align__(1024) {{ T }} {{ name }}_tile[{{ stages * width * features }}];
{% endfor %}
{% if of_columns %}
  __shared__ f32 by_column[{{ stages * width * of_columns }}];
{% endif %}
  __shared__ __align__(8) u64 full[{{ stages }}];
  __shared__ __align__(8) u64 empty[{{ stages }}];
  __shared__ __align__(8) u64 others[5];
  __shared__ __align__(8) u64 rows_full[{{ slots }}];
  __shared__ __align__(8) u64 rows_empty[{{ slots }}];
  __shared__ i64 next_tile[4];
{% if checkers %}
{% for into, weights, dots, tile, spoils in sums %}
  __shared__ i32 {{ spoils }}[{{ features + 1 }}];
{% endfor %}
  __shared__ __align__(1024) {{ T }} looked_at[{{ width * features }}];
  __shared__ i32 told[4];
{% endif %}
  const i32 down = ({{ rows }} + {{ height - 1 }}) / {{ height }};
  const i32 tiles = {{ batches }} * down;
  const i32 turns = ({{ columns }} + {{ width - 1 }}) / {{ width }};
  const u32 lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (u32 i = 0; i < {{ stages }}; ++i) {
      mbarrier_init(&full[i], {{ 33 if of_columns else 1 }});
      mbarrier_init(&empty[i], {{ height // 16 }});
    }
    for (u32 i = 0; i < {{ slots }}; ++i) {
      mbarrier_init(&rows_full[i], 1);
      mbarrier_init(&rows_empty[i], {{ height // 16 }});
    }
    mbarrier_init(&others[0], 1);
    mbarrier_init(&others[1], {{ height * 2 + checkers + (32 if of_columns else 0) }});
    mbarrier_init(&others[2], {{ [1, checkers] | max }});
    mbarrier_init(&others[3], {{ height * 2 }});
    mbarrier_init(&others[4], 1);
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    setmaxnreg_dec({{ fewer }});
    if (threadIdx.x == 0) {
      u32 stage = 0;
      u32 phase = 1;
      u32 room = 1;
      u32 slot = 0;
      u32 slot_phase = 1;
      i32 number = blockIdx.x;
{% if checkers %}
{{ find_section(terms + others + features) }}
{% endif %}
      #pragma unroll 1
      while (number < tiles) {
{% if checkers %}
        const i32 after = gridDim.x + atomic_fetch_add_i32(&known[0], 1);
{{ find_place(falling) }}
{{ find_turns() }}
{% else %}
        const i32 after = number + gridDim.x;
        const i64 batch = number / down;
        const i64 top = (i64)(number % down) * {{ height }};
        i32 turn = 0;
        const i32 last = turns;
{% endif %}
        mbarrier_wait(&others[1], room);
        room = room ^ 1;
        next_tile[0] = batch;
        next_tile[1] = top;
        next_tile[2] = turn;
        next_tile[3] = last;
        mbarrier_arrive(&others[0]);
        mbarrier_wait(&rows_empty[slot], slot_phase);
        mbarrier_expect(&rows_full[slot], {{ height * (terms + others) * 2 }});
{% for name, length in lines %}
{{ find_batch(name) }}
{{ fetch(name, name ~ "_tile", height, length,
         ("top", "slot * %d" % (height * length) if slots > 1 else "0"),
         "&rows_full[slot]") }}
{% endfor %}
{{ next_slot() }}
{% for name, length in streams %}
{{ find_batch(name) }}
{% endfor %}
{% for name in fetched %}
{{ find_batch(name) }}
{% endfor %}
        #pragma unroll 1
        while (turn < last) {
          mbarrier_wait(&empty[stage], phase);
          mbarrier_expect(&full[stage], {{ width * every * 2 }});
{% for name, length in streams %}
{{ fetch(name, name ~ "_tile", width, length,
         ("(i64)turn * %d" % width, "stage * %d" % (width * length)), "&full[stage]") }}
{% endfor %}
{% for name in fetched %}
{% for chunk in range(width // 64) %}
{{ fetch(name, name ~ "_tile", 64, features,
         ("(i64)turn * %d + %d" % (width, chunk * 64),
          "stage * %d + %d" % (width * features, chunk * 64 * features)), "&full[stage]") }}
{% endfor %}
{% endfor %}
{{ next_stage() }}
          turn = turn + 1;
        }
        number = after;
      }
      mbarrier_wait(&others[1], room);
      next_tile[0] = -1;
      mbarrier_arrive(&others[0]);
{% if of_columns %}
    } else if (threadIdx.x >= 32 && threadIdx.x < 64) {
{{ bring_columns() }}
{% endif %}
{% if checkers %}
    } else if (threadIdx.x >= 64) {
{{ search_for([("value", "1", "odd", "spoiled"),
         ("also", "(1 + 3 * %s)" % batches, "also_odd", "also_spoiled")][:sums | length]) }}
{% endif %}
    }
  } else {
{{ begin_group() }}
    u32 slot = 0;
    u32 slot_phase = 0;
{{ take_tile() }}
    #pragma unroll 1
    while (batch >= 0) {
      const i64 top = next_tile[1];
      i32 turn = next_tile[2];
      const i32 last = next_tile[3];
      mbarrier_arrive(&others[1]);
{% for row, column, length, into in products %}
      f32 {{ into }}[{{ width // 2 }}];
{% endfor %}
{% for into, weights, dots, tile, spoils in sums %}
      __align__(16) {{ T }} {{ weights }}[{{ width // 2 }}];
      f32 {{ into }}[{{ (summed + 31) // 32 * 16 }}];
      #pragma unroll
      for (u32 i = 0; i < {{ (summed + 31) // 32 * 16 }}; ++i) {
        {{ into }}[i] = 0.0f;
      }
{% endfor %}
{{ read_rows() }}
      mbarrier_wait(&rows_full[slot], slot_phase);
{{ hold_rows() }}
{% if held == pairs %}
{{ arrive("&rows_empty[slot]") }}
{% endif %}
      if (turn < last) {
{% if held < pairs %}
        // Nothing, which the compiler does not know: addresses of rows take no registers then.
        u32 none = turn < 0 ? 64 : 0;
{% endif %}
{% if two %}
        #pragma unroll 1
        while (turn < last) {
{% if held < pairs %}
          none = turn < 0 ? 64 : 0;
{% endif %}
          mbarrier_wait(&full[stage], phase);
{{ multiply(products[:1]) }}
{{ multiply(products[1:]) }}
{{ see() }}
          wgmma_wait(1);
{{ weigh("open_also", "also_score", "dot") }}
{{ round(sums[1:]) }}
          wgmma_fence();
{{ sum_of(sums[1:], "stage") }}
          wgmma_wait(1);
{{ weigh("open_score", "score", "other") }}
{{ round(sums[:1]) }}
          wgmma_fence();
{{ sum_of(sums[:1], "stage") }}
          wgmma_wait(0);
{{ arrive("&empty[stage]") }}
{{ next_stage() }}
          turn = turn + 1;
        }
{% if held < pairs %}
{{ arrive("&rows_empty[slot]") }}
{% endif %}
{% else %}
        mbarrier_wait(&full[stage], phase);
{{ multiply(products) }}
        {
{{ see() }}
        wgmma_wait(0);
{{ weigh("open_score", "score", "dot") }}
{{ round(sums) }}
        }
        turn = turn + 1;
        #pragma unroll 1
        while (turn < last) {
{% if held < pairs %}
          none = turn < 0 ? 64 : 0;
{% endif %}
          const u32 before = stage;
{{ next_stage() }}
          mbarrier_wait(&full[stage], phase);
{{ multiply(products) }}
{{ sum_of(sums, "before") }}
{{ see() }}
          wgmma_wait(1);
{{ weigh("open_score", "score", "dot") }}
          wgmma_wait(0);
{{ arrive("&empty[before]") }}
{{ round(sums) }}
          turn = turn + 1;
        }
{% if held < pairs %}
{{ arrive("&rows_empty[slot]") }}
{% endif %}
        wgmma_fence();
{{ sum_of(sums, "stage") }}
        wgmma_wait(0);
{{ arrive("&empty[stage]") }}
{{ next_stage() }}
{% endif %}
{% if held < pairs %}
      } else {
{{ arrive("&rows_empty[slot]") }}
{% endif %}
      }
{{ next_slot() }}
{% if checkers %}
      mbarrier_wait(&others[2], taken ^ 1);
      const u32 spoils = spoiled[{{ features }}] != 0{{
          " || also_spoiled[%d] != 0" % features if two }};
{% endif %}
{% if wide %}
      #pragma unroll
      for (u32 i = 0; i < {{ (summed + 31) // 32 }}; ++i) {
        #pragma unroll
        for (u32 n = 0; n < 2; ++n) {
          const i64 row = top + upper + n * 8 + lane / 4;
          const i64 feature = i * 32 + lane % 4 * 8;
{% for into, weights, dots, tile, spoils in sums %}
{{ trade("%s[i * 16 + k / 2 * 4 + n * 2 + k %% 2]" % into, "of_" ~ into) }}
{% endfor %}
{% if checkers %}
          if (spoils) {
            #pragma unroll
            for (u32 k = 0; k < 8; ++k) {
{% for into, weights, dots, tile, spoils in sums %}
              of_{{ into }}[k] = {{ spoils }}[feature + k] != 0 ? nan_f32() : of_{{ into }}[k];
{% endfor %}
            }
          }
{% endif %}
          {{ stores("of_sums", "of_also_sums") }}
        }
      }
{% else %}
      #pragma unroll
      for (u32 n = 0; n < {{ summed // 2 }}; ++n) {
        const i64 row = top + upper + lane / 4 + n / 2 % 2 * 8;
        const i64 feature = n / 4 * 8 + lane % 4 * 2 + n % 2;
{% for into, weights, dots, tile, spoils in sums %}
{% set nan = "spoils && %s[feature] != 0 ? nan_f32() : " % spoils if checkers else "" %}
        const f32 of_{{ into }} = {{ nan }}{{ into }}[n];
{% endfor %}
        {{ stores("of_sums", "of_also_sums") }}
      }
{% endif %}
{% if checkers %}
      mbarrier_arrive(&others[3]);
{% endif %}
{{ take_tile() }}
    }
  }
}
""")  # fmt: skip
