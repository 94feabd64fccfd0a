"""Translate the blocks of a fused graph to lines of a program: launches and control flow.

Where it is certain to be correct, a node writes its result to where it is wanted: a branch's
result, a loop's carried buffer, a row of what a scan stacks.  Otherwise the result is copied there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from didyma.codegen.order.results import givers, overwritten
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.external import externals
from didyma.refimpl.ir.graph import (
    COMPILER,
    NO_INLINE,
    RESHAPE_ONLY,
    SCAN,
    TO,
    WHILE,
    Function,
    Module,
    Node,
)
from didyma.refimpl.ir.kernel import Kernel
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.names import fresh
from didyma.refimpl.ir.program import (
    Bind,
    Call,
    Carry,
    Copy,
    Dispatch,
    Extern,
    If,
    Launch,
    Line,
    Program,
    Repeat,
    View,
    While,
)
from didyma.refimpl.ir.target import PORTABLE, Target
from didyma.refimpl.ir.types import Tensor, TensorType

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Callee:
    """A function that is already translated; its last inputs are ``constants``."""

    program: Program
    constants: tuple[tuple[str, Tensor], ...]


class BlockWriter:
    """Writes the lines of one function; ``lines`` are those of the current block.

    ``types`` gives the type of each value of the program, and ``root`` the owner of the bytes of
    each view; names are unique in the program.  ``called`` has the functions that calls may run,
    and ``variants``, by the name of a kernel, all kernels that may run in its place, itself first.
    """

    def __init__(
        self,
        m: Module,
        loops: Mapping[str, PrimFunc],
        kernels: Mapping[str, Sequence[Kernel]],
        called: Mapping[str, Callee],
        variants: Mapping[str, Sequence[Kernel]] = NOTHING,
        target: Target = PORTABLE,
    ) -> None:
        self.called = called
        self.access = target.access
        self.variants = variants
        self.functions = {f.name: f for f in m.functions}
        self.externals = externals(m)
        self.ranges = m.ranges()
        self.loops = loops
        self.kernels = kernels
        self.types: dict[str, TensorType] = {}
        self.root: dict[str, str] = {}
        self.lines: list[Line] = []
        self.used: dict[str, Kernel] = {}
        self.constants: dict[str, Tensor] = {}
        self.indices: list[DimVar] = []

    # ---- names

    def fresh(self, wanted: str, t: TensorType) -> str:
        """Return the name of a new value of a type."""
        name = fresh(wanted, self.types)
        self.types[name] = t
        return name

    def _index(self, n: Node, length: Dim) -> str:
        """Return the symbol that counts a scan's iterations."""
        if name := str(n.attr["index"]):
            return name
        most = max(0, dims.bounds(length, self.ranges)[1] - 1)
        k = 0
        while f"turn{k}" in self.ranges or f"turn{k}" in self.types:
            k += 1
        self.ranges[f"turn{k}"] = (0, most)
        self.indices.append(DimVar(f"turn{k}", 0, most))
        return f"turn{k}"

    # ---- blocks

    def run(
        self,
        f: Function,
        args: Sequence[str],
        wanted: Mapping[str, str] = NOTHING,
        occupied: Iterable[str] = (),
    ) -> list[str]:
        """Append the lines of a function; return the values of its results.

        ``wanted`` maps results of nodes (``results.givers``) to the values of the program that they
        are to be written to; those in ``occupied`` have other contents when the function begins.
        """
        names = dict(zip((p.name for p in f.params), args, strict=True))
        targets = self._targets(f, dict(wanted), frozenset(occupied))
        for n in f.nodes:
            self._node(n, names, targets)
        return [names[r] for r in f.results]

    def _targets(
        self, f: Function, targets: dict[str, str], occupied: frozenset[str]
    ) -> dict[str, str]:
        """Also let nodes write a loop's first values to its buffers if nothing else uses them."""
        if not any(n.op in (WHILE, SCAN) for n in f.nodes):
            return targets
        uses = Counter(a for n in f.nodes for a in n.args) + Counter(f.results)
        own = givers(f, self.functions)
        for n in reversed(f.nodes):
            if n.op not in (WHILE, SCAN):
                continue
            growing = set(control.rebound(n))
            k = control.count(n, "carried" if n.op == WHILE else "states")
            for r, a, t in zip(n.results[:k], n.args, n.types, strict=False):
                if r not in targets:
                    targets[r] = self.fresh(r, t)
                first = a in own and uses[a] == 1  # by this node alone, and no result
                if first and targets[r] not in occupied and growing.isdisjoint(dims.free(t.shape)):
                    targets[a] = targets[r]
        return targets

    def _inside(self) -> list[Line]:
        """Begin a block; return the lines of the enclosing block."""
        outer, self.lines = self.lines, []
        return outer

    def _outside(self, outer: list[Line]) -> tuple[Line, ...]:
        """End a block and return its lines; ``outer`` are those of the enclosing block."""
        inner, self.lines = self.lines, outer
        return tuple(inner)

    # ---- nodes

    def _node(self, n: Node, names: dict[str, str], targets: Mapping[str, str]) -> None:
        if n.op == "constant":
            self._constant(n, names)
            return
        for r, t in zip(n.results, n.types, strict=True):
            names[r] = targets[r] if r in targets else self.fresh(r, t)
        args = [names[a] for a in n.args]
        results = [names[r] for r in n.results]
        match n.op:
            case "call":
                self._call(self.functions[n.callee], args, results)
            case "if":
                self._if(n, args, results)
            case "while":
                self._while(n, args, results)
            case "scan":
                self._scan(n, args, results)
            case "bind":
                self.lines.append(Bind(str(n.attr["dim"]), args[0]))
            case _:
                assert n.op == TO, f"{n.op} in a block of a fused graph"
                self._copy(results[0], args[0])

    def _constant(self, n: Node, names: dict[str, str]) -> None:
        value = n.attr["value"]
        assert isinstance(value, Tensor)
        names[n.results[0]] = self._program_constant(n.results[0], value, n.types[0])

    def _program_constant(self, wanted: str, value: Tensor, t: TensorType) -> str:
        """Return the name of a tensor among the program's constants, which it may join."""
        at = t.device
        same = (k for k, v in self.constants.items() if v is value and self.types[k].device == at)
        name = next(same, None)
        if name is None:
            name = self.fresh(wanted, t)
            self.constants[name] = value
        return name

    def _call(self, f: Function, args: Sequence[str], results: Sequence[str]) -> None:
        if RESHAPE_ONLY in f.attr:
            self._view(results[0], args[0])
            return
        if COMPILER in f.attr:
            x = self.externals[f.name]
            self.lines.append(Extern(x.routine, tuple(results), tuple(args), x.attrs))
            return
        if NO_INLINE in f.attr:
            callee = self.called[f.name]
            types = callee.program.type
            weights = (self._program_constant(k, v, types[k]) for k, v in callee.constants)
            self.lines.append(Call(f.name, tuple(results), (*args, *weights)))
            return
        params = (b.name for b in self.loops[f.name].params)
        values = dict(zip(params, (*args, *results), strict=True))
        for k in self.kernels[f.name]:
            each = self.variants.get(k.name, (k,))
            launches = [self._launch(x, values, results[0]) for x in each]
            if len(each) == 1:
                self.lines += launches
                continue
            outputs = tuple(values[p.name] for p in k.params if p.name in k.outputs)
            self.lines.append(Dispatch(outputs, tuple((x.kernel, x.args) for x in launches)))

    def _launch(self, k: Kernel, values: dict[str, str], wanted: str) -> Launch:
        """Return a launch on ``values`` by the names of parameters; scratch is added to them."""
        assert self.used.setdefault(k.name, k) is k, f"two kernels are called {k.name}"
        for p in k.params:
            if p.name not in values:
                t = TensorType(p.dtype, p.shape, self.types[wanted].device)
                values[p.name] = self.fresh(f"{wanted}_{p.name}", t)
        return Launch(k.name, tuple(values[p.name] for p in k.params))

    def _view(self, value: str, of: str, offset: Dim = 0) -> None:
        self.root[value] = self.root.get(of, of)
        self.lines.append(View(value, of, offset))

    def _copy(self, value: str, source: str) -> None:
        if value != source:
            self.lines.append(Copy(value, source))

    def _copied(self, source: str) -> str:
        """Return a new value with the bytes of another."""
        copy = self.fresh(f"{source}_copy", self.types[source])
        self.lines.append(Copy(copy, source))
        return copy

    # ---- branches

    def _if(self, n: Node, args: Sequence[str], results: Sequence[str]) -> None:
        blocks: list[tuple[Line, ...]] = []
        for name in control.references(n):
            outer = self._inside()
            self._branch(n, self.functions[name], args[1:], results)
            blocks.append(self._outside(outer))
        self.lines.append(If(args[0], *blocks))

    def _branch(self, n: Node, f: Function, args: Sequence[str], results: Sequence[str]) -> None:
        new = control.rebound(n)
        own = givers(f, self.functions)
        grows = [not set(new).isdisjoint(dims.free(t.shape)) for t in n.types]
        wanted: dict[str, str] = {}
        for r, value, growing in zip(results, f.results, grows, strict=True):
            if value in own and not growing:
                wanted.setdefault(value, r)
        given = self.run(f, args, wanted)
        for r, value, growing in zip(results, given, grows, strict=True):
            if not growing:
                self._copy(r, value)
        if new:
            pairs = [(r, v) for r, v, g in zip(results, given, grows, strict=True) if g]
            self._carry(n.types, [self.types[v] for v in given], pairs, new, [*args, *results])

    def _carry(
        self,
        want: Sequence[TensorType],
        got: Sequence[TensorType],
        pairs: Sequence[tuple[str, str]],
        new: Sequence[str],
        others: Sequence[str],
    ) -> None:
        """Append the ``Carry`` of values whose sizes change, and of the sizes."""
        sizes = control.solve(want, got, new)
        taken = {*others, *self.constants}
        moved: list[tuple[str, str]] = []
        for r, value in pairs:
            if value in taken or value in self.root:
                moved.append((r, self._copied(value)))
            else:
                moved.append((r, value))
                taken.add(value)
        self.lines.append(Carry(tuple(moved), tuple(sizes.items())))

    # ---- loops

    def _while(self, n: Node, args: Sequence[str], results: Sequence[str]) -> None:
        k, new = control.count(n, "carried"), control.rebound(n)
        first, captures = args[:k], args[k:]
        grows = [not set(new).isdisjoint(dims.free(t.shape)) for t in n.types]
        for r, a, growing in zip(results, first, grows, strict=True):
            if not growing:
                self._copy(r, a)
        if new:
            # the loop's first values may be used after it
            pairs = [
                (r, self._copied(a)) for r, a, g in zip(results, first, grows, strict=True) if g
            ]
            self._carry(n.types, [self.types[a] for a in first], pairs, new, ())
        test, body = (self.functions[name] for name in control.references(n))
        outer = self._inside()
        (cond,) = self.run(test, [*results, *captures])
        if cond in self.root and cond not in captures:
            cond = self._copied(cond)
        tested = self._outside(outer)
        outer = self._inside()
        self._round(n, body, results, captures, grows)
        self.lines, rounds = outer, tuple(self.lines)
        self.lines.append(While(tested, cond, rounds))

    def _round(
        self,
        n: Node,
        body: Function,
        carried: Sequence[str],
        captures: Sequence[str],
        grows: Sequence[bool],
    ) -> None:
        new = control.rebound(n)
        wanted = overwritten(body, carried, grows, self.functions)
        given = self.run(body, [*carried, *captures], wanted, wanted.values())
        fixed = [(r, v) for r, v, g in zip(carried, given, grows, strict=True) if not g]
        self._assign(fixed)
        if new:
            pairs = [(r, v) for r, v, g in zip(carried, given, grows, strict=True) if g]
            got = [self.types[v] for v in given]
            self._carry(n.types, got, pairs, new, [*carried, *captures])

    def _assign(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Append copies that together have the effect of copying all pairs at once."""
        left = [(r, v) for r, v in pairs if self.root.get(v, v) != r]
        while left:
            read = Counter(self.root.get(v, v) for _, v in left)
            free = next(((r, v) for r, v in left if not read[r]), None)
            if free is None:  # a cycle: copy one value aside
                r, v = left[0]
                left[0] = (r, self._copied(v))
                continue
            self._copy(*free)
            left.remove(free)

    def _scan(self, n: Node, args: Sequence[str], results: Sequence[str]) -> None:
        k, s = control.count(n, "states"), control.count(n, "scanned")
        length = control.extent(n)
        body = self.functions[control.references(n)[0]]
        states, stacked = results[:k], results[k:]
        for r, a in zip(states, args[:k], strict=True):
            self._copy(r, a)
        index = self._index(n, length)
        outer = self._inside()
        slices = [self._slice(x, index) for x in args[k : k + s]]
        rows = [self._row(y, index) for y in stacked]
        wanted = overwritten(body, states, [False] * k, self.functions)
        occupied = list(wanted.values())
        own = givers(body, self.functions)
        for row, value in zip(rows, body.results[k:], strict=True):
            if value in own and self._aligned(row):
                wanted.setdefault(value, row)
        given = self.run(body, [*states, *slices, *args[k + s :]], wanted, occupied)
        for row, value in zip(rows, given[k:], strict=True):
            self._copy(row, value)
        self._assign(list(zip(states, given[:k], strict=True)))
        self.lines, rounds = outer, tuple(self.lines)
        self.lines.append(Repeat(index, length, rounds))

    def _row(self, of: str, index: str) -> str:
        """Return a view of the part of a stacked value that belongs to one iteration."""
        t = self.types[of]
        row = t.with_shape(*t.shape[1:])
        view = self.fresh(f"{of}_row", row)
        self._view(view, of, dims.mul(dims.symbol(index), row.nbytes))
        return view

    def _slice(self, of: str, index: str) -> str:
        row = self._row(of, index)
        return row if self._aligned(row) else self._copied(row)

    def _aligned(self, row: str) -> bool:
        """Return whether every row of this type starts where a kernel's buffer may start."""
        size = self.types[row].nbytes
        return isinstance(size, int) and size % self.access == 0
