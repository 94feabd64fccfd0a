"""Copies of boxes from shared memory to arrays, in groups that the thread which starts them awaits.

As PTX has ``cp.async.bulk.tensor`` with ``bulk_group``.  The bytes move when a copy starts; who
writes to what it has yet to read, before the wait, is a fault, and so is what was not fenced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from didyma.codegen.runtime.simt.copies import STORE, STORED, Moved
from didyma.codegen.runtime.simt.meets import describes, holds_box
from didyma.codegen.runtime.simt.memory import LaneArray
from didyma.refimpl.ir.group_products import swizzled

if TYPE_CHECKING:
    from didyma.codegen.runtime.simt.access import Mask, Run, Value


def store(
    r: Run, name: str, described: tuple[LaneArray, Value], corner: list[Value],
    held: tuple[LaneArray, Value], m: Mask, line: int,
) -> None:  # fmt: skip
    """Let active lanes start the copy of a box each, by a description, from shared memory."""
    for lane in r.who(m):
        where, first, *at = (int(r.lanes(v)[lane]) for v in (described[1], held[1], *corner))
        _store(r, name, (described[0], where), (at[0], at[1], at[2]), (held[0], first), lane, line)


def _store(
    r: Run, name: str, described: tuple[LaneArray, int], corner: tuple[int, int, int],
    held: tuple[LaneArray, int], lane: int, line: int,
) -> None:  # fmt: skip
    report = r.reporter(name, line)
    (maps, where), (source, first) = described, held
    assert r.meets is not None, "no groups"
    box = r.meets.boxes.get((maps.name, where))
    if box is None:
        report("uninitialised", f"{maps.name}[{where}] is read", 1)
        return
    if not holds_box(source, first, report) or not describes(box, corner, report):
        return
    place, inside = box.elements(corner)
    who = np.full(inside.size, lane)
    here, mine = source.locate(swizzled(first + np.arange(inside.size)), r.warps, who, report)
    there, writers = box.array.locate(place[inside], r.warps, who[inside], report)
    if here.size < inside.size or there.size < int(inside.sum()):
        return
    stored = here[inside]  # what lies beyond the array goes nowhere, so it may be anything
    source.check_read(stored, r.warps, mine[inside], report)
    if source.loose is not None and (lost := source.loose[stored]).any():
        i = int(stored[lost][0]) % source.count
        text = f"shared {source.name}[{i}] is read before a proxy_fence of the thread that wrote it"
        report("unfenced", text, int(lost.sum()))
    box.array.check_write(there, r.warps, writers, report)
    box.array.write(there, source.read(stored))
    if r.traffic is not None:
        r.traffic.written[r.kernel, box.array.name] += there.size * box.array.data.itemsize
        r.traffic.accesses[r.kernel, box.array.name] += 1
    started = np.asarray([lane])
    r.copies.start(name, line, started, [Moved(source, here, mine, False)], STORE)
    r.copies.start(name, line, started, [Moved(box.array, there, writers, True)], STORED)
