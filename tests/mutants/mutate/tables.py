"""What becomes what in mutants of Python."""

from __future__ import annotations

import ast
from collections.abc import Mapping

RELATIONS: Mapping[type[ast.cmpop], tuple[str, tuple[tuple[str, str], ...]]] = {
    ast.Lt: ("<", (("<=", "boundary"), (">", "comparison"))),
    ast.LtE: ("<=", (("<", "boundary"), (">", "comparison"))),
    ast.Gt: (">", ((">=", "boundary"), ("<", "comparison"))),
    ast.GtE: (">=", ((">", "boundary"), ("<", "comparison"))),
    ast.Eq: ("==", (("!=", "comparison"),)),
    ast.NotEq: ("!=", (("==", "comparison"),)),
    ast.Is: (r"is", (("is not", "comparison"),)),
    ast.IsNot: (r"is\s+not", (("is", "comparison"),)),
    ast.In: (r"in", (("not in", "comparison"),)),
    ast.NotIn: (r"not\s+in", (("in", "comparison"),)),
}
ARITHMETIC: Mapping[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "|"),
}


def _both(operator: str, *pairs: tuple[str, str]) -> dict[str, tuple[str, str]]:
    return {a: (b, operator) for x, y in pairs for a, b in ((x, y), (y, x))}


NAMES: Mapping[str, tuple[str, str]] = {
    **_both("min and max", ("min", "max"), ("minimum", "maximum"), ("any", "all")),
    **_both("rounding", ("floor", "ceil"), ("floordiv", "ceildiv")),
    **_both("arithmetic", ("add", "sub"), ("prod", "sum")),
    "sorted": ("list", "sort key"),
    "reversed": ("list", "sort key"),
    "mul": ("add", "arithmetic"),
    "append": ("count", "dropped statement"),
    "keys": ("values", "index"),
    "union": ("intersection", "arithmetic"),
    "lo": ("hi", "index"),
    "hi": ("lo", "index"),
    "first": ("last", "index"),
    "last": ("first", "index"),
    "start": ("end", "index"),
    "lower": ("upper", "index"),
    "upper": ("lower", "index"),
}
ATTRIBUTES = {"lo", "hi", "first", "last", "start", "lower", "upper", "keys", "append"}
WORDS: Mapping[str, tuple[str, str]] = {
    **_both("comparison", ("lt", "le"), ("gt", "ge"), ("eq", "ne"), ("and", "or")),
    **_both("min and max", ("min", "max"), ("minimum", "maximum"), ("argmin", "argmax")),
    **_both("arithmetic", ("add", "sub"), ("shl", "shr"), ("sum", "prod")),
    **_both("rounding", ("floor", "ceil"), ("floordiv", "truncdiv"), ("floormod", "truncmod")),
    **_both("index", ("x", "y"), ("blockIdx.x", "threadIdx.x")),
    **_both("dtype", ("f32", "f64"), ("f16", "bf16"), ("i32", "i64"), ("u32", "u64"),
            ("i8", "u8"), ("i16", "u16")),
}  # fmt: skip
DTYPES: Mapping[str, str] = {
    "F32": "F64", "F64": "F32", "F16": "BF16", "BF16": "F16", "I64": "I32", "I32": "I64",
    "BOOL": "U8", "U8": "I8", "I8": "U8", "U32": "U64", "U64": "U32",
}  # fmt: skip
# Calls whose arguments are words for people, or types.
UNCHANGED_CALLS = frozenset(
    ("DidymaError", "EngineMissing", "Fault", "KernelFault", "isinstance", "issubclass", "cast",
     "TypeVar", "field", "getattr", "setattr", "hasattr", "overload")
)  # fmt: skip
UNCHANGED_FUNCTIONS = frozenset(("__repr__", "__str__"))
SYMMETRIC = frozenset(("add", "mul", "xor", "eq", "ne"))  # operators, before their operands
SAME_EITHER_WAY = frozenset(("min", "max", "add", "mul", "minimum", "maximum", "always_equal"))
