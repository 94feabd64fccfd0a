"""External functions that built programs carry."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.artifacts import build
from didyma.artifacts.load import load
from didyma.codegen import plugins
from didyma.codegen.runtime.carried import Carried
from didyma.codegen.runtime.tinycc import TinyCC
from didyma.refimpl.ir.external import External
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array
from tests.didyma.test_artifacts import changed_bytes_are_refused, refusal

TEXT = """module {
  dims n in [1, 8]
  func @far(%x: f32[n, 4], %y: f32[n, 4]) -> (%s, %d) attrs(Compiler="far", shift=3) {
    %s = add(%x, %y) : f32[n, 4]
    %d = subtract(%x, %y) : f32[n, 4]
  }
  func @main(%x: f32[n, 4], %y: f32[n, 4]) -> (%p) {
    %s, %d = call @far(%x, %y) : f32[n, 4], f32[n, 4]
    %p = multiply(%s, %d) : f32[n, 4]
  }
}"""
RETURNS = "def far(x, y):\n    return x + y * constants['one'], x - y\n"
WRITES = (
    "def far(x, y, out):\n    out[0][...] = x + y * constants['one']\n    out[1][...] = x - y\n"
)
IN_C = """import ctypes
def far(x, y, out):
    at = [ctypes.c_void_p(a.ctypes.data) for a in (x, y, *out)]
    library.far(*at, ctypes.c_long(x.size))
"""
C = """void far(float *x, float *y, float *s, float *d, long n) {
    for (long i = 0; i < n; ++i) { s[i] = x[i] + y[i]; d[i] = x[i] - y[i]; }
}"""
ONE = {"one": np.float32(1)}
ALONE = """
import sys
from pathlib import Path
import numpy as np
import module
from didyma_runtime import walk
x = np.arange(12, dtype=np.float32).reshape(3, 4)
for run in (module.call, walk.program(Path("program.json"))):
    (p,) = run([x, np.float32(2) * x])
    assert p.tolist() == (-3 * x * x).tolist()
assert "didyma" not in sys.modules
"""


def kinds() -> dict[str, Carried]:
    library = TinyCC().library(C, "far")
    return {
        "returns": Carried(RETURNS, "far", constants=ONE),
        "writes": Carried(WRITES, "far", out=True, constants=ONE),
        "in C": Carried(IN_C, "far", out=True, library=library),
    }


class Maker:
    """Makes an implementation of each function that is marked ``Compiler="far"``."""

    def __init__(self, made: object) -> None:
        self.made, self.asked = made, list[External]()

    def carried(self, function: External) -> Any:
        self.asked.append(function)
        return self.made


@contextmanager
def registered(part: object) -> Generator[None]:
    plugins.add(plugins.EXTERNS, "far", part)
    try:
        yield
    finally:
        plugins.remove(plugins.EXTERNS, "far")


@pytest.fixture
def maker(request: pytest.FixtureRequest) -> Generator[Maker]:
    made = Maker(request.param)
    with registered(made):
        yield made


def contents() -> dict[str, bytes]:
    c = dd.compile(dd.Program(parse_module(TEXT))).compiled
    return build.contents({"host": build.Target(c)})


@pytest.mark.parametrize("maker", kinds().values(), ids=kinds(), indirect=True)
def test_a_program_carries_what_a_generator_makes(maker: Maker, tmp_path: Path) -> None:
    m = dd.Program(parse_module(TEXT))
    report = dd.check(m, tries=2)
    assert report.agree, str(report)
    assert "extern far" in {level.name for level in report.levels}
    files = contents()
    build.write(tmp_path / "far", files)
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, env=env,
        cwd=tmp_path / "far",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    x = np.ones((2, 4), np.float32)
    assert load(tmp_path / "far")([x, x])[0].tolist() == np.zeros((2, 4)).tolist()
    assert maker.asked[0].function.attr["shift"] == 3
    own = {name: data for name, data in files.items() if name.startswith("extern-")}
    assert own
    changed_bytes_are_refused(tmp_path / "far", own, 4)
    for name, data in own.items():  # the module knows their hashes, too
        (tmp_path / "far" / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        again = subprocess.run(
            [sys.executable, "module.py"], capture_output=True, text=True, cwd=tmp_path / "far"
        )
        assert "hash-mismatch" in again.stderr
        (tmp_path / "far" / name).write_bytes(data)


@pytest.mark.parametrize(
    ("maker", "code"),
    [
        (Carried("far = 3", "far"), "unknown-extern"),
        (Carried("", "far", constants={"x": np.array([None])}), "unknown-dtype"),
        ("no Carried", "failed-part"),
    ],
    indirect=["maker"],
)
def test_what_no_program_can_carry_is_refused(maker: Maker, code: str) -> None:
    assert refusal(contents).code == code


def _plain(x: Array, y: Array) -> tuple[Array, Array]:
    return x + y, x - y


def test_a_plain_function_stays_where_it_is() -> None:
    with registered(_plain):
        assert refusal(contents).code == "artifact-extern"


def test_a_wrong_function_is_found_and_results_of_other_types_refused() -> None:
    m = dd.Program(parse_module(TEXT))
    swapped = Carried("def far(x, y):\n    return x - y, x + y\n", "far")
    assert {f.level for f in dd.check(m, externs={"far": swapped}, tries=2).findings} == {
        "extern far"
    }
    wide = Carried("def far(x, y):\n    return (x + y).astype('f8'), x - y\n", "far")
    run = dd.compile(m, externs={"far": wide})
    x = np.ones((2, 4), np.float32)
    e = refusal(lambda: run(x, x))
    assert (e.code, e.got) == ("extern-result", "float64[2, 4], float32[2, 4]")


class Misspelt:
    def carry(self, function: Any) -> Carried:
        raise AssertionError(function)


@pytest.mark.parametrize(
    ("part", "got"),
    [(Misspelt(), "a Misspelt, which has no method carried"), (Maker, "the class Maker")],
)
def test_what_makes_no_implementation_is_not_left_out_of_the_judgement(part: Any, got: str) -> None:
    m = dd.Program(parse_module(TEXT))
    with registered(part):
        e = refusal(lambda: dd.check(m, tries=1))
    assert (e.code, e.where, e.got) == ("bad-part", "extern far", got)
    assert refusal(lambda: dd.compile(m, externs={"far": part})).got == got
