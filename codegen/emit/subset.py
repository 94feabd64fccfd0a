"""Turn kernel text into C99 for pycparser and for compilers on the host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from pycparser import c_ast as c
from pycparser.c_parser import CParser

from didyma.codegen.emit.intrinsics import MAP, TYPES, VECTORS, WORDS, components

HEAD = re.compile(
    r"__global__\s+void\s+(?:__(?:launch_bounds|cluster_dims)__\s*\([^)]*\)\s*)*([A-Za-z_]\w*)\s*\("
)
_BEGINS = re.compile(r'^extern "C" (?=__global__ )', re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_QUALIFIER = re.compile(
    r'extern "C"|\b__global__\b|\b__(?:launch_bounds|cluster_dims)__\([^)]*\)|\b__restrict__\b'
    r"|\b__grid_constant__\b"
)
_SHARED = re.compile(r"\b__shared__\b")
_ALIGN = re.compile(r"\b__align__\b")
_WORD = re.compile(r"\b[a-z]\w*\b")
_AXES = "struct { unsigned x, y, z; } threadIdx, blockIdx, blockDim, gridDim; "


def strip(source: str) -> str:
    """Remove comments and qualifiers; ``__shared__`` becomes ``static``.  Lines keep their number.

    ``__align__(16)`` becomes ``_Alignas(16)``, as C11 says it.

    >>> strip('extern "C" __global__ void f(f32 *__restrict__ x) {  // f')
    '  void f(f32 * x) {   '
    """
    bare = _SHARED.sub("static", _QUALIFIER.sub("", uncommented(source)))
    return _ALIGN.sub("_Alignas", bare)


def uncommented(source: str) -> str:
    """Return a text of C without comments, in which no line moves.

    >>> uncommented("int i; // one\\n/* two\\nthree */ int/**/j;")
    'int i;  \\n\\n int j;'
    """
    return _COMMENT.sub(lambda m: "\n" * m[0].count("\n") or " ", source)


def place(address: c.Node) -> tuple[str, c.Node | None] | None:
    """Return the array and the index of ``&a[i]``, ``a + i``, ``a`` or ``&a``, else None.

    The index of ``a`` and ``&a`` is None; the latter is that of a tensor map.
    """
    match address:
        case c.UnaryOp(op="&", expr=c.ArrayRef(name=c.ID(name=name), subscript=index)):
            return name, index
        case c.ID(name=name) | c.UnaryOp(op="&", expr=c.ID(name=name)):
            return name, None
        case c.BinaryOp(op="+", left=c.ID(name=name), right=index):
            return name, index
        case _:
            return None


def to_c99(source: str) -> str:
    """Return kernel text as C99 with the typedefs it needs, which stand on its first line.

    A declaration of storage class ``static`` is one in shared memory.

    >>> to_c99("// one\\nextern \\"C\\" __global__ void f(f32 *x) { x[0] = 1.0f; }").splitlines()[1]
    '  void f(f32 *x) { x[0] = 1.0f; }'
    """
    bare = strip(source)
    return preamble(bare) + bare


@dataclass(frozen=True, slots=True)
class Function:
    """A function of kernel text: its name, and its tree, which does not tell it and is shared.

    Lines of the tree are counted from below the first so many lines, ``above``, of the text.
    """

    name: str
    above: int
    tree: c.FuncDef


def functions(source: str) -> Iterator[Function]:
    """Yield the functions of kernel text; ParseError as of pycparser.

    Nobody may change the trees, which kernels with the same text but for their names share.
    """
    for above, part in _parts(source):
        head = HEAD.search(part)
        text = part if head is None else f"{part[: head.start(1)]}_{part[head.end(1) :]}"
        found = (n for n in _parsed(to_c99(text).rstrip()).ext if isinstance(n, c.FuncDef))
        for f in found:
            name = head[1] if head is not None and f.decl.name == "_" else f.decl.name
            yield Function(name, above, f)


def lines_above(source: str) -> int:
    """Return how many lines of a text come before the first whose functions are read by itself."""
    return next(_parts(source))[0]


def _parts(source: str) -> Iterator[tuple[int, str]]:
    """Yield each kernel of a text and how many lines are above it; all at once if there is more."""
    starts = [m.start() for m in _BEGINS.finditer(source)]
    if not starts or strip(source[: starts[0]]).strip():
        yield 0, source
        return
    for start, end in pairwise([*starts, len(source)]):
        yield source.count("\n", 0, start), source[start:end]


@lru_cache(maxsize=64)  # a text is read where it is claimed and emitted, and by each simt
def _parsed(text: str) -> c.FileAST:
    return CParser().parse(text)


def preamble(bare: str) -> str:
    """Return declarations, without a line break, of the types that the text names."""
    words = set(_WORD.findall(bare))
    vectors = [v for v in VECTORS if v in words]
    scalars = words.union(VECTORS[v][0] for v in vectors)
    lines = [f"typedef {c} {name}; " for name, c in TYPES.items() if name in scalars]
    if MAP in words:
        lines.append(f"typedef struct {{ unsigned long long words[{WORDS}]; }} {MAP}; ")
    for v in vectors:
        t, n = VECTORS[v]
        lines.append(f"typedef struct {{ {t} {', '.join(components(n))}; }} {v}; ")
    return "".join(lines) + _AXES
