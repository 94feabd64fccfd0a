"""Kernels whose blocks stay for many tiles, while threads of their own fetch what others multiply.

``RING`` and ``TAKING`` are macros that their texts begin with.  The rest is what attention and
weighted sums by groups of four warps have in common: a block has ``height`` rows, of which each
group has 64, and four warps that fetch, and look for values that are not finite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from didyma.codegen.codegens import Asked, Values
from didyma.codegen.templates.boxes import maps
from didyma.codegen.templates.language import Given, Launch, Text
from didyma.codegen.templates.problem import Problem
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.group_products import GROUP, ROWS
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.loop import Buffer, Expr
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.types import DType

RING = """\
{% macro next_stage() %}
        stage = stage + 1;
        if (stage == {{ stages }}) {
          stage = 0;
          phase = phase ^ 1;
        }
{% endmacro %}
"""
# The thread that fetches writes a tile to ``next_tile``, and all others wait for it.  Where tiles
# take times that differ, blocks claim the next one each: those that run together are of batches
# whose columns the cache holds.  Where memory tells what rows see, as of sequences that lie one
# behind the other, rows see few columns, and tiles of all batches and of both halves run together.
TAKING = """\
{% macro arrive(barrier) %}
        if (lane == 0) {
          mbarrier_arrive({{ barrier }});
        }
{% endmacro %}
{% macro take_tile() %}
      mbarrier_wait(&others[0], taken);
      taken = taken ^ 1;
      batch = next_tile[0];
{% endmacro %}
{% macro begin_group() %}
    setmaxnreg_inc({{ more }});
    const u32 mine = threadIdx.x / 128 - 1;
    const u32 warp = threadIdx.x / 32 % 4;
    const u32 upper = mine * 64 + warp * 16;
    u32 stage = 0;
    u32 phase = 0;
    u32 taken = 0;
    i64 batch = 0;
{%- endmacro %}
{% macro find_section(length) %}
{% if ranged %}
      const i32 section = {{ batches }};
{% else %}
      const i32 fit = {{ near }} / (((i64){{ columns }} + 1) * {{ length }}) + 1;
      const i32 section = fit < {{ batches }} ? fit : {{ batches }};
{% endif %}
{% endmacro %}
{% macro find_place(falling, above="") %}
        const i32 begun = number / (section * down) * section;
        const i32 together = section < {{ batches }} - begun ? section : {{ batches }} - begun;
        const i32 within = number - begun * down;
        const i64 batch = begun + within % together;
{% if ranged %}
        const i32 nth = within / together;
        const i32 half = down / 2;
        const i64 place = nth < half * 2 ? half - 1 - nth / 2 + (1 - nth % 2) * half : nth;
{% else %}
        const i64 place = {{ "down - 1 - " if falling }}within / together;
{% endif %}
        const i64 top = place * {{ height }}{{ above }};
{% endmacro %}
"""
PROCESSORS = 132  # of an H200
NEAR = 1 << 24  # elements of keys and values that the cache of all multiprocessors holds
CHECKERS = GROUP // 2  # threads that look at values
REGISTERS = 1 << 16  # of a multiprocessor
FEWER = (48, 40, 32, 24)  # of a thread that fetches: the first that fits
BARRIERS = 192  # bytes
PRODUCTS_A_CYCLE, POWERS_A_CYCLE, FETCHED_A_CYCLE = 2048, 12, 57
TURN, START = 650, 2000  # cycles of a tile of columns, and of one of rows


def threads(values: Values) -> int:
    """Return the threads of a block: beside those that multiply, four warps fetch and look."""
    return GROUP * (values["height"] // ROWS + 1)


def registers(values: Values) -> tuple[int, int]:
    """Return the registers of a thread that fetches, and of one that multiplies.

    They share what a block of so many threads is launched with.
    """
    groups = values["height"] // ROWS
    whole = REGISTERS // threads(values) // 8 * 8 * (groups + 1)
    fewer = next(n for n in FEWER if (whole - n) % (8 * groups) == 0)
    return fewer, (whole - fewer) // groups


def rendered(
    text: Text,
    p: Problem,
    asked: Asked,
    values: Values,
    names: Mapping[str, Given],
    chain: Expr,
    boxes: Mapping[str, int],
    sums: int = 1,
) -> TextKernel:
    """Return the kernel that a text with these macros gives.

    ``names`` are ``checkers``, the threads that look at values, and what else the text uses;
    ``boxes`` the rows of a box of each operand that is fetched, and ``sums`` counts the operands
    that threads look at.
    """
    checkers = names["checkers"]
    fewer, more = registers(values)
    batch, rows, _ = p.output.extents
    processors = asked.target.processors or PROCESSORS
    tiles = ix.mul(batch, ix.ceildiv(rows, ix.index(values["height"])))
    taken = Names(b.name for b in p.loop.params)
    workspace = dict[str, Buffer]()
    if checkers:
        count: Dim = p.dim(ix.add(ix.mul(ix.index(3 * sums), batch), ix.index(1)))
        workspace["known"] = Buffer(taken.fresh("known"), DType.I32, (count,))
    launch = Launch(
        (p.dim(ix.minimum(tiles, ix.index(processors))), 1, 1), (threads(values), 1, 1),
        p.dim(chain), {**names, "fewer": fewer, "more": more, "near": NEAR}, workspace,
        (*workspace,), maps=maps(p, boxes),
    )  # fmt: skip
    bodies = {name: body for name, body in p.bodies.items() if checkers or name != "seen"}
    return text.render(replace(p, bodies=bodies), values, launch)
