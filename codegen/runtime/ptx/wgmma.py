"""Products of four warps, ``wgmma``: they read shared memory themselves, and end at a wait.

A product is computed where it is issued.  Until a wait for its group its operands in shared memory
count as being read, and its registers as in use; what other instructions write to its registers
wants a ``wgmma.fence`` first.  Layouts are those of the ISA's manual.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from didyma.codegen.runtime.ptx.bulk import BUSY_FLAG, unfenced
from didyma.codegen.runtime.ptx.code import Imm, Instr, Reg, Vector, registers, unknown
from didyma.codegen.runtime.ptx.kinds import TYPES, canonical, packed
from didyma.codegen.runtime.ptx.matrices import by_warp
from didyma.codegen.runtime.ptx.meeting import ALL, Body
from didyma.codegen.runtime.ptx.memory import BUSY, READ, SPACES
from didyma.codegen.runtime.ptx.operands import Action, Operands, Source
from didyma.codegen.runtime.ptx.wmma import truncated
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

_SHAPE = re.compile(r"m64n(\d+)k(\d+)$")
_TYPES: dict[str, Any] = {
    **{k: TYPES[k] for k in ("f16", "bf16", "tf32", "s8", "u8")},
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}  # fmt: skip
_SUMS = ("f32", "f16", "s32")
_PIECE = 16  # bytes that are read together
_TERMS = 32  # bytes of a row that a product reads
_ROWS = 64  # of a product, of which a warp has 16
_LANE = np.arange(32)
_ROW, _COLUMN = _LANE // 4, _LANE % 4


@dataclass(slots=True)
class _Products:
    """Products under way: how many groups a lane has closed, what is read, and registers in use.

    ``busy`` have the group of each lane's product, plus one; ``fresh`` say which lanes have set a
    register since their last fence, ``begun`` which had one at all.
    """

    closed: Array
    begun: Array
    reads: list[tuple[Array, Array, Array]] = field(
        default_factory=list[tuple[Array, Array, Array]]
    )
    busy: dict[int, Array] = field(default_factory=dict[int, Array])
    fresh: dict[int, Array] = field(default_factory=dict[int, Array])


def _products(m: Machine) -> _Products:
    found: _Products | None = m.under_way.get("products")
    if found is None:
        found = m.under_way["products"] = _Products(
            np.zeros(m.size, np.int64), np.zeros(m.size, np.bool_)
        )
    return found


def compile_group(ops: Operands) -> Action | None:
    """Compile a fence, a commit or a wait of products; None for another instruction."""
    if ops.ins.op != "wgmma":
        return None
    match ops.ins.mods[0]:
        case "fence":
            return _fence
        case "commit_group":
            return _commit
        case "wait_group":
            keep = ops.integer(0)
            return lambda m: _wait(m, keep)
        case _:
            raise unknown(ops.ins)


def _fence(m: Machine) -> None:
    p = _products(m)
    p.begun[m.ids] = True
    for lanes in p.fresh.values():
        lanes[m.ids] = False


def _commit(m: Machine) -> None:
    _products(m).closed[m.ids] += 1


def _wait(m: Machine, keep: int) -> None:
    """Give operands and registers back, of all groups of the active lanes but the last ones.

    A warp reads and waits as one: each of its lanes then knows of the reads.
    """
    p = _products(m)
    waits = np.zeros(m.size, np.bool_)
    waits[m.ids] = True
    still = list[tuple[Array, Array, Array]]()
    for lanes, at, group in p.reads:
        done = waits[lanes] & (group < p.closed[lanes] - keep)
        if done.any():
            one, where = np.ascontiguousarray(lanes[done]), np.ascontiguousarray(at[done])
            _mark(m, one, where, False)
            raw = np.zeros((one.size, _PIECE), np.uint8)
            m.tell(m.memory.access(one, where, _PIECE, SPACES["shared"], READ, 0, raw, m.at))
        if not done.all():
            still.append((lanes[~done], at[~done], group[~done]))
    p.reads = still
    m.memory.now += 1
    m.memory.warp[m.ids] = m.memory.now
    for lanes, at, _ in still:
        _mark(m, lanes, at, True)  # others may read the same bytes
    for r, group in [*p.busy.items()]:
        group[m.ids[group[m.ids] <= p.closed[m.ids] - keep]] = 0
        if not group.any():
            del p.busy[r]


def _mark(m: Machine, lanes: Array, at: Array, busy: bool) -> None:
    space = m.memory.spaces[1]
    start = at + space.size * m.memory.block[lanes].astype(np.int64)
    flags = space.flags.reshape(-1, _PIECE)
    inside = (at >= 0) & (at + _PIECE <= space.size)
    rows = start[inside] // _PIECE
    flags[rows] = flags[rows] | BUSY_FLAG if busy else flags[rows] & np.uint8(255 ^ BUSY_FLAG)


def places(descriptor: Array, rows: Array, size: int, across: bool) -> Array:
    """Return where elements are in shared memory: descriptors, rows, and terms of 32 bytes.

    ``size`` are the bytes of an element.  ``across``: rows lie side by side, not terms.
    """
    d = descriptor.astype(np.uint64)
    start, lead, stride = (
        ((d >> np.uint64(low)) & np.uint64(0x3FFF)).astype(np.int64)[:, None, None] << 4
        for low in (0, 16, 32)
    )
    mode = (d >> np.uint64(62)).astype(np.int64)[:, None, None]
    wide = np.array([16, 128, 64, 32])[mode]
    r = rows[None, :, None] if rows.ndim == 1 else rows[:, :, None]
    k = np.arange(_TERMS // size)[None, None, :]
    if across:
        inner = r * size % wide + r * size // wide * np.where(mode == 0, stride, lead)
        at = start + inner + k % 8 * wide + k // 8 * np.where(mode == 0, lead, stride)
    else:
        byte = k * size
        along = np.where(mode == 0, byte % 16 + byte // 16 * lead, byte)
        at = start + r // 8 * stride + r % 8 * wide + along
    swizzled: Array = at ^ ((at >> 7) % (wide // 16) << 4)
    return swizzled


def _fetched(m: Machine, at: Array, own: Array, kind: str) -> Array:
    """Return the elements at offsets, a matrix for each warp; check those rows that are its own."""
    space, dtype = m.memory.spaces[1], _TYPES[kind]
    first = m.ids[::32]
    pieces = [np.unique(a[o] & -_PIECE) for a, o in zip(at, own, strict=True)]
    shares = [-(-x.size // 32) for x in pieces]
    lanes = np.concatenate(
        [np.repeat(f + _LANE, n)[: x.size] for f, x, n in zip(first, pieces, shares, strict=True)]
    ).astype(np.int32)
    where = np.ascontiguousarray(np.concatenate(pieces))
    unfenced(m, lanes, where, _PIECE)
    raw = np.zeros((lanes.size, _PIECE), np.uint8)
    m.tell(m.memory.access(lanes, where, _PIECE, SPACES["shared"], BUSY, 0, raw, m.at))
    p = _products(m)
    p.reads.append((lanes, where, p.closed[lanes]))
    flat = np.clip(at, 0, space.size - dtype.itemsize)
    flat = flat + (space.size * m.memory.block[first].astype(np.int64))[:, None, None]
    found: Array = space.data.view(dtype)[flat // dtype.itemsize]
    return found


@dataclass(frozen=True, slots=True)
class Form:
    """What a product multiplies: its columns, types, sign, and how its operands lie.

    ``held``: A is in registers.  ``a_across`` and ``b_across`` are as of ``places``.
    """

    columns: int
    to: str
    left: str
    right: str
    sign: int
    held: bool
    a_across: bool
    b_across: bool


def form_of(ops: Operands) -> Form:
    """Return the form of a product; DidymaError ``unknown-instruction`` for one not here."""
    ins = ops.ins
    shape = next((s for x in ins.mods if (s := _SHAPE.match(x))), None)
    named = [x for x in ins.mods if x in _TYPES or x in _SUMS]
    if shape is None or len(named) != 3 or "sp" in ins.mods or named[1] not in _TYPES:
        raise unknown(ins)
    rest = [int(o.text, 0) for o in ins.args[4:] if isinstance(o, Imm)]
    sign = rest[0] * rest[1] if len(rest) > 1 else 1
    held = isinstance(ops.at(1), Vector)
    turned = rest[2:] if len(rest) > 2 else [0, 0]
    a_across, b_across = (0, turned[0]) if held else (turned[0], turned[-1])
    to, left, right = named
    return Form(int(shape[1]), to, left, right, sign, held, bool(a_across), bool(b_across))


def rows_of(m: Machine) -> Array:
    """Return which rows of A, of the 64 of its four warps, each warp multiplies."""
    rows: Array = 16 * (m.ids[::32] % m.shape.padded // 32 % 4)[:, None] + np.arange(16)[None, :]
    return rows


def compile_product(ops: Operands) -> Body:
    """Compile ``wgmma.mma_async``, by warps; each has a quarter of the rows."""
    form = form_of(ops)
    columns, to, left, right, held = form.columns, form.to, form.left, form.right, form.held
    accumulators = [r for r in ops.parts(0) if isinstance(r, Reg)]
    sums = [ops.read(r, "u32") for r in accumulators]
    puts = [ops.write(r, "u32") for r in accumulators]
    keep = ops.source(3, "pred")
    names = registers(ops.ins.args[: 2 if held else 1])
    fragments = [ops.read(p, "u32") for p in ops.parts(1)] if held else []
    a_at, b_at = None if held else ops.source(1, "u64"), ops.source(2, "u64")
    size = _TYPES[left].itemsize

    def run(m: Machine, present: Array, want: Array) -> None:
        if (present != ALL).any():
            m.report("warp-divergence", "wgmma without all lanes of a warp", m.ids)
            return
        _demand_fence(m, names)
        quarter = m.ids[::32] % m.shape.padded // 32 % 4
        b = places(by_warp(m, b_at)[:, 0], np.arange(columns), size, form.b_across)
        mine = np.arange(columns)[None, :] * 4 // columns == quarter[:, None]
        y = truncated(_fetched(m, b, mine, right), right, _wide(to))
        if a_at is None:
            x = _fragment(m, fragments, left)
        else:
            rows = rows_of(m)
            at = places(by_warp(m, a_at)[:, 0], rows, size, form.a_across)
            x = _fetched(m, at, np.ones(rows.shape, np.bool_), left)
        out = form.sign * np.matmul(truncated(x, left, _wide(to)), y.transpose(0, 2, 1))
        _add(m, out, to, by_warp(m, keep), sums, puts)
        p = _products(m)
        for r in accumulators:
            p.busy.setdefault(r.index, np.zeros(m.size, np.int64))[m.ids] = p.closed[m.ids] + 1

    return run


def _wide(to: str) -> Any:
    return np.dtype(np.int32 if to == "s32" else np.float32)


def _fragment(m: Machine, parts: list[Source], kind: str) -> Array:
    """Return the rows of A that the registers of warps hold: warps, 16 rows, terms."""
    each = 4 // _TYPES[kind].itemsize
    x = np.zeros((m.ids.size // 32, 16, 8 * each), _TYPES[kind])
    for i, f in enumerate(parts):
        v = by_warp(m, f).view(_TYPES[kind]).reshape(-1, 32, each)
        for j in range(each):
            x[:, _ROW + 8 * (i & 1), _COLUMN * each + 4 * each * (i >> 1) + j] = v[..., j]
    return x


def _add(
    m: Machine,
    out: Array,
    to: str,
    keep: Array,
    sums: list[Source],
    puts: list[Callable[..., None]],
) -> None:
    """Add products to the sums in registers, where these are kept, or set them."""
    dtype = TYPES[to]
    each = 4 // dtype.itemsize
    for k, (f, put) in enumerate(zip(sums, puts, strict=True)):
        old = by_warp(m, f).view(dtype).reshape(-1, 32, each)
        parts = list[Array]()
        for j in range(each):
            n = k * each + j
            v = out[:, _ROW + 8 * (n >> 1 & 1), n // 4 * 8 + _COLUMN * 2 + (n & 1)]
            v = canonical(np.where(keep, v + old[..., j].astype(v.dtype), v).astype(dtype))
            parts.append(np.ascontiguousarray(v).reshape(-1))
        put(m, m.widened(packed(*parts) if each == 2 else parts[0].view(np.uint32)))


def _demand_fence(m: Machine, names: frozenset[int]) -> None:
    """Report registers that lanes have set since their last fence, and lanes that had none."""
    p = _products(m)
    for late, text in (
        (~p.begun, "no wgmma.fence comes before the first product"),
        *((p.fresh[r], "a register of a product is set, and no wgmma.fence follows")
          for r in names & p.fresh.keys()),
    ):  # fmt: skip
        if late[m.ids].any():
            m.report("unfenced", text, m.ids[late[m.ids]])
            late[m.ids] = False


def registers_of(instrs: Sequence[Instr]) -> frozenset[int]:
    """Return the registers of products, and those that they are copied from and to."""
    found = {
        r for i in instrs if i.op == "wgmma" and len(i.args) > 2 for r in registers(i.args[:2])
    }
    if not found:
        return frozenset()
    found |= {r for i in instrs if _packs(i) and registers(i.args[:1]) & found
              for r in registers(i.args[1:])}  # fmt: skip
    copies = [registers(i.args) for i in instrs if _copies(i)]
    while more := {r for c in copies if c & found for r in c} - found:
        found |= more
    return frozenset(found)


def _copies(ins: Instr) -> bool:
    return ins.op == "mov" and all(isinstance(o, Reg) for o in ins.args[:2])


def _packs(ins: Instr) -> bool:
    """Return whether parts of a register come together, as ``mov.b32 %r, {%a, %b}`` has it."""
    return ins.op == "mov" and isinstance(ins.args[0], Reg) and isinstance(ins.args[1], Vector)


def watched(action: Action, ins: Instr, used: frozenset[int]) -> Action:
    """Let an instruction note what it does to registers ``used`` by products.

    A copy between registers is left out of the machine code, so it moves what is known of them; and
    compilers put parts of a register together behind a fence that the parts have passed.
    A constant wants no fence, since compilers put it wherever they like.
    """
    named = registers(ins.args) & used
    if not named or ins.op == "wgmma":
        return action
    to = registers(ins.args[:1]) if ins.op != "st" else frozenset[int]()
    source = ins.args[1] if _copies(ins) else None
    constant = ins.op == "mov" and isinstance(ins.args[1], Imm)
    parts = registers(ins.args[1:]) if _packs(ins) else frozenset[int]()

    def run(m: Machine) -> None:
        action(m)
        p = _products(m)
        if isinstance(source, Reg):
            _moved(m, p, named & to, source.index)
            return
        for r in sorted(named):
            if r in p.busy and (late := p.busy[r][m.ids] > 0).any():
                text = "a register is used before a wgmma.wait_group gives it back"
                m.report("unwaited", text, m.ids[late])
                p.busy[r][m.ids] = 0
        behind = [p.fresh[r][m.ids] for r in parts & p.fresh.keys()]
        new = np.any(behind, axis=0) if behind else not (constant or parts)
        for r in named & to:
            p.fresh.setdefault(r, np.zeros(m.size, np.bool_))[m.ids] = new

    return run


def _moved(m: Machine, p: _Products, to: frozenset[int], source: int) -> None:
    for r in to:
        for table, empty in ((p.busy, np.int64), (p.fresh, np.bool_)):
            known: dict[int, Any] = table  # both are arrays over the lanes, by register
            if source in known:
                known.setdefault(r, np.zeros(m.size, empty))[m.ids] = known[source][m.ids]
            elif r in known:
                known[r][m.ids] = 0
