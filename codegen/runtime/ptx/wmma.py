"""``wmma``: matrices of a warp in fragments, whose layout the ISA's manual leaves open.

Here the elements of a matrix go to lanes in order, the same number to each; where a fragment has
more registers than that, they hold the elements once more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from didyma.codegen.runtime.ptx.access import space_of
from didyma.codegen.runtime.ptx.code import unknown
from didyma.codegen.runtime.ptx.kinds import TYPES, canonical
from didyma.codegen.runtime.ptx.meeting import Body
from didyma.codegen.runtime.ptx.memory import ANYWHERE, READ, SPACES, WRITE
from didyma.codegen.runtime.ptx.operands import Operands
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)$")
KINDS = ("f16", "bf16", "tf32", "f32", "f64", "s8", "u8", "s32", "s4", "u4", "b1")
_NUMPY = {**{k: TYPES[k] for k in ("f16", "bf16", "tf32", "f32", "f64", "s8", "u8", "s32")},
          "s4": np.dtype(ml_dtypes.int4), "u4": np.dtype(ml_dtypes.uint4)}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fragment:
    """A matrix of rows and columns of a type, of which each lane has ``count`` elements."""

    rows: int
    columns: int
    kind: str

    @property
    def count(self) -> int:
        """The elements of a lane."""
        return self.rows * self.columns // 32

    @property
    def dtype(self) -> Any:
        """The dtype of NumPy of an element."""
        return _NUMPY[self.kind]

    def unpacked(self, registers: list[Array]) -> Array:
        """Return matrices, one a warp, of registers of all lanes."""
        n = registers[0].size
        raw = np.stack([np.ascontiguousarray(r) for r in registers], 1)
        values = raw.view(self.dtype).reshape(n, -1)[:, : self.count]
        return np.ascontiguousarray(values).reshape(-1, self.rows, self.columns)

    def packed(self, matrices: Array, registers: int) -> list[Array]:
        """Return registers of all lanes for matrices, one a warp."""
        values = np.ascontiguousarray(matrices).reshape(-1, self.count)
        raw = np.ascontiguousarray(values).view(np.uint8)
        width = 8 if self.kind == "f64" else 4
        raw = np.ascontiguousarray(np.tile(raw, (1, -(-registers * width // raw.shape[1]))))
        whole = raw[:, : registers * width].copy().view(f"u{width}")
        return [np.ascontiguousarray(whole[:, k]) for k in range(registers)]


def compile_wmma(ops: Operands) -> Body:
    """Compile an instruction on fragments; all lanes of a warp take part."""
    fragments = fragments_of(ops)
    return _product(ops, fragments) if len(fragments) > 1 else _moved(ops, fragments[0])


def fragments_of(ops: Operands) -> list[Fragment]:
    """Return the fragment that is moved, or those of the sums, A, B and what is added."""
    ins = ops.ins
    m = next((s for x in ins.mods if (s := _SHAPE.match(x))), None)
    kinds = [x for x in ins.mods if x in KINDS]
    if m is None or not kinds or {"s4", "u4", "b1"} & {*kinds}:
        raise unknown(ins)
    rows, columns, depth = map(int, m.groups())
    shapes = {"a": (rows, depth), "b": (depth, columns), "c": (rows, columns), "d": (rows, columns)}
    if ins.mods[0] != "mma":
        return [Fragment(*shapes[ins.mods[1]], kinds[0])]
    if len(kinds) == 2:
        kinds = [kinds[0], "f16", "f16", kinds[1]]
    return [Fragment(*shapes[x], k) for x, k in zip("dabc", kinds, strict=True)]


def _registers(ops: Operands, k: int, f: Fragment) -> list[Any]:
    return [ops.read(p, "u64" if f.kind == "f64" else "u32") for p in ops.parts(k)]


def places_of(ops: Operands, f: Fragment) -> Callable[[Machine], Array]:
    """Return the function for the addresses of the elements of each lane: lanes, then elements."""
    in_columns, memory = "col" in ops.ins.mods, 1 if ops.ins.mods[0] == "load" else 0
    address = ops.address(memory)
    stride = ops.source(2, "u32") if len(ops) > 2 else None
    usual = f.rows if in_columns else f.columns

    def places(m: Machine) -> Array:
        lane = (m.ids & 31).astype(np.int64)
        number = lane[:, None] * f.count + np.arange(f.count)
        row, column = number // f.columns, number % f.columns
        step = (m.active(stride(m)) if stride else np.full(lane.size, usual)).astype(np.int64)
        outer, inner = (column, row) if in_columns else (row, column)
        base = m.active(address(m)).astype(np.int64)
        found: Array = base[:, None] + (outer * step[:, None] + inner) * f.dtype.itemsize
        return found

    return places


def _moved(ops: Operands, f: Fragment) -> Body:
    """A load or a store of a fragment, element by element, with rows a stride apart.

    It counts as by the first lane: the lanes of a warp do not race with each other in it.
    """
    ins = ops.ins
    loads = ins.mods[0] == "load"
    registers = 0 if loads else 1
    space = space_of(ins.mods)
    where = ANYWHERE if space is None else SPACES[space]
    width, count = f.dtype.itemsize, f.count
    places = places_of(ops, f)
    wide = "u64" if f.kind == "f64" else "u32"
    puts = [ops.write(p, wide) for p in ops.parts(registers)] if loads else []
    gets = [] if loads else _registers(ops, registers, f)

    def load(m: Machine, present: Array, want: Array) -> None:
        at = places(m)
        raw = np.zeros((m.ids.size, count, width), np.uint8)
        for k in range(count):
            part = np.zeros((m.ids.size, width), np.uint8)
            one = np.ascontiguousarray(at[:, k])
            m.tell(m.memory.access(m.ids & ~31, one, width, where, READ, 0, part, m.at))
            raw[:, k] = part
        values = raw.reshape(m.ids.size, -1).view(f.dtype)
        for put, v in zip(puts, f.packed(values, len(puts)), strict=True):
            put(m, m.widened(v))

    def store(m: Machine, present: Array, want: Array) -> None:
        at = places(m)
        values = f.unpacked([m.active(g(m)) for g in gets]).reshape(m.ids.size, count)
        for k in range(count):
            one = np.ascontiguousarray(at[:, k])
            v = np.ascontiguousarray(values[:, k])
            m.tell(m.memory.access(m.ids & ~31, one, width, where, WRITE, 0, v, m.at))

    return load if loads else store


def _product(ops: Operands, fragments: list[Fragment]) -> Body:
    d, a, b, c = fragments
    puts = [ops.write(p, "u64" if d.kind == "f64" else "u32") for p in ops.parts(0)]
    gets = [_registers(ops, k, f) for k, f in ((1, a), (2, b), (3, c))]
    wide = product_type(d.kind)

    def mma(m: Machine, present: Array, want: Array) -> None:
        left, right, sums = (
            f.unpacked([m.active(g(m)) for g in group])
            for f, group in zip((a, b, c), gets, strict=True)
        )
        out = np.matmul(truncated(left, a.kind, wide), truncated(right, b.kind, wide))
        r = canonical((out + sums.astype(wide)).astype(d.dtype))
        for put, v in zip(puts, d.packed(r, len(puts)), strict=True):
            put(m, m.widened(v))

    return mma


def product_type(kind: str) -> Any:
    """Return the dtype in which products are summed: of integers, f64 or f32."""
    return np.dtype(np.int32 if kind == "s32" else np.float64 if kind == "f64" else np.float32)


def truncated(v: Array, kind: str, wide: Any) -> Array:
    """Return elements as the type of sums; of tf32, without the bits that it lacks."""
    if kind == "tf32":
        bits = np.ascontiguousarray(v).view(np.uint32) & np.uint32(0xFFFFE000)
        return bits.view(np.float32)
    return v.astype(wide)
