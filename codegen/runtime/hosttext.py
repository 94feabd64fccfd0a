"""Kernel text as one C file for the host: types, intrinsics, driver, kernels, entries."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from didyma.codegen.emit.intrinsics import NBYTES, c_type
from didyma.codegen.emit.prelude import Prelude
from didyma.codegen.emit.subset import uncommented
from didyma.codegen.intrinsics import extended
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.target import PORTABLE

_MEETS = (
    "__syncthreads", "shuffle_xor_", "cluster_barrier", "chain_", "ldmatrix", "mma_",
    "mbarrier_wait", "named_barrier", "any_b8",
)  # fmt: skip
GUARD = 64  # bytes around each shared array; GAP_ of driver.c

# Patterns begin with plain text, which a search finds fast.
_HEAD = re.compile(r"__global__\s+void\s+(?:__(?:launch_bounds|cluster_dims)__\([^)]*\)\s*)*(\w+)")
_SHARED = re.compile(
    r"__shared__\s+(?:__align__\((?P<align>\d+)\)\s*)?(?P<type>\w+)\s+(?P<name>\w+)\s*"
    r"(?P<extents>(?:\[\s*\d+\s*\]\s*)+);"
)
_VECTOR = re.compile(r"x(4|8|16)$")  # of f32x4


@dataclass(frozen=True, slots=True)
class KernelPart:
    """One kernel's text, its shared arrays placed in the driver's shared memory.

    ``gaps`` are the offsets of the guard bytes around them; ``shared`` the bytes of all.
    """

    name: str
    source: str
    barriers: bool
    shared: int
    gaps: tuple[int, ...]
    arrays: tuple[str, ...]


def assemble(
    text: KernelText, prelude: Prelude, driver: str, only: Sequence[str] | None = None
) -> tuple[str, dict[str, KernelPart]]:
    """Return the translation unit and its kernels; each has an entry ``launch_<name>__``.

    With ``only`` it has no other kernels than these, on the lines where they were.
    """
    lead, every = split(text.source)
    chosen = every.keys() if only is None else only
    parts = {name: p for name, p in every.items() if name in chosen}
    body = lead + "".join(
        p.source if name in parts else "\n" * p.source.count("\n") for name, p in every.items()
    )
    barriers = any(p.barriers for p in parts.values())
    unit = (
        extended(prelude, text.intrinsics).select(body),
        f"#define SHARED_BYTES__ {max((p.shared for p in parts.values()), default=0)}",
        "#define FIBERS__" if barriers else "",
        f"#define CLUSTER__ {max((s.cluster for s in text.kernels), default=1)}",
        driver,
        '#line 1 "kernel text"',
        body,
        '#line 1 "entries"',
        *(_entry(s, parts[s.name]) for s in text.kernels if s.name in parts),
    )
    return "\n".join(unit), parts


def split(source: str) -> tuple[str, dict[str, KernelPart]]:
    """Cut a text into what precedes the first kernel and the kernels; no line moves."""
    source = uncommented(source).replace('extern "C"', "")
    heads = list(_HEAD.finditer(source))
    ends = [h.start() for h in heads[1:]] + [len(source)]
    parts = (
        _part(h[1], "\n" * h[0].count("\n") + f"static void {h[1]}{source[h.end() : end]}")
        for h, end in zip(heads, ends, strict=False)
    )
    lead = source[: heads[0].start()] if heads else source
    return lead, {p.name: p for p in parts}


def _part(name: str, source: str) -> KernelPart:
    gaps = [0]
    arrays: list[str] = []
    end = GUARD

    def place(m: re.Match[str]) -> str:
        nonlocal end
        dtype, array, brackets = m["type"], m["name"], m["extents"].strip()
        extents = [int(e) for e in re.findall(r"\d+", brackets)]
        align = max(PORTABLE.access, int(m["align"] or 0))
        at = -(-end // align) * align
        nbytes = math.prod(extents) * _nbytes(dtype)
        gaps.append(at + nbytes)
        arrays.append(array)
        end = -(-(at + nbytes + GUARD) // PORTABLE.access) * PORTABLE.access
        rows = "".join(f"[{e}]" for e in extents[1:])
        declared = f"(*const {array}){rows}" if rows else f"*const {array}"
        pointer = f"{dtype} (*){rows}" if rows else f"{dtype} *"
        return f"{dtype} {declared} = ({pointer})((u8 *)shared__ + {at});"

    placed = _SHARED.sub(place, source) if "__shared__" in source else source
    if "__shared__" in placed:
        raise ValueError(f"a shared array of {name} has no constant extents")
    shared = end if arrays else 0
    return KernelPart(
        name,
        placed,
        any(word in source for word in _MEETS),
        shared,
        tuple(gaps[: len(arrays) + 1]),
        tuple(arrays),
    )


def _nbytes(dtype: str) -> int:
    lanes = _VECTOR.search(dtype)
    scalar = dtype[: lanes.start()] if lanes else dtype
    if scalar not in NBYTES:
        raise ValueError(f"{dtype} in shared memory")
    return NBYTES[scalar] * int(lanes[1] if lanes else 1)


def arguments(s: Signature) -> list[str]:
    """Return the arguments of a kernel as C expressions of the words ``a`` of a launch."""
    n = len(s.buffers)
    args = [f"(void *)a[{i}]" for i in range(n)]
    args += [f"*(tensor_map *)a[{n + i}]" for i in range(len(s.maps))]
    n += len(s.maps)
    args += [f"(i64)a[{n + i}]" for i in range(len(s.dims))]
    for i, (_, d) in enumerate(s.scalars, n + len(s.dims)):
        args.append(f"((union {{ u64 word; {c_type(d)} value; }}){{a[{i}]}}).value")
    return args


def _entry(s: Signature, part: KernelPart) -> str:
    gaps = ", ".join(map(str, part.gaps))
    shared = f"{part.shared}, {len(part.gaps) if part.shared else 0}, gaps"
    return f"""\
static void call_{s.name}__(u64 *a) {{ {s.name}({", ".join(arguments(s))}); }}
void launch_{s.name}__(Launch__ *l) {{
  static const u32 gaps[] = {{{gaps}}};
  static const Shared__ shared = {{{shared}}};
  run__(l, call_{s.name}__, {int(part.barriers)}, &shared, {s.cluster});
}}"""
