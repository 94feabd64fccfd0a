"""The laws of control flow in graphs, and of symbols bound at run time.

| law | says |
|---|---|
| G-control-attrs | a control node has the attributes of its kind, each of its kind |
| G-block | what a control node runs is a function without Primitive, NoInline and Compiler |
| G-if | an ``if`` takes a bool[]; both functions take its captures and give its results |
| G-while | ``cond`` and ``body`` take what is carried and captures; they give a bool[] and what is carried |
| G-scan | a ``scan`` body takes states, slices and captures, and gives states and slices of results |
| G-bind | a ``bind`` takes one i64[], gives nothing, and names a dim |
| G-binds | a rebound symbol stands alone on an axis of what is carried (of an ``if``: its results) |
| G-bound-twice | a symbol stands in shapes of the entry's parameters, or one node binds it |
| G-bound-once | a function in which symbols are bound is called or run at one place, if it is inlined |
| G-unbacked | a symbol is used only where it has been bound, in the function that binds it if that is not inlined |
"""  # noqa: E501  # a table's row is one line

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import sympy

from didyma.refimpl.errors import DidymaError, counted
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir import graph as ir
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.text import show_node
from didyma.refimpl.ir.text.literals import attr_text
from didyma.refimpl.ir.types import DType, TensorType
from didyma.refimpl.verify.sizes import Sizes

_BOOL = TensorType(DType.BOOL)


def is_a(kind: type, a: ir.Attr) -> bool:
    """Return whether an attribute is of a type, and of no type below it."""
    return type(a) is kind


def is_dim(a: ir.Attr) -> bool:
    """Return whether an attribute is a size."""
    return type(a) is int or isinstance(a, sympy.Expr)


def are(fits: Callable[[ir.Attr], bool], a: ir.Attr) -> bool:
    """Return whether an attribute is a tuple whose items fit."""
    return isinstance(a, tuple) and all(map(fits, a))


def _is_count(a: ir.Attr) -> bool:
    return type(a) is int and a >= 0


_is_name = partial(is_a, str)
_NAMES = (partial(are, _is_name), "names of dims")
_FUNCTION = (_is_name, "the name of a function")
_COUNT = (_is_count, "a count")
_ATTRS: Mapping[str, Mapping[str, tuple[Callable[[ir.Attr], bool], str]]] = {
    ir.IF: {"binds": _NAMES, "otherwise": _FUNCTION, "then": _FUNCTION},
    ir.WHILE: {"binds": _NAMES, "body": _FUNCTION, "carried": _COUNT, "cond": _FUNCTION},
    ir.SCAN: {
        "body": _FUNCTION,
        "index": (_is_name, "the name of a dim, or nothing"),
        "length": (is_dim, "a size"),
        "scanned": _COUNT,
        "states": _COUNT,
    },
    ir.BIND: {"dim": (_is_name, "the name of a dim")},
}


def listed(types: Iterable[TensorType]) -> str:
    """Return the text of types, one after another."""
    return ", ".join(str(t) for t in types)


def signature(params: Iterable[TensorType], results: Iterable[TensorType]) -> str:
    """Return the text of the types of a function or node."""
    return f"({listed(params)}) -> ({listed(results)})"


_Site: TypeAlias = tuple[ir.Function, ir.Node | ir.Param]


def broken_law(code: str, got: str, want: str, help: str = "", where: str = "") -> DidymaError:
    """Return the error of a law of graphs; who verifies the node says where, if that is empty."""
    return DidymaError(code, where, got=got, want=want, help=help)


@dataclass
class _Scope:
    """Symbols of one function: those it needs from outside, and those bound when it ends."""

    needs: dict[str, _Site] = field(default_factory=dict[str, "_Site"])  # and a user of each
    bound: set[str] = field(default_factory=set[str])
    binds: bool = False  # at any depth


@dataclass
class Control:
    """Checks control nodes against the functions known so far, and symbols at the end."""

    known: Mapping[str, ir.Function]
    sizes: Sizes

    def node(self, n: ir.Node, operands: Sequence[TensorType]) -> None:
        """Check the laws of one control node."""
        self.attrs(n)
        for name in control.references(n):
            self.reference(name)
        match n.op:
            case "if":
                self.branch(n, operands)
            case "while":
                self.loop(n, operands)
            case "scan":
                self.scan(n, operands)
            case _:
                self.bind(n, operands)

    def attrs(self, n: ir.Node) -> None:
        """Check law G-control-attrs, and D-undeclared for the dims that attributes name."""
        wanted, attr = _ATTRS[n.op], n.attr
        if attr.keys() != wanted.keys():
            raise broken_law(
                "G-control-attrs",
                ", ".join(attr) or "no attributes",
                f"exactly these: {', '.join(wanted)}",
            )
        for name, (fits, want) in wanted.items():
            if not fits(attr[name]):
                raise broken_law(
                    "G-control-attrs", f"{name}={attr_text(attr[name], elide=True)}", want
                )
        symbols = (*control.binds(n), *control.inner(n))
        self.sizes.declared([dims.symbol(s) for s in symbols], "")

    def callee(self, name: ir.Attr | None) -> ir.Function:
        """Return the function above that an attribute names, by law G-callee."""
        f = self.known.get(name) if type(name) is str else None
        if f is None:
            want = ", ".join(f"@{k}" for k in self.known)
            raise broken_law("G-callee", f"@{name}", f"a function above: {want or 'there is none'}")
        return f

    def reference(self, name: str) -> None:
        """Check laws G-callee and G-block for a function that a node runs."""
        f = self.callee(name)
        if f.attr.keys() & {ir.PRIMITIVE, ir.COMPILER, ir.NO_INLINE}:
            raise broken_law(
                "G-block", f"@{name} with {', '.join(f.attr)}", "none of these attributes"
            )

    def branch(self, n: ir.Node, operands: Sequence[TensorType]) -> None:
        """Check law G-if."""
        if tuple(operands[:1]) != (_BOOL,):
            got = f"operands {listed(operands) or 'none'}"
            raise broken_law("G-if", got, "bool[], then the captures")
        if len(n.results) != len(n.types):
            raise broken_law(
                "G-if", counted(len(n.results), "result"), f"{len(n.types)}, as it has types"
            )
        captures = tuple(operands[1:])
        self.stand(n, n.types)
        for name in control.references(n):
            f = self.known[name]
            params, results = tuple(p.type for p in f.params), f.result_types()
            sizes = control.solve(n.types, results, control.rebound(n))
            if params != captures or not _fits(n.types, results, sizes):
                got = f"@{name}: {signature(params, results)}"
                raise broken_law("G-if", got, signature(captures, n.types))

    def loop(self, n: ir.Node, operands: Sequence[TensorType]) -> None:
        """Check law G-while: at entry and after each round the carried types fit some sizes."""
        k, new = control.count(n, "carried"), control.rebound(n)
        if k > len(operands):
            raise broken_law(
                "G-while", counted(len(operands), "operand"), f"at least {k} that are carried"
            )
        cond, body = (self.known[name] for name in control.references(n))
        params = tuple(p.type for p in body.params)
        carried, captures = params[:k], tuple(operands[k:])
        if params[k:] != captures or len(carried) < k:
            got = f"@{body.name}: ({listed(params)}) with {k} carried"
            raise broken_law("G-while", got, f"{k} carried, then ({listed(captures)})")
        self.stand(n, carried)
        entry = control.solve(carried, operands, new)
        if not _fits(carried, operands[:k], entry):
            raise broken_law(
                "G-while", f"operands {listed(operands[:k])}", f"carried {listed(carried)}"
            )
        results = body.result_types()
        if not _fits(carried, results, control.solve(carried, results, new)):
            got = f"@{body.name}: {signature(params, results)}"
            raise broken_law("G-while", got, f"results {listed(carried)}")
        test, results = tuple(p.type for p in cond.params), cond.result_types()
        if test != params or results != (_BOOL,):
            got = f"@{cond.name}: {signature(test, results)}"
            raise broken_law("G-while", got, signature(params, (_BOOL,)))
        if n.types != carried or len(n.results) != k:
            got = f"{counted(len(n.results), 'result')} of {listed(n.types)}"
            raise broken_law("G-while", got, f"{counted(k, 'result')} of {listed(carried)}")

    def scan(self, n: ir.Node, operands: Sequence[TensorType]) -> None:
        """Check law G-scan."""
        k, s = control.count(n, "states"), control.count(n, "scanned")
        if k + s > len(operands):
            want = f"at least {k + s}: {k} as states, {s} to scan"
            raise broken_law("G-scan", counted(len(operands), "operand"), want)
        length = control.extent(n)
        scanned = operands[k : k + s]
        for t in scanned:
            if not t.shape or t.shape[0] != length:
                raise broken_law("G-scan", f"{t} to scan", f"axis 0 of size {length}")
        self.index(n)
        body = self.known[control.references(n)[0]]
        slices = (t.with_shape(*t.shape[1:]) for t in scanned)
        wanted = (*operands[:k], *slices, *operands[k + s :])
        params, results = tuple(p.type for p in body.params), body.result_types()
        if params != wanted or results[:k] != tuple(operands[:k]):
            got = f"@{body.name}: {signature(params, results)}"
            raise broken_law("G-scan", got, signature(wanted, operands[:k]) + " and more results")
        stacked = (*results[:k], *(t.with_shape(length, *t.shape) for t in results[k:]))
        if n.types != stacked or len(n.results) != len(stacked):
            got = f"{counted(len(n.results), 'result')} of {listed(n.types)}"
            raise broken_law(
                "G-scan", got, f"{counted(len(stacked), 'result')} of {listed(stacked)}"
            )

    def index(self, n: ir.Node) -> None:
        """Check law G-scan for the index: its range holds all its values."""
        for name in control.inner(n):
            most = max(0, dims.bounds(control.extent(n), self.sizes.ranges)[1] - 1)
            lo, hi = self.sizes.ranges[name]
            if lo != 0 or hi < most:
                raise broken_law(
                    "G-scan", f"{name} in [{lo}, {hi}]", f"a range from 0 to {most} or more"
                )

    def bind(self, n: ir.Node, operands: Sequence[TensorType]) -> None:
        """Check law G-bind."""
        if tuple(operands) != (TensorType(DType.I64),) or n.results or n.types:
            got = f"operands {listed(operands)}; {counted(len(n.results), 'result')}"
            raise broken_law("G-bind", got, "one i64[], no results")

    def stand(self, n: ir.Node, types: Sequence[TensorType]) -> None:
        """Check law G-binds for the types in which symbols are bound anew."""
        new = control.rebound(n)
        alone = control.solve(types, types, new)
        for s in new:
            if s not in alone or new.count(s) > 1:
                raise broken_law(
                    "G-binds", f"{s} in {listed(types)}", f"an axis of size {s}, bound once"
                )

    def symbols(self, m: ir.Module) -> None:
        """Check the laws about symbols, once all functions are known."""
        s = _Symbols()
        for f in m.functions:
            s.function(f)
        entry = s.scopes[m.entry.name]
        input_symbols = control.input_symbols(m)
        for name, place in s.binders.items():
            if name in input_symbols:
                want = "a dim in no shape of the entry's parameters"
                raise broken_law("G-bound-twice", name, want, where=_text(place))
        for name, place in entry.needs.items():
            if name not in control.shape_symbols(m):
                want = "a dim in a shape of the entry's parameters, or that a node above binds"
                help = "sizes bound in a branch or body are seen outside by its `binds` alone"
                raise broken_law("G-unbacked", name, want, help, _text(place))


class _Symbols:
    """Where symbols are bound and needed, callees before callers."""

    def __init__(self) -> None:
        self.scopes: dict[str, _Scope] = {}
        self.binders: dict[str, _Site] = {}
        self.users: dict[str, _Site] = {}

    def function(self, f: ir.Function) -> None:
        scope = self.scopes[f.name] = _Scope()
        for p in f.params:
            for s in dims.free(d for d in p.type.shape if not isinstance(d, int)):
                scope.needs.setdefault(s, (f, p))
        for n in f.nodes:
            self.node((f, n), n, scope)
        if f.attr.keys() & {ir.COMPILER, ir.NO_INLINE}:  # each call binds them anew
            scope.bound, scope.binds = set(), False

    def node(self, place: _Site, n: ir.Node, scope: _Scope) -> None:
        inside, new = control.inner(n), control.binds(n)
        for s in dict.fromkeys((*inside, *new)):
            if s in self.binders:
                raise broken_law("G-bound-twice", s, "one node that binds it", where=_text(place))
            self.binders[s] = place
            scope.binds = True
        for name in control.references(n):
            self.reference(place, name, scope, inside)
        if n.op == ir.CALL:
            scope.bound |= self.scopes[n.callee].bound
        scope.bound.update(new)
        for s in control.symbols(n):
            if s not in scope.bound:
                scope.needs.setdefault(s, place)

    def reference(self, place: _Site, name: str, scope: _Scope, inside: tuple[str, ...]) -> None:
        callee = self.scopes[name]
        if callee.binds:
            scope.binds = True
            if name in self.users:
                got = f"@{name}, used by {_text(self.users[name])}"
                want = "one use of a function in which symbols are bound"
                raise broken_law("G-bound-once", got, want, "give each use a copy", _text(place))
            self.users[name] = place
        for s, at in callee.needs.items():
            if s not in scope.bound and s not in inside:
                scope.needs.setdefault(s, at)


def _text(place: _Site) -> str:
    f, what = place
    return (
        f"@{f.name}: {show_node(what)}" if isinstance(what, ir.Node) else f"@{f.name}, %{what.name}"
    )


def _fits(want: Sequence[TensorType], got: Sequence[TensorType], sizes: Mapping[str, Dim]) -> bool:
    return control.put_types(want, sizes) == tuple(got)
