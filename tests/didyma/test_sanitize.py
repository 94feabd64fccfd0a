"""``didyma sanitize`` on the command line: findings, exit codes and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from didyma.commands.sanitize import Request, arguments, sanitize
from didyma.refimpl.errors import DidymaError

COPY = """
.visible .entry copy(.param .u64 x, .param .u64 y, .param .u32 n) {
  .reg .pred %p; .reg .b32 %i, %n, %v; .reg .b64 %at, %x, %y;
  mov.u32 %i, %tid.x;
  ld.param.u32 %n, [n];
  setp.GE.u32 %p, %i, %n;
  @%p ret;
  ld.param.u64 %x, [x];
  ld.param.u64 %y, [y];
  mul.wide.u32 %at, %i, 4;
  add.u64 %x, %x, %at;
  add.u64 %y, %y, %at;
  ld.global.u32 %v, [%x];
  st.global.u32 [%y], %v;
  ret;
}
"""


def judged(folder: Path, text: str, *args: str, schedules: int = 2) -> int:
    path = folder / "copy.ptx"
    path.write_text(text, encoding="utf-8")
    asked = Request(path, "copy", "1", "40", args, 0, (), (), schedules, 1, 10.0)
    return sanitize(asked, True)


def test_findings_have_lines_of_the_ptx(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right, wrong = COPY.replace("GE", "ge"), COPY.replace("GE", "gt")
    args = ("x=f32[33]", "y=out:f32[33]", "n=u32:33")
    assert judged(tmp_path, right, *args) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []
    assert judged(tmp_path, wrong, *args) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "faulty"
    rows = [(f["kind"], f["line"], f["source"]) for f in found["findings"]]
    assert rows == [
        ("out-of-bounds", 13, "ld.global.u32 %v, [%x];"),
        ("out-of-bounds", 14, "st.global.u32 [%y], %v;"),
    ]
    assert judged(tmp_path, right, "x=f32[33]", "y=out:f32[34]", "n=u32:33") == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["kind"] == "unwritten"
    assert judged(tmp_path, right, *args, schedules=0) == 5


def test_arguments_are_read_and_drawn(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.arange(6, dtype=np.float64))
    items = [
        "i=i32[50]", "r=u8[9]:3..5", "y=out:f16[2]", "z=zero:f32[7]", "a=f64:-2.5",
        f"v={tmp_path / 'v.npy'}",
    ]  # fmt: skip
    i, r, y, z, a, v = arguments(items, 3)
    assert set(i.value.tolist()) == {0, 1}, "valid in the smallest array"
    assert set(r.value.tolist()) <= {3, 4, 5}
    assert y.output
    assert np.isnan(y.value).all()
    assert not z.value.any()
    assert (a.value.ndim, float(a.value)) == (0, -2.5)
    assert v.value.tolist() == list(range(6))
    again = arguments(items, 3)
    assert all(
        p.value.tobytes() == q.value.tobytes() for p, q in zip((i, r), again[:2], strict=True)
    )


@pytest.mark.parametrize(
    ("item", "code"),
    [
        ("x", "bad-option"),
        ("x=f32", "bad-option"),
        ("x=f12[3]", "unknown-dtype"),
        ("n=i32:many", "bad-option"),
        ("n=u8:256", "bad-option"),
        ("x=absent.npy", "unreadable-file"),
    ],
)
def test_items_that_are_no_arguments_are_refused(item: str, code: str) -> None:
    with pytest.raises(DidymaError) as e:
        arguments([item], 0)
    assert e.value.code == code
