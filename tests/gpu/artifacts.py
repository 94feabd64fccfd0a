"""Built programs on a machine with a GPU that has Python, NumPy and a C++ compiler, not Didyma.

    python3 -m tests.gpu.artifacts FOLDER      # with Didyma and NVRTC, on any machine
    python3 FOLDER/alone.py [--seconds 60]     # on the machine with the GPU

The first writes artifacts for ``sm_90a``, with inputs and, as the reference computes them, bars of
results.  The second is ``tests/gpu/alone.py``.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from didyma.artifacts import padded
from didyma.artifacts.build import Target, contents, write
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.refimpl.interp import graph
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops.bars import exact
from tests.codegen.control.modules import module

ARCHITECTURE = "sm_90a"
_AFFINE = """module {
  dims n in [1, 64]
  func @main(%x: f32[n, 50], %w: f32[50, 8]) -> (%y) {
    %b = constant(value=f32[8] [0.0, 1.0, 2.0, 3.0, -1.0, -2.0, -3.0, 0.5]) : f32[8]
    %t = matmul(%x, %w) : f32[n, 8]
    %c = broadcast_to(%b, shape=(n, 8)) : f32[n, 8]
    %y = add(%t, %c) : f32[n, 8]
  }
}"""
_PRODUCT = """module {
  func @main(%x: f16[1024, 2048], %w: f16[2048, 1024]) -> (%y) {
    %y = matmul(%x, %w) : f16[1024, 1024]
  }
}"""
_ROWS = """module {
  dims n in [1, 4096]
  func @main(%x: f16[3, n, 512], %w: f16[512, 1024]) -> (%y) {
    %y = matmul(%x, %w) : f16[3, n, 1024]
  }
}"""
_SOFTMAX = """module {
  dims n in [1, 4096]
  func @main(%x: f32[n, 1000]) -> (%y) {
    %m = max(%x, axes=(1,), keepdims=true) : f32[n, 1]
    %a = broadcast_to(%m, shape=(n, 1000)) : f32[n, 1000]
    %d = subtract(%x, %a) : f32[n, 1000]
    %e = exp(%d) : f32[n, 1000]
    %s = sum(%e, axes=(1,), keepdims=true) : f32[n, 1]
    %b = broadcast_to(%s, shape=(n, 1000)) : f32[n, 1000]
    %y = divide(%e, %b) : f32[n, 1000]
  }
}"""
_STREAMS = """module {
  func @main(%x: f32[8]) -> (%y, %z) {
    %a = sum(%x, axes=(0,), keepdims=true) : f32[1]
    %b = max(%x, axes=(0,), keepdims=true) : f32[1]
    %y = add(%a, %b) : f32[1]
    %z = exp(%x) : f32[8]
  }
}"""
_COLUMNS = """module {
  dims n in [1, 4096]
  func @main(%x: f32[n, 96], %w: f32[96, 32]) -> (%t, %m) {
    %t = matmul(%x, %w) : f32[n, 32]
    %m = mean(%t, axes=(0,), keepdims=false) : f32[32]
  }
}"""
PADDED = "padded"  # the program that pads its inputs to buckets
PROGRAMS: Mapping[str, tuple[Callable[[], Module], Mapping[str, object]]] = {
    "affine": (lambda: parse_module(_AFFINE), {}),
    "product": (lambda: parse_module(_PRODUCT), {}),
    "rows": (lambda: parse_module(_ROWS), {}),
    "softmax": (lambda: parse_module(_SOFTMAX), {}),
    "streams": (lambda: parse_module(_STREAMS), {"kernels.streams": 2}),
    "branch": (lambda: module("branch"), {}),
    "grows": (lambda: module("grows"), {}),
    PADDED: (lambda: parse_module(_COLUMNS), {}),
}


def drawn(m: Module, n: int) -> list[Array]:
    """Return small integers as inputs, whose symbolic sizes are ``n`` or as near as may be."""
    rng = np.random.default_rng(n)
    sizes = {d.name: max(d.lo, min(d.hi, n)) for d in m.dims}
    found: list[Array] = []
    for p in m.entry.params:
        shape = dims.values(p.type.shape, sizes)
        found.append(rng.integers(-4, 5, shape).astype(p.type.dtype.numpy))
    return found


def main() -> None:
    """Write the artifacts, and the inputs and bars of each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    out: Path = parser.parse_args().folder
    out.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(__file__).with_name("alone.py"), out)
    for name, (make, options) in PROGRAMS.items():
        m, asked = make(), Options().changed({"target": ARCHITECTURE, **options})
        if name == PADDED:
            padding = padded.of(m, {"n": 0.25})
            c = compile(padding.module, asked.changed({"memory.views": False}))
            target = Target(c, buckets=padding.buckets)
        else:
            c = compile(m, asked)
            target = Target(c)
        write(out / name, contents({ARCHITECTURE: target}))
        given = drawn(m, 37)
        exactly = [exact(a, p.type.dtype) for a, p in zip(given, m.entry.params, strict=True)]
        found = graph.bars(m.entry, m, exactly, stored=True)
        arrays: dict[str, Any] = {f"in{i}": a for i, a in enumerate(given)}
        arrays |= {f"centre{i}": b.c for i, b in enumerate(found)}
        arrays |= {f"width{i}": b.e for i, b in enumerate(found)}
        np.savez_compressed(out / f"{name}.npz", **arrays)
        print(name, [(k.name, dict(k.attrs).get("schedule")) for k in c.program.kernels])


if __name__ == "__main__":
    main()
