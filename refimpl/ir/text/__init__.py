"""The text form of the three levels: ``parse(show(x)) == x`` for graphs, loops and programs.

A file starts with its kind: ``module {``, ``primfunc @f(``, ``kernel @f(`` or ``program @f {``.
``#`` starts a comment.  The language is in ``show_loop`` and, for the rest, in this example:

    module {
      dims n in [1, 4096]
      func @head(%x: f32[n, 512], %w: f32[512, 64]) -> (%z) attrs(Compiler="blas") {
        %c = constant(value=f32[2] [1.0, -inf]) : f32[2]
        %ones = constant(value=i32[64, 64] filled 1) : i32[64, 64]
        %table = constant(value=f32[512, 64] file "8c1f.bin") : f32[512, 64]
        %h = matmul(%x, %w) : f32[n, 64]
        %"y:0" = call @fused_exp(%h) : f32[n, 64]
        %z = sum(%"y:0", axes=(1,), keepdims=false) : f32[n]
      }
    }

The parser is a recursive descent over the words of one regular expression rather than a
generated one: the dtype of a loop literal or load hangs on what was declared above it, a base64
constant is one word however long, and a message can say what was expected.  It needs no table
to be built before the first word.  Nesting is bounded by ``lex.MAX_DEPTH``.
"""

from __future__ import annotations

import re

from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.kernel import ClaimedKernel, Kernel
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.text.graph import GraphReader, show_module
from didyma.refimpl.ir.text.graph import show_function as show_function
from didyma.refimpl.ir.text.graph import show_node as show_node
from didyma.refimpl.ir.text.lex import Lexer
from didyma.refimpl.ir.text.program import show_instruction as show_instruction
from didyma.refimpl.ir.text.program import show_program
from didyma.refimpl.ir.text.read_expr import Find as Find
from didyma.refimpl.ir.text.read_expr import nothing
from didyma.refimpl.ir.text.read_loop import LoopReader
from didyma.refimpl.ir.text.read_program import ProgramReader
from didyma.refimpl.ir.text.reader import Files as Files
from didyma.refimpl.ir.text.show_kernel import show_kernels
from didyma.refimpl.ir.text.show_loop import show_expr as show_expr
from didyma.refimpl.ir.text.show_loop import show_line as show_line

_KIND = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*([a-z]+)")


def show(x: Module | Kernel | Program | tuple[Kernel, ...]) -> str:
    """Return the text of an IR, which ``parse`` reads back (a PrimFunc as a tuple of one)."""
    match x:
        case Module():
            return show_module(x)
        case PrimFunc() | ClaimedKernel():
            return show_kernels((x,))
        case Program():
            return show_program(x)
        case _:
            return show_kernels(x)


def parse(
    text: str, source: str = "<text>", files: Files | None = None, find: Find = nothing
) -> Module | Program | tuple[PrimFunc, ...]:
    """Read an IR of the level its first word names; DidymaError ``parse`` on any other text.

    ``source`` is the file's name, for messages; ``files`` returns the bytes of a constant that the
    text has in a file of that name, or None; ``find`` returns the intrinsic of a caller's own that
    a loop function calls by a name, or None.
    """
    first = _KIND.match(text)
    match first and first[1]:
        case "module":
            return parse_module(text, source, files)
        case "program":
            return parse_program(text, source, files)
        case "kernel" | "primfunc":
            return parse_loop(text, source, find)
        case _:
            raise Lexer(text, source).error("`module`, `kernel`, `primfunc` or `program`")


def parse_module(text: str, source: str = "<text>", files: Files | None = None) -> Module:
    """Read a graph module."""
    return GraphReader(text, source, files).module()


def parse_loop(text: str, source: str = "<text>", find: Find = nothing) -> tuple[PrimFunc, ...]:
    """Read loop functions."""
    return LoopReader(text, source, find=find).functions()


def parse_program(text: str, source: str = "<text>", files: Files | None = None) -> Program:
    """Read a program."""
    reader = ProgramReader(text, source, files)
    found = reader.program()
    reader.end()
    return found
