"""The recipes of CONTRIBUTING: each is applied to a copy of the checkout, and works there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT, text

RECIPES = ("op", "pass", "planner", "engine", "intrinsic", "ONNX operator", "schedule")
BYTECODE = "__pycache__"  # which copies get, so that they compile what a recipe changes alone
CACHES = (".hypothesis", ".pytest_cache", ".ruff_cache", ".mypy_cache")
IGNORED = shutil.ignore_patterns(
    *CACHES, ".git", ".nox", ".venv", "*.egg-info", "findings", "build", "dist"
)
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
SESSIONS = {  # what a session of nox runs, in the environment of these tests
    "tests": PYTEST,
    "docs": (sys.executable, "-m", "didyma.pages", "docs"),
}


def section(name: str) -> str:
    """Return the recipe with this word in its heading."""
    (found,) = re.findall(
        rf"^## How to add an? {name}\n(.*?)(?=^## )", text("CONTRIBUTING.md"), re.M | re.S
    )
    return str(found)


def fenced(recipe: str, language: str) -> str:
    """Return the blocks of a language, one after another."""
    return "".join(re.findall(rf"^```{language}\n(.*?)^```$", recipe, re.M | re.S))


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a copy; caches, and what links lead to, aside."""
    found: dict[str, bytes] = {}
    for inside, folders, files in os.walk(folder):  # which follows no links
        folders[:] = [name for name in folders if name not in (*CACHES, BYTECODE)]
        for name in files:
            path = Path(inside, name)
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def run(words: tuple[str, ...], cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command with the copy alone on Python's path."""
    env = {**os.environ, "PYTHONPATH": str(cwd)}
    done = subprocess.run(
        words, cwd=cwd, env=env, input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
    return done


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_works_and_touches_what_it_says(name: str, tmp_path: Path) -> None:
    recipe = section(name)
    copy = tmp_path / "checkout"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=IGNORED)
    before = contents(copy)
    run(("git", "apply", "-"), copy, fenced(recipe, "diff"))
    commands = fenced(recipe, "sh").splitlines()
    assert commands
    for command in commands:
        nox, flag, session, *rest = shlex.split(command)
        assert (nox, flag) == ("nox", "-s")
        said = run((*SESSIONS[session], *rest[1:]), copy)
        if session == "tests":
            assert " passed" in said.stdout
    after = contents(copy)
    changed = {f for f in {*before, *after} if before.get(f) != after.get(f)}
    assert changed == set(re.findall("`([^`]+)`", recipe.split("\nFiles: ")[1]))
    python = sorted(f for f in changed if f.endswith(".py"))
    run((sys.executable, "-m", "ruff", "check", *python), copy)
    run((sys.executable, "-m", "ruff", "format", "--check", *python), copy)


def test_every_recipe_is_tried() -> None:
    found = re.findall(r"^## How to add an? (.*)$", text("CONTRIBUTING.md"), re.MULTILINE)
    assert tuple(found) == RECIPES
