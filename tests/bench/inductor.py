"""What a call of a built program costs beside Inductor's Python wrapper for the same function.

    python -m tests.bench.inductor --python INTERPRETER [--save FILE]

The interpreter is one that has PyTorch; it needs no Didyma.  Arrays have 4 rows and 4 columns, so
that next to nothing is computed.  Both run in one process on one thread, and times are the least of
three medians of 3,000 calls, in microseconds: of ``call`` of the built module, of ``call`` of the
module that Inductor wrote, and of the function that ``torch.compile`` returned.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import didyma as dd
from didyma.artifacts import build
from didyma.tracer.tensor import Tensor

CHILD = """
import importlib, json, sys, time
import numpy as np
import torch
from torch._inductor import config
from torch._inductor.codecache import PyCodeCache

config.fx_graph_cache = False
config.cpp.threads = 1
torch.set_num_threads(1)


def one(x, w):
    return x * w + 1.0


def layers(x, w):
    for _ in range(8):
        x = torch.relu(x @ w)
    return x


def folds(x, w):
    for _ in range(4):
        x = torch.softmax(x, 1)
        x = x / (x * x).sum(0, keepdim=True)
    return x + w


def median(f):
    times = []
    for i in range(3200):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return 1e6 * sorted(times[200:])[1500]


found = {"torch": torch.__version__, "microseconds": {}}
for name, f in (("one", one), ("layers", layers), ("folds", folds)):
    sys.path.insert(0, f"{sys.argv[1]}/{name}")
    for k in [k for k in sys.modules if k.partition(".")[0] in ("module", "didyma_runtime")]:
        del sys.modules[k]
    module = importlib.import_module("module")
    r = np.random.default_rng(0)
    x, w = (r.random((4, 4)).astype(np.float32) for _ in range(2))
    tx, tw = torch.from_numpy(x), torch.from_numpy(w)
    with torch.no_grad():
        compiled = torch.compile(f)
        want = compiled(tx, tw)
        written = [m for m in PyCodeCache.modules if hasattr(m, "call")][-1]
        (got,) = module.call([x, w])
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-4)
        runs = {
            "built": lambda: module.call([x, w]),
            "inductor": lambda: written.call([tx, tw]),
            "torch.compile": lambda: compiled(tx, tw),
        }
        rounds = [{k: median(run) for k, run in runs.items()} for _ in range(3)]
    row = {k: round(min(r[k] for r in rounds), 2) for k in runs}
    found["microseconds"][name] = row | {"ratio": round(row["built"] / row["inductor"], 2)}
print(json.dumps(found, indent=1))
"""


def one(x: Tensor, w: Tensor) -> Tensor:
    """A kernel."""
    return x * w + 1.0


def layers(x: Tensor, w: Tensor) -> Tensor:
    """Eight products, each with what follows it."""
    for _ in range(8):
        x = dd.maximum(x @ w, 0.0)
    return x


def folds(x: Tensor, w: Tensor) -> Tensor:
    """Eight kernels here, one in Inductor."""
    for _ in range(4):
        x = dd.softmax(x, axis=1)
        x = x / dd.sum(x * x, axis=0, keepdims=True)
    return x + w


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit code of the interpreter with PyTorch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True)
    parser.add_argument("--save", type=Path)
    args = parser.parse_args(argv)
    functions: tuple[Callable[..., Any], ...] = (one, layers, folds)
    with tempfile.TemporaryDirectory() as folder:
        for f in functions:
            c = dd.compile(dd.trace(dd.f32[4, 4], dd.f32[4, 4])(f)).compiled
            build.write(Path(folder) / f.__name__, build.contents({"host": build.Target(c)}))
        words = [args.python, "-c", CHILD, folder]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="")
    if args.save:
        args.save.write_text(done.stdout)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
