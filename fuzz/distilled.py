"""The distilled corpus: few programs that show of the compiler's conditions what long runs showed.

A campaign judges them before anything that it draws, and then changes them.  Long runs of
``tests/mutants/distil.py`` reached them; each shows what no other one does, such as a term of a
condition that alone decides there.  They are kept as text, which outlives changes of what is drawn,
in one file for each domain: a comment with JSON, and the program below.  A case that has no text
form is kept as the seed and the index that it was drawn from.

A campaign asks for one by a wish, as a meter does: ``("kept", KEY)`` is a program as it is kept,
and ``("near",)`` one that differs from a kept one in its values, in its options or in some places.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from didyma.codegen.options import USUAL, Options
from didyma.fuzz import given
from didyma.fuzz.allocator import written
from didyma.fuzz.allocator.written import Written
from didyma.fuzz.chooser import Chooser, Dice
from didyma.fuzz.corpus_files import FOLDER
from didyma.fuzz.counters import Counters, unlike
from didyma.fuzz.domains.domain import Domain, Outcome
from didyma.fuzz.domains.ways import CHOICES, pointed
from didyma.fuzz.emission.kernels import Case as Kernel
from didyma.fuzz.foreign import texts as foreign
from didyma.fuzz.foreign.texts import Case as Foreign
from didyma.fuzz.graphs import Case, quick
from didyma.fuzz.readings import cases as readings
from didyma.fuzz.readings.cases import Reading
from didyma.fuzz.schedules import kept as schedules
from didyma.fuzz.schedules.cases import Case as Scheduled
from didyma.fuzz.steering.draw import changes
from didyma.fuzz.steering.meter import Wish
from didyma.fuzz.steering.near import near
from didyma.oracle.report import Finding
from didyma.refimpl.ir.text import parse_loop, parse_module, show

FILES = FOLDER / "distilled"
KEPT, NEAR = "kept", "near"  # what wishes for members begin with
SALT = 3 << 32  # of seeds, so that members change in other ways than drawn cases
SEEDS = 1 << 16  # by which the seeds of values grow
_HEAD = "# {"
_MEANT = " (if it is meant, run `python -m tests.mutants.distil counters`)"
_FLAGS = ("ring", "again", "laid", "quick", "alone", "offered")


@dataclass(frozen=True, slots=True)
class Member:
    """A case of the corpus: what it needs beside its text, and why it is there.

    It shows so ``many`` things that members before it do not, such as ``shows``; ``ms`` are the
    milliseconds of processor time that judging it took.  Its ``counters`` (``fuzz/counters.py``)
    may not change.
    """

    facts: Mapping[str, Any]
    body: str
    shows: tuple[str, ...] = field(default=(), compare=False)
    many: int = field(default=1, compare=False)
    ms: float = field(default=1.0, compare=False)
    counters: Counters = field(default_factory=dict[str, int], compare=False)

    @property
    def key(self) -> str:
        """A digest that names the member in wishes."""
        text = json.dumps(self.facts, sort_keys=True) + self.body
        return hashlib.blake2b(text.encode(), digest_size=5).hexdigest()

    @property
    def cost(self) -> float:
        """Milliseconds for each thing that it shows."""
        return self.ms / self.many

    def case(self, domain: Domain[Any]) -> Any:
        """Return the case, of the domain that it was drawn for."""
        facts = self.facts
        if "index" in facts:
            return domain.draw(facts["seed"], facts["index"])
        if "steps" in facts:
            return schedules.recorded(facts, self.body)
        if "planner" in facts:
            return written.of(self.body, facts)
        if "reader" in facts:
            return readings.recorded(facts, self.body)
        if "blocks" in facts:
            return foreign.recorded(facts, self.body)
        env = tuple(facts["dims"].items())
        if "seeds" not in facts:
            (kernel,) = parse_loop(self.body)
            return Kernel(kernel, env, facts["seed"])
        values = ((name, given.recorded(v)) for name, v in facts.get("given", {}).items())
        flags = dict.fromkeys(facts.get("judged", ()), True)
        seeds = tuple(facts["seeds"])
        usual = ((k, v, USUAL[k]) for k, v in facts["options"].items())
        options = tuple((k, tuple(v) if isinstance(u, tuple) else v) for k, v, u in usual)
        return Case(
            parse_module(self.body), env, seeds, options, tuple(values), counted=True, **flags
        )

    def text(self) -> str:
        """Return the member as ``parse`` reads it."""
        counters = {"counters": dict(self.counters)} if self.counters else {}
        head = {"ms": self.ms, "many": self.many, "shows": self.shows, **counters, **self.facts}
        return f"# {json.dumps(head)}\n{self.body}"


def member(domain: Domain[Any], case: Any, seed: int, index: int) -> Member:
    """Return the member that keeps a case, which was drawn from a seed and an index."""
    match case:
        case Case():
            options = dict(case.changes)
            facts: dict[str, Any] = {
                "dims": dict(case.env), "seeds": case.seeds, "options": options
            }  # fmt: skip
            if case.given:
                facts["given"] = {name: given.record(t) for name, t in case.given}
            if flags := [name for name in _FLAGS if getattr(case, name)]:
                facts["judged"] = flags
            found = Member(facts, show(case.module))
        case Kernel():
            facts = {"dims": dict(case.env), "seed": case.seed}
            found = Member(facts, show(case.kernel))
        case Scheduled():
            case = schedules.brief(case)
            found = Member(*schedules.record(case))
        case Written() | Reading():
            found = Member(case.facts, case.text)
        case Foreign():
            found = Member(foreign.record(case), case.text)
        case _:
            return Member({"seed": seed, "index": index}, "")
    again = parse(found.text())[0]
    if again.case(domain) != case:
        raise ValueError("the text of a case does not read as the case")
    return again


def parse(text: str) -> tuple[Member, ...]:
    """Read members from text.

    >>> (m,) = parse('# {"ms": 8.0, "many": 2, "shows": ["a term"], "seed": 3, "index": 4}\\n')
    >>> m.cost, m.facts
    (4.0, {'seed': 3, 'index': 4})
    """
    found: list[Member] = []
    for part in f"\n{text}".split(f"\n{_HEAD}")[1:]:
        head, _, body = part.partition("\n")
        facts = json.loads("{" + head)
        why = (facts.pop("shows"), facts.pop("many"), facts.pop("ms"), facts.pop("counters", {}))
        found.append(Member(facts, body.rstrip("\n") + "\n" * bool(body), tuple(why[0]), *why[1:]))
    return tuple(found)


@lru_cache
def members(domain: str, folder: Path = FILES) -> Mapping[str, Member]:
    """Return the members for a domain by their keys, those first that show most in their time."""
    path = folder / f"{domain}.txt"
    found = parse(path.read_text(encoding="utf-8")) if path.exists() else ()
    return {m.key: m for m in sorted(found, key=lambda m: m.cost)}


def drawn(domain: Domain[Any], seed: int, index: int, wish: Wish) -> Any:
    """Return the case that a wish for a member asks for: always the same."""
    every = members(domain.name)
    if wish[0] == KEPT:
        return every[wish[1]].case(domain)
    c = Dice(((seed + SALT) << 64) + index)
    return changed(c.pick(tuple(every.values())).case(domain), domain, c, (seed, index))


def held(domain: Domain[Any], o: Outcome, wishes: Sequence[Wish]) -> Outcome:
    """Return the outcome of a case, with a finding if it is a member whose counters have changed.

    They were kept without options of a user, so with these they are not compared.
    """
    if o.findings or not wishes or wishes[0][0] != KEPT or not domain.usual:
        return o
    key = wishes[0][1]
    why = unlike(o.counters, members(domain.name)[key].counters)
    return replace(o, findings=(Finding("counters", key, "counter", why + _MEANT),)) if why else o


def changed(case: Any, domain: Domain[Any], c: Chooser, anew: tuple[int, int]) -> Any:
    """Return a case near a member; one without a text form is drawn anew, from a seed and an index.

    Its values are others, and most graphs are changed in one or two places or in an option.
    """
    match case:
        case Case():
            with np.errstate(all="ignore"):
                return _near(replace(case, counted=False), c)
        case Kernel() | Foreign():
            return replace(case, seed=case.seed + 1 + c.below(SEEDS))
        case Scheduled():
            return schedules.changed(case, c.below(1 << 53))
        case Written():
            return written.near(case, c)
        case Reading():
            return readings.changed(case, c)
        case _:
            return domain.draw(*anew)


def _near(case: Case, c: Chooser) -> Case:
    if c.below(4):
        step = c.below(SEEDS)
        case = replace(case, seeds=tuple(s + step for s in case.seeds))
    options = dict(case.changes)
    is_pointed = options.pop(CHOICES, None) is not None
    found = case
    for _ in range(c.pick((0, 1, 1, 2))):
        found = near(found, (), c) or found
    if c.chance(4):
        options |= changes(c)
    if found.module == case.module and dict(case.changes).items() >= options.items():
        return found
    found = replace(found, changes=tuple(quick(options).items()))
    return pointed(found, Options(), c) if is_pointed else found


def is_wish(wishes: Sequence[Wish]) -> bool:
    """Return whether wishes ask for a member, or for one that is changed."""
    return bool(wishes) and wishes[0][0] in (KEPT, NEAR)


def known(wishes: Sequence[Wish], domain: str) -> bool:
    """Return whether wishes ask for a member that there is, or for a changed one of some."""
    every = members(domain)
    return bool(every) and tuple(wishes) in (((NEAR,),), *(((KEPT, key),) for key in every))
