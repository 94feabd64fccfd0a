"""Rounds of inputs that one program is judged on, and the judgement of all of them.

Values differ in kind from round to round, because faults hide in corners.  A small program is
cheap and meets every pair of its inputs' corners; a large one meets every kind in three rounds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice, zip_longest
from operator import index

import numpy as np

from didyma import fitting
from didyma.codegen.pipeline import Compiled
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.externs import Implementation, bound
from didyma.fuzz import given as given_
from didyma.fuzz import levels
from didyma.fuzz.graphs import domains
from didyma.fuzz.peers import judge as peer_judge
from didyma.fuzz.peers.peer import Peer
from didyma.fuzz.values import CORE, Kind, array, core, corners
from didyma.oracle.report import Report, Setting, merged
from didyma.oracle.stages import judge
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.graph import WHILE, Module, Param
from didyma.refimpl.ir.types import Array, Tensor
from didyma.refimpl.ops import OPS

FEWEST = 3  # rounds of a large program
WORK = 1 << 15  # elements in all the rounds of a program, when nobody says how many rounds
NODE = 64  # elements that cost as much as the levels' work on one node
LARGE = 1 << 17  # elements of a program of which the slowest engines judge one round
SLOW = frozenset(("simt",))  # it runs every thread in NumPy
PLAIN = frozenset((Kind.NORMAL, Kind.SMALL, Kind.UNIT))  # ordinary numbers, fit for peers

STRIDE = 71  # coprime to CORE squared: neighbours are unlike, and still every pair has its turn
_LAW = re.compile(r"[DGLP]-")
_KINDS = (Kind.SPARSE, Kind.NEUTRAL, Kind.SMALL, Kind.BITS, Kind.SCALES, Kind.UNIT)
PAIRS, EVERY = "corners in pairs", "every corner"


@dataclass(frozen=True, slots=True)
class Round:
    """One set of inputs: its number from 0, and a kind of values, or a part of the corners.

    Without a kind, ``sweep`` counts the rounds of the same name before this one.
    """

    number: int
    name: str
    kind: Kind | None = None
    sweep: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """Where the inputs of a program come from: sizes, a seed, and values that somebody chose.

    A tuple has a seed for each parameter, which tells the kind of its values too: one round.
    """

    module: Module
    env: Mapping[str, int]
    seed: int | tuple[int, ...]
    given: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])

    def seeds(self, r: Round) -> tuple[int, ...]:
        """Seeds of the parameters in a round."""
        if isinstance(self.seed, tuple):
            return self.seed
        first = (self.seed * 1000 + r.number) * 1000
        return tuple(first + i for i in range(len(self.module.entry.params)))

    @property
    def _entropy(self) -> int:
        return self.seed if isinstance(self.seed, int) else sum(self.seed)

    def shape(self, p: Param) -> tuple[int, ...]:
        """Shape of a parameter."""
        return dims.values(p.type.shape, self.env)

    def values(self, r: Round) -> tuple[Array, ...]:
        """Values of the parameters in a round."""
        if isinstance(self.seed, tuple):
            return given_.inputs(self.module, self.env, self.seed, self.given)
        entry = self.module.entry
        near, counts = domains(entry), _counts(self.module)
        found: list[Array] = []
        for i, (p, seed) in enumerate(zip(entry.params, self.seeds(r), strict=True)):
            shape, dtype = self.shape(p), p.type.dtype
            if p.name in self.given:
                x = np.broadcast_to(self.given[p.name].array(), shape).copy()
            elif counts and dtype.is_int:  # it may say how often a loop runs
                x = array(seed, dtype, shape, near.get(p.name), Kind.SMALL)
            elif r.kind is not None:
                x = array(seed, dtype, shape, near.get(p.name), r.kind)
            elif r.name == PAIRS:
                x = self._meeting(p, i, r.sweep)
            else:
                x = self._every(p, i, r.sweep)
            found.append(np.asarray(x, order="C"))
        return tuple(found)

    def sweeps(self) -> tuple[int, int]:
        """Rounds in which parameters meet in every pair of corners, and in which each has all."""
        free = [p for p in self.module.entry.params if p.name not in self.given]
        slots = max((self.size(p) for p in free), default=0) or 1
        least = (CORE if len(free) < 2 else CORE * CORE) / slots
        pairs = math.ceil(least if self._alike() else 3 * least)
        each = (math.ceil(_corners(self.module, p).size / max(1, self.size(p))) for p in free)
        return pairs, max(each, default=1)

    def _alike(self) -> bool:
        """Tell whether all parameters have one shape."""
        return len({self.shape(p) for p in self.module.entry.params}) < 2

    def size(self, p: Param) -> int:
        """Number of elements of a parameter."""
        return math.prod(self.shape(p))

    def _meeting(self, p: Param, i: int, sweep: int) -> Array:
        """Corners of the ``i``-th parameter, such that it meets others in all pairs of corners.

        Where the shapes are equal, they are an orthogonal array of strength two: over ``CORE``
        squared elements, any two parameters (of the first ``CORE``) meet in every pair.  R. C. Bose
        and K. A. Bush, "Orthogonal arrays of strength two and three", 1952.  Where one parameter
        is broadcast to another, they are shuffled, and nearly all pairs occur.
        """
        t = sweep * self.size(p) + np.arange(self.size(p)) + self._entropy % CORE**2
        t = STRIDE * t % CORE**2
        number = (t + i * (t // CORE)) % CORE
        if not self._alike():
            np.random.default_rng((self._entropy, i, sweep)).shuffle(number)
        return np.asarray(core(p.type.dtype)[number].reshape(self.shape(p)))

    def _every(self, p: Param, i: int, sweep: int) -> Array:
        """Corners of a parameter in an order of its own, continued from round to round."""
        have, n = _corners(self.module, p), self.size(p)
        order = np.random.default_rng((self._entropy, i)).permutation(have.size)
        at = (sweep * n + np.arange(n)) % have.size
        return np.asarray(have[order[at]].reshape(self.shape(p)))


def _corners(m: Module, p: Param) -> Array:
    """Corners of a parameter's dtype, and of the ops that read it."""
    nodes = [n for n in m.entry.nodes if p.name in n.args and n.op in OPS]
    own = [x for n in nodes for x in OPS[n.op].corners]
    dtype = p.type.dtype
    with np.errstate(all="ignore"):
        more = np.array(own if dtype.is_float else [], np.float64).astype(dtype.numpy)
    return np.concatenate([corners(dtype), more])


def _counts(m: Module) -> bool:
    """Tell whether integers may say how often loops run or how large values are."""
    loops = any(n.op == WHILE for f in m.functions for n in f.nodes)
    return loops or bool(control.bound(m))


def work(m: Module, env: Mapping[str, int]) -> int:
    """Cost of judging one round, in elements."""
    inputs = sum(dims.evaluate(p.type.numel, env) for p in m.entry.params)
    return inputs + fitting.elements(m, env) + NODE * sum(len(f.nodes) for f in m.functions)


def schedule(source: Source, tries: int | None = None) -> tuple[Round, ...]:
    """Return the rounds of a judgement: ``tries`` of them, or as many as its size is worth.

    The first three hold every kind of value for every parameter.  A program whose inputs cannot
    vary has one round.  Errors: ``bad-option`` for less than one try.
    """
    if tries is not None:
        whole("tries", tries, 1)
    if isinstance(source.seed, tuple):
        return (Round(0, "recorded"),)
    m = source.module
    if all(p.name in source.given or not source.size(p) for p in m.entry.params):
        return (Round(0, "given values" if source.given else "no inputs", Kind.NORMAL),)
    first = list(_first(source))
    worth = max(FEWEST, WORK // max(1, work(m, source.env)))
    count = min(worth, len(first)) if tries is None else tries
    more = (Round(0, k.value, k) for k in cycle((Kind.MIXED, Kind.NORMAL, *_KINDS)))
    chosen = [*first, *islice(more, max(0, count - len(first)))][:count]
    return tuple(replace(r, number=i) for i, r in enumerate(chosen))


def _first(source: Source) -> Iterator[Round]:
    """Rounds that see everything once, those worth most first."""
    pairs, every = source.sweeps()
    yield from (Round(0, k.value, k) for k in (Kind.NORMAL, Kind.MIXED))
    yield from (Round(0, PAIRS), Round(0, EVERY))
    yield from (Round(0, k.value, k) for k in _KINDS)
    for i, j in zip_longest(range(1, pairs), range(1, every)):
        if i is not None:
            yield Round(0, PAIRS, sweep=i)
        if j is not None:
            yield Round(0, EVERY, sweep=j)


def fitted(source: Source, free: Collection[str]) -> Source:
    """Choose sizes at which the reference runs, where those of ``free`` may still grow."""
    (first, *_) = schedule(source)
    env = fitting.fit_run(
        source.module, source.env, free, lambda env: replace(source, env=env).values(first)
    )
    return replace(source, env=env)


@dataclass(frozen=True, slots=True)
class Judged:
    """The report of all rounds, and the round that disagreed: the last one, if any did."""

    report: Report
    failed: Round | None = None


def judged(
    made: Compiled | levels.Failed,
    source: Source,
    rounds: Sequence[Round],
    engines: Sequence[Engine],
    setting: Setting,
    peers: Sequence[Peer] = (),
    progress: Callable[[str], None] = lambda _: None,
    externs: Mapping[str, Implementation] | None = None,
    model: bytes | None = None,
) -> Judged:
    """Judge a compiled module round by round until one disagrees; kernels are loaded once.

    The slowest engines judge the first round alone where a program is large.  Rounds of ordinary
    numbers are compared with float64 too, and are all that ``peers`` are judged on: ONNX leaves
    open what becomes of other numbers, and an error is no share of the largest value where that
    overflows.  ``model`` is the ONNX model that the module was imported from, which peers may run.

    Raises the DidymaError of a compile that failed by the program's own fault.
    """
    if isinstance(made, levels.Failed):
        # The source is lawful: where a law is broken, or the compiler fails, that is a finding.
        if isinstance(made.error, DidymaError) and not _LAW.match(made.error.code):
            raise made.error
        return Judged(replace(made.report(), setting=setting))
    given = bound(made.fused, externs)
    backends = [levels.EngineBackend(e, made, externs=given) for e in engines]
    subject = levels.subject(made, given)
    large = work(source.module, source.env) > LARGE
    reports: list[Report] = []
    for r in rounds:
        now = [b for b in backends if r.number == 0 or not (large and b.name in SLOW)]
        arrays = source.values(r)
        of = f", round {r.number + 1} of {len(rounds)}" if len(rounds) > 1 else ""
        plain = r.kind in PLAIN or len(rounds) == 1
        report = judge(subject, arrays, now, None, _after(progress, of), details=plain)
        for peer in peers if plain else ():
            progress(peer.name + of)
            end_to_end = peer_judge.end_to_end(peer, made.source, arrays, source.env, model)
            by_kernel = peer_judge.by_kernel(peer, made.fused, arrays, source.env)
            report = replace(report, levels=(*report.levels, end_to_end, by_kernel))
        reports.append(report)
        if report.findings:
            break
    names = tuple(r.name for r in rounds[: len(reports)])
    report = merged(reports, replace(setting, rounds=names))
    return Judged(report, rounds[len(reports) - 1] if report.findings else None)


def _after(progress: Callable[[str], None], words: str) -> Callable[[str], None]:
    return lambda level: progress(level + words)


def during(word: str, rounds: Sequence[Round]) -> tuple[str, Round]:
    """Return the level and the round that a word of progress told.

    >>> during("host, round 2 of 2", [Round(0, "normal"), Round(1, "mixed")])
    ('host', Round(number=1, name='mixed', kind=None, sweep=0))
    """
    level, _, rest = word.partition(", round ")
    return level, rounds[int(rest.split()[0]) - 1 if rest else 0]


def whole(name: str, value: int, least: int) -> int:
    """Return an option that is an integer of at least so much; DidymaError ``bad-option``."""
    exact = not isinstance(value, bool) and hasattr(value, "__index__")
    if not exact or value < least:
        want = f"an integer, {least} or more"
        raise DidymaError("bad-option", f"{name} = {value!r}", got=repr(value), want=want)
    return index(value)
