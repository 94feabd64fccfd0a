"""Faults where copies are left out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from didyma.codegen.memory import fewer
from didyma.codegen.memory.elide import Elision
from didyma.codegen.memory.plan import Variants
from didyma.refimpl.ir.program import Program
from tests.mutants.memory.fault import Plant, ProgramFault, patched


def eliding(**wrong: Callable[..., bool]) -> Plant:
    """Leave copies out, whatever the peak, by wrong answers to questions about one."""

    def plant(bare: Program) -> AbstractContextManager[object]:
        del bare
        stack = ExitStack()
        for name, answer in wrong.items():
            stack.enter_context(patched(Elision, name, answer))
        stack.enter_context(patched(fewer, "no_higher", _always))
        stack.enter_context(patched(Variants, "better", _without))
        return stack

    return plant


def _always(*costs: object) -> bool:
    del costs
    return True


def _without(self: Variants, bare: Program, less: Program, least: object) -> object:
    del bare, least
    return self.best(less)


def _there(self: Any, value: str) -> bool:
    """What is copied may be read again later."""
    return value in self.lives.of


def _never_read(self: Any, whole: str, value: str, first: int) -> bool:
    """What is copied over may still be read until then."""
    del self, whole, value, first
    return True


def _never_written(self: Any, value: str, whole: str) -> bool:
    """What is copied, or the copy, may change while the other is read."""
    del self, value, whole
    return True


FAULTS: tuple[ProgramFault, ...] = (
    ProgramFault(5, "a copy left out whose source is read on", "onnxruntime#7645",
                 eliding(dies=_there)),
    ProgramFault(5, "a copy left out over what is still read", "openxla/xla#49176",
                 eliding(unused=_never_read)),
    ProgramFault(3, "a copy of a held value left out and written", "tinygrad#16571",
                 eliding(unchanged=_never_written)),
)  # fmt: skip
