"""Matrix products by the tensor cores of four warps together, which read shared memory themselves.

A block computes ``height`` by ``width`` results, of which four warps have ``tall`` rows in
registers.  Tiles of as many terms as a line has come by asynchronous copies, ``stages`` of them:
while one is multiplied, all others but ``free`` are on their way.  A fence waits for all copies of
its thread, those that began last too; so halves of the threads may take turns, which are two
``apart``: who fences a tile has begun no other since.  After the "multistage" kernels of NVIDIA's
CUTLASS, with the product of Hopper in the place of that of a warp; the tiles lie as it reads them
(``refimpl.ir.group_products``).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from didyma.codegen.codegens import Asked, Template, Values
from didyma.codegen.emit.intrinsics import c_type
from didyma.codegen.emit.terms import literal
from didyma.codegen.templates import mma
from didyma.codegen.templates.hooks import ACCESS
from didyma.codegen.templates.language import Given, Launch, Text
from didyma.codegen.templates.mma import narrowed
from didyma.codegen.templates.pace import after, lines
from didyma.codegen.templates.pieces import Pieces, pieces
from didyma.codegen.templates.problem import Problem
from didyma.codegen.templates.suiting import is_faster, suited
from didyma.codegen.templates.tiles import ORDER
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.group_products import GROUP, LINE, LINE_BYTES, ROWS
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.types import DType

TEXT = Text("wgmma_gemm", ORDER + """\
{% set rows, columns, terms = size("left", 1), size("right", 2), size("left", 2) %}
{% set T, groups = dtype("left"), height // tall %}
{% set threads, above = groups * 128, tall // 64 %}
{% set each = width // 2 %}
{% set fillers = threads // apart %}
{% set left_lies = left_by or left_wide or ("row" if stride("left", 1) == 1 else "term") %}
{% set right_lies = right_by or right_wide or ("term" if stride("right", 1) == 1 else "column") %}
{% set left_lines = "term" if narrow else left_lies %}
{% set right_lines = "term" if narrow else right_lies %}
{% set lanes = length // 8 %}
{% set product = "wgmma_m64n%dk%d_%s_%s%s" % (
    width, length // 4, "tf32" if narrow else T, "m" if left_lines == "row" else "k",
    "n" if right_lines == "column" else "k") %}
{% macro below(i, n, by) %}{% if n is string or n % by %}{{ i }} < {{ n }}{% endif %}{% endmacro %}
{% macro all(a, b) %}{{ a }}{{ " && " if a and b }}{{ b }}{% endmacro %}
{% macro at(line, piece) %}
{{- "(%s) * %d + (%s ^ (%s) %% 8) * %d" % (line, length, piece, line, lanes) -}}
{% endmacro %}
{% macro copy(name, tile, side, start, line, by, other, inside, index) %}
{% set some = "if (n < %d) " % (side * 8) if side * 8 % fillers else "" %}
      #pragma unroll 4
      for (u32 i = 0; i < {{ (side * 8 + fillers - 1) // fillers }}; ++i) {
        const u32 n = i * {{ fillers }} + threadIdx.x % {{ fillers }};
{% if by != "term" %}
        const u32 line = n / {{ side // 8 }};
        const u32 piece = n % {{ side // 8 }};
        const i64 {{ other }} = {{ start }} + piece * 8;
        const i64 term = (i64)next * 64 + line;
        const u32 to = stage * {{ side * 64 }} + piece / 8 * 4096 + {{ at("line", "piece % 8") }};
{% else %}
        const u32 line = n / 8;
        const u32 piece = n % 8;
        const i64 {{ other }} = {{ start }} + line;
        const i64 term = (i64)next * {{ length }} + piece * {{ lanes }};
        const u32 to = stage * {{ side * length }} + {{ at("line", "piece") }};
{% endif %}
{% if (left_pieced if name == "left" else right_pieced) %}
        {{ some }}{
        {{ copy_piece(name, "&%s[to]" % tile, index, inside) }}
        }
{% elif (left_wide if name == "left" else right_wide) %}
        {{ some }}{
        {{ load_run(name, "several", index, lanes, inside) }}
{% if narrow %}
{% for part in "xyzw" %}
        several.{{ part }} = tf32_f32(several.{{ part }});
{% endfor %}
{% endif %}
        store{{ lanes }}_{{ T }}(&{{ tile }}[to], several);
        }
{% elif inside %}
        {{ some }}cp_async16_zfill_{{ T }}(
            &{{ tile }}[to], {{ address(name, index) }}, {{ inside }} ? {{ lanes }} : 0);
{% else %}
        {{ some }}cp_async16_{{ T }}(&{{ tile }}[to], {{ address(name, index) }});
{% endif %}
      }
{% endmacro %}
{% macro gather(name, tile, side, start, other, lies, inside, index) %}
{% set step = fillers // length %}
{% set each = side // step %}
{% set together = 32 if each % 32 == 0 and not narrow else 16 if each % 16 == 0 else 8 %}
{% set some = "if (line < %d) " % side if side % (step * together) else "" %}
      #pragma unroll 1
      for (u32 begin = 0; begin < {{ side }}; begin = begin + {{ step * together }}) {
        {{ T }} held[{{ together }}];
        #pragma unroll
        for (u32 i = 0; i < {{ together }}; ++i) {
          const u32 line = begin + i * {{ step }} + upon;
          {{ some }}{
{% if lies == "term" %}
          const i64 {{ other }} = {{ start }} + line;
          const i64 term = (i64)next * {{ length }} + along;
{% else %}
          const i64 {{ other }} = {{ start }} + along + line / {{ length }} * {{ length }};
          const i64 term = (i64)next * {{ length }} + line % {{ length }};
{% endif %}
          {{ load(name, "element", index, inside) }}
          held[i] = {{ "tf32_f32(element)" if narrow else "element" }};
          }
        }
        #pragma unroll
        for (u32 i = 0; i < {{ together }}; ++i) {
          const u32 line = begin + i * {{ step }} + upon;
          {{ some }}
{% if narrow and lies != "term" %}
          {{ tile }}[stage * {{ side * length }} + line % {{ lanes }} +
                     {{ at("along + line / %d * %d" % (length, length),
                           "line %% %d / %d" % (length, lanes)) }}] = held[i];
{% else %}
          {{ tile }}[stage * {{ side * length }} + {{ at("line", "along / %d" % lanes) }} +
                     along % {{ lanes }}] = held[i];
{% endif %}
        }
      }
{% endmacro %}
{% macro fill() %}
{% set of_left = all(below("row", rows, height), below("term", terms, length)) %}
{% set of_right = all(below("term", terms, length), below("column", columns, width)) %}
{% if left_by or left_wide %}
{{- copy("left", "left_tile", height, "top", "row", left_lies, "row", of_left,
         ("batch", "row", "term")) }}
{%- else %}
{{- gather("left", "left_tile", height, "top", "row", left_lies, of_left,
           ("batch", "row", "term")) }}
{%- endif %}
{% if right_by or right_wide %}
{{- copy("right", "right_tile", width, "side", "column", right_lies, "column", of_right,
         ("batch", "term", "column")) }}
{%- else %}
{{- gather("right", "right_tile", width, "side", "column", right_lies, of_right,
           ("batch", "term", "column")) }}
{%- endif %}
{% endmacro %}
{{ def_kernel("left", "right") }} {
  __shared__ __align__(1024) {{ T }} left_tile[{{ stages * height * length }}];
  __shared__ __align__(1024) {{ T }} right_tile[{{ stages * width * length }}];
  __shared__ __align__(16) {{ acc }} part[{{ groups * 64 * 40 }}];
{{ tile_counts(rows, columns, height, width) -}}
{{ tile_place("blockIdx.x", height, width, group) -}}
  const i32 turns = ({{ terms }} + {{ length - 1 }}) / {{ length }};
  const u32 lane = threadIdx.x % 32;
  const u32 warp = threadIdx.x / 32 % 4;
  const u32 mine = threadIdx.x / 128;
  const u32 filler = threadIdx.x / {{ fillers }};
{% if not (left_by or left_wide) or not (right_by or right_wide) %}
  const u32 along = threadIdx.x % {{ length }};
  const u32 upon = threadIdx.x % {{ fillers }} / {{ length }};
{% endif %}
{% for i in range(above) %}
  {{ acc }} sums{{ i }}[{{ each }}];
{% endfor %}
  #pragma unroll
  for (u32 i = 0; i < {{ each }}; ++i) {
{% for i in range(above) %}
    sums{{ i }}[i] = {{ zero }};
{% endfor %}
  }
  for (i32 next = 0; next < {{ ahead }}; ++next) {
    if (next < turns && next % {{ apart }} == filler) {
      const u32 stage = next;
{{ fill() }}
    }
    cp_async_commit();
  }
  #pragma unroll 1
  for (i32 turn = 0; turn < turns; ++turn) {
    if (turn % {{ apart }} == filler) {
      cp_async_wait({{ ahead - 1 if apart == 1 else 0 }});
      proxy_fence();
    }
{% if ahead == stages - 2 %}
    wgmma_wait(1);
{% endif %}
    __syncthreads();
    const u32 here = turn % {{ stages }};
    wgmma_fence();
    #pragma unroll
    for (u32 step = 0; step < 4; ++step) {
{% for i in range(above) %}
      {{ product }}(
          sums{{ i }},
{% if left_lines == "row" %}
          &left_tile[(here * {{ height // 64 }} + mine * {{ above }} + {{ i }}) * 4096 +
                     step * 1024],
{% else %}
          &left_tile[(here * {{ height }} + mine * {{ tall }} + {{ 64 * i }}) * {{ length }} +
                     step * {{ length // 4 }}],
{% endif %}
{% if right_lines == "column" %}
          &right_tile[here * {{ width * 64 }} + step * 1024]);
{% else %}
          &right_tile[here * {{ width * length }} + step * {{ length // 4 }}]);
{% endif %}
{% endfor %}
    }
    wgmma_commit();
{% if ahead == stages - 1 %}
    wgmma_wait(1);
    __syncthreads();
{% endif %}
    const i32 next = turn + {{ ahead }};
    if (next < turns && next % {{ apart }} == filler) {
      const u32 stage = next % {{ stages }};
{{ fill() }}
    }
    cp_async_commit();
  }
  wgmma_wait(0);
  {{ acc }} total[{{ above * each }}];
  #pragma unroll
  for (u32 i = 0; i < {{ each }}; ++i) {
{% for i in range(above) %}
    total[{{ i * each }} + i] = sums{{ i }}[i];
{% endfor %}
  }
  #pragma unroll
  for (u32 i = 0; i < {{ above * width // 32 }}; ++i) {
    __syncthreads();
    #pragma unroll
    for (u32 j = 0; j < 8; ++j) {
      {{ acc }}x2 pair;
      pair.x = total[i * 16 + j * 2];
      pair.y = total[i * 16 + j * 2 + 1];
      store2_{{ acc }}(&part[(mine * 64 + warp * 16 + lane / 4 + j % 2 * 8) * 40 + j / 2 * 8 +
                       lane % 4 * 2], pair);
    }
    __syncthreads();
    #pragma unroll
    for (u32 n = 0; n < 16; ++n) {
      const i64 row = top + mine * {{ tall }} + i / {{ width // 32 }} * 64 + warp * 16 + n;
      const i64 column = side + i % {{ width // 32 }} * 32 + lane;
      const {{ acc }} sum = part[(mine * 64 + warp * 16 + n) * 40 + lane];
      {{ store_output(("batch", "row", "column"), "sum",
                      mask=all(below("row", rows, height), below("column", columns, width))) }}
    }
  }
}
""")  # fmt: skip
SPACE: Mapping[str, tuple[int, ...]] = MappingProxyType({
    "height": (64, 128, 192, 256),
    "width": (64, 128, 192, 256),
    "tall": (64, 128),
    "stages": (3, 4, 5),
    "free": (1, 2),
    "apart": (1, 2),
})  # fmt: skip
TILES = 8  # down, that blocks which run together share, with those across
MOST_THREADS, REGISTERS = 512, 1 << 16  # of a block, and of a multiprocessor
OTHERS, ROUNDING = 42, 22  # registers of a thread beside its sums, and of what rounds to tf32
PART = ROWS * 40 * 4  # bytes by which results of four warps change places
PIECES = 8  # of 16 bytes, of a line
NEEDED = {"cp_async", "wgmma"}  # families


def space(asked: Asked) -> Mapping[str, tuple[int, ...]] | None:
    """Return the values of the parameters, or None for a function that is no such product."""
    return None if _found(asked) is None else SPACE


def _found(asked: Asked) -> Problem | None:
    found = narrowed(asked) if {*asked.target.families} >= NEEDED else None
    if found is None or (found[1].operands.is_int and not _lies_by_terms(found[0])):
        return None
    return found[0]


def _lies_by_terms(p: Problem) -> bool:
    """Return whether lines of terms of both operands can be copied as they lie."""
    runs = (p.run("left", ACCESS), 2), (p.run("right", ACCESS), 1)
    return all(run is not None and run.axis == term for run, term in runs)


def _length(p: Problem) -> int:
    """Return the terms of a line of shared memory."""
    return LINE_BYTES // p.operands["left"].value.dtype.nbytes


def _is_narrow(p: Problem) -> bool:
    """Return whether operands are rounded to tf32: such are multiplied by lines of terms alone."""
    return p.operands["left"].value.dtype is DType.F32


def _ahead(values: Values) -> int:
    """Return how many tiles are on their way while one is multiplied."""
    return values["stages"] - values["free"]


def _pays(values: Values) -> bool:
    """Return whether the values suit each other, so far as times of an H200 tell.

    Threads take turns, for 5 to 7 %, where no other block hides the fences, and can where only two
    tiles are under way.  Of tiles with 192 rows or columns only the largest pay.
    """
    height, width, apart = values["height"], values["width"], values["apart"]
    turns = height * width >= 1 << 15 and values["free"] == apart == _ahead(values)
    return (apart == 1 or turns) and (192 not in (height, width) or height + width == 192 + 256)


def block(asked: Asked, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes of its tiles."""
    groups, rest = divmod(values["height"], values["tall"])
    sums, threads = values["tall"] // ROWS * values["width"] // 2, GROUP * groups
    others = OTHERS + ROUNDING * _is_narrow(_problem(asked))
    most = min(asked.target.registers, REGISTERS // max(1, threads)) - others
    if rest or sums > most or threads > MOST_THREADS or not _pays(values):
        threads = 0
    tiles = values["stages"] * (values["height"] + values["width"]) * LINE * 2
    return threads, tiles + groups * PART


def cost(asked: Asked, values: Values) -> float:
    """Estimate the time of a kernel, in cycles.

    A multiprocessor multiplies and reads shared memory at the same time.  Other blocks hide the
    barriers, fences and copies of a turn; or the tiles come late that are on their way.
    """
    p, (threads, shared) = _problem(asked), block(asked, values)
    if not threads:
        return float("inf")
    height, width = values["height"], values["width"]
    batch, rows, columns = map(p.expected, p.output.extents)
    tiles = batch * -(-rows // height) * -(-columns // width)
    terms = p.expected(p.operands["left"].extents[2])
    turns = -(-terms // _length(p))
    sums = values["tall"] // ROWS * width // 2
    room = REGISTERS // (threads * (sums + OTHERS))
    processors = asked.target.processors or PROCESSORS
    together = max(1, min(asked.target.dynamic // shared, room, -(-tiles // processors)))
    reads = 2 * LINE * (height + width * (height // ROWS)) / SHARED_A_CYCLE
    products = max(height * width * LINE / PRODUCTS_A_CYCLE, reads)
    between = height * lines(p, "left", ACCESS) + width * lines(p, "right", ACCESS)
    copies = between * 8 * values["apart"] / (2 * LINE * threads)
    rest = SECOND * (2 - values["free"]) + DRAIN * (2 - values["apart"]) + COPY * copies
    nbytes = batch * terms * columns * p.operands["right"].value.dtype.nbytes
    far = rows <= height and nbytes > CACHE  # no other tile reads what one has fetched
    late = (FAR if far else LATENCY) / _ahead(values) / together
    step = max(SHARE * products, (products + BARRIER + rest) / together, late)
    waves = -(-tiles // (processors * together)) * together
    stores = height * width / EPILOGUE + height * width / threads * after(p.followed())
    once = waves * (turns * step + (START + stores) / together)
    return once if values["apart"] == 2 else CROWDED * once


# Fitted to 326 times of an H200: products and bytes in a cycle of a multiprocessor, cycles, and
# results stored in one.
PROCESSORS = 132
PRODUCTS_A_CYCLE, SHARED_A_CYCLE, SHARE = 2048, 81, 1.41
START, LATENCY, BARRIER, SECOND, DRAIN, COPY, EPILOGUE = 2000, 1120, 23, 20, 206, 17, 9
FAR, CACHE = 2500, 50_000_000  # a late tile of what no cache of so many bytes holds, of 4 times
CROWDED = 1.2  # where all threads copy each tile, by 40 later times beside those of ``tma_gemm``


def render(asked: Asked, values: Values, text: Text = TEXT) -> TextKernel:
    """Write the kernel."""
    p = _problem(asked)
    batch, rows, columns = p.output.extents
    down, across = (
        ix.ceildiv(n, ix.index(values[side])) for n, side in ((rows, "height"), (columns, "width"))
    )
    narrow, total = _is_narrow(p), p.output.inputs[3].dtype
    names: dict[str, Given] = {"group": TILES, "ahead": _ahead(values), "narrow": int(narrow),
                               "length": _length(p), "acc": c_type(total),
                               "zero": literal(0, total).text}  # fmt: skip
    for name, axes in (("left", ("", "row", "term")), ("right", ("", "term", "column"))):
        run = None if narrow else p.run(name, ACCESS) or pieces(p, name, ACCESS)
        names[f"{name}_by"] = "" if run is None else axes[run.axis]
        names[f"{name}_wide"] = "" if run is not None else _wide(p, name, axes)
        names[f"{name}_pieced"] = int(isinstance(run, Pieces))
    grid = (p.dim(ix.mul(batch, down, across)), 1, 1)
    return text.render(p, values, Launch(grid, (block(asked, values)[0], 1, 1), None, names))


def _wide(p: Problem, name: str, axes: tuple[str, ...]) -> str:
    """Return the axis along which threads load an operand by pieces of a line, to compute of them.

    Of what is rounded to tf32, pieces are of terms alone.
    """
    found = p.loaded(name, _length(p) // PIECES)
    by = "" if found is None else axes[found.run.axis]
    return by if by == "term" or not _is_narrow(p) else ""


_problem = suited(_found)


def best(asked: Asked) -> bool:
    """Return whether the model finds four warps together faster than each alone.

    It was fitted to times of operands of two bytes.  Integers of a byte were timed, too; f32 that
    are rounded were not.
    """
    p = _found(asked)
    suits = p is not None and not _is_narrow(p) and mma.best(asked)
    return suits and is_faster(asked, TEMPLATE, mma.TEMPLATE)


TEMPLATE = Template("wgmma_gemm", space, cost, render, block, best)
