"""What is fuzzed about memory planning: in each domain a seed makes a case, which is judged.

- ``programs``: programs of known sizes through every planner of compiles;
- ``symbolic``: programs whose sizes are symbols, judged at the ends of their ranges and between;
- ``mixed``: programs with branches, loops, views of parts, routines that allocate; often several,
  and of each eighth seed with functions;
- ``wrappers``: such programs, always run, and run by their wrappers as well;
- ``replays``: programs that take no decisions, whose calls are recorded and repeated;
- ``tapes``: programs whose calls a module built for the CPU repeats;
- ``recordings``: recorded steps whose results get memory of their own;
- ``orders``: the search for orders of a few buffers, against all orders;
- ``arena``: problems of one arena through the planners that take no search;
- ``search``: small problems through those that search;
- ``fixed``: problems with fixed offsets and capacities;
- ``orientations``: plans for symbolic sizes;
- ``sizes``: what planners know of single symbolic sizes, at every binding;
- ``given``: how modules and JSON read sizes from inputs, against the definition;
- ``refused``: problems of which one thing is wrong;
- ``texts``: traces as text, sound and not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, product
from random import Random
from types import MappingProxyType

import numpy as np

from didyma.codegen.memory import planner, trace
from didyma.codegen.memory.arena import ArenaPlanner, Problem, fit, problem, solve
from didyma.codegen.memory.arena.outward import outward
from didyma.codegen.memory.arena.problem import FREE, lower_bound
from didyma.codegen.memory.planners import Choice
from didyma.codegen.memory.symbolic import SymbolicBuffer, SymbolicPlan, plan
from didyma.codegen.order.streams import spread
from didyma.fuzz.allocator import (
    definitions,
    given,
    judge,
    orders,
    recordings,
    refused,
    replays,
    sizes,
    tapes,
    traces,
)
from didyma.fuzz.allocator import programs as shapes
from didyma.fuzz.allocator.functions import dispatched, outlined
from didyma.fuzz.allocator.judge import Verdict
from didyma.fuzz.allocator.machine import planned
from didyma.fuzz.allocator.programs import Shape
from didyma.fuzz.counters import Counters
from didyma.oracle import placement_check, symbolic_plan
from didyma.oracle.symbolic_plan import PlacedBuffer
from didyma.refimpl.errors import DidymaError, EngineMissing
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar, symbol
from didyma.refimpl.ir.program import Program

PLANNERS_OF_PROGRAMS = ("linear_scan", "greedy_by_size", "size_class", "linear_scan", "best_fit",
                        "storage_id", "linear_scan", "none", "greedy_by_breadth")  # fmt: skip
QUICK = ("greedy_by_size", "linear_scan", "storage_id", "size_class", "greedy_by_breadth", "none",
         "best_fit")  # fmt: skip
TURNED = 4  # of so many symbolic arenas, one is planned in another order, too
SELDOM = 2  # a seed by which only placements themselves are judged
TWINS = 6  # problems of twins beside each one that is searched
SEARCH = ("didyma", "canonical", "hill_climb")
SHAPES: Mapping[str, Shape] = {
    "programs": Shape(),
    "symbolic": Shape(symbolic=True),
}


@dataclass(frozen=True, slots=True)
class JudgedCase:
    """A judged case: its planner, what each check has against the plan, and what is counted."""

    domain: str
    seed: int
    planner: str
    verdicts: tuple[Verdict, ...]
    counters: Counters = field(default_factory=dict[str, int])


def programs(domain: str, seed: int, *, run: bool = False) -> JudgedCase:
    """Plan and judge a random program; ``run`` also runs it."""
    wrapped = domain == "wrappers"
    shape = shapes.wrapped(seed) if wrapped else SHAPES.get(domain) or shapes.mixed(seed)
    bare = _program(seed, shape)
    if (domain == "mixed" and seed % 8 == 5) or (wrapped and seed % 3 == 2):
        bare = outlined(bare, seed)
    elif (domain == "mixed" and seed % 8 == 2) or (wrapped and seed % 3 == 1):
        bare = dispatched(bare, seed)
    name = PLANNERS_OF_PROGRAMS[seed % len(PLANNERS_OF_PROGRAMS)]
    return JudgedCase(domain, seed, name, judged(bare, name, seed, run=run, wrapped=wrapped))


def _program(seed: int, shape: Shape) -> Program:
    """Make a program; of those with streams the compiler spreads half over streams itself."""
    if not shape.streams or seed // 2 % 2:
        return shapes.program(seed, shape)
    whole = replace(shape, streams=False, late=not shape.allocates)  # routines know their sizes
    return spread(shapes.program(seed, whole), 2 + seed % 2)


def _eager(seed: int) -> bool:
    """Return whether a plan leaves out whatever it may; half of those of each planner do."""
    return seed // len(PLANNERS_OF_PROGRAMS) % 2 == 1


def again(domain: str, seed: int) -> JudgedCase:
    """Plan a random program, and judge calls of it that are repeated."""
    what, shape = (
        (tapes.judged, tapes.shape) if domain == "tapes" else (replays.judged, shapes.repeated)
    )
    bare = _program(seed, shape(seed))
    bare = outlined(bare, seed) if seed % 4 == 3 else bare
    name = PLANNERS_OF_PROGRAMS[seed % len(PLANNERS_OF_PROGRAMS)]
    try:
        envs = judge.bindings(bare.dims, Random(seed))[-2:]
        plan = planned(bare, name, eager=_eager(seed))
        wrong = next(what(bare, plan, envs, seed), "")
    except EngineMissing:
        wrong = ""  # what runs tapes is compiled, which an engine may do without
    except Exception as e:  # whatever it is, the call has failed
        wrong = f"{type(e).__name__}: {e}"
    return JudgedCase(domain, seed, name, (Verdict("replay of calls", wrong),) if wrong else ())


def judged(
    bare: Program, name: Choice, seed: int, *, run: bool, wrapped: bool = False
) -> tuple[Verdict, ...]:
    """Every verdict on a planner's plan of a program, at the first binding that has one.

    A program that is ``wrapped`` runs at its last binding alone, by its wrapper too.
    """
    try:
        plan = planned(bare, name, eager=_eager(seed))
    except Exception as e:  # whatever it is, the planner has failed
        return (Verdict("planner", f"{type(e).__name__}: {e}"),)
    found = every(bare, plan, seed, run=run)
    if not _eager(seed):
        found += judge.frugal(bare, plan, planner(name))
    if wrapped and not found:
        env = judge.bindings(bare.dims, Random(seed))[-1]
        found = judge.run(bare, plan, env, seed, wrapped=True)
    return tuple(found)


def every(bare: Program, plan: Program, seed: int, *, run: bool) -> list[Verdict]:
    """Every verdict on a plan of a program."""
    found = judge.laws(bare, plan)
    for env in judge.bindings(bare.dims, Random(seed)):
        here = judge.static(plan, env)
        if run:
            here += judge.run(bare, plan, env, seed)
        if here:
            return found + here
    return found


# ---- arenas


def arena(domain: str, seed: int) -> JudgedCase:
    """Place a random problem and judge the placement."""
    match domain:
        case "search":
            name = SEARCH[seed % len(SEARCH)]
            p = traces.arena(seed, 7 if name == "hill_climb" else 14)
            few = p.pick(np.flatnonzero((p.size > 0) & (p.upper > p.lower))[: definitions.FEW])
            small = map(traces.twins, range(seed * TWINS, (seed + 1) * TWINS))
            if wrong := next(chain.from_iterable(map(definitions.searched, (few, *small))), ""):
                return JudgedCase(domain, seed, name, (Verdict("placement", wrong),))
        case "fixed":
            name = QUICK[seed % len(QUICK)]
            p = traces.fixed(seed, lambda p: solve(p, "greedy_by_size").offsets.tolist())
            p = traces.bounded(p, seed) if seed % 3 == 0 else p
        case _:
            p, at = traces.arena(seed), seed % len(QUICK)
            *others, name = QUICK[at + 1 :] + QUICK[: at + 1]
            for other in others:
                if found := placed(p, other, SELDOM):
                    return JudgedCase(domain, seed, other, tuple(found))
    return JudgedCase(domain, seed, name, tuple(placed(p, name, seed)))


def placed(p: Problem, name: str | ArenaPlanner, seed: int) -> list[Verdict]:
    """Every verdict on a planner's placement, and on what is said of the problem itself."""
    lower, upper, size = p.lower.tolist(), p.upper.tolist(), p.size.tolist()
    bound = placement_check.most_alive(lower, upper, size)
    ends = [o + n for o, n, a, b in zip(p.fixed.tolist(), size, lower, upper, strict=True)
            if o >= 0 and n and a < b]  # fmt: skip
    bound = max([bound, *ends])
    said = lower_bound(p)
    if said != bound:
        return [Verdict("peak", f"the lower bound is {bound}, not {said}")]
    try:
        found = solve(p, name)
    except DidymaError as e:
        if e.code == "over-capacity" and p.capacity is not None:
            return []  # judged by ``bounded`` below: the bound says so, or the planner fell short
        return [Verdict("planner", f"{e.code}: {e}")]
    except Exception as e:  # whatever it is, the planner has failed
        return [Verdict("planner", f"{type(e).__name__}: {e}")]
    faults = placement_check.check(
        lower,
        upper,
        size,
        found.offsets.tolist(),
        alignment=p.alignment.tolist(),
        fixed=p.fixed.tolist(),
        capacity=p.capacity,
        peak=found.peak,
    )
    verdicts = [Verdict("placement", f"{f.kind}: {f.message}") for f in faults]
    if not verdicts and isinstance(name, str):
        by_rule = definitions.differing(p, name, found.offsets.tolist())
        verdicts += [Verdict("placement", wrong) for wrong in islice(by_rule, 1)]
    if seed % 4 == 1 and not verdicts:
        verdicts += _by_every_way(p, seed)
    if seed % 16 == 0 and not verdicts:
        verdicts += _permuted(p, name, found.offsets.tolist(), seed)
    return verdicts


def _by_every_way(p: Problem, seed: int) -> list[Verdict]:
    """Judge what computes the same placement in several ways, whatever the number of buffers."""
    p = p.pick(np.flatnonzero((p.size > 0) & (p.upper > p.lower)))  # what planners see
    if not p.count:
        return []
    r = Random(seed)
    order = np.array(r.sample(range(p.count), p.count))
    order = np.concatenate([order[p.fixed[order] != FREE], order[p.fixed[order] == FREE]])
    ways = fit.ways(p, order, r.choice(("best", "first", "top")))
    first, *others = (found.tolist() for found in ways.values())
    if any(found != first for found in others):
        return [Verdict("order", f"placed otherwise by one of {', '.join(ways)}")]
    placed = outward(p)
    if placed is None:
        return []
    times = p.lower.tolist(), p.upper.tolist(), p.size.tolist()
    faults = placement_check.check(*times, placed.tolist(), alignment=p.alignment.tolist())
    return [Verdict("placement", f"outward: {f.kind}: {f.message}") for f in faults]


def _permuted(
    p: Problem, name: str | ArenaPlanner, offsets: Sequence[int], seed: int
) -> list[Verdict]:
    """The order in which buffers are given makes no difference."""
    order = list(range(p.count))
    Random(seed).shuffle(order)
    q = problem(
        p.lower[order], p.upper[order], p.size[order], names=[p.names[i] for i in order],
        alignment=p.alignment[order], fixed=p.fixed[order], capacity=p.capacity,
    )  # fmt: skip
    if solve(q, name).offsets.tolist() != [offsets[i] for i in order]:
        return [Verdict("order", "another order of the buffers gives another placement")]
    return []


# ---- parts by their definition


@dataclass(frozen=True, slots=True)
class Part:
    """A part that is judged by its definition, and how many small cases a seed has."""

    judged: Callable[[Random], Iterator[str]]
    check: judge.Check
    many: int


PARTS: Mapping[str, Part] = MappingProxyType(
    {
        "recordings": Part(recordings.judged, "replay of calls", 20),
        "orders": Part(orders.judged, "order", 20),
        "sizes": Part(sizes.judged, "proof", 2),
        "given": Part(given.judged, "reader", 1),
        "refused": Part(refused.judged, "reader", 1),
    }
)


def several(domain: str, seed: int) -> JudgedCase:
    """Judge some small cases of one part."""
    part = PARTS[domain]
    for r in map(Random, range(seed * part.many, (seed + 1) * part.many)):
        try:
            wrong = next(part.judged(r), "")
        except Exception as e:  # whatever it is, what is judged has failed
            wrong = f"{type(e).__name__}: {e}"
        if wrong:
            return JudgedCase(domain, seed, domain, (Verdict(part.check, wrong),))
    return JudgedCase(domain, seed, domain, ())


# ---- symbolic sizes


def orientations(domain: str, seed: int) -> JudgedCase:
    """Plan buffers of symbolic sizes; judge what the code says at bindings."""
    r = Random(seed)
    n, m, k = symbol("n"), symbol("m"), symbol("k")
    declared = (DimVar("n", low := r.randrange(3), low + r.choice((0, 5, 60))),
                DimVar("m", r.randrange(2), 9), DimVar("k", r.randrange(2), 4))  # fmt: skip
    high = declared[0].hi
    pool: list[Dim] = [
        n, m, dims.mul(n, m), dims.add(n, 5), dims.mul(3, n), dims.mul(n, n), dims.floordiv(n, 2),
        dims.maximum(n, m), 7, dims.sub(high, n), dims.mul(dims.sub(high, n), m),
        dims.add(dims.mul(n, k), m), dims.sub(dims.add(high, k), n),
    ]  # fmt: skip
    # Sizes that are largest between the ends, and constants that only those exceed.
    left = dims.sub(high, n)
    bumps: list[Dim] = [
        dims.mul(n, left), dims.mul(n, left, left), dims.mul(n, n, left),
        dims.mul(m, dims.sub(9, m)), dims.add(dims.mul(n, left), m),
    ]  # fmt: skip
    most = max(1, high * high // 4)
    bumps += [r.randint(1, most) for _ in range(3)]
    if r.random() < 0.4:
        pool = [*bumps, *r.sample(pool, 3)]
    buffers: list[SymbolicBuffer] = []
    for i in range(r.choice((2, 4, 7, 7, 12))):
        lower = r.randrange(6)
        size = dims.mul(r.choice((1, 4, 64, 256)), r.choice(pool))
        buffers.append(SymbolicBuffer(f"b{i}", size, lower, lower + r.choice((1, 1, 2, 4))))
    verdicts = oriented(buffers, declared, r.choice((1, 16, 256)), seed)
    return JudgedCase(domain, seed, "orientations", tuple(verdicts))


def oriented(
    buffers: Sequence[SymbolicBuffer], declared: Sequence[DimVar], alignment: int, seed: int
) -> list[Verdict]:
    """Every verdict on a plan for symbolic sizes."""
    try:
        p = plan(buffers, declared, alignment, k=2, moves=20)
    except Exception as e:  # whatever it is, the planner has failed
        return [Verdict("planner", f"{type(e).__name__}: {e}")]
    turned = plan(buffers[::-1], declared, alignment, k=2, moves=20) if seed % TURNED == 0 else p
    if turned != p:
        return [Verdict("planner", "the plan of the buffers in another order is another")]
    blocks = [PlacedBuffer(b.name, b.size, b.lower, b.upper) for b in buffers]
    every = [dict(zip((v.name for v in declared), at, strict=True))
             for at in product(*(range(v.lo, v.hi + 1) for v in declared))]  # fmt: skip
    kept = Random(seed).sample(every, min(len(every), 40))

    def placed(env: Mapping[str, int]) -> tuple[int, Mapping[str, int]]:
        at = p.place(env)
        return at.peak, at.offsets

    some = [every[0], every[-1], *kept]
    for v in declared:
        for size in (v.lo - 1, v.hi + 1):
            if _takes(p, {**every[0], v.name: size}):
                told = f"{v.name} = {size} is placed, of {v.lo} to {v.hi}"
                return [Verdict("placement", told)]
    faults = symbolic_plan.check(blocks, alignment, placed, iter(some))
    wrong = (w for env in (*some, p.certificate.at) for w in orders.stacked(p, env))
    found = [Verdict("placement", f"{f.kind}: {f.message}") for f in faults]
    return found or [Verdict("placement", w) for w in islice(wrong, 1)]


def _takes(p: SymbolicPlan, env: Mapping[str, int]) -> bool:
    """Return whether a plan places buffers at a binding."""
    try:
        p.place(env)
    except DidymaError as e:
        return e.code != "dim-out-of-range"
    return True


# ---- traces as text


def texts(domain: str, seed: int) -> JudgedCase:
    """Read a random trace: a sound one holds its rows, any other is refused with a coded error."""
    return JudgedCase(domain, seed, "trace", tuple(read(traces.text(seed))))


def read(t: traces.Text) -> list[Verdict]:
    """Every verdict on what the reader makes of a text."""
    try:
        p = trace.parse(t.text)
    except DidymaError as e:
        return [Verdict("reader", f"refused: {e}")] if t.rows is not None else []
    except Exception as e:  # nothing else may come of any text
        return [Verdict("reader", f"{type(e).__name__}: {e}")]
    if t.any:
        return []
    if t.rows is None:
        return [Verdict("reader", "a bad trace is taken")]
    got = tuple(zip(p.names, p.lower.tolist(), p.upper.tolist(), p.size.tolist(), strict=True))
    if got != t.rows:
        return [Verdict("reader", "other rows than were written")]
    bound = placement_check.most_alive(*(list(c) for c in zip(*(r[1:] for r in got), strict=True)))
    said = lower_bound(p)
    return [] if said == bound else [Verdict("peak", f"the load is {bound}, not {said}")]


DOMAINS: Mapping[str, int] = {  # how many of a hundred cases
    "programs": 13, "symbolic": 6, "mixed": 16, "wrappers": 16, "replays": 6, "tapes": 6,
    "recordings": 4, "orders": 3, "arena": 8, "search": 3, "fixed": 5, "orientations": 4,
    "texts": 3, "sizes": 3, "given": 3, "refused": 1,
}  # fmt: skip


def domain_of(seed: int, domains: Sequence[str]) -> str:
    """Return the domain of a seed's case."""
    return Random(seed).choices(domains, [DOMAINS[d] for d in domains])[0]


def judge_case(
    seed: int, domains: Sequence[str] = tuple(DOMAINS), run_every: int = 0
) -> JudgedCase:
    """Make and judge the case of a seed, of one of the domains."""
    chosen = domain_of(seed, domains)
    if chosen in PARTS:
        return several(chosen, seed)
    match chosen:
        case "texts":
            return texts(chosen, seed)
        case "orientations":
            return orientations(chosen, seed)
        case "arena" | "search" | "fixed":
            return arena(chosen, seed)
        case "replays" | "tapes":
            return again(chosen, seed)
        case _:
            run = run_every > 0 and seed % run_every == 0
            return programs(chosen, seed, run=run)
