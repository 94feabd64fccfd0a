"""The line of a fault: edits that mend it, barriers, and the choice among several."""

from __future__ import annotations

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.runtime.ptx.sources import Source
from didyma.codegen.runtime.registry import probe
from didyma.fuzz.values import Distribution
from didyma.judging.contracts import Declared
from didyma.judging.edits import Edit, edits
from didyma.judging.evidence import Evidence
from didyma.judging.inputs import Case
from didyma.judging.inserted import with_barriers
from didyma.judging.judge import Judgement, Outcome, judge, located
from didyma.judging.making import Launch, make_task
from didyma.judging.mending import Search, smaller, telling
from didyma.judging.rounds import Round, later
from didyma.judging.sizes import below
from didyma.judging.task import Draw
from didyma.show import judge_kernel as show
from tests.didyma.judging.kernels import KERNELS, added, n, r

needs_ptx = pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")


@dd.trace(dd.f32[n])
def doubled(x: dd.Tensor) -> dd.Tensor:
    return x + x


HEAD = (
    "template <int T> struct M { float m; }; f(M a, M b, float* x, int i, float eps) "
    "{ float p = 1, old = 2; int j = i; const float* ptr = x; if (i < 16) x[i] = 0;"
)


@pytest.mark.parametrize(
    ("right", "slip"),
    [
        ("  y = t[i][j];", "  y = t[j][i];"),
        ("  y = (float)s[i];", "  y = (float)(uint8_t)s[i];"),
        ("  y = x[i - 1];", "  y = x[i];"),
        ("  sum = sum * old + p;", "  sum = sum + p;"),
        ("  v = a.m + p * b.m;", "  v = b.m + p * b.m;"),
        ("  y = old + i;", "  y = p + i;"),
        ("  y = __hmul2(a, b);", "  y = __hadd2(a, b);"),
        ("  y = a.w * b.w;", "  y = a.w * b.z;"),
        ("  y = expf(-old);", "  y = expf(old);"),
        ("  y = rsqrtf(sum / i + eps);", "  y = rsqrtf(sum / i);"),
        ("  int acc = 0;", "  short acc = 0;"),
        ("  y = (old);", "  y = fmaxf(old, 0.f);"),
        ("  y = (old + p);", "  y = __bfloat162float(__float2bfloat16(old + p));"),
        ("  y = s[i];", "  y = s[0];"),
        ("  if (i < 4 && i < 16) y = 1;", "  if (i < 4) y = 1;"),
        ("  for (k = 0; k < 16; ++k)", "  for (k = 0; k < T; ++k)"),
        ("  y = s[j] * x[i];", "  y = s[i] * x[j];"),
        ("  y = p * b.m * b.m / i;", "  y = p * b.m / i;"),
        ("  y = x[j + i - 1];", "  y = x[j + i];"),
        ("  if (i == T - 1) y = 1;", "  if (i == T) y = 1;"),
        ("  y = 4.0f * p;", "  y = 3.0f * p;"),
        ("  y = p > 0 ? p * eps : 0.f;", "  y = p > 0 ? p : 0.f;"),
        ("  y = eps;", "  y = p;"),
        ("  y = p / i;", "  y = p;"),
        ("  for (k = 0; k < 9 && i < 16; ++k)", "  for (k = 0; k < 9; ++k)"),
        ("  y = 1; p = old;", "  y = 1;"),
        ("  s[old] = i; s[p] = i;", "  s[old] = i;"),
        ("  lo = big ? a : b;", "  lo = big ? b : a;"),
        ("  y = p * i + old * j;", "  y = p * j + old * i;"),
        ("  int k = j - 1;", "  int k = j;"),
        ("  y = s[(i * 3 + j) * 5] + j;", "  y = s[(i * 3) * 5] + j;"),
        ("  if ((j & 31) == 16) y = 1;", "  if ((j & 31) == 0) y = 1;"),
        ("  y = shfl(p, j);", "  y = shfl(p, 1);"),
        ("  p = old;", "  p = 0.f;"),
        ("  p += v.x + v.y + v.z;", "  p += v.x + v.y;"),
        ("  int k = 8 * j + i;", "  int k = 8 * i + i;"),
        ("  for (k = 0; k < (i + j - 1) / j; ++k)", "  for (k = 0; k < i / j; ++k)"),
        ("  if (p > old) atomicAdd(&x[i], p);", "  if (p > old) x[i] += p;"),
        ("  j = gridDim.x * blockDim.x;", "  j = blockDim.x;"),
        ("  p = __shfl_xor_sync(0xffffffff, p, j);", "  p = __shfl_xor_sync(0xfffffffe, p, j);"),
        ("  y = rsqrtf(p + 1e-5f);", "  y = rsqrtf(p + 1e-3f);"),
        ("  int k = min(i + 4, j);", "  int k = i + 4;"),
        ("  y = reduce(p, cg::plus<float>{});", "  y = reduce(p, cg::less<float>{});"),
        ("  y = g.rank(); i = g.rank();", "  y = g.size(); i = g.rank();"),
        ("  p += old;", "  p += x[i] * old;"),
        ("  if (i < 16) y = p;", "  if (j == 0) y = p;"),
        ("  if (i < old && j < p) y = 1;", "  if (i < p && j < old) y = 1;"),
        ("  y = p + old * old * i;", "  y = p + old * i;"),
        ("  p = old; old = eps;", "  p = old;"),
        ("  p += x[i];", "  p = x[i];"),
        ("  float best = -FLT_MAX;", "  float best = FLT_MIN;"),
        ("  y = p - old * old;", "  y = p - old;"),
        ("  y = i & 0x0f;", "  y = i & 0x07;"),
        ("  y = rsqrtf(p + eps);", "  y = 1.0f / (p + eps);"),
        ("  int k = i - (j - 1);", "  int k = i - j / 2;"),
        ("  int k = i / j;", "  int k = i % k;"),
        ("  y = s[2 * i / j];", "  y = s[i / j];"),
        ("  j = blockDim.y;", "  j = blockDim.x;"),
        ("  old = p; p = eps;", "  p = eps;"),
        ("  p += old * eps;", "  p += old * x[i];"),
        ("  p = v.x + v.y + v.z + v.w;", "  p = v.x + v.y + v.z + v.z;"),
        ("  int k = i + j - old;", "  int k = i - j + old;"),
        ("  for (k = j; k < i * T; ++k)", "  for (k = j; k < i; ++k)"),
        ("  for (k = j; k < i + T - 1; ++k)", "  for (k = j; k < i; ++k)"),
        ("  y = ptr[i];", "  y = x[i];"),
        ("  float best = -INFINITY;", "  float best = 0;"),
        ("  double all = 0;", "  double all = 1;"),
        ("  float all = 0.0f;", "  float all = 1e-3f;"),
        ("  T maxval = -INFINITY;", "  T maxval = 0;"),
        ("  k = j & (i - 1);", "  k = j & i;"),
        ("  for (k = j; k < i; k += 2 * j)", "  for (k = j; k < i; k += j)"),
        ("  k = i % T / j;", "  k = i / j;"),
    ],
)
def test_an_edit_makes_a_slip_right(right: str, slip: str) -> None:
    assert right in [e.new for e in edits(f"{HEAD}\n{slip}\n}}", [2])]


def test_statements_change_places() -> None:
    text = f"{HEAD}\n  p = old;\n  x[i] = x[i] * p;\n}}"
    (found,) = (e for e in edits(text, [2, 3]) if e.old == "  p = old;\n  x[i] = x[i] * p;")
    assert found.of(text) == f"{HEAD}\n  x[i] = x[i] * p;\n  p = old;\n}}"
    assert found.shown == "x[i] = x[i] * p; p = old;"


def test_edits_that_make_a_line_like_others_come_first() -> None:
    text = "s += x[i * n + k];\nt += y[i * n + k];\nu += z[i * m + k];\nint n, m, i, k;"
    found = [e.new for e in edits(text, [1, 2, 3])]
    assert found.index("u += z[i * n + k];") < found.index("s += x[i * m + k];")


def test_a_barrier_stands_before_a_line() -> None:
    (found,) = with_barriers("a;\n  b;\n", [2, 3], [1, 2])
    assert found == Edit(2, "  b;", "  __syncthreads(); b;")
    both = with_barriers("a;\n  b;\n", [2, 3], [1, 2], fences=True)
    assert [e.new for e in both] == ["  __syncthreads(); b;", "  __threadfence(); b;"]


def test_what_would_say_nothing_is_no_edit() -> None:
    text = "int i = x / 4;\nif (i < n) s += t[i] * a - b;\nint n, a, b;"
    found = [e.new for e in edits(text, [1, 2])]
    assert "if (n < n) s += t[i] * a - b;" not in found
    assert "int i = x / i;" not in found
    assert "if (i <= n) s += t[i] * a - b;" in found


def traced(text: str, spec: dd.Program, launch: Launch, contract: Declared) -> Judgement:
    draw = Draw(rounds=6, most=1 << 12)
    return located(judge(make_task(Source(text, "k.cu"), spec.module, launch, contract, draw)))


@needs_ptx
@pytest.mark.parametrize(
    ("name", "fault"), [("sums", "barrier"), ("add", "bound"), ("add", "last")]
)
def test_what_mends_a_fault_is_told(name: str, fault: str) -> None:
    kernel, planted = KERNELS[name], KERNELS[name].faults[fault]
    text = kernel.text.replace(planted.old, planted.new)
    found = traced(text, kernel.spec, kernel.launch, Declared())
    assert found.outcome is Outcome.WRONG
    assert found.suspect is not None
    assert found.suspect.edit is not None
    record = show.record(found, "k.cu")
    assert record["findings"][0]["mended_line"] == found.suspect.line
    assert any("it is right with" in row for row in show.lines(record))
    mended = found.suspect.edit.of(text)
    assert traced(mended, kernel.spec, kernel.launch, Declared()).outcome is Outcome.CORRECT


def test_a_line_of_which_edits_change_what_is_wrong_is_tried_next_and_named() -> None:
    tried = [Edit(n, "", str(k)) for k in range(40) for n in (10, 20)]
    found = Search(tried, Evidence(np.array([True, False, False]), (np.zeros(3),)))
    assert found.next(8) == tried[:8]
    found.evidence.meet(10, [np.array([0, 1, 1])], np.array([False, False, False]))
    found.evidence.meet(20, [np.array([5, 0, 0])], np.array([False, True, True]))
    assert {e.line for e in found.next(8)} == {20}
    assert found.places()[0] == 20


def test_lines_whose_edits_change_what_is_wrong_are_named_where_all_edits_were_tried() -> None:
    tried = [Edit(n, "", str(k)) for k in range(4) for n in (10, 20)]
    found = Search(tried, Evidence(np.array([True, False, False]), (np.zeros(3),)))
    found.evidence.meet(10, [np.array([0, 1, 1])], np.array([False, False, False]))
    found.evidence.meet(20, [np.array([5, 0, 0])], np.array([False, True, True]))
    found.next(len(tried))
    found.next(len(tried))
    assert not found.left
    assert found.places() == [20]


def test_a_line_on_which_one_of_two_wrong_outputs_depends_tells_less_than_one_of_both() -> None:
    before = np.zeros(8), np.zeros(1), np.zeros(1)
    found = Evidence(np.array([True] * 9 + [False]), before)
    none = np.zeros(10, np.bool_)
    found.meet(1, [np.ones(8), np.zeros(1), np.zeros(1)], none)
    found.meet(2, [np.ones(8), np.ones(1), np.zeros(1)], none)
    assert found.tells
    assert found.weight(2) > 1.5 * found.weight(1)


def test_edits_that_mend_a_part_tell_more_than_those_that_change_all() -> None:
    found = Evidence(np.array([True, True, False]), (np.zeros(3),))
    found.meet(1, [np.array([5, 5, 0])], np.array([False, False, True]))
    found.meet(2, [np.array([5, 5, 0])], np.array([True, False, True]))
    found.meet(3, [np.array([5, 5, 5])], np.array([True, True, False]))
    found.meet(4, [np.zeros(3)], np.array([False, False, True]))
    assert found.weight(2) > found.weight(1) > found.weight(3) > found.weight(4)


BEYOND = """__global__ void add(const float* x, const float* y, float* z, int n) {
  for (int i = threadIdx.x; i < n; i += 32) z[i] = i < 64 ? x[i] + y[i] : x[i];
}
"""


@needs_ptx
def test_a_fault_is_looked_for_in_the_round_that_tells_most_though_others_take_less() -> None:
    text = BEYOND.replace("i < 64", "n > 64 && i < 64")
    task = make_task(Source(text, "k.cu"), added.module, Launch(block="32"), draw=Draw())
    wrong = [later(task, Case(0, {"n": k}, Distribution.NORMAL)) for k in (32, 40, 500)]
    found, evidence = telling(task, wrong)
    assert found.case.env["n"] > 64
    assert evidence.tells


@needs_ptx
def test_a_fault_is_looked_for_at_the_least_sizes_that_show_it_in_a_part() -> None:
    task = make_task(Source(BEYOND, "k.cu"), added.module, Launch(block="32"), draw=Draw())
    wrong = Round.of(task, Case(0, {"n": 1000}, Distribution.NORMAL))
    outputs = wrong.run(task).outputs
    found, evidence = smaller(task, wrong, Evidence(~wrong.right(task, outputs), outputs))
    assert found.case.env == {"n": 65}
    assert [*np.flatnonzero(evidence.wrong)] == [64]


def test_smaller_sizes_fulfil_the_conditions() -> None:
    draw = Draw(where=("n % 4 == 0",))
    assert below(added.module, {"n": 40}, "n", (), draw) == [4, 8, 16, 32]


@needs_ptx
def test_rounds_that_take_long_end_once_a_kernel_is_known_to_be_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text, launch = KERNELS["add"].text.replace("+ b", "- b"), KERNELS["add"].launch
    task = make_task(Source(text, "k.cu"), added.module, launch, draw=Draw(most=256))
    monkeypatch.setattr("didyma.judging.judge.ENOUGH", 0.0)
    found = judge(task)
    assert found.outcome is Outcome.WRONG
    assert len(found.cases) < 16


@needs_ptx
def test_the_store_that_wrote_a_wrong_element_is_named() -> None:
    text = """__global__ void add(const float* x, const float* y, float* z, int n) {
  int i = threadIdx.x;
  if (i == 2 && i < n) z[2] = x[2] * y[2];
  if (i != 2 && i < n) z[i] = x[i] + y[i];
}
"""
    launch = Launch(block="1024")
    task = make_task(Source(text, "k.cu"), added.module, launch, draw=Draw({"n": (70,)}, rounds=2))
    found = located(judge(task), seconds=0)
    assert found.suspect is not None
    assert found.suspect.line == 3


@dd.trace(dd.f32[r, n])
def variance(x: dd.Tensor) -> dd.Tensor:
    return dd.var(x, axis=1)


VARIANCE = r"""
__global__ void variance(const float* x, float* y, int n) {
  float mean = 0.0f, m2 = 0.0f;
  for (int k = 0; k < n; ++k) {
    float d = x[blockIdx.x * n + k] - mean;
    mean += d / (k + 1);
    m2 += d * d * k * 64 / (k + 1) / 64;
  }
  y[blockIdx.x] = m2 / n;
}
"""


@needs_ptx
def test_intermediates_near_overflow_are_not_held_against_a_kernel() -> None:
    launch, finite = Launch("", "r", "1"), Declared(finite=True)
    assert traced(VARIANCE, variance, launch, finite).outcome is Outcome.CORRECT
    wrong = VARIANCE.replace("m2 / n", "m2 / (n + 1)")
    assert traced(wrong, variance, launch, finite).outcome is Outcome.WRONG


def test_a_line_that_sets_the_same_name_and_a_part_of_one_like_it_take_a_lines_place() -> None:
    body = "  float v = f(x[i]) + f(r[i]);\n  float v = f(x[i]);\n  p += x[i + 1] * s[j] + a[0];"
    found = [e.new for e in edits(f"{HEAD}\n{body}\n  q += x[i + 1] * s[j];\n}}", [3, 5])]
    assert "  float v = f(x[i]) + f(r[i]);" in found
    assert "  q += x[i + 1] * s[j] + a[0];" in found


AHEAD = """__global__ void twice(const float* x, float* y, int n) {
  int i = threadIdx.x, end = n - 16;
  float next = i < n ? x[i] : 0.0f;
  for (; i < n; i += 32) {
    float v = next;
    if (i < end)
      next = x[i + 32];
    y[i] = v + v;
  }
}
"""


@needs_ptx
def test_an_access_out_of_bounds_is_traced_to_the_bound_by_edits_that_run_together() -> None:
    draw = Draw(rounds=2, sizes={"n": (40, 75)})
    task = make_task(Source(AHEAD, "k.cu"), doubled.module, Launch(), draw=draw)
    found = located(judge(task))
    assert {f.kind for f, _ in found.faults} == {"out-of-bounds"}
    assert not any(not w.faulty for w in found.wrong)
    assert found.suspect is not None
    assert found.suspect.line == 2
    assert found.suspect.edit is not None
