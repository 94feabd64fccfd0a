"""Attention by the tensor cores of a warp: tiles of keys come while others are multiplied.

A block has ``height`` rows of one batch, of which a warp has ``tall``, and takes ``width`` keys at
a time by asynchronous copies.  Scores and their exponentials stay in registers: what a warp holds
of a product of ``m16n8k16`` is, rounded, an operand of the next.  (T. Dao, *FlashAttention-2*,
2023.)  A tile of which no row sees a key is not multiplied.  Its values count all the same, since
nothing times an infinity is no number: a feature with one that is not finite is spoiled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from didyma.codegen.codegens import Asked, Template, Values
from didyma.codegen.emit.terms import literal
from didyma.codegen.passes.attention import is_side
from didyma.codegen.templates.attention import chain, inner, weighing
from didyma.codegen.templates.attentions import found, is_ranged, masked
from didyma.codegen.templates.hooks import ACCESS
from didyma.codegen.templates.language import Launch, Text
from didyma.codegen.templates.operands import narrow
from didyma.codegen.templates.problem import Problem
from didyma.codegen.templates.ranges import RANGES
from didyma.codegen.templates.suiting import suited
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.fragments import PRODUCTS, ROWS, WARP, Product
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.types import DType

FILLING = """\
{% macro below(i, n, by) %}{% if n is string or n % by %}{{ i }} < {{ n }}{% endif %}{% endmacro %}
{% macro swizzled(line, piece, length) %}
{%- set pieces = length // lanes %}
{%- set by = 8 if pieces % 8 == 0 else 4 if pieces % 4 == 0 else 2 - pieces % 2 %}
{{- "(%s) * %d + (%s ^ (%s) / %d %% %d) * %d" % (
      line, length, piece, line, 8 // by, by, lanes) -}}
{% endmacro %}
{% macro all(a, b) %}{{ a }}{{ " && " if a and b }}{{ b }}{% endmacro %}
{% macro fill(name, tile, length, own, copied) %}
{% set inside = all("column < %s" % columns, below("at", own, length)) %}
{% if copied %}
    for (u32 n = threadIdx.x; n < {{ width * length // lanes }}; n = n + {{ threads }}) {
      const u32 line = n / {{ length // lanes }};
      const u32 piece = n % {{ length // lanes }};
      const i64 column = (i64)next * {{ width }} + line;
      const i64 at = piece * {{ lanes }};
      cp_async16_zfill_{{ T }}(
          &{{ tile }}[next % 2 * {{ width * length }} + {{ swizzled("line", "piece", length) }}],
          {{ address(name, ("batch", "column", "at")) }}, {{ inside }} ? {{ lanes }} : 0);
    }
{% else %}
    for (u32 n = threadIdx.x; n < {{ width * length }}; n = n + {{ threads }}) {
      const u32 line = n / {{ length }};
      const u32 at = n % {{ length }};
      const i64 column = (i64)next * {{ width }} + line;
      {{ load(name, "x", ("batch", "column", "at"), inside) }}
      {{ tile }}[next % 2 * {{ width * length }} + at % {{ lanes }} +
          {{ swizzled("line", "at / %d" % lanes, length) }}] = x;
    }
{% endif %}
{% endmacro %}
{% macro find_spoiled() %}
      for (u32 n = threadIdx.x; n < {{ width * features // lanes }}; n = n + {{ threads }}) {
        const u32 line = n / {{ features // lanes }};
        const u32 piece = n % {{ features // lanes }};
        const {{ T }}x{{ lanes }} values = load{{ lanes }}_{{ T }}(
            &value_tile[turn % 2 * {{ width * features }} +
                        {{ swizzled("line", "piece", features) }}]);
        u32 most = 0;
{% for n in range(lanes) %}
        most = max_u32(most, (u32)bitcast_{{ T }}_u16(values.s{{ n }}) & {{ exponent }});
{% endfor %}
        if (most == {{ exponent }}) {
{% for n in range(lanes) %}
          if (((u32)bitcast_{{ T }}_u16(values.s{{ n }}) & {{ exponent }}) == {{ exponent }}) {
            atomic_max_i32(&spoiled[piece * {{ lanes }} + {{ n }}], 1);
          }
{% endfor %}
        }
      }
{% endmacro %}
{% macro add_values(w) %}
      #pragma unroll
      for (u32 step = 0; step < {{ width // 16 }}; ++step) {
{% for i in range(above) %}
        {{ T }}x8 p{{ i }};
{% for n in range(8) %}
        p{{ i }}.s{{ n }} = cast_f32_{{ T }}({{ w }}[({{ i * beside }} + step * 2) * 4 + {{ n }}]);
{% endfor %}
{% endfor %}
{% for e in range(across) %}
        const {{ T }}x4 v{{ e }} = ldmatrix2_trans_{{ T }}(
            &value_tile[turn % 2 * {{ width * features }} + {{ swizzled(
                "step * 16 + lane % 16", "%d" % e, features) }}]);
{% for i in range(above) %}
        o{{ i }}_{{ e }} = mma_{{ product }}(p{{ i }}, v{{ e }}, o{{ i }}_{{ e }});
{% endfor %}
{% endfor %}
      }
{% endmacro %}
{% macro list_sums() %}
  f32 sums[{{ above * across * 4 }}];
{% for i in range(above) %}
{% for e in range(across) %}
{% for part in "xyzw" %}
  sums[{{ (i * across + e) * 4 + loop.index0 }}] = o{{ i }}_{{ e }}.{{ part }};
{% endfor %}
{% endfor %}
{% endfor %}
{% endmacro %}
"""  # macros that fill tiles of keys and values, of which one comes while another is used, and sum
TEXT = Text("mma_attention", RANGES + FILLING + """\
{% set rows, columns, T = size("query", 1), size("key", 1), dtype("query") %}
{% set threads, above = height // tall * 32, tall // 16 %}
{% set beside, across = width // 8, features // 8 %}
{% macro place() %}
        const i64 row = top + (upper + n / {{ beside * 4 }} * 16 + lane / 4 + n % 4 / 2 * 8);
        const i64 column = (i64)turn * {{ width }} +
                           (n / 4 % {{ beside }} * 8 + lane % 4 * 2 + n % 2);
{% endmacro %}
{{ def_kernel("query", "key", "value") }} {
  __shared__ __align__(16) {{ T }} query_tile[{{ height * terms }}];
  __shared__ __align__(16) {{ T }} key_tile[{{ 2 * width * terms }}];
  __shared__ __align__(16) {{ T }} value_tile[{{ 2 * width * features }}];
  __shared__ i32 spoiled[{{ features }}];
  const i64 down = ({{ rows }} + {{ height - 1 }}) / {{ height }};
  const i64 batch = blockIdx.x / down;
  const i64 top = (down - 1 - blockIdx.x % down) * {{ height }};
  const i32 turns = ({{ columns }} + {{ width - 1 }}) / {{ width }};
  const u32 lane = threadIdx.x % 32;
  const u32 upper = threadIdx.x / 32 * {{ tall }};
{% if ranged %}
{{ find_range() }}
{% endif %}
  for (u32 n = threadIdx.x; n < {{ features }}; n = n + {{ threads }}) {
    spoiled[n] = 0;
  }
  for (u32 n = threadIdx.x; n < {{ height * terms }}; n = n + {{ threads }}) {
    const u32 line = n / {{ terms }};
    const u32 at = n % {{ terms }};
    const i64 row = top + line;
    {{ load("query", "a", ("batch", "row", "at"),
            all(below("row", rows, height), below("at", own_terms, terms))) }}
    query_tile[at % {{ lanes }} + {{ swizzled("line", "at / %d" % lanes, terms) }}] = a;
  }
  f32 top_score[{{ 2 * above }}];
  f32 total[{{ 2 * above }}];
  #pragma unroll
  for (u32 r = 0; r < {{ 2 * above }}; ++r) {
    top_score[r] = -inf_f32();
    total[r] = 0.0f;
  }
  f32x4 none;
  none.x = 0.0f;
  none.y = 0.0f;
  none.z = 0.0f;
  none.w = 0.0f;
{% for i in range(above) %}
{% for e in range(across) %}
  f32x4 o{{ i }}_{{ e }} = none;
{% endfor %}
{% endfor %}
  for (i32 turn = -1; turn < turns; ++turn) {
    const i32 next = turn + 1;
    if (turn >= 0) {
      cp_async_wait(0);
      __syncthreads();
    }
    if (next < turns) {
{{ ask("seen", "wanted", "next") }}
      if (wanted) {
{{ fill("key", "key_tile", terms, own_terms, key_copied) }}
      }
{{ fill("value", "value_tile", features, features, value_copied) }}
    }
    cp_async_commit();
    if (turn >= 0) {
{{ ask("seen", "visible", "turn") }}
    if (visible) {
{% for i in range(above) %}
{% for j in range(beside) %}
      f32x4 s{{ i }}_{{ j }} = none;
{% endfor %}
{% endfor %}
      #pragma unroll
      for (u32 step = 0; step < {{ terms // 16 }}; ++step) {
{% for i in range(above) %}
        const {{ T }}x8 a{{ i }} = ldmatrix4_{{ T }}(&query_tile[{{ swizzled(
            "upper + %d + lane %% 16" % (16 * i), "(step * 2 + lane / 16)", terms) }}]);
{% endfor %}
{% for j in range(beside) %}
        const {{ T }}x4 k{{ j }} = ldmatrix2_{{ T }}(
            &key_tile[turn % 2 * {{ width * terms }} + {{ swizzled(
                "%d + lane %% 8" % (8 * j), "(step * 2 + lane / 8 % 2)", terms) }}]);
{% for i in range(above) %}
        s{{ i }}_{{ j }} = mma_{{ product }}(a{{ i }}, k{{ j }}, s{{ i }}_{{ j }});
{% endfor %}
{% endfor %}
      }
      f32 score[{{ above * beside * 4 }}];
{% for i in range(above) %}
{% for j in range(beside) %}
{% for part in "xyzw" %}
      score[{{ (i * beside + j) * 4 + loop.index0 }}] = s{{ i }}_{{ j }}.{{ part }};
{% endfor %}
{% endfor %}
{% endfor %}
{{ ask("whole", "seen_by_all", "turn") }}
      if (seen_by_all && top + {{ height }} <= {{ rows }} &&
          ((i64)turn + 1) * {{ width }} <= {{ columns }}) {
      #pragma unroll
      for (u32 n = 0; n < {{ above * beside * 4 }}; ++n) {
{{ place() }}
        {{ modification("open_score", "opened", the_batch="batch", the_row="row",
                        the_column="column", the_dot="score[n]") }}
        score[n] = opened;
      }
      } else {
      #pragma unroll
      for (u32 n = 0; n < {{ above * beside * 4 }}; ++n) {
{{ place() }}
        f32 changed = -inf_f32();
        if (row < {{ rows }} && column < {{ columns }}) {
          {{ modification("score", "found", the_batch="batch", the_row="row", the_column="column",
                          the_dot="score[n]") }}
          changed = found;
        }
        score[n] = changed;
      }
      }
      f32 scale[{{ 2 * above }}];
      #pragma unroll
      for (u32 r = 0; r < {{ 2 * above }}; ++r) {
        f32 most = top_score[r];
        #pragma unroll
        for (u32 m = 0; m < {{ 2 * beside }}; ++m) {
          most = max_f32(most, score[(r / 2 * {{ beside }} + m / 2) * 4 + r % 2 * 2 + m % 2]);
        }
        most = max_f32(most, shuffle_xor_f32(most, 1));
        most = max_f32(most, shuffle_xor_f32(most, 2));
        const f32 base = most == -inf_f32() ? 0.0f : most;
        scale[r] = exp2_f32((top_score[r] - base) * {{ log2e }});
{% if guarded %}
        scale[r] = scale[r] == scale[r] ? scale[r] : 0.0f;
{% endif %}
        top_score[r] = most;
        f32 powers = 0.0f;
        #pragma unroll
        for (u32 m = 0; m < {{ 2 * beside }}; ++m) {
          const f32 power = exp2_f32(
              (score[(r / 2 * {{ beside }} + m / 2) * 4 + r % 2 * 2 + m % 2] - base) * {{ log2e }});
          score[(r / 2 * {{ beside }} + m / 2) * 4 + r % 2 * 2 + m % 2] = power;
          powers = powers + power;
        }
        total[r] = total[r] * scale[r] + powers;
      }
{% if weighs %}
      #pragma unroll
      for (u32 n = 0; n < {{ above * beside * 4 }}; ++n) {
{{ place() }}
        f32 share = 0.0f;
        if (row < {{ rows }} && column < {{ columns }}) {
          {{ modification(weighs, "weighed", the_batch="batch", the_row="row",
                          the_column="column", the_power="score[n]") }}
          share = weighed;
        }
        score[n] = share;
      }
{% endif %}
{% for i in range(above) %}
{% for e in range(across) %}
{% for part in "xyzw" %}
      o{{ i }}_{{ e }}.{{ part }} =
          o{{ i }}_{{ e }}.{{ part }} * scale[{{ 2 * i + loop.index0 // 2 }}];
{% endfor %}
{% endfor %}
{% endfor %}
{{ add_values("score") }}
    } else {
{{ find_spoiled() }}
    }
    }
  }
  __syncthreads();
{{ list_sums() }}
  #pragma unroll
  for (u32 r = 0; r < {{ 2 * above }}; ++r) {
    total[r] = total[r] + shuffle_xor_f32(total[r], 1);
    total[r] = total[r] + shuffle_xor_f32(total[r], 2);
  }
  #pragma unroll
  for (u32 n = 0; n < {{ above * across * 4 }}; ++n) {
    const i64 row = top + upper + n / {{ across * 4 }} * 16 + lane / 4 + n % 4 / 2 * 8;
    const i64 feature = n / 4 % {{ across }} * 8 + lane % 4 * 2 + n % 2;
    const f32 all = total[n / {{ across * 4 }} * 2 + n % 4 / 2];
    f32 mean = sums[n] / all;
{% if guarded %}
    if (row < {{ rows }}) {
      {{ modification("empty", "sees_none", the_batch="batch", the_row="row", the_total="all") }}
      mean = sees_none ? sums[n] * 0.0f : mean;
    }
{% endif %}
    {{ store_output(("batch", "row", "feature"), "spoiled[feature] != 0 ? nan_f32() : mean",
                    mask=below("row", rows, height)) }}
  }
{% if lse %}
  #pragma unroll
  for (u32 r = 0; r < {{ 2 * above }}; ++r) {
    const i64 row = top + upper + r / 2 * 16 + lane / 4 + r % 2 * 8;
    const f32 log_sum = total[r] == 0.0f ? nan_f32() : log_f32(total[r]) + top_score[r];
    {{ store_line(("batch", "row"), "log_sum",
                  mask=["lane % 4 == 0", below("row", rows, height)] | select | join(" && ")) }}
  }
{% endif %}
}
""")  # fmt: skip
SPACE: Mapping[str, tuple[int, ...]] = MappingProxyType({
    "height": (16, 32, 64, 128),
    "width": (16, 32, 64),
    "tall": (16, 32),
})  # fmt: skip
EXPONENTS = {DType.F16: 0x7C00, DType.BF16: 0x7F80}  # bits that are set in what is not finite
MOST_SUMS = 160  # numbers of f32 that a thread holds of scores and of sums


def space(asked: Asked) -> Mapping[str, tuple[int, ...]] | None:
    """Return the values of the parameters, or None for a function that is no such attention."""
    suits = {"cp_async", "mma"} <= {*asked.target.families} and narrowed(asked) is not None
    return SPACE if suits else None


def narrowed(asked: Asked) -> tuple[Problem, Product] | None:
    """Return an attention whose operands are as a tensor core reads them, and what multiplies."""
    p = found(asked)
    operands = None if p is None else narrow(p)
    if p is None or operands is None or not all(map(is_side, inner(p))):
        return None
    kinds = {sub.value.dtype for sub in operands.values()}
    for m in PRODUCTS.values():
        if kinds == {m.operands} and m.sums is DType.F32 and m.k == ROWS and not m.narrow:
            bodies = {**p.bodies, **masked(p)}
            return replace(p, operands=operands, bodies=bodies), m
    return None


def whole(n: int, by: int = ROWS) -> int:
    """Return the least multiple that is no less: of terms, those of whole products.

    >>> whole(72), whole(80), whole(80, 64)
    (80, 80, 128)
    """
    return -(-n // by) * by


def block(asked: Asked, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes of its tiles."""
    own, features = inner(_problem(asked)[0])
    terms = whole(own)
    height, width, tall = values["height"], values["width"], values["tall"]
    held = tall * (width + features) // WARP
    if height % tall or held > MOST_SUMS:
        return 0, 0
    shared = 2 * (height * terms + 2 * width * (terms + features)) + 4 * features
    return height // tall * WARP, shared


def cost(asked: Asked, values: Values) -> float:
    """Estimate the time of a kernel, in cycles of a multiprocessor.

    Products, reads of shared memory and exponentials overlap in part: the slowest counts, and a
    barrier for each tile, which other warps hide.
    """
    p, _ = _problem(asked)
    own, features = inner(p)
    terms = whole(own)
    threads, shared = block(asked, values)
    if not threads:
        return float("inf")
    height, width, tall = values["height"], values["width"], values["tall"]
    batch, rows, _ = map(p.expected, p.output.extents)
    columns = p.expected(p.operands["key"].extents[1])
    together = max(1, min(asked.target.dynamic // shared, REGISTERS // (threads * 200), 16))
    blocks = batch * -(-rows // height)
    processors = asked.target.processors or PROCESSORS
    together = min(together, max(1, -(-blocks // processors)))
    products = height * width * (terms + features) / PRODUCTS_A_CYCLE
    reads = height // tall * (width * (terms + features) + tall * terms) * 2 / SHARED_A_CYCLE
    fills = width * (terms + features) * 2 / FILLED_A_CYCLE
    powers = height * width / POWERS_A_CYCLE
    alone = width * (terms + features + POWER) * tall / ROWS / ALONE_A_CYCLE + BARRIER
    step = max(together * (max(products, reads, fills) + powers), alone)
    waves = -(-blocks // (processors * together))
    return waves * (-(-columns // width) + 1) * step


PROCESSORS, REGISTERS = 128, 1 << 16
PRODUCTS_A_CYCLE, SHARED_A_CYCLE, FILLED_A_CYCLE, POWERS_A_CYCLE = 1024, 128, 20, 4
POWER, ALONE_A_CYCLE, BARRIER = 256, 8, 500.0  # what one warp does with nothing else to hide it


def render(asked: Asked, values: Values, text: Text = TEXT) -> TextKernel:
    """Write the kernel."""
    p, m = _problem(asked)
    terms, features = inner(p)
    batch, rows, _ = p.output.extents
    copied = {f"{x}_copied": int(is_copied(p, x)) for x in ("key", "value")}
    launch = Launch(
        (p.dim(ix.mul(batch, ix.ceildiv(rows, ix.index(values["height"])))), 1, 1),
        (block(asked, values)[0], 1, 1),
        p.dim(chain(p, values["width"], terms)),
        {"terms": whole(terms), "own_terms": terms, "features": features, "product": m.name,
         "lanes": ACCESS // m.operands.nbytes, "exponent": EXPONENTS[m.operands],
         "log2e": literal(1 / math.log(2), DType.F32).text, "ranged": is_ranged(p),
         "lse": int(p.line is not None), **weighing(p), **copied},
    )  # fmt: skip
    return text.render(p, values, launch)


def is_copied(p: Problem, operand: str) -> bool:
    """Return whether an operand is copied in runs along its last axis."""
    run = p.run(operand, ACCESS)
    return run is not None and run.axis == 2


_problem = suited(narrowed)


def best(asked: Asked) -> bool:
    """Return whether there are keys for a matrix; few rows waste products, but no memory."""
    p = narrowed(asked) if {"cp_async", "mma"} <= {*asked.target.families} else None
    return p is not None and p[0].expected(p[0].operands["key"].extents[1]) >= ROWS


TEMPLATE = Template("mma_attention", space, cost, render, block, best)
