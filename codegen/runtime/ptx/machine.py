"""A batch of blocks: every thread a lane of NumPy's arrays, with a program counter of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from didyma.codegen.runtime.ptx.code import CLOCKS, unknown
from didyma.codegen.runtime.ptx.flat import callers
from didyma.codegen.runtime.ptx.kinds import container
from didyma.codegen.runtime.ptx.knowledge import Knowledge
from didyma.codegen.runtime.ptx.memory import GLOBAL, LOCAL, SHARED, Found, Memory
from didyma.codegen.runtime.ptx.shape import Shape as Shape
from didyma.codegen.runtime.ptx.shape import order, specials
from didyma.codegen.runtime.ptx.taint import Taints
from didyma.codegen.runtime.ptx.units import Shadow
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.kernel import Kernel

RUN, DONE, AT_BARRIER, AT_WARP, GIVEN_UP = range(5)
_NEVER, _LONGER, _MORE = 1 << 62, 10, 1 << 16  # steps; times as many, and more, out of bounds


@dataclass(slots=True)
class Report:
    """What one kind of check found at one instruction.

    ``other`` is the instruction of the access that it races with, or -1.  ``callers`` are the calls
    that the lane is in, the innermost first.
    """

    kind: str
    pc: int
    detail: str
    other: int = -1
    lanes: int = 0
    callers: tuple[int, ...] = ()


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
        self.one = self.size // shape.copies if shape.copies > 1 else 0  # lanes of the first copy
        self.schedule = schedule
        n = self.size
        self.every: Array = np.arange(n, dtype=np.int32)
        self.regs: list[Array | None] = [None] * len(kernel.program.regs)
        self.slots: list[Array] = [np.zeros((n, s), np.uint8) for s in kernel.program.slots]
        self.carries: Array = np.zeros(n, np.bool_)
        self.exists: Array = self.every % shape.padded < shape.threads
        self.specials = specials(shape, self.every + self.first)
        self.state: Array = np.where(self.exists, RUN, DONE).astype(np.int8)
        self.live = int(self.exists.sum())
        self.left_early: Array = np.zeros(n, np.bool_)
        self.pc: Array = np.full(n, kernel.program.start, np.int64)
        self.frames: dict[int, Array] = {}  # by function: where lanes were called from
        clustered = max(shape.cluster) > 1
        ranks = self.specials["cluster_ctarank"] if clustered else None
        self.key = order(schedule, n, shape.padded, ranks)
        self.early = schedule % 2 == 1  # whether asynchronous copies land at once, or late
        self.spin: Array = np.zeros(n, np.int64)
        self.jumps: Array = np.zeros(n if self.one else 0, np.int64)  # back, of several copies
        self.most_jumps = 0  # of a lane that is not given up, once the first copy has ended
        self.barrier = Barrier(np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64))
        self.knowledge = Knowledge(memory, self.exists)
        self.clusters: Array = np.arange(memory.bar.size)
        self.taints = Taints(n)
        self.shadow = Shadow(n) if kernel.meaning is not None else None
        self.under_way: dict[str, Any] = {}  # copies, products and barriers of other modules
        self.reports: dict[tuple[str, int], Report] = {}
        self.strides: dict[int, int] = {}  # between the regions of copies, by bytes of parameters
        self.spread: dict[str, int] = {}  # between the copies' variables
        self.met: dict[int, int] = {}  # the first address of each atomic and ordered load
        self.at = 0
        self.steps = self.lane_steps = 0
        self.last_step = _NEVER  # after which a launch that left its memory is stopped
        self.rounds = self.began = 0  # of spinning; the step at which lanes began to run together
        self.leap = 0  # by how much clocks are ahead of the steps
        self.trail: set[int] = set()  # where stretches began that ran since ``seen``
        self.seen: tuple[Array, Array, list[Array | None]] = (self.pc, self.state, [])
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

    def full(self, i: int) -> Array:
        """Return a register in all lanes."""
        a = self.regs[i]
        return np.zeros(self.size, container(self.kernel.program.regs[i])) if a is None else a

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
            if not name.startswith(CLOCKS):
                raise unknown(self.kernel.program.instrs[self.at], f"%{name}")
            return np.full(self.n, self.steps + self.leap, np.uint64)
        return v if self.index is None or np.ndim(v) == 0 else v[self.index]

    def copy(self) -> Array:
        """Return of which copy of the grid, by its place, lanes are."""
        lanes = self.every if self.index is None else self.index
        return lanes // (self.size // self.shape.copies)

    def symbol(self, name: str) -> Any:
        """Return the address of a variable, or those of each copy's own."""
        if name not in self.symbols:
            raise unknown(self.kernel.program.instrs[self.at], f"no variable {name}")
        stride = self.spread.get(name)
        at = self.symbols[name]
        return at if stride is None else at + self.copy().astype(np.int64) * stride

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
            found = self.reports[key] = Report(
                kind, key[1], detail + who, other,
                callers=callers(self.kernel.program, self.frames, int(lanes[0]), key[1])
                if lanes.size else (),
            )  # fmt: skip
            if kind == "out-of-bounds":
                self.last_step = min(self.last_step, _LONGER * self.steps + _MORE)
        found.lanes += lanes.size

    def thread(self, lane: int) -> str:
        """Name a lane of the grid."""
        block, thread = divmod(lane, self.shape.padded)
        return f"thread {thread} of block {block}"

    def place(self, address: int, mods: tuple[str, ...]) -> str:
        """Say what is read at an address."""
        heads = {x.split("::")[0] for x in mods}
        for space, base in zip(self.memory.spaces, (GLOBAL, SHARED, LOCAL), strict=True):
            generic = base <= address < base + (1 << 40)
            if generic or space.kind in heads:
                return f"{space.describe(address - base if generic else address)} is read"
        return "memory is read"

    def meets(self, addresses: Array) -> None:
        """Remember that lanes may meet at addresses: those of an atomic or an ordered load."""
        if addresses.size:
            self.met.setdefault(self.at, int(addresses[0]))

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
                case "exited":
                    detail = f"{where} of a block that has ended"
                case "overwritten":
                    detail = f"{where} is written before a wait for the copy that reads it"
                case "constant":
                    detail = f"{where} is written"
                case _:
                    detail = f"{where}, access of {f.size} bytes"
            lane = np.array([f.lane])
            key = f.kind, self.at
            self.report(f.kind, detail, lane, other)
            self.reports[key].lanes += f.times - 1

    def progress(self) -> None:
        """Note that something happened which lanes may wait for."""
        self.rounds = 0
