"""Schedules that users give: texts, files and records, by the functions that they are for."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast, get_args

from didyma.codegen.runtime import disk
from didyma.codegen.schedule.steps.choose import SOURCE
from didyma.codegen.schedule.steps.records import Step
from didyma.codegen.schedule.steps.text import ScheduleText, parse, show
from didyma.mappings import mapping
from didyma.refimpl.errors import DidymaError

Given: TypeAlias = str | Path | Sequence[Step]  # a text, a file, or steps
SUFFIX = ".dys"


@dataclass(frozen=True, slots=True)
class Schedules:
    """Schedules as one text, and which lines of it came from which file.

    ``origins`` are the name of each source and the number of lines before it.
    """

    text: str = ""
    origins: tuple[tuple[str, int], ...] = ()

    @contextmanager
    def placed(self) -> Generator[None]:
        """Say of errors in the text where they are in the file that it came from."""
        try:
            yield
        except DidymaError as e:
            found = [(name, n) for name, n in self.origins if n < e.line]
            if e.file != SOURCE or not found:
                raise
            name, before = found[-1]
            raise e.at(name, e.line - before, e.shown) from None


def read(given: Mapping[str, Given] | None) -> Schedules:
    """Return schedules by the name of a function, or by its structural hash.

    Errors: those of the parser, ``unreadable-file``, ``bad-call`` for what is no schedule, and
    ``unknown-function`` for a text that names another function.
    """
    parts: list[str] = []
    origins: list[tuple[str, int]] = []
    lines = 0
    for key, value in mapping("schedules", given, "schedules").items():
        source = f"schedules[{key!r}]"
        if not isinstance(value, str | Path):
            text = show(_steps(value, source), key)
        else:
            text, source = _text(value, source)
            text = _named(parse(text, source), key)
        origins.append((source, lines))
        parts.append(text if text.endswith("\n") else f"{text}\n")
        lines += parts[-1].count("\n")
    return Schedules("".join(parts), tuple(origins))


def _steps(given: object, where: str) -> tuple[Step, ...]:
    """Return steps that a list or tuple holds; DidymaError ``bad-call`` for what is none."""
    steps = tuple(cast("Sequence[object]", given)) if isinstance(given, list | tuple) else (given,)
    for s in steps:
        if not isinstance(s, get_args(Step)):
            raise DidymaError(
                "bad-call", where, got=f"{s!r:.60}",
                want="the name of a .dys file, the text of a schedule, or a list of steps",
                help="didyma.codegen.schedule.steps.records has the steps, such as Split('i', 8)",
            )  # fmt: skip
    return cast("tuple[Step, ...]", steps)


def _text(given: str | Path, source: str) -> tuple[str, str]:
    """Return the text of a schedule and where it stands: in a file if it is the name of one."""
    if isinstance(given, str) and not given.endswith(SUFFIX):
        return given, source
    return disk.read_text(Path(given)), str(given)


def _named(s: ScheduleText, key: str) -> str:
    """Return the text of a schedule, which must be for the function that it is given to."""
    if s.function != key:
        raise s.at_head(
            DidymaError(
                "unknown-function", f"schedule @{s.function}", got=f"a schedule for @{s.function}",
                want=f"one for @{key}",
            )
        )  # fmt: skip
    return s.text
