"""Draw rounds of inputs for one program, and judge it on each of them.

Each round draws another kind of values, because many faults show only at special values (corners).
A small program is cheap to judge, and gets every pair of its inputs' corners; a large one gets
every kind of value in three rounds.
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
from didyma.fuzz.values import CORE, Distribution, array, core, corners
from didyma.oracle.report import Report, Setting, merged
from didyma.oracle.stages import judge
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import control, dims, strides
from didyma.refimpl.ir.graph import WHILE, Module, Param
from didyma.refimpl.ir.types import Array, Tensor
from didyma.refimpl.ops import OPS

FEWEST = 3  # rounds of a large program
WORK = 1 << 15  # elements in all the rounds of a program, when nobody says how many rounds
NODE = 64  # elements that cost as much as judging one node at all levels
LARGE = 1 << 17  # elements of a program of which the slowest engines judge one round
SLOW = frozenset(("simt",))  # it runs every thread in NumPy
HEAVY = 1 << 30  # multiplications of a program that is judged in the ring in one round
HUGE = 1 << 33  # multiplications of a program that is judged in one round, and not in the ring
LARGEST = 1 << 29  # multiplications of a Primitive that interpreters run beside a faster engine
# The values that peers are judged on.
ORDINARY = frozenset((Distribution.NORMAL, Distribution.SMALL, Distribution.UNIT))

STRIDE = 71  # coprime to CORE squared, so that steps of it reach every pair of corners
_LAW = re.compile(r"[DGLP]-")
_KINDS = (
    Distribution.SPARSE, Distribution.NEUTRAL, Distribution.SMALL, Distribution.BITS,
    Distribution.SCALES, Distribution.UNIT,
)  # fmt: skip
PAIRS, EVERY = "corners in pairs", "every corner"


@dataclass(frozen=True, slots=True)
class Round:
    """One set of inputs: its number from 0, and a kind of values, or a part of the corners.

    A round of corners has no kind; its ``sweep`` counts the earlier rounds of the same name.
    """

    number: int
    name: str
    kind: Distribution | None = None
    sweep: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """How the inputs of a program are drawn: sizes, a seed, and the values that the user gave.

    ``seed`` is one seed for all rounds, or a seed for each parameter, which makes a single round
    and also determines the kind of each parameter's values.
    """

    module: Module
    env: Mapping[str, int]
    seed: int | tuple[int, ...]
    given: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])

    def seeds(self, r: Round) -> tuple[int, ...]:
        """Return the seeds of the parameters in a round."""
        if isinstance(self.seed, tuple):
            return self.seed
        first = (self.seed * 1000 + r.number) * 1000
        return tuple(first + i for i in range(len(self.module.entry.params)))

    @property
    def _entropy(self) -> int:
        return self.seed if isinstance(self.seed, int) else sum(self.seed)

    def shape(self, p: Param) -> tuple[int, ...]:
        """Return the shape of a parameter."""
        return dims.values(p.type.shape, self.env)

    def values(self, r: Round) -> tuple[Array, ...]:
        """Draw the values of the parameters in a round."""
        if isinstance(self.seed, tuple):
            return given_.inputs(self.module, self.env, self.seed, self.given)
        entry = self.module.entry
        near, counts = domains(entry), _integers_are_counts(self.module)
        found: list[Array] = []
        for i, (p, seed) in enumerate(zip(entry.params, self.seeds(r), strict=True)):
            shape, dtype = self.shape(p), p.type.dtype
            if p.name in self.given:
                x = np.broadcast_to(self.given[p.name].array(), shape).copy()
            elif counts and dtype.is_int:  # it may be the trip count of a loop
                x = array(seed, dtype, shape, near.get(p.name), Distribution.SMALL)
            elif r.kind is not None:
                x = array(seed, dtype, shape, near.get(p.name), r.kind)
            elif r.name == PAIRS:
                x = self._pairs(p, i, r.sweep)
            else:
                x = self._every(p, i, r.sweep)
            found.append(np.asarray(x, order="C"))
        return strides.inputs(self.module, found, self.env)

    def sweeps(self) -> tuple[int, int]:
        """Return the rounds that cover all pairs of corners, and those that cover every corner."""
        free = [p for p in self.module.entry.params if p.name not in self.given]
        slots = max((self.size(p) for p in free), default=0) or 1
        least = (CORE if len(free) < 2 else CORE * CORE) / slots
        pairs = math.ceil(least if self._same_shapes() else 3 * least)
        each = (math.ceil(_corners(self.module, p).size / max(1, self.size(p))) for p in free)
        return pairs, max(each, default=1)

    def _same_shapes(self) -> bool:
        """Return whether all parameters have the same shape."""
        return len({self.shape(p) for p in self.module.entry.params}) < 2

    def size(self, p: Param) -> int:
        """Return the number of elements of a parameter."""
        return math.prod(self.shape(p))

    def _pairs(self, p: Param, i: int, sweep: int) -> Array:
        """Draw corners for the ``i``-th parameter so that parameters meet in all pairs of corners.

        Where the shapes are equal, they are an orthogonal array of strength two: over ``CORE``
        squared elements, any two parameters (of the first ``CORE``) meet in every pair.  R. C. Bose
        and K. A. Bush, "Orthogonal arrays of strength two and three", 1952.  Where one parameter
        is broadcast to another, they are shuffled, and nearly all pairs occur.
        """
        t = sweep * self.size(p) + np.arange(self.size(p)) + self._entropy % CORE**2
        t = STRIDE * t % CORE**2
        number = (t + i * (t // CORE)) % CORE
        if not self._same_shapes():
            np.random.default_rng((self._entropy, i, sweep)).shuffle(number)
        return np.asarray(core(p.type.dtype)[number].reshape(self.shape(p)))

    def _every(self, p: Param, i: int, sweep: int) -> Array:
        """Draw the corners of a parameter in a random order that goes on from round to round."""
        have, n = _corners(self.module, p), self.size(p)
        order = np.random.default_rng((self._entropy, i)).permutation(have.size)
        at = (sweep * n + np.arange(n)) % have.size
        return np.asarray(have[order[at]].reshape(self.shape(p)))


def _corners(m: Module, p: Param) -> Array:
    """Return the corners of a parameter's dtype, and of the ops that read it."""
    nodes = [n for n in m.entry.nodes if p.name in n.args and n.op in OPS]
    own = [x for n in nodes for x in OPS[n.op].corners]
    dtype = p.type.dtype
    with np.errstate(all="ignore"):
        more = np.array(own if dtype.is_float else [], np.float64).astype(dtype.numpy)
    return np.concatenate([corners(dtype), more])


def _integers_are_counts(m: Module) -> bool:
    """Return whether integer inputs may be trip counts of loops or sizes of values."""
    loops = any(n.op == WHILE for f in m.functions for n in f.nodes)
    return loops or bool(control.bound(m))


def work(m: Module, env: Mapping[str, int]) -> int:
    """Return the cost of judging one round, in elements."""
    inputs = sum(dims.evaluate(p.type.numel, env) for p in m.entry.params)
    return inputs + fitting.elements(m, env) + NODE * sum(len(f.nodes) for f in m.functions)


def schedule(source: Source, tries: int | None = None) -> tuple[Round, ...]:
    """Return the rounds of a judgement: ``tries`` of them, or more the smaller the program is.

    The first three contain every kind of value for every parameter.  A program whose inputs cannot
    vary has one round, and so has one of more than ``HUGE`` multiplications, unless more are asked
    for.  DidymaError ``bad-option`` for less than one try.
    """
    if tries is not None:
        require_integer("tries", tries, 1)
    if isinstance(source.seed, tuple):
        return (Round(0, "recorded"),)
    m = source.module
    if all(p.name in source.given or not source.size(p) for p in m.entry.params):
        return (Round(0, "given values" if source.given else "no inputs", Distribution.NORMAL),)
    first = list(_first(source))
    worth = max(FEWEST, WORK // max(1, work(m, source.env)))
    usual = 1 if _multiplications(source) > HUGE else min(worth, len(first))
    count = usual if tries is None else tries
    more = (Round(0, k.value, k) for k in cycle((Distribution.MIXED, Distribution.NORMAL, *_KINDS)))
    chosen = [*first, *islice(more, max(0, count - len(first)))][:count]
    return tuple(replace(r, number=i) for i, r in enumerate(chosen))


def _multiplications(source: Source) -> int:
    """Return the multiplications of convolutions and matrix products of the entry."""
    return fitting.products(source.module, source.env, source.module.entry)


def _first(source: Source) -> Iterator[Round]:
    """Yield the rounds that cover every kind and corner once, the most valuable first."""
    pairs, every = source.sweeps()
    yield from (Round(0, k.value, k) for k in (Distribution.NORMAL, Distribution.MIXED))
    yield from (Round(0, PAIRS), Round(0, EVERY))
    yield from (Round(0, k.value, k) for k in _KINDS)
    for i, j in zip_longest(range(1, pairs), range(1, every)):
        if i is not None:
            yield Round(0, PAIRS, sweep=i)
        if j is not None:
            yield Round(0, EVERY, sweep=j)


def fitted(source: Source, free: Collection[str]) -> Source:
    """Return the source with sizes at which the reference runs; those in ``free`` may grow."""
    (first, *_) = schedule(source)
    env = fitting.fit_run(
        source.module, source.env, free, lambda env: replace(source, env=env).values(first)
    )
    return replace(source, env=env)


@dataclass(frozen=True, slots=True)
class Judged:
    """The report of all rounds, and the round that disagreed, which is the last; None if none."""

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
    *,
    ring: bool = False,
    alive: Callable[[], None] = lambda: None,
) -> Judged:
    """Judge a compiled module on one round after another until one disagrees.

    Kernels are loaded once.  A large program runs on slow engines in the first round only.  In
    rounds of ordinary numbers, results are also compared with float64 and ``peers`` are judged:
    ONNX does not define the results of other numbers, and an error relative to the largest value
    means nothing where that overflows.  ``model`` is the ONNX model that the module was imported
    from, which peers may run.  With ``ring`` each round is judged in the ring as well; of a program
    of more than ``HEAVY`` multiplications, the first one, whose numbers are random, and of more
    than ``HUGE`` none.  Primitives of more than ``LARGEST`` multiplications run on engines alone,
    if one of those is not slow.
    ``progress`` and ``alive`` are as of ``judge``.

    Raises the DidymaError of a compilation that failed because of the program itself.
    """
    if isinstance(made, levels.Failed):
        # The source is valid, so a broken law or a crash of the compiler is a finding.
        if isinstance(made.error, DidymaError) and not _LAW.match(made.error.code):
            raise made.error
        return Judged(replace(made.report(), setting=setting))
    given = bound(made.fused, externs)
    multiplications = _multiplications(source)
    ring = ring and multiplications <= HUGE
    chosen = [levels.in_ring(e) for e in engines] if ring else engines
    backends = [levels.EngineBackend(e, made, externs=given) for e in chosen]
    subject, contract = levels.subject(made, given), levels.contract_of(made)
    large = work(source.module, source.env) > LARGE
    fast = any(b.name not in SLOW for b in backends)
    engines_only = _largest(made.fused, source.env) if fast else frozenset[str]()
    reports: list[Report] = []
    for r in rounds:
        now = [b for b in backends if r.number == 0 or not (large and b.name in SLOW)]
        arrays = source.values(r)
        now_in_ring = ring and (r.number == 0 or multiplications <= HEAVY)
        of = f", round {r.number + 1} of {len(rounds)}" if len(rounds) > 1 else ""
        plain = r.kind in ORDINARY or len(rounds) == 1
        say = _with_suffix(progress, of)
        report = judge(
            subject, arrays, now, contract, say, details=plain, in_ring=now_in_ring, alive=alive,
            engines_only=engines_only,
        )  # fmt: skip
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


def _largest(fused: Module, env: Mapping[str, int]) -> frozenset[str]:
    """Return the names of the Primitives of more than ``LARGEST`` multiplications."""
    return frozenset(f.name for f in fused.functions if fitting.products(fused, env, f) > LARGEST)


def _with_suffix(progress: Callable[[str], None], suffix: str) -> Callable[[str], None]:
    return lambda level: progress(level + suffix)


def parse_progress(text: str, rounds: Sequence[Round]) -> tuple[str, Round]:
    """Return the level and the round that a progress message of ``judged`` names.

    >>> parse_progress("host, round 2 of 2", [Round(0, "normal"), Round(1, "mixed")])
    ('host', Round(number=1, name='mixed', kind=None, sweep=0))
    """
    level, _, rest = text.partition(", round ")
    return level, rounds[int(rest.split()[0]) - 1 if rest else 0]


def require_integer(name: str, value: int, least: int) -> int:
    """Return an option that is an integer of at least ``least``; DidymaError ``bad-option``."""
    is_integer = not isinstance(value, bool) and hasattr(value, "__index__")
    if not is_integer or value < least:
        want = f"an integer, {least} or more"
        raise DidymaError("bad-option", f"{name} = {value!r}", got=repr(value), want=want)
    return index(value)
