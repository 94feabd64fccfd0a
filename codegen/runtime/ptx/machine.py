"""A batch of blocks: every thread a lane of NumPy's arrays, with a program counter of its own.

Of the lanes that can run, those with the smallest counter run together, up to the next branch or
meeting.  Lanes that spin are set aside now and then, so that others can end what they wait for.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from didyma.codegen.runtime.ptx.code import unknown
from didyma.codegen.runtime.ptx.kinds import container
from didyma.codegen.runtime.ptx.knowledge import Knowledge
from didyma.codegen.runtime.ptx.memory import Found, Memory
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.kernel import Kernel

RUN, DONE, AT_BARRIER, AT_WARP = range(4)
_ASIDE = np.int64(1) << 40  # in the key of a lane that spins
_TURNS = 64  # jumps back until a lane is set aside
_LONG = 1 << 12  # jumps back of all lanes together until they count as spinning


@dataclass(slots=True)
class Report:
    """What one kind of check found at one instruction.

    ``other`` is the instruction of the access that it races with, or -1.
    """

    kind: str
    pc: int
    detail: str
    other: int = -1
    lanes: int = 0


class Ended(Exception):
    """The launch cannot go on."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Threads of a block and blocks of the grid, along three axes."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def padded(self) -> int:
        """Lanes of a block: whole warps."""
        return -(-self.threads // 32) * 32

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]


@dataclass(slots=True)
class Barrier:
    """Lanes at barriers of their blocks: which one, and how many it waits for (0: all)."""

    number: Array
    need: Array
    value: Array
    arrived: dict[tuple[int, int], list[Array]] = field(default_factory=dict[tuple[int, int], Any])


class Machine:
    """The lanes of some blocks of a launch, from ``first``; ``n`` is the width of values.

    ``ids`` are the active lanes.  Values are as wide as those, or, where most lanes are active, as
    all lanes, of which ``mask`` says which count.
    """

    def __init__(
        self,
        kernel: Kernel,
        shape: Shape,
        first: int,
        memory: Memory,
        symbols: Mapping[str, int],
        params: bytes,
        schedule: int,
        deadline: float,
    ) -> None:
        self.kernel, self.shape, self.memory = kernel, shape, memory
        self.symbols, self.params = symbols, params
        self.first, self.size = first * shape.padded, memory.block.size
        self.deadline = deadline
        self.schedule = schedule
        n = self.size
        self.every: Array = np.arange(n, dtype=np.int32)
        self.regs: list[Array | None] = [None] * len(kernel.program.regs)
        self.slots: list[Array] = [np.zeros((n, s), np.uint8) for s in kernel.program.slots]
        self.carries: Array = np.zeros(n, np.bool_)
        self.exists: Array = self.every % shape.padded < shape.threads
        self.specials = _specials(shape, self.every + self.first)
        self.state: Array = np.where(self.exists, RUN, DONE).astype(np.int8)
        self.live = int(self.exists.sum())
        self.left_early: Array = np.zeros(n, np.bool_)
        self.pc: Array = np.zeros(n, np.int64)
        self.key = _order(schedule, n)
        self.spin: Array = np.zeros(n, np.int64)
        self.barrier = Barrier(np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64))
        self.knowledge = Knowledge(self)
        self.under_way: dict[str, Any] = {}  # copies, products and barriers of other modules
        self.reports: dict[tuple[str, int], Report] = {}
        self.at = 0
        self.steps = self.lane_steps = 0
        self.turns = self.rounds = 0
        self.seen: list[bytes] = []
        self.ids: Array = self.every
        self.mask: Array | None = None
        self.index: Array | None = None
        self.n = n

    # Lanes and registers

    def select(self, ids: Array) -> None:
        """Make lanes the active ones."""
        self.ids, self.mask, self.index, self.n = ids, None, None, self.size
        if ids.size == self.size:
            return
        if 2 * ids.size > self.size:
            self.mask = np.zeros(self.size, np.bool_)
            self.mask[ids] = True
        else:
            self.index, self.n = ids, ids.size

    def get(self, i: int) -> Array:
        """Return a register."""
        a = self.regs[i]
        if a is None:
            a = self.regs[i] = np.zeros(self.size, container(self.kernel.program.regs[i]))
        return a if self.index is None else a[self.index]

    def put(self, i: int, v: Any) -> None:
        """Set a register in the active lanes."""
        if self.index is None and self.mask is None:
            v = np.asarray(v)
            own = v.shape == (self.size,) and v.flags.writeable
            self.regs[i] = v if own else np.array(np.broadcast_to(v, (self.size,)))
            return
        a = self.regs[i]
        if a is None:
            a = self.regs[i] = np.zeros(self.size, container(self.kernel.program.regs[i]))
        if self.index is not None:
            a[self.index] = v
        else:
            np.copyto(a, v, where=True if self.mask is None else self.mask)

    def active(self, v: Any) -> Array:
        """Return a value in the active lanes alone, contiguous."""
        v = np.asarray(v)
        if v.ndim == 0:
            return np.full(self.ids.size, v)
        return np.ascontiguousarray(v if self.mask is None else v[self.ids])

    def widened(self, v: Array) -> Array:
        """Return a value of the active lanes as wide as registers are set."""
        if self.mask is None:
            return v
        out = np.zeros(self.size, v.dtype)
        out[self.ids] = v
        return out

    def holds(self, guard: tuple[int, bool]) -> Array:
        """Return in which of the active lanes a guard holds."""
        held: Array = self.active(self.get(guard[0])) != guard[1]
        return held

    def carry(self) -> Array:
        """Return the carry bits."""
        return self.carries if self.index is None else self.carries[self.index]

    def set_carry(self, v: Array) -> None:
        """Set the carry bits of the active lanes."""
        self.carries[self.ids] = self.active(v)

    def special(self, name: str) -> Any:
        """Return a special register."""
        v = self.specials.get(name)
        if v is None:
            if not name.startswith(("clock", "globaltimer")):
                raise unknown(self.kernel.program.instrs[self.at], f"%{name}")
            return np.full(self.n, self.steps, np.uint64)
        return v if self.index is None or np.ndim(v) == 0 else v[self.index]

    def symbol(self, name: str) -> int:
        """Return the address of a variable."""
        if name not in self.symbols:
            raise unknown(self.kernel.program.instrs[self.at], f"no variable {name}")
        return self.symbols[name]

    def param_address(self, name: str) -> int:
        """Return the address of a parameter of the kernel."""
        return self.symbols["parameters of the kernel"] + self.kernel.param_at[name]

    # Reports

    def report(
        self, kind: str, detail: str, lanes: Array, other: int = -1, pc: int | None = None
    ) -> None:
        """Report a fault of lanes at the instruction that runs."""
        key = kind, self.at if pc is None else pc
        found = self.reports.get(key)
        if found is None:
            who = f", by {self.thread(int(lanes[0]) + self.first)}" if lanes.size else ""
            found = self.reports[key] = Report(kind, key[1], detail + who, other)
        found.lanes += lanes.size

    def thread(self, lane: int) -> str:
        """Name a lane of the grid."""
        block, thread = divmod(lane, self.shape.padded)
        return f"thread {thread} of block {block}"

    def tell(self, found: Iterable[Found]) -> None:
        """Report what an access found."""
        for f in found:
            space = self.memory.spaces[f.space]
            where, other = space.describe(f.address), -1
            match f.kind:
                case "race" | "same-value":
                    did = "writes" if f.verb & 2 else "reads"
                    verb = "written" if f.verb & 1 else "read"
                    other = f.size
                    alone = f.other != f.lane + self.first
                    who = self.thread(f.other) if alone else "another thread of its warp"
                    detail = f"{where} is {verb} while {who} {did} it"
                case "uninitialised":
                    detail = f"{where} is read"
                case "unwaited":
                    detail = f"{where} is used before a wait for the copy that writes it"
                case "constant":
                    detail = f"{where} is written"
                case _:
                    detail = f"{where}, access of {f.size} bytes"
            lane = np.array([f.lane])
            key = f.kind, self.at
            self.report(f.kind, detail, lane, other)
            self.reports[key].lanes += f.times - 1

    # Running

    def run(self) -> None:
        """Run all lanes to their end; ``Ended`` where they cannot go on."""
        while True:
            ready = self.state == RUN
            if not ready.any():
                if (self.state == DONE).all():
                    return
                self._stuck()
            order = self.pc + self.key
            lowest = order[ready].min()
            if lowest >= _ASIDE:
                self._round(ready)
                continue
            group = np.flatnonzero(ready & (order == lowest)).astype(np.int32)
            alone = group.size == np.count_nonzero(ready)
            self.select(group)
            pc: int | None = int(self.pc[group[0]])
            while pc is not None:
                pc = self._stretch(pc, alone)
            if time.process_time() > self.deadline:
                self._hang("it still runs at the time limit")

    def _stretch(self, pc: int, alone: bool) -> int | None:
        """Run to the next branch or meeting; return where to go on if the lanes stay together."""
        body, last, after = self.kernel.stretches[pc]
        for at, f in body:
            self.at = at
            f(self)
        count = len(body) + (last is not None)
        self.steps += count
        self.lane_steps += count * self.ids.size
        to: Any = after
        if last is not None:
            self.at = last
            to = self.kernel.ends[last](self)
        if to is None:
            return None
        if np.ndim(to) == 0:
            goal = int(to)
            self.turns += goal <= pc
            if alone and (goal > pc or self.turns < _LONG):
                return goal
            back = self.ids if to <= pc else None
        else:
            back = self.ids[to <= pc]
        self.turns = 0
        self.pc[self.ids] = to
        if back is not None and back.size:
            self.spin[back] += 1
            self.key[back[self.spin[back] > _TURNS]] |= _ASIDE
            if alone:
                self.key[self.ids] |= _ASIDE
        return None

    def _round(self, ready: Array) -> None:
        """Let lanes run that were set aside; find out whether anything still changes."""
        self.key[ready] &= _ASIDE - 1
        self.spin[:] = 0
        if self.memory.changed:
            self.memory.unchanged()
            self.rounds = 0
        self.rounds += 1
        if self.rounds & (self.rounds - 1) and not (self.rounds - 1) & (self.rounds - 2):
            now = [self.pc.tobytes(), *(r.tobytes() for r in self.regs if r is not None)]
            if now == self.seen:
                self._hang("nothing changes any more")
        if self.rounds > 1 and not self.rounds & (self.rounds - 1):
            self.seen = [self.pc.tobytes(), *(r.tobytes() for r in self.regs if r is not None)]

    def progress(self) -> None:
        """Note that something happened which lanes may wait for."""
        self.rounds = 0

    def _hang(self, why: str) -> None:
        lanes = np.flatnonzero(self.state == RUN)
        self.report("hang", f"a loop does not end: {why}", lanes, pc=int(self.pc[lanes].min()))
        raise Ended

    def _stuck(self) -> None:
        """Report lanes that wait for others which never come."""
        for state, kind, text in (
            (AT_WARP, "warp-divergence", "lanes wait for others of their mask, which never come"),
            (AT_BARRIER, "barrier-divergence", "threads wait at a barrier that others never reach"),
        ):
            lanes = np.flatnonzero(self.state == state)
            for pc in np.unique(self.pc[lanes]):
                self.report(kind, text, lanes[self.pc[lanes] == pc], pc=int(pc))
        raise Ended

    def leave(self, ids: Array) -> None:
        """End lanes."""
        self.state[ids] = DONE
        self.live -= ids.size
        self.left_early[ids] = True
        waiting = self.state == AT_WARP
        if waiting.any():
            self.state[waiting] = RUN  # to look again whether all that they wait for are there
        self.progress()
        if (self.state == AT_BARRIER).any():
            self.kernel.complete(self)


def _order(schedule: int, n: int) -> Array:
    """Return keys by which groups of warps go first: none, halves, then quarters at random."""
    warps = np.arange(n) >> 5
    count = max(1, -(-n // 32))
    if schedule == 0:
        return np.zeros(n, np.int64)
    if schedule <= 2:
        half = warps * 2 // count
        return (half if schedule == 2 else 1 - half).astype(np.int64) << 24
    order: Array = np.random.default_rng(schedule).permutation(min(8, count)).astype(np.int64)
    keys: Array = order[warps * order.size // count] << 24
    return keys


def _specials(shape: Shape, lane: Array) -> dict[str, Any]:
    thread, block = lane % shape.padded, lane // shape.padded

    def axes(name: str, i: Array, extents: tuple[int, int, int]) -> dict[str, Any]:
        x, y, _ = extents
        parts = (i % x, i // x % y, i // (x * y))
        return {f"{name}.{a}": p.astype(np.uint32) for a, p in zip("xyz", parts, strict=True)}

    found = axes("tid", thread, shape.block) | axes("ctaid", block, shape.grid)
    for name, extents in (("ntid", shape.block), ("nctaid", shape.grid)):
        found |= {f"{name}.{a}": np.uint32(e) for a, e in zip("xyz", extents, strict=True)}
    for a in "xyz":
        found |= {f"cluster_ctaid.{a}": np.uint32(0), f"cluster_nctaid.{a}": np.uint32(1)}
        found |= {f"clusterid.{a}": found[f"ctaid.{a}"], f"nclusterid.{a}": found[f"nctaid.{a}"]}
    bit = np.uint64(1) << (thread % 32).astype(np.uint64)
    masks = {
        "eq": bit, "lt": bit - np.uint64(1), "le": 2 * bit - np.uint64(1),
        "gt": ~(2 * bit - np.uint64(1)), "ge": ~(bit - np.uint64(1)),
    }  # fmt: skip
    found |= {f"lanemask_{k}": v.astype(np.uint32) for k, v in masks.items()}
    return found | {
        "laneid": (thread % 32).astype(np.uint32), "warpid": (thread // 32).astype(np.uint32),
        "nwarpid": np.uint32(shape.padded // 32), "smid": (block % 132).astype(np.uint32),
        "nsmid": np.uint32(132), "gridid": np.uint64(1), "cluster_ctarank": np.uint32(0),
        "cluster_nctarank": np.uint32(1), "is_explicit_cluster": np.bool_(False),
    }  # fmt: skip
