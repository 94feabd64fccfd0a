"""Small functions that write text: sizes, literals, ranges of indices, arrays, names and lines.

What they write is read again, by Python or word by word, and must mean what it was written for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from random import Random
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from didyma.codegen.emit import arithmetic, dynamic, line_map, names, subset
from didyma.codegen.emit.integers import code, of_sizes, quoted
from didyma.codegen.emit.intrinsics import NBYTES, VECTORS
from didyma.codegen.emit.program_json import size
from didyma.codegen.emit.remarks import comment
from didyma.codegen.emit.terms import ADD, MUL, PRIMARY, Term, index_literal, literal
from didyma.codegen.runtime import didyma_runtime
from didyma.codegen.runtime.didyma_runtime import walk
from didyma.codegen.runtime.engine import Engine
from didyma.fuzz.allocator.pieces import OPERATORS
from didyma.fuzz.parts.told import differ
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.loop import Binary, BinaryOp, Const, Expr, Var
from didyma.refimpl.ir.program import Free, Wait
from didyma.refimpl.ir.types import DType

ENV: Mapping[str, int] = MappingProxyType({"n": 5, "m": 3, 'k"': 0, "p": 7})
FLOATS = (0.0, 1.0, 0.1, 1e-45, 1.5e-45, 3.4028235e38, 1e39, 1e308, 5e-324, 2.0**-149, 65519.0,
          65520.0, 1 / 3, 1e-8, 448.0, 464.0, 480.0, float("inf"), float("nan"))  # fmt: skip
STORED = {DType.F16: np.float16, DType.BF16: ml_dtypes.bfloat16,
          DType.F8E4M3: ml_dtypes.float8_e4m3fn, DType.F8E5M2: ml_dtypes.float8_e5m2}  # fmt: skip
INTS = {DType.I8: (8, True), DType.U8: (8, False), DType.I32: (32, True), DType.U32: (32, False),
        DType.I64: (64, True), DType.U64: (64, False), DType.I16: (16, True)}  # fmt: skip
# Rows of kernel text, and what C has in their places.
STRIPPED = (
    ("f32 x; // one", "f32 x;"), ("/* a\nb */ i64 i;", "\ni64 i;"), ("i64/**/j;", "i64 j;"),
    ("__shared__ f32 s[4];", "static f32 s[4];"),
    ("__shared__ __align__(16) f32x4 t[2];", "static _Alignas(16) f32x4 t[2];"),
    ('extern "C" __global__ void f(f32 *__restrict__ x) {', "void f(f32 * x) {"),
    ("__global__ void __launch_bounds__(64) g(i64 n) {", "void g(i64 n) {"),
    ("void __cluster_dims__(2, 1, 1) h(const __grid_constant__ tensor_map m) {",
     "void h(const tensor_map m) {"),
    ("b8 __shared__x = 1; // __shared__", "b8 __shared__x = 1;"), ("", ""),
)  # fmt: skip
INT_MAX, LIMIT = 2**31 - 1, 48 << 10  # of C's int, and bytes of arrays that a kernel may declare
ROUNDS = 12  # of a case, each of which takes a tenth of a millisecond
_WORDS = (
    "x",
    "x_1",
    "exp_f32",
    "int",
    "3x",
    "a b",
    "__half",
    "größe",
    "",
    "threadIdx",
    "f32x4",
    "a____b",
    "_____",
)


def judged(r: Random, engine: Engine) -> Iterator[str]:
    """Yield what is wrong with some functions, at values that are drawn."""
    del engine
    for judge in r.choices(JUDGES, k=ROUNDS):
        yield from judge(r)


# ---- sizes


def _expr(r: Random, depth: int) -> tuple[Expr, int]:
    if not depth or r.random() < 0.2:
        if r.random() < 0.6:
            name = r.choice([*ENV])
            return Var(name), ENV[name]
        n = r.choice((-3, 0, 1, 2, 9, 1 << 40))
        return Const(n, DType.I64), n
    op: BinaryOp = r.choice(("add", "sub", "mul", "floordiv", "floormod", "min", "max"))
    (a, x), (b, y) = _expr(r, depth - 1), _expr(r, depth - 1)
    if op in ("floordiv", "floormod") and not y:
        op = "sub"
    exact: Mapping[str, Callable[[int, int], int]] = {
        **OPERATORS, "floordiv": lambda a, b: a // b, "floormod": lambda a, b: a % b,
    }  # fmt: skip
    return Binary(op, a, b), exact[op](x, y)


def _sizes(r: Random) -> Iterator[str]:
    """A size is Python that computes it, and JSON that what walks it computes."""
    e, value = _expr(r, 3)
    text = of_sizes(e)
    yield from differ(eval(text, {"s": ENV, "min": min, "max": max}), value, text)
    n, m = dims.symbol("n"), dims.symbol("m")
    d: Dim = r.choice((n, 3, n + 2 * m, dims.floordiv(n + 1, 2), dims.maximum(n, 2 * m), n * m - 1))
    want = d if isinstance(d, int) else dims.values((d,), ENV)[0]
    text = code(d, {"n": "n_1", "m": "m"})
    given = {"n_1": ENV["n"], "m": ENV["m"], "max": max, "min": min}
    yield from differ(eval(text, given), want, text)
    yield from differ(walk.value(size(d), ENV), want, f"{size(d)}")
    word = r.choice((*_WORDS, "it's", 'say "no"', "a\\b", "two\nlines"))
    yield from differ(eval(quoted(word)), word, quoted(word))


# ---- literals and ranges


def _literal(r: Random) -> Iterator[str]:
    """A literal reads back as the value that it was written for, of its type."""
    yield from (_int_literal if r.random() < 0.5 else _float_literal)(r)


def _int_literal(r: Random) -> Iterator[str]:
    bits, signed = INTS[t := r.choice([*INTS])]
    low, high = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
    value = r.choice((low, low + 1, high - 1, 0, 1, r.randrange(low, high), min(1 << 31, high - 1)))
    text = literal(value, t).text
    read = eval(re.sub(r"(?<=\d)(ULL|LL|u)", "", text))
    yield from differ(read, value, f"{text} of {t}")
    wide = {DType.U32: "u", DType.U64: "ULL"}.get(t, "")
    if t is DType.I64 and abs(value) > INT_MAX:
        wide = "LL"
    yield from differ(re.findall(r"\d([uUL]*)\b", text)[0], wide, f"the suffix of {text}")


def _float_literal(r: Random) -> Iterator[str]:
    value = r.choice(FLOATS) * r.choice((1, -1))
    t = r.choice((DType.F32, DType.F64, *STORED))
    text = literal(value, t).text
    if t in STORED:
        with np.errstate(all="ignore"):
            bits = np.float32(value).astype(STORED[t]).view(f"u{t.nbytes}")
        if value == value:
            yield from differ(int(text, 16), int(bits), f"{text} of {t}, {value}")
        return
    names_ = {f"inf_{t}": lambda: float("inf"), f"nan_{t}": lambda: float("nan")}
    read = eval(re.sub(r"(?<=[\d.])f\b", "", text), names_)
    with np.errstate(over="ignore"):
        got, want = t.numpy.type(read), t.numpy.type(value)
    if value == value:
        yield from differ(got.tobytes(), want.tobytes(), f"{text} of {t}, {value}")
    yield from differ(bool(got != got), value != value, f"{text} is a NaN")
    single = "f" if t is DType.F32 and value == value and abs(want) != float("inf") else ""
    yield from differ(text[-1] if text[-1] == "f" else "", single, f"the suffix of {text}")


def _term(r: Random, name: str) -> tuple[Term, range]:
    """Return a term, and the values that it may have."""
    if r.random() < 0.3:
        n = r.choice((-(1 << 62), -5, -1, 0, 1, 2, 7, INT_MAX, 1 << 31))
        return index_literal(n), range(n, n + 1)
    low = r.choice((-9, -1, 0, 0, 1, 3, INT_MAX - 3))
    high = low + r.randint(0, 4)
    level = r.choice((PRIMARY, PRIMARY, ADD, MUL))
    text = {PRIMARY: name, ADD: f"{name} + 0", MUL: f"{name} * 1"}[level]
    is_int = r.random() < 0.4 and high <= INT_MAX
    return Term(text, level, low, high, r.random() < 0.5, None, is_int), range(low, high + 1)


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_EXACT: Mapping[str, Callable[[int, int], int]] = MappingProxyType({
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "min": min, "max": max, "floordiv": lambda a, b: a // b, "floormod": lambda a, b: a % b,
    "truncdiv": _truncated, "truncmod": lambda a, b: a - b * _truncated(a, b),
    "shl": lambda a, b: a << b, "shr": lambda a, b: a >> b,
})  # fmt: skip


def _arithmetic(r: Random) -> Iterator[str]:
    """Arithmetic on indices has the value and lies in the range that are told."""
    (a, xs), (b, ys) = _term(r, "a"), _term(r, "b")
    op = r.choice([*_EXACT])
    pairs = [
        (x, y) for x, y in product(xs, ys)
        if (y or op not in ("floordiv", "floormod", "truncdiv", "truncmod"))
        and (op not in ("shl", "shr") or 0 <= y < 64)
    ]  # fmt: skip
    results = [_EXACT[op](x, y) for x, y in pairs]
    inside = all(-(2**63) <= v < 2**63 for v in results)
    what = f"{op} of {a} and {b}"
    if op not in ("add", "sub", "mul"):
        found = arithmetic.bounded(op, a, b)
        if found is not None and inside:
            outside = [v for v in results if not found[0] <= v <= found[1]]
            yield from differ(outside, [], f"what is outside of {found}, {what},")
    made = None
    if op in ("add", "sub", "mul") and inside:
        made = arithmetic.plain(op, a, b)
    elif op in ("floordiv", "floormod"):
        made = arithmetic.divide(op, a, b)
        whole = xs[0] >= 0 and ys[0] > 0
        yield from differ(made is not None, whole, f"C has an operator for {what}, which")
    if made is None:
        return
    text = re.sub(r"(?<=\d)LL", "", made.text.replace("(i64)", "")).replace("/", "//")
    for (x, y), v in zip(pairs, results, strict=True):
        yield from differ(eval(text, {"a": x, "b": y}), v, f"{made.text} at {x}, {y}")
        yield from differ(made.lo <= v <= made.hi, True, f"{v} in the range of {made}")
        if made.value is not None:
            yield from differ(v, made.value, f"the value of {made}")
    if made.is_int and made is not a:
        largest = max(map(abs, results), default=0)
        yield from differ(largest <= INT_MAX, True, f"{made}, {what}, is an int, which")
    if made.plain and made is not a and made.value is None:
        yield from differ(a.plain and b.plain, True, f"parts of the plain {made} are, which")


# ---- arrays, names and lines


def _arrays(r: Random) -> Iterator[str]:
    """Arrays of a large kernel lie one after another, where they ask to; small kernels stay."""
    kinds, text, wanted = [*NBYTES, *VECTORS], "", dict[str, int]()
    places = dict[str, list[tuple[str, int]]]()
    for k in range(r.randint(0, 3)):
        rows, end, at = list[str](), 0, list[tuple[str, int]]()
        for i in range(r.randint(0, 3)):
            t, count = r.choice(kinds), r.choice((1, 3, 1000, 9000))
            deep, align = r.choice((0, 0, 2)), r.choice((0, 0, 8, 128, 1024))
            lane, lanes = VECTORS.get(t, (t, 1))
            begin = max(16, align)
            end = -(-end // begin) * begin
            at.append((f"s{i}", end))
            end += NBYTES[lane] * lanes * count * max(1, deep)
            word = f"__align__({align}) " if align else ""
            rows.append(f"  __shared__ {word}{t} s{i}[{count}]{f'[{deep}]' if deep else ''};")
        bounds = r.choice(("", "__launch_bounds__(64) "))
        body = "\n".join([*rows, "  y[0] = 1;"])
        text += f'extern "C" __global__ void {bounds}k{k}(f32 *y) {{\n{body}\n}}\n'
        if end > LIMIT:
            wanted[f"k{k}"], places[f"k{k}"] = end, at
        whole = "\n".join(rows)
        yield from differ(dynamic.nbytes(whole), end, f"the bytes of {whole}")
    made, asked = dynamic.placed(text)
    yield from differ(asked, wanted, f"what kernels of {text} ask for")
    yield from differ(made.count("\n"), text.count("\n"), "lines of what is placed")
    for kernel, at in places.items():
        found = re.findall(
            rf"(\w+)\)?(?:\[\d+\])* = \([^;]*\)\({kernel}_shared__ \+ (\d+)\);", made
        )
        yield from differ([(n, int(a)) for n, a in found], at, f"arrays of {kernel} in {made}")
        yield from differ(made.count(f"u8 {kernel}_shared__[];"), 1, f"declarations for {kernel}")
    kept = [p for p in re.split(r"(?=extern \"C\")", text) if p and p not in made]
    yield from differ(len(kept), len(wanted), "kernels that are changed")
    early = dynamic.early(text)
    yield from differ(early.replace(f" {dynamic.EARLY}", ""), text, "a text that begins early")
    yield from differ(early.count(dynamic.EARLY), text.count("__global__"), "waits")


def _stripped(r: Random) -> Iterator[str]:
    """Kernel text is C without comments and qualifiers, in which no line moves."""
    rows, want = list[str](), list[str]()
    for _ in range(r.randint(1, 6)):
        row, bare = r.choice(STRIPPED)
        rows.append(row)
        want.append(bare)
    source = "\n".join(rows)
    got = [" ".join(row.split()) for row in subset.strip(source).split("\n")]
    yield from differ(got, "\n".join(want).split("\n"), f"what is left of {source}")
    plain = [" ".join(row.split()) for row in subset.uncommented(source).split("\n")]
    given = [" ".join(row.split()) for row in source.split("\n")]
    some = [x for x, y in zip(plain, given, strict=True) if x != y and not {"/", "*"} & {*y}]
    yield from differ(some, [], f"rows without comments that are changed in {source}")
    c99 = subset.to_c99(source).split("\n")
    first = c99[0].rindex("gridDim; ") + len("gridDim; ")
    yield from differ(c99[0][first:], subset.strip(source).split("\n")[0], "the first line of C99")
    yield from differ(len(c99), source.count("\n") + 1, f"lines of {source} as C99")


def _names(r: Random) -> Iterator[str]:
    """Names are words of C that nothing else has; a comment is one line of plain characters."""
    supply = names.c_names(["x", "taken"])
    given = [r.choice(_WORDS) for _ in range(6)]
    found = [supply.fresh(w) for w in given]
    yield from differ(len({*found, "x", "taken"}), len(found) + 2, f"different names of {given}")
    for n in found:
        plain = re.fullmatch(r"[A-Za-z](?:_?[A-Za-z0-9])*_?", n) is not None
        yield from differ(plain and n not in names.RESERVED, True, f"{n} of {given} is a word")
    line = "".join(r.choice('ab \\"\n\té?*/%') for _ in range(r.randint(0, 8)))
    told = comment(line)
    yield from differ(told[:3], "// ", "how a comment begins")
    fine = told.isascii() and told.isprintable() and "\\" not in told and '"' not in told
    yield from differ((fine, len(told) - 3), (True, len(line)), f"{told!r} is one plain line")


def _lines(r: Random) -> Iterator[str]:
    """The table of lines tells, of each line of a module, the line of the program behind it."""
    sections, want = list[tuple[int, list[str]]](), dict[int, str]()
    at = 1
    for _ in range(r.randint(0, 3)):
        at += r.randint(0, 3)
        first, rows = at, list[str]()
        for _ in range(r.randint(0, 5)):
            text = "\n".join(["x"] * r.choice((1, 1, 2, 3)))
            told, origin = r.choice(
                (("", None), ("free %a", Free("a")), ("free %b", Free("b")), ("wait", Wait(1, 0)))
            )
            rows.append(text if origin is None else line_map.Row.of(text, origin))
            for _ in text.split("\n"):
                if origin is not None:
                    want[at] = told
                at += 1
        sections.append((first, rows))
    space: dict[str, Any] = {"rt": didyma_runtime}
    exec("\n".join(line_map.table(sections)), space)
    got = {n: x.text for n, x in space["LINES"].items()}
    same = got.keys() == want.keys() and all(got[n].startswith(want[n]) for n in got)
    yield from differ(same, True, f"the table of {sections}, {got}, which is {want},")


JUDGES: tuple[Callable[[Random], Iterator[str]], ...] = (
    _sizes, _literal, _arithmetic, _arrays, _stripped, _names, _lines,
)  # fmt: skip
