"""Faults planted in the prelude are seen by a check at its default settings, on one-op programs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import didyma as dd
from didyma.codegen.emit import prelude
from didyma.codegen.options import Options
from didyma.codegen.runtime import host
from didyma.codegen.runtime.hosttext import assemble
from didyma.commands.check import recorded
from didyma.commands.judge import Task, judge
from didyma.fuzz import replay
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.text import parse_module
from didyma.tracer.tracing import Program


@dataclass(frozen=True, slots=True)
class Planted:
    """An op, the types of its operands and of its result, and a fault that it shows.

    That is a definition of the host's prelude by name, and the text to change in it.  Each tensor
    has four elements.
    """

    op: str
    types: str
    name: str
    old: str
    new: str
    attrs: str = ""

    @property
    def program(self) -> Program:
        *operands, result = self.types.split()
        params = ", ".join(f"%x{i}: {t}[4]" for i, t in enumerate(operands))
        attrs = self.attrs or (f"dtype={result}" if self.op == "cast" else "")
        args = ", ".join([*(f"%x{i}" for i in range(len(operands))), *filter(None, [attrs])])
        out = result if "[" in result else f"{result}[4]"
        node = f"%y = {self.op}({args}) : {out}"
        text = f"module {{\n  func @main({params}) -> (%y) {{\n    {node}\n  }}\n}}"
        return Program(parse_module(text))


_ROW = "axes=(0,), keepdims=false"
_NAN = "if (a != a || b != b) return a + b;"
FAULTS = (
    Planted("maximum", "f32 f32 f32", "max__f32", _NAN, "if (a != a) return b;"),
    Planted("maximum", "f32 f32 f32", "max__f32", _NAN, "if (b != b) return a;"),
    Planted(
        "max", "f32 f32[]", "max__f32", _NAN, "if (a != a) return b; if (b != b) return a;", _ROW
    ),
    Planted("maximum", "f32 f32 f32", "max__f32", "signbit_f32(a) ? b : a", "a"),
    Planted("maximum", "f64 f64 f64", "max__f64", "signbit_f64(a) ? b : a", "b"),
    Planted("minimum", "f32 f32 f32", "min__f32", "signbit_f32(a) ? a : b", "b"),
    Planted("minimum", "f16 f16 f16", "min__f32", _NAN, "if (a != a) return b;"),
    Planted(
        "abs", "i8 i8", "abs_i8", "a < 0 ? neg_i8(a) : a", "a == -128 ? 127 : a < 0 ? neg_i8(a) : a"
    ),
    Planted(
        "abs",
        "i64 i64",
        "abs_i64",
        "return a < 0 ? neg_i64(a) : a;",
        "return a == neg_i64(a) ? 0 : a < 0 ? neg_i64(a) : a;",
    ),
    Planted(
        "bitwise_left_shift",
        "i32 i32 i32",
        "shl_i32",
        "(u32)b < 32 ? (i32)((u32)a << b) : (i32)0",
        "(i32)((u32)a << (b & 31))",
    ),
    Planted("bitwise_left_shift", "u64 u64 u64", "shl_u64", "(u64)b < 64", "(u64)b <= 64"),
    Planted("bitwise_left_shift", "i64 i64 i64", "shl_i64", "(u64)b < 64 ?", "b < 64 ?"),
    Planted("bitwise_right_shift", "i32 i32 i32", "shr_i32", "(u32)b < 32 ?", "(u32)b <= 32 ?"),
    Planted("bitwise_right_shift", "i8 i8 i8", "shr_i8", "a < 0 ? -1 : 0", "0"),
    Planted("bitwise_right_shift", "u32 u32 u32", "shr_u32", "(u32)b < 32 ?", "(u32)b <= 32 ?"),
    Planted(
        "floor_divide",
        "i32 i32 i32",
        "floordiv_i32",
        "if (b == 0) return 0;",
        "if (b == 0) return -1;",
    ),
    Planted(
        "floor_divide",
        "i64 i64 i64",
        "floordiv_i64",
        "if (b == -1) return (i64)(0 - (u64)a);",
        "if (b == -1) return a < -9223372036854775807ll ? 9223372036854775807ll : -a;",
    ),
    Planted("floor_divide", "i16 i16 i16", "floordiv_i16", "(i16)(q - 1)", "q"),
    Planted("trunc_divide", "u8 u8 u8", "truncdiv_u8", "b == 0 ? (u8)0", "b == 0 ? (u8)255"),
    Planted("remainder", "i32 i32 i32", "floormod_i32", "(r ^ b) < 0", "r < 0"),
    Planted(
        "remainder", "f32 f32 f32", "floormod_f32", "if (r == 0) return copysign_f32(0, b);", ""
    ),
    Planted(
        "floor_divide",
        "f32 f32 f32",
        "floordiv_f32",
        "if (b == 0) return a / b;",
        "if (b == 0) return 0;",
    ),
    Planted(
        "floor_divide",
        "f32 f32 f32",
        "floordiv_f32",
        "if (q == 0) return copysign_f32(0, a / b);",
        "",
    ),
    Planted(
        "floor_divide",
        "f32 f32 f32",
        "floordiv_f32",
        "if (r != 0 && (r < 0) != (b < 0)) q = q - 1;",
        "",
    ),
    Planted(
        "pow",
        "i32 i32 i32",
        "pow_i32",
        "if (b < 0) return a == 1 ? (i32)1 : a == -1 ? (i32)(b & 1 ? -1 : 1) : (i32)0;",
        "if (b < 0) return 0;",
    ),
    Planted(
        "pow",
        "f32 f32 f32",
        "pow_f32",
        "y == 0 || x == 1 ? (f32)1 : powf(x, y)",
        "exp_f32(y * log_f32(x))",
    ),
    Planted("cast", "f64 u64", "cast_f64_u64", "^ 1ull << 63", ""),
    Planted("cast", "f32 u64", "cast_f32_u64", "if (x < 9223372036854775808.0f)", "if (1)"),
    Planted(
        "cast",
        "f32 u64",
        "cast_f32_u64",
        "x >= 18446744073709551616.0f",
        "x > 18446744073709551616.0f",
    ),
    Planted("cast", "f32 i32", "cast_f32_i32", "x >= 2147483648.0f", "x > 2147483648.0f"),
    Planted(
        "cast",
        "f32 i64",
        "cast_f32_i64",
        "x >= 9223372036854775808.0f",
        "x > 9223372036854775808.0f",
    ),
    Planted("cast", "f32 i8", "cast_f32_i8", "if (x >= 128.0f) return 127ll;", ""),
    Planted("cast", "f32 u8", "cast_f32_u8", "if (!(x > 0)) return 0;", ""),
    Planted("cast", "u64 f32", "cast_u64_f32", "(x >> 1 | (x & 1))", "(x >> 1)"),
    Planted("cast", "u64 f64", "cast_u64_f64", "(x >> 1 | (x & 1))", "(x >> 1)"),
    Planted("cast", "u64 f64", "cast_u64_f64", "(i64)x >= 0 ?", "1 ?"),
    Planted("cast", "i64 f32", "cast_i64_f32", "((f32)(x))", "((f32)(double)(x))"),
    Planted("cast", "i32 f32", "cast_i32_f32", "((f32)(x))", "((f32)((x) / 2 * 2))"),
    Planted("cast", "i32 f64", "cast_i32_f64", "((f64)(x))", "((f64)(float)(x))"),
    Planted("cast", "f32 f16", "cast_f32_f16", "a >= 0x477ff000u", "a >= 0x7f800000u"),
    Planted("cast", "f32 f16", "cast_f32_f16", "+ 0xfffu + (a >> 13 & 1u)", "+ 0x1000u"),
    Planted(
        "cast", "f32 f16", "cast_f32_f16", "rest == 0x80000000u && (r & 1u)", "rest == 0x80000000u"
    ),
    Planted("cast", "f32 bf16", "cast_f32_bf16", "0x7fffu + (u >> 16 & 1u)", "0x8000u"),
    Planted(
        "cast",
        "f32 bf16",
        "cast_f32_bf16",
        "return (bf16)(u >> 16 | 0x40u);",
        "return (bf16)(u >> 16);",
    ),
    Planted("cast", "f32 f8e4m3", "cast_f32_f8e4m3", "r > 0x7fu ? 0x7fu : r", "r"),
    Planted(
        "cast", "f32 f8e5m2", "narrowed__", "rest == 0x80000000u && (r & 1u)", "rest == 0x80000000u"
    ),
    Planted("cast", "f32 f8e4m3", "narrowed__", "- 1u + (r >> (23u - m) & 1u)", ""),
    Planted("cast", "f32 f8e8m0", "cast_f32_f8e8m0", "a == 0 ||", ""),
    Planted("cast", "f16 f32", "cast_f16_f32", "sign ? -tiny : tiny", "tiny"),
    Planted("cast", "f16 f32", "cast_f16_f32", "if (e == 31) return", "if (0) return"),
    Planted("cast", "f32 bool", "cast_f32_b8", "(x) != 0", "(x) > 0"),
    Planted("round", "f32 f32", "round_f32", "rintf(x)", "floorf(x + 0.5f)"),
    Planted("round", "f64 f64", "round_f64", "rint(x)", "(f64)(i64)(x + (x < 0 ? -0.5 : 0.5))"),
    Planted("trunc", "f32 f32", "trunc_f32", "truncf(x)", "(f32)(i32)x"),
    Planted("floor", "f32 f32", "floor_f32", "floorf(x)", "(f32)(i64)x"),
    Planted("ceil", "f32 f32", "ceil_f32", "ceilf(x)", "-floor_f32(-x) + 0.0f"),
    Planted("atan2", "f32 f32 f32", "atan2_f32", "atan2f(x, y)", "atan_f32(x / y)"),
    Planted("isinf", "f32 bool", "isinf_f32", "|| x == -inf_f32()", ""),
    Planted("signbit", "f32 bool", "signbit_f32", "(b8)(bits__f32(x) >> (32 - 1))", "x < 0"),
    Planted("fmod", "f32 f32 f32", "truncmod_f32", "fmodf(x, y)", "(x - y * truncf(x / y))"),
    Planted("expm1", "f32 f32", "expm1_f32", "expm1f(x)", "(expf(x) - 1)"),
    Planted("log1p", "f32 f32", "log1p_f32", "log1pf(x)", "logf(1 + x)"),
    Planted("sqrt", "f32 f32", "sqrt_f32", "sqrtf(x)", "(x == 0 ? 0 : sqrtf(x))"),
    Planted(
        "copysign",
        "f32 f32 f32",
        "copysign_f32",
        "copysignf(x, y)",
        "(y < 0 ? -fabsf(x) : fabsf(x))",
    ),
    Planted("subtract", "i32 i32 i32", "sub_i32", "(u32)(a) - (u32)(b)", "(u32)(a) + ~(u32)(b)"),
    Planted("multiply", "i64 i64 i64", "mul_i64", "(u64)(a) * (u64)(b)", "(u32)(a) * (u64)(b)"),
    Planted("minimum", "u64 u64 u64", "min_u64", "b < a", "(i64)b < (i64)a"),
    Planted("maximum", "i64 i64 i64", "max_i64", "a < b", "(i32)a < (i32)b"),
)


@pytest.fixture
def planted(fault: Planted, monkeypatch: pytest.MonkeyPatch) -> Planted:
    real = prelude.load

    def load(target: prelude.Target) -> prelude.Prelude:
        whole = real(target)
        before = whole.definitions[fault.name]
        assert fault.old in before, before
        after = before.replace(fault.old, fault.new)
        return replace(
            whole, definitions=MappingProxyType({**whole.definitions, fault.name: after})
        )

    monkeypatch.setattr(prelude, "load", load)
    return fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f"{f.op} {f.name}: {f.new or f.old}")
def test_a_fault_in_the_prelude_is_found(planted: Planted) -> None:
    report = dd.check(planted.program)
    assert {f.level for f in report.findings} == {"host"}, report


@pytest.mark.parametrize("op", sorted({f.op for f in FAULTS}))
def test_without_a_fault_all_agree(op: str) -> None:
    fault = next(f for f in FAULTS if f.op == op)
    report = dd.check(fault.program)
    assert report.agree, report
    assert len(report.setting.rounds) > 10


INVERTED = """module {
  func @main(%x: u8[4]) -> (%z) {
    %y = bitwise_invert(%x) : u8[4]
    %z = cast(%y, dtype=i32) : i32[4]
  }
}"""


def test_an_inverse_that_stays_promoted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def promoted(text: KernelText, *rest: Any) -> Any:
        assert "(u8)(~" in text.source
        return assemble(replace(text, source=text.source.replace("(u8)(~", "(~")), *rest)

    monkeypatch.setattr(host, "assemble", promoted)
    report = dd.check(Program(parse_module(INVERTED)))
    assert {f.level for f in report.findings} == {"host"}, report


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.name in ("cast_f64_u64", "shl_u64")])
def test_the_round_that_disagrees_is_saved_with_its_values(
    planted: Planted, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.dym"
    task = Task(planted.program.module, {}, 3, ("host",), Options())
    seen = judge(task, lambda _: None)
    assert seen.round is not None
    assert seen.round.number == len(seen.report.setting.rounds) - 1
    replay.save(kept, recorded(task, seen))
    r = replay.load(kept)
    again = judge(Task(r.module, r.env, r.seeds, r.engines, r.options, given=r.values), print)
    assert again.report.findings == seen.report.findings
    assert len(again.report.setting.rounds) == 1
