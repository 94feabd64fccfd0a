"""Matrix products whose tiles two threads fetch while eight warps multiply.

A block stays for many tiles, each of ``height`` by ``width`` results.  One thread for each operand
fetches boxes of 64 terms, by the copies of TMA, into a ring of as many stages as shared memory
holds.
Eight warps are two groups, which multiply what has come, as ``wgmma`` has it, and say when a stage
may be filled again.  They share each tile, or take tiles in turn (``alternate``), so that one
stores while the other multiplies.  After the "warp-specialised persistent" kernels of NVIDIA's
CUTLASS, cooperative and ping-pong.

A cluster of two ``blocks`` has tiles one above the other: each block fetches its own rows, and half
of the columns for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from didyma.codegen.codegens import Asked, Template, Values
from didyma.codegen.emit.intrinsics import c_type
from didyma.codegen.templates import mma, wgmma, windows
from didyma.codegen.templates.fetching import (
    FETCH,
    batch_of,
    found,
    lies,
    map_of,
    maps,
    span,
)
from didyma.codegen.templates.hooks import ACCESS, WIDE
from didyma.codegen.templates.language import Given, Launch, Text
from didyma.codegen.templates.pace import at_once, cycles, lines
from didyma.codegen.templates.persistent import PROCESSORS, RING
from didyma.codegen.templates.problem import Problem
from didyma.codegen.templates.results import result
from didyma.codegen.templates.suiting import is_faster, suited
from didyma.codegen.templates.tiles import EXCHANGE, ORDER, TRADE
from didyma.codegen.templates.windows import WINDOWS
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.group_products import GROUP, LINE, ROWS
from didyma.refimpl.ir.kernel import TextKernel

TEXT = Text("tma_gemm", ORDER + EXCHANGE + TRADE + RING + FETCH + WINDOWS + """\
{% set rows, columns, terms = size("left", 1), size("right", 2), size("left", 2) %}
{% set batches = size("left", 0) %}
{% set T, above, each = dtype("left"), tall // 64, width // 2 %}
{% set shared = 0 if alternate else 1 %}
{% set rows_before = "mine * %d + " % tall if shared %}
{% set lanes = "lane < %d" % blocks if blocks > 1 else "lane == 0" %}
{% set arrive = "mbarrier_arrive_at(&empty[before], lane);" if blocks > 1
    else "mbarrier_arrive(&empty[before]);" %}
{% set tile = "(number / %d)" % blocks if blocks > 1 else "number" %}
{% set high = height * blocks %}
{% set within = " + rank * %d" % height if blocks > 1 %}
{% set product = "wgmma_m64n%dk16_%s_%s%s" % (
    width, T, "m" if left_by == "row" else "k", "n" if right_by == "column" else "k") %}
{{ def_kernel("left", "right") }} {
  __shared__ __align__(1024) {{ T }} left_tile[{{ stages * height * 64 }}];
  __shared__ __align__(1024) {{ T }} right_tile[{{ stages * span * 64 }}];
{% if slots %}
  __shared__ __align__(1024) {{ R }} chunks[{{ 2 * slots * 4096 }}];
{% elif not wide %}
  __shared__ __align__(16) f32 part[{{ 128 * 40 }}];
{% endif %}
  __shared__ __align__(8) u64 full[{{ stages }}];
  __shared__ __align__(8) u64 empty[{{ stages }}];
{% if alternate %}
  __shared__ __align__(8) u64 order[2];
{% endif %}
{{ tile_counts(rows, columns, high, width) -}}
  const i64 tiles = {{ batches }} * down * across{{ " * %d" % blocks if blocks > 1 }};
  const i32 turns = {{ taps * parts if taps else "(%s + 63) / 64" % terms }};
  const u32 lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (u32 i = 0; i < {{ stages }}; ++i) {
      mbarrier_init(&full[i], 2);
      mbarrier_init(&empty[i], {{ (4 + 4 * shared) * blocks }});
    }
{% if alternate %}
    mbarrier_init(&order[0], 1);
    mbarrier_init(&order[1], 1);
{% endif %}
  }
{% if blocks > 1 %}
  const u32 rank = blockIdx.x % {{ blocks }};
  cluster_barrier();
{% else %}
  __syncthreads();
{% endif %}
  if (threadIdx.x < 128) {
    setmaxnreg_dec(40);
    if (threadIdx.x < 64 && lane == 0) {
      u32 stage = 0;
      u32 phase = 1;
      for (i64 number = blockIdx.x; number < tiles; number = number + gridDim.x) {
{{ tile_place(tile, high, width, group, within) | indent(6, first=True) }}
{% if taps %}
{{ find_pixel() }}
{% endif %}
        #pragma unroll 1
        for (i32 turn = 0; turn < turns; ++turn) {
          mbarrier_wait(&empty[stage], phase);
          if (threadIdx.x == 0) {
            mbarrier_expect(&full[stage], {{ height * 128 }});
{% if taps %}
{{ fetch_pixels("left", height) }}
{% else %}
{{ fetch("left", height, "top", left_by, left_batch, "turn") }}
{% endif %}
          } else {
            mbarrier_expect(&full[stage], {{ span * 128 }});
{% if blocks > 1 %}
{{ share("right", span, "side", right_by, right_batch, right_turn, blocks) }}
{% else %}
{{ fetch("right", span, "side", right_by, right_batch, right_turn) }}
{% endif %}
          }
{{ next_stage() | indent(2, first=True) }}
        }
      }
    }
  } else {
    setmaxnreg_inc(232);
    const u32 mine = threadIdx.x / 128 - 1;
    const u32 warp = threadIdx.x / 32 % 4;
{% for i in range(above) %}
    f32 sums{{ i }}[{{ each }}];
{% endfor %}
{% if alternate %}
    u32 stage = mine * turns % {{ stages }};
    u32 phase = mine * turns / {{ stages }} % 2;
    u32 waits = 1 - mine;
{% else %}
    u32 stage = 0;
    u32 phase = 0;
{% endif %}
    for (i64 number = blockIdx.x{{ " + mine * gridDim.x" if alternate }}; number < tiles;
         number = number + {{ "2 * " if alternate }}gridDim.x) {
{{ tile_place(tile, high, width, group, within) | indent(4, first=True) }}
      #pragma unroll
      for (u32 i = 0; i < {{ each }}; ++i) {
{% for i in range(above) %}
        sums{{ i }}[i] = 0.0f;
{% endfor %}
      }
      u32 before = 0;
{% if alternate %}
      mbarrier_wait(&order[mine], waits);
      waits = waits ^ 1;
{% endif %}
      #pragma unroll 1
      for (i32 turn = 0; turn < turns; ++turn) {
        mbarrier_wait(&full[stage], phase);
        wgmma_fence();
        #pragma unroll
        for (u32 step = 0; step < 4; ++step) {
{% for i in range(above) %}
          {{ product }}(
              sums{{ i }},
{% if left_by == "row" %}
              &left_tile[(stage * {{ height }} + {{ rows_before }}{{ 64 * i }}) * 64 +
                         step * 1024],
{% else %}
              &left_tile[(stage * {{ height }} + {{ rows_before }}{{ 64 * i }}) * 64 +
                         step * 16],
{% endif %}
{% if right_by == "column" %}
              &right_tile[stage * {{ span * 64 }} + step * 1024]);
{% else %}
              &right_tile[stage * {{ span * 64 }} + step * 16]);
{% endif %}
{% endfor %}
        }
        wgmma_commit();
        wgmma_wait(1);
        if (turn > 0 && {{ lanes }}) {
          {{ arrive }}
        }
        before = stage;
{{ next_stage() | indent(2, first=True) }}
      }
{% if alternate %}
      if (threadIdx.x % 128 == 0) {
        mbarrier_arrive(&order[1 - mine]);
      }
{% endif %}
      wgmma_wait(0);
      if (turns > 0 && {{ lanes }}) {
        {{ arrive }}
      }
{% if alternate %}
      stage = stage + turns;
      phase = (phase + stage / {{ stages }}) % 2;
      stage = stage % {{ stages }};
{% endif %}
      f32 total[{{ above * each }}];
      #pragma unroll
      for (u32 i = 0; i < {{ each }}; ++i) {
{% for i in range(above) %}
        total[{{ i * each }} + i] = sums{{ i }}[i];
{% endfor %}
      }
{% if slots %}
      #pragma unroll
      for (u32 i = 0; i < {{ above * width // 64 }}; ++i) {
        const u32 chunk = (mine * {{ slots }} + i % {{ slots }}) * 4096;
        if (threadIdx.x % 128 == 0) {
          tma_wait({{ slots - 1 }});
        }
        named_barrier(mine + 1, 128);
        #pragma unroll
        for (u32 j = 0; j < 16; ++j) {
          const u32 line = warp * 16 + j % 2 * 8 + lane / 4;
          const i64 row = top + {{ rows_before }}i / {{ width // 64 }} * 64 + line;
          const i64 column = side + i % {{ width // 64 }} * 64 + j / 2 * 8 + lane % 4 * 2;
          {{ result("pair", ("batch", "row", "column"),
                    "total[i * 32 + j * 2]", "total[i * 32 + j * 2 + 1]",
                    mask=all(below("row", rows, high), below("column", columns, width))) }}
          store2_{{ R }}(&chunks[chunk + line * 64 + (j / 2 ^ lane / 4) * 8 + lane % 4 * 2], pair);
        }
        proxy_fence();
        named_barrier(mine + 1, 128);
        if (threadIdx.x % 128 == 0) {
          tma_store3_{{ R }}({{ described("result") }},
              side + i % {{ width // 64 }} * 64,
              top + {{ rows_before }}i / {{ width // 64 }} * 64, {{ result_batch }},
              &chunks[chunk]);
          tma_commit();
        }
      }
    }
    if (threadIdx.x % 128 == 0) {
      tma_wait(0);
    }
{% else %}
      #pragma unroll
      for (u32 i = 0; i < {{ above * width // 32 }}; ++i) {
{% if wide %}
        #pragma unroll
        for (u32 n = 0; n < 2; ++n) {
          const i64 row = top + {{ rows_before }}i / {{ width // 32 }} * 64 +
                          (warp * 16 + n * 8 + lane / 4);
          const i64 column = side + i % {{ width // 32 }} * 32 + lane % 4 * 8;
{{ trade("total[i * 16 + k / 2 * 4 + n * 2 + k % 2]") }}
          {{ store_outputs(("batch", "row", "column"), "sum",
                           mask=all(below("row", rows, high), below("column", columns, width))) }}
        }
{% else %}
{{ exchange("total[i * 16 + j * 2%s]") }}
        #pragma unroll
        for (u32 n = 0; n < 16; ++n) {
          const u32 line = mine * 64 + warp * 16 + n;
          const i64 row = top + {{ rows_before }}i / {{ width // 32 }} * 64 + line % 64;
          const i64 column = side + i % {{ width // 32 }} * 32 + lane;
          const f32 sum = part[line * 40 + lane];
          {{ store_output(("batch", "row", "column"), "sum",
                          mask=all(below("row", rows, high), below("column", columns, width))) }}
        }
{% endif %}
      }
    }
{% endif %}
  }
{% if blocks > 1 %}
  cluster_barrier();
{% endif %}
}
""")  # fmt: skip
SPACE: Mapping[str, tuple[int, ...]] = MappingProxyType({
    "height": (64, 128, 192, 256),
    "width": (64, 96, 128, 160, 192, 256),
    "alternate": (0, 1),
    "group": (4, 8),
    "slots": (0, 2),
    "blocks": (1, 2),
})  # fmt: skip
THREADS, MOST_SUMS, MOST_STAGES = 3 * GROUP, 192, 8
TALL, NARROW = 192, 96  # rows and columns of tiles that pay together
# Rows of a group of tiles that the model ranks first, of so few waves of tiles and of more, and the
# cost of one more or less: fitted to 48 times of 12 products.
FEW, GROUPS, ORDERED = 2, (4, 8), 1e-3
PART, BARRIERS = 2 * ROWS * 40 * 4, 256  # bytes
CHUNK = ROWS * LINE * 2  # bytes in which four warps hand over results


def space(asked: Asked) -> Mapping[str, tuple[int, ...]] | None:
    """Return the values of the parameters, or None for a function that is no such product.

    Blocks share columns where rows begin between lines of the cache; elsewhere it does not pay.
    """
    p = _found(asked)
    if p is None:
        return None
    apart = lines(p, "right", ACCESS) > 2 * LINE or _is_walked(p)
    return SPACE if apart else {**SPACE, "blocks": (1,)}


def _found(asked: Asked) -> Problem | None:
    """Return the product that a function is, also one of windows that are fetched."""
    return found(asked) or windows.found(asked)


def _tall(values: Values) -> int:
    """Return the rows that four warps have of a tile."""
    return values["height"] // (1 if values["alternate"] else 2)


def stage_bytes(p: Problem, values: Values) -> int:
    """Return the bytes of a stage of tiles."""
    return (values["height"] + span(p, values)) * LINE * 2


def _beside(p: Problem, values: Values) -> int:
    """Return the bytes of shared memory beside those of tiles."""
    handed = 2 * values["slots"] * CHUNK
    return BARRIERS + (handed or (PART if p.stored(WIDE) is None else 0))


def _stages(asked: Asked, values: Values) -> int:
    """Return how many stages of tiles the shared memory of a target has room for."""
    p = _problem(asked)
    return min(MOST_STAGES, (asked.target.dynamic - _beside(p, values)) // stage_bytes(p, values))


def block(asked: Asked, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes of its shared memory."""
    tall, stages = _tall(values), _stages(asked, values)
    sums = tall // ROWS * values["width"] // 2
    fits = tall % ROWS == 0 and tall <= TALL and sums <= MOST_SUMS and stages >= 2
    fits &= values["blocks"] <= asked.target.cluster
    fits &= (values["height"] == TALL) == (values["width"] == NARROW)
    p = _problem(asked)
    if slots := values["slots"]:
        chunks = tall // ROWS * (values["width"] // LINE)  # of four warps
        fits &= values["width"] % LINE == chunks % slots == 0
        fits &= result(p, ACCESS) is not None
    return THREADS if fits else 0, stages * stage_bytes(p, values) + _beside(p, values)


def cost(asked: Asked, values: Values) -> float:
    """Estimate the time of a kernel, in cycles.

    Tiles are multiplied as they come; of two groups one stores while the other multiplies.
    """
    p, (threads, _) = _problem(asked), block(asked, values)
    if not threads:
        return float("inf")
    height, width = values["height"], values["width"]
    batch, rows, columns = map(p.expected, p.output.extents)
    blocks = values["blocks"]
    tiles = batch * -(-rows // (height * blocks)) * -(-columns // width)
    terms = p.operands["left"].extents[2]
    turns = windows.turns(p) if _is_walked(p) else -(-p.expected(terms) // LINE)
    waves = -(-tiles // at_once(asked.target.processors or PROCESSORS, blocks))
    over = span(p, values) / width
    fetched = lines(p, "left", ACCESS), lines(p, "right", ACCESS) * over
    how = {"hidden": bool(values["alternate"]), "boxes": bool(values["slots"])}
    sides = height, width
    order = 1 + ORDERED * abs(values["group"] - GROUPS[waves > FEW])
    return order * cycles(sides, fetched, turns, waves, blocks=blocks, followed=p.followed(), **how)


def render(asked: Asked, values: Values, text: Text = TEXT) -> TextKernel:
    """Write the kernel."""
    p = _problem(asked)
    batch, rows, columns = p.output.extents
    blocks = values["blocks"]
    down = ix.ceildiv(rows, ix.index(values["height"] * blocks))
    across = ix.ceildiv(columns, ix.index(values["width"]))
    clusters = ix.index(at_once(asked.target.processors or PROCESSORS, blocks))
    grid = ix.mul(ix.minimum(ix.mul(batch, down, across), clusters), ix.index(blocks))
    names: dict[str, Given] = {"tall": _tall(values), "stages": _stages(asked, values)}
    names |= {"span": span(p, values), "wide": int(p.stored(WIDE) is not None), "R": ""}
    walked = _is_walked(p)
    names |= windows.names(p) if walked else {"taps": 0, "right_turn": "turn", **lies(p)}
    described = (windows.maps if walked else maps)(p, values["height"], span(p, values), blocks)
    if (stored := result(p, ACCESS) if values["slots"] else None) is not None:
        names |= {"R": c_type(stored.value.value.dtype), "result_batch": batch_of(p, stored.run)}
        made = map_of(p, "result", stored.place, stored.run, LINE)
        described[made.name] = made
    launch = Launch(
        (p.dim(grid), 1, 1), (THREADS, 1, 1), None, names, maps=described, cluster=blocks
    )
    return text.render(p, values, launch)


_problem = suited(_found)


def _is_walked(p: Problem) -> bool:
    """Return whether TMA walks over windows, rather than fetch rows of an array."""
    return p.windows is not None and p.run("left", ACCESS) is None


def best(asked: Asked) -> bool:
    """Return whether the model finds fetched tiles faster than copied ones."""
    return (
        _found(asked) is not None and mma.best(asked) and is_faster(asked, TEMPLATE, wgmma.TEMPLATE)
    )


TEMPLATE = Template("tma_gemm", space, cost, render, block, best)
