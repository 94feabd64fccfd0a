"""Choose a few orders whose least peak is near the lower bound at every sample binding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from didyma.codegen.memory.symbolic.stack import BufferSizes, Order, Stack

ENOUGH = 1.0005  # a ratio not worth improving
PATIENCE = 400  # moves without gain before a small loss is let pass
LOSS = 0.004


@dataclass
class OrderSearch:
    """Orders and their ratios (peak to greatest load) at sample bindings."""

    stack: Stack
    samples: list[BufferSizes]
    random: Random = field(default_factory=lambda: Random(0))
    loads: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.loads = [max(self.stack.load(s), default=0) for s in self.samples]

    def add(self, sizes: BufferSizes) -> None:
        """Take one more sample."""
        self.samples.append(sizes)
        self.loads.append(max(self.stack.load(sizes), default=0))

    def ratio(self, order: Order, m: int, limit: float = float("inf")) -> float:
        """Peak to load at a sample; a number above the limit, if it is above."""
        load = self.loads[m]
        return self.stack.peak(order, self.samples[m], limit * load) / load if load else 1.0

    def ratios(self, order: Order) -> list[float]:
        """Ratios at all samples."""
        return [self.ratio(order, m) for m in range(len(self.samples))]

    def seeds(self, hints: Sequence[int]) -> list[Order]:
        """Orders of static placements at the hinted samples."""
        found: dict[Order, None] = {}
        for m in hints:
            for turns in self.stack.turns(self.samples[m]):
                for best in (True, False):
                    found[self.stack.fit(turns, self.samples[m], best=best)] = None
        return list(found)

    def choose(self, candidates: Sequence[Order], k: int) -> list[Order]:
        """Up to ``k`` of them, greedily: least worst ratio, then least sum of squares."""
        rows = [self.ratios(c) for c in candidates]
        now = [float("inf")] * len(self.samples)
        chosen: list[Order] = []
        for _ in range(k):

            def after(i: int, now: list[float] = now) -> tuple[float, float]:
                least = [min(a, b) for a, b in zip(now, rows[i], strict=True)]
                return max(least), sum((x - 1) ** 2 for x in least)

            best = min(range(len(rows)), key=after)
            if chosen and after(best) >= (max(now), sum((x - 1) ** 2 for x in now)):
                break
            now = [min(a, b) for a, b in zip(now, rows[best], strict=True)]
            chosen.append(candidates[best])
            if max(now) <= ENOUGH:
                break
        return chosen

    def improved(
        self, orders: Sequence[Order], k: int, spare: Sequence[Order], *, rounds: int, moves: int
    ) -> list[Order]:
        """Change orders, or add up to ``k``, so that the worst sample gets better.

        Each round changes one order, the orders taking turns, so that it serves the worst sample
        and those that no other order serves.  The change may begin with a ``spare`` order instead.
        """
        orders = list(orders)
        rows = [self.ratios(o) for o in orders]
        failures = 0
        for _ in range(rounds):
            least = [min(c) for c in zip(*rows, strict=True)]
            worst = max(range(len(least)), key=least.__getitem__)
            if least[worst] <= ENOUGH or failures > 2 * k:
                break
            goal = 1 + (least[worst] - 1) * (0.97 if failures < k else 0.995)
            turn = sorted(range(k), key=lambda i: rows[i][worst] if i < len(rows) else 0.0)
            i = turn[failures % k]
            others = [r for j, r in enumerate(rows) if j != i]
            need = [m for m in range(len(least)) if m == worst or all(r[m] > goal for r in others)]
            starts = [orders[i]] if i < len(orders) else [orders[turn[-1]]]
            if failures >= len(orders) and spare:
                starts.append(self._nearest(spare, need))
            got = min((self.climb(s, need, goal, moves) for s in starts), key=_first)
            before = max(rows[i][m] for m in need) if i < len(rows) else float("inf")
            if got[0] < before:
                orders[i : i + 1], rows[i : i + 1] = [got[1]], [self.ratios(got[1])]
            failures = 0 if got[0] <= goal else failures + 1
        return orders

    def _nearest(self, orders: Sequence[Order], need: Sequence[int]) -> Order:
        worst = [max(self.ratio(o, m) for m in need) for o in orders]
        return orders[worst.index(min(worst))]

    def climb(
        self, order: Order, need: Sequence[int], goal: float, moves: int
    ) -> tuple[float, Order]:
        """Move buffers of the chain that makes the worst peak, until the goal is met at ``need``.

        Reversing an arc of a longest path is the classic move of job-shop search.
        """
        now, worst = max((self.ratio(order, m), m) for m in need)
        best = (now, order)
        chain = self.stack.chain(order, self.samples[worst], self.random)
        stale = 0
        for _ in range(moves):
            if best[0] <= goal:
                break
            limit = now if stale < PATIENCE else now * (1 + LOSS)
            moved = self._move(order, chain)
            reached = self._worst(moved, [worst, *(m for m in need if m != worst)], limit)
            stale += 1
            if reached is None:
                continue
            if reached[0] < now or stale > PATIENCE:
                stale = 0
            order, (now, worst) = moved, reached
            chain = self.stack.chain(order, self.samples[worst], self.random)
            best = min(best, (now, order), key=_first)
        return best

    def _worst(self, order: Order, need: Sequence[int], limit: float) -> tuple[float, int] | None:
        worst = (0.0, need[0])
        for m in need:
            r = self.ratio(order, m, limit)
            if r > limit:
                return None
            worst = max(worst, (r, m))
        return worst

    def _move(self, order: Order, chain: Sequence[int]) -> Order:
        out, rnd = list(order), self.random
        kind = rnd.random()
        if kind < 0.5 and len(chain) > 1:
            at = rnd.randrange(len(chain) - 1)
            below, above = chain[at], chain[at + 1]
            if rnd.random() < 0.5:
                out.remove(above)
                out.insert(out.index(below), above)
            else:
                out.remove(below)
                out.insert(out.index(above) + 1, below)
        elif kind < 0.8:
            v = rnd.choice(chain)
            out.remove(v)
            out.insert(rnd.randrange(len(order)), v)
        else:
            a, b = out.index(rnd.choice(chain)), rnd.randrange(len(out))
            out[a], out[b] = out[b], out[a]
        return tuple(out)


def _first(pair: tuple[float, Order]) -> float:
    return pair[0]
