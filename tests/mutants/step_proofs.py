"""Slips in what schedule steps prove: which accesses depend on one another, and what may change."""

from __future__ import annotations

from tests.mutants.faults import Fault

_LEVELS = ("loop", "schedule", "host")


def _slip(name: str, file: str, old: str, new: str) -> Fault:
    return Fault(name, f"codegen/schedule/steps/{file}", old, new, _LEVELS)


FAULTS: tuple[Fault, ...] = (
    _slip(
        "the iterations of inner loops not compared by reorder", "dependence.py",
        'below: dict[str, Direction] = {x.var.name: "*" for x in a.loops}',
        'below: dict[str, Direction] = {x.var.name: "=" for x in a.loops}',
    ),
    _slip(
        "the iterations that are farthest apart not compared", "dependence.py",
        "further = ix.sub(extent(x, less), ix.ONE)",
        "further = ix.sub(extent(x, less), ix.index(2))",
    ),
    _slip(
        "a difference of 0 taken for none", "dependence.py",
        "return nonnegative_on(plus(p, constant(-1)), self.ranges)",
        "return nonnegative_on(p, self.ranges)",
    ),
    _slip(
        "iterations at once taken apart though an outer one differs", "dependence.py",
        "apart = x.var.name in a.owners or (outer_equal and self._is_at_once(x))",
        "apart = x.var.name in a.owners or self._is_at_once(x)",
    ),
    _slip(
        "threads taken apart in spite of barriers", "dependence.py",
        'if loop.axis.startswith("thread") and self.synchronised:', "if False:",
    ),
    _slip(
        "sums that are read before their end taken to commute", "dependence.py",
        "ops.setdefault(a.buffer, set()).add(a.update)",
        'ops.setdefault(a.buffer, set()).update({a.update} - {""})',
    ),
    _slip(
        "a neighbour's element taken for the one that is updated", "accesses.py",
        "same = mine.buffer == s.buffer and mine.index == s.index",
        "same = mine.buffer == s.buffer",
    ),
    _slip(
        "a term that reads its accumulator taken for one that does not", "accesses.py",
        "or not isinstance(mine, Load) or _reads(term, s.buffer):",
        "or not isinstance(mine, Load):",
    ),
    _slip(
        "an extent that the loop changes, asked for again by split", "split.py",
        "if rest != ix.ZERO and not unchecked and (found := unsteady(scan(f), loop)):",
        "if False:",
    ),
    _slip(
        "an extent that the first loop changes, not asked for by join", "fuse.py",
        "if not unchecked and (found := unsteady(scan(f), first)):", "if False:",
    ),
    _slip(
        "an extent that the loop changes, asked for again by pipeline", "buffers.py",
        "if not unchecked and (found := unsteady(known, loop)):", "if False:",
    ),
    _slip(
        "an extent read from memory, asked for before it is written", "reorder.py",
        "if mentions(x.extent, bound) or _loads(x.extent):", "if mentions(x.extent, bound):",
    ),
    _slip(
        "a sum by parts at a place that changes", "folds.py",
        "or names & inside or read & changed:", "or names & inside:",
    ),
    _slip(
        "a fused loop that is one iteration short", "fuse.py",
        "one = For(var, ix.mul(outer.extent, inner.loop.extent), body, kind)",
        "one = For(var, ix.sub(ix.mul(outer.extent, inner.loop.extent), ix.ONE), body, kind)",
    ),
    _slip(
        "loops joined whose extents differ by one", "fuse.py",
        "if first.extent != second.extent:",
        'sizes = [getattr(x.extent, "value", 0) for x in (first, second)]\n'
        "    if first.extent != second.extent and abs(sizes[0] - sizes[1]) != 1:",
    ),
    _slip("loops of unequal extents joined", "fuse.py",
          "if first.extent != second.extent:", "if False:"),
    _slip(
        "loops joined over what stands between", "fuse.py",
        "return any(a is first and b is second for a, b in zip(s.body, s.body[1:], strict=False))",
        "return any(a is first for a in s.body) and any(b is second for b in s.body)",
    ),
    _slip(
        "a condition between two loops dropped by fuse", "fuse.py",
        "for w in reversed(wrappers):", "for w in reversed(wrappers[1:]):",
    ),
)  # fmt: skip
