"""Calls of built programs on inputs that lie in other orders: copied first, or declared.

    python -m tests.bench.strided [--calls 100]

Exponentials of 1,024 x 1,024 numbers of f32 are summed up along rows.  For each order of the input
it prints the least milliseconds of a call of a program that declares nothing, which copies what is
not in row-major order, and of one whose type declares the strides.  Kernels for other strides may
add up in another order, so that bits may differ; each result must lie in the reference's bars.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import didyma as dd
from didyma.artifacts import build
from didyma.artifacts.code import compile_kernels
from didyma.artifacts.load import Loaded, load
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.fast.engine import compiler
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array

N = 1024
TEXT = """module {{
  func @main(%x: f32[1024, 1024]{strides}) -> (%y) {{
    %e = exp(%x) : f32[1024, 1024]
    %y = sum(%e, axes=(1,), keepdims=false) : f32[1024]
  }}
}}
"""


def built(strides: str, folder: Path) -> Loaded:
    """Build and load the program whose input has strides as declared, or none."""
    c = compile(parse_module(TEXT.format(strides=strides)), Options())
    target = build.Target(c, code=compile_kernels(c, build.HOST, compiler()))
    build.write(folder, build.contents({build.HOST: target}))
    return load(folder)


def least(run: Loaded, x: Array, calls: int) -> tuple[float, Array]:
    """Return the least milliseconds of so many calls, and the result."""
    times = list[float]()
    for _ in range(calls):
        start = time.perf_counter()
        run([x])
        times.append(time.perf_counter() - start)
    return 1e3 * min(times), run([x])[0]


def main() -> None:
    """Measure, and print a row for each order."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=100)
    calls: int = parser.parse_args().calls
    x = np.random.default_rng(1).random((N, N)).astype(np.float32)
    orders: Mapping[str, Array] = {
        "rows": x,
        "columns": np.asfortranarray(x),
        "a half of wider rows": np.concatenate([x, x], axis=1)[:, :N],
    }
    with tempfile.TemporaryDirectory() as place:
        plain = built("", Path(place) / "plain")
        want = dd.interpret(dd.Program(parse_module(TEXT.format(strides=""))), x)
        for i, (order, a) in enumerate(orders.items()):
            strides = tuple(n // a.itemsize for n in a.strides)
            declared = built(f" strides {strides}", Path(place) / str(i))
            (copied, y), (as_it_is, z) = least(plain, a, calls), least(declared, a, calls)
            agree = all(want.contains((r,)) for r in (y, z))
            same = "same" if y.tobytes() == z.tobytes() else "other"
            print(f"{order:22} {copied:6.2f} {as_it_is:6.2f} ms, agree {agree}, {same} bits")


if __name__ == "__main__":
    main()
