"""Let scan bodies read the scanned operands themselves, so that slicing fuses into its readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.graph import (
    COMPILER,
    NO_INLINE,
    SCAN,
    Attr,
    Function,
    Module,
    Node,
    Param,
    attrs,
)
from didyma.refimpl.ir.names import Names, fresh
from didyma.refimpl.ir.types import DType, TensorType


def unroll_slices(m: Module) -> Module:
    """Give each ``scan`` an index, and let its body gather rows of whole scanned operands.

    A slice that starts at a symbol cannot be typed, since the symbol may lie outside the axis.  So
    the index becomes a value, the last element of an iota of index + 1, and the row is gathered.
    """
    m = _apart(m)
    work = _Rewrite(
        {f.name: f for f in m.functions},
        {v.name: v for v in m.dims},
        Names(f.name for f in m.functions),
    )
    functions: list[Function] = []
    for f in m.functions:
        nodes = tuple(work.node(n) for n in f.nodes)
        functions += work.made
        work.made.clear()
        if any(a is not b for a, b in zip(nodes, f.nodes, strict=True)):
            f = replace(f, nodes=nodes)
        work.table[f.name] = f
        functions.append(f)
    if not work.changed:
        return m
    new = replace(m, functions=tuple(functions), dims=tuple(work.dims.values()))
    runs = {r for f in new.functions for n in f.nodes for r in control.references(n)}
    kept = (f for f in new.functions if f.name in runs or f.name not in work.replaced)
    return replace(new, functions=tuple(kept))


def _apart(m: Module) -> Module:
    """Give each use of a function that scans a copy of its own, since an index is bound only once.

    Functions that are not inlined bind indices of their own, so their callers share them.
    """
    scanning: set[str] = set()
    uses: Counter[str] = Counter()
    stay = {f.name for f in m.functions if f.attr.keys() & {COMPILER, NO_INLINE}}
    for f in m.functions:
        runs = [r for n in f.nodes for r in control.references(n) if r not in stay]
        uses.update(runs)
        scans = any(n.op == SCAN and control.count(n, "scanned") for n in f.nodes)
        if scans or not scanning.isdisjoint(runs):
            scanning.add(f.name)
    if all(uses[name] <= 1 for name in scanning):
        return m
    copies = _Copies({f.name: f for f in m.functions}, scanning - stay)
    functions: list[Function] = []
    for f in m.functions:
        if f.name not in copies.scanning or f is m.entry:
            new = copies.inside(f)
            functions += (*copies.made, new)
            copies.made.clear()
    return replace(m, functions=tuple(functions))


@dataclass
class _Copies:
    table: dict[str, Function]
    scanning: set[str]
    made: list[Function] = field(default_factory=list[Function])

    def inside(self, f: Function) -> Function:
        """Return a function in which no two nodes run the same scanning function."""
        nodes: list[Node] = []
        for n in f.nodes:
            own = {k: self.copy(str(n.attr[k])) for k in control.REFERENCES.get(n.op, ())}
            nodes.append(replace(n, attrs=attrs(n.attr | own)) if own else n)
        return replace(f, nodes=tuple(nodes))

    def copy(self, name: str) -> Attr:
        """Return the name of a fresh copy of a function, or its own name if it does not scan."""
        if name not in self.scanning:
            return name
        f = self.inside(self.table[name])
        f = replace(f, name=fresh(name, self.table))
        self.table[f.name] = f
        self.made.append(f)
        return f.name


@dataclass
class _Rewrite:
    table: dict[str, Function]
    dims: dict[str, DimVar]
    supply: Names
    made: list[Function] = field(default_factory=list[Function])
    replaced: set[str] = field(default_factory=set[str])
    changed: bool = False

    def node(self, n: Node) -> Node:
        """Rewrite a scan of at least one operand; return any other node unchanged."""
        if n.op != SCAN or not control.count(n, "scanned"):
            return n
        self.changed = True
        body = self.table[control.references(n)[0]]
        index = str(n.attr["index"]) or self.index(n)
        name = self.supply.fresh(body.name)
        self.made.append(replace(_gathering(body, n, index), name=name))
        self.replaced.add(body.name)
        changed: dict[str, Attr] = {"body": name, "index": index, "scanned": 0}
        return replace(n, attrs=attrs(n.attr | changed))

    def index(self, n: Node) -> str:
        """Declare a symbol for the index of a scan and return its name."""
        ranges = {k: (v.lo, v.hi) for k, v in self.dims.items()}
        most = max(0, dims.bounds(control.extent(n), ranges)[1] - 1)
        name = fresh("i", self.dims)
        self.dims[name] = DimVar(name, 0, most)
        return name


def _gathering(body: Function, n: Node, index: str) -> Function:
    """Return a body whose parameters are whole scanned operands, of which it gathers rows."""
    k, s = control.count(n, "states"), control.count(n, "scanned")
    supply = Names(body.types())
    whole: list[Param] = []
    for p in body.params[k : k + s]:
        name = supply.fresh(f"{p.name}_all")
        whole.append(Param(name, p.type.with_shape(control.extent(n), *p.type.shape)))
    params = (*body.params[:k], *whole, *body.params[k + s :])
    devices = dict.fromkeys(w.type.device for w in whole)
    places = {d: tuple(_place(index, supply, d)) for d in devices}
    last = {d: nodes[-1].results[0] for d, nodes in places.items()}
    rows = [
        Node((p.name,), "gather", (w.name, last[w.type.device]), (p.type,), attrs({"axis": 0}))
        for p, w in zip(body.params[k : k + s], whole, strict=True)
    ]
    place = (n for nodes in places.values() for n in nodes)
    return replace(body, params=params, nodes=(*place, *rows, *body.nodes))


def _place(index: str, supply: Names, device: str) -> Iterator[Node]:
    """Yield nodes, the last of which yields a symbolic index as an i64 scalar."""
    i = dims.symbol(index)
    one = dims.add(i, 1)
    row = TensorType(DType.I64, (one,), device)
    count, last, at = (supply.fresh(f"{index}_{x}") for x in ("count", "last", "at"))
    shape: dict[str, Attr] = {"shape": (one,), "axis": 0, "dtype": DType.I64}
    yield Node((count,), "iota", (), (row,), attrs(shape))
    ends: dict[str, Attr] = {"starts": (i,), "stops": (one,), "steps": (1,)}
    yield Node((last,), "slice", (count,), (row.with_shape(1),), attrs(ends))
    yield Node((at,), "reshape", (last,), (row.with_shape(),), attrs({"shape": ()}))
