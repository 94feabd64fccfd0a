"""Running the lanes of a batch of blocks to their end.

Of the lanes that can run, those with the smallest counter run together, up to the next branch or
meeting.  Lanes that spin are set aside now and then, so that others can end what they wait for.
Of several copies of a grid, one that jumps back more often than the first one is set aside, too,
and is given up once it has done so several times as often.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from didyma.codegen.runtime.ptx.machine import (
    AT_BARRIER,
    AT_WARP,
    DONE,
    GIVEN_UP,
    RUN,
    Machine,
)
from didyma.codegen.runtime.ptx.shape import RANDOM, order
from didyma.codegen.runtime.ptx.stillness import needed, timed
from didyma.codegen.runtime.ptx.taint import unset
from didyma.refimpl.ir.types import Array

_ASIDE = np.int64(1) << 40  # in the key of a lane that spins
_TURNS = 64  # jumps back until a lane is set aside
_FEW = 2  # more of them, than the first of several copies has
_OFTEN, _JUMPS = 4, 32  # times as many, and more, and a copy's loop counts as one without an end
_LONG = 1 << 14  # steps of all lanes together until jumps back count as spinning
_LONGEST = 8  # two to this power are more steps than any from one random order to the next
_MORE, _LEAST = 1.0, 0.02  # times as long, and seconds, that copies may run after the first ends
_LEAP, _FOREVER = 1 << 20, 1 << 59  # ticks of clocks that are skipped at first, and in the end


class Ended(Exception):
    """The launch cannot go on."""


def run(m: Machine) -> None:
    """Run all lanes to their end; ``Ended`` where they cannot go on."""
    unset(m, m.kernel.program.unset, np.flatnonzero(m.exists))
    changes = _changes(m) if m.schedule >= RANDOM else None
    begun = time.process_time()
    while True:
        if changes is not None:
            next(changes)
        ready = m.state == RUN
        left = np.count_nonzero(ready)
        if not left:
            if (m.state == DONE).all():
                return
            _stuck(m)
        rank = m.pc + m.key
        lowest = rank[ready].min()
        if lowest >= _ASIDE:
            _round(m, ready)
            continue
        group = np.flatnonzero(ready & (rank == lowest)).astype(np.int32)
        alone = group.size == left
        m.select(group)
        pc: int | None = int(m.pc[group[0]])
        while pc is not None:
            pc = _stretch(m, pc, alone)
        if m.steps > m.last_step:
            raise Ended
        now = time.process_time()
        if m.one and (m.state[: m.one] == DONE).all():
            m.most_jumps = _OFTEN * int(m.jumps[: m.one].max()) + _JUMPS
            m.deadline, m.one = min(m.deadline, now + _MORE * (now - begun) + _LEAST), 0
        if now > m.deadline and not (m.state == DONE).all():
            _hang(m, "it still runs at the time limit")


def _changes(m: Machine) -> Iterator[None]:
    """Change at random times, of which each step is one, which warps go first."""
    draw = np.random.default_rng(m.schedule)
    while True:
        for _ in range(1 << int(draw.integers(_LONGEST))):
            yield
        keys = order(RANDOM + int(draw.integers(1 << 30)), m.size, m.shape.padded)
        m.key = m.key & _ASIDE | keys


def _stretch(m: Machine, pc: int, alone: bool) -> int | None:
    """Run to the next branch or meeting; return where to go on if the lanes stay together."""
    body, last, after = m.kernel.stretch(pc)
    m.trail.add(pc)
    for at, f in body:
        m.at = at
        if m.taints.masks or m.taints.slots:
            m.kernel.spread(m, at)
        f(m)
    count = len(body) + (last is not None)
    m.steps += count
    m.lane_steps += count * m.ids.size
    to: Any = after
    if last is not None:
        m.at = last
        if m.taints.masks or m.taints.slots:
            m.kernel.spread(m, last)
        to = m.kernel.ends[last](m)
    if to is None:
        return None
    jumps = last in m.kernel.jumps
    if getattr(to, "ndim", 0) == 0:
        goal = int(to)
        back = m.ids if jumps and goal <= pc else None
        if alone and (back is None or (m.steps - m.began < _LONG and not m.most_jumps)):
            return goal
    else:
        back = m.ids[to <= pc] if jumps else None
    m.began = m.steps
    m.pc[m.ids] = to
    if back is not None and back.size:
        m.spin[back] += 1
        if m.jumps.size:
            m.jumps[back] += 1
            if m.most_jumps:
                m.state[back[m.jumps[back] > m.most_jumps]] = GIVEN_UP
        turns = int(m.spin[: m.one].max()) + _FEW if m.one else _TURNS
        m.key[back[m.spin[back] > turns]] |= _ASIDE
        if alone:
            m.key[m.ids] |= _ASIDE
    return None


def _round(m: Machine, ready: Array) -> None:
    """Let lanes run that were set aside; find out whether anything still changes.

    A state that comes again without a change of memory comes for ever.  Where clocks alone tell it
    from the one before, they leap, so that what waits for a time ends.
    """
    m.key[ready] &= _ASIDE - 1
    m.spin[:] = 0
    if m.memory.changed:
        m.memory.unchanged()
        m.rounds = 0
    m.rounds += 1
    if m.rounds == 1:
        return
    if m.rounds & (m.rounds - 1) == 0:
        kept = [None if r is None else r.copy() for r in m.regs]
        m.seen = m.pc.copy(), m.state.copy(), kept
        m.trail.clear()
        return
    pc, state, regs = m.seen
    if (m.pc != pc).any() or (m.state != state).any():
        return
    instrs = m.kernel.program.instrs
    code = [instrs[at] for pc in m.trail for at in range(pc, m.kernel.stretch(pc)[2])]
    changed = {r for r in needed(code) if not _equal(m.regs[r], regs[r])}
    if not changed or (m.leap > _FOREVER and changed <= timed(code)):
        _hang(m, "nothing changes any more")
    if changed <= timed(code):
        m.leap = _LEAP * max(1, m.leap)


def _equal(a: Array | None, b: Array | None) -> bool:
    return a is b or (a is not None and b is not None and a.tobytes() == b.tobytes())


def _hang(m: Machine, why: str) -> None:
    lanes = np.flatnonzero(m.state == RUN)
    if not lanes.size:  # all that are left have just reached a barrier
        lanes = np.flatnonzero(m.state != DONE)
    m.report("hang", f"a loop does not end: {why}", lanes, pc=int(m.pc[lanes].min()))
    raise Ended


def _stuck(m: Machine) -> None:
    """Report lanes that wait for others which never come."""
    for state, kind, text in (
        (AT_WARP, "warp-divergence", "lanes wait for others of their mask, which never come"),
        (AT_BARRIER, "barrier-divergence", "threads wait at a barrier that others never reach"),
    ):
        lanes = np.flatnonzero(m.state == state)
        for pc in np.unique(m.pc[lanes]):
            m.report(kind, text, lanes[m.pc[lanes] == pc], pc=int(pc))
    raise Ended


def leave(m: Machine, ids: Array) -> None:
    """End lanes."""
    m.state[ids] = DONE
    if m.memory.peers is not None:
        left = np.bincount(m.memory.block[m.state != DONE], minlength=m.memory.gone.size)
        m.memory.gone[:] = left == 0
    m.live -= ids.size
    m.left_early[ids] = True
    waiting = m.state == AT_WARP
    if waiting.any():
        m.state[waiting] = RUN  # to look again whether all that they wait for are there
    m.progress()
    if (m.state == AT_BARRIER).any():
        m.kernel.complete(m)
