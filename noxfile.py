"""Sessions: tests types lint fuzz bench mutants gpu docs build.

``python3 -m nox -s fuzz`` judges random graphs for a minute; ``python3 -m nox -s tests`` runs the
tests.  Both set up all they need.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import nox

nox.options.sessions = ["lint", "types", "tests"]
nox.options.reuse_existing_virtualenvs = True

# The real model of the tests; the package itself is not imported, so its own needs stay out.
MODEL = "magika==1.0.3"

# What `nox -s bench` lets grow. On shared machines, ratios of times differ much between runs.
LIMITS = "counters:+0%,text:+10%,ratio:+100%"


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests on both cores; arguments go to pytest."""
    session.install("-e", ".[dev,docs,onnx,nvrtc]")
    session.install("--no-deps", MODEL)
    keep = {"PYTHONDONTWRITEBYTECODE": ""}  # hundreds of processes import the package
    workers = ("-n", "2", "--dist", "worksteal")  # a file mostly has one, which sets up for it once
    session.run("pytest", *workers, "-q", *session.posargs, env=keep)


@nox.session
def types(session: nox.Session) -> None:
    """Check types with mypy and basedpyright, both strict."""
    session.install("-e", ".[dev,onnx,nvrtc]")
    session.run("mypy")
    session.run("basedpyright")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, format and the direction of imports."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports")


@nox.session
def fuzz(session: nox.Session) -> None:
    """Judge random graphs at every level on simt and host; arguments go to ``didyma fuzz``."""
    session.install("-e", ".")
    session.run("didyma", "fuzz", *(session.posargs or ["--seconds", "60"]))


@nox.session
def bench(session: nox.Session) -> None:
    """Run the benchmarks, and fail if a counter grew since the last record in tests/bench/history.

    Times count as ratios to a baseline of the same run.  ``nox -s bench -- keep`` makes this run
    the record.  Memory traces that are not in this repository may be given by path (``.csv``).
    Each module of ``tests/bench`` runs by itself, too, for as long as its arguments say.
    """
    session.install("-e", ".[dev,onnx,nvrtc]")
    session.install("--no-deps", MODEL)
    traces = [a for a in session.posargs if a.endswith(".csv")]
    rest = [a for a in session.posargs if a not in (*traces, "keep")]
    made = f"{session.create_tmp()}/bench.json"
    session.run("pytest", "tests/bench", "--benchmark-only", f"--benchmark-json={made}", *rest)
    if "keep" in session.posargs:
        session.run("python", "-m", "tests.bench.history", made)
    else:
        last = str(max(Path("tests/bench/history").glob("*.json")))
        session.run("didyma", "bench", "compare", last, made, "--fail-on", LIMITS)
    session.run("python", "-m", "tests.bench.planners", "-o", "docs/memory.md", *traces)
    for name in ("symbolic_plans", "inplace", "light", "bars", "round_trip", "programs"):
        session.run("python", "-m", f"tests.bench.{name}")


@nox.session
def mutants(session: nox.Session) -> None:
    """Plant known faults and generated mutants; see that campaigns kill them (docs/mutants.md)."""
    session.install("-e", ".[dev]")
    session.run("python", "-m", "tests.mutants", *session.posargs)


@nox.session(venv_backend="none")
def gpu(session: nox.Session) -> None:
    """Judge and time kernels on this machine's GPU, with its own Python packages.

    Conformance, random programs, control flow and foreign arrays; CUDA's compute-sanitizer over
    every recipe's kernels, where it is installed; then ``didyma bench gpu``.
    """
    session.run("python3", "-m", "tests.gpu", *session.posargs)
    session.run("python3", "-m", "tests.gpu.control")
    session.run("python3", "-m", "tests.gpu.arrays")
    if shutil.which("compute-sanitizer") is None:
        session.warn("no compute-sanitizer on PATH: it comes with the CUDA toolkit; not run")
    else:
        for tool in ("memcheck", "racecheck"):
            check = ("compute-sanitizer", "--tool", tool, "--error-exitcode", "1")
            session.run(*check, "python3", "-m", "tests.gpu.recipes", external=True)
    session.run("python3", "-m", "didyma", "bench", "gpu")


@nox.session
def docs(session: nox.Session) -> None:
    """Write the generated pages again, and build the site in ``build/site``.

    A warning is an error.  ``nox -s docs -- links`` tries the links that lead out of the site, too.
    """
    session.install("-e", ".[dev,docs,onnx]")
    session.run("python", "-m", "didyma.pages", "docs")
    sphinx = ("sphinx-build", "-W", "--keep-going", "-n", "-q", "docs")
    session.run(*sphinx, "build/site")
    if "links" in session.posargs:
        session.run(*sphinx, "-b", "linkcheck", "build/links")


@nox.session
def build(session: nox.Session) -> None:
    """Build the sdist and the wheel into ``dist``, install the wheel, and run what it holds."""
    session.install("build")
    session.run("python", "-m", "build", "--outdir", "dist")
    wheel = str(max(Path("dist").glob("*.whl"), key=lambda p: p.stat().st_mtime))
    session.install(wheel)
    session.install("--force-reinstall", "--no-deps", wheel)  # of a version that may be there
    session.chdir(session.create_tmp())
    session.run("didyma", "fuzz", "--seconds", "10", "--jobs", "1")
