"""A launch and arguments for a kernel of which nothing but the text is given."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from didyma.codegen.runtime.ptx.code import Instr, Operand, Special, Vector
from didyma.codegen.runtime.ptx.kernel import DYNAMIC, Kernel
from didyma.codegen.runtime.ptx.machine import Shape
from didyma.codegen.runtime.ptx.parameters import uses
from didyma.commands import hints
from didyma.commands.hints import Extents
from didyma.commands.host_code import Buffer
from didyma.judging.heads import Parameter, declared, parameters, source_name
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.target import PORTABLE
from didyma.refimpl.ir.types import DType

_BLOCKS = {1: (128, 1, 1), 2: (16, 8, 1), 3: (8, 4, 4)}
_GRIDS = {1: (2, 1, 1), 2: (2, 2, 1), 3: (2, 2, 2)}
_EXTENT = 37  # of an axis, where a kernel has several integers: not a multiple of a power of two
_WARP = 32  # threads
_FEW = 8  # rounds of a loop
_MOST = 1 << 20  # elements of an array
_LEAST = 1 << 14  # elements, where the kernel takes no integer: its sizes are in its text
_AROUND = 4  # elements for a thread, which may read some beside its own
_WIDE = 4  # elements of 4 bytes in one of a type that is not known
_SCALARS = {1: DType.I8, 2: DType.I16, 4: DType.I32, 8: DType.I64}


def shape(text: str, kernel: Kernel, name: str) -> Shape:
    """Return the launch that the kernel's file tells, as ``hints.launch`` reads it.

    Else it has two blocks along each axis that the kernel asks its place on, one if it asks for
    none, since all would do the same.  A block of which nothing is told has 128 threads.
    """
    bound = kernel.program.kernel.block
    told = hints.launch(text, name or source_name(text, kernel), bound)
    read = {s.name for i in kernel.program.instrs for s in _specials(i)}
    blocks, threads = (
        max([1, *(k for k, axis in ((2, "y"), (3, "z")) if f"{name}.{axis}" in read)])
        for name in ("ctaid", "tid")
    )
    placed = any(name.startswith(("ctaid", "nctaid", "cluster")) for name in read)
    extents = _GRIDS[blocks] if placed else (1, 1, 1)
    grid = tuple(n * c for n, c in zip(extents, kernel.cluster, strict=True))
    return Shape(told[0] or (grid[0], grid[1], grid[2]), told[1] or _BLOCKS[threads])


def launches(
    text: str, kernel: Kernel, name: str, near: Shape, *, firm: bool
) -> Iterator[tuple[Shape, list[str], bool]]:
    """Yield launches to try in turn: shape, ``items``, and whether they may hide faults.

    The first is ``near`` with the usual integers.  Those that the file does not tell are then as
    many as the threads along the first axis of the grid, as those of a block, and few.  If they
    bound the index of threads or address memory, there may be no tail any more that shows a fault.
    Blocks of other shapes follow, unless the user was ``firm`` about the block or the file has a
    launch; those of one warp may hide faults, too.
    """
    usual, blank = (items(text, kernel, name, near, extent) for extent in (None, 0))
    names = [p.name for p in kernel.program.kernel.params]
    free = {n for n, a, b in zip(names, usual, blank, strict=True) if a != b}
    told, _ = hints.launch(text, name or source_name(text, kernel))
    known = firm or told is not None or kernel.program.kernel.block is not None
    hides = bool(free & uses(kernel.program).sizes)
    for block in (near.block, *(() if known else _blocks(near.block))):
        shape = Shape(near.grid, block)
        yield shape, items(text, kernel, name, shape), math.prod(block) == _WARP
        for extent in (near.grid[0] * block[0], block[0], _FEW) if free else ():
            yield shape, items(text, kernel, name, shape, extent), hides


def _blocks(block: Extents) -> Iterator[Extents]:
    """Yield other shapes of a block along the same axes, each of a whole warp or more."""
    x, y, z = block
    flat = ((64, 1, 1), (256, 1, 1), (x // 2, 1, 1), (32, 1, 1))
    deep = ((x, y // 2, z), (x, y // 4, z), (16, 16, z), (32, 8, z), (32, 32, z))
    for other in dict.fromkeys(flat if y == z == 1 else deep):
        if other != block and math.prod(other) >= _WARP and PORTABLE.has_room(other):
            yield other


def _specials(ins: Instr) -> Iterator[Special]:
    def inner(operands: Sequence[Operand]) -> Iterator[Special]:
        for o in operands:
            if isinstance(o, Special):
                yield o
            elif isinstance(o, Vector):
                yield from inner(o.parts)

    return inner(ins.args)


def shared(text: str, kernel: Kernel, name: str) -> int:
    """Return bytes of dynamic shared memory: as the file tells them, or 48 KiB if any is used."""
    if not kernel.takes_dynamic:
        return 0
    told = hints.shared(text, name or source_name(text, kernel))
    return DYNAMIC if told is None else told


def items(
    text: str, kernel: Kernel, name: str, launched: Shape, extent: int | None = None
) -> list[str]:
    """Return arguments in the form of ``--arg``, one for each parameter.

    They are those of the launch in the file, as far as it tells numbers and the bytes of memory.
    Of the rest, one integer is just below the number of threads; several are 37; all are an
    ``extent`` that is given.  Arrays have room for four times the threads, for each product of two
    of the integers, and for as many elements a thread as the greatest; without any, for 16,384.  A
    structure has the members that the text declares.
    DidymaError ``input-count`` for a parameter that is no pointer, no number and no such structure.
    """
    kinds = hints.instance(text, name or source_name(text, kernel))
    found = [_typed(p, kinds) for p in parameters(text, kernel, name)]
    inner = {p.name: _members(text, p) for p in found}
    flat = [q for p in found for q in inner[p.name] or (p,)]
    told = _told(text, found, name or source_name(text, kernel))
    numbers = [p for p in flat if not _is_pointer(p) and not p.is_float]
    open_ = [p for p in numbers if not isinstance(told.get(p.name), int)]
    threads = launched.blocks * launched.threads
    if extent is None:
        extent = max(1, threads - 3) if len(open_) == 1 else _EXTENT
    values = [n for p in numbers if isinstance(n := told.get(p.name, extent), int)]
    room = _room(values, threads)
    rest = _Rest(extent, max(_AROUND * threads, room), threads, kernel)

    def item(p: Parameter) -> str:
        if not inner.get(p.name):
            return f"{p.name}={rest.item(p, told.get(p.name))}"
        row = (f"{q.name}={rest.item(q)}" for q in inner[p.name])
        return f"{p.name}={{{','.join(row)}}}"

    return [*map(item, found)]


def zeroed(items: Sequence[str], names: Container[str]) -> list[str]:
    """Return guessed items in which integers of some names start as zeros.

    Threads meet at these through atomics: locks, counters and flags, which start so.

    >>> zeroed(["lock=i32[9]", "x=f32[9]"], {"lock", "x"})
    ['lock=zero:i32[9]', 'x=f32[9]']
    """

    def one(item: str) -> str:
        name, _, value = item.partition("=")
        return f"{name}=zero:{value}" if name in names and value[:1] in "iu" else item

    return [*map(one, items)]


def _told(text: str, found: Sequence[Parameter], name: str) -> dict[str, int | float | Buffer]:
    """Return what the launch in the file passes for parameters, where it can be read."""
    given = hints.arguments(text, name)
    if len(given) != len(found):
        return {}
    fits = ((p, v) for p, v in zip(found, given, strict=True) if v is not None)
    return {p.name: v for p, v in fits if _is_pointer(p) == isinstance(v, Buffer)}


def _room(values: Sequence[int], threads: int) -> int:
    """Return elements for each product of two or three of the integers that a kernel is given.

    Each thread may have as many elements as the greatest.
    """
    if not values:
        return _LEAST
    greatest = sorted(max(1, abs(v)) for v in values)[-3:]
    product = math.prod(greatest if len(greatest) > 1 else greatest * 2)
    return max(product, threads * greatest[-1])


def _typed(p: Parameter, kinds: Mapping[str, str]) -> Parameter:
    """Return a parameter with the type that a template is given in place of the template's name."""
    if p.dtype is not None or p.of not in kinds:
        return p
    of = declared(f"{kinds[p.of]} x")
    return replace(p, dtype=None if of.pointer else of.dtype, of=of.of)


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


@dataclass(frozen=True, slots=True)
class _Rest:
    """What is guessed where the file tells nothing: integers, and the elements of arrays."""

    extent: int
    size: int
    threads: int
    kernel: Kernel

    def item(self, p: Parameter, told: int | float | Buffer | None = None) -> str:
        """Return the value of an item of ``--arg``."""
        if isinstance(told, Buffer):
            of = p.dtype or DType.I32
            how = (
                "zero:" if told.zero and not (p.const and of.is_float) else ""
            )  # races of zeros hide
            return f"{how}{of.value}[{max(1, told.nbytes // of.nbytes)}]"
        if _is_pointer(p):
            wide = _WIDE if p.dtype is None and p.pointer else 1
            return f"{(p.dtype or DType.I32).value}[{min(_MOST, wide * self.size)}]"
        dtype = p.dtype or _SCALARS.get(p.nbytes)
        if dtype is None or dtype.nbytes != p.nbytes:
            raise DidymaError(
                "input-count", f"kernel {self.kernel.name}", got=f"no --arg for {p.name}",
                want=f"all parameters, since the {p.nbytes} bytes of {p.name} cannot be guessed",
                help=f"give a structure by its fields, --arg {p.name}={{n=i32:9,x=f32[9]}}, or the "
                f"array and the box of a tensor map: --arg {p.name}=map(f32[64,64], box=8x32)",
            )  # fmt: skip
        if dtype.is_float:
            return f"{dtype.value}:{0.75 if told is None else told}"
        low, high = (0, 1) if dtype is DType.BOOL else dtype.limits
        value = self.extent if told is None else int(told)
        return f"{dtype.value}:{min(max(value, low), high)}"
