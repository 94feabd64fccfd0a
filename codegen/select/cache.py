"""The persistent cache of picks: an SQLite file that several processes read and write at once.

Every write is a transaction of its own in write-ahead logging, so that a process that is killed
leaves whole rows and nothing else.  A file that is damaged, or that a newer version wrote, is
reported and never deleted, unless the user asks for that.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar, cast

from didyma.codegen.runtime.compiler import cache_folder
from didyma.codegen.select.choice import Choice
from didyma.refimpl.errors import DidymaError, reason

T = TypeVar("T")

VERSION = 1  # of the tables
_APPLICATION = 0x64796D61  # marks the file as this cache
_MARK = slice(68, 72)  # where SQLite keeps the mark in a file
_PATIENCE = 60.0  # seconds to wait for another process that writes
_FILES = ("", "-wal", "-shm")  # what SQLite keeps beside the file
_TABLES = (
    "CREATE TABLE picks (key TEXT PRIMARY KEY, choice TEXT NOT NULL, text TEXT NOT NULL,"
    " function TEXT NOT NULL, target TEXT NOT NULL, conditions TEXT NOT NULL,"
    " seconds REAL, usual REAL) WITHOUT ROWID",
    "CREATE TABLE verdicts (key TEXT, text TEXT, choice TEXT NOT NULL, reason TEXT NOT NULL,"
    " PRIMARY KEY (key, text)) WITHOUT ROWID",
)


@dataclass(frozen=True, slots=True)
class Pick:
    """A pick that was measured: a row of the cache.

    ``key`` is the hash of the key, and ``conditions`` the key as JSON.  ``text`` is the hash of the
    kernels' text that was judged and timed.  ``seconds`` is the time of the choice, and ``usual``
    that of the choice that the model ranks first.
    """

    key: str
    choice: str
    text: str
    function: str
    target: str
    conditions: str
    seconds: float
    usual: float


_COLUMNS = ", ".join(f.name for f in fields(Pick))
_MARKS = ", ".join("?" for _ in fields(Pick))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the judge said of a choice; ``reason`` is empty where it is right.

    ``text`` is the hash of the kernels' text: a verdict is on a text, however it came to be.
    """

    text: str
    choice: str
    reason: str


def default_path() -> Path:
    """Return the file of the cache by the platform's custom."""
    return cache_folder() / "choices.sqlite"


@dataclass(frozen=True, slots=True)
class Cache:
    """Picks in a file; it is opened for each call, so that a cache may go to any process.

    Errors of every method: ``corrupt-cache`` for a file that is no cache or is damaged,
    ``newer-cache`` for one that a newer version wrote, ``unwritable``.
    """

    path: Path

    def get(self, key: str) -> Pick | None:
        """Return the pick under a key; None if there is none."""
        if not self.path.exists():
            return None
        rows = self._run(
            lambda c: c.execute(f"SELECT {_COLUMNS} FROM picks WHERE key = ?", (key,)).fetchall()
        )
        return self._pick(rows[0]) if rows else None

    def add(self, pick: Pick) -> Pick:
        """Keep a pick and return what is kept: of processes that tune at once, the first one's."""

        def work(c: sqlite3.Connection) -> None:
            c.execute(f"INSERT OR IGNORE INTO picks VALUES ({_MARKS})", _row(pick))

        self._write(work)
        found = self.get(pick.key)
        return pick if found is None else found

    def replace(self, picks: Sequence[Pick]) -> None:
        """Keep picks, in one transaction, in the place of those under the same keys."""

        def work(c: sqlite3.Connection) -> None:
            c.executemany(f"INSERT OR REPLACE INTO picks VALUES ({_MARKS})", map(_row, picks))

        self._write(work)

    def judged(self, key: str, verdict: Verdict) -> None:
        """Keep what the judge said, so that tuning that was killed need not ask again."""

        def work(c: sqlite3.Connection) -> None:
            row = (key, verdict.text, verdict.choice, verdict.reason)
            c.execute("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?)", row)

        self._write(work)

    def verdicts(self, key: str) -> dict[str, Verdict]:
        """Return what the judge said of the choices under a key, by the hashes of their texts."""
        if not self.path.exists():
            return {}
        query = "SELECT text, choice, reason FROM verdicts WHERE key = ?"
        rows = self._run(lambda c: c.execute(query, (key,)).fetchall())
        return {text: Verdict(text, choice, reason) for text, choice, reason in rows}

    def picks(self) -> list[Pick]:
        """Return all picks, sorted by their keys."""
        if not self.path.exists():
            return []
        query = f"SELECT {_COLUMNS} FROM picks ORDER BY key"
        rows = self._run(lambda c: c.execute(query).fetchall())
        return [self._pick(row) for row in rows]

    def clear(self) -> int:
        """Delete every row and return how many picks there were.

        A cache that is damaged, or that a newer version wrote, is deleted; its picks count as 0.
        A file without the mark of a cache stays as it is: ``corrupt-cache``.
        """
        if not self.path.exists():
            return 0

        def work(c: sqlite3.Connection) -> int:
            count = int(c.execute("SELECT count(*) FROM picks").fetchone()[0])
            c.execute("DELETE FROM picks")
            c.execute("DELETE FROM verdicts")
            return count

        try:
            return self._write(work)
        except DidymaError as e:
            if e.code not in ("corrupt-cache", "newer-cache") or not self._is_marked():
                raise
            for suffix in _FILES:
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            return 0

    def _run(self, work: Callable[[sqlite3.Connection], T], begin: str = "BEGIN") -> T:
        """Do some work in one transaction."""
        with self._errors(), closing(self._open()) as c:
            self._prepare(c)
            return _transaction(c, begin, work)

    def _open(self) -> sqlite3.Connection:
        if not self.path.exists():
            self._make_file()
        return _connection(self.path)

    def _make_file(self) -> None:
        """Put a whole new file in its place, unless another process is first.

        It is made under another name, because SQLite refuses to turn write-ahead logging on while
        another process looks at the file.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=self.path.parent, prefix=self.path.name) as folder:
            made = Path(folder) / self.path.name
            with closing(_connection(made)) as c:
                c.execute("PRAGMA journal_mode = WAL")
                _transaction(c, "BEGIN IMMEDIATE", self._make_tables)
            with suppress(FileExistsError):
                os.link(made, self.path)

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do some work in one transaction that no other process may write during."""
        return self._run(work, "BEGIN IMMEDIATE")

    def _prepare(self, c: sqlite3.Connection) -> None:
        """Make the tables of an empty file; refuse a file that is none of ours or newer."""
        if _transaction(c, "BEGIN", self._version) != VERSION:
            _transaction(c, "BEGIN IMMEDIATE", self._make_tables)

    def _make_tables(self, c: sqlite3.Connection) -> None:
        if self._version(c):
            return  # another process made them in the meantime
        for table in _TABLES:
            c.execute(table)
        c.execute(f"PRAGMA application_id = {_APPLICATION}")
        c.execute(f"PRAGMA user_version = {VERSION}")

    def _version(self, c: sqlite3.Connection) -> int:
        """Return the version of the tables, 0 for a new file; ask inside a transaction.

        Outside of one, another process could make the tables between two of the questions.
        """
        version = int(c.execute("PRAGMA user_version").fetchone()[0])
        mark = int(c.execute("PRAGMA application_id").fetchone()[0])
        tables = int(c.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
        if (version or tables) and mark != _APPLICATION:
            raise self._corrupt("a database of something else")
        if version > VERSION:
            raise DidymaError(
                "newer-cache", str(self.path), got=f"version {version} of its tables",
                want=f"version {VERSION}",
                help="use the newer Didyma, or give this one a file of its own with --cache;"
                " `didyma tune --clear` deletes the file",
            )  # fmt: skip
        return version

    @contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except sqlite3.OperationalError as e:
            if "malformed" in str(e) or "no such" in str(e):
                raise self._corrupt(str(e)) from None
            raise DidymaError(
                "unwritable", str(self.path), got=str(e), want="a file that can be written"
            ) from None
        except sqlite3.DatabaseError as e:
            raise self._corrupt(str(e)) from None
        except OSError as e:
            raise DidymaError(
                "unwritable", str(self.path), got=reason(e), want="a folder that can be written",
                help="name another file, or mend the permissions of its folder",
            ) from None  # fmt: skip

    def _corrupt(self, got: str) -> DidymaError:
        end = (
            "let `didyma tune --clear` delete it"
            if self._is_marked()
            else "delete it yourself: it has no mark of a cache, so that no command does"
        )
        return DidymaError(
            "corrupt-cache", str(self.path), got=got, want="a cache of choices",
            help=f"move the file away to keep it, or {end}",
        )  # fmt: skip

    def _is_marked(self) -> bool:
        """Tell whether the file begins as a cache does, so that it is nobody else's."""
        with self.path.open("rb") as f:
            return f.read(_MARK.stop)[_MARK] == _APPLICATION.to_bytes(4, "big")

    def _pick(self, row: Sequence[Any]) -> Pick:
        try:
            return _checked(dict(zip((f.name for f in fields(Pick)), row, strict=True)))
        except (DidymaError, TypeError, ValueError) as e:
            raise self._corrupt(f"a row {row[0]!r} that cannot be read: {e}") from None


def _connection(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)


def _transaction(c: sqlite3.Connection, begin: str, work: Callable[[sqlite3.Connection], T]) -> T:
    """Do some work between ``begin`` and COMMIT; an exception rolls it back."""
    c.execute(begin)
    try:
        result = work(c)
    except BaseException:
        c.execute("ROLLBACK")
        raise
    c.execute("COMMIT")
    return result


def _row(pick: Pick) -> tuple[object, ...]:
    return tuple(asdict(pick).values())


def _checked(record: Mapping[str, object]) -> Pick:
    """Make a pick of plain data; TypeError, ValueError or DidymaError if it is none."""
    for f in fields(Pick):
        kinds = (int, float) if f.name in ("seconds", "usual") else str
        if not isinstance(record.get(f.name), kinds):
            raise TypeError(f"{f.name} is {record.get(f.name)!r}")
    Choice.parse(str(record["choice"]))
    json.loads(str(record["conditions"]))
    known = {f.name for f in fields(Pick)}
    return Pick(**cast("Any", {k: v for k, v in record.items() if k in known}))


def exported(picks: Sequence[Pick]) -> str:
    """Return picks as a JSON document, which ``imported`` reads."""
    rows = [asdict(p) for p in picks]
    return json.dumps({"version": VERSION, "picks": rows}, indent=2) + "\n"


def imported(text: str, where: str) -> list[Pick]:
    """Read the document that ``exported`` writes.

    Errors: ``unreadable-file`` for another text, ``newer-format`` for a later version's.
    """
    try:
        document = json.loads(text)
        version, rows = int(document["version"]), list(document["picks"])
    except (ValueError, TypeError, KeyError) as e:
        raise _unreadable(where, f"{type(e).__name__}: {e}") from None
    if version > VERSION:
        raise DidymaError(
            "newer-format", where, got=f"version {version}", want=f"version {VERSION}",
            help="read it with the Didyma that wrote it, or a newer one",
        )  # fmt: skip
    try:
        return [_checked(row) for row in rows]
    except (ValueError, TypeError, AttributeError, DidymaError) as e:
        raise _unreadable(where, str(e)) from None


def _unreadable(where: str, got: str) -> DidymaError:
    want = "picks that `didyma tune --export` wrote"
    return DidymaError("unreadable-file", where, got=got, want=want)
