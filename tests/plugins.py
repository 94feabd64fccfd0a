"""A distribution of somebody else's, installed in a folder: modules and their entry points."""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tests.pages import ROOT, blocks, register
from tests.warm import python

PAGES = (
    "docs/check-an-engine.md",
    "docs/check-a-planner.md",
    "docs/check-a-compiler.md",
    "docs/plugins.md",
)
PROJECT = "pyproject.toml"


def files_of_the_pages() -> dict[str, str]:
    """Return the files of the package that the documentation shows, by name."""
    return {b.file: b.body for page in PAGES for b in blocks(page) if b.file}


def install(folder: Path, files: Mapping[str, str]) -> None:
    """Lay out a distribution as an installer does, from its modules and its ``pyproject.toml``."""
    for module in tomllib.loads(files[PROJECT])["tool"]["setuptools"]["py-modules"]:
        (folder / f"{module}.py").write_text(files[f"{module}.py"])
    register(folder, files[PROJECT])


def run(
    *words: str, path: str = "", cwd: Path = ROOT, seconds: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run Python with folders before this checkout on its path."""
    searched = os.pathsep.join(p for p in (path, str(ROOT)) if p)
    return python(*words, cwd=cwd, env={**os.environ, "PYTHONPATH": searched}, seconds=seconds)
