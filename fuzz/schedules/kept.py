"""Cases of schedules as records and text, which outlive changes of what is drawn, and changed ones.

A record has the steps, and those that are refused with the number of steps before them and the code
of the error: the judge holds a kept case to both.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from didyma.codegen.schedule.steps import text
from didyma.codegen.schedule.steps.apply import run
from didyma.codegen.schedule.steps.records import Step
from didyma.codegen.schedule.steps.text import step_name
from didyma.fuzz.schedules.cases import FEW, TARGET, Case, Refused, drawn_on
from didyma.fuzz.schedules.functions import Subject
from didyma.refimpl.ir.text import parse_loop, parse_module, show

_VALUES = 1 << 20  # seeds of values


def brief(case: Case) -> Case:
    """Return a case without what only drawing needs, and of like refusals drawn with the first."""
    first = dict[tuple[object, ...], Refused]()
    for r in case.refused:
        like = (r.after, r.step) if r.func is None else (step_name(r.step), r.code)
        first.setdefault(like, replace(r, func=None))
    subject = replace(case.subject, topic=None)
    return Case(subject, case.schedule, tuple(first.values()))


def record(case: Case) -> tuple[dict[str, Any], str]:
    """Return the record of a case in JSON types, and the text of its function."""
    s = case.subject
    facts: dict[str, Any] = {"dims": dict(s.env), "seed": s.seed}
    facts |= {name: True for name in ("small", "defined") if getattr(s, name)}
    facts |= {} if s.options is None else {"recipes": dict(s.options)}
    facts["steps"] = [text.show_step(step) for step in case.schedule]
    if case.refused:
        facts["refused"] = [[r.after, text.show_step(r.step), r.code] for r in case.refused]
    if s.module is not None:
        facts["graph"] = show(s.module)
    return facts, show(s.func)


def recorded(facts: Mapping[str, Any], body: str) -> Case:
    """Return the case of a record; DidymaError ``parse`` or ``unknown-step`` for another text."""
    (func,) = parse_loop(body)
    graph = facts.get("graph")
    subject = Subject(
        func, tuple(facts["dims"].items()), facts["seed"],
        parse_module(graph) if graph is not None else None,
        facts.get("small", False), facts.get("defined", False),
        tuple(facts["recipes"].items()) if "recipes" in facts else None,
    )  # fmt: skip
    refused = (Refused(n, _step(s), code) for n, s, code in facts.get("refused", ()))
    return Case(subject, tuple(map(_step, facts["steps"])), tuple(refused))


def _step(line: str) -> Step:
    return text.parse(f"schedule @f {{\n  {line}\n}}\n").steps[0]


def changed(case: Case, seed: int) -> Case:
    """Return a case of the same function: after some of its steps others follow.

    Its values are others, too.  Errors: those of the kept steps.
    """
    chance = random.Random(seed)
    subject = replace(case.subject, seed=chance.randrange(_VALUES))
    if subject.options is not None:
        return Case(subject, ())
    kept = case.schedule[: chance.randint(0, len(case.schedule))]
    after = [a.func for a in run(kept, subject.func, TARGET)]
    return drawn_on(subject, kept, after, [], len(kept) + chance.randint(0, FEW), chance)
