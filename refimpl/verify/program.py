"""The laws of programs, and those of ``sizes``; kernels obey those of ``kernel``.

| law | says |
|---|---|
| P-kernel-twice | no two kernels have the same name |
| P-function-twice | no two functions have the same name |
| P-name-twice | a value has one type; inputs, constants and outputs are each listed once |
| P-untyped | every value has a type |
| P-constant | a constant has the type and as many bytes as its data |
| P-undefined | a value is used after the line that makes it, in the same block or one inside |
| P-made-twice | a value or arena is made once, except by carries; inputs and constants never |
| P-gone | a value is not used after its bytes are freed or given to another |
| P-stale | a value is not used after a symbol in its sizes has changed, unless carried along |
| P-unbound | a size is used where its symbols have values |
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
| P-view | a view shows bytes of its value alone: sizes are equal, or asserted above to be |
| P-strided | a strided value shows elements of one of its dtype, and is only returned |
| P-dispatch | a dispatch names two kernels or more, each once, which write all its outputs alone |
| P-kernel | a launch names a kernel of the program |
| P-text | a kernel of text has its meaning's buffers and symbols, and at most 1024 threads |
| P-args | arguments have the number, dtypes and element counts of the parameters, all buffers |
| P-dims | the dims of a kernel or function are declared where it runs, in no wider range |
| P-callee | a call names a function of the program that stands above |
| P-call-types | what a call reads and writes has the types of the function's inputs and outputs |
| P-written | inputs, constants and views of them are not written |
| P-alias | what a launch writes shares no bytes with its other arguments |
| P-inplace | an output in place has the bytes of an operand that dies, read no later than written |
| P-allocates | what a routine allocates are outputs of it |
| P-stream | streams are counted from 0, and none waits for itself |
| P-wait | what one stream writes, another reads, writes or frees after a wait |
| P-unwritten | what is read or returned has been written; outputs, when a function ends |
| P-copy | a copy has its source's type, but for the device |
| P-device | a launch, a routine and a view are on one device |
| P-carry | a carried value takes the whole allocation of one of its type at the new sizes |
| P-repeat | an index's declared range holds every iteration |
| P-left | a block frees what it makes, unless it is carried |
| P-branches | both branches leave the same values alive; symbols that both bind stay bound |
| P-loop | an iteration leaves alive what it found alive |
| P-return | the last line, and no other, is a return, of inputs and strided values, others once |
| P-outputs | a function returns no value: it writes its outputs |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import program as ir
from didyma.refimpl.ir.kernel import Kernel
from didyma.refimpl.ir.target import PORTABLE, Target
from didyma.refimpl.ir.text import show_instruction
from didyma.refimpl.verify import kernel
from didyma.refimpl.verify.blocks import Blocks
from didyma.refimpl.verify.memory import verify_memory
from didyma.refimpl.verify.ranges import Evidence
from didyma.refimpl.verify.symbols import binders
from didyma.refimpl.verify.values import Values
from didyma.refimpl.verify.work import Work


def verify(p: ir.Program, kernels: bool = True, target: Target = PORTABLE) -> Evidence:
    """Raise DidymaError at the first broken law; ``kernels`` says whether to verify those too.

    ``target`` is the one that the program is for.

    Returns how many questions about symbolic sizes were proved, and how many sampled.
    """
    verifier = _ProgramVerifier(p, target)
    verifier.program(kernels)
    return verifier.values.ranges.evidence + verifier.below


class _ProgramVerifier:
    """Verifies one program, line by line.

    ``functions`` are those of the program that stand above, where this is one itself.  ``path`` is
    the way to the present line: line numbers, outer ones first.
    """

    def __init__(
        self, p: ir.Program, target: Target, functions: Mapping[str, ir.Program] | None = None
    ) -> None:
        self.p = p
        self.values = Values(p, functions is not None, target)
        self.kernels: dict[str, Kernel] = {}
        self.functions = dict(functions or {})
        self.work = Work(self.values, self.kernels, self.functions)
        self.blocks = Blocks(self.values, self.lines)
        self.path: tuple[str, ...] = ()
        self.below = Evidence()  # of the program's functions

    def program(self, kernels: bool) -> None:
        values = self.values
        for name, t in self.p.types:
            if name in values.types:
                raise values.broken("P-name-twice", f"%{name} again", "one type for a value")
            values.sizes.shape(t.shape, t.dtype, f"{values.at}, %{name}")
            values.types[name] = t
        for k in self.p.kernels:
            if k.name in self.kernels:
                raise values.broken("P-kernel-twice", f"@{k.name} again", "one kernel of a name")
            if kernels:
                kernel.verify(k, self.values.target)
            self.kernels[k.name] = k
        self._functions()
        self._callers()
        self._binders()
        lines = self.p.lines
        if not lines or not isinstance(lines[-1], ir.Return):
            got = show_instruction(lines[-1]) if lines else "no line"
            raise values.broken("P-return", f"{got} at the end", "a return at the end")
        self.lines(lines)

    def _functions(self) -> None:
        for f in self.p.functions:
            if f.name in self.functions:
                raise self.values.broken(
                    "P-function-twice", f"@{f.name} again", "one function of a name"
                )
            inner = _ProgramVerifier(
                replace(f, kernels=self.p.kernels), self.values.target, self.functions
            )
            inner.program(kernels=False)
            self.below += inner.values.ranges.evidence
            self.functions[f.name] = f

    def _callers(self) -> None:
        """Let inputs, outputs and constants be the caller's."""
        values = self.values
        for name in self.p.inputs:
            values.lend(name)
        for name in self.p.outputs:
            values.lend(name, output=True)
        for name, tensor in self.p.constants:
            t = values.lend(name)
            if t.dtype is not tensor.dtype or t.shape != tensor.shape:
                raise values.broken("P-constant", f"%{name}: {t}", f"{tensor.type}, as its data")
            if tensor.type.nbytes != len(tensor.data):
                got = f"%{name}: {len(tensor.data)} bytes"
                raise values.broken("P-constant", got, f"{tensor.type.nbytes} bytes for {t}")

    def _binders(self) -> None:
        """Check law P-bind."""
        values = self.values
        bound: dict[str, ir.Line | None] = dict.fromkeys(values.state.bound)
        for name, s in binders(self.p.lines):
            values.sizes.declared(dims.symbol(name), values.at)
            if name not in bound:
                bound[name] = s
                continue
            before = bound[name]
            if not (isinstance(s, ir.Carry) and isinstance(before, ir.Carry)):
                other = "the inputs" if before is None else f"`{show_instruction(before)}`"
                got = f"`{show_instruction(s)}` and {other}"
                raise values.broken("P-bind", got, f"one that gives {name} its value")

    def lines(self, lines: Sequence[ir.Line], part: str = "") -> None:
        """Verify lines one after another; messages count them from 1."""
        before = self.path
        for i, s in enumerate(lines):
            self.path = (*before, f"{part}{i + 1}")
            try:
                self._line(s, not before and i == len(lines) - 1)
            except DidymaError as e:
                if e.where != self.values.at:
                    raise
                # the line's text is made when a law is broken
                where = f"{e.where}, line {' '.join(self.path)}: {show_instruction(s)}"
                raise DidymaError(e.code, where, got=e.got, want=e.want, help=e.help) from None
        self.path = before

    def _line(self, s: ir.Line, last: bool) -> None:
        match s:
            case (
                ir.Allocate() | ir.Free() | ir.Reuse() | ir.PlacementAllocate() | ir.Arena()
                | ir.Place() | ir.View() | ir.Strided()
            ):  # fmt: skip
                verify_memory(s, self.values)
            case ir.Launch():
                self.work.launch(s)
            case ir.Dispatch():
                self.work.dispatch(s)
            case ir.Wait(stream, on):
                self.work.wait(stream, on)
            case ir.Extern():
                self.work.extern(s)
            case ir.Call():
                self.work.call(s)
            case ir.Assert(lhs, rhs):
                self.values.sizes.declared((lhs, rhs), self.values.at)
                self.values.bound((lhs, rhs))
                self.values.state.equal |= {(lhs, rhs), (rhs, lhs)}
            case ir.Copy():
                self.work.copy(s)
            case ir.Bind() | ir.Carry() | ir.If() | ir.While() | ir.Repeat():
                self.blocks.control(s)
            case ir.Return(values):
                self.work.give_back(values, self.p.outputs, last)
            case _:
                assert_never(s)
