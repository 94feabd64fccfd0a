"""Boxes of the operands of a product, which threads fetch by TMA and four warps multiply.

``FETCH`` are macros that a text begins with.  A box has 64 terms of some rows or columns; or, of an
operand that lies in lines of rows or columns, 64 of these of some terms.  A block describes its
operands in a workspace.  That takes a while, in which ``copiers`` threads may copy stages piece by
piece (``copy``), as a box has them.
"""

from __future__ import annotations

from didyma.codegen.codegens import Asked, Values
from didyma.codegen.templates.hooks import ACCESS
from didyma.codegen.templates.language import Given
from didyma.codegen.templates.mma import narrowed
from didyma.codegen.templates.problem import Problem, Run
from didyma.codegen.templates.writer import size
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.group_products import LINE
from didyma.refimpl.ir.types import DType

FETCH = """\
{% macro below(i, n, by) %}{% if n is string or n % by %}{{ i }} < {{ n }}{% endif %}{% endmacro %}
{% macro all(a, b) %}{{ a }}{{ " && " if a and b }}{{ b }}{% endmacro %}
{% macro describe(name, at, side, extent, by, batch, step, far) %}
    tensor_map3_{{ T }}(&maps[blockIdx.x * {{ words }} + {{ at }}],
        {{ address(name, ("0", "0", "0")) }},
        {{ "%s, %s" % ((terms, extent) if by == "term" else (extent, terms)) }},
        {{ batches if batch == "batch" else 1 }}, {{ step }}, {{ far }},
        {{ side if by == "term" else 64 }});
{% endmacro %}
{% macro fetch(name, at, side, start, by, batch, turn) %}
{% if by == "term" %}
            tma_load3_{{ T }}(&{{ name }}_tile[stage * {{ side * 64 }}],
                &maps[blockIdx.x * {{ words }} + {{ at }}], {{ turn }} * 64, {{ start }},
                {{ batch }}, &full[stage]);
{% else %}
{% for panel in range(side // 64) %}
            tma_load3_{{ T }}(&{{ name }}_tile[stage * {{ side * 64 }} + {{ panel * 4096 }}],
                &maps[blockIdx.x * {{ words }} + {{ at }}], {{ start }} + {{ panel * 64 }},
                {{ turn }} * 64, {{ batch }}, &full[stage]);
{% endfor %}
{% endif %}
{% endmacro %}
{% macro copy(name, side, start, other, by, extent, index) %}
{% set inside = all(below(other, extent, side), below("term", terms, 64)) %}
        #pragma unroll 4
        for (u32 n = threadIdx.x % {{ copiers }}; n < {{ side * 8 }}; n = n + {{ copiers }}) {
{% if by == "term" %}
          const u32 line = n / 8;
          const i64 {{ other }} = {{ start }} + line;
          const i64 term = stage * 64 + n % 8 * 8;
{% else %}
          const u32 line = n / 512 * 64 + n / 8 % 64;
          const i64 {{ other }} = {{ start }} + n / 512 * 64 + n % 8 * 8;
          const i64 term = stage * 64 + n / 8 % 64;
{% endif %}
          cp_async16_zfill_{{ T }}(
              &{{ name }}_tile[stage * {{ side * 64 }} + line * 64 + (n % 8 ^ line % 8) * 8],
              {{ address(name, index) }}, {{ inside + " ? 8 : 0" if inside else "8" }});
        }
{% endmacro %}
"""
NEEDED = {"wgmma", "tma", "mbarrier", "cp_async"}  # families
RIGHT_COLUMN = 2  # the axis of the right operand that is of columns


def found(asked: Asked) -> Problem | None:
    """Return the product of 16-bit floats in runs of 16 bytes that a function is, or None."""
    product = narrowed(asked) if {*asked.target.families} >= NEEDED else None
    if product is None or product[1].operands not in (DType.F16, DType.BF16):
        return None
    p, _ = product
    return p if all(p.run(name, ACCESS) is not None for name in p.operands) else None


def span(p: Problem, values: Values) -> int:
    """Return the columns of a tile that are fetched: whole lines, where lines have columns."""
    run = p.run("right", ACCESS)
    by = LINE if run is not None and run.axis == RIGHT_COLUMN else 1
    return -(-values["width"] // by) * by


def lies(p: Problem) -> dict[str, Given]:
    """Return how both operands lie: their axes of neighbours, and the strides of the others.

    One that all batches share is an array of one.
    """
    names: dict[str, Given] = {}
    for name, axes in (("left", ("", "row", "term")), ("right", ("", "term", "column"))):
        run = p.run(name, ACCESS)
        assert run is not None, f"{name} does not lie in runs"
        names |= {f"{name}_by": axes[run.axis], **strides(p, name, run)}
    return names


def strides(p: Problem, name: str, run: Run) -> dict[str, Given]:
    """Return the strides of an array by names that begin with its own."""
    far, steps = run.steps[0], [size(e, p.loop) for e in run.steps]
    shared = far == ix.index(0) or p.output.extents[0] == ix.index(1)
    return {
        f"{name}_step": steps[3 - run.axis],
        f"{name}_batch": "0" if shared else "batch",
        f"{name}_far": ACCESS if shared else steps[0],
    }
