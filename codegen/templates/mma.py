"""Matrix products by the tensor cores of a warp: tiles are copied while others are multiplied.

A block computes ``height`` by ``width`` results, of which a warp has ``tall`` by ``wide`` in
registers.  Tiles of ``depth`` terms come to shared memory by asynchronous copies, ``stages`` of
them at a time, and to registers by ``ldmatrix``; after NVIDIA's CUTLASS ("multistage").  An
operand that does not lie in runs of 16 bytes, or that something is computed of, comes element by
element.  In shared memory the pieces of 16 bytes of a line are exchanged (``swizzled``), so that
eight rows of a matrix lie in different banks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from didyma.codegen.codegens import Asked, Template, Values
from didyma.codegen.emit.intrinsics import c_type
from didyma.codegen.emit.terms import literal
from didyma.codegen.templates.hooks import ACCESS
from didyma.codegen.templates.language import Given, Launch, Text
from didyma.codegen.templates.operands import held, narrow, rounded
from didyma.codegen.templates.pieces import pieces
from didyma.codegen.templates.problem import Problem
from didyma.codegen.templates.products import product
from didyma.codegen.templates.suiting import suited
from didyma.codegen.templates.tiles import ORDER, ROUNDED
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.fragments import COLUMNS, PRODUCTS, ROWS, WARP, Product
from didyma.refimpl.ir.kernel import TextKernel

TEXT = Text("mma_gemm", ORDER + ROUNDED + """\
{% set rows, columns, terms = size("left", 1), size("right", 2), size("left", 2) %}
{% set T, threads = dtype("left"), height // tall * (width // wide) * 32 %}
{% set down_warps, across_warps = height // tall, width // wide %}
{% set above, beside = tall // 16, wide // 8 %}
{% set left_line, left_count = (height, depth) if left_by == "row" else (depth, height) %}
{% set right_line, right_count = (width, depth) if right_by == "column" else (depth, width) %}
{% macro below(i, n, by) %}{% if n is string or n % by %}{{ i }} < {{ n }}{% endif %}{% endmacro %}
{% macro all(a, b) %}{{ a }}{{ " && " if a and b }}{{ b }}{% endmacro %}
{% macro swizzled(line, piece, length) %}
{%- set pieces = length // lanes %}
{{- "(%s) * %d + (%s ^ (%s) / %d %% %d) * %d" % (
      line, length, piece, line, [1, 8 // pieces] | max, [8, pieces] | min, lanes) -}}
{% endmacro %}
{% macro copy(name, tile, length, count, inside, index) %}
    for (u32 n = threadIdx.x; n < {{ length // lanes * count }}; n = n + {{ threads }}) {
      const u32 line = n / {{ length // lanes }};
      const u32 piece = n % {{ length // lanes }};
{{ caller() }}
{% if (left_pieced if name == "left" else right_pieced) %}
      const u32 to = stage * {{ length * count }} + {{ swizzled("line", "piece", length) }};
      {{ copy_piece(name, "&%s[to]" % tile, index, inside) }}
{% elif inside %}
      cp_async16_zfill_{{ T }}(
          &{{ tile }}[stage * {{ length * count }} + {{ swizzled("line", "piece", length) }}],
          {{ address(name, index) }}, {{ inside }} ? {{ lanes }} : 0);
{% else %}
      cp_async16_{{ T }}(
          &{{ tile }}[stage * {{ length * count }} + {{ swizzled("line", "piece", length) }}],
          {{ address(name, index) }});
{% endif %}
    }
{% endmacro %}
{% macro fill() %}
{% if left_by %}
{% call copy("left", "left_tile", left_line, left_count,
             all(below("row", rows, height), below("term", terms, depth)),
             ("batch", "row", "term")) %}
{% if left_by == "row" %}
      const i64 row = top + piece * {{ lanes }};
      const i64 term = (i64)next * {{ depth }} + line;
{% else %}
      const i64 row = top + line;
      const i64 term = (i64)next * {{ depth }} + piece * {{ lanes }};
{% endif %}
{%- endcall %}
{% else %}
    for (u32 n = threadIdx.x; n < {{ height * depth }}; n = n + {{ threads }}) {
{% if stride("left", 1) == 1 %}
      const u32 line = n % {{ height }};
      const u32 at = n / {{ height }};
{% else %}
      const u32 line = n / {{ depth }};
      const u32 at = n % {{ depth }};
{% endif %}
      const i64 row = top + line;
      const i64 term = (i64)next * {{ depth }} + at;
      {{ load("left", "a", ("batch", "row", "term"),
              all(below("row", rows, height), below("term", terms, depth))) }}
      left_tile[stage * {{ height * depth }} + at % {{ lanes }} +
                {{ swizzled("line", "at / %d" % lanes, depth) }}] = a;
    }
{% endif %}
{% if right_by %}
{% call copy("right", "right_tile", right_line, right_count,
             all(below("term", terms, depth), below("column", columns, width)),
             ("batch", "term", "column")) %}
{% if right_by == "column" %}
      const i64 column = side + piece * {{ lanes }};
      const i64 term = (i64)next * {{ depth }} + line;
{% else %}
      const i64 column = side + line;
      const i64 term = (i64)next * {{ depth }} + piece * {{ lanes }};
{% endif %}
{%- endcall %}
{% else %}
    for (u32 n = threadIdx.x; n < {{ width * depth }}; n = n + {{ threads }}) {
{% if stride("right", 1) == 1 %}
      const u32 line = n / {{ depth }};
      const u32 at = n % {{ depth }};
{% else %}
      const u32 line = n % {{ width }};
      const u32 at = n / {{ width }};
{% endif %}
      const i64 column = side + line;
      const i64 term = (i64)next * {{ depth }} + at;
      {{ load("right", "b", ("batch", "term", "column"),
              all(below("term", terms, depth), below("column", columns, width))) }}
      right_tile[stage * {{ width * depth }} + at % {{ lanes }} +
                 {{ swizzled("line", "at / %d" % lanes, depth) }}] = b;
    }
{% endif %}
{% endmacro %}
{{ def_kernel("left", "right") }} {
  __shared__ __align__(16) {{ T }} left_tile[{{ stages * height * depth }}];
  __shared__ __align__(16) {{ T }} right_tile[{{ stages * width * depth }}];
  __shared__ __align__(16) {{ acc }} part[{{ down_warps * 16 * (width + 8) }}];
{{ tile_counts(rows, columns, height, width) -}}
{{ tile_place("blockIdx.x", height, width, group) -}}
  const i32 turns = ({{ terms }} + {{ depth - 1 }}) / {{ depth }};
  const u32 lane = threadIdx.x % 32;
  const u32 upper = threadIdx.x / 32 / {{ across_warps }} * {{ tall }};
  const u32 outer = threadIdx.x / 32 % {{ across_warps }} * {{ wide }};
  {{ acc }}x4 none;
  none.x = {{ zero }};
  none.y = {{ zero }};
  none.z = {{ zero }};
  none.w = {{ zero }};
{% for i in range(above) %}
{% for j in range(beside) %}
  {{ acc }}x4 c{{ i }}_{{ j }} = none;
{% endfor %}
{% endfor %}
  for (i32 turn = {{ 1 - stages }}; turn < turns; ++turn) {
    const i32 next = turn + {{ stages - 1 }};
    if (turn >= 0) {
      cp_async_wait({{ stages - 2 }});
      __syncthreads();
    }
    if (next < turns) {
      const u32 stage = next % {{ stages }};
{{ fill() }}
    }
    cp_async_commit();
    if (turn >= 0) {
      const u32 stage = turn % {{ stages }};
      #pragma unroll
      for (u32 step = 0; step < {{ depth // terms_each }}; ++step) {
{% for i in range(above) %}
{% if left_by == "row" and narrow %}
{{ turned("a%d" % i, "left_tile[stage * %d" % (height * depth), "upper + %d" % (16 * i), left_line,
          {"x": (0, 0), "y": (8, 0), "z": (0, 4), "w": (8, 4)}) -}}
{% elif left_by == "row" %}
        const {{ T }}x{{ 2 * lanes // 2 }} a{{ i }} = ldmatrix4_trans_{{ T }}(
            &left_tile[stage * {{ height * depth }} + {{ swizzled(
                "step * 16 + lane % 8 + lane / 16 * 8",
                "(upper / 8 + %d + lane / 8 %% 2)" % (2 * i), left_line) }}]);
{% else %}
        {{ "const " if not narrow }}{{ T }}x{{ lanes }} a{{ i }} = ldmatrix4_{{ T }}(
            &left_tile[stage * {{ height * depth }} + {{ swizzled(
                "upper + %d + lane %% 16" % (16 * i), "(step * 2 + lane / 16)", left_line) }}]);
{% endif %}
{% if narrow and left_by != "row" %}
{{ rounded("a%d" % i, "xyzw") -}}
{% endif %}
{% endfor %}
{% for j in range(beside) %}
{% if right_by == "column" and narrow %}
{{ turned("b%d" % j, "right_tile[stage * %d" % (width * depth), "outer + %d" % (8 * j), right_line,
          {"x": (0, 0), "y": (0, 4)}) -}}
{% elif right_by == "column" %}
        const {{ T }}x{{ lanes // 2 }} b{{ j }} = ldmatrix2_trans_{{ T }}(
            &right_tile[stage * {{ width * depth }} + {{ swizzled(
                "step * 16 + lane % 16", "(outer / 8 + %d)" % j, right_line) }}]);
{% else %}
        {{ "const " if not narrow }}{{ T }}x{{ lanes // 2 }} b{{ j }} = ldmatrix2_{{ T }}(
            &right_tile[stage * {{ width * depth }} + {{ swizzled(
                "outer + %d + lane %% 8" % (8 * j), "(step * 2 + lane / 8 % 2)", right_line) }}]);
{% endif %}
{% if narrow and right_by != "column" %}
{{ rounded("b%d" % j, "xy") -}}
{% endif %}
{% endfor %}
{% for i in range(above) %}
{% for j in range(beside) %}
        c{{ i }}_{{ j }} = mma_{{ product }}(a{{ i }}, b{{ j }}, c{{ i }}_{{ j }});
{% endfor %}
{% endfor %}
      }
    }
  }
  {{ acc }} total[{{ above * beside * 4 }}];
{% for i in range(above) %}
{% for j in range(beside) %}
{% for part in "xyzw" %}
  total[{{ (i * beside + j) * 4 + loop.index0 }}] = c{{ i }}_{{ j }}.{{ part }};
{% endfor %}
{% endfor %}
{% endfor %}
  #pragma unroll
  for (u32 i = 0; i < {{ above }}; ++i) {
    __syncthreads();
    #pragma unroll
    for (u32 j = 0; j < {{ beside }}; ++j) {
      #pragma unroll
      for (u32 half = 0; half < 2; ++half) {
        {{ acc }}x2 pair;
        pair.x = total[(i * {{ beside }} + j) * 4 + half * 2];
        pair.y = total[(i * {{ beside }} + j) * 4 + half * 2 + 1];
        store2_{{ acc }}(
            &part[(upper / {{ tall }} * 16 + lane / 4 + half * 8) * {{ width + 8 }} +
                  outer + j * 8 + lane % 4 * 2], pair);
      }
    }
    __syncthreads();
    #pragma unroll {{ [8, down_warps * 16 * width // threads] | min }}
    for (u32 n = threadIdx.x; n < {{ down_warps * 16 * width }}; n = n + {{ threads }}) {
      const u32 line = n / {{ width }};
      const i64 row = top + line / 16 * {{ tall }} + i * 16 + line % 16;
      const i64 column = side + n % {{ width }};
      const {{ acc }} sum = part[line * {{ width + 8 }} + n % {{ width }}];
      {{ store_output(("batch", "row", "column"), "sum",
                      mask=all(below("row", rows, height), below("column", columns, width))) }}
    }
  }
}
""")  # fmt: skip
SPACE: Mapping[str, tuple[int, ...]] = MappingProxyType({
    "height": (16, 32, 64, 128, 256),
    "width": (32, 64, 128, 256),
    "depth": (32, 64),
    "stages": (3, 4, 6),
    "tall": (16, 32, 64),
    "wide": (32, 64),
})  # fmt: skip
GROUP = 8  # tiles down that blocks which run together share, with those across
MOST_WARPS, MOST_SUMS = 8, 128  # of a block, and of a thread


def space(asked: Asked) -> Mapping[str, tuple[int, ...]] | None:
    """Return the values of the parameters, or None for a function that is no such product."""
    suits = {"cp_async", "mma"} <= {*asked.target.families} and narrowed(asked) is not None
    return SPACE if suits else None


def narrowed(asked: Asked) -> tuple[Problem, Product] | None:
    """Return a product whose operands are as a tensor core reads them, and what multiplies them."""
    return asked.once(_found)


def _found(asked: Asked) -> tuple[Problem, Product] | None:
    found = product(asked)
    return None if found is None else _narrowed(found)


def _narrowed(p: Problem) -> tuple[Problem, Product] | None:
    before, whole = narrow(p), rounded(p)
    for m in PRODUCTS.values():
        if m.sums is p.output.inputs[3].dtype:
            used = whole if m.narrow else before and held(before, m.operands)
            if used is not None and {sub.value.dtype for sub in used.values()} == {m.operands}:
                return replace(p, operands=used), m
    return None


def warps(values: Values) -> int:
    """Return the warps of a block; 0 where they do not divide its results."""
    down, across = values["height"] // values["tall"], values["width"] // values["wide"]
    sums = values["tall"] * values["wide"] // WARP
    return down * across if down * across <= MOST_WARPS and sums <= MOST_SUMS else 0


def block(asked: Asked, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes of its tiles."""
    p, _ = _problem(asked)
    nbytes = p.operands["left"].value.dtype.nbytes
    tiles = values["stages"] * (values["height"] + values["width"]) * values["depth"] * nbytes
    part = values["height"] // values["tall"] * ROWS * (values["width"] + COLUMNS) * 4
    return WARP * warps(values), tiles + part


def cost(asked: Asked, values: Values) -> float:
    """Estimate the time of a kernel, in cycles.

    A multiprocessor multiplies, reads shared memory and fills it at the same time: the slowest of
    these counts, and a barrier for each tile that other blocks may hide, or how late the tiles come
    that are on their way.
    """
    p, m = _problem(asked)
    threads, shared = block(asked, values)
    if not threads:
        return float("inf")
    height, width, depth = values["height"], values["width"], values["depth"]
    nbytes, count = m.operands.nbytes, threads // WARP
    batch, rows, columns = map(p.expected, p.output.extents)
    tiles = batch * -(-rows // height) * -(-columns // width)
    turns = -(-p.expected(p.operands["left"].extents[2]) // depth)
    room = REGISTERS // (threads * (values["tall"] * values["wide"] // WARP + OTHERS))
    processors = asked.target.processors or PROCESSORS
    together = max(1, min(asked.target.dynamic // shared, room, 8, -(-tiles // processors)))
    products = height * width * depth * nbytes / 2 / PRODUCTS_A_CYCLE
    reads = count * (values["tall"] + values["wide"]) * depth * nbytes / SHARED_A_CYCLE
    fills = (height + width) * depth * nbytes / COPIED_A_CYCLE
    barrier = BARRIER / max(together * count / 8, 0.5)
    late = LATENCY / (values["stages"] - 1) / together
    step = max(max(products, reads, fills) + barrier, late)
    waves = -(-tiles // (processors * together)) * together
    return LAUNCH + waves * (turns * step + height * width / EPILOGUE / together)


# Measured on an H200: bytes and products in a cycle of a multiprocessor, cycles, and results stored
# in one.
PROCESSORS, REGISTERS, OTHERS = 132, 1 << 16, 96
PRODUCTS_A_CYCLE, SHARED_A_CYCLE, COPIED_A_CYCLE = 1000, 290, 72
LAUNCH, LATENCY, BARRIER, EPILOGUE = 8500, 2030, 406, 4.5


def render(asked: Asked, values: Values, text: Text = TEXT) -> TextKernel:
    """Write the kernel."""
    p, m = _problem(asked)
    batch, rows, columns = p.output.extents
    down, across = (
        ix.ceildiv(n, ix.index(values[side])) for n, side in ((rows, "height"), (columns, "width"))
    )
    grid = p.dim(ix.mul(batch, down, across))
    threads = block(asked, values)[0]
    return text.render(p, values, Launch((grid, 1, 1), (threads, 1, 1), None, _names(p, m)))


def _names(p: Problem, m: Product) -> dict[str, Given]:
    """Return what the text asks for: dtypes, and the axis along which runs of an operand lie."""
    return {
        "acc": c_type(m.sums), "zero": literal(0, m.sums).text, "product": m.name,
        "terms_each": m.k, "narrow": m.narrow, "lanes": ACCESS // m.operands.nbytes, "group": GROUP,
        "left_by": _run(p, m, "left", ("", "row", "term")),
        "right_by": _run(p, m, "right", ("", "term", "column")),
        **{f"{x}_pieced": int(_is_pieced(p, x)) for x in ("left", "right")},
    }  # fmt: skip


def _run(p: Problem, m: Product, operand: str, axes: tuple[str, ...]) -> str:
    """Return the axis along which an operand is copied; bytes are not turned as they are loaded."""
    run = p.run(operand, ACCESS) or pieces(p, operand, ACCESS)
    by = "" if run is None else axes[run.axis]
    return by if by == "term" or m.operands.nbytes > 1 else ""


def _is_pieced(p: Problem, operand: str) -> bool:
    return p.run(operand, ACCESS) is None and pieces(p, operand, ACCESS) is not None


_problem = suited(narrowed)


def best(asked: Asked) -> bool:
    """Return whether tensor cores have enough to do: more than one row of matrices, and terms."""
    found = narrowed(asked) if {"cp_async", "mma"} <= {*asked.target.families} else None
    if found is None:
        return False
    p, m = found
    _, rows, columns = map(p.expected, p.output.extents)
    terms = p.expected(p.operands["left"].extents[2])
    return min(rows, columns) >= COLUMNS and terms >= m.k


TEMPLATE = Template("mma_gemm", space, cost, render, block, best)
