"""The part of a wrapper that runs: each line of the program as a line of Python."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import assert_never

import sympy

from codegen.emit.binding import shape, used_dims
from codegen.emit.integers import code, quoted, tuple_of
from refimpl.ir.graph import Attr
from refimpl.ir.program import (
    Allocate,
    Assert,
    Copy,
    Extern,
    Free,
    Launch,
    Line,
    PlacementAllocate,
    Program,
    Return,
    Reuse,
    View,
)
from refimpl.ir.types import DType, Tensor

_CALL = """\
Run on an engine and return the results.

    `kernels` are TEXT as the engine loaded it, `weights` the bytes of the file beside this one,
    both if at hand; `externs` the library routines by name, each a function of the engine,
    output buffers, input buffers and attributes.
    """


@dataclass(slots=True)
class Writer:
    """Writes the function ``call``; the tables give names in Python and in the kernel text."""

    program: Program
    python: Mapping[str, str]
    kernels: Mapping[str, str]
    _root: dict[str, str] = field(default_factory=dict[str, str])  # value -> its allocation's first
    _owner: dict[str, str] = field(default_factory=dict[str, str])  # view -> whose bytes it shows
    _held: dict[str, set[str]] = field(default_factory=dict[str, set[str]])  # root -> its owners

    def call(self) -> Iterator[str]:
        """Yield the lines of the function."""
        p = self.program
        yield "def call(engine, inputs, kernels=None, weights=None, externs=None):"
        yield f'    """{_CALL}"""'
        yield "    arrays, sizes = bind(inputs)"
        for d in used_dims(p):
            yield f"    {self.python[d.name]} = sizes[{quoted(d.name)}]"
        yield "    if kernels is None:"
        yield "        kernels = engine.load(TEXT)"
        for i, v in enumerate(p.inputs):
            yield f"    {self._own(v)} = engine.upload(arrays[{i}]){self._remark(v)}"
        if p.constants:
            yield "    weights = constants(weights)"
        for i, (v, _) in enumerate(p.constants):
            yield f"    {self._own(v)} = engine.upload(weights[{i}]){self._remark(v)}"
        for line in p.lines:
            yield from self._line(line)

    def _own(self, v: str) -> str:
        self._root[v] = v
        self._held[v] = {v}
        return self.python[v]

    def _take_over(self, v: str, over: str) -> str:
        """Let a value have the allocation of another, and return the allocation."""
        root = self._root[v] = self._root[over]
        self._held[root].discard(self._owner.get(over, over))
        self._held[root].add(v)
        return self.python[root]

    def _free(self, v: str) -> str:
        root = self._root[v]
        self._held[root].discard(v)
        if self._held[root]:
            return f"    # {self.python[v]} is dead; others live on in {self.python[root]}"
        del self._held[root]
        return f"    engine.free({self.python[root]})"

    def _remark(self, v: str, more: str = "") -> str:
        return f"  # {self.program.type[v]}{more}"

    def _bytes(self, v: str) -> str:
        return code(self.program.type[v].nbytes, self.python)

    def _line(self, line: Line) -> Iterator[str]:
        py = self.python
        match line:
            case Allocate(v):
                yield f"    {self._own(v)} = engine.allocate({self._bytes(v)}){self._remark(v)}"
            case Free(v):
                yield self._free(v)
            case Reuse(v, over):
                self._take_over(v, over)
                yield f"    {py[v]} = {py[over]}{self._remark(v, ', in place of the dead')}"
            case PlacementAllocate(v, over, offset):
                view = f"{self._take_over(v, over)}, {code(offset, py)}, {self._bytes(v)}"
                remark = self._remark(v, f", on the bytes of {py[over]}")
                yield f"    {py[v]} = engine.view({view}){remark}"
            case View(v, of):
                self._root[v] = self._root[of]
                self._owner[v] = self._owner.get(of, of)
                yield f"    {py[v]} = {py[of]}{self._remark(v, ', the same bytes')}"
            case Launch(kernel, args):
                given = ", ".join(py[a] for a in args)
                yield f"    kernels.launch({quoted(self.kernels[kernel])}, [{given}], sizes)"
            case Copy(v, source):
                yield f"    engine.copy({py[v]}, {py[source]})"
            case Assert(lhs, rhs, message):
                yield f"    calls.equal({code(lhs, py)}, {code(rhs, py)}, {quoted(message)})"
            case Return(values):
                yield from self._return(values)
            case Extern(name, outputs, inputs, attrs):
                routine = f"calls.routine(externs, {quoted(name)})"
                outs, ins = (", ".join(py[v] for v in vs) for vs in (outputs, inputs))
                given = ", ".join(f"{quoted(k)}: {self._attr(a)}" for k, a in attrs)
                yield f"    {routine}(engine, [{outs}], [{ins}], {{{given}}})"
            case _:
                assert_never(line)

    def _return(self, values: tuple[str, ...]) -> Iterator[str]:
        types = self.program.type
        yield "    results = ["
        for v in values:
            t = types[v]
            at = shape(t.shape, self.python)
            yield f"        engine.download({self.python[v]}, DType.{t.dtype.name}, {at}),"
        yield "    ]"
        yield f"    for buffer in {tuple_of(self.python[v] for v in self._held)}:"
        yield "        engine.free(buffer)"
        yield "    return results"

    def _attr(self, a: Attr) -> str:
        match a:
            case DType():
                return f"DType.{a.name}"
            case Tensor():
                return constant(a)
            case sympy.Expr():
                return code(a, self.python)
            case tuple():
                return tuple_of(map(self._attr, a))
            case float() if a - a != 0:
                return f'float("{a}")'
            case str():
                return quoted(a)
            case _:
                return repr(a)


def constant(t: Tensor) -> str:
    """Return the call that makes a constant's array."""
    data = base64.b64encode(t.data).decode()
    return f"calls.constant(DType.{t.dtype.name}, {t.shape}, {quoted(data)})"
