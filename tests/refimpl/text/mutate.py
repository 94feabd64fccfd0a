"""Damage to texts, as a careless or hostile writer would do it."""

from __future__ import annotations

from random import Random

from refimpl.errors import DidymaError
from refimpl.ir.text import parse, show
from tests.refimpl.text.anything import Anything

BITS = (
    "%", "@", '"', "(", ")", "{", "}", "[", "]", ",", ":", "=", "-", "**", "//", "/", "0", "1",
    "9" * 50, "1e999", "nan", "f32", "in", "let ", "for ", "\\", "\n", "#", "%x", "a[", "(" * 400,
    "-" * 400, "{" * 400, "9**9**9", "0x1p9999", "\ud800", "\0", "module {", "a+" * 400, "bool[]",
    "Mod(", "Max(", "n//0", "1/0*n", "((((n*m+1)**9)**9)**9)", "f32[99999999999999] []", "base64",
)  # fmt: skip


def texts(seeds: range) -> list[str]:
    """Sound texts of all three levels."""
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


def parses(text: str) -> bool:
    """Whether a text parses; anything but ``parse`` escapes."""
    try:
        parse(text)
    except DidymaError as e:
        if e.code != "parse":
            raise
        str(e).encode("utf-8")
        return False
    return True
