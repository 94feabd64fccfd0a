"""Edited texts of a task, compiled together, in a way in which that takes little time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from didyma.codegen.runtime.nvrtc import processor_time
from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.sources import Source, attempts, compiled, forms
from didyma.judging.task import Task
from didyma.refimpl.errors import DidymaError

_TOGETHER = 16  # edited texts that are compiled at once
_OF_HEADERS = 48  # where most of the time is spent on what they include, as it is for longer than
_LONG = 0.3  # seconds
# Options of NVRTC: edited kernels need no headers that it includes of itself.
_LEAN = ("--minimal", "--Ofast-compile=min")


@dataclass(frozen=True, slots=True)
class Way:
    """How the edited texts of a task are compiled.

    ``needed`` are the attempts in which what is for the host is left out; ``together`` says that
    texts are compiled at once.  To compile the unedited text takes ``compiling`` seconds of
    processor time, to run it ``seconds``.
    """

    task: Task
    needed: int
    together: bool
    compiling: float = 0.0
    seconds: float = 0.0

    @property
    def many(self) -> int:
        """How many edited texts are best compiled at once."""
        return _OF_HEADERS if self.compiling > _LONG else _TOGETHER

    def compiled(self, texts: Sequence[str]) -> list[Task | None]:
        """Return the tasks with other texts; None for a text that NVRTC refuses."""
        task = self.task
        if not self.together:
            return [self._alone(t) for t in texts]
        names = [s.name or s.label for s in task.steps]
        return [
            self._with(t, kernels) if kernels else None
            for t, kernels in zip(
                texts, forms(texts, names, task.flags, for_host=bool(self.needed)), strict=True
            )
        ]

    def _alone(self, text: str) -> Task | None:
        task = self.task
        source = Source(text, task.source.file)
        with suppress(DidymaError):
            return self._with(
                text, [compiled(source, s.name, task.flags, self.needed) for s in task.steps]
            )
        return None

    def _with(self, text: str, kernels: Sequence[Kernel]) -> Task:
        task = self.task
        steps = tuple(replace(s, kernel=k) for s, k in zip(task.steps, kernels, strict=True))
        return replace(task, source=Source(text, task.source.file), steps=steps)


def fastest(task: Task, run: Callable[[Task], object]) -> Way:
    """Return a way in which a task's text compiles, of those that take little time the first.

    Some texts need headers that NVRTC includes, some cannot stand in a namespace, and an NVRTC may
    be older than an option.
    """
    needed = attempts(task.source, task.steps[0].name, task.flags)
    lean = replace(task, flags=(*task.flags, *_LEAN))
    alone = Way(task, needed, together=False)
    ways = [Way(t, needed, together=True) for t in (lean, task) if needed <= 1]
    way = next((w for w in ways if w.compiled([task.source.text])[0]), alone)
    begun = processor_time()
    (made,) = way.compiled([task.source.text])
    compiled = processor_time()
    run(made or task)
    return replace(way, compiling=compiled - begun, seconds=processor_time() - compiled)
