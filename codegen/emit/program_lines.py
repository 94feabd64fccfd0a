"""The part of a wrapper that runs: each line of the program as a line of Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from codegen.emit.binding import shape, used_dims
from codegen.emit.integers import code, quoted, tuple_of
from refimpl.errors import DidymaError
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


@dataclass(slots=True)
class Writer:
    """Writes the function ``call``; the tables give names in Python and in the kernel text."""

    program: Program
    python: Mapping[str, str]
    kernels: Mapping[str, str]
    _owner: dict[str, str] = field(default_factory=dict[str, str])  # value -> whose bytes it has

    def call(self) -> Iterator[str]:
        """Yield the lines of the function."""
        p = self.program
        yield "def call(engine, inputs, kernels=None, weights=None):"
        yield '    """Run on an engine; `kernels` are TEXT as the engine loaded it, if at hand."""'
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
        self._owner[v] = v
        return self.python[v]

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
                yield f"    engine.free({py[self._owner.pop(v)]})"
            case Reuse(v, over):
                self._owner[v] = self._owner.pop(over)
                yield f"    {py[v]} = {py[over]}{self._remark(v, ', on the bytes of the dead')}"
            case PlacementAllocate(v, over, offset):
                self._owner[v] = owner = self._owner.pop(over)
                at = code(offset, py)
                view = f"engine.view({py[owner]}, {at}, {self._bytes(v)})"
                yield f"    {py[v]} = {view}{self._remark(v, f', on the bytes of {py[over]}')}"
            case View(v, of):
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
            case Extern(name):
                raise DidymaError(
                    "extern-unknown", name, got=f"a call of {name}", want="kernels alone",
                )  # fmt: skip
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
        yield f"    for buffer in {tuple_of(self.python[v] for v in self._owned())}:"
        yield "        engine.free(buffer)"
        yield "    return results"

    def _owned(self) -> list[str]:
        """Return the allocations still held, each once."""
        return list(dict.fromkeys(self._owner.values()))
