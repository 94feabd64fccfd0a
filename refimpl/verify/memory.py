"""Lines of programs that give bytes to values or take them; ``program`` lists the laws."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias, assert_never

from didyma.refimpl.errors import counted
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import program as ir
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.verify.state import Region, Shown, Storage
from didyma.refimpl.verify.values import Values

MemoryLine: TypeAlias = (
    ir.Allocate | ir.Free | ir.Reuse | ir.PlacementAllocate | ir.Arena | ir.Place | ir.View
    | ir.Strided
)  # fmt: skip


def verify_memory(s: MemoryLine, v: Values) -> None:
    """Verify a line that gives bytes to a value, or takes them."""
    match s:
        case ir.Allocate(value):
            v.allocate(value)
        case ir.Free():
            _free(s, v)
        case ir.Reuse(value, over):
            t, r = _take(s, value, over, v)
            if t != v.types[over]:
                raise v.broken("P-reuse", str(t), f"{v.types[over]}, as %{over}")
            v.own(Region(value, r.storage, r.lo, r.hi))
        case ir.PlacementAllocate(value, over, offset):
            v.sizes.declared(offset, v.at)
            t, r = _take(s, value, over, v)
            v.together((value, over))
            end = dims.add(offset, t.nbytes)
            _fits(offset, end, r.storage.nbytes, v)
            v.aligned(f"%{value}", offset, ir.ALIGNMENT)
            v.own(Region(value, r.storage, offset, end))
        case ir.Arena():
            _arena(s, v)
        case ir.Place():
            _place(s, v)
        case ir.View():
            _view(s, v)
        case ir.Strided():
            _strided(s, v)
        case _:
            assert_never(s)


def _free(s: ir.Free, v: Values) -> None:
    shown = v.state.values.get(s.value)
    r = v.state.regions[shown.owner] if shown else None
    if shown is None or r is None or r.gone or not r.storage.ours or r.owner != s.value:
        raise v.broken("P-free", f"%{s.value}", "a live value that owns its bytes")
    if not r.storage.arena:  # an arena stays; whoever has the bytes next must wait
        v.order(s.value, shown, r, 0, write=True)
    v.state.end(s.value, s)


def _take(s: ir.Line, value: str, over: str, v: Values) -> tuple[TensorType, Region]:
    """Make a value that takes over the allocation of another; return its type and that region."""
    t = v.make(value)
    r = v.owner(over, "P-over", "a value that owns bytes")
    if r.storage.arena:
        raise v.broken(
            "P-over", f"%{over}, placed in an arena", "a value with an allocation of its own"
        )
    v.state.end(over, s)
    return t, r


def _fits(lo: Dim, hi: Dim, room: Dim, v: Values) -> None:
    if not v.ranges.at_least(lo, 0) or not v.ranges.at_least(room, hi):
        got = f"bytes {dims.text(lo)} to {dims.text(hi)}"
        raise v.broken("P-fits", got, f"within 0 to {dims.text(room)}")


def _arena(s: ir.Arena, v: Values) -> None:
    if s.name in v.made or s.name in v.types:
        raise v.broken("P-made-twice", f"%{s.name} again", "a name of its own")
    v.sizes.declared(s.nbytes, v.at)
    v.bound((s.nbytes,))
    if s.stack and not v.ranges.at_least(v.target.stack, s.nbytes):
        got = f"{dims.text(s.nbytes)} bytes"
        raise v.broken("P-stack", got, f"at most {v.target.stack} on the stack")
    v.made.add(s.name)
    v.state.arenas[s.name] = Storage(
        v.number(), s.nbytes, ours=True, arena=s.name, device=s.device, stamp=v.number()
    )
    v.state.placed[s.name] = {}


def _place(s: ir.Place, v: Values) -> None:
    v.sizes.declared(s.offset, v.at)
    t = v.make(s.value)
    arena = v.state.arenas.get(s.arena)
    if arena is None or arena.device != t.device:
        default = "the program's device"
        got = f"%{s.arena} on {arena.device or default}" if arena else f"%{s.arena}"
        want = f"an arena of an earlier line on {t.device or default}, as %{s.value}"
        raise v.broken("P-arena", got, want)
    v.bound((s.offset,))
    if any(v.state.changed.get(n, 0) > arena.stamp for n in dims.free(arena.nbytes)):
        raise v.broken("P-stale", f"%{s.arena}", "an arena of the present size")
    end = dims.add(s.offset, t.nbytes)
    v.aligned(f"%{s.value}", s.offset, ir.ALIGNMENT)
    _fits(s.offset, end, arena.nbytes, v)
    for other in v.state.placed[s.arena]:
        r = v.state.regions[other]
        if not v.ranges.apart((s.offset, end), (r.lo, r.hi)):
            got = f"bytes {dims.text(s.offset)} to {dims.text(end)}"
            want = f"none of %{other}'s, {dims.text(r.lo)} to {dims.text(r.hi)}"
            raise v.broken("P-overlap", got, want)
    v.own(Region(s.value, arena, s.offset, end))


def _view(s: ir.View, v: Values) -> None:
    v.sizes.declared(s.offset, v.at)
    t = v.make(s.value)
    shown, _ = v.live(s.of)
    v.together((s.value, s.of))
    source = v.types[s.of]
    # bytes are equal where the element counts are and the dtype is kept
    asserted = (t.numel, source.numel) in v.state.equal and t.dtype is source.dtype
    if s.offset == 0 and (asserted or dims.equal(t.nbytes, source.nbytes)):
        lo, hi = shown.lo, shown.hi
    else:
        v.bound((s.offset,))
        end = dims.add(s.offset, t.nbytes)
        if not (v.ranges.at_least(s.offset, 0) and v.ranges.at_least(source.nbytes, end)):
            got = f"bytes {dims.text(s.offset)} to {dims.text(end)}"
            raise v.broken("P-view", got, f"within the {dims.text(source.nbytes)} bytes of %{s.of}")
        lo, hi = dims.add(shown.lo, s.offset), dims.add(shown.lo, end)
    v.state.values[s.value] = Shown(shown.owner, lo, hi, v.number())


def _strided(s: ir.Strided, v: Values) -> None:
    """Check law P-strided."""
    v.sizes.declared((*s.strides, s.offset), v.at)
    t, source = v.make(s.value), v.types[s.of]
    v.bound((*s.strides, s.offset))
    v.live(s.of)
    if t.dtype is not source.dtype or t.dtype.is_packed or t.device != source.device:
        raise v.broken("P-strided", str(t), f"{source.dtype} in whole bytes, as %{s.of}: {source}")
    if len(s.strides) != t.rank:
        raise v.broken("P-strided", counted(len(s.strides), "stride"), f"one for each axis of {t}")
    low, high = replace(t, strides=s.strides, offset=s.offset).reach
    some = dims.minimum(t.numel, 1)  # 0 where nothing is shown
    inside = v.ranges.at_least(dims.mul(low, some), 0) and v.ranges.at_least(
        source.span, dims.mul(dims.add(high, 1), some)
    )
    if not inside:
        got = f"elements {dims.text(low)} to {dims.text(high)}"
        raise v.broken("P-strided", got, f"within the {dims.text(source.span)} of %{s.of}")
    v.strided[s.value] = s.of
