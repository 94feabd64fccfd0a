"""Attention by tiles of keys, whose scores are never stored.

A block has ``height`` rows of one batch, and takes ``width`` keys and values at a time.  It keeps
the largest score of each row so far, and sums of exponentials of what scores lack to it; a larger
one scales the sums down.  (M. Milakov and N. Gimelshein, *Online normalizer calculation for
softmax*, 2018; T. Dao et al., *FlashAttention*, 2022.)  Each thread has ``each`` rows, of which it
shares keys and features with ``lanes`` threads.  Where heads of f32 allow it, threads read four
neighbours at once, and rows that lie in runs are fetched asynchronously: values while scores are
computed, and the next keys while values are summed up.  Of a tile of which no row sees a key, only
the values count, since nothing times an infinity is no number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from didyma.codegen.codegens import Asked, Template, Values
from didyma.codegen.emit.intrinsics import c_type
from didyma.codegen.passes.attention import is_tiled_side
from didyma.codegen.templates.attentions import FACTORED, KEPT, found, is_ranged, masked
from didyma.codegen.templates.hooks import ACCESS
from didyma.codegen.templates.language import Given, Launch, Text
from didyma.codegen.templates.operands import narrow
from didyma.codegen.templates.problem import Problem
from didyma.codegen.templates.ranges import RANGES
from didyma.codegen.templates.suiting import suited
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.loop import Const, Expr
from didyma.refimpl.ir.types import DType

TEXT = Text("tiled_attention", RANGES + """\
{% set rows, columns = size("query", 1), size("key", 1) %}
{% set threads, mine, groups = height // each * lanes, width // lanes, height // each %}
{% set own = (features + lanes * run - 1) // (lanes * run) * run %}
{% set pad = 4 if run == 4 else 1 %}
{% set line, across = terms + pad, width + pad %}
{% macro below(i, n, by) %}{% if n is string or n % by %}{{ i }} < {{ n }}{% endif %}{% endmacro %}
{% macro all(a, b) %}{{ a }}{{ " && " if a and b }}{{ b }}{% endmacro %}
{% macro fill(name, tile, lines, length, by, start, row, size, copied) %}
{% if copied %}
    for (u32 n = threadIdx.x; n < {{ lines * length // 4 }}; n = n + {{ threads }}) {
      const i64 {{ row }} = {{ start }} + n / {{ length // 4 }};
      const i64 term = n % {{ length // 4 }} * 4;
      cp_async16_zfill_f32(
          &{{ tile }}[n / {{ length // 4 }} * {{ by }} + term],
          {{ address(name, ("batch", row, "term")) }}, {{ row }} < {{ size }} ? 4 : 0);
    }
{% else %}
    for (i64 n = threadIdx.x; n < {{ lines * length }}; n = n + {{ threads }}) {
      const i64 {{ row }} = {{ start }} + n / {{ length }};
      const i64 term = n % {{ length }};
      {{ load(name, "one", ("batch", row, "term"), below(row, size, lines)) }}
      {{ tile }}[n / {{ length }} * {{ by }} + term] = one;
    }
{% endif %}
{% endmacro %}
{% macro fill_keys(from, turn) %}
    const i64 {{ from }} = ({{ turn }}) * {{ width }};
{% if skips %}
{{ ask("seen", from ~ "_is_seen", turn) }}
{% endif %}
    if ({{ from }} < {{ columns }}{{ " && %s_is_seen" % from if skips }}) {
{{ fill("key", "key_tile", width, terms, line, from, "column", columns, key_copied) }}
    }
    {{ "cp_async_commit();" if asynchronous }}
{% endmacro %}
{% macro read(into, count, place) %}
      {{ acc }} {{ into }}[{{ count * run }}];
{% for i in range(count) %}
{% if run == 4 %}
      const f32x4 {{ into }}{{ i }} = load4_f32(&{{ place | replace("#", i) }}]);
{% for lane in "xyzw" %}
      {{ into }}[{{ i * 4 + loop.index0 }}] = {{ into }}{{ i }}.{{ lane }};
{% endfor %}
{% else %}
      {{ into }}[{{ i }}] = {{ place | replace("#", i) }}];
{% endif %}
{% endfor %}
{% endmacro %}
{{ def_kernel("query", "key", "value") }} {
  __shared__ __align__(16) {{ acc }} query_tile[{{ height * line }}];
  __shared__ __align__(16) {{ acc }} key_tile[{{ width * line }}];
  __shared__ __align__(16) {{ acc }} value_tile[{{ width * features }}];
  __shared__ __align__(16) {{ acc }} weights[{{ height * across }}];
  const i64 down = ({{ rows }} + {{ height - 1 }}) / {{ height }};
  const i64 batch = blockIdx.x / down;
  const i64 top = (down - 1 - blockIdx.x % down) * {{ height }};
  const u32 y = threadIdx.x / {{ lanes }};
  const u32 x = threadIdx.x % {{ lanes }};
{{ fill("query", "query_tile", height, terms, line, "top", "row", rows, query_copied) }}
  {{ acc }} top_score[{{ each }}];
  {{ acc }} total[{{ each }}];
  {{ acc }} sums[{{ each * own }}];
  #pragma unroll
  for (u32 i = 0; i < {{ each }}; ++i) {
    top_score[i] = -inf_{{ acc }}();
    total[i] = {{ zero }};
  }
  #pragma unroll
  for (u32 n = 0; n < {{ each * own }}; ++n) {
    sums[n] = {{ zero }};
  }
{{ fill_keys("first", "0") }}
  #pragma unroll 1
  for (i64 turn = 0; turn < ({{ columns }} + {{ width - 1 }}) / {{ width }}; ++turn) {
    {{ "cp_async_wait(0);" if asynchronous }}
    __syncthreads();
    const i64 start = turn * {{ width }};
{{ fill("value", "value_tile", width, features, features, "start", "column", columns,
        value_copied) }}
    {{ "cp_async_commit();" if asynchronous }}
    {{ acc }} scale[{{ each }}];
{% if skips %}
{{ ask("seen", "wanted", "turn") }}
    if (wanted) {
{% endif %}
    {{ acc }} dots[{{ each * mine }}];
    #pragma unroll
    for (u32 n = 0; n < {{ each * mine }}; ++n) {
      dots[n] = {{ zero }};
    }
    #pragma unroll 2
    for (u32 u = 0; u < {{ terms }}; u = u + {{ run }}) {
{{ read("left", each, "query_tile[(y + # * %d) * %d + u" % (groups, line)) }}
{{ read("right", mine, "key_tile[(x + # * %d) * %d + u" % (lanes, line)) }}
      #pragma unroll
      for (u32 m = 0; m < {{ run }}; ++m) {
        #pragma unroll
        for (u32 n = 0; n < {{ each * mine }}; ++n) {
          dots[n] = dots[n] + left[n / {{ mine }} * {{ run }} + m] *
                              right[n % {{ mine }} * {{ run }} + m];
        }
      }
    }
    #pragma unroll
    for (u32 n = 0; n < {{ each * mine }}; ++n) {
      const i64 row = top + y + n / {{ mine }} * {{ groups }};
      const i64 column = start + x + n % {{ mine }} * {{ lanes }};
      {{ acc }} score = -inf_{{ acc }}();
      if (row < {{ rows }} && column < {{ columns }}) {
        {{ modification("score", "changed", the_batch="batch", the_row="row", the_column="column",
                        the_dot="dots[n]") }}
        score = changed;
      }
      dots[n] = score;
    }
    #pragma unroll
    for (u32 i = 0; i < {{ each }}; ++i) {
      {{ acc }} most = top_score[i];
      #pragma unroll
      for (u32 j = 0; j < {{ mine }}; ++j) {
        most = max_{{ acc }}(most, dots[i * {{ mine }} + j]);
      }
{% for by in all_lanes if by < lanes %}
      most = max_{{ acc }}(most, shuffle_xor_{{ acc }}(most, {{ by }}));
{% endfor %}
      const {{ acc }} base = most == -inf_{{ acc }}() ? {{ zero }} : most;
      scale[i] = exp_{{ acc }}(top_score[i] - base);
{% if guarded %}
      scale[i] = scale[i] == scale[i] ? scale[i] : {{ zero }};
{% endif %}
      top_score[i] = most;
      {{ acc }} powers = {{ zero }};
      #pragma unroll
      for (u32 j = 0; j < {{ mine }}; ++j) {
        const {{ acc }} power = exp_{{ acc }}(dots[i * {{ mine }} + j] - base);
        powers = powers + power;
        {{ acc }} share = power;
{% if weighs %}
        const i64 row = top + y + i * {{ groups }};
        const i64 column = start + x + j * {{ lanes }};
        share = {{ zero }};
        if (row < {{ rows }} && column < {{ columns }}) {
          {{ modification(weighs, "weighed", the_batch="batch", the_row="row",
                          the_column="column", the_power="power") }}
          share = weighed;
        }
{% endif %}
        weights[(y + i * {{ groups }}) * {{ across }} + x + j * {{ lanes }}] = share;
      }
      total[i] = total[i] * scale[i] + powers;
    }
{{ "    }" if skips }}
    __syncthreads();
{{ fill_keys("next", "turn + 1") }}
    {{ "cp_async_wait(1);" if asynchronous }}
    __syncthreads();
{{ "    if (wanted) {" if skips }}
    {{ acc }} part[{{ each * own }}];
    #pragma unroll
    for (u32 n = 0; n < {{ each * own }}; ++n) {
      part[n] = {{ zero }};
    }
    #pragma unroll 1
    for (u32 j = 0; j < {{ width }}; j = j + {{ run }}) {
{{ read("weight", each, "weights[(y + # * %d) * %d + j" % (groups, across)) }}
      #pragma unroll
      for (u32 m = 0; m < {{ run }}; ++m) {
{{ read("value", own // run, "value_tile[(j + m) * %d + (x + # * %d) * %d" %
        (features, lanes, run)) if run == 4 }}
        #pragma unroll
        for (u32 n = 0; n < {{ each * own }}; ++n) {
{% if run == 4 %}
          part[n] = part[n] + weight[n / {{ own }} * 4 + m] * value[n % {{ own }}];
{% else %}
          const u32 feature = x + n % {{ own }} * {{ lanes }};
          if ({{ below("feature", features, lanes) or 1 }}) {
            part[n] = part[n] + weight[n / {{ own }}] * value_tile[j * {{ features }} + feature];
          }
{% endif %}
        }
      }
    }
    #pragma unroll
    for (u32 n = 0; n < {{ each * own }}; ++n) {
      sums[n] = sums[n] * scale[n / {{ own }}] + part[n];
    }
{% if skips %}
    } else {
      #pragma unroll
      for (u32 e = 0; e < {{ own }}; ++e) {
        const u32 feature = (x + e / {{ run }} * {{ lanes }}) * {{ run }} + e % {{ run }};
        {{ acc }} odd = {{ zero }};
        for (u32 j = 0; j < {{ width }}; ++j) {
          {{ "if (%s) " % below("feature", features, lanes * run) if features % (lanes * run) -}}
          odd = odd + value_tile[j * {{ features }} + feature] * {{ zero }};
        }
        #pragma unroll
        for (u32 i = 0; i < {{ each }}; ++i) {
          sums[i * {{ own }} + e] = sums[i * {{ own }} + e] + odd;
        }
      }
    }
{% endif %}
  }
  #pragma unroll
  for (u32 i = 0; i < {{ each }}; ++i) {
{% for by in all_lanes if by < lanes %}
    total[i] = total[i] + shuffle_xor_{{ acc }}(total[i], {{ by }});
{% endfor %}
  }
  #pragma unroll
  for (u32 n = 0; n < {{ each * own }}; ++n) {
    const i64 row = top + y + n / {{ own }} * {{ groups }};
    const i64 feature = (x + n % {{ own }} / {{ run }} * {{ lanes }}) * {{ run }} + n % {{ run }};
{% if guarded %}
    {{ acc }} mean = sums[n] / total[n / {{ own }}];
    if (row < {{ rows }}) {
      {{ modification("empty", "none", the_batch="batch", the_row="row",
                      the_total="total[n / %d]" % own) }}
      mean = none ? sums[n] * {{ zero }} : mean;
    }
{% else %}
    const {{ acc }} mean = sums[n] / total[n / {{ own }}];
{% endif %}
    {{ store_output(("batch", "row", "feature"), "mean",
                    mask=all(below("row", rows, height), below("feature", features, lanes))) }}
  }
{% if lse %}
  #pragma unroll
  for (u32 i = 0; i < {{ each }}; ++i) {
    const i64 row = top + y + i * {{ groups }};
    const {{ acc }} log_sum =
        total[i] == {{ zero }} ? nan_{{ acc }}() : log_{{ acc }}(total[i]) + top_score[i];
    {{ store_line(("batch", "row"), "log_sum", mask=all("x == 0", below("row", rows, height))) }}
  }
{% endif %}
}
""")  # fmt: skip
SPACE: Mapping[str, tuple[int, ...]] = MappingProxyType({
    "height": (4, 16, 32, 64, 128),
    "width": (16, 32, 64),
    "each": (1, 2, 4, 8),
    "lanes": (8, 16, 32),
})  # fmt: skip
MOST = 512  # terms and features
WARP, WIDE = 32, 4  # threads among which rows are shared, and neighbours that are read together
RESCALED = 11  # roundings of a tile beside its additions: a product, and an exponential of 4 ulp


def space(asked: Asked) -> Mapping[str, tuple[int, ...]] | None:
    """Return the values of the parameters, or None for a function that is no such attention."""
    return None if _found(asked) is None else SPACE


def _found(asked: Asked) -> Problem | None:
    """Return an attention whose numbers of terms and of features are known, and not large."""
    p = found(asked)
    if p is None or not all(0 < n <= MOST for n in inner(p)):
        return None
    seen = masked(p)["seen"]
    skips = not (isinstance(seen.value, Const) or is_ranged(p))
    return replace(p, bodies={**p.bodies, "seen": seen}) if skips else p


def inner(p: Problem) -> tuple[int, int]:
    """Return the numbers of terms and of features; 0 for one that is not known."""
    each = (p.operands["query"].extents[2], p.operands["value"].extents[2])
    terms, features = (int(e.value) if isinstance(e, Const) else 0 for e in each)
    return terms, features


def block(asked: Asked, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes of its tiles."""
    p = problem(asked)
    terms, features = inner(p)
    height, width, lanes = (values[x] for x in ("height", "width", "lanes"))
    threads = height // values["each"] * lanes
    if width % lanes or threads % WARP:
        return 0, 0
    pad = _run(p, values)
    shared = height * (terms + pad) + width * (terms + pad + features) + height * (width + pad)
    return threads, shared * p.output.inputs[3].dtype.nbytes


def _run(p: Problem, values: Values) -> int:
    """Return how many neighbours a thread reads together: four of f32, or one."""
    terms, features = inner(p)
    whole = terms % WIDE == features % (WIDE * values["lanes"]) == 0
    return WIDE if whole and p.output.inputs[3].dtype is DType.F32 else 1


def _is_copied(asked: Asked, values: Values, operand: str) -> bool:
    """Return whether rows of an operand are f32 that are fetched asynchronously, four at a time."""
    p = problem(asked)
    run = p.run(operand, ACCESS) if _run(p, values) == WIDE else None
    lies = run is not None and run.axis == 2 and p.operands[operand].value.dtype is DType.F32
    return lies and "cp_async" in asked.target.families


def cost(asked: Asked, values: Values) -> float:
    """Estimate the time of a kernel, in cycles of a multiprocessor.

    Of a tile, a thread multiplies terms and features, reads what it multiplies, and takes
    exponentials.  A multiprocessor has several blocks, of which each waits at barriers by itself.
    """
    p = problem(asked)
    terms, features = inner(p)
    threads, shared = block(asked, values)
    batch, rows, _ = map(p.expected, p.output.extents)
    columns = p.expected(p.operands["key"].extents[1])
    height, width, each, lanes = (values[x] for x in ("height", "width", "each", "lanes"))
    run, mine, own = _run(p, values), width // lanes, -(-features // lanes)
    held = 2 * each * own + each * run + own + OTHERS
    if not threads or held > min(REGISTERS // threads, asked.target.registers):
        return float("inf")
    scores = terms * (each * mine + READ * (each + mine) / run)
    sums = width * (each * own + READ * (each + own) / run)
    filled = FILL * width * (terms + features) / run / threads
    steps = scores + sums + filled + EXP * each * mine
    blocks, processors = batch * -(-rows // height), asked.target.processors or PROCESSORS
    room = min(REGISTERS // (threads * held), THREADS // threads)
    fit = max(1, min(room, asked.target.dynamic // max(1, shared), -(-blocks // processors)))
    alone = steps * max(ISSUE, threads / LANES) + BARRIER
    waves = -(-blocks // (processors * fit))
    return waves * -(-columns // width) * max(alone, fit * steps * threads / LANES)


# Instructions for what is read from shared memory, for what is filled, and for an exponential;
# cycles of an instruction of one warp, and of the barriers of a tile.
READ, FILL, EXP, ISSUE, BARRIER = 3.0, 8.0, 20.0, 1.5, 800.0
PROCESSORS, LANES, THREADS = 128, 128, 2048  # of a device of which nothing is known
REGISTERS, OTHERS = 1 << 16, 64  # of a multiprocessor, and of a thread beside its sums


def weighing(p: Problem) -> dict[str, int | str]:
    """Return the names by which texts ask for what the second product takes of exponentials."""
    weighs = next((x for x in (KEPT, FACTORED) if x in p.bodies), "")
    return {"weighs": weighs, "guarded": int("empty" in p.bodies)}


def chain(p: Problem, width: int, terms: int) -> Expr:
    """Return the longest chain: of the terms, or of a tile and of the tiles, with their scaling."""
    tiles = ix.ceildiv(p.operands["key"].extents[1], ix.index(width))
    return ix.maximum(ix.index(terms), ix.add(ix.index(width), ix.mul(ix.index(RESCALED), tiles)))


def render(asked: Asked, values: Values, text: Text = TEXT) -> TextKernel:
    """Write the kernel."""
    p = problem(asked)
    terms, features = inner(p)
    batch, rows, _ = p.output.extents
    acc = c_type(p.output.inputs[3].dtype)
    copied = {f"{x}_copied": int(_is_copied(asked, values, x)) for x in p.operands}
    names: dict[str, Given] = {
        "acc": acc, "zero": "0.0f" if acc == "f32" else "0.0", "terms": terms,
        "features": features, "lse": int(p.line is not None), "run": _run(p, values),
        "skips": int("seen" in p.bodies), "ranged": 0,
        "asynchronous": int(any(copied.values())), **copied,
        **weighing(p),
    }  # fmt: skip
    grid = (p.dim(ix.mul(batch, ix.ceildiv(rows, ix.index(values["height"])))), 1, 1)
    longest = p.dim(chain(p, values["width"], terms))
    launch = Launch(grid, (block(asked, values)[0], 1, 1), longest, names)
    return text.render(p, values, launch)


problem = suited(_found)


def best(asked: Asked) -> bool:
    """Return whether an attention is one of f32 that fusion joins for this template."""
    p = _found(asked) if "cp_async" in asked.target.families else None
    if p is None or narrow(p) is not None or not all(map(is_tiled_side, inner(p))):
        return False
    return all(sub.value.dtype is DType.F32 for sub in p.operands.values())


TEMPLATE = Template("tiled_attention", space, cost, render, block, best)
