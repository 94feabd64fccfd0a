"""Merge pointwise kernels of one shape that share operands into kernels of several results."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from operator import itemgetter

from didyma.codegen.decisions import Heard
from didyma.codegen.options import Options
from didyma.codegen.passes import cost
from didyma.codegen.passes.groups import FusionGroup
from didyma.refimpl.ir.types import TensorType

MERGED = "merge kernels of one shape"


def merge(
    groups: Sequence[FusionGroup],
    types: Mapping[str, TensorType],
    options: Options,
    heard: Heard,
) -> list[FusionGroup]:
    """Merge each pointwise group into an earlier one of its shape that shares a value with it.

    Two groups cannot merge if a third lies on a path between them: the merged group and the third
    would depend on each other.
    """
    todo = GroupGraph(types, options)
    for g in groups:
        todo.add(g)
    for i, g in enumerate(groups):
        if g.pointwise:
            todo.settle(i, heard)
    return list(todo.groups.values())


@dataclass
class GroupGraph:
    """Groups by number, and which of them read what others write; groups can be joined."""

    types: Mapping[str, TensorType]
    options: Options
    groups: dict[int, FusionGroup] = field(default_factory=dict[int, FusionGroup])
    writer: dict[str, int] = field(default_factory=dict[str, int])
    readers: dict[str, list[int]] = field(default_factory=dict[str, "list[int]"])
    # The groups that a group reads from, or has symbols from.
    needs: dict[int, set[int]] = field(default_factory=dict[int, "set[int]"])
    users: dict[int, set[int]] = field(default_factory=dict[int, "set[int]"])  # the other way
    binder: dict[str, int] = field(default_factory=dict[str, int])
    # An order in which each group stands behind those that it needs.
    place: dict[int, int] = field(default_factory=dict[int, int])

    def copy(self) -> GroupGraph:
        """Return the same groups, of which joins leave this one as it is."""
        return GroupGraph(
            self.types,
            self.options,
            dict(self.groups),
            dict(self.writer),
            {a: list(r) for a, r in self.readers.items()},
            {i: set(n) for i, n in self.needs.items()},
            {i: set(n) for i, n in self.users.items()},
            dict(self.binder),
            dict(self.place),
        )

    def add(self, g: FusionGroup) -> None:
        """Add the next group, in order."""
        i = len(self.groups)
        self.groups[i], self.users[i], self.place[i] = g, set(), i
        self.writer.update(dict.fromkeys(g.writes, i))
        self.needs[i] = {self.writer[a] for a in g.reads if a in self.writer}
        self.needs[i].update(self.binder[s] for s in g.after)
        for k in self.needs[i]:
            self.users[k].add(i)
        self.binder.update(dict.fromkeys(g.binds, i))
        for a in g.reads:
            self.readers.setdefault(a, []).append(i)

    def settle(self, i: int, heard: Heard) -> None:
        """Merge a group into the first earlier one with which that is possible."""
        g = self.groups[i]
        shape = self.types[g.writes[0]].shape
        for a in g.reads:
            near = [self.writer[a]] if a in self.writer else []
            if self.types[a].shape == shape:
                near += self.readers[a]
            for j in near:
                if j < i and j in self.groups and self.fits(j, i) and not self.between(j, i):
                    heard(MERGED, g.writes[0])
                    self.join(j, i)
                    return

    def fits(self, i: int, j: int) -> bool:
        """Return whether a pointwise group's kernel can be one with that of another group.

        That is by shape, results, cost and reads.

        Group ``i`` may be joined, of groups before ``j``; so nothing in it reads what ``j`` writes.
        """
        a, b = self.groups[i], self.groups[j]
        if not a.pointwise:
            return False
        if self.types[a.writes[0]].shape != self.types[b.writes[0]].shape:
            return False
        if len(a.writes) + len(b.writes) > self.options.graph.outputs:
            return False
        if sum(cost.weight(n) for n in (*a.nodes, *b.nodes)) > self.options.graph.kernel_cost:
            return False
        return b.aligned.issuperset(set(a.writes) & set(b.reads))

    def between(self, i: int, j: int, inside: Collection[int] = ()) -> bool:
        """Return whether a path leads from one group to the other through a third.

        Groups ``inside``, which only read what group ``i`` writes, count as a part of it.
        """
        one = {i, *inside}
        return self._through(one, {j}) or self._through({j}, one)

    def _through(self, sources: Set[int], targets: Set[int]) -> bool:
        first = min(self.place[s] for s in sources)
        todo = list({k for t in targets for k in self.needs[t]} - sources - targets)
        seen = set(todo)
        while todo:
            k = todo.pop()
            if self.place[k] < first:  # and so is all that it needs
                continue
            if not sources.isdisjoint(self.needs[k]):
                return True
            new = self.needs[k] - seen
            seen |= new
            todo += new
        return False

    def _place(self, i: int, j: int) -> None:
        """Put group ``i`` where it may stand joined with ``j``; only groups between these move.

        (Pearce and Kelly, *A dynamic topological sort algorithm*, 2007, move them likewise.)
        """
        place = self.place
        first, last = sorted((i, j), key=place.__getitem__)
        above = self._reached(last, self.needs, range(place[first] + 1, place[last]))
        below = self._reached(first, self.users, range(place[first] + 1, place[last]))
        moved = [*sorted(above, key=place.__getitem__), i, *sorted(below, key=place.__getitem__)]
        free = sorted([place.pop(j), *(place[k] for k in moved)])
        place.update(zip(moved, free, strict=False))  # one place is left

    def _reached(self, start: int, near: Mapping[int, Set[int]], within: range) -> set[int]:
        todo, seen = [start], set[int]()
        while todo:
            new = {k for k in near[todo.pop()] if k not in seen and self.place[k] in within}
            seen |= new
            todo += new
        return seen

    def join(self, i: int, j: int) -> None:
        """Replace groups ``i`` and ``j``, between which there is none, by one group ``i``."""
        self._place(i, j)
        a, b = self.groups[i], self.groups.pop(j)
        nodes = dict(zip(a.at, a.nodes, strict=True)) | dict(zip(b.at, b.nodes, strict=True))
        nodes = dict(sorted(nodes.items(), key=itemgetter(0)))
        writes = {*a.writes, *b.writes}
        defined = [r for n in nodes.values() for r in n.results]
        reads = dict.fromkeys(
            x for n in nodes.values() for x in n.args if x in a.reads or x in b.reads
        )
        for x in defined:
            reads.pop(x, None)
        both = tuple(reads)
        self.groups[i] = FusionGroup(
            tuple(nodes),
            tuple(nodes.values()),
            both,
            tuple(x for x in defined if x in writes),
            pointwise=True,
            after=a.after | b.after,
        )
        self.writer.update(dict.fromkeys(b.writes, i))
        for x in both:
            if i not in self.readers[x]:
                self.readers[x].append(i)
        for near, back in ((self.needs, self.users), (self.users, self.needs)):
            others = near.pop(j)
            for k in others - {i}:
                back[k].discard(j)
                back[k].add(i)
            near[i] = (near[i] | others) - {i, j}
