"""The bench of real models judges what it finds in a folder, and lists what is refused."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from didyma.onnx.export import to_model
from didyma.refimpl.ir.text import parse_module
from tests.bench import real_models

TEXT = """module {
  dims n in [1, 64]
  func @main(%x: f32[n, 3]) -> (%y) {
    %y = exp(%x) : f32[n, 3]
  }
}"""


@pytest.mark.skipif(find_spec("onnxruntime") is None, reason="onnxruntime is absent")
def test_a_folder_is_judged_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "exp.onnx").write_bytes(to_model(parse_module(TEXT)).SerializeToString())
    (tmp_path / "none.onnx").write_bytes(b"no model")
    keep = tmp_path / "kept.jsonl"
    for _ in range(2):
        real_models.main([str(tmp_path), "--keep", str(keep), "--dim", "n=5"])
        out = capsys.readouterr().out
        (row,) = (line for line in out.splitlines() if line.startswith("| `exp.onnx`"))
        cells = [c.strip() for c in row.split("|")][1:-1]
        assert cells[1:4] == ["1", "n = 5", "1"]
        assert cells[6].split() == [
            "graph",
            "passes",
            "loop",
            "kernel",
            "plan",
            "program",
            "host",
            "simt",
        ]
        assert int(cells[7]) > 10
        assert cells[8] == "1.0000"
        assert 0 < float(cells[9]) < 1e-6
        assert cells[10:12] == ["agree", "1.0000, 1.0000"]
        assert "- `none.onnx`: onnx-broken: 8 bytes that are no ONNX model" in out
    assert len(keep.read_text().splitlines()) == 2
