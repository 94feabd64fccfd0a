"""Lines of a program as C++, in which the last name of an allocation frees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, assert_never

from didyma.codegen.emit.names import c_names
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.lines import walk
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


class Writer(Protocol):
    """What writes the whole program."""

    @property
    def program(self) -> Program:
        """The program."""
        ...

    @property
    def text(self) -> KernelText:
        """The kernels' text."""
        ...

    @property
    def weights(self) -> str:
        """The name of the file of constants."""
        ...

    @property
    def digest(self) -> str:
        """The SHA-256 of that file."""
        ...

    @property
    def offsets(self) -> Mapping[str, int]:
        """Where each constant begins there."""
        ...

    def size(self, d: Dim) -> str:
        """Return a size as C, in which ``s`` points to the sizes."""
        ...

    def symbol(self, name: str) -> str:
        """Return a symbol as C."""
        ...

    def function_name(self, name: str) -> str:
        """Return the name of a function of the program in C++."""
        ...


def within(name: str, value: str, lo: int, hi: int) -> str:
    """Return the call that checks the range of a symbol and returns its value."""
    return f'didyma::within("{name}", {value}, INT64_C({lo}), INT64_C({hi}))'


class Body:
    """The lines of a program or of one of its functions as C++."""

    def __init__(self, cpp: Writer, p: Program, *, called: bool = False) -> None:
        self._cpp, self._p, self._called = cpp, p, called
        names = c_names(["d", "s", "inputs", "folder", "sizes", "results", "grid", "run"])
        arenas = (x.name for x in walk(p.lines) if isinstance(x, Arena))
        self.names = {v: names.fresh(v) for v in (*p.type, *arenas)}
        self._fresh = names.fresh
        self._types, self._size = p.type, cpp.size
        self._shown: dict[str, list[str]] = {}  # what lies in a value's bytes, or in an arena
        for x in walk(p.lines):
            if isinstance(x, (View, Place)):
                self._shown.setdefault(x.of if isinstance(x, View) else x.arena, []).append(x.value)

    def rows(self) -> Iterator[str]:
        """Yield the lines of the function's body."""
        p, names = self._p, self.names
        given = (*p.inputs, *p.outputs) if self._called else p.inputs
        own = [name for v, name in names.items() if v not in {*given}]
        if own:
            yield f"    Buffer {', '.join(own)};"
        if not self._called:
            for i, v in enumerate(p.inputs):
                yield f"    Buffer {names[v]} = std::move(inputs[{i}]);"
            yield from self._constants()
        yield from self._block(p.lines, "    ")

    def _constants(self) -> Iterator[str]:
        cpp = self._cpp
        if not self._p.constants:
            return
        yield "    {"
        found = f'folder + "{cpp.weights}", "{cpp.digest}"'
        yield f"        const auto weights = didyma::checked({found});"
        for v, t in self._p.constants:
            place = f"weights.data() + {cpp.offsets[v]}, {len(t.data)}"
            yield f"        {self.names[v]} = d.upload({place});"
        yield "    }"

    def _block(self, lines: Sequence[Line], pad: str) -> Iterator[str]:
        for line in lines:
            for row in self._line(line):
                yield f"{pad}{row}"
        for line in lines if lines and not isinstance(lines[-1], Return) else ():
            if isinstance(line, Arena):
                yield from (f"{pad}{row}" for row in self._let_go(line.name))

    def _inner(self, lines: Sequence[Line]) -> Iterator[str]:
        return self._block(lines, "    ")

    def _bytes(self, v: str) -> str:
        return self._size(self._types[v].nbytes)

    def _line(self, line: Line) -> Iterator[str]:
        n = self.names
        match line:
            case Free(v):
                yield from self._let_go(v)
            case Reuse(_, over) | PlacementAllocate(_, over):
                yield self._memory(line)
                yield from self._let_go(over)
            case Allocate() | Arena() | Place() | View():
                yield self._memory(line)
            case Launch():
                yield from self._launch(line)
            case Dispatch():
                yield from self._launch(line.launch(0))
            case Copy(v, source):
                yield f"d.driver.copy({n[v]}.at, {n[source]}.at, size_t({self._bytes(source)}));"
            case Wait():
                yield ";  // one stream keeps the order"
            case Assert(lhs, rhs, message):
                quoted = message.replace("\\", "\\\\").replace('"', '\\"')
                yield f'didyma::equal({self._size(lhs)}, {self._size(rhs)}, "{quoted}");'
            case Bind(dim, v):
                yield f"{self._symbol(dim)} = {self._within(dim, f'd.read<int64_t>({n[v]})')};"
            case Carry():
                yield from self._carry(line)
            case If() | While() | Repeat():
                yield from self._control(line)
            case Return(values):
                if not self._called:
                    yield f"return {{{', '.join(n[v] for v in values)}}};"
            case Call(callee, outputs, inputs):
                args = ", ".join(n[v] for v in (*inputs, *outputs))
                yield f"{self._cpp.function_name(callee)}(d, *s, {args});"
            case Extern():
                raise TypeError("an artifact has no routines")
            case Strided():
                raise TypeError("an artifact for a GPU returns no views")
            case _:
                assert_never(line)

    def _let_go(self, v: str) -> Iterator[str]:
        """Yield what forgets a value, or an arena, and what shows its bytes.

        The last name of an allocation frees it, so no name may outlive what the program frees.
        """
        yield f"{self.names[v]} = {{}};"
        for x in self._shown.get(v, ()):
            yield from self._let_go(x)

    def _memory(self, line: Allocate | Reuse | PlacementAllocate | Arena | Place | View) -> str:
        n, size = self.names, self._size
        match line:
            case Allocate(v):
                return f"{n[v]} = d.allocate({self._bytes(v)});"
            case Reuse(v, over):
                return f"{n[v]} = {n[over]};"
            case PlacementAllocate(v, over, offset):
                return f"{n[v]} = {n[over]}.on({size(offset)});"
            case Arena(name, nbytes):
                return f"{n[name]} = d.allocate({size(nbytes)});"
            case Place(v, of, offset) | View(v, of, offset):
                return f"{n[v]} = {n[of]}.view({size(offset)});"

    def _launch(self, x: Launch) -> Iterator[str]:
        for v, source in x.inplace:
            yield f"{self.names[v]} = {self.names[source]};"
        s = self._signature(x.kernel)
        words = [f"{self.names[v]}.at" for v in x.args]
        words += [f"uint64_t({self._symbol(d)})" for d in s.dims]
        rows = ("{" + ", ".join(map(self._size, row)) + "}" for row in s.described)
        maps = f", {len(s.buffers)}, {{{', '.join(rows)}}}" if s.maps else ""
        yield "{"
        yield "    int64_t grid[3];"
        yield f"    didyma_grid_{s.name}(s, grid);"
        block, given = f"didyma_block_{s.name}", ", ".join(words)
        shared = f"didyma_shared_{s.name}"
        how = f'd("{s.name}", {shared}), grid, {block}, {shared}, {{{given}}}{maps}'
        yield f"    d.driver.launch({how});"
        yield "}"
        for _, source in x.inplace:
            yield from self._let_go(source)

    def _signature(self, kernel: str) -> Signature:
        at = [k.name for k in self._cpp.program.kernels].index(kernel)
        return self._cpp.text.kernels[at]

    def _symbol(self, name: str) -> str:
        return self._cpp.symbol(name)

    def _within(self, name: str, value: str) -> str:
        (d,) = (d for d in self._p.dims if d.name == name)
        return within(name, value, d.lo, d.hi)

    def _carry(self, x: Carry) -> Iterator[str]:
        yield "{"
        new = [self._fresh("moved") for _ in x.values]
        for name, (_, source) in zip(new, x.values, strict=True):
            yield f"    Buffer {name} = std::move({self.names[source]});"
        for v in dict.fromkeys(v for pair in x.values for v in pair):
            yield from (
                f"    {row}" for shown in self._shown.get(v, ()) for row in self._let_go(shown)
            )
        for name, (v, _) in zip(new, x.values, strict=True):
            yield f"    {self.names[v]} = std::move({name});"
        sizes = [self._fresh("told") for _ in x.dims]
        for name, (d, size) in zip(sizes, x.dims, strict=True):
            yield f"    const int64_t {name} = {self._within(d, self._size(size))};"
        for name, (d, _) in zip(sizes, x.dims, strict=True):
            yield f"    {self._symbol(d)} = {name};"
        yield "}"

    def _control(self, x: If | While | Repeat) -> Iterator[str]:
        match x:
            case If(cond, then, other):
                yield f"if (d.read<bool>({self.names[cond]})) {{"
                yield from self._inner(then)
                yield "} else {"
                yield from self._inner(other)
            case While(test, cond, body):
                yield "for (;;) {"
                yield from self._inner(test)
                yield f"    if (!d.read<bool>({self.names[cond]})) break;"
                yield from self._inner(body)
            case Repeat(index, extent, body):
                end, at = self._fresh("end"), self._fresh("at")
                begin = f"int64_t {at} = 0, {end} = {self._size(extent)}"
                yield f"for ({begin}; {at} < {end}; ++{at}) {{"
                yield f"    {self._symbol(index)} = {at};"
                yield from self._inner(body)
        yield "}"
