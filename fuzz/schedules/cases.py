"""Cases of the schedule fuzzer: a function, legal steps, and steps that were refused."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from didyma.codegen.schedule.steps.apply import apply
from didyma.codegen.schedule.steps.records import Schedule, Step, reassociates
from didyma.fuzz.schedules import functions, steps
from didyma.fuzz.schedules.functions import Subject
from didyma.fuzz.schedules.motifs import motif
from didyma.fuzz.schedules.steps import View
from didyma.fuzz.schedules.topics import of_topic
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.target import SM_90A

MEDIAN = 12  # of the steps that a schedule has
FEW = 5  # steps that one of a function of forms has, at most
LONGEST = 26  # steps that a schedule is meant to have, at most
MOST_REFUSED = 12  # refused steps for each legal one, on average
MOTIFS = 0.5  # of the schedules, those that begin with steps that belong together
MOTIFS_OF_CALLS = 0.9  # of those of functions with others to call
MORE_MOTIFS = 0.04  # of the other steps, those after which such steps follow
TARGET = SM_90A  # has all that a step may ask for
LARGEST = 400  # statements and expressions from which on no more steps are taken


@dataclass(frozen=True, slots=True)
class Refused:
    """A step that was refused after the first ``after`` steps of a case, with the error's code."""

    after: int
    step: Step
    code: str
    # The function that it was tried on, so that judging does not apply the steps again.
    func: PrimFunc | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Case:
    """A function with a schedule; ``refused`` are steps that were tried on the way."""

    subject: Subject
    schedule: Schedule
    refused: tuple[Refused, ...] = ()
    # The function after each step, so that judging does not apply them again; None: it must.
    after: tuple[PrimFunc, ...] | None = field(default=None, repr=False, compare=False)

    @property
    def due(self) -> tuple[Refused, ...]:
        """The refused steps that can be taken all the same, each once: dependences forbid them."""
        steps = {(r.after, r.step): r for r in self.refused if r.code == "dependence"}
        return tuple(steps.values())


def draw(seed: int, index: int, *, forms: bool = False) -> Case:
    """Return the case of a campaign's seed and an index, with ``forms`` one with few steps.

    A step whose decision ends in another exception than a refusal is the last of its case.
    """
    subject = functions.draw(seed, index, forms=forms)
    chance = random.Random((seed << 64) + index + (1 << 32))
    wanted = chance.randint(0, FEW) if forms else chance.randint(1, LONGEST)
    share = MOTIFS_OF_CALLS if subject.func.functions else MOTIFS
    queue = motif(subject.func, chance) if chance.random() < share else []
    if subject.topic is not None:
        queue = of_topic(subject.topic, subject.func, chance)
        wanted = max(wanted, len(queue))
    if forms:
        queue = [steps.of_forms(subject.func, chance) for _ in range(FEW)]
    return drawn_on(subject, (), (), queue, wanted, chance)


def drawn_on(
    subject: Subject,
    taken: Schedule,
    after: Sequence[PrimFunc],
    queue: list[Step],
    wanted: int,
    chance: random.Random,
) -> Case:
    """Return a case of a function after some steps, with so many steps as are ``wanted`` in all.

    ``after`` are the functions after each of the steps that are ``taken``; the next are those of a
    queue.
    """
    legal, made = list(taken), [subject.func, *after]
    f = made[-1]
    refused: list[Refused] = []
    view = View(f, chance)
    while len(legal) < wanted and len(refused) < MOST_REFUSED * wanted and view.size < LARGEST:
        if not view.loops:
            break
        if not queue and chance.random() < MORE_MOTIFS:
            queue = motif(f, chance)
        step = queue.pop(0) if queue else steps.draw(view)
        if reassociates(step) and not subject.exact:
            continue
        try:
            f = apply(step, f, TARGET)
        except DidymaError as e:
            refused.append(Refused(len(legal), step, e.code, f))
            continue
        except Exception:
            legal.append(step)
            return Case(subject, tuple(legal))
        legal.append(step)
        made.append(f)
        view = View(f, chance)
    return Case(subject, tuple(legal), tuple(refused), tuple(made[1:]))


def smaller(case: Case) -> Iterator[Case]:
    """Yield cases with fewer steps, then with fewer refused ones."""
    n = len(case.schedule)
    width = n
    while width:
        for at in range(0, n, width):
            kept = (*case.schedule[:at], *case.schedule[at + width :])
            yield Case(case.subject, kept)
        width //= 2
