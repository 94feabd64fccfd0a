"""``didyma judge``: right kernels are certified, and each planted fault is found."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.runtime.ptx.sources import Source
from didyma.commands import judge_kernel
from didyma.judging.contracts import Declared
from didyma.judging.edits import edits
from didyma.judging.judge import Judgement, Outcome, judge, located
from didyma.judging.making import Launch, make_task
from didyma.judging.request import Request
from didyma.judging.sizes import bindings
from didyma.judging.specs import load_spec
from didyma.judging.task import Draw
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Module
from didyma.show import judge_kernel as show
from tests.didyma.judging.kernels import ADD, KERNELS, SUMS, added, n, r, sums
from tests.errors.test_codes import says

pytestmark = pytest.mark.usefixtures("ptx")

FAULTS = [(name, fault) for name, judged in KERNELS.items() for fault in judged.faults]


def verdict(
    text: str,
    spec: Module,
    launch: Launch,
    contract: Declared | None = None,
    where: tuple[str, ...] = (),
    rounds: int = 8,
) -> Judgement:
    draw = Draw(where=where, rounds=rounds, most=1 << 13)
    task = make_task(Source(text, "k.cu"), spec, launch, contract, draw)
    return judge(task)


@pytest.mark.parametrize("name", KERNELS)
def test_a_right_kernel_is_correct(name: str) -> None:
    kernel = KERNELS[name]
    found = verdict(kernel.text, kernel.spec.module, kernel.launch)
    assert found.outcome is Outcome.CORRECT, (found.wrong, found.faults, found.accepted)
    assert found.deterministic
    assert found.checked > 0.9 * found.total > 100
    assert all(found.batch_invariant.values())
    assert ("r" in found.batch_invariant) == (name in ("softmax", "sums"))


@pytest.mark.parametrize(("name", "fault"), FAULTS)
def test_a_planted_fault_is_found(name: str, fault: str) -> None:
    kernel, planted = KERNELS[name], KERNELS[name].faults[fault]
    assert kernel.text.count(planted.old) == 1
    text = kernel.text.replace(planted.old, planted.new)
    found = verdict(text, kernel.spec.module, kernel.launch)
    assert found.outcome is Outcome.WRONG
    kinds = {f.kind for f, _ in found.faults} or {"wrong-value"}
    assert planted.kind in kinds


@pytest.mark.parametrize(
    ("name", "fault", "mended"),
    [("add", "sign", True), ("product", "last term", True), ("sums", "place", True)],
)
def test_a_wrong_value_is_traced_to_its_line(name: str, fault: str, mended: bool) -> None:
    kernel, planted = KERNELS[name], KERNELS[name].faults[fault]
    text = kernel.text.replace(planted.old, planted.new)
    found = located(verdict(text, kernel.spec.module, kernel.launch), seconds=20)
    at = next(n for n, row in enumerate(text.split("\n"), 1) if planted.new in row)
    assert found.suspect is not None
    assert found.suspect.line == at
    assert (found.suspect.edit is not None) == mended
    assert located(verdict(text, kernel.spec.module, kernel.launch), seconds=0).suspect is not None


COMPILED = """
.file 1 "/elsewhere/kernels.py"
.visible .entry add(
  .param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u32 p3, .param .u64 p4) {
  .reg .pred %p; .reg .b32 %i, %n; .reg .f32 %v, %w; .reg .b64 %at, %a, %b, %c;
  .loc 1 7 3
  mov.u32 %i, %tid.x; ld.param.u32 %n, [p3]; setp.ge.u32 %p, %i, %n;
  @%p ret;
  ld.param.u64 %a, [p0]; ld.param.u64 %b, [p1]; ld.param.u64 %c, [p2];
  mul.wide.u32 %at, %i, 4; add.u64 %a, %a, %at; add.u64 %b, %b, %at; add.u64 %c, %c, %at;
  ld.global.f32 %v, [%a]; ld.global.f32 %w, [%b];
  sub.f32 %v, %v, %w;
  .loc 1 9 3
  st.global.f32 [%c], %v;
  ret;
}
"""


def test_a_wrong_value_of_ptx_is_traced_to_the_file_that_it_was_compiled_from() -> None:
    launch = Launch(block="64", args=("a", "b", "out", "n", "null"))
    draw = Draw(sizes={"n": (5, 33, 64)}, rounds=4)
    task = make_task(Source(COMPILED, "k.ptx"), added.module, launch, None, draw)
    row = show.record(located(judge(task)), "k.ptx")["findings"][0]
    assert (row["kind"], row["file"], row["line"]) == ("wrong-value", "kernels.py", 7)
    assert "`add.f32` for `sub.f32`" in row["likely"]
    right = make_task(
        Source(COMPILED.replace("sub.f32", "add.f32"), "k.ptx"), added.module, launch, None, draw
    )
    assert judge(right).outcome is Outcome.CORRECT


def test_edits_mend_slips_of_one_line() -> None:
    right = "  for (int k = i; k < n; k += 4) s += fmaxf(a[i * n + k], 0.0f) - b[k];"
    slips = (
        ("k < n", "k <= n"), ("k < n", "k < n - 1"), ("k += 4", "k += 8"), ("fmaxf", "fminf"),
        ("s += ", "s = "), (") - b", ") + b"), ("a[i * n + k]", "a[k * n + i]"), ("0.0f", "1.0f"),
        ("b[k]", "b[i]"), ("b[k]", "a[k]"), ("int k = i", "int k = n"),
    )  # fmt: skip
    head = "f(float* a, float* b, int n) { int i = threadIdx.x; float s = 0;"
    for old, new in slips:
        text = f"{head}\n{right.replace(old, new)}\n}}"
        assert right in [e.new for e in edits(text, [2])], new
        assert all(e.of(text).split("\n")[0] == head for e in edits(text, [2]))


ZEROS = ADD.replace("a[i] + b[i]", "0.0f")
CHEATS = {
    "zeros": "0.0f",
    "a constant": "1.5f",
    "a copy": "a[i]",
    "the mean": "0.5f * (a[i] + b[i])",
    "bf16": "__uint_as_float(__float_as_uint(a[i] + b[i]) & 0xffff0000u)",
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_is_wrong(cheat: str) -> None:
    kernel = KERNELS["add"]
    found = verdict(ADD.replace("a[i] + b[i]", CHEATS[cheat]), added.module, kernel.launch)
    assert found.outcome is Outcome.WRONG


@dd.trace(dd.f32[r, n])
def nothing(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(x - x, axis=1)


@dd.trace(dd.f32[n])
def same(a: dd.Tensor) -> dd.Tensor:
    return dd.abs(a)


COPY = """
__global__ void copy(const float* a, float* b, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) b[i] = a[i];
}
"""
ZERO = "__global__ void zero(const float* x, float* y) { if (!threadIdx.x) y[blockIdx.x] = 0; }"


def test_a_task_that_cannot_tell_the_answer_certifies_nothing() -> None:
    found = verdict(ZERO, nothing.module, Launch(grid="r"), Declared(finite=True))
    assert found.outcome is Outcome.CANNOT_TELL
    assert "zeros" in found.accepted
    assert "stale memory" in found.accepted
    task = make_task(
        Source(COPY, "k.cu"), same.module, Launch(), draw=Draw(ranges={"a": (0.0, 1.0)}, rounds=4)
    )
    found = judge(task)
    assert found.outcome is Outcome.CANNOT_TELL
    assert found.accepted == ["a copy of a"]


@dd.trace(dd.f32[2, n])
def halved(a: dd.Tensor) -> dd.Tensor:
    return dd.reshape(a, (n * 2,)).astype("f16")


def test_a_task_whose_answer_is_a_copy_takes_one() -> None:
    text = """
    #include <cuda_fp16.h>
    __global__ void halved(const float* a, __half* b, int n) {
      for (int i = threadIdx.x; i < 2 * n; i += blockDim.x) b[i] = a[i];
    }
    """
    assert verdict(text, halved.module, Launch()).outcome is Outcome.CORRECT


BF16_SUMS = SUMS.replace("sum += x[blockIdx.x * n + k];", """{
    sum += x[blockIdx.x * n + k];
    sum = __uint_as_float(__float_as_uint(sum) & 0xffff0000u);
  }""")  # fmt: skip


def test_a_contract_says_how_sums_are_kept_and_ordered() -> None:
    launch = KERNELS["sums"].launch
    assert verdict(BF16_SUMS, sums.module, launch).outcome is Outcome.WRONG
    # Cutting off errs by twice as much as rounding does; only 64th parts are kept in bf16.
    half = BF16_SUMS.replace("& 0xffff0000u", "+ 0x8000u & 0xffff0000u")
    half = half.replace("sum = __uint", "if (sum == sum) sum = __uint")  # no NaN is cut to infinity
    assert verdict(half, sums.module, launch, Declared("bf16")).outcome is Outcome.CORRECT
    one = SUMS.replace("k = threadIdx.x", "k = threadIdx.x ? n : 0").replace("k += 64", "k += 1")
    assert verdict(one, sums.module, launch).outcome is Outcome.CORRECT
    for order, want in (("sequential", Outcome.CORRECT), ("n/64+7", Outcome.CORRECT)):
        assert verdict(SUMS, sums.module, launch, Declared(order=order)).outcome is want


def test_conditions_on_sizes_hold() -> None:
    wide = ADD.replace("if (i < n)\n", "").replace("int n", "")
    wide = wide.replace("float* c, ", "float* c").replace("blockDim.x", "128")
    launch = Launch(grid="n / 128", block="128")
    assert verdict(wide, added.module, launch, where=("n % 128 == 0",)).outcome is Outcome.CORRECT
    assert verdict(wide, added.module, launch).outcome is Outcome.WRONG


def test_each_size_goes_beyond_two_of_the_largest_tile_soon() -> None:
    found = bindings(sums.module, (63, 64, 256), Draw())
    assert all(513 in [e[name] for e in found] for name in ("r", "n"))


def test_sizes_that_fulfil_conditions_are_sought() -> None:
    draw = Draw(where=("n % 392 == 0", "n > 400"), most=1 << 12)
    assert {e["n"] for e in bindings(added.module, (), draw)} == {784, 1176}
    with pytest.raises(DidymaError, match="no sizes of n"):
        bindings(added.module, (), Draw(where=("n % 392 == 1", "n % 2 == 0")))


def test_a_kernel_without_told_shared_memory_has_some() -> None:
    text = SUMS.replace("__shared__ float part[64]", "extern __shared__ float part[]")
    assert text != SUMS
    found = verdict(text, sums.module, Launch(grid="r", block="64"))
    assert found.outcome is Outcome.CORRECT
    assert show.record(found, "k.cu")["guessed"] == ["--shared 49152"]
    none = verdict(text, sums.module, Launch(grid="r", block="64", shared="0"))
    assert {f.kind for f, _ in none.faults} == {"out-of-bounds"}


@dd.trace(dd.f32[r, n])
def column_sums(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(x, axis=0)


@dd.trace(dd.f32[n])
def halves(x: dd.Tensor) -> dd.Tensor:
    return x * 0.5


@dd.trace(dd.f32[n])
def largest(x: dd.Tensor) -> dd.Tensor:
    return dd.max(x)


LARGEST = """
__global__ void largest(const float* x, float* y, int n) {
  float v = -INFINITY;
  for (int i = threadIdx.x; i < n; i += 32) v = v > x[i] || isnan(v) ? v : x[i];
  for (int s = 16; s > 0; s /= 2) {
    float u = __shfl_xor_sync(0xffffffff, v, s);
    v = v > u || isnan(v) ? v : u;
  }
  if (!threadIdx.x) *y = v;
}
"""


def test_an_output_may_be_one_number_and_nan_counts() -> None:
    assert verdict(LARGEST, largest.module, Launch()).outcome is Outcome.CORRECT
    dropped = LARGEST.replace(" || isnan(v)", "")
    found = verdict(dropped, largest.module, Launch(), rounds=16)
    assert found.outcome is Outcome.WRONG
    assert found.only_special
    assert verdict(dropped, largest.module, Launch(), Declared(finite=True)).outcome is (
        Outcome.CORRECT
    )


COLUMNS = """
__global__ void columns(const float* x, float* y, int r, int n) {
  int c = blockIdx.x * 32 + threadIdx.x;
  if (c < n && blockIdx.y < r) atomicAdd(y + c, x[blockIdx.y * n + c]);
}
"""
HALVED = """
__global__ void halved(float* x, double scale, float* s, int n) {
  for (int i = threadIdx.x; i < n; i += 32) { s[i] = x[i]; x[i] = (float)scale * s[i]; }
}
"""


def test_outputs_may_be_zeroed_or_lie_over_an_input() -> None:
    columns, half = column_sums.module, halves.module
    launch = Launch(grid="cdiv(n, 32), r", args=("y=zero",))
    found = verdict(COLUMNS, columns, launch)
    assert found.outcome is Outcome.CORRECT
    assert not found.deterministic
    again = verdict(COLUMNS, columns, Launch(grid="cdiv(n, 32), r"))
    assert {f.kind for f, _ in again.faults} == {"uninitialised"}
    args = ("x=inplace:x", "scale=f64:0.5", "s=scratch:f32[n]")
    assert verdict(HALVED, half, Launch(args=args)).outcome is Outcome.CORRECT
    args = ("x=x", "scale=f64:0.5", "s=multiply")
    assert [f.kind for f, _ in verdict(HALVED, half, Launch(args=args)).faults] == ["input-changed"]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("x=a",), "spec-mismatch"),
        (("a=b", "b=a", "c=add", "n=q"), "bad-option"),
        (("n=a",), "spec-mismatch"),
        (("c=inplace:q:add",), "bad-option"),
        (("n=f33:1",), "unknown-dtype"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(args: tuple[str, ...], code: str) -> None:
    with pytest.raises(DidymaError) as caught:
        verdict(ADD, added.module, Launch(args=args))
    assert caught.value.code == code


def test_a_kernel_of_other_parameters_is_refused_with_both() -> None:
    with pytest.raises(DidymaError) as caught:
        verdict(COPY, added.module, Launch())
    assert caught.value.code == "spec-mismatch"
    assert "a, b, n" in str(caught.value)
    assert "a, b -> add" in str(caught.value)


@dd.trace(dd.f32[n], dd.f32[n])
def pair(a: dd.Tensor, b: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    return a + b, a - b


def test_an_output_without_a_parameter_is_named() -> None:
    with says("spec-mismatch", "no parameter for subtract; c is taken for add"):
        verdict(ADD, pair.module, Launch())


SPEC = """
import didyma as dd
n = dd.dim("n", 1, 4096)

@dd.trace
def add(a: dd.f32[n], b: dd.f32[n]) -> dd.f32[n]:
    return a + b
"""


def test_the_command_keeps_a_certificate_that_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "add.cu").write_text(ADD)
    (tmp_path / "spec.py").write_text(SPEC)
    described = tmp_path / "add.toml"
    described.write_text(
        'file = "add.cu"\nspec = "spec.py::add"\ngrid = "cdiv(n, 64)"\nblock = 64\nrounds = 4\n'
    )
    kept = tmp_path / "add.json"
    assert judge_kernel.command(Request(str(described)), kept, json=True) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["verdict"], record["cannot_tell"]) == ("correct", [])
    assert judge_kernel.check(kept, json=True) == 0
    assert json.loads(capsys.readouterr().out)["holds"]
    text = kept.read_text()
    kept.write_text(text.replace('"deterministic": true', '"deterministic": false'))
    with pytest.raises(DidymaError, match="bad-certificate"):
        judge_kernel.check(kept, json=True)
    kept.write_text(text)
    (tmp_path / "add.cu").write_text(ZEROS)
    with pytest.raises(DidymaError, match="stale-certificate"):
        judge_kernel.check(kept, json=True)
    assert judge_kernel.command(Request(str(described)), None, json=False) == 1
    shown = capsys.readouterr().out
    assert "add.cu:5: wrong-value: add[" in shown
    assert "add: wrong" in shown


SPECS = """
from __future__ import annotations
import didyma as dd
n, m = dd.dim("n", 1, 9), dd.dim("m", 1, 9)

@dd.trace
def wrong(x: dd.f32[n], y: dd.f32[m]) -> dd.f32[n]:
    return x + y

@dd.trace
def total(x: dd.f32[n]) -> dd.f32[1]:
    return dd.sum(x, keepdims=True)
"""


def test_a_function_that_cannot_be_traced_spoils_no_other(tmp_path: Path) -> None:
    path, told = tmp_path / "specs.py", list[str]()
    path.write_text(SPECS)
    found = load_spec(f"{path}::total", lambda name, why: told.append(f"{name} {why.code}"))
    assert found.module.entry.name == "total"
    assert told == [f"{path}::wrong shape-mismatch"]
    with pytest.raises(DidymaError, match="shape-mismatch"):
        load_spec(f"{path}::wrong")
    path.write_text(f"{SPECS}\nraise ValueError(3)\n")
    with pytest.raises(DidymaError, match="ValueError: 3"):
        load_spec(f"{path}::total")
    path.write_text(f"{SPECS}\nraise SystemExit(3)\n")
    with pytest.raises(DidymaError, match="SystemExit: 3"):
        load_spec(f"{path}::total")


def test_bad_specifications_and_descriptions_are_refused(tmp_path: Path) -> None:
    (tmp_path / "spec.py").write_text(SPEC + "raise ValueError('no')\n")
    (tmp_path / "other.py").write_text(SPEC)
    (tmp_path / "add.cu").write_text(ADD)
    (tmp_path / "add.toml").write_text("grid = 3\n")
    cases = [
        (Request("add.cu", spec=""), "bad-option"),
        (Request("add.cu", spec=f"{tmp_path}/spec.py::add"), "bad-spec"),
        (Request("add.cu", spec=f"{tmp_path}/other.py::sub"), "bad-spec"),
        (Request("add.cu", spec=f"{tmp_path}/other.py::np"), "bad-spec"),
        (Request("add.cu", spec=f"{tmp_path}/no.py::add"), "unreadable-file"),
        (Request("add.cu", spec="add.txt"), "bad-spec"),
        (Request(f"{tmp_path}/add.cc", spec=f"{tmp_path}/other.py::add"), "unknown-format"),
        (Request(f"{tmp_path}/add.toml"), "bad-option"),
        (Request(f"{tmp_path}/add.cu", spec=f"{tmp_path}/other.py", size=("q=3",)), "bad-option"),
        (Request(f"{tmp_path}/add.cu", spec=f"{tmp_path}/other.py", values=("q=3",)), "bad-option"),
        (Request(f"{tmp_path}/add.cu", spec=f"{tmp_path}/other.py", order="k"), "bad-option"),
        (Request(f"{tmp_path}/add.cu", spec=f"{tmp_path}/other.py", accumulate="f64"),
         "bad-option"),
        *((Request(f"{tmp_path}/add.cu", spec=f"{tmp_path}/other.py", grid=grid), "bad-option")
          for grid in ("cdiv(q, 128)", "size(q, 0)", "size(a, 7)", "min(n, q)", "0", "1,4-4")),
        (Request(f"{tmp_path}/add.cu", spec=f"{tmp_path}/other.py", block="4096"),
         "launch-failed"),
        (Request(f"{tmp_path}/add.cu", spec=f"{tmp_path}/other.py", include=("absent",)),
         "unreadable-file"),
    ]  # fmt: skip
    for asked, code in cases:
        with pytest.raises(DidymaError) as caught:
            judge_kernel.command(asked, None, json=True)
        assert caught.value.code == code, asked
        assert "unary" not in str(caught.value), "a name that nobody knows is named"


def test_bars_of_sums_that_are_kept_in_bf16_contain_them() -> None:
    import ml_dtypes

    from didyma.refimpl.ir.types import Array, DType
    from didyma.refimpl.ops import bars
    from didyma.refimpl.ops.bar_sums import sum_bar

    x = np.random.default_rng(3).standard_normal((64, 100)).astype(np.float32)
    total = np.zeros(64, ml_dtypes.bfloat16)
    for column in x.T:
        total = (total.astype(np.float32) + column).astype(ml_dtypes.bfloat16)
    found: dict[DType | None, Array] = {}
    for kept in (None, DType.BF16):
        bar = sum_bar(bars.exact(x), (1,), False, DType.F32, bars.Contract(accumulate=kept))
        found[kept] = np.abs(total.astype(np.float64) - bar.c) <= bar.e
    assert found[DType.BF16].all()
    assert found[None].mean() < 0.2


@dd.trace(dd.f32[n, 3], dd.i32[r])
def picked(table: dd.Tensor, ids: dd.Tensor) -> dd.Tensor:
    return dd.take(table, ids, axis=0)


def test_indices_are_drawn_inside_of_their_axis() -> None:
    text = """__global__ void k(const float* table, const int* ids, float* out) {
  out[blockIdx.x * 3 + threadIdx.x] = table[ids[blockIdx.x] * 3 + threadIdx.x];
}
"""
    launch = Launch(grid="r", block="3")
    task = make_task(Source(text, "k.cu"), picked.module, launch, draw=Draw(rounds=5))
    assert judge(task).outcome is Outcome.CORRECT


@dd.trace(dd.f32[r, n])
def greatest(x: dd.Tensor) -> dd.Tensor:
    return dd.logsumexp(x, axis=1)


def test_a_maximum_of_half_a_row_shows_by_a_peak() -> None:
    text = """__global__ void k(const float* x, float* out, int n) {
  x += blockIdx.x * n;
  float most = x[0], sum = 0;
  for (int k = 0; k < n / 2; ++k) most = fmaxf(most, x[k]);
  for (int k = 0; k < n; ++k) sum += expf(x[k] - most);
  out[blockIdx.x] = most + logf(sum);
}
"""
    launch, draw = Launch(grid="r", block="1"), Draw(most=1 << 10)
    finite = Declared(finite=True)
    found = judge(make_task(Source(text, "k.cu"), greatest.module, launch, finite, draw))
    assert "a peak in a row" in {w.case.kind for w in found.wrong}
