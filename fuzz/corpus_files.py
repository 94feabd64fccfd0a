"""A corpus: cases in a folder that campaigns or people found worth judging again and again.

Each file is a finding as ``fuzz/replay.py`` writes it, whose head says why it is there, and what it
once showed or what it covers.  No two cases are equal in structure and options.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from didyma.codegen.runtime import disk
from didyma.fuzz import replay
from didyma.fuzz.groups import cause
from didyma.fuzz.replay import Recorded
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.text import show

FOLDER = Path(__file__).parent / "corpus"

_VALUE = re.compile(r"%[\w.]+")


def cases(folder: Path = FOLDER) -> dict[Path, Recorded]:
    """Read all cases of a corpus, in the order of their names.

    Errors: ``unreadable-file`` without a folder, ``bad-corpus`` for a file that does not say why it
    is there, and those of ``replay.load``.
    """
    if not folder.is_dir():
        raise DidymaError(
            "unreadable-file", str(folder), got="no folder", want="a folder of .dym cases"
        )
    found = {path: replay.load(path) for path in sorted(folder.glob("*.dym"))}
    for path, r in found.items():
        if not r.why:
            raise DidymaError(
                "bad-corpus", str(path), got="a case that does not say why it is there",
                want="`why` in its first line", help=f"didyma corpus add {path} --why TEXT",
                file=str(path), line=1, shown="# didyma finding {",
            )  # fmt: skip
    return found


def key(r: Recorded) -> str:
    """Return a digest that cases of one structure and the same options share.

    The structure is the program but for the names of its values, with the sizes that are bound.
    """
    names: dict[str, str] = {}
    text = _VALUE.sub(lambda m: names.setdefault(m[0], f"%v{len(names)}"), show(r.module))
    parts = repr((text, sorted(r.env.items()), sorted(r.case.changes)))
    return hashlib.blake2b(parts.encode(), digest_size=5).hexdigest()


def add(r: Recorded, why: str, covers: str = "", folder: Path = FOLDER) -> tuple[Path, bool]:
    """Write a case into a corpus; return its file, and whether it was not there before.

    Errors: ``unwritable``, ``bad-option`` for a reason without words, those of ``cases``.
    """
    if not why.strip():
        raise DidymaError("bad-option", "--why", got="no words", want="why the case is kept")
    kept = replace(r, why=" ".join(why.split()), covers=" ".join(covers.split()))
    there = {key(other): path for path, other in cases(folder).items()} if folder.is_dir() else {}
    if key(r) in there:
        return there[key(r)], False
    disk.write_files(folder, {_name(kept): replay.text(kept)})
    return folder / _name(kept), True


def merge(other: Path, folder: Path = FOLDER) -> list[Path]:
    """Write the cases of another corpus that this one does not have: all of them, or none."""
    there = {key(r) for r in cases(folder).values()} if folder.is_dir() else set[str]()
    new = {key(r): r for r in cases(other).values()}
    texts = {_name(r): replay.text(r) for k, r in new.items() if k not in there}
    if texts:
        disk.write_files(folder, texts)
    return [folder / name for name in sorted(texts)]


def signature(r: Recorded) -> str:
    """Return the level, kind and reason of what a case once showed; empty if it showed nothing."""
    return " ".join(filter(None, cause(r.finding))) if r.finding else ""


def _name(r: Recorded) -> str:
    """Return a file's name, from the ops of the case and its key."""
    ops = list(dict.fromkeys(n.op for f in r.module.functions for n in f.nodes))[:3]
    return "-".join([*ops, key(r)]) + ".dym"


def record(found: Mapping[Path, Recorded]) -> list[dict[str, object]]:
    """Return cases as a record of JSON types."""
    return [
        {
            "file": str(path),
            "why": r.why,
            "signature": signature(r),
            "covers": r.covers,
            "nodes": sum(len(f.nodes) for f in r.module.functions),
        }
        for path, r in found.items()
    ]
