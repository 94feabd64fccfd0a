"""Lines of programs that bind symbols or hold lines themselves; ``program`` lists the laws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.program import Bind, Carry, If, Line, Program, Repeat, While
from didyma.refimpl.ir.types import DType
from didyma.refimpl.verify.memory import Region, Shown, State, Written, symbols
from didyma.refimpl.verify.symbols import binders, carried
from didyma.refimpl.verify.work import WorkVerifier


class BlockVerifier(WorkVerifier):
    """``handed`` are the values that carries have made."""

    def __init__(self, p: Program, functions: Mapping[str, Program] | None = None) -> None:
        super().__init__(p, functions)
        self.handed: set[str] = set()

    def lines(self, lines: Sequence[Line], part: str = "") -> None:
        """Verify lines one after another; ``part`` says what they are part of."""
        raise NotImplementedError(part)

    def control(self, s: Bind | Carry | If | While | Repeat) -> None:
        """Lines that bind symbols or hold lines."""
        match s:
            case Bind(dim, value):
                self._scalar(value, DType.I64)
                self._changed((dim,))
            case Carry():
                self._carry(s)
            case If():
                self._if(s)
            case While():
                self._while(s)
            case Repeat():
                self._repeat(s)

    def _scalar(self, value: str, dtype: DType) -> None:
        self.read((value,))
        t = self.types[value]
        if t.dtype is not dtype or t.shape != ():
            raise self.broken("P-scalar", f"%{value}: {t}", f"{dtype}[]")

    def _changed(self, names: Sequence[str]) -> None:
        now = self.numbers.next()
        for name in names:
            self.state.changed[name] = now
            self.state.bound.add(name)

    def _carry(self, s: Carry) -> None:
        new = dict(s.dims)
        names = [n for pair in s.values for n in pair]
        if len(set(names)) != len(names) or len(new) != len(s.dims):
            raise self.broken("P-carry", "a name given twice", "each value and symbol once")
        self.sizes.declared((d for _, d in s.dims), self.at)
        self.bound(d for _, d in s.dims)
        regions: list[Region] = []
        for value, source in s.values:
            self.read((source,))
            r = self.owner(source, "P-carry", "a value that owns bytes")
            if r.storage.arena or (r.lo, r.hi) != (0, r.storage.nbytes):
                raise self.broken("P-carry", f"part of an allocation, %{source}", "a whole one")
            t, old = self.typed(value), self.types[source]
            shape = tuple(dims.substitute(d, new) for d in t.shape)
            if t.with_shape(*shape) != old:
                raise self.broken("P-carry", f"%{source}: {old}", f"{t.with_shape(*shape)}")
            if value in self.state.alive():
                mine = self.owner(value, "P-carry", "a value that owns bytes")
                if mine.storage.arena:
                    raise self.broken("P-carry", f"%{value} in an arena", "a whole allocation")
                self.state.end(value, s)
            elif value in self.made and value not in self.handed:
                raise self.broken("P-made-twice", f"%{value} again", "a value not there yet")
            self.made.add(value)
            self.handed.add(value)
            regions.append(r)
        for _, source in s.values:
            self.state.end(source, s)
        self._changed([n for n, _ in s.dims])
        for (value, _), r in zip(s.values, regions, strict=True):
            nbytes = self.types[value].nbytes
            self.bound(self.types[value].shape)
            storage = replace(r.storage, nbytes=nbytes)
            whole = replace(r, owner=value, storage=storage, hi=nbytes, written=((0, nbytes),))
            self.state.own(whole, self.numbers.next())

    # ---- blocks

    def _block(self, lines: Sequence[Line], part: str) -> None:
        """Verify a block; what it makes is out of sight afterwards."""
        if self.streams is not None:
            self.streams.join()
        outer = set(self.state.values)
        bound = set(self.state.bound)
        arenas = set(self.state.arenas)
        self.lines(lines, part)
        if self.streams is not None:
            self.streams.join()
        inner = [n for n in self.state.values if n not in outer]
        for name in inner:
            r = self.state.regions.get(name)
            if r is not None and r.gone is None and name not in self.handed:
                raise self.broken(
                    "P-left",
                    f"%{name} at the end of {part.strip() or 'it'}",
                    "a line that frees it",
                )
        dropped = [
            n for n in inner if n not in self.handed or self.state.regions[n].gone is not None
        ]
        self.state.forget([*dropped, *(a for a in self.state.arenas.copy() if a not in arenas)])
        carried_dims = set(carried(lines))
        self.state.bound = {n for n in self.state.bound if n in bound or n in carried_dims}

    def _if(self, s: If) -> None:
        self._scalar(s.cond, DType.BOOL)
        before = self.state
        self.state = before.copy()
        self._block(s.then, "then ")
        then, self.state = self.state, before.copy()
        self._block(s.other, "else ")
        other = self.state
        other.bound &= then.bound
        if then.alive() != other.alive():
            odd = sorted(f"%{n}" for n in then.alive() ^ other.alive())
            raise self.broken("P-branches", f"{', '.join(odd)} in one branch", "the same in both")
        now = self.numbers.next()
        for name, v in other.values.items():
            w, t = then.values.get(name), self.types[name]
            if w is not None and symbols(t):
                fresh = then.fresh(w, t) and other.fresh(v, t)
                other.values[name] = replace(v, stamp=now if fresh else -1)
        for name in other.changed.keys() | then.changed.keys():
            other.changed[name] = max(other.changed.get(name, 0), then.changed.get(name, 0))
        for name, r in other.regions.items():
            mine = then.regions[name]
            if r.gone is None and mine.written != r.written:
                other.regions[name] = replace(r, written=_by_both(mine.written, r.written))

    def _enter_loop(self, lines: Sequence[Line]) -> None:
        """Make the state that of any iteration: symbols that change have changed."""
        with_symbol = carried(lines)
        changing = {n for n, _ in binders(lines)} & self.state.bound
        if not changing:
            return
        before, now = self.state.copy(), self.numbers.next()
        for name in changing:
            self.state.changed[name] = now
        for name, v in before.values.items():
            mine = changing.intersection(symbols(self.types[name]))
            if mine:
                kept = all(name in with_symbol[n] for n in mine) and before.fresh(
                    v, self.types[name]
                )
                self.state.values[name] = replace(v, stamp=now if kept else -1)

    def _same(self, head: State, part: str) -> None:
        """Law P-loop, at the end of a part of a loop."""
        for name in sorted(head.alive() ^ self.state.alive()):
            raise self.broken("P-loop", f"%{name} at the end of {part}", "alive as at its start")
        for name, v in head.values.items():
            t = self.types[name]
            if symbols(t) and head.fresh(v, t) and not self.state.fresh(self.state.values[name], t):
                raise self.broken(
                    "P-stale", f"%{name}: {t}, at the end of {part}", "a value of today's size"
                )

    def _while(self, s: While) -> None:
        self._enter_loop((*s.test, *s.body))
        head = self.state.copy()
        self._block(s.test, "test ")
        self._same(head, "the test")
        self._scalar(s.cond, DType.BOOL)
        tested = self.state.copy()
        self._block(s.body, "body ")
        self._same(tested, "the body")
        changed = self.state.changed
        self.state = tested
        for name, v in tested.values.items():  # after the last iteration, or before the first
            if symbols(self.types[name]) and tested.fresh(v, self.types[name]):
                self.state.values[name] = Shown(v.owner, v.lo, v.hi, self.numbers.next())
        for name in tested.bound & changed.keys():
            self.state.changed[name] = changed[name]

    def _repeat(self, s: Repeat) -> None:
        self.sizes.declared(s.extent, self.at)
        self.bound((s.extent,))
        lo, hi = self.sizes.ranges[s.index]
        if lo > 0 or not self.ranges.at_least(hi + 1, s.extent):
            got = f"0 to {dims.text(s.extent)} - 1"
            raise self.broken("P-repeat", got, f"within [{lo}, {hi}], as {s.index} is declared")
        self._enter_loop(s.body)
        head = self.state.copy()
        self._changed((s.index,))
        self._block(s.body, "body ")
        self._same(head, "the body")
        self.state.bound.discard(s.index)
        some = self.ranges.at_least(s.extent, 1)
        for name, r in self.state.regions.items():
            before = head.regions[name]
            if r.gone is None and r.written != before.written:
                more = _swept(r.written, s.index, s.extent, some)
                self.state.regions[name] = replace(r, written=(*before.written, *more))


def _swept(written: Written, index: str, extent: Dim, some: bool) -> list[tuple[Dim, Dim]]:
    """Ranges written by all iterations: those that move on by their own size lie end to end."""
    after = {index: dims.symbol(index) + 1}
    found: list[tuple[Dim, Dim]] = []
    for lo, hi in written:
        if index not in dims.free((lo, hi)):
            if some:
                found.append((lo, hi))
        elif dims.equal(dims.substitute(lo, after), hi):
            ends = (dims.substitute(lo, {index: at}) for at in (0, extent))
            found.append((next(ends), next(ends)))
    return found


def _by_both(a: Written, b: Written) -> Written:
    return tuple(r for r in a if r in b)
