"""What is installed is one import name, and a user's own modules of other names do no harm."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from didyma.codegen.options import Options
from didyma.files import read_module
from didyma.fuzz import replay
from tests.test_house import PARTS, ROOT, sources

GRAPH = """module {
  func @main(%x: f32[8, 8]) -> (%z) {
    %y = matmul(%x, %x) : f32[8, 8]
    %z = exp(%y) : f32[8, 8]
  }
}
"""
TEST = """
import numpy as np
import didyma as dd
from didyma.testing import assert_agree

def test_mine():
    p = dd.load("x.dym")
    x = np.eye(8, dtype=np.float32)
    assert_agree(dd.compile(p)(x), p, x)
    assert dd.check(p, engines=["host", "simt"], tries=1).agree
"""
HOSTILE = ("codegen.py", "oracle.py", "refimpl.py", "fuzz/__init__.py", "commands.py", "show.py")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a wheel holds, built as setup.cfg says from the files of this checkout."""
    folder = tmp_path_factory.mktemp("installed")
    words = ("egg_info", "--egg-base", str(folder), "build", "--build-base", str(folder / "base"))
    subprocess.run(
        [sys.executable, "-c", "import setuptools; setuptools.setup()", "-q", *words,
         "--build-lib", str(folder / "site")],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return folder / "site"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of modules that have the names of Didyma's folders, and raise when imported."""
    folder = tmp_path_factory.mktemp("hostile")
    for name in HOSTILE:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"raise RuntimeError('{name} was imported')\n")
    (folder / "x.dym").write_text(GRAPH)
    (folder / "trace.csv").write_text("id,lower,upper,size\na,0,2,100\nb,1,3,200\n")
    (folder / "test_mine.py").write_text(TEST)
    r = replay.Recorded(read_module(folder / "x.dym"), (1,), {}, ("host",), Options())
    replay.save(folder / "finding.dym", r, "found")
    return folder


def run(install: Path, cwd: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command of an installation in a folder."""
    return subprocess.run(
        words, cwd=cwd, env={**os.environ, "PYTHONPATH": str(install)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


STARTING = (  # those that start processes
    "check x.dym --engine host --engine simt --tries 1",
    "fuzz --seconds 2 --jobs 1 --seed 1 --findings found",
    "fuzz --memory --seconds 2 --jobs 1 --seed 1",
    "replay finding.dym",
)
ALONE = (
    "explain x.dym --out texts",
    "ops maximum",
    "doctor",
    "plan trace.csv --planner all",
    "plan x.dym",
)
IN_TURN = f"""
import runpy, sys
for command in {ALONE}:
    sys.argv = ["didyma", *command.split()]
    try:
        runpy.run_module("didyma", run_name="__main__", alter_sys=True)
    except SystemExit as e:
        assert e.code == 0, command
    print("ran", command)
"""


@pytest.mark.parametrize(
    ("install", "command"),
    [*(("regular", c) for c in STARTING), *(("editable", c) for c in STARTING[:2])],
)
def test_commands_that_start_processes_run_beside_hostile_modules(
    install: str, command: str, hostile: Path, site: Path
) -> None:
    where = ROOT if install == "editable" else site
    done = run(where, hostile, [sys.executable, "-m", "didyma", *command.split()])
    # A campaign of two seconds may end before its workers have judged a graph.
    codes = {0, 5} if command.startswith("fuzz") else {0}
    assert done.returncode in codes, done.stderr
    assert "was imported" not in done.stdout + done.stderr


def test_other_commands_run_beside_hostile_modules(hostile: Path, site: Path) -> None:
    """They run in one process, one after another: a hostile module raises at each import."""
    done = run(site, hostile, [sys.executable, "-c", IN_TURN])
    assert done.returncode == 0, done.stderr
    assert "was imported" not in done.stdout + done.stderr
    for command in ALONE:
        assert f"ran {command}\n" in done.stdout


@pytest.mark.parametrize("install", ["editable", "regular"])
def test_python_pytest_and_the_script_run_beside_hostile_modules(
    install: str, hostile: Path, site: Path
) -> None:
    where = ROOT if install == "editable" else site
    script = str(Path(sysconfig.get_path("scripts")) / "didyma")
    cell = (
        "import sys; assert sys.path[0] == ''; import didyma as dd; "
        "assert dd.check(dd.load('x.dym'), tries=1).agree; print(dd.__file__)"
    )
    for words in (
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--assert=plain",
            "-p",
            "no:cacheprovider",
            "test_mine.py",
        ],
        [sys.executable, "-c", cell],
        [script, "explain", "x.dym", "--out", "texts"],
    ):
        done = run(where, hostile, words)
        assert done.returncode == 0, done.stdout + done.stderr
        if words[-2] == "-c":
            assert Path(done.stdout.strip()) == where / "didyma" / "__init__.py"


def test_only_didyma_is_installed(site: Path) -> None:
    assert [p.name for p in site.iterdir()] == ["didyma"]
    names = (*PARTS, "tests", "didyma")
    assert [n for n in names if PathFinder.find_spec(n, [str(site)])] == ["didyma"]


def test_the_installed_package_has_every_module_and_every_text(site: Path) -> None:
    named = sources(*PARTS, suffixes={".py", ".c", ".h", ".dym", ".txt"})
    want = {Path("didyma") / p.relative_to(ROOT) for p in named}
    texts = ((ROOT / "didyma").rglob(f"*.{suffix}") for suffix in ("py", "json"))
    face = (p for some in texts for p in some if "__pycache__" not in p.parts)
    want |= {p.relative_to(ROOT) for p in face}
    want.add(Path("didyma/py.typed"))
    installed = (p for p in site.rglob("*") if p.is_file() and p.suffix != ".pyc")
    assert {p.relative_to(site) for p in installed} == want
    assert not any(p.is_symlink() for p in site.rglob("*"))
