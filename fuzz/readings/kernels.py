"""Readers of kernels: plain CUDA C, kernel text, that for a function of loops, and loops alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from didyma.codegen.claims import claim
from didyma.codegen.emit import cuda, dynamic, prelude, subset
from didyma.codegen.emit.intrinsics import TABLE, family
from didyma.codegen.emit.plain import plain
from didyma.codegen.emit.text_kernel import Reader
from didyma.codegen.runtime import hosttext
from didyma.codegen.runtime.geometry import geometry
from didyma.fuzz.readings import told as tell
from didyma.fuzz.readings.told import BETWEEN, Told, said
from didyma.refimpl.ir.kernel import Signature, TextKernel
from didyma.refimpl.ir.target import SM_90A, TARGETS
from didyma.refimpl.ir.text import parse_loop
from didyma.refimpl.verify import loop as laws


def foreign(text: str, told: Told) -> Iterator[str]:
    """Read a kernel of plain CUDA C."""
    made = plain(text, **told)
    yield f"{made.source} {made.name} {made.pointers} {made.scalars} {sorted(made.constants)}"


def kernel(text: str, told: Told) -> Iterator[str]:
    """Read the head of a kernel text, and turn it into C99."""
    target = TARGETS[told["target"]] if "target" in told else None
    yield repr(Reader(text, "a kernel", told.get("more", ()), target).head())
    yield subset.to_c99(text)
    yield f"{dynamic.placed(text)} {dynamic.early(text)}"


def claimed(text: str, told: Told) -> Iterator[str]:
    """Read a loop program and the kernel below it, which claims to compute that."""
    above, _, source = text.partition(BETWEEN)
    (loop,) = parse_loop(above)
    kernel = TextKernel(
        source, tuple(told["reads"]), tuple(told["writes"]), tell.grid(told), tell.block(told),
        tuple(map(tell.buffer, told.get("workspace", ()))), told.get("chain"),
        zeroed=tuple(told.get("zeroed", ())),
    )  # fmt: skip
    yield repr(claim(kernel, loop, "a kernel", tell.target(told)))


def loops(text: str, told: Told) -> Iterator[str]:
    """Write kernels of loops as kernel text, and as the host compiles it; tell their launches."""
    kernels = parse_loop(text)
    for f in kernels:
        laws.verify(f, SM_90A)
    made = cuda.emit(kernels, told.get("shared"), contract=told.get("contract", True))
    yield f"{made.source} {[(at, type(s).__name__) for at, s in made.origins]}"
    unit, parts = hosttext.assemble(made, prelude.load("host"), "")
    yield f"{unit} {parts}"
    for s in made.kernels:
        yield repr(s)
        yield from (said(partial(_launch, s, tuple(e.items()))) for e in told.get("sizes", ()))


def _launch(s: Signature, sizes: tuple[tuple[str, int], ...]) -> str:
    return repr(geometry(s, dict(sizes)))


def intrinsics(text: str, told: Told) -> Iterator[str]:
    """Tell the intrinsics that a text names, and what else is compiled with it on a machine."""
    for name in filter(TABLE.__contains__, text.split()):
        yield f"{name} {TABLE[name]} {family(name)}"
    yield prelude.load(told["machine"]).select(text)
