"""Run generated modules once, on an engine that loads their kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didyma.codegen.emit import cuda, wrapper
from didyma.codegen.pipeline import Compiled
from didyma.codegen.runtime import modules
from didyma.codegen.runtime.engine import Engine
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.types import Array


def ran(p: Program, on: Engine, inputs: Sequence[Any], **more: Any) -> list[Array]:
    """Return the results of a program."""
    text = cuda.emit(p.kernels, cuda.in_place(p))
    return modules.load(wrapper.emit(p, text))(on, inputs, on.load(text), **more)


def ran_compiled(c: Compiled, on: Engine, inputs: Sequence[Any]) -> list[Array]:
    """Return the results of a compiled module."""
    return modules.load(c.wrapper)(on, inputs, on.load(c.text))
