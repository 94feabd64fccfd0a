"""Run what ``tests/gpu/artifacts.py`` wrote where this file was copied to; it imports NumPy alone.

Each program is called as a module, with each launch watched, by its JSON, and as a C++ program.
All must give the same bytes, within the bars of the reference.  Ends with 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

HERE, FOLDER = Path(__file__).resolve().parent, "sm_90a"
CALLS = """
import json, sys
from pathlib import Path
import numpy as np
folder, data, out = sys.argv[1:]
sys.path.insert(0, folder)
import module
from didyma_runtime import walk
arrays = np.load(data)
inputs = [arrays[f"in{i}"] for i in range(len(module.INPUTS))]
told = []
ways = [
    module.call(list(inputs)),
    module.call(list(inputs)),
    module.call(list(inputs), watch=told.append, synchronous=True),
    walk.program(Path(folder) / "program.json")(list(inputs)),
]
same = all(a.tobytes() == b.tobytes() for way in ways for a, b in zip(way, ways[0]))
np.savez(out, *ways[0])
strangers = sorted({"didyma", "sympy", "ml_dtypes", "pycuda", "torch"} & {*sys.modules})
rows = [(x.kernel, x.seconds, x.nbytes) for x in told]
print(json.dumps({"same": same, "strangers": strangers, "launches": rows}))
"""


def python(name: str, out: Path) -> dict[str, Any]:
    """Run the module of a program in a process of its own."""
    words = [str(HERE / name / FOLDER), str(HERE / f"{name}.npz"), str(out / f"{name}.npz")]
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", CALLS, *words], capture_output=True, text=True, env=env, timeout=60
    )
    if done.returncode:
        return {"failed": done.stderr[-2000:]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def cpp(name: str, out: Path, arrays: Mapping[str, Any]) -> list[bytes] | str:
    """Compile the loader of a program and run it; return the results, or what it said."""
    folder, work = HERE / name / FOLDER, out / f"{name}-cpp"
    work.mkdir()
    made = work / "program"
    compiler = shutil.which("c++") or shutil.which("g++") or "c++"
    build = [compiler, "-std=c++17", str(folder / "program.cpp"), "-o", str(made), "-ldl"]
    done = subprocess.run(build, capture_output=True, text=True)
    if done.returncode:
        return done.stderr[-2000:]
    manifest = json.loads((HERE / name / "manifest.json").read_bytes())
    words = [str(made), str(folder)]
    for i, v in enumerate(manifest["inputs"]):
        a = arrays[f"in{i}"]
        (work / f"in{i}.bin").write_bytes(a.tobytes())
        words.append(f"{v['name']}={work / f'in{i}.bin'}")
        sizes = zip(v["shape"], a.shape, strict=True)
        words += [f"{d}={n}" for d, n in sizes if d in manifest["sizes"]]
    done = subprocess.run(words, capture_output=True, text=True, cwd=work, timeout=60)
    if done.returncode:
        return done.stderr[-2000:]
    outputs = enumerate(manifest["outputs"])
    return [(work / f"{i}-{v['name']}.bin").read_bytes() for i, v in outputs]


def wrong(name: str, out: Path) -> list[str]:
    """Return what is wrong with a program, and print what is known of it."""
    start = time.perf_counter()
    arrays: dict[str, Any] = dict(np.load(HERE / f"{name}.npz"))
    told = python(name, out)
    if "failed" in told:
        return [f"module: {told['failed']}"]
    results = [*np.load(out / f"{name}.npz").values()]
    found = [] if told["same"] else ["calls give other bytes than the first"]
    found += [f"imports {word}" for word in told["strangers"]]
    for i, r in enumerate(results):
        c, e = arrays[f"centre{i}"], arrays[f"width{i}"]
        far = ~(np.abs(np.asarray(r, np.float64) - c) <= e) & ~(np.isnan(r) & np.isnan(c))
        found += [f"result {i}: {int(far.sum())} of {r.size} outside of their bars"] * bool(
            far.any()
        )
    loader = cpp(name, out, arrays)
    if loader != [r.tobytes() for r in results]:
        found.append(f"loader: {loader if isinstance(loader, str) else 'other bytes'}")
    took = time.perf_counter() - start
    rows = "; ".join(f"{k} {1e6 * s:.1f} us {n / s / 1e9:.0f} GB/s" for k, s, n in told["launches"])
    print(f"{name}: {'WRONG' if found else 'right'} in {took:.1f} s; {rows}")
    return found


def main() -> int:
    """Run all programs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("alone-results"))
    out: Path = parser.parse_args().out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    names = sorted(p.parent.name for p in HERE.glob("*/manifest.json"))
    found = {name: wrong(name, out) for name in names}
    for name, rows in found.items():
        for row in rows:
            print(f"WRONG {name}: {row}")
    return 1 if any(found.values()) or not names else 0


if __name__ == "__main__":
    sys.exit(main())
