"""Results in place: a pointer that shares bytes is not called restrict, and engines agree."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.emit import cuda
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.host import Host
from didyma.codegen.runtime.registry import engine
from didyma.oracle import lanes
from didyma.refimpl.interp import program
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.text import parse_program
from didyma.refimpl.ir.types import Array
from didyma.refimpl.verify import program as laws
from didyma.refimpl.verify.sharing import may_share
from tests.codegen.emit import programs
from tests.codegen.once import ran

TEXT = """
program @main {
  inputs (%x)
  types {
    %x: f32[300]  %a: f32[300]  %b: f32[300]  %c: f32[300]  %d: f32[300]
  }
  kernel @f(a: f32[300], out: f32[300]) writes (out) {
    for b in 2 bound blockIdx.x {
      for t in 256 bound threadIdx.x {
        let i = b * 256 + t
        if i < 300 {
          out[i] = a[i] * 2.0:f32 + 1.0:f32
        }
      }
    }
  }
  kernel @two(a: f32[300], u: f32[300], v: f32[300]) writes (u, v) {
    for b in 2 bound blockIdx.x {
      for t in 256 bound threadIdx.x {
        let i = b * 256 + t
        if i < 300 {
          let s = a[i]
          u[i] = s - 1.0:f32
          v[i] = s * 3.0:f32
        }
      }
    }
  }
  lines {
    arena %m of 4096
    place %a in %m at 0
    launch @f(%x, %a)
    launch @f(%a, %b) inplace (%b over %a)
    allocate %d
    launch @two(%b, %c, %d) inplace (%c over %b)
    return (%c, %d)
  }
}
"""


@pytest.mark.parametrize("name", ["host", "simt"])
def test_engines_agree_with_the_interpreter(name: str) -> None:
    p = parse_program(TEXT)
    laws.verify(p)
    x = np.linspace(-5, 5, 300, dtype=np.float32)
    want = program.run(p, [x], lanes.run)
    np.testing.assert_array_equal(want[0], (x * 2 + 1) * 2 + 1 - 1)
    got = ran(p, engine(name), [x])
    assert [a.tobytes() for a in got] == [a.tobytes() for a in want]


def test_what_shares_bytes_is_not_called_restrict() -> None:
    p = parse_program(TEXT)
    assert cuda.in_place(p) == {"f": {"a", "out"}, "two": {"a", "u"}}
    text = cuda.emit(p.kernels, cuda.in_place(p))
    assert "const f32 *a, f32 *u, f32 *__restrict__ v" in text.source
    assert cuda.emit(p.kernels).source.count("__restrict__") == 5
    engine("nvrtc").load(text)


def inputs(f: PrimFunc, seed: int) -> dict[str, Array]:
    return {
        b.name: programs.data(b.dtype, tuple(dims.evaluate(d, ENV) for d in b.shape), seed + n)
        for n, b in enumerate(f.params)
    }


def launched(
    on: Engine, f: PrimFunc, given: dict[str, Array], pair: tuple[str, str] | None
) -> list[bytes]:
    """What a kernel leaves in its outputs, the first of a pair on the bytes of the second."""
    shared = {f.name: pair} if pair else {}
    buffers = {n: on.upload(a) for n, a in given.items()}
    if pair:
        on.free(buffers[pair[0]])
        buffers[pair[0]] = buffers[pair[1]]
    on.load(cuda.emit([f], shared)).launch(f.name, list(buffers.values()), ENV)
    return [
        on.download(buffers[b.name], b.dtype, given[b.name].shape).tobytes()
        for b in f.params
        if b.name in f.outputs
    ]


ENV = {"n": 13, "m": 5}
MAKERS = (programs.pointwise, programs.reduction, programs.vectorised, programs.shared)


def test_what_is_allowed_gives_the_same_bits_in_any_order() -> None:
    engines = [Host(), Host(order="reverse"), Host(order=7)]
    allowed = refused = 0
    for make in MAKERS:
        for seed in range(25):
            f = make(seed)
            given = inputs(f, seed)
            sources = [b for b in f.params if b.name not in f.outputs]
            for out in (b for b in f.params if b.name in f.outputs):
                for src in sources:
                    if given[out.name].nbytes != given[src.name].nbytes:
                        continue
                    if not may_share(f, out.name, src.name):
                        refused += 1
                        continue
                    allowed += 1
                    want = launched(engines[0], f, given, None)
                    for on in engines:
                        assert launched(on, f, given, (out.name, src.name)) == want, f
    assert allowed > 20
    assert refused > 10
