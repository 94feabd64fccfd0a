"""Loop programs as the comments of kernel text."""

from __future__ import annotations

from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.text.show_loop import LoopPrinter


def comment(line: str) -> str:
    """Return a line as a C comment, with characters replaced that might end it.

    >>> comment('add "x\\\\"')
    "// add 'x/'"
    """
    harmless = line.replace("\\", "/").replace('"', "'")
    return "// " + (harmless if _is_plain(harmless) else "".join(map(_plain, harmless)))


def remarks(f: PrimFunc) -> list[str]:
    """Return the comments above a kernel: the graph's values that it computes, and its loops."""
    printer = LoopPrinter()
    printer.function(f)
    source = dict(f.attrs).get("source")
    names: list[str] = []
    if isinstance(source, tuple) and source:
        names.append(f"computes {', '.join(map(str, source))}")
    return [comment(line) for line in names + printer.lines]


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _plain(c: str) -> str:
    return c if _is_plain(c) else "?"
