"""Read a program from text and verify it; an error shows the line that breaks a law."""

from __future__ import annotations

import base64
import hashlib
import re

from didyma.codegen.intrinsics import named
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Module, Node, Param
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.text import Files as Files
from didyma.refimpl.ir.text import parse, show_node
from didyma.refimpl.ir.text.graph import GraphReader
from didyma.refimpl.verify import graph, loop, program

_WIDE = 100  # characters of a line shown
_INLINE = 1024  # characters of base64 that stand in a text; longer constants have files
_BYTES = re.compile(rf'base64 "([A-Za-z0-9+/=]{{{_INLINE + 1},}})"')


def read(
    text: str, source: str = "<text>", files: Files | None = None
) -> Module | Program | tuple[PrimFunc, ...]:
    """Parse and verify an IR; DidymaError ``parse``, or that of a law, with the line at fault.

    A loop function may call the intrinsics that are registered.
    """
    found = parse(text, source, files, named)
    try:
        match found:
            case Module():
                graph.verify(found)
            case Program():
                program.verify(found)
            case _:
                for f in found:
                    loop.verify(f)
    except DidymaError as e:
        lines = _node_lines(text, files) if isinstance(found, Module) else {}
        number = lines.get(e.where) or _search(text, e.where)
        if not number:
            raise
        shown = " ".join(text.split("\n")[number - 1].split())
        raise e.at(source, number, shown[:_WIDE]) from None
    return found


def read_module(text: str, source: str = "<text>", files: Files | None = None) -> Module:
    """Parse and verify a graph; errors as of ``read``, and ``parse`` for another level."""
    found = read(text, source, files)
    if isinstance(found, Module):
        return found
    raise DidymaError(
        "parse",
        f"{source}:1:1",
        got="a text of another level",
        want="a graph: `module {`",
        help="`didyma schedule FILE --check` judges a loop function",
    )


def _search(text: str, where: str) -> int:
    """Return the number of the one line that has what an error names last; 0 if none is sure."""
    rows = [" ".join(row.partition("#")[0].split()) for row in text.split("\n")]
    head, _, rest = where.partition(": ")
    name = re.split(r"[,:]", head)[0]
    defined = (f"primfunc {name}(", f"{name}(", f"{name} {{")
    for wanted in (" ".join(rest.split()), head.rpartition(", ")[2], *defined):
        found = [i for i, row in enumerate(rows, 1) if wanted and wanted in row]
        if len(found) == 1:
            return found[0]
    return 0


def _node_lines(text: str, files: Files | None) -> dict[str, int]:
    """Return the line, from 1, of each function, parameter and node, by its name in errors."""
    reader = GraphReader(text, "", files)
    reader.module()
    numbers: dict[str, int] = {}
    for function, what, at in reader.places:
        match what:
            case None:
                name = f"@{function}"
            case Param():
                name = f"@{function}, %{what.name}"
            case Node():
                name = f"@{function}: {show_node(what)}"
        numbers.setdefault(name, text.count("\n", 0, reader.starts[at]) + 1)
    return numbers


def with_files(text: str, files: dict[str, bytes]) -> str:
    """Return a text whose large constants are ``file "NAME"``, and add their bytes to ``files``.

    The name is the start of the SHA-256 of the bytes, so that equal constants share a file.
    """

    def apart(found: re.Match[str]) -> str:
        data = base64.b64decode(found[1])
        name = f"{hashlib.sha256(data).hexdigest()[:32]}.bin"
        files[name] = data
        return f'file "{name}"'

    return _BYTES.sub(apart, text)
