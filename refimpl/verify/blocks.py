"""Lines of programs that bind symbols or hold lines themselves; ``program`` lists the laws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.program import Bind, Carry, If, Line, Repeat, While
from didyma.refimpl.ir.types import DType
from didyma.refimpl.verify.state import Region, Shown, State, Written, symbols
from didyma.refimpl.verify.symbols import binders, carried
from didyma.refimpl.verify.values import Values


@dataclass(frozen=True, slots=True)
class Blocks:
    """Verifies the lines of one program that bind symbols or hold blocks of lines.

    ``lines`` verifies the lines of a block, given what the block is called in messages;
    ``handed`` are the values that carries have made.
    """

    values: Values
    lines: Callable[[Sequence[Line], str], None]
    handed: set[str] = field(default_factory=set[str])

    def control(self, s: Bind | Carry | If | While | Repeat) -> None:
        """Verify a line that binds symbols or holds blocks."""
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
            case _:
                assert_never(s)

    def _scalar(self, value: str, dtype: DType) -> None:
        """Check that the line reads a scalar of a dtype, by law P-scalar."""
        self.values.read((value,))
        t = self.values.types[value]
        if t.dtype is not dtype or t.shape != ():
            raise self.values.broken("P-scalar", f"%{value}: {t}", f"{dtype}[]")

    def _changed(self, names: Sequence[str]) -> None:
        """Give symbols new values."""
        self.values.state.change(names, self.values.number())
        self.values.state.bound.update(names)

    # ---- carries

    def _carry(self, s: Carry) -> None:
        v, state = self.values, self.values.state
        new = dict(s.dims)
        names = [n for pair in s.values for n in pair]
        if len(set(names)) != len(names) or len(new) != len(s.dims):
            raise v.broken("P-carry", "a name given twice", "each value and symbol once")
        v.sizes.declared((d for _, d in s.dims), v.at)
        v.bound(d for _, d in s.dims)
        regions = [self._handed(s, value, source) for value, source in s.values]
        for _, source in s.values:
            state.end(source, s)
        self._changed([n for n, _ in s.dims])
        for (value, _), r in zip(s.values, regions, strict=True):
            nbytes = v.types[value].nbytes
            v.bound(v.types[value].shape)
            storage = replace(r.storage, nbytes=nbytes)
            v.own(replace(r, owner=value, storage=storage, hi=nbytes, written=((0, nbytes),)))

    def _handed(self, s: Carry, value: str, source: str) -> Region:
        """Let a carry hand ``source`` on as ``value``; return the region that it hands on."""
        v = self.values
        v.read((source,))
        r = v.owner(source, "P-carry", "a value that owns bytes")
        if r.storage.arena or (r.lo, r.hi) != (0, r.storage.nbytes):
            raise v.broken("P-carry", f"part of an allocation, %{source}", "a whole one")
        t, old, new = v.typed(value), v.types[source], dict(s.dims)
        want = t.with_shape(*(dims.substitute(d, new) for d in t.shape))
        if want != old:
            raise v.broken("P-carry", f"%{source}: {old}", f"{want}")
        if value in v.state.alive():
            replaced = v.owner(value, "P-carry", "a value that owns bytes")
            if replaced.storage.arena:
                raise v.broken("P-carry", f"%{value} in an arena", "a whole allocation")
            v.state.end(value, s)
        elif value in v.made and value not in self.handed:
            raise v.broken("P-made-twice", f"%{value} again", "a value that is not there yet")
        v.made.add(value)
        self.handed.add(value)
        return r

    # ---- blocks

    def _block(self, lines: Sequence[Line], part: str) -> None:
        """Verify a block; what it makes is out of sight afterwards."""
        v = self.values
        v.join()
        outer, bound, arenas = set(v.state.values), set(v.state.bound), set(v.state.arenas)
        self.lines(lines, f"{part} ")
        v.join()
        state = v.state
        inner = [n for n in state.values if n not in outer]
        for name in inner:
            r = state.regions.get(name)
            if r is not None and r.gone is None and name not in self.handed:
                raise v.broken(
                    "P-left",
                    f"%{name}, alive at the end of {part}",
                    "a line of the block that frees it",
                )
        dropped = [n for n in inner if n not in self.handed or state.regions[n].gone is not None]
        state.forget([*dropped, *(a for a in state.arenas.copy() if a not in arenas)])
        carried_dims = set(carried(lines))
        state.bound = {n for n in state.bound if n in bound or n in carried_dims}

    def _if(self, s: If) -> None:
        self._scalar(s.cond, DType.BOOL)
        v, before = self.values, self.values.state
        v.state = before.copy()
        self._block(s.then, "then")
        then, v.state = v.state, before.copy()
        self._block(s.other, "else")
        other = v.state
        other.bound &= then.bound
        other.equal &= then.equal
        if then.alive() != other.alive():
            differing = sorted(f"%{n}" for n in then.alive() ^ other.alive())
            raise v.broken(
                "P-branches",
                f"{', '.join(differing)} alive after one branch",
                "the same after both",
            )
        now = v.number()
        for name, shown in other.values.items():
            w, t = then.values.get(name), v.types[name]
            if w is not None and symbols(t):
                fresh = then.fresh(w, t) and other.fresh(shown, t)
                other.values[name] = replace(shown, stamp=now if fresh else -1)
        for name in other.changed.keys() | then.changed.keys():
            other.changed[name] = max(other.changed.get(name, 0), then.changed.get(name, 0))
        for name, r in other.regions.items():
            r_then = then.regions[name]
            if r.gone is None and r_then.written != r.written:
                both = tuple(w for w in r_then.written if w in r.written)
                other.regions[name] = replace(r, written=both)

    # ---- loops

    def _enter_loop(self, lines: Sequence[Line]) -> None:
        """Make the state that of any iteration: symbols that change have changed."""
        v, state = self.values, self.values.state
        with_symbol = carried(lines)
        changing = {n for n, _ in binders(lines)} & state.bound
        if not changing:
            return
        before, now = state.copy(), v.number()
        state.change(changing, now)
        for name, shown in before.values.items():
            t = v.types[name]
            inside = changing.intersection(symbols(t))
            if inside:
                carried_along = all(name in with_symbol[n] for n in inside) and before.fresh(
                    shown, t
                )
                state.values[name] = replace(shown, stamp=now if carried_along else -1)

    def _same(self, head: State, part: str) -> None:
        """Check law P-loop at the end of a part of a loop that began in the state ``head``."""
        v, state = self.values, self.values.state
        for name in sorted(head.alive() ^ state.alive()):
            got = f"%{name}, alive at the start of {part} or at its end alone"
            raise v.broken("P-loop", got, "alive at both or at neither")
        for name, shown in head.values.items():
            t = v.types[name]
            if symbols(t) and head.fresh(shown, t) and not state.fresh(state.values[name], t):
                got = f"%{name}: {t}, at the end of {part}"
                raise v.broken("P-stale", got, "a value of the present size")

    def _while(self, s: While) -> None:
        v = self.values
        self._enter_loop((*s.test, *s.body))
        head = v.state.copy()
        self._block(s.test, "test")
        self._same(head, "the test")
        self._scalar(s.cond, DType.BOOL)
        tested = v.state.copy()
        self._block(s.body, "body")
        self._same(tested, "the body")
        changed, v.state = v.state.changed, tested
        for name, shown in tested.values.items():  # after the last iteration, or before the first
            if symbols(v.types[name]) and tested.fresh(shown, v.types[name]):
                tested.values[name] = Shown(shown.owner, shown.lo, shown.hi, v.number())
        for name in tested.bound & changed.keys():
            tested.changed[name] = changed[name]

    def _repeat(self, s: Repeat) -> None:
        v = self.values
        v.sizes.declared(s.extent, v.at)
        v.bound((s.extent,))
        lo, hi = v.sizes.ranges[s.index]
        if lo > 0 or not v.ranges.at_least(hi + 1, s.extent):
            got = f"0 to {dims.text(s.extent)} - 1"
            raise v.broken("P-repeat", got, f"within [{lo}, {hi}], as {s.index} is declared")
        self._enter_loop(s.body)
        head = v.state.copy()
        self._changed((s.index,))
        self._block(s.body, "body")
        self._same(head, "the body")
        v.state.bound.discard(s.index)
        v.state.equal &= head.equal
        some = v.ranges.at_least(s.extent, 1)
        for name, r in v.state.regions.items():
            before = head.regions[name]
            if r.gone is None and r.written != before.written:
                more = _swept(r.written, s.index, s.extent, some)
                v.state.regions[name] = replace(r, written=(*before.written, *more))


def _swept(written: Written, index: str, extent: Dim, some: bool) -> list[tuple[Dim, Dim]]:
    """Return the ranges written by all iterations: those that move by their size lie end to end."""
    after = {index: dims.symbol(index) + 1}
    swept: list[tuple[Dim, Dim]] = []
    for lo, hi in written:
        if index not in dims.free((lo, hi)):
            if some:
                swept.append((lo, hi))
        elif dims.equal(dims.substitute(lo, after), hi):
            swept.append((dims.substitute(lo, {index: 0}), dims.substitute(lo, {index: extent})))
    return swept
