"""The manifest of an artifact: which files it has, and by which hashes they are known.

It imports neither NumPy nor the compiler, nor what takes longer to import than a small artifact to
check, and nothing of an artifact is run to check it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from didyma.refimpl.errors import DidymaError, reason

NAME = "manifest.json"
HOST = "host"  # the target whose files stand in the folder itself
FORMAT, VERSION, ABI = "didyma-artifact", 1, 1  # ABI is that of the kernels' launch record
MOST = 1 << 24  # bytes of a manifest
_PATH = re.compile(r"(?:sm_\d+[a-z]?/)?(?:didyma_runtime/)?\w[\w.-]*", re.ASCII)
_IMPORTED = (".py", ".pyc", ".so", ".pyd")
_HELP = "build it again: didyma build FILE -o DIR"


class Artifact(NamedTuple):
    """An artifact whose files have been checked: its manifest, and their bytes by name."""

    folder: Path
    manifest: Mapping[str, Any]
    files: Mapping[str, bytes]

    def named(self, role: str, target: str = HOST) -> list[str]:
        """Return the files of a role for a target, by their names."""
        files = self.manifest["files"].items()
        return [n for n, entry in files if entry["role"] == role and self._target(n) == target]

    def _target(self, name: str) -> str:
        folder = name.partition("/")[0]
        return folder if folder in self.manifest["targets"] else HOST


def machine() -> str:
    """Name the machines that run the same machine code as this one, such as ``x86_64-linux``."""
    if not hasattr(os, "uname"):
        return f"{os.environ.get('PROCESSOR_ARCHITECTURE', '').lower()}-windows"
    found = os.uname()
    return f"{found.machine.lower()}-{found.sysname.lower()}"


def sha256(data: bytes) -> str:
    """Return the SHA-256 of bytes in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def sealed(fields: Mapping[str, Any], files: Mapping[str, tuple[str, bytes]]) -> bytes:
    """Return the text of a manifest; ``files`` are role and bytes by name."""
    entries = {
        name: {"role": role, "sha256": sha256(data), "bytes": len(data)}
        for name, (role, data) in files.items()
    }
    known = {"format": FORMAT, "version": VERSION, "abi": ABI}
    made = known | dict(fields) | {"files": entries}
    return signed(made)


def signed(m: Mapping[str, Any]) -> bytes:
    """Return the text of a manifest with its own hash."""
    return _text({**m, "sha256": _digest(m)})


def check(folder: Path) -> Artifact:
    """Return an artifact that can run here, each of whose bytes is the one that was written.

    Files that the manifest does not name are never read, and are refused where Python would import
    them beside the module.  Errors: ``not-an-artifact``, ``artifact-damaged``, ``artifact-newer``,
    ``artifact-elsewhere``.
    """
    m = _manifest(folder)
    try:
        return _whole(folder, m)
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise _damaged(folder / NAME, f"a wrong entry: {e}", "the entries of an artifact") from None


def _whole(folder: Path, m: Mapping[str, Any]) -> Artifact:
    if m["abi"] != ABI:
        raise _damaged(folder / NAME, f"launches of kind {m['abi']}", f"of kind {ABI}")
    machines, here = m["machines"], machine()
    if machines and here not in machines:
        raise DidymaError(
            "artifact-elsewhere", str(folder), got=f"machine code for {', '.join(machines)}",
            want=here, help="build it on such a machine",
        )  # fmt: skip
    files = {name: _file(folder, name, entry) for name, entry in m["files"].items()}
    for at in {(folder / name).parent for name in files if name.endswith("module.py")}:
        _alone(at, {folder / name for name in files})
    return Artifact(folder, m, files)


def _alone(at: Path, known: Collection[Path]) -> None:
    """Refuse what Python would import from a module's folder in the place of other packages."""
    for entry in sorted(at.iterdir()):
        imported = entry / "__init__.py" if entry.is_dir() else entry
        if imported.suffix in _IMPORTED and imported not in known and imported.exists():
            raise _damaged(imported, "a file that is not in the manifest", "none to import")


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / NAME
    try:
        data = _read(folder, NAME, MOST)
    except OSError as e:
        raise DidymaError(
            "not-an-artifact", str(folder), got=reason(e), want=f"a folder with {NAME}",
            help="didyma build FILE -o DIR makes one",
        ) from None  # fmt: skip
    try:
        found: object = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise _damaged(path, f"no JSON: {e}", "the manifest as it was written") from None
    m = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    if m.get("format") != FORMAT:
        raise _damaged(path, "a JSON text of another kind", f'"format": "{FORMAT}"')
    version = m.get("version")
    if isinstance(version, int) and version > VERSION:
        raise DidymaError(
            "artifact-newer", str(path), got=f"format {version}", want=f"at most {VERSION}",
            help="use the version of Didyma that built it, or a later one",
        )  # fmt: skip
    digest = m.pop("sha256", None)
    if data != _text(m | {"sha256": digest}) or digest != _digest(m):
        raise _damaged(path, "a manifest that was changed", "the bytes as they were written")
    if version != VERSION:
        raise _damaged(path, f"format {version}", f"format {VERSION}")
    return m


def _file(folder: Path, name: str, entry: Mapping[str, Any]) -> bytes:
    path = folder / name
    if not _PATH.fullmatch(name):
        raise _damaged(path, "a name outside the folder", "the name of a file in it")
    try:
        data = _read(folder, name, entry["bytes"])
    except OSError as e:
        raise _damaged(path, reason(e), "a file that can be read") from None
    if len(data) != entry["bytes"]:
        got = "more" if len(data) > entry["bytes"] else f"{len(data)}"
        raise _damaged(path, f"{got} bytes", f"{entry['bytes']} bytes")
    if (got := sha256(data)) != entry["sha256"]:
        raise _damaged(path, f"sha256 {got}", f"sha256 {entry['sha256']}")
    return data


def _read(folder: Path, name: str, most: int) -> bytes:
    """Return the bytes of a file, or one more than ``most`` where it has more.

    Errors: ``artifact-damaged`` for a link, or a file in a folder that is one, and for what is no
    plain file, such as a pipe; OSError.
    """
    path = folder / name
    kind = path.lstat().st_mode
    if os.path.realpath(path) != os.path.join(os.path.realpath(folder), *name.split("/")):
        raise _damaged(path, "a symbolic link", "a file of the folder's own")
    if not stat.S_ISREG(kind):
        raise _damaged(path, "no plain file", "a file of the folder's own")
    with path.open("rb") as f:
        return f.read(most + 1)


def _damaged(path: Path, got: str, want: str) -> DidymaError:
    return DidymaError("artifact-damaged", str(path), got=got, want=want, help=_HELP)


def _text(m: Mapping[str, Any]) -> bytes:
    return (json.dumps(m, indent=1, sort_keys=True) + "\n").encode()


def _digest(m: Mapping[str, Any]) -> str:
    return sha256(_text(m))
