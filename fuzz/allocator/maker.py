"""Write programs that have no memory yet, one legal line after another.

The same maker serves random programs and the state machine: every choice is an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from didyma.fuzz.allocator import kernels
from didyma.fuzz.allocator.kernels import At, Read
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar, symbol
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import (
    Bind,
    Carry,
    Copy,
    Extern,
    If,
    Launch,
    Line,
    Program,
    Repeat,
    Return,
    View,
    Wait,
    While,
)
from didyma.refimpl.ir.types import DType, Tensor, TensorType

# What a kernel reads and writes, and whether it only updates what it writes.
Spec: TypeAlias = tuple[tuple[Read, ...], tuple[TensorType, ...], bool]
COUNTER = TensorType(DType.I64)
FLAG = TensorType(DType.BOOL)


@dataclass
class Block:
    """Lines that are being written: what they are of, and the values that they may use."""

    kind: str
    lines: list[Line] = field(default_factory=list[Line])
    names: list[str] = field(default_factory=list[str])
    done: tuple[Line, ...] = ()  # a branch's first side, a loop's test
    flag: str = ""
    extent: int = 0
    carried: tuple[str, ...] = ()  # what both sides, or each round, must write


class Maker:
    """A program in the making.  ``dims`` are the symbols that sizes may use.

    With ``sharing`` most of the launches that could take the kernel of an earlier one do.
    """

    def __init__(self, declared: tuple[DimVar, ...] = (), *, sharing: bool = False) -> None:
        self.dims = declared
        self.types: dict[str, TensorType] = {}
        self.kernels: dict[str, PrimFunc] = {}
        self.inputs: list[str] = []
        self.constants: dict[str, Tensor] = {}
        self.root: dict[str, str] = {}  # the value whose bytes a value shows
        self.blocks: list[Block] = [Block("program")]
        self.indices: list[DimVar] = []
        self.late: list[DimVar] = []  # symbols that lines bind
        self.salt = 0
        self.sharing = sharing
        self.made: dict[Spec, str] = {}  # kernels by what they read and write
        self.runs: list[tuple[str, Dim, Dim]] = []  # values, and where a part of them begins
        self.stream = 0  # of the kernels to come
        self.used: dict[str, dict[tuple[int, bool], int]] = {}  # (stream, written): last tick
        self.clocks: dict[int, dict[int, int]] = {}

    # ---- facts

    @property
    def block(self) -> Block:
        """The innermost block."""
        return self.blocks[-1]

    def known(self) -> list[str]:
        """Values that a line may read here, in the order they were made."""
        return [n for b in self.blocks for n in b.names]

    def owned(self) -> list[str]:
        """Values that a line may write again here: the program's own, and views of them."""
        given = {*self.inputs, *self.constants}
        return [n for n in self.known() if self.root.get(n, n) not in given]

    def fresh(self, stem: str, t: TensorType) -> str:
        """Name a value of a type; it may be read once its block says so."""
        name = f"{stem}{len(self.types)}"
        self.types[name] = t
        return name

    def next_salt(self) -> int:
        """Return a number that no other line has."""
        self.salt += 1
        return self.salt * 13

    def clone(self) -> Maker:
        """Return a maker that goes on from here on its own."""
        m = Maker(self.dims, sharing=self.sharing)
        m.made, m.runs = dict(self.made), [*self.runs]
        m.types, m.kernels, m.root = dict(self.types), dict(self.kernels), dict(self.root)
        m.inputs, m.constants = [*self.inputs], dict(self.constants)
        m.blocks = [replace(b, lines=[*b.lines], names=[*b.names]) for b in self.blocks]
        m.indices, m.late, m.salt = [*self.indices], [*self.late], self.salt
        m.stream, m.used = self.stream, {k: dict(v) for k, v in self.used.items()}
        m.clocks = {k: dict(v) for k, v in self.clocks.items()}
        return m

    # ---- lines

    def input(self, t: TensorType) -> str:
        """Take a value from the caller."""
        name = self.fresh("x", t)
        self.inputs.append(name)
        self.blocks[0].names.append(name)
        return name

    def constant(self, t: TensorType) -> str:
        """Hold a weight; its type has no symbols."""
        name = self.fresh("w", t)
        size = dims.evaluate(t.nbytes, {})
        data = bytes((7 * i + len(name)) % 120 for i in range(size))
        if t.dtype.is_float:
            data = bytes(size)  # zeros: any other bytes might be a NaN
        self.constants[name] = Tensor(t.dtype, dims.values(t.shape, {}), data)
        self.blocks[0].names.append(name)
        return name

    def launch(
        self, reads: Sequence[tuple[str, At]], writes: Sequence[TensorType], scratch: int = 0
    ) -> list[str]:
        """Launch a kernel that makes values; the last ``scratch`` of them are never read.

        All are on the device of the first, to which what it reads is copied.
        """
        made = [self.fresh("a", t) for t in _together(writes)]
        self._launch(reads, made, updates=False)
        self.block.names += made[: len(made) - scratch]
        return made

    def again(self, number: int) -> bool:
        """Launch a kernel of an earlier launch on other values; return whether there are any."""
        known = self.known()
        keys = [k for k in self.made if not k[2]]
        if not keys:
            return False
        specs, types, _ = keys[number % len(keys)]
        reads: list[tuple[str, At]] = []
        for k, spec in enumerate(specs):
            like = [n for n in known if self.types[n] == spec.type]
            if not like:
                return False
            reads.append((like[-1 - (number >> k) % min(len(like), 3)], spec.at))
        self.launch(reads, types)
        return True

    def join(self, parts: Sequence[str]) -> str:
        """Put values of one dtype after one another; a plan may make the parts views of it."""
        types = [self.types[p] for p in parts]
        name = f"k{len(self.kernels)}"
        kernel, starts = kernels.joined(name, types, self._declared(types))
        self.kernels[name] = kernel
        size = dims.add(*(t.numel for t in types))
        whole = self.fresh("j", TensorType(types[0].dtype, (size,), types[0].device))
        self._wait(self.stream, parts, (whole,))
        self.block.lines.append(Launch(name, (*parts, whole), self.stream))
        self.block.names.append(whole)
        self.runs.append((whole, starts[-1], types[-1].numel))
        return whole

    def cut(self, of: str, start: Dim, size: Dim) -> str:
        """Copy a run of a value's elements; a plan may make it a view."""
        t = self.types[of]
        name = f"k{len(self.kernels)}"
        self.kernels[name] = kernels.cut(name, t, start, size, self._declared([t]))
        part = self.fresh("p", TensorType(t.dtype, (size,), t.device))
        self._wait(self.stream, (of,), (part,))
        self.block.lines.append(Launch(name, (of, part), self.stream))
        self.block.names.append(part)
        return part

    def _declared(self, types: Sequence[TensorType]) -> tuple[DimVar, ...]:
        used = dims.free(t.numel for t in types)
        return tuple(v for v in (*self.dims, *self.indices, *self.late) if v.name in used)

    def update(self, target: str, reads: Sequence[tuple[str, At]]) -> None:
        """Launch a kernel that adds to the first half of a value."""
        root = self.root.get(target, target)
        others = [(r, at) for r, at in reads if self.root.get(r, r) != root]
        self._launch(others, [target], updates=True)

    def rewrite(self, targets: Sequence[str], reads: Sequence[tuple[str, At]]) -> None:
        """Launch a kernel that writes whole values; what it reads must lie apart from them."""
        device = self.types[targets[0]].device
        targets = [t for t in targets if self.types[t].device == device]
        roots = {self.root.get(t, t) for t in targets}
        others = [(r, at) for r, at in reads if self.root.get(r, r) not in roots]
        self._launch(others, targets, updates=False)

    def _launch(
        self, reads: Sequence[tuple[str, At]], writes: Sequence[str], *, updates: bool
    ) -> None:
        types = [self.types[w] for w in writes]
        reads = [(self._there(r, types[0].device), at) for r, at in reads]
        specs = [Read(self.types[r], at) for r, at in reads]
        key = (tuple(specs), tuple(types), updates)
        salt = self.next_salt()
        name = self.made.get(key) if self.sharing and salt % 4 else None
        if name is None:
            name = f"k{len(self.kernels)}"
            declared = self._declared([*types, *(s.type for s in specs)])
            alike = len({t.numel for t in types}) == 1 and not updates
            self.kernels[name] = kernels.kernel(
                name, specs, types, salt, updates=updates, together=alike and salt % 2 == 0,
                dims=declared,
            )  # fmt: skip
            self.made[key] = name
        values = [r for r, _ in reads]
        self._wait(self.stream, values, writes)
        self.block.lines.append(Launch(name, (*values, *writes), self.stream))

    def _wait(self, stream: int, reads: Sequence[str], writes: Sequence[str]) -> None:
        """Wait for what other streams do to the values of the next line, and note the line."""
        if not self.stream and not self.clocks:
            return  # there has been one stream only
        clock = self.clocks.setdefault(stream, {})
        clock[stream] = clock.get(stream, 0) + 1
        for value, written in (*((r, False) for r in reads), *((w, True) for w in writes)):
            uses = self.used.setdefault(self.root.get(value, value), {})
            for (other, wrote), tick in uses.items():
                if other != stream and (written or wrote) and clock.get(other, 0) < tick:
                    self.block.lines.append(Wait(stream, other))
                    for k, seen in self.clocks[other].items():
                        clock[k] = max(clock.get(k, 0), seen)
            uses[stream, written] = clock[stream]

    def switch(self, stream: int) -> None:
        """Launch the kernels to come on a stream; all work so far is of stream 0."""
        if not self.clocks:
            self.clocks[0] = {0: 1}
            for value in self.types:
                self.used.setdefault(self.root.get(value, value), {})[0, True] = 1
        self.stream = stream
        self.clocks.setdefault(stream, {})

    def _join(self) -> None:
        """Where a block begins or ends every stream has waited for every other."""
        last = {s: clock.get(s, 0) for s, clock in self.clocks.items()}
        for clock in self.clocks.values():
            clock.update(last)

    def _there(self, value: str, device: str) -> str:
        """Return a value on a device: itself, or a copy that nothing else reads."""
        if self.types[value].device == device:
            return value
        name = self.fresh("d", replace(self.types[value], device=device))
        self._copy(name, value)
        return name

    def _copy(self, value: str, source: str) -> None:
        self._wait(0, (source,), (value,))
        self.block.lines.append(Copy(value, source))

    def view(self, of: str, t: TensorType, offset: Dim = 0) -> str:
        """Name a value's bytes, or some of them, again."""
        name = self.fresh("v", t)
        self.root[name] = self.root.get(of, of)
        self.block.lines.append(View(name, of, offset))
        self.block.names.append(name)
        return name

    def extern(
        self, reads: Sequence[str], writes: Sequence[TensorType], workspace: int, allocates: bool
    ) -> list[str]:
        """Call a library routine; its last ``workspace`` outputs are scrap."""
        made = [self.fresh("e", t) for t in _together(writes)]
        reads = [self._there(r, self.types[made[0]].device) for r in reads]
        attrs = (("salt", self.next_salt()), ("workspace", workspace))
        own = tuple(made[: len(made) - workspace]) if allocates else ()
        self._wait(0, reads, made)
        self.block.lines.append(Extern("mix", tuple(made), tuple(reads), attrs, own))
        self.block.names += made[: len(made) - workspace]
        return made

    def copy(self, of: str) -> str:
        """Copy a value."""
        name = self.fresh("c", self.types[of])
        self._copy(name, of)
        self.block.names.append(name)
        return name

    # ---- sizes that the run tells

    def bind(self, source: str, low: int, high: int) -> DimVar:
        """Bind a new symbol to a number that is computed from a value."""
        name = f"k{len(self.kernels)}"
        source = self._there(source, COUNTER.device)
        t = self.types[source]
        declared = tuple(v for v in (*self.dims, *self.late) if v.name in dims.free(t.numel))
        self.kernels[name] = kernels.number(name, t, self.next_salt(), low, high, declared)
        value = self.fresh("u", COUNTER)
        self._wait(0, (source,), (value,))
        self.block.lines.append(Launch(name, (source, value)))
        v = DimVar(f"late{len(self.late)}", low, high)
        self.late.append(v)
        self.block.lines.append(Bind(v.name, value))
        return v

    def grow(self, dtype: DType, rounds: int, beside: int = 0) -> str:
        """A loop whose value is longer after each round; more kernels read it ``beside``."""
        u = DimVar(f"late{len(self.late)}", 2, 2 + 3 * (rounds + 1))
        self.late.append(u)
        n = symbol(u.name)
        (first,) = self.launch([], [TensorType(dtype, (2,))])
        self.block.names.remove(first)
        value = self.fresh("g", TensorType(dtype, (n,)))
        self._wait(0, (), (value, first))
        self.block.lines.append(Carry(((value, first),), ((u.name, 2),)))
        index = self.begin_repeat(rounds)
        del index
        (longer,) = self.launch([(value, At.SHIFTED)], [TensorType(dtype, (dims.add(n, 3),))])
        for _ in range(beside):
            self.launch([(value, At.REVERSED)], [TensorType(dtype, (4,))])
        self._wait(0, (), (value, longer))
        self.block.lines.append(Carry(((value, longer),), ((u.name, dims.add(n, 3)),)))
        self.end()
        self.block.names.append(value)
        return value

    # ---- control flow

    def begin_if(self, source: str, results: Sequence[TensorType], one_in: int) -> None:
        """Begin a branch on whether a sum of some elements divides by ``one_in``."""
        flag = self._decide(source, one_in)
        made = tuple(self.fresh("r", t) for t in results)
        self._join()
        self.blocks.append(Block("then", flag=flag, carried=made))

    def begin_else(self) -> None:
        """End the first side of a branch and begin the other."""
        b = self.blocks.pop()
        assert b.kind == "then"
        self._fill(b)
        self._join()
        other = Block("else", done=tuple(b.lines), flag=b.flag, carried=b.carried)
        self.blocks.append(other)

    def begin_while(self, carried: Sequence[str], rounds: int) -> tuple[str, ...]:
        """Begin a loop of some rounds whose body writes copies of these values anew."""
        state = tuple(self.fresh("s", self.types[c]) for c in carried)
        for new, old in zip(state, carried, strict=True):
            self._copy(new, old)
        count = self.fresh("n", COUNTER)
        flag = self.fresh("t", FLAG)
        self.kernels.setdefault("zero", kernels.zero("zero"))
        self.block.lines.append(Launch("zero", (count,)))
        below = f"below{rounds}"
        self.kernels.setdefault(below, kernels.below(below, rounds))
        self.block.names += state
        test = (Launch(below, (count, flag)),)
        self._join()
        self.blocks.append(
            Block("while", done=test, flag=flag, extent=rounds, carried=(*state, count))
        )
        return state

    def begin_repeat(self, extent: int) -> str:
        """Begin a loop of a known number of rounds; returns the index symbol."""
        index = f"turn{len(self.indices)}"
        self.indices.append(DimVar(index, 0, max(0, extent - 1)))
        self._join()
        self.blocks.append(Block("repeat", flag=index, extent=extent))
        return index

    def end(self) -> None:
        """End the innermost block."""
        b = self.blocks.pop()
        match b.kind:
            case "then":
                self.blocks.append(b)
                self.begin_else()
                self.end()
            case "else":
                self._fill(b)
                self.block.lines.append(If(b.flag, b.done, tuple(b.lines)))
                self.block.names += b.carried
            case "while":
                *state, count = b.carried
                self._carry(b, state)
                self.kernels.setdefault("next", kernels.increment("next"))
                b.lines.append(Launch("next", (count,)))
                self.block.lines.append(While(b.done, b.flag, tuple(b.lines)))
            case "repeat":
                self.block.lines.append(Repeat(b.flag, b.extent, tuple(b.lines)))
            case _:
                raise AssertionError(b.kind)
        self._join()

    def _decide(self, source: str, one_in: int) -> str:
        name = f"k{len(self.kernels)}"
        source = self._there(source, FLAG.device)
        flag = self.fresh("t", FLAG)
        t = self.types[source]
        used = dims.free(t.numel)
        declared = tuple(v for v in (*self.dims, *self.late) if v.name in used)
        self.kernels[name] = kernels.decision(name, t, self.next_salt(), one_in, declared)
        self._wait(0, (source,), (flag,))
        self.block.lines.append(Launch(name, (source, flag)))
        return flag

    def _fill(self, b: Block) -> None:
        """Write the results of a branch's side: from what it made where types agree."""
        self.blocks.append(b)
        for result in b.carried:
            same = [n for n in b.names if self.types[n] == self.types[result]]
            if same:
                self._copy(result, same[self.next_salt() % len(same)])
            else:
                known = self.known()
                self._launch([(known[-1], At.SHIFTED)] if known else [], [result], updates=False)
        self.blocks.pop()

    def _carry(self, b: Block, state: Sequence[str]) -> None:
        """Write what a loop carries anew, at the end of its body."""
        self.blocks.append(b)
        for s in state:
            same = [n for n in b.names if self.types[n] == self.types[s]]
            same = [n for n in same if self.root.get(n, n) != self.root.get(s, s)]
            if same:  # the old value may have been read since
                self._copy(s, same[0 if b.extent % 2 else self.next_salt() % len(same)])
            else:
                self._launch([], [s], updates=True)
        self.blocks.pop()

    def finish(self, results: Sequence[str], name: str = "p") -> Program:
        """End all blocks and return values; copies of what is not the program's own, or goes twice.

        Values that were made in a block that ended are not there any more.
        """
        while len(self.blocks) > 1:
            self.end()
        given = {*self.inputs, *self.constants}
        returned: list[str] = []
        owners: set[str] = set()
        for r in results:
            owner = self.root.get(r, r)
            part = self.types[r].nbytes != self.types[owner].nbytes
            if owner in given or owner in owners or part:
                r = self.copy(r)
                owner = r
            owners.add(owner)
            returned.append(r)
        self.block.lines.append(Return(tuple(returned)))
        return Program(
            name,
            (*self.dims, *self.indices, *self.late),
            tuple(self.inputs),
            tuple(self.constants.items()),
            tuple(self.types.items()),
            tuple(self.kernels.values()),
            tuple(self.block.lines),
        )


def _together(types: Sequence[TensorType]) -> list[TensorType]:
    """Return types on the device of the first."""
    return [replace(t, device=types[0].device) for t in types]
