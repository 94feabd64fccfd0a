"""``didyma explain``: the text of every level of one program, or what an error code means."""

from __future__ import annotations

import json as json_
import os
import sys
from difflib import get_close_matches
from pathlib import Path

from didyma import codes, logs, moves, on_gpu, splits, strided, tuning
from didyma.codegen import apart
from didyma.codegen.emit import wrapper
from didyma.codegen.options import EMBEDDED, Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime import disk
from didyma.codegen.runtime.registry import engine as engine_by_name
from didyma.commands import common
from didyma.files import read_module
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.aliases import aliases
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.text import show
from didyma.show import choices
from didyma.show.console import console, line, paragraph
from didyma.texts import read, with_files

HEURISTIC = "heuristic"  # the chooser that reads nothing


def explain(
    what: str,
    out: Path,
    options: Options,
    json: bool,
    engine: str = "host",
    choose: str = HEURISTIC,
) -> int:
    """Explain a file, or else an error code; DidymaError ``unknown-code`` for what is neither.

    ``choose`` is as in ``dd.compile`` for an engine; nothing runs on the engine but what is tuned.
    """
    path = Path(what)
    if not path.is_file() and path.suffix not in (".dym", ".onnx"):
        return _code(what, json)
    disk.must_have_folder(out)
    common.require([engine])
    m, by = read_module(path), dict[str, str]()
    if choose != HEURISTIC:
        device = engine_by_name(engine)
        options = tuning.suited(options, device)
        options = splits.chosen(m, options, device, choose)
        by = tuning.pickers(m, options, device, choose)
        options = tuning.chosen(m, options, device, choose)
    compiled = compile(m, options, listen=logs.listener())
    files = texts(compiled)
    rows = choices.records(compiled, options, by)
    files["choices.json"] = json_.dumps(tuning.picked(compiled, options), indent=2) + "\n"
    files |= choices.schedules(rows)
    disk.write_files(out, files)
    shared = [f"result {a}" for a in aliases(compiled.program)]
    calls = (*strided.on_host(compiled), *on_gpu.means(compiled, options))
    moved, parts = moves.told(compiled), apart.told(compiled, options)
    if json:
        times = {name: round(seconds, 6) for name, seconds in compiled.times}
        found = {"folder": os.fspath(out), "files": sorted(files), "seconds": times}
        more = {"choices": rows, "calls": calls, "aliases": shared, "moves": moved, "apart": parts}
        common.print_json({**found, **more})
        return common.AGREE
    width = max(len(name) for name in files)
    for name, text in files.items():
        unit = "bytes" if isinstance(text, bytes) else "characters"
        print(f"{name:{width}}  {len(text):>12,} {unit}")
    print(f"written to {out}")
    for row in (*choices.lines(rows), *calls, *shared, *moved, *parts):
        print(row)
    took = ", ".join(f"{name} {1e3 * t:.1f}" for name, t in compiled.times)
    print(f"milliseconds: {took}", file=sys.stderr)
    return common.AGREE


def texts(c: Compiled) -> dict[str, str | bytes]:
    """Return the files of a compile: each level by name, in the order in which they are made.

    Large constants stand in files of their own, which the texts name, and so do the weights where
    the wrapper does not hold them.
    """
    levels = {"00-source.dym": show(c.source)}
    for i, (name, after) in enumerate(c.passes, 1):
        levels[f"{i:02}-{name}.dym"] = show(after)
    levels["loops.dym"] = _functions(tuple(c.loops.values()))
    others = (x.kernel for row in c.variants.values() for x in row[1:])
    kernels = (*(k for ks in c.kernels.values() for k in ks), *others)
    levels["kernels.dym"] = _functions(tuple(k for k in kernels if isinstance(k, PrimFunc)))
    levels["program.dym"] = show(c.program)
    levels["program-unplanned.dym"] = show(c.unplanned)
    constants: dict[str, bytes] = {}
    files: dict[str, str | bytes] = {
        name: with_files(text, constants) for name, text in levels.items()
    }
    files["kernels.cu"] = c.text.source
    files["wrapper.py"] = c.wrapper
    if sum(len(t.data) for _, t in c.program.constants) > EMBEDDED:
        files[wrapper.weights_file(c.program)] = wrapper.weights(c.program)
    return files | constants


def _functions(fs: tuple[PrimFunc, ...]) -> str:
    return show(fs) if fs else "# None: no kernel computes a value of this program.\n"


def _code(code: str, json: bool) -> int:
    found = codes.meaning(code)
    if found is None:
        near = get_close_matches(code, codes.known(), 3)
        raise DidymaError(
            "unknown-code", code, got=code, want="a .dym or .onnx file, or the code of an error",
            help=f"did you mean {' or '.join(near)}?" if near else "docs/spec.md lists the laws",
        )  # fmt: skip
    message = _message(found.example) if codes.LAW.fullmatch(code) else ""
    if json:
        record = {"code": code, "meaning": found.text, "example": found.example}
        common.print_json(record | ({"message": message} if message else {}))
        return common.AGREE
    out = console()
    line(out, code)
    paragraph(out, found.text)
    if found.example:
        line(out, "example:")
        for row in found.example.splitlines():
            line(out, f"  {row}")
    for row in message.splitlines():
        line(out, row)
    return common.AGREE


def _message(example: str) -> str:
    """Return the message with which the example of a law is refused."""
    try:
        if example:
            read(example, "example.dym")
    except DidymaError as e:
        return str(e)
    return ""
