"""Programs from files: Didyma's own text, or ONNX."""

from __future__ import annotations

from pathlib import Path

from fuzz import disk
from refimpl.errors import DidymaError
from refimpl.ir.graph import Module
from refimpl.ir.text import parse_module
from refimpl.verify import graph as verify


def read_module(path: Path) -> Module:
    """Read and verify a ``.dym`` graph or an ``.onnx`` model.

    Errors: ``unreadable-file``, ``unknown-format``, ``extra-missing``, and those of the parser,
    the importer and the verifier.
    """
    if path.suffix == ".onnx":
        return _read_onnx(path)
    if path.suffix != ".dym":
        raise DidymaError(
            "unknown-format", str(path), got=path.suffix or "no suffix", want=".dym or .onnx"
        )
    m = parse_module(disk.read_text(path), str(path))
    verify.verify(m)
    return m


def _read_onnx(path: Path) -> Module:
    try:
        from refimpl.onnx import load
    except ModuleNotFoundError as e:
        if e.name is None or not e.name.startswith("onnx"):
            raise
        raise DidymaError(
            "extra-missing",
            str(path),
            got="no onnx package",
            want="the extra `onnx`",
            help="python3 -m pip install 'onnx>=1.17'",
        ) from None
    return load(path)
