"""The memory that a program takes, in bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.dims import (
    Dim,
    add,
    align,
    evaluate,
    free,
    maximum,
    sub,
    substitute,
    symbol,
)
from didyma.refimpl.ir.lines import blocks, walk
from didyma.refimpl.ir.program import (
    ALIGNMENT,
    Allocate,
    Arena,
    Call,
    Carry,
    Dispatch,
    Extern,
    Free,
    If,
    Launch,
    Line,
    Place,
    PlacementAllocate,
    Program,
    Reuse,
)
from didyma.refimpl.verify.symbols import caller_symbols

Sizes: TypeAlias = Mapping[str, Dim]


def _bytes(p: Program, env: Mapping[str, int]) -> dict[str, int]:
    """Return the bytes of each value, aligned; 0 for a data-dependent size."""
    found: dict[str, int] = {}
    for name, t in p.types:
        try:
            size = align(evaluate(t.nbytes, env), ALIGNMENT)
        except DidymaError as e:
            if e.code != "unbound-dim":
                raise
            size = 0
        assert isinstance(size, int)
        found[name] = size
    return found


def handed(f: Program, env: Mapping[str, int]) -> dict[str, int]:
    """Return the symbols that a function is given by its caller, with their values."""
    return {v.name: env[v.name] for v in caller_symbols(f) if v.name in env}


def peak(p: Program, env: Mapping[str, int]) -> int:
    """Return the most bytes allocated at once under a binding; inputs and constants excluded.

    A loop is run once, and a value of data-dependent size counts for nothing.
    """

    def inside(f: Program, given: Sizes) -> Dim:
        return peak(f, {s: n for s, n in given.items() if isinstance(n, int)})

    meter = _Meter(p, _bytes(p, env), dict(env), _evaluated, inside)
    meter.run(p.lines)
    assert isinstance(meter.most, int)
    return meter.most


def symbolic_peak(p: Program, device: str) -> Dim:
    """Return likewise the peak of a device, as a size of the symbols that the caller binds."""
    known = {v.name: symbol(v.name) for v in caller_symbols(p)}
    size: dict[str, Dim] = {}
    for name, t in p.types:
        here = t.device == device and known.keys() >= {*free(t.nbytes)}
        size[name] = align(t.nbytes, ALIGNMENT) if here else 0
    meter = _Meter(p, size, dict(known), substitute, lambda f, _: symbolic_peak(f, device), device)
    meter.run(p.lines)
    return meter.most


def _evaluated(d: Dim, env: Sizes) -> Dim:
    return evaluate(d, {s: n for s, n in env.items() if isinstance(n, int)})


class _Meter:
    """Counts bytes line by line; ``value`` evaluates a size, ``inside`` is the peak of a call.

    Arenas count on any device, or on the one that is given.
    """

    def __init__(
        self,
        p: Program,
        size: Sizes,
        env: dict[str, Dim],
        value: Callable[[Dim, Sizes], Dim],
        inside: Callable[[Program, Sizes], Dim],
        device: str | None = None,
    ) -> None:
        self.functions = p.function
        self.size = size
        self.env = env
        self.value, self.inside, self.device = value, inside, device
        self.allocated: dict[str, Dim] = {}
        self.called: dict[tuple[str, tuple[tuple[str, Dim], ...]], Dim] = {}
        self.now: Dim = 0
        self.most: Dim = 0

    def take(self, name: str, size: Dim) -> None:
        self.allocated[name] = size
        self.now = add(self.now, size)
        self.most = maximum(self.most, self.now)

    def give(self, name: str) -> None:
        # What an arena holds is not counted again.
        self.now = sub(self.now, self.allocated.pop(name, 0))

    def run(self, lines: Sequence[Line]) -> None:
        for line in lines:
            self.line(line)

    def line(self, line: Line) -> None:
        match line:
            case Allocate(value):
                self.take(value, self.size[value])
            case Arena(name, nbytes):
                here = self.device is None or line.device == self.device
                size = align(self.value(nbytes, self.env), ALIGNMENT) if here else 0
                self.take(name, size)
            case Reuse(value, over) | PlacementAllocate(value, over):
                self.allocated[value] = self.allocated.pop(over)
            case Launch() | Dispatch():
                for new, old in line.inplace:
                    if old in self.allocated:
                        self.allocated[new] = self.allocated.pop(old)
            case Extern(_, _, _, _, allocates):
                for value in allocates:
                    self.take(value, self.size[value])
            case Call(callee):
                self.call(self.functions[callee])
            case Free(value):
                self.give(value)
            case Carry(pairs, symbols):
                sizes = {s: self._size(d) for s, d in symbols}
                self.env.update({s: n for s, n in sizes.items() if n is not None})
                for value, new in pairs:
                    self.give(value)
                    self.allocated[value] = self.allocated.pop(new, 0)
            case If(_, then, other):
                before = dict(self.allocated), self.now
                self.run(then)
                self.allocated, self.now = before
                self.run(other)
            case _:
                for b in blocks(line):
                    self.run(b)

    def call(self, f: Program) -> None:
        """Count the peak of a called function on top of what is allocated now."""
        env = {v.name: self.env[v.name] for v in caller_symbols(f) if v.name in self.env}
        key = (f.name, tuple(env.items()))
        if key not in self.called:
            self.called[key] = self.inside(f, env)
        self.most = maximum(self.most, add(self.now, self.called[key]))

    def _size(self, d: Dim) -> Dim | None:
        try:
            return self.value(d, self.env)
        except DidymaError:
            return None


def unplanned_total(p: Program, env: Mapping[str, int]) -> int:
    """Return the bytes of all buffers together, those of each called function included."""
    size = _bytes(p, env)
    calls = (line.callee for line in walk(p.lines) if isinstance(line, Call))
    inside = sum(unplanned_total(p.function[callee], env) for callee in calls)
    owners = (
        line.value
        for line in walk(p.lines)
        if isinstance(line, Allocate | Reuse | PlacementAllocate | Place)
    )
    return inside + sum(size[value] for value in owners)
