"""Kernels that do wrong, each with the faults that engines must report, and some that do not.

An engine that judges kernels is itself judged here: no correct program shows that it still sees
faults.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from didyma.codegen.runtime.engine import Engine, KernelFault
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.types import DType
from tests.codegen.runtime.texts import kernel

SIZE = 8
_SHARED = "  __shared__ f32 s[8];\n"
_I = "  const i64 i = (i64)threadIdx.x;\n"


@dataclass(frozen=True, slots=True)
class Faulty:
    """A kernel, and the kind of fault that ``simt`` and ``host`` must report first; none if empty.
    ``host`` is None where that engine could not go on.

    ``expected`` are the results where there is no fault on an engine.
    """

    name: str
    text: KernelText
    simt: str = ""
    host: str | None = ""
    expected: tuple[float, ...] | None = None


def _one(
    name: str,
    body: str,
    simt: str = "",
    host: str | None = "",
    expected: tuple[float, ...] | None = None,
    threads: int = 8,
    blocks: int = 1,
) -> Faulty:
    return Faulty(
        name, kernel(body, threads=threads, blocks=blocks, size=SIZE), simt, host, expected
    )


_OUT = "out-of-bounds"
_NEW = "uninitialised"
_RACE = "race"
_GUARD = "guard"
_PART = "barrier-divergence"
_ONES = (1.0,) * SIZE
_COPY = tuple(float(i) for i in range(SIZE))
_BACK = _COPY[::-1]

KERNELS: tuple[Faulty, ...] = (
    _one("a copy", f"{_I}  y[i] = x[i];", expected=_COPY),
    _one("a write past the end", f"{_I}  y[i + 1] = 1.0f;", _OUT, _GUARD),
    _one("a write before the start", f"{_I}  y[i - 1] = 1.0f;", _OUT, _GUARD),
    _one("a write past the end by one thread",
         f"{_I}  y[i] = 1.0f;\n  if (i == 7) y[8] = 1.0f;", _OUT, _GUARD),
    _one("a read past the end", f"{_I}  y[i] = x[i + 1];", _OUT),
    _one("a read before the start", f"{_I}  y[i] = x[i - 1];", _OUT),
    _one("a read of the last element", f"{_I}  y[i] = x[7 - i];", expected=_BACK),
    _one("a write past a shared array", f"{_SHARED}{_I}  s[i + 1] = 1.0f;\n  y[i] = 1.0f;",
         _OUT, _OUT),
    _one("a write past a local array",
         f"{_I}  f32 a[2];\n  a[i] = 1.0f;\n  y[i] = 1.0f;", _OUT, None),
    _one("a local array of each thread",
         f"{_I}  f32 a[2];\n  a[0] = x[i];\n  a[1] = 1.0f;\n  y[i] = a[0] * a[1];", expected=_COPY),
    _one("a read of a result", f"{_I}  y[i] = y[i];", _NEW),
    _one("a result not written by all", f"{_I}  if (i < 7) y[i] = 1.0f;"),
    _one("a shared array read before it is written", f"{_SHARED}{_I}  y[i] = s[i];", _NEW),
    _one("a part of a shared array not written",
         f"{_SHARED}{_I}  if (i > 0) s[i] = 1.0f;\n  __syncthreads();\n  y[i] = s[7 - i];", _NEW),
    _one("a local array read before it is written", f"{_I}  f32 a[2];\n  y[i] = a[1];", _NEW),
    _one("a shared array of each block",
         f"{_SHARED}{_I}  if (blockIdx.x == 0) s[i] = 1.0f;\n  __syncthreads();\n"
         "  if (blockIdx.x == 1) y[i] = s[i];", _NEW, blocks=2),
    _one("two threads write one element", f"{_I}  y[i / 2 * 2] = 1.0f;\n  y[i] = 1.0f;", _RACE),
    _one("all threads write one element", f"{_I}  y[i] = 1.0f;\n  y[3] = x[i];", _RACE),
    _one("a missing barrier", f"{_SHARED}{_I}  s[i] = x[i];\n  y[i] = s[7 - i];", _RACE),
    _one("a barrier", f"{_SHARED}{_I}  s[i] = x[i];\n  __syncthreads();\n  y[i] = s[7 - i];",
         expected=_BACK),
    _one("a missing second barrier",
         f"{_SHARED}{_I}  s[i] = x[i];\n  __syncthreads();\n  const f32 v = s[7 - i];\n"
         "  s[i] = v;\n  __syncthreads();\n  y[i] = s[i];", _RACE),
    _one("a second barrier",
         f"{_SHARED}{_I}  s[i] = x[i];\n  __syncthreads();\n  const f32 v = s[7 - i];\n"
         "  __syncthreads();\n  s[i] = v;\n  __syncthreads();\n  y[i] = s[i];", expected=_BACK),
    _one("a write over what one other thread reads",
         f"{_SHARED}{_I}  s[i] = 1.0f;\n  __syncthreads();\n  f32 v = 0.0f;\n"
         "  if (i == 1) v = s[0];\n  if (i == 0) s[0] = v;\n  y[i] = 1.0f;", _RACE),
    _one("a write over what the thread itself reads",
         f"{_SHARED}{_I}  s[i] = x[i];\n  const f32 v = s[i];\n  s[i] = v;\n  y[i] = s[i];",
         expected=_COPY),
    _one("a race in the second block alone",
         f"{_SHARED}{_I}  s[i] = x[i];\n  if (blockIdx.x == 0) y[i] = 1.0f;\n"
         "  if (blockIdx.x == 1) s[i] = s[7 - i];", _RACE, blocks=2),
    _one("two blocks write one element", f"{_I}  y[i] = 1.0f;", _RACE, blocks=2),
    _one("a block reads what another writes",
         f"{_I}  if (blockIdx.x == 0) y[i] = x[i];\n  if (blockIdx.x == 1) y[i] = y[i];",
         _RACE, blocks=2),
    _one("blocks with elements of their own",
         "  const i64 i = (i64)blockIdx.x * 4 + (i64)threadIdx.x;\n  y[i] = x[i];",
         expected=_COPY, threads=4, blocks=2),
    _one("atomics of all threads",
         f"{_I}  y[i] = 0.0f;\n  __syncthreads();\n  atomic_add_f32(&y[0], 1.0f);",
         expected=(8.0, 0, 0, 0, 0, 0, 0, 0)),
    _one("an atomic beside a write",
         f"{_I}  y[i] = 0.0f;\n  __syncthreads();\n  if (i > 0) atomic_add_f32(&y[0], 1.0f);\n"
         "  if (i == 0) y[0] = 1.0f;", _RACE),
    _one("an atomic beside a read",
         f"{_I}  y[i] = 0.0f;\n  __syncthreads();\n  f32 v = 0.0f;\n"
         "  if (i == 0) v = y[1];\n  if (i > 0) atomic_add_f32(&y[1], 1.0f);\n"
         "  if (i == 0) y[0] = v;", _RACE),
    _one("a barrier that some threads reach",
         f"{_I}  if (i < 3) {{\n    __syncthreads();\n  }}\n  y[i] = 1.0f;", _PART, _PART),
    _one("two barriers, each for some",
         f"{_I}  if (i < 3) {{\n    __syncthreads();\n  }} else {{\n    __syncthreads();\n  }}\n"
         "  y[i] = 1.0f;", _PART, _PART),
    _one("a barrier in a loop of all threads",
         f"{_SHARED}{_I}  s[i] = 0.0f;\n  for (i64 k = 0; k < 4; ++k) {{\n    __syncthreads();\n"
         "    s[i] = s[i] + 0.25f;\n  }\n  y[i] = s[i];", expected=_ONES),
    _one("a barrier in a loop of a length of its own",
         f"{_I}  for (i64 k = 0; k < i; ++k) {{\n    __syncthreads();\n  }}\n  y[i] = 1.0f;",
         _PART, _PART),
    _one("a wide load off its alignment",
         f"{_I}  const f32x4 v = load4_f32(&x[1]);\n  y[i] = v.x;", "", "misaligned"),
    _one("a wide store off its alignment",
         f"{_I}  f32x4 v;\n  v.x = 1.0f;\n  v.y = 1.0f;\n  v.z = 1.0f;\n  v.w = 1.0f;\n"
         "  if (i == 0) store4_f32(&y[2], v);", "", "misaligned"),
    _one("a wide load past the end",
         f"{_I}  const f32x4 v = load4_f32(&x[8]);\n  y[i] = v.x;", _OUT),
    _one("a wide copy",
         f"{_I}  const f32x4 v = load4_f32(&x[i * 4]);\n  store4_f32(&y[i * 4], v);",
         expected=_COPY, threads=2),
)  # fmt: skip


REFUSALS: tuple[tuple[str, str, tuple[int, ...]], ...] = (  # code, kernel, sizes of buffers
    ("buffer-too-small", "k", (4 * SIZE - 1, 4 * SIZE)),
    ("buffer-too-small", "k", (4 * SIZE, 4 * SIZE - 1)),
    ("buffer-count", "k", (4 * SIZE,)),
    ("buffer-count", "k", (4 * SIZE, 4 * SIZE, 4 * SIZE)),
    ("unknown-kernel", "l", (4 * SIZE, 4 * SIZE)),
    ("", "k", (4 * SIZE + 1, 4 * SIZE + 1)),
)


def not_refused(engine: Engine, code: str, name: str, sizes: Sequence[int]) -> str:
    """Launch a kernel as one must not, and say what is wrong; empty if it is refused as it must."""
    buffers = [engine.upload(np.zeros(n, np.uint8)) for n in sizes]
    try:
        engine.load(KERNELS[0].text).launch(name, buffers, {})
        got = ""
    except DidymaError as e:
        got = e.code
    for b in buffers:
        engine.free(b)
    return "" if got == code else f"want {code or 'no error'}, got {got or 'none'}"


def wrong(engine: Engine, k: Faulty) -> str:
    """Run a kernel, and say what is wrong with what the engine reports; empty if nothing is."""
    want = k.simt if engine.name == "simt" else k.host
    if want is None:
        return ""
    x, y = engine.upload(np.arange(SIZE, dtype=np.float32)), engine.allocate(4 * SIZE)
    try:
        engine.load(k.text).launch("k", [x, y], {})
        out = engine.download(y, DType.F32, (SIZE,))
        kind = ""
    except KernelFault as e:
        out, kind = None, e.faults[0].kind
    engine.free(x)
    engine.free(y)
    if kind != want:
        return f"{k.name}: want {want or 'no fault'}, got {kind or 'none'}"
    if out is not None and k.expected is not None and out.tolist() != list(k.expected):
        return f"{k.name}: want {list(k.expected)}, got {out.tolist()}"
    return ""
