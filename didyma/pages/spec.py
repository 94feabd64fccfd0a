"""``docs/spec.md``: the language, put together from the code that defines it.

Prose says only what no record says; every table is read off the classes, the op table and the
verifier, whose docstrings hold the laws.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, get_args

import didyma.refimpl.verify
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.composites import complex as complexes
from didyma.composites import composite, fourier
from didyma.composites.builder import Builder
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims, graph, loop, program
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.text import parse_loop, show
from didyma.refimpl.ir.types import DType, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.bars import Contract
from didyma.refimpl.ops.spec import Kind

CONTROL = (
    (
        "`if`",
        "condition, captures",
        "`then`, `otherwise`, `binds`",
        "The results of `then(captures)` where the condition, a bool scalar, is true, else "
        "those of `otherwise(captures)`. Symbols in `binds` are bound by the shapes of the branch "
        "taken.",
    ),
    (
        "`while`",
        "carried values, captures",
        "`cond`, `body`, `carried`, `binds`",
        "As long as `cond(carried, captures)` is true, `body(carried, captures)` gives the carried "
        "values anew; the results are the last ones. The first `carried` operands are the first "
        "values. Where carried values change their size, their types mention symbols in `binds`, "
        "which are bound on entry and again after each round.",
    ),
    (
        "`scan`",
        "states, scanned, captures",
        "`body`, `states`, `scanned`, `length`, `index`",
        "For i below `length`: `body(states, scanned[i], captures)` gives the states anew and one "
        "slice of each further result. Results: the last states, then the slices stacked on a new "
        "leading axis. The symbol `index`, where one is named, is i inside the body.",
    ),
    (
        "`bind`",
        "an i64 scalar",
        "`dim`",
        "From here on the symbol `dim` has the operand's value, which must lie in its range "
        "(`dim-out-of-range`). It has no result. Sizes that hang on data begin here.",
    ),
)
_LAW = re.compile(r"^\| (\w+-[\w-]+) \| (.+) \|$", re.MULTILINE)


def laws() -> dict[str, list[tuple[str, str]]]:
    """Laws by module of ``didyma.refimpl.verify``: id, and what it says."""
    found: dict[str, list[tuple[str, str]]] = {}
    for info in pkgutil.iter_modules(didyma.refimpl.verify.__path__):
        module = importlib.import_module(f"didyma.refimpl.verify.{info.name}")
        rows = _LAW.findall(module.__doc__ or "")
        if rows:
            found[info.name] = rows
    return found


def spec_page() -> str:
    """Return ``docs/spec.md``."""
    sections = (_head, _types, _sizes, _graph, _loop, _program, _kernel_text, _bars, _errors)
    return "\n".join(line for section in sections for line in section()) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield ""
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
    yield ""


def _paragraphs(text: str) -> Iterator[str]:
    yield ""
    yield from textwrap.wrap(
        " ".join(text.split()), 100, break_on_hyphens=False, break_long_words=False
    )
    yield ""


def _first(thing: object) -> str:
    """The text of a docstring up to its examples, on one line, code marked as Markdown does."""
    text = inspect.getdoc(thing) or ""
    prose = text.split("\n>>>", maxsplit=1)[0].split("\n\n    ", maxsplit=1)[0]
    return " ".join(prose.replace("``", "`").split())


def _classes(union: Any) -> Iterator[str]:
    members: tuple[type[Any], ...] = get_args(union)
    rows = [
        (c.__name__, ", ".join(f"`{f.name}`" for f in dataclasses.fields(c)) or "-", _first(c))
        for c in members
    ]
    yield from _table(("name", "parts", "meaning"), rows)


def _laws(*modules: str) -> Iterator[str]:
    known = laws()
    rows = [(f"`{law}`", said.replace("``", "`")) for m in modules for law, said in known[m]]
    yield from _table(("law", "says"), rows)


def _named(prefix: str) -> list[str]:
    """Modules of the verifier whose laws begin with the prefix, in name order."""
    return [m for m, rows in laws().items() if rows[0][0].startswith(prefix)]


def _head() -> Iterator[str]:
    yield "# The language"
    yield from _paragraphs(
        """
        Made by `nox -s docs` from the classes, the op table and the verifier; a test fails when it
        is stale. A program is written at three levels, each with a text form that parses back to
        the same program, a verifier, and an interpreter that says what it means: a **graph** of
        tensors, **loops** over buffers, and a **program** of launches. A fourth, the text of
        kernels, is what engines run. `didyma explain FILE` shows all levels of one program. A text
        that breaks a law of the tables below is refused with the law's id as the error's code.
        """
    )


def _types() -> Iterator[str]:
    yield "## Types"
    yield from _paragraphs(f"`DType`: {_first(DType)}")
    rows = [
        (
            f"`{t}`",
            "float" if t.is_float else "integer" if t.is_int else "other",
            "signed" if t.is_signed else "unsigned",
            str(t.numpy),
            f"`{t.compute}`",
        )
        for t in DType
    ]
    yield from _table(("dtype", "kind", "sign", "NumPy", "computed in"), rows)
    yield from _paragraphs(
        f"""
        What is computed in another dtype is storage: it is rounded once, when a kernel stores it.
        The dtypes of less than a byte are packed in memory, the first element in the lowest bits:
        see [dtypes.md](dtypes.md); for complex numbers, [complex.md](complex.md). Integers wrap.
        `TensorType`: {_first(TensorType)} Its text is `f32[n, 4]`, with `@cuda:1` after it where a
        device is named. Tensors are row-major and dense.
        """
    )


def _sizes() -> Iterator[str]:
    yield "## Sizes"
    yield from _paragraphs(
        f"""
        {_first(dims)} A symbol is declared with its inclusive range. It is *backed* where an
        input's shape names it bare; every other symbol is bound by one node of a graph, or one
        line of a program, before it is used, and checked against its range there.
        """
    )
    yield from _laws(*_named("D-"))


def _example() -> Module:
    b = Builder()
    x = b.param("x", TensorType(DType.F32, (dims.symbol("n"), 8)))
    y = b("sum", [b("exp", [x])], axes=(1,), keepdims=False)
    return Module((b.function("example", [y]),), (dims.DimVar("n", 1, 4096),))


def _dym(text: str) -> Iterator[str]:
    yield "```dym"
    yield text.rstrip()
    yield "```"
    yield ""


def _graph() -> Iterator[str]:
    yield "## Graphs"
    yield from _paragraphs(
        f"""
        {_first(graph)} `Module`: {_first(graph.Module)} `Function`: {_first(graph.Function)}
        `Node`: {_first(graph.Node)} An attribute is always written: there are no defaults.
        A constant is written as nested lists, `f32[2] [1.0, 2.0]`; as the one value that all its
        elements have, `f32[99] filled 0.0`; as its bytes in memory, `f32[9] base64 "..."`; or as
        the name of a file of them beside the text, `f32[512, 64] file "NAME.bin"`, where NAME is
        the first 32 digits of their SHA-256.
        """
    )
    yield from _dym(show(_example()))
    yield "### Ops"
    yield from _paragraphs(
        f"""
        {len(OPS)} primitive ops have a record each, with a page in [ops.md](ops.md). A kind says
        how an element of the result depends on the operands.
        """
    )
    rows = [
        (str(k), " ".join(f"[{o}](ops.md#{o})" for o, op in sorted(OPS.items()) if op.kind is k))
        for k in Kind
    ]
    yield from _table(("kind", "ops"), rows)
    yield from _paragraphs(
        "These are functions over the primitives, and mean what their bodies say: "
        + "; ".join(_functions(m) for m in (composite, complexes, fourier))
        + ". See [complex.md](complex.md) for complex numbers and transforms."
    )
    yield "### Control flow"
    yield from _paragraphs(
        """
        Besides ops and `call`, which applies the function named by `callee`, there are four nodes.
        The functions they name stand above their users. Captures are operands that are passed on
        unchanged. A call is replaced by what it calls when a program is compiled, unless the
        function has the attribute `NoInline`: then it is compiled once, and called by the program.
        Symbols that such a function binds are its own, anew with each call. A function with the
        attribute `Compiler` is external: programs call it by a name that holds the compiler's, its
        own and a hash of its body and attributes, and its body says what any implementation of it
        must compute.
        """
    )
    yield from _table(("node", "operands", "attributes", "meaning"), CONTROL)
    yield "### Laws of graphs"
    yield ""
    yield from _laws(*_named("G-"))


def _functions(module: ModuleType) -> str:
    """Public functions of a module that apply ops."""
    names = sorted(
        name
        for name, f in vars(module).items()
        if inspect.isfunction(f) and f.__module__ == module.__name__ and name[0] != "_"
        if "b" in inspect.signature(f).parameters
    )
    path = module.__name__.replace(".", "/")
    return f"in `{path}.py` " + ", ".join(f"`{name}`" for name in names)


_CALLS = """
kernel @norms(x: f32[n, 8], y: f32[n]) writes (y) dims n in [1, 4096] {
  primfunc @add(row: f32[n, 8], sum: f32[] local) writes (sum)
      dims i in [0, 4095], k in [0, 7], n in [1, 4096] {
    let v = row[i, k]
    sum[] = sum[] + v * v
  }
  for b in n bound blockIdx.x {
    alloc acc: f32[] local
    acc[] = 0.0:f32
    for k in 8 {
      call @add(x, acc) dims (b, k, n)
    }
    y[b] = sqrt(acc[])
  }
}
"""


def _loop() -> Iterator[str]:
    compiled = compile(_example(), Options())
    yield "## Loops"
    yield from _paragraphs(f"{_first(loop)} Indices and extents are `{loop.INDEX}`.")
    yield from _dym(show(tuple(compiled.loops.values())))
    yield "### Expressions"
    yield from _classes(loop.Expr)
    rows = [
        ("binary", " ".join(f"`{o}`" for o in loop.BINARY_OPS)),
        ("compare", " ".join(f"`{o}`" for o in loop.COMPARE_OPS)),
        ("unary", " ".join(f"`{o}`" for o in loop.UNARY_OPS)),
        ("atomic", " ".join(f"`{o}`" for o in loop.ATOMIC_OPS)),
        ("intrinsic", " ".join(f"`{o}`" for o in (*loop.INTRINSICS, *loop.BITCASTS))),
        ("axes", " ".join(f"`{a}`" for a in loop.AXES)),
    ]
    yield from _table(("of", "names"), rows)
    yield "### Statements"
    yield from _classes(loop.Stmt)
    yield "### Functions of a function"
    yield from _paragraphs(
        """
        A function may hold functions, callees before callers, and call them. What is called knows
        its parameters, which are buffers of the caller's as they are then, written or not, and the
        dims that the call gives; what it allocates is new in each call. It runs where the call
        stands: in every lane of the loops around it, which may race through it. A dim outside its
        range is a fault, `dim-out-of-range`. In kernel text a call is its callee's body.
        """
    )
    yield from _dym(show(parse_loop(_CALLS)))
    yield "### Laws of loops"
    yield ""
    yield from _laws(*_named("L-"))


def _program() -> Iterator[str]:
    compiled = compile(_example(), Options())
    bare = dataclasses.replace(compiled.program, kernels=())
    yield "## Programs"
    yield from _paragraphs(
        f"{_first(program)} {_first(program.Program)} Its kernels stand below it as loops do, and"
        " so do its functions."
    )
    yield from _dym(show(bare))
    yield "### Lines"
    yield from _classes(program.Line)
    yield "### Laws of programs"
    yield ""
    yield from _laws(*_named("P-"))


def _kernel_text() -> Iterator[str]:
    yield "## Kernel text"
    yield from _paragraphs(
        """
        A kernel is printed as CUDA C in a subset of C99: one `extern "C" __global__ void` function,
        declarations, loops, conditionals, casts, no headers and no helpers. Arithmetic that C
        leaves open is a named intrinsic, `floordiv_i32` or `exp_f32`, which the prelude of each
        engine defines. f16 and bf16 are held as 16-bit integers and converted by intrinsics. The
        same text runs on every engine.
        """
    )


def _bars() -> Iterator[str]:
    yield "## Bars"
    yield from _paragraphs(
        f"""
        The reference gives a value and a bar for each element: how far a correct implementation
        may be from it. What the implementation may do is its contract. `Contract`:
        {_first(Contract)} Integers and booleans are exact. NaN is answered by NaN, an infinity by
        itself, a zero by its sign, where the bar has no width. Where a decision hangs on a value
        inside its bar the result is the hull of both outcomes, or else *undecided*: not judged,
        and counted.
        """
    )


def _errors() -> Iterator[str]:
    yield "## Errors"
    yield from _paragraphs(
        f"""
        `DidymaError`: {_first(DidymaError)} Commands end with 0 where all agree, 1 at a
        disagreement, 2 at bad input, 3 at an internal error, 4 where an engine is missing, and 5
        where nothing ran.
        """
    )
