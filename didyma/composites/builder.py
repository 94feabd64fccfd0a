"""Build a graph node by node; types are inferred, and names made unique."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sympy

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.graph import (
    BIND,
    CALL,
    IF,
    SCAN,
    TO,
    WHILE,
    Attr,
    Function,
    Module,
    Node,
    Param,
)
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.names import Names, fresh
from didyma.refimpl.ir.types import Array, DType, Tensor, TensorType
from didyma.refimpl.ops import OPS

UNBOUNDED = 2**31 - 1  # range of a run-time size of which nothing better is known


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the graph under construction."""

    name: str
    type: TensorType


@dataclass(slots=True)
class _Shared:
    """State that the builders of one module share."""

    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    traced: dict[object, Function] = field(default_factory=dict[object, Function])
    kernels: dict[str, Any] = field(default_factory=dict[str, Any])
    dims: dict[str, DimVar] = field(default_factory=dict[str, DimVar])
    open: list[Builder] = field(default_factory=list["Builder"])  # under construction
    devices: list[str] = field(default_factory=list[str])  # scopes that are open, innermost last


class Builder:
    """Collects parameters and nodes of a function, and the functions and dims of its module.

    >>> b = Builder()
    >>> x = b.param("x", TensorType(DType.F32, (2, 3)))
    >>> str(b("sum", [x], axes=(1,), keepdims=False).type)
    'f32[2]'
    """

    def __init__(self, parent: Builder | None = None, *, loose: bool = False) -> None:
        self.parent = parent
        self.loose = loose  # whether all nodes are of constants, and are copied where used
        self._copies: dict[tuple[Builder, str], Value] = {}  # of values of loose builders
        self.captures: dict[str, tuple[Value, Value]] = {}  # the parent's value, and ours
        self._shared: _Shared = parent._shared if parent else _Shared()
        self._params: list[Param] = []
        self._nodes: list[Node] = []
        self._places: dict[str, int] = {}  # of the node that defines a value
        self._names = Names()
        self._constants: set[str] = set()  # values computed from constants alone

    def inner(self) -> Builder:
        """Return a builder of a function that a control node of this one will run."""
        return Builder(self)

    @property
    def current(self) -> Builder:
        """The innermost builder of this module that is being filled."""
        return self._shared.open[-1] if self._shared.open else self

    @property
    def traced(self) -> dict[object, Function]:
        """Functions of the module, by the Python functions that they were traced from."""
        return self._shared.traced

    @property
    def kernels(self) -> dict[str, Any]:
        """What makes the kernels that a user wrote for functions of the module, by their names."""
        return self._shared.kernels

    @contextmanager
    def filling(self) -> Generator[None]:
        """Make this the ``current`` builder inside a ``with`` statement."""
        self._shared.open.append(self)
        try:
            yield
        finally:
            self._shared.open.pop()

    def capture(self, v: Value, home: Builder) -> Value:
        """Return a value of an enclosing function as a parameter of this one.

        A value of a ``loose`` builder, computed from constants alone, is computed here again.
        """
        if home is self:
            return v
        if home.loose:
            return self._copied(v, home)
        if self.parent is None:
            raise DidymaError(
                "foreign-value",
                f"%{v.name}",
                got="a value of a branch or body, or of another function",
                want="a value of this function or of one around it",
                help="return it from the branch or body",
            )
        outer = self.parent.capture(v, home)
        if outer.name not in self.captures:
            own = self._names.fresh(outer.name)
            self.captures[outer.name] = outer, Value(own, outer.type)
        return self.captures[outer.name][1]

    def _copied(self, v: Value, home: Builder) -> Value:
        """Copy the nodes of a loose builder on which a value depends, each once."""
        for n in home.cone(v).nodes:
            if n.op not in OPS:
                raise DidymaError(
                    "foreign-value",
                    f"%{v.name}",
                    got=f"a result of `{n.op}` on constants alone",
                    want="control flow on values of the traced function",
                    help="start from one of its tensors (dd.zeros_like(x)), or compute the "
                    "constant with NumPy",
                )
            key = home, n.results[0]
            if key not in self._copies:
                args = [self._copies[home, a] for a in n.args]
                self._copies[key] = self.node(n.op, args, dict(n.attrs), n.results[0])
        return self._copies[home, v.name]

    def param(self, name: str, type: TensorType) -> Value:
        """Add a parameter; DidymaError ``redefined`` if the name is taken."""
        if name in self._names:
            raise DidymaError("redefined", f"%{name}", got="two values", want="one value a name")
        self._names.take([name])
        self._params.append(Param(name, type))
        return Value(name, type.dense)

    def __call__(self, op: str, args: Sequence[Value], /, **attrs: Attr) -> Value:
        """Add a node; raises what the op's ``infer`` raises."""
        return self.node(op, args, attrs)

    def node(
        self, op: str, args: Sequence[Value], attrs: Mapping[str, Attr], name: str = ""
    ) -> Value:
        """Add a node, and give its value a name if that is free."""
        args = args if op == TO else self._together(args)
        type = OPS[op].infer([a.type for a in args], attrs)
        if not args and self._shared.devices:
            type = replace(type, device=self._shared.devices[-1])
        result = self._names.fresh(name or op)
        operands = tuple(a.name for a in args)
        self._places[result] = len(self._nodes)
        self._nodes.append(Node((result,), op, operands, (type,), freeze(attrs)))
        if self._constants.issuperset(operands):
            self._constants.add(result)
        return Value(result, type)

    # Devices --------------------------------------------------------------------------------------

    @contextmanager
    def on(self, device: str) -> Generator[None]:
        """Compute what is added inside a ``with`` statement on a device."""
        self._shared.devices.append(device)
        try:
            yield
        finally:
            self._shared.devices.pop()

    @property
    def device(self) -> str | None:
        """The device of the innermost scope; None where there is none."""
        return self._shared.devices[-1] if self._shared.devices else None

    def move(self, v: Value, device: str) -> Value:
        """Return a value on a device."""
        return v if v.type.device == device else self.node(TO, [v], {"device": device}, v.name)

    def _together(self, args: Sequence[Value]) -> Sequence[Value]:
        """Return operands on the device of the scope, or, without one, where the tensors are.

        What is computed from constants alone follows the others.
        """
        devices = {a.type.device for a in args}
        if self._shared.devices:
            return [self.move(a, self._shared.devices[-1]) for a in args]
        if len(devices) < 2:
            return args
        found = {a.type.device for a in args if a.name not in self._constants}
        return [self.move(a, *found) for a in args] if len(found) == 1 else args

    # Data-dependent sizes ---------------------------------------------------------------------

    def declare(self, wish: str, lo: int, hi: int) -> sympy.Symbol:
        """Declare a symbol with an inclusive range; its name is ``wish``, or like it."""
        name = fresh(wish, self._shared.dims)
        self._shared.dims[name] = DimVar(name, lo, hi)
        return dims.symbol(name)

    def know(self, declared: Sequence[DimVar]) -> None:
        """Add symbols that were declared elsewhere; a later declaration replaces an earlier one."""
        self._shared.dims.update({v.name: v for v in declared})

    def declared(self) -> tuple[DimVar, ...]:
        """Return the symbols declared so far."""
        return tuple(self._shared.dims.values())

    def ranges(self) -> dict[str, tuple[int, int]]:
        """Return the inclusive range of each symbol."""
        return {k: (v.lo, v.hi) for k, v in self._shared.dims.items()}

    def input_symbols(self) -> frozenset[str]:
        """Return the symbols that the shapes of the entry's parameters contain."""
        root = self
        while root.parent is not None:
            root = root.parent
        return frozenset(dims.free(d for p in root._params for d in p.type.shape))

    def most(self, d: Dim) -> int:
        """Return the largest value of a size, or ``UNBOUNDED`` if a symbol is not declared."""
        ranges = self.ranges()
        if not set(dims.free(d)) <= ranges.keys():
            return UNBOUNDED
        return dims.bounds(d, ranges)[1]

    def bind(self, count: Value, most: Dim, wish: str = "u", least: int = 0) -> Dim:
        """Bind a fresh symbol of at most ``most`` to an i64 scalar; return it as a size."""
        size = self.declare(wish, least, self.most(most))
        count = self.move(count, "")
        self._nodes.append(Node((), BIND, (count.name,), (), freeze({"dim": size.name})))
        return size

    # Functions ----------------------------------------------------------------------------------

    def add(self, f: Function) -> Function:
        """Add a function to the module, under its name or one like it."""
        name = fresh(f.name, self._shared.functions)
        self._shared.functions[name] = f = replace(f, name=name)
        return f

    def call(self, f: Function, args: Sequence[Value]) -> tuple[Value, ...]:
        """Call a function of the module."""
        return self._run(CALL, args, f.result_types(), {"callee": f.name})

    def branch(
        self, condition: Value, then: Function, otherwise: Function, captures: Sequence[Value]
    ) -> tuple[Value, ...]:
        """Run one of two functions; sizes in which their results differ are bound at run time."""
        types, new = self._joined(then.result_types(), otherwise.result_types())
        condition = self.move(condition, "")
        attrs: dict[str, Attr] = {"then": then.name, "otherwise": otherwise.name, "binds": new}
        return self._run(IF, [condition, *captures], types, attrs)

    def loop(
        self,
        test: Function,
        body: Function,
        carried: Sequence[Value],
        captures: Sequence[Value],
        binds: Sequence[str] = (),
    ) -> tuple[Value, ...]:
        """Run ``body`` while ``test`` holds; ``binds`` are the symbols of sizes that change."""
        count = len(carried)
        types = [p.type for p in body.params[:count]]
        attrs: dict[str, Attr] = {"cond": test.name, "body": body.name}
        attrs |= {"carried": count, "binds": tuple(binds)}
        return self._run(WHILE, [*carried, *captures], types, attrs)

    def scan(
        self,
        body: Function,
        states: Sequence[Value],
        scanned: Sequence[Value],
        captures: Sequence[Value],
        length: Dim,
        index: str = "",
    ) -> tuple[Value, ...]:
        """Run ``body`` on the states and each slice of what is scanned."""
        k = len(states)
        results = body.result_types()
        types = [*results[:k], *(t.with_shape(length, *t.shape) for t in results[k:])]
        attrs: dict[str, Attr] = {"body": body.name, "states": k, "scanned": len(scanned)}
        attrs |= {"length": length, "index": index}
        return self._run(SCAN, [*states, *scanned, *captures], types, attrs)

    def _joined(
        self, a: Sequence[TensorType], b: Sequence[TensorType]
    ) -> tuple[list[TensorType], tuple[str, ...]]:
        """Return types for the results of both branches, and the symbols bound for them.

        Error ``branch-mismatch`` where the results differ in more than their sizes.
        """
        new: dict[tuple[Dim, Dim], sympy.Symbol] = {}
        types: list[TensorType] = []
        for x, y in zip(a, b, strict=False):
            shape: list[Dim] = []
            for m, n in zip(x.shape, y.shape, strict=False):
                inside = not set(dims.free([m, n])) <= self._outside()
                if m == n and not inside:
                    shape.append(m)
                    continue
                if (m, n) not in new:
                    new[m, n] = self.declare("u", 0, max(self.most(m), self.most(n)))
                shape.append(new[m, n])
            types.append(x.with_shape(*shape))
        if [(t.dtype, t.device, t.rank) for t in a] != [(t.dtype, t.device, t.rank) for t in b]:
            raise DidymaError(
                "branch-mismatch",
                "if",
                got=f"({', '.join(map(str, a))}) and ({', '.join(map(str, b))})",
                want="as many results of both branches, of one dtype and rank each",
                help="cast or reshape the results of one branch",
            )
        return types, tuple(s.name for s in new.values())

    def _outside(self) -> set[str]:
        """Return the symbols that are bound outside functions run by control nodes."""
        inside = {
            s
            for f in self._shared.functions.values()
            for n in f.nodes
            for s in (*control.binds(n), *control.inner(n))
        }
        return set(self._shared.dims) - inside

    def _run(
        self,
        op: str,
        args: Sequence[Value],
        types: Sequence[TensorType],
        attrs: Mapping[str, Attr],
    ) -> tuple[Value, ...]:
        names = tuple(self._names.fresh(op) for _ in types)
        operands = tuple(a.name for a in args)
        self._places.update(dict.fromkeys(names, len(self._nodes)))
        self._nodes.append(Node(names, op, operands, tuple(types), freeze(attrs)))
        return tuple(Value(n, t) for n, t in zip(names, types, strict=True))

    # Constants and results ----------------------------------------------------------------------

    def constant(self, array: Array, name: str = "") -> Value:
        """Add a constant."""
        return self.node("constant", [], {"value": Tensor.of(array)}, name or "c")

    def scalar(self, value: float | int | bool, dtype: DType) -> Value:
        """Add a constant of rank 0."""
        return self.constant(np.asarray(value).astype(dtype.numpy))

    def type_of(self, v: Value) -> TensorType:
        """Return the type of a value."""
        return v.type

    def maker(self, v: Value) -> Node | None:
        """Return the node that defines a value; None for a parameter."""
        at = self._places.get(v.name)
        return None if at is None else self._nodes[at]

    def values(self, names: Sequence[str]) -> list[Value]:
        """Return values of this function by name: parameters, captures, results of nodes."""
        types = {p.name: p.type for p in self._params}
        types |= {own.name: own.type for _, own in self.captures.values()}
        found: list[Value] = []
        for name in names:
            if name in self._places:
                n = self._nodes[self._places[name]]
                found.append(Value(name, n.types[n.results.index(name)]))
            else:
                found.append(Value(name, types[name]))
        return found

    def cone(self, v: Value) -> Function:
        """Return the nodes on which a value depends, as a function."""
        wanted = {v.name}
        kept: list[Node] = []
        for n in reversed(self._nodes[: self._places.get(v.name, -1) + 1]):
            if wanted.intersection(n.results):
                kept.append(n)
                wanted.update(n.args)
        params = tuple(p for p in self._params if p.name in wanted)
        return Function("cone", params, tuple(reversed(kept)), (v.name,))

    def function(
        self, name: str, results: Sequence[Value], captures: Sequence[Value] | None = None
    ) -> Function:
        """Return the function built so far.

        ``captures`` are values of the enclosing function that follow the parameters; left out,
        those that were captured.
        """
        outer = [v for v, _ in self.captures.values()] if captures is None else captures
        params = list(self._params)
        for v in outer:
            own = self.captures.get(v.name)
            params.append(Param(own[1].name if own else self._names.fresh(v.name), v.type))
        return Function(name, tuple(params), tuple(self._nodes), tuple(r.name for r in results))

    def module(self, name: str, results: Sequence[Value]) -> Module:
        """Return the module: the functions added that are used, and last the one built so far."""
        taken = self._shared.functions
        entry = self.function(fresh(name, taken), results)
        wanted = {r for n in entry.nodes for r in control.references(n)}
        for f in reversed(taken.values()):
            if f.name in wanted:
                wanted.update(r for n in f.nodes for r in control.references(n))
        used = (f for f in taken.values() if f.name in wanted)
        m = Module((*used, entry), tuple(self._shared.dims.values()))
        named = control.mentioned(m)[entry.name].union(control.input_symbols(m), control.bound(m))
        return Module(m.functions, tuple(v for v in m.dims if v.name in named))
