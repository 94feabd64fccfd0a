"""Instructions by themselves, on corner values, against what the ISA's manual defines."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from didyma.codegen.runtime.ptx.code import SIZES
from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.launch import Pointer, Region, launch
from didyma.codegen.runtime.ptx.machine import Shape
from didyma.codegen.runtime.ptx.text import parse
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array

_NUMPY = {"u": "u", "s": "i", "f": "f", "b": "u"}


def dtype(kind: str) -> Any:
    return np.dtype(f"{_NUMPY[kind[0]]}{SIZES[kind]}")


def run(op: str, kinds: str, *operands: Array, more: str = "", whole: bool = False) -> Array:
    """Run an instruction in a lane for each row; ``kinds``: its result's type and its operands'.

    A ``whole`` text names them itself: ``%out``, ``%v0``, ``%v1``.
    """
    result, *given = kinds.split()
    letters = {1: "b16", 2: "b16", 4: "b32", 8: "b64"}
    size = operands[0].size
    loads, names = "", ""
    for k, kind in enumerate(given):
        loads += (
            f"ld.param.u64 %a, [p{k + 1}]; mad.lo.u64 %a, %i, {SIZES[kind]}, %a;"
            f".reg .{letters[SIZES[kind]]} %v{k}; ld.global.{kind} %v{k}, [%a];\n"
        )
        names += f", %v{k}"
    params = ", ".join(f".param .u64 p{k}" for k in range(len(given) + 1))
    text = f"""
.visible .entry k({params}) {{
  .reg .b64 %a, %i; .reg .b32 %t; .reg .{letters[SIZES[result]]} %out;
  mov.u32 %t, %tid.x; cvt.u64.u32 %i, %t;
  {loads}
  {op if whole else f"{op} %out{names}{more};"}
  ld.param.u64 %a, [p0]; mad.lo.u64 %a, %i, {SIZES[result]}, %a; st.global.{result} [%a], %out;
  ret;
}}"""
    arrays = [np.zeros(size, dtype(result)), *operands]
    regions = [
        Region(f"r{k}", np.frombuffer(a.tobytes(), np.uint8).copy(), np.full(a.nbytes, k > 0))
        for k, a in enumerate(arrays)
    ]
    done = launch(
        Kernel(parse(text), "k"), Shape((1, 1, 1), (size, 1, 1)), regions,
        [Pointer(k) for k in range(len(regions))],
    )  # fmt: skip
    assert not done.reports
    return np.asarray(regions[0].data.view(arrays[0].dtype))


def pairs(kind: str) -> tuple[list[int], list[int]]:
    """Return corner values of integers against each other."""
    info = np.iinfo(dtype(kind))
    corners = sorted({0, 1, 2, 3, 7, 31, 32, 33, int(info.max), int(info.max) - 1, int(info.min),
                      int(info.min) + 1, *((-1, -2, -7) if info.min else ())})  # fmt: skip
    return [a for a in corners for _ in corners], [b for _ in corners for b in corners]


def wrapped(value: int, kind: str) -> int:
    bits = 8 * SIZES[kind]
    value %= 1 << bits
    return value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value


def _truncated(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


INTEGERS: dict[str, Callable[[int, int], int]] = {
    "add.s32": lambda a, b: a + b,
    "sub.u16": lambda a, b: a - b,
    "mul.lo.s64": lambda a, b: a * b,
    "mul.hi.s32": lambda a, b: (a * b) >> 32,
    "mul.hi.u64": lambda a, b: (a * b) >> 64,
    "mul.hi.s64": lambda a, b: (a * b) >> 64,
    "div.s32": lambda a, b: _truncated(a, b) if b else -1,
    "rem.s64": lambda a, b: a - b * _truncated(a, b) if b else a,
    "div.u64": lambda a, b: a // b if b else -1,
    "min.s16": min,
    "max.u32": max,
    "and.b32": lambda a, b: a & b,
    "xor.b64": lambda a, b: a ^ b,
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_wrap_as_integers_do(name: str) -> None:
    kind = name.rpartition(".")[2]
    a, b = pairs(kind)
    got = run(name, f"{kind} {kind} {kind}", np.array(a, dtype(kind)), np.array(b, dtype(kind)))
    assert got.tolist() == [wrapped(INTEGERS[name](x, y), kind) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64"])
def test_shifts_clamp_their_amount(kind: str) -> None:
    a, n = pairs(kind)
    amounts = [abs(k) % 70 for k in n]
    given = np.array(a, dtype(kind)), np.array(amounts, np.uint32)
    right = run(f"shr.{kind}", f"{kind} {kind} u32", *given)
    assert right.tolist() == [x >> k for x, k in zip(a, amounts, strict=True)]
    left = run(f"shl.b{8 * SIZES[kind]}", f"{kind} {kind} u32", *given)
    assert left.tolist() == [wrapped(x << k, kind) for x, k in zip(a, amounts, strict=True)]


def test_bits_are_counted_reversed_and_permuted() -> None:
    x = np.array([0, 1, 2, 0x80000000, 0xFFFFFFFF, 0x12345678, 0x00F0], np.uint32)
    text = [f"{v:032b}" for v in x.tolist()]
    assert run("popc.b32", "u32 u32", x).tolist() == [t.count("1") for t in text]
    assert run("clz.b32", "u32 u32", x).tolist() == [32 - len(t.lstrip("0")) for t in text]
    assert run("brev.b32", "u32 u32", x).tolist() == [int(t[::-1], 2) for t in text]
    highest = [len(t.lstrip("0")) - 1 for t in text]
    assert run("bfind.u32", "s32 u32", x).tolist() == highest
    assert run("bfe.u32", "u32 u32", x, more=", 4, 8").tolist() == [
        v >> 4 & 255 for v in x.tolist()
    ]
    signed = run("bfe.s32", "s32 s32", x.view(np.int32), more=", 4, 4").tolist()
    assert signed == [(v >> 4 & 15) - 16 * (v >> 7 & 1) for v in x.tolist()]
    inserted = run("bfi.b32", "u32 u32 u32", x, ~x, more=", 8, 16").tolist()
    assert inserted == [(~v & 0xFF0000FF) | (v & 0xFFFF) << 8 for v in x.tolist()]
    permuted = run("prmt.b32", "u32 u32 u32", x, ~x, more=", 0x8C51").tolist()
    for v, got in zip(x.tolist(), permuted, strict=True):
        raw = struct.pack("<II", v, ~v & 0xFFFFFFFF)
        sign = [255 if raw[k] & 128 else 0 for k in (4, 0)]
        assert got == int.from_bytes(bytes([raw[1], raw[5], *sign]), "little")
    funnel = run("shf.l.wrap.b32", "u32 u32 u32", x, ~x, more=", 12").tolist()
    assert funnel == [(~v << 12 | v >> 20) & 0xFFFFFFFF for v in x.tolist()]
    table = run("lop3.b32", "u32 u32 u32", x, ~x, more=", 0x0F0F0F0F, 0xE8").tolist()
    want = [(v & ~v) | (v & 0x0F0F0F0F) | (~v & 0x0F0F0F0F) for v in x.tolist()]  # majority
    assert table == want


FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    3.0,
    1 + 2**-12,
    1e-30,
    -7e-46,
    3.4e38,
    math.inf,
    math.nan,
    0.1,
    1e10,
]


def rounded(exact: Fraction, how: str) -> float:
    """Round to f32 by comparing neighbours exactly."""
    near = np.float32(float(exact))
    if math.isinf(near):
        near = np.copysign(np.finfo(np.float32).max, near)
    around = [np.nextafter(near, np.float32(s * math.inf)) for s in (-1, 1)]
    finite = [v for v in (around[0], near, around[1]) if not math.isinf(v)]
    below = [v for v in finite if Fraction(float(v)) <= exact]
    above = [v for v in finite if Fraction(float(v)) >= exact]
    low = max(below) if below else -math.inf
    high = min(above) if above else math.inf
    match how:
        case "rm":
            return float(low)
        case "rp":
            return float(high)
        case "rz":
            return float(high if exact < 0 else low)
        case _:
            ends = [float(v) for v in (low, high)]
            away = [abs(Fraction(v) - exact) for v in ends if not math.isinf(v)]
            if len(away) < 2 or away[0] == away[1]:
                even = [v for v in ends if not np.float32(v).view(np.uint32) & 1]
                return ends[0] if ends[0] == ends[1] else even[0]
            return ends[0] if away[0] < away[1] else ends[1]


@pytest.mark.parametrize("how", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("op", ["add", "mul", "fma", "div"])
def test_floats_are_rounded_once_and_as_told(op: str, how: str) -> None:
    some = [v for v in FLOATS if math.isfinite(v) and abs(v) < 1e20]
    rows = [(a, b, c) for a in some for b in some for c in some[2:5]]
    a, b, c = (np.array(v, np.float32) for v in zip(*rows, strict=True))
    got = run(f"{op}.{how}.f32", "f32 f32 f32 f32"[: 15 if op == "fma" else 11], a, b,
              *([c] if op == "fma" else []))  # fmt: skip
    for x, y, z, r in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist(), strict=True):
        if op == "div" and y == 0:
            continue
        fx, fy = Fraction(x), Fraction(y)
        exact = {"add": fx + fy, "mul": fx * fy, "fma": fx * fy + Fraction(z)}.get(op)
        exact = fx / fy if exact is None else exact
        if abs(exact) < 3e38:
            assert r == rounded(exact, how), (x, y, z)


def test_min_and_max_drop_a_nan_unless_told() -> None:
    x = np.array([1.0, math.nan, math.nan, -0.0], np.float32)
    y = np.array([math.nan, 2.0, math.nan, 0.0], np.float32)
    least, most = (run(f"{op}.f32", "f32 f32 f32", x, y) for op in ("min", "max"))
    np.testing.assert_array_equal(least, np.array([1, 2, math.nan, 0], np.float32))
    assert np.signbit(least).tolist()[3]
    assert not np.signbit(most).tolist()[3]
    assert np.isnan(run("max.NaN.f32", "f32 f32 f32", x, y)).tolist() == [True, True, True, False]


@pytest.mark.parametrize("op", ["add", "mul", "min", "max"])
def test_arithmetic_has_one_nan(op: str) -> None:
    bits = np.array([0xFFC00000, 0x7FC00001, 0xFFFFFFFF], np.uint32)
    x, y = bits.view(np.float32), bits[::-1].copy().view(np.float32)
    for a, b in ((x, y), (y, x)):
        found = run(f"{op}.f32", "f32 f32 f32", a, b).view(np.uint32)
        assert set(found.tolist()) == {0x7FFFFFFF}
    half = np.array([0xFE00, 0x7E01], np.uint16)
    assert set(run(f"{op}.f16", "b16 b16 b16", half, half).tolist()) == {0x7FFF}
    pair = np.array([0xFE00FE00], np.uint32)
    assert run(f"{op}.f16x2", "b32 b32 b32", pair, pair).tolist() == [0x7FFF7FFF]


def test_a_nan_is_kept_by_copies_and_signs_and_in_f64() -> None:
    x = np.array([0xFFC00001], np.uint32).view(np.float32)
    assert run("mov.b32", "f32 f32", x).view(np.uint32).tolist() == [0xFFC00001]
    assert run("abs.f32", "f32 f32", x).view(np.uint32).tolist() == [0x7FC00001]
    wide = np.array([0x7FF8000000000005], np.uint64).view(np.float64)
    found = run("add.f64", "f64 f64 f64", wide, np.ones(1)).view(np.uint64).tolist()
    assert found == [0x7FF8000000000005]
    narrow = run("cvt.rn.f32.f64", "f32 f64", -wide).view(np.uint32).tolist()
    assert narrow == [0x7FFFFFFF]


def test_conversions_round_and_clamp() -> None:
    x = np.array([0.5, 1.5, -2.5, 3e9, -3e9, math.nan, math.inf, 300.7], np.float32)
    nearest = run("cvt.rni.s32.f32", "s32 f32", x).tolist()
    assert nearest == [0, 2, -2, 2**31 - 1, -(2**31), 0, 2**31 - 1, 301]
    assert run("cvt.rzi.u32.f32", "u32 f32", x).tolist()[2:5] == [0, 3_000_000_000, 0]
    wide = x.astype(np.float64)
    assert run("cvt.rzi.s64.f64", "s64 f64", wide).tolist()[5:7] == [-(2**63), 2**63 - 1]
    ints = np.array([0, -1, 16777217, 2**31 - 1, -(2**31)], np.int32)
    assert run("cvt.rz.f32.s32", "f32 s32", ints).tolist()[2:4] == [16777216.0, 2147483520.0]
    assert run("cvt.sat.u8.s32", "u8 s32", ints).tolist() == [0, 0, 255, 255, 0]
    assert run("cvt.s64.s32", "s64 s32", ints).tolist() == ints.tolist()
    ties = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 5 * 2**-9], np.float32)  # the last is none
    assert run("cvt.rn.bf16.f32", "b16 f32", ties).tolist() == [0x3F80, 0x3F82, 0x3F81]


def test_eight_bit_floats_are_clamped_to_the_largest() -> None:
    x = np.array([1.0, 448.0, 1000.0, -0.5, 2**-9], np.float32)
    small = run("cvt.rn.satfinite.e4m3x2.f32", "b16 f32 f32", x[::-1].copy(), x)
    assert [v & 0xFF for v in small.tolist()] == [0x38, 0x7E, 0x7E, 0xB0, 0x01]
    assert [v >> 8 for v in small.tolist()] == [0x01, 0xB0, 0x7E, 0x7E, 0x38]
    back = run("cvt.rn.f16x2.e4m3x2", "b32 b16", small).view(np.float16)[::2]
    assert back.tolist() == [1.0, 448.0, 448.0, -0.5, 2**-9]
    assert run("cvt.rn.satfinite.e5m2x2.f32", "b16 f32 f32", x, x)[2] == 0x6464


@pytest.mark.parametrize(("how", "sign"), [("rm", -1), ("rp", 1)])
def test_fma_of_f64_is_rounded_down_and_up(how: str, sign: int) -> None:
    some = [1 + 2**-52, -1.5, 3.0, 0.1, 1e-9, -7e8]
    rows = [(a, b, c) for a in some for b in some for c in some]
    a, b, c = (np.array(v, np.float64) for v in zip(*rows, strict=True))
    got = run(f"fma.{how}.f64", "f64 f64 f64 f64", a, b, c)
    for (x, y, z), r in zip(rows, got.tolist(), strict=True):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        assert (Fraction(r) - exact) * sign >= 0
        inward = math.nextafter(r, -sign * math.inf)
        assert Fraction(r) == exact or (Fraction(inward) - exact) * sign < 0


def test_less_usual_instructions() -> None:
    x = np.array([0x80000001, 0xF0, 0x12345678], np.uint32)
    assert run("fns.b32", "u32 u32", x, more=", 0, 2").tolist() == [31, 5, 4]
    assert run("szext.wrap.s32", "s32 s32", x.view(np.int32), more=", 4").tolist() == [1, 0, -8]
    f, g = np.array([1.0, -2.0, 3.0], np.float32), np.array([2.0, -3.0, 3.0], np.float32)
    assert run("set.lt.u32.f32", "u32 f32 f32", f, g).tolist() == [0xFFFFFFFF, 0, 0]
    assert run("set.lt.f32.f32", "f32 f32 f32", f, g).tolist() == [1.0, 0.0, 0.0]
    assert run("max.f32", "f32 f32 f32", f, g, more=", 0f40200000").tolist() == [2.5, 2.5, 3.0]
    assert run("min.xorsign.abs.f32", "f32 f32 f32", f, g).tolist() == [1.0, 2.0, 3.0]
    low, high = 2 * 3 + -1 * 4, 2 * 5 + -1 * 6
    halves, small = np.array([0xFFFF0002], np.uint32), np.array([0x06050403], np.uint32)
    assert run("dp2a.lo.s32.s32", "s32 u32 u32", halves, small, more=", 10").tolist() == [low + 10]
    assert run("dp2a.hi.s32.s32", "s32 u32 u32", halves, small, more=", 10").tolist() == [high + 10]


@pytest.mark.parametrize(
    ("op", "want"), [("eq", [1, 0, 0]), ("ne", [0, 0, 0]), ("neu", [0, 1, 1]), ("num", [1, 0, 0])]
)
def test_comparisons_with_nan(op: str, want: list[int]) -> None:
    x = np.array([1.0, math.nan, 2.0], np.float32)
    y = np.array([1.0, 1.0, math.nan], np.float32)
    chosen = f".reg .pred %p; setp.{op}.f32 %p, %v0, %v1; .reg .b32 %s; selp.u32 %s, 1, 0, %p;"
    assert run(f"{chosen} lop3.b32", "u32 f32 f32", x, y, more=", %s, 0xAA").tolist() == want


def test_what_is_not_known_is_named_with_its_line() -> None:
    text = ".visible .entry k() {\n  .reg .b32 %r<2>;\n\n  tcgen05.alloc.b32 %r1, %r0;\n ret;\n}"
    with pytest.raises(DidymaError, match=r"line 4 of the PTX.*\n.*tcgen05.alloc") as e:
        launch(Kernel(parse(text), "k"), Shape((1, 1, 1), (1, 1, 1)), [], [])
    with pytest.raises(DidymaError, match="line 4 of the PTX"):
        Kernel(parse(text.replace("tcgen05", "frobnicate")), "k")
    newer = Kernel(parse(text.replace("tcgen05.alloc.b32 %r1", "not.frob.b32 %r1")), "k")
    with pytest.raises(DidymaError, match=r"line 4 of the PTX.*\n.*no modifier \.frob is known"):
        launch(newer, Shape((1, 1, 1), (1, 1, 1)), [], [])
    lost = Kernel(parse(text.replace("tcgen05.alloc.b32 %r1, %r0", "bra AWAY")), "k")
    with pytest.raises(DidymaError, match=r"line 4 of the PTX.*\n.*no label AWAY"):
        launch(lost, Shape((1, 1, 1), (1, 1, 1)), [], [])
    skipped = text.replace("tcgen05", "bra END;\n tcgen05").replace(" ret;", "END: ret;")
    assert not launch(Kernel(parse(skipped), "k"), Shape((1, 1, 1), (1, 1, 1)), [], []).reports
    assert e.value.code == "unknown-instruction"
    with pytest.raises(DidymaError, match="unknown-kernel"):
        Kernel(parse(text), "other")
    for broken, line in (
        (".visible .entry k() {\n  mov.u32 %r1, 0;\n}", 2),
        (".visible .entry k() {\n  ret;", 2),
        ("\n.global .q17 x;", 2),
        ("\n.version 10.0\n", 2),
        ("\n.version 9.6\n", 2),
        ("\n.address_size 32\n", 2),
    ):
        with pytest.raises(DidymaError, match=f"line {line} of the PTX") as e:
            parse(broken, (9, 5))
        assert e.value.code == "bad-ptx"


def test_lines_are_those_of_the_source_through_inlining() -> None:
    text = """
.visible .entry k() {
  .reg .b32 %r<2>;
  .loc 1 9 3
  mov.u32 %r0, 1;
  .loc 2 4 5, function_name $s, inlined_at 1 9 3
  mov.u32 %r1, 2;
  ret;
}
.file 1 "/src/k.cu"
.file 2 "/src/helper.cuh"
"""
    first, second, _ = parse(text).functions["k"].instrs
    assert (first.loc and first.loc.file, first.loc and first.loc.line) == ("k.cu", 9)
    assert second.loc
    assert second.loc.outer == first.loc
    assert (second.loc.file, second.loc.line) == ("helper.cuh", 4)


PARTS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "min": min,
    "max": max,
    "vsub": lambda a, b: a - b,
    "vavrg": lambda a, b: math.floor(Fraction(a + b + 1, 2)),
    "vabsdiff": lambda a, b: abs(a - b),
}


def _narrow(value: int, bits: int, sign: str) -> int:
    value %= 1 << bits
    return value - (1 << bits) if sign == "s" and value >> (bits - 1) else value


@pytest.mark.parametrize("sign", ["s", "u"])
@pytest.mark.parametrize("op", PARTS)
def test_packed_integers(op: str, sign: str) -> None:
    words = [0, 0x7FFF8000, 0x80017FFF, 0xFFFF0001, 0x80FF7F01, 0x00FE8081]
    pairs_ = [(a, b) for a in words for b in words]
    given = [np.array(side, np.uint32) for side in zip(*pairs_, strict=True)]
    for count in (2, 4) if op[0] == "v" else (2,):
        bits = 32 // count
        name = f"{op}{count}.{sign}32.{sign}32.{sign}32" if op[0] == "v" else f"{op}.{sign}16x2"
        more = ", 5" if op[0] == "v" else ""
        got = run(name, "b32 b32 b32", *given, more=more)
        sums = run(f"{name}.add", "b32 b32 b32", *given, more=more) if more else got
        for (a, b), word, total in zip(pairs_, got.tolist(), sums.tolist(), strict=True):
            parts = [
                PARTS[op](*(_narrow(x >> at, bits, sign) for x in (a, b)))
                for at in range(0, 32, bits)
            ]
            want = sum((p % (1 << bits)) << (bits * k) for k, p in enumerate(parts))
            assert word == want, (name, hex(a), hex(b))
            assert not more or total == (sum(parts) + 5) % (1 << 32), (name, hex(a), hex(b))


NAMED = {  # by the ISA's table: the bytes of a result from the upper to the lower, by selector
    "f4e": "3210 4321 5432 6543", "b4e": "5670 6701 7012 0123", "rc8": "0000 1111 2222 3333",
    "ecl": "3210 3211 3222 3333", "ecr": "0000 1110 2210 3210", "rc16": "1010 3232 1010 3232",
}  # fmt: skip


@pytest.mark.parametrize("mode", NAMED)
def test_bytes_are_permuted_in_ways_that_have_a_name(mode: str) -> None:
    selectors = np.arange(8, dtype=np.uint32)
    a, b = (np.full(8, v, np.uint32) for v in (0x13121110, 0x17161514))
    got = run(f"prmt.b32.{mode}", "u32 u32 u32 u32", a, b, selectors)
    for s, v in zip(selectors.tolist(), got.tolist(), strict=True):
        chosen = NAMED[mode].split()[s & 3]
        assert f"{v:08x}" == "".join("1" + digit for digit in chosen)


@pytest.mark.parametrize("sign", ["s32", "u32"])
def test_products_of_24_bits(sign: str) -> None:
    values = (0, 1, 0x7FFFFF, 0x800000, 0xFFFFFF, 0x1000003, 0xFFFFFFFF, 0x12345678)
    a, b = (x.reshape(-1) for x in np.meshgrid(*[np.array(values, np.uint32)] * 2))
    low = [[v & 0xFFFFFF for v in x.tolist()] for x in (a, b)]
    if sign == "s32":
        low = [[v - (1 << 24) if v >> 23 else v for v in x] for x in low]
    for how, shift in (("lo", 0), ("hi", 16)):
        want = [(u * v >> shift) & 0xFFFFFFFF for u, v in zip(*low, strict=True)]
        kinds = f"{sign} {sign} {sign}"
        given = [x.view(dtype(sign)) for x in (a, b)]
        assert run(f"mul24.{how}.{sign}", kinds, *given).view(np.uint32).tolist() == want
        more = [(w + u) & 0xFFFFFFFF for w, u in zip(want, a.tolist(), strict=True)]
        got = run(f"mad24.{how}.{sign}", f"{kinds} {sign}", *given, given[0])
        assert got.view(np.uint32).tolist() == more
    if sign == "s32":
        exact = [(u * v >> 16) + w for u, v, w in zip(*low, given[0].tolist(), strict=True)]
        got = run("mad24.hi.sat.s32", f"{kinds} s32", *given, given[0])
        assert got.tolist() == [min(max(v, -(2**31)), 2**31 - 1) for v in exact]


def test_numbers_are_clamped_and_packed() -> None:
    a, b = np.array([300, -300, 5], np.int32), np.array([-1, 100, 70000], np.int32)
    c = np.array([0xABCD1234, 7, 0], np.uint32)
    halves = run("cvt.pack.sat.s16.s32", "u32 s32 s32", a, b).tolist()
    assert halves == [300 << 16 | 0xFFFF, 0xFED4 << 16 | 100, 5 << 16 | 0x7FFF]
    bytes_ = run("cvt.pack.sat.u8.s32.b32", "u32 s32 s32 u32", a, b, c).tolist()
    assert bytes_ == [0x1234FF00, 7 << 16 | 100, 0x05FF]
    signed = run("cvt.pack.sat.s8.s32.b32", "u32 s32 s32 u32", a, b, c).tolist()
    assert signed == [0x12347FFF, 7 << 16 | 0x8064, 0x057F]


def test_predicates_of_halves_and_of_tables() -> None:
    pairs_ = np.array([1, 5], np.float16).view(np.uint32)
    text = (
        "{ .reg .pred %p, %q; setp.lt.f16x2 %p|%q, %v0, %v1; selp.b32 %out, 1, 0, %p; "
        "@%q add.u32 %out, %out, 2; }"
    )
    for y, want in (([2, 4], 1), ([0, 6], 2), ([2, 6], 3), ([1, 5], 0)):
        other = np.array(y, np.float16).view(np.uint32)
        assert run(text, "u32 u32 u32", pairs_, other, whole=True).tolist() == [want]
    for given, q, want in ((0, 0, 0), (0, 1, 1), (6, 0, 1)):
        text = (
            f"{{ .reg .pred %p, %q; setp.ne.u32 %q, {q}, 0; "
            "lop3.or.b32 _|%p, %v0, %v0, %v0, 0x80, %q; selp.b32 %out, 1, 0, %p; }"
        )
        assert run(text, "u32 u32", np.array([given], np.uint32), whole=True).tolist() == [want]


def test_128_bits_are_moved_and_swapped_at_once() -> None:
    x = np.array([5, 7], np.uint64)
    text = """{ .reg .b128 %b, %c, %d; .reg .b64 %e, %f, %w; bar.sync 0;
      ld.param.u64 %w, [p1]; ld.relaxed.gpu.global.b128 %b, [%w]; mov.b128 {%e, %f}, %b;
      add.u64 %e, %e, %i; mov.b128 %c, {%f, %e};
      atom.global.cas.b128 %d, [%w], %b, %c; mov.b128 {%e, %f}, %d; mov.b64 %out, %e; }"""
    assert run(text, "u64 u64", x, whole=True).tolist() == [5, 7]


def test_products_of_bits_count_those_that_differ_or_are_shared() -> None:
    a, b = np.random.default_rng(1).integers(0, 1 << 32, (2, 32), np.uint64).astype(np.uint32)
    rows, columns = (v.reshape(8, 4) for v in (a, b))  # of 128 bits
    at = np.arange(32)
    for how, f in (("xor", np.bitwise_xor), ("and", np.bitwise_and)):
        text = (
            f"{{ .reg .b32 %w; mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.{how}.popc "
            "{%out, %w}, {%v0}, {%v1}, {0, 0}; }"
        )
        want = np.bitwise_count(f(rows[at // 4], columns[at % 4 * 2])).sum(1)
        assert run(text, "s32 u32 u32", a, b, whole=True).tolist() == want.tolist()
