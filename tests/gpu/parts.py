"""Products of few results and many terms on a GPU: summed in parts, whole, and by cuBLAS.

    python3 -m tests.gpu.parts [--dtype bf16] [--brief]

Whole programs on random data, with nothing in the caches: the time of a call includes that of the
kernel which adds up the parts.  One part is one kernel, whose blocks may share terms.  A result
must lie within a unit of its last place and ``K * 2**-24`` of the sum of the sizes of all terms.
The first number is of parts, as the model has it; then come others, from 2 to 16, and the median
times.
"""

from __future__ import annotations

import argparse
import math
import statistics
from importlib import import_module
from typing import Any

import didyma as dd
from didyma.bench import gpu
from didyma.codegen.passes import parts
from didyma.codegen.runtime.cuda import Cuda
from didyma.refimpl.ir.target import SM_90A
from tests.gpu.products import Shape

SHAPES = (
    (16, 4096, 4096), (32, 8192, 8192), (64, 4096, 4096), (128, 8192, 8192), (256, 4096, 4096),
    (512, 512, 16384), (1024, 1024, 8192), (64, 1024, 16384), (256, 256, 8192), (768, 768, 3072),
    (512, 2048, 4096), (128, 128, 16384),
)  # fmt: skip
COUNTS = (2, 4, 8, 16)


def main() -> int:
    """Print a line for each shape; 1 if a result is wrong."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--dtype", default="bf16")
    p.add_argument(
        "--brief", action="store_true", help="no more numbers than that of the model, and 1"
    )
    a = p.parse_args()
    gpu.require()
    t: Any = import_module("torch")
    t.backends.cuda.matmul.allow_tf32 = False
    kind = t.float32 if a.dtype == "f32" else t.bfloat16
    clock, engine = gpu.Clock(), Cuda(checked=False)
    wrong, ratios = 0, list[float]()
    for rows, columns, terms in SHAPES:
        program = Shape(rows, columns, terms, dtype=a.dtype).program()
        x = t.randn(rows, terms, device="cuda", dtype=kind)
        w = t.randn(terms, columns, device="cuda", dtype=kind)
        sets = gpu.rotated([x, w], gpu.copies(x.nbytes + w.nbytes))
        exact, scale = x.double() @ w.double(), x.double().abs() @ w.double().abs()
        last = 2**-23 if a.dtype == "f32" else 2**-8
        bar = exact.abs() * last + terms * 2**-24 * scale
        torch = statistics.median(clock.seconds(gpu.bound(t.matmul, sets)))
        told = list[str]()
        own = parts.count(rows, columns, terms, SM_90A.processors, clusters=a.dtype == "bf16")
        times = dict[int, float]()
        for n in dict.fromkeys((own, 1, *(() if a.brief else COUNTS))):
            if terms % (64 * n):
                continue
            options = dd.Options(target="sm_90a").changed({"graph.parts": n})
            exe: Any = dd.compile(program, options=options, engine=engine)
            off = float(((t.as_tensor(exe(x, w)).double() - exact).abs() / bar).max())
            wrong += not off <= 1
            times[n] = statistics.median(clock.seconds(gpu.bound(exe, sets)))
            told.append(f"{n}: {times[n] * 1e6:.1f}" + ("" if off <= 1 else f" WRONG {off:.3g}"))
        ratios.append(torch / times[own])
        print(f"{rows}×{columns}×{terms} {a.dtype}: torch {torch * 1e6:.1f} us, parts "
              f"{', '.join(told)}; {ratios[-1]:.2f} times torch's speed", flush=True)  # fmt: skip
    print(f"geometric mean {math.exp(statistics.fmean(map(math.log, ratios))):.3f}")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
