"""The values of a program at the line that is verified; ``program`` lists the laws."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.target import Target
from didyma.refimpl.ir.text import show_instruction
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.verify.ranges import Ranges
from didyma.refimpl.verify.sizes import Sizes
from didyma.refimpl.verify.state import Region, Shown, State, Storage, symbols
from didyma.refimpl.verify.streams import Streams, several
from didyma.refimpl.verify.symbols import caller_symbols, definitions, extents, input_symbols


class Values:
    """Follows the values of one program, and checks how lines make, read and write them.

    ``state`` is the state before the present line; ``made`` are the names that lines have made
    so far, in any block; ``strided`` has those that show others by strides, with the others.
    ``called`` tells whether the program is a function of another one,
    and ``target`` is what it may rely on.
    """

    def __init__(self, p: Program, called: bool, target: Target) -> None:
        self.target = target
        self.at = f"@{p.name}"
        self.called = called
        self.sizes = Sizes(p.dims, self.at)
        self.ranges = Ranges(self.sizes, extents(p.lines), definitions(p.lines))
        self.streams = Streams(self.ranges) if several(p.lines) else None
        self.types: dict[str, TensorType] = {}
        self.state = State()
        self.state.bound = {v.name for v in caller_symbols(p)} if called else input_symbols(p)
        self.made: set[str] = set()
        self.strided: dict[str, str] = {}
        self.constants = frozenset(name for name, _ in p.constants)
        self._numbers = itertools.count(1)

    def broken(self, law: str, got: str, want: str, help: str = "") -> DidymaError:
        """Return the error of a law that the present line breaks."""
        return DidymaError(law, self.at, got=got, want=want, help=help)

    def number(self) -> int:
        """Return a number larger than all before: that of a storage, or a time."""
        return next(self._numbers)

    # ---- types and sizes

    def typed(self, name: str) -> TensorType:
        """Return the type of a value, by law P-untyped."""
        t = self.types.get(name)
        if t is None:
            raise self.broken("P-untyped", f"%{name}", "a value listed under `types`")
        return t

    def bound(self, ds: Iterable[Dim]) -> None:
        """Check law P-unbound for every symbol in sizes."""
        for name in dims.free(ds):
            if name not in self.state.bound:
                raise self.broken(
                    "P-unbound", name, "a symbol with a value here", "bind it on an earlier line"
                )

    def aligned(self, what: str, at: Dim, to: int) -> None:
        """Check law P-align for an offset in bytes."""
        if not self.ranges.multiple(at, to):
            raise self.broken("P-align", f"{what} at byte {dims.text(at)}", f"a multiple of {to}")

    def together(self, names: Iterable[str]) -> None:
        """Check law P-device for values that the line uses together."""
        found = {self.typed(name).device: name for name in names}
        if len(found) > 1:
            own = "the program's own device"
            got = " and ".join(f"%{name} on {device or own}" for device, name in found.items())
            raise self.broken(
                "P-device", got, "values on one device", "a copy brings a value to another device"
            )

    # ---- making

    def make(self, name: str) -> TensorType:
        """Let the line make a value; return its type."""
        t = self.typed(name)
        if name in self.made:
            raise self.broken("P-made-twice", f"%{name} again", "a value that is not there yet")
        self.made.add(name)
        if symbols(t):
            self.bound(t.shape)
        return t

    def lend(self, name: str, output: bool = False) -> TensorType:
        """Let a value be the caller's: an output, or an input or constant, which is written."""
        t = self.typed(name)
        if name in self.made:
            want = "inputs, constants and outputs listed once"
            raise self.broken("P-name-twice", f"%{name} again", want)
        self.made.add(name)
        nbytes = t.nbytes
        s = Storage(self.number(), nbytes, ours=False, output=output)
        self.own(Region(name, s, 0, nbytes, () if output else ((0, nbytes),)))
        return t

    def allocate(self, name: str) -> None:
        """Let the line make a value with an allocation of its own."""
        nbytes = self.make(name).nbytes
        self.own(Region(name, Storage(self.number(), nbytes, ours=True), 0, nbytes))

    def own(self, r: Region) -> None:
        """Let a value own a region, at its type's sizes of now."""
        self.state.own(r, self.number())

    # ---- using

    def live(self, name: str) -> tuple[Shown, Region]:
        """Return which bytes a value shows, and the region that holds them.

        A law is broken where there is no such value, or where its bytes are no longer its own.
        """
        t = self.typed(name)
        v = self.state.values.get(name)
        if v is None and name in self.strided:
            raise self.broken(
                "P-strided", f"%{name}, which shows %{self.strided[name]}", "only a return of it"
            )
        if v is None:
            ended = f"%{name}, made in a block that has ended"
            raise self.broken(
                "P-undefined",
                ended if name in self.made else f"%{name}",
                "a value made on an earlier line",
            )
        r = self.state.regions[v.owner]
        if r.gone:
            raise self.broken(
                "P-gone", f"%{name}, gone with `{show_instruction(r.gone)}`", "a live value"
            )
        if not self.state.fresh(v, t):
            raise self.broken(
                "P-stale", f"%{name}: {t}, made before {', '.join(symbols(t))} changed",
                "a value of the present size", "carry it together with the symbol",
            )  # fmt: skip
        return v, r

    def owner(self, name: str, law: str, want: str) -> Region:
        """Return the region of a live value that owns bytes of the program's."""
        _, r = self.live(name)
        if not r.storage.ours or r.owner != name:
            raise self.broken(law, f"%{name}, which owns no bytes", want)
        return r

    def read(self, names: Iterable[str], stream: int = 0) -> None:
        """Let the line read values."""
        for name in names:
            v, r = self.live(name)
            if not self.ranges.covered(r.written, v.lo, v.hi):
                raise self.broken("P-unwritten", f"%{name}", "a value all written on earlier lines")
            self.order(name, v, r, stream, write=False)

    def write(self, names: Iterable[str], others: Iterable[str], stream: int = 0) -> None:
        """Let the line write values, beside ``others`` that it touches."""
        shared = [(*self.live(o), o) for o in others]
        for name in names:
            v, r = self.live(name)
            if not (r.storage.ours or r.storage.output):
                raise self.broken(
                    "P-written", f"%{name}, the caller's bytes", "a value of the program's own"
                )
            for w, other, o in shared:
                if other.owner == r.owner and not self.ranges.apart((w.lo, w.hi), (v.lo, v.hi)):
                    raise self.broken("P-alias", f"%{name} and %{o}", "no byte in common")
            self.order(name, v, r, stream, write=True)
            self.state.write(v)
            shared.append((v, r, name))

    def order(self, name: str, v: Shown, r: Region, stream: int, write: bool) -> None:
        """Check law P-wait for a touch of the bytes that a value shows."""
        if self.streams is None:
            return
        earlier = self.streams.touch(name, r.storage.number, (v.lo, v.hi), stream, write)
        if earlier is not None:
            how = "writes" if earlier.write else "reads"
            raise self.broken(
                "P-wait",
                f"%{name} on stream {stream}, while stream {earlier.stream} {how} %{earlier.value}",
                f"`wait {stream} on {earlier.stream}` above",
            )

    def join(self) -> None:
        """Let every stream wait for every other, as where a block or a call begins and ends."""
        if self.streams is not None:
            self.streams.join()
