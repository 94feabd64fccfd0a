"""Attention by the tensor cores of four warps together: a tile is weighed, another summed up.

A block has ``height`` rows of one batch, of which four warps have 64.  They ask for the scores of
a tile of ``width`` keys and for the weighted sum of the values of the tile before, and while the
latter is computed they take the exponentials of the former.  Scores become weights where they are,
in registers, and the weights an operand of the next product.  Keys and values come by asynchronous
copies, two tiles of each.  (J. Shah et al., *FlashAttention-3*, 2024.)  Values of a tile of which
no row sees a key count all the same, since nothing times an infinity is no number.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from didyma.codegen.codegens import Asked, Template, Values
from didyma.codegen.templates import attention_mma
from didyma.codegen.templates.attention import chain, inner
from didyma.codegen.templates.attention_mma import EXPONENTS, is_copied, narrowed
from didyma.codegen.templates.attentions import FACTORED
from didyma.codegen.templates.language import Given, Launch, Text
from didyma.codegen.templates.problem import Problem
from didyma.codegen.templates.suiting import suited
from didyma.codegen.templates.weighing import WEIGHING, scaling
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.group_products import GROUP, LINE, ROWS
from didyma.refimpl.ir.kernel import TextKernel

TEXT = Text("wgmma_attention", WEIGHING + """\
{% set threads = height * 2 %}
{% macro at(line, piece) %}({{ line }}) * 64 + (({{ piece }}) ^ ({{ line }}) % 8) * 8{% endmacro %}
{% macro place(lines, line, piece) %}
{{- "(%s) / %d * %d + (%s) / 8 * %d + " % (line, lines, lines * features, piece, lines * 64) -}}
{{- at("(%s) %% %d" % (line, lines), "(%s) %% 8" % piece) -}}
{% endmacro %}
{% macro fill(name, tile, lines, length, panel, start, row, size, stage, copied) %}
{% set inside = "%s < %s" % (row, size) %}
{% set to, pieces = "%s * %d + " % (stage, lines * length), lines * length // 8 %}
{% if copied %}
      #pragma unroll 4
      for (u32 i = 0; i < {{ (pieces + threads - 1) // threads }}; ++i) {
        const u32 n = i * {{ threads }} + threadIdx.x;
        const u32 line = n / {{ length // 8 }};
        const u32 piece = n % {{ length // 8 }};
        const i64 {{ row }} = {{ start }} + line;
        const i64 term = piece * 8;
        {{ "if (n < %d) " % pieces if pieces % threads }}cp_async16_zfill_{{ T }}(
            &{{ tile }}[{{ to }}{{ place(panel, "line", "piece") }}],
            {{ address(name, ("batch", row, "term")) }}, {{ inside }} ? 8 : 0);
      }
{% else %}
      for (u32 n = threadIdx.x; n < {{ lines * length }}; n = n + {{ threads }}) {
        const u32 line = n / {{ length }};
        const i64 {{ row }} = {{ start }} + line;
        const i64 term = n % {{ length }};
        {{ load(name, "x", ("batch", row, "term"), inside) }}
        {{ tile }}[{{ to }}{{ place(panel, "line", "n %% %d / 8" % length) }} + n % 8] = x;
      }
{% endif %}
{% endmacro %}
{% macro keys(turn, stage) %}
{{ fill("key", "key_tile", width, terms, width, "(i64)%s * %d" % (turn, width), "column", columns,
        stage, key_copied) }}
{% endmacro %}
{% macro values(turn, stage) %}
{{ fill("value", "value_tile", width, features, 64, "(i64)%s * %d" % (turn, width), "column",
        columns, stage, value_copied) }}
{% endmacro %}
{% macro look(bits, feature) %}
        if (({{ bits }} & {{ exponent }}) == {{ exponent }}) {
          atomic_max_i32(&spoiled[{{ feature }}], 1);
        }
{% endmacro %}
{% macro look_at(pieces) %}
        u32 most = 0;
{% for i in range(pieces) %}
{% for n in range(8) %}
        most = max_u32(most, (u32)bitcast_{{ T }}_u16(x{{ i }}.s{{ n }}) & {{ exponent }});
{% endfor %}
{% endfor %}
        if (most == {{ exponent }}) {
{% for i in range(pieces) %}
{% for n in range(8) %}
{{ look("(u32)bitcast_%s_u16(x%d.s%d)" % (T, i, n), "term%d + %d" % (i, n)) }}
{% endfor %}
{% endfor %}
        }
{% endmacro %}
{% macro advance(turn) %}
    found = 0;
    while ({{ turn }} < turns && found == 0) {
{{ ask("seen", "wanted", turn) }}
      if (wanted) {
        found = 1;
      } else {
{% if value_copied %}
{% set pieces = width * features // 8 %}
{% for i in range((pieces + threads - 1) // threads) %}
      const u32 n{{ i }} = {{ i * threads }} + threadIdx.x;
      const i64 at{{ i }} = (i64){{ turn }} * {{ width }} + n{{ i }} / {{ features // 8 }};
      const i64 column{{ i }} = at{{ i }} < {{ columns }} ? at{{ i }} : {{ columns }} - 1;
      const i64 term{{ i }} = n{{ i }} % {{ features // 8 }} * 8;
      const {{ T }}x8 x{{ i }} = load8_{{ T }}(
          {{ address("value", ("batch", "column%d" % i, "term%d" % i)) }});
{% endfor %}
{{ look_at((pieces + threads - 1) // threads) }}
{% else %}
      for (u32 n = threadIdx.x; n < {{ width * features }}; n = n + {{ threads }}) {
        const i64 column = (i64){{ turn }} * {{ width }} + n / {{ features }};
        const i64 term = n % {{ features }};
        {{ load("value", "x", ("batch", "column", "term"), "column < %s" % columns) }}
{{ look("(u32)bitcast_%s_u16(x)" % T, "term") }}
      }
{% endif %}
        {{ turn }} = {{ turn }} + 1;
      }
    }
{% endmacro %}
{{ def_kernel("query", "key", "value") }} {
  __shared__ __align__(1024) {{ T }} query_tile[{{ height * terms }}];
  __shared__ __align__(1024) {{ T }} key_tile[{{ 2 * width * terms }}];
  __shared__ __align__(1024) {{ T }} value_tile[{{ 2 * width * features }}];
  __shared__ i32 spoiled[{{ features }}];
  const i64 down = ({{ rows }} + {{ height - 1 }}) / {{ height }};
  const i64 batch = blockIdx.x / down;
  const i64 top = (down - 1 - blockIdx.x % down) * {{ height }};
  const i32 turns = ({{ columns }} + {{ width - 1 }}) / {{ width }};
  const u32 lane = threadIdx.x % 32;
  const u32 upper = threadIdx.x / 32 * 16;
  const u32 mine = threadIdx.x / 128;
{% if ranged %}
{{ find_range() }}
{% endif %}
  for (u32 n = threadIdx.x; n < {{ features }}; n = n + {{ threads }}) {
    spoiled[n] = 0;
  }
  __syncthreads();
{{ start_weighing() }}
{{ find_limits() }}
  u32 found = 0;
  i32 turn = 0;
{{ advance("turn") }}
  if (turn < turns) {
{{ fill("query", "query_tile", height, terms, height, "top", "row", rows, "0", query_copied) }}
{{ keys("turn", "0") }}
    cp_async_commit();
    i32 next = turn + 1;
{{ advance("next") }}
    cp_async_wait(0);
    proxy_fence();
    __syncthreads();
    if (next < turns) {
{{ keys("next", "1") }}
    }
{{ values("turn", "0") }}
    cp_async_commit();
{{ score_of("0") }}
    wgmma_wait(0);
{{ weigh("turn") }}
{{ round() }}
    u32 stage = 0;
    #pragma unroll 1
    while (next < turns) {
      cp_async_wait(0);
      proxy_fence();
      __syncthreads();
      i32 after = next + 1;
{{ advance("after") }}
      if (after < turns) {
{{ keys("after", "stage") }}
      }
{{ values("next", "(1 - stage)") }}
      cp_async_commit();
{{ score_of("1 - stage") }}
{{ sum_of("stage") }}
      wgmma_wait(1);
{{ weigh("next") }}
      wgmma_wait(0);
{{ round() }}
{{ rescale() }}
      next = after;
      stage = 1 - stage;
    }
    cp_async_wait(0);
    proxy_fence();
    __syncthreads();
    wgmma_fence();
{{ sum_of("stage") }}
    wgmma_wait(0);
  }
  __syncthreads();
  #pragma unroll
  for (u32 r = 0; r < 2; ++r) {
    total[r] = total[r] + shuffle_xor_f32(total[r], 1);
    total[r] = total[r] + shuffle_xor_f32(total[r], 2);
  }
{% if guarded %}
{{ invert_totals() }}
{% endif %}
  #pragma unroll
  for (u32 n = 0; n < {{ features // 2 }}; ++n) {
    const i64 row = top + upper + lane / 4 + n / 2 % 2 * 8;
    const i64 feature = n / 4 * 8 + lane % 4 * 2 + n % 2;
    const f32 mean = sums[n] {{ "* scale" if guarded else "/ total" }}[n / 2 % 2];
    {{ store_output(("batch", "row", "feature"), "spoiled[feature] != 0 ? nan_f32() : mean",
                    mask=below("row", rows, height)) }}
  }
{{ store_log(below("row", rows, height)) }}
}
""")  # fmt: skip
SPACE: Mapping[str, tuple[int, ...]] = MappingProxyType({
    "height": (64, 128),
    "width": (64, 128),
})  # fmt: skip
TERMS = (64, 128, 256)  # whole lines, as the product reads them
FEATURES = (64, 128, 192, 256)
NEEDED = {"cp_async", "wgmma"}  # families
REGISTERS, OTHERS = 1 << 16, 32  # of a multiprocessor, and of a thread beside what it sums


def space(asked: Asked) -> Mapping[str, tuple[int, ...]] | None:
    """Return the values of the parameters, or None for a function that is no such attention."""
    return None if found(asked) is None else SPACE


def found(asked: Asked) -> Problem | None:
    """Return an attention of exponentials alone, whose operands four warps read as they are."""
    known = narrowed(asked) if {*asked.target.families} >= NEEDED else None
    if known is None or FACTORED in known[0].bodies:
        return None
    if inner(known[0])[0] not in TERMS or inner(known[0])[1] not in FEATURES:
        return None
    return known[0]


def block(asked: Asked, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes of its tiles."""
    terms, features = inner(_problem(asked))
    height, width = values["height"], values["width"]
    threads = height // ROWS * GROUP
    held = features // 2 + width // 2 + width // 4
    if held + OTHERS > min(asked.target.registers, REGISTERS // threads):
        threads = 0
    return threads, 2 * (height * terms + 2 * width * (terms + features)) + 4 * features


def cost(asked: Asked, values: Values) -> float:
    """Estimate the time of a kernel, in cycles of a multiprocessor.

    Of a turn the exponentials hide one of the two products, or another block both.
    """
    p = _problem(asked)
    terms, features = inner(p)
    threads, shared = block(asked, values)
    if not threads:
        return float("inf")
    height, width = values["height"], values["width"]
    batch, rows, _ = map(p.expected, p.output.extents)
    columns = p.expected(p.operands["key"].extents[1])
    blocks = batch * -(-rows // height)
    processors = asked.target.processors or attention_mma.PROCESSORS
    held = features // 2 + width // 2 + width // 4 + OTHERS
    room = REGISTERS // (threads * held)
    together = max(1, min(asked.target.dynamic // shared, room, -(-blocks // processors)))
    first, second = (height * width * n / PRODUCTS_A_CYCLE for n in (terms, features))
    powers = height * width / POWERS_A_CYCLE
    alone = first + max(second, powers) + BARRIER
    step = max(together * (first + second), together * width * (terms + features) * 2 / FILLED,
               alone)  # fmt: skip
    waves = -(-blocks // (processors * together))
    return waves * (-(-columns // width) + 2) * step


PRODUCTS_A_CYCLE, POWERS_A_CYCLE, FILLED, BARRIER = 2048, 10, 30, 500.0


def render(asked: Asked, values: Values, text: Text = TEXT) -> TextKernel:
    """Write the kernel."""
    p, power = scaling(_problem(asked))
    terms, features = inner(p)
    batch, rows, _ = p.output.extents
    dtype = p.operands["query"].value.dtype
    names: dict[str, Given] = {
        "terms": terms, "features": features, "exponent": EXPONENTS[dtype],
        "own_terms": terms, "summed": features,
        "held": 0, "alone": 0, **power,
        **{f"{x}_copied": int(is_copied(p, x)) for x in ("query", "key", "value")},
    }  # fmt: skip
    grid = (p.dim(ix.mul(batch, ix.ceildiv(rows, ix.index(values["height"])))), 1, 1)
    longest = p.dim(chain(p, values["width"], terms))
    return text.render(p, values, Launch(grid, (block(asked, values)[0], 1, 1), longest, names))


_problem = suited(found)


def best(asked: Asked) -> bool:
    """Return whether there are rows and keys for the matrices of four warps."""
    p = found(asked)
    if p is None:
        return False
    _, rows, _ = map(p.expected, p.output.extents)
    return rows >= ROWS and p.expected(p.operands["key"].extents[1]) >= LINE


TEMPLATE = Template("wgmma_attention", space, cost, render, block, best)
