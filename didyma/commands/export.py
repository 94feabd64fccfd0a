"""``didyma export``: a program as an ONNX model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from didyma.codegen.runtime import disk
from didyma.commands import common
from didyma.files import need_onnx, read_fixed
from didyma.refimpl.errors import DidymaError


def export(file: Path, out: Path, given: Sequence[str], json: bool) -> int:
    """Write a file as an ONNX model, all of it or nothing.

    Errors: ``onnx-inexpressible``, ``unwritable`` and those of reading the file.
    """
    if out.suffix != ".onnx":
        raise DidymaError(
            "unknown-format", str(out), got=out.suffix or "no suffix", want="a name in .onnx"
        )
    disk.must_take_file(out)
    need_onnx(out)
    from didyma.onnx.export import to_model

    m, _ = read_fixed(file, common.sizes(given))
    model = to_model(m)
    disk.write_file(out, model.SerializeToString())
    count = len(model.graph.node)
    if json:
        common.print_json({"file": str(out), "nodes": count})
    else:
        print(f"{out}: {count} nodes")
    return common.AGREE
