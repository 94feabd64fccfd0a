"""Offsets of accesses: bounds are checked, before the run where indices are known by then."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from didyma.oracle.lanes.buffers import Dense, row_major
from didyma.oracle.lanes.code import Code, apply2, known
from didyma.oracle.lanes.races import Mask
from didyma.oracle.lanes.site import Site
from didyma.refimpl.interp.faults import LoopFault, stmt_fault
from didyma.refimpl.interp.scalar import Value
from didyma.refimpl.ir.loop import Stmt


def address(site: Site, buffer: Dense, index: Sequence[Code]) -> Code:
    """Flat offset of an index in a buffer; inactive lanes get one that is within bounds."""
    at = offset(site, buffer.name, buffer.shape, index)
    if buffer.prefix == 0:
        return at
    if buffer.base is not None:
        return apply2(np.add, known(buffer.base), at)
    lanes = site.launch.lanes

    def base(mask: Mask) -> Value:
        del mask
        return buffer.copies(lanes)

    return apply2(np.add, Code(base, False), at)


def offset(site: Site, name: str, shape: tuple[int, ...], index: Sequence[Code]) -> Code:
    """Flat offset of an index in one copy of a buffer."""
    strides, stmt, mask_known = row_major(shape), site.stmt, site.mask
    fixed: Value = np.int64(0)
    scalars: list[tuple[Code, int, int]] = []
    arrays: list[tuple[Code, np.int64, int, bool]] = []
    for axis, (p, size, stride) in enumerate(zip(index, shape, strides, strict=True)):
        safe = p.interval is not None and p.interval[0] >= 0 and p.interval[1] < size
        if p.known and not safe and mask_known is not False:
            assert not isinstance(mask_known, bool)
            checked = within(p.value, size, mask_known)
            if checked is None:
                return _failing(_bounds(stmt, name, axis, size, p.value, mask_known))
            p, safe = known(checked), True
        if p.known and safe:
            fixed = fixed + p.value * np.int64(stride)
        elif p.uniform:
            scalars.append((p, stride, axis))
        else:
            arrays.append((p, np.int64(stride), axis, safe))
    if not scalars and not arrays:
        return known(fixed)

    def run(mask: Mask) -> Value:
        shift = 0
        for p, step, axis in scalars:
            k = int(p.run(mask))
            if not 0 <= k < shape[axis]:
                raise _bounds(stmt, name, axis, shape[axis], np.int64(k), mask)
            shift += k * step
        at = fixed if shift == 0 else fixed + np.int64(shift)
        for p, stride, axis, safe in arrays:
            i = p.run(mask)
            if not safe:
                i = within(i, shape[axis], mask)
                if i is None:
                    raise _bounds(stmt, name, axis, shape[axis], p.run(mask), mask)
            at = at + (i if stride == 1 else i * stride)
        return at

    return Code(run, fixed.ndim == 0 and not arrays, True)


def within(i: Value, size: int, mask: Mask) -> Value | None:
    """Return an index whose inactive lanes are brought inside; None if an active one is outside."""
    if i.ndim == 0:
        return i if 0 <= i < size else None
    if i.view(np.uint64).max() < size:  # a negative index is a huge one
        return i
    if mask is None:
        return None
    near = np.minimum(np.maximum(i, 0), size - 1)
    return None if ((near != i) & mask).any() else near


def _bounds(stmt: Stmt, name: str, axis: int, size: int, i: Value, mask: Mask) -> LoopFault:
    bad = np.asarray((i < 0) | (i >= size))
    wrong = bad if mask is None else bad & mask
    worst = int(np.broadcast_to(i, wrong.shape)[wrong].flat[0])
    return stmt_fault(
        "out-of-bounds", stmt, f"{name}, axis {axis}: index {worst} outside [0, {size})"
    )


def _failing(fault: LoopFault) -> Code:
    """Code that raises a fault that is known beforehand, when the access runs."""

    def run(mask: Mask) -> Value:
        del mask
        raise fault

    return Code(run, False, True)
