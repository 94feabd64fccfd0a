"""Results in place: a pointer that shares bytes is not called restrict, and engines agree."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.emit import cuda, wrapper
from codegen.runtime.registry import engine
from refimpl.interp import program
from refimpl.ir.text import parse_program
from refimpl.verify import program as laws

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
    want = program.run(p, [x])
    np.testing.assert_array_equal(want[0], (x * 2 + 1) * 2 + 1 - 1)
    call = wrapper.load(wrapper.emit(p, cuda.emit(p.kernels, cuda.in_place(p))))
    got = call(engine(name), [x])
    assert [a.tobytes() for a in got] == [a.tobytes() for a in want]


def test_what_shares_bytes_is_not_called_restrict() -> None:
    p = parse_program(TEXT)
    assert cuda.in_place(p) == {"f": {"a", "out"}, "two": {"a", "u"}}
    text = cuda.emit(p.kernels, cuda.in_place(p))
    assert "const f32 *a, f32 *u, f32 *__restrict__ v" in text.source
    assert cuda.emit(p.kernels).source.count("__restrict__") == 5
    engine("nvrtc").load(text)
