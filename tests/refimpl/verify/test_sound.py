"""What is sound passes: the laws forbid no more than they say."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.graph import Attr, Function, Module, Node, Param, attrs
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.text import parse, parse_loop, parse_module, parse_program, show
from didyma.refimpl.ir.types import DType, Shape, Tensor, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Op
from didyma.refimpl.verify import graph, loop, program

SHAPES: tuple[Shape, ...] = ((), (3,), (2, 3), (1, 4), (2, 0), (2, 3, 4, 5), (symbol("n"), 3))


@dataclass
class Dice:
    r: random.Random = field(default_factory=lambda: random.Random(7))

    def below(self, n: int) -> int:
        return self.r.randrange(n)


def uses(op: Op) -> list[Module]:
    """Modules of one node, as the op's own samples have it."""
    found: list[Module] = []
    dice = Dice()
    for dtype in DType:
        for shape in SHAPES:
            sample = op.sample(dice, TensorType(dtype, shape))
            if sample is None:
                continue
            params = tuple(Param(f"x{i}", t) for i, t in enumerate(sample.operands))
            given: dict[str, Attr] = dict(sample.attrs)
            names = tuple(p.name for p in params)
            n = Node(("y",), op.name, names, (op.infer(sample.operands, given),), attrs(given))
            if not any(dims.free(p.type.shape) for p in params):  # something must tell the size
                params = (*params, Param("rest", TensorType(dtype, (dims.symbol("n"),))))
            found.append(Module((Function("main", params, (n,), ("y",)),), (DimVar("n", 0, 8),)))
    return found


@pytest.mark.parametrize("name", list(OPS))
def test_samples_of_an_op(name: str) -> None:
    modules = uses(OPS[name])
    assert modules
    for m in modules:
        graph.verify(m)
        assert repr(parse(show(m))) == repr(m)


@pytest.mark.parametrize("name", list(OPS))
def test_a_wrong_type_is_seen(name: str) -> None:
    m = uses(OPS[name])[0]
    (n,) = m.entry.nodes
    t = n.types[0]
    wrong = Node(n.results, n.op, n.args, (t.with_shape(*t.shape, 1),), n.attrs)
    f = Function("main", m.entry.params, (wrong,), ("y",))
    with pytest.raises(DidymaError) as e:
        graph.verify(Module((f,), m.dims))
    assert e.value.code == "G-type"


def test_calls_and_attributes() -> None:
    m = parse_module(
        """
        module {
          dims n in [0, 8], m in [1, 4]
          func @f(%a: f32[n, m]) -> (%b, %a) attrs(Primitive=1) {
            %b = exp(%a) : f32[n, m]
          }
          func @view(%a: f32[n, m]) -> (%b) attrs(Primitive=1, reshape_only=1) {
            %b = reshape(%a, shape=(m*n,)) : f32[m*n]
          }
          func @main(%x: f32[n, m]) -> (%z, %z, %x) {
            %y, %x2 = call @f(%x) : f32[n, m], f32[n, m]
            %z = call @view(%x2) : f32[m*n]
          }
        }
        """
    )
    graph.verify(m)
    assert parse(show(m)) == m


def test_zero_results_and_no_operands() -> None:
    one = Tensor(DType.F32, (), bytes(4))
    n = Node(("c",), "constant", (), (one.type,), (("value", one),))
    graph.verify(Module((Function("f", (), (n,), ()), Function("g", (), (n,), ("c",)))))


KERNEL = """
kernel @sum(a: f16[n, 256], out: f32[n]) writes (out) dims n in [0, 64] attrs(source=("s",)) {
  for b in n bound blockIdx.x {
    alloc s: f32[256] shared
    for t in 256 bound threadIdx.x {
      s[t] = f32(a[b, t])
      barrier
      for k in 8 unrolled {
        let half = 128 >> k
        if half > 0 {
          barrier
        }
        if t < half {
          s[t] = s[t] + s[t + half]
        }
        barrier
      }
      if t == 0 and b < n {
        out[b] = s[0]
      }
    }
  }
}
"""


def test_a_kernel_with_barriers() -> None:
    fs = parse_loop(KERNEL)
    for f in fs:
        loop.verify(f)
    assert parse(show(fs)) == fs


LOOPS = """
primfunc @f(a: f32[n], i: i32[n], out: f32[n], q: bool[n]) writes (out, q) returns f32
    dims n in [1, 64] {
  for i0 in (n + 3) // 4 parallel {
    alloc acc: f32[] local
    alloc t: f64[2] local
    place u: i32[4] local over t
    acc[] = -inf:f32
    for k in min(i0 + 1, n) {
      let v = a[max(0, min(i64(i[k]), n - 1))]
      acc[] = max(acc[], (let w = v * v in select(isnan(w), 0.0:f32, w)))
      u[k % 4] = i[k] << 2:i32 and not(7:i32)
    }
    for l in 4 vectorized {
      if i0 * 4 + l < n {
        out[i0 * 4 + l] = acc[] + f32(u[l])
        atomic max(out[0], fma(acc[], 2.0:f32, nan:f32))
        q[i0 * 4 + l] = q[0] xor true
      }
    }
    free u
    assert n >= 1, "n"
  }
  extern "lib"(a, alpha=1.0) -> (out)
  extern "lib"(i, out) -> alloc (made: f32[n, 2], more: i8[])
  extern "lib"(made) -> (q)
  free more
  free made
  return out[0]
}
"""


def test_local_buffers_and_lets() -> None:
    fs = parse_loop(LOOPS)
    loop.verify(fs[0])
    assert parse(show(fs)) == fs


CALLS = """
kernel @k(a: f32[n + 1, m], y: f32[n], z: f32[m*n]) writes (y, z) dims m in [1, 9], n in [1, 64] {
  primfunc @put(x: f32[k, l], again: f32[k, l], sum: f32[] local) writes (sum)
      dims i in [0, 64], j in [0, 8], l in [1, 9], k in [2, 65] {
    sum[] = sum[] + x[i, j] * again[i + 1, j]
  }
  primfunc @row(x: f32[k, l], s: f32[4] shared, y: f32[n], flat: f32[q]) writes (y, s, flat)
      dims n in [1, 64], k in [2, 65], l in [1, 9], q in [1, 576], i in [0, 63] {
    alloc sum: f32[] local
    sum[] = 0.0:f32
    for j in l {
      call @put(x, x, sum) dims (i, j, l, k)
    }
    y[i] = sum[]
    for r in l parallel {
      flat[i * l + r] = sum[]
    }
    atomic add(s[i % 4], sum[])
  }
  primfunc @nothing() writes () {
    block {
    }
  }
  for b in (n + 3) // 4 bound blockIdx.x {
    alloc s: f32[4] shared
    for t in 4 bound threadIdx.x {
      s[t] = 0.0:f32
      call @nothing()
      barrier
      if b * 4 + t < n {
        call @row(a, s, y, z) dims (n, n + 1, m, n * m, b * 4 + t)
      }
    }
  }
}
"""


def test_calls_in_loops() -> None:
    fs = parse_loop(CALLS)
    loop.verify(fs[0])
    assert parse(show(fs)) == fs


def planned() -> Program:
    """A program with every kind of line that stands alone."""
    return parse_program(
        """
        program @main {
          dims n in [1, 8], m in [1, 8]
          inputs (%x, %y)
          constants {
            %c = f32[2] [1.0, 2.0]
          }
          types {
            %x: f32[n, 128]  %y: f32[m]  %c: f32[2]  %a: f32[128*n]  %b: f32[n, 128]
            %d: f16[n]  %e: f32[m]
            %v: f32[n]  %r: f32[n, 128]  %g: f32[n]  %a2: f32[n]
          }
          kernel @k(a: f32[n, 128], out: f32[128*n]) writes (out) dims n in [1, 8] {
            for i in 128*n bound blockIdx.x { out[i] = exp(a[i // 128, i % 128]) }
          }
          kernel @h(a: f32[n, 128], out: f16[n]) writes (out) dims n in [1, 8] {
            for i in n bound blockIdx.x { out[i] = f16(a[i, 0]) }
          }
          lines {
            allocate %a
            launch @k(%x, %a)
            view %b of %a
            allocate %r
            copy %r from %b
            place %d over %a at 256*n
            launch @h(%r, %d)
            free %d
            assert n == m, "n is m"
            allocate %e
            extern "fill"(%c, value=1.0) -> (%e)
            view %v of %e
            allocate %g
            copy %g from %v
            reuse %a2 over %g
            extern "fill"(%c) -> (%a2)
            return (%r, %v, %a2)
          }
        }
        """
    )


def test_a_program_with_every_line() -> None:
    p = planned()
    program.verify(p)
    assert parse(show(p)) == p


def test_kernels_may_be_left_out() -> None:
    text = show(planned()).replace("exp(a[i // 128, i % 128])", "exp(a[i])")
    with pytest.raises(DidymaError, match="L-rank"):
        program.verify(parse_program(text))
    program.verify(parse_program(text), kernels=False)
