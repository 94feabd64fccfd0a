"""Control flow, streams and results in place on a machine with a GPU, without pytest.

    python3 -m tests.gpu.control [--engine cuda] [--programs 100]

Random nested branches, loops and scans against the graph interpreter, bit for bit; then one program
on three streams, many times, without a wait for each launch.  Ends with 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np

from didyma.codegen.emit import cuda, wrapper
from didyma.codegen.runtime import modules
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.registry import NAMES, engine
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.text import parse_program
from didyma.refimpl.verify import program as laws
from tests.codegen.control.random_modules import Draw
from tests.codegen.control.test_random import compiled, inputs, same
from tests.codegen.once import ran_compiled

SIZE = 1 << 20
STREAMS = f"""
program @streams {{
  inputs (%x)
  types {{
    %x: f32[{SIZE}]  %a: f32[{SIZE}]  %b: f32[{SIZE}]  %c: f32[{SIZE}]  %d: f32[{SIZE}]
  }}
  kernel @slow(a: f32[{SIZE}], out: f32[{SIZE}]) writes (out) {{
    for b in {SIZE // 256} bound blockIdx.x {{
      for t in 256 bound threadIdx.x {{
        let i = b * 256 + t
        alloc s: f32[] local
        s[] = a[i]
        for k in 2000 {{
          s[] = s[] * 0.5:f32 + 1.0:f32
        }}
        out[i] = s[] + a[i]
      }}
    }}
  }}
  kernel @sum(a: f32[{SIZE}], b: f32[{SIZE}], out: f32[{SIZE}]) writes (out) {{
    for b_ in {SIZE // 256} bound blockIdx.x {{
      for t in 256 bound threadIdx.x {{
        out[b_ * 256 + t] = a[b_ * 256 + t] + b[b_ * 256 + t]
      }}
    }}
  }}
  lines {{
    allocate %a
    allocate %b
    allocate %c
    launch @slow(%x, %a) stream 1
    launch @slow(%x, %b) stream 2
    wait 1 on 2
    launch @sum(%a, %b, %c) stream 1
    wait 0 on 1
    launch @slow(%c, %d) inplace (%d over %c)
    free %a
    free %b
    return (%d)
  }}
}}
"""


def controlled(chosen: Engine, count: int) -> list[str]:
    """What was wrong with random modules."""
    wrong: list[str] = []
    for seed in range(count):
        m = Draw(seed).module()
        given = inputs(m, seed)
        try:
            got = ran_compiled(compiled(m, seed), chosen, given)
        except Exception as e:
            wrong.append(f"module {seed}: {type(e).__name__}: {e}")
            continue
        if not same(got, graph.run(m, given)):
            wrong.append(f"module {seed}: other values")
    return wrong


def streamed(chosen: Engine, count: int) -> list[str]:
    """What was wrong with work on several streams."""
    p = parse_program(STREAMS)
    laws.verify(p)
    text = cuda.emit(p.kernels, cuda.in_place(p))
    call, kernels = modules.load(wrapper.emit(p, text)), chosen.load(text)
    x = np.arange(SIZE, dtype=np.float32) % 1000
    total = 2 * (2 + x)  # after 2,000 turns what is halved is 2
    wrong: list[str] = []
    for k in range(count):
        (got,) = call(chosen, [x], kernels)
        if not np.array_equal(got, 2 + total):
            wrong.append(f"streams, run {k}: {int((got != 2 + total).sum())} elements")
    return wrong


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if all agree, 1 if not."""
    parser = argparse.ArgumentParser(description="Run control flow and streams on an engine.")
    parser.add_argument("--engine", default="cuda", choices=NAMES)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--runs", type=int, default=20, help="of the program on streams")
    options = parser.parse_args(argv)
    chosen = engine(options.engine)
    start = time.perf_counter()
    wrong = controlled(chosen, options.programs)
    print(f"{options.programs} modules in {time.perf_counter() - start:.1f} s")
    if options.engine == "cuda":
        from didyma.codegen.runtime.cuda import Cuda

        chosen = Cuda(checked=False)
    start = time.perf_counter()
    wrong += streamed(chosen, options.runs)
    print(f"{options.runs} runs on streams in {time.perf_counter() - start:.2f} s")
    print("\n".join(wrong) or "all agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
