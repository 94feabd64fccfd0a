"""Built programs: whole, checked before they run, and alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.artifacts import build, manifest
from didyma.artifacts.load import load
from didyma.codegen.runtime.compiler import each_found
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array, DType
from didyma.tracer.tensor import Tensor
from tests.didyma.cli import didyma, python

n = dd.dim("n", 1, 64)
BIAS = np.arange(8, dtype=np.float32)


@dd.trace(dd.f32[n, 50], dd.f32[50, 8], dd.bf16[8])
def head(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return dd.softmax(x @ w + dd.astype(b, dd.f32), axis=-1) + BIAS


COMPILED = dd.compile(head)
FILES = build.contents({"host": build.Target(COMPILED.compiled, b"{}\n", b"{}\n")})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    build.write(tmp_path / "built", FILES)
    return tmp_path / "built"


def inputs(rows: int) -> list[Array]:
    r = np.random.default_rng(rows)
    x, w = (r.normal(size=s).astype(np.float32) for s in ((rows, 50), (50, 8)))
    return [x, w, r.normal(size=8).astype(DType.BF16.numpy)]


def refusal(run: Callable[[], object]) -> DidymaError:
    with pytest.raises(DidymaError) as e:
        run()
    return e.value


ALONE = """
import sys
sys.path.insert(0, sys.argv[1])
import module
import numpy as np
args = [np.load(p) for p in sys.argv[2:]]
(y,) = module.call(args)
assert args == [], "the arguments are kept"
known = {*sys.stdlib_module_names, "numpy", "module", "didyma_runtime"}
print(sorted({m.partition(".")[0] for m in sys.modules} & {"didyma", "ml_dtypes", "sympy"}))
print(y.tobytes().hex())
"""


def test_a_process_with_numpy_alone_computes_the_same_bits(folder: Path, tmp_path: Path) -> None:
    given = inputs(7)
    paths = [str(tmp_path / f"{i}.npy") for i in range(3)]
    for path, a in zip(paths, given, strict=True):
        np.save(path, a.view(np.uint16) if a.dtype.itemsize == 2 else a)  # bf16 as its bits
    words = [sys.executable, "-I", "-c", ALONE, str(folder), *paths]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    want = COMPILED(*given)
    assert isinstance(want, np.ndarray)
    assert done.stdout.split("\n")[:2] == ["[]", want.tobytes().hex()]


def test_loaded_here_it_computes_the_same_bits_at_each_size(folder: Path) -> None:
    program = load(folder)
    for rows in (1, 64):
        args = inputs(rows)
        want = COMPILED(*args)
        (got,) = program(args)
        assert got.tobytes() == np.asarray(want).tobytes()
        assert args == []


def test_it_refuses_what_does_not_fit(folder: Path) -> None:
    program = load(folder)
    x, w, b = inputs(3)
    for args, code in (
        ([x, w], "input-count"),
        ([x, w[:, :7], b], "dim-mismatch"),
        ([x[0], w, b], "rank-mismatch"),
        ([x.astype(np.float64), w, b], "input-dtype"),
        ([np.ones((65, 50), np.float32), w, b], "dim-out-of-range"),
        ([[1.0], w, b], "not-an-array"),
    ):
        assert refusal(partial(program, list[Any](args))).code == code
    other: Any = (x, w, b)
    for run in (program, program.walk):
        e = refusal(partial(run, other))
        assert (e.code, e.got) == ("bad-call", "tuple")


def test_numbers_that_are_not_finite_are_named(folder: Path) -> None:
    program = load(folder)
    x, w, b = inputs(3)
    assert np.isnan(program([x * np.float32(np.nan), w, b])[0]).all()
    x[2, 4] = np.inf
    e = refusal(lambda: program([x, w, b], finite=True))
    assert (e.code, e.where, e.got) == ("not-finite", "x", "inf at [2, 4], and 0 more")
    x[2] = 3e38
    e = refusal(lambda: program([x, np.full_like(w, 9), b], finite=True))
    assert (e.code, e.got) == ("not-finite", "inf at [2, 0], and 7 more")
    assert e.where.startswith("kernel fused_matmul")


def test_an_input_is_gone_after_its_last_use(folder: Path) -> None:
    program = load(folder)
    host = program.runtime.host
    kernels = program.module["load"]().kernels
    seen: list[list[bool]] = []
    args = inputs(5)
    refs = [weakref.ref(a) for a in args]
    launch = host.Kernels.launch

    def watched(self: Any, *given: Any) -> None:
        seen.append([r() is not None for r in refs])
        launch(self, *given)

    host.Kernels.launch = watched
    try:
        program(args)
    finally:
        host.Kernels.launch = launch
    assert len(seen) == len(kernels.table) > 1
    assert seen[0] == [True, True, True]
    assert seen[-1] == [False, False, True]  # of which the last kernel reads the bias


def changed_bytes_are_refused(folder: Path, files: Mapping[str, bytes], count: int) -> None:
    """Of each file some bytes, each with one bit flipped; and each file cut short, and without."""
    r = np.random.default_rng(0)
    for name, data in files.items():
        path = folder / name
        for at in {0, len(data) - 1, *r.integers(len(data), size=count).tolist()}:
            changed = bytearray(data)
            changed[at] ^= 1 << int(r.integers(8))
            path.write_bytes(changed)
            codes = ("artifact-damaged", "artifact-newer", "artifact-elsewhere")
            assert refusal(lambda: manifest.check(folder)).code in codes, (name, at)
        for other in (data[:-1], data[: len(data) // 2], b"", data + b"\n"):
            path.write_bytes(other)
            assert refusal(lambda: manifest.check(folder)).code == "artifact-damaged", name
        path.unlink()
        missing = "not-an-artifact" if name == manifest.NAME else "artifact-damaged"
        assert refusal(lambda: manifest.check(folder)).code == missing
        path.write_bytes(data)
    manifest.check(folder)


def test_every_changed_byte_is_refused(folder: Path) -> None:
    changed_bytes_are_refused(folder, FILES, 24)


def moved(folder: Path, name: str) -> Path:
    """Move a file or a folder of an artifact out of it."""
    return (folder / name).rename(folder.parent / "moved")


def linked(folder: Path, name: str) -> None:
    (folder / name).symlink_to(moved(folder, name))


def piped(folder: Path, name: str) -> None:
    moved(folder, name)
    os.mkfifo(folder / name)  # of which a read would wait for ever


def emptied(folder: Path, name: str) -> None:
    moved(folder, name)
    (folder / name).mkdir()


def added(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("")


@pytest.mark.parametrize(
    ("change", "name", "got"),
    [
        (linked, "module.py", "a symbolic link"),
        (linked, "didyma_runtime", "a symbolic link"),
        (linked, manifest.NAME, "a symbolic link"),
        (piped, "graph.dym", "no plain file"),
        (piped, manifest.NAME, "no plain file"),
        (emptied, "kernels.cu", "no plain file"),
        (added, "numpy.py", "a file that is not in the manifest"),
        (added, "json.so", "a file that is not in the manifest"),
        (added, "ctypes/__init__.py", "a file that is not in the manifest"),
    ],
)
def test_what_no_artifact_was_written_as_is_refused(
    folder: Path, change: Callable[[Path, str], None], name: str, got: str
) -> None:
    added(folder, "0-y.bin")  # what a run has written there does no harm
    manifest.check(folder)
    change(folder, name)
    e = refusal(lambda: load(folder))
    assert (e.code, e.got) == ("artifact-damaged", got)
    assert e.where.startswith(str(folder / name))


ENTRIES: Any = json.loads(FILES[manifest.NAME])["files"]
OUTSIDE = {"../escape.py" if k == "module.py" else k: v for k, v in ENTRIES.items()}


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("version", 2, "artifact-newer"),
        ("machines", ["pdp11-unix"], "artifact-elsewhere"),
        ("abi", 0, "artifact-damaged"),
        ("format", "other", "artifact-damaged"),
        ("files", None, "artifact-damaged"),
        ("files", {"x": {"sha256": 1}}, "artifact-damaged"),
        ("files", OUTSIDE, "artifact-damaged"),
    ],
)
def test_a_manifest_of_another_kind_is_refused_with_the_reason(
    folder: Path, name: str, value: Any, code: str
) -> None:
    m = json.loads(FILES[manifest.NAME])
    del m["sha256"]
    (folder.parent / "escape.py").write_bytes(FILES["module.py"])
    (folder / manifest.NAME).write_bytes(manifest.signed(m | {name: value}))
    assert refusal(lambda: manifest.check(folder)).code == code


def test_it_is_written_whole_or_not_at_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build.write(folder, FILES)  # in the place of the one that is there
    written = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if self.name == "module.py":
            raise OSError(28, "No space left on device")
        return written(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    assert refusal(lambda: build.write(folder, FILES | {"verdict.json": b"2"})).code == "unwritable"
    monkeypatch.undo()
    manifest.check(folder)
    assert [p.name for p in folder.parent.iterdir()] == ["built"]
    (folder.parent / "mine").mkdir()
    (folder.parent / "mine" / "text").write_text("mine")
    assert refusal(lambda: build.write(folder.parent / "mine", FILES)).code == "unwritable"


def test_a_program_that_calls_routines_is_refused() -> None:
    m = parse_module(
        """module {
          func @far(%x: f32[4]) -> (%y) attrs(Compiler="else") {
            %y = add(%x, %x) : f32[4]
          }
          func @main(%x: f32[4]) -> (%y) {
            %y = call @far(%x) : f32[4]
          }
        }"""
    )
    c = dd.compile(dd.Program(m)).compiled
    assert refusal(lambda: build.contents({"host": build.Target(c)})).code == "artifact-extern"


def test_what_kernels_check_and_what_numpy_lacks_are_coded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = load(folder)

    def failed(*_: object) -> tuple[int, int]:
        return 5, 12  # what a launch record tells: a failed assertion in line 12

    monkeypatch.setattr(program.runtime.host.Stage, "go", failed)
    e = refusal(lambda: program(inputs(2)))
    assert (e.code, e.got) == ("kernel-fault", "an assertion does not hold")
    assert e.where.endswith("line 12 of the kernels")
    monkeypatch.setitem(program.runtime.dtypes._OTHERS, "i4", "no-such-dtype")
    with pytest.raises(program.runtime.Refused, match="dtype-missing at `i4`"):
        program.runtime.dtypes.dtype_of("i4")


def test_it_calls_the_functions_of_the_same_library(tmp_path: Path) -> None:
    """Of some the C library keeps older versions, which give a NaN of the other sign."""

    @dd.trace(dd.f32[6], dd.f32[6])
    def functions(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return dd.pow(x, y), dd.log(x), dd.log2(x), dd.exp2(x), dd.exp(x)

    c = dd.compile(functions)
    build.write(tmp_path / "built", build.contents({"host": build.Target(c.compiled)}))
    x = np.array([-1, -2.5, np.inf, -np.inf, np.nan, 0], np.float32)
    y = np.array([0.5, 1.5, -0.0, 3, 2, -1], np.float32)
    want = c(x, y)
    got = load(tmp_path / "built")([x, y])
    assert [a.tobytes() for a in got] == [a.tobytes() for a in want]


TEXT = """module {
  func @main(%x: f32[2, 3]) -> (%y) {
    %y = exp(%x) : f32[2, 3]
  }
}
"""


def check_starts_at_once(built: str) -> None:
    """The framework of the command line is imported where something is wrong, and only there."""
    for words, code in (((built,), 0), (("--json", built), 0), ((built, "--no"), 2)):
        said = python("-X", "importtime", "-m", "didyma", "artifact", "check", *words)
        imported = {line.rpartition("|")[2].strip() for line in said.err.splitlines()}
        assert said.code == code
        assert said.out == didyma("artifact", "check", *words).out
        assert {"typer", "numpy"} & imported == ({"typer"} if code else set())


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "exp.dym").write_text(TEXT)
    built = str(tmp_path / "exp")
    said = didyma("build", str(tmp_path / "exp.dym"), "-o", built, "--tries", "1", "--json")
    assert said.code == 0
    assert set(said.json["files"]) >= {"module.py", "graph.dym", "kernels.cu", "manifest.json"}
    verdict = json.loads((tmp_path / "exp" / "verdict.json").read_bytes())
    assert verdict == said.json["verdict"]
    made = json.loads((tmp_path / "exp" / "manifest.json").read_bytes())["targets"]["host"]
    found = [*each_found()]
    assert made["compiler"].startswith(found[0].about if found else "TinyCC")
    assert ("host-fast" if found else "host") in {x["name"] for x in verdict["levels"]}
    assert "as they were written" in didyma("artifact", "check", built).out
    check_starts_at_once(built)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "x.npy", x)
    given = f"x={tmp_path / 'x.npy'}"
    said = didyma("run", built, "--input", given, "--out", str(tmp_path / "out"), "--json")
    assert said.json["outputs"][0]["shape"] == [2, 3]
    y = np.load(tmp_path / "out" / "0-y.npy")
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-6)
    assert didyma("run", built, "--input", "z=z.npy").code == 2
    assert didyma("run", built, "--walk", "--json").json == didyma("run", built, "--json").json
    assert didyma("run", built, "--walk", "--finite").code == 2
    assert didyma("build", str(tmp_path / "exp.dym"), "--target", "sm_1").code == 2
    assert didyma("build", str(tmp_path / "exp.dym"), "--engine", "simt").code == 2


def test_a_module_as_a_script(folder: Path) -> None:
    words = [sys.executable, "-B", str(folder / "module.py"), "--benchmark", "--json", "n=3"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["sizes"] == {"n": 3}
    seconds = found["seconds"]
    assert 0 < seconds["min"] <= seconds["median"] <= seconds["max"]
