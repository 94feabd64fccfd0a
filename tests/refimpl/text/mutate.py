"""Damage to texts, as a careless or hostile writer would do it."""

from __future__ import annotations

import re
from random import Random

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.text import parse, show
from didyma.refimpl.verify import graph, loop, program
from tests.refimpl.text.anything import Anything

BITS = (
    "%", "@", '"', "(", ")", "{", "}", "[", "]", ",", ":", "=", "-", "**", "//", "/", "0", "1",
    "9" * 50, "1e999", "nan", "f32", "in", "let ", "for ", "\\", "\n", "#", "%x", "a[", "(" * 400,
    "-" * 400, "{" * 400, "9**9**9", "0x1p9999", "\ud800", "\0", "module {", "a+" * 400, "bool[]",
    "Mod(", "Max(", "n//0", "1/0*n", "((((n*m+1)**9)**9)**9)", "f32[99999999999999] []", "base64",
)  # fmt: skip
OPERANDS = (
    "0", "1", "-1", "2", "7", "n", "m", "4294967296", "true", "1.5", "f32", "i64", "f16", "()",
    "(0,)", "(-1,)", "(5, 5)", '"x"', "n - 1", "0:i32", "nan", "f32[2] [1.0, 2.0]", "f32[] 1.0",
)  # fmt: skip
WORD = re.compile(r"[%@]?[A-Za-z_][A-Za-z_0-9.]*|[0-9]+")


def texts(seeds: range) -> list[str]:
    """Texts of all three levels that parse."""
    found: list[str] = []
    for seed in seeds:
        draw = Anything(seed)
        found += [show(draw.module()), show(draw.primfunc()), show(draw.program())]
    return found


def damaged(text: str, r: Random) -> str:
    """Text with one to three pieces cut out, doubled, moved or replaced."""
    for _ in range(r.randrange(1, 4)):
        i = r.randrange(len(text) + 1)
        j = min(len(text), i + r.choice((1, 1, 3, 10, 100)))
        match r.randrange(4):
            case 0:
                text = text[:i] + text[j:]
            case 1:
                text = text[:j] + text[i:]
            case 2:
                text = text[:i] + r.choice(BITS) + text[i:]
            case _:
                text = text[:i] + r.choice(BITS) + text[j:]
    return text


def confused(text: str, r: Random) -> str:
    """Text with a word in the place of another of its kind, or two lines exchanged."""
    lines = text.split("\n")
    if r.random() < 0.2:
        i, j = r.randrange(len(lines)), r.randrange(len(lines))
        lines[i], lines[j] = lines[j], lines[i]
        return "\n".join(lines)
    words = list(WORD.finditer(text))
    here = r.choice(words)
    same_kind = [w.group() for w in words if _kind(w.group()) == _kind(here.group())]
    number = here.group().isdigit() and r.random() < 0.5
    word = r.choice(OPERANDS) if number else r.choice(same_kind)
    return text[: here.start()] + word + text[here.end() :]


def _kind(word: str) -> str:
    return word[0] if word[0] in "%@" else "0" if word.isdigit() else "a"


def outcome(text: str) -> str:
    """Code that a text gets when it is parsed, empty if it parses; no other exception may come."""
    try:
        parse(text)
    except DidymaError as e:
        str(e).encode()
        return e.code
    return ""


def verdict(text: str) -> str:
    """Code that a text gets when it is parsed and verified, empty if it is sound."""
    try:
        x = parse(text)
        match x:
            case Module():
                graph.verify(x)
            case Program():
                program.verify(x)
            case _:
                for f in x:
                    loop.verify(f)
    except DidymaError as e:
        str(e).encode()
        return e.code
    return ""
