"""Mutants of C: changes of tokens, statements, guards and arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tests.mutants.mutant import Site

_TOKEN = re.compile(
    r"""(?P<skip>/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\s+)
      | (?P<number>0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[fFuUlL]*)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<op><<=|>>=|\+\+|--|->|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\s\w])""",
    re.VERBOSE | re.DOTALL,
)
_RELATIONS = {
    "<": ("<=", ">"), "<=": ("<", ">"), ">": (">=", "<"), ">=": (">", "<"),
    "==": ("!=",), "!=": ("==",),
}  # fmt: skip
_ARITHMETIC = {
    "+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "<<": ">>", ">>": "<<", "&": "|", "|": "&",
    "^": "|", "&&": "||", "||": "&&", "+=": "-=", "-=": "+=", "*=": "+=", "|=": "&=", "&=": "|=",
}  # fmt: skip
_NAMES = (
    ("min and max", "min_", "max_"),
    ("rounding", "floordiv_", "truncdiv_"),
    ("rounding", "floormod_", "truncmod_"),
    ("rounding", "floor_", "ceil_"),
    ("rounding", "rint_", "floor_"),
    ("arithmetic", "add_", "sub_"),
    ("arithmetic", "shl_", "shr_"),
)
_FIELDS = {"x": "y", "y": "z", "z": "w", "w": "x"}
_DTYPES = {
    "i8": "u8", "u8": "i8", "i16": "u16", "u16": "i16", "i32": "i64", "i64": "i32", "u32": "u64",
    "u64": "u32", "f16": "bf16", "bf16": "f16", "f32": "f64", "f64": "f32",
}  # fmt: skip
_SYMMETRIC = re.compile(r"(add|mul|min|max|and|or|xor)_")
_NO_CALL = {"if", "for", "while", "switch", "return", "sizeof", "defined", "__launch_bounds__"}
_DECLARES = re.compile(
    r"\s*(?:const|union|struct|typedef|static|extern|unsigned|int|char|void|float|double|FN|[TFU]"
    r"|b8|[iuf]\d+|bf16|f8\w+)(?:x\d)?\b\s*\w"
)
_IGNORED_LINE = re.compile(r'\s*(?:#pragma|//|extern "C"|#\s*(?:if|endif|else|undef))')


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Change:
    """The characters from ``start`` to ``end`` become ``new``."""

    start: int
    end: int
    new: str
    operator: str


def prelude(source: str) -> Iterator[Site]:
    """Yield the mutants of a file of C; the scope of one is the paragraph that it is in."""
    for found in re.finditer(r"\S(?:.|\n(?!\s*\n))*", source):
        paragraph = found[0]
        start = found.start()
        first = paragraph.partition("\n")[0] if paragraph.startswith("//:") else ""
        named = re.search(r"#define (\w+)|\b(\w+)\s*\(", paragraph[len(first) :])
        name = next((g for g in named.groups() if g), "") if named else ""
        for c in changes(paragraph[len(first) :]):
            at = start + len(first)
            yield Site(
                at + c.start, at + c.end, c.new, c.operator, name, start, start + len(paragraph)
            )


def kernels(source: str) -> Iterator[Site]:
    """Yield the mutants of kernel text: of the bodies of its kernels."""
    for found in re.finditer(r'^extern "C" (?:.|\n)*?^\}$', source, re.MULTILINE):
        opening = re.search(r"\) \{$", found[0], re.MULTILINE)
        named = re.search(r"(\w+)\(\s*(?:const|\w+ \*|i64|\))", found[0].replace("__launch_", ""))
        if opening is None:
            continue
        at = found.start() + opening.end()
        scope = named[1] if named else ""
        for c in changes(source[at : found.end()]):
            yield Site(
                at + c.start, at + c.end, c.new, c.operator, scope, found.start(), found.end()
            )


def changes(source: str) -> Iterator[Change]:
    """Yield each change of a text of C, at most once."""
    tokens = [
        _Token(str(m.lastgroup), m[0], m.start(), m.end())
        for m in _TOKEN.finditer(source)
        if m.lastgroup != "skip"
    ]
    ignored = [
        (m.start(), m.end())
        for m in re.finditer(r"^.*$", source, re.MULTILINE)
        if _IGNORED_LINE.match(m[0])
    ]
    seen: set[tuple[int, int, str]] = set()
    for c in (*_of_tokens(tokens), *_of_calls(tokens, source), *_of_statements(source)):
        key = (c.start, c.end, c.new)
        if key not in seen and not any(a <= c.start < b for a, b in ignored):
            seen.add(key)
            yield c


def _of_tokens(tokens: list[_Token]) -> Iterator[Change]:
    for i, t in enumerate(tokens):
        before = tokens[i - 1] if i else None
        after = tokens[i + 1] if i + 1 < len(tokens) else None
        match t.kind:
            case "number":
                yield from _numbers(t, before)
            case "name":
                yield from _names(t, before, after)
            case _:
                yield from _operators(t, before, after)


def _numbers(t: _Token, before: _Token | None) -> Iterator[Change]:
    if before is not None and before.text == "define":
        return
    found = re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)", t.text)
    operator = "index" if before is not None and before.text == "[" else "constant"
    if found:
        n = int(found[1], 0)
        for m in (n + 1, n - 1):
            if m >= 0:
                text = hex(m) if found[1][:2].lower() == "0x" else str(m)
                yield Change(t.start, t.end, text + found[2], operator)
        return
    found = re.fullmatch(r"([\d.]+)((?:[eE][+-]?\d+)?[fF]?)", t.text)
    if found:
        yield Change(t.start, t.end, f"{float(found[1]) + 1}{found[2]}", operator)


def _names(t: _Token, before: _Token | None, after: _Token | None) -> Iterator[Change]:
    if before is not None and before.text in (".", "->"):
        if t.text in _FIELDS:
            yield Change(t.start, t.end, _FIELDS[t.text], "index")
        return
    if before is not None and before.text == "(" and after is not None and after.text == ")":
        if t.text in _DTYPES:
            yield Change(t.start, t.end, _DTYPES[t.text], "dtype")
        return
    for operator, one, other in _NAMES:
        for a, b in ((one, other), (other, one)):
            if t.text.startswith(a) and after is not None and after.text == "(":
                yield Change(t.start, t.end, b + t.text[len(a) :], operator)
    if t.text in ("threadIdx", "blockIdx"):
        other_axis = {"threadIdx": "blockIdx", "blockIdx": "threadIdx"}[t.text]
        yield Change(t.start, t.end, other_axis, "index")
    if t.text.startswith("cast_") and after is not None and after.text == "(":
        *head, last = t.text.split("_")
        if last in _DTYPES:
            yield Change(t.start, t.end, "_".join((*head, _DTYPES[last])), "dtype")


def _operators(t: _Token, before: _Token | None, after: _Token | None) -> Iterator[Change]:
    binary = before is not None and (before.kind in ("number", "name") or before.text in (")", "]"))
    if t.text in _RELATIONS:
        for new in _RELATIONS[t.text]:
            operator = "boundary" if new.strip("=") == t.text.strip("=") else "comparison"
            yield Change(t.start, t.end, new, operator)
    elif t.text == "!":
        yield Change(t.start, t.end, "", "negation")
    elif t.text in _ARITHMETIC and binary:
        pointer = t.text in "*&" and before is not None and before.text in ("T", *_DTYPES, "b8")
        if not pointer and (after is None or after.text != "__restrict__"):
            yield Change(t.start, t.end, _ARITHMETIC[t.text], "arithmetic")
    elif t.text == "-" and before is not None and after is not None and after.kind != "op":
        yield Change(t.start, t.end, "", "arithmetic")


def _of_calls(tokens: list[_Token], source: str) -> Iterator[Change]:
    """Swap neighbouring arguments of calls; let guards hold always, or never."""
    for i, (t, opening) in enumerate(pairwise(tokens)):
        if t.kind != "name" or opening.text != "(":
            continue
        commas, closing = _arguments(tokens, i + 1)
        if closing is None:
            continue
        if t.text in ("if", "while"):
            for new in ("1", "0") if t.text == "if" else ("0",):
                yield Change(opening.end, closing.start, new, "guard")
        defined = i > 0 and (tokens[i - 1].kind == "name" and tokens[i - 1].text != "return")
        if t.text in _NO_CALL or defined or _SYMMETRIC.match(t.text):
            continue
        ends = [opening.end, *commas, closing.start]
        parts = [(a + (k > 0), b) for k, (a, b) in enumerate(pairwise(ends))]
        for (a, b), (c, d) in pairwise(parts):
            one, other = source[a:b].strip(), source[c:d].strip()
            if one != other:
                yield Change(a, d, f"{other}, {one}", "swapped arguments")


def _arguments(tokens: list[_Token], opening: int) -> tuple[list[int], _Token | None]:
    """Return where the commas of an argument list are, and the parenthesis that closes it."""
    depth, commas = 0, list[int]()
    for t in tokens[opening:]:
        if t.text in "([{":
            depth += 1
        elif t.text in ")]}":
            depth -= 1
            if depth == 0:
                return commas, t
        elif t.text == "," and depth == 1:
            commas.append(t.start)
    return commas, None


def _of_statements(source: str) -> Iterator[Change]:
    """Drop lines that are statements; return something else."""
    for m in re.finditer(r"^[ \t]*(\S.*;)[ \t]*\\?$", source, re.MULTILINE):
        line = m[1]
        if line.startswith(("return", "}", "for ", "break", "#")) or _DECLARES.match(line):
            continue
        barrier = "__syncthreads" in line or "barrier" in line
        operator = "dropped barrier" if barrier else "dropped statement"
        yield Change(m.start(1), m.end(1), ";", operator)
    for m in re.finditer(r"\breturn ([^;]+);", source):
        for new in ("0", "1"):
            if m[1] != new:
                yield Change(m.start(1), m.end(1), new, "return value")
