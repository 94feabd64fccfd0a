"""Emit the lines of a program as lines of Python."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import sympy

from didyma.codegen.emit.binding import given_dims, shape
from didyma.codegen.emit.guards import device_of, guarded, guarding
from didyma.codegen.emit.holders import Holders, last_uses, unread
from didyma.codegen.emit.integers import code, quoted, tuple_of
from didyma.codegen.emit.line_map import Row
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.aliases import strided
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.program import (
    Allocate,
    Arena,
    Assert,
    Bind,
    Call,
    Carry,
    Copy,
    Dispatch,
    Extern,
    Free,
    If,
    Launch,
    Line,
    Place,
    PlacementAllocate,
    Program,
    Repeat,
    Return,
    Reuse,
    Strided,
    View,
    Wait,
    While,
)
from didyma.refimpl.ir.types import DType, Tensor, TensorType
from didyma.refimpl.verify.symbols import caller_symbols

_CALL = """\
Run on an engine and return the results.

    `kernels` and `weights` are the kernels and the constants as the engine loaded them, for many
    calls to share; constants that are not given are loaded for this call.  `externs` are the
    library routines by name, each a function of the engine, output buffers, input buffers and
    attributes.
    """
_DISPATCH = """\
`dispatch` launches one of several kernels that compute the same; where it is not given,
    the first of them runs.
    """


@dataclass(slots=True)
class LineWriter:
    """Writes the function ``call``, or one that it rt.

    ``python``, ``sizes``, ``functions`` and ``kernels`` map values, symbols, functions and kernels
    to their names in the text, and ``arrays`` values that results share to the names of their
    arrays.  ``streams`` is true if work runs on several, ``called`` for a
    called function, and ``dispatches`` if some line of the whole program chooses among kernels.
    """

    program: Program
    python: Mapping[str, str]
    sizes: Mapping[str, str]
    kernels: Mapping[str, str]
    functions: Mapping[str, str]
    arrays: Mapping[str, str] = field(default_factory=dict[str, str])
    streams: bool = False
    called: bool = False
    dispatches: bool = False
    _holders: Holders = field(default_factory=Holders)
    _pad: str = "    "
    _guard: str = ""  # the device of the guard that is open
    _types: Mapping[str, TensorType] = field(init=False)

    def __post_init__(self) -> None:
        self._types = self.program.type

    def call(self) -> Iterator[str]:
        """Yield the lines of the function."""
        p = self.program
        more, text = (", dispatch=rt.first", _DISPATCH) if self.dispatches else ("", "")
        yield f"def run(engine, inputs, kernels, weights=None, externs=None{more}):"
        yield f'    """{_CALL}{text}"""'
        yield "    arrays, sizes = bind(inputs)"
        for d in given_dims(p):
            yield f"    {self.sizes[d.name]} = sizes[{quoted(d.name)}]"
        idle = unread(p)
        for i, v in enumerate(p.inputs):
            if v in self.arrays:
                yield f"    {self.arrays[v]} = arrays[{i}]{self._remark(v)}"
            if v not in idle:
                text = f"{self._own(v)} = engine.upload(arrays[{i}]){self._remark(v)}"
                yield from (f"    {x}" for x in guarded(self._types[v].device, text))
        yield "    del inputs, arrays"
        if p.constants:
            yield "    loaded = upload(engine) if weights is None else weights"
        for i, (v, _) in enumerate(p.constants):
            self._holders.place(v)
            yield f"    {self.python[v]} = loaded[{i}]{self._remark(v)}"
        last = {} if self.streams else last_uses(p)
        for i, line in enumerate(p.lines):
            yield from self._lines((line,))
            for v in last.get(i, ()):
                yield f"{self._inside()}engine.free({self._holders.free(v)})"

    def function(self) -> Iterator[str]:
        """Yield the lines of a function that ``call`` rt."""
        p, py = self.program, self.python
        sizes = [d.name for d in caller_symbols(p)]
        values = (*p.inputs, *p.outputs)
        params = ", ".join((*(self.sizes[s] for s in sizes), *(py[v] for v in values)))
        yield f"def {self.functions[p.name]}({self._means()}, {params}):"
        outputs = ", ".join(py[v] for v in p.outputs)
        yield f'    """Write {outputs}."""'
        asked = (s for s in sizes if self._asked(s))
        yield f"    sizes = {{{', '.join(f'{quoted(s)}: {self.sizes[s]}' for s in asked)}}}"
        for v in values:
            self._holders.place(v)
        if self.streams:
            yield "    engine.join()"
        yield from self._lines(p.lines)

    # ---- blocks

    def _lines(self, lines: Sequence[Line]) -> Iterator[str]:
        for line in lines:
            device = device_of(line, self._types)
            if device is not None and device != self._guard:
                if device:
                    yield Row.of(f"{self._pad}{guarding(device)}", line)
                self._guard = device
            pad = self._inside()  # a block inside has guards of its own
            for text in self._line(line):
                origin = text.origin if isinstance(text, Row) else line
                yield Row.of(f"{pad}{text}", origin)

    def _inside(self) -> str:
        """Return the spaces before a line: one level more inside a guard."""
        return f"{self._pad}    " if self._guard else self._pad

    def _block(self, lines: Sequence[Line]) -> Iterator[str]:
        """Yield the lines of a block, one level deeper; its arenas are freed at its end."""
        outer = self._holders.arenas
        self._holders.arenas = {}
        self._pad, pad = "    ", self._pad
        self._guard = ""
        if self.streams:
            yield "    engine.join()"
        empty = not lines and not self.streams
        yield from (["    pass"] if empty else self._lines(lines))
        for name, give_back in self._holders.arenas.items():
            yield f"    engine.{give_back}({name})"
        if self.streams:
            yield "    engine.join()"
        self._pad, self._guard = pad, ""
        self._holders.arenas = outer

    def _if(self, s: If) -> Iterator[str]:
        yield f"if rt.truth(engine, {self.python[s.cond]}):"
        before = self._holders.copy()
        yield from self._block(s.then)
        self._holders = before
        if s.other or self.streams:  # streams wait for one another on either side
            yield "else:"
            yield from self._block(s.other)

    def _while(self, s: While) -> Iterator[str]:
        yield "while True:"
        if s.test or self.streams:
            yield from self._block(s.test)
        yield f"    if not rt.truth(engine, {self.python[s.cond]}):"
        yield "        break"
        if s.body:
            yield from self._block(s.body)

    def _repeat(self, s: Repeat) -> Iterator[str]:
        name = self.sizes[s.index]
        if self.streams:
            yield "engine.join()"  # also where the loop runs no iteration
        yield f"for {name} in range({code(s.extent, self.sizes)}):"
        size = [f"    {line}" for line in self._set_size(s.index)]
        yield from size
        if s.body or self.streams or not size:
            yield from self._block(s.body)

    # ---- memory

    def _own(self, v: str) -> str:
        self._holders.own(v, self.python[v])
        return self.python[v]

    def _remark(self, v: str, more: str = "") -> str:
        return f"  # {self._types[v]}{more}"

    def _bytes(self, v: str) -> str:
        return code(self._types[v].nbytes, self.sizes)

    def _free(self, v: str) -> Iterator[str]:
        holder = self._holders.free(v)
        if holder:
            yield f"engine.free({holder})"
        elif others := self._holders.others(v):  # none in an arena
            yield f"# {self.python[v]} is dead; others live on in {others}"

    def _view(self, s: View) -> Iterator[str]:
        py, types = self.python, self._types
        v, of = s.value, s.of
        self._holders.view(v, of)
        same = dims.equal(types[v].nbytes, types[of].nbytes)
        if isinstance(s.offset, int) and s.offset == 0 and same:
            yield f"{py[v]} = {py[of]}{self._remark(v, ', the same bytes')}"
        else:
            view = f"{py[of]}, {code(s.offset, self.sizes)}, {self._bytes(v)}"
            yield f"{py[v]} = engine.view({view}){self._remark(v, f', part of {py[of]}')}"

    def _memory(
        self, line: Allocate | Free | Reuse | PlacementAllocate | Arena | Place | View
    ) -> Iterator[str]:
        py, holders = self.python, self._holders
        match line:
            case Allocate(v):
                yield f"{self._own(v)} = engine.allocate({self._bytes(v)}){self._remark(v)}"
            case Free(v):
                yield from self._free(v)
            case Reuse(v, over):
                holders.take_over(v, over)
                yield f"{py[v]} = {py[over]}{self._remark(v, ', in place of the dead')}"
            case PlacementAllocate(v, over, offset):
                view = f"{holders.take_over(v, over)}, {code(offset, self.sizes)}, {self._bytes(v)}"
                remark = self._remark(v, f", on the bytes of {py[over]}")
                yield f"{py[v]} = engine.view({view}){remark}"
            case Arena(name, nbytes, _, stack):
                how, back = ("stack", "unstack") if stack else ("allocate", "free")
                holders.arenas[py[name]] = back
                yield f"{py[name]} = engine.{how}({code(nbytes, self.sizes)})"
            case Place(v, arena, offset):
                holders.place(v)
                view = f"{py[arena]}, {code(offset, self.sizes)}, {self._bytes(v)}"
                yield f"{py[v]} = engine.view({view}){self._remark(v)}"
            case View():
                yield from self._view(line)

    def _carry(self, s: Carry) -> Iterator[str]:
        py = self.python
        moved = [(v, source, self._holders.holder(source)) for v, source in s.values]
        for v, _, _ in moved:
            if variable := self._holders.release(v):
                yield f"engine.free({variable})"
        for v, source, holder in moved:
            self._holders.hand_over(source)
            self._holders.own(v, py[v])
            yield f"{py[v]} = {holder}{self._remark(v, ', carried')}"
        if s.dims:
            new = ", ".join(self._within(name, code(d, self.sizes)) for name, d in s.dims)
            yield f"{', '.join(self.sizes[name] for name, _ in s.dims)} = {new}"
        for name, _ in s.dims:
            yield from self._set_size(name)

    def _set_size(self, name: str) -> Iterator[str]:
        """Yield the line that gives kernels a size, if one needs it."""
        if self._asked(name):
            yield f"sizes[{quoted(name)}] = {self.sizes[name]}"

    def _asked(self, name: str) -> bool:
        return any(d.name == name for k in self.program.kernels for d in k.dims)

    def _within(self, name: str, value: str) -> str:
        (d,) = (d for d in self.program.dims if d.name == name)
        return f"rt.within({quoted(name)}, {value}, {d.lo}, {d.hi})"

    # ---- work

    def _line(self, line: Line) -> Iterator[str]:
        py = self.python
        match line:
            case Allocate() | Free() | Reuse() | PlacementAllocate() | Arena() | Place() | View():
                yield from self._memory(line)
            case Strided(v, of):
                if of in self.program.inputs:
                    yield f"{py[v]} = {self._shown(line)}{self._remark(v, f', a view of {of}')}"
            case Launch():
                yield from self._inplace(line)
                launched = f"{quoted(self.kernels[line.kernel])}, {self._list(line.args)}"
                yield f"kernels.launch({launched}, sizes{self._on(line)})"
            case Dispatch():
                yield from self._dispatch(line)
            case Copy(v, source):
                yield f"engine.copy({py[v]}, {py[source]})"
            case Wait(stream, on):
                yield f"engine.wait({stream}, {on})"
            case Assert(lhs, rhs, message):
                both = f"{code(lhs, self.sizes)}, {code(rhs, self.sizes)}"
                yield f"rt.equal({both}, {quoted(message)})"
            case Bind(dim, v):
                yield f"{self.sizes[dim]} = {self._within(dim, f'rt.number(engine, {py[v]})')}"
                yield from self._set_size(dim)
            case Carry():
                yield from self._carry(line)
            case If():
                yield from self._if(line)
            case While():
                yield from self._while(line)
            case Repeat():
                yield from self._repeat(line)
            case Return(values):
                yield from self._return(values)
            case Extern():
                yield from self._extern(line)
            case Call():
                yield from self._call(line)
            case _:
                assert_never(line)

    def _inplace(self, s: Launch | Dispatch) -> Iterator[str]:
        py = self.python
        for v, source in s.inplace:
            self._holders.inherit(v, source)
            yield f"{py[v]} = {py[source]}{self._remark(v, ', written over what is read')}"

    def _list(self, values: Sequence[str]) -> str:
        return f"[{', '.join(self.python[v] for v in values)}]"

    def _on(self, s: Launch | Dispatch) -> str:
        return f", {s.stream}" if s.stream else ""

    def _means(self) -> str:
        return "engine, kernels, externs" + (", dispatch" if self.dispatches else "")

    def _dispatch(self, s: Dispatch) -> Iterator[str]:
        yield from self._inplace(s)
        outputs = ", ".join(f"({self.python[v]}, {self._bytes(v)})" for v in s.outputs)
        yield f"dispatch(engine, kernels, sizes, [{outputs}], ["
        for kernel, args in s.variants:
            yield f"    ({quoted(self.kernels[kernel])}, {self._list(args)}),"
        yield f"]{self._on(s)})"

    def _call(self, s: Call) -> Iterator[str]:
        sizes = (d.name for d in caller_symbols(self.program.function[s.callee]))
        values = (self.python[v] for v in (*s.inputs, *s.outputs))
        args = ", ".join((*(self.sizes[d] for d in sizes), *values))
        joins = ["engine.join()"] if self.streams else []
        yield from joins
        yield f"{self.functions[s.callee]}({self._means()}, {args})"
        yield from joins

    def _extern(self, s: Extern) -> Iterator[str]:
        py = self.python
        for v in s.allocates:
            self._own(v)
        made = f"{', '.join(py[v] for v in s.allocates)} = " if s.allocates else ""
        routine = f"{made}rt.routine(externs, {quoted(s.name)})"
        given_outputs = (v for v in s.outputs if v not in s.allocates)
        outs, ins = (", ".join(py[v] for v in vs) for vs in (given_outputs, s.inputs))
        given = ", ".join(f"{quoted(k)}: {self._attr(a)}" for k, a in s.attrs)
        yield f"{routine}(engine, [{outs}], [{ins}], {{{given}}})"

    def _return(self, values: tuple[str, ...]) -> Iterator[str]:
        if self.streams:
            yield "engine.join()"
        if not self.called:
            for v in self.arrays:
                if v not in self.program.inputs:
                    yield f"{self.arrays[v]} = {self._download(v)}"
            yield "results = ["
            for v in values:
                yield f"    {self._result(v)},"
            yield "]"
        arenas = [a for a, back in self._holders.arenas.items() if back == "free"]
        if buffers := [*self._holders.values, *arenas]:
            yield f"for buffer in {tuple_of(buffers)}:"
            yield "    engine.free(buffer)"
        for name, back in self._holders.arenas.items():
            if back != "free":
                yield f"engine.{back}({name})"
        if self.called:
            return
        if self.program.constants:
            yield "if weights is None:"
            yield "    rt.unload(engine, loaded)"
        yield "return results"

    def _result(self, v: str) -> str:
        if v in self.arrays:
            return self.arrays[v]
        line = strided(self.program).get(v)
        if line is None:
            return self._download(v)
        return self.python[v] if line.of in self.program.inputs else self._shown(line)

    def _download(self, v: str) -> str:
        t = self._types[v]
        return f"engine.download({self.python[v]}, {quoted(t.dtype)}, {shape(t.shape, self.sizes)})"

    def _shown(self, line: Strided) -> str:
        sizes = self.sizes
        at = shape(self._types[line.value].shape, sizes), shape(line.strides, sizes)
        return f"rt.strided({self.arrays[line.of]}, {', '.join(at)}, {code(line.offset, sizes)})"

    def _attr(self, a: Attr) -> str:
        match a:
            case DType():
                return quoted(a)
            case Tensor():
                return constant(a)
            case sympy.Expr():
                return code(a, self.sizes)
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
    return f"rt.constant({quoted(t.dtype)}, {t.shape}, {quoted(data)})"
