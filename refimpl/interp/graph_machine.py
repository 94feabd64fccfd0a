"""The interpreter of control flow in graphs, whether values are arrays or arrays with error bars.

A machine runs functions node by node.  Its subclasses define what an op yields, and how a value is
read as a condition or a size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from didyma.refimpl.ir import control
from didyma.refimpl.ir import dims as d
from didyma.refimpl.ir.concrete import concrete_attrs, concrete_type
from didyma.refimpl.ir.graph import CALL, CONTROL, Function, Module, Node, stages
from didyma.refimpl.ir.types import Array, Tensor, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Applied, Kind, Op

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class SizedOp:
    """An op with the attributes of a node, whose symbols have been replaced by ints."""

    op: Applied[Any]
    type: TensorType  # of the result


@dataclass(frozen=True)
class PreparedFunction:
    """A function ready to run, step by step."""

    function: Function
    steps: list[Step]

    @cached_property
    def types(self) -> Mapping[str, TensorType]:
        """Types of the function's values."""
        return self.function.types()

    @cached_property
    def on_the_way(self) -> frozenset[str]:
        """What kernels of a Primitive function of several stages may store, or not."""
        return frozenset(r for ends, _ in stages(self.function)[:-1] for r in ends)

    @cached_property
    def joined(self) -> frozenset[str]:
        """Results of reductions of which one hangs on another over the same rows.

        An implementation may take both in one pass over the rows (``Contract.rescaled``).
        """
        rows: dict[str, object] = {}
        before: dict[str, frozenset[str]] = {}  # reductions that a value hangs on
        found: set[str] = set()
        for step in self.steps:
            n = step.node
            known = frozenset[str]().union(*(before.get(a, ()) for a in n.args))
            if step.op is not None and step.op.kind is Kind.REDUCTION:
                (r,) = n.results
                rows[r] = self.types[n.args[0]].shape, n.attr.get("axes"), n.attr.get("axis")
                if same := {x for x in known if rows[x] == rows[r]}:
                    found |= {r, *same}
                known |= {r}
            before.update(dict.fromkeys(n.results, known))
        return frozenset(found)

    @cached_property
    def softplus(self) -> frozenset[str]:
        """Results of ``max(x, 0) + log1p(exp(-|x|))``, which is the logarithm of ``1 + exp(x)``."""
        nodes = {r: s.node for s in self.steps for r in s.node.results}

        def behind(name: str, *ops: str) -> str:
            """Return what some ops were applied to, the last of them first; empty for others."""
            for op in ops:
                n = nodes.get(name)
                if n is None or n.op != op:
                    return ""
                name = n.args[0]
            return name

        def is_softplus(line: str, rest: str) -> bool:
            x, n = behind(rest, "log1p", "exp", "negative", "abs"), nodes.get(line)
            if not x or n is None or n.op != "maximum" or n.args[0] != x:
                return False
            other = nodes.get(n.args[1])
            value = other.attr.get("value") if other else None
            return isinstance(value, Tensor) and not any(value.data)

        sums = [s.node for s in self.steps if s.node.op == "add"]
        return frozenset(
            n.results[0] for n in sums if is_softplus(*n.args) or is_softplus(*n.args[::-1])
        )


class Step:
    """A node ready to run: what dies with it, its op, and its sizes once they are known."""

    __slots__ = ("dead", "key", "node", "op", "symbols", "use")

    def __init__(self, n: Node, dead: tuple[str, ...], symbolic: bool) -> None:
        self.node = n
        self.dead = dead
        self.op: Op | None = OPS.get(n.op)
        self.symbols = tuple(control.symbols(n)) if symbolic else ()
        self.key: tuple[int, ...] = ()
        self.use: SizedOp | None = None

    def sized(self, env: Mapping[str, int]) -> SizedOp:
        """Return the use of the node's op, parsed once for each binding of its symbols."""
        n = self.node
        if not self.symbols:
            if self.use is None:
                self.use = SizedOp(OPS[n.op].apply(n.attr), n.types[0])
            return self.use
        key = tuple(env.get(s, -1) for s in self.symbols)
        if self.use is None or key != self.key:
            applied = OPS[n.op].apply(concrete_attrs(n, env))
            self.use = SizedOp(applied, concrete_type(n.types[0], env))
            self.key = key
        return self.use


def last_uses(f: Function) -> list[tuple[str, ...]]:
    """For each node, the values that no later node and no result needs."""
    kept = set(f.results)
    dead: list[tuple[str, ...]] = []
    for n in reversed(f.nodes):
        names = {*n.args, *n.results} - kept
        kept |= names
        dead.append(tuple(names))
    dead.reverse()
    return dead


class Machine(ABC, Generic[V]):
    """Runs functions of a module; ``env`` holds the symbols bound so far."""

    def __init__(self, m: Module, env: Mapping[str, int]) -> None:
        self.m = m
        self.env = dict(env)
        self.ranges = {v.name: v for v in m.dims}
        self.functions = {f.name: f for f in m.functions}
        self.prepared: dict[str, PreparedFunction] = {}

    @abstractmethod
    def apply(self, f: Function, step: Step, args: list[V]) -> Sequence[V]:
        """Return the results of an op."""

    @abstractmethod
    def shape(self, value: V) -> tuple[int, ...]:
        """Return the shape of a value."""

    @abstractmethod
    def truth(self, value: V) -> bool:
        """Read a condition."""

    def again(self, value: V) -> bool:
        """Read the condition of a loop."""
        return self.truth(value)

    @abstractmethod
    def size(self, value: V) -> int:
        """Read a size."""

    @abstractmethod
    def take(self, value: V, i: int) -> V:
        """Return one slice along the first axis."""

    @abstractmethod
    def stack(self, slices: Sequence[V], t: TensorType) -> V:
        """Join slices along a new first axis into a value of a concrete type."""

    def prepare(self, f: Function) -> PreparedFunction:
        """Return a function ready to run, prepared once for each name."""
        found = self.prepared.get(f.name)
        if found is None or found.function is not f:
            symbolic = bool(self.ranges)
            steps = [Step(n, dead, symbolic) for n, dead in zip(f.nodes, last_uses(f), strict=True)]
            found = self.prepared[f.name] = PreparedFunction(f, steps)
        return found

    def call(self, f: Function, args: list[V]) -> list[V]:
        """Run a function; it takes its operands out of ``args``, and frees at last uses."""
        found = {p.name: a for p, a in zip(f.params, args, strict=True)}
        args.clear()
        for step in self.prepare(f).steps:
            n = step.node
            given = [found[a] for a in n.args]
            if n.op in control.REFERENCES:  # what dies here should not outlive its use inside
                for name in step.dead:
                    found.pop(name, None)
            found.update(zip(n.results, self.node(f, step, given), strict=True))
            for name in step.dead:
                found.pop(name, None)
        return [found[r] for r in f.results]

    def node(self, f: Function, step: Step, args: list[V]) -> Sequence[V]:
        """Run one node; errors say which."""
        n = step.node
        try:
            if n.op == CALL:
                return self.call(self.functions[n.callee], args)
            if n.op in CONTROL:
                return self.control(n, args)
            return self.apply(f, step, args)
        except Exception as e:
            results = ", ".join(f"%{r}" for r in n.results)
            operands = ", ".join(f"%{a}" for a in n.args)
            e.add_note(f"while executing {results} = {n.op}({operands}) in @{f.name}")
            raise

    def control(self, n: Node, args: list[V]) -> Sequence[V]:
        """Run a control node."""
        runs = [self.functions[name] for name in control.references(n)]
        match n.op:
            case "if":
                return self.branch(n, runs, args)
            case "while":
                return self.loop(n, runs, args)
            case "scan":
                return self.scan(n, runs[0], args)
            case _:
                self.bound(str(n.attr["dim"]), args[0])
                return ()

    def bound(self, symbol: str, value: V) -> None:
        """Run a ``bind``."""
        self.bind(symbol, self.size(value))

    def bind(self, symbol: str, size: int) -> None:
        """Give a symbol its value; DidymaError ``dim-out-of-range``."""
        d.check_ranges({symbol: size}, [self.ranges[symbol]])
        self.env[symbol] = size

    def rebind(self, n: Node, types: Sequence[TensorType], values: Sequence[V]) -> None:
        """Bind the symbols that a node rebinds by the shapes of values."""
        new = control.rebound(n)
        if new:
            got = [TensorType(t.dtype, self.shape(v)) for t, v in zip(types, values, strict=True)]
            for name, size in control.solve(types, got, new).items():
                assert isinstance(size, int)
                self.bind(name, size)

    def branch(self, n: Node, runs: Sequence[Function], args: list[V]) -> Sequence[V]:
        """Run the function that the condition chooses."""
        chosen = runs[0] if self.truth(args[0]) else runs[1]
        captures = args[1:]
        args.clear()
        results = self.call(chosen, captures)
        self.rebind(n, n.types, results)
        return results

    def loop(self, n: Node, runs: Sequence[Function], args: list[V]) -> Sequence[V]:
        """Test, run the body, again."""
        cond, body = runs
        k = control.count(n, "carried")
        carried, captures = args[:k], args[k:]
        args.clear()
        self.rebind(n, n.types, carried)
        while self.again(self.call(cond, [*carried, *captures])[0]):
            given = [*carried, *captures]
            carried.clear()  # what the body does not need to the end should not live to its end
            carried = self.call(body, given)
            self.rebind(n, n.types, carried)
        return carried

    def scan(self, n: Node, body: Function, args: list[V]) -> Sequence[V]:
        """Run the body for each slice."""
        k, s = control.count(n, "states"), control.count(n, "scanned")
        states, scanned, captures = args[:k], args[k : k + s], args[k + s :]
        args.clear()
        extent = d.evaluate(control.extent(n), self.env)
        rows: list[list[V]] = [[] for _ in n.types[k:]]
        for i in range(extent):
            for name in control.inner(n):
                self.bind(name, i)
            given = [*states, *(self.take(x, i) for x in scanned), *captures]
            states.clear()
            results = self.call(body, given)
            states = results[:k]
            for row, y in zip(rows, results[k:], strict=True):
                row.append(y)
        for name in control.inner(n):
            self.env.pop(name, None)
        types = [concrete_type(t, self.env) for t in n.types[k:]]
        return [*states, *(self.stack(row, t) for row, t in zip(rows, types, strict=True))]


class Arrays(Machine[Array]):
    """Machine whose values are arrays."""

    def dtype(self, t: TensorType) -> np.dtype[Any]:
        """Return the NumPy dtype of a value of a type."""
        return t.dtype.numpy

    def shape(self, value: Array) -> tuple[int, ...]:
        """Return the shape of a value."""
        return value.shape

    def truth(self, value: Array) -> bool:
        """Read a condition."""
        return bool(value)

    def size(self, value: Array) -> int:
        """Read a size."""
        return int(value)

    def take(self, value: Array, i: int) -> Array:
        """Return one slice along the first axis."""
        return np.asarray(value[i, ...])

    def stack(self, slices: Sequence[Array], t: TensorType) -> Array:
        """Join slices along a new first axis into an array."""
        whole = np.empty([int(str(s)) for s in t.shape], self.dtype(t))
        for i, s in enumerate(slices):
            whole[i] = s
        return whole
