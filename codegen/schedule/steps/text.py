"""The text form of schedules: ``parse(show(s)) == s``; files of it end in ``.dys``.

    schedule @fused_add_0 {
      split i0 by 32 guarded into i0_outer, i0_inner
      reorder i1, i0_inner
      tile i, j by 8, 32 into i_outer, j_outer, i_inner, j_inner
      bind i0_outer to blockIdx.x
      stage a at k_outer in registers into a_stage
    }

A step stands for one line, though lines have no meaning; ``#`` starts a comment.  A schedule
belongs to the function that it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from didyma.codegen.schedule.steps import records
from didyma.codegen.schedule.steps.records import Across, Memory, Schedule, Step, Tail
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.text.lex import Lexer
from didyma.refimpl.ir.text.literals import global_name
from didyma.refimpl.ir.text.show_loop import local_name


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a step's text: a word before it, if any, and the field that it gives.

    ``kind`` is ``name``, ``names``, ``int``, ``ints``, ``flag``, ``label``, or an enumeration of
    words.
    """

    word: str
    field: str
    kind: str | type[StrEnum]
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """How a step is written: its record and its clauses, in order."""

    record: type[Any]
    clauses: tuple[Clause, ...]


_LOOP = Clause("", "loop", "name")
_LOOPS = Clause("", "loops", "names")
_BUFFER = Clause("", "buffer", "name")
_INTO = Clause("into", "into", "name", optional=True)
_INTO_ALL = Clause("into", "into", "names", optional=True)
_REASSOCIATES = Clause("reassociates", "reassociates", "flag", optional=True)

FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "split": Form(
            records.Split,
            (_LOOP, Clause("by", "factor", "int"), Clause("", "tail", Tail, True), _INTO_ALL),
        ),
        "fuse": Form(records.Fuse, (_LOOPS, _INTO)),
        "join": Form(records.Join, (_LOOPS,)),
        "reorder": Form(records.Reorder, (_LOOPS, _REASSOCIATES)),
        "tile": Form(
            records.Tile, (_LOOPS, Clause("by", "factors", "ints"), _INTO_ALL, _REASSOCIATES)
        ),
        "unroll": Form(records.Unroll, (_LOOP,)),
        "vectorize": Form(records.Vectorize, (_LOOP,)),
        "parallel": Form(records.Parallel, (_LOOP,)),
        "bind": Form(records.Bind, (_LOOP, Clause("to", "axis", "label"))),
        "inline": Form(records.Inline, (Clause("", "name", "name"),)),
        "stage": Form(
            records.Stage,
            (_BUFFER, Clause("at", "loop", "name"), Clause("in", "memory", Memory, True), _INTO),
        ),
        "compute_at": Form(records.ComputeAt, (_BUFFER, Clause("at", "loop", "name"))),
        "rfactor": Form(records.Rfactor, (_BUFFER, Clause("over", "loop", "name"), _INTO)),
        "reduce_across": Form(
            records.ReduceAcross,
            (_BUFFER, Clause("over", "loop", "name"), Clause("by", "by", Across, True), _INTO),
        ),
        "swizzle": Form(records.Swizzle, (_BUFFER, Clause("by", "factor", "int"))),
        "pipeline": Form(
            records.Pipeline,
            (_LOOP, Clause("for", "buffer", "name"), Clause("depth", "depth", "int", True)),
        ),
        "vectors": Form(records.Vectors, (_LOOP,)),
        "blockize": Form(records.Blockize, (_LOOP,)),
        "tensorize": Form(records.Tensorize, (_LOOP, Clause("with", "function", "name"))),
    }
)
_NAMES: Mapping[type[Any], str] = MappingProxyType({f.record: n for n, f in FORMS.items()})


@dataclass(frozen=True, slots=True)
class ScheduleText:
    """A schedule, the function it is for, and where its steps stand in a text.

    ``places`` are line and column of each step, from 1, and ``head`` is the line that names the
    function; none where the schedule was no text.
    """

    function: str
    steps: Schedule
    places: tuple[tuple[int, int], ...] = ()
    source: str = "<text>"
    text: str = ""
    head: int = 0

    def at(self, position: int, e: DidymaError) -> DidymaError:
        """Return the error of a step with its place in the text."""
        if not self.places:
            return e
        row, _ = self.places[position]
        return self._on(row, e)

    def at_head(self, e: DidymaError) -> DidymaError:
        """Return an error about the function that the schedule is for, with its place."""
        return self._on(self.head, e) if self.head else e

    def _on(self, row: int, e: DidymaError) -> DidymaError:
        return e.at(self.source, row, self.text.split("\n")[row - 1].strip())


def step_name(step: Step) -> str:
    """Return the name of a step's kind, such as ``split``."""
    return _NAMES[type(step)]


def show_step(step: Step) -> str:
    """Return the text of a step.

    >>> from didyma.codegen.schedule.steps.records import Split
    >>> show_step(Split("i", 32))
    'split i by 32 guarded into i_outer, i_inner'
    """
    name = step_name(step)
    parts = [name]
    for c in FORMS[name].clauses:
        value = getattr(step, c.field)
        if c.kind == "flag":
            parts += [c.word] if value else []
            continue
        parts += [c.word] if c.word else []
        parts.append(_text(value, c.kind))
    return " ".join(parts)


def _text(value: Any, kind: str | type[StrEnum]) -> str:
    match kind:
        case "name":
            return local_name(value)
        case "names":
            return ", ".join(map(local_name, value))
        case "ints":
            return ", ".join(map(str, value))
        case _:
            return str(value)


def show(steps: Schedule, function: str) -> str:
    """Return the text of a schedule for a function."""
    lines = [f"  {show_step(s)}" for s in steps]
    return "\n".join([f"schedule {global_name(function)} {{", *lines, "}"]) + "\n"


def parse(text: str, source: str = "<text>") -> ScheduleText:
    """Read one schedule; DidymaError ``parse`` with line and column, ``unknown-step``."""
    reader = _Reader(text, source)
    found = reader.schedule()
    if reader.kind != "end":
        raise reader.error("the end of the text")
    return found


def parse_all(text: str, source: str = "<text>") -> tuple[ScheduleText, ...]:
    """Read schedules, one after another; errors as of ``parse``."""
    reader = _Reader(text, source)
    found: list[ScheduleText] = []
    while reader.kind != "end":
        found.append(reader.schedule())
    return tuple(found)


class _Reader(Lexer):
    """Reads steps by their forms."""

    def schedule(self) -> ScheduleText:
        """Take a schedule."""
        head, _ = self.place()
        self.expect("schedule")
        function = self.function()
        self.expect("{")
        steps: list[Step] = []
        places: list[tuple[int, int]] = []
        while not self.accept("}"):
            places.append(self.place())
            steps.append(self.step())
        return ScheduleText(function, tuple(steps), tuple(places), self.source, self.text, head)

    def place(self) -> tuple[int, int]:
        """Return line and column of the next word."""
        start = self.starts[self.i]
        begin = self.text.rfind("\n", 0, start) + 1
        return self.text.count("\n", 0, start) + 1, start - begin + 1

    def step(self) -> Step:
        """Take a step; DidymaError ``unknown-step``, and ``parse`` where the text ends before."""
        if self.kind == "end":
            raise self.error("a step, or `}`")
        form = FORMS.get(self.word)
        if form is None:
            row, column = self.place()
            raise DidymaError(
                "unknown-step", f"{self.source}:{row}:{column}", got=self.word,
                want=f"`}}`, or one of {', '.join(FORMS)}", file=self.source, line=row,
                shown=self.text.split("\n")[row - 1].strip(),
            )  # fmt: skip
        self.next()
        given: dict[str, Any] = {}
        for c in form.clauses:
            if not c.optional or self._is_next(c):
                given[c.field] = self._clause(c)
        step: Step = form.record(**given)
        return step

    def _is_next(self, c: Clause) -> bool:
        if c.word:
            return self.at(c.word)
        return isinstance(c.kind, type) and self.word in list(c.kind)

    def _clause(self, c: Clause) -> Any:
        if c.word:
            self.expect(c.word)
        match c.kind:
            case "flag":
                return True
            case "name":
                return self.name("a name")
            case "label":
                return self.label("a name")
            case "int":
                return self.integer()
            case "names":
                return self._list(lambda: self.name("a name"))
            case "ints":
                return self._list(self.integer)
            case str():
                raise AssertionError(c.kind)
            case words:
                if self.word not in list(words):
                    raise self.error(f"one of {', '.join(words)}")
                return words(self.next())

    def _list(self, read: Any) -> tuple[Any, ...]:
        found = [read()]
        while self.accept(","):
            found.append(read())
        return tuple(found)
