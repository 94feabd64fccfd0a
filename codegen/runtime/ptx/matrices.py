"""Matrices of a warp: ``ldmatrix``, ``stmatrix`` and ``mma``, laid out as the ISA's manual says.

A product's sums are in f32 of exact products; the manual leaves their order and rounding open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from didyma.codegen.runtime.ptx.code import unknown
from didyma.codegen.runtime.ptx.kinds import halves, packed
from didyma.codegen.runtime.ptx.meeting import ALL, Body
from didyma.codegen.runtime.ptx.memory import ANYWHERE, READ, SPACES, WRITE
from didyma.codegen.runtime.ptx.operands import Operands, Source
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

_LANE = np.arange(32)
_ROW, _COLUMN = _LANE // 4, _LANE % 4 * 2  # of a lane's first element in a matrix of 8 by 8


def compile_matrices(ops: Operands) -> Body:
    """Compile an instruction on matrices of a warp, all of whose lanes take part."""
    body = _product(ops) if ops.ins.op == "mma" else _move(ops)

    def run(m: Machine, present: Array, want: Array) -> None:
        if (present != ALL).any():
            m.report("warp-divergence", f"{ops.ins.op} without all lanes of a warp", m.ids)
            return
        body(m, present, want)

    return run


def _by_warp(m: Machine, f: Source) -> Array:
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
            pair = _by_warp(m, get).view(np.uint16).reshape(-1, 32, 2)
            for side in (0, 1):
                i, j = (_COLUMN + side, _ROW) if turned else (_ROW, _COLUMN + side)
                matrices[:, k, i, j] = pair[..., side]
        m.tell(m.memory.access(lanes, at, 16, where, WRITE, 0, matrices.reshape(-1, 8), m.at))

    if loads:
        puts = [ops.write(p, "b32") for p in parts]
        return load
    gets = [ops.read(p, "b32") for p in parts]
    return store


def _product(ops: Operands) -> Body:
    """``mma`` of f16, bf16 and tf32, m16n8 by k8, k16 or k4, with sums in f32 or f16."""
    ins = ops.ins
    shape = next(x for x in ins.mods if x.startswith("m16n8k"))
    types = [x for x in ins.mods if x in ("f16", "bf16", "tf32", "f32")]
    depth = int(shape[6:])
    if "row" not in ins.mods or len(types) != 4 or types[1] != types[2] or types[0] != types[3]:
        raise unknown(ins)
    kind, sums = types[1], types[0]
    if sums not in ("f32", "f16") or depth > (8 if kind == "tf32" else 16) or "sp" in ins.mods:
        raise unknown(ins)
    wide = kind == "tf32"
    a, b, c = ([ops.read(p, "u32") for p in ops.parts(k)] for k in (1, 2, 3))
    puts = [ops.write(p, "u32") for p in ops.parts(0)]

    def elements(v: Array) -> list[Array]:
        if wide:
            return [(v & np.uint32(0xFFFFE000)).view(np.float32)]
        return [h.astype(np.float32) for h in halves(v, kind)]

    def mma(m: Machine, present: Array, want: Array) -> None:
        n = m.ids.size // 32
        left, right = np.zeros((n, 16, depth), np.float32), np.zeros((n, depth, 8), np.float32)
        step, group = (4, _LANE % 4) if wide else (8, _COLUMN)
        for k, f in enumerate(a):
            for e, v in enumerate(elements(_by_warp(m, f))):
                left[:, _ROW + 8 * (k & 1), group + e + step * (k >> 1)] = v
        for k, f in enumerate(b):
            for e, v in enumerate(elements(_by_warp(m, f))):
                right[:, group + e + step * k, _ROW] = v
        out = np.matmul(left, right)
        for k, (f, put) in enumerate(zip(c, puts, strict=True)):
            old = _by_warp(m, f)
            if sums == "f32":
                i, j = _ROW + 8 * (k >> 1), _COLUMN + (k & 1)
                v = (out[:, i, j] + old.view(np.float32)).astype(np.float32).view(np.uint32)
            else:
                i = _ROW + 8 * k
                low, high = halves(old, "f16")
                v = packed(
                    (out[:, i, _COLUMN] + low).astype(np.float16),
                    (out[:, i, _COLUMN + 1] + high).astype(np.float16),
                )
            put(m, m.widened(np.ascontiguousarray(v).reshape(-1)))

    return mma
