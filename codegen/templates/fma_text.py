"""The texts of products of f32 matrices without tensor cores, of which ``fma`` tells.

They begin and end alike.  Of ``FETCHED`` a thread has the next tile in registers while it
multiplies; of ``COPIED`` asynchronous copies fetch as many tiles ahead as there are stages less
one, and a thread loads the elements of the next term while it multiplies those of one.
"""

from __future__ import annotations

from didyma.codegen.templates.language import Text
from didyma.codegen.templates.tiles import ORDER

BEGIN = (
    ORDER
    + """\
{% set rows, columns, terms = size("left", 1), size("right", 2), size("left", 2) %}
{% set across_warps, each, all_sums = width // 64, depth // slices, tall * 8 %}
{% set team = height * width // all_sums %}
{% set threads, chunk, kept_sums = team * slices, height * 4 // tall, all_sums // slices %}
{% set member = "threadIdx.x %% %d" % team if slices > 1 else "threadIdx.x" %}
{% set own = "slice * %d + " % each if slices > 1 %}
{% macro below(i, n, by) %}{% if n is string or n % by %}{{ i }} < {{ n }}{% endif %}{% endmacro %}
{% macro all(a, b) %}{{ a }}{{ " && " if a and b }}{{ b }}{% endmacro %}
{% set left_first = left_by == "row" if left_by else stride("left", 1) == 1 %}
{% set right_first = right_by == "column" if right_by else stride("right", 1) != 1 %}
"""
)
END = """\
{% if slices > 1 %}
  #pragma unroll
  for (u32 n = 0; n < {{ all_sums }}; ++n) {
    handed[(slice * {{ all_sums }} + n) * {{ team }} + {{ member }}] = sums[n];
  }
  __syncthreads();
  f32 kept[{{ kept_sums }}];
  #pragma unroll
  for (u32 n = 0; n < {{ kept_sums }}; ++n) {
    kept[n] = 0.0f;
    #pragma unroll
    for (u32 other = 0; other < {{ slices }}; ++other) {
      const u32 from = other * {{ all_sums }} + slice * {{ kept_sums }} + n;
      kept[n] = kept[n] + handed[from * {{ team }} + {{ member }}];
    }
  }
{% endif %}
  #pragma unroll
  for (u32 n = 0; n < {{ tall * 2 // slices }}; ++n) {
    const u32 line = {{ "slice * %d + " % (tall // slices) if slices > 1 }}n / 2;
    const i64 row = top + line / 4 * {{ chunk }} + y + line % 4;
    const i64 column = side + n % 2 * {{ width // 2 }} + x;
    f32 sum[4];
    #pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      sum[i] = {{ "kept" if slices > 1 else "sums" }}[n * 4 + i];
    }
{% if wide %}
    {{ store_outputs(("batch", "row", "column"), "sum", lanes=4,
                     mask=all(below("row", rows, height), below("column", columns, width))) }}
{% else %}
    #pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const i64 one = column + i;
      {{ store_output(("batch", "row", "one"), "sum[i]",
                      mask=all(below("row", rows, height), below("one", columns, width))) }}
    }
{% endif %}
  }
}
"""
FETCHED = Text("fma_gemm", BEGIN + """\
{% set of_left, of_right = height * depth // threads, width * depth // threads %}
{% macro place(side, first, by) %}
{% set run = 4 if by else 1 %}
        const u32 n = threadIdx.x + i * {{ threads }};
{% if first %}
        const u32 u = n / {{ side // run }};
        const u32 v = n % {{ side // run }}{{ " * 4" if by }};
{% else %}
        const u32 u = n % {{ depth // run }}{{ " * 4" if by }};
        const u32 v = n / {{ depth // run }};
{% endif %}
{% endmacro %}
{% macro fetch(name, side, first, by, start, other, count, index, inside) %}
      #pragma unroll
      for (u32 i = 0; i < {{ count // (4 if by else 1) }}; ++i) {
{{ place(side, first, by) }}
        const i64 {{ other }} = {{ start }} + v;
        const i64 term = (turn + 1) * {{ depth }} + u;
{% if by %}
        f32x4 run;
{% if inside %}
        run.x = 0.0f;
        run.y = 0.0f;
        run.z = 0.0f;
        run.w = 0.0f;
        if ({{ inside }}) {
          run = load4_f32({{ address(name, index) }});
        }
{% else %}
        run = load4_f32({{ address(name, index) }});
{% endif %}
{% for lane in "xyzw" %}
        {{ name }}_next[i * 4 + {{ loop.index0 }}] = run.{{ lane }};
{% endfor %}
{% else %}
        {{ load(name, "one", index, inside) }}
        {{ name }}_next[i] = one;
{% endif %}
      }
{% endmacro %}
{% macro keep(name, side, first, by, count) %}
      #pragma unroll
      for (u32 i = 0; i < {{ count // (4 if by else 1) }}; ++i) {
{{ place(side, first, by) }}
        const u32 to = (there * {{ depth }} + u) * {{ side + 4 }} + v;
{% if by and first %}
        f32x4 run;
{% for lane in "xyzw" %}
        run.{{ lane }} = {{ name }}_next[i * 4 + {{ loop.index0 }}];
{% endfor %}
        store4_f32(&{{ name }}_tile[to], run);
{% elif by %}
{% for lane in range(4) %}
        {{ name }}_tile[to + {{ lane * (side + 4) }}] = {{ name }}_next[i * 4 + {{ lane }}];
{% endfor %}
{% else %}
        {{ name }}_tile[to] = {{ name }}_next[i];
{% endif %}
      }
{% endmacro %}
{{ def_kernel("left", "right") }} {
  __shared__ __align__(16) f32 left_tile[{{ 2 * depth * (height + 4) }}];
  __shared__ __align__(16) f32 right_tile[{{ 2 * depth * (width + 4) }}];
{{ tile_counts(rows, columns, height, width) -}}
{{ tile_place("blockIdx.x", height, width, group) -}}
  const i64 turns = ({{ terms }} + {{ depth - 1 }}) / {{ depth }};
{% if slices > 1 %}
  __shared__ __align__(16) f32 handed[{{ slices * team * all_sums }}];
  const u32 slice = threadIdx.x / {{ team }};
{% endif %}
  const u32 warp = {{ member }} / 32;
  const u32 y = (warp / {{ across_warps }} * 4 + threadIdx.x % 32 / 8) * 4;
  const u32 x = (warp % {{ across_warps }} * 8 + threadIdx.x % 8) * 4;
  f32 sums[{{ all_sums }}];
  f32 left_next[{{ of_left }}];
  f32 right_next[{{ of_right }}];
  #pragma unroll
  for (u32 i = 0; i < {{ all_sums }}; ++i) {
    sums[i] = 0.0f;
  }
  #pragma unroll 1
  for (i64 turn = -1; turn < turns; ++turn) {
    if (turn + 1 < turns) {
{{ fetch("left", height, left_first, left_by, "top", "row", of_left, ("batch", "row", "term"),
         all(below("row", rows, height), below("term", terms, depth))) }}
{{- fetch("right", width, right_first, right_by, "side", "column", of_right,
          ("batch", "term", "column"),
          all(below("term", terms, depth), below("column", columns, width))) }}
{{- "    }" }}
    if (turn >= 0) {
      const u32 here = turn % 2;
      #pragma unroll
      for (u32 k = 0; k < {{ depth // slices }}; ++k) {
        f32 of_left[{{ tall }}];
        f32 of_right[8];
{% for name, side, at, each in (("left", height, "y", tall), ("right", width, "x", 8)) %}
{% for half in range(each // 4) %}
        const f32x4 {{ name }}{{ half }} = load4_f32(&{{ name }}_tile[
            (here * {{ depth }} + {{ own }}k) * {{ side + 4 }} +
            {{ half * side * 4 // each }} + {{ at }}]);
{% for lane in "xyzw" %}
        of_{{ name }}[{{ half * 4 + loop.index0 }}] = {{ name }}{{ half }}.{{ lane }};
{% endfor %}
{% endfor %}
{% endfor %}
        #pragma unroll
        for (u32 n = 0; n < {{ all_sums }}; ++n) {
          sums[n] = sums[n] + of_left[n / 8] * of_right[n % 8];
        }
      }
    }
    if (turn + 1 < turns) {
      const u32 there = (turn + 1) % 2;
{{ keep("left", height, left_first, left_by, of_left) }}
{{- keep("right", width, right_first, right_by, of_right) }}
{{- "    }" }}
    __syncthreads();
  }
""" + END)  # fmt: skip
COPIED = Text("fma_gemm", BEGIN + """\
{% macro place(side, first, run, start, other, turn) %}
{% set line = side // run %}
{% if not first %}
        const {{ count }} u = threadIdx.x % 8 + i / {{ side * 8 // threads }} * 8;
        const {{ count }} v = threadIdx.x / 8 + i % {{ side * 8 // threads }} * {{ threads // 8 }};
{% elif threads < line %}
        const {{ count }} u = i / {{ line // threads }};
        const {{ count }} v = (threadIdx.x + i % {{ line // threads }} * {{ threads }}) * {{ run }};
{% else %}
        const {{ count }} u = threadIdx.x / {{ line }} + i * {{ threads // line }};
        const {{ count }} v = threadIdx.x % {{ line }} * {{ run }};
{% endif %}
        const {{ count }} {{ other }} = {{ start }} + v;
        const {{ count }} term = {{ turn }} * {{ depth }} + u;
{% endmacro %}
{% macro copy(name, side, first, wide, start, other, index, inside, turn, stage) %}
{% set run = 4 if wide else 1 %}
      #pragma unroll
      for (u32 i = 0; i < {{ side * depth // (threads * run) }}; ++i) {
{{ place(side, first, run, start, other, turn) }}
        cp_async{{ 4 * run }}{{ "_zfill" if inside }}_f32(
            &{{ name }}_tile[({{ stage }} * {{ depth }} + u) * {{ side + 4 }} + v],
            {{ address(name, index, 4 * run) }}
            {{- ", %s ? %d : 0" % (inside, run) if inside }});
      }
{% endmacro %}
{% macro copy_both(turn, stage) %}
{{ copy("left", height, left_first, left_wide, "upper", "row", ("batch", "row", "term"),
         all(below("row", rows, height), below("term", terms, depth)), turn, stage) }}
{{- copy("right", width, right_first, right_wide, "before", "column",
          ("batch", "term", "column"),
          all(below("term", terms, depth), below("column", columns, width)), turn, stage) }}
{% endmacro %}
{% macro read(stage, k, half) %}
{% for name, side, at, many in (("left", height, "y", tall), ("right", width, "x", 8)) %}
{% for part in range(many // 4) %}
          const f32x4 {{ name }}{{ part }} = load4_f32(&{{ name }}_tile[
              ({{ stage }} * {{ depth }} + {{ own }}{{ k }}) * {{ side + 4 }} +
              {{ part * side * 4 // many }} + {{ at }}]);
{% for lane in "xyzw" %}
          of_{{ name }}[{{ half }} * {{ many }} + {{ part * 4 + loop.index0 }}] =
              {{ name }}{{ part }}.{{ lane }};
{% endfor %}
{% endfor %}
{% endfor %}
{% endmacro %}
{{ def_kernel("left", "right") }} {
  __shared__ __align__(16) f32 left_tile[{{ stages * depth * (height + 4) }}];
  __shared__ __align__(16) f32 right_tile[{{ stages * depth * (width + 4) }}];
{{ tile_counts(rows, columns, height, width) -}}
{{ tile_place("blockIdx.x", height, width, group) -}}
{{- "  " }}const {{ count }} upper = top;
  const {{ count }} before = side;
  const {{ count }} turns = ({{ terms }} + {{ depth - 1 }}) / {{ depth }};
{% if slices > 1 %}
  __shared__ __align__(16) f32 handed[{{ slices * team * all_sums }}];
  const u32 slice = threadIdx.x / {{ team }};
{% endif %}
  const u32 warp = {{ member }} / 32;
  const u32 y = (warp / {{ across_warps }} * 4 + threadIdx.x % 32 / 8) * 4;
  const u32 x = (warp % {{ across_warps }} * 8 + threadIdx.x % 8) * 4;
  f32 sums[{{ all_sums }}];
  f32 of_left[{{ 2 * tall }}];
  f32 of_right[16];
  #pragma unroll
  for (u32 i = 0; i < {{ all_sums }}; ++i) {
    sums[i] = 0.0f;
  }
  #pragma unroll 1
  for (u32 begin = 0; begin < {{ stages - 1 }}; ++begin) {
    if (begin < turns) {
{{ copy_both("begin", "begin") }}
{{- "    }" }}
    cp_async_commit();
  }
  cp_async_wait({{ stages - 2 }});
  __syncthreads();
  {
{{ read("0", "0", "0") }}
{{- "  }" }}
  u32 here = 0;
  u32 there = {{ stages - 1 }};
  #pragma unroll 1
  for ({{ count }} turn = 0; turn < turns; ++turn) {
    const {{ count }} next = turn + {{ stages - 1 }};
    const u32 after = here == {{ stages - 1 }} ? 0 : here + 1;
    if (next < turns) {
{{ copy_both("next", "there") }}
{{- "    }" }}
    cp_async_commit();
    #pragma unroll
    for (u32 k = 0; k < {{ each }}; ++k) {
      if (k + 1 < {{ each }}) {
{{ read("here", "k + 1", "(k + 1) % 2") }}
{{- "      } else {" }}
        cp_async_wait({{ stages - 2 }});
        __syncthreads();
        if (turn + 1 < turns) {
{{ read("after", "0", "0") }}
{{- "        }" }}
      }
      #pragma unroll
      for (u32 n = 0; n < {{ all_sums }}; ++n) {
        sums[n] = sums[n] + of_left[k % 2 * {{ tall }} + n / 8] * of_right[k % 2 * 8 + n % 8];
      }
    }
    there = here;
    here = after;
  }
""" + END)  # fmt: skip
