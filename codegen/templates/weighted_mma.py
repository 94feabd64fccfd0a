"""Sums weighted by what products are, by the tensor cores of a warp: gradients of attention.

A block has ``height`` rows of one batch, of which a warp has ``tall``, and takes ``width`` columns
at a time by asynchronous copies.  It multiplies one pair of operands, or two, for a tile of rows
and columns, computes the weights where the products are, in registers, and multiplies these,
rounded, with the values of the columns.  So each of the gradients of queries, keys and values is a
kernel that stores no scores and adds in one order.  (T. Dao, *FlashAttention-2*, 2023, computes two
of them in one.)  A tile of which no row sees a column is not multiplied; its values count all the
same, since nothing times an infinity is no number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from didyma.codegen.codegens import Asked, Template, Values
from didyma.codegen.passes.attention import is_side
from didyma.codegen.templates.attention_mma import (
    BARRIER,
    EXPONENTS,
    FILLED_A_CYCLE,
    FILLING,
    MOST_SUMS,
    POWERS_A_CYCLE,
    PROCESSORS,
    PRODUCTS_A_CYCLE,
    SHARED_A_CYCLE,
    is_copied,
    whole,
)
from didyma.codegen.templates.attentions import is_ranged, masked
from didyma.codegen.templates.hooks import ACCESS
from didyma.codegen.templates.language import Launch, Text
from didyma.codegen.templates.operands import narrow
from didyma.codegen.templates.problem import Problem, Subgraph
from didyma.codegen.templates.ranges import RANGES
from didyma.codegen.templates.suiting import suited
from didyma.codegen.templates.weights import PAIRS, found
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.fragments import PRODUCTS, ROWS, WARP, Product
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.loop import Const
from didyma.refimpl.ir.types import DType

TEXT = Text("mma_weighted", RANGES + FILLING + """\
{% set rows, columns, T = size("query", 1), size("key", 1), dtype("query") %}
{% set threads, above = height // tall * 32, tall // 16 %}
{% set beside, across = width // 8, features // 8 %}
{% macro take(name, length, own) %}
  for (u32 n = threadIdx.x; n < {{ height * length }}; n = n + {{ threads }}) {
    const u32 line = n / {{ length }};
    const u32 at = n % {{ length }};
    const i64 row = top + line;
    {{ load(name, "a", ("batch", "row", "at"),
            all(below("row", rows, height), below("at", own, length))) }}
    {{ name }}_tile[at % {{ lanes }} + {{ swizzled("line", "at / %d" % lanes, length) }}] = a;
  }
{% endmacro %}
{% macro multiply(row, column, length, into) %}
{% for i in range(above) %}
{% for j in range(beside) %}
      f32x4 {{ into }}{{ i }}_{{ j }} = none;
{% endfor %}
{% endfor %}
      #pragma unroll
      for (u32 step = 0; step < {{ length // 16 }}; ++step) {
{% for i in range(above) %}
        const {{ T }}x8 a{{ i }} = ldmatrix4_{{ T }}(&{{ row }}_tile[{{ swizzled(
            "upper + %d + lane %% 16" % (16 * i), "(step * 2 + lane / 16)", length) }}]);
{% endfor %}
{% for j in range(beside) %}
        const {{ T }}x4 k{{ j }} = ldmatrix2_{{ T }}(
            &{{ column }}_tile[turn % 2 * {{ width * length }} + {{ swizzled(
                "%d + lane %% 8" % (8 * j), "(step * 2 + lane / 8 % 2)", length) }}]);
{% for i in range(above) %}
        {{ into }}{{ i }}_{{ j }} =
            mma_{{ product }}(a{{ i }}, k{{ j }}, {{ into }}{{ i }}_{{ j }});
{% endfor %}
{% endfor %}
      }
      f32 {{ into }}[{{ above * beside * 4 }}];
{% for i in range(above) %}
{% for j in range(beside) %}
{% for part in "xyzw" %}
      {{ into }}[{{ (i * beside + j) * 4 + loop.index0 }}] = {{ into }}{{ i }}_{{ j }}.{{ part }};
{% endfor %}
{% endfor %}
{% endfor %}
{% endmacro %}
{% macro weigh(body, value) %}
{% if pairs == 2 %}
          {{ modification(body, value, the_batch="batch", the_row="row", the_column="column",
                          the_dot="dot[n]", the_other="other[n]") }}
{% else %}
          {{ modification(body, value, the_batch="batch", the_row="row", the_column="column",
                          the_dot="dot[n]") }}
{% endif %}
{% endmacro %}
{% macro place() %}
        const i64 row = top + (upper + n / {{ beside * 4 }} * 16 + lane / 4 + n % 4 / 2 * 8);
        const i64 column = (i64)turn * {{ width }} +
                           (n / 4 % {{ beside }} * 8 + lane % 4 * 2 + n % 2);
{% endmacro %}
{% if pairs == 2 %}
{{ def_kernel("query", "key", "left", "right", "value") }} {
  __shared__ __align__(16) {{ T }} left_tile[{{ height * others }}];
  __shared__ __align__(16) {{ T }} right_tile[{{ 2 * width * others }}];
{% else %}
{{ def_kernel("query", "key", "value") }} {
{% endif %}
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
{{ take("query", terms, own_terms) }}
{% if pairs == 2 %}
{{ take("left", others, own_others) }}
{% endif %}
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
{% if pairs == 2 %}
{{ fill("right", "right_tile", others, own_others, right_copied) }}
{% endif %}
      }
{{ fill("value", "value_tile", features, features, value_copied) }}
    }
    cp_async_commit();
    if (turn >= 0) {
{{ ask("seen", "visible", "turn") }}
    if (visible) {
{{ multiply("query", "key", terms, "dot") }}
{% if pairs == 2 %}
{{ multiply("left", "right", others, "other") }}
{% endif %}
      f32 weight[{{ above * beside * 4 }}];
{{ ask("whole", "seen_by_all", "turn") }}
      if (seen_by_all && top + {{ height }} <= {{ rows }} &&
          ((i64)turn + 1) * {{ width }} <= {{ columns }}) {
      #pragma unroll
      for (u32 n = 0; n < {{ above * beside * 4 }}; ++n) {
{{ place() }}
{{ weigh("open_score", "opened") }}
        weight[n] = opened;
      }
      } else {
      #pragma unroll
      for (u32 n = 0; n < {{ above * beside * 4 }}; ++n) {
{{ place() }}
        f32 found = 0.0f;
        if (row < {{ rows }} && column < {{ columns }}) {
{{ weigh("score", "weighed") }}
          found = weighed;
        }
        weight[n] = found;
      }
      }
{{ add_values("weight") }}
    } else {
{{ find_spoiled() }}
    }
    }
  }
  __syncthreads();
{{ list_sums() }}
  #pragma unroll
  for (u32 n = 0; n < {{ above * across * 4 }}; ++n) {
    const i64 row = top + upper + n / {{ across * 4 }} * 16 + lane / 4 + n % 4 / 2 * 8;
    const i64 feature = n / 4 % {{ across }} * 8 + lane % 4 * 2 + n % 2;
    {{ store_output(("batch", "row", "feature"), "spoiled[feature] != 0 ? nan_f32() : sums[n]",
                    mask=below("row", rows, height)) }}
  }
}
""")  # fmt: skip
SPACE: Mapping[str, tuple[int, ...]] = MappingProxyType({
    "height": (16, 32, 64, 128),
    "width": (16, 32, 64),
    "tall": (16, 32),
})  # fmt: skip


def space(asked: Asked) -> Mapping[str, tuple[int, ...]] | None:
    """Return the values of the parameters, or None for a function that is no such sum."""
    return None if _single(asked) is None else SPACE


def narrowed(asked: Asked) -> tuple[Problem, Product] | None:
    """Return a weighted sum whose operands are as a tensor core reads them, and what multiplies."""
    p = found(asked)
    operands = None if p is None else narrow(p)
    if p is None or operands is None or not all(map(is_side, lengths(p))):
        return None
    bodies = _bodies(p)
    if bodies is None:
        return None
    kinds = {sub.value.dtype for sub in operands.values()}
    for m in PRODUCTS.values():
        if kinds == {m.operands} and m.sums is DType.F32 and m.k == ROWS and not m.narrow:
            return replace(p, operands=operands, bodies=bodies), m
    return None


def _bodies(p: Problem) -> Mapping[str, Subgraph] | None:
    """Return the bodies of weights and masks; None if two weights have different masks."""
    bodies = {**p.bodies, **masked(p, 0.0)}
    if "also" not in p.operands:
        return bodies
    other = masked(replace(p, bodies={"score": p.bodies["also_score"]}), 0.0)
    one = {k: body for k, body in bodies.items() if k in other and k != "open_score"}
    rest = {k: body for k, body in other.items() if k != "open_score"}
    return {**bodies, "open_also": other["open_score"]} if one == rest else None


def _single(asked: Asked) -> tuple[Problem, Product] | None:
    """Return one weighted sum, for a target that has what this template needs."""
    found = narrowed(asked) if {"cp_async", "mma"} <= {*asked.target.families} else None
    return None if found is None or "also" in found[0].operands else found


def lengths(p: Problem) -> tuple[int, ...]:
    """Return the numbers of features, and of terms of each product; 0 for one that is not known."""
    names = ["value", *(row for row, _ in PAIRS if row in p.operands)]
    ends = (p.operands[name].extents[2] for name in names)
    return tuple(int(e.value) if isinstance(e, Const) else 0 for e in ends)


def block(asked: Asked, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes of its tiles."""
    features, *own = lengths(_problem(asked)[0])
    terms = [*map(whole, own)]
    height, width, tall = values["height"], values["width"], values["tall"]
    held = tall * (width * len(terms) + features) // WARP
    if height % tall or held > MOST_SUMS:
        return 0, 0
    shared = 2 * (height * sum(terms) + 2 * width * (sum(terms) + features)) + 4 * features
    return height // tall * WARP, shared


def cost(asked: Asked, values: Values) -> float:
    """Estimate the time of a kernel, in cycles of a multiprocessor."""
    p, _ = _problem(asked)
    features, *own = lengths(p)
    terms = [*map(whole, own)]
    threads, shared = block(asked, values)
    if not threads:
        return float("inf")
    height, width, tall = values["height"], values["width"], values["tall"]
    batch, rows, _ = map(p.expected, p.output.extents)
    columns = p.expected(p.operands["value"].extents[1])
    blocks = batch * -(-rows // height)
    processors = asked.target.processors or PROCESSORS
    together = max(
        1, min(asked.target.dynamic // shared, HELD // threads, -(-blocks // processors))
    )
    every = sum(terms) + features
    products = height * width * every / PRODUCTS_A_CYCLE
    fills = width * every * 2 / FILLED_A_CYCLE
    reads = height // tall * (width * every + tall * sum(terms)) * 2 / SHARED_A_CYCLE
    powers = height * width / POWERS_A_CYCLE
    step = together * (max(products, reads, fills) + powers) + BARRIER
    return -(-blocks // (processors * together)) * (-(-columns // width) + 1) * step


HELD = 256  # threads of a multiprocessor


def render(asked: Asked, values: Values, text: Text = TEXT) -> TextKernel:
    """Write the kernel."""
    p, m = _problem(asked)
    features, terms, *others = lengths(p)
    batch, rows, _ = p.output.extents
    columns = [x for x in ("key", "right", "value") if x in p.operands]
    copied = {f"{x}_copied": int(is_copied(p, x)) for x in columns}
    tiles = ix.ceildiv(rows, ix.index(values["height"]))
    longest = ix.maximum(p.operands["value"].extents[1], ix.index(max(terms, *others, 0)))
    launch = Launch(
        (p.dim(ix.mul(batch, tiles)), 1, 1), (block(asked, values)[0], 1, 1), p.dim(longest),
        {"terms": whole(terms), "own_terms": terms, "features": features,
         "others": sum(map(whole, others)), "own_others": sum(others), "pairs": 1 + len(others),
         "product": m.name, "lanes": ACCESS // m.operands.nbytes, "ranged": is_ranged(p),
         "exponent": EXPONENTS[m.operands], **copied},
    )  # fmt: skip
    return text.render(p, values, launch)


_problem = suited(_single)


def best(asked: Asked) -> bool:
    """Return whether there are columns for a matrix."""
    p = _single(asked)
    return p is not None and p[0].expected(p[0].operands["value"].extents[1]) >= ROWS


TEMPLATE = Template("mma_weighted", space, cost, render, block, best)
