"""What writes a program with its memory: as a module, as JSON, and as a loader in C++."""

from __future__ import annotations

from collections.abc import Iterator

from didyma.codegen.emit import wrapper
from didyma.codegen.emit.buckets import Buckets
from didyma.codegen.emit.program_json import program_json
from didyma.codegen.options import EMBEDDED
from didyma.fuzz.allocator import wrappers
from didyma.fuzz.cpp.judge import has_loader, written
from didyma.fuzz.readings import told as tell
from didyma.fuzz.readings.told import Told
from didyma.refimpl.ir.target import SM_90A
from didyma.refimpl.ir.text import parse_program
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
