"""Loaders in C++ are read as C++ defines them, and what is wrong with them is found."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from didyma.codegen.emit.cpp_program import Cpp
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.fuzz import alone_loaded
from didyma.fuzz.allocator import wrappers
from didyma.fuzz.cpp import judge, syntax
from didyma.fuzz.cpp.machine import Fault, Machine
from didyma.fuzz.cpp.meaning import Run
from didyma.refimpl.interp.graph import bind
from didyma.refimpl.interp.memory_use import MemoryUse
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array
from tests.codegen.control.modules import module
from tests.codegen.order.test_control import inputs

WIDE = parse_module("""module {
  dims n in [1, 64]
  func @main(%x: f32[n, 50], %w: f32[50, 8]) -> (%y) {
    %b = constant(value=f32[8] [0.0, 1.0, 2.0, 3.0, -1.0, -2.0, -3.0, 0.5]) : f32[8]
    %t = matmul(%x, %w) : f32[n, 8]
    %c = broadcast_to(%b, shape=(n, 8)) : f32[n, 8]
    %s = cumulative_sum(%t, axis=0, exclusive=false, reverse=false) : f32[n, 8]
    %y = add(%s, %c) : f32[n, 8]
  }
}
""")


def told(name: str, architecture: str = "sm_90a") -> list[str]:
    """Return what is wrong with the loader of a program, by its results and by its launches."""
    m = WIDE if name == "wide" else module(name)
    c, use = compile(m, Options().changed({"memory.planner": "linear_scan"})), MemoryUse()
    r = np.random.default_rng(0)
    given: list[Array] = (
        [r.random((3, 50), np.float32), r.random((50, 8), np.float32)]
        if name == "wide"
        else list(inputs(m, 3))
    )
    want = wrappers.run(c.program, given, use)
    text = wrappers.text_of(c.program)
    loader = judge.Loader(c.program, text, architecture=architecture)
    found = [*judge.judged(loader, given, bind(m.entry, m, given), judge.Wanted.like(want, use))]
    return [*found, *alone_loaded.wrong(c, given, want)]


@pytest.mark.parametrize("name", ["wide", "branch", "swap", "grows", "stays"])
def test_nothing_is_found_where_nothing_is_wrong(name: str) -> None:
    assert not told(name)


@pytest.mark.parametrize("architecture", judge.CAPABILITIES)
def test_what_a_loader_demands_is_judged(
    architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not told("stays", architecture)
    header = Cpp.header

    def larger(self: Cpp) -> str:
        return header(self).replace("MAJOR = ", "MAJOR = 2")

    monkeypatch.setattr(Cpp, "header", larger)
    assert "it demands" in told("stays", architecture)[0]


@pytest.mark.parametrize(
    ("name", "of", "old", "new", "said"),
    [
        ("branch", "loader", r"(\w+) = \{\};", ";", "bytes are allocated at once"),
        ("wide", "loader", r"uint64_t\(s->n\)", "uint64_t(2)", ""),
        ("wide", "loader", r"\{(\w+)\.at, (\w+)\.at", r"{\2.at, \1.at", ""),
        ("wide", "loader", r"weights.data\(\) \+ (\d+)", "weights.data() + 8", "to the last bit"),
        (
            "wide",
            "loader",
            r"didyma::within\(.n., (.*), I.*, .*\);",
            r"\1;",
            "not dim-out",
        ),
        ("wide", "loader", r"!= want\)", "< want)", "it tells nothing"),
        ("wide", "header", r"grid\[0\] = .*;", "grid[0] = s->n;", "is launched as"),
        ("wide", "header", r"grid\[2\] = .*;", "", "is launched with"),
        ("wide", "header", r"block_(\w+)\[3\] = \{(\d+)", r"block_\1[3] = {1\2", "is launched as"),
        ("wide", "header", r"case 0: return .*;", "case 0: return 4;", ""),
        ("wide", "header", r"DIDYMA_EXACT = 1", "DIDYMA_EXACT = 0", "it demands"),
        ("branch", "loader", r"if \(d.read", "if (!d.read", ""),
        ("swap", "loader", r"if \(!d.read", "if (d.read", "step"),
        ("swap", "loader", r"d.driver.copy.*;", ";", "step"),
        ("grows", "loader", r"std::move\((moved\w*)\)", "{}", ""),
        ("stays", "loader", r"< end;", "<= end;", ""),
        ("grows", "loader", r"s->(\w+) = told\w*;", ";", ""),
    ],
)
def test_a_slip_is_found(
    name: str, of: str, old: str, new: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = getattr(Cpp, of)

    def slipped(self: Cpp) -> str:
        text: str = write(self)
        changed = re.sub(old, new, text)
        assert changed != text
        return changed

    monkeypatch.setattr(Cpp, of, slipped)
    found = told(name)
    assert found
    assert said in found[0]


def value_of(body: str) -> Any:
    """Return what a function of some statements returns."""
    unit = syntax.parse(f"int f(int a, int b) {{ {body} }}")
    return Run((unit,), Machine(lambda x, memory: None, {}, {})).call("f", (7, -2))


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("return a - b - 1;", 8),
        ("return a / b * 10 + a % b;", -29),
        ("return -a / -b;", -3),
        ("return a < 5 ? 1 : b < 0 ? 2 : 3;", 2),
        ("return !(a && b) || a == 7;", 1),
        ("int s = 0; for (int i = 0; i < a; ++i) { if (i == 3) break; s = s + i; } return s;", 3),
        ("int x = 1; { int x = 2; x = 3; } return x;", 1),
        ("for (;;) { a = a + b; if (a < 0) return a; }", -1),
        ("switch (a) { case 6: return 0; case 7: return 5; default: return 9; }", 5),
    ],
)
def test_statements_mean_what_cpp_says(body: str, want: int) -> None:
    assert value_of(body) == want


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("int x; return x;", "before it has a value"),
        ("return a / (b + 2);", "divided by 0"),
        ("return 9223372036854775807 + a;", "is no i64"),
        ("int row[2]; row[2] = 1;", "element 2 of 2"),
        ("return c;", "is not declared"),
    ],
)
def test_what_has_no_meaning_raises(body: str, said: str) -> None:
    with pytest.raises(Fault, match=re.escape(said)):
        value_of(body)
