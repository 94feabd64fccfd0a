"""Shared memory of kernels that declare more of it than CUDA lets them: a launch asks for it."""

from __future__ import annotations

import math
import re

from didyma.codegen.emit.intrinsics import NBYTES, VECTORS
from didyma.refimpl.ir.target import PORTABLE

LEAST = 16  # bytes to a multiple of which an array begins
MOST = 1024  # likewise of the whole, which is what devices keep to
_HEAD = re.compile(r"__global__\s+void\s+(?:__\w+__\s*\([^)]*\)\s*)*(\w+)\s*\(")
_ARRAY = re.compile(
    r"__shared__\s+(?:__align__\((?P<align>\d+)\)\s*)?(?P<type>\w+)\s+(?P<name>\w+)\s*"
    r"(?P<extents>(?:\[\s*\d+\s*\]\s*)+);"
)


def placed(source: str) -> tuple[str, dict[str, int]]:
    """Return a text whose large kernels have their arrays in memory that a launch asks for.

    Also how many bytes each of these kernels asks for.  Large are those that declare more than
    CUDA lets a kernel declare, 48 KiB.  No line moves.

    >>> head = 'extern "C" __global__ void f(f32 *y) {'
    >>> text, asked = placed(f"{head} __shared__ f32 s[16384]; y[0] = s[1]; }}")
    >>> asked
    {'f': 65536}
    >>> print(text[len(head) + 1 : -15])
    extern __shared__ __align__(1024) u8 f_shared__[]; f32 *const s = (f32 *)(f_shared__ + 0);
    >>> placed(f"{head} __shared__ f32 s[16]; y[0] = s[1]; }}")[1]
    {}
    >>> placed("")
    ('', {})
    """
    heads = list(_HEAD.finditer(source))
    ends = [*(h.start() for h in heads), len(source)][1:]
    parts, asked = [source[: heads[0].start()] if heads else source], dict[str, int]()
    for head, end in zip(heads, ends, strict=True):
        text, nbytes = _one(head[1], source[head.start() : end])
        parts.append(text)
        if nbytes > PORTABLE.shared:
            asked[head[1]] = nbytes
    return "".join(parts), asked


EARLY = 'asm volatile("griddepcontrol.wait;" ::: "memory");'


def early(source: str) -> str:
    """Return a text whose kernels may begin before what precedes them has ended, and wait for that.

    They let nothing begin before their last block ends, since blocks that wait on some
    multiprocessors would later run beside others than their neighbours.  No line moves.

    >>> early('extern "C" __global__ void f(f32 *y) { y[0] = 1.0f; }').replace(EARLY, "WAIT")
    'extern "C" __global__ void f(f32 *y) { WAIT y[0] = 1.0f; }'
    """
    parts, end = list[str](), 0
    for head in _HEAD.finditer(source):
        begin = source.index("{", head.end()) + 1
        parts += [source[end:begin], " ", EARLY]
        end = begin
    return "".join((*parts, source[end:]))


def nbytes(source: str) -> int:
    """Return the bytes of shared memory that a text declares, as they lie one after another."""
    return _one("", source)[1]


def _one(kernel: str, source: str) -> tuple[str, int]:
    """Return one kernel, its arrays placed if they are too large, and their bytes."""
    whole, end = f"{kernel}_shared__", 0

    def place(m: re.Match[str]) -> str:
        nonlocal end
        extents = [int(e) for e in re.findall(r"\d+", m["extents"])]
        align = max(LEAST, int(m["align"] or 0))
        at = -(-end // align) * align
        first = end == 0
        end = at + math.prod(extents) * _size(m["type"])
        rows = "".join(f"[{e}]" for e in extents[1:])
        star = f"(*const {m['name']}){rows}" if rows else f"*const {m['name']}"
        kind = f"{m['type']} (*){rows}" if rows else f"{m['type']} *"
        head = f"extern __shared__ __align__({MOST}) u8 {whole}[]; " if first else ""
        return f"{head}{m['type']} {star} = ({kind})({whole} + {at});"

    text = _ARRAY.sub(place, source)
    return (text if end > PORTABLE.shared else source), end


def _size(kind: str) -> int:
    dtype, lanes = VECTORS.get(kind, (kind, 1))
    return NBYTES[dtype] * lanes
