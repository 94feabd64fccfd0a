"""Attention by tiles of keys, whose scores are never stored.

A block has ``height`` rows of one batch, and takes ``width`` keys and values at a time.  It keeps
the largest score of each row so far, and sums of exponentials of what scores lack to it; a larger
one scales the sums down.  (M. Milakov and N. Gimelshein, *Online normalizer calculation for
softmax*, 2018; T. Dao et al., *FlashAttention*, 2022.)  Each thread has ``each`` rows, of which it
shares keys and features with ``lanes`` threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from didyma.codegen.codegens import Asked, Template, Values
from didyma.codegen.emit.intrinsics import c_type
from didyma.codegen.templates.attentions import FACTORED, KEPT, found
from didyma.codegen.templates.language import Launch, Text
from didyma.codegen.templates.problem import Problem
from didyma.codegen.templates.suiting import suited
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.loop import Const, Expr

TEXT = Text("tiled_attention", """\
{% set rows, columns = size("query", 1), size("key", 1) %}
{% set threads, mine = height // each * lanes, width // lanes %}
{% set own = (features + lanes - 1) // lanes %}
{% set taken = "share" if weighs else "weight" %}
{% macro below(i, n, by) %}{% if n is string or n % by %}{{ i }} < {{ n }}{% endif %}{% endmacro %}
{% macro all(a, b) %}{{ a }}{{ " && " if a and b }}{{ b }}{% endmacro %}
{{ def_kernel("query", "key", "value") }} {
  __shared__ {{ acc }} query_tile[{{ height * (terms + 1) }}];
  __shared__ {{ acc }} key_tile[{{ width * (terms + 1) }}];
  __shared__ {{ acc }} value_tile[{{ width * features }}];
  __shared__ {{ acc }} weights[{{ height * (width + 1) }}];
  const i64 down = ({{ rows }} + {{ height - 1 }}) / {{ height }};
  const i64 batch = blockIdx.x / down;
  const i64 top = blockIdx.x % down * {{ height }};
  const i64 y = threadIdx.x / {{ lanes }} * {{ each }};
  const i64 x = threadIdx.x % {{ lanes }};
  for (i64 n = threadIdx.x; n < {{ height * terms }}; n = n + {{ threads }}) {
    const i64 row = top + n / {{ terms }};
    const i64 term = n % {{ terms }};
    {{ load("query", "a", ("batch", "row", "term"), below("row", rows, height)) }}
    query_tile[n / {{ terms }} * {{ terms + 1 }} + term] = a;
  }
  {{ acc }} top_score[{{ each }}];
  {{ acc }} total[{{ each }}];
  {{ acc }} sums[{{ each * own }}];
  #pragma unroll
  for (i64 i = 0; i < {{ each }}; ++i) {
    top_score[i] = -inf_{{ acc }}();
    total[i] = {{ zero }};
  }
  #pragma unroll
  for (i64 n = 0; n < {{ each * own }}; ++n) {
    sums[n] = {{ zero }};
  }
  for (i64 turn = 0; turn < ({{ columns }} + {{ width - 1 }}) / {{ width }}; ++turn) {
    __syncthreads();
    for (i64 n = threadIdx.x; n < {{ width * terms }}; n = n + {{ threads }}) {
      const i64 column = turn * {{ width }} + n / {{ terms }};
      const i64 term = n % {{ terms }};
      {{ load("key", "b", ("batch", "column", "term"), below("column", columns, width)) }}
      key_tile[n / {{ terms }} * {{ terms + 1 }} + term] = b;
    }
    for (i64 n = threadIdx.x; n < {{ width * features }}; n = n + {{ threads }}) {
      const i64 column = turn * {{ width }} + n / {{ features }};
      const i64 feature = n % {{ features }};
      {{ load("value", "v", ("batch", "column", "feature"), below("column", columns, width)) }}
      value_tile[n] = v;
    }
    __syncthreads();
    {{ acc }} dots[{{ each * mine }}];
    #pragma unroll
    for (i64 n = 0; n < {{ each * mine }}; ++n) {
      dots[n] = {{ zero }};
    }
    #pragma unroll 4
    for (i64 u = 0; u < {{ terms }}; ++u) {
      #pragma unroll
      for (i64 n = 0; n < {{ each * mine }}; ++n) {
        dots[n] = dots[n] + query_tile[(y + n / {{ mine }}) * {{ terms + 1 }} + u] *
                            key_tile[(x + n % {{ mine }} * {{ lanes }}) * {{ terms + 1 }} + u];
      }
    }
    #pragma unroll
    for (i64 n = 0; n < {{ each * mine }}; ++n) {
      const i64 row = top + y + n / {{ mine }};
      const i64 near = x + n % {{ mine }} * {{ lanes }};
      const i64 column = turn * {{ width }} + near;
      {{ acc }} score = -inf_{{ acc }}();
      if (row < {{ rows }} && column < {{ columns }}) {
        {{ modification("score", "changed", the_batch="batch", the_row="row", the_column="column",
                        the_dot="dots[n]") }}
        score = changed;
      }
      dots[n] = score;
      weights[(y + n / {{ mine }}) * {{ width + 1 }} + near] = score;
    }
    __syncthreads();
    {{ acc }} scale[{{ each }}];
    #pragma unroll
    for (i64 i = 0; i < {{ each }}; ++i) {
      {{ acc }} most = top_score[i];
      for (i64 j = 0; j < {{ width }}; ++j) {
        most = max_{{ acc }}(most, weights[(y + i) * {{ width + 1 }} + j]);
      }
      const {{ acc }} base = most == -inf_{{ acc }}() ? {{ zero }} : most;
      scale[i] = exp_{{ acc }}(top_score[i] - base);
{% if guarded %}
      scale[i] = scale[i] == scale[i] ? scale[i] : {{ zero }};
{% endif %}
      top_score[i] = most;
      #pragma unroll
      for (i64 j = 0; j < {{ mine }}; ++j) {
        dots[i * {{ mine }} + j] = exp_{{ acc }}(dots[i * {{ mine }} + j] - base);
      }
    }
    __syncthreads();
    #pragma unroll
    for (i64 n = 0; n < {{ each * mine }}; ++n) {
      weights[(y + n / {{ mine }}) * {{ width + 1 }} + x + n % {{ mine }} * {{ lanes }}] = dots[n];
    }
    __syncthreads();
    {{ acc }} part[{{ each * own }}];
    {{ acc }} powers[{{ each }}];
    #pragma unroll
    for (i64 n = 0; n < {{ each * own }}; ++n) {
      part[n] = {{ zero }};
    }
    #pragma unroll
    for (i64 i = 0; i < {{ each }}; ++i) {
      powers[i] = {{ zero }};
    }
    for (i64 j = 0; j < {{ width }}; ++j) {
      #pragma unroll
      for (i64 i = 0; i < {{ each }}; ++i) {
        const {{ acc }} weight = weights[(y + i) * {{ width + 1 }} + j];
        powers[i] = powers[i] + weight;
{% if weighs %}
        const i64 above = top + y + i;
        const i64 across = turn * {{ width }} + j;
        {{ acc }} share = {{ zero }};
        if (above < {{ rows }} && across < {{ columns }}) {
          {{ modification(weighs, "weighed", the_batch="batch", the_row="above",
                          the_column="across", the_power="weight") }}
          share = weighed;
        }
{% endif %}
        #pragma unroll
        for (i64 e = 0; e < {{ own }}; ++e) {
          const i64 feature = x + e * {{ lanes }};
          if ({{ below("feature", features, lanes) or 1 }}) {
            part[i * {{ own }} + e] =
                part[i * {{ own }} + e] + {{ taken }} * value_tile[j * {{ features }} + feature];
          }
        }
      }
    }
    #pragma unroll
    for (i64 i = 0; i < {{ each }}; ++i) {
      total[i] = total[i] * scale[i] + powers[i];
    }
    #pragma unroll
    for (i64 n = 0; n < {{ each * own }}; ++n) {
      sums[n] = sums[n] * scale[n / {{ own }}] + part[n];
    }
  }
  #pragma unroll
  for (i64 n = 0; n < {{ each * own }}; ++n) {
    const i64 row = top + y + n / {{ own }};
    const i64 feature = x + n % {{ own }} * {{ lanes }};
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
  for (i64 i = 0; i < {{ each }}; ++i) {
    const i64 row = top + y + i;
    const {{ acc }} log_sum =
        total[i] == {{ zero }} ? nan_{{ acc }}() : log_{{ acc }}(total[i]) + top_score[i];
    {{ store_line(("batch", "row"), "log_sum", mask=all("x == 0", below("row", rows, height))) }}
  }
{% endif %}
}
""")  # fmt: skip
SPACE: Mapping[str, tuple[int, ...]] = MappingProxyType({
    "height": (4, 16, 32, 64),
    "width": (16, 32, 64),
    "each": (1, 2, 4),
    "lanes": (8, 16, 32),
})  # fmt: skip
MOST = 512  # terms and features
RESCALED = 11  # roundings of a tile beside its additions: a product, and an exponential of 4 ulp


def space(asked: Asked) -> Mapping[str, tuple[int, ...]] | None:
    """Return the values of the parameters, or None for a function that is no such attention."""
    return None if _found(asked) is None else SPACE


def _found(asked: Asked) -> Problem | None:
    """Return an attention whose numbers of terms and of features are known, and not large."""
    p = found(asked)
    return None if p is None or not all(0 < n <= MOST for n in inner(p)) else p


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
    if width % lanes:
        return 0, 0
    shared = height * (terms + 1) + width * (terms + 1 + features) + height * (width + 1)
    nbytes = p.output.inputs[3].dtype.nbytes
    return height // values["each"] * lanes, shared * nbytes


def cost(asked: Asked, values: Values) -> float:
    """Estimate the time of a kernel, in steps of a thread.

    Of a key, a thread multiplies terms and features, and reads what it multiplies; it has its share
    in filling the tiles, and waits at barriers.
    """
    p = problem(asked)
    terms, features = inner(p)
    threads, _ = block(asked, values)
    batch, rows, _ = map(p.expected, p.output.extents)
    columns = p.expected(p.operands["key"].extents[1])
    height, width, each, lanes = (values[x] for x in ("height", "width", "each", "lanes"))
    mine, own = width // lanes, -(-features // lanes)
    scores = terms * (each * mine + READ * (each + mine))
    sums = width * (each * own + READ * (each + own + each))
    filled = FILL * width * (terms + features) / max(1, threads)
    turn = scores + sums + filled + READ * each * width + EXP * each * mine + BARRIER
    waves = -(-batch * -(-rows // height) // (asked.target.processors or PROCESSORS))
    return -(-columns // width) * turn * waves * max(1.0, threads / LANES)


READ, FILL, EXP, BARRIER = 1.0, 8.0, 16.0, 256.0  # of a multiplication
PROCESSORS, LANES = 128, 128  # of a device of which nothing is known, and of a multiprocessor


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
    launch = Launch(
        (p.dim(ix.mul(batch, ix.ceildiv(rows, ix.index(values["height"])))), 1, 1),
        (block(asked, values)[0], 1, 1),
        p.dim(chain(p, values["width"], terms)),
        {"acc": acc, "zero": "0.0f" if acc == "f32" else "0.0", "terms": terms,
         "features": features, "lse": int(p.line is not None), **weighing(p)},
    )  # fmt: skip
    return text.render(p, values, launch)


problem = suited(_found)


TEMPLATE = Template("tiled_attention", space, cost, render, block)
