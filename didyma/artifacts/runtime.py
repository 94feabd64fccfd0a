"""The package that stands beside the module of each target of an artifact."""

from __future__ import annotations

from importlib.resources import files

from didyma.codegen.emit import wrapper
from didyma.codegen.runtime import didyma_runtime

MODULE = "module.py"


def runtime() -> dict[str, bytes]:
    """Return the files of the package by name."""
    folder = files(didyma_runtime)
    return {
        f"{wrapper.RUNTIME}/{f.name}": f.read_bytes()
        for f in sorted(folder.iterdir(), key=lambda f: f.name)
        if f.name.endswith(".py")
    }
