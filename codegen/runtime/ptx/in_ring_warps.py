"""What lanes of a warp do together in the ring: shuffles, and matrices, laid out as their values.

Products add up payloads as the ring does, whatever the order of the terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from didyma.codegen.runtime.ptx import units, wgmma
from didyma.codegen.runtime.ptx.access import space_of
from didyma.codegen.runtime.ptx.code import Operand, Reg, Vector
from didyma.codegen.runtime.ptx.in_ring_operands import (
    Finish,
    Floats,
    Rule,
    cleared,
    floats,
    held,
    put,
    target,
)
from didyma.codegen.runtime.ptx.kinds import FLOATS, TYPES
from didyma.codegen.runtime.ptx.matrices import product_of
from didyma.codegen.runtime.ptx.meaning import Meaning
from didyma.codegen.runtime.ptx.meeting import Body, partners
from didyma.codegen.runtime.ptx.memory import ANYWHERE, SPACES, UNIT
from didyma.codegen.runtime.ptx.operands import Operands
from didyma.codegen.runtime.ptx.wmma import fragments_of, places_of
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops import ring

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

_LANE = np.arange(32)
_ROW, _COLUMN = _LANE // 4, _LANE % 4
_PAIRED = {"f16": "f16x2", "bf16": "bf16x2"}  # types of registers with two elements
_EIGHT = 8  # units of a row of a matrix of 8 by 8 halves


def watched(body: Body, ops: Operands, meaning: Meaning) -> Body:
    """Let what a warp does together do to payloads what it does to values."""
    rule = _rule(ops, meaning)

    def run(m: Machine, present: Array, want: Array) -> None:
        finish = rule(m)
        body(m, present, want)
        finish()

    return run


def _rule(ops: Operands, meaning: Meaning) -> Rule:
    match ops.ins.op:
        case "shfl":
            return _shuffle(ops)
        case "mma":
            return _mma(ops, meaning)
        case "wgmma":
            return _wgmma(ops, meaning)
        case "wmma" if ops.ins.mods[0] == "mma":
            return _wmma(ops, meaning)
        case "wmma":
            return _fragment(ops)
        case "ldmatrix" | "stmatrix":
            return _rows(ops)
        case "movmatrix":
            return _transposed(ops)
        case _:
            return cleared(ops)


def _shuffle(ops: Operands) -> Rule:
    how, by, bounds = ops.ins.mods[1], ops.source(2, "u32"), ops.source(3, "u32")

    def rule(m: Machine) -> Finish:
        given = held(m, ops, ops.at(1), 2)
        found = None
        if given is not None:
            every = np.zeros((m.size, 2), UNIT)
            every[m.ids] = given
            found = every[(m.ids & ~31) + partners(m, how, by, bounds)[0]]
        return lambda: put(m, ops, target(ops), found)

    return rule


def _read(ops: Operands, parts: Sequence[Operand], kind: str, meaning: Meaning) -> Floats:
    """Return the function for the payloads of the elements of registers: lanes, then elements."""
    each = [floats(ops, p, _PAIRED.get(kind, kind), meaning) for p in parts]

    def read(m: Machine) -> tuple[Array, Array]:
        rows = [f(m) for f in each]
        values, payloads = (np.concatenate(r, axis=1) for r in zip(*rows, strict=True))
        return values, payloads

    return read


def _lost(ops: Operands, *, real: bool) -> Rule:
    """The sums of what has no payloads: of integers clean, of floats of eight bits opaque."""
    if not real:
        return cleared(ops)

    def rule(m: Machine) -> Finish:
        def finish() -> None:
            for p in ops.parts(0):
                if isinstance(p, Reg):
                    width = units.count(ops.regs[p.index])
                    put(m, ops, p, units.opaque(m.ids.size, width))

        return finish

    return rule


def _by_warp(payloads: Array) -> Array:
    return payloads.reshape(-1, 32, payloads.shape[1])


def _mma(ops: Operands, meaning: Meaning) -> Rule:
    form = product_of(ops)
    if not {form.sums, form.left, form.right} <= FLOATS:
        return _lost(ops, real=form.sums in FLOATS)
    left = _read(ops, ops.parts(1), form.left, meaning)
    right = _read(ops, ops.parts(2), form.right, meaning)
    sums, high = _read(ops, ops.parts(3), form.sums, meaning), form.rows // 8

    def matrix(p: Array, high: int, registers: int) -> Array:
        each = p.shape[2] // registers
        out = np.zeros((p.shape[0], 8 * high, form.depth), p.dtype)
        for k in range(registers):
            for e in range(each):
                column = _COLUMN * each + e + 4 * each * (k // high)
                out[:, _ROW + 8 * (k % high), column] = p[:, :, k * each + e]
        return out

    def rule(m: Machine) -> Finish:
        a = matrix(_by_warp(left(m)[1]), high, len(ops.parts(1)))
        b = matrix(_by_warp(right(m)[1]), 1, len(ops.parts(2)))
        out, old = ring.matmul(a, b.transpose(0, 2, 1)), _by_warp(sums(m)[1])
        new = np.empty_like(old)
        for n in range(old.shape[2]):
            i, j = _ROW + 8 * (n >> 1), 2 * _COLUMN + (n & 1)
            new[:, :, n] = ring.add(np.ascontiguousarray(old[:, :, n]), out[:, i, j])
        found = units.made(new.reshape(-1, new.shape[2]), form.sums)
        return lambda: put(m, ops, ops.at(0), found)

    return rule


def _wgmma(ops: Operands, meaning: Meaning) -> Rule:
    form = wgmma.form_of(ops)
    if not {form.to, form.left, form.right} <= FLOATS:
        return _lost(ops, real=form.to in FLOATS)
    size = TYPES[form.left].itemsize
    pieces = 4 // size
    sums = _read(ops, ops.parts(0), form.to, meaning)
    fragments = _read(ops, ops.parts(1), form.left, meaning) if form.held else None
    a_at = None if form.held else ops.source(1, "u64")
    b_at, keep = ops.source(2, "u64"), ops.source(3, "pred")

    def fetched(m: Machine, at: Array) -> Array:
        space = m.memory.spaces[1]
        block = m.memory.block[m.ids[::32]].astype(np.int64)[:, None, None]
        flat = np.clip(at, 0, space.size - size) + space.size * block
        width = size // units.WIDTH
        found = space.units[flat[..., None] // units.WIDTH + np.arange(width)]
        raw = space.data.view(TYPES[form.left])[flat // size]
        return units.payloads(raw, found)

    def left(m: Machine) -> Array:
        if fragments is None:
            assert a_at is not None
            first = m.active(a_at(m))[::32]
            return fetched(m, wgmma.places(first, wgmma.rows_of(m), size, form.a_across))
        p = _by_warp(fragments(m)[1])
        out = np.zeros((p.shape[0], 16, 8 * pieces), p.dtype)
        for i in range(p.shape[2] // pieces):
            for j in range(pieces):
                column = _COLUMN * pieces + 4 * pieces * (i >> 1) + j
                out[:, _ROW + 8 * (i & 1), column] = p[:, :, i * pieces + j]
        return out

    def rule(m: Machine) -> Finish:
        rows = np.arange(form.columns)
        y = fetched(m, wgmma.places(m.active(b_at(m))[::32], rows, size, form.b_across))
        out = ring.matmul(left(m), y.transpose(0, 2, 1))
        out = ring.negate(out) if form.sign < 0 else out
        old, keeps = _by_warp(sums(m)[1]), m.active(keep(m)).reshape(-1, 32)
        new = np.empty_like(old)
        for n in range(old.shape[2]):
            i, j = _ROW + 8 * (n >> 1 & 1), n // 4 * 8 + _COLUMN * 2 + (n & 1)
            before = ring.where(keeps, old[:, :, n], ring.ZERO)
            new[:, :, n] = ring.add(before, out[:, i, j])
        found = units.made(new.reshape(-1, new.shape[2]), form.to)
        return lambda: put(m, ops, ops.at(0), found)

    return rule


def _wmma(ops: Operands, meaning: Meaning) -> Rule:
    d, *given = fragments_of(ops)
    if not {f.kind for f in (d, *given)} <= FLOATS:
        return _lost(ops, real=d.kind in FLOATS)
    reads = [_read(ops, ops.parts(k + 1), f.kind, meaning) for k, f in enumerate(given)]

    def rule(m: Machine) -> Finish:
        a, b, c = (
            np.ascontiguousarray(g(m)[1][:, : f.count]).reshape(-1, f.rows, f.columns)
            for g, f in zip(reads, given, strict=True)
        )
        out = ring.add(ring.matmul(a, b), c).reshape(m.ids.size, d.count)
        found = _tiled(ops, units.made(out, d.kind))
        return lambda: put(m, ops, ops.at(0), found)

    return rule


def _tiled(ops: Operands, row: Array) -> Array:
    """Return the units of a fragment again and again, as far as its registers go."""
    regs = [p.index for p in ops.parts(0) if isinstance(p, Reg)]
    width = sum(units.count(ops.regs[r]) for r in regs)
    return np.tile(row, (1, -(-width // row.shape[1])))[:, :width]


def _fragment(ops: Operands) -> Rule:
    """A load or a store of a fragment, element by element."""
    (f,) = fragments_of(ops)
    space = space_of(ops.ins.mods)
    where = ANYWHERE if space is None else SPACES[space]
    places, size = places_of(ops, f), f.dtype.itemsize
    width = max(1, size // units.WIDTH)

    def load(m: Machine) -> Finish:
        at, first = places(m), m.ids & ~31
        rows = [units.load(m, first, np.ascontiguousarray(at[:, k]), size, where)
                for k in range(f.count)]  # fmt: skip
        found = _tiled(ops, np.concatenate(rows, axis=1)) if size >= units.WIDTH else None
        return lambda: put(m, ops, ops.at(0), found)

    def store(m: Machine) -> Finish:
        at, first = places(m), m.ids & ~31
        given = _side_by_side(m, ops, ops.parts(1))
        for k in range(f.count):
            part = None if given is None else given[:, k * width : (k + 1) * width]
            units.store(m, first, np.ascontiguousarray(at[:, k]), size, where, part)
        return lambda: None

    return load if ops.ins.mods[0] == "load" else store


def _side_by_side(m: Machine, ops: Operands, parts: Sequence[Operand]) -> Array | None:
    width = sum(units.count(ops.regs[p.index]) if isinstance(p, Reg) else 1 for p in parts)
    return held(m, ops, Vector(tuple(parts)), width)


def _rows(ops: Operands) -> Rule:
    """``ldmatrix`` and ``stmatrix``: each lane in order has the address of a row of 8 halves."""
    ins = ops.ins
    loads, turned = ins.op == "ldmatrix", "trans" in ins.mods
    count = int(next(x[1] for x in ins.mods if x in ("x1", "x2", "x4")))
    address = ops.address(1 if loads else 0)
    where = SPACES["shared"] if any(x.startswith("shared") for x in ins.mods) else ANYWHERE

    def rows(m: Machine) -> tuple[Array, Array]:
        used = (m.ids & 31) < 8 * count
        at = m.active(address(m)).astype(np.int64, copy=False)
        return m.ids[used], at[used]

    def places(k: int, side: int) -> tuple[Array, Array]:
        i, j = _ROW, 2 * _COLUMN + side
        return (j, i) if turned else (i, j)

    def load(m: Machine) -> Finish:
        ids, at = rows(m)
        matrices = units.load(m, ids, at, 16, where).reshape(-1, count, 8, _EIGHT)
        out = np.zeros((m.ids.size // 32, 32, 2 * count), UNIT)
        for k in range(count):
            for side in (0, 1):
                i, j = places(k, side)
                out[:, :, 2 * k + side] = matrices[:, k, i, j]
        found = out.reshape(m.ids.size, 2 * count)
        return lambda: put(m, ops, ops.at(0), found)

    def store(m: Machine) -> Finish:
        ids, at = rows(m)
        given = _side_by_side(m, ops, ops.parts(1))
        matrices = np.zeros((m.ids.size // 32, count, 8, _EIGHT), UNIT)
        if given is not None:
            by_warp = given.reshape(-1, 32, 2 * count)
            for k in range(count):
                for side in (0, 1):
                    i, j = places(k, side)
                    matrices[:, k, i, j] = by_warp[:, :, 2 * k + side]
        units.store(m, ids, at, 16, where, matrices.reshape(-1, _EIGHT))
        return lambda: None

    return load if loads else store


def _transposed(ops: Operands) -> Rule:
    def rule(m: Machine) -> Finish:
        given = held(m, ops, ops.at(1), 2)
        if given is None:
            return lambda: put(m, ops, target(ops), None)
        pair = given.reshape(-1, 32, 2)
        matrix = np.zeros((pair.shape[0], 8, 8), UNIT)
        out = np.zeros_like(pair)
        for side in (0, 1):
            matrix[:, _ROW, 2 * _COLUMN + side] = pair[..., side]
        for side in (0, 1):
            out[..., side] = matrix[:, 2 * _COLUMN + side, _ROW]
        return lambda: put(m, ops, target(ops), out.reshape(-1, 2))

    return rule
