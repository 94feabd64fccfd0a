"""Loop programs as the comments of kernel text."""

from __future__ import annotations

from didyma.refimpl.ir.loop import PrimFunc, Stmt
from didyma.refimpl.ir.text.show_loop import LoopPrinter


def comment(line: str) -> str:
    """Return a line as a C comment, with characters replaced that might end it.

    >>> comment('add "x\\\\"')
    "// add 'x/'"
    """
    harmless = line.replace("\\", "/").replace('"', "'")
    return "// " + (harmless if _is_plain(harmless) else "".join(map(_plain, harmless)))


class _Printer(LoopPrinter):
    """Keeps the first line of the text of each statement, by the statement's identity."""

    def __init__(self) -> None:
        super().__init__()
        self.heads: dict[int, str] = {}

    def head(self, s: Stmt) -> str:
        text = self.heads[id(s)] = super().head(s)
        return text


def remarks(f: PrimFunc) -> tuple[list[str], dict[int, str]]:
    """Return the comments above a kernel, and the text of each of its statements by ``id``.

    The comments give the graph's values that the kernel computes, and its loop program.
    """
    printer = _Printer()
    printer.function(f)
    source = dict(f.attrs).get("source")
    names: list[str] = []
    if isinstance(source, tuple) and source:
        names.append(f"computes {', '.join(map(str, source))}")
    return [comment(line) for line in names + printer.lines], printer.heads


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _plain(c: str) -> str:
    return c if _is_plain(c) else "?"
