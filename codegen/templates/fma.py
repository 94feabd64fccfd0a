"""Products of f32 matrices without tensor cores, at the pace of multiplications and additions.

A block computes ``height`` by ``width`` results, of which a thread has ``tall`` by 8 in registers,
in squares of 4 by 4.  Of each term it loads runs of four elements of both tiles; a warp is 4 by 8
threads, so that each load of a warp is of 64 or 128 bytes in a row.  While a tile of
``depth`` terms is multiplied, the elements of the next are on their way to registers; they go to
the other half of shared memory, so that a turn has one barrier.  Of few tiles, each may be of two
``slices``: teams of threads that have half of the terms of each turn, and in the end half of the
results.  After Volkov and Demmel, "Benchmarking GPUs to Tune Dense Linear Algebra" (SC 2008).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from didyma.codegen.codegens import Asked, Template, Values
from didyma.codegen.templates.hooks import ACCESS
from didyma.codegen.templates.language import Given, Launch, Text
from didyma.codegen.templates.problem import Problem
from didyma.codegen.templates.products import product
from didyma.codegen.templates.suiting import suited
from didyma.codegen.templates.tiles import ORDER
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.types import DType

TEXT = Text("fma_gemm", ORDER + """\
{% set rows, columns, terms = size("left", 1), size("right", 2), size("left", 2) %}
{% set across_warps = width // 64 %}
{% set team = height * width // (tall * 8) %}
{% set threads, chunk = team * slices, height * 4 // tall %}
{% set member = "threadIdx.x %% %d" % team if slices > 1 else "threadIdx.x" %}
{% set own = "slice * %d + " % (depth // slices) if slices > 1 %}
{% set of_left, of_right = height * depth // threads, width * depth // threads %}
{% macro below(i, n, by) %}{% if n is string or n % by %}{{ i }} < {{ n }}{% endif %}{% endmacro %}
{% macro all(a, b) %}{{ a }}{{ " && " if a and b }}{{ b }}{% endmacro %}
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
{% set left_first = left_by == "row" if left_by else stride("left", 1) == 1 %}
{% set right_first = right_by == "column" if right_by else stride("right", 1) != 1 %}
{{ def_kernel("left", "right") }} {
  __shared__ __align__(16) f32 left_tile[{{ 2 * depth * (height + 4) }}];
  __shared__ __align__(16) f32 right_tile[{{ 2 * depth * (width + 4) }}];
{{ tile_counts(rows, columns, height, width) -}}
{{ tile_place("blockIdx.x", height, width, group) -}}
  const i64 turns = ({{ terms }} + {{ depth - 1 }}) / {{ depth }};
{% if slices > 1 %}
  __shared__ __align__(16) f32 handed[{{ team * tall * 8 }}];
  const u32 slice = threadIdx.x / {{ team }};
{% endif %}
  const u32 warp = {{ member }} / 32;
  const u32 y = (warp / {{ across_warps }} * 4 + threadIdx.x % 32 / 8) * 4;
  const u32 x = (warp % {{ across_warps }} * 8 + threadIdx.x % 8) * 4;
  f32 sums[{{ tall * 8 }}];
  f32 left_next[{{ of_left }}];
  f32 right_next[{{ of_right }}];
  #pragma unroll
  for (u32 i = 0; i < {{ tall * 8 }}; ++i) {
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
        for (u32 n = 0; n < {{ tall * 8 }}; ++n) {
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
{% if slices > 1 %}
  f32 kept[{{ tall * 4 }}];
  #pragma unroll
  for (u32 n = 0; n < {{ tall * 4 }}; ++n) {
    kept[n] = slice == 0 ? sums[n] : sums[n + {{ tall * 4 }}];
    handed[(slice * {{ tall * 4 }} + n) * {{ team }} + {{ member }}] =
        slice == 0 ? sums[n + {{ tall * 4 }}] : sums[n];
  }
  __syncthreads();
  #pragma unroll
  for (u32 n = 0; n < {{ tall * 4 }}; ++n) {
    kept[n] = kept[n] + handed[((1 - slice) * {{ tall * 4 }} + n) * {{ team }} + {{ member }}];
  }
{% endif %}
  #pragma unroll
  for (u32 n = 0; n < {{ tall * 2 // slices }}; ++n) {
    const u32 line = {{ "slice * %d + " % (tall // 2) if slices > 1 }}n / 2;
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
""")  # fmt: skip
SPACE: Mapping[str, tuple[int, ...]] = MappingProxyType({
    "height": (64, 128, 256),
    "width": (64, 128),
    "depth": (8, 16),
    "tall": (8, 16),
    "slices": (1, 2),
})  # fmt: skip
EACH, WIDE = 8, 4  # columns of a thread, and neighbours that are stored together
MOST = 256  # threads of a block
GROUP = 8  # tiles down that blocks which run together share, with those across


def space(asked: Asked) -> Mapping[str, tuple[int, ...]] | None:
    """Return the values of the parameters, or None for a function that is no such product."""
    return None if _found(asked) is None else SPACE


def _found(asked: Asked) -> Problem | None:
    p = asked.once(product)
    dtypes = {DType.F64} if p is None else {x.value.dtype for x in p.operands.values()}
    return p if p is not None and {*dtypes, p.output.inputs[3].dtype} == {DType.F32} else None


def block(asked: Asked, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes of its tiles, and of what slices hand over.

    None fits of which a thread has less than a run of a tile to fetch.
    """
    p = _problem(asked)
    height, width, tall, slices = (values[n] for n in ("height", "width", "tall", "slices"))
    threads = height // tall * (width // EACH) * slices
    shared = 2 * values["depth"] * (height + width + 2 * WIDE) + (slices - 1) * height * width
    runs = ((side, WIDE if p.run(name, ACCESS) else 1) for name, side in
            (("left", height), ("right", width)))  # fmt: skip
    filled = all(side * values["depth"] % (threads * run) == 0 for side, run in runs)
    return threads if threads <= MOST and filled else 0, shared * DType.F32.nbytes


def cost(asked: Asked, values: Values) -> float:
    """Estimate the time of a kernel, in cycles.

    A multiprocessor multiplies and adds 128 pairs at once; a barrier ends each turn, and elements
    are fetched by threads one by one.
    """
    p, (threads, _) = _problem(asked), block(asked, values)
    if not threads:
        return float("inf")
    height, width, depth = values["height"], values["width"], values["depth"]
    batch, rows, columns = map(p.expected, p.output.extents)
    tiles = batch * -(-rows // height) * -(-columns // width)
    turns = -(-p.expected(p.operands["left"].extents[2]) // depth)
    processors = asked.target.processors or PROCESSORS
    room = max(1, SUMS // (threads * values["tall"] * EACH))
    together = max(1, min(room, -(-tiles // processors)))
    running = together * threads
    busy = min(1.0, running / LANES) * math.pow(min(1.0, running / MOST), ALONE)
    products = height * width * depth / LANES / busy
    step = SHARE * products + (height + width) * depth / FETCHED
    waves = -(-tiles // (processors * together))
    return waves * turns * (together * step + BARRIER)


# Fitted to 101 times of an H200: multiprocessors, multiplications in a cycle of one, sums that it
# holds at once, elements that it fetches in a cycle, cycles of a turn, and what few threads lose.
PROCESSORS, LANES, SHARE, SUMS, FETCHED, BARRIER, ALONE = 132, 128, 1.22, 1 << 15, 84, 65, 0.13


def render(asked: Asked, values: Values, text: Text = TEXT) -> TextKernel:
    """Write the kernel."""
    p = _problem(asked)
    batch, rows, columns = p.output.extents
    down, across = (
        ix.ceildiv(n, ix.index(values[side])) for n, side in ((rows, "height"), (columns, "width"))
    )
    grid = (p.dim(ix.mul(batch, down, across)), 1, 1)
    names: dict[str, Given] = {"group": GROUP, "wide": int(p.stored(WIDE) is not None)}
    for name, axes in (("left", ("", "row", "term")), ("right", ("", "term", "column"))):
        run = p.run(name, ACCESS)
        names[f"{name}_by"] = "" if run is None else axes[run.axis]
    return text.render(p, values, Launch(grid, (block(asked, values)[0], 1, 1), None, names))


_problem = suited(_found)


def best(asked: Asked) -> bool:
    """Return whether there is enough to do: a tile of results, and of terms."""
    p = _found(asked)
    if p is None:
        return False
    _, rows, columns = map(p.expected, p.output.extents)
    terms = p.expected(p.operands["left"].extents[2])
    return min(rows, columns) >= min(SPACE["height"]) and terms >= min(SPACE["depth"])


TEMPLATE = Template("fma_gemm", space, cost, render, block, best)
