"""Join two products with a softmax between them into one function, of which each is a stage.

``softmax(q @ k + mask) @ v`` is three kernels, of which the first two store a number for every pair
of a query and a key.  As one function it is the same three kernels, or one kernel that stores none
of these: a template takes the keys in tiles.  (T. Dao et al., *FlashAttention*, 2022.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from didyma.codegen.decisions import Heard
from didyma.codegen.passes.cost import weight
from didyma.codegen.passes.groups import FusionGroup
from didyma.codegen.passes.values import kind
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import DType, Tensor, TensorType
from didyma.refimpl.ops.spec import Kind

MOVES = ("broadcast_to", "permute_dims", "reshape")
PIECE, LONGEST = 8, 256  # templates of tensor cores take so many terms and features, or multiples
NARROW = (DType.F16, DType.BF16)  # dtypes of operands, likewise
FEW = 16  # terms and features of which products have no faster templates of their own
ATTENTION = "join two products and the softmax between them"


@dataclass(frozen=True, slots=True)
class Attention:
    """The nodes of an attention: both products, and the operand of the softmax.

    ``top`` and ``total`` are the largest score of a row, and its sum of exponentials.
    """

    scores: Node
    score: str
    output: Node
    top: str
    total: str


def attention(
    defs: Mapping[str, Node], types: Mapping[str, TensorType], output: Node
) -> Attention | None:
    """Return the attention whose second product is a node; None if it is of none.

    The left operand must be a softmax along its last axis, of what elementwise ops make of the
    elements of one other product of this shape.  ``defs`` are the nodes by their results.
    """

    def source(name: str, op: str) -> Node | None:
        n = defs.get(name)
        return n if n is not None and n.op == op else None

    if output.op != "matmul":
        return None
    weights = output.args[0]
    while (cast := source(weights, "cast")) is not None:
        weights = cast.args[0]
    powers, divisor = _quotient(defs, weights)
    power, total = source(powers, "exp"), source(divisor, "sum")
    shifted = None if power is None else source(power.args[0], "subtract")
    if total is None or shifted is None:
        return None
    score, top = shifted.args[0], source(shifted.args[1], "max")
    last = (("axes", (types[score].rank - 1,)), ("keepdims", True))
    if top is None or (total.args, top.args) != ((powers,), (score,)):
        return None
    if {top.attrs, total.attrs} != {last}:
        return None
    found = {n.results: n for n in products(defs, types, score)}
    if len(found) != 1 or types[output.results[0]].shape[:-1] != types[score].shape[:-1]:
        return None
    (scores,) = found.values()
    made = Attention(scores, score, output, top.results[0], total.results[0])
    return made if _is_elementwise(made, defs, types) else None


def _quotient(defs: Mapping[str, Node], name: str) -> tuple[str, str]:
    """Return what a value is the quotient of, or the product with an inverse; "" for neither."""
    n = defs.get(name)
    if n is not None and n.op == "divide":
        return n.args[0], n.args[1]
    for by, other in (n.args, n.args[::-1]) if n is not None and n.op == "multiply" else ():
        if divisor := _inverse_of(defs, other):
            return by, divisor
    return "", ""


def _inverse_of(defs: Mapping[str, Node], name: str) -> str:
    """Return the value of which another is the inverse; "" if it is of none."""
    n = defs.get(name)
    if n is not None and n.op == "reciprocal":
        return n.args[0]
    one = defs.get(n.args[0]) if n is not None and n.op == "divide" else None
    if n is None or one is None or one.op != "constant":
        return ""
    value = one.attr["value"]
    return n.args[1] if isinstance(value, Tensor) and (value.array() == 1).all() else ""


def is_logsumexp(defs: Mapping[str, Node], a: Attention, name: str) -> bool:
    """Return whether a value is the logarithm of the sum of each row's exponentials."""
    n = defs.get(name)
    if n is None or n.op != "add" or n.args[1] != a.top:
        return False
    log = defs.get(n.args[0])
    return log is not None and log.op == "log" and log.args == (a.total,)


def products(
    defs: Mapping[str, Node], types: Mapping[str, TensorType], value: str
) -> Iterator[Node]:
    """Yield the products that a value is computed of, by elementwise ops of one shape alone."""
    todo, seen = [value], set[str]()
    while todo:
        n = defs.get(name := todo.pop())
        if n is None or name in seen or types[name].shape != types[value].shape:
            continue
        seen.add(name)
        if n.op == "matmul":
            yield n
        elif kind(n) is Kind.ELEMENTWISE:
            todo += n.args


def suits_tensor_cores(
    defs: Mapping[str, Node], types: Mapping[str, TensorType], products: Sequence[Node], sum: Node
) -> bool:
    """Return whether a template of tensor cores takes a sum with the products of its weights.

    Joined, others would only lose the templates that each product has: those of f32, or of heads
    of 81 features.  Products of at most ``FEW`` terms and features have none to lose.
    """
    ends = [types[n.args[0]].shape[-1] for n in products] + [types[sum.results[0]].shape[-1]]
    read = [*(a for n in products for a in n.args), sum.args[1]]
    if all(isinstance(d, int) and d <= FEW for d in ends):
        return True
    return all(map(is_side, ends)) and all(_is_narrow(defs, types, a) for a in read)


def is_side(d: Dim) -> bool:
    """Return whether templates of tensor cores take products of so many terms or features.

    >>> [is_side(n) for n in (8, 80, 81, 256, 264)]
    [True, True, False, True, False]
    """
    return isinstance(d, int) and 0 < d <= LONGEST and d % PIECE == 0


def _is_narrow(defs: Mapping[str, Node], types: Mapping[str, TensorType], name: str) -> bool:
    """Return whether a value is of a narrow dtype, or was before it was converted and moved."""
    while types[name].dtype not in NARROW:
        n = defs.get(name)
        if n is None or n.op not in ("cast", *MOVES):
            return False
        name = n.args[0]
    return True


def _is_elementwise(
    a: Attention, defs: Mapping[str, Node], types: Mapping[str, TensorType]
) -> bool:
    """Return whether the operand of the softmax depends on each score at its own place alone."""
    shape = types[a.score].shape
    for name in dependent(defs, a.score, a.scores.results[0]) - {*a.scores.results}:
        if types[name].shape != shape or kind(defs[name]) is not Kind.ELEMENTWISE:
            return False
    return True


def dependent(defs: Mapping[str, Node], value: str, on: str) -> set[str]:
    """Return the values that a value is computed of, itself included, that depend on another."""
    found, done, todo = {on}, {on}, [value]
    while todo:
        n = defs.get(name := todo[-1])
        if new := [a for a in n.args if a not in done] if n is not None else []:
            todo += new  # a value comes behind what it needs
            continue
        todo.pop()
        done.add(name)
        if n is not None and not found.isdisjoint(n.args):
            found.add(name)
    return found


def join(
    groups: Sequence[FusionGroup],
    results: frozenset[str],
    types: Mapping[str, TensorType],
    heard: Heard,
    *,
    logs: bool = False,
    tensor_cores: bool = False,
) -> list[FusionGroup]:
    """Join the groups that compute an attention; ``results`` are values that are stored anyhow.

    What they store on the way must be read by them alone.  Kernels that only move elements of an
    operand, such as copies of heads, join them, and cheap ones of indices alone, such as how far a
    key is from a query.  With ``logs``, the logarithm of the sums of exponentials is a result, too;
    with ``tensor_cores`` only what their templates take is joined.
    """
    defs = {r: n for g in groups for n in g.nodes for r in n.results}
    readers: dict[str, set[int]] = {}
    for i, g in enumerate(groups):
        for a in g.reads:
            readers.setdefault(a, set()).add(i)
    made = [*groups]
    for i, g in enumerate(groups):
        for n in g.nodes:
            found = None if g.call or g.view else attention(defs, types, n)
            if found is None:
                continue
            if tensor_cores and not suits_tensor_cores(defs, types, [found.scores], found.output):
                continue
            between = dependent(defs, found.output.args[0], found.scores.results[0])
            inner = {j for j, h in enumerate(groups) if not between.isdisjoint(h.writes)}
            log = _logarithm(groups, defs, found) if logs else {}
            inner |= {*log.values()}
            every, lines = {*inner, i}, (found.top, found.total)
            one_each = all(len({*groups[j].writes} - {*log, *lines}) <= 1 for j in inner)
            back = any(_leads_back(groups, lse, every, readers) for lse in log)
            if one_each and not back and _closed(groups, every, inner, readers, results, log):
                heard(ATTENTION, g.writes[0])
                turned = _turned(groups, i, readers, results)
                if turned is not None:
                    inner.add(i)
                order = sorted(inner, key=lambda j: groups[j].at[-1])
                last = i if turned is None else turned
                moves = moved(groups, {*inner, last}, readers, results)
                moves |= counted(groups, {*inner, last}, readers, results)
                whole = [[groups[j] for j in part] for part in (order, moves)]
                made[last] = joined(whole[0], groups[last], whole[1], [*log], lines)
                for j in {*inner, *moves}:
                    made[j] = made[last]
                break
    return list({g.at: g for g in made}.values())


def _closed(
    groups: Sequence[FusionGroup],
    every: set[int],
    inner: set[int],
    readers: Mapping[str, set[int]],
    results: frozenset[str],
    logs: Collection[str],
) -> bool:
    """Return whether each inner group is a kernel that stores for these alone, but for ``logs``."""
    for j in inner:
        g = groups[j]
        if g.call or g.view or g.binds or g.stages:
            return False
        inside = {*g.writes} - {*logs}
        if any(w in results or not readers.get(w, set()) <= every for w in inside):
            return False
    return True


def _logarithm(
    groups: Sequence[FusionGroup], defs: Mapping[str, Node], a: Attention
) -> dict[str, int]:
    """Return the logarithm of the sums of exponentials with the group that stores it, if any."""
    for i, g in enumerate(groups):
        found = [w for w in g.writes if is_logsumexp(defs, a, w)]
        if found:
            return {found[0]: i}
    return {}


def _leads_back(
    groups: Sequence[FusionGroup], value: str, to: set[int], readers: Mapping[str, set[int]]
) -> bool:
    """Return whether groups outside of some others compute of a value what those read."""
    todo = seen = readers.get(value, set()) - to
    while todo:
        new = {i for j in todo for w in groups[j].writes for i in readers.get(w, set())}
        if not to.isdisjoint(new):
            return True
        todo = new - seen
        seen = seen | new
    return False


def moved(
    groups: Sequence[FusionGroup],
    every: set[int],
    readers: Mapping[str, set[int]],
    results: frozenset[str],
) -> set[int]:
    """Return the groups that move elements of operands for these groups alone, and copy some."""
    writer = {w: i for i, g in enumerate(groups) for w in g.writes}
    found = set[int]()
    for read in {a for i in every for a in groups[i].reads}:
        path = list[int]()
        name = read
        while (i := writer.get(name)) is not None and i not in every:
            g, users = groups[i], {*path[-1:]} or every
            if not _moves(g) or name in results or not readers.get(name, set()) <= users:
                break
            path.append(i)
            (name,) = g.reads
        while path and groups[path[-1]].view:
            path.pop()
        found |= {*path}
    return found


def counted(
    groups: Sequence[FusionGroup],
    every: set[int],
    readers: Mapping[str, set[int]],
    results: frozenset[str],
) -> set[int]:
    """Return the groups that compute a value of its indices alone, cheaply, for these groups."""
    return {
        i
        for i, g in enumerate(groups)
        if not (g.reads or g.call or g.view or g.binds or g.stages) and len(g.writes) == 1
        if g.writes[0] not in results and readers.get(g.writes[0], set()) <= every
        if all(weight(n) <= 1 and kind(n) is not Kind.REDUCTION for n in g.nodes)
    }


def _turned(
    groups: Sequence[FusionGroup],
    i: int,
    readers: Mapping[str, set[int]],
    results: frozenset[str],
) -> int | None:
    """Return the one group that reads a group's result, if it only gives its axes another order."""
    if len(groups[i].writes) != 1 or groups[i].writes[0] in results:
        return None
    found = readers.get(groups[i].writes[0], set())
    if len(found) != 1:
        return None
    (j,) = found
    return j if _moves(groups[j]) and [n.op for n in groups[j].nodes] == ["permute_dims"] else None


def _moves(g: FusionGroup) -> bool:
    """Return whether a group shows or copies elements of one array in another shape or order."""
    each = all(n.op in MOVES for n in g.nodes)
    return each and len(g.reads) == len(g.writes) == 1 and not (g.call or g.binds)


def joined(
    inner: Sequence[FusionGroup],
    last: FusionGroup,
    moved: Sequence[FusionGroup],
    logs: Sequence[str] = (),
    computed: Collection[str] = (),
) -> FusionGroup:
    """Return one group that stores what the inner ones do on its way to what the last does.

    Of what they store, ``logs`` are results, too, and what is ``computed`` where it is read is not
    stored any more.
    """
    every = (*moved, *inner, last)
    nodes = {i: n for g in every for i, n in zip(g.at, g.nodes, strict=True)}
    at = tuple(sorted(nodes))
    own = {w for g in (*moved, *inner) for w in g.writes}
    stored = tuple(w for g in inner for w in g.writes if w not in computed)
    reads = dict.fromkeys(a for g in every for a in g.reads if a not in own)
    return FusionGroup(
        at, tuple(nodes[i] for i in at), tuple(reads), (*last.writes, *logs),
        after=frozenset[str]().union(*(g.after for g in every)), stages=stored,
    )  # fmt: skip
