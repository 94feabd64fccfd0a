"""Models as artifacts that run without Didyma: ``python -m tests.bench.artifacts FILE...``.

Each ``.onnx`` file is compiled for the CPU and written as an artifact, which is then checked as
`didyma artifact check` does it.  It is run on random inputs in a process of its own that imports
NumPy alone: as a module twice, of which the second call may repeat the first, and by its JSON.  All
must give the bits that ``--engine`` gives here, whose compiler makes the artifact's machine code.
Prints one row a model: kernels, bytes of the artifact, results, seconds, and what was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import didyma as dd
from didyma.artifacts import build, manifest
from didyma.artifacts.code import compile_kernels
from didyma.codegen.runtime.fast.engine import compiler
from didyma.commands import common
from didyma.files import read_module
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import Array, DType

CHILD = """
import hashlib, sys
from pathlib import Path
import numpy as np
import module
from didyma_runtime import walk
with np.load(sys.argv[1], allow_pickle=False) as file:
    given = [file[k] for k in file.files]
for run in (module.call, module.call, walk.program(Path("program.json"))):
    print(*(hashlib.sha256(a.tobytes()).hexdigest() for a in run(list(given))))
strange = {"didyma", "ml_dtypes", "sympy"} & {*sys.modules}
assert not strange, strange
"""


def inputs(program: dd.Program, seed: int = 0) -> list[Array]:
    """Return random inputs at the sizes that `didyma check` takes: numbers from 0 to 1, ones."""
    m = program.module
    sizes, rng = common.bindings(m, ()), np.random.default_rng(seed)
    found: list[Array] = []
    for p in m.entry.params:
        shape = dims.values(p.type.shape, sizes)
        floats = p.type.dtype in (DType.F16, DType.F32, DType.F64)
        values = rng.random(shape) if floats else np.ones(shape)
        found.append(values.astype(p.type.dtype.numpy))
    return found


def measure(path: Path, folder: Path, engine: str) -> dict[str, object]:
    """Build a model, run it here and alone; ``wrong`` is empty where all bits agree."""
    start = time.perf_counter()
    program = dd.Program(read_module(path))
    run = dd.compile(program, engine=engine)
    code = compile_kernels(run.compiled, compiler=compiler() if engine == "host-fast" else None)
    compiled = time.perf_counter()
    files = build.contents({"host": build.Target(run.compiled, code=code)})
    build.write(folder, files)
    manifest.check(folder)
    given = inputs(program)
    np.savez(folder.with_suffix(".npz"), *given)
    found = run(*given)
    results = found if isinstance(found, (tuple, list)) else [found]
    want = " ".join(manifest.sha256(np.asarray(a).tobytes()) for a in results)
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    words = [sys.executable, "-c", CHILD, str(folder.with_suffix(".npz"))]
    done = subprocess.run(words, capture_output=True, text=True, env=env, cwd=folder)
    same = done.stdout.splitlines() == [want] * 3
    return {
        "model": path.stem,
        "kernels": len(run.compiled.text.kernels),
        "bytes": sum(map(len, files.values())),
        "results": len(results),
        "compile_seconds": round(compiled - start, 1),
        "seconds": round(time.perf_counter() - start, 1),
        "wrong": "" if same else done.stderr[-500:] or "other bits",
    }


def main(words: Sequence[str] | None = None) -> int:
    """Print a row for each model; the exit code is 1 where one was wrong or refused."""
    parser = argparse.ArgumentParser()
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--engine", choices=("host", "host-fast"), default="host-fast")
    asked, code = parser.parse_args(words), 0
    for path in asked.files:
        with tempfile.TemporaryDirectory() as folder:
            try:
                row = measure(path, Path(folder) / "built", asked.engine)
            except DidymaError as e:
                row = {"model": path.stem, "wrong": f"{e.code} at {e.where}: {e.got}"}
        print(json.dumps(row), flush=True)
        code |= bool(row["wrong"])
    return code


if __name__ == "__main__":
    sys.exit(main())
