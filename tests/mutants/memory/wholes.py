"""Faults of planners that reuse whole allocations, and in the sizes that any planner gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from didyma.codegen.memory import planners, sizes, values
from didyma.codegen.memory.liveness import roots
from didyma.codegen.memory.planners import LiveBuffer, ReusePlan, Whole
from didyma.codegen.memory.sizes import FitProver
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.dims.comparison import at_least
from didyma.refimpl.ir.lines import operands, walk
from didyma.refimpl.ir.program import Program, Repeat, View, While
from didyma.refimpl.ir.types import DType, TensorType
from tests.mutants.memory.fault import Plant, ProgramFault, buffers, nothing, patched

GREEDY = "greedy_by_size"


def changed(
    change: Callable[[Program, Sequence[LiveBuffer], dict[str, str]], None],
) -> Callable[[Program], Whole]:
    """Change which buffer takes over whose bytes."""

    def make(bare: Program) -> Whole:
        def wrong(some: Sequence[LiveBuffer], s: FitProver) -> ReusePlan:
            plan = planners.linear_scan(some, s)
            over = dict(plan.over)
            change(bare, some, over)
            return ReusePlan(over, plan.hold)

        return wrong

    return make


def keyed(key: Callable[[LiveBuffer], object]) -> Callable[[Program], Whole]:
    """Reuse by a key: the last to die under it is the first to be taken."""

    def wrong(some: Sequence[LiveBuffer], s: FitProver) -> ReusePlan:
        del s
        over: dict[str, str] = {}
        pool: dict[object, list[LiveBuffer]] = {}
        busy: list[LiveBuffer] = []
        for b in sorted(some, key=lambda b: b.live.start):
            for dead in [d for d in busy if d.live.end < b.live.start]:
                busy.remove(dead)
                pool.setdefault(key(dead), []).append(dead)
            if pool.get(key(b)):
                over[b.name] = pool[key(b)].pop().name
            busy.append(b)
        return ReusePlan(over)

    def make(bare: Program) -> Whole:
        del bare
        return wrong

    return make


def fits(wrong: Callable[[TensorType, TensorType, sizes.FitProver], bool]) -> Plant:
    """Compare sizes otherwise."""

    def plant(bare: Program) -> AbstractContextManager[object]:
        del bare

        def compared(s: FitProver, wanted: TensorType, held: TensorType) -> bool:
            return wrong(wanted, held, s)

        return patched(FitProver, "fits", compared)

    return plant


# ---- chains


def taken_twice(bare: Program, some: Sequence[LiveBuffer], over: dict[str, str]) -> None:
    """A chain resolved one hop: who has the bytes now is not asked, only who had them before."""
    del bare
    by_name = {b.name: b for b in some}
    for c, b in list(over.items()):
        for d in some:
            later = d.live.start > by_name[b].live.end and d.name not in over
            if later and d.name != c and d.type == by_name[b].type:
                over[d.name] = b
                return


def two_small_in_one(bare: Program, some: Sequence[LiveBuffer], over: dict[str, str]) -> None:
    """A large allocation that is free is given to every small buffer that fits."""
    del bare
    for large in some:
        for b in some:
            if b.live.start > large.live.end and b.name not in over:
                a, n = large.type.nbytes, b.type.nbytes
                if isinstance(a, int) and isinstance(n, int) and 0 < n <= a:
                    over[b.name] = large.name


def takes_an_input(bare: Program, some: Sequence[LiveBuffer], over: dict[str, str]) -> None:
    """An input nobody reads any more is free."""
    types = bare.type
    for b in some:
        for x in bare.inputs:
            last = max((i for i, line in enumerate(bare.lines) if x in operands(line)), default=0)
            if b.name not in over and types[x] == b.type and b.live.start > last:
                over[b.name] = x
                return


def one_record(bare: Program, some: Sequence[LiveBuffer], over: dict[str, str]) -> None:
    """Allocations are recorded by name without its number, so that two values share one."""
    del bare
    seen: dict[str, str] = {}
    for b in some:
        stem = b.name.rstrip("0123456789")
        if b.name in over and stem in seen:
            over[b.name] = seen[stem]
        elif b.name in over:
            seen[stem] = over[b.name]


# ---- sizes


def elements(b: LiveBuffer) -> LiveBuffer:
    """Elements taken for bytes."""
    return replace(b, type=TensorType(DType.U8, b.type.shape, b.type.device))


def one_lane(b: LiveBuffer) -> LiveBuffer:
    """Of a buffer accessed in vectors of four, room for one lane each."""
    n = b.type.numel
    if isinstance(n, int) and n % 4 == 0 and n:
        return replace(b, type=TensorType(b.type.dtype, (n // 4,), b.type.device))
    return b


def rounded_down(b: LiveBuffer) -> LiveBuffer:
    """Sizes rounded down to the alignment."""
    size = b.type.nbytes
    if isinstance(size, int) and size > 256 and size % 256:
        return replace(b, type=TensorType(DType.U8, (size // 256 * 256,), b.type.device))
    return b


def one_tile(bare: Program) -> AbstractContextManager[object]:
    """Of a buffer that a loop goes over part by part, room for one part."""
    root = roots(bare.lines)
    tiles: dict[str, TensorType] = {}
    types = bare.type
    for line in walk(bare.lines):
        if isinstance(line, While | Repeat):
            for x in walk(line.body):
                for v in operands(x):
                    owner = root.get(v, v)
                    n = types[owner].numel
                    if isinstance(n, int) and n > 1:
                        t = types[owner]
                        tiles[owner] = TensorType(t.dtype, (n // 2,), t.device)
    return buffers(lambda b: replace(b, type=tiles.get(b.name, b.type)))(bare)


def as_small_as_its_view(bare: Program) -> AbstractContextManager[object]:
    """A buffer is as large as the last view of it, which may show a part."""
    root = roots(bare.lines)
    types = bare.type
    seen = {root[x.value]: types[x.value] for x in walk(bare.lines) if isinstance(x, View)}
    return buffers(lambda b: replace(b, type=seen.get(b.name, b.type)))(bare)


# ---- sizes that are symbols


def _at(d: Dim, s: FitProver, end: int) -> int:
    return dims.evaluate(d, {n: ends[end] for n, ends in s.ranges.items()})


def at_highest(wanted: TensorType, held: TensorType, s: FitProver) -> bool:
    return _at(held.nbytes, s, 1) >= _at(wanted.nbytes, s, 1)


def lower_for_upper(wanted: TensorType, held: TensorType, s: FitProver) -> bool:
    """The wanted size's lower bound stands for its upper."""
    return _at(held.nbytes, s, 0) >= _at(wanted.nbytes, s, 0)


def hint(t: TensorType) -> int:
    """Bytes at the sizes that were seen first."""
    names = dims.free(t.numel)
    return dims.evaluate(t.nbytes, dict.fromkeys(names, 3))


def at_hint(wanted: TensorType, held: TensorType, s: FitProver) -> bool:
    del s
    return hint(held) >= hint(wanted)


def by_elements(wanted: TensorType, held: TensorType, s: FitProver) -> bool:
    return wanted == held or at_least(held.numel, wanted.numel, s.ranges)


def larger_over_smaller(wanted: TensorType, held: TensorType, s: FitProver) -> bool:
    return at_least(wanted.nbytes, held.nbytes, s.ranges)


def anywhere(some: Sequence[LiveBuffer], s: FitProver) -> ReusePlan:
    """Devices do not matter."""
    here = [replace(b, type=replace(b.type, device="")) for b in some]
    return planners.linear_scan(here, s)


def frozen(bare: Program) -> AbstractContextManager[object]:
    """Sizes of the first run are kept for all: arenas of symbolic sizes are not planned anew."""
    first = {v.name: v.lo for v in bare.dims}

    def made(name: str, t: TensorType, *rest: Any) -> LiveBuffer:
        names = set(dims.free(t.numel))
        if names <= set(first):
            t = TensorType(t.dtype, dims.values(t.shape, first), t.device)
        return LiveBuffer(name, t, *rest)

    return patched(values, "LiveBuffer", made)


FAULTS: tuple[ProgramFault, ...] = (
    ProgramFault(3, "an input that the caller holds taken over", "tinygrad#16571",
                 nothing, changed(takes_an_input)),
    ProgramFault(7, "a chain of reuse resolved one hop", "onnxruntime#19480",
                 nothing, changed(taken_twice)),
    ProgramFault(10, "elements taken for bytes", "tvm#8308", buffers(elements), GREEDY),
    ProgramFault(10, "elements compared for bytes", "tvm#8308", fits(by_elements)),
    ProgramFault(10, "vector lanes forgotten", "tvm#8308", buffers(one_lane), GREEDY),
    ProgramFault(10, "small buffers in a large one, all at once", "tvm#987",
                 nothing, changed(two_small_in_one)),
    ProgramFault(10, "one tile of what a loop goes over", "torch-spyre#3283", one_tile, GREEDY),
    ProgramFault(10, "an alias smaller than its buffer", "AMDMIGraphX#4992",
                 as_small_as_its_view, GREEDY),
    ProgramFault(10, "a size rounded down", "AMDMIGraphX#4992", buffers(rounded_down), GREEDY),
    ProgramFault(10, "a smaller allocation taken over", "AMDMIGraphX#4992",
                 fits(larger_over_smaller)),
    ProgramFault(11, "a key without the element type", "pytorch _inductor, its first key: numel",
                 nothing, keyed(lambda b: (b.type.device, b.type.numel))),
    ProgramFault(11, "a key of what sizes are at a hint", "pytorch _inductor: s0 and s1, one hint",
                 nothing, keyed(lambda b: (b.type.device, b.type.dtype, hint(b.type)))),
    ProgramFault(11, "a key without the device", "pytorch _inductor",
                 nothing, lambda bare: anywhere),
    ProgramFault(12, "a lower bound taken for an upper one", "tvm#18663", fits(lower_for_upper)),
    ProgramFault(12, "sizes compared at the top of their range", "iree#24532", fits(at_highest)),
    ProgramFault(12, "sizes compared at a hint", "pytorch#159839", fits(at_hint)),
    ProgramFault(12, "the first run's sizes kept for all", "onnxruntime#28359", frozen),
    ProgramFault(14, "two names with one allocation record", "torch-spyre#4022",
                 nothing, changed(one_record)),
)  # fmt: skip
