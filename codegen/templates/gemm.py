"""Matrix products by tiles in shared memory, of which each thread multiplies several elements.

A block computes ``height`` by ``width`` results, of which a thread has ``each`` by ``each`` in
registers.  Tiles of ``depth`` terms are summed apart and then added to the total, which keeps the
chain of additions near K / depth + depth.
"""

from __future__ import annotations

from collections.abc import Mapping

from didyma.codegen.codegens import Asked, Template, Values
from didyma.codegen.emit.intrinsics import c_type
from didyma.codegen.emit.terms import literal
from didyma.codegen.templates.language import Launch, Text
from didyma.codegen.templates.products import product
from didyma.codegen.templates.suiting import suited
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.kernel import TextKernel

TEXT = Text("tiled_gemm", """\
{% set threads = (height // each) * (width // each) %}
{% set rows, columns, terms = size("left", 1), size("right", 2), size("left", 2) %}
{% macro add(a, b) %}
{{- "add_%s(%s, %s)" % (acc, a, b) if integer else "%s + %s" % (a, b) -}}
{% endmacro %}
{% macro mul(a, b) %}
{{- "mul_%s(%s, %s)" % (acc, a, b) if integer else "%s * %s" % (a, b) -}}
{% endmacro %}
{% macro tiles(n, by) %}(({{ n }} + {{ by - 1 }}) / {{ by }}){% endmacro %}
{% macro below(i, n, by) %}{% if n is string or n % by %}{{ i }} < {{ n }}{% endif %}{% endmacro %}
{% macro all(a, b) %}{{ a }}{{ " && " if a and b }}{{ b }}{% endmacro %}
{% set down, across = tiles(rows, height), tiles(columns, width) %}
{{ def_kernel("left", "right") }} {
  __shared__ {{ dtype("left") }} left_tile[{{ depth * (height + 1) }}];
  __shared__ {{ dtype("right") }} right_tile[{{ depth * (width + 1) }}];
  const i64 tile = blockIdx.x;
  const i64 batch = tile / ({{ down }} * {{ across }});
  const i64 top = tile / {{ across }} % {{ down }} * {{ height }};
  const i64 side = tile % {{ across }} * {{ width }};
  const i64 y = threadIdx.x / {{ width // each }};
  const i64 x = threadIdx.x % {{ width // each }};
  {{ acc }} total[{{ each * each }}];
  {{ acc }} part[{{ each * each }}];
  #pragma unroll
  for (i64 n = 0; n < {{ each * each }}; ++n) {
    total[n] = {{ zero }};
  }
  for (i64 turn = 0; turn < ({{ terms }} + {{ depth - 1 }}) / {{ depth }}; ++turn) {
    for (i64 n = threadIdx.x; n < {{ height * depth }}; n = n + {{ threads }}) {
{% if stride("left", 1) == 1 %}
      const i64 u = n / {{ height }};
      const i64 v = n % {{ height }};
{% else %}
      const i64 u = n % {{ depth }};
      const i64 v = n / {{ depth }};
{% endif %}
      const i64 row = top + v;
      const i64 term = turn * {{ depth }} + u;
      {{ load("left", "a", ("batch", "row", "term"),
              all(below("row", rows, height), below("term", terms, depth))) }}
      left_tile[u * {{ height + 1 }} + v] = a;
    }
    for (i64 n = threadIdx.x; n < {{ width * depth }}; n = n + {{ threads }}) {
{% if stride("right", 1) == 1 %}
      const i64 u = n % {{ depth }};
      const i64 v = n / {{ depth }};
{% else %}
      const i64 u = n / {{ width }};
      const i64 v = n % {{ width }};
{% endif %}
      const i64 column = side + v;
      const i64 term = turn * {{ depth }} + u;
      {{ load("right", "b", ("batch", "term", "column"),
              all(below("term", terms, depth), below("column", columns, width))) }}
      right_tile[u * {{ width + 1 }} + v] = b;
    }
    __syncthreads();
    #pragma unroll
    for (i64 n = 0; n < {{ each * each }}; ++n) {
      part[n] = {{ zero }};
    }
    #pragma unroll 8
    for (i64 u = 0; u < {{ depth }}; ++u) {
      {{ dtype("left") }} of_left[{{ each }}];
      {{ dtype("right") }} of_right[{{ each }}];
      #pragma unroll
      for (i64 n = 0; n < {{ each }}; ++n) {
        of_left[n] = left_tile[u * {{ height + 1 }} + y + n * {{ height // each }}];
        of_right[n] = right_tile[u * {{ width + 1 }} + x + n * {{ width // each }}];
      }
      #pragma unroll
      for (i64 n = 0; n < {{ each * each }}; ++n) {
        part[n] = {{ add("part[n]", mul("of_left[n / %d]" % each, "of_right[n %% %d]" % each)) }};
      }
    }
    #pragma unroll
    for (i64 n = 0; n < {{ each * each }}; ++n) {
      total[n] = {{ add("total[n]", "part[n]") }};
    }
    __syncthreads();
  }
  #pragma unroll
  for (i64 n = 0; n < {{ each * each }}; ++n) {
    const i64 row = top + y + n / {{ each }} * {{ height // each }};
    const i64 column = side + x + n % {{ each }} * {{ width // each }};
    {{ store_output(("batch", "row", "column"), "total[n]",
                    mask=all(below("row", rows, height), below("column", columns, width))) }}
  }
}
""")  # fmt: skip
SPACE: Mapping[str, tuple[int, ...]] = {
    "height": (16, 32, 64, 128),
    "width": (16, 32, 64, 128),
    "each": (1, 2, 4, 8),
    "depth": (8, 16, 32),
}


def space(asked: Asked) -> Mapping[str, tuple[int, ...]] | None:
    """Return the values of the parameters, or None for a function that is no product."""
    return None if product(asked) is None else SPACE


def block(asked: Asked, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes of its tiles."""
    p = _problem(asked)
    sides = zip(p.operands.values(), (values["height"], values["width"]), strict=True)
    shared = sum(x.value.dtype.nbytes * values["depth"] * (side + 1) for x, side in sides)
    return values["height"] // values["each"] * (values["width"] // values["each"]), shared


def cost(asked: Asked, values: Values) -> float:
    """Estimate the time of a kernel, in steps of a thread.

    Of a term, a thread multiplies, reads its elements of both tiles, and has its share in filling
    them.  So many multiprocessors run blocks at once, each 128 threads.
    """
    p, each = _problem(asked), values["each"]
    batch, rows, columns = map(p.expected, p.output.extents)
    threads, _ = block(asked, values)
    down, across = -(-rows // values["height"]), -(-columns // values["width"])
    filled = (values["height"] + values["width"]) / threads
    step = each * each + READ * 2 * each + FILL * filled + BARRIER / values["depth"]
    turns = -(-p.expected(p.operands["left"].extents[2]) // values["depth"]) * values["depth"]
    processors = asked.target.processors or PROCESSORS
    waves = -(-batch * down * across // processors)
    return turns * step * waves * max(1.0, threads / LANES)


READ, FILL, BARRIER = 1.0, 8.0, 64.0  # of a multiplication: an element, one from memory, a barrier
PROCESSORS, LANES = 128, 128  # of a device of which nothing is known, and of a multiprocessor


def render(asked: Asked, values: Values, text: Text = TEXT) -> TextKernel:
    """Write the kernel."""
    p = _problem(asked)
    batch, rows, columns = p.output.extents
    (acc,) = p.output.inputs[3:]
    down, across = (
        ix.ceildiv(n, ix.index(values[side])) for n, side in ((rows, "height"), (columns, "width"))
    )
    terms, depth = p.operands["left"].extents[2], ix.index(values["depth"])
    number = acc.dtype
    launch = Launch(
        (p.dim(ix.mul(batch, down, across)), 1, 1),
        (block(asked, values)[0], 1, 1),
        p.dim(ix.add(depth, ix.ceildiv(terms, depth))),
        {"acc": c_type(number), "zero": literal(0, number).text, "integer": int(number.is_int)},
    )
    return text.render(p, values, launch)


_problem = suited(product)


TEMPLATE = Template("tiled_gemm", space, cost, render, block)
