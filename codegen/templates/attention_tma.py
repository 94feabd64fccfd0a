"""Attention whose keys and values two threads fetch, while groups of four warps go their own way.

A block has ``height`` rows of one batch, of which each group has 64.  One thread fetches tiles of
``width`` keys, by the copies of TMA, another their values, two tiles of each; groups multiply what
has come and say when it may be replaced.  So one group takes exponentials while another multiplies,
and in a group the weighted sum of one tile runs beside the exponentials of the next.  After the
producer and consumer warps of J. Shah et al., *FlashAttention-3*, 2024.  Values of a tile of which
no row sees a key count all the same, since nothing times an infinity is no number: where there are
such tiles, further warps look for what is not finite.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from didyma.codegen.codegens import Asked, Template, Values
from didyma.codegen.emit.terms import literal
from didyma.codegen.templates import attention_wgmma
from didyma.codegen.templates.attention import chain, inner
from didyma.codegen.templates.attention_mma import is_copied
from didyma.codegen.templates.hooks import ACCESS, WIDE
from didyma.codegen.templates.language import Given, Launch, Text
from didyma.codegen.templates.problem import Problem
from didyma.codegen.templates.suiting import suited
from didyma.codegen.templates.tiles import EXCHANGE
from didyma.codegen.templates.weighing import WEIGHING
from didyma.codegen.templates.writer import size
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.group_products import GROUP, LINE, ROWS
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.loop import Buffer, Const
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.types import DType

TEXT = Text("tma_attention", WEIGHING + EXCHANGE + """\
{% set lines = checkers // (features // 8) %}
{% macro describe(name, at, extent, step, length, side) %}
    tensor_map3_{{ T }}(&maps[blockIdx.x * 48 + {{ at }}],
        {{ address(name, ("batch", "0", "0")) }}, {{ length }}, {{ extent }}, 1, {{ step }}, 8,
        {{ side }});
{% endmacro %}
{% macro fetch(tile, at, lines, length, start, barrier) %}
{% for panel in range(length // 64) %}
            tma_load3_{{ T }}(&{{ tile }}[{{ panel * lines * 64 }} + {{ start[1] }}],
                &maps[blockIdx.x * 48 + {{ at }}], {{ panel * 64 }}, {{ start[0] }}, 0,
                {{ barrier }});
{% endfor %}
{% endmacro %}
{% macro next_stage() %}
        stage = stage ^ 1;
        if (stage == 0) {
          phase = phase ^ 1;
        }
{% endmacro %}
{% macro arrive(barrier) %}
        if (lane == 0) {
          mbarrier_arrive({{ barrier }});
        }
{% endmacro %}
{% macro to_seen(turn) %}
{% if checkers %}
      found = 0;
      while ({{ turn }} < turns && found == 0) {
{{ ask("seen", "wanted", turn) }}
        if (wanted) {
          found = 1;
        } else {
          {{ turn }} = {{ turn }} + 1;
        }
      }
{% endif %}
{% endmacro %}
{% macro look_back() %}
{% for i in range(loads) %}
            const {{ T }}x8 x{{ i }} = load8_{{ T }}(
                &looked[((here * {{ loads }} + {{ i }}) * {{ checkers }} + checker) * 8]);
{% endfor %}
{% for i in range(loads) %}
{% for n in range(8) %}
            odd[{{ n }}] = odd[{{ n }}] + cast_{{ T }}_f32(x{{ i }}.s{{ n }}) * 0.0f;
{% endfor %}
{% endfor %}
{% endmacro %}
{{ def_kernel("query", "key", "value") }} {
  __shared__ __align__(1024) {{ T }} query_tile[{{ height * terms }}];
  __shared__ __align__(1024) {{ T }} key_tile[{{ 2 * width * terms }}];
  __shared__ __align__(1024) {{ T }} value_tile[{{ 2 * width * features }}];
  __shared__ __align__(16) f32 part[{{ height * 40 }}];
  __shared__ __align__(8) u64 full[4];
  __shared__ __align__(8) u64 empty[4];
  __shared__ __align__(8) u64 others[2];
{% if order %}
  __shared__ __align__(8) u64 turn_of[{{ groups }}];
{% endif %}
{% if checkers %}
  __shared__ i32 spoiled[{{ features }}];
  __shared__ __align__(16) {{ T }} looked[{{ depth * checkers * loads * 8 }}];
{% endif %}
  const i64 down = ({{ rows }} + {{ height - 1 }}) / {{ height }};
  const i64 batch = blockIdx.x / down;
  const i64 top = (down - 1 - blockIdx.x % down) * {{ height }};
  const i32 turns = ({{ columns }} + {{ width - 1 }}) / {{ width }};
  const u32 lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
{{ describe("key", 0, columns, key_step, terms, width) }}
  } else if (threadIdx.x < 64) {
{{ describe("value", 16, columns, value_step, features, 64) }}
  } else if (threadIdx.x < 96) {
{{ describe("query", 32, rows, query_step, terms, height) }}
  } else if (threadIdx.x == 96) {
    for (u32 i = 0; i < 4; ++i) {
      mbarrier_init(&full[i], 1);
      mbarrier_init(&empty[i], {{ height // 16 }});
    }
{% for i in range(groups if order else 0) %}
    mbarrier_init(&turn_of[{{ i }}], 1);
{% endfor %}
    mbarrier_init(&others[0], 1);
    mbarrier_init(&others[1], {{ [1, checkers] | max }});
  }
{% if checkers %}
  for (u32 n = threadIdx.x; n < {{ features }}; n = n + {{ threads }}) {
    spoiled[n] = 0;
  }
{% endif %}
  __syncthreads();
  if (threadIdx.x < 128 || threadIdx.x >= {{ 128 + height * 2 }}) {
    setmaxnreg_dec({{ fewer }});
    if (threadIdx.x == 64) {
      mbarrier_expect(&others[0], {{ height * terms * 2 }});
{{ fetch("query_tile", 32, height, terms, ("top", "0"), "&others[0]") }}
    }
    if (threadIdx.x < 64 && lane == 0) {
      const u32 kind = threadIdx.x / 32 * 2;
      u32 stage = 0;
      u32 phase = 1;
      u32 found = 0;
      i32 turn = 0;
{{ to_seen("turn") }}
      #pragma unroll 1
      while (turn < turns) {
        mbarrier_wait(&empty[kind + stage], phase);
        if (threadIdx.x == 0) {
          mbarrier_expect(&full[stage], {{ width * terms * 2 }});
{{ fetch("key_tile", 0, width, terms,
         ("(i64)turn * %d" % width, "stage * %d" % (width * terms)), "&full[stage]") }}
        } else {
          mbarrier_expect(&full[2 + stage], {{ width * features * 2 }});
{% for chunk in range(width // 64) %}
{{ fetch("value_tile", 16, 64, features,
         ("(i64)turn * %d + %d" % (width, chunk * 64),
          "stage * %d + %d" % (width * features, chunk * 64 * features)), "&full[2 + stage]") }}
{% endfor %}
        }
{{ next_stage() }}
        turn = turn + 1;
{{ to_seen("turn") }}
      }
    }
{% if checkers %}
    if (threadIdx.x >= 64) {
      const u32 checker = threadIdx.x - (threadIdx.x < 128 ? 64 : {{ 64 + height * 2 }});
      const u32 line = checker / {{ features // 8 }};
      const i64 term = checker % {{ features // 8 }} * 8;
      u32 here = 0;
      f32 odd[8];
      #pragma unroll
      for (u32 n = 0; n < 8; ++n) {
        odd[n] = 0.0f;
      }
      for (u32 i = 0; i < {{ 8 * depth * loads }}; ++i) {
        looked[(i / 8 * {{ checkers }} + checker) * 8 + i % 8] = 0;
      }
      #pragma unroll 1
      for (i32 turn = 0; turn < turns; ++turn) {
{{ ask("seen", "wanted", "turn") }}
        if (!wanted) {
          const i64 rest = {{ columns }} - (i64)turn * {{ width }};
          const u32 left = rest < {{ width }} ? rest : {{ width }};
          #pragma unroll 1
          for (u32 first = line; first < {{ width }}; first = first + {{ loads * lines }}) {
{% for i in range(loads) %}
            const i64 column{{ i }} = (i64)turn * {{ width }} + first + {{ i * lines }};
            cp_async16_zfill_{{ T }}(
                &looked[((here * {{ loads }} + {{ i }}) * {{ checkers }} + checker) * 8],
                {{ address("value", ("batch", "column%d" % i, "term")) }},
                first + {{ i * lines }} < left ? 8 : 0);
{% endfor %}
            cp_async_commit();
            cp_async_wait({{ depth - 1 }});
            here = here == {{ depth - 1 }} ? 0 : here + 1;
{{ look_back() }}
          }
        }
      }
      cp_async_wait(0);
      #pragma unroll 1
      for (u32 i = 1; i < {{ depth }}; ++i) {
        here = here == {{ depth - 1 }} ? 0 : here + 1;
{{ look_back() }}
      }
      #pragma unroll
      for (u32 n = 0; n < 8; ++n) {
        if (odd[n] != 0.0f) {
          atomic_max_i32(&spoiled[term + n], 1);
        }
      }
      mbarrier_arrive(&others[1]);
    }
{% endif %}
  } else {
    setmaxnreg_inc({{ more }});
    const u32 mine = threadIdx.x / 128 - 1;
    const u32 warp = threadIdx.x / 32 % 4;
    const u32 upper = mine * 64 + warp * 16;
{{ start_weighing() }}
{{ to_seen("turn") }}
    mbarrier_wait(&others[0], 0);
    if (turn < turns) {
      u32 stage = 0;
      u32 phase = 0;
{% if order %}
      u32 waits = mine == 0 ? 1 : 0;
{% endif %}
      mbarrier_wait(&full[0], 0);
{{ score_of("0") }}
      wgmma_wait(0);
{{ arrive("&empty[0]") }}
{{ weigh("turn") }}
{{ round() }}
      turn = turn + 1;
{{ to_seen("turn") }}
      #pragma unroll 1
      while (turn < turns) {
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
{{ rescale() }}
{{ round() }}
        turn = turn + 1;
{{ to_seen("turn") }}
      }
      mbarrier_wait(&full[2 + stage], phase);
      wgmma_fence();
{{ sum_of("stage") }}
      wgmma_wait(0);
    }
{% if checkers %}
    mbarrier_wait(&others[1], 0);
{% endif %}
    #pragma unroll
    for (u32 r = 0; r < 2; ++r) {
      total[r] = total[r] + shuffle_xor_f32(total[r], 1);
      total[r] = total[r] + shuffle_xor_f32(total[r], 2);
    }
{% if wide %}
    #pragma unroll
    for (u32 i = 0; i < {{ features // 32 }}; ++i) {
{{ exchange("sums[i * 16 + j * 2%s] / total[j %% 2]") }}
      #pragma unroll
      for (u32 n = 0; n < 2; ++n) {
        const u32 line = upper + n * 8 + lane / 4;
        const i64 row = top + line;
        const i64 feature = i * 32 + lane % 4 * 8;
{{ eight("mean") }}
{% if checkers %}
        #pragma unroll
        for (u32 k = 0; k < 8; ++k) {
          mean[k] = spoiled[feature + k] != 0 ? nan_f32() : mean[k];
        }
{% endif %}
        {{ store_outputs(("batch", "row", "feature"), "mean", mask=below("row", rows, height)) }}
      }
    }
{% else %}
    #pragma unroll
    for (u32 n = 0; n < {{ features // 2 }}; ++n) {
      const i64 row = top + upper + lane / 4 + n / 2 % 2 * 8;
      const i64 feature = n / 4 * 8 + lane % 4 * 2 + n % 2;
{% set nan = "spoiled[feature] != 0 ? nan_f32() : " if checkers else "" %}
      const f32 mean = {{ nan }}sums[n] / total[n / 2 % 2];
      {{ store_output(("batch", "row", "feature"), "mean", mask=below("row", rows, height)) }}
    }
{% endif %}
  }
}
""")  # fmt: skip
SPACE: Mapping[str, tuple[int, ...]] = MappingProxyType({
    "height": (128, 192),
    "width": (64, 128),
    "order": (0, 1),
})  # fmt: skip
NEEDED = {"cp_async", "wgmma", "tma", "mbarrier"}  # families
CHECKERS = GROUP + GROUP // 2  # threads that look at values which no row sees
LOADS, DEPTH = 4, 3  # accesses of such a thread together, and how many times are under way
REGISTERS, OTHERS = 1 << 16, 32  # of a multiprocessor, and of a thread beside what it sums
FEWER = (48, 40, 32, 24)  # of a thread that fetches: the first that fits
PART, BARRIERS, WORDS = 40 * 4, 128, 48  # bytes of a row, of barriers; words of the descriptions


def space(asked: Asked) -> Mapping[str, tuple[int, ...]] | None:
    """Return the values of the parameters, or None for a function that is no such attention."""
    return None if _found(asked) is None else SPACE


def _found(asked: Asked) -> Problem | None:
    """Return an attention of four warps whose operands all lie in runs along their last axes."""
    p = attention_wgmma.found(asked) if {*asked.target.families} >= NEEDED else None
    return p if p is not None and all(is_copied(p, x) for x in p.operands) else None


def _checkers(p: Problem) -> int:
    """Return how many threads look for values that are not finite: none if rows see all keys."""
    return 0 if isinstance(p.bodies["seen"].value, Const) else CHECKERS


def _threads(p: Problem, values: Values) -> int:
    """Return the threads of a block: four warps fetch, and four more look at values."""
    return GROUP * (values["height"] // ROWS + (2 if _checkers(p) else 1))


def _registers(p: Problem, values: Values) -> tuple[int, int]:
    """Return the registers of a thread that fetches, and of one that multiplies.

    They share what a block of so many threads is launched with.
    """
    threads, groups = _threads(p, values), values["height"] // ROWS
    whole = REGISTERS // threads // 8 * 8 * threads // GROUP
    others = threads // GROUP - groups
    fewer = next(n for n in FEWER if (whole - n * others) % (8 * groups) == 0)
    return fewer, (whole - fewer * others) // groups


def block(asked: Asked, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes of its tiles."""
    p = _problem(asked)
    terms, features = inner(p)
    height, width = values["height"], values["width"]
    held = features // 2 + width // 2 + width // 4
    fits = held + OTHERS <= _registers(p, values)[1]
    tiles = 2 * (height * terms + 2 * width * (terms + features)) + height * PART
    looked = 4 * features + DEPTH * ACCESS * LOADS * _checkers(p)
    return _threads(p, values) if fits else 0, tiles + BARRIERS + looked


def cost(asked: Asked, values: Values) -> float:
    """Estimate the time of a kernel, in cycles of a multiprocessor.

    Groups that take turns hide the exponentials behind products, or the other way round.
    """
    p = _problem(asked)
    terms, features = inner(p)
    if not block(asked, values)[0]:
        return float("inf")
    height, width = values["height"], values["width"]
    batch, rows, _ = map(p.expected, p.output.extents)
    columns = p.expected(p.operands["key"].extents[1])
    products = height * width * (terms + features) / PRODUCTS_A_CYCLE
    powers = height * width / POWERS_A_CYCLE
    fetched = 2 * width * (terms + features) / FETCHED_A_CYCLE
    step = max(products, powers, fetched) + TURN * (2 - values["order"])
    blocks = batch * -(-rows // height)
    waves = -(-blocks // (asked.target.processors or PROCESSORS))
    return waves * (-(-columns // width) * step + START)


PROCESSORS, PRODUCTS_A_CYCLE, POWERS_A_CYCLE, FETCHED_A_CYCLE = 132, 2048, 12, 57
TURN, START = 150, 4000  # cycles of a tile, and of a block


def render(asked: Asked, values: Values, text: Text = TEXT) -> TextKernel:
    """Write the kernel."""
    p = _problem(asked)
    terms, features = inner(p)
    batch, rows, _ = p.output.extents
    fewer, more = _registers(p, values)
    names: dict[str, Given] = {
        "terms": terms, "features": features, "checkers": _checkers(p), "fewer": fewer,
        "more": more, "loads": LOADS, "depth": DEPTH,
        "groups": values["height"] // ROWS, "threads": _threads(p, values),
        "wide": int(p.stored(WIDE) is not None),
        "log2e": literal(1 / math.log(2), DType.F32).text,
        **{f"{x}_step": _step(p, x) for x in p.operands},
    }  # fmt: skip
    grid = ix.mul(batch, ix.ceildiv(rows, ix.index(values["height"])))
    name = Names(b.name for b in p.loop.params).fresh("maps")
    maps = Buffer(name, DType.U64, (p.dim(ix.mul(grid, ix.index(WORDS))),))
    launch = Launch(
        (p.dim(grid), 1, 1), (_threads(p, values), 1, 1), p.dim(chain(p, values["width"], terms)),
        names, {"maps": maps},
    )  # fmt: skip
    unused = set[str]() if _checkers(p) else {"seen"}
    bodies = {name: body for name, body in p.bodies.items() if name not in unused}
    return text.render(replace(p, bodies=bodies), values, launch)


def _step(p: Problem, name: str) -> int | str:
    """Return the elements from a row of an operand to the next."""
    run = p.run(name, ACCESS)
    assert run is not None, f"{name} does not lie in runs"
    return size(run.steps[1], p.loop)


_problem = suited(_found)


def best(asked: Asked) -> bool:
    """Return whether there are rows for two groups, and keys for a tile."""
    p = _found(asked)
    if p is None:
        return False
    _, rows, _ = map(p.expected, p.output.extents)
    return rows > ROWS and p.expected(p.operands["key"].extents[1]) >= LINE


TEMPLATE = Template("tma_attention", space, cost, render, block, best)
