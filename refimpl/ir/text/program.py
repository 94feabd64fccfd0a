"""The text of programs."""

from __future__ import annotations

from typing import assert_never

from refimpl.ir.graph import Attr
from refimpl.ir.loop import PrimFunc
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
from refimpl.ir.text.graph import dims_text
from refimpl.ir.text.literals import (
    attrs_text,
    dim_text,
    global_name,
    quote,
    tensor_text,
    type_text,
    value_name,
)
from refimpl.ir.text.read_loop import LoopReader
from refimpl.ir.text.show_loop import LoopPrinter
from refimpl.ir.types import Tensor, TensorType


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(value_name(n) for n in names)


def show_instruction(s: Line) -> str:
    """Text of a line."""
    match s:
        case Allocate(value):
            return f"allocate {value_name(value)}"
        case Free(value):
            return f"free {value_name(value)}"
        case Reuse(value, over):
            return f"reuse {value_name(value)} over {value_name(over)}"
        case PlacementAllocate(value, over, offset):
            return f"place {value_name(value)} over {value_name(over)} at {dim_text(offset)}"
        case View(value, of):
            return f"view {value_name(value)} of {value_name(of)}"
        case Launch(kernel, args):
            return f"launch {global_name(kernel)}({_names(args)})"
        case Extern(name, outputs, inputs, attrs):
            operands = [*(value_name(i) for i in inputs), *attrs_text(attrs)]
            return f"extern {quote(name)}({', '.join(operands)}) -> ({_names(outputs)})"
        case Assert(lhs, rhs, message):
            return f"assert {dim_text(lhs)} == {dim_text(rhs)}, {quote(message)}"
        case Copy(value, source):
            return f"copy {value_name(value)} from {value_name(source)}"
        case Return(values):
            return f"return ({_names(values)})"
        case _:
            assert_never(s)


def show_program(p: Program) -> str:
    """Text of a program; a comment gives the type of what a line makes."""
    printer = LoopPrinter()
    out = printer.lines
    out.append(f"program {global_name(p.name)} {{")
    if p.dims:
        out.append(f"  {dims_text(p.dims)}")
    out.append(f"  inputs ({_names(p.inputs)})")
    if p.constants:
        out.append("  constants {")
        out += [f"    {value_name(n)} = {tensor_text(t)}" for n, t in p.constants]
        out.append("  }")
    out.append("  types {")
    out += [f"    {value_name(n)}: {type_text(t)}" for n, t in p.types]
    out.append("  }")
    for k in p.kernels:
        printer.function(k, "  ")
    out.append("  lines {")
    types = p.type
    for s in p.lines:
        text = f"    {show_instruction(s)}"
        if isinstance(s, (Allocate, Reuse, PlacementAllocate, View)) and s.value in types:
            text += f"  # {type_text(types[s.value])}"
        out.append(text)
    return "\n".join([*out, "  }", "}"]) + "\n"


class ProgramReader(LoopReader):
    """Reads programs."""

    def program(self) -> Program:
        """Program: dims, inputs, constants, types, kernels, lines."""
        self.expect("program")
        name = self.function()
        self.expect("{")
        declared = self.dimvars()
        self.expect("inputs")
        inputs = self._values()
        constants = self._constants() if self.accept("constants") else ()
        types: list[tuple[str, TensorType]] = []
        self.expect("types")
        self.expect("{")
        while not self.accept("}"):
            types.append(self.typed_value())
        kernels: list[PrimFunc] = []
        while not self.at("lines"):
            if self.word not in ("kernel", "primfunc"):
                raise self.error("`kernel`, `primfunc` or `lines`")
            kernels.append(self.primfunc())
        self.next()
        self.expect("{")
        lines: list[Line] = []
        while not self.accept("}"):
            lines.append(self._line())
        self.expect("}")
        return Program(
            name, declared, inputs, constants, tuple(types), tuple(kernels), tuple(lines)
        )

    def _constants(self) -> tuple[tuple[str, Tensor], ...]:
        self.expect("{")
        found: list[tuple[str, Tensor]] = []
        while not self.accept("}"):
            name = self.value()
            self.expect("=")
            found.append((name, self.tensor()))
        return tuple(found)

    def _values(self) -> tuple[str, ...]:
        self.expect("(")
        return self.items(self.value, ")")

    def _pair(self, between: str) -> tuple[str, str]:
        first = self.value()
        self.expect(between)
        return first, self.value()

    def _line(self) -> Line:
        at = self.i
        match self.next():
            case "allocate":
                return Allocate(self.value())
            case "free":
                return Free(self.value())
            case "reuse":
                return Reuse(*self._pair("over"))
            case "place":
                value, over = self._pair("over")
                self.expect("at")
                return PlacementAllocate(value, over, self.dim())
            case "view":
                return View(*self._pair("of"))
            case "launch":
                return Launch(self.function(), self._values())
            case "extern":
                return self._library_call()
            case "assert":
                lhs = self.dim()
                self.expect("==")
                rhs = self.dim()
                self.expect(",")
                return Assert(lhs, rhs, self.string())
            case "copy":
                return Copy(*self._pair("from"))
            case "return":
                return Return(self._values())
            case _:
                raise self.error(
                    "`allocate`, `free`, `reuse`, `place`, `view`, `launch`, `extern`, `assert`, "
                    "`copy`, `return` or `}`",
                    at=at,
                )

    def _library_call(self) -> Line:
        name = self.string()
        self.expect("(")
        inputs: list[str] = []
        attrs: list[tuple[str, Attr]] = []
        while not self.at(")"):
            if self.kind == "value":
                inputs.append(self.value())
            else:
                attrs.append(self.named_attr())
            if not self.accept(","):
                break
        self.expect(")")
        self.expect("->")
        return Extern(name, self._values(), tuple(inputs), tuple(attrs))
