"""The domain of emission: its kernels are lawful, engines agree on them, and slips are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from didyma.codegen.emit import cuda
from didyma.codegen.emit.expressions import Expressions
from didyma.codegen.emit.statements import Statements
from didyma.codegen.emit.terms import Term
from didyma.codegen.runtime.engine import Loaded
from didyma.codegen.runtime.registry import engine
from didyma.fuzz.campaign import Plan, run
from didyma.fuzz.domains.emission import Emission, keys, reads_behind_guards
from didyma.fuzz.emission.forms import draw
from didyma.fuzz.emission.judge import differing, judge
from didyma.fuzz.executor import InlineExecutor
from didyma.fuzz.records import record
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.loop import (
    BINARY_OPS,
    COMPARE_OPS,
    UNARY_OPS,
    Binary,
    Const,
    Expr,
    Intrinsic,
    Load,
    Select,
)
from didyma.refimpl.ir.target import SM_90A
from didyma.refimpl.ir.text import parse_loop, show
from didyma.refimpl.ir.types import BYTES, INTS, DType
from didyma.refimpl.ir.walk import certain_children, exprs
from didyma.refimpl.verify import loop as laws


def test_kernels_are_lawful_and_print_and_parse() -> None:
    for seed in range(40):
        kernel = draw(Random(seed)).kernel
        laws.verify(kernel, SM_90A)
        assert parse_loop(show(kernel)) == (kernel,)


def test_one_seed_and_index_give_one_kernel() -> None:
    d = Emission(("host",))
    assert d.draw(3, 7) == d.draw(3, 7)
    assert d.draw(3, 7) != d.draw(3, 8)
    assert d.draw(3, 7) != d.draw(4, 7)


def test_engines_do_what_the_interpreter_does() -> None:
    engines = [engine("host"), engine("simt")]
    for seed in range(30):
        found = judge(draw(Random(seed)), engines)
        assert [str(f) for f in found.findings] == []
        assert found.total > 0


def test_every_operator_and_conversion_is_written() -> None:
    cases = (draw(Random(seed)) for seed in range(600))
    written = {k[0] for case in cases for k in keys(case) if len(k) == 1}
    by_op = {w.split()[0] for w in written}
    assert {*BINARY_OPS, *COMPARE_OPS, *UNARY_OPS} <= by_op
    assert {f"{op} {d}" for op in ("floordiv", "truncmod", "shl", "pow") for d in INTS} <= written
    casts = {f"{a} to {b}" for a in BYTES for b in BYTES}
    assert len(casts & written) > 0.9 * len(casts)
    assert {"While", "If", "Let", "Atomic", "Call", "Barrier", "For vectorized"} <= written
    assert {"ramp", "broadcast"} <= by_op
    assert {"Evaluate", "Prefetch", "AttrStmt", "Assert"} <= written


@pytest.mark.parametrize("off", [0, -1, 1])
def test_lines_that_do_not_show_their_statement_are_found(
    off: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = cuda.emit

    def moved(*given: Any, **named: Any) -> KernelText:
        made = written(*given, **named)
        last = made.source.count("\n")
        return replace(made, origins=tuple((min(n + off, last), s) for n, s in made.origins))

    monkeypatch.setattr(cuda, "emit", moved)
    found = [f for i in range(12) for f in judge(draw(Random(i)), []).findings]
    assert {f.kind for f in found} == ({"lines"} if off else set())


def test_reads_behind_guards_are_drawn_and_seen_by_simt(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [c for c in (draw(Random(seed)) for seed in range(60)) if reads_behind_guards(c)]
    assert len(cases) > 2

    def unguarded(e: Expr) -> tuple[Expr, ...]:
        return (e.cond, e.then) if isinstance(e, Select) else certain_children(e)

    monkeypatch.setattr("didyma.codegen.emit.wide.certain_children", unguarded)
    levels = {str(f.kind) for c in cases for f in judge(c, [engine("simt")]).findings}
    assert levels == {"fault"}


def _unrounded(e: Expr) -> Expr:
    """Fold literals without rounding what is inside."""
    if not isinstance(e, Binary) or not e.dtype.is_float or e.op not in ("add", "sub", "mul"):
        return e
    a, b = _unrounded(e.lhs), _unrounded(e.rhs)
    if not isinstance(a, Const) or not isinstance(b, Const):
        return e
    x, y = float(a.value), float(b.value)
    return Const({"add": x + y, "sub": x - y, "mul": x * y}[e.op], e.dtype)


def _hoisted(s: Statements) -> frozenset[str]:
    """Say of any buffer in device memory that wide loads of it may come before stores."""
    return frozenset(b.buffer.name for b in s.expressions.buffers.values())


_index = Expressions.index


def _read_again(x: Expressions, e: Expr) -> Term:
    """Say of any index that nothing changes it."""
    return _index(x, e)._replace(plain=True)


@pytest.mark.parametrize(
    ("place", "slip"),
    [
        ("expressions._folded", _unrounded),
        ("statements.Statements._vectors", _hoisted),
        ("expressions.Expressions.index", _read_again),
    ],
)
def test_what_loops_change_and_literals_round_is_drawn(
    monkeypatch: pytest.MonkeyPatch, place: str, slip: Callable[..., Any]
) -> None:
    cases, host = [draw(Random(seed)) for seed in range(40)], [engine("host")]
    assert not any(judge(c, host).findings for c in cases)
    monkeypatch.setattr(f"didyma.codegen.emit.{place}", slip)
    assert any(judge(c, host).findings for c in cases)


class Slipped:
    """Engine ``host`` with a slip in the text of kernels."""

    name = "host"

    def __init__(self, old: str, new: str) -> None:
        self.words = old, new
        self._host = engine("host")

    def __reduce__(self) -> tuple[type[Slipped], tuple[str, str]]:
        return Slipped, self.words

    def load(self, text: KernelText) -> Loaded:
        return self._host.load(replace(text, source=text.source.replace(*self.words)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("floordiv_i16(", "truncdiv_i16("),
        ("cast_f64_u8(", "(u8)("),
        (" <= ", " < "),
        ("ceil_f32(", "floor_f32("),
        ("-inf_f32()", "inf_f32()"),
    ],
)
def test_a_slip_in_the_text_is_found_and_made_small(old: str, new: str) -> None:
    slipped: Any = Slipped(old, new)
    d = Emission((slipped,))
    plan = Plan((d,), count=400, seed=2, stop_after=1, shrink_seconds=30.0)
    r = run(plan, executor=InlineExecutor())
    (g,) = r.groups
    assert (g.level, g.smallest.finding.kind) == ("host", "value")
    assert g.smallest.size[0] <= 24, show(g.smallest.case.kernel)
    assert record(r, [d])["findings"][0]["replay"].startswith("didyma fuzz --domain emission")


@pytest.mark.parametrize(
    ("want", "got", "dtype", "ulps", "wrong"),
    [
        (0.0, -0.0, DType.F32, 0.0, True),
        (0.0, -0.0, DType.F32, 8.0, True),
        (np.nan, -np.nan, DType.F32, 0.0, False),
        (np.nan, 1.0, DType.F32, 8.0, True),
        (np.inf, np.inf, DType.F64, 8.0, False),
        (np.inf, -np.inf, DType.F64, 8.0, True),
        (1.0, 1.0 + 2**-23, DType.F32, 0.0, True),
        (1.0, 1.0 + 2**-23, DType.F32, 1.0, False),
        (1.0, 1.0 + 2**-20, DType.F32, 4.0, True),
        (3, 3, DType.I8, 0.0, False),
        (3, 4, DType.I8, 8.0, True),
    ],
)
def test_numbers_that_differ(
    want: float, got: float, dtype: DType, ulps: float, wrong: bool
) -> None:
    a, b = (np.array([x], dtype.numpy) for x in (want, got))
    assert differing(a, b, dtype, ulps).tolist() == [wrong]


def test_signs_and_bits_are_those_of_inputs() -> None:
    """The sign and the payload of a NaN that was computed are open."""
    seen = 0
    for seed in range(300):
        kernel = draw(Random(seed)).kernel
        inputs = {b.name for b in kernel.params}
        for e in exprs(kernel.body):
            if isinstance(e, Intrinsic) and e.name in ("signbit", "copysign"):
                seen += 1
                assert isinstance(e.args[-1], Load)
                assert e.args[-1].buffer in inputs
    assert seen > 20
