"""Functions traced for arrays, and the errors that tracing ends in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

import didyma as dd
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array
from didyma.tracer.types import Element, dtype_of

One: TypeAlias = Callable[[Any], Any]
Two: TypeAlias = Callable[[Any, Any], Any]
Three: TypeAlias = Callable[[Any, Any, Any], Any]


def traced(f: One | Two | Three, *types: Any) -> dd.Program:
    """The program of a function, of types that may be wrong."""
    make: Any = dd.trace
    program: dd.Program = make(*types)(f)
    return program


def interpreted(f: One | Two | Three, *arrays: Array) -> list[Array]:
    """Results of a function traced for the types of arrays."""
    types = [Element(dtype_of(a.dtype))[a.shape] for a in arrays]
    return list(dd.interpret(traced(f, *types), *arrays).values)


def fail(code: str, *words: str) -> pytest.RaisesExc[DidymaError]:
    """The error has the code, or one that begins so, and its text the words."""
    return pytest.RaisesExc(
        DidymaError, check=lambda e: e.code.startswith(code) and all(w in str(e) for w in words)
    )
