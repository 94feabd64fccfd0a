"""What a compile writes to stderr where the variable ``DIDYMA_LOG`` asks for it."""

from __future__ import annotations

import os
import sys

from didyma.codegen.pipeline import (
    Compiled,
    Emitted,
    Fused,
    Listener,
    Lowered,
    Planned,
    Scheduled,
    Step,
)
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.text import show

VARIABLE = "DIDYMA_LOG"
LEVELS = ("graph", "loop", "schedule", "plan", "kernel", "wrapper")


def listener() -> Listener:
    """Return what writes the levels named in ``DIDYMA_LOG``, each after the stage that made it.

    DidymaError ``bad-option`` for a word that names none.
    """
    asked = os.environ.get(VARIABLE, "").replace(",", " ").split()
    if strange := [word for word in asked if word not in LEVELS]:
        want = f"some of {', '.join(LEVELS)}, with commas between"
        raise DidymaError("bad-option", VARIABLE, got=strange[0], want=want)

    def listen(step: Step) -> None:
        level, text = _told(step)
        if level in asked:
            print(f"# {level}, after {step.name}\n{text}", file=sys.stderr)

    return listen


def _told(step: Step) -> tuple[str, str]:
    """Return the level of a stage and what the stage made of it, as text."""
    match step.name, step.made:
        case "lower", Lowered(loops=loops):
            return "loop", _functions(tuple(loops.values()))
        case "schedule", Scheduled(kernels=kernels):
            every = (k for ks in kernels.values() for k in ks)
            return "schedule", _functions(tuple(k for k in every if isinstance(k, PrimFunc)))
        case "plan", Planned(program=program):
            return "plan", show(program)
        case "emit", Emitted(text=text):
            return "kernel", text.source
        case "wrap", Compiled(wrapper=wrapper):
            return "wrapper", wrapper
        case "order", _:
            return "", ""
        case _, Fused(fused=fused):
            return "graph", show(fused)


def _functions(fs: tuple[PrimFunc, ...]) -> str:
    return show(fs) if fs else ""
