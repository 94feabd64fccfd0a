"""The search for edits of single lines with which a wrong kernel is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from didyma.codegen.runtime.nvrtc import processor_time
from didyma.judging.edited import Way, fastest
from didyma.judging.edits import Edit
from didyma.judging.evidence import Evidence, OfLine
from didyma.judging.launching import Ran
from didyma.judging.rounds import Later, Round
from didyma.judging.sizes import below, tiles
from didyma.judging.task import Task
from didyma.judging.together import copies, passing, restoring
from didyma.refimpl.errors import DidymaError

_LONGER = 1.0  # seconds: for the rounds after the first, and for more edits than one
_SLOWER = 8  # times as long as the kernel itself that an edited one may take
_LOOKED = 8  # failed rounds of which one is chosen in which some elements are right
_TELLS = 4  # times as much a round with right elements is worth
_SHORT = 0.01  # seconds of a failed round that are no matter
_LONG = 0.002  # seconds of a failed round, for which a smaller one is sought
_ENOUGH = 8  # elements in it
_AS_ONE = 12  # further edits that take as long to compile together as the first
_SURE = 8  # edits that are tried before any has shown what it changes
_TOGETHER = 256  # edits that are compiled into one text
_FEWEST = 64  # edits of one text, however long the first ones took
_PATIENT = 512  # edits of which those that take long beside others run beside few
_FIRST = 16  # edits that are about as likely as the first
_AGAIN_MOST = 4  # times that an edit is compiled together with others
_AGAIN = 0.25  # how likely another edit is where one was tried in vain
_LEFT = 0.7  # of half of the time, for edits that can be no choice, if there are some
_NEAR = 3  # lines
_STRAYS = frozenset(("out-of-bounds", "misaligned"))


@dataclass(slots=True)
class Mended:
    """What a search has found, the best first.

    ``edits`` make all rounds right, ``likely`` ones all those for which there was time.  Near the
    first of ``lines`` other edits are the most likely; the rest lie further off, and other edits
    are at least half as likely near them.
    """

    edits: list[Edit] = field(default_factory=list[Edit])
    likely: list[Edit] = field(default_factory=list[Edit])
    lines: list[int] = field(default_factory=list[int])


def mended(
    task: Task,
    tried: Sequence[Edit],
    failed: Sequence[Later],
    passed: Sequence[Later],
    seconds: float,
) -> Mended:
    """Try edits for some seconds of processor time.

    ``failed`` are rounds in which the kernel is wrong, those first that take the least time.  The
    first edits of all and the first one of each line come first; then those come sooner whose
    lines' edits have changed what is wrong.  Once an edit is found, others are tried for half of
    the time that it took.
    """
    begun = processor_time()
    first, evidence = telling(task, failed)
    deadline = stop = begun + seconds
    rest = (*failed, *passed)
    way = fastest(task, first.run)
    limit = max(0.05, _SLOWER * way.seconds)
    found, search, refuted = Mended(), Search(tried, evidence), set[Edit]()
    for some in _promising(way, search, first, rest, evidence, deadline):
        for e, edited in _compiled(way, some, deadline):
            now = processor_time()
            if now > deadline:
                break
            right = _mends(e, edited, min(limit, deadline - now), first, rest, evidence)
            if right:
                if not found.edits:
                    stop = min(deadline, now + (now - begun) / 2 + _LONGER)
                found.edits.append(e)
            elif right is None:
                found.likely.append(e)
            else:
                refuted.add(e)
        if processor_time() > stop:
            break
    found.likely += {*search.passed} - {*found.edits, *found.likely} - refuted
    rank = {(e.line, e.new): k for k, e in enumerate(tried)}
    for row in (found.edits, found.likely):
        row.sort(key=lambda e: rank[e.line, e.new])
    found.lines = search.places()
    return found


E = TypeVar("E", bound=OfLine)


@dataclass(slots=True)
class Search(Generic[E]):
    """Edits, the most likely first; those that are ``left`` have not been tried.

    ``first`` are, of those, the first of each line, and the first of all.  With those that have
    ``passed`` all rounds are right, as far as copies tell, of which nothing is checked.
    """

    tried: Sequence[E]
    evidence: Evidence
    passed: list[E] = field(default_factory=list[E])
    left: set[int] = field(init=False)
    first: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.left = {*range(len(self.tried))}
        of_lines = {e.line: k for k, e in reversed([*enumerate(self.tried)])}.values()
        self.first = sorted({*of_lines, *range(min(_SURE, len(self.tried)))})

    def next(self, many: int) -> list[E]:
        """Return so many edits to try: one of each line, then those of which most is hoped."""
        odds = self.odds()
        some = self.first[:many] or sorted(self.left, key=lambda k: odds[k], reverse=True)[:many]
        self.first = self.first[many:]
        self.left.difference_update(some)
        return [self.tried[k] for k in some]

    def back(self, some: Sequence[E]) -> None:
        """Let edits be tried again."""
        names = {*some}
        self.left.update(k for k, e in enumerate(self.tried) if e in names)

    def odds(self) -> list[float]:
        """Return how likely each edit mends the kernel, as far as edits of its line have shown."""
        weights = {n: self.evidence.weight(n) for n in {e.line for e in self.tried}}
        return [weights[e.line] / (k + _FIRST) for k, e in enumerate(self.tried)]

    def places(self) -> list[int]:
        """Return lines near which most is likely that has not been tried, the likeliest first.

        Where all has been tried, they are those of which edits have changed what is wrong.  Each is
        further from the others than what is near, and at least half as likely as the first.
        There is none where no element is wrong, since nothing then tells lines apart.
        """
        if not self.evidence.wrong.any():
            return []
        mass: dict[int, float] = {}
        odds = self.odds()
        for k, e in enumerate(self.tried):
            share = odds[k] * (1.0 if k in self.left else _AGAIN)
            for n in range(e.line - _NEAR, e.line + _NEAR + 1):
                mass[n] = mass.get(n, 0.0) + share / (1 + abs(n - e.line))
        if not self.left:
            mass = {e.line: self.evidence.weight(e.line) for e in self.tried}
        lines = {self.tried[k].line for k in self.left} or {*mass}
        found: list[int] = []
        for n in sorted(lines, key=lambda n: (mass[n], n), reverse=True):
            far = all(abs(n - m) > _NEAR for m in found)
            if far and mass[n] >= mass[found[0] if found else n] / 2:
                found.append(n)
        return found


def telling(task: Task, failed: Sequence[Later]) -> tuple[Round, Evidence]:
    """Return the failed round that tells most, at the least sizes that show it if it takes long.

    It has right elements, if one has, finite values, and not too few wrong elements, unless it
    takes far longer than others: in these, more edits can be tried.
    """
    found: list[tuple[Round, Evidence, float]] = []
    begun = processor_time()
    for made in failed[:_LOOKED]:
        r = made()
        started = processor_time()
        ran = r.run(task)
        evidence = Evidence(~r.right(task, ran.outputs), ran.outputs)
        found.append((r, evidence, processor_time() - started))
        if processor_time() - begun > _LONGER:
            break

    def worth(f: tuple[Round, Evidence, float]) -> float:
        r, e, took = f
        share = min(_ENOUGH, e.wrong.size) / _ENOUGH
        return (_TELLS if e.tells else 1) * (1 + r.case.finite) * share / max(took, _SHORT)

    best, evidence, took = max(found, key=worth)
    return smaller(task, best, evidence) if took > _LONG else (best, evidence)


def smaller(task: Task, r: Round, evidence: Evidence) -> tuple[Round, Evidence]:
    """Return a failed round at the least sizes, one after the other, at which it fails as well.

    More edits can be tried in such a round.  Some of its elements are right if some were before,
    and it has enough of them to tell lines apart, or as many.
    """
    near = tiles(task.source.text, ())
    quick, enough = replace(task, timeout=_LONGER), min(_ENOUGH, evidence.wrong.size)
    for name in sorted(r.case.env, key=lambda n: r.case.env[n], reverse=True):
        for n in below(task.spec, r.case.env, name, near, task.draw):
            with suppress(DidymaError):  # a launch that cannot be
                case = replace(r.case, env={**r.case.env, name: n})
                less = Round.of(task, case, r.schedule, again=r.before is not None)
                ran = less.run(quick)
                found = Evidence(~less.right(task, ran.outputs), ran.outputs)
                fails = found.wrong.any() if evidence.wrong.any() else bool(ran.faults)
                if fails and found.tells >= evidence.tells and found.wrong.size >= enough:
                    r, evidence = less, found
                    break
    return r, evidence


def _promising(
    way: Way,
    search: Search[Edit],
    first: Round,
    rest: Sequence[Later],
    evidence: Evidence,
    deadline: float,
) -> Iterator[Iterator[Sequence[Edit]]]:
    """Yield edits, some at a time, that are worth a compilation of their own.

    At first they are those that make all rounds right when many are tried together, often none,
    then those of which that is not known.
    """
    alone: list[Edit] = []
    again = Counter[Edit]()
    limit, many = (deadline - processor_time()) / 2, _TOGETHER
    together = way.needed <= 1 and first.before is None
    together &= bool(evidence.wrong.any()) or _strays(first.run(way.task))
    while together and (some := search.next(many)):
        made = copies(way, some)
        begun, c = processor_time(), made.copies
        left = min(limit, deadline - begun)
        right, known = restoring(c, first, evidence, left) if c else ([], set[Edit]())
        slow = [e for e in c.edits if e not in known] if c else []
        if len(slow) > 1 and len(search.tried) - len(search.left) <= _PATIENT:
            c = copies(way, slow).copies
            more, known_too = restoring(c, first, evidence, left, 0) if c else ([], set[Edit]())
            right, slow = [*right, *more], [e for e in slow if e not in known_too]
        again.update(made.beside)
        search.back([e for e in made.beside if again[e] <= _AGAIN_MOST])
        if known:  # so many that all of them likely run in a part of the time
            each = max(1e-3, (processor_time() - begun) / len(known))
            many = max(_FEWEST, min(_TOGETHER, int(limit / 2 / each)))
        alone += (*made.alone, *slow)
        left = min(limit, deadline - processor_time())
        right = passing(way, right, rest, left) if right else right
        search.passed += right
        yield iter((right,) if right else ())
        if processor_time() > deadline - limit * (_LEFT if alone else 0.5):
            break
    search.back(alone)
    while some := search.next(way.many):
        yield iter((some,))


def _strays(ran: Ran) -> bool:
    """Return whether all that is wrong in a run are accesses that copies are checked for."""
    return bool(ran.faults) and {f.kind for f in ran.faults} <= _STRAYS


def _compiled(
    way: Way, rows: Iterator[Sequence[Edit]], deadline: float
) -> Iterator[tuple[Edit, Task]]:
    """Yield edits with the kernels that they make, but for those that NVRTC refuses.

    It ends before what would likely not be compiled by the ``deadline``.
    """
    text, longest = way.task.source.text, 0.0
    for some in rows:
        begun = processor_time()
        if begun + max(longest, way.compiling * (1 + len(some) / _AS_ONE)) > deadline:
            return
        made = way.compiled([e.of(text) for e in some])
        longest = max(longest, processor_time() - begun)
        yield from ((e, t) for e, t in zip(some, made, strict=True) if t is not None)


def _mends(
    e: Edit,
    edited: Task,
    seconds: float,
    first: Round,
    rest: Sequence[Later],
    evidence: Evidence,
) -> bool | None:
    """Return whether an edited kernel is right; None if its time ends before the rounds do.

    It hangs if the first round takes more than so many ``seconds``.
    """
    with suppress(DidymaError):  # a launch that cannot be
        ran = first.run(replace(edited, timeout=seconds))
        right = first.right(edited, ran.outputs)
        if not any(f.kind == "hang" for f in ran.faults):
            evidence.meet(e.line, ran.outputs, right)
        if ran.faults or not right.all():
            return False
        left = _LONGER
        for r in (made() for made in rest):
            begun = processor_time()
            ran = r.run(replace(edited, timeout=left))
            right = r.right(edited, ran.outputs)
            left -= processor_time() - begun
            if left <= 0:
                return None
            if ran.faults or not right.all():
                return False
        return True
    return False
