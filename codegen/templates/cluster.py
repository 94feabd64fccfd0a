"""Matrix products whose terms the blocks of a cluster share, for products of few tiles.

A cluster of ``parts`` blocks has one tile of ``height`` by ``width`` results, and each block of it
as many of the terms.  Two threads fetch boxes by TMA into a ring of stages, as in ``tma_gemm``, and
groups of four warps multiply 64 rows each.  Each block keeps its sums in shared memory; and once
all have theirs, it adds up those of all for its share of the tile, in the order of the blocks: no
result depends on which is done first.  Known as split-K.  Of few rows the operands are taken
transposed (``turned``), so that they are the columns of a tile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from didyma.codegen.codegens import Asked, Template, Values
from didyma.codegen.templates import mma, tma
from didyma.codegen.templates.fetching import FETCH, found, lies, maps, span
from didyma.codegen.templates.hooks import ACCESS, WIDE
from didyma.codegen.templates.language import Given, Launch, Text
from didyma.codegen.templates.pace import after, lines, shared_cycles
from didyma.codegen.templates.persistent import PROCESSORS, RING
from didyma.codegen.templates.problem import Problem
from didyma.codegen.templates.suiting import is_faster, suited
from didyma.codegen.templates.tiles import ORDER, TRADE
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.group_products import GROUP, LINE, ROWS
from didyma.refimpl.ir.kernel import TextKernel

TEXT = Text("cluster_gemm", ORDER + TRADE + RING + FETCH + """\
{% set rows, columns, terms = size("left", 1), size("right", 2), size("left", 2) %}
{% set batches, T, each = size("left", 0), dtype("left"), width // 2 %}
{% set threads = height * 2 %}
{% set product = "wgmma_m64n%dk16_%s_%s%s" % (
    width, T, "m" if left_by == "row" else "k", "n" if right_by == "column" else "k") %}
{{ def_kernel("left", "right") }} {
  __shared__ __align__(16) f32 sums[{{ height * width }}];
  __shared__ __align__(1024) {{ T }} left_tile[{{ stages * height * 64 }}];
  __shared__ __align__(1024) {{ T }} right_tile[{{ stages * span * 64 }}];
  __shared__ __align__(8) u64 full[{{ stages }}];
  __shared__ __align__(8) u64 empty[{{ stages }}];
{{ tile_counts(rows, columns, height, width) -}}
{{ tile_place("(blockIdx.x / %d)" % parts, height, width, group) -}}
  const i32 all_turns = ({{ terms }} + 63) / 64;
  const u32 rank = blockIdx.x % {{ parts }};
  const i32 start = all_turns * (i32)rank / {{ parts }};
  const i32 turns = all_turns * ((i32)rank + 1) / {{ parts }} - start;
  const u32 lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (u32 i = 0; i < {{ stages }}; ++i) {
      mbarrier_init(&full[i], 2);
      mbarrier_init(&empty[i], {{ height // 16 }});
    }
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    if (threadIdx.x < 64 && lane == 0) {
      u32 stage = 0;
      u32 phase = 1;
      #pragma unroll 1
      for (i32 turn = 0; turn < turns; ++turn) {
        mbarrier_wait(&empty[stage], phase);
        if (threadIdx.x == 0) {
          mbarrier_expect(&full[stage], {{ height * 128 }});
{{ fetch("left", height, "top", left_by, left_batch, "(start + turn)") }}
        } else {
          mbarrier_expect(&full[stage], {{ span * 128 }});
{{ fetch("right", span, "side", right_by, right_batch, "(start + turn)") }}
        }
{{ next_stage() }}
      }
    }
  } else {
    const u32 mine = threadIdx.x / 128 - 1;
    f32 total[{{ each }}];
    #pragma unroll
    for (u32 i = 0; i < {{ each }}; ++i) {
      total[i] = 0.0f;
    }
    u32 stage = 0;
    u32 phase = 0;
    u32 before = 0;
    #pragma unroll 1
    for (i32 turn = 0; turn < turns; ++turn) {
      mbarrier_wait(&full[stage], phase);
      wgmma_fence();
      #pragma unroll
      for (u32 step = 0; step < 4; ++step) {
        {{ product }}(
            total,
{% if left_by == "row" %}
            &left_tile[(stage * {{ height }} + mine * 64) * 64 + step * 1024],
{% else %}
            &left_tile[(stage * {{ height }} + mine * 64) * 64 + step * 16],
{% endif %}
{% if right_by == "column" %}
            &right_tile[stage * {{ span * 64 }} + step * 1024]);
{% else %}
            &right_tile[stage * {{ span * 64 }} + step * 16]);
{% endif %}
      }
      wgmma_commit();
      wgmma_wait(1);
      if (turn > 0 && lane == 0) {
        mbarrier_arrive(&empty[before]);
      }
      before = stage;
{{ next_stage() }}
    }
    wgmma_wait(0);
    #pragma unroll
    for (u32 i = 0; i < {{ each }}; ++i) {
      sums[i * {{ threads }} + threadIdx.x - 128] = total[i];
    }
  }
  cluster_barrier();
  if (threadIdx.x >= 128) {
    const u32 warp = threadIdx.x / 32 - 4;
    for (u32 i = rank; i < {{ width // 16 }}; i = i + {{ parts }}) {
      f32 total[8];
      #pragma unroll
      for (u32 j = 0; j < 8; ++j) {
        total[j] = 0.0f;
      }
      #pragma unroll
      for (u32 other = 0; other < {{ parts }}; ++other) {
        #pragma unroll
        for (u32 j = 0; j < 8; ++j) {
          const u32 n = i / 2 * 16 + j / 2 * 4 + i % 2 * 2 + j % 2;
          total[j] = total[j] +
                     cluster_load_f32(&sums[n * {{ threads }} + threadIdx.x - 128], other);
        }
      }
      const i64 row = top + (warp * 16 + i % 2 * 8 + lane / 4);
{% if wide %}
      const i64 column = side + i / 2 * 32 + lane % 4 * 8;
{{ trade("total[k]") }}
      {{ store_outputs(("batch", "row", "column"), "sum",
                       mask=all(below("row", rows, height), below("column", columns, width))) }}
{% else %}
      #pragma unroll
      for (u32 j = 0; j < 8; ++j) {
        const i64 column = side + i / 2 * 32 + (j / 2 * 8 + lane % 4 * 2 + j % 2);
        const f32 sum = total[j];
        {{ store_output(("batch", "row", "column"), "sum",
                        mask=all(below("row", rows, height), below("column", columns, width))) }}
      }
{% endif %}
    }
  }
  cluster_barrier();
}
""")  # fmt: skip
HEIGHTS, WIDTHS = (64, 128), (32, 64, 128, 192)
MOST_STAGES, BARRIERS = 16, 512  # bytes of barriers
FEW = 64  # rows of a product that are the columns of a tile


def space(asked: Asked) -> Mapping[str, tuple[int, ...]] | None:
    """Return the values of the parameters, or None for a function that is no such product.

    Nor does it suit one of so many tiles that each multiprocessor has one.
    """
    p = found(asked)
    if p is None:
        return None
    batch, rows, columns = map(p.expected, p.output.extents)
    few = batch * -(-rows // max(HEIGHTS)) * -(-columns // max(WIDTHS))
    processors = asked.target.processors or PROCESSORS
    parts = tuple(n for n in range(2, asked.target.cluster + 1) if 0 < few * n <= processors)
    if not parts:
        return None
    return {
        "height": HEIGHTS,
        "width": WIDTHS,
        "group": (8,),
        "parts": parts,
        "turned": (0, 1) if rows <= FEW else (0,),
    }


def _viewed(asked: Asked, values: Values) -> Problem:
    """Return the product, or that of both operands transposed, whose result is transposed."""
    p = _problem(asked)
    return p.turned() if values["turned"] else p


def _beside(values: Values) -> int:
    """Return the bytes of shared memory beside those of tiles: sums and barriers."""
    return 4 * values["height"] * values["width"] + BARRIERS


def _stages(asked: Asked, values: Values) -> int:
    """Return how many stages of tiles the shared memory of a target has room for."""
    room = asked.target.dynamic - _beside(values)
    return min(MOST_STAGES, room // tma.stage_bytes(_viewed(asked, values), values))


def block(asked: Asked, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes of its shared memory."""
    stages = _stages(asked, values)
    threads = GROUP * (1 + values["height"] // ROWS) if stages >= 2 else 0
    return threads, stages * tma.stage_bytes(_viewed(asked, values), values) + _beside(values)


def cost(asked: Asked, values: Values) -> float:
    """Estimate the time of a kernel, in cycles."""
    p, (threads, _) = _viewed(asked, values), block(asked, values)
    if not threads:
        return float("inf")
    batch, rows, columns = map(p.expected, p.output.extents)
    turns = -(-p.expected(p.operands["left"].extents[2]) // LINE)
    over = span(p, values) / values["width"]
    fetched = lines(p, "left", ACCESS), lines(p, "right", ACCESS) * over
    sides = values["height"], values["width"]
    own = math.prod(sides) / (threads - GROUP) / values["parts"] * after(p.followed())
    return own + shared_cycles(sides, (batch, rows, columns), turns, values["parts"], fetched)


def render(asked: Asked, values: Values, text: Text = TEXT) -> TextKernel:
    """Write the kernel."""
    p = _viewed(asked, values)
    batch, rows, columns = p.output.extents
    down, across = (
        ix.ceildiv(n, ix.index(values[side])) for n, side in ((rows, "height"), (columns, "width"))
    )
    grid = p.dim(ix.mul(batch, down, across, ix.index(values["parts"])))
    names: dict[str, Given] = {"stages": _stages(asked, values), "span": span(p, values)}
    names |= {"wide": int(p.stored(WIDE) is not None), **lies(p)}
    threads, parts = block(asked, values)[0], values["parts"]
    launch = Launch((grid, 1, 1), (threads, 1, 1), None, names, cluster=parts,
                    maps=maps(p, values["height"], span(p, values)))  # fmt: skip
    return text.render(p, values, launch)


_problem = suited(found)


def best(asked: Asked) -> bool:
    """Return whether the model finds a tile for each cluster faster than blocks that stay."""
    suits = space(asked) is not None
    return suits and is_faster(asked, TEMPLATE, tma.TEMPLATE) and mma.best(asked)


TEMPLATE = Template("cluster_gemm", space, cost, render, block, best)
