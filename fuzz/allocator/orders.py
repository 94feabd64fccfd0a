"""Judge the search for orders of buffers of symbolic sizes: by all orders of a few buffers.

Of two buffers that are alive at once the earlier in an order lies below the other.  So the peak of
an order is the longest chain of such buffers, and the least peak is that of the best of all orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, permutations
from random import Random
from typing import TypeAlias

from didyma.codegen.memory.symbolic import SymbolicPlan
from didyma.codegen.memory.symbolic.search import ENOUGH, OrderSearch
from didyma.codegen.memory.symbolic.stack import Order, Stack
from didyma.refimpl.ir import dims

Life: TypeAlias = tuple[int, int]  # alive from the first step up to but not at the second
Sizes: TypeAlias = Sequence[int]
Worst: TypeAlias = Callable[[Sequence[Order]], tuple[float, float]]

MOST = 5  # buffers whose orders are all tried
MOVES, ROUNDS = 300, 40


def judged(r: Random) -> Iterator[str]:
    """Draw lives and sizes at some bindings; yield what is wrong with a search, if anything is."""
    lives = [(a, a + r.randint(1, 4)) for a in (r.randrange(6) for _ in range(r.randint(1, 8)))]
    samples = [[r.choice((0, 1, 2, 3, 5, 8, 13)) for _ in lives] for _ in range(r.randint(1, 4))]
    search = OrderSearch(Stack.of(lives), [*(samples[:-1] or samples)], Random(r.random()))
    if len(samples) > 1:
        search.add(samples[-1])
    loads = [_load(lives, s) for s in samples]
    if search.loads != loads:
        yield f"loads are {loads}, not {search.loads}"
        return

    def ratios(o: Order) -> list[float]:
        return [_peak(lives, o, s) / n if n else 1.0 for s, n in zip(samples, loads, strict=True)]

    def worst(orders: Sequence[Order]) -> tuple[float, float]:
        least = [min(c) for c in zip(*map(ratios, orders), strict=True)]
        return max(least), sum((x - 1) ** 2 for x in least)

    seeds = search.seeds(range(0, len(samples), 2))
    given = tuple(r.sample(range(len(lives)), len(lives)))
    yield from _orders([*seeds, given], len(lives))
    for order in (*seeds, given):
        if search.ratios(order) != ratios(order):
            yield f"ratios of {order} are {ratios(order)}, not {search.ratios(order)}"
    k = r.randint(1, 3)
    chosen = search.choose(seeds, k)
    yield from _chosen(chosen, seeds, k, worst)
    need = r.sample(range(len(samples)), r.randint(1, len(samples)))
    got, order = search.climb(given, need, 1.0, MOVES)
    yield from _orders([order], len(lives))
    if got != max(ratios(order)[m] for m in need):
        yield f"the worst ratio of {order} at {need} is told to be {got}"
    if got > max(ratios(given)[m] for m in need):
        yield f"a climb from {given} ends at {order}, which is worse"
    found = search.improved(chosen, k, seeds, rounds=ROUNDS, moves=MOVES)
    yield from _orders(found, len(lives))
    if not 0 < len(found) <= k:
        yield f"{len(found)} orders are kept, of at most {k}"
    if worst(found)[0] > worst(chosen)[0]:
        yield f"{chosen} became {found}, which are worse"
    sizes = r.choice(samples)
    yield from _stacked(search.stack, lives, given, sizes, r)
    if len(lives) <= MOST:
        every = [ratios(o) for o in permutations(range(len(lives)))]
        best = min(max(row[m] for m in need) for row in every)
        if not best <= got <= best * ENOUGH:
            yield f"a climb from {given} ends at {got}, and the best of all orders is {best}"
        if worst(found)[0] > min(map(max, every)) * ENOUGH:
            yield f"{found} are found, and one order is at most {min(map(max, every))}"


def _stacked(
    stack: Stack, lives: Sequence[Life], order: Order, sizes: Sizes, r: Random
) -> Iterator[str]:
    """Yield what is wrong with where an order puts buffers, and with what its peak stands on."""
    ends = _ends(lives, order, sizes)
    offsets = [ends[v] - sizes[v] for v in range(len(lives))]
    if (told := stack.offsets(order, sizes)) != offsets:
        yield f"offsets of {order} are {offsets}, not {told}"
        return
    chain = stack.chain(order, sizes, r)
    stands = all(ends[a] == offsets[b] and _together(lives, a, b) for a, b in pairwise(chain))
    if not stands or offsets[chain[0]] or ends[chain[-1]] != max(ends.values()):
        yield f"the peak of {order} does not stand on {chain}"


def _together(lives: Sequence[Life], u: int, v: int) -> bool:
    return lives[u][0] < lives[v][1] and lives[v][0] < lives[u][1]


def stacked(p: SymbolicPlan, env: Mapping[str, int]) -> Iterator[str]:
    """Yield where the code of a plan does not stack buffers by its best order at a binding.

    Its certificate says the worst ratio of the peak to the load, and bounds it.
    """
    lives = [(b.lower, b.upper) for b in p.buffers]
    sizes = [-(-dims.evaluate(b.size, env) // p.alignment) * p.alignment for b in p.buffers]
    at = p.place(env)
    every = [_ends(lives, o.order, sizes) for o in p.orientations]
    peaks = [max(ends.values(), default=0) for ends in every]
    ends = every[at.orientation]
    want = {b.name: ends[i] - sizes[i] for i, b in enumerate(p.buffers)}
    if at.peak != min(peaks) or at.orientation != peaks.index(min(peaks)):
        yield f"peaks are {peaks}, not {at.peak} of order {at.orientation}, {dict(env)}"
    elif dict(at.offsets) != want:
        yield f"offsets are {want}, not {dict(at.offsets)}, {dict(env)}"
    load, c = _load(lives, sizes), p.certificate
    if load and c.proven is not None and at.peak > load * c.proven * (1 + 1e-9):
        yield f"the peak is {at.peak} of {load}, proven to be {c.proven} of it, {dict(env)}"
    if env == c.at and (c.peak, c.lower_bound) != (at.peak, load):
        yield f"the worst is {at.peak} of {load}, not {c.peak} of {c.lower_bound}, {dict(env)}"


def _orders(orders: Sequence[Order], count: int) -> Iterator[str]:
    for o in orders:
        if sorted(o) != [*range(count)]:
            yield f"{o} is no order of {count} buffers"


def _chosen(chosen: Sequence[Order], among: Sequence[Order], k: int, worst: Worst) -> Iterator[str]:
    """Yield where a choice is not the greedy one: by the worst ratio, then by all of them."""
    for n in range(1, len(chosen) + 1):
        best = min(worst([*chosen[: n - 1], o]) for o in among)
        if worst(chosen[:n]) != best:
            yield f"order {n} of {chosen} gives {worst(chosen[:n])}, and another {best}"
        if n > 1 and worst(chosen[: n - 1])[0] <= ENOUGH:
            yield f"{chosen} are chosen, though fewer are enough"
    full = len(chosen) == k or worst(chosen)[0] <= ENOUGH
    if not full and min(worst([*chosen, o]) for o in among) < worst(chosen):
        yield f"{chosen} are chosen of {among}, though one more is better"


def _load(lives: Sequence[Life], sizes: Sizes) -> int:
    pairs = list(zip(lives, sizes, strict=True))
    return max(sum(s for (a, b), s in pairs if a <= t < b) for t, _ in lives)


def _peak(lives: Sequence[Life], order: Order, sizes: Sizes) -> int:
    """Return the longest chain of buffers that are alive together, by their sizes."""
    return max(_ends(lives, order, sizes).values())


def _ends(lives: Sequence[Life], order: Order, sizes: Sizes) -> dict[int, int]:
    ends: dict[int, int] = {}
    for v in order:
        ends[v] = sizes[v] + max((e for u, e in ends.items() if _together(lives, u, v)), default=0)
    return ends
