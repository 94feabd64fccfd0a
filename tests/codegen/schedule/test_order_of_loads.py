"""Kernels of rows do not depend on the seed of Python's hashes."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.mutants.mutant import ROOT

SCRIPT = """
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.schedule.dispatch import points, schedule
from didyma.refimpl.ir.text import parse_module, show
m = parse_module('''
module {
  func @main(%x: f32[2, 6, 6]) -> (%d) {
    %t = permute_dims(%x, axes=(0, 2, 1)) : f32[2, 6, 6]
    %a = add(%x, %t) : f32[2, 6, 6]
    %m = max(%a, axes=(2,), keepdims=true) : f32[2, 6, 1]
    %c = subtract(%a, %m) : f32[2, 6, 6]
    %e = exp(%c) : f32[2, 6, 6]
    %s = sum(%e, axes=(2,), keepdims=true) : f32[2, 6, 1]
    %d = divide(%e, %s) : f32[2, 6, 6]
  }
}
''')
for loop in compile(m, until="lower").loops.values():
    last = {tuple(p.recipe for p in way): way for way in points(loop, Options())}
    for way in last.values():
        print(*map(show, schedule(loop, Options(), way)))
"""


def test_two_loads_of_one_buffer_have_one_order() -> None:
    texts = {
        subprocess.run(
            (sys.executable, "-c", SCRIPT), cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(texts) == 1
    assert "x_some_1[" in texts.pop()
