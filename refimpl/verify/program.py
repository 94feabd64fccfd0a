"""The laws of programs, and those of ``sizes``; kernels obey ``loop``'s.

| law | says |
|---|---|
| P-kernel-twice | kernels have names of their own |
| P-function-twice | functions have names of their own |
| P-name-twice | a value has one type; inputs, constants and outputs are each listed once |
| P-untyped | every value has a type |
| P-constant | a constant has the type and as many bytes as its data |
| P-undefined | a value is used after the line that makes it, in the same block or one inside |
| P-made-twice | a value or arena is made once, except by carries; inputs and constants never |
| P-gone | a value is not used after its bytes are freed or another's |
| P-stale | a value is not used after a symbol in its sizes has changed, unless carried along |
| P-unbound | a size is used after its symbols have values |
| P-bind | a symbol has its values from the inputs or caller, one bind, one repeat, or carries |
| P-scalar | a bind reads an i64 scalar; a condition is a bool scalar |
| P-free | what is freed owns its bytes: no input, constant or view, and not yet freed |
| P-over | the bytes taken over are those of a value that has an allocation of its own |
| P-reuse | a reused allocation keeps its type |
| P-fits | what is placed ends within the allocation or arena |
| P-arena | a value is placed in an arena of its device that is there |
| P-overlap | values that live in one arena at one time share no byte |
| P-align | what is placed starts at a multiple of 256 bytes, what a launch or call is given of 16 |
| P-stack | an arena on the stack has 100 KiB at most |
| P-view | a view shows bytes of its value alone, by equal sizes or an assertion above |
| P-kernel | a launch names a kernel of the program |
| P-args | arguments have the number, dtypes and element counts of the kernel's parameters |
| P-dims | a kernel's dims, and a function's, are those of who runs it, of no wider range |
| P-callee | a call names a function of the program further up |
| P-call-types | what a call reads and writes has the types of the function's inputs and outputs |
| P-written | inputs, constants and views of them are not written |
| P-alias | what a launch writes shares no bytes with its other arguments |
| P-inplace | an output in place has the bytes of an operand that dies, read no later than written |
| P-allocates | what a routine allocates are outputs of it |
| P-stream | streams are counted from 0, and none waits for itself |
| P-wait | what one stream writes, another touches, or frees for others, after a wait |
| P-unwritten | what is read or returned has been written; outputs, when a function ends |
| P-copy | a copy has its source's type |
| P-carry | a carried value takes the whole allocation of one of its type at the new sizes |
| P-repeat | an index's declared range holds every iteration |
| P-left | a block frees what it makes, unless it is carried |
| P-branches | both branches leave the same values alive; symbols that both bind stay bound |
| P-loop | an iteration leaves alive what it found alive |
| P-return | the last line, and no other, is a return, of values that own their bytes, each once |
| P-outputs | a function returns no value: it writes its outputs |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.program import (
    Allocate,
    Arena,
    Assert,
    Bind,
    Call,
    Carry,
    Copy,
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
    View,
    Wait,
    While,
)
from didyma.refimpl.ir.text import show_instruction
from didyma.refimpl.verify import loop
from didyma.refimpl.verify.blocks import BlockVerifier
from didyma.refimpl.verify.ranges import Evidence
from didyma.refimpl.verify.symbols import binders


def verify(p: Program, kernels: bool = True) -> Evidence:
    """Raise DidymaError at the first broken law; ``kernels`` says whether to verify those too.

    Returns how many questions about symbolic sizes were proved, and how many sampled.
    """
    verifier = _Verifier(p)
    verifier.program(kernels)
    return verifier.ranges.evidence + verifier.below


class _Verifier(BlockVerifier):
    """``path`` is the way to the present line: line numbers, outer ones first."""

    path: tuple[str, ...] = ()
    below = Evidence()  # of the program's functions

    def program(self, kernels: bool) -> None:
        for name, t in self.p.types:
            if name in self.types:
                raise self.broken("P-name-twice", f"%{name} again", "one type for a value")
            self.sizes.shape(t.shape, t.dtype, f"{self.at}, %{name}")
            self.types[name] = t
        for k in self.p.kernels:
            if k.name in self.kernels:
                raise self.broken("P-kernel-twice", f"@{k.name} again", "names of their own")
            if kernels:
                loop.verify(k)
            self.kernels[k.name] = k
        self._functions()
        for name in self.p.inputs:
            self.given(name)
        for name in self.p.outputs:
            self.given(name, output=True)
        for name, tensor in self.p.constants:
            t = self.given(name)
            if t.dtype is not tensor.dtype or t.shape != tensor.shape:
                raise self.broken("P-constant", f"%{name}: {t}", f"{tensor.type}, as its data")
            if tensor.type.nbytes != len(tensor.data):
                got = f"%{name}: {len(tensor.data)} bytes"
                raise self.broken("P-constant", got, f"{tensor.type.nbytes} bytes for {t}")
        lines = self.p.lines
        self._binders()
        if not lines or not isinstance(lines[-1], Return):
            got = show_instruction(lines[-1]) if lines else "no line"
            raise self.broken("P-return", f"{got} at the end", "a return at the end")
        self.lines(lines)

    def _functions(self) -> None:
        for f in self.p.functions:
            if f.name in self.functions:
                raise self.broken("P-function-twice", f"@{f.name} again", "names of their own")
            inner = _Verifier(replace(f, kernels=self.p.kernels), self.functions)
            inner.program(kernels=False)
            self.below += inner.ranges.evidence
            self.functions[f.name] = f

    def _binders(self) -> None:
        """Law P-bind."""
        known: dict[str, Line | None] = dict.fromkeys(self.state.bound)
        for name, s in binders(self.p.lines):
            self.sizes.declared(dims.symbol(name), self.at)
            if name not in known:
                known[name] = s
                continue
            by = known[name]
            if not (isinstance(s, Carry) and isinstance(by, Carry)):
                other = "the inputs" if by is None else f"`{show_instruction(by)}`"
                got = f"`{show_instruction(s)}` and {other}"
                raise self.broken("P-bind", got, f"one for {name}")

    def lines(self, lines: Sequence[Line], part: str = "") -> None:
        """Verify lines one after another; messages count them from 1."""
        before = self.path
        for i, s in enumerate(lines):
            self.path = (*before, f"{part}{i + 1}")
            try:
                self._line(s, not before and i == len(lines) - 1)
            except DidymaError as e:
                if e.where != self.at:
                    raise
                # the line's text is made when a law is broken
                where = f"{self.at}, line {' '.join(self.path)}: {show_instruction(s)}"
                raise DidymaError(e.code, where, got=e.got, want=e.want, help=e.help) from None
        self.path = before

    def _line(self, s: Line, last: bool) -> None:
        match s:
            case Allocate() | Free() | Reuse() | PlacementAllocate() | Arena() | Place() | View():
                self.memory(s)
            case Launch():
                self.launch(s)
            case Wait(stream, on):
                self.wait(stream, on)
            case Extern():
                self.extern(s)
            case Call():
                self.call(s)
            case Assert(lhs, rhs):
                self.sizes.declared((lhs, rhs), self.at)
                self.bound((lhs, rhs))
                self.equal |= {(lhs, rhs), (rhs, lhs)}
            case Copy(value, source):
                self.read((source,))
                self.write((value,), (source,))
                if self.types[value] != self.types[source]:
                    got, want = str(self.types[value]), str(self.types[source])
                    raise self.broken("P-copy", got, f"{want}, as %{source}")
            case Bind() | Carry() | If() | While() | Repeat():
                self.control(s)
            case Return(values):
                self.give_back(values, last)
            case _:
                assert_never(s)
