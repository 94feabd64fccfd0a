"""What plans the memory of a program, and what writes or records a planned one.

It is written as a module, as JSON, and as a loader in C++; the steps of its calls are recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

from didyma.codegen.emit import wrapper
from didyma.codegen.emit.buckets import Buckets
from didyma.codegen.emit.program_json import program_json
from didyma.codegen.memory import peak, planner, views
from didyma.codegen.memory.peak import unplanned_total
from didyma.codegen.memory.plan import plan, samples
from didyma.codegen.options import EMBEDDED, Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime import modules
from didyma.codegen.runtime.device_array import DeviceArray
from didyma.codegen.runtime.record import obstacle, record
from didyma.fuzz.allocator import replays, wrappers
from didyma.fuzz.allocator.domains import QUICK
from didyma.fuzz.allocator.kernels import movers
from didyma.fuzz.cpp.judge import has_loader, written
from didyma.fuzz.readings import told as tell
from didyma.fuzz.readings.told import Told, said
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.target import SM_90A
from didyma.refimpl.ir.text import parse_module, parse_program, show
from didyma.refimpl.ir.types import DType
from didyma.refimpl.verify.program import verify


def program(text: str, told: Told) -> Iterator[str]:
    """Write a program; ``told`` are its machine code, buckets of sizes, and an architecture."""
    p = parse_program(text)
    verify(p, kernels=False)
    kernels, objects = wrappers.text_of(p), told.get("objects", {})
    b = _buckets(told["buckets"]) if "buckets" in told else None
    yield wrapper.emit(p, kernels, told.get("embedded", EMBEDDED), objects, buckets=b)
    apart = wrapper.weights_table(p) if objects else None
    yield program_json(p, kernels, objects, apart, buckets=b)
    if has_loader(p, kernels):
        cpp = written(p, kernels, told.get("architecture", SM_90A.name), b)
        yield cpp.header()
        yield cpp.loader()


def _buckets(told: Told) -> Buckets:
    return Buckets(
        {name: tuple(row) for name, row in told["sizes"].items()},
        tuple(map(tell.dim, told["given"])),
        tuple(tuple(map(tell.dim, row)) for row in told["results"]),
    )


def plans(text: str, told: Told) -> Iterator[str]:
    """Plan the memory of a program by each quick planner, or by one, eagerly and otherwise."""
    bare = parse_program(text)
    names = (told["planner"],) if "planner" in told else QUICK
    for name, eager in product(names, (False, True)):
        yield said(partial(_plan, bare, name, told.get("capacity"), eager=eager))


def _plan(bare: Program, name: str, capacity: int | None, *, eager: bool) -> str:
    made = plan(bare, planner(name), capacity, movers(bare), eager=eager)
    verify(made, kernels=False)
    peaks = [(peak(made, env), unplanned_total(bare, env)) for env in samples(bare)]
    return f"{peaks}\n{show(made)}"


def recorded(text: str, told: Told) -> Iterator[str]:
    """Record what calls of a planned program do on a GPU, or say why they cannot be recorded."""
    del told
    p = parse_program(text)
    verify(p, kernels=False)
    if why := obstacle(p):
        yield why
        return
    kernels = replays.text_of(p)
    module = modules.module(wrapper.emit(p, kernels))
    weights = [_array(t.dtype, t.shape, k + 1) for k, (_, t) in enumerate(p.constants)]

    def run(engine: Any, inputs: list[Any], *, kernels: Any) -> list[Any]:
        out: list[Any] = module["run"](engine, inputs, kernels, weights)
        return out

    types = [p.type[v] for v in p.inputs]
    for env in samples(p):
        inputs = [_array(t.dtype, dims.values(t.shape, env)) for t in types]
        yield repr(record(run, kernels, inputs))


def _array(dtype: DType, shape: tuple[int, ...], number: int = 0) -> DeviceArray:
    """Return an array on a GPU that nobody asks; constants lie somewhere."""
    return DeviceArray(number << 20, dtype, shape, 0, None)


def moved(text: str, told: Told) -> Iterator[str]:
    """Find the kernels of a module that only move runs of bytes."""
    target = tell.target(told)
    options = Options().changed({"target": target.name, **told.get("options", {})})
    made = compile(parse_module(text), options, until="schedule")
    yield str(views.movers(made.fused, made.loops, made.kernels, target))
