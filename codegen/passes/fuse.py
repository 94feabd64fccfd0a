"""Fusion: decide which values are stored, and which are computed in the kernels that use them.

Every value is either *stored* (it is the result of a kernel) or *inlined* in each kernel that uses
it.  A kernel is a stored value with the inlined values below it, down to stored ones, so kernels
depend on each other only through values that precede them and no cycle can arise.  The choice is
made in one walk from the last node to the first, when all readers of a value are decided; then
``merge`` joins kernels into ones with several outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from didyma.codegen.decisions import Heard, unheard
from didyma.codegen.options import DEFAULT, Options
from didyma.codegen.passes import (
    attention,
    channels,
    converted,
    cost,
    parts,
    rows,
    sweep,
    weighted,
)
from didyma.codegen.passes.groups import FusionGroup, emit
from didyma.codegen.passes.merge import merge
from didyma.codegen.passes.rounding import is_rounded
from didyma.codegen.passes.values import kind
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.graph import CALL, CONTROL, TO, Attr, Function, Module, Node
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Kind, Work

TURNED = frozenset({"conv", "max_pool", "avg_pool"})  # folds that may be stored in another order
RUNS = (CALL, TO, *CONTROL)  # nodes that take buffers, and run apart
DECISIONS = COSTLY, FOLD, AGAIN, IN_PLACE, PRODUCT, VIEW, UNMOVED = (
    "store what costs too much",
    "compute on with the result of a fold",
    "compute again in each reader",
    "compute in the kernel of a reader",
    "compute at each read of a product",
    "show a reshape as a view",
    "store the result of a fold before it is moved",
)


def fuse(
    m: Module, options: Options = DEFAULT, heard: Heard = unheard, apart: Heard = unheard
) -> Module:
    """Partition the entry, and the functions that control nodes run, into Primitive functions.

    * A kernel has at most one reduction or opaque op; kernels that reduce the same rows are then
      joined, unless ``graph.rows`` is false.  What it reads is computed in place
      (for a matmul, convolution, pool or running sum only light movement, since those read an
      element many times); elementwise ops of its shape follow it, but not a scatter, whose
      result is not final until every update is done.
    * A reduction is never computed twice; a pointwise value is where that costs less than
      ``again_cost``, and where its reader repeats it, less than ``spread_cost``.
    * A reshape of a stored value is a view.

    ``apart`` is called with why a value stays apart that looks like an attention.
    """
    m = channels.channels_last(m, options.device, heard) if options.graph.channels else m
    m = parts.in_parts(m, options.device, options.graph.parts, heard)
    m = converted.in_memory(m, options.device, options.graph.converted, heard)
    ranges = m.ranges()

    def groups(f: Function, mentioned: Mapping[str, frozenset[str]]) -> list[FusionGroup]:
        picked = frozenset(rows.picks(f)) if options.graph.rows else frozenset[str]()
        notes = list[tuple[str, str]]()
        reasons = dict[str, str]()

        def note(decision: str, value: str) -> None:
            notes.append((decision, value))

        def left(reason: str, value: str) -> None:
            reasons[value] = reason

        found = _fused(f, mentioned, ranges, options, picked, note, left)
        while alone := picked - rows.joined(found):
            picked -= alone
            notes.clear()
            reasons.clear()
            found = _fused(f, mentioned, ranges, options, picked, note, left)
        for decision, value in notes:
            heard(decision, value)
        joined = {r for g in found if g.stages for n in g.nodes for r in n.results}
        for value, reason in reasons.items():
            if value not in joined:
                apart(reason, value)
        return found

    return emit(m, groups, heard)


def _fused(
    f: Function,
    mentioned: Mapping[str, frozenset[str]],
    ranges: dims.Ranges,
    options: Options,
    picked: frozenset[str],
    heard: Heard,
    apart: Heard,
) -> list[FusionGroup]:
    """Return the groups of a function, where values ``picked`` from rows are stored."""
    partition = _Partition.of(f, mentioned, options, heard, picked)
    partition.estimate()
    partition.decide()
    merged = merge(partition.groups(), partition.types, options, heard)
    if not options.graph.rows:
        return merged
    wanted, types = partition.results, partition.types
    joined = rows.join(merged, wanted, types, ranges, options, heard, waits=True)
    swept = sweep.join(joined, wanted, types, ranges, options, heard)
    swept = rows.join(swept, wanted, types, ranges, options, heard)
    if not options.graph.attention:
        return swept
    families = {*options.device.families}
    products = "mma" in families  # else sums would compute weights, or logarithms, in vain
    taken = products and not options.kernels.codegens  # which may take what ours do not
    if not products:
        return attention.join(swept, wanted, types, heard, apart)
    reasons = dict[str, str]()

    def hear(reason: str, value: str) -> None:
        reasons[value] = reason

    attended = attention.join(
        swept, wanted, types, heard, hear, logs=True, tensor_cores=taken,
        summed=partial(weighted.serving, swept, wanted, types),
    )  # fmt: skip
    made = weighted.join(attended, wanted, types, heard, pairs=families >= {"tma", "wgmma"})
    within = {r for g in made if g.stages for n in g.nodes for r in n.results}
    for value, reason in reasons.items():
        if value not in within:  # not joined as another sum
            apart(reason, value)
    return made


def separate(m: Module) -> Module:
    """Make a Primitive function of every node; only scalar constants are repeated."""

    def groups(f: Function, mentioned: Mapping[str, frozenset[str]]) -> list[FusionGroup]:
        partition = _Partition.of(f, mentioned, Options(), unheard, frozenset())
        partition.stored = {i for i, n in enumerate(partition.nodes) if n.op != "constant"}
        partition.decide()
        return partition.groups()

    return emit(m, groups)


@dataclass
class _Partition:
    """A partition under construction; nodes are given by their position, and none is dead."""

    results: frozenset[str]
    mentioned: Mapping[str, frozenset[str]]  # symbols by function
    nodes: tuple[Node, ...]
    kinds: list[Kind]
    types: dict[str, TensorType]
    at: dict[str, int]  # the node that defines a value
    readers: dict[str, list[tuple[int, int]]]  # value -> (node, operand)
    options: Options
    heard: Heard
    picked: frozenset[str]
    stored: set[int] = field(default_factory=set[int])
    roots: dict[int, frozenset[int]] = field(default_factory=dict[int, "frozenset[int]"])
    aligned: dict[int, frozenset[int]] = field(default_factory=dict[int, "frozenset[int]"])
    turned: dict[int, Mapping[int, Attr | None]] = field(
        default_factory=dict[int, "Mapping[int, Attr | None]"]
    )  # the order in which a root reads a value's axes
    fold: dict[int, int] = field(default_factory=dict[int, int])  # root -> its one fold
    moved: set[int] = field(default_factory=set[int])  # roots that are to have a fold that is moved
    repeat: dict[int, int] = field(default_factory=dict[int, int])  # cost of a value inlined
    apart: dict[int, int] = field(default_factory=dict[int, int])  # of which at other indices
    turns: dict[int, bool] = field(default_factory=dict[int, bool])  # of ``find_turns``
    bound: frozenset[str] = field(init=False)  # symbols that nodes of this function bind
    operands: converted.Operands = field(init=False)

    def __post_init__(self) -> None:
        work = self.options.graph.converted
        self.operands = converted.Operands(self.types, self.source, self.reading, work)
        self.bound = frozenset(s for n in self.nodes for s in control.binds(n))

    @staticmethod
    def of(
        f: Function,
        mentioned: Mapping[str, frozenset[str]],
        options: Options,
        heard: Heard,
        picked: frozenset[str],
    ) -> _Partition:
        readers: dict[str, list[tuple[int, int]]] = {}
        for i, n in enumerate(f.nodes):
            for pos, a in enumerate(n.args):
                readers.setdefault(a, []).append((i, pos))
        at = {r: i for i, n in enumerate(f.nodes) for r in n.results}
        return _Partition(
            frozenset(f.results),
            mentioned,
            f.nodes,
            [kind(n) for n in f.nodes],
            f.types(),
            at,
            readers,
            options,
            heard,
            picked,
        )

    def folds(self, i: int) -> bool:
        return self.kinds[i] in (Kind.REDUCTION, Kind.OPAQUE)

    def same_index(self, i: int, pos: int) -> bool:
        """Return whether node ``i`` reads an operand only at the index of its own element."""
        n = self.nodes[i]
        same = self.types[n.args[pos]].shape == n.types[0].shape
        return same and self.kinds[i] == Kind.ELEMENTWISE

    def estimate(self) -> None:
        """Find, from first to last, what must be stored, and the cost of inlining each other value.

        An operand that is read at another index counts again, since a kernel computes it again.
        Where the cost exceeds ``kernel_cost``, the most expensive operands are stored.
        """
        dear = {Work.LOOKUP: 0, Work.SLOW: 0}  # bits of the nodes of such work
        here: dict[int, int] = {}  # bits of the nodes computed at the value's own index
        for i, n in enumerate(self.nodes):
            here[i] = self.apart[i] = self.repeat[i] = 0
            self.find_turns(i)
            if self.must_store(i):
                self.stored.add(i)
            if self.folds(i) or n.op == "constant" or self.repeats_constant(i):
                continue
            work = OPS[n.op].work
            if work in dear:
                dear[work] |= 1 << i
            while True:
                bits, apart = self.below(i, here)
                extra = sum((cost.COST[w] - 1) * (bits & d).bit_count() for w, d in dear.items())
                total = bits.bit_count() + extra + apart
                parts = {self.at[a] for a in n.args if a in self.at} - self.stored
                dearest = max(parts, key=lambda j: (self.repeat[j], j), default=-1)
                if (
                    total <= self.options.graph.kernel_cost
                    or dearest < 0
                    or not self.repeat[dearest]
                ):
                    break
                self.stored.add(dearest)
                self.heard(COSTLY, self.nodes[dearest].results[0])
            if i not in self.stored:
                here[i], self.apart[i], self.repeat[i] = bits, apart, total

    def below(self, i: int, here: Mapping[int, int]) -> tuple[int, int]:
        """Return the nodes computed at the index of node ``i``, as bits, and the rest's cost."""
        bits, apart = 1 << i, 0
        for pos, a in enumerate(self.nodes[i].args):
            j = self.at.get(a, -1)
            if j < 0 or j in self.stored:
                continue
            if self.same_index(i, pos):
                bits |= here[j]
                apart += self.apart[j]
            else:
                apart += self.repeat[j]
        return bits, apart

    def must_store(self, i: int) -> bool:
        """Return whether a node is stored whatever reads it: a result, a call, a view."""
        n = self.nodes[i]
        if n.op == "constant":
            return False
        if n.op in RUNS or not self.results.isdisjoint(n.results) or self.picks(i):
            return True
        if n.op == "cast":
            return converted.suits(self.options.device) and self.operands.is_stored(n)
        if n.op in ("permute_dims", "pad"):
            return channels.is_copy(n, self.reading(n.results[0]))
        if self.kinds[i] != Kind.RESHAPE:
            return False
        of = self.at.get(n.args[0], -1)
        return of < 0 or of in self.stored or self.folds(of) or self.is_weight(of)

    def reading(self, value: str) -> list[Node]:
        """Return the nodes that read a value."""
        return [self.nodes[j] for j, _ in self.readers.get(value, ())]

    def picks(self, i: int) -> bool:
        """Return whether a node picks one element of each row in a kernel of joined rows.

        It is stored, so that its operand, which has whole rows, need not be.
        """
        return not self.picked.isdisjoint(self.nodes[i].results)

    def is_weight(self, i: int) -> bool:
        """Return whether a node is a constant with axes, which kernels take as an operand."""
        return self.nodes[i].op == "constant" and self.nodes[i].types[0].rank > 0

    def repeats_constant(self, i: int) -> bool:
        """Return whether a node repeats a scalar constant, which is free to compute again."""
        n = self.nodes[i]
        of = self.at.get(n.args[0], -1) if n.op == "broadcast_to" else -1
        return of >= 0 and self.nodes[of].op == "constant" and not self.is_weight(of)

    def decide(self) -> None:
        """Decide, from last to first, whether each value is stored or inlined in its readers."""
        for i in reversed(range(len(self.nodes))):
            n = self.nodes[i]
            readers = [x for r in n.results for x in self.readers.get(r, ())]
            roots = frozenset[int]().union(*(self.roots[j] for j, _ in readers))
            if n.op == "constant":
                self.roots[i] = roots
                continue
            if i not in self.stored and not self.may_inline(i, readers, roots):
                self.store(i, readers, roots)
            if i in self.stored:
                self.roots[i] = self.aligned[i] = frozenset((i,))
                self.turned[i] = {}
                if self.folds(i):
                    self.fold[i] = i
                continue
            self.roots[i] = roots
            self.aligned[i] = frozenset(r for r in roots if self.reads_aligned(readers, r))
            self.turned[i] = {r: self.order(readers, r) for r in roots}
            if self.folds(i):
                (root,) = roots
                self.fold[root] = i
                self.heard(FOLD, n.results[0])
            else:
                self.moved.update(roots if self.moves_fold(i) else ())
                self.heard(AGAIN if len(roots) > 1 else IN_PLACE, n.results[0])

    def reads_aligned(self, readers: list[tuple[int, int]], root: int) -> bool:
        """Return whether a kernel reads a value only at the index of its own element."""
        return all(
            self.same_index(j, pos) and root in self.aligned[j]
            for j, pos in readers
            if root in self.roots[j]
        )

    def find_turns(self, i: int) -> None:
        """Note of a fold, and of what can be in its kernel, whether the kernel can still turn it.

        That is, store it with its axes in another order, as kernels of windows do once.
        """
        n = self.nodes[i]
        before = [self.at.get(a, -1) for a in n.args]
        if self.folds(i):
            self.turns[i] = n.op in TURNED
        elif n.op == "permute_dims" and self.turns.get(before[0]):
            self.turns[i] = False
        elif found := [
            self.turns[j]
            for pos, j in enumerate(before)
            if j in self.turns and self.same_index(i, pos)
        ]:
            self.turns[i] = all(found)

    def store(self, i: int, readers: list[tuple[int, int]], roots: frozenset[int]) -> None:
        """Store a node, or in its place what a fold's kernel can compute and the node only moves.

        Reshapes of that are views, and a permutation is left to the readers, if these may read so.
        """
        turns, views, j = self.nodes[i].op == "permute_dims", set[int](), i
        if turns:
            j = self.at.get(self.nodes[i].args[0], -1)
        while j >= 0 and self.kinds[j] == Kind.RESHAPE:
            views.add(j)
            j = self.at.get(self.nodes[j].args[0], -1)
        cost = self.repeat[i]
        if j != i and j in self.turns and j not in self.stored:
            self.repeat[i] = 1
            if not turns or self.may_inline(i, readers, roots):
                self.stored |= {j, *views}
                self.heard(UNMOVED, self.nodes[j].results[0])
                return
        self.repeat[i] = cost
        self.stored.add(i)

    def order(self, readers: list[tuple[int, int]], root: int) -> Attr | None:
        """Return the order of a value's axes in which a kernel reads it at the stored index.

        One permutation stands between the value and what is stored; before and after it may stand
        elementwise ops.  None if the kernel reads it otherwise.
        """

        def one(j: int, pos: int) -> Attr | None:
            n = self.nodes[j]
            if n.op == "permute_dims":
                return n.attr["axes"] if root in self.aligned[j] else None
            return self.turned[j].get(root) if self.same_index(j, pos) else None

        found = {one(j, pos) for j, pos in readers if root in self.roots[j]}
        return found.pop() if len(found) == 1 else None

    def may_inline(self, i: int, readers: list[tuple[int, int]], roots: frozenset[int]) -> bool:
        if any(self.needs_stored(j) for j, _ in readers):
            return False
        if self.folds(i):
            if len(roots) > 1 or self.nodes[i].op == "scatter":
                return False
            (root,) = roots
            turned = self.nodes[i].op in TURNED and self.order(readers, root) is not None
            return root not in self.fold and (turned or self.reads_aligned(readers, root))
        if self.moves_fold(i) and (len(roots) > 1 or roots & {*self.fold, *self.moved}):
            return False
        if all(self.rounds(i, j) for j, _ in readers):
            return True
        repeat = self.repeat[i]
        if (len(roots) - 1) * repeat > self.options.graph.again_cost:
            return False
        return all(self.bears(i, j, pos) for j, pos in readers)

    def moves_fold(self, i: int) -> bool:
        """Return whether a permutation alone reads what the kernel of a fold can store moved."""
        n = self.nodes[i]
        j = self.at.get(n.args[0], -1) if n.op == "permute_dims" else -1
        return j not in self.stored and bool(self.turns.get(j)) and len(self.readers[n.args[0]]) < 2

    def rounds(self, i: int, j: int) -> bool:
        """Return whether tensor cores multiply, in node ``j``, what node ``i`` rounds to tf32."""
        reader = self.nodes[j]
        if reader.op != "matmul" or "mma" not in self.options.device.families:
            return False
        return all(is_rounded(a, self.source) for a in reader.args)

    def source(self, value: str) -> Node | None:
        """Return the node that defines a value; None for a parameter."""
        return self.nodes[self.at[value]] if value in self.at else None

    def needs_stored(self, j: int) -> bool:
        """Return whether a node reads its operands from memory: a call, or a stored reshape."""
        return self.nodes[j].op in RUNS or (self.kinds[j] == Kind.RESHAPE and j in self.stored)

    def bears(self, i: int, j: int, pos: int) -> bool:
        """Return whether reader ``j`` may compute value ``i`` anew at each read."""
        reader, repeat = self.nodes[j], self.repeat[i]
        if OPS[reader.op].rereads:
            again = OPS[self.nodes[i].op].nearby and repeat <= self.options.graph.product_cost
            if again:
                self.heard(PRODUCT, self.nodes[i].results[0])
            return again
        operand = self.types[reader.args[pos]]
        spread = (cost.spreads(reader, operand) and not self.picks(j)) or (
            self.kinds[j] == Kind.ELEMENTWISE and operand.shape != reader.types[0].shape
        )
        return not spread or repeat <= self.options.graph.spread_cost

    def groups(self) -> list[FusionGroup]:
        """Return kernels, views and calls, in the order of the nodes that they store."""
        inside: dict[int, list[int]] = {i: [] for i in sorted(self.stored)}
        for i, roots in sorted(self.roots.items()):
            for r in roots:
                inside[r].append(i)
        return [self.group(root, members) for root, members in inside.items()]

    def group(self, root: int, members: list[int]) -> FusionGroup:
        n = self.nodes[root]
        if n.op in RUNS:
            known = self.symbols(n).difference(control.binds(n))
            binds = frozenset(control.binds(n))
            return FusionGroup(
                (root,), (n,), n.args, n.results, call=True, after=known, binds=binds
            )
        if self.kinds[root] == Kind.RESHAPE:
            self.heard(VIEW, n.results[0])
            known = self.symbols(n)
            return FusionGroup((root,), (n,), n.args, n.results, view=True, after=known)
        members = [i for i in members if not self.is_weight(i)]
        defined = {r for i in members for r in self.nodes[i].results}
        read = dict.fromkeys(a for i in members for a in self.nodes[i].args if a not in defined)
        aligned = frozenset(a for a in read if self.only_aligned(a, root))
        return FusionGroup(
            tuple(members),
            tuple(self.nodes[i] for i in members),
            tuple(read),
            n.results,
            pointwise=root not in self.fold,
            aligned=aligned,
            after=frozenset[str]().union(*(self.symbols(self.nodes[i]) for i in members)),
        )

    def symbols(self, n: Node) -> frozenset[str]:
        """Return the symbols bound in this function that must be bound before a node runs."""
        if not self.bound:
            return frozenset()
        found = control.symbols(n).union(*(self.mentioned[r] for r in control.references(n)))
        return found & self.bound

    def only_aligned(self, value: str, root: int) -> bool:
        return self.reads_aligned(self.readers[value], root)
