"""Programs: traced from functions, or loaded from files."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast, overload

from didyma.composites.builder import Builder
from didyma.files import read_loops, read_module
from didyma.loops import LoopProgram
from didyma.refimpl.errors import DidymaError, counted
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.text import show
from didyma.refimpl.verify import graph as verify
from didyma.tracer.signatures import (
    check_arguments,
    check_results,
    name_of,
    parameters,
    results_of,
    signature_of,
    spec_of,
)
from didyma.tracer.tensor import Tensor, constant, is_scalar, number, within
from didyma.tracer.types import Element, Spec, merge_ranges

if TYPE_CHECKING:
    from didyma.codegen.codegens import Codegen

Traceable: TypeAlias = Callable[..., Tensor | Sequence[Tensor]]
_SHOWN = 6  # inputs or outputs in the short form of a program


@dataclass(frozen=True, slots=True)
class Program:
    """A graph with a name: what tracing and loading give, and what the rest takes.

    ``print(program)`` shows its text; in a session it shows what goes in and what comes out.
    """

    module: Module
    source: Traceable | None = None
    kernels: tuple[Codegen, ...] = ()  # that ``dd.kernel`` gave functions of the module

    def __str__(self) -> str:
        return show(self.module).rstrip()

    def __repr__(self) -> str:
        m = self.module
        sizes = [f"{v.name} in [{v.lo}, {v.hi}]" for v in m.dims]
        functions = f", {len(m.functions)} functions" if len(m.functions) > 1 else ""
        rows = {
            "inputs": _listed(f"{p.name}: {p.type}" for p in m.entry.params),
            "outputs": _listed(map(str, m.entry.result_types())),
            "sizes": _listed(sizes),
            "nodes": f"{sum(len(f.nodes) for f in m.functions)}{functions}",
        }
        lines = [f"  {k:<8} {v}" for k, v in rows.items() if v]
        return "\n".join([f"Program {m.entry.name}", *lines])

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor | Sequence[Tensor]:
        """Inline a traced function into the one being traced; arrays become constants of it.

        Errors: ``not-compiled`` for a call on arrays alone or of a program from a file,
        ``bad-call`` for other parameters, ``type-mismatch`` for other types.
        """
        name = self.module.entry.name
        tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
        if self.source is None or not tensors:
            raise DidymaError(
                "not-compiled", name,
                got="a call on arrays" if self.source else "a call of a program from a file",
                want="a compiled program", help="dd.compile(program)(...) runs it on arrays",
            )  # fmt: skip
        call = signature_of(self.source).bind
        try:
            passed = call(*args, **kwargs).arguments
        except TypeError as e:
            want = f"{name}({', '.join(p.name for p in self.module.entry.params)})"
            raise DidymaError("bad-call", name, got=str(e), want=want) from None
        b = tensors[0].builder.current
        types = {p.name: p.type.dense for p in self.module.entry.params}
        operands = {
            k: number(b, v, types[k].dtype) if is_scalar(v) else constant(b, v)
            for k, v in passed.items()
            if k in types
        }
        declared = {v.name: (v.lo, v.hi) for v in self.module.dims}
        actual = [operands[k].value.type for k in types]
        check_arguments(name, types, actual, declared, b.ranges())
        return _called(self.source, {**passed, **operands})


def _listed(items: Iterable[str]) -> str:
    """Return items as one line of text, of which those beyond the first few are only counted."""
    many = list(items)
    rest = len(many) - _SHOWN
    return ", ".join(many[:_SHOWN]) + (f", and {rest} more" if rest > 0 else "")


Type: TypeAlias = Spec | Element


@overload
def trace(f: Traceable, /) -> Program: ...


@overload
def trace(*types: Type) -> Callable[[Traceable], Program]: ...


def trace(*args: Any) -> Program | Callable[[Traceable], Program]:
    """Make a program of a function: ``@trace`` reads the types off its annotations.

    A parameter's annotation is ``f32[n, 4]``, or ``Annotated[Tensor, f32[n, 4]]`` where a type
    checker reads it too.  ``@trace(f32[n, 4], f32[4])`` names the parameters' types instead.  A
    parameter with a default value and no type keeps that value.

    Errors: ``unannotated``; ``bad-result`` for what is no tensor; ``type-mismatch`` if the results
    are not as annotated; whatever the ops raise.
    """
    # Sizes named in annotations alone are in no closure: they are the caller's local names.
    caller = sys._getframe(1).f_locals  # pyright: ignore[reportPrivateUsage]  # the documented way
    first = args[0] if len(args) == 1 and spec_of(args[0]) is None else None
    if callable(first) and not isinstance(first, type):
        f = cast("Traceable", first)
        return _trace(f, _hints(f, caller))
    for t in args:
        if spec_of(t) is None:
            raise DidymaError(
                "unannotated",
                "dd.trace",
                got=repr(t),
                want="a function alone, or types such as dd.f32[n, 4]",
                help="types come before the function: dd.trace(dd.f32[n, 4])(f)",
            )

    def decorate(f: Traceable) -> Program:
        names = signature_of(f).parameters
        untyped = list(names.values())[len(args) :]
        if len(args) > len(names) or any(p.default is p.empty for p in untyped):
            raise DidymaError(
                "unannotated", name_of(f), got=counted(len(args), "type"),
                want=f"one for each of {', '.join(names) or 'no parameters'}",
            )  # fmt: skip
        hints: dict[str, object] = dict(zip(names, args, strict=False))
        with suppress(DidymaError):  # the function's own annotations may be for checkers alone
            hints["return"] = _hints(f, caller).get("return")
        return _trace(f, hints)

    return decorate


def _hints(f: Traceable, caller: Mapping[str, Any]) -> dict[str, Any]:
    """Annotations of a function; DidymaError ``unannotated`` where one cannot be evaluated."""
    plain = inspect.unwrap(f) if inspect.isroutine(f) else type(f).__call__
    known = dict(caller)
    if inspect.isfunction(plain):
        known |= inspect.getclosurevars(plain).nonlocals
    try:
        return inspect.get_annotations(plain, locals=known, eval_str=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as e:
        raise DidymaError(
            "unannotated", name_of(f), got=f"an annotation that cannot be evaluated: {e}",
            want="names that are known where the function is traced",
            help="pass the types instead: @dd.trace(dd.f32[n, 4])",
        ) from None  # fmt: skip


def _trace(f: Traceable, hints: Mapping[str, object]) -> Program:
    builder = Builder()
    tensors: dict[str, Tensor] = {}
    typed = parameters(f, hints)
    builder.know(merge_ranges([p.spec.ranges for p in typed]))
    for p in typed:
        tensors[p.name] = Tensor(builder, builder.param(p.name, p.spec.type))
    name = name_of(f)
    values = [within(builder, r) for r in results_of(name, _called(f, tensors))]
    check_results(name, hints.get("return"), [v.type for v in values], builder.ranges())
    m = builder.module(name, values)
    verify.verify(m)
    return Program(m, f, tuple(builder.kernels.values()))


def _called(f: Traceable, by_name: Mapping[str, Any]) -> Tensor | Sequence[Tensor]:
    """Call a function with arguments by name."""
    bound = signature_of(f).bind_partial()
    bound.arguments.update(by_name)
    return f(*bound.args, **bound.kwargs)


def load(path: str | Path) -> Program | LoopProgram:
    """Read a ``.dym`` text or an ONNX model; a text of a loop function gives a ``LoopProgram``."""
    found = read_loops(Path(path))
    return Program(read_module(Path(path))) if found is None else LoopProgram(found)
