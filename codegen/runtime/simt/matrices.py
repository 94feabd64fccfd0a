"""Matrices that a warp holds together: how they are loaded, and their products."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from pycparser import c_ast as c

from didyma.codegen.emit.intrinsics import c_type, components
from didyma.codegen.runtime.simt import access
from didyma.codegen.runtime.simt.access import Mask, Run, Value
from didyma.codegen.runtime.simt.copies import Place
from didyma.codegen.runtime.simt.memory import LaneArray, Lanes
from didyma.codegen.runtime.simt.values import Arithmetic
from didyma.refimpl.interp import scalar_ring
from didyma.refimpl.ir.fragments import COLUMNS, HALF, KEPT, ROWS, WARP, Places, Product

ROW = 16  # bytes of a row that ``ldmatrix`` loads


def whole(r: Run, m: Mask, name: str, line: int) -> bool:
    """Report warps of which only some threads come; return whether none is one."""
    threads = r.warps.threads
    if threads % WARP:
        detail = f"{threads % WARP} of {WARP} threads of a warp reach {name}"
        r.report("barrier-divergence", detail, r.warps.blocks, line)
        return False
    if m is None:
        return True
    came = m.reshape(-1, WARP).sum(1)
    partly = (came != 0) & (came != WARP)
    if partly.any():
        detail = f"{int(came[partly][0])} of {WARP} threads of a warp reach {name}"
        r.report("barrier-divergence", detail, int(partly.sum()), line)
    return not partly.any()


def load(
    r: Run, name: str, a: LaneArray, index: Value, many: int, m: Mask, line: int
) -> dict[str, Value]:
    """Return what each lane gets of ``many`` matrices whose rows begin at indices of lanes."""
    step = 4 // a.data.itemsize
    parts = components(many * step)
    if not whole(r, m, name, line):
        return {p: access.load(r, a, index, np.zeros(r.warps.size, np.bool_), line) for p in parts}
    lane = np.arange(r.warps.size) % WARP
    base, at = np.arange(r.warps.size) - lane, r.lanes(index).astype(np.int64)
    active = lane if m is None else np.where(m, lane, WARP)
    report = r.reporter(name, line)
    Place(a, at[active < 8 * many]).check(ROW, "shared", report)
    turned = "_trans_" in name
    found: dict[str, Value] = {}
    for i, part in enumerate(parts):
        row, column = lane // 4, lane % 4 * step + i % step
        if turned:
            row, column = column, row
        found[part] = access.load(r, a, at[base + i // step * 8 + row] + column, m, line)
    return found


def product(
    arithmetic: Arithmetic, p: Product
) -> Callable[[Run, Mask, list[Mapping[str, Value]], int], dict[str, Value]]:
    """Return what multiplies the fragments of a and b and adds the product to that of c."""
    times, plus = arithmetic.binary("*"), arithmetic.binary("+")
    name, sums = f"mma_{p.name}", c_type(p.sums)
    same = p.operands is p.sums
    convert = None if same else arithmetic.function(f"cast_{c_type(p.operands)}_{sums}")
    places: tuple[tuple[Places, tuple[int, int]], ...] = (
        (p.of_a(), (ROWS, p.k)), (p.of_b(), (p.k, COLUMNS)), (p.of_sums(), (ROWS, COLUMNS)),
    )  # fmt: skip

    def run(r: Run, m: Mask, given: list[Mapping[str, Value]], line: int) -> dict[str, Value]:
        if not whole(r, m, name, line):
            return dict(given[2])
        held = [_held(r, v) for v in given]
        if p.narrow:
            _check_narrow(r, p, held[:2], m, line)
        if convert is not None:
            held = [convert(held[0]), convert(held[1]), held[2]]
        a, b, total = (_matrix(v, at, shape) for v, (at, shape) in zip(held, places, strict=True))
        for k in range(p.k):
            total = plus(total, times(a[:, :, k, None], b[:, k, None, :]))
        rows, columns = places[2][0]
        result = total[:, rows, columns].reshape(r.warps.size, -1)
        return {part: result[:, i] for i, part in enumerate(components(result.shape[1]))}

    return run


def _held(r: Run, struct: Mapping[str, Value]) -> Lanes:
    """Return the elements of each lane, (warps, 32, elements)."""
    lanes = np.stack([r.lanes(v) for v in struct.values()], -1)
    return lanes.reshape(-1, WARP, len(struct))


def _matrix(held: Lanes, places: Places, shape: tuple[int, int]) -> Lanes:
    """Return the matrix of each warp."""
    out = np.empty((len(held), *shape), held.dtype)
    out[:, places[0], places[1]] = held
    return out


def _check_narrow(r: Run, p: Product, held: list[Lanes], m: Mask, line: int) -> None:
    """Report operands with more bits than the product reads."""
    for v in held:
        lost = wide(v, p.narrow).any(-1).reshape(-1)
        if m is not None:
            lost = lost & m
        if lost.any():
            detail = f"an operand of mma_{p.name} is not rounded by tf32_f32"
            r.report("unrounded", detail, int(lost.sum()), line)


def wide(held: Lanes, narrow: int) -> Lanes:
    """Return which numbers of f32 have more bits than those that are not ``narrow``."""
    bits = np.ascontiguousarray(scalar_ring.value_of(held)).view(np.uint32)
    lost = bits & np.uint32((1 << narrow) - 1) != 0
    return np.asarray(lost & ~np.isnan(bits.view(np.float32)))


def rounding(arithmetic: Arithmetic) -> Callable[[Value], Value]:
    """Return what ``tf32_f32`` does, as the composite ``numeric.tf32`` has it of a graph."""
    bits, add, floating, is_nan, nan = map(
        arithmetic.function,
        ("bitcast_f32_u32", "add_u32", "bitcast_u32_f32", "isnan_f32", "nan_f32"),
    )
    half, kept = (arithmetic.literal(c.Constant("unsigned int", f"{n}u")) for n in (HALF, KEPT))
    both = arithmetic.binary("&")

    def run(x: Value) -> Value:
        return arithmetic.choose(is_nan(x), nan(), floating(both(add(bits(x), half), kept)))

    return run
