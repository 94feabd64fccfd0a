"""The faults: each is one change of one place, with the levels that may be named first.

A fault in a rule that two levels share is named by the first of them.  Where a plan is broken, the
laws of programs may refuse it while it is made: that is the level ``plan`` too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """``old`` becomes ``new`` in ``file``; a campaign on ``engine`` must name one of ``levels``.

    Graphs without any of ``ops``, if some are named, cannot show the fault.
    """

    name: str
    file: str
    old: str
    new: str
    levels: tuple[str, ...]
    engine: str = "host"
    ops: tuple[str, ...] = ()


PLAN = ("plan",)

FAULTS: tuple[Fault, ...] = (
    Fault(
        "a live range ended one step early",
        "codegen/memory/liveness.py",
        "start, end = spans[uses.first][0], spans[uses.last][1]",
        "start, end = spans[uses.first][0], spans[uses.last][1] - (uses.last > uses.first)",
        PLAN,
    ),
    Fault(
        "a view's lifetime ignored",
        "codegen/memory/liveness.py",
        "if owner in self.borrowed or owner in self.outputs:",
        "if owner in self.borrowed or owner in self.outputs or value in self.root:",
        PLAN,
    ),
    Fault(
        "a view of a view forgotten",
        "codegen/memory/liveness.py",
        "found[line.value] = found.get(line.of, line.of)",
        "found[line.value] = line.of",
        PLAN,
    ),
    Fault(
        "what a call reads thought dead",
        "refimpl/ir/lines.py",
        "        case ir.Extern(_, outputs, inputs) | ir.Call(_, outputs, inputs):\n",
        "        case ir.Call(_, outputs):\n            return outputs\n"
        "        case ir.Extern(_, outputs, inputs):\n",
        PLAN,
    ),
    Fault(
        "a size not handed to a function",
        "codegen/emit/program_lines.py",
        "asked = (s for s in sizes if self._asked(s))",
        "asked = (s for s in sizes[1:] if self._asked(s))",
        ("host",),
    ),
    Fault(
        "a buffer taken over by a larger one",
        "codegen/memory/planners.py",
        "and sizes.fits(b.type, storage[free[k].name])",
        "and sizes.fits(storage[free[k].name], b.type)",
        PLAN,
    ),
    Fault(
        "a missing barrier in a schedule",
        "codegen/schedule/reduction.py",
        "            Barrier(),\n            *combined(",
        "            *combined(",
        ("kernel",),
    ),
    Fault(
        "a missing barrier in the text, on host",
        "codegen/emit/statements.py",
        'line("__syncthreads();")',
        "pass",
        ("host",),
    ),
    Fault(
        "a missing barrier in the text, on simt",
        "codegen/emit/statements.py",
        'line("__syncthreads();")',
        "pass",
        ("simt",),
        "simt",
    ),
    Fault(
        "an index off by one at the tail",
        "codegen/schedule/nest.py",
        'return [ix.compare("lt", v, size)]',
        'return [ix.compare("le", v, size)]',
        ("kernel",),
    ),
    Fault(
        "max that drops NaN, in the prelude",
        "codegen/emit/prelude/common.c",
        "FN T max__T(T a, T b) {\n  if (a != a || b != b) return a + b;",
        "FN T max__T(T a, T b) {\n  if (a != a) return b;",
        ("host",),
    ),
    Fault(
        "floored division that truncates, in the prelude",
        "codegen/emit/prelude/common.c",
        "return (a ^ b) < 0 && q * b != a ? (T)(q - 1) : q;",
        "return q;",
        ("host",),
    ),
    Fault(
        "a reduction that skips its last element",
        "codegen/lower/place.py",
        "        ends = (self._emit(e, p) for e in fold.extents)",
        "        ends = (ix.sub(self._emit(e, p), ix.ONE) for e in fold.extents)",
        ("loop",),
    ),
    Fault(
        "f32 accumulated in f16",
        "codegen/lower/combiners.py",
        "    return Combiner((term,), (combine(op, acc, term),)), None",
        """    from didyma.refimpl.ir.loop import Cast
    total = combine(op, acc, term)
    if acc.dtype == "f32":
        total = Cast(Cast(total, type(acc.dtype).F16), acc.dtype)
    return Combiner((term,), (total,)), None""",
        ("loop",),
    ),
    Fault(
        "a broadcast stride wrong",
        "codegen/emit/expressions.py",
        "if flat is None or flat.value == 0 or n == 1:",
        "if flat is None or flat.value == 0 or n in (1, 3):",
        ("host",),
    ),
    Fault(
        "a broadcast axis read along",
        "refimpl/ops/broadcasting.py",
        "return tuple(ZERO if d == 1 else i for i, d in zip(tail, t.shape, strict=True))",
        "return tuple(i for i, d in zip(tail, t.shape, strict=True))",
        ("loop", "lower"),
    ),
    Fault(
        "a symbolic dim replaced by its hint",
        "refimpl/ir/expr.py",
        "        return Var(e.name)",
        "        return index(4)",
        ("lower", "loop", "kernel", "host"),
    ),
    Fault(
        "a symbolic extent replaced by its hint",
        "codegen/lower/function.py",
        "    extents = [ix.of_dim(d) for d in shape]",
        "    extents = [ix.of_dim(d if isinstance(d, int) else 2) for d in shape]",
        ("loop",),
    ),
    Fault(
        "a wide store of three lanes",
        "codegen/emit/statements.py",
        "        for x.lane in range(n):",
        "        for x.lane in range(n - 1):",
        ("host",),
    ),
    Fault(
        "a cast that wraps where it should saturate",
        "codegen/emit/prelude/common.c",
        "  if (x >= HI@) return TMAX;\n  return x <= LO@",
        "  if (x >= HI@) return 0;\n  return x <= LO@",
        ("host",),
    ),
    Fault(
        "x * 0 taken for x",
        "refimpl/ops/arithmetic.py",
        "laws=Laws(commutative=True, neutral=(Neutral(1, NUMBERS),)),",
        "laws=Laws(commutative=True, neutral=(Neutral(0, NUMBERS),)),",
        ("passes",),
    ),
    Fault(
        "a part of an input read from its start",
        "codegen/layouts/module.py",
        "starts, steps = tuple(s.start for s in layout)",
        "starts, steps = tuple(0 for s in layout)",
        ("layouts",),
    ),
)
