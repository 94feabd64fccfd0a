"""Join two products with a softmax between them into one function, of which each is a stage.

``softmax(q @ k + mask) @ v`` is three kernels, of which the first two store a number for every pair
of a query and a key.  As one function it is the same three kernels, or one kernel that stores none
of these: a template takes the keys in tiles.  (T. Dao et al., *FlashAttention*, 2022.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from didyma.codegen.decisions import Heard, unheard
from didyma.codegen.passes.attended import Attention, dependent, examined, is_logsumexp
from didyma.codegen.passes.groups import FusionGroup
from didyma.codegen.passes.places import cheap, needed, without_unread
from didyma.codegen.passes.rounding import is_rounded
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import DType, Shape, TensorType
from didyma.refimpl.ops.conversion import largest

MOVES = ("broadcast_to", "permute_dims", "reshape")
PIECE, LONGEST = 8, 256  # templates of tensor cores take so many terms and features, or multiples
NARROW = (DType.F16, DType.BF16)  # dtypes of operands, likewise
TILED, MOST_TILED = 32, 128  # terms and features of f32: a multiple, up to so many
LEAST_ROWS = 16  # of f32, that blocks share
FEW = 16  # terms and features of which products have no faster templates of their own
ATTENTION = "join two products and the softmax between them"


def unsuited(
    defs: Mapping[str, Node],
    types: Mapping[str, TensorType],
    products: Sequence[Node],
    weight: str,
    value: str,
) -> str:
    """Return why no template of tensor cores takes a sum of rows of a value; "" if one does.

    Its weights are computed of the products.  Joined, others would only lose the templates that
    each product has: those of f32, or of heads of 81 features.  Products of at most ``FEW`` terms
    and features have none to lose.  Templates round weights to a narrow dtype, so a program must do
    so, too.
    """
    ends = [types[a].shape[-1] for a in (*(n.args[0] for n in products), value)]
    read = [*(a for n in products for a in n.args), value]
    if all(isinstance(d, int) and d <= FEW for d in ends):
        return ""
    wide = [types[a].dtype for a in read if _narrow(defs, types, a) is None]
    if wide:
        heads = f"f32 with multiples of {TILED} features up to {MOST_TILED}"
        return f"operands are {wide[0]}, and templates take f16, bf16, and {heads}"
    if _narrow(defs, types, weight) is None:
        return f"weights are {types[weight].dtype}, and templates round them to f16 or bf16"
    odd = [d for d in ends if not is_side(d)]
    return f"heads have {odd[0]} features, no multiple of {PIECE} up to {LONGEST}" if odd else ""


def is_side(d: Dim) -> bool:
    """Return whether templates of tensor cores take products of so many terms or features.

    >>> [is_side(n) for n in (8, 80, 81, 256, 264)]
    [True, True, False, True, False]
    """
    return isinstance(d, int) and 0 < d <= LONGEST and d % PIECE == 0


def _narrow(defs: Mapping[str, Node], types: Mapping[str, TensorType], name: str) -> DType | None:
    """Return the narrow dtype of a value, or of what was converted and moved to it, if any."""
    while (dtype := types[name].dtype) not in NARROW:
        n = defs.get(name)
        if n is None or n.op not in ("cast", *MOVES):
            return None
        name = n.args[0]
    return dtype


def join(
    groups: Sequence[FusionGroup],
    results: frozenset[str],
    types: Mapping[str, TensorType],
    heard: Heard,
    apart: Heard = unheard,
    *,
    logs: bool = False,
    tensor_cores: bool = False,
    summed: Callable[[Collection[int]], Collection[int]] = lambda _: (),
) -> list[FusionGroup]:
    """Join the groups that compute an attention; ``results`` are values that are stored anyhow.

    ``apart`` is called with why a value that looks like an attention is none, or is not joined.

    What they store on the way must be read by them alone, or else by weighted sums that compute it
    anew: ``summed`` returns the groups that these join if some others do not read them.  Kernels
    that only move elements of an operand, such as copies of heads, join them.  Cheap values of
    places, such as how far a key is from a query, are computed anew in each of them.  With
    ``logs``, the logarithm of the sums of exponentials is a result, too; with ``tensor_cores`` only
    what their templates take is joined.
    """
    defs = {r: n for g in groups for n in g.nodes for r in n.results}
    readers: dict[str, set[int]] = {}
    for i, g in enumerate(groups):
        for a in g.reads:
            readers.setdefault(a, set()).add(i)
    made, places, used = [*groups], cheap(groups, types), set[int]()
    for i, g in enumerate(groups):
        for n in g.nodes:
            found = "" if g.call or g.view else examined(defs, types, n)
            if isinstance(found, str):
                if found:
                    apart(found, n.results[0])
                continue
            if tensor_cores and (why := _unfit(defs, types, found)):
                apart(why, n.results[0])
                continue
            (scores,) = found.scores.results
            between = dependent(defs, found.output.results[0], scores) - {*found.output.results}
            inner = {j for j, h in enumerate(groups) if not between.isdisjoint(h.writes)}
            log = _logarithm(groups, defs, found) if logs else {}
            inner |= {*log.values()}
            every = {*inner, i}
            lines = {v for v in between if types[v].shape not in _shapes(types, found)}
            lines |= {found.top, found.total}
            one_each = all(len({*groups[j].writes} - {*log, *lines}) <= 1 for j in inner)
            back = any(_leads_back(groups, lse, every, readers) for lse in log)
            shared = {j for j in inner if _read_by_others(groups[j], every, readers, log)}
            stay = shared if shared and shared <= {*summed(every)} else set[int]()
            why = _open(groups, every, inner - stay, readers, results, log)
            if why or back or not one_each:
                apart(why or "a kernel on the way stores other results, too", n.results[0])
            else:
                heard(ATTENTION, g.writes[0])
                turned = _turned(groups, i, readers, results)
                if turned is not None:
                    inner.add(i)
                order = sorted(inner, key=lambda j: groups[j].at[-1])
                last = i if turned is None else turned
                moves = moved(groups, {*inner, last}, readers, results)
                used |= (again := needed(groups, {*inner, last, *moves}, places))
                whole = [[groups[j] for j in part] for part in (order, moves | again)]
                computed = lines - {*g.reads, *log}
                made[last] = joined(whole[0], groups[last], whole[1], [*log], computed)
                for j in {*inner, *moves} - stay:
                    made[j] = made[last]
                break
    return without_unread(
        list({g.at: g for g in made}.values()), results, [groups[j] for j in used]
    )


def _unfit(defs: Mapping[str, Node], types: Mapping[str, TensorType], a: Attention) -> str:
    """Return why no template takes an attention; "" if one does.

    Those of tensor cores round weights before they are divided by their sum: times their factors
    they must be in range.
    """
    narrow = _narrow(defs, types, a.value)
    if narrow is not None and a.factor is not None and a.factor > largest(narrow):
        return f"weights times their factors may exceed what {narrow} holds"
    if not _is_tiled(defs, types, a):
        return unsuited(defs, types, [a.scores], a.weight, a.value)
    rows = types[a.score].shape[-2]
    few = isinstance(rows, int) and rows < LEAST_ROWS
    return f"{rows} queries of f32 would leave most of a kernel idle" if few else ""


def _is_tiled(defs: Mapping[str, Node], types: Mapping[str, TensorType], a: Attention) -> bool:
    """Return whether the template of f32 without tensor cores takes an attention.

    Products of operands that are rounded to tf32 have tensor cores.
    """
    read = [*a.scores.args, a.value]
    wide = all(types[x].dtype is DType.F32 for x in read)
    if not wide or None not in [_narrow(defs, types, x) for x in read]:
        return False
    ends = (types[x].shape[-1] for x in (read[0], a.value))
    return all(map(is_tiled_side, ends)) and not any(is_rounded(x, defs.get) for x in read)


def is_tiled_side(d: Dim) -> bool:
    """Return whether the template of f32 takes products of so many terms or features.

    >>> [is_tiled_side(n) for n in (16, 32, 80, 128, 160)]
    [False, True, False, True, False]
    """
    return isinstance(d, int) and 0 < d <= MOST_TILED and d % TILED == 0


def _shapes(types: Mapping[str, TensorType], a: Attention) -> tuple[Shape, ...]:
    """Return the shapes of scores and of weighted means."""
    return types[a.score].shape, a.output.types[0].shape


def _open(
    groups: Sequence[FusionGroup],
    every: set[int],
    inner: set[int],
    readers: Mapping[str, set[int]],
    results: frozenset[str],
    logs: Collection[str],
) -> str:
    """Return why an inner group is no kernel that stores for these alone, but for ``logs``."""
    for j in inner:
        g = groups[j]
        if g.view:
            return f"%{g.writes[0]}, on the way, is made by no kernel of its own"
        for w in g.writes:
            if w not in logs and w in results:
                return f"%{w}, on the way, is a result"
        if _read_by_others(g, every, readers, logs):
            return f"%{g.writes[0]}, on the way, is read by others, too"
    return ""


def _read_by_others(
    g: FusionGroup, every: set[int], readers: Mapping[str, set[int]], logs: Collection[str]
) -> bool:
    """Return whether groups outside of some read what one of them stores, but for ``logs``."""
    return any(readers.get(w, set()) - every for w in g.writes if w not in logs)


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
            g, users = groups[i], {path[-1]} if path else every
            if not _moves(g) or name in results or readers.get(name, set()) - users:
                break
            path.append(i)
            (name,) = g.reads
        while path and groups[path[-1]].view:
            path.pop()
        found |= {*path}
    return found


def _turned(
    groups: Sequence[FusionGroup],
    i: int,
    readers: Mapping[str, set[int]],
    results: frozenset[str],
) -> int | None:
    """Return the one group that reads a group's result, if it only gives its axes another order."""
    (value,) = groups[i].writes
    found = readers.get(value, set())
    if value in results or len(found) != 1:
        return None
    (j,) = found
    return j if [n.op for n in groups[j].nodes] == ["permute_dims"] else None


def _moves(g: FusionGroup) -> bool:
    """Return whether a group shows or copies elements of one array in another shape or order."""
    return all(n.op in MOVES for n in g.nodes) and len(g.reads) == len(g.writes) == 1


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
