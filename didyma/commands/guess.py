"""A launch and arguments for a kernel of which nothing but the text is given."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from didyma.codegen.runtime.ptx.code import Instr, Operand, Special, Vector
from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.machine import Shape
from didyma.commands import hints
from didyma.judging.heads import Parameter, parameters, source_name
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import DType

_BLOCKS = {1: (128, 1, 1), 2: (16, 8, 1), 3: (8, 4, 4)}
_GRIDS = {1: (2, 1, 1), 2: (2, 2, 1), 3: (2, 2, 2)}
_EXTENT = 37  # of an axis, where a kernel has several integers: not a multiple of a power of two
_MOST = 1 << 20  # elements of an array
_LEAST = 1 << 14  # elements, where the kernel takes no integer: its sizes are in its text
_AROUND = 4  # elements for a thread, which may read some beside its own
_WIDE = 16  # elements of 4 bytes in one of a type that is not known
_SCALARS = {1: DType.I8, 2: DType.I16, 4: DType.I32, 8: DType.I64}


def shape(text: str, kernel: Kernel, name: str) -> Shape:
    """Return the launch that the kernel's file tells, as ``hints.launch`` reads it.

    Else it has two blocks along each axis that the kernel asks its place on, and the block is the
    one that the kernel is compiled for, such as by ``__launch_bounds__``, or has 128 threads.
    """
    told = hints.launch(text, name or source_name(text, kernel))
    read = {s.name for i in kernel.program.instrs for s in _specials(i)}
    blocks, threads = (
        max([1, *(k for k, axis in ((2, "y"), (3, "z")) if f"{name}.{axis}" in read)])
        for name in ("ctaid", "tid")
    )
    grid = tuple(n * c for n, c in zip(_GRIDS[blocks], kernel.cluster, strict=True))
    block = kernel.program.kernel.block or told[1] or _BLOCKS[threads]
    return Shape(told[0] or (grid[0], grid[1], grid[2]), block)


def _specials(ins: Instr) -> Iterator[Special]:
    def inner(operands: Sequence[Operand]) -> Iterator[Special]:
        for o in operands:
            if isinstance(o, Special):
                yield o
            elif isinstance(o, Vector):
                yield from inner(o.parts)

    return inner(ins.args)


def items(text: str, kernel: Kernel, name: str, launched: Shape) -> list[str]:
    """Return arguments in the form of ``--arg``, one for each parameter.

    One integer is just below the number of threads; several are 37.  Arrays have room for four
    times the threads, and for each product of two of the integers, or without any for 16,384.  A
    structure has the members that the text declares.
    DidymaError ``input-count`` for a parameter that is no pointer, no number and no such structure.
    """
    found = parameters(text, kernel, name)
    inner = {p.name: _members(text, p) for p in found}
    flat = [q for p in found for q in inner[p.name] or (p,)]
    numbers = [p for p in flat if not _is_pointer(p) and not _is_float(p)]
    threads = launched.blocks * launched.threads
    extent = max(1, threads - 3) if len(numbers) == 1 else _EXTENT
    room = extent ** min(3, max(2, len(numbers))) if numbers else 0
    size = max(_AROUND * threads, room if numbers else _LEAST)

    def item(p: Parameter) -> str:
        if not inner.get(p.name):
            return f"{p.name}={_item(p, extent, size, threads, kernel)}"
        row = (f"{q.name}={_item(q, extent, size, threads, kernel)}" for q in inner[p.name])
        return f"{p.name}={{{','.join(row)}}}"

    return [*map(item, found)]


def _members(text: str, p: Parameter) -> list[Parameter]:
    """Return the members of a structure that is passed by value; none of another parameter."""
    if p.pointer is not False or p.dtype is not None or not p.of:
        return []
    row = [replace(q, nbytes=8 if q.pointer or q.dtype is None else q.dtype.nbytes)
           for q in hints.members(text, p.of) or ()]  # fmt: skip
    return row if _laid_out(row) == p.nbytes else []


def _laid_out(members: Sequence[Parameter]) -> int:
    """Return the bytes of a structure of pointers and numbers, as C lays it out."""
    end, align = 0, 1
    for q in members:
        end = -(-end // q.nbytes) * q.nbytes + q.nbytes
        align = max(align, q.nbytes)
    return -(-end // align) * align


def _is_pointer(p: Parameter) -> bool:
    return bool(p.pointer) or (p.pointer is None and p.nbytes == 8)


def _is_float(p: Parameter) -> bool:
    return p.dtype is not None and p.dtype.is_float


def _item(p: Parameter, extent: int, size: int, threads: int, kernel: Kernel) -> str:
    if _is_pointer(p):
        wide = threads * _WIDE if p.dtype is None and p.pointer else 0
        return f"{(p.dtype or DType.I32).value}[{min(_MOST, max(size, wide))}]"
    dtype = p.dtype or _SCALARS.get(p.nbytes)
    if dtype is None or dtype.nbytes != p.nbytes:
        raise DidymaError(
            "input-count", f"kernel {kernel.name}", got=f"no --arg for {p.name}",
            want=f"all parameters, since the {p.nbytes} bytes of {p.name} cannot be guessed",
            help=f"give a structure by its fields: --arg {p.name}={{n=i32:9,x=f32[9]}}",
        )  # fmt: skip
    if dtype.is_float:
        return f"{dtype.value}:0.75"
    most = 1 if dtype is DType.BOOL else int(math.ldexp(1, 8 * dtype.nbytes - 1)) - 1
    return f"{dtype.value}:{min(extent, most)}"
