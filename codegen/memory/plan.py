"""Give memory to the values of a program that has none yet.

By name of a planner: whole allocations handed on within each block, or one arena a device, in which
values of blocks lie too, so that no loop allocates.  What has no size yet when the program starts
is allocated on its own, where it is first used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from didyma.codegen.memory.arena.problem import Problem, loads, lower_bound, problem
from didyma.codegen.memory.arena.registry import solve
from didyma.codegen.memory.elide import elided
from didyma.codegen.memory.fewer import no_higher
from didyma.codegen.memory.host import Mover, hosted
from didyma.codegen.memory.inplace import in_place
from didyma.codegen.memory.insert import Insertion
from didyma.codegen.memory.liveness import Lives
from didyma.codegen.memory.oriented import layout
from didyma.codegen.memory.peak import handed, peak
from didyma.codegen.memory.planners import Buffer, Planner
from didyma.codegen.memory.sizes import Sizes
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.lines import operands, walk
from didyma.refimpl.ir.program import (
    ALIGNMENT,
    Arena,
    Assert,
    Bind,
    Call,
    Carry,
    Extern,
    Program,
    Repeat,
)
from didyma.refimpl.ir.text import show_instruction
from didyma.refimpl.ir.types import TensorType

NO_SIZES: Mapping[str, int] = MappingProxyType({})
STACK = 100 << 10  # bytes up to which an arena may be kept off the heap


def plan(
    bare: Program,
    planner: Planner,
    capacity: int | None = None,
    movers: Mapping[str, Mover] | None = None,
) -> Program:
    """Give memory to a program and its functions; no device may need more than ``capacity`` bytes.

    Results take the bytes of dying operands where that lowers the peak; copies, and launches of
    ``movers``, go where the peak is no higher without.  DidymaError ``over-capacity`` if a device
    needs more, with the line at which that cannot be helped.
    """
    for i, f in enumerate(bare.functions):
        done = _one(bare.function[f.name], planner, capacity, movers)
        done = replace(done, kernels=(), functions=())
        bare = replace(bare, functions=(*bare.functions[:i], done, *bare.functions[i + 1 :]))
    return _one(bare, planner, capacity, movers)


def _one(
    bare: Program, planner: Planner, capacity: int | None, movers: Mapping[str, Mover] | None
) -> Program:
    if planner.name == "none":
        return _plan(bare, planner, capacity)
    costs = _Costs(bare)
    less = elided(hosted(bare, movers, costs) if movers else bare, costs)
    if less is bare:
        return _plan(bare, planner, capacity)
    return _no_higher(bare, less, planner, capacity, costs)


class _Costs:
    """Most bytes alive at once of forms of one program, with results in place, at some sizes."""

    def __init__(self, bare: Program) -> None:
        self.samples = _samples(bare)
        self.shares: dict[tuple[str, str, str], bool] = {}
        self.known: dict[int, tuple[Program, tuple[int, ...]]] = {}

    def __call__(self, p: Program) -> tuple[int, ...]:
        if id(p) not in self.known:
            values = Values(p)
            reused = Values(in_place(p, values.lives, values.alone, self.shares))
            self.known[id(p)] = p, tuple(bound(reused, env) for env in self.samples)
        return self.known[id(p)][1]


def _no_higher(
    bare: Program, less: Program, planner: Planner, capacity: int | None, costs: _Costs
) -> Program:
    """Plan a program without some lines, or with them if its peak is lower so."""
    planned = _plan(less, planner, None)
    peaks = [peak(planned, env) for env in costs.samples]
    if no_higher(peaks, costs(bare)):
        return planned if capacity is None else _plan(less, planner, capacity)
    try:
        whole = _plan(bare, planner, capacity)
    except DidymaError as e:
        if e.code != "over-capacity":
            raise
        return _plan(less, planner, capacity)
    if no_higher(peaks, [peak(whole, env) for env in costs.samples]):
        return planned if capacity is None else _plan(less, planner, capacity)
    return whole


def _plan(bare: Program, planner: Planner, capacity: int | None) -> Program:
    values = Values(bare)
    if planner.name == "none":
        return _planned(values, planner, capacity)
    reused = in_place(bare, values.lives, values.alone)
    if reused is bare:
        return _planned(values, planner, capacity)
    return _better(values, Values(reused), planner, capacity)


def _better(plain: Values, other: Values, planner: Planner, capacity: int | None) -> Program:
    """Plan two forms of a program; the other is taken where its peak is lower, never higher."""
    if plain.bare.dims and capacity is None:
        return _better_symbolic(plain, other, planner)
    try:
        first = _planned(plain, planner, capacity)
    except DidymaError as e:
        if e.code != "over-capacity":
            raise
        return _planned(other, planner, capacity)
    if not plain.bare.dims and bound(other) >= peak(first, {}):
        return first
    second = _planned(other, planner, None)
    pairs = [(peak(second, env), peak(first, env)) for env in _samples(plain.bare)]
    lower = all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)
    return second if lower else first


def _better_symbolic(plain: Values, other: Values, planner: Planner) -> Program:
    """``_better``, with one plan instead of two where the bounds tell: such plans take long."""
    samples = _samples(plain.bare)
    least = [bound(plain, env) for env in samples]
    if [bound(other, env) for env in samples] == least:
        return _planned(plain, planner, None)
    second = _planned(other, planner, None)
    peaks = [peak(second, env) for env in samples]
    if no_higher(peaks, least):
        return second
    first = _planned(plain, planner, None)
    return second if no_higher(peaks, [peak(first, env) for env in samples]) else first


def _samples(p: Program) -> list[dict[str, int]]:
    """Return bindings at which plans of a program are compared: both ends and between."""
    if not p.dims:
        return [{}]
    return [
        {v.name: v.lo for v in p.dims},
        {v.name: v.hi for v in p.dims},
        {v.name: round(((v.lo + 1) * (v.hi + 1)) ** 0.5) - 1 for v in p.dims},
    ]


def bound(values: Values, env: Mapping[str, int] | None = None) -> int:
    """Most bytes alive at once on all devices together, of the buffers whose sizes are known.

    Those are numbers, or symbols that ``env`` has.  What functions take comes on top.
    """
    known = values.buffers
    if env is None:
        known = [b for b in known if isinstance(b.type.nbytes, int)]
    devices = {b.type.device for b in known}
    return values.inside(env or {}) + sum(
        lower_bound(static_problem([b for b in known if b.type.device == d], env=env or {}))
        for d in devices
    )


def _planned(values: Values, planner: Planner, capacity: int | None) -> Program:
    out = Insertion(values.bare, values.lives)
    for name in values.alone:
        if name not in values.made:
            out.allocate(name)
        if name not in values.gone:
            out.free(name)
    if planner.whole is not None:
        _whole(values, planner, out)
    else:
        _arenas(values, planner, capacity, out)
    planned = out.run()
    if capacity is not None:
        _within(planned, planner, capacity)
    return planned


def _within(p: Program, planner: Planner, capacity: int) -> None:
    """Refuse a program that takes more at the least sizes than the capacity."""
    least = peak(p, {v.name: v.lo for v in p.dims})
    if least > capacity:
        raise DidymaError(
            "over-capacity",
            f"@{p.name}, planner {planner.name}",
            got=f"a peak of {least} bytes" + " at the least sizes" * bool(p.dims),
            want=f"at most {capacity}",
            help="another planner may do better",
        )


class Values:
    """What there is to plan in a program: lives, and which values are on their own.

    ``alone`` are those whose size is not known at the start, or that are handed on by ``Carry``;
    ``made`` those of them that come with bytes, and ``gone`` those that are not freed by name.
    """

    def __init__(self, bare: Program) -> None:
        self.bare = bare
        self.types: Mapping[str, TensorType] = bare.type
        borrowed = frozenset((*bare.inputs, *(name for name, _ in bare.constants)))
        self.lives = Lives(bare.lines, borrowed, bare.outputs)
        self.made: set[str] = set()
        self.gone: set[str] = set()
        late = self._late()
        alone = self.made | self.gone
        if late:
            free = {v: dims.free(self.types[v].shape) for v in self.lives.of}
            alone.update(v for v, names in free.items() if not late.isdisjoint(names))
        self.alone = [v for v in self.lives.of if v in alone]
        self.buffers = [
            Buffer(v, self.types[v], life.live)
            for v, life in self.lives.of.items()
            if v not in alone
        ]

    def _late(self) -> set[str]:
        """Return the symbols that lines bind; note what comes with bytes or is handed on."""
        root = self.lives.root
        late: set[str] = set()
        seen: set[str] = set()
        for line in walk(self.bare.lines):
            match line:
                case Extern(_, _, _, _, allocates):
                    self.made.update(root.get(v, v) for v in allocates)
                case Bind(symbol) | Repeat(symbol):
                    late.add(symbol)
                case Carry(pairs, symbols):
                    late.update(s for s, _ in symbols)
                    for value, new in pairs:
                        self.gone.add(root.get(new, new))
                        if value not in seen:
                            self.made.add(value)
                case _:
                    pass
            seen.update(operands(line))
        return late

    def inside(self, env: Mapping[str, int]) -> int:
        """Most bytes that a function takes which the program calls."""
        called = {x.callee for x in walk(self.bare.lines) if isinstance(x, Call)}
        functions = (f for name, f in self.bare.function.items() if name in called)
        return max((peak(f, handed(f, env)) for f in functions), default=0)

    def by_block(self, buffers: Iterable[Buffer]) -> dict[int, list[Buffer]]:
        """Return buffers by their block."""
        found: dict[int, list[Buffer]] = {}
        for b in buffers:
            found.setdefault(self.lives.of[b.name].block, []).append(b)
        return found


def _whole(values: Values, planner: Planner, out: Insertion) -> None:
    assert planner.whole is not None
    sizes = Sizes({v.name: (v.lo, v.hi) for v in values.bare.dims})
    for buffers in values.by_block(values.buffers).values():
        out.whole([b.name for b in buffers], planner.whole(buffers, sizes))


def _arenas(values: Values, planner: Planner, capacity: int | None, out: Insertion) -> None:
    beside = values.inside({v.name: v.lo for v in values.bare.dims})
    known: dict[str, list[Buffer]] = {}
    late: list[Buffer] = []
    open_on = {b.type.device for b in values.buffers if not isinstance(b.type.nbytes, int)}
    for b in values.buffers:
        if b.type.device in open_on:
            late.append(b)
        else:
            known.setdefault(b.type.device, []).append(b)
    for device, buffers in known.items():
        p = static_problem(buffers, None if capacity is None else max(0, capacity - beside))
        _require(values, p, beside)
        assert planner.arena is not None
        placed = solve(p, planner.arena, planner.seconds, brief=planner.seconds is None)
        name = out.names.fresh("arena")
        out.start.append(Arena(name, placed.peak, device, stack=placed.peak <= STACK))
        for b, offset in zip(buffers, placed.offsets.tolist(), strict=True):
            out.place(b.name, name, offset)
    for device in dict.fromkeys(b.type.device for b in late):
        _oriented(values, [b for b in late if b.type.device == device], planner, capacity, out)


def _oriented(
    values: Values,
    buffers: Sequence[Buffer],
    planner: Planner,
    capacity: int | None,
    out: Insertion,
) -> None:
    """Place buffers of one device whose sizes are known when the program starts."""
    found = layout(buffers, values.bare.dims, planner, out.names.fresh)
    out.start += found.lines
    out.symbols += found.symbols
    if capacity is not None and found.most > capacity:
        over = dims.maximum(found.nbytes, capacity)
        out.start.append(Assert(over, capacity, f"memory is within {capacity} bytes"))
    name = out.names.fresh("arena")
    device = buffers[0].type.device
    out.start.append(Arena(name, found.nbytes, device, stack=found.most <= STACK))
    for b in buffers:
        out.place(b.name, name, found.offsets[b.name])


def static_problem(
    buffers: Sequence[Buffer], capacity: int | None = None, env: Mapping[str, int] = NO_SIZES
) -> Problem:
    """Return the problem of buffers whose sizes are integers, or are so by ``env``."""
    size = {d: dims.evaluate(d, env) for d in {b.type.nbytes for b in buffers}}
    return problem(
        [b.live.start for b in buffers],
        [b.live.end + 1 for b in buffers],
        [size[b.type.nbytes] for b in buffers],
        names=[b.name for b in buffers],
        alignment=ALIGNMENT,
        capacity=capacity,
    )


def _require(values: Values, p: Problem, beside: int) -> None:
    """DidymaError ``over-capacity`` if the bound is above it: which line, and what is alive.

    ``beside`` is what functions take.
    """
    if p.capacity is None or (bound := lower_bound(p)) <= p.capacity:
        return
    times, load = loads(p)
    at = int(times[int(load.argmax())])
    live = [i for i in range(p.count) if p.lower[i] <= at < p.upper[i] and p.size[i]]
    live.sort(key=lambda i: -int(p.size[i]))
    told = ", ".join(f"%{p.names[i]} ({p.size[i]})" for i in live[:8])
    more = f" and {len(live) - 8} more" if len(live) > 8 else ""
    more += f", and {beside} bytes in functions" * bool(beside)
    line = values.lives.line(at)
    raise DidymaError(
        "over-capacity",
        f"@{values.bare.name}, {show_instruction(line).splitlines()[0]}",
        got=f"{bound + beside} bytes alive at once: {told}{more}",
        want=f"a capacity of at least {bound + beside}, not {p.capacity + beside}",
    )
