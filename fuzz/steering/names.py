"""Names that mean something else in C, in CUDA, in Python, or in the compiler's own texts."""

from __future__ import annotations

from dataclasses import replace

from didyma.fuzz.chooser import Chooser
from didyma.fuzz.graphs import Case
from didyma.refimpl.ir.graph import rename

# Written out: a table of the compiler's would lack a name exactly where the compiler forgets it.
C_WORDS = (
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else",
    "enum", "extern", "float", "for", "goto", "if", "inline", "int", "long", "register",
    "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef",
    "union", "unsigned", "void", "volatile", "while",
)  # fmt: skip
TAKEN = (
    "i64", "f32", "b8", "u8", "i8", "f16", "bf16", "f64", "u64", "f32x4", "i8x4", "exp_f32",
    "cast_i32_f32", "min_f32", "inf_f32", "nan_f64", "add_i32", "load4_f32", "store4_f32", "sizeof",
    "blockIdx", "threadIdx", "blockDim", "NULL", "main", "assert", "exp", "abs",
)  # fmt: skip
AWKWARD = (
    *C_WORDS, *TAKEN, "class", "this", "new", "template", "and", "or", "not", "bool", "def",
    "lambda", "None", "is", "engine", "kernels", "inputs", "i", "i0", "k0", "tx", "bx",
    "acc", "x_1", "x.1", "1x",
    "a b", "é", "größe", "a\\b", "b\\", "*/", "x\u200b", "layer/0:bias", "__half", "_x", "x" * 70,
)  # fmt: skip


def renamed(case: Case, c: Chooser) -> Case:
    """Return a case in which some values of the entry have awkward names, or those of symbols."""
    f = case.module.entry
    values = [*(p.name for p in f.params), *(r for n in f.nodes for r in n.results)]
    taken, symbols = set(values), tuple(v.name for v in case.module.dims)
    names: dict[str, str] = {}
    for v in values:
        wish = c.pick(symbols if symbols and c.chance(8) else AWKWARD)
        if c.chance(2) and wish not in taken:
            taken.add(wish)
            names[v] = wish
    main = replace(
        f,
        params=tuple(replace(p, name=names.get(p.name, p.name)) for p in f.params),
        nodes=tuple(rename(n, names) for n in f.nodes),
        results=tuple(names.get(r, r) for r in f.results),
    )
    m = replace(case.module, functions=(*case.module.functions[:-1], main))
    given = tuple((names.get(name, name), value) for name, value in case.given)
    return replace(case, module=m, given=given)
