"""Certificates: what was judged of a kernel, bound to its text and to its specification."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np

from didyma.codegen.runtime import disk
from didyma.codegen.runtime.nvrtc import NvrtcCompiler
from didyma.judging.judge import Judgement
from didyma.refimpl.errors import DidymaError, reason
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.text import show
from didyma.refimpl.version import VERSION

FORMAT = 1
_KINDS = {"asked": dict, "kernel": dict, "spec": dict, "rounds": list, "versions": dict}
CHECKS = (
    "assert", "barrier-divergence", "constant", "hang", "inactive-lane", "input-changed",
    "misaligned", "out-of-bounds", "race", "trap", "uninitialised", "unwaited", "unwritten",
    "warp-divergence", "wrong-mask",
)  # fmt: skip


def digest(text: str) -> str:
    """Return the SHA-256 of a text in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def of_spec(m: Module) -> str:
    """Return the digest of a specification: of its graph's text, wherever that was written."""
    return digest(show(m))


def certificate(found: Judgement, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the certificate of a judgement; ``asked`` is what the command was given."""
    task = found.task
    symbols = sorted({s for c in found.cases for s in c.env})
    body: dict[str, Any] = {
        "format": FORMAT,
        "verdict": found.outcome.value,
        "asked": dict(asked),
        "kernel": {"name": task.label, "sha256": digest(task.source.text)},
        "spec": {"name": task.spec.entry.name, "sha256": of_spec(task.spec)},
        "contract": asdict(task.contract),
        "seed": task.draw.seed,
        "seconds": task.draw.seconds,
        "sizes": {s: sorted({c.env[s] for c in found.cases}) for s in symbols},
        "rounds": [str(c) for c in found.cases],
        "untried": [str(c) for c in found.untried],
        "unlaunched": [str(c) for c in found.unlaunched],
        "elements": {"checked": found.checked, "total": found.total},
        "warnings": found.warnings,
        "launches": found.launches,
        "cannot_tell": found.accepted,
        "deterministic": found.deterministic,
        "batch_invariant": found.batch_invariant,
        "clean_of": [k for k in CHECKS if k not in {f.kind for f, _ in found.faults}],
        "versions": {
            "didyma": VERSION, "nvrtc": _nvrtc(task.source.file),
            "numpy": np.__version__, "python": platform.python_version(),
        },
    }  # fmt: skip
    return {**body, "sha256": _seal(body)}


def _nvrtc(file: str) -> str:
    return "" if file.endswith(".ptx") else NvrtcCompiler().version


def _seal(body: Mapping[str, Any]) -> str:
    return digest(json.dumps(body, sort_keys=True, ensure_ascii=False))


def write(path: Path, made: Mapping[str, Any]) -> None:
    """Write a certificate, all of it or nothing; DidymaError ``unwritable``."""
    disk.write_file(path, json.dumps(made, indent=2, ensure_ascii=False) + "\n")


def read(path: Path) -> dict[str, Any]:
    """Read a certificate that is as it was written.

    Errors: ``unreadable-file``; ``bad-certificate`` for a file of another kind or one that was
    edited.
    """
    try:
        loaded: Any = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as e:
        raise DidymaError("unreadable-file", str(path), got=reason(e), want="a certificate") from e
    except ValueError as e:
        raise _bad(path, f"no JSON: {e}") from None
    found = cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else {}
    if found.get("format") != FORMAT:
        raise _bad(path, "a file of another kind or format")
    body = {k: v for k, v in found.items() if k != "sha256"}
    if found.get("sha256") != _seal(body):
        raise _bad(path, "a certificate that was edited")
    for key, kind in _KINDS.items():
        if not isinstance(found.get(key), kind):
            raise _bad(path, f"`{key}` = {found.get(key)!r}")
    for what in ("kernel", "spec"):
        if not isinstance(found[what].get("sha256"), str):
            raise _bad(path, f"a {what} without `sha256`")
    return found


def _bad(path: Path, got: str) -> DidymaError:
    return DidymaError(
        "bad-certificate", str(path), got=got, want="a certificate as `didyma judge` wrote it",
        help="judge the kernel again, with --certificate FILE",
    )  # fmt: skip


def require_same(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise ``stale-certificate`` where the kernel or the specification is another one."""
    for what in ("kernel", "spec"):
        if old[what]["sha256"] != new[what]["sha256"]:
            raise DidymaError(
                "stale-certificate", str(path), got=f"another {what} than was certified",
                want=f"the {what} of SHA-256 {old[what]['sha256'][:12]}…",
                help="judge it again, with --certificate FILE",
            )  # fmt: skip


FACTS = (
    "verdict", "contract", "sizes", "rounds", "elements", "deterministic", "batch_invariant",
    "clean_of", "cannot_tell",
)  # fmt: skip


def changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return what two certificates of one kernel state differently, but for versions.

    >>> changed({"verdict": "correct"}, {"verdict": "wrong"})
    ['verdict']
    """
    return [k for k in FACTS if old.get(k) != new.get(k)]
