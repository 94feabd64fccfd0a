"""Programs as C++ on the driver API of CUDA: a header that C reads too, and a loader.

The header has what is known of the kernels and of inputs and outputs, and the grid of each kernel
as a function of the sizes.  The loader runs the program's lines on one stream, which keeps their
order.  It stands on ``didyma_cuda.h``, which needs no CUDA toolkit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files

import sympy

from didyma.codegen.emit.binding import given_dims
from didyma.codegen.emit.buckets import Buckets, own_inputs
from didyma.codegen.emit.cpp_lines import Body, within
from didyma.codegen.emit.dynamic import placed
from didyma.codegen.emit.names import c_names, sanitise
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.expr import of_dim
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.loop import Binary, Const, Expr, Var
from didyma.refimpl.ir.program import Program

HEADER, LOADER, LAYER = "program.h", "program.cpp", "didyma_cuda.h"
_SIGNS = {"add": "+", "sub": "-", "mul": "*"}
_CALLS = ("floordiv", "floormod", "min", "max")
_HEAD = """\
#ifndef DIDYMA_PROGRAM_H
#define DIDYMA_PROGRAM_H

#include <stdint.h>

static inline int64_t didyma_floordiv(int64_t a, int64_t b) {
    if (!b) return 0;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int64_t didyma_floormod(int64_t a, int64_t b) {
    return b ? a - didyma_floordiv(a, b) * b : 0;
}
static inline int64_t didyma_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t didyma_max(int64_t a, int64_t b) { return a > b ? a : b; }
"""


def layer() -> str:
    """Return the text of ``didyma_cuda.h``."""
    return (files("didyma.codegen.emit") / "cpp" / LAYER).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Cpp:
    """Writes a program for an architecture such as ``sm_90a``.

    ``code`` is the SHA-256 of ``kernels.cubin``, and ``digest`` that of the file ``weights``, in
    which ``offsets`` are where each constant begins.  The loader pads inputs to ``buckets``.
    """

    program: Program
    text: KernelText
    architecture: str
    code: str = ""
    weights: str = ""
    digest: str = ""
    offsets: Mapping[str, int] = field(default_factory=dict[str, int])
    buckets: Buckets | None = None

    # ---- the header

    def header(self) -> str:
        """Return the text of the header."""
        return "\n".join([*self._header(), ""])

    def _header(self) -> Iterator[str]:
        p, number = self.program, self.architecture.removeprefix("sm_")
        exact, digits = number[-1].isalpha(), number.rstrip("abcdefghijklmnopqrstuvwxyz")
        yield f"/* Program {sanitise(p.name)} for {self.architecture}, written by Didyma. */"
        yield _HEAD
        yield f"enum {{ DIDYMA_MAJOR = {digits[:-1]}, DIDYMA_MINOR = {digits[-1]}, "
        yield f"       DIDYMA_EXACT = {int(exact)} }}; /* the compute capability of the code */"
        yield ""
        yield "/* The sizes on which shapes and launches depend. */"
        yield "typedef struct {"
        names = self._sizes()
        yield from (f"    int64_t {name};" for name in names.values())
        if not names:
            yield "    int64_t none;"
        yield "} didyma_sizes;"
        for s in self.text.kernels:
            yield ""
            yield from self._kernel(s)
        for what, values in (("input", p.inputs), ("output", p.results)):
            yield ""
            shown = ", ".join(f"{sanitise(v)}: {p.type[v]}" for v in values) or "none"
            yield f"/* The bytes of an {what}: {shown}. */"
            yield f"static inline int64_t didyma_{what}_bytes(int {what}, const didyma_sizes *s) {{"
            yield "    (void)s;"
            yield f"    switch ({what}) {{"
            for i, v in enumerate(values):
                yield f"    case {i}: return {self.size(p.type[v].nbytes)};"
            yield "    default: return -1;"
            yield "    }"
            yield "}"
        yield ""
        yield "#endif"

    def _kernel(self, s: Signature) -> Iterator[str]:
        buffers = ", ".join(f"{d} *{name}" for name, d in s.buffers)
        yield f"/* {s.name}({buffers}), then an int64_t for each of: {', '.join(s.dims) or 'none'}."
        yield f"   It writes {', '.join(s.outputs)}. */"
        block = ", ".join(map(str, s.block))
        yield f"static const unsigned didyma_block_{s.name}[3] = {{{block}}};"
        yield f"enum {{ didyma_shared_{s.name} = {self._shared().get(s.name, 0)} }};"
        yield f"static inline void didyma_grid_{s.name}(const didyma_sizes *s, int64_t grid[3]) {{"
        yield "    (void)s;"
        for axis, e in enumerate(s.grid):
            yield f"    grid[{axis}] = {self.size(e)};"
        yield "}"

    def _shared(self) -> dict[str, int]:
        """Return the bytes of shared memory that launches of some kernels ask for."""
        return placed(self.text.source)[1]

    def _sizes(self) -> dict[str, str]:
        names = c_names()
        every = (d.name for q in (self.program, *self.program.functions) for d in q.dims)
        return {name: names.fresh(name) for name in dict.fromkeys(every)}

    def size(self, d: Dim | Expr) -> str:
        """Return a size as C, in which ``s`` points to the sizes."""
        return self._code(of_dim(d) if isinstance(d, (int, sympy.Expr)) else d)

    def _code(self, e: Expr) -> str:
        match e:
            case Const(value):
                return f"INT64_C({int(value)})"
            case Var(name):
                return self.symbol(name)
            case Binary(op, lhs, rhs) if op in _SIGNS:
                return f"({self._code(lhs)} {_SIGNS[op]} {self._code(rhs)})"
            case Binary(op, lhs, rhs) if op in _CALLS:
                return f"didyma_{op}({self._code(lhs)}, {self._code(rhs)})"
            case _:
                raise TypeError(f"no size: {e}")

    def symbol(self, name: str) -> str:
        """Return a symbol as C."""
        return f"s->{self._sizes()[name]}"

    # ---- the loader

    def loader(self) -> str:
        """Return the text of the loader."""
        p = self.program
        functions = [row for f in p.functions for row in (*self._function(f), "")]
        body = Body(self, p).rows()
        rows = [
            f"// Program {sanitise(p.name)}, written by Didyma.",
            f"// Compile: c++ -std=c++17 {LOADER} -ldl",
            f'#include "{HEADER}"',
            f'#include "{LAYER}"',
            "",
            "#include <iostream>",
            "",
            "using didyma::Buffer;",
            "",
            *functions,
            "// Run the program; the inputs are let go of as it ends.",
            "static std::vector<Buffer> run(",
            "    didyma::Kernels &d, didyma_sizes *s, std::vector<Buffer> inputs,",
            "    const std::string &folder) {",
            "    (void)d, (void)s, (void)folder;",
            *body,
            "}",
            "",
            *self._main(),
            "",
        ]
        return "\n".join(rows)

    def _function(self, f: Program) -> Iterator[str]:
        b = Body(self, f, called=True)
        given = [b.names[v] for v in (*f.inputs, *f.outputs)]
        params = ", ".join(f"Buffer {name}" for name in given)
        means = f"didyma::Kernels &d, didyma_sizes sizes, {params}"
        yield f"static void {self.function_name(f.name)}({means}) {{"
        yield "    didyma_sizes *const s = &sizes;"
        yield f"    (void){', (void)'.join(['d', 's', *given])};"
        yield from b.rows()
        yield "}"

    def function_name(self, name: str) -> str:
        """Return the name of a function of the program in C++."""
        names = c_names()
        table = {f.name: names.fresh(f"call_{f.name}") for f in self.program.functions}
        return table[name]

    def _bucket(self) -> Iterator[str]:
        """Yield what keeps the sizes that are given, and takes their buckets."""
        yield "    const didyma_sizes given_sizes = sizes, *const own = &given_sizes;"
        yield "    (void)own;"
        for name, row in self.buckets.sizes.items() if self.buckets else ():
            at, values = self.symbol(name), ", ".join(map(str, row))
            yield f'    {at} = didyma::bucket("{name}", {at}, {{{values}}});'

    def _told(self) -> Iterator[str]:
        """Yield what uploads the sizes that are given, for programs that pad their inputs."""
        for size in self.buckets.given if self.buckets else ():
            yield "    {"
            yield f"        const int64_t told = {self._own(size)};"
            yield "        const auto *bytes = reinterpret_cast<const char *>(&told);"
            yield "        inputs.push_back(d.upload(bytes, sizeof told));"
            yield "    }"

    def _own(self, d: Dim) -> str:
        """Return a size as C, of the sizes that are given."""
        return self.size(d).replace("s->", "own->")

    def _cut(self, shape: Sequence[Dim | None], v: str) -> str:
        """Return the sizes of a value as given and in its buckets, and the bytes of an element."""
        t = self.program.type[v]
        if t.dtype.is_packed:
            raise DidymaError(
                "target-lacks", f"%{v}", got=f"{t.dtype}, of less than a byte",
                want="elements of whole bytes in a loader in C++ that pads them",
            )  # fmt: skip
        wide = [self.size(d) for d in t.shape]
        pairs = zip(shape, wide, strict=True)
        own = [w if d is None else self._own(d) for d, w in pairs]
        return f"{{{', '.join(own)}}}, {{{', '.join(wide)}}}, {t.dtype.bits // 8}"

    def _main(self) -> Iterator[str]:
        p, sizes = self.program, self._sizes()
        yield "// Usage: program FOLDER [SIZE=N ...] [INPUT=FILE ...]; results become N-NAME.bin."
        yield "// FOLDER has kernels.cubin and the weights; an input that is not given is zeros."
        yield "int main(int argc, char **argv) try {"
        yield '    const std::string folder = std::string(argc > 1 ? argv[1] : ".") + "/";'
        yield "    std::map<std::string, std::string> given;"
        yield "    for (int i = 2; i < argc; ++i) {"
        yield "        const std::string word = argv[i];"
        yield "        const auto at = word.find('=');"
        yield "        if (at == std::string::npos)"
        yield '            throw didyma::Refused("bad-option", word, word, "NAME=VALUE");'
        yield "        given[word.substr(0, at)] = word.substr(at + 1);"
        yield "    }"
        yield "    didyma_sizes sizes{}, *const s = &sizes;"
        for d in given_dims(p):
            yield f'    if (!given.count("{d.name}"))'
            told = f'"unbound-dim", "{d.name}", "no value", "{d.name}=N"'
            yield f"        throw didyma::Refused({told});"
            value = f'std::stoll(given["{d.name}"])'
            yield f"    s->{sizes[d.name]} = {within(d.name, value, d.lo, d.hi)};"
        yield from self._bucket()
        yield "    didyma::Driver driver;"
        yield "    driver.require(DIDYMA_MAJOR, DIDYMA_MINOR, DIDYMA_EXACT);"
        found = f'didyma::checked(folder + "kernels.cubin", "{self.code}")'
        code = found if self.text.kernels else "std::vector<char>()"
        yield f"    didyma::Kernels d(driver, {code});"
        yield "    std::vector<Buffer> inputs;"
        for i, v in enumerate(own_inputs(p, self.buckets)):
            name = sanitise(v)
            yield "    {"
            yield f"        const int64_t want = didyma_input_bytes({i}, own);"
            yield "        std::vector<char> data(static_cast<size_t>(want));"
            yield f'        if (given.count("{name}")) data = didyma::bytes_of(given["{name}"]);'
            yield "        if (int64_t(data.size()) != want)"
            yield f'            throw didyma::Refused("dim-mismatch", "{name}",'
            yield '                                  std::to_string(data.size()) + " bytes",'
            yield "                                  std::to_string(want));"
            if self.buckets:
                yield f"        data = didyma::filled(data, {self._cut(p.type[v].shape, v)});"
            yield "        inputs.push_back(d.upload(data.data(), int64_t(data.size())));"
            yield "    }"
        yield from self._told()
        yield "    const auto results = run(d, s, std::move(inputs), folder);"
        yield "    (void)results;"
        for i, v in enumerate(p.results):
            yield "    {"
            yield f"        std::vector<char> data(size_t(didyma_output_bytes({i}, s)));"
            yield f"        driver.download(data.data(), results[{i}].at, data.size());"
            if self.buckets:
                shape = self.buckets.known({d.name for d in given_dims(p)})[i]
                yield f"        data = didyma::cut(data, {self._cut(shape, v)});"
            yield f'        std::ofstream("{i}-{sanitise(v)}.bin", std::ios::binary)'
            yield "            .write(data.data(), std::streamsize(data.size()));"
            yield "    }"
        yield "    return 0;"
        yield "} catch (const didyma::Refused &e) {"
        yield '    std::cerr << e.what() << "\\n";'
        yield "    return 2;"
        yield "}"
