"""Choosers: by the model, by a record, by the cache or by measuring."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from didyma.codegen.guards import guarded
from didyma.codegen.options import Options
from didyma.codegen.select.cache import Cache, Pick
from didyma.codegen.select.choice import Choice, build, first
from didyma.codegen.select.keys import Bucket, Key, bucket_of, function, hints, key_of
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Function
from didyma.refimpl.ir.loop import PrimFunc

VERSION = 1  # of a record of choices


@dataclass(frozen=True, slots=True)
class Request:
    """A function that needs a choice: its loop program, options, target, and the sizes of its dims.

    ``engine`` is the name of the engine, and ``target`` says what it runs on.  Templates and
    codegens are asked for kernels only if the ``source`` is given: the function in the graph.
    """

    name: str
    loop: PrimFunc
    options: Options
    engine: str
    target: str
    env: Mapping[str, int]
    source: Function | None = None

    @property
    def usual(self) -> Choice:
        """The choice that a compile takes by itself."""
        return first(self.loop, self.options, self.source)

    @property
    def key(self) -> Key:
        """The conditions under which a pick for this request holds."""
        return key_of(self.loop, self.target, self.env, self.options)


class Chooser(Protocol):
    """Picks a choice for each function of a program."""

    def choose(self, request: Request) -> Choice:
        """Return the choice for a function."""
        ...


@dataclass(frozen=True, slots=True)
class Heuristic:
    """Takes what the model ranks first; nothing is timed."""

    def choose(self, request: Request) -> Choice:
        """Return the choice that a compile takes by itself."""
        return request.usual


@dataclass(frozen=True, slots=True)
class Entry:
    """A choice of a record; ``function`` is the hash of the function that it is for, if known.

    ``buckets`` has the choices of a function that ran with several, by bucket of sizes; ``choice``
    is one of them.
    """

    choice: Choice
    function: str = ""
    buckets: tuple[tuple[Bucket, Choice], ...] = ()


@dataclass(frozen=True, slots=True)
class Pinned:
    """Takes what a record says, and for functions that are not in it what the model says.

    ``parts`` is the option ``graph.parts`` by which the program has these functions, if known.
    """

    entries: Mapping[str, Entry] = field(default_factory=dict[str, Entry])
    where: str = "choices"
    parts: int | None = None

    def choose(self, request: Request) -> Choice:
        """Return the choice of the record.

        DidymaError ``bad-choice`` if it is for another function of that name.
        """
        entry = self.entries.get(request.name)
        if entry is None:
            return request.usual
        self._require(entry, request)
        if at := dict(entry.buckets):
            return at.get(bucket_of(request.loop, request.env), entry.choice)
        return entry.choice

    def _require(self, entry: Entry, request: Request) -> None:
        if entry.function and entry.function != function(request.loop):
            raise DidymaError(
                "bad-choice", f"{self.where}: {request.name}",
                got=f"{entry.choice}, for another function of this name",
                want=f"a choice for the function with the hash {function(request.loop)}",
                help="compile once without the record, and record the choices again",
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tuned:
    """Takes what the cache says; without a row there, measures, or else takes the model's choice.

    ``measure`` returns the pick for a request, which is then kept.
    """

    cache: Cache
    measure: Callable[[Request], Pick] | None = None

    def choose(self, request: Request) -> Choice:
        """Return the choice of the cache, of a measurement, or of the model."""
        if (found := self.known(request)) is not None:
            return found
        if self.measure is None:
            return request.usual
        return Choice.parse(self.measure(request).choice)

    def known(self, request: Request) -> Choice | None:
        """Return the choice of the cache; None if it has none that holds."""
        found = self.kept(request)
        return None if found is None else Choice.parse(found.choice, str(self.cache.path))

    def kept(self, request: Request) -> Pick | None:
        """Return the pick of the cache; None if it has none that holds."""
        found = self.cache.get(request.key.digest)
        return found if found is not None and is_current(found, request) else None


def who(chooser: Chooser, request: Request) -> str:
    """Return who picks a function's choice: ``tuned``, ``pinned``, or ``heuristic``."""
    match chooser:
        case Tuned():
            picks = chooser.measure is not None or chooser.known(request) is not None
            return "tuned" if picks else "heuristic"
        case Pinned():
            return "pinned" if request.name in chooser.entries else "heuristic"
        case Heuristic():
            return "heuristic"
        case _:
            return "pinned"


def is_current(pick: Pick, request: Request) -> bool:
    """Return whether the choice of a pick still makes the kernels that were judged and timed."""
    try:
        candidate = build(request.loop, request.options, Choice.parse(pick.choice), request.source)
    except DidymaError:
        return False
    return candidate.digest == pick.text


def choose_all(
    loops: Mapping[str, PrimFunc],
    options: Options,
    chooser: Chooser,
    engine: str,
    target: str,
    sizes: Mapping[str, int] | None = None,
    functions: Mapping[str, Function] | None = None,
) -> dict[str, Choice]:
    """Return a choice for each function of a program, at the sizes given or the usual hints.

    ``functions`` are those of ``loops`` in the graph, for which codegens may be chosen.

    DidymaError ``bad-choice`` for a record that names a function which the program lacks;
    ``failed-part`` where a chooser raises anything else, or returns no choice.
    """
    if isinstance(chooser, Pinned):
        for name in chooser.entries:
            if name not in loops:
                raise DidymaError(
                    "bad-choice", f"{chooser.where}: {name}", got=name,
                    want=f"one of {', '.join(loops) or 'none: no function is computed'}",
                )  # fmt: skip
    known, where = functions or {}, f"chooser {type(chooser).__name__}, choose"
    choose = guarded(where, chooser.choose, "a Choice", lambda x: isinstance(x, Choice))
    return {
        name: choose(
            Request(name, loop, options, engine, target, hints(loop, sizes), known.get(name))
        )
        for name, loop in loops.items()
    }


def record(
    loops: Mapping[str, PrimFunc],
    choices: Mapping[str, Choice],
    buckets: Mapping[str, Mapping[Bucket, Choice]] | None = None,
    parts: int = 0,
) -> dict[str, Any]:
    """Return choices as plain data, with the hashes of their functions; ``pinned`` reads it.

    ``buckets`` has the choices of functions that differ among buckets of sizes, and ``parts`` is
    the option ``graph.parts``.
    """
    rows: dict[str, dict[str, Any]] = {
        name: {"choice": str(choice), "function": function(loops[name])}
        for name, choice in choices.items()
    }
    for name, at in (buckets or {}).items():
        rows[name]["buckets"] = [{"sizes": dict(b), "choice": str(c)} for b, c in at.items()]
    return {"version": VERSION, **({"parts": parts} if parts else {}), "choices": rows}


def pinned(given: Any, where: str = "choices") -> Pinned:
    """Return the chooser of a record, or of a mapping of names to the texts of choices.

    Errors: ``bad-choice`` for data of another form, ``newer-format`` for a later version's.
    """
    data = _object(given, where)
    rows = _object(data.get("choices", data), where)
    version = data.get("version", VERSION) if "choices" in data else VERSION
    if version != VERSION:
        raise DidymaError(
            "newer-format", where, got=f"version {version}", want=f"version {VERSION}",
            help="read it with the Didyma that wrote it, or a newer one",
        )  # fmt: skip
    parts = data.get("parts") if "choices" in data else None
    if not (parts is None or (isinstance(parts, int) and parts >= 0)):
        raise DidymaError("bad-choice", f"{where}: parts", got=f"{parts}", want="a number of parts")
    return Pinned({k: _entry(v, f"{where}: {k}") for k, v in rows.items()}, where, parts)


def _object(given: Any, where: str) -> Mapping[str, Any]:
    if isinstance(given, Mapping):
        return cast("Mapping[str, Any]", given)
    raise DidymaError("bad-choice", where, got=type(given).__name__, want="an object")


def _entry(given: Any, where: str) -> Entry:
    row: Mapping[str, Any] = {"choice": given} if isinstance(given, str) else _object(given, where)
    if not isinstance(row.get("choice"), str):
        raise DidymaError("bad-choice", where, got=json.dumps(given, default=str), want="a text")
    return Entry(
        Choice.parse(row["choice"], where),
        str(row.get("function", "")),
        tuple(_at(_object(r, where), where) for r in row.get("buckets", ())),
    )


def _at(row: Mapping[str, Any], where: str) -> tuple[Bucket, Choice]:
    sizes = _object(row.get("sizes"), where)
    at = tuple(sorted((str(k), int(v)) for k, v in sizes.items()))
    return at, Choice.parse(str(row.get("choice")), where)
