"""Matrices of a warp: ``ldmatrix``, ``stmatrix`` and ``mma``, laid out as the ISA's manual says.

A product's sums are in f32 of exact products; the manual leaves their order and rounding open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import ml_dtypes
import numpy as np

from didyma.codegen.runtime.ptx.code import unknown
from didyma.codegen.runtime.ptx.kinds import TYPES, canonical, halves, packed
from didyma.codegen.runtime.ptx.meeting import ALL, Body
from didyma.codegen.runtime.ptx.memory import ANYWHERE, READ, SPACES, WRITE
from didyma.codegen.runtime.ptx.operands import Operands, Source
from didyma.codegen.runtime.ptx.wmma import compile_wmma, product_type, truncated
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

_LANE = np.arange(32)
_ROW, _COLUMN = _LANE // 4, _LANE % 4 * 2  # of a lane's first element in a matrix of 8 by 8


def compile_matrices(ops: Operands) -> Body:
    """Compile an instruction on matrices of a warp, all of whose lanes take part."""
    makers = {"mma": _product, "wmma": compile_wmma, "movmatrix": _transposed}
    body = makers.get(ops.ins.op, _move)(ops)

    def run(m: Machine, present: Array, want: Array) -> None:
        if (present != ALL).any():
            m.report("warp-divergence", f"{ops.ins.op} without all lanes of a warp", m.ids)
            return
        body(m, present, want)

    return run


def _transposed(ops: Operands) -> Body:
    """``movmatrix``: the transpose of a matrix of 8 by 8."""
    get, put = ops.source(1, "b32"), ops.target(0, "b32")

    def run(m: Machine, present: Array, want: Array) -> None:
        pair = by_warp(m, get).view(np.uint16).reshape(-1, 32, 2)
        matrix = np.zeros((pair.shape[0], 8, 8), np.uint16)
        for side in (0, 1):
            matrix[:, _ROW, _COLUMN + side] = pair[..., side]
        out = packed(matrix[:, _COLUMN, _ROW], matrix[:, _COLUMN + 1, _ROW])
        put(m, m.widened(np.ascontiguousarray(out).reshape(-1)))

    return run


def by_warp(m: Machine, f: Source) -> Array:
    """Return the registers of active threads, a row for each warp."""
    return m.active(f(m)).reshape(-1, 32)


def _move(ops: Operands) -> Body:
    """``ldmatrix`` and ``stmatrix``: rows of 16 bytes, whose addresses lanes in order give."""
    ins = ops.ins
    loads = ins.op == "ldmatrix"
    count = int(next(x[1] for x in ins.mods if x in ("x1", "x2", "x4")))
    if "b16" not in ins.mods or "m8n8" not in ins.mods:
        raise unknown(ins)
    turned = "trans" in ins.mods
    address = ops.address(1 if loads else 0)
    parts = ops.parts(0 if loads else 1)
    where = SPACES["shared"] if any(x.startswith("shared") for x in ins.mods) else ANYWHERE

    def rows(m: Machine) -> tuple[Array, Array, Array]:
        used = (m.ids & 31) < 8 * count
        at = m.active(address(m)).astype(np.int64, copy=False)
        return np.ascontiguousarray(m.ids[used]), np.ascontiguousarray(at[used]), used

    def load(m: Machine, present: Array, want: Array) -> None:
        lanes, at, _ = rows(m)
        raw = np.zeros((lanes.size, 16), np.uint8)
        m.tell(m.memory.access(lanes, at, 16, where, READ, 0, raw, m.at))
        matrices = raw.view(np.uint16).reshape(-1, count, 8, 8)
        for k, put in enumerate(puts):
            a = matrices[:, k].transpose(0, 2, 1) if turned else matrices[:, k]
            put(m, m.widened(packed(a[:, _ROW, _COLUMN], a[:, _ROW, _COLUMN + 1]).reshape(-1)))

    def store(m: Machine, present: Array, want: Array) -> None:
        lanes, at, _ = rows(m)
        matrices = np.zeros((m.ids.size // 32, count, 8, 8), np.uint16)
        for k, get in enumerate(gets):
            pair = by_warp(m, get).view(np.uint16).reshape(-1, 32, 2)
            for side in (0, 1):
                i, j = (_COLUMN + side, _ROW) if turned else (_ROW, _COLUMN + side)
                matrices[:, k, i, j] = pair[..., side]
        m.tell(m.memory.access(lanes, at, 16, where, WRITE, 0, matrices.reshape(-1, 8), m.at))

    if loads:
        puts = [ops.write(p, "b32") for p in parts]
        return load
    gets = [ops.read(p, "b32") for p in parts]
    return store


_EIGHTS = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
_ELEMENTS: Mapping[str, Any] = {
    **{k: TYPES[k] for k in ("f16", "bf16", "tf32", "f64", "s8", "u8")},
    **{k: np.dtype(v) for k, v in _EIGHTS.items()},
    "s4": np.dtype(np.int8), "u4": np.dtype(np.uint8), "b1": np.dtype(np.uint8),
}  # fmt: skip
_BITS: Mapping[str, int] = {"s4": 4, "u4": 4, "b1": 1}  # of an element, of less than a byte
_MMA = re.compile(r"m(8|16)n8k(\d+)$")


def _elements(v: Array, kind: str) -> list[Array]:
    """Return the elements of a register, the lowest first."""
    if (width := _BITS.get(kind)) is not None:
        u = np.ascontiguousarray(v).view(np.uint32)
        mask, count = np.uint32((1 << width) - 1), 32 // width
        parts = [((u >> np.uint32(width * k)) & mask).astype(np.int8) for k in range(count)]
        return [np.where(n > 7, n - 16, n) for n in parts] if kind == "s4" else parts
    d = _ELEMENTS[kind]
    side = np.ascontiguousarray(v).view(d).reshape(*v.shape, -1)
    return [np.ascontiguousarray(side[..., k]) for k in range(side.shape[-1])]


class Product(NamedTuple):
    """What ``mma`` multiplies: rows of A, terms, and the types of sums, A and B."""

    rows: int
    depth: int
    sums: str
    left: str
    right: str


def product_of(ops: Operands) -> Product:
    """Return what a product multiplies; DidymaError ``unknown-instruction`` for one not here."""
    ins = ops.ins
    shape = next((s for x in ins.mods if (s := _MMA.match(x))), None)
    types = [x for x in ins.mods if x in _ELEMENTS or x in ("f32", "s32")]
    if shape is None or "row" not in ins.mods or {"sp", "sp::ordered_metadata"} & {*ins.mods}:
        raise unknown(ins)
    rows, depth = int(shape[1]), int(shape[2])
    if len(types) != 4 or types[0] != types[3] or (types[1] == "f16" and rows == 8):
        raise unknown(ins)
    return Product(rows, depth, *types[:3])


def _product(ops: Operands) -> Body:
    """``mma``: m8n8 and m16n8 by all depths, of floats of 8 bits and more, of integers and bits.

    A lane has the elements of a register side by side in a row of A, or a column of B; its
    registers are first eight rows apart, then as many columns as four lanes have.
    """
    ins = ops.ins
    rows, depth, sums, left_kind, right_kind = product_of(ops)
    wide, word = product_type(sums), "u64" if sums == "f64" else "u32"
    given = "u64" if left_kind == "f64" else "u32"
    a, b = ([ops.read(p, given) for p in ops.parts(k)] for k in (1, 2))
    c, puts = [ops.read(p, word) for p in ops.parts(3)], [ops.write(p, word) for p in ops.parts(0)]
    halves_of_rows = rows // 8

    def matrix(m: Machine, gets: list[Source], kind: str, high: int) -> Array:
        """Return the matrices of rows (of A, or of B turned), one a warp."""
        out: Array = np.zeros((m.ids.size // 32, 8 * high, depth), wide)
        for k, f in enumerate(gets):
            each = _elements(by_warp(m, f), kind)
            for e, v in enumerate(each):
                column = _LANE % 4 * len(each) + e + 4 * len(each) * (k // high)
                out[:, _ROW + 8 * (k % high), column] = truncated(v, kind, wide)
        return out

    def mma(m: Machine, present: Array, want: Array) -> None:
        left = matrix(m, a, left_kind, halves_of_rows)
        right = matrix(m, b, right_kind, 1).transpose(0, 2, 1)
        out = np.matmul(left, right)
        if "xor" in ins.mods:  # the bits of both rows but for those that they share
            out = left.sum(2)[:, :, None] + right.sum(1)[:, None, :] - 2 * out
        for k, (f, put) in enumerate(zip(c, puts, strict=True)):
            old = by_warp(m, f)
            if sums == "f16":
                i = _ROW + 8 * k
                low, high = halves(old, "f16")
                v = packed(
                    canonical((out[:, i, _COLUMN] + low).astype(np.float16)),
                    canonical((out[:, i, _COLUMN + 1] + high).astype(np.float16)),
                )
            else:
                i, j = _ROW + 8 * (k >> 1), _COLUMN + (k & 1)
                v = canonical((out[:, i, j] + old.view(wide)).astype(wide))
                if "satfinite" in ins.mods:
                    exact = out[:, i, j].astype(np.int64) + old.view(wide)
                    v = np.clip(exact, -(2**31), 2**31 - 1).astype(wide)
                v = v.view(TYPES[word])
            put(m, m.widened(np.ascontiguousarray(v).reshape(-1)))

    return mma
