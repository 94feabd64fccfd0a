"""Prints programs.

Blocks of lines stand in braces:

    if %c {
      ...
    } else {
      ...
    }
    while %c after {
      ...
    } do {
      ...
    }
    repeat i in n {
      ...
    }

Functions of a program stand above its lines, without constants, kernels or functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from didyma.refimpl.ir import program as ir
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.text.graph import dims_text
from didyma.refimpl.ir.text.literals import (
    attrs_text,
    dim_text,
    global_name,
    plain_name,
    quote,
    tensor_text,
    type_text,
    value_name,
)
from didyma.refimpl.ir.text.show_kernel import show_kernel
from didyma.refimpl.ir.text.show_loop import LoopPrinter
from didyma.refimpl.ir.types import TensorType


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(value_name(n) for n in names)


def _at(offset: Dim) -> str:
    return "" if isinstance(offset, int) and offset == 0 else f" at {dim_text(offset)}"


def _pairs(pairs: tuple[tuple[str, str], ...], between: str) -> str:
    return ", ".join(f"{value_name(a)} {between} {value_name(b)}" for a, b in pairs)


def _manner(s: ir.Launch | ir.Dispatch) -> str:
    text = f" stream {s.stream}" if s.stream else ""
    return text + (f" inplace ({_pairs(s.inplace, 'over')})" if s.inplace else "")


def show_instruction(s: ir.Line) -> str:
    """Return the text of a line, without the lines in its blocks."""
    match s:
        case ir.Allocate(value):
            return f"allocate {value_name(value)}"
        case ir.Free(value):
            return f"free {value_name(value)}"
        case ir.Reuse(value, over):
            return f"reuse {value_name(value)} over {value_name(over)}"
        case ir.PlacementAllocate(value, over, offset):
            return f"place {value_name(value)} over {value_name(over)} at {dim_text(offset)}"
        case ir.Arena(name, nbytes, device, stack):
            where = f" on {global_name(device)}" if device else ""
            how = " stack" if stack else ""
            return f"arena {value_name(name)}{where} of {dim_text(nbytes)}{how}"
        case ir.Place(value, arena, offset):
            return f"place {value_name(value)} in {value_name(arena)} at {dim_text(offset)}"
        case ir.View(value, of, offset):
            return f"view {value_name(value)} of {value_name(of)}{_at(offset)}"
        case ir.Strided(value, of, strides, offset):
            by = ", ".join(map(dim_text, strides))
            return f"strided {value_name(value)} of {value_name(of)} by ({by}){_at(offset)}"
        case ir.Launch(kernel, args):
            return f"launch {global_name(kernel)}({_names(args)})" + _manner(s)
        case ir.Dispatch(outputs, variants):
            each = " or ".join(f"{global_name(k)}({_names(args)})" for k, args in variants)
            return f"dispatch ({_names(outputs)}) by {each}" + _manner(s)
        case ir.Wait(stream, on):
            return f"wait {stream} on {on}"
        case ir.Extern(name, outputs, inputs, attrs, allocates):
            operands = [*(value_name(i) for i in inputs), *attrs_text(attrs)]
            text = f"extern {quote(name)}({', '.join(operands)}) -> ({_names(outputs)})"
            return text + (f" allocates ({_names(allocates)})" if allocates else "")
        case ir.Call(callee, outputs, inputs):
            return f"call {global_name(callee)}({_names(inputs)}) -> ({_names(outputs)})"
        case ir.Bind(dim, value):
            return f"bind {plain_name(dim)} = {value_name(value)}"
        case ir.Carry(values, dims):
            text = f"carry ({_pairs(values, 'from')})"
            each = ", ".join(f"{plain_name(n)} = {dim_text(d)}" for n, d in dims)
            return text + (f" dims ({each})" if dims else "")
        case ir.If(cond):
            return f"if {value_name(cond)}"
        case ir.While(_, cond):
            return f"while {value_name(cond)} after"
        case ir.Repeat(index, extent):
            return f"repeat {plain_name(index)} in {dim_text(extent)}"
        case ir.Assert(lhs, rhs, message):
            return f"assert {dim_text(lhs)} == {dim_text(rhs)}, {quote(message)}"
        case ir.Copy(value, source):
            return f"copy {value_name(value)} from {value_name(source)}"
        case ir.Return(values):
            return f"return ({_names(values)})"
        case _:
            assert_never(s)


def show_program(p: ir.Program) -> str:
    """Return the text of a program; a comment gives the type of what a line makes."""
    printer = LoopPrinter()
    _program(printer, p, "program", "")
    return "\n".join(printer.lines) + "\n"


def _program(printer: LoopPrinter, p: ir.Program, kind: str, pad: str) -> None:
    out, inner = printer.lines, pad + "  "
    out.append(f"{pad}{kind} {global_name(p.name)} {{")
    if p.dims:
        out.append(f"{inner}{dims_text(p.dims)}")
    out.append(f"{inner}inputs ({_names(p.inputs)})")
    if kind == "function":
        out.append(f"{inner}outputs ({_names(p.outputs)})")
    if p.constants:
        out.append(f"{inner}constants {{")
        out += [f"{inner}  {value_name(n)} = {tensor_text(t)}" for n, t in p.constants]
        out.append(f"{inner}}}")
    out.append(f"{inner}types {{")
    out += [f"{inner}  {value_name(n)}: {type_text(t)}" for n, t in p.types]
    out.append(f"{inner}}}")
    for k in p.kernels:
        show_kernel(printer, k, inner)
    for f in p.functions:
        _program(printer, f, "function", inner)
    out.append(f"{inner}lines {{")
    _lines(out, p.lines, p.type, f"{inner}  ")
    out.append(f"{inner}}}")
    out.append(f"{pad}}}")


def _lines(
    out: list[str], lines: Sequence[ir.Line], types: Mapping[str, TensorType], pad: str
) -> None:
    inner = pad + "  "
    for s in lines:
        text = pad + show_instruction(s)
        match s:
            case ir.If(_, then, other):
                out.append(f"{text} {{")
                _lines(out, then, types, inner)
                out.append(f"{pad}}} else {{")
                _lines(out, other, types, inner)
                out.append(f"{pad}}}")
            case ir.While(test, _, body):
                out.append(f"{text} {{")
                _lines(out, test, types, inner)
                out.append(f"{pad}}} do {{")
                _lines(out, body, types, inner)
                out.append(f"{pad}}}")
            case ir.Repeat(_, _, body):
                out.append(f"{text} {{")
                _lines(out, body, types, inner)
                out.append(f"{pad}}}")
            case (
                ir.Allocate() | ir.Reuse() | ir.PlacementAllocate() | ir.Place() | ir.View()
                | ir.Strided()
            ) if s.value in types:  # fmt: skip
                out.append(f"{text}  # {type_text(types[s.value])}")
            case _:
                out.append(text)
