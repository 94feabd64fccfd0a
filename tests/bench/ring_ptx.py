"""What the ring sees on engine ``ptx``, after a compiler: ``python -m tests.bench.ring_ptx``.

Folds in four manners are compiled from CUDA C++, right and with one fault in each row, at a place
that is drawn: a term dropped, counted twice, or taken from elsewhere in the row.  A fault is seen
where the payload of the row's result is not that of the right kernel.  Then right kernels with
known verdicts, and a sample of the family of ``tests.bench.judging``, are followed in the ring: an
alarm is one whose results have other terms than its reference.  ``--docs`` writes the tables.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from didyma.codegen.runtime.ptx import units
from didyma.codegen.runtime.ptx.launch import Pointer, Region, launch
from didyma.codegen.runtime.ptx.machine import Shape
from didyma.codegen.runtime.ptx.meaning import Meaning
from didyma.codegen.runtime.ptx.sources import Source, compiled
from didyma.judging import inputs, launching
from didyma.judging.making import make_task
from didyma.judging.sizes import bindings, tiles
from didyma.judging.terms import Terms
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops.ring import UNKNOWN
from tests.bench.judged_kernels import family
from tests.bench.judging import ALL
from tests.bench.page import ROOT, put, table
from tests.didyma.judging.kernels import Judged

PAGE = ROOT / "docs" / "ring.md"
TERMS = 512
FAULTS = {"dropped": 1, "doubled": 2, "misplaced": 3}
HEAD = """
#include <mma.h>
template <int F> __device__ float term(const float* x, int k, int at) {
  if (F == 0 || k != at) return x[k];
  return F == 1 ? 0.0f : F == 2 ? x[k] + x[k] : x[(k + 1) % 512];
}
template <int F> __global__ void k(const float* x, const int* at, float* y) {
  const int t = threadIdx.x, row = blockIdx.x; const float* r = x + row * 512; int a = at[row];
"""
FOLDS = {
    "sum, in shared memory": """__shared__ float s[64]; float v = 0;
  for (int k = t; k < 512; k += 64) v += term<F>(r, k, a);
  s[t] = v; __syncthreads();
  for (int o = 32; o; o /= 2) { if (t < o) s[t] += s[t + o]; __syncthreads(); }
  if (t == 0) y[row] = s[0];""",
    "sum, by shuffles and atomics": """float v = 0;
  for (int k = t; k < 512; k += 64) v += term<F>(r, k, a);
  for (int o = 16; o; o /= 2) v += __shfl_xor_sync(~0u, v, o);
  if (t % 32 == 0) atomicAdd(y + row, v);""",
    "softmax, online": """__shared__ float m[64], s[64]; float b = -1e30f, v = 0;
  for (int k = t; k < 512; k += 64) { float n = fmaxf(b, x[row * 512 + k]);
    float e = __expf(x[row * 512 + k] - n);
    if (F && k == a) e = F == 1 ? 0.0f : F == 2 ? e + e : __expf(r[(k + 1) % 512] - n);
    v = v * __expf(b - n) + e; b = n; }
  m[t] = b; s[t] = v; __syncthreads();
  if (t == 0) { for (int k = 1; k < 64; ++k) { float n = fmaxf(b, m[k]);
    v = v * __expf(b - n) + s[k] * __expf(m[k] - n); b = n; }
    y[row] = __fdividef(__expf(r[0] - b), v); }""",
    "dot product, by tensor cores": """using namespace nvcuda::wmma;
  __shared__ __half p[256], q[256]; __shared__ float c[256];
  fragment<accumulator, 16, 16, 16, float> sum; fill_fragment(sum, 0.0f);
  for (int k = 0; k < 512; k += 16) {
    for (int i = t; i < 256; i += 64) { p[i] = __float2half(i < 16 ? term<F>(r, k + i, a) : 0.0f);
      q[i] = __float2half(i % 16 ? 0.0f : x[(row + 1) % gridDim.x * 512 + k + i / 16]); }
    __syncthreads();
    fragment<matrix_a, 16, 16, 16, __half, row_major> u; load_matrix_sync(u, p, 16);
    fragment<matrix_b, 16, 16, 16, __half, row_major> w; load_matrix_sync(w, q, 16);
    mma_sync(sum, u, w, sum); __syncthreads(); }
  if (t < 32) store_matrix_sync(c, sum, 16, mem_row_major); __syncthreads();
  if (t == 0) y[row] = c[0];""",
}


def payloads(fold: str, fault: int, x: Array, at: Array) -> Array:
    """Return the payloads of the results of all rows."""
    text = f"{HEAD}{FOLDS[fold]}}}"
    kernel = compiled(Source(text, "fold.cu"), f"k<{fault}>", meaning=Meaning.of([]))
    y = np.zeros(len(x), np.float32)
    regions = [
        Region(n, np.frombuffer(a.tobytes(), np.uint8).copy(), np.ones(a.nbytes, np.bool_))
        for n, a in (("x", x), ("at", at), ("y", y))
    ]
    done = launch(kernel, Shape((len(x), 1, 1), (64, 1, 1)), regions, [*map(Pointer, range(3))])
    assert done.ended
    assert not done.reports, done.reports
    return units.payloads_of(regions[2].data.view(np.float32), regions[2].units)


def folds(rows: int, rng: np.random.Generator) -> Iterator[tuple[str, int, str, int]]:
    """Yield each fold and fault: how many faults, the share seen, and unknown results."""
    x = (rng.standard_normal((rows, TERMS)) / 8).astype(np.float16).astype(np.float32)
    for fold in FOLDS:
        at = rng.integers(1, TERMS, rows).astype(np.int32)
        right = payloads(fold, 0, x, at)
        for name, fault in FAULTS.items():
            wrong = payloads(fold, fault, x, at)
            unknown = (right == UNKNOWN) | (wrong == UNKNOWN)
            same = x[np.arange(rows), at] == x[np.arange(rows), (at + 1) % TERMS]
            free = (x[np.arange(rows), at] == 0) if fault < 3 else same  # no fault at all
            seen = (right != wrong) & ~unknown
            count = int((~free).sum())
            share = f"{100 * seen.sum() / count:.2f} %".replace("100.00", "100")
            yield f"{fold}, {name}", count, share, int(unknown.sum())


def followed(kernel: Judged) -> Terms:
    """Follow a right kernel on engine ``ptx`` in the rounds that the judge would run so."""
    draw = replace(kernel.draw, rounds=8, most=1 << 12)
    source = Source(kernel.text, "k.cu")
    task = make_task(source, kernel.spec.module, kernel.launch, kernel.contract, draw)
    env = bindings(task.spec, (), task.draw)[0]
    shapes = [dims.values(p.type.shape, env) for p in task.spec.entry.params]
    empty = [np.zeros(s, p.type.dtype.numpy)
             for s, p in zip(shapes, task.spec.entry.params, strict=True)]  # fmt: skip
    blocks = [launching.geometry(task, s, env, empty)[0].block for s in task.steps]
    near = tiles(kernel.text, [n for b in blocks for n in b])
    found = Terms("ptx")
    for case in inputs.cases(task.spec, bindings(task.spec, near, task.draw)):
        if case.ordinary:
            found.meet(task, case, inputs.values(task, case), twins=True)
    return found


def right(sample: int) -> Iterator[tuple[str, int, int, int, str]]:
    """Yield for known kernels and the family: kernels, compared, alarms, and floats compared."""
    rows = [*family().items()]
    for what, kernels in (
        ("known verdicts", ALL),
        ("the family", dict(rows[:: max(1, len(rows) // sample)])),
    ):
        compared = alarms = checked = total = 0
        for name, kernel in kernels.items():
            t = followed(kernel)
            compared += t.in_ring > 0
            alarms += t.unequal > 0
            checked, total = checked + t.checked, total + t.total
            more = f"{t.outside} {t.example}".strip()
            print(
                f"{name}: {t.in_ring} rounds, {t.unequal} unequal, {t.checked} of {t.total} {more}"
            )
            sys.stdout.flush()
        yield what, len(kernels), compared, alarms, f"{100 * checked / max(1, total):.2f} %"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--sample", type=int, default=48)
    parser.add_argument("--docs", action="store_true")
    args = parser.parse_args(argv)
    with np.errstate(all="ignore"):
        head = ("fold on PTX, and fault", "faults", "seen", "unknown")
        lines = [*table(head, folds(args.rows, np.random.default_rng(1)))]
        print("\n".join(lines))
        found = [*right(args.sample)]
    head_ = ("right kernels", "kernels", "compared", "alarms", "floats compared")
    lines += ["", *table(head_, found)]
    print("\n".join(lines))
    if args.docs:
        words = f"`python -m tests.bench.ring_ptx --rows {args.rows} --sample {args.sample}`:"
        put("tests.bench.ring_ptx", [words, "", *lines], PAGE)
    return int(any(alarms for _, _, _, alarms, _ in found))


if __name__ == "__main__":
    sys.exit(main())
