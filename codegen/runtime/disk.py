"""Files: read with coded errors, written completely or not at all."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from didyma.refimpl.errors import DidymaError, reason

STDIN = Path("-")
_FILE = "the name of a file, in a folder that takes files"


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

    What is no file, such as a device or a pipe, is written to and not replaced.
    DidymaError ``unwritable`` if that cannot be.
    """
    with _coded_errors(path, _FILE):
        if _is_special(path):
            path.write_bytes(_bytes(content))
        else:
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
            (Path(staged) / name).write_bytes(_bytes(content))
        taken = [name for name in contents if (folder / name).is_dir()]
        if taken:
            raise IsADirectoryError(f"{folder / taken[0]} is a folder")
        for name in contents:
            os.replace(Path(staged) / name, folder / name)


def _bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode("utf-8")


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


def must_have_folder(path: Path) -> None:
    """Raise ``unwritable`` where the folder that would hold a file or folder does not exist."""
    if not path.parent.is_dir():
        raise DidymaError(
            "unwritable", str(path), got=f"no folder {path.parent}", want="a folder that exists",
            help=f"make it first: mkdir -p {path.parent}",
        )  # fmt: skip


def must_take_files(folder: Path, *, parents: bool = False) -> None:
    """Make the folder, and with ``parents`` those above it.

    DidymaError ``unwritable`` if it takes no files.
    """
    with _coded_errors(folder):
        folder.mkdir(parents=parents, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


def must_take_file(path: Path) -> None:
    """Raise ``unwritable`` where `write_file` could not write a file; before long work, mostly."""
    with _coded_errors(path, _FILE):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not _is_special(path):
            with tempfile.TemporaryFile(dir=path.parent):
                pass


@contextmanager
def _coded_errors(
    place: Path, want: str = "a folder that takes files"
) -> Generator[None, None, None]:
    try:
        yield
    except OSError as e:
        must_have_folder(place)
        raise DidymaError(
            "unwritable", str(place), got=reason(e), want=want,
            help="name another place, or mend its permissions",
        ) from e  # fmt: skip
