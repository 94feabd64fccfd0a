"""Files: read with coded errors, written completely or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from didyma.refimpl.errors import DidymaError, reason

STDIN = Path("-")


def read_text(path: Path) -> str:
    """Read a UTF-8 text, `-` from stdin; DidymaError ``unreadable-file`` where there is none."""
    try:
        if path == STDIN:
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as e:
        raise DidymaError(
            "unreadable-file", str(path), got=f"bytes that are no UTF-8, from byte {e.start} on",
            want="a text file",
        ) from e  # fmt: skip
    except OSError as e:
        raise DidymaError("unreadable-file", str(path), got=reason(e), want="a text file") from e


def write_file(path: Path, content: str | bytes) -> Path:
    """Write one file, all of it or nothing, into a folder that is there.

    DidymaError ``unwritable`` if that cannot be.
    """
    with _coded_errors(path.parent):
        _write(path.parent, {path.name: content})
    return path


def write_files(folder: Path, contents: Mapping[str, str | bytes]) -> None:
    """Write files into a folder, which is made if need be: all of them, or none.

    Everything is written under other names first, so a full disk leaves what was there as it was.
    The folder that holds it must be there.  DidymaError ``unwritable`` where the folder or a file
    cannot be written.
    """
    with _coded_errors(folder):
        folder.mkdir(exist_ok=True)
        _write(folder, contents)


def _write(folder: Path, contents: Mapping[str, str | bytes]) -> None:
    with tempfile.TemporaryDirectory(dir=folder, prefix=".writing-") as staged:
        for name, content in contents.items():
            data = content if isinstance(content, bytes) else content.encode("utf-8")
            (Path(staged) / name).write_bytes(data)
        taken = [name for name in contents if (folder / name).is_dir()]
        if taken:
            raise IsADirectoryError(f"{folder / taken[0]} is a folder")
        for name in contents:
            os.replace(Path(staged) / name, folder / name)


def must_take_files(folder: Path) -> None:
    """Make the folder, but not those above it, and raise ``unwritable`` if it takes no files."""
    with _coded_errors(folder):
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


@contextmanager
def _coded_errors(folder: Path) -> Generator[None, None, None]:
    try:
        yield
    except FileNotFoundError as e:
        missing = next((p for p in reversed(folder.parents) if not p.exists()), folder)
        raise DidymaError(
            "unwritable", str(folder), got=f"no folder {missing}",
            want="a folder in one that exists",
            help=f"make it first: mkdir -p {folder if missing == folder else folder.parent}",
        ) from e  # fmt: skip
    except OSError as e:
        raise DidymaError(
            "unwritable", str(folder), got=reason(e), want="a folder that takes files",
            help="name another folder, or mend its permissions",
        ) from e  # fmt: skip
