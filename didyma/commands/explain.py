"""``didyma explain``: the text of every level of one program."""

from __future__ import annotations

import os
from pathlib import Path

from didyma.codegen.emit import wrapper
from didyma.codegen.emit.names import sanitise
from didyma.codegen.pipeline import Compiled, compile
from didyma.commands import common
from didyma.files import read_module
from didyma.fuzz import disk
from didyma.refimpl.ir.text import show


def explain(file: Path, out: Path, planner: str, json: bool) -> int:
    """Write every level's text to a folder: all of the files, or none."""
    options = common.options(planner)
    files = texts(compile(read_module(file), options))
    disk.write_files(out, files)
    if json:
        common.print_json({"folder": os.fspath(out), "files": sorted(files)})
        return common.AGREE
    width = max(len(name) for name in files)
    for name, text in files.items():
        unit = "bytes" if isinstance(text, bytes) else "characters"
        print(f"{name:{width}}  {len(text):>12,} {unit}")
    print(f"written to {out}")
    return common.AGREE


def texts(c: Compiled) -> dict[str, str | bytes]:
    """Return the files of a compile: each level by name, in the order in which they are made.

    The weights stand in a file of their own where the wrapper does not hold them.
    """
    files: dict[str, str | bytes] = {"00-source.dym": show(c.source)}
    for i, (name, after) in enumerate(c.passes, 1):
        files[f"{i:02}-{name}.dym"] = show(after)
    files["loops.dym"] = show(tuple(c.loops.values()))
    files["kernels.dym"] = show(tuple(k for ks in c.kernels.values() for k in ks))
    files["program.dym"] = show(c.program)
    files["program-unplanned.dym"] = show(c.unplanned)
    files["kernels.cu"] = c.text.source
    files["wrapper.py"] = c.wrapper
    if sum(len(t.data) for _, t in c.program.constants) > wrapper.EMBEDDED:
        files[f"{sanitise(c.program.name)}.weights"] = wrapper.weights(c.program)
    return files
