"""The judgement of a task: rounds of inputs, launches, bars, and what a certificate says."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import process_time

import numpy as np

from didyma.codegen.runtime.ptx.sanitize import Finding
from didyma.codegen.runtime.ptx.shape import RANDOM
from didyma.judging import inputs, launching, unoptimised
from didyma.judging.beside import ENGINES, Beside
from didyma.judging.decided import Decided, warnings
from didyma.judging.decoys import Decoys
from didyma.judging.expressions import names
from didyma.judging.inputs import Case, cheaper
from didyma.judging.lines import Suspect, suspect
from didyma.judging.outcome import Outcome as Outcome
from didyma.judging.rounds import Round, truth
from didyma.judging.sizes import bindings, cost, tiles
from didyma.judging.task import Step, Task
from didyma.judging.terms import Terms
from didyma.oracle.compare import bitwise, compare
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph as interpreter
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import Array, TensorType
from didyma.refimpl.ops.bars import Bar
from didyma.refimpl.ops.factors import FORMATS

SEARCH = 8.0  # seconds of processor time for the line of what is wrong
LEAST_SEARCH = 1.5  # however long the rounds took
FAIR = 2  # times its share of the time that is left may a round take as it was drawn
ENOUGH = 2.0  # seconds of rounds, after which a kernel that is known to be wrong has no more
ORDERS = (0, 1, 2)  # of warps; the first rounds run in all of them, and in a random one
THOROUGH = 3  # rounds that run in all of them


@dataclass(frozen=True, slots=True)
class Wrong:
    """An output outside of its bars in a round, in an order of warps.

    ``faulty`` says that checks found faults there, ``again`` that it was so in a second launch.
    """

    output: str
    message: str
    case: Case
    faulty: bool = False
    schedule: int = 0
    again: bool = False


@dataclass(slots=True)
class Judgement:
    """What the rounds of a task have shown.

    ``checked`` of ``total`` elements were decided; ``decided`` tells how much of each output was in
    rounds of ordinary numbers, by its name.  ``deterministic`` says that every order of
    warps gave the same bits; ``batch_invariant``, by size, that a result does not depend on how
    many others are computed with it.
    """

    task: Task
    cases: list[Case] = field(default_factory=list[Case])
    untried: list[Case] = field(default_factory=list[Case])  # for which there was no time
    unlaunched: list[Case] = field(default_factory=list[Case])  # with results, but no threads
    wrong: list[Wrong] = field(default_factory=list[Wrong])
    faults: list[tuple[Finding, Case]] = field(default_factory=list[tuple[Finding, Case]])
    faulty: set[int] = field(default_factory=set[int])  # the rounds with faults
    notes: list[Finding] = field(default_factory=list[Finding])
    accepted: list[str] = field(default_factory=list[str])
    checked: int = 0
    total: int = 0
    decided: dict[str, Decided] = field(default_factory=dict[str, Decided])
    launches: int = 0
    instructions: dict[int, int] = field(default_factory=dict[int, int])  # by round
    deterministic: bool = True
    batch_invariant: dict[str, bool] = field(default_factory=dict[str, bool])
    suspect: Suspect | None = None
    right_with: str = ""  # an option, with which the contract is one that the kernel keeps
    seconds: float = 0.0  # of processor time, for the rounds
    others: tuple[Beside, ...] = field(default_factory=lambda: tuple(map(Beside, ENGINES)))
    terms: Terms = field(default_factory=Terms)
    removed: bool = False  # whether optimisation removes the faults

    @property
    def outcome(self) -> Outcome:
        """The verdict."""
        demanded, terms = self.task.contract.structure, self.terms
        if self.wrong or self.faults or (demanded and terms.unequal):
            return Outcome.WRONG
        if any(b.differ for b in self.others):
            return Outcome.DIFFERENT
        blind = self.accepted or self.unlaunched or not self.checked
        if blind or (demanded and not terms.in_ring):
            return Outcome.CANNOT_TELL
        return Outcome.CORRECT

    @property
    def warnings(self) -> list[str]:
        """What a verdict "correct" rests on that is too little."""
        return [*warnings(self.decided)] if self.outcome is Outcome.CORRECT else []

    @property
    def only_special(self) -> bool:
        """Whether outputs are wrong, but not for ordinary numbers, in a contract of all numbers."""
        ranged = {p.name for p in self.task.spec.entry.params} <= self.task.draw.ranges.keys()
        if self.task.contract.finite or self.faults or ranged:
            return False
        return bool(self.wrong) and not any(w.case.ordinary for w in self.wrong)


def judge(
    task: Task,
    progress: Callable[[str], None] = lambda _: None,
    only: Collection[str] | None = None,
) -> Judgement:
    """Judge a task, in rounds for as many seconds of processor time as it has.

    The first round is always run, whatever it takes.  Another that would likely take far more than
    its share of the time that is left has the sizes of a cheaper one, and is not run if none would
    end in time.  With ``only``, the rounds of these names are run, whatever they take.

    Errors: those of a launch and of the sizes, as ``didyma.judging.launching`` and ``sizes`` say.
    """
    planned = inputs.cases(task.spec, bindings(task.spec, near(task), task.draw))
    begun = process_time()
    found = Judgement(task)
    decoys = Decoys(task.spec, task.contract)
    pace, ordinary = _Pace(task), list[tuple[Case, bool]]()
    for drawn in planned:
        runs, started = len(_orders(task, drawn, len(found.cases))), process_time()
        if only is not None:
            case = next((c for c in cheaper(drawn, planned) if str(c) in only), None)
        elif found.cases:
            known = found.faults or any(w.case.ordinary for w in found.wrong)
            left = (ENOUGH if known else task.draw.seconds) - (started - begun)
            rounds = 1 if known else len(planned) - drawn.number
            case = pace.fitted(cheaper(drawn, planned), runs, left, rounds)
        else:
            case = drawn
        if case != drawn:
            found.untried.append(drawn)
        if case is None:
            continue
        progress(f"round {case.number + 1} of {len(planned)}: {case}")
        arrays = inputs.values(task, case)
        try:
            right = truth(task, case, arrays)
        except DidymaError as e:
            if e.code == "dim-out-of-range":  # a size that depends on these values
                continue
            raise
        found.cases.append(case)
        sound = not (found.wrong or found.faults)
        outputs = _round(found, case, arrays, right)
        if outputs is None:  # what hangs once would hang in every round
            found.untried += planned[drawn.number + 1 :]
            break
        launched = case not in found.unlaunched
        if sound and launched and case.number not in found.faulty:  # else the verdict is known
            agreed = not any(w.case == case for w in found.wrong)
            twins = any(f.kind == "same-value" for f in found.notes)
            for b in found.others:
                b.meet(task, case, arrays, right, outputs, agreed=agreed, twins=twins)
                if b.differ:
                    break  # what one engine's checks refuse may crash another
            if agreed and case.ordinary and not any(b.differ for b in found.others):
                ordinary.append((case, twins))
        if case.finite or task.draw.ranges:
            other = inputs.values(task, case, again=1)
            stale = interpreter.run(task.spec, other)
            decoys.meet(arrays, right, stale)
        pace.meet(case, runs, process_time() - started)
    if not (found.wrong or found.faults):
        found.faults = unoptimised.faults(task, found.cases)
        found.removed = bool(found.faults)
    if not (found.wrong or found.faults):  # of another kernel, terms tell nothing
        for case, twins in ordinary:
            found.terms.meet(task, case, inputs.values(task, case), twins=twins)
    found.accepted = decoys.accepted
    if found.outcome is Outcome.CORRECT:
        found.batch_invariant = batch_invariance(task, found.cases)
    found.seconds = process_time() - begun
    return found


def near(task: Task) -> tuple[int, ...]:
    """Return numbers around which sizes are drawn: of the text, and of threads of a block.

    Of a grid that no size changes, they are those of all threads, since these take turns beyond.
    """
    found = list[int]()
    for s in task.steps:
        shape, _ = launching.geometry(task, s, *_first(task))
        found += shape.block
        if not any(map(names, s.geometry.grid)):
            found.append(shape.blocks * shape.threads)
    return tiles(task.source.text, found)


@dataclass(slots=True)
class _Pace:
    """How long rounds likely take: ``rate`` is the least seconds of a run for each element."""

    task: Task
    rate: float = math.inf

    def meet(self, case: Case, runs: int, seconds: float) -> None:
        """Learn from a round."""
        self.rate = min(self.rate, seconds / max(1, runs * cost(self.task.spec, case.env)))

    def fitted(self, choices: Sequence[Case], runs: int, left: float, rounds: int) -> Case | None:
        """Return the first of some rounds, or a cheaper one if it would take too long; or None.

        As many seconds are ``left`` for as many ``rounds``.  Of those cheaper ones that take no
        more than their share, it is the costliest, and the cheapest if all take more.
        """
        likely = {k: self.rate * runs * cost(self.task.spec, c.env) for k, c in enumerate(choices)}
        if likely[0] <= min(left, FAIR * left / rounds):
            return choices[0]
        fair = [k for k in likely if likely[k] <= left / rounds]
        best = max(fair, key=likely.__getitem__) if fair else min(likely, key=likely.__getitem__)
        return choices[best] if likely[best] <= left else None


def located(found: Judgement, seconds: float = SEARCH) -> Judgement:
    """Find the line of what is wrong, in so much processor time, or less after slow rounds.

    Faults name lines themselves, but the cause may be elsewhere; half of the time is for them.
    A kernel that is right if factors may be rounded, as tensor cores take them, has no line at
    fault.  Of faults that optimisation removes, no edit would show whether it mends them.
    """
    if found.removed:
        return found
    if kept := kept_factors(found):
        found.right_with = f"--multiply {kept}"
        return found
    left = found.task.draw.seconds - found.seconds - found.task.compiling
    seconds = min(seconds, LEAST_SEARCH + max(0.0, left))
    wrong = {w.case.number: w.schedule for w in reversed(found.wrong)
             if not (w.faulty or w.again)}  # fmt: skip
    faulty = {c.number: f.schedule for f, c in reversed(found.faults) if f.kind != "hang"}
    again = {w.case.number: w.schedule for w in reversed(found.wrong) if w.again}
    failing = wrong or faulty or again
    if failing:
        failed = [(c, failing[c.number]) for c in found.cases if c.number in failing]
        failed.sort(key=lambda f: found.instructions[f[0].number])
        hung = {c.number for f, c in found.faults if f.kind == "hang"}
        passed = [
            c for c in found.cases if failing is again or c.number not in hung | failing.keys()
        ]
        races = [n for f, _ in found.faults if f.kind == "race" for n in f.lines]
        time = seconds / 2 if failing is faulty else seconds
        found.suspect = suspect(found.task, failed, passed, time, races, again=failing is again)
    return found


def kept_factors(found: Judgement) -> str:
    """Return the format to which a kernel that is wrong only since it does so rounds factors."""
    task = found.task
    if found.faults or all(w.again for w in found.wrong) or task.contract.multiply != "f32":
        return ""
    wrong = {w.case.number: w for w in found.wrong if not w.again}.values()
    for name in (f for f in FORMATS if any(_multiplies(s, f) for s in task.steps)):
        looser = replace(task, contract=replace(task.contract, multiply=name))
        rounds = (Round.of(looser, w.case, w.schedule) for w in wrong)
        if all(r.right(looser, r.run(looser).outputs).all() for r in rounds):
            return name
    return ""


def _multiplies(step: Step, factors: str) -> bool:
    instrs = step.kernel.program.instrs
    return any(factors in i.mods and i.op in ("mma", "wmma", "wgmma") for i in instrs)


def _first(task: Task) -> tuple[Mapping[str, int], tuple[Array, ...]]:
    """Return sizes and inputs at which the shape of a block can be read."""
    env = bindings(task.spec, (), task.draw)[0]
    params = task.spec.entry.params
    return env, tuple(np.zeros(dims.values(p.type.shape, env), p.type.dtype.numpy) for p in params)


def _orders(task: Task, case: Case, done: int) -> tuple[int, ...]:
    """Return the orders of warps in which a round runs, after so many others."""
    thorough = done < THOROUGH
    orders = ORDERS if thorough else (ORDERS[case.number % len(ORDERS)],)
    if thorough or any(s.kernel.synchronises for s in task.steps):
        orders = (*orders, RANDOM + case.number)
    return orders


def _round(
    found: Judgement, case: Case, arrays: Sequence[Array], right: Sequence[Bar]
) -> Sequence[Array] | None:
    """Run a round; return the outputs, or None if the kernel hangs."""
    task = found.task
    orders = _orders(task, case, len(found.cases) - 1)
    before: Sequence[Array] = ()
    for schedule in orders:
        ran = launching.run(task, case.env, arrays, schedule)
        found.launches += 1
        found.instructions[case.number] = found.instructions.get(case.number, 0) + ran.instructions
        known = {(f.kind, f.file, f.line) for f, _ in found.faults}
        if ran.faults:
            found.faulty.add(case.number)
        for f in ran.findings:
            if f.is_note:
                found.notes.append(f)
            elif (f.kind, f.file, f.line) not in known:
                found.faults.append((f, case))
        if before and not all(map(_same_bits, before, ran.outputs)):
            found.deterministic = False
        before = ran.outputs
        _compare(found, case, right, ran, schedule, count=schedule == orders[0])
        if any(f.kind == "hang" for f in ran.faults):
            return None
        if ran.left and case.finite and schedule == orders[0] and not found.wrong:
            _again(found, case, ran.left)
    return before


def _again(found: Judgement, case: Case, left: Mapping[str, bytes]) -> None:
    """Launch kernels again, on other inputs, with what the launch before left in variables."""
    task, entry = found.task, found.task.spec.entry
    arrays = inputs.values(task, case, again=1)
    ran = launching.run(task, case.env, arrays, before=left)
    found.launches += 1
    right = truth(task, case, arrays)
    rows = zip(entry.results, entry.result_types(), right, ran.outputs, strict=True)
    for name, t, bar, out in rows:
        c = compare(name, bar, out, TensorType(t.dtype, out.shape))
        if not c.agree:
            told = f"in a second launch, after one on other inputs has changed {', '.join(left)}"
            found.wrong.append(Wrong(name, f"{c.message} {told}", case, again=True))


def _compare(
    found: Judgement,
    case: Case,
    right: Sequence[Bar],
    ran: launching.Ran,
    schedule: int,
    *,
    count: bool,
) -> None:
    entry = found.task.spec.entry
    rows = zip(entry.results, entry.result_types(), right, ran.outputs, strict=True)
    for name, t, bar, out in rows:
        c = compare(name, bar, out, TensorType(t.dtype, out.shape))
        if ran.empty and not c.agree:
            found.unlaunched += [case] if case not in found.unlaunched else []
            continue
        if count:
            found.checked += c.checked
            found.total += c.total
            if case.ordinary:
                found.decided.setdefault(name, Decided()).meet(bar, c.checked)
        if not c.agree and not any(w.case == case and w.output == name for w in found.wrong):
            faulty = any(f.kind != "unwritten" for f in ran.faults)
            found.wrong.append(Wrong(name, c.message, case, faulty, schedule))


def _same_bits(a: Array, b: Array) -> bool:
    return bitwise("", a, b).agree  # all NaNs are equal


def _differ(a: Array, b: Array) -> bool:
    return not _same_bits(a, b)


def batch_invariance(task: Task, done: Sequence[Case]) -> dict[str, bool]:
    """Return, by the size that counts independent results, whether their bits depend on it.

    A size counts independent results where it is the first extent of some inputs and of every
    output and occurs nowhere else, and the reference's results for the first half of the inputs are
    the first half of its results.
    """
    entry = task.spec.entry
    shapes = [p.type.shape for p in entry.params]
    found: dict[str, bool] = {}
    for v in task.spec.dims:
        leads = [bool(s) and str(s[0]) == v.name for s in shapes]
        elsewhere = any(v.name in map(str, dims.free(s[1:] if a else s))
                        for s, a in zip(shapes, leads, strict=True))  # fmt: skip
        if elsewhere or not any(leads):
            continue
        if not all(t.shape and str(t.shape[0]) == v.name for t in entry.result_types()):
            continue
        same = _invariant(task, v.name, leads, done)
        if same is not None:
            found[v.name] = same
    return found


def _invariant(task: Task, size: str, leads: Sequence[bool], done: Sequence[Case]) -> bool | None:
    case = next((c for c in done if c.ordinary and c.env[size] >= 4), None)
    if case is None:
        return None
    half = case.env[size] // 2
    fewer = {**case.env, size: half}
    low = {v.name: v.lo for v in task.spec.dims}
    whole = inputs.values(task, case)
    part = tuple(np.ascontiguousarray(x[:half]) if a else x
                 for x, a in zip(whole, leads, strict=True))  # fmt: skip
    if half < low[size] or any(map(_differ, part, inputs.shared(task, fewer, part))):
        return None
    want = zip(interpreter.run(task.spec, whole), interpreter.run(task.spec, part), strict=True)
    if not all(_same_bits(a[:half], b) for a, b in want):
        return None
    try:
        got = launching.run(task, case.env, whole), launching.run(task, fewer, part)
    except DidymaError:
        return None  # the kernel cannot be launched at that size
    return all(_same_bits(a[:half], b) for a, b in zip(got[0].outputs, got[1].outputs, strict=True))
