"""A planted fault, and how many random programs it takes to find it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal, TypeAlias
from unittest import mock

from didyma.codegen.memory import plan as planning
from didyma.codegen.memory import planner, values
from didyma.codegen.memory.planners import LiveBuffer, Planner, Whole
from didyma.fuzz.allocator.domains import every
from didyma.fuzz.allocator.judge import Verdict
from didyma.fuzz.allocator.programs import mixed, program
from didyma.refimpl.ir.program import Program

Domain: TypeAlias = Literal["programs", "arena", "orientations", "texts"]
Plant: TypeAlias = Callable[[Program], AbstractContextManager[object]]

MOST = 40  # programs tried before a fault counts as missed


@dataclass(frozen=True, slots=True)
class ProgramFault:
    """``plant`` changes the planning of one program while its context lasts.

    ``number`` is that of the class in docs/memory-fuzzing.md; ``cites`` the threads in which the
    like was reported.
    """

    number: int
    name: str
    cites: str
    plant: Plant
    planner: str | Callable[[Program], Whole] = "linear_scan"

    def kill(self, seed: int) -> Sequence[Verdict]:
        """Every verdict on the plan of the random program of a seed."""
        shape = mixed(seed)
        bare = program(seed, shape)
        try:
            with self.plant(bare):
                if isinstance(self.planner, str):
                    plan = planning.plan(bare, planner(self.planner))
                else:
                    plan = planning.plan(bare, Planner("wrong", self.planner(bare)))
        except Exception as e:  # a planner that fails has been found out
            return [Verdict("planner", f"{type(e).__name__}: {e}")]
        return every(bare, plan, seed, run=True)


@dataclass(frozen=True, slots=True)
class OtherFault:
    """A fault in what places problems, plans symbolic sizes or reads traces."""

    number: int
    name: str
    cites: str
    domain: str
    plant: Callable[[], AbstractContextManager[object]]
    case: Callable[[int], Sequence[Verdict]]

    def kill(self, seed: int) -> Sequence[Verdict]:
        """Every verdict on the case of a seed."""
        with self.plant():
            return self.case(seed)


Fault: TypeAlias = ProgramFault | OtherFault


@dataclass(slots=True)
class Hunt:
    """How many programs were judged from each first seed, and how often each check reported."""

    fault: Fault
    took: list[int] = field(default_factory=list[int])
    reports: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def median(self) -> float:
        """Median number of programs to the first verdict; misses count as one more than most."""
        return median(self.took)

    @property
    def missed(self) -> int:
        """How often the fault was missed."""
        return sum(n > MOST for n in self.took)


def hunt(fault: Fault, rounds: int, first: int = 0) -> Hunt:
    """Hunt a fault from so many first seeds: until a program is reported."""
    h = Hunt(fault)
    for k in range(rounds):
        for n in range(1, MOST + 1):
            found = fault.kill(first + 1000 * k + n)
            if found:
                h.took.append(n)
                for check in dict.fromkeys(v.check for v in found):
                    h.reports[check] = h.reports.get(check, 0) + 1
                break
        else:
            h.took.append(MOST + 1)
    return h


# ---- ways to plant


def nothing(bare: Program) -> AbstractContextManager[object]:
    """Plant nothing: the planner itself is wrong."""
    del bare
    return nullcontext()


def patched(owner: object, name: str, new: object) -> AbstractContextManager[object]:
    """Put another object in the place of one of a module's or class's own."""
    return mock.patch.object(owner, name, new)


def buffers(change: Callable[[LiveBuffer], LiveBuffer]) -> Plant:
    """Let the planner see other buffers."""

    def plant(bare: Program) -> AbstractContextManager[object]:
        del bare

        def made(*args: Any) -> LiveBuffer:
            return change(LiveBuffer(*args))

        return patched(values, "LiveBuffer", made)

    return plant
