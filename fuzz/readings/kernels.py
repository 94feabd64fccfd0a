"""Readers of kernels: plain CUDA C, kernel text, and kernel text for a function of loops."""

from __future__ import annotations

from collections.abc import Iterator

from didyma.codegen.claims import claim
from didyma.codegen.emit import dynamic, subset
from didyma.codegen.emit.plain import plain
from didyma.codegen.emit.text_kernel import Reader
from didyma.fuzz.readings import told as tell
from didyma.fuzz.readings.told import BETWEEN, Told
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.target import TARGETS
from didyma.refimpl.ir.text import parse_loop


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
