"""Tasks made of what a user gives: texts, expressions and items of the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

from didyma.codegen.runtime.nvrtc import processor_time
from didyma.codegen.runtime.ptx import maps
from didyma.codegen.runtime.ptx.kernel import DYNAMIC, Kernel
from didyma.codegen.runtime.ptx.maps import Box
from didyma.codegen.runtime.ptx.sources import Source, compiled
from didyma.judging.binding import bind, kept_of
from didyma.judging.contracts import Declared
from didyma.judging.expressions import split
from didyma.judging.heads import Parameter, parameters, source_name
from didyma.judging.task import Draw, Geometry, Step, Task
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
    ``didyma.judging.binding.bind`` takes them, ``flags`` those of NVRTC.  Without ``shared``, a
    kernel that takes dynamic shared memory has 48 KiB.
    """

    kernel: str = ""
    grid: str = "1"
    block: str = "32"
    shared: str = ""
    args: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


def launch_of(table: Mapping[str, Any], flags: tuple[str, ...], where: str) -> Launch:
    """Return a launch of a description; DidymaError ``bad-option`` for a key that it has not."""
    strange = table.keys() - {"kernel", "grid", "block", "shared", "arg"}
    if strange or "kernel" not in table:
        raise DidymaError(
            "bad-option", f"{where}: launch", got=", ".join(sorted(strange)) or "no kernel",
            want="kernel, grid, block, shared and arg",
        )  # fmt: skip
    items = _items(table.get("arg", ()))

    def extents(key: str, usual: str) -> str:
        given = table.get(key, usual)
        return ",".join(map(str, [given] if isinstance(given, int | str) else given))

    return Launch(
        str(table["kernel"]), extents("grid", "1"), extents("block", "32"), extents("shared", ""),
        items, flags,
    )  # fmt: skip


def _items(given: Any) -> tuple[str, ...]:
    """Return the items of a list, or ``NAME=WHAT`` for each of a table."""
    if isinstance(given, Mapping):
        return tuple(f"{k}={v}" for k, v in cast("Mapping[str, Any]", given).items())
    return tuple(map(str, cast("Sequence[Any]", given)))


def make_task(
    source: Source,
    spec: Module,
    launch: Launch | Sequence[Launch],
    contract: Declared | None = None,
    draw: Draw | None = None,
    timeout: float = 10.0,
    memory: Sequence[str] = (),
) -> Task:
    """Compile kernels and find the meaning of their parameters.

    ``memory`` are items ``NAME=f32[SIZES]`` or ``NAME=zero:f32[SIZES]`` of what several launches
    share.
    Errors: ``kernel-text``, ``bad-ptx``, ``unknown-instruction``, ``unknown-kernel``,
    ``spec-mismatch``, ``bad-option``; EngineMissing without NVRTC.
    """
    launches = [launch] if isinstance(launch, Launch) else [*launch]
    macros = [m for m in _MACROS if f"define {m.partition('=')[0]}" not in source.text]
    flags = [*(f"-D{m}" for m in macros), *launches[0].flags]
    if contract is not None and contract.fast_math:
        flags.append("--use_fast_math")
    kept = kept_of(memory)
    of_cuda = not source.file.endswith(".ptx")
    begun = processor_time() if of_cuda else 0.0
    keep = "#include" in source.text
    kernels = [compiled(source, x.kernel, flags, keep=keep) for x in launches]
    compiling = processor_time() - begun if of_cuda else 0.0
    heads = [parameters(source.text, k, x.kernel) for k, x in zip(kernels, launches, strict=True)]
    read = [_without_maps(x.args, p) for x, p in zip(launches, heads, strict=True)]
    params = [
        [replace(q, pointer=True) if q.name in boxes else q for q in p]
        for p, (_, boxes) in zip(heads, read, strict=True)
    ]
    roles = bind(params, spec, [args for args, _ in read], kept)
    steps = tuple(
        Step(
            k, tuple(q.name for q in p), r, frozenset(q.name for q in p if q.pointer is False),
            _geometry(x, k),
            x.kernel or source_name(source.text, k), x.kernel, boxes,
        )
        for x, k, p, r, (_, boxes) in zip(launches, kernels, params, roles, read, strict=True)
    )  # fmt: skip
    return Task(
        source, spec, steps, contract or Declared(), draw or Draw(), timeout, tuple(flags), kept,
        compiling,
    )  # fmt: skip


def _geometry(x: Launch, k: Kernel) -> Geometry:
    grid, block = _three(x.grid, "--grid"), _three(x.block, "--block")
    guessed = k.takes_dynamic and not x.shared
    return Geometry(grid, block, x.shared or (str(DYNAMIC) if guessed else "0"), guessed)


def _without_maps(
    items: Sequence[str], params: Sequence[Parameter]
) -> tuple[tuple[str, ...], dict[str, Box]]:
    """Return items in which arrays stand for their tensor maps, and the maps by parameter."""
    plain, boxes = list[str](), dict[str, Box]()
    for k, item in enumerate(items):
        name, equals, what = ("", "", item) if maps.is_map(item) else item.partition("=")
        if maps.is_map(what):
            array, box = maps.read(what, item)
            boxes[name or (params[k].name if k < len(params) else "")] = box
            plain.append(f"{name}{equals}{array}")
        else:
            plain.append(item)
    return tuple(plain), boxes


def merged(found: Launch, given: Launch) -> Launch:
    """Return a launch that was read off a host function, with what the user gave in its place.

    Arguments with names take the places of those; others take the place of all.
    """
    usual = Launch()
    own = {f.name: getattr(given, f.name) for f in fields(Launch)}
    if all("=" in a for a in given.args):
        own["args"] = (*({_name(a): a for a in (*found.args, *given.args)}).values(),)
    return replace(found, **{k: v for k, v in own.items() if v != getattr(usual, k)})


def _name(item: str) -> str:
    """Return the name of the parameter that an item is for; the item where it has none."""
    return item.partition("=")[0]


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
