"""The judges of results in place, on kernels that may and may not."""

from __future__ import annotations

import random

import numpy as np
import pytest

from didyma.codegen.options import GraphOptions, Options
from didyma.codegen.pipeline import compile
from didyma.fuzz.allocator.kernels import At, Read, kernel
from didyma.fuzz.graphs import BYTES, decode
from didyma.fuzz.levels import check
from didyma.oracle.in_place import InterferenceError, interference, launch
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.kernel import loops
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.text import parse_loop
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.verify.sharing import Sharing, may_share
from tests.codegen.make import Graph

T = TensorType(DType.I32, (8,))


def shared(at: At, writes: int = 1, *, together: bool = False) -> Array:
    """Run a kernel whose first result lies on its operand; return that result."""
    k = kernel("k", [Read(T, at)], [T] * writes, 3, together=together)
    x = np.arange(8, dtype=np.int32)
    more = {f"y{i}": np.zeros(8, np.int32) for i in range(1, writes)}
    launch(k, {"x0": x, "y0": x, **more}, {})
    return x


def test_the_same_element_may_be_written_over() -> None:
    assert shared(At.SAME).tolist() == [7 * i + 3 + 3 * i for i in range(8)]


@pytest.mark.parametrize("at", [At.SHIFTED, At.REVERSED])
def test_another_element_may_not(at: At) -> None:
    with pytest.raises(InterferenceError, match="other elements"):
        shared(at)


def test_what_was_read_stays_when_it_is_written_over() -> None:
    assert shared(At.SAME, writes=2, together=True).tolist() == shared(At.SAME).tolist()


def test_an_operand_is_not_read_after_it_is_written_over() -> None:
    with pytest.raises(InterferenceError, match="differs"):
        shared(At.SAME, writes=2)


@pytest.mark.parametrize("at", list(At))
def test_the_addresses_of_a_kernel_tell_the_same(at: At) -> None:
    found = interference(kernel("k", [Read(T, at)], [T], 3), "y0", "x0", {})
    assert found == ("" if at is At.SAME else THREADS)


@pytest.mark.parametrize(("at", "wrong"), [("lane", ""), ("1 - lane", "other than the one")])
def test_threads_may_tell_one_another_what_they_have_read(at: str, wrong: str) -> None:
    k = written(
        f"""for lane in 2 bound threadIdx.x {{
          alloc a: i32[] local
          a[] = x0[{at}]
          exchange b = a[] by 1 {{ a[] = a[] + b }}
          y0[lane] = a[]
        }}"""
    )
    x = np.arange(3, 11, dtype=np.int32)
    if wrong:
        with pytest.raises(InterferenceError, match=wrong):
            launch(k, {"x0": x, "y0": x}, {})
    else:
        launch(k, {"x0": x, "y0": x}, {})
        assert x[:3].tolist() == [7, 7, 5]


THREADS = "@k reads x0 in a thread other than the one that writes y0, which has its bytes"
LATE = "@k reads x0 after it writes y0, which has its bytes"


def written(body: str) -> PrimFunc:
    return parse_loop(f"primfunc @k(x0: i32[8], y0: i32[8]) writes (y0) {{\n{body}\n}}")[0]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("for i in 8 { y0[i] = x0[i] }", ""),
        ("for i in 7 { y0[i] = x0[i + 1] }", ""),  # each is read before the next round writes it
        ("for i in 7 { y0[i + 1] = x0[i] }", LATE),
        ("for i in 8 { y0[7 - i] = x0[i] }", LATE),
        ("for i in 7 parallel { y0[i] = x0[i + 1] }", THREADS),
        ("for i in 8 parallel { y0[i // 2 * 2 + i % 2] = x0[i] }", ""),
        ("for i in 8 parallel { y0[i // 2] = x0[i] }", THREADS),
        ("for i in 8 parallel { if i < 4 { y0[i] = x0[i + 4] } }", ""),
        ("for i in 8 parallel { if i <= 4 { y0[i] = x0[(i + 4) % 8] } }", THREADS),
        ("for i in 8 parallel { y0[i] = x0[i] }\nfor j in 8 parallel { y0[j] = x0[j] }", LATE),
        ("for i in 8 parallel { y0[i] = x0[min(i + x0[i], 7)] }", THREADS),
        ("for i in 8 parallel { for j in x0[i] { y0[i] = x0[i] } }", LATE),
        ("for i in 8 parallel { for j in 2 { let k = i if j == 0 { y0[k] = x0[k] } } }", ""),
    ],
)
def test_which_thread_reads_and_when(body: str, why: str) -> None:
    assert interference(written(body), "y0", "x0", {}) == why


@pytest.mark.parametrize(("rows", "why"), [(1, ""), (2, THREADS)])
def test_on_an_axis_of_one_element_every_place_is_the_same(rows: int, why: str) -> None:
    text = f"""primfunc @k(x0: i32[{rows}, 4], at: i64[4], y0: i32[{rows}, 4]) writes (y0) {{
      for i in {rows} parallel {{ for j in 4 parallel {{ y0[i, j] = x0[at[j], j] }} }}
    }}"""
    assert interference(parse_loop(text)[0], "y0", "x0", {}) == why


@pytest.mark.parametrize(("at", "why"), [("i", ""), ("7 - i", THREADS)])
def test_what_is_written_where_threads_hand_on_values_is_seen(at: str, why: str) -> None:
    k = written(f"""for i in 8 bound threadIdx.x {{
      let a = x0[{at}] exchange b = a by 1 y0[i] = a + b
    }}""")
    assert interference(k, "y0", "x0", {}) == why


def test_nobody_is_accused_whom_the_laws_allow() -> None:
    """The proof that the laws ask for is strict: what it allows has disjoint addresses."""
    allowed = 0
    for seed in range(15):
        case = decode(random.Random(seed).randbytes(BYTES))
        p = compile(case.module, case.options(Options())).program
        params = case.module.entry.params
        shapes = [
            (q.name, q.type.shape, a.shape) for q, a in zip(params, case.inputs(), strict=True)
        ]
        env = dims.bind(shapes, case.module.dims)
        for k in p.kernels:
            may = [(o, i) for o in k.outputs for i in k.inputs if may_share(k, o, i)]
            if all(v.name in env for v in k.dims):
                allowed += len(may)
                assert [interference(loops(k), *pair, env) for pair in may] == [""] * len(may)
    assert allowed > 10


def anything(sharing: Sharing, output: str, source: str) -> bool:
    """A wrong proof: every result may have the bytes of every operand."""
    del sharing, output, source
    return True


def flipped() -> Module:
    g = Graph()
    x = g("exp", g.param("x", 64, 64))
    return g.module(g("sum", g("sin", g("flip", x, axes=(0,))), axes=(0, 1), keepdims=False))


@pytest.mark.parametrize("value", [0.0, 1.5])
def test_a_wrong_proof_is_named_by_the_plan_though_values_agree(
    monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    monkeypatch.setattr(Sharing, "may", anything)
    x = np.full((64, 64), value, np.float32)
    report = check(flipped(), [x], [], Options(graph=GraphOptions(fuse=False)))
    assert [f.level for f in report.findings] == ["plan"]
    assert "in-place" in report.findings[0].message


def test_the_same_plan_without_the_fault_is_sound() -> None:
    x = np.ones((64, 64), np.float32)
    assert check(flipped(), [x], [], Options(graph=GraphOptions(fuse=False))).agree
