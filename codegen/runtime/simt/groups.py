"""Products of four warps, which run beside the threads that start them.

The sums are there when the product starts, but what touches them before its wait is a fault, as is
what writes to its operands.  What threads have written must be fenced before: operands by
``proxy_fence``, sums by ``wgmma_fence``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from pycparser import c_ast as c

from didyma.codegen.emit.intrinsics import c_type
from didyma.codegen.runtime.simt.access import Mask, Run, Value
from didyma.codegen.runtime.simt.copies import PRODUCT, Moved
from didyma.codegen.runtime.simt.matrices import wide
from didyma.codegen.runtime.simt.memory import LaneArray, Lanes, Report
from didyma.codegen.runtime.simt.values import Arithmetic
from didyma.refimpl.ir.group_products import (
    ALIGNMENT,
    GROUP,
    HELD,
    LINE,
    PRODUCTS,
    ROWS,
    GroupProduct,
    swizzled,
)

FENCES = ("wgmma_fence", "proxy_fence")
Place: TypeAlias = tuple[LaneArray, Value]


def calls(part: c.Node, names: tuple[str, ...]) -> bool:
    """Return whether a part of a kernel calls a function whose name begins with one of these."""
    left: list[Any] = [part]
    while left:
        n = left.pop()
        left += [*n]
        if isinstance(n, c.FuncCall) and str(n.name.name).startswith(names):
            return True
    return False


def fence(r: Run, name: str, m: Mask) -> None:
    """Let products see what lanes have written: to registers, or to shared memory."""
    kind = "local" if name == "wgmma_fence" else "shared"
    for a in r.arrays.values():
        if a.kind == kind and a.loose is not None:
            a.fence(r.who(m), r.warps)


def product(arithmetic: Arithmetic, name: str) -> Callable[[Run, Mask, Sequence[Place], int], None]:
    """Return what starts a product of the groups of four warps that are active."""
    p = PRODUCTS[name.removeprefix("wgmma_")]
    times, plus = arithmetic.binary("*"), arithmetic.binary("+")
    cast = f"cast_{c_type(p.operands)}_{c_type(p.total)}"
    convert = None if p.narrow else arithmetic.function(cast)
    rows, columns = p.of_sums()

    def run(r: Run, m: Mask, places: Sequence[Place], line: int) -> None:
        report = r.reporter(name, line)
        lead = _leaders(r, m, report)
        (sums, first), left, right = places
        of_left = p.of_registers() if p.a_by == "r" else p.of_a()
        found = [
            _held(r, left, lead, report)
            if isinstance(of_left, tuple)
            else _operand(r, p, left, of_left, lead, report),
            _operand(r, p, right, p.of_b(), lead, report),
        ]
        if lead is None or None in found or np.any(first != 0) or sums.count < p.sums:
            if lead is not None and None not in found:
                report("out-of-bounds", f"{sums.kind} {sums.name} of {sums.count} elements", 1)
            return
        moved = [x for x in found if x is not None]
        read = [x.array.read(x.at) for x in moved]
        if p.narrow and (lost := sum(int(wide(x, p.narrow).sum()) for x in read)):
            report("unrounded", "an operand is not rounded by tf32_f32", lost)
        a, b = read if convert is None else map(convert, read)
        a, b = _matrix(a.reshape(len(lead), -1, p.k), of_left), b.reshape(len(lead), p.k, -1)
        who = (lead[:, None] + np.arange(GROUP)).reshape(-1)
        at = who[:, None] * sums.count + np.arange(p.sums)
        _check_own(sums, at, report)
        total = np.empty((len(lead), 64, p.columns), sums.read(at[:1]).dtype)
        total[:, rows, columns] = sums.read(at.reshape(-1)).reshape(len(lead), GROUP, p.sums)
        for k in range(p.k):
            total = plus(total, times(a[:, :, k, None], b[:, k, None, :]))
        sums.write(at.reshape(-1), total[:, rows, columns].reshape(-1))
        each = np.repeat(who, p.sums)
        moved.append(Moved(sums, at.reshape(-1), each, True))
        r.copies.start(name, line, who, moved, PRODUCT)

    return run


def _leaders(r: Run, m: Mask, report: Report) -> Lanes | None:
    """Return the first thread of each group that comes; None where only a part of one does."""
    threads, size = r.warps.threads, r.warps.size
    here = np.ones(size, np.bool_) if m is None else m
    if threads % GROUP:
        report("barrier-divergence", f"{threads % GROUP} of {GROUP} threads of four warps come", 1)
        return None
    came = here.reshape(-1, GROUP).sum(1)
    partly = (came != 0) & (came != GROUP)
    if partly.any():
        detail = f"{int(came[partly][0])} of {GROUP} threads of four warps come"
        report("barrier-divergence", detail, int(partly.sum()))
        return None
    return np.flatnonzero(came) * GROUP


def _operand(
    r: Run, p: GroupProduct, place: Place, at: Lanes, lead: Lanes | None, report: Report
) -> Moved | None:
    """Return the elements of an operand of each group, once all checks are made."""
    array, index = place
    if lead is None:
        return None
    if array.kind != "shared" or array.alignment % ALIGNMENT:
        text = f"{array.kind} {array.name}, of alignment {array.alignment}, is"
        report("misaligned", f"{text} no shared array of alignment {ALIGNMENT}", len(lead))
        return None
    every = r.lanes(index).astype(np.int64).reshape(-1, GROUP)
    first = every[lead // GROUP]
    if (first != first[:, :1]).any() or (first[:, 0] % (p.line // 8) != 0).any():
        report("misaligned", f"threads of four warps give other places in {array.name}", len(lead))
        return None
    inner = swizzled(first[:, :1] + at.reshape(-1), p.line).reshape(-1)
    who = np.repeat(lead, at.size)
    located, mine = array.locate(inner, r.warps, who, report)
    if located.size < inner.size:
        return None
    array.check_read(located, r.warps, mine, report)
    if array.loose is not None and (lost := array.loose[located]).any():
        i = int(located[lost][0]) % array.count
        text = f"shared {array.name}[{i}] is read before a proxy_fence of the thread that wrote it"
        report("unfenced", text, int(lost.sum()))
    return Moved(array, located, mine, False)


def _held(r: Run, place: Place, lead: Lanes | None, report: Report) -> Moved | None:
    """Return the elements of an operand that the threads of each group hold."""
    array, index = place
    if lead is None:
        return None
    first = np.unique(r.lanes(index))
    if array.kind != "local" or first.size > 1 or first[0] + HELD > array.count:
        detail = f"{array.kind} {array.name} of {array.count} elements, for {HELD} of each thread"
        report("out-of-bounds", detail, len(lead))
        return None
    who = (lead[:, None] + np.arange(GROUP)).reshape(-1)
    at = who[:, None] * array.count + first + np.arange(HELD)
    _check_own(array, at, report)
    return Moved(array, at.reshape(-1), np.repeat(who, HELD), False)


def _matrix(a: Any, of_left: Lanes | tuple[Lanes, Lanes]) -> Any:
    """Return the rows of a of each group, by what its threads hold."""
    if not isinstance(of_left, tuple):
        return a
    out = np.empty((len(a), ROWS, a.shape[2]), a.dtype)
    rows, terms = of_left
    out[:, rows, terms] = a.reshape(len(a), GROUP, HELD)
    return out


def _check_own(sums: LaneArray, at: Lanes, report: Report) -> None:
    """Report elements of threads that were written since the last fence, or never."""
    flat = at.reshape(-1)
    if sums.loose is not None and (lost := sums.loose[flat]).any():
        text = f"{sums.kind} {sums.name} was written since the last wgmma_fence"
        report("unfenced", text, int(lost.sum()))
    if sums.written is not None and not sums.written[flat].all():
        fresh = int((~sums.written[flat]).sum())
        report("uninitialised", f"{sums.kind} {sums.name} is read", fresh)


assert LINE * LINE * 2 == 8192, "the bytes of a panel, as descriptors of devices have it"
