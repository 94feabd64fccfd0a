"""Programs compiled for an engine, and interpreted by the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from didyma.arrays import AnyArray, arguments
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled
from didyma.codegen.pipeline import compile as compile_module
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.registry import engine as engine_by_name
from didyma.fuzz import levels
from didyma.refimpl.interp import graph as interpreter
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import bars as bars_
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.tracing import Program


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
