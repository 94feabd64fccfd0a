"""Mend results where a value that no row of a tile sees is not finite: macros of ``tma_attention``.

Nothing times an infinity is no number, so a value that is not finite spoils its feature for rows
that do not see it, too.  That is so rare that results are stored as if all values were finite.
Each tile of rows answers for a share of the values of its batch: those that it multiplies are known
by its sums, and threads ``look`` at the others of its share.  ``known`` counts the tiles that are
claimed and those that are stored, and has a mark for each batch with a value that is not finite.
A block that has found such a value waits until all tiles are stored: ``mend`` then takes one marked
batch after the other, finds the first and the last odd value of each feature, and stores what
results are for tiles of rows that have multiplied none of them.  All tiles are claimed, so blocks
that run have them, and none waits for a block that has not begun.
"""

from __future__ import annotations

MENDING = """\
{% macro look(name, slot, above) %}
      u32 taken = 0;
      i64 batch = 0;
      u32 came = 0;
      const u32 checker = threadIdx.x - 64;
      const u32 piece = checker % {{ own_features // 8 }};
      const i32 share = ({{ columns }} + down - 1) / down;
{{ take_tile() }}
      #pragma unroll 1
      while (batch >= 0) {
        const i64 top = next_tile[1];
        const i32 begin = (i32)next_tile[2] * {{ width }};
        const i32 end = (i32)next_tile[3] * {{ width }};
        const i32 low = (i32)next_tile[{{ slot }}] * share;
        mbarrier_arrive(&others[1]);
        const i32 high = min_i32(low + share, (i32){{ columns }});
        if (low < high && (low < begin || high > end)) {
{{ find_batch(name) }}
          #pragma unroll 1
          for (i32 turn = low / {{ width }}; turn * {{ width }} < high; ++turn) {
            if (checker == 0) {
{{ bring(name, "turn") }}
            }
{{ add_up() }}
            if (some[0] + some[1] != 0.0f) {
              atomic_max_i32(&known[2 + batch], 1);
              atomic_max_i32(&told[0], 1);
            }
            named_barrier(15, {{ checkers }});
          }
        }
        mbarrier_wait(&others[3], taken ^ 1);
        if (checker == 0) {
{{ store_boxes() }}
          tma_stored(0);
          device_fence();
          atomic_add_i32(&known[1], 1);
        }
{{ take_tile() }}
      }
      named_barrier(15, {{ checkers }});
      if (told[0] != 0) {
{{ mend(name, above) }}
      }
{% endmacro %}
{% macro mend(name, above) %}
        if (checker == 0) {
          i32 done = 0;
          while (done < tiles) {
            done = atomic_fetch_add_i32(&known[1], 0);
          }
          device_fence();
        }
        batch = 0;
        #pragma unroll 1
        while (batch < {{ batches }}) {
          named_barrier(15, {{ checkers }});
          if (checker == 0) {
            told[1] = 0;
            if (atomic_fetch_add_i32(&known[2 + batch], 0) != 0) {
              told[1] = atomic_fetch_add_i32(&known[2 + batch], 2) < 2 ? 1 : 0;
            }
          }
          named_barrier(15, {{ checkers }});
          if (told[1] != 0) {
            #pragma unroll 1
            for (u32 n = checker; n < {{ own_features }}; n = n + {{ checkers }}) {
              const i64 feature = n;
              i32 odd_first = 2147483647;
              i32 odd_last = -1;
              #pragma unroll 8
              for (i32 line = 0; line < {{ columns }}; ++line) {
                const i64 column = line;
                {{ load(name, "x", ("batch", "column", "feature")) }}
                const b8 is_odd = cast_{{ T }}_f32(x) * 0.0f != 0.0f;
                odd_first = is_odd ? min_i32(odd_first, line) : odd_first;
                odd_last = is_odd ? line : odd_last;
              }
              first_odd[n] = odd_first;
              last_odd[n] = odd_last;
            }
            #pragma unroll 1
            for (i32 place = 0; place < down; ++place) {
              const i64 top = (i64)place * {{ height }}{{ above }};
{% if ranged %}
{{ find_range() }}
{% endif %}
{{ find_turns() }}
              const i32 begin = turn * {{ width }};
              const i32 end = last * {{ width }};
              #pragma unroll 1
              for (u32 n = checker; n < {{ own_features }}; n = n + {{ checkers }}) {
                if (first_odd[n] < begin || last_odd[n] >= end) {
                  const i64 feature = n;
                  #pragma unroll 1
                  for (u32 line = 0; line < {{ height }}; ++line) {
                    const i64 row = top + line;
                    {{ store_output(("batch", "row", "feature"), "nan_f32()", mask=inside) }}
                  }
                }
              }
            }
          }
          batch = batch + 1;
        }
{% endmacro %}
"""
