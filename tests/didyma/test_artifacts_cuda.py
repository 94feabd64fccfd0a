"""Built programs on a GPU without Didyma, by a driver that has no GPU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from didyma.artifacts import gpu, padded
from didyma.artifacts.code import compile_kernels
from didyma.codegen.devices import named
from didyma.codegen.emit.buckets import Buckets
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime.devices import across
from didyma.codegen.runtime.objects import shared_object
from didyma.codegen.runtime.registry import engine, probe
from didyma.fuzz import levels
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import Bind, If, Launch, While
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array
from tests.codegen.control.modules import module
from tests.codegen.emit.test_cpp_program import with_large_shared_memory
from tests.codegen.order.test_control import inputs
from tests.gpu.several import SEVERAL

CPP = shutil.which("g++")
pytestmark = pytest.mark.skipif(
    CPP is None or not probe("nvrtc").runs, reason="needs g++ and NVRTC"
)
FAKE = Path(__file__).parents[1] / "codegen" / "emit" / "fake_cuda.cpp"
PRODUCT = """module {
  dims n in [1, 64]
  func @main(%x: f32[n, 50], %w: f32[50, 8]) -> (%y) {
    %b = constant(value=f32[8] [0.0, 1.0, 2.0, 3.0, -1.0, -2.0, -3.0, 0.5]) : f32[8]
    %t = matmul(%x, %w) : f32[n, 8]
    %c = broadcast_to(%b, shape=(n, 8)) : f32[n, 8]
    %y = add(%t, %c) : f32[n, 8]
  }
}
"""
TWO = """module {
  func @main(%x: f32[8]) -> (%y, %z) {
    %a = sum(%x, axes=(0,), keepdims=true) : f32[1]
    %b = max(%x, axes=(0,), keepdims=true) : f32[1]
    %y = add(%a, %b) : f32[1]
    %z = exp(%x) : f32[8]
  }
}
"""
LAID = """module {
  dims n in [1, 64], s in [4, 64]
  func @main(%x: f32[n, 4] strides (s, 1)) -> (%y) {
    %y = add(%x, %x) : f32[n, 4]
  }
}"""
MEAN = """module {
  dims n in [1, 64]
  func @main(%x: f32[n, 3], %w: f32[3, 2]) -> (%y, %z) {
    %y = matmul(%x, %w) : f32[n, 2]
    %z = mean(%y, axes=(0,), keepdims=false) : f32[2]
  }
}"""
# What runs where there is no Didyma: both executors, from files, with what is asked of the module.
ALONE = """
import sys
from pathlib import Path
import numpy as np
sys.path.insert(0, sys.argv[1])
import module
from didyma_runtime import walk

def given():
    return [np.load(p) for p in sys.argv[3:]]

told = []
args = given()
first = module.call(args)
assert args == []
ways = [first, module.call(given()), module.call(given(), watch=told.append, synchronous=True)]
ways += [module.call(given()) for _ in range(2)]
graphs = module.tapes.replay.__name__ == "replay"
print("replayed" if graphs else "line by line", file=sys.stderr)
ways.append(walk.program(Path(module.__file__).with_name("program.json"))(given()))
for i, row in enumerate(zip(*ways)):
    for a in row:
        assert a.tobytes() == row[0].tobytes()
    np.save(f"{sys.argv[2]}/{i}.npy", row[0])
for launch in told:
    print(launch.kernel, sorted(launch.results), launch.seconds)
assert not {"didyma", "sympy", "pycuda", "ml_dtypes"} & {*sys.modules}
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a driver that has no GPU."""
    made = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    subprocess.run([str(CPP), "-shared", "-fPIC", str(FAKE), "-o", str(made), "-ldl"], check=True)
    return made.parent


def written(c: Compiled, folder: Path, buckets: Buckets | None = None) -> Path:
    """Write what an artifact has for a GPU, and the kernels for a CPU that the driver runs."""
    found, _ = gpu.contents(c, compile_kernels(c, "sm_90a"), "sm_90a", buckets)
    for name, (_, data) in found.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    (folder / "fake.so").write_bytes(shared_object(c.text))
    return folder


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> tuple[Compiled, Path]:
    c = compiled(PRODUCT)
    return c, written(c, tmp_path_factory.mktemp("product"))


def started(
    c: Compiled, folder: Path, driver: Path, words: Sequence[str], has: str = "9.0"
) -> subprocess.CompletedProcess[str]:
    counts = (f"{s.name} {len(s.buffers) + len(s.dims)}" for s in c.text.kernels)
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {
        "LD_LIBRARY_PATH": str(driver), "FAKE_CAPABILITY": has,
        "FAKE_KERNELS": str(folder / "fake.so"), "FAKE_COUNTS": " ".join(counts),
    }  # fmt: skip
    run = words if Path(words[0]).is_absolute() else [sys.executable, *words]
    return subprocess.run(run, capture_output=True, text=True, env=env, cwd=folder)


def compiled(text: str, **options: object) -> Compiled:
    return compile(parse_module(text), Options().changed({"target": "sm_90a", **options}))


def run_alone(
    c: Compiled, folder: Path, driver: Path, given: Sequence[Array]
) -> tuple[str, list[bytes]]:
    """Return what a run alone prints, and its results."""
    for i, a in enumerate(given):
        np.save(folder / f"in{i}.npy", a)
    names = (f"in{i}.npy" for i in range(len(given)))
    done = started(c, folder, driver, ["-c", ALONE, ".", ".", *names])
    assert done.returncode == 0, done.stderr
    by_line = any(isinstance(x, If | While | Bind) for x in walk(c.program.lines))
    assert ("replayed" in done.stderr) is not (by_line or named(c.program) != ()), done.stderr
    count = len(c.program.results)
    return done.stdout, [np.load(folder / f"{i}.npy").tobytes() for i in range(count)]


def test_a_product_runs_alone_by_the_driver(product: tuple[Compiled, Path], driver: Path) -> None:
    c, folder = product
    rng = np.random.default_rng(1)
    for n in (1, 5):
        shapes = (n, 50), (50, 8)
        given = [rng.integers(-9, 9, shape).astype(np.float32) for shape in shapes]
        told, (got,) = run_alone(c, folder, driver, given)
        assert got == graph.run(c.source, given)[0].tobytes()
        assert told.split() == [c.text.kernels[0].name, "['y']", "0.0005"]


def test_inputs_with_strides_are_captured_too(tmp_path: Path, driver: Path) -> None:
    c = compiled(LAID)
    given = [np.arange(12, dtype=np.float32).reshape(3, 4)]
    _, got = run_alone(c, written(c, tmp_path), driver, given)
    assert got == [a.tobytes() for a in graph.run(c.source, given)]


def test_inputs_are_padded_to_buckets(tmp_path: Path, driver: Path) -> None:
    m = parse_module(MEAN)
    padding = padded.of(m, {"n": (4, 64)})
    c = compile(padding.module, Options().changed({"target": "sm_90a", "memory.views": False}))
    folder = written(c, tmp_path, padding.buckets)
    made = folder / "program"
    flags = ("-std=c++17", "-Wall", "-Wextra", "-pedantic", "-Werror")
    words = [str(CPP), *flags, str(folder / "program.cpp"), "-o", str(made), "-ldl"]
    subprocess.run(words, check=True)
    rng = np.random.default_rng(2)
    for n in (1, 4, 5):
        given = [rng.integers(-9, 9, shape).astype(np.float32) for shape in ((n, 3), (3, 2))]
        want = [a.tobytes() for a in graph.run(m, given)]
        assert run_alone(c, folder, driver, given)[1] == want
        for name, a in zip("xw", given, strict=True):
            (folder / f"{name}.bin").write_bytes(a.tobytes())
        done = started(c, folder, driver, [str(made), ".", f"n={n}", "x=x.bin", "w=w.bin"])
        assert done.returncode == 0, done.stderr
        assert [(folder / f"{i}-{v}.bin").read_bytes() for i, v in enumerate("yz")] == want
    done = started(c, folder, driver, [str(made), ".", "n=65"])
    assert (done.returncode, "dim-out-of-range" in done.stderr) == (2, True)


@pytest.mark.parametrize("name", ["branch", "grows"])
def test_blocks_run_alone_by_the_driver(name: str, tmp_path: Path, driver: Path) -> None:
    m = module(name)
    c = compile(m, Options().changed({"target": "sm_90a"}))
    given = inputs(m, 4)
    _, got = run_alone(c, written(c, tmp_path), driver, given)
    assert got == [a.tobytes() for a in graph.run(m, given)]


def test_streams_run_alone_by_the_driver(tmp_path: Path, driver: Path) -> None:
    c = compiled(TWO, **{"kernels.streams": 2})
    assert {x.stream for x in walk(c.program.lines) if isinstance(x, Launch)} == {0, 1}
    given = [np.arange(1, 9, dtype=np.float32)]
    _, got = run_alone(c, written(c, tmp_path), driver, given)
    assert got == [a.tobytes() for a in graph.run(c.source, given)]


def test_launches_ask_for_the_shared_memory_that_is_too_large_to_declare(
    product: tuple[Compiled, Path], tmp_path: Path, driver: Path
) -> None:
    c, _ = product
    c = replace(c, text=with_large_shared_memory(c.text))
    folder = written(c, tmp_path)
    (asked,) = re.findall(r"shared=(\d+),", (folder / "module.py").read_text())
    assert int(asked) >= 4 * 16384
    given = [np.ones((3, 50), np.float32), np.eye(50, 8, dtype=np.float32)]
    _, got = run_alone(c, folder, driver, given)
    assert got == [a.tobytes() for a in graph.run(c.source, given)]


def test_what_it_refuses(product: tuple[Compiled, Path], tmp_path: Path, driver: Path) -> None:
    c, folder = product
    for has, code in (
        ("9.0", "fake: live"),
        ("8.0", "target-lacks at `device 0`\n  got:  compute capability 8.0"),
        ("9.1", "target-lacks"),
    ):
        done = started(c, folder, driver, ["module.py", "n=3"], has)
        assert done.stderr.startswith(code), done.stderr
    usage = started(c, folder, tmp_path, ["module.py", "--help"]).stdout
    assert usage.startswith("usage: python module.py [FLAG ...] [n=SIZE]\n"), usage
    assert "  x: f32, 2 axes\n" in usage
    assert "  n: 1 to 64\n" in usage
    nowhere = started(c, folder, tmp_path, ["module.py"])
    assert (nowhere.returncode, nowhere.stderr[:24]) == (4, "engine-missing at `cuda`")
    shutil.copytree(folder, tmp_path / "changed")
    (tmp_path / "changed" / "kernels.cubin").write_bytes(b"other code")
    assert "hash-mismatch" in started(c, tmp_path / "changed", driver, ["module.py"]).stderr


def test_two_gpus_and_the_cpu_run_alone_by_the_driver(tmp_path: Path, driver: Path) -> None:
    c = compiled(SEVERAL)
    folder = written(c, tmp_path)
    assert not (folder / "program.cpp").exists()
    given = [np.arange(8, dtype=np.float32), np.linspace(-1, 1, 8, dtype=np.float32)]
    _, got = run_alone(c, folder, driver, given)
    host = compile(c.source)
    on = across(engine("host"), host.program)
    assert got == [a.tobytes() for a in levels.runner(host, on)(on, given)]


def changed(folder: Path, old: str, new: str) -> None:
    path = folder / "module.py"
    text = path.read_text()
    assert old in text, text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('with engine.on("cuda:1"):', "if True:", "wrong-device"),
        ('with engine.on("host:0"):', "if True:", "wrong-device"),
        ("    engine.copy(a, ", "    (lambda *_: None)(a, ", "differ"),
    ],
)
def test_what_is_wrong_with_several_devices_is_seen(
    old: str, new: str, said: str, tmp_path: Path, driver: Path
) -> None:
    c = compiled(SEVERAL)
    folder = written(c, tmp_path)
    changed(folder, old, new)
    given = [np.arange(8, dtype=np.float32), np.linspace(-1, 1, 8, dtype=np.float32)]
    for i, a in enumerate(given):
        np.save(folder / f"in{i}.npy", a)
    done = started(c, folder, driver, ["-c", ALONE, ".", ".", "in0.npy", "in1.npy"])
    assert said in done.stderr if said != "differ" else done.returncode, done.stderr
