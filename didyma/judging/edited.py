"""Edited texts of a task, compiled together, in a way in which that takes little time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from didyma.codegen.runtime import nvrtc_forms
from didyma.codegen.runtime.nvrtc import processor_time
from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.sources import Source, compiled, forms, translated
from didyma.judging.task import Task
from didyma.refimpl.errors import DidymaError

_TOGETHER = 16  # edited texts that are compiled at once
_OF_HEADERS = 48  # where most of the time is spent on what they include, as it is for longer than
_LONG = 0.3  # seconds
_LONG_HEADERS = 1.0  # seconds of a compilation, most of which are for what is included
# Options of NVRTC: edited kernels need no headers that it includes of itself.
_FAST = ("--Ofast-compile=min",)
_LEAN = ("--minimal", *_FAST)


@dataclass(frozen=True, slots=True)
class Way:
    """How the edited texts of a task are compiled.

    ``needed`` are the attempts in which what is for the host is left out; ``together`` says that
    texts are compiled at once.  ``kept`` are directives with which they begin, of which what they
    include is kept.  To compile the
    unedited text takes ``compiling`` seconds of processor time, to run it ``seconds``.
    """

    task: Task
    needed: int
    together: bool
    kept: tuple[str, ...] = ()
    compiling: float = 0.0
    seconds: float = 0.0

    @property
    def many(self) -> int:
        """How many edited texts are best compiled at once."""
        return _OF_HEADERS if self.kept or self.compiling > _LONG else _TOGETHER

    def compiled(self, texts: Sequence[str]) -> list[Task | None]:
        """Return the tasks with other texts; None for a text that NVRTC refuses."""
        task = self.task
        if not self.together:
            return [self._alone(t) for t in texts]
        names = [s.name or s.label for s in task.steps]
        made = forms(texts, names, task.flags, for_host=bool(self.needed), kept=self.kept)
        return [
            self._with(t, kernels) if kernels else None
            for t, kernels in zip(texts, made, strict=True)
        ]

    def switched(self, text: str) -> Task | str:
        """Return the task with a text of many edits, or what NVRTC says where it refuses the text.

        The text comes after what is kept.
        """
        task = self.task
        names = [s.name or s.label for s in task.steps]
        whole = "\n".join((*self.kept, text))
        made = translated(
            whole, names, task.flags, for_host=bool(self.needed), keep=bool(self.kept)
        )
        return made if isinstance(made, str) else self._with(text, made)

    def _alone(self, text: str) -> Task | None:
        task = self.task
        source = Source(text, task.source.file)
        with suppress(DidymaError):
            return self._with(
                text,
                [
                    compiled(source, s.name, task.flags, self.needed, keep=bool(self.kept))
                    for s in task.steps
                ],
            )
        return None

    def _with(self, text: str, kernels: Sequence[Kernel]) -> Task:
        task = self.task
        steps = tuple(replace(s, kernel=k) for s, k in zip(task.steps, kernels, strict=True))
        return replace(task, source=Source(text, task.source.file), steps=steps)


def fastest(task: Task, run: Callable[[Task], object]) -> Way:
    """Return a way in which a task's text compiles, of those that take little time the first.

    Some texts need headers that NVRTC includes, some cannot stand in a namespace, and an NVRTC may
    be older than an option.  What takes long to include is kept, and often needs those headers.
    """
    needed = task.steps[0].kernel.attempts
    long = task.compiling > _LONG_HEADERS
    kept = nvrtc_forms.beginning(task.source.text) if long else ()
    lean = replace(task, flags=(*task.flags, *(_FAST if long else _LEAN)))
    alone = Way(task, needed, together=False, kept=kept, compiling=task.compiling)
    ways = [Way(t, needed, together=True, kept=kept) for t in (lean, task) if needed <= 1]
    made, way = task, alone
    for w in ways:
        begun = processor_time()
        (edited,) = w.compiled([task.source.text])
        if edited:
            made, way = edited, replace(w, compiling=processor_time() - begun)
            break
    begun = processor_time()
    run(made)
    return replace(way, seconds=processor_time() - begun)
