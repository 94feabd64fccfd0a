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

    ``expected`` are the results where there is no fault on an engine.  ``filled``: the result holds
    what ``x`` does before.
    """

    name: str
    text: KernelText
    simt: str = ""
    host: str | None = ""
    expected: tuple[float, ...] | None = None
    filled: bool = False


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


def _pair(
    name: str,
    body: str,
    simt: str = "",
    expected: tuple[float, ...] | None = None,
    blocks: int = 2,
    filled: bool = False,
) -> Faulty:
    """Return a kernel of clusters of two blocks, which only ``simt`` runs."""
    head = (
        "  __shared__ f32 s[4];\n  const i64 t = (i64)threadIdx.x;\n"
        "  const i64 r = (i64)blockIdx.x % 2;\n  const i64 i = r * 4 + t;\n"
    )
    text = kernel(head + body, threads=4, blocks=blocks, size=SIZE, cluster=2)
    return Faulty(name, text, simt, None, expected, filled)


_OUT = "out-of-bounds"
_NEW = "uninitialised"
_RACE = "race"
_GUARD = "guard"
_PART = "barrier-divergence"
_ONES = (1.0,) * SIZE
_COPY = tuple(float(i) for i in range(SIZE))
_BACK = _COPY[::-1]
_OTHER = (4.0, 5.0, 6.0, 7.0, 0.0, 1.0, 2.0, 3.0)
_MEET = "  cluster_barrier();\n"
_SYNC = "  __syncthreads();\n"
_FILL = "  s[t] = x[i];\n"
_TAKE = "  const f32 v = cluster_load_f32(&s[t], 1 - r);\n"
_GIVE = "  y[i] = v;\n"
_OVER = "  s[t] = 9.0f;\n"

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
    _one("a write by the last of many that read it",
         f"{_SHARED}{_I}  s[i] = 1.0f;\n  __syncthreads();\n  const f32 v = s[0];\n"
         "  if (i == 7) s[0] = v;\n  y[i] = 1.0f;", _RACE),
    _one("a write by the second of two that read it",
         f"{_SHARED}{_I}  s[i] = 1.0f;\n  __syncthreads();\n  f32 v = 0.0f;\n"
         "  if (i == 1) v = s[0];\n  if (i == 0) v = s[0];\n  if (i == 0) s[0] = v;\n"
         "  y[i] = 1.0f;", _RACE),
    _one("a write by the second of two that read it, with a barrier between them",
         f"{_SHARED}{_I}  s[i] = 1.0f;\n  __syncthreads();\n  f32 v = 0.0f;\n"
         "  if (i == 1) v = s[0];\n  __syncthreads();\n  if (i == 0) v = s[0];\n"
         "  if (i == 0) s[0] = v;\n  y[i] = 1.0f;", expected=_ONES),
    _one("a race of one of the threads",
         f"{_SHARED}{_I}  s[i] = x[i];\n  y[i] = s[i < 7 ? i : 0];", _RACE),
    _one("a race of one of the threads that write",
         f"{_SHARED}{_I}  s[i] = 1.0f;\n  __syncthreads();\n  const f32 v = s[i < 7 ? i : 0];\n"
         "  s[i] = v;\n  y[i] = 1.0f;", _RACE),
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
         f"{_I}  const f32x4 v = load4_f32(&x[1]);\n  y[i] = v.x;", "misaligned", "misaligned"),
    _one("a wide store off its alignment",
         f"{_I}  f32x4 v;\n  v.x = 1.0f;\n  v.y = 1.0f;\n  v.z = 1.0f;\n  v.w = 1.0f;\n"
         "  if (i == 0) store4_f32(&y[2], v);", "misaligned", "misaligned"),
    _one("a wide load of shared memory that is aligned for one element",
         f"{_SHARED}{_I}  s[i] = x[i];\n  __syncthreads();\n"
         "  const f32x4 v = load4_f32(&s[i / 4 * 4]);\n  y[i] = v.x;", "misaligned"),
    _one("a wide load of shared memory that is aligned for it",
         f"  __shared__ __align__(16) f32 s[8];\n{_I}  s[i] = x[i];\n  __syncthreads();\n"
         "  const f32x4 v = load4_f32(&s[i / 4 * 4]);\n  y[i] = v.x;",
         expected=(0.0,) * 4 + (4.0,) * 4),
    _one("a wide load past the end",
         f"{_I}  const f32x4 v = load4_f32(&x[8]);\n  y[i] = v.x;", _OUT),
    _one("a wide copy",
         f"{_I}  const f32x4 v = load4_f32(&x[i * 4]);\n  store4_f32(&y[i * 4], v);",
         expected=_COPY, threads=2),
    _one("steps up and down",
         f"{_I}  i64 k = 5;\n  k++;\n  k--;\n  if (i > 3) k--;\n  y[i] = (f32)k;",
         expected=(5.0,) * 4 + (4.0,) * 4),
    _one("a literal beside a choice of a literal and what is wider",
         f"{_I}  y[i] = (f32)((i < 0 ? (i < 2 ? 1 : i) : 5) * 1000000000);", expected=(5e9,) * 8),
    _one("a choice of two literals beside what is wider",
         f"{_I}  y[i] = (f32)((i < 8 ? (i < 2 ? 5 : 4) : i) * 1000000000);",
         expected=(5e9,) * 2 + (4e9,) * 6),
    _one("a choice of two literals beside a literal",
         f"{_I}  y[i] = (f32)((i < 8 ? (i < 2 ? 5 : 4) : 3) * 1000000000);",
         expected=(705032704.0,) * 2 + (-294967296.0,) * 6),
    _pair("the memory of another block", _FILL + _MEET + _TAKE + _MEET + _GIVE, expected=_OTHER),
    _pair("no barrier before another block reads", _FILL + _TAKE + _MEET + _GIVE, _RACE),
    _pair("a barrier of the block before another reads", _FILL + _SYNC + _TAKE + _MEET, _RACE),
    _pair("a block that may end before another has read it", _FILL + _MEET + _TAKE + _GIVE, _RACE),
    _pair("a rank outside of the cluster",
          _FILL + _MEET + "  y[i] = cluster_load_f32(&s[t], 2);\n" + _MEET, _OUT),
    _pair("a rank below the cluster",
          _FILL + _MEET + "  y[i] = cluster_load_f32(&s[t], r - 2);\n" + _MEET, _OUT),
    _pair("memory of another block past its end",
          _FILL + _MEET + "  y[i] = cluster_load_f32(&s[t + 1], 1 - r);\n" + _MEET, _OUT),
    _pair("a barrier before what another block has read is written again",
          _FILL + _MEET + _TAKE + _MEET + _OVER + _GIVE, expected=_OTHER),
    _pair("no barrier before what another block has read is written again",
          _FILL + _MEET + _TAKE + _OVER + _MEET + _GIVE, _RACE),
    _pair("a barrier of the block before what another has read is written again",
          _FILL + _MEET + _TAKE + _SYNC + _OVER + _MEET + _GIVE, _RACE),
    _pair("what two blocks have read is written again by one of them",
          f"{_FILL}{_MEET}  const f32 v = cluster_load_f32(&s[0], 0);\n"
          f"  if (i == 0) s[0] = 9.0f;\n{_MEET}{_GIVE}", _RACE),
    _pair("what many have read is written after a barrier",
          f"{_FILL}{_MEET}  const f32 v = cluster_load_f32(&s[0], 0);\n{_MEET}"
          f"  if (i == 0) s[0] = 9.0f;\n{_MEET}{_GIVE}", expected=(0.0,) * 8),
    _pair("what many have read before a barrier, and the writer since",
          f"{_FILL}{_MEET}  const f32 v = cluster_load_f32(&s[0], 0);\n{_MEET}"
          f"  if (i == 0) s[0] = s[0] + 1.0f;\n{_MEET}{_GIVE}", expected=(0.0,) * 8),
    _pair("what many have read before a barrier, and another block since",
          f"{_FILL}{_MEET}  f32 v = cluster_load_f32(&s[0], 0);\n{_MEET}"
          f"  if (i == 4) v = cluster_load_f32(&s[0], 0);\n  if (i == 0) s[0] = 9.0f;\n"
          f"{_MEET}{_GIVE}", _RACE),
    _pair("a result that the other block reads after a barrier",
          f"  if (r == 0) y[t] = x[t];\n{_MEET}  if (r == 1) y[t + 4] = y[t];\n",
          expected=(0.0, 1.0, 2.0, 3.0) * 2),
    _pair("a result that the other block reads after a barrier of its own",
          f"  if (r == 0) y[t] = x[t];\n{_SYNC}  if (r == 1) y[t + 4] = y[t];\n", _RACE),
    _pair("a result that is written again once the other block has read it",
          f"  if (r == 0) y[t] = x[t];\n{_MEET}  if (r == 1) y[t + 4] = y[t];\n{_MEET}"
          "  if (r == 0) y[t] = 9.0f;\n", expected=(9.0,) * 4 + (0.0, 1.0, 2.0, 3.0)),
    _pair("a result that is written again while the other block reads it",
          f"  if (r == 0) y[t] = x[t];\n{_MEET}  if (r == 1) y[t + 4] = y[t];\n{_SYNC}"
          "  if (r == 0) y[t] = 9.0f;\n", _RACE),
    _pair("a result that another cluster reads",
          f"  if (blockIdx.x < 2) y[i] = x[i];\n{_MEET}  f32 v = 0.0f;\n"
          f"  if (blockIdx.x > 1) v = y[i];\n{_MEET}  if (blockIdx.x > 1) y[i] = v;\n",
          _RACE, blocks=4),
    _pair("a result that two clusters write",
          f"  if (blockIdx.x < 2) y[i] = x[i];\n{_MEET}  if (blockIdx.x > 1) y[i] = x[i];\n",
          _RACE, blocks=4),
    _pair("a result that a thread of another block has read, too",
          f"  const f32 v = y[0];\n{_SYNC}  if (i == 4) y[0] = v;\n", _RACE, filled=True),
    _pair("a result that another cluster reads before its barrier",
          f"  f32 v = 0.0f;\n  if (blockIdx.x < 2) v = y[i];\n{_MEET}"
          "  if (blockIdx.x > 1) y[i] = v;\n", _RACE, blocks=4, filled=True),
    _pair("a result that another cluster reads before its barrier, and the writer then",
          f"  f32 v = 0.0f;\n  if (blockIdx.x < 2) v = y[i];\n{_MEET}"
          "  if (blockIdx.x > 1) v = y[i];\n  if (blockIdx.x > 1) y[i] = v;\n",
          _RACE, blocks=4, filled=True),
    _pair("a result that one block reads, and the other once they have met",
          f"  f32 v = 0.0f;\n  if (r == 0) v = y[t];\n{_MEET}  if (r == 1) v = y[t];\n"
          "  if (r == 1) y[t] = v + 1.0f;\n",
          expected=(1.0, 2.0, 3.0, 4.0, 4.0, 5.0, 6.0, 7.0), filled=True),
    _pair("a result that both blocks read, though they never met",
          f"  f32 v = 0.0f;\n  if (r == 1) v = y[t];\n{_SYNC}  if (r == 0) v = y[t];\n"
          "  if (r == 0) y[t] = v;\n", _RACE, filled=True),
    _pair("a result written after a barrier of a block that another reads",
          f"{_SYNC}  f32 v = 0.0f;\n  if (r == 0) y[t] = 9.0f;\n  if (r == 1) v = y[t];\n"
          "  if (r == 1) y[i] = v;\n", _RACE, filled=True),
    _pair("clusters that have memory of their own",
          f"{_FILL}{_MEET}{_TAKE}{_MEET}  if (blockIdx.x < 2) y[i] = v;\n",
          expected=_OTHER, blocks=4),
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
    given = np.arange(SIZE, dtype=np.float32)
    x, y = engine.upload(given), engine.upload(given) if k.filled else engine.allocate(4 * SIZE)
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
