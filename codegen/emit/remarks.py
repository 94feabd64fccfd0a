"""Loop programs as the comments of kernel text."""

from __future__ import annotations

from collections.abc import Iterator

from refimpl.ir.loop import PrimFunc
from refimpl.ir.text import show


def comment(line: str) -> str:
    """Return a line as a comment that stays one, whatever names it holds.

    >>> comment('add "x\\\\"')
    "// add 'x/'"
    """
    harmless = line.replace("\\", "/").replace('"', "'")
    return "// " + (harmless if _is_plain(harmless) else "".join(map(_plain, harmless)))


def above(f: PrimFunc) -> Iterator[str]:
    """Yield what stands above a kernel: the graph's values that it computes, its loop program."""
    source = dict(f.attrs).get("source")
    if isinstance(source, tuple) and source:
        yield comment(f"computes {', '.join(map(str, source))}")
    for line in show(f).splitlines():
        yield comment(line)


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _plain(c: str) -> str:
    return c if _is_plain(c) else "?"
