"""Tasks in the formats of others: what is read of them without PyTorch."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

import didyma as dd
from didyma.codegen.runtime.registry import probe
from didyma.commands import judge_kernel
from didyma.judging.adapters import flashinfer, gpumode, kernelbench, load_inline
from didyma.judging.adapters.load_inline import Inline
from didyma.judging.expressions import evaluate
from didyma.judging.making import Launch, merged
from didyma.judging.request import Request
from didyma.judging.specs import load_python, load_spec
from didyma.refimpl.errors import DidymaError
from tests.didyma.judging.kernels import SUMS, n, r, sums

SOLUTION = '''
import torch
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
KERNEL
torch::Tensor row_sums(torch::Tensor input, int64_t unused) {
  const int rows = input.size(0);
  const auto cols = static_cast<int>(input.numel() / rows);
  auto out = torch::empty({rows}, input.options());
  const int threads = 64;
  dim3 grid((rows * threads + threads - 1) / threads, 1);
  sums<<<grid, threads, 0 * sizeof(float)>>>(input.data_ptr<float>(), out.data_ptr<float>(), cols);
  return out;
}
"""


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return module.row_sums(x, 0)
'''


@dd.trace(dd.f32[r, n])
def spec(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(x, axis=1)


def _nothing(where: str) -> None:
    """Stand for the import of PyTorch."""


def inline(text: str = SOLUTION) -> Inline:
    return load_inline.read(text.replace("KERNEL", SUMS), "s.py", spec.module)


def test_a_launch_of_load_inline_is_read() -> None:
    found = inline()
    (launch,) = found.launches
    assert found.memory == ()
    assert (launch.kernel, launch.block, launch.shared) == ("sums", "64", "0 * 4")
    assert launch.grid == "(size(x, 0) * 64 + 64 - 1) / 64, 1"
    assert launch.args == ("x=x", "y=sum", "n=(numel(x) / size(x, 0))")
    lines = SOLUTION.replace("KERNEL", SUMS).split("\n")
    at = next(k for k, row in enumerate(lines) if "__global__" in row)
    assert found.source.text.split("\n")[at] == lines[at], "lines are those of the Python file"
    assert "torch" not in found.source.text


def test_numbers_may_be_declared_together() -> None:
    old = """rows = input.size(0);
  const auto cols = static_cast<int>(input.numel() / rows);"""
    new = "rows = input.size(0), cols = (input.numel() / rows);"
    assert old in SOLUTION
    assert inline(SOLUTION.replace(old, new)).launches == inline().launches


@pytest.mark.parametrize(
    ("old", "new"),
    [("sums<<<", "sums<<<1, 1>>>(cols); if (rows > 4) sums<<<"), ("__global__", "__glob__"),
     ("<<<grid, threads, 0 * sizeof(float)>>>", "<<<grid>>>"),
     ("torch::Tensor row", "torch::Tensor f(int n) { g<<<1, 1>>>(n); }\ntorch::Tensor row")],
)  # fmt: skip
def test_other_host_functions_are_refused(old: str, new: str) -> None:
    text = SOLUTION.replace("KERNEL", SUMS)
    with pytest.raises(DidymaError, match="bad-option"):
        inline(text.replace(old, new))


SEVERAL = '''
source = r"""
#include <torch/extension.h>
__global__ void partial(const float* x, float* part, int cols) {
  float sum = 0;
  for (int c = blockIdx.y; c < cols; c += 2) sum += x[blockIdx.x * cols + c];
  part[blockIdx.x * 2 + blockIdx.y] = sum;
}
__global__ void both(const float* part, float* y, int rows) {
  int r = blockIdx.x * 32 + threadIdx.x;
  if (r < rows) y[r] = part[2 * r] + part[2 * r + 1];
}
torch::Tensor run(torch::Tensor x) {
  int rows = x.size(0), cols = x.size(1);
  const int n = x.size(0);
  auto part = torch::empty({n, 2}, x.options());
  auto count = torch::zeros({1}, torch::dtype(torch::kInt32).device(x.device()));
  auto y = torch::empty({n}, x.options());
  partial<<<dim3(n, 2), 1>>>(x.data_ptr<float>(), part.data_ptr<float>(), x.size(1));
  both<<<(n + 31) / 32, 32>>>(part.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}
"""
'''


def test_several_launches_of_load_inline_are_read_and_judged(tmp_path: Path) -> None:
    found = load_inline.read(SEVERAL, "s.py", spec.module)
    assert [(x.kernel, x.grid, x.args) for x in found.launches] == [
        ("partial", "size(x, 0), 2", ("x=x", "part=part", "cols=size(x, 1)")),
        ("both", "(size(x, 0) + 31) / 32", ("part=part", "y=sum", "rows=size(x, 0)")),
    ]
    assert found.memory == ("part=f32[size(x, 0), 2]",)
    if probe("ptx").runs:
        (tmp_path / "spec.dym").write_text(f"{sums}\n")
        (tmp_path / "s.py").write_text(SEVERAL)
        asked = Request(str(tmp_path / "s.py"), str(tmp_path / "spec.dym"), rounds=3)
        assert judge_kernel.command(asked, None, json=True) == 0
        (tmp_path / "s.py").write_text(SEVERAL.replace("* 2 + blockIdx.y", "* 2"))
        assert judge_kernel.command(asked, None, json=True) == 1


def test_a_named_argument_takes_the_place_of_one_that_was_read() -> None:
    (found,) = inline().launches
    assert merged(found, Launch(args=("n=i32:3",))).args == ("x=x", "y=sum", "n=i32:3")
    assert merged(found, Launch(args=("x", "out"))).args == ("x", "out")


def test_a_number_of_the_host_is_asked_for() -> None:
    with pytest.raises(DidymaError, match=r"--arg scale=f32:0\.5 gives a number"):
        evaluate("scale", {"n": 4}, "--arg scale")


def test_a_solution_of_kernelbench_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not probe("ptx").runs:
        pytest.skip("no NVRTC")
    (tmp_path / "spec.dym").write_text(f"{sums}\n")
    for wrong, code in (("", 0), ("+ 1", 1)):
        text = SOLUTION.replace("KERNEL", SUMS).replace(
            "y[blockIdx.x] =", f"y[blockIdx.x] = 1 {wrong} - 1 +"
        )
        (tmp_path / "s.py").write_text(text)
        asked = Request(str(tmp_path / "s.py"), str(tmp_path / "spec.dym"), rounds=3, size=("r=5",))
        assert judge_kernel.command(asked, None, json=True) == code
        found = json.loads(capsys.readouterr().out)
    assert found["findings"][0]["file"] == "s.py"
    rows = text.split("\n")
    at = next(k for k, row in enumerate(rows, 1) if "y[blockIdx.x] =" in row)
    assert abs(found["findings"][0]["line"] - at) <= 3


DEFINITION = {
    "name": "gemm", "op_type": "gemm",
    "axes": {"M": {"type": "var"}, "K": {"type": "const", "value": 64}},
    "inputs": {
        "A": {"shape": ["M", "K"], "dtype": "float16"}, "s": {"shape": None, "dtype": "int32"},
    },
    "outputs": {"C": {"shape": ["M"], "dtype": "float32"}},
    "reference": "def run(A, s):\n    return A.float().sum(1)",
}  # fmt: skip


def test_definitions_workloads_and_evaluations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps(DEFINITION))
    d = flashinfer.read(path)
    assert (d.constants, d.variables) == ({"K": 64}, ("M",))
    assert d.inputs["A"].axes == ("M", "K")
    assert d.inputs["s"].axes == ()
    rows = [{"definition": k, "workload": {"axes": {"M": m}}} for k, m in (("gemm", 7), ("x", 9))]
    (tmp_path / "w.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    assert flashinfer.workloads(tmp_path / "w.jsonl", d) == {"M": (7,)}
    for text in ("[1]", "{", json.dumps({**DEFINITION, "outputs": {"C": {"shape": ["Q"]}}})):
        path.write_text(text)
        with pytest.raises(DidymaError, match="bad-spec"):
            flashinfer.read(path)
    monkeypatch.setattr(flashinfer, "torch_or_raise", _nothing)
    for text, why in (("def run(", "SyntaxError"), ("import no_such_module", "no_such_module")):
        path.write_text(json.dumps({**DEFINITION, "reference": text}))
        with pytest.raises(DidymaError, match=why):
            flashinfer.load(path)
    row = {"kind": "hang", "detail": "it never ends"}
    for verdict, findings, status in (
        ("correct", [], "PASSED"), ("cannot tell", [], "INCORRECT_NUMERICAL"),
        ("wrong", [row], "RUNTIME_ERROR"),
    ):  # fmt: skip
        record = {"verdict": verdict, "findings": findings, "cannot_tell": ["zeros"]}
        made = flashinfer.evaluation(record, "gemm", "mine")
        assert made["evaluation"]["status"] == status


TASK = """
class Model: pass
batch, dim = 16, 3 * 4096
shape = (512, 100)
def get_inputs(): return [dim]
def get_init_inputs(): return [1000]
"""


def test_sizes_of_tasks_shrink_by_halves() -> None:
    assert kernelbench.is_task(TASK)
    space: dict[str, object] = {}
    exec(kernelbench.shrunk(TASK, 64), space)
    assert (space["batch"], space["dim"], space["shape"]) == (16, 3 * 64, (64, 50))
    assert "1000" in kernelbench.shrunk(TASK, 64), "only numbers of the module are sizes"
    rows = gpumode.arguments('tests:\n  - {size: 127, seed: 4}\n  - {"m": 3}\nranked: []\n')
    assert [*rows] == [{"size": 127, "seed": 4}, {"m": 3}]


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is installed")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("task.py", TASK),
        ("reference.py", "def generate_input(): pass\ndef ref_kernel(data): pass\n"),
        ("d.json", json.dumps(DEFINITION)),
    ],
)
def test_pytorch_is_an_extra(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DidymaError, match="extra-missing"):
        load_spec(tmp_path / name)


def test_a_reference_of_gpumode_has_files_elsewhere_and_needs_no_gpu(tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "shared_of_gpumode.py").write_text("SHARED = 3\n")
    file = tmp_path / "task" / "reference.py"
    file.write_text("from shared_of_gpumode import SHARED\nDEVICE = dict(device='cuda')\n")
    found = vars(load_python(file, [tmp_path], {"cuda": "cpu"}))
    assert (found["SHARED"], found["DEVICE"]) == (3, {"device": "cpu"})
    file.write_text("import elsewhere\n")
    with pytest.raises(DidymaError, match="No module named 'elsewhere'"):
        load_python(file, [tmp_path])
