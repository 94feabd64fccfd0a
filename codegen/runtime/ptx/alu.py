"""Instructions that only touch registers, compiled to functions of the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from didyma.codegen.runtime.ptx import floats, integers
from didyma.codegen.runtime.ptx.code import Imm, Instr, Pair, unknown
from didyma.codegen.runtime.ptx.convert import compile_convert
from didyma.codegen.runtime.ptx.integers import Fn
from didyma.codegen.runtime.ptx.kinds import (
    FLOATS,
    PACKED,
    TYPES,
    canonical,
    choose,
    halves,
    kind_of,
)
from didyma.codegen.runtime.ptx.memory import LOCAL, OWNER, SHARED
from didyma.codegen.runtime.ptx.operands import Action, Operands

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

NOTHING = frozenset((
    "prefetch", "prefetchu", "nanosleep", "discard", "applypriority", "pmevent",
    "griddepcontrol", "setmaxnreg",
))  # fmt: skip
_JOINS: Mapping[str, Fn] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
_COMPARES: Mapping[str, Fn] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater,
    "hs": np.greater_equal,
}  # fmt: skip
_CARRY = frozenset(("addc", "subc", "madc"))
_ROUNDINGS = frozenset(("rn", "rz", "rm", "rp"))


def compile_alu(ops: Operands) -> Action | None:
    """Compile an instruction on registers; None where it is none.

    DidymaError ``unknown-instruction`` for one that is not here.
    """
    ins = ops.ins
    op, mods = ins.op, ins.mods
    match op:
        case _ if op in NOTHING:
            return lambda m: None
        case "createpolicy":
            put = ops.target(0, "b64")
            return lambda m: put(m, np.zeros(m.n, np.uint64))
        case "mov":
            get, put = ops.source(1, mods[-1]), ops.target(0, mods[-1])
            return lambda m: put(m, np.array(get(m)))
        case "cvta":
            return _window(ops)
        case "setp":
            return _test(ops)
        case "lop3" if mods[0] in _JOINS:
            return _tested(ops)
        case "set":
            return _set(ops)
        case "cvt":
            return compile_convert(ops)
        case _ if op in _CARRY or "cc" in mods:
            return _carry(ops)
        case _:
            pass
    found = function(ins)
    if found is None:
        return None
    f, kinds, result = found
    sources = [ops.source(k + 1, kind) for k, kind in enumerate(kinds)]
    put = ops.target(0, result)
    if len(sources) == 2:
        a, b = sources
        return lambda m: put(m, f(a(m), b(m)))
    return lambda m: put(m, f(*[g(m) for g in sources]))


def function(ins: Instr) -> tuple[Fn, Sequence[str], str] | None:
    """Return the function of an instruction, the types of its operands and of its result."""
    op, mods = ins.op, ins.mods
    t = kind_of(mods)
    if t is None:
        return None
    if op[:-1] in integers.BY_PARTS and len(ins.args) == 4:
        kinds = [x for x in mods if x in TYPES]
        f = integers.by_parts(
            integers.BY_PARTS[op[:-1]], int(op[-1]), kinds, "sat" in mods, "add" in mods
        )
        return f, ["u32"] * 3, "u32"
    if op in ("selp", "slct", "testp", "copysign"):
        return _choice(op, mods, t)
    if op in ("and", "or", "xor", "not") and t == "pred":
        return (_JOINS.get(op, np.logical_not)), [t] * (1 if op == "not" else 2), t
    if t in PACKED:
        return _packed(ins, t)
    if t in FLOATS:
        return _float(ins, t)
    if t in ("s16x2", "u16x2") and op in ("add", "min", "max"):
        return integers.by_halves(integers.SAME[op], t, "relu" in mods), [t, t], t
    if "wide" in mods:
        w = f"{t[0]}{TYPES[t].itemsize * 16}"
        product, and_sum = integers.wide(TYPES[w])
        return (product, [t, t], w) if op == "mul" else (and_sum, [t, t, w], w)
    if "hi" in mods and op in ("mul", "mad"):
        if op == "mul":
            return integers.high, [t, t], t
        return integers.multiply_add_high, [t, t, t], t
    if op in integers.SAME:
        f = integers.SAME[op]
        return (
            f,
            [t]
            * {"mad": 3, "sad": 3, "not": 1, "brev": 1, "cnot": 1, "abs": 1, "neg": 1}.get(op, 2),
            t,
        )
    return _bitwise(ins, t)


def _choice(op: str, mods: tuple[str, ...], t: str) -> tuple[Fn, Sequence[str], str]:
    match op:
        case "selp":
            return _selected, [t, t, "pred"], t
        case "slct":
            return _by_sign, [mods[-2], mods[-2], t], mods[-2]
        case "testp":
            return floats.test(mods[0]), [t], "pred"
        case _:
            return _with_sign, [t, t], t


def _selected(a: Any, b: Any, p: Any) -> Any:
    return choose(p, a, b)


def _by_sign(a: Any, b: Any, c: Any) -> Any:
    return choose(c >= 0, a, b)


def _with_sign(a: Any, b: Any) -> Any:
    return np.copysign(b, a)


def _bitwise(ins: Instr, t: str) -> tuple[Fn, Sequence[str], str] | None:
    op, mods = ins.op, ins.mods
    match op:
        case "shl":
            return integers.shift_left, [t, "u32"], t
        case "shr":
            return integers.shift_right, [t, "u32"], t
        case "popc":
            return integers.ones, [t], "u32"
        case "clz":
            return integers.leading_zeros, [t], "u32"
        case "bfind":
            f = integers.distance if "shiftamt" in mods else integers.highest
            return f, [t], "s32"
        case "bfe":
            return integers.extract, [t, "u32", "u32"], t
        case "bfi":
            return integers.insert, [t, t, "u32", "u32"], t
        case "bmsk":
            return integers.mask, ["u32", "u32"], t
        case "prmt" if len(mods) == 1:
            return integers.permute, ["u32"] * 3, "u32"
        case "prmt":
            return integers.permuted(mods[1]), ["u32"] * 3, "u32"
        case "lop3" if isinstance(ins.args[-1], Imm):
            table = int(ins.args[-1].text.rstrip("U"), 0)
            return integers.by_table(table), ["u32"] * 3, "u32"
        case "shf":
            return integers.funnel("l" in mods, "clamp" in mods), ["u32"] * 3, "u32"
        case "dp4a":
            return integers.dot(4, (mods[0], mods[1])), ["u32", "u32", "s32"], "s32"
        case "dp2a":
            f = integers.dot_of_two(mods[0] == "hi", (mods[1], mods[2]))
            return f, ["u32", "u32", "s32"], "s32"
        case "szext":
            return integers.sign_extended("clamp" in mods), [t, "u32"], t
        case "fns":
            return integers.nth_set, ["u32", "u32", "s32"], "u32"
        case "mul24" | "mad24":
            f = integers.of_24_bits(op, "hi" in mods, "sat" in mods)
            return f, [t] * (2 if op == "mul24" else 3), t
        case _:
            return None


def _float(ins: Instr, t: str) -> tuple[Fn, Sequence[str], str] | None:
    op, mods = ins.op, ins.mods
    how = next((x for x in mods if x in _ROUNDINGS), "rn")
    count = 2
    f: Fn
    match op:
        case "add" | "sub" | "mul" | "div":
            f = floats.binary(op, how)
        case "fma" | "mad":
            f, count = (floats.fma if how == "rn" else floats.fma_directed(how)), 3
            if how != "rn" and t not in ("f32", "f64"):
                raise unknown(ins)
        case "min" | "max":
            f = floats.least("NaN" in mods, op == "max")
            if "xorsign" in mods:
                f = floats.with_joint_sign(f)
            count = len(ins.args) - 1
            if count == 3:
                f = floats.of_three(f)
        case "neg" | "abs":
            f, count = (np.negative if op == "neg" else np.abs), 1
        case "sqrt":
            f, count = floats.root(how), 1
        case "rcp":
            f, count = floats.reciprocal(how), 1
        case _ if op in floats.APPROXIMATE:
            f, count = floats.APPROXIMATE[op], 1
        case _:
            return None
    if op not in ("neg", "abs"):  # these only set the sign
        return _finished(f, mods, t), [t] * count, t
    return _clamped(f, mods, t), [t] * count, t


def _finished(f: Fn, mods: tuple[str, ...], t: str) -> Fn:
    """Add what follows an operation, and the one NaN of the hardware."""
    f = _clamped(f, mods, t)
    return f if t == "f64" else lambda *given: canonical(f(*given))


def _clamped(f: Fn, mods: tuple[str, ...], t: str) -> Fn:
    """Add what follows an operation: subnormals flushed, clamped, or no negative numbers."""
    ftz, sat, relu = "ftz" in mods and t == "f32", "sat" in mods, "relu" in mods
    if not (ftz or sat or relu):
        return f

    def run(*given: Any) -> Any:
        r = np.asarray(f(*[floats.flushed(x) for x in given]) if ftz else f(*given))
        if ftz:
            r = floats.flushed(r)
        if relu:
            r = np.where(r < 0, r.dtype.type(0), r)
        if sat:
            r = np.clip(np.where(np.isnan(r), r.dtype.type(0), r), 0, 1).astype(r.dtype)
        return r

    return run


def _packed(ins: Instr, t: str) -> tuple[Fn, Sequence[str], str] | None:
    """Two halves of a register, each for itself."""
    half = PACKED[t]
    found = _float(ins, half)
    if found is None:
        return None
    f, kinds, _ = found
    d = TYPES[half]

    def run(*given: Any) -> Any:
        wide = np.broadcast_arrays(*(np.asarray(v, np.uint32) for v in given))
        parts = [np.ascontiguousarray(v).reshape(-1).view(d) for v in wide]
        return np.ascontiguousarray(f(*parts)).view(np.uint32).reshape(wide[0].shape)

    return run, [t] * len(kinds), t


def _window(ops: Operands) -> Action:
    """``cvta``: an address of a space to a generic one, or back."""
    mods = ops.ins.mods
    space = next((x.split("::")[0] for x in mods if x.split("::")[0] in ("shared", "local")), "")
    base = {"shared": SHARED, "local": LOCAL}.get(space, 0)
    t = mods[-1]
    d = TYPES[t]
    by = d.type((-base if "to" in mods else base) % (1 << 64))
    get, put = ops.source(1, t), ops.target(0, t)
    if space != "local" or "to" in mods or d.itemsize < 8:
        return lambda m: put(m, get(m) + by)
    # The address of local memory tells whose it is: other threads have none there.
    tag = d.type(OWNER)
    return lambda m: put(m, get(m) + (by + m.widened((m.ids + 1).astype(d) << tag)))


def _compare(ins: Instr, op: str, t: str) -> Fn:
    real = t in FLOATS
    if op in _COMPARES and not (real and op == "ne"):
        return _COMPARES[op]
    if op == "ne":
        return _unlike
    if op in ("num", "nan"):
        return _unordered if op == "nan" else _ordered
    if op[-1:] == "u" and op[:-1] in _COMPARES:
        return _or_unordered(_COMPARES[op[:-1]])
    raise unknown(ins)


def _unlike(a: Any, b: Any) -> Any:
    return (a < b) | (a > b)


def _unordered(a: Any, b: Any) -> Any:
    return np.isnan(a) | np.isnan(b)


def _ordered(a: Any, b: Any) -> Any:
    return ~_unordered(a, b)


def _or_unordered(f: Fn) -> Fn:
    def run(a: Any, b: Any) -> Any:
        return f(a, b) | _unordered(a, b)

    return run


def _test(ops: Operands) -> Action:
    """``setp``: a comparison, joined with a predicate, and what is its contrary.

    Of two halves of a register, the second predicate is the comparison of the upper ones.
    """
    ins = ops.ins
    t = kind_of(ins.mods)
    if t is None:
        raise unknown(ins)
    half = PACKED.get(t)
    compare = _compare(ins, ins.mods[0], half or t)
    join = next((_JOINS[x] for x in ins.mods[1:] if x in _JOINS), None)
    a, b = ops.source(1, t), ops.source(2, t)
    third = ops.source(3, "pred") if join else None
    first = ops.at(0)
    put, other = ops.pair(0, "pred")
    if not isinstance(first, Pair):
        other = None
    ftz = "ftz" in ins.mods and t == "f32"

    def run(m: Machine) -> None:
        x, y = a(m), b(m)
        if ftz:
            x, y = floats.flushed(x), floats.flushed(y)
        upper, above = x, y
        if half:
            (x, upper), (y, above) = (halves(np.asarray(v), half) for v in (x, y))
        r = compare(x, y)
        contrary = compare(upper, above) if half else ~r if other else r
        if join and third:
            c = third(m)
            r, contrary = join(r, c), join(contrary, c)
        put(m, r)
        if other:
            other(m, contrary)

    return run


def _tested(ops: Operands) -> Action:
    """``lop3`` with a second result: whether a bit is set, joined with a predicate."""
    join, table = _JOINS[ops.ins.mods[0]], ops.integer(4)
    combine, sources = integers.by_table(table), [ops.source(k, "u32") for k in (1, 2, 3)]
    given, (put, other) = ops.source(5, "pred"), ops.pair(0, "b32")
    if other is None:
        raise unknown(ops.ins)

    def run(m: Machine) -> None:
        v, p = combine(*(g(m) for g in sources)), given(m)
        put(m, v)
        other(m, join(v != 0, p))

    return run


def _set(ops: Operands) -> Action:
    """``set``: a comparison whose result is a number: all ones, or 1.0."""
    mods = ops.ins.mods
    to, t = [x for x in mods if x in TYPES][-2:]
    compare = _compare(ops.ins, mods[0], PACKED.get(t, t))
    a, b, put = ops.source(1, t), ops.source(2, t), ops.target(0, to)
    join = next((_JOINS[x] for x in mods[1:] if x in _JOINS), None)
    third = ops.source(3, "pred") if join else None
    d, half = TYPES[PACKED.get(to, to)], TYPES[PACKED.get(t, t)]
    yes = d.type(1) if PACKED.get(to, to) in FLOATS else np.array(-1).astype(d)[()]

    def run(m: Machine) -> None:
        x, y = (np.broadcast_to(np.asarray(g(m)), (m.n,)) for g in (a, b))
        if t in PACKED:
            x, y = (np.ascontiguousarray(v).view(half) for v in (x, y))
        r = compare(x, y)
        if join and third:
            r = join(r, third(m))
        v = np.where(r, yes, d.type(0))
        put(m, np.ascontiguousarray(v).view(np.uint32) if to in PACKED else v)

    return run


def _carry(ops: Operands) -> Action:
    """Sums of several words: ``add.cc``, ``addc``, ``sub.cc``, ``subc``, ``mad.cc``, ``madc``."""
    ins = ops.ins
    t = f"u{8 * TYPES[ins.mods[-1]].itemsize}"
    signed = TYPES[ins.mods[-1]]
    d, kind = TYPES[t], ins.op[:3]
    sources = [ops.source(k, t) for k in range(1, len(ops))]
    put = ops.target(0, t)
    takes, gives, upper = ins.op in _CARRY, "cc" in ins.mods, "hi" in ins.mods

    def run(m: Machine) -> None:
        v = [np.broadcast_to(np.asarray(g(m), d), (m.n,)) for g in sources]
        if kind == "mad":
            product = v[0] * v[1]
            if upper:
                product = integers.high(v[0].view(signed), v[1].view(signed)).view(d)
            v = [product, v[2]]
        c = m.carry().astype(d) if takes else np.zeros(m.n, d)
        f = integers.subtract_borrow if kind == "sub" else integers.add_carry
        r, out = f(v[0], v[1], c)
        put(m, r)
        if gives:
            m.set_carry(out)

    return run
