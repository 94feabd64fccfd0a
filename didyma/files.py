"""Programs from files: Didyma's own text, or ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from didyma.fuzz import disk
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.verify import graph as verify


def read_fixed(path: Path, sizes: Mapping[str, int]) -> tuple[Module, Mapping[str, int]]:
    """Read a module; where an ONNX model cannot be imported for every size, for given sizes.

    Returns the sizes that it was imported for too: none where they stay symbolic.
    """
    try:
        return read_module(path), {}
    except DidymaError:
        if path.suffix != ".onnx" or not sizes:
            raise
    return read_module(path, sizes), sizes


def read_module(path: Path, sizes: Mapping[str, int] | None = None) -> Module:
    """Read and verify a ``.dym`` graph or an ``.onnx`` model.

    ``sizes`` are numbers for sizes that an ONNX model leaves open.

    Errors: ``unreadable-file``, ``unknown-format``, ``extra-missing``, and those of the parser,
    the importer and the verifier.
    """
    if path.suffix == ".onnx":
        return _read_onnx(path, sizes or {})
    if path.suffix != ".dym":
        raise DidymaError(
            "unknown-format", str(path), got=path.suffix or "no suffix", want=".dym or .onnx"
        )
    m = parse_module(disk.read_text(path), str(path))
    verify.verify(m)
    return m


def need_onnx(path: Path) -> Callable[[Path, Mapping[str, int]], Module]:
    """Return the importer of ONNX; ``extra-missing`` unless models can be read and written."""
    try:
        from didyma.refimpl.onnx import load
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
    return load


def _read_onnx(path: Path, sizes: Mapping[str, int]) -> Module:
    return need_onnx(path)(path, sizes)
