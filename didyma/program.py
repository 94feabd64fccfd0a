"""Programs: traced, loaded, compiled, interpreted, checked."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, overload

from didyma.arrays import AnyArray, arguments
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled
from didyma.codegen.pipeline import compile as compile_module
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.registry import engine as engine_by_name
from didyma.files import read_module
from didyma.fuzz import levels
from didyma.fuzz.graphs import inputs as random_inputs
from didyma.oracle.report import Report
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph as interpreter
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.text import show
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import bars as bars_
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.builder import Builder
from didyma.refimpl.verify import graph as verify
from didyma.tensor import Tensor, within
from didyma.types import Element, Spec, merge_ranges

Traceable: TypeAlias = Callable[..., Tensor | Sequence[Tensor]]


@dataclass(frozen=True, slots=True)
class Program:
    """A graph with a name: what tracing and loading give, and what the rest takes."""

    module: Module
    source: Traceable | None = None

    def __str__(self) -> str:
        return show(self.module).rstrip()

    def __call__(self, *args: Tensor) -> Tensor | Sequence[Tensor]:
        """Inline a traced function into the one being traced."""
        tensors = all(isinstance(a, Tensor) for a in args)  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's
        if self.source is None or not tensors:
            raise DidymaError(
                "not-compiled", self.module.entry.name, got="a call on arrays",
                want="a compiled program", help="dd.compile(program)(...) runs it on arrays",
            )  # fmt: skip
        return self.source(*args)


Type: TypeAlias = Spec | Element


@overload
def trace(f: Traceable, /) -> Program: ...


@overload
def trace(*types: Type) -> Callable[[Traceable], Program]: ...


def trace(*given: Any) -> Program | Callable[[Traceable], Program]:
    """Make a program of a function: ``@trace`` reads the types off its annotations.

    ``@trace(f32[n, 4], f32[4])`` names the parameters' types instead, for code whose annotations a
    type checker reads (``x: dd.Tensor``).  Errors: ``unannotated`` and whatever the ops raise;
    ``type-mismatch`` if the annotated result is not what comes out.
    """
    # Sizes named in annotations alone are in no closure: they are the caller's local names.
    caller = sys._getframe(1).f_locals  # pyright: ignore[reportPrivateUsage]  # the documented way
    if len(given) != 1 or isinstance(given[0], (Spec, Element)):

        def decorate(f: Traceable) -> Program:
            names = inspect.signature(f).parameters
            if len(names) != len(given):
                raise DidymaError(
                    "unannotated", f.__name__, got=f"{len(given)} types",
                    want=f"one for each of {', '.join(names) or 'no parameters'}",
                )  # fmt: skip
            return _trace(f, dict(zip(names, given, strict=True)))

        return decorate
    f: Traceable = given[0]
    known = {**caller, **inspect.getclosurevars(f).nonlocals}
    return _trace(f, inspect.get_annotations(f, locals=known, eval_str=True))


def _trace(f: Traceable, hints: Mapping[str, object]) -> Program:
    builder = Builder()
    ranges: list[tuple[DimVar, ...]] = []
    tensors: list[Tensor] = []
    for name in inspect.signature(f).parameters:
        spec = _spec(hints.get(name), f"{f.__name__}({name})")
        ranges.append(spec.ranges)
        builder.know(merge_ranges(ranges))
        tensors.append(Tensor(builder, builder.param(name, spec.type)))
    result = f(*tensors)
    results = [result] if isinstance(result, Tensor) else list(result)
    if "return" in hints and isinstance(result, Tensor):
        want = _spec(hints["return"], f"{f.__name__} -> result").type
        if want != result.value.type:
            raise DidymaError(
                "type-mismatch", f.__name__, got=f"a result of type {result.value.type}",
                want=str(want), help="mend the annotation or the function",
            )  # fmt: skip
    m = builder.module(f.__name__, [within(builder, r) for r in results])
    verify.verify(m)
    return Program(m, f)


def _spec(hint: object, where: str) -> Spec:
    if isinstance(hint, Element):
        return hint[()]
    if isinstance(hint, Spec):
        return hint
    raise DidymaError(
        "unannotated", where, got=repr(hint), want="a type such as dd.f32[n, 4]",
        help="annotate every parameter",
    )  # fmt: skip


def load(path: str | Path) -> Program:
    """Read a ``.dym`` text or an ONNX model."""
    return Program(read_module(Path(path)))


@dataclass(frozen=True, slots=True)
class Executable:
    """A compiled program on an engine; call it with arrays."""

    compiled: Compiled
    engine: Engine
    run: Callable[..., list[Any]]

    def __call__(self, *inputs: AnyArray) -> Array | tuple[Array, ...]:
        """Run on arrays: one result as itself, several as a tuple."""
        out = self.run(self.engine, arguments(self.compiled.source.entry.params, inputs))
        return out[0] if len(out) == 1 else tuple(out)

    @property
    def text(self) -> str:
        """The CUDA C text of the kernels."""
        return self.compiled.text.source

    @property
    def wrapper(self) -> str:
        """The generated Python module."""
        return self.compiled.wrapper


def compile(program: Program, *, engine: str = "host", planner: str = "didyma") -> Executable:
    """Compile for an engine; DidymaError for an unknown name, EngineMissing for one absent."""
    chosen = engine_by_name(engine)
    compiled = compile_module(program.module, Options(planner=planner))
    return Executable(compiled, chosen, levels.runner(compiled, chosen))


@dataclass(frozen=True, slots=True)
class Interpreted:
    """The truth: ``values`` in their dtypes, and how far a correct implementation may be off."""

    values: tuple[Array, ...]
    bars: tuple[Bar, ...]


def interpret(program: Program, *inputs: AnyArray) -> Interpreted:
    """Evaluate by the reference implementation."""
    m = program.module
    arrays = arguments(m.entry.params, inputs)
    values = interpreter.run(m, arrays)
    rows = [(p.name, p.type.shape, a.shape) for p, a in zip(m.entry.params, arrays, strict=True)]
    env = dims.bind(rows, m.dims)
    given = [bars_.exact(a, DType.of(a)) for a in arrays]
    bars = interpreter.bars(m.entry, m, given, env, Contract(), stored=True)
    return Interpreted(tuple(values), tuple(bars))


def check(
    program: Program,
    *,
    engines: Iterable[str] = ("host",),
    sizes: Mapping[str, int] | None = None,
    seed: int = 1,
    planner: str = "didyma",
) -> Report:
    """Judge every level on random inputs.

    It runs in this process: ``didyma check`` runs it in one that may crash.
    """
    m = program.module
    told = control.told(m)
    env = {v.name: min(v.hi, v.lo + 2) for v in m.dims if v.name in told} | dict(sizes or {})
    dims.check_ranges(env, m.dims)
    seeds = [seed * 1000 + i for i in range(len(m.entry.params))]
    arrays = random_inputs(m, env, seeds)
    chosen = [engine_by_name(e) for e in engines]
    return levels.check(m, arrays, chosen, Options(planner=planner))


__all__ = ["Executable", "Interpreted", "Program", "check", "compile", "interpret", "load", "trace"]
