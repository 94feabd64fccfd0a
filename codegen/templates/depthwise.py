"""Convolutions of images whose channels do not mix: a thread slides over some of their places.

A thread computes ``down`` by ``each`` neighbouring places of one channel, and reads each element of
the image once for all the windows that it is in; neighbouring threads have neighbours in memory.

Where channels lie last in memory (``LAST``), a thread has ``lanes`` of them, which it loads and
stores by one access, and goes down the rows: it adds each row to the sums of all places whose
windows it is in, which are few, and stores those that are complete.  The weights of a block come to
shared memory first.

After the direct kernels of P. Zhang, E. Lo and B. Lu, "High Performance Depthwise and Pointwise
Convolutions on Mobile Devices" (AAAI 2020), which keep a tile of results in registers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from didyma.codegen.codegens import Asked, Template, Values
from didyma.codegen.emit.intrinsics import c_type, components
from didyma.codegen.emit.terms import literal
from didyma.codegen.lower.names import loop_names
from didyma.codegen.templates.language import Given, Launch, Text
from didyma.codegen.templates.problem import Output, Problem, Subgraph, has_plain_symbols
from didyma.codegen.templates.reading import Reading, folds, order
from didyma.codegen.templates.suiting import suited
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.graph import STAGES
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.loop import INDEX, Expr, Var
from didyma.refimpl.ir.types import DType

MACROS = """\
{% macro tiles(n, by) %}(({{ n }} + {{ by - 1 }}) / {{ by }}){% endmacro %}
{% macro below(i, n, by) %}{% if n is string or n % by %}{{ i }} < {{ n }}{% endif %}{% endmacro %}
{% macro reached(i, n, by, more, step, side) %}
{%- if n is string or by == 0 or n % by -%}
{{ i }} * {{ step }} + {{ more }} < ({{ n }} - 1) * {{ step }} + {{ side }}
{%- endif %}
{%- endmacro %}
{% macro all(a, b) %}{{ a }}{{ " && " if a and b }}{{ b }}{% endmacro %}
"""
TEXT = Text("depthwise_conv", MACROS + """\
{% set rows, columns = size("image", 2), size("image", 3) %}
{% set channels = size("image", 1) %}
{% set across, along = tiles(columns, each), tiles(rows, down) %}
{{ def_kernel("image", "weights") }} {
  const {{ count }} number = ({{ count }})blockIdx.x * {{ threads }} + threadIdx.x;
  if (number < {{ size("image", 0) }} * {{ channels }} * {{ along }} * {{ across }}) {
    const {{ count }} column = number % {{ across }} * {{ each }};
    const {{ count }} rest = number / {{ across }};
    const {{ count }} row = rest % {{ along }} * {{ down }};
    const {{ count }} channel = rest / {{ along }} % {{ channels }};
    const {{ count }} batch = rest / {{ along }} / {{ channels }};
    {{ acc }} taps[{{ high * wide }}];
    {{ acc }} sums[{{ down * each }}];
    #pragma unroll
    for (u32 n = 0; n < {{ high * wide }}; ++n) {
      {{ load("weights", "tap", ("channel", "n / %d" % wide, "n %% %d" % wide)) }}
      taps[n] = tap;
    }
    #pragma unroll
    for (u32 n = 0; n < {{ down * each }}; ++n) {
      sums[n] = {{ zero }};
    }
    #pragma unroll
    for ({{ count }} u = 0; u < {{ (down - 1) * step_down + high }}; ++u) {
      {{ acc }} line[{{ (each - 1) * step_across + wide }}];
      #pragma unroll
      for ({{ count }} v = 0; v < {{ (each - 1) * step_across + wide }}; ++v) {
        {{ load("image", "element", ("batch", "channel", "row", "column", "u", "v"),
                all(reached("row", rows, down, "u", step_down, high),
                    reached("column", columns, each, "v", step_across, wide))) }}
        line[v] = element;
      }
      #pragma unroll
      for (u32 n = 0; n < {{ down * each }}; ++n) {
        #pragma unroll
        for (u32 y = 0; y < {{ high }}; ++y) {
          if (n / {{ each }} * {{ step_down }} + y == u) {
            #pragma unroll
            for (u32 x = 0; x < {{ wide }}; ++x) {
              sums[n] = sums[n] + line[n % {{ each }} * {{ step_across }} + x]
                  * taps[y * {{ wide }} + x];
            }
          }
        }
      }
    }
    #pragma unroll
    for (u32 n = 0; n < {{ down * each }}; ++n) {
      const {{ count }} to_row = row + n / {{ each }};
      const {{ count }} to_column = column + n % {{ each }};
      {{ store_output(("batch", "channel", "to_row", "to_column"), "sums[n]",
                      mask=all(below("to_row", rows, down), below("to_column", columns, each))) }}
    }
  }
}
""")  # fmt: skip
LAST = Text("depthwise_conv", MACROS + """\
{% set rows, columns = size("image", 2), size("image", 3) %}
{% set channels, taps, all_lanes = size("image", 1), high * wide, span * lanes %}
{% set own_taps = taps * lanes %}
{% set rounds = (own_taps * span + threads - 1) // threads %}
{% set line = (each - 1) * step_across + wide %}
{% set open = (high + step_down - 1) // step_down %}
{% set period, total = open * step_down, (down - 1) * step_down + high %}
{% set past = total % period %}
{% set across, along = tiles(columns, each), tiles(rows, down) %}
{{ def_kernel("image", "weights") }} {
  __shared__ {{ acc }} shared_taps[{{ (own_taps + 1) * span }}];
  const {{ count }} parts = {{ tiles(channels, all_lanes) }};
  const {{ count }} begin = blockIdx.x % parts * {{ all_lanes }};
  {{ acc }} held[{{ rounds }}];
  #pragma unroll
  for (u32 i = 0; i < {{ rounds }}; ++i) {
    const {{ count }} n = begin * {{ taps }} + threadIdx.x + i * {{ threads }};
    const {{ count }} place = n < {{ channels }} * {{ taps }} ? n : 0;
    {{ load("weights", "tap", "place") }}
    held[i] = tap;
  }
  #pragma unroll
  for (u32 i = 0; i < {{ rounds }}; ++i) {
    const u32 n = threadIdx.x + i * {{ threads }};
    if (n < {{ own_taps * span }}) {
      shared_taps[n + n / {{ own_taps }}] = held[i];
    }
  }
  __syncthreads();
  const {{ count }} number = blockIdx.x / parts * {{ threads // span }} + threadIdx.x / {{ span }};
  const {{ count }} channel = begin + threadIdx.x % {{ span }} * {{ lanes }};
  if ({{ all("number < %s * %s * %s" % (size("image", 0), along, across),
             below("channel", channels, all_lanes)) }}) {
    const {{ count }} column = number % {{ across }} * {{ each }};
    const {{ count }} row = number / {{ across }} % {{ along }} * {{ down }};
    const {{ count }} batch = number / {{ across }} / {{ along }};
    {{ acc }} taps[{{ own_taps }}];
    {{ acc }} sums[{{ open * each * lanes }}];
    #pragma unroll
    for (u32 n = 0; n < {{ own_taps }}; ++n) {
      taps[n] = shared_taps[threadIdx.x % {{ span }} * {{ own_taps + 1 }} +
                            n % {{ lanes }} * {{ taps }} + n / {{ lanes }}];
    }
    #pragma unroll
    for (u32 n = 0; n < {{ open * each * lanes }}; ++n) {
      sums[n] = {{ zero }};
    }
    #pragma unroll 1
    for ({{ count }} first = 0; first < {{ total }}; first = first + {{ period }}) {
      #pragma unroll
      for ({{ count }} i = 0; i < {{ period }}; ++i) {
        const {{ count }} u = first + i;
        {{ acc }} line[{{ line * lanes }}];
        #pragma unroll
        for ({{ count }} v = 0; v < {{ line }}; ++v) {
{% set reach = all(reached("row", rows, 0 if past else down, "u", step_down, high),
                   reached("column", columns, each, "v", step_across, wide)) %}
{% if lanes > 1 %}
          {{ load_run("image", "several", ("batch", "channel", "row", "column", "u", "v"),
                      lanes, reach) }}
{% for part in fields.split() %}
          line[v * {{ lanes }} + {{ loop.index0 }}] = several.{{ part }};
{% endfor %}
{% else %}
          {{ load("image", "element", ("batch", "channel", "row", "column", "u", "v"), reach) }}
          line[v] = element;
{% endif %}
        }
        #pragma unroll
        for ({{ count }} j = 0; j < {{ open }}; ++j) {
          const {{ count }} y = i % {{ step_down }} + j * {{ step_down }};
          const {{ count }} slot = (i / {{ step_down }} + {{ open }} - j) % {{ open }};
          if (y < {{ high }}) {
            #pragma unroll
            for (u32 n = 0; n < {{ each * wide * lanes }}; ++n) {
              const u32 lane = n % {{ lanes }};
              const u32 c = n / {{ lanes }} % {{ each }};
              const u32 x = n / {{ each * lanes }};
              const u32 to = (slot * {{ each }} + c) * {{ lanes }} + lane;
              sums[to] = sums[to] + line[(c * {{ step_across }} + x) * {{ lanes }} + lane]
                  * taps[(y * {{ wide }} + x) * {{ lanes }} + lane];
            }
          }
          if (y == {{ high - 1 }}) {
            const {{ count }} done = first / {{ step_down }} + i / {{ step_down }} - j;
            const {{ count }} to_row = row + done;
            #pragma unroll
            for ({{ count }} c = 0; c < {{ each }}; ++c) {
              const {{ count }} to_column = column + c;
{% set within = all("done >= 0 && done < %d" % down,
                    all(below("to_row", rows, down), below("to_column", columns, each))) %}
{% if lanes > 1 %}
              {{ acc }} every[{{ lanes }}];
              #pragma unroll
              for (u32 lane = 0; lane < {{ lanes }}; ++lane) {
                every[lane] = sums[(slot * {{ each }} + c) * {{ lanes }} + lane];
              }
              {{ store_outputs(("batch", "to_row", "to_column", "channel"), "every",
                               mask=within, lanes=lanes) }}
{% else %}
              {{ store_output(("batch", "to_row", "to_column", "channel"),
                              "sums[slot * %d + c]" % each, mask=within) }}
{% endif %}
            }
            #pragma unroll
            for (u32 n = 0; n < {{ each * lanes }}; ++n) {
              sums[slot * {{ each * lanes }} + n] = {{ zero }};
            }
          }
        }
      }
    }
  }
}
""")  # fmt: skip
SPACE: Mapping[str, tuple[int, ...]] = MappingProxyType({
    "down": (1, 2, 4, 8), "each": (1, 2, 4), "lanes": (1,),
})  # fmt: skip
LAST_SPACE: Mapping[str, tuple[int, ...]] = MappingProxyType({
    "down": (4, 7, 14, 28, 56), "each": (1, 2, 4), "lanes": (1, 2, 4, 8),
})  # fmt: skip
MOST, THREADS = 16, 128  # places of a thread, and threads of a block
TAPS, HELD = 112, 192  # weights of a thread, and those with the sums that it needs at once
SPAN = 32  # threads of a block that have neighbouring channels, at most
MOST_LOADS = 100  # by indices in i32, among which NVRTC puts branches if they are more
SMALL = 1 << 28  # elements of arrays whose places i32 counts, with those of a border
FLOATS = (DType.F32, DType.F64)  # in which sums are


@dataclass(frozen=True, slots=True)
class Depthwise:
    """A convolution of images as a problem: operands ``image`` and ``weights``.

    The image has the axes batch, channel, row and column of the result, and row and column in the
    window; these may go on beyond the ``window``, to what windows further on begin with.
    """

    problem: Problem
    window: tuple[int, int]
    strides: tuple[int, int]
    last: bool  # whether the result has its channels last, which the index of the output then has

    @property
    def sizes(self) -> tuple[Expr, Expr, Expr, Expr]:
        """How many images, channels, rows and columns there are."""
        batch, *rest = self.problem.output.extents
        channels, rows, columns = (rest[2], *rest[:2]) if self.last else rest
        return batch, channels, rows, columns

    def span(self, lanes: int) -> int:
        """Return how many threads of a block have neighbouring channels, of so many each."""
        channels = self.problem.dim(self.sizes[1])
        if not isinstance(channels, int):
            return SPAN
        pieces = -(-channels // lanes)
        whole = (n for n in range(SPAN, SPAN // 4, -1) if pieces % n == 0)
        return next(whole, min(pieces, SPAN))


def space(asked: Asked) -> Mapping[str, tuple[int, ...]] | None:
    """Return the values of the parameters, or None for a function that is no such convolution."""
    d = _found(asked)
    return None if d is None else LAST_SPACE if d.last else SPACE


def _found(asked: Asked) -> Depthwise | None:
    return asked.once(_depthwise)


def _depthwise(asked: Asked) -> Depthwise | None:
    f, loop = asked.function, asked.loop
    n = next((n for n in f.nodes if n.op == "conv"), None)
    if n is None or STAGES in f.attr or not has_plain_symbols(loop):
        return None
    types, defs = f.types(), {r: n for n in f.nodes for r in n.results}
    if folds(defs, (*n.args, *f.results), n.results) or (axes := order(f, n)) is None:
        return None
    t, acc_type = n.types[0], n.types[0].dtype.compute
    groups, dilations, strides = (n.attr[x] for x in ("groups", "dilations", "strides"))
    _, read, *window = types[n.args[1]].shape
    alone = (t.shape[1], read) == (groups, 1)
    if not alone or (t.rank, dilations) != (4, (1, 1)) or acc_type not in FLOATS or 0 in t.shape:
        return None
    match window, strides:
        case [int(high), int(wide)], (int(down), int(across)):
            pass
        case _:
            return None
    names = loop_names([*(b.name for b in loop.params), *(d.name for d in loop.dims)])
    words = ("batch", "channel", "row", "column", "u", "v")
    batch, channel, row, column, u, v = (Var(names.fresh(w), INDEX) for w in words)
    at, ks = (batch, channel, row, column), (Var(names.fresh("k"), INDEX), u, v)
    last = axes[-1] == 1
    most = max((LAST_SPACE if last else SPACE)["down"]), max(SPACE["each"])
    beyond = (
        ix.index((m - 1) * s + 2 * k + s)  # LAST has whole periods
        for m, s, k in zip(most, (down, across), (high, wide), strict=True)
    )
    extents = dict(zip((*at, *ks), (*map(ix.of_dim, t.shape), ix.index(1), *beyond), strict=True))
    acc = Var(names.fresh("acc"), acc_type)
    parts = [(ks[0], ix.ZERO)]
    reading = Reading(f, loop, names, types, extents, parts, {n.results[0]: acc})

    own = {u: ix.index(high), v: ix.index(wide)}  # places of a window
    sides = {"image": ((*at, u, v), extents), "weights": ((channel, u, v), {**extents, **own})}
    operands = {
        name: Subgraph(
            index,
            reading.factor(n, at, ks, weights=name == "weights"),
            tuple(to[x] for x in index),
        )
        for name, (index, to) in sides.items()
    }
    body = reading.stores(tuple(at[a] for a in axes))
    to = (batch, row, column, channel) if last else at
    output = Output((*to, acc), body, tuple(extents[x] for x in to))
    problem = Problem(loop, operands, output)
    return Depthwise(problem, (high, wide), (down, across), last)


def block(asked: Asked, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes of shared memory, in which are the weights."""
    d, lanes, each = _problem(asked), values["lanes"], values["each"]
    if not d.last:
        return THREADS if values["down"] * each <= MOST else 0, 0
    taps, dtype = math.prod(d.window), d.problem.output.inputs[-1].dtype
    held = -(-d.window[0] // d.strides[0]) * each + taps
    if lanes > 1 and not (_is_wide(d, lanes) and taps * lanes <= TAPS and held * lanes <= HELD):
        return 0, 0
    span = d.span(lanes)
    return THREADS // span * span, (taps * lanes + 1) * span * dtype.nbytes


def _is_wide(d: Depthwise, lanes: int) -> bool:
    """Return whether so many channels are loaded and stored together."""
    found = d.problem.loaded("image", lanes)
    return found is not None and found.run.axis == 1 and d.problem.stored(lanes) is not None


def cost(asked: Asked, values: Values) -> float:
    """Estimate the time of a kernel, in steps of a thread: an element that it loads is several.

    The more places a thread has along a row, the farther apart is what neighbours load at once; and
    of a short row, neighbours load in several rows.  Many loads of a thread need many registers.
    """
    d, (threads, _) = _problem(asked), block(asked, values)
    if not threads:
        return float("inf")
    batch, channels, rows, columns = map(d.problem.expected, d.sizes)
    down, each, (high, wide) = values["down"], values["each"], d.window
    tiles = -(-rows // down) * -(-columns // each)
    lines, line = (down - 1) * d.strides[0] + high, (each - 1) * d.strides[1] + wide
    if d.last:
        lanes, opened = values["lanes"], -(-high // d.strides[0])
        period = opened * d.strides[0]
        steps = -(-lines // period) * period * line * (lanes + LOADED)
        held = min(255, (high * wide + opened * each + LINES * line) * lanes)
        warps = batch * -(-channels // lanes) * tiles / asked.target.warp
        running = warps / (asked.target.processors or PROCESSORS)
        hiding = min(running, REGISTERS / held) or 1.0  # of no results at all
        slow = (lanes > 1) + (each > FEW) + (down >= rows) if high * wide > SMALL_WINDOW else 0
        return warps * steps * SLOW**slow / math.pow(hiding, HIDING)
    apart = math.pow(each, SPREAD) * math.sqrt(max(1.0, asked.target.warp * each / max(1, columns)))
    loads = math.pow(lines * line, MANY) + down * each
    step = BEGIN + LOAD * (high * wide + apart * loads)
    step += down * each * high * wide
    lanes = (asked.target.processors or PROCESSORS) * LANES
    waves = max(1.0, batch * channels * tiles / lanes)
    return waves * step


# Of a device of which nothing is known; threads of a multiprocessor that hide what others wait for;
# fitted to 52 times of six layers on an H200: steps of a load and of what each thread begins with,
# and powers of the places along a row, and of the loads.
PROCESSORS, LANES = 132, 512
LOAD, BEGIN, SPREAD, MANY = 2, 15, 0.1, 1.25
# Where channels are last, to 93 times of these layers: what a load costs beside its lanes; the
# registers of each lane of a multiprocessor's warps, and those of a thread for an element of a
# line; and the power of the warps that hide what others wait for.
LOADED, REGISTERS, LINES, HIDING = 3, 2048, 5, 0.6
# Larger windows take so many times as long for each of these: several channels of a thread, more
# than a few places along a row, and all rows; of 72 times of four layers with windows of 7 by 7.
SMALL_WINDOW, FEW, SLOW = 25, 2, 1.7


def render(asked: Asked, values: Values, text: Text | None = None) -> TextKernel:
    """Write the kernel."""
    d, lanes, (threads, _) = _problem(asked), values["lanes"], block(asked, values)
    batch, channels, rows, columns = d.sizes
    down, across = (
        ix.ceildiv(n, ix.index(values[by])) for n, by in ((rows, "down"), (columns, "each"))
    )
    span, tiles = d.span(lanes), ix.mul(batch, down, across)
    if d.last:
        parts = ix.ceildiv(channels, ix.index(span * lanes))
        grid = d.problem.dim(ix.mul(ix.ceildiv(tiles, ix.index(threads // span)), parts))
    else:
        grid = d.problem.dim(ix.ceildiv(ix.mul(tiles, channels), ix.index(threads)))
    dtype = d.problem.output.inputs[-1].dtype
    names: dict[str, Given] = {
        "acc": c_type(dtype), "zero": literal(0, dtype).text,
        "count": "i32" if _is_small(d) and (d.last or _loads(d, values) <= MOST_LOADS) else "i64",
        "span": span,
        "fields": " ".join(components(lanes)) if lanes > 1 else "",
        "high": d.window[0], "wide": d.window[1],
        "step_down": d.strides[0], "step_across": d.strides[1], "threads": threads,
    }  # fmt: skip
    launch = Launch((grid, 1, 1), (threads, 1, 1), None, names)
    return (text or (LAST if d.last else TEXT)).render(d.problem, values, launch)


def _loads(d: Depthwise, values: Values) -> int:
    """Return how many elements of the image a thread loads."""
    sides = zip((values["down"], values["each"]), d.strides, d.window, strict=True)
    return math.prod((n - 1) * step + side for n, step, side in sides)


def _is_small(d: Depthwise) -> bool:
    """Return whether i32 counts all places of its arrays, and those beside them."""
    shapes = [b.shape for b in d.problem.loop.params]
    known = all(isinstance(n, int) for shape in shapes for n in shape)
    return known and max(math.prod(map(int, shape)) for shape in shapes) < SMALL


_problem = suited(_found)


def best(asked: Asked) -> bool:
    """Return whether it suits: each element is then loaded less often than by other kernels."""
    return _found(asked) is not None


TEMPLATE = Template("depthwise_conv", space, cost, render, block, best)
