"""Tasks made of what a user gives: texts, expressions and items of the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from didyma.codegen.runtime.ptx.sanitize import Source, compiled
from didyma.judging.binding import bind
from didyma.judging.contracts import Declared
from didyma.judging.expressions import split
from didyma.judging.heads import parameters, source_name
from didyma.judging.task import Draw, Geometry, Task
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Module

# What files for nvcc take from the headers of the host.
_MACROS = (
    "INFINITY=__int_as_float(0x7f800000)", "NAN=__int_as_float(0x7fffffff)",
    "FLT_MAX=3.402823466e+38f", "FLT_MIN=1.175494351e-38f", "FLT_EPSILON=1.192092896e-07f",
    "INT_MAX=2147483647", "INT_MIN=(-2147483647-1)", "M_PI=3.14159265358979323846",
    "M_SQRT1_2=0.70710678118654752440", "M_2_SQRTPI=1.12837916709551257390",
)  # fmt: skip
_RANGE = re.compile(r"(-?[\w.+-]+?)\.\.(-?[\w.+-]+)$")


@dataclass(frozen=True, slots=True)
class Launch:
    """How a kernel is compiled and launched, and what its arguments are, as a user writes them.

    ``kernel`` is its name, or an instance of a template; empty for the only kernel.  ``grid``,
    ``block`` and ``shared`` are expressions of sizes, ``args`` items as
    ``didyma.judging.binding.bind`` takes them, ``flags`` those of NVRTC.
    """

    kernel: str = ""
    grid: str = "1"
    block: str = "32"
    shared: str = "0"
    args: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


def make_task(
    source: Source,
    spec: Module,
    launch: Launch,
    contract: Declared | None = None,
    draw: Draw | None = None,
    seconds: float = 10.0,
) -> Task:
    """Compile a kernel and find the meaning of its parameters.

    Errors: ``kernel-text``, ``bad-ptx``, ``unknown-instruction``, ``unknown-kernel``,
    ``spec-mismatch``, ``bad-option``; EngineMissing without NVRTC.
    """
    macros = [m for m in _MACROS if f"define {m.partition('=')[0]}" not in source.text]
    flags = [*(f"-D{m}" for m in macros), *launch.flags]
    if contract is not None and contract.fast_math:
        flags.append("--use_fast_math")
    kernel = compiled(source, launch.kernel, flags)
    params = parameters(source.text, kernel, launch.kernel)
    roles = bind(params, spec, launch.args)
    geometry = Geometry(
        _three(launch.grid, "--grid"), _three(launch.block, "--block"), launch.shared
    )
    numbers = frozenset(p.name for p in params if p.pointer is False)
    return Task(
        source, kernel, spec, tuple(p.name for p in params), roles, numbers, geometry,
        contract or Declared(), draw or Draw(), seconds,
        launch.kernel or source_name(source.text, kernel), launch.kernel, tuple(flags),
    )  # fmt: skip


def merged(found: Launch, given: Launch) -> Launch:
    """Return a launch that was read off a host function, with what the user gave in its place."""
    usual = Launch()
    own = {f.name: getattr(given, f.name) for f in fields(Launch)}
    return replace(found, **{k: v for k, v in own.items() if v != getattr(usual, k)})


def _three(text: str, option: str) -> tuple[str, ...]:
    parts = tuple(split(text))
    if not 1 <= len(parts) <= 3 or not all(parts):
        raise DidymaError("bad-option", f"{option} {text}", got=text, want="X[,Y[,Z]]")
    return parts


def read_source(path: Path) -> Source:
    """Read a kernel's file; DidymaError ``unreadable-file``, ``unknown-format``."""
    if path.suffix not in (".cu", ".cuh", ".cpp", ".ptx"):
        raise DidymaError(
            "unknown-format", str(path), got=path.suffix or "no suffix", want=".cu or .ptx"
        )
    return Source.read(path)


def sizes_of(items: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the sizes of items ``NAME=N,N``; DidymaError ``bad-option``.

    >>> sizes_of(["n=4,8"])
    {'n': (4, 8)}
    """
    found: dict[str, tuple[int, ...]] = {}
    for item in items:
        name, _, row = item.partition("=")
        numbers = row.split(",")
        if not name or not all(n.strip().isdecimal() for n in numbers):
            raise DidymaError("bad-option", f"--size {item}", got=item, want="NAME=N[,N…]")
        found[name] = tuple(map(int, numbers))
    return found


def ranges_of(items: Sequence[str], spec: Module) -> Mapping[str, tuple[float, float]]:
    """Return the ranges of items ``NAME=LOW..HIGH``; DidymaError ``bad-option``."""
    names = [p.name for p in spec.entry.params]
    found: dict[str, tuple[float, float]] = {}
    for item in items:
        name, _, row = item.partition("=")
        m = _RANGE.match(row)
        try:
            low, high = (float(m[1]), float(m[2])) if m else (1.0, 0.0)
        except ValueError:
            low, high = 1.0, 0.0
        if name not in names or not low <= high:
            want = f"NAME=LOW..HIGH with NAME of {', '.join(names)}"
            raise DidymaError("bad-option", f"--values {item}", got=item, want=want)
        found[name] = low, high
    return found
