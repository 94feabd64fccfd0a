"""Kernels of plain C on engine ``simt`` beside ``ptx``."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.emit.plain import plain
from didyma.codegen.emit.plain_expressions import Outside
from didyma.codegen.runtime.ptx.sources import Source
from didyma.codegen.runtime.registry import probe
from didyma.codegen.runtime.simt import Simt
from didyma.judging import beside
from didyma.judging.contracts import Declared
from didyma.judging.judge import Judgement, Outcome, judge
from didyma.judging.making import make_task
from didyma.judging.task import Draw
from didyma.refimpl.ir.expr import index
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops.bars import Bar
from tests.bench.idioms import IDIOMS
from tests.bench.judged_kernels import MORE
from tests.didyma.judging.kernels import KERNELS, Judged

needs_ptx = pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")


def run(body: str, x: Array, threads: int = 1, head: str = "") -> Array:
    """Return what a kernel of plain C makes of an array, on ``simt``."""
    text = f"{head}\n__global__ void f(const float* x, float* y, int n) {{ {body} }}"
    made = plain(text)
    engine, one = Simt(), index(1)
    buffers = [engine.upload(x), engine.upload(np.zeros(x.size, np.float32))]
    s = Signature(
        "f", made.pointers, (index(x.size),) * 2, ("y",), (), (one, one, one), (threads, 1, 1),
        made.scalars,
    )  # fmt: skip
    loaded = engine.load(KernelText(made.source, (s,)))
    loaded.launch("f", buffers, {}, scalars=[x.size])
    return engine.download(buffers[1], DType.F32, x.shape)


X = np.array([3.0, -1.5, 8.0, 0.25], np.float32)


@pytest.mark.parametrize(
    ("body", "head", "want"),
    [
        ("int i = threadIdx.x; y[i] = x[i] > 0 ? 1 : -1;", "", [1, -1, 1, 1]),
        ("y[threadIdx.x] = (threadIdx.x - 1 > 2u) + 7 / 2;", "", [4, 3, 3, 3]),
        ("for (int i = 0; i < 1; ++i) { int i = 5; y[threadIdx.x] = i; }", "", [5, 5, 5, 5]),
        ("if (threadIdx.x >= 2) return; y[threadIdx.x] = K * 2;", "#define K 3", [6, 6, 0, 0]),
        ("const float* p = x + 1; y[threadIdx.x] = p[threadIdx.x % 3];", "", [-1.5, 8, 0.25, -1.5]),
        ("y[threadIdx.x] = half_of(x[threadIdx.x] + 1);",
         "__device__ float half_of(float v) { return v * 0.5f; }", [2, -0.25, 4.5, 0.625]),
        ("int i = threadIdx.x; float t[2][2] = {1, 2}; t[1][0] = 4; y[i] = t[i / 2][i % 2];",
         "", [1, 2, 4, 0]),
        ("int i = threadIdx.x; y[i] = fmaxf(x[i], 1.0f) + (int)x[i] % 2;", "", [4, 0, 8, 1]),
        ("__shared__ float s; if (threadIdx.x == 0) s = x[2]; __syncthreads(); y[threadIdx.x] = s;",
         "", [8, 8, 8, 8]),
        ("atomicAdd(&y[0], x[threadIdx.x]);", "", [9.75, 0, 0, 0]),
    ],
)  # fmt: skip
def test_plain_c_means_what_c_says(body: str, head: str, want: list[float]) -> None:
    assert run(body, X, 4, head).tolist() == want


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("template <int T> __global__ void f(float* y) { y[0] = T; }", "line 1"),
        ("#if 1\n#endif\n__global__ void f(float* y) { y[0] = 1; }", "line 1: a directive"),
        (
            "__global__ void f(float* y) {\n y[0] = __shfl_up_sync(1, 1.0f, 1); }",
            "line 2: the func",
        ),
        ("__global__ void f(float* y, int n) {\n if (n) return;\n __syncthreads(); }", "a return"),
        ("__global__ void f(float* y) { } __global__ void g(float* y) { }", "2 kernels"),
    ],
)
def test_what_is_not_plain_c_is_told(text: str, why: str) -> None:
    with pytest.raises(Outside, match=why):
        plain(text)


def verdict(kernel: Judged, text: str, contract: Declared | None = None) -> Judgement:
    draw = Draw(rounds=4, most=1 << 12)
    source = Source(text, "k.cu")
    return judge(make_task(source, kernel.spec.module, kernel.launch, contract, draw))


@needs_ptx
@pytest.mark.parametrize(
    "name", ["add", "sums", "transposed", "running", "biased", "split", "bins"]
)
def test_all_engines_have_one_verdict(name: str) -> None:
    kernel = {**KERNELS, **MORE, **IDIOMS}[name]
    found = verdict(kernel, kernel.text)
    assert found.outcome is Outcome.CORRECT
    assert [b.rounds for b in found.others[:2]] == [4, 4]
    assert not any(b.differ for b in found.others)
    assert not found.terms.unequal
    assert (found.terms.in_ring > 0) == (name != "bins"), "integers are in no ring"
    assert found.terms.engine == "simt"
    for fault in kernel.faults.values():
        edited = verdict(kernel, kernel.text.replace(fault.old, fault.new))
        assert not any(b.differ for b in edited.others)


@needs_ptx
def test_a_wrong_engine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    real = beside.run

    def wrong(*args: object, **more: object) -> list[Array]:
        return [x + 1 for x in real(*args, **more)]  # type: ignore[arg-type]  # handed through

    monkeypatch.setattr(beside, "run", wrong)
    found = verdict(KERNELS["add"], KERNELS["add"].text)
    assert found.outcome is Outcome.DIFFERENT
    assert "elements are wrong" in found.others[0].differ[0]


def test_engines_at_the_edge_of_a_bar_are_in_no_dispute() -> None:
    bar = Bar(np.array([1.0, 1.0, 1.0, 2.0, np.nan]), np.array([0.25, 0.25, 0.25, 0.0, 0.0]))
    ours = np.array([1.25, 1.25, 3.0, 2.0, np.nan], np.float32)
    theirs = np.array([1.5, 2.5, 1.0, 2.5, 0.0], np.float32)
    found = beside.disputed(bar, ours, theirs, DType.F32)
    assert found.tolist() == [False, True, True, True, True]


@needs_ptx
@pytest.mark.parametrize("agreed", [True, False])
def test_overflows_of_a_wrong_kernel_are_in_no_dispute(
    agreed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = KERNELS["add"]
    task = make_task(Source(kernel.text, "k.cu"), kernel.spec.module, kernel.launch)
    beside_, case = beside.Beside("host"), judge(task).cases[0]
    nan, inf = np.full(1, np.nan, np.float32), np.full(1, np.inf, np.float32)

    def unfused(*_: object) -> list[Array]:
        return [nan]

    monkeypatch.setattr(beside, "run", unfused)
    bar = Bar(np.full(1, np.inf), np.zeros(1))
    beside_.meet(task, case, [nan, nan], [bar], [inf], agreed=agreed, twins=False)
    assert bool(beside_.differ) is agreed
