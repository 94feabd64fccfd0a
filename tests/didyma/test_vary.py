"""``didyma sanitize`` with other values of arguments: ranges, null pointers, other guesses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.parameters import uses
from didyma.codegen.runtime.ptx.shape import Shape
from didyma.codegen.runtime.ptx.text import parse
from didyma.commands import vary
from didyma.commands.sanitize import Request, sanitize
from didyma.refimpl.errors import DidymaError

# Thread n alone stores y[n + far]; where x is a pointer, x[0] is added.
ONE = """
.visible .entry one(.param .u64 x, .param .u64 y, .param .u32 n, .param .u32 far) {
  .reg .pred %p; .reg .b32 %i, %n, %far, %v; .reg .b64 %at, %x, %y;
  mov.u32 %i, %tid.x; ld.param.u32 %n, [n]; ld.param.u32 %far, [far];
  setp.ne.u32 %p, %i, %n; @%p ret;
  ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; mov.u32 %v, 0;
  setp.eq.s64 %p, %x, 0; @%p bra STORE;
  ld.global.u32 %v, [%x];
STORE:
  add.u32 %n, %n, %far; mul.wide.u32 %at, %n, 4; add.u64 %y, %y, %at; st.global.u32 [%y], %v;
  ret;
}
"""
BLIND = ONE.replace("@%p bra STORE;", "")


def judged(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, *args: str
) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    path = folder / "one.ptx"
    path.write_text(text, encoding="utf-8")
    asked = Request(path, "one", "1", "40", args, 0, (), (), 1, 1, 10.0)
    sanitize(asked, True)
    found = json.loads(capsys.readouterr().out)
    return [(f["kind"], f["where"]) for f in found["findings"]], found


def test_a_fault_that_other_numbers_show_is_found_with_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ("x=u32[1]", "y=zero:u32[30]", "n=u32:0..64", "far=u32:0")
    found, record = judged(tmp_path, capsys, ONE, *args)
    assert found == [("out-of-bounds", "n is 39")]
    assert record["varied"] == [f"n is {n}" for n in (0, 1, 39, 40, 41, 63)]
    assert judged(tmp_path, capsys, ONE, *args[:2], "n=u32:0..29", args[3])[0] == []
    assert judged(tmp_path, capsys, ONE, *args[:2], "n=u32:64", args[3])[0] == []


def test_a_pointer_may_be_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("u32[1]:or-null", "y=zero:u32[30]", "n=u32:0", "far=u32:0")
    assert judged(tmp_path, capsys, ONE, *args)[0] == []
    assert judged(tmp_path, capsys, BLIND, *args)[0] == [("out-of-bounds", "1 is null")]


def test_other_guesses_show_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, record = judged(tmp_path, capsys, ONE)
    assert found == []
    assert record["varied"] == [
        *(f"n, far are {n}" for n in (39, 41, 1)), "x is null"
    ]  # fmt: skip
    assert judged(tmp_path, capsys, BLIND)[0] == [("out-of-bounds", "x is null")]
    step = "add.u32 %n, %n, %far; mul.wide.u32 %at, %n, 4"
    skewed = ONE.replace(step, "add.u32 %n, %n, 3; mul.wide.u32 %at, %n, 1")
    assert judged(tmp_path, capsys, skewed)[0] == [("misaligned", "n, far are 39")]


def test_ends_of_ranges_are_tried_together() -> None:
    items = ["s={n=i32:1..9,x=f32[9]}", "m=i32:2..3"]
    assert vary.first(items) == ["s={n=i32:9,x=f32[9]}", "m=i32:3"]
    others = [*vary.given(items, Shape((1, 1, 1), (64, 1, 1)))]
    assert [(o.where, o.items[0][:10], o.items[1]) for o in others] == [
        ("n is 1", "s={n=i32:1", "m=i32:3"), ("n is 2", "s={n=i32:2", "m=i32:3"),
        ("n is 8", "s={n=i32:8", "m=i32:3"), ("m is 2", "s={n=i32:9", "m=i32:2"),
        ("n, m are the least", "s={n=i32:1", "m=i32:2"),
    ]  # fmt: skip
    with pytest.raises(DidymaError, match="bad-option"):
        vary.first(["n=i32:9..0"])


def test_what_parameters_are_for_is_read_off_the_code() -> None:
    def found(text: str) -> list[set[str]]:
        return [{*names} for names in uses(Kernel(parse(text), "one").program)]

    assert found(ONE) == [{"x", "y", "n", "far"}, {"n", "far"}, {"x"}]
    apart = ONE.replace("add.u32 %n, %n, %far;", "mov.u32 %v, %far;")
    assert found(apart) == [{"x", "y", "n"}, {"n"}, {"x"}]
    assert found(apart.replace("setp.ne.u32", "setp.ge.u32")) == [{"x", "y", "n"}, set(), {"x"}]
