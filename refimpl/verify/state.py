"""What the values of a program own while its lines are verified."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.program import Line
from didyma.refimpl.ir.types import TensorType

Written: TypeAlias = tuple[tuple[Dim, Dim], ...]


@dataclass(frozen=True, slots=True)
class Storage:
    """One allocation; ``arena`` is its name where values are placed in it.

    One that is not ``ours`` is the caller's: to be read, or, as an ``output``, to be written.
    ``stamp`` is the time at which its size was read.
    """

    number: int
    nbytes: Dim
    ours: bool
    output: bool = False
    arena: str = ""
    device: str = ""
    stamp: int = 0


@dataclass(frozen=True, slots=True)
class Region:
    """The bytes of a storage that one value owns, and which of them have been written."""

    owner: str
    storage: Storage
    lo: Dim
    hi: Dim
    written: Written = ()
    gone: Line | None = None  # what took them


@dataclass(frozen=True, slots=True)
class Shown:
    """Which bytes a value shows, whose they are, and when its sizes were last read."""

    owner: str
    lo: Dim
    hi: Dim
    stamp: int


@dataclass
class State:
    """What is known of values and symbols before a line; branches work on copies."""

    values: dict[str, Shown] = field(default_factory=dict[str, Shown])
    regions: dict[str, Region] = field(default_factory=dict[str, Region])
    arenas: dict[str, Storage] = field(default_factory=dict[str, Storage])
    # Owners with live bytes in an arena.
    placed: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    bound: set[str] = field(default_factory=set[str])
    changed: dict[str, int] = field(default_factory=dict[str, int])  # when symbols last got values
    # Sizes that lines have asserted to be equal.
    equal: set[tuple[Dim, Dim]] = field(default_factory=set[tuple[Dim, Dim]])

    def copy(self) -> State:
        """Return a copy that may be changed apart."""
        placed = {k: dict(v) for k, v in self.placed.items()}
        own = (dict(self.values), dict(self.regions), dict(self.arenas), placed)
        return State(*own, set(self.bound), dict(self.changed), set(self.equal))

    def own(self, r: Region, stamp: int) -> None:
        """Let a value own a region from the time ``stamp`` on."""
        self.regions[r.owner] = r
        self.values[r.owner] = Shown(r.owner, r.lo, r.hi, stamp)
        if r.storage.arena:
            self.placed[r.storage.arena][r.owner] = None

    def end(self, owner: str, by: Line) -> None:
        """Take a value's bytes away, by a line."""
        r = self.regions[owner]
        self.regions[owner] = replace(r, gone=by)
        if r.storage.arena:
            self.placed[r.storage.arena].pop(owner, None)

    def write(self, v: Shown) -> None:
        """Note that the bytes a value shows have been written."""
        r = self.regions[v.owner]
        if (r.lo, r.hi) not in r.written:
            whole = v.lo == r.lo and v.hi == r.hi
            more = ((v.lo, v.hi),) if whole else (*r.written, (v.lo, v.hi))
            self.regions[v.owner] = replace(r, written=more)

    def change(self, symbols: Collection[str], now: int) -> None:
        """Note that symbols get new values, of which no equality is known."""
        self.changed.update(dict.fromkeys(symbols, now))
        self.equal = {pair for pair in self.equal if not {*symbols} & {*dims.free(pair)}}

    def alive(self) -> set[str]:
        """Return the values that own bytes."""
        return {name for name, r in self.regions.items() if r.gone is None}

    def fresh(self, v: Shown, t: TensorType) -> bool:
        """Return whether the symbols in a value's type have not changed since it was made."""
        return all(self.changed.get(n, 0) <= v.stamp for n in symbols(t))

    def forget(self, names: Iterable[str]) -> None:
        """Drop values and arenas of a block that has ended."""
        for name in names:
            self.values.pop(name, None)
            self.regions.pop(name, None)
            if name in self.arenas:
                del self.arenas[name], self.placed[name]


def symbols(t: TensorType) -> tuple[str, ...]:
    """Return the names of the symbols in a type's sizes."""
    return dims.free(t.shape)
