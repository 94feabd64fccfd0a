"""Small functions to choose schedules of, and a judge and children without processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from didyma.codegen.lower import lower
from didyma.codegen.options import Options
from didyma.codegen.select.choosers import Request
from didyma.codegen.select.selector import Isolate
from didyma.codegen.select.worker import Say, Task, examine
from didyma.refimpl.ir.dims import Dim, DimVar, symbol
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.types import DType
from didyma.tuning import isolated
from tests.codegen.lower.judged import primitive
from tests.codegen.make import Graph
from tests.fuzz.hurry import put_forward

N = symbol("n")
DIMS = (DimVar("n", 1, 4096),)


def row_sum(*shape: Dim, dtype: DType = DType.F32) -> Module:
    g = Graph()
    x = g.param("x", *shape, dtype=dtype)
    return primitive(g.module(g("sum", x, axes=(1,), keepdims=False), dims=DIMS))


def loop(*shape: Dim, dtype: DType = DType.F32) -> PrimFunc:
    m = row_sum(*(shape or (6, 90)), dtype=dtype)
    return lower(m.entry, m)


def request(f: PrimFunc | None = None, **env: int) -> Request:
    return Request("main", f or loop(), Options(), "host", "host: test", env)


def task(f: PrimFunc | None = None) -> Task:
    return Task(f or loop(), Options(), "host", {}, 1)


def impatient(monkeypatch: pytest.MonkeyPatch, hangs: str) -> Isolate:
    """Return what calls in child processes, whose time is over when they examine what hangs."""
    later = put_forward(monkeypatch)

    def isolate(f: Callable[..., Any], args: tuple[Any, ...], seconds: float, say: Say) -> Any:
        def heard(message: str) -> None:
            say(message)
            if f is examine and json.loads(message).get("begin", "").startswith(hangs):
                later(seconds)

        return isolated(f, args, seconds, heard)

    return isolate


def inline(f: Callable[..., Any], args: tuple[Any, ...], seconds: float, say: Say) -> Any:
    del seconds
    return f(*args, say)
