"""``didyma sanitize`` on the command line: findings, exit codes and what it refuses."""

from __future__ import annotations

import codecs
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from didyma.codegen.runtime.ptx.sanitize import Finding, Sanitized
from didyma.codegen.runtime.ptx.shape import Shape
from didyma.codegen.runtime.ptx.sources import Source
from didyma.codegen.runtime.registry import probe
from didyma.commands import hints
from didyma.commands.host_code import Buffer
from didyma.commands.sanitize import Request, arguments, extents, sanitize
from didyma.commands.second import Second, second
from didyma.refimpl.errors import DidymaError
from tests.errors.test_codes import says

COPY = """
.visible .entry copy(.param .u64 x, .param .u64 y, .param .u32 n) {
  .reg .pred %p; .reg .b32 %i, %n, %v; .reg .b64 %at, %x, %y;
  mov.u32 %i, %tid.x;
  ld.param.u32 %n, [n];
  setp.GE.u32 %p, %i, %n;
  @%p ret;
  ld.param.u64 %x, [x];
  ld.param.u64 %y, [y];
  mul.wide.u32 %at, %i, 4;
  add.u64 %x, %x, %at;
  add.u64 %y, %y, %at;
  ld.global.u32 %v, [%x];
  st.global.u32 [%y], %v;
  ret;
}
"""


def judged(folder: Path, text: str, *args: str, schedules: int = 2) -> int:
    path = folder / "copy.ptx"
    path.write_text(text, encoding="utf-8")
    asked = Request(path, "copy", "1", "40", args, 0, (), (), schedules, 1, 10.0)
    return sanitize(asked, True)


def test_findings_have_lines_of_the_ptx(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right, wrong = COPY.replace("GE", "ge"), COPY.replace("GE", "gt")
    args = ("x=f32[33]", "y=out:f32[33]", "n=u32:33")
    assert judged(tmp_path, right, *args) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []
    assert judged(tmp_path, wrong, *args) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "faulty"
    rows = [(f["kind"], f["line"], f["source"]) for f in found["findings"]]
    assert rows == [
        ("out-of-bounds", 13, "ld.global.u32 %v, [%x];"),
        ("out-of-bounds", 14, "st.global.u32 [%y], %v;"),
    ]
    assert judged(tmp_path, right, "x=f32[33]", "y=out:f32[34]", "n=u32:33") == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["kind"] == "unwritten"
    assert judged(tmp_path, right, *args, schedules=0) == 5


def test_a_null_pointer_is_reached_in_vain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = COPY.replace("GE", "ge")
    assert judged(tmp_path, right, "x=null", "y=out:f32[33]", "n=u32:33") == 1
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert (found["kind"], found["line"]) == ("out-of-bounds", 13)
    assert judged(tmp_path, right, "x=null", "y=null", "n=u32:0") == 0


@pytest.mark.parametrize(
    ("x", "y", "code"),
    [
        ("x=f32[33]:strides=(1)", "y=out:f32[33]:strides=(1)", 0),
        ("x=f32[33]:strides=(2)", "y=out:f32[33]", 1),
        ("x=f32[33]:strides=(0)", "y=out:f32[33]", 1),
        ("x=f32[33]:strides=(-1)", "y=out:f32[33]", 1),
        ("x=f32[3,11]:strides=(11,1):offset=7", "y=out:f32[3,11]:strides=(11,1)", 0),
        ("x=f32[40]", "y=out:f32[2,16]:strides=(17,1)", 0),
        ("x=f32[40]", "y=out:f32[2,16]:strides=(18,1)", 1),
    ],
)
def test_elements_lie_at_the_strides_that_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], x: str, y: str, code: int
) -> None:
    right = COPY.replace("GE", "ge")
    assert judged(tmp_path, right, x, y, "n=u32:33") == code
    kinds = {f["kind"] for f in json.loads(capsys.readouterr().out)["findings"]}
    assert kinds <= {"uninitialised", "out-of-bounds", "unwritten"}


def test_pointers_are_to_the_first_element_whatever_the_signs_of_strides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turned = COPY.replace("GE", "ge").replace("add.u64 %x", "sub.u64 %x")
    for x, code in (("f32[33]:strides=(-1)", 0), ("f32[33]:strides=(-1):offset=35", 0),
                    ("f32[32]:strides=(-1)", 1), ("f32[33]", 1)):  # fmt: skip
        assert judged(tmp_path, turned, f"x={x}", "y=out:f32[33]", "n=u32:33") == code
        assert len(json.loads(capsys.readouterr().out)["findings"]) == code
        pair = f"p={{x={x},y=out:f32[33]}}"
        whole = turned.replace(".param .u64 x, .param .u64 y", ".param .align 8 .b8 p[16]")
        whole = whole.replace("[x]", "[p]").replace("[y]", "[p+8]")
        assert judged(tmp_path, whole, pair, "n=u32:33") == code
        capsys.readouterr()


def test_arguments_are_read_and_drawn(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.arange(6, dtype=np.float64))
    items = [
        "i=i32[50]", "r=u8[9]:3..5", "y=out:f16[2]", "z=zero:f32[7]", "a=f64:-2.5",
        f"v={tmp_path / 'v.npy'}",
    ]  # fmt: skip
    i, r, y, z, a, v = arguments(items, 3)
    assert set(i.value.tolist()) == {0, 1}, "valid in the smallest array"
    assert set(r.value.tolist()) <= {3, 4, 5}
    assert y.output
    assert np.isnan(y.value).all()
    assert not z.value.any()
    assert (a.value.ndim, float(a.value)) == (0, -2.5)
    assert v.value.tolist() == list(range(6))
    again = arguments(items, 3)
    assert all(
        p.value.tobytes() == q.value.tobytes() for p, q in zip((i, r), again[:2], strict=True)
    )


def test_items_may_have_no_names() -> None:
    items = ["f32[9]", "map(f32[8,64], box=8x32)", "{n=i32:9,x=f32[9]}", "null", "n=i32:9"]
    assert [a.name for a in arguments(items, 3)] == ["1", "2", "3", "4", "n"]


@pytest.mark.parametrize(
    ("item", "code"),
    [
        ("x", "bad-option"),
        ("x=f32", "bad-option"),
        ("x=f12[3]", "unknown-dtype"),
        ("n=i32:many", "bad-option"),
        ("n=u8:256", "bad-option"),
        ("x=absent.npy", "unreadable-file"),
        ("x=f32[4,8]:strides=(1)", "bad-option"),
        ("x=f32[4]:strides=(-2):offset=5", "bad-option"),
        ("x=out:f32[4,8]:strides=(0,1)", "bad-option"),
    ],
)
def test_items_that_are_no_arguments_are_refused(item: str, code: str) -> None:
    with pytest.raises(DidymaError) as e:
        arguments([item], 0)
    assert e.value.code == code


def test_a_file_without_an_array_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.npy").touch()
    with says("unreadable-file", "--arg x=", "empty.npy", "numpy.save"):
        arguments([f"x={tmp_path / 'empty.npy'}"], 0)


@pytest.mark.parametrize("grid", ["0", "2,0", "1,1,1,1", "-1", "many"])
def test_a_launch_has_blocks(grid: str) -> None:
    with says("bad-option", f"--grid {grid}", "from 1 on"):
        extents(grid, "--grid")


def test_folders_of_headers_exist(tmp_path: Path) -> None:
    asked = Request(tmp_path / "k.cu", "k", "1", "1", (), 0, (), (tmp_path / "absent",), 1, 1, 1.0)
    with says("unreadable-file", "--include", "absent"):
        sanitize(asked, json=False)


def test_fields_of_structures_are_laid_out_as_in_c(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kernel copies from ``g.x``, which is at byte 8, to ``g.y`` at 16 while below ``g.n``."""
    text = COPY.replace(".param .u64 x, .param .u64 y, .param .u32 n", ".param .align 8 .b8 g[32]")
    text = text.replace("[n]", "[g+24]").replace("[x]", "[g+8]").replace("[y]", "[g+16]")
    path = tmp_path / "copy.ptx"
    path.write_text(text.replace("GE", "ge"), encoding="utf-8")
    fields = "c=u8:1,x=u32[{}],y=out:u32[33],inner={{n=u32:33,d=u8:2}}"
    for size, code in ((33, 0), (32, 1)):
        item = f"g={{{fields.format(size)}}}"
        asked = Request(path, "copy", "1", "40", (item,), 0, (), (), 2, 1, 10.0)
        assert sanitize(asked, True) == code
        found = json.loads(capsys.readouterr().out)["findings"]
        assert [f["detail"].split(" by ")[0] for f in found] == (
            ["argument x at byte 128 of 128, access of 4 bytes,"] if code else []
        )
    small = Request(path, "copy", "1", "40", ("g={n=i32:1}",), 0, (), (), 2, 1, 10.0)
    with pytest.raises(DidymaError, match="structure of 4 bytes"):
        sanitize(small, True)


def test_what_is_left_out_is_guessed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bounded = COPY.replace("GE", "gt").replace(") {", ") .maxntid 48, 1, 1 {", 1)
    cases = (
        (COPY.replace("GE", "ge"), "", [128, 1, 1], 125),
        (COPY.replace("GE", "ge").replace("%tid.x", "%tid.y"), "", [16, 8, 1], 125),
        (bounded, "", [48, 1, 1], 45),
        (bounded, "64", [64, 1, 1], 61),
    )
    for text, block, launched, number in cases:
        path = tmp_path / "copy.ptx"
        path.write_text(text, encoding="utf-8")
        assert sanitize(Request(path, "", "", block, (), 0, (), (), 1, 1, 10.0), True) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["grid"], found["block"]) == ([1, 1, 1], launched)
        assert found["guessed"] == [
            f"x=i32[{number * (number + 3)}]", f"y=i32[{number * (number + 3)}]", f"n=i32:{number}",
        ]  # fmt: skip


@pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")
@pytest.mark.parametrize("text", ["", "template <int N> __global__ void k(int* x) { x[N] = 1; }"])
def test_a_text_of_templates_alone_wants_an_instance(text: str, tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DidymaError, match="unknown-kernel") as e:
        sanitize(Request(path, "", "", "", (), 0, (), (), 1, 1, 10.0), False)
    assert "--kernel 'f<float, 128>'" in str(e.value)


@pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")
def test_a_kernel_that_is_missing_is_told_with_the_names_of_those_that_are_there(
    tmp_path: Path,
) -> None:
    path = tmp_path / "k.cu"
    path.write_bytes(codecs.BOM_UTF8 + b"__global__ void one(int* x) {}\r\n")
    with pytest.raises(DidymaError, match="unknown-kernel") as e:
        sanitize(Request(path, "two", "", "", (), 0, (), (), 1, 1, 10.0), False)
    assert e.value.want == "one of one"


HOSTED = """
#define TILE 8 // of an axis
template <typename T, int N> __global__ void scan(T* x, int n) {
  int i = 2 * blockIdx.x * N + threadIdx.x;
}
__global__ void blur(const float* in, float* out) {
  int x = blockIdx.x * TILE + threadIdx.x, y = TILE * blockIdx.y + threadIdx.y;
}
__global__ void fixed(int* a) {}
int main() {
  const int N = 4 * 32;
  dim3 grid(3, 2), block = dim3(N, 4);
  fixed<<<grid, block, 0, stream>>>(a);
  blur<<<(width + 7) / 8, some(1)>>>(a, b);
}
"""


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("fixed", ((3, 2, 1), (128, 4, 1))),
        ("blur", (None, (8, 8, 1))),
        ("scan<int, 96>", (None, (96, 1, 1))),
        ("scan", (None, (128, 1, 1))),
    ],
)
def test_a_launch_is_read_off_the_file(name: str, want: tuple[object, object]) -> None:
    assert hints.launch(HOSTED, name) == want
    noted = "// --gridDim=[2,3] --blockDim=64\n" + HOSTED
    if name != "fixed":
        assert hints.launch(noted, name) == ((2, 3, 1), (64, 1, 1))


LAUNCHED = """
#include <cstdio>
extern __shared__ float s[];
template <int T> __global__ void rows(const float4* x, float* y, const int* at, int n) {
  s[threadIdx.x] = x[blockIdx.x * n + threadIdx.x].x;
  __syncthreads();
  if (threadIdx.x < n) y[blockIdx.x * n + threadIdx.x] = s[(threadIdx.x + 1) % T];
}
__device__ void lock(int* m) { while (atomicCAS(m, 0, 1) != 0) ; __threadfence(); }
__global__ void count(int* total, int* mutex, const int* depth, int now) {
  if (threadIdx.x != 0 || depth[blockIdx.x] < 0) return;
  lock(mutex);
  *total = *total + now;
  __threadfence();
  atomicExch(mutex, 0);
}
int main() {
  int n = 60; const int T = 64; float *x, *y;
  cudaMalloc((void**)&x, 2 * n * 4 * sizeof(float) + 4 * 16);
  cudaMalloc(&y, sizeof(float) * n * 2);
  cudaMemset(y, 0, sizeof(float) * n * 2);
  rows<64><<<2, T, T * sizeof(float)>>>((float4*)x, y, nullptr, n);
  for (int i = 0; i < 3; i++) printf("%d", i);
}
"""


def test_the_arguments_of_a_launch_are_read_off_the_file() -> None:
    assert hints.shared(LAUNCHED, "rows<64>") == 256
    assert hints.shared(LAUNCHED, "count") is None
    x, y, at, n = hints.arguments(LAUNCHED, "rows<64>")
    assert (x, y, at, n) == (Buffer(1984, False), Buffer(480, True), None, 60)
    assert hints.arguments(LAUNCHED, "count") == ()


def test_each_kernel_of_a_file_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One is launched in the file; the other has a lock, which is free when it starts."""
    if not probe("ptx").runs:
        pytest.skip("no NVRTC")
    path = tmp_path / "two.cu"
    path.write_text(LAUNCHED, "utf-8")
    asked = Request(path, "", "", "", (), None, (), (), 1, 1, 10.0)
    assert sanitize(asked, True) == 0
    count, rows = json.loads(capsys.readouterr().out)["kernels"]
    assert (rows["kernel"], rows["shared"], rows["block"]) == ("rows<64>", 256, [64, 1, 1])
    assert rows["guessed"] == ["x=i32[496]", "y=zero:f32[120]", "at=i32[7680]", "n=i32:60"]
    assert [g.partition("[")[0] for g in count["guessed"][:3]] == [
        "total=i32", "mutex=zero:i32", "depth=i32"
    ]  # fmt: skip
    assert sanitize(replace(asked, args=("n=i32:1",)), True) == 2
    kernels = json.loads(capsys.readouterr().out)["kernels"]
    assert [k["verdict"] for k in kernels] == ["refused"] * 2
    assert all("want: 4" in k["error"] for k in kernels)


def test_the_members_of_structures_are_read_off_the_file() -> None:
    text = """
    typedef struct __align__(8) { int n, m; const float *x, *y; } Row; // a row
    struct Table : public Base { Row row; double scale = 1.0; __device__ int rows() { return 3; } };
    struct Base { unsigned char flag; };
    struct Odd { std::vector<int> v; };
    struct Sum { float a; const float* x; __device__ float operator()(int i) const {
      if (i > 3) { return x[i]; } else { return a; } } };
    """
    found = {p.name: (p.of, p.pointer) for p in hints.members(text, "Row") or ()}
    assert found == {
        "n": ("int", False), "m": ("int", False), "x": ("float", True), "y": ("float", True)
    }  # fmt: skip
    assert hints.members(text, "Odd") is None
    assert [p.name for p in hints.members(text, "Sum") or ()] == ["a", "x"]
    assert hints.members(text, "Missing") is None


def test_macros_of_the_command_line_are_known_to_the_guess(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not probe("ptx").runs:
        pytest.skip("no NVRTC")
    path = tmp_path / "tile.cu"
    path.write_text(
        "__global__ void k(int* x) { __shared__ int s[TILE]; s[threadIdx.x] = 1;"
        " x[blockIdx.x * TILE + threadIdx.x] = s[threadIdx.x]; }", "utf-8",
    )  # fmt: skip
    asked = Request(path, "", "", "", (), 0, ("TILE=48",), (), 1, 1, 10.0)
    assert sanitize(asked, True) == 0
    assert json.loads(capsys.readouterr().out)["block"] == [48, 1, 1]


def test_a_structure_is_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "copy.ptx"
    path.write_text(COPY.replace(".u32 n)", ".align 4 .b8 n[12])").replace("GE", "ge"), "utf-8")
    with pytest.raises(DidymaError, match="by its fields"):
        sanitize(Request(path, "", "", "", (), 0, (), (), 1, 1, 10.0), True)


PLAIN = """
__global__ void shift(const int* x, int* y, int n) {
  __shared__ int s[64];
  int i = threadIdx.x;
  s[i] = x[i];
  BARRIER
  if (i < n) y[i] = s[(i + 1) % 64];
}
"""


@pytest.mark.parametrize("racy", [False, True])
def test_plain_kernels_run_on_a_second_engine(racy: bool) -> None:
    """What ``ptx`` found is forged, so that ``simt`` has something to differ from."""
    text = PLAIN.replace("BARRIER", "" if racy else "__syncthreads();")
    args = arguments(["x=i32[64]", "y=out:i32[64]", "n=i32:64"], 1)
    shape = Shape((1, 1, 1), (64, 1, 1))
    race = Finding("race", "", "k.cu", 7, "", (), "", 1, 0)
    for found in ((), (race,)):
        done = Sanitized(found, 1, 64, ())
        other = second(Source(text, "k.cu"), "", shape, args, 0, done)
        assert other.outside == ""
        assert bool(other.differs) == (bool(found) != racy)
        assert "race" in other.differs or not other.differs


@pytest.mark.parametrize("as_json", [False, True])
def test_what_the_second_engine_alone_finds_is_told(
    as_json: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = "engine simt finds what ptx does not: race"

    def forged(*_: object) -> Second:
        return Second("", said)

    monkeypatch.setattr("didyma.commands.sanitize.second", forged)
    path = tmp_path / "copy.ptx"
    path.write_text(COPY.replace("GE", "ge"), encoding="utf-8")
    args = ("x=f32[33]", "y=out:f32[33]", "n=u32:33")
    assert sanitize(Request(path, "copy", "1", "40", args, 0, (), (), 1, 1, 10.0), as_json) == 1
    out = capsys.readouterr().out
    assert said in " ".join(out.split())
    assert not as_json or json.loads(out)["verdict"] == "disputed"


def test_single_numbers_do_not_bound_drawn_integers() -> None:
    x, _ = arguments(["x=i32[200]", "count=zero:i32[1]"], 1)
    assert 32 <= x.value.max() < 64
    x, _ = arguments(["x=i32[200]", "y=f32[9]"], 1)
    assert x.value.max() < 9


def test_a_second_engine_leaves_alone_what_is_no_plain_c() -> None:
    done, shape = Sanitized((), 1, 64, ()), Shape((1, 1, 1), (64, 1, 1))
    for text, file in (("template <int N> __global__ void k(int* x) {}", "k.cu"), ("", "k.ptx")):
        assert second(Source(text, file), "", shape, [], 0, done).outside
    nothing = "__global__ void k() { __shared__ int s[1]; s[0] = threadIdx.x; }"
    assert second(Source(nothing, "k.cu"), "", shape, [], 0, done).outside


@pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")
@pytest.mark.parametrize(
    ("kernel", "verdict", "block"),
    [
        ("dynamic_shared 0", "clean", 64),  # made for 64 threads: 128 race
        ("dynamic_shared 2", "faulty", 128),
        ("early_return 1", "faulty", 64),  # full blocks and a warp alone hide it
        ("assertion 0", "clean", 128),  # which asserts what it is given
    ],
)
def test_what_only_a_guess_shows_is_no_fault(
    kernel: str, verdict: str, block: int, capsys: pytest.CaptureFixture[str]
) -> None:
    name, fault = kernel.split()
    path = Path(__file__).parents[1] / "data" / "sanitize" / f"{name}.cu"
    asked = Request(path, "", "", "", (), None, (f"FAULT={fault}",), (), 3, 1, 20.0)
    assert sanitize(asked, True) == (verdict == "faulty")
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["block"][0]) == (verdict, block)
    assert [n["kind"] for n in found["notes"]] == (["refused"] if name == "assertion" else [])
