"""Loaders in C++, compiled, and run with a driver that has no GPU."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from didyma.codegen.emit import cuda, wrapper
from didyma.codegen.emit.cpp_program import HEADER, LAYER, LOADER, Cpp, layer
from didyma.codegen.emit.names import sanitise
from didyma.codegen.memory.plan import plan
from didyma.codegen.memory.planners import planner
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime import modules
from didyma.codegen.runtime.objects import shared_object
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.program import Allocate, Copy, Program, Return
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array, DType, TensorType
from tests.codegen.control.modules import module
from tests.codegen.order.test_control import bare, inputs

CPP, CC = shutil.which("g++"), shutil.which("gcc")
pytestmark = pytest.mark.skipif(not (CPP and CC), reason="needs g++ and gcc")
FLAGS = ("-Wall", "-Wextra", "-pedantic", "-Werror")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a driver that has no GPU."""
    made = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    source = str(Path(__file__).with_name("fake_cuda.cpp"))
    subprocess.run([str(CPP), "-shared", "-fPIC", source, "-o", str(made), "-ldl"], check=True)
    return made.parent


def written(p: Program, text: KernelText, folder: Path) -> Path:
    """Write and compile a loader and what it needs; return it."""
    name, digest, offsets = wrapper.weights_table(p)
    (folder / name).write_bytes(wrapper.weights(p))
    code = b"machine code" * 9
    cpp = Cpp(p, text, "sm_90a", hashlib.sha256(code).hexdigest(), name, digest, offsets)
    for file, source in ((HEADER, cpp.header()), (LOADER, cpp.loader()), (LAYER, layer())):
        (folder / file).write_text(source)
    (folder / "kernels.cubin").write_bytes(code)
    (folder / "kernels.so").write_bytes(shared_object(text))
    made = folder / "program"
    words = [str(CPP), "-std=c++17", *FLAGS, str(folder / LOADER), "-o", str(made), "-ldl"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return made


def called(
    p: Program, text: KernelText, given: Sequence[Array], folder: Path, driver: Path
) -> subprocess.CompletedProcess[str]:
    """Run the loader in a folder on inputs."""
    space = modules.module(wrapper.emit(p, text))
    _, sizes = space["bind"](list(given))
    words = [f"{name}={value}" for name, value in sizes.items()]
    for v, a in zip(p.inputs, given, strict=True):
        path = folder / f"{sanitise(v)}.in"
        path.write_bytes(np.ascontiguousarray(a).tobytes())
        words.append(f"{sanitise(v)}={path}")
    return started(text, words, folder, driver)


def started(
    text: KernelText, words: Sequence[str], folder: Path, driver: Path, has: str = "9.0"
) -> subprocess.CompletedProcess[str]:
    env = os.environ | {
        "LD_LIBRARY_PATH": str(driver),
        "FAKE_CAPABILITY": has,
        "FAKE_KERNELS": str(folder / "kernels.so"),
        "FAKE_COUNTS": " ".join(f"{s.name} {len(s.buffers) + len(s.dims)}" for s in text.kernels),
    }
    run = [str(folder / "program"), str(folder), *words]
    return subprocess.run(run, capture_output=True, text=True, env=env, cwd=folder)


def results(p: Program, folder: Path) -> list[bytes]:
    return [(folder / f"{i}-{sanitise(v)}.bin").read_bytes() for i, v in enumerate(p.results)]


@pytest.mark.parametrize("name", ["branch", "swap", "grows", "stays"])
def test_a_loader_runs_what_graphs_mean(name: str, tmp_path: Path, driver: Path) -> None:
    m = module(name)
    p = plan(bare(m), planner("linear_scan" if name == "swap" else "didyma"))
    text = cuda.emit(p.kernels)
    written(p, text, tmp_path)
    for n in (1, 4):
        given = inputs(m, n)
        done = called(p, text, given, tmp_path, driver)
        assert done.returncode == 0, done.stderr
        assert results(p, tmp_path) == [a.tobytes() for a in graph.run(m, given)]
        assert "fake: live 0" in done.stderr


HEAD = """module {
  dims n in [1, 64]
  func @main(%x: f32[n, 50], %w: f32[50, 8]) -> (%y) {
    %b = constant(value=f32[8] [0.0, 1.0, 2.0, 3.0, -1.0, -2.0, -3.0, 0.5]) : f32[8]
    %t = matmul(%x, %w) : f32[n, 8]
    %c = broadcast_to(%b, shape=(n, 8)) : f32[n, 8]
    %y = add(%t, %c) : f32[n, 8]
  }
}
"""


def with_large_shared_memory(text: KernelText) -> KernelText:
    """Return a text whose first kernel has an array that launches must ask for."""
    array = " __shared__ f32 large[16384]; large[0] = 1.0f;"
    source, changed = re.subn(r"(__global__[^{]*\{)", rf"\1{array}", text.source, count=1)
    assert changed
    return replace(text, source=source)


def test_a_compiled_program_and_what_its_loader_refuses(tmp_path: Path, driver: Path) -> None:
    c = compile(parse_module(HEAD))
    p, text = c.program, with_large_shared_memory(c.text)
    written(p, text, tmp_path)
    given = [np.ones((3, 50), np.float32), np.eye(50, 8, dtype=np.float32)]
    done = called(p, text, given, tmp_path, driver)
    assert done.returncode == 0, done.stderr
    assert results(p, tmp_path) == [a.tobytes() for a in graph.run(c.source, given)]
    (tmp_path / "short").write_bytes(b"123")
    for words, has, code in (
        (["n=3"], "8.0", "target-lacks at `device 0`\n  got:  compute capability 8.0"),
        (["n=3"], "9.1", "target-lacks"),
        ([], "9.0", "unbound-dim at `n`"),
        (["n=65"], "9.0", "dim-out-of-range at `n`\n  got:  65"),
        (["n=3", f"x={tmp_path / 'short'}"], "9.0", "dim-mismatch at `x`\n  got:  3 bytes"),
        (["n=3", "x=nowhere"], "9.0", "unreadable-file at `nowhere`"),
        (["n"], "9.0", "bad-option at `n`"),
    ):
        done = started(text, words, tmp_path, driver, has)
        assert (done.returncode, done.stderr[: len(code)]) == (2, code)
    for name in ("kernels.cubin", wrapper.weights_file(p)):
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        done = started(text, ["n=3"], tmp_path, driver)
        assert (done.returncode, done.stderr[:13]) == (2, "hash-mismatch")
        (tmp_path / name).write_bytes(data)


def test_a_program_without_kernels_needs_no_machine_code(tmp_path: Path, driver: Path) -> None:
    lines = (Allocate("y"), Copy("y", "x"), Return(("y",)))
    t = TensorType(DType.F32, (3,))
    p = Program("copy", (), ("x",), (), (("x", t), ("y", t)), (), lines)
    text = cuda.emit(())
    written(p, text, tmp_path)
    (tmp_path / "kernels.cubin").unlink()
    x = np.arange(3, dtype=np.float32)
    done = called(p, text, [x], tmp_path, driver)
    assert done.returncode == 0, done.stderr
    assert results(p, tmp_path) == [x.tobytes()]


def test_the_loader_hashes_as_the_standard_says(tmp_path: Path) -> None:
    (tmp_path / LAYER).write_text(layer())
    (tmp_path / "hash.cpp").write_text(
        f'''#include "{LAYER}"
int main(int count, char **files) {{
    for (int i = 1; i < count; ++i) puts(didyma::sha256(didyma::bytes_of(files[i])).c_str());
}}
'''
    )
    words = [str(CPP), "-std=c++17", *FLAGS, str(tmp_path / "hash.cpp"), "-o"]
    subprocess.run([*words, str(tmp_path / "hash"), "-ldl"], check=True)
    r = np.random.default_rng(0)
    files: list[str] = []
    for length in (0, 1, 3, 55, 56, 57, 63, 64, 65, 119, 120, 1000, 1 << 17):
        files.append(str(tmp_path / f"{length}"))
        Path(files[-1]).write_bytes(r.bytes(length))
    said = subprocess.run([str(tmp_path / "hash"), *files], capture_output=True, text=True)
    want = [hashlib.sha256(Path(f).read_bytes()).hexdigest() for f in files]
    assert said.stdout.split() == want


def test_the_header_is_c(tmp_path: Path) -> None:
    c = compile(parse_module(HEAD))
    (tmp_path / HEADER).write_text(Cpp(c.program, c.text, "sm_90a").header())
    (s,) = c.text.kernels
    (tmp_path / "use.c").write_text(f"""#include <stdio.h>
#include "{HEADER}"
int main(void) {{
    didyma_sizes s = {{0}};
    int64_t grid[3];
    s.n = 64;
    didyma_grid_{s.name}(&s, grid);
    printf("%d %d %d %d %d ", (int)grid[0], (int)grid[1], (int)grid[2],
           (int)didyma_floordiv(-7, 2), (int)didyma_floormod(-7, 2));
    printf("%d %d", (int)didyma_input_bytes(0, &s), (int)didyma_output_bytes(0, &s));
    return (int)didyma_block_{s.name}[0] - {s.block[0]};
}}
""")
    made = str(tmp_path / "use")
    words = [str(CC), "-std=c99", *FLAGS, str(tmp_path / "use.c"), "-o", made]
    subprocess.run(words, check=True)
    said = subprocess.run([made], capture_output=True, text=True, check=True).stdout.split()
    grid = modules.module(c.wrapper)["KERNELS"][s.name].grid({"n": 64})
    wanted = (*grid, -7 // 2, -7 % 2, 64 * 50 * 4, 64 * 8 * 4)
    assert said == [str(number) for number in wanted]
