"""Programs from files: Didyma's own text, or ONNX."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from didyma import texts
from didyma.codegen.runtime import disk
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.loop import PrimFunc

LEVELS = ("module", "program", "kernel", "primfunc")  # first words of texts
_LOOPS = re.compile(r"(?:\s|#[^\n]*\n)*(?:kernel|primfunc)\b")
_CONSTANT = re.compile(r"[0-9a-f]{32}\.bin")


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


def require_folders(paths: Iterable[Path], option: str) -> None:
    """Raise ``unreadable-file`` unless each path is a folder."""
    for path in paths:
        if not path.is_dir():
            got = "a file" if path.exists() else "no such folder"
            raise DidymaError("unreadable-file", f"{option} {path}", got=got, want="a folder")


def read_module(path: Path, sizes: Mapping[str, int] | None = None) -> Module:
    """Read and verify a ``.dym`` graph or an ``.onnx`` model.

    ``sizes`` are numbers for sizes that an ONNX model leaves open.

    Errors: ``unreadable-file``, ``unknown-format``, ``extra-missing``, and those of the parser,
    the importer and the verifier.
    """
    if path.suffix == ".onnx":
        return _read_onnx(path, sizes or {})
    if path.suffix != ".dym" and path.exists():
        raise DidymaError(
            "unknown-format", str(path), want=".dym or .onnx",
            got=path.suffix or ("a folder" if path.is_dir() else "no suffix"),
        )  # fmt: skip
    return texts.read_module(disk.read_text(path), str(path), beside(path))


def read_loops(path: Path) -> PrimFunc | None:
    """Read and verify the one loop function of a ``.dym`` text; None for a text of another level.

    Errors: ``unreadable-file``, ``several-functions``, and those of the parser and the verifier.
    """
    if path.suffix == ".onnx" or (path.suffix != ".dym" and path.exists()):
        return None
    text = disk.read_text(path)
    if not _LOOPS.match(text):
        return None
    found = texts.read(text, str(path), beside(path))
    assert isinstance(found, tuple)
    if len(found) != 1:
        names = ", ".join(f.name for f in found)
        raise DidymaError(
            "several-functions", str(path), got=f"{len(found)} functions: {names}", want="one",
            help="write one of them to a file; functions that it calls stand between its braces",
        )  # fmt: skip
    return found[0]


def beside(path: Path) -> texts.Files:
    """Return a reader for the constants that a text keeps in files beside it.

    The reader returns None for a file name that ``didyma explain`` would not have chosen, and for
    a file whose bytes are not those that it wrote.
    """

    def read(name: str) -> bytes | None:
        file = path.parent / name
        if not _CONSTANT.fullmatch(name) or not file.is_file():
            return None
        data = file.read_bytes()
        return data if hashlib.sha256(data).hexdigest()[:32] == file.stem else None

    return read


def keep_stdin(folder: Path) -> Path:
    """Write stdin to a file whose suffix tells its format: .dym, .csv, .onnx, .cu or .ptx."""
    data = sys.stdin.buffer.read()
    path = folder / f"didyma-stdin{_suffix(data)}"
    path.write_bytes(data)
    return path


def _suffix(data: bytes) -> str:
    try:
        words = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return ".onnx"
    if any(c < " " and c not in "\t\r\n\f" for c in words[:4096]):
        return ".onnx"
    first = next((row for row in words.splitlines() if row.strip() and row[0] != "#"), "")
    if first.startswith(LEVELS):
        return ".dym"
    if "__global__" in words:
        return ".cu"
    if re.search(r"^\s*\.version\b", words, re.MULTILINE):
        return ".ptx"
    return ".csv" if "," in first else ".dym"


def need_onnx(path: Path) -> Callable[[Path, Mapping[str, int]], Module]:
    """Return the importer of ONNX; ``extra-missing`` unless models can be read and written."""
    try:
        from didyma.onnx import load
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
