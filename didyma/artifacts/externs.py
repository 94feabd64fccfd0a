"""The external functions of a program, as files of its artifact."""

from __future__ import annotations

from didyma.artifacts.manifest import sha256
from didyma.codegen.emit.externs import Entry, File
from didyma.codegen.emit.names import sanitise
from didyma.codegen.pipeline import Compiled
from didyma.codegen.runtime.externs import Bound, bound
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import Extern

Files = dict[str, tuple[str, bytes]]  # role and bytes by name


def contents(c: Compiled) -> tuple[Files, dict[str, Entry]]:
    """Return the files of the external functions that a program calls, and what is known of each.

    DidymaError ``artifact-extern`` where one has no implementation that can be carried.
    """
    lines = (s for q in (c.program, *c.program.functions) for s in walk(q.lines))
    called = {s.name for s in lines if isinstance(s, Extern)}
    known = {x.external.routine: x for x in bound(c.fused).values()} if called else {}
    files: Files = {}
    entries = {name: _entry(known.get(name), name, files) for name in sorted(called)}
    return files, entries


def none(c: Compiled, target: str) -> None:
    """Raise ``artifact-extern`` where a program for a GPU calls external functions."""
    _, entries = contents(c)
    if entries:
        want = f"a program for {target} without external functions"
        raise _refused(got=", ".join(entries), want=want)


def _entry(x: Bound | None, name: str, files: Files) -> Entry:
    if x is None or x.carried is None:
        want = "an implementation that is a Carried, or a generator of some"
        raise _refused(got=name, want=want)
    made = x.carried
    _ = made.function  # which says what is wrong with it
    stem = f"extern-{sanitise(name)}"

    def file(suffix: str, role: str, data: bytes) -> File:
        files[f"{stem}{suffix}"] = role, data
        return f"{stem}{suffix}", sha256(data)

    arrays = made.arrays()
    return Entry(
        x.external,
        made.symbol,
        made.out,
        file(".py", "extern", made.source.encode()),
        None if made.library is None else file(".so", "library", made.library),
        None if arrays is None else file(".npz", "constants", arrays),
    )


def _refused(got: str, want: str) -> DidymaError:
    return DidymaError(
        "artifact-extern", "the program", got=f"calls of {got}", want=want,
        help="leave out the options that hand functions over, or functions marked Compiler",
    )  # fmt: skip
