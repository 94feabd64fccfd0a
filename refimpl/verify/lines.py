"""Lines of programs that give bytes or take them; ``program`` lists the laws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.limits import PORTABLE
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import (
    ALIGNMENT,
    Allocate,
    Arena,
    Free,
    Line,
    Place,
    PlacementAllocate,
    Program,
    Reuse,
    View,
)
from didyma.refimpl.ir.text import show_instruction
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.verify.memory import Numbers, Region, Shown, State, Storage, symbols
from didyma.refimpl.verify.ranges import Ranges
from didyma.refimpl.verify.sizes import Sizes
from didyma.refimpl.verify.streams import Streams, several
from didyma.refimpl.verify.symbols import extents, given, input_symbols, settled


class LineVerifier:
    """Follows the state of a program from line to line.

    ``functions`` are those of the program that stand above, where this is one itself.
    """

    def __init__(self, p: Program, functions: Mapping[str, Program] | None = None) -> None:
        self.p = p
        self.at = f"@{p.name}"
        self.sizes = Sizes(p.dims, self.at)
        self.ranges = Ranges(self.sizes, extents(p.lines), settled(p.lines))
        self.types: dict[str, TensorType] = {}
        self.kernels: dict[str, PrimFunc] = {}
        self.equal: set[tuple[Dim, Dim]] = set()
        self.state = State()
        self.functions = dict(functions or {})
        self.called = functions is not None
        self.state.bound = {v.name for v in given(p)} if self.called else input_symbols(p)
        self.made: set[str] = set()  # in any block so far
        self.numbers = Numbers()
        self.streams = Streams(self.ranges) if several(p.lines) else None

    def broken(self, law: str, got: str, want: str, help: str = "") -> DidymaError:
        """Make the error of a broken law."""
        return DidymaError(law, self.at, got=got, want=want, help=help)

    # ---- values

    def typed(self, name: str) -> TensorType:
        """Law P-untyped."""
        t = self.types.get(name)
        if t is None:
            raise self.broken("P-untyped", f"%{name}", "a value listed under types")
        return t

    def bound(self, ds: Iterable[Dim]) -> None:
        """Law P-unbound."""
        for name in dims.free(ds):
            if name not in self.state.bound:
                raise self.broken(
                    "P-unbound", name, "a size known here", "bind it on an earlier line"
                )

    def make(self, name: str) -> TensorType:
        """Let a line make a value."""
        t = self.typed(name)
        if name in self.made:
            raise self.broken("P-made-twice", f"%{name} again", "a value that is not there yet")
        self.made.add(name)
        if symbols(t):
            self.bound(t.shape)
        return t

    def given(self, name: str, output: bool = False) -> TensorType:
        """Let a value be the caller's."""
        t = self.typed(name)
        if name in self.made:
            want = "inputs, constants and outputs listed once"
            raise self.broken("P-name-twice", f"%{name} again", want)
        self.made.add(name)
        s = Storage(self.numbers.next(), t.nbytes, ours=False, output=output)
        whole = () if output else ((0, t.nbytes),)
        self.state.own(Region(name, s, 0, t.nbytes, whole), self.numbers.next())
        return t

    def own(self, name: str, nbytes: Dim) -> None:
        """Give a value an allocation of its own."""
        s = Storage(self.numbers.next(), nbytes, ours=True)
        self.state.own(Region(name, s, 0, nbytes), self.numbers.next())

    def live(self, name: str) -> tuple[Shown, Region]:
        """A value, and whose bytes it shows, which are still there."""
        t = self.typed(name)
        v = self.state.values.get(name)
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
                "a value of today's size", "carry it together with the symbol",
            )  # fmt: skip
        return v, r

    def owner(self, name: str, law: str, want: str) -> Region:
        """The region of a live value that owns bytes of the program's."""
        _, r = self.live(name)
        if not r.storage.ours or r.owner != name:
            raise self.broken(law, f"%{name}, which owns no bytes", want)
        return r

    def read(self, names: Iterable[str], stream: int = 0) -> None:
        """Read values."""
        for name in names:
            v, r = self.live(name)
            if not self.ranges.covered(r.written, v.lo, v.hi):
                raise self.broken("P-unwritten", f"%{name}", "a value written on an earlier line")
            self.order(name, v, r, stream, write=False)

    def write(self, names: Iterable[str], others: Iterable[str], stream: int = 0) -> None:
        """Write values, beside ``others`` that the same line touches."""
        shared = [(*self.live(o), o) for o in others]
        for name in names:
            v, r = self.live(name)
            if not (r.storage.ours or r.storage.output):
                raise self.broken(
                    "P-written", f"%{name}, the caller's bytes", "a value of the program's own"
                )
            for w, other, o in shared:
                if other.owner == r.owner and not self.ranges.apart((w.lo, w.hi), (v.lo, v.hi)):
                    raise self.broken("P-alias", f"%{name} and %{o}", "bytes apart")
            self.order(name, v, r, stream, write=True)
            self.state.write(v)
            shared.append((v, r, name))

    def order(self, name: str, v: Shown, r: Region, stream: int, write: bool) -> None:
        """Law P-wait."""
        if self.streams is None:
            return
        found = self.streams.touch(name, r.storage.number, (v.lo, v.hi), stream, write)
        if found is not None:
            how = "writes" if found.write else "reads"
            raise self.broken(
                "P-wait",
                f"%{name} on stream {stream}, while stream {found.stream} {how} %{found.value}",
                f"`wait {stream} on {found.stream}` above",
            )

    # ---- memory

    def memory(self, s: Allocate | Free | Reuse | PlacementAllocate | Arena | Place | View) -> None:
        """Lines that give bytes, or take them."""
        match s:
            case Allocate(value):
                self.own(value, self.make(value).nbytes)
            case Free(value):
                v = self.state.values.get(value)
                r = self.state.regions[v.owner] if v else None
                if r is None or r.gone or not r.storage.ours or r.owner != value:
                    raise self.broken("P-free", f"%{value}", "a live value that owns its bytes")
                assert v is not None
                if not r.storage.arena:  # an arena stays; whoever has the bytes next must wait
                    self.order(value, v, r, 0, write=True)
                self.state.end(value, s)
            case Reuse(value, over):
                t, r = self._take(s, value, over)
                if t != self.types[over]:
                    raise self.broken("P-reuse", str(t), f"{self.types[over]}, as %{over}")
                region = Region(value, r.storage, r.lo, r.hi)
                self.state.own(region, self.numbers.next())
            case PlacementAllocate(value, over, offset):
                self.sizes.declared(offset, self.at)
                t, r = self._take(s, value, over)
                end = dims.add(offset, t.nbytes)
                self._fits(offset, end, r.storage.nbytes)
                self._aligned(f"%{value}", offset, ALIGNMENT)
                self.state.own(Region(value, r.storage, offset, end), self.numbers.next())
            case Arena():
                self._arena(s)
            case Place():
                self._place(s)
            case View(value, of, offset):
                self._view(value, of, offset)

    def _take(self, s: Line, value: str, over: str) -> tuple[TensorType, Region]:
        t = self.make(value)
        r = self.owner(over, "P-over", "a value that owns bytes")
        if r.storage.arena:
            raise self.broken(
                "P-over", f"%{over}, placed in an arena", "a value with an allocation of its own"
            )
        self.state.end(over, s)
        return t, r

    def _fits(self, lo: Dim, hi: Dim, room: Dim) -> None:
        if not self.ranges.at_least(lo, 0) or not self.ranges.at_least(room, hi):
            got = f"bytes {dims.text(lo)} to {dims.text(hi)}"
            raise self.broken("P-fits", got, f"within 0 to {dims.text(room)}")

    def _arena(self, s: Arena) -> None:
        if s.name in self.made or s.name in self.types:
            raise self.broken("P-made-twice", f"%{s.name} again", "a name of its own")
        self.sizes.declared(s.nbytes, self.at)
        self.bound((s.nbytes,))
        if s.stack and not self.ranges.at_least(PORTABLE.stack, s.nbytes):
            got = f"{dims.text(s.nbytes)} bytes"
            raise self.broken("P-stack", got, f"at most {PORTABLE.stack} on the stack")
        self.made.add(s.name)
        number, stamp = self.numbers.next(), self.numbers.next()
        self.state.arenas[s.name] = Storage(
            number, s.nbytes, ours=True, arena=s.name, device=s.device, stamp=stamp
        )
        self.state.placed[s.name] = {}

    def _place(self, s: Place) -> None:
        self.sizes.declared(s.offset, self.at)
        t = self.make(s.value)
        arena = self.state.arenas.get(s.arena)
        if arena is None or arena.device != t.device:
            got = f"%{s.arena} on {arena.device or 'the device'}" if arena else f"%{s.arena}"
            want = f"an arena of an earlier line on {t.device or 'the device'}, as %{s.value}"
            raise self.broken("P-arena", got, want)
        self.bound((s.offset,))
        if any(self.state.changed.get(n, 0) > arena.stamp for n in dims.free(arena.nbytes)):
            raise self.broken("P-stale", f"%{s.arena}", "an arena of today's size")
        end = dims.add(s.offset, t.nbytes)
        self._aligned(f"%{s.value}", s.offset, ALIGNMENT)
        self._fits(s.offset, end, arena.nbytes)
        for other in self.state.placed[s.arena]:
            r = self.state.regions[other]
            if not self.ranges.apart((s.offset, end), (r.lo, r.hi)):
                got = f"bytes {dims.text(s.offset)} to {dims.text(end)}"
                want = f"none of %{other}'s, {dims.text(r.lo)} to {dims.text(r.hi)}"
                raise self.broken("P-overlap", got, want)
        self.state.own(Region(s.value, arena, s.offset, end), self.numbers.next())

    def _aligned(self, what: str, at: Dim, to: int) -> None:
        if not self.ranges.multiple(at, to):
            raise self.broken("P-align", f"{what} at byte {dims.text(at)}", f"a multiple of {to}")

    def _view(self, value: str, of: str, offset: Dim) -> None:
        self.sizes.declared(offset, self.at)
        t = self.make(value)
        v, _ = self.live(of)
        source = self.types[of]
        # bytes are equal where the element counts are and the dtype is kept
        asserted = (t.numel, source.numel) in self.equal and t.dtype is source.dtype
        if offset == 0 and (asserted or dims.equal(t.nbytes, source.nbytes)):
            lo, hi = v.lo, v.hi
        else:
            self.bound((offset,))
            end = dims.add(offset, t.nbytes)
            fits = self.ranges.at_least(offset, 0) and self.ranges.at_least(source.nbytes, end)
            if not fits:
                got = f"bytes {dims.text(offset)} to {dims.text(end)}"
                raise self.broken("P-view", got, f"within {dims.text(source.nbytes)}, as %{of}")
            lo, hi = dims.add(v.lo, offset), dims.add(v.lo, end)
        self.state.values[value] = Shown(v.owner, lo, hi, self.numbers.next())
