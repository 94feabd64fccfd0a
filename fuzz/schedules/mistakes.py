"""Mistakes in schedules: legal steps with one wrong word, and texts that must not be read.

A schedule that is legal says little about what must be refused.  So steps that a case takes are
spoilt in one field, by a name that nothing has or a number that no step takes, and must then be
refused with the code that docs promise, and with the wrong word in the error.  Nothing here is
learnt from the steps: names come from the text of the function.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

from didyma.codegen.schedule.steps import choose, records, text
from didyma.codegen.schedule.steps.apply import apply, run
from didyma.codegen.schedule.steps.records import Schedule, Step
from didyma.codegen.schedule.steps.text import show_step
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.loop import For, PrimFunc
from didyma.refimpl.ir.lowered import written_out
from didyma.refimpl.ir.target import PORTABLE, Target
from didyma.refimpl.ir.walk import stmts

MOST = 3  # steps of a case that are spoilt
SELDOM = 4  # a schedule in so many is given as text with a step too many, which takes all of them
ABSENT = "absent_0"  # the name of nothing that is drawn
_OF_FOLDS = (records.Rfactor, records.ReduceAcross)


@dataclass(frozen=True, slots=True)
class Mistake:
    """A step that must be refused with one of some codes, by an error that has a word."""

    step: Step
    codes: frozenset[str]
    word: str = ""


def broken(case: Schedule, before: Sequence[PrimFunc], target: Target, seed: int) -> str:
    """Say which mistake in a legal schedule is taken, or told in another way; empty if none is.

    ``before`` has the function before each step, and after the last.  ``seed`` chooses mistakes.
    """
    chance = random.Random(seed)
    places = range(len(case))
    for n in chance.sample(places, min(MOST, len(case))):
        spoilt = [*_spoilt(case[n], before[n])]
        if spoilt and (message := _taken(chance.choice(spoilt), before[n], target)):
            return message
    message = _aliased(case[0], before[0]) if case else ""
    message = message or _misread(case, before[0])
    return message or (_unexplained(case, before, target) if seed % SELDOM == 0 else "")


def _spoilt(step: Step, f: PrimFunc) -> Iterator[Mistake]:
    """Yield a step with one field wrong, for each field that may be."""
    for field in fields(step):
        value = getattr(step, field.name)
        for wrong, codes, word in _WRONG.get(field.name, _none)(step, value, f):
            yield Mistake(replace(step, **{field.name: wrong}), frozenset(codes), word)


_Wrong = Iterator[tuple[Any, tuple[str, ...], str]]


def _none(step: Step, value: Any, f: PrimFunc) -> _Wrong:
    yield from ()


def _loop(step: Step, value: Any, f: PrimFunc) -> _Wrong:
    codes = ("no-such-loop", "not-a-fold") if isinstance(step, _OF_FOLDS) else ("no-such-loop",)
    yield ABSENT, codes, ABSENT


def _loops(step: Step, value: Any, f: PrimFunc) -> _Wrong:
    yield (ABSENT, *value[1:]), ("no-such-loop",), ABSENT
    yield (*value[:-1], ABSENT), ("no-such-loop",), ABSENT
    yield value[:1], ("bad-step",), ""
    if isinstance(step, records.Reorder):
        yield (*value, value[0]), ("bad-step",), value[0]
    else:
        yield (*value, value[0]), ("bad-step",), ""


def _value(step: Step, value: Any, f: PrimFunc) -> _Wrong:
    codes = "no-such-value", *(("not-a-fold",) if isinstance(step, _OF_FOLDS) else ())
    # a pipeline asks for what its loop makes, and says which buffer that is not
    yield ABSENT, ("bad-step",) if isinstance(step, records.Pipeline) else codes, ABSENT


def _axis(step: Step, value: Any, f: PrimFunc) -> _Wrong:
    yield "threadIdx.w", ("bad-step",), "threadIdx.w"


def _factor(step: Step, value: Any, f: PrimFunc) -> _Wrong:
    yield from ((n, ("bad-step",), str(n)) for n in (0, -value))
    if isinstance(step, records.Swizzle):
        yield 3, ("bad-step",), "3"


def _factors(step: Step, value: Any, f: PrimFunc) -> _Wrong:
    yield (0, value[1]), ("bad-step",), "0"
    yield value[:1], ("bad-step",), ""


def _depth(step: Step, value: Any, f: PrimFunc) -> _Wrong:
    yield from ((n, ("bad-step",), str(n)) for n in (1, 1000))


def _into(step: Step, value: Any, f: PrimFunc) -> _Wrong:
    taken = f.params[0].name
    if isinstance(value, tuple):
        yield (*value[:-1], taken), ("name-taken",), taken
        yield (*value[:-1], value[0]), ("name-taken",), value[0]
        yield value[:1], ("bad-step",), ""
    else:
        yield taken, ("name-taken",), taken


_WRONG: Mapping[str, Callable[[Step, Any, PrimFunc], _Wrong]] = MappingProxyType(
    {
        "loop": _loop, "loops": _loops, "buffer": _value, "name": _value, "function": _value,
        "axis": _axis, "factor": _factor, "factors": _factors, "depth": _depth, "into": _into,
    }
)  # fmt: skip


def _taken(m: Mistake, f: PrimFunc, target: Target) -> str:
    """Say how a mistake is not refused as it must be; empty if it is."""
    try:
        apply(m.step, f, target)
    except DidymaError as e:
        if e.code not in m.codes:
            return f"`{show_step(m.step)}` is refused by {e.code}, want {sorted(m.codes)}: {e}"
        if m.word not in f"{e.got} {e.want}":
            return f"`{show_step(m.step)}`: the error does not say {m.word}: {e}"
        return ""
    except Exception as e:
        return f"`{show_step(m.step)}` ends in {type(e).__name__}: {e}"
    return f"`{show_step(m.step)}` is taken"


# ---- texts


def _misread(case: Schedule, f: PrimFunc) -> str:
    """Say which text of schedules is read as another; empty if none is."""
    name, key = f.name, choose.loop_hash(f)
    known = {name: key, "another_function": "0123456789abcdef"}
    second = text.show(case[:1], "another_function")
    whole = text.show(case, name)
    by = choose.by_function(text.show(case, key) + second, known)
    if {n: s.steps for n, s in by.items()} != {name: case, "another_function": case[:1]}:
        return f"schedules by a hash and by a name are read as {by}"
    lines = whole.split("\n")
    bad = [
        (whole + text.show(case, key), "name-taken", len(case) + 3),
        (second + text.show(case, ABSENT), "unknown-function", len(case[:1]) + 3),
        ("\n".join(lines[:-2]), "parse", 0),
    ]
    if case:
        last = len(case)
        bad.append(
            ("\n".join([*lines[:last], "  no_step a", *lines[last:]]), "unknown-step", last + 1)
        )
    for written, code, row in bad:
        try:
            choose.by_function(written, known)
        except DidymaError as e:
            if e.code == code and (not row or e.line == row):
                continue
            return f"{written}is refused by {e.code} on line {e.line}, want {code} on {row}"
        return f"{written}is read, want {code}"
    return ""


def _unexplained(case: Schedule, before: Sequence[PrimFunc], target: Target) -> str:
    """Say what is not told of a loop that a step replaced; empty if all is.

    The schedule is given as text, with one step more that names the loop.
    """
    gone = dict[str, Step]()
    for step, f, g in zip(case, before, before[1:], strict=False):
        left = _names(g)
        gone = {n: s for n, s in gone.items() if n not in left}
        gone |= dict.fromkeys(_names(f) - left, step)
    gone = {n: s for n, s in gone.items() if n not in _names(written_out(before[-1]))}
    if not gone:
        return ""
    name, step = sorted(gone.items(), key=lambda x: x[0])[-1]
    s = text.parse(text.show((*case, records.Unroll(name)), before[0].name), "steps")
    try:
        choose.stepped(s, before[0], target)
    except DidymaError as e:
        row = len(case) + 2
        if e.code == "no-such-loop" and e.line == row and f"`{show_step(step)}`" in str(e):
            return ""
        return f"unroll {name} on line {row}, which `{show_step(step)}` replaced, is refused by {e}"
    return f"unroll {name} is taken, which `{show_step(step)}` replaced"


def _names(f: PrimFunc) -> set[str]:
    return {s.var.name for s in stmts(f.body) if isinstance(s, For)}


def _aliased(step: Step, f: PrimFunc) -> str:
    """Say that a step is not refused where parameters may be one buffer; empty if it is."""
    try:
        list(run((step,), replace(f, attrs=(("noalias", False),)), PORTABLE))
    except DidymaError as e:
        return "" if e.code == "bad-step" and "noalias" in str(e) else str(e)
    return f"`{show_step(step)}` is taken with noalias=false"
