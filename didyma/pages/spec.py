"""Writes ``docs/spec.md``, the definition of the language, from the code that defines it.

Every table comes from the classes, the op table and the verifier, whose docstrings state the laws.
The prose in this module says only what none of these say.
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
        "The results of `then(captures)` if the condition, a bool scalar, is true, and those of "
        "`otherwise(captures)` if it is false. The shapes of these results bind the symbols in "
        "`binds`.",
    ),
    (
        "`while`",
        "carried values, captures",
        "`cond`, `body`, `carried`, `binds`",
        "The first `carried` operands are the initial carried values. As long as "
        "`cond(carried, captures)` is true, the results of `body(carried, captures)` replace the "
        "carried values. The results are the last carried values. If carried values change their "
        "sizes, their types mention symbols in `binds`, which are bound on entry and again after "
        "each round.",
    ),
    (
        "`scan`",
        "states, scanned, captures",
        "`body`, `states`, `scanned`, `length`, `index`",
        "For each i below `length`, `body(states, scanned[i], captures)` returns new states and "
        "one slice of each further result. The results are the last states, and then the slices, "
        "stacked along a new leading axis. If `index` names a symbol, it is i inside the body.",
    ),
    (
        "`bind`",
        "an i64 scalar",
        "`dim`",
        "The symbol `dim` is bound to the value of the operand from here on. The value must lie in "
        "the symbol's range (`dim-out-of-range`), also if nothing needs the symbol. The node has "
        "no result. This is how data-dependent sizes come into a graph.",
    ),
)
_LAW = re.compile(r"^\| (\w+-[\w-]+) \| (.+) \|$", re.MULTILINE)


def laws() -> dict[str, list[tuple[str, str]]]:
    """Return the laws of each module of ``didyma.refimpl.verify``: their ids and texts."""
    by_module: dict[str, list[tuple[str, str]]] = {}
    for info in pkgutil.iter_modules(didyma.refimpl.verify.__path__):
        module = importlib.import_module(f"didyma.refimpl.verify.{info.name}")
        rows = _LAW.findall(module.__doc__ or "")
        if rows:
            by_module[info.name] = rows
    return by_module


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
    """Return a docstring up to its examples, on one line, with code marked as in Markdown."""
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
    by_module = laws()
    rows = [(f"`{law}`", text.replace("``", "`")) for m in modules for law, text in by_module[m]]
    yield from _table(("law", "requirement"), rows)


def _named(prefix: str) -> list[str]:
    """Modules of the verifier whose laws begin with the prefix, in name order."""
    return [m for m, rows in laws().items() if rows[0][0].startswith(prefix)]


def _head() -> Iterator[str]:
    yield "# The language"
    yield from _paragraphs(
        """
        `nox -s docs` writes this page from the classes, the op table and the verifier, and a test
        fails if it is out of date. Programs exist at three levels: as a **graph** of tensors, as
        **loops** over buffers, and as a **program** of launches. Each level has a text form that
        parses back to the same program, a verifier, and an interpreter that defines its meaning. A
        fourth form, the text of kernels, is what engines run. `didyma explain FILE` shows all
        levels of one program. A text that breaks one of the laws below is rejected, with the id of
        the law as the error code.
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
        A dtype that is computed in another dtype is used only for storage: values are rounded to it
        once, when a kernel stores them. Dtypes smaller than a byte are packed in memory, with the
        first element in the lowest bits: see [dtypes.md](dtypes.md). [complex.md](complex.md)
        explains complex numbers. Integers wrap around. `TensorType`: {_first(TensorType)} It is
        written `f32[n, 4]`, followed by `@cuda:1` if it names a device. Tensors are dense and
        row-major.
        """
    )


def _sizes() -> Iterator[str]:
    yield "## Sizes"
    yield from _paragraphs(
        f"""
        {_first(dims)} Each symbol is declared with a range, whose ends are included. A symbol is
        *backed* if it is itself a size of some input, which binds it. Every other symbol is bound
        by one node of a graph, or one line of a program, before it is used; its value is checked
        against its range there.
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
        `Node`: {_first(graph.Node)} Every attribute is written: none has a default. A constant is
        written as nested lists, `f32[2] [1.0, 2.0]`; as one value for all elements,
        `f32[99] filled 0.0`; as its bytes in memory, `f32[9] base64 "..."`; or as the name of a
        file beside the text that holds these bytes, `f32[512, 64] file "NAME.bin"`, where NAME is
        the first 32 hexadecimal digits of their SHA-256.
        """
    )
    yield from _dym(show(_example()))
    yield "### Ops"
    yield from _paragraphs(
        f"""
        There are {len(OPS)} primitive ops. [ops.md](ops.md) describes each of them. The kind of an
        op says how an element of its result depends on the operands.
        """
    )
    rows = [
        (str(k), " ".join(f"[{o}](ops.md#{o})" for o, op in sorted(OPS.items()) if op.kind is k))
        for k in Kind
    ]
    yield from _table(("kind", "ops"), rows)
    yield from _paragraphs(
        "These functions are composed of primitive ops, and their bodies define their meaning: "
        + "; ".join(_functions(m) for m in (composite, complexes, fourier))
        + ". [complex.md](complex.md) explains complex numbers and transforms."
    )
    yield "### Control flow"
    yield from _paragraphs(
        """
        Besides ops and `call`, which applies the function named by `callee`, there are four kinds
        of node. A function stands above the functions that use it. Captures are operands that are
        passed on unchanged. When a program is compiled, a call is replaced by the body of its
        callee, unless the callee has the attribute `NoInline`. A callee with this attribute is
        compiled once, and the program calls it. Symbols that it binds are local to it, and are
        bound anew in each call. A function with the attribute `Compiler` is external. A program
        calls it by a name made of the compiler's name, the function's name, and a hash of its body
        and attributes. The body defines what every implementation of the function must compute.
        """
    )
    yield from _table(("node", "operands", "attributes", "meaning"), CONTROL)
    yield "### Laws of graphs"
    yield ""
    yield from _laws(*_named("G-"))


def _functions(module: ModuleType) -> str:
    """Return the path of a module and the names of its public functions that apply ops."""
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
        ("axes", " ".join(f"`{a}`" for a in (*loop.AXES, loop.RANK))),
    ]
    yield from _table(("of", "names"), rows)
    yield "### Statements"
    yield from _classes(loop.Stmt)
    yield "### Functions of a function"
    yield from _paragraphs(
        """
        A function may contain other functions, callees before callers, and call them. The
        parameters of a callee are buffers of its caller, in the state in which the call finds
        them: a buffer need not have been written yet. The call also binds the callee's dims; a
        value outside the range of its dim is the fault `dim-out-of-range`. A callee allocates its
        own buffers anew in each call. It runs in every thread that reaches the call, so threads
        may race inside it. In kernel text, a call is replaced by the body of its callee.
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
        f"{_first(program)} {_first(program.Program)} The text of a program ends with its kernels,"
        " written as loops are, and its functions."
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
        A kernel is printed as CUDA C, in a subset that is C99 except for CUDA's keywords: one
        `extern "C" __global__ void` function of declarations, `for`, `while`, `if` and casts, with
        neither headers nor helper functions. No variable hides another, pointers are parameters
        alone, and nothing returns early. Arithmetic that C does not define completely is
        written as a named intrinsic, such as `floordiv_i32` or `exp_f32`, which the prelude of each
        engine defines. f16 and bf16 are stored as 16-bit integers and converted by intrinsics. The
        same text runs on every engine. `__shared__ __align__(16)` aligns a shared array.
        Intrinsics that only some targets have stand in families, which
        [Instructions of GPUs](instructions.md) lists.
        """
    )


def _bars() -> Iterator[str]:
    yield "## Bars"
    yield from _paragraphs(
        f"""
        For each element, the reference computes a value and an error bar, which says how far a
        correct implementation may be from the value. The contract of an implementation says which
        liberties it may take. `Contract`: {_first(Contract)} Integers and booleans are exact. Where
        a bar has no width, a NaN must be a NaN, an infinity the same infinity, and a zero must have
        the right sign. If a decision may go either way for values inside a bar, the bar of the
        result spans both outcomes; if no bar can, the element is *undecided*, which means that it
        is counted but not judged.
        """
    )


def _errors() -> Iterator[str]:
    yield "## Errors"
    yield from _paragraphs(
        f"""
        `DidymaError`: {_first(DidymaError)} Commands exit with 0 if everything agrees, 1 if
        something disagrees, 2 for bad input, 3 for an internal error, 4 if an engine is missing,
        and 5 if nothing ran.
        """
    )
