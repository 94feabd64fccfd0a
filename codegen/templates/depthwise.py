"""Convolutions of images whose channels do not mix: a thread slides over some of their places.

A thread computes ``down`` by ``each`` neighbouring places of one channel, and reads each element of
the image once for all the windows that it is in; neighbouring threads have neighbours in memory.
After the direct kernels of P. Zhang, E. Lo and B. Lu, "High Performance Depthwise and Pointwise
Convolutions on Mobile Devices" (AAAI 2020), which keep a tile of results in registers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from didyma.codegen.codegens import Asked, Template, Values
from didyma.codegen.emit.intrinsics import c_type
from didyma.codegen.emit.terms import literal
from didyma.codegen.lower.names import loop_names
from didyma.codegen.templates.language import Given, Launch, Text
from didyma.codegen.templates.problem import Output, Problem, Subgraph, has_plain_symbols
from didyma.codegen.templates.reading import Reading, folds, order
from didyma.codegen.templates.suiting import suited
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.graph import STAGES
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.loop import INDEX, Var
from didyma.refimpl.ir.types import DType

TEXT = Text("depthwise_conv", """\
{% set rows, columns = size("image", 2), size("image", 3) %}
{% set channels = size("image", 1) %}
{% macro tiles(n, by) %}(({{ n }} + {{ by - 1 }}) / {{ by }}){% endmacro %}
{% macro below(i, n, by) %}{% if n is string or n % by %}{{ i }} < {{ n }}{% endif %}{% endmacro %}
{% macro reached(i, n, by, more, step, side) %}
{%- if n is string or n % by -%}
{{ i }} * {{ step }} + {{ more }} < ({{ n }} - 1) * {{ step }} + {{ side }}
{%- endif %}
{%- endmacro %}
{% macro all(a, b) %}{{ a }}{{ " && " if a and b }}{{ b }}{% endmacro %}
{% set across, along = tiles(columns, each), tiles(rows, down) %}
{{ def_kernel("image", "weights") }} {
  const {{ count }} number = blockIdx.x * {{ threads }} + threadIdx.x;
  if (number < {{ size("image", 0) }} * {{ channels }} * {{ along }} * {{ across }}) {
{% if last %}
    const i64 channel = number % {{ channels }};
    const {{ count }} rest = number / {{ channels }};
    const i64 column = rest % {{ across }} * {{ each }};
    const i64 row = rest / {{ across }} % {{ along }} * {{ down }};
    const i64 batch = rest / {{ across }} / {{ along }};
{% else %}
    const i64 column = number % {{ across }} * {{ each }};
    const {{ count }} rest = number / {{ across }};
    const i64 row = rest % {{ along }} * {{ down }};
    const i64 channel = rest / {{ along }} % {{ channels }};
    const i64 batch = rest / {{ along }} / {{ channels }};
{% endif %}
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
    for (u32 u = 0; u < {{ (down - 1) * step_down + high }}; ++u) {
      {{ acc }} line[{{ (each - 1) * step_across + wide }}];
      #pragma unroll
      for (u32 v = 0; v < {{ (each - 1) * step_across + wide }}; ++v) {
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
      const i64 to_row = row + n / {{ each }};
      const i64 to_column = column + n % {{ each }};
      {{ store_output(("batch", "channel", "to_row", "to_column"), "sums[n]",
                      mask=all(below("to_row", rows, down), below("to_column", columns, each))) }}
    }
  }
}
""")  # fmt: skip
SPACE: Mapping[str, tuple[int, ...]] = MappingProxyType({
    "down": (1, 2, 4, 8), "each": (1, 2, 4),
})  # fmt: skip
MOST, THREADS = 16, 128  # places of a thread, and threads of a block
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
    last: bool  # whether the result has its channels last


def space(asked: Asked) -> Mapping[str, tuple[int, ...]] | None:
    """Return the values of the parameters, or None for a function that is no such convolution."""
    return None if _found(asked) is None else SPACE


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
    if not alone or (t.rank, dilations) != (4, (1, 1)) or acc_type not in FLOATS:
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
    most = max(SPACE["down"]), max(SPACE["each"])
    beyond = (
        ix.index((m - 1) * s + k)
        for m, s, k in zip(most, (down, across), (high, wide), strict=True)
    )
    extents = dict(zip((*at, *ks), (*map(ix.of_dim, t.shape), ix.index(1), *beyond), strict=True))
    acc = Var(names.fresh("acc"), acc_type)
    parts = [(ks[0], ix.ZERO)]
    reading = Reading(f, loop, names, types, extents, parts, {n.results[0]: acc})

    sides = {"image": (*at, u, v), "weights": (channel, u, v)}
    operands = {
        name: Subgraph(
            index,
            reading.factor(n, at, ks, weights=name == "weights"),
            tuple(extents[x] for x in index),
        )
        for name, index in sides.items()
    }
    body = reading.stores(tuple(at[a] for a in axes))
    output = Output((*at, acc), body, tuple(extents[x] for x in at))
    problem = Problem(loop, operands, output)
    return Depthwise(problem, (high, wide), (down, across), axes[-1] == 1)


def block(asked: Asked, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes of shared memory, of which there are none."""
    del asked
    return THREADS if values["down"] * values["each"] <= MOST else 0, 0


def cost(asked: Asked, values: Values) -> float:
    """Estimate the time of a kernel, in steps of a thread: an element that it loads is several.

    The more places a thread has along a row, the farther apart is what neighbours load at once; and
    of a short row, neighbours load in several rows.  Many loads of a thread need many registers.
    """
    d, (threads, _) = _problem(asked), block(asked, values)
    if not threads:
        return float("inf")
    batch, channels, rows, columns = map(d.problem.expected, d.problem.output.extents)
    down, each, (high, wide) = values["down"], values["each"], d.window
    tiles = -(-rows // down) * -(-columns // each)
    lines, line = (down - 1) * d.strides[0] + high, (each - 1) * d.strides[1] + wide
    if d.last:
        apart = math.pow(each, SPREAD_LAST)
    else:
        apart = math.pow(each, SPREAD) * math.sqrt(max(1.0, asked.target.warp * each / columns))
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
LOAD, BEGIN, SPREAD, SPREAD_LAST, MANY = 2, 15, 0.1, 0.55, 1.25


def render(asked: Asked, values: Values, text: Text = TEXT) -> TextKernel:
    """Write the kernel."""
    d = _problem(asked)
    batch, channels, rows, columns = d.problem.output.extents
    down, across = (
        ix.ceildiv(n, ix.index(values[by])) for n, by in ((rows, "down"), (columns, "each"))
    )
    tiles = d.problem.dim(ix.mul(batch, channels, down, across))
    grid = d.problem.dim(ix.ceildiv(ix.mul(batch, channels, down, across), ix.index(THREADS)))
    dtype = d.problem.output.inputs[-1].dtype
    names: dict[str, Given] = {
        "acc": c_type(dtype), "zero": literal(0, dtype).text, "last": int(d.last),
        "count": "u32" if isinstance(tiles, int) and tiles < 1 << 31 else "i64",
        "high": d.window[0], "wide": d.window[1],
        "step_down": d.strides[0], "step_across": d.strides[1], "threads": THREADS,
    }  # fmt: skip
    launch = Launch((grid, 1, 1), (THREADS, 1, 1), None, names)
    return text.render(d.problem, values, launch)


_problem = suited(_found)


def best(asked: Asked) -> bool:
    """Return whether it suits: each element is then loaded less often than by other kernels."""
    return _found(asked) is not None


TEMPLATE = Template("depthwise_conv", space, cost, render, block, best)
