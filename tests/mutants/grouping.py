"""Faults whose findings are to be one group each: of the prelude, emission, schedules, lowering.

``PAIRS`` are planted together: their findings are to be two groups at least.
"""

from __future__ import annotations

from tests.mutants.faults import Fault

PRELUDE = "codegen/emit/prelude/common.c"
EXPRESSIONS = "codegen/emit/expressions.py"

SHIFT = Fault(
    "a shift by the width of the type, in the prelude",
    PRELUDE,
    "FN T shl_T(T a, T b) { return (U)b < BITS ?",
    "FN T shl_T(T a, T b) { return (U)b <= BITS ?",
    ("host",),
    ops=("bitwise_left_shift",),
)
POWER = Fault(
    "a negative power of -1 that is 0, in the prelude",
    PRELUDE,
    "if (b < 0) return a == 1 ? (T)1 : a == -1 ? (T)(b & 1 ? -1 : 1) : (T)0;",
    "if (b < 0) return a == 1 ? (T)1 : (T)0;",
    ("host",),
    ops=("pow",),
)
ZERO = Fault(
    "a minimum that loses the sign of zero, in the prelude",
    PRELUDE,
    "if (a == b) return signbit_T(a) ? a : b;",
    "if (a == b) return b;",
    ("host",),
    ops=(
        "minimum",
        "min",
        "clip",
    ),
)
REMAINDER = Fault(
    "an integer remainder of the dividend's sign, in the prelude",
    PRELUDE,
    "return r != 0 && (r ^ b) < 0 ? (T)(r + b) : r;",
    "return r;",
    ("host",),
    ops=("remainder",),
)
UNSIGNED = Fault(
    "an unsigned division by zero that gives the dividend, in the prelude",
    PRELUDE,
    "//: T in unsigned\n#define abs_T(a) ((T)(a))\n\n"
    "FN T truncdiv_T(T a, T b) { return b == 0 ? (T)0 :",
    "//: T in unsigned\n#define abs_T(a) ((T)(a))\n\n"
    "FN T truncdiv_T(T a, T b) { return b == 0 ? a :",
    ("host",),
    ops=(
        "floor_divide",
        "trunc_divide",
    ),
)
LESS = Fault(
    "a comparison that is too strict, in the text",
    EXPRESSIONS,
    '"le": ("<=", REL),',
    '"le": ("<", REL),',
    ("host",),
    ops=(
        "less_equal",
        "searchsorted",
    ),
)
XOR = Fault(
    "an exclusive or that is an or, in the text",
    EXPRESSIONS,
    '_BITS = {"and": ("&", AND), "xor": ("^", XOR),',
    '_BITS = {"and": ("&", AND), "xor": ("|", OR),',
    ("host",),
    ops=(
        "bitwise_xor",
        "logical_xor",
    ),
)
TREE = Fault(
    "exchanges that leave out the last, in a schedule",
    "codegen/schedule/team.py",
    "for n in range(width.bit_length() - 1):",
    "for n in range(width.bit_length() - 2):",
    ("kernel",),
    ops=(
        "sum",
        "max",
        "min",
        "prod",
        "argmax",
        "any",
    ),
)
RAISES = Fault(
    "a schedule of reductions to a number that raises",
    "codegen/schedule/recipes/row.py",
    'name = "reduce_row" if work.facts.nest.index else "reduce_all"',
    'name = {True: "reduce_row"}[bool(work.facts.nest.index)]',
    ("schedule",),
    ops=(
        "sum",
        "max",
        "min",
        "prod",
        "argmax",
        "any",
    ),
)
IDENTITY = Fault(
    "a minimum that starts from 0, in lowering",
    "codegen/lower/scalar.py",
    '        case "min" | "argmin":\n            return Const(_extreme(dtype, 1), dtype)',
    '        case "min" | "argmin":\n            return Const(type(_extreme(dtype, 1))(0), dtype)',
    ("loop",),
    ops=(
        "min",
        "argmin",
    ),
)
TILE = Fault(
    "a tile that is read along the wrong axis, in a schedule",
    "codegen/schedule/transpose.py",
    "Load(tile.name, (at, down_out), load.dtype)",
    "Load(tile.name, (down_out, at), load.dtype)",
    ("kernel",),
    ops=("permute_dims",),
)
RECIPROCAL = Fault(
    "1 / x taken for x, in a law that a pass applies",
    "refimpl/ops/arithmetic.py",
    "laws=Laws(neutral=(Neutral(1, FLOATS, (1,)),)),",
    "laws=Laws(neutral=(Neutral(1, FLOATS, (0,)),)),",
    ("passes",),
    ops=("divide",),
)
FLIP = Fault(
    "a flip of two elements left out, in a pass",
    "codegen/passes/movement.py",
    "same = all(n.types[0].shape[a] == 1 for a in",
    "same = all(n.types[0].shape[a] in (1, 2) for a in",
    ("passes",),
    ops=("flip",),
)

FAULTS: tuple[Fault, ...] = (
    SHIFT, POWER, ZERO, REMAINDER, UNSIGNED, LESS, XOR, TREE, RAISES, IDENTITY, TILE, RECIPROCAL,
    FLIP,
)  # fmt: skip
PAIRS: tuple[tuple[Fault, Fault], ...] = (
    (ZERO, REMAINDER), (XOR, LESS), (TREE, TILE), (SHIFT, UNSIGNED), (TREE, RAISES),
)  # fmt: skip
