"""Reads programs; ``program`` describes the language."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from didyma.refimpl.ir import program as ir
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.kernel import ClaimedKernel, Images, Kernel, TensorMap, TextKernel
from didyma.refimpl.ir.loop import Buffer
from didyma.refimpl.ir.text.read_loop import LoopReader
from didyma.refimpl.ir.types import Tensor, TensorType

T = TypeVar("T")

_LINES = (
    "allocate", "free", "reuse", "place", "arena", "view", "strided", "launch", "dispatch", "wait",
    "extern", "call", "assert", "copy", "bind", "carry", "if", "while", "repeat", "return",
)  # fmt: skip


class ProgramReader(LoopReader):
    """Reads programs."""

    def program(self, called: bool = False) -> ir.Program:
        """Parse a program: dims, inputs, constants, types, kernels, functions, lines.

        One that is ``called`` by another is a function: it has outputs, and neither constants nor
        kernels nor functions.
        """
        self.expect("function" if called else "program")
        name = self.function()
        self.expect("{")
        declared = self.dimvars()
        self.expect("inputs")
        inputs = self._values()
        outputs: tuple[str, ...] = ()
        if called:
            self.expect("outputs")
            outputs = self._values()
        constants = () if called or not self.accept("constants") else self._constants()
        types = self._types()
        kernels: list[Kernel] = []
        functions: list[ir.Program] = []
        while not called and self.word in ("kernel", "primfunc", "text"):
            kernels.append(self._text_kernel() if self.accept("text") else self.primfunc())
        while not called and self.at("function"):
            functions.append(self.program(called=True))
        if not (called or self.at("lines")):
            last = "`function` or" if functions else "`kernel`, `primfunc`, `text`, `function` or"
            raise self.error(f"{last} `lines`")
        self.expect("lines")
        lines = self._block_of_lines()
        self.expect("}")
        return ir.Program(
            name, declared, inputs, constants, types, tuple(kernels), lines, outputs,
            tuple(functions),
        )  # fmt: skip

    def _text_kernel(self) -> ClaimedKernel:
        """Take a kernel of text behind ``text``; ``show_kernel`` describes it."""
        self.buffers = {}
        self.expect("reads")
        self.expect("(")
        reads = self.items(self._buffer_name, ")")
        self.expect("writes")
        self.expect("(")
        writes = self.items(self._buffer_name, ")")
        workspace: tuple[Buffer, ...] = ()
        if self.accept("workspace"):
            self.expect("(")
            workspace = self.items(self._buffer, ")")
        zeroed: tuple[str, ...] = ()
        if self.accept("zeroed"):
            self.expect("(")
            zeroed = self.items(self._buffer_name, ")")
        maps: tuple[TensorMap, ...] = ()
        if self.accept("maps"):
            self.expect("(")
            maps = self.items(self._map, ")")
        self.expect("grid")
        self.expect("(")
        x, y, z = self._three(self.dim)
        self.expect("block")
        self.expect("(")
        block = self._three(lambda: self.integer("a number of threads"))
        chain = self.dim() if self.accept("chain") else None
        declared = self.dimvars()
        self.expect("{")
        lines: list[str] = []
        while not self.accept("}"):
            lines.append(self.string())
        self.expect("for")
        text = TextKernel(
            "\n".join(lines), reads, writes, (x, y, z), block, workspace, chain, zeroed=zeroed,
            maps=maps,
        )  # fmt: skip
        return ClaimedKernel(text, self.primfunc(), declared)

    def _map(self) -> TensorMap:
        name = self._buffer_name()
        self.expect("of")
        buffer = self._buffer_name()
        self.expect("(")
        at = self.i
        found = self.items(self.dim, ")")
        match found:
            case (offset, x, y, z, near, far, int() as rows, *rest):
                images = self._images(rest, at) if rest else None
            case _:
                raise self.error("an offset, three extents, two steps, and rows", at=at)
        return TensorMap(name, buffer, offset, (x, y, z), (near, far), rows, images)

    def _images(self, numbers: Sequence[Dim], at: int) -> Images:
        match numbers:
            case (count, step, int() as a, int() as b, int() as c, int() as d, int() as e,
                  int() as f):  # fmt: skip
                return Images(count, step, (a, b), (c, d), (e, f))
            case _:
                want = "a count and a step of images, and two each of lower, upper and strides"
                raise self.error(want, at=at)

    def _three(self, one: Callable[[], T]) -> tuple[T, T, T]:
        at = self.i
        found = self.items(one, ")")
        if len(found) != 3:
            raise self.error("three numbers, for x, y and z", at=at)
        return found

    def _types(self) -> tuple[tuple[str, TensorType], ...]:
        self.expect("types")
        self.expect("{")
        types: list[tuple[str, TensorType]] = []
        while not self.accept("}"):
            types.append(self.typed_value())
        return tuple(types)

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

    def _pairs(self, between: str) -> tuple[tuple[str, str], ...]:
        self.expect("(")
        return self.items(lambda: self._pair(between), ")")

    def _offset(self) -> Dim:
        self.expect("at")
        return self.dim()

    # ---- lines

    def _block_of_lines(self) -> tuple[ir.Line, ...]:
        self.expect("{")
        self.enter()
        lines: list[ir.Line] = []
        while not self.accept("}"):
            lines.append(self._line())
        self.depth -= 1
        return tuple(lines)

    def _line(self) -> ir.Line:
        at = self.i
        word = self.next()
        match word:
            case "allocate":
                return ir.Allocate(self.value())
            case "free":
                return ir.Free(self.value())
            case "reuse":
                return ir.Reuse(*self._pair("over"))
            case "place":
                return self._place()
            case "arena":
                return self._arena()
            case "view":
                value, of = self._pair("of")
                return ir.View(value, of, self._offset() if self.at("at") else 0)
            case "strided":
                value, of = self._pair("of")
                self.expect("by")
                self.expect("(")
                strides = self.items(self.dim, ")")
                return ir.Strided(value, of, strides, self._offset() if self.at("at") else 0)
            case "copy":
                return ir.Copy(*self._pair("from"))
            case "return":
                return ir.Return(self._values())
            case "if" | "while" | "repeat":
                return self._control(word)
            case _:
                return self._effect(word, at)

    def _effect(self, word: str, at: int) -> ir.Line:
        match word:
            case "launch":
                return ir.Launch(self.function(), self._values(), *self._manner())
            case "dispatch":
                return self._dispatch()
            case "wait":
                stream = self.integer("the number of a stream")
                self.expect("on")
                return ir.Wait(stream, self.integer("the number of a stream"))
            case "extern":
                return self._library_call()
            case "call":
                callee, given = self.function(), self._values()
                self.expect("->")
                return ir.Call(callee, self._values(), given)
            case "assert":
                lhs = self.dim()
                self.expect("==")
                rhs = self.dim()
                self.expect(",")
                return ir.Assert(lhs, rhs, self.string())
            case "bind":
                name = self.name("the name of a dim")
                self.expect("=")
                return ir.Bind(name, self.value())
            case "carry":
                pairs = self._pairs("from")
                if not self.accept("dims"):
                    return ir.Carry(pairs, ())
                self.expect("(")
                return ir.Carry(pairs, self.items(self._new_size, ")"))
            case _:
                *first, last = (f"`{w}`" for w in (*_LINES, "}"))
                raise self.error(f"{', '.join(first)} or {last}", at=at)

    def _control(self, word: str) -> ir.Line:
        if word == "repeat":
            index = self.name("the name of a dim")
            self.expect("in")
            extent = self.dim()
            return ir.Repeat(index, extent, self._block_of_lines())
        cond = self.value()
        if word == "while":
            self.expect("after")
            test = self._block_of_lines()
            self.expect("do")
            return ir.While(test, cond, self._block_of_lines())
        then = self._block_of_lines()
        self.expect("else")
        return ir.If(cond, then, self._block_of_lines())

    def _place(self) -> ir.Line:
        value = self.value()
        if self.accept("in"):
            return ir.Place(value, self.value(), self._offset())
        if not self.accept("over"):
            raise self.error("`over` or `in`")
        return ir.PlacementAllocate(value, self.value(), self._offset())

    def _arena(self) -> ir.Line:
        name = self.value()
        device = self.device() if self.accept("on") else ""
        self.expect("of")
        return ir.Arena(name, self.dim(), device, self.accept("stack"))

    def _dispatch(self) -> ir.Line:
        outputs = self._values()
        self.expect("by")
        variants = [(self.function(), self._values())]
        while self.accept("or"):
            variants.append((self.function(), self._values()))
        return ir.Dispatch(outputs, tuple(variants), *self._manner())

    def _manner(self) -> tuple[int, tuple[tuple[str, str], ...]]:
        """Take the stream of a launch, and what it does in place."""
        stream = self.integer("the number of a stream") if self.accept("stream") else 0
        return stream, self._pairs("over") if self.accept("inplace") else ()

    def _new_size(self) -> tuple[str, Dim]:
        name = self.name("the name of a dim")
        self.expect("=")
        return name, self.dim()

    def _library_call(self) -> ir.Line:
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
        outputs = self._values()
        allocates = self._values() if self.accept("allocates") else ()
        return ir.Extern(name, outputs, tuple(inputs), tuple(attrs), allocates)
