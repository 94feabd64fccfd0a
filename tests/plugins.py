"""A distribution of somebody else's, installed in a folder: modules and their entry points."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.test_docs import ROOT, blocks

PAGE = "docs/plugins.md"


def files_of_the_page() -> dict[str, str]:
    """Return the files that docs/plugins.md shows, by name; what follows a file belongs to it."""
    texts = {"python": list[str](), "ini": list[str]()}
    for language, body, _ in blocks(PAGE):
        if language in texts:
            texts[language].append(body)
    engine, planner, peer, *_, test, _ = texts["python"]
    (config,) = texts["ini"]
    named = (engine + planner + peer, test, config)
    return {body.splitlines()[0].removeprefix("# "): body for body in named}


def install(folder: Path, files: Mapping[str, str]) -> None:
    """Lay out a distribution as an installer does, from its modules and its ``setup.cfg``."""
    config = configparser.ConfigParser()
    config.read_string(files["setup.cfg"])
    name, version = config["metadata"]["name"], config["metadata"]["version"]
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = config["options.entry_points"].items()
    (info / "entry_points.txt").write_text("".join(f"[{g}]{lines}\n" for g, lines in groups))
    for module in config["options"]["py_modules"].split():
        (folder / f"{module}.py").write_text(files[f"{module}.py"])


def run(
    *words: str, path: str = "", cwd: Path = ROOT, seconds: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run Python with folders before this checkout on its path."""
    searched = os.pathsep.join(p for p in (path, str(ROOT)) if p)
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env={**os.environ, "PYTHONPATH": searched},
        capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip
