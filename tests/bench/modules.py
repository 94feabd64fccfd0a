"""Generated modules give the bits of the program, here and alone in processes without Didyma.

    python -m tests.bench.modules [--programs 5000] [--alone 300] [--seed 1] [--save FILE]

Programs are drawn with control flow, data-dependent sizes, streams, views and variants.  Of
``--programs`` the module runs on an engine that interprets kernels and is watched for what it does
with memory; each must give the bits of the program interpreter.  Of ``--alone`` the artifact runs
in a fresh process that imports NumPy alone, many to a process, and its module and its JSON must
give the bits that engine ``host`` gives here; a second call of the module, which may be a replay
of the first, must give them too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from didyma.artifacts import build
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime.devices import across
from didyma.codegen.runtime.registry import engine
from didyma.fuzz import levels
from didyma.fuzz.domains.programs import Programs
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array

BATCH = 25  # artifacts to a process
CHILD = """
import importlib, json, pathlib, sys
import numpy as np
found = []
for folder in sys.argv[1:]:
    sys.path.insert(0, folder)
    module = importlib.import_module("module")
    walk = importlib.import_module("didyma_runtime.walk")
    outs = []
    jsons = walk.program(pathlib.Path(folder) / "program.json")
    for run in (module.call, jsons, module.call):  # the second call may be a replay
        args = []
        for i, (name, dtype, rank) in enumerate(module.INPUTS):
            args.append(np.load(f"{folder}/in-{i}.npy"))
        try:
            out = [a.tobytes().hex() for a in run(args)]
        except module.rt.Refused as e:
            out = e.code
        assert not args, "the arguments are kept"
        outs.append(out)
    found.append([module.tapes.replay.__name__ == "replay", *outs])
    sys.path.remove(folder)
    for name in [n for n in sys.modules if n.partition(".")[0] in ("module", "didyma_runtime")]:
        del sys.modules[name]
known = {*sys.stdlib_module_names, "numpy", "__main__", "_virtualenv"}
strange = {n.partition(".")[0] for n in sys.modules} - known
assert not {n for n in strange if not n.startswith(("_", "cython_runtime"))}, strange
print(json.dumps(found))
"""


def plain(a: Array) -> Array:
    """An array of dtypes that NumPy has: bits stand for those of others."""
    bits = {1: np.uint8, 2: np.uint16}
    return a if a.dtype.isbuiltin == 1 else a.view(bits[a.dtype.itemsize])


def alone(folders: Sequence[Path]) -> list[Any]:
    """The bytes of each result, or the code of a refusal, of artifacts in a new process.

    Of each whether the module replays calls; then by the module, its JSON, and the module again.
    """
    words = [sys.executable, "-I", "-c", CHILD, *map(str, folders)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: list[Any] = json.loads(done.stdout)
    return found


def here(c: Compiled, inputs: Sequence[Array]) -> Any:
    """The bytes of each result in this process, or the code of a refusal."""
    on = across(engine("host"), c.program)
    try:
        return [a.tobytes().hex() for a in levels.runner(c, on)(on, list(inputs))]
    except DidymaError as e:
        return e.code


def written(c: Compiled, inputs: Sequence[Array], folder: Path) -> None:
    """Write an artifact and the inputs."""
    build.write(folder, build.contents({"host": build.Target(c)}))
    for i, a in enumerate(inputs):
        np.save(folder / f"in-{i}.npy", plain(np.array(a, order="C")))


def drawn(
    seed: int, count: int, folder: Path, seen: Counter[str]
) -> Iterator[tuple[int, Path, Any]]:
    """Artifacts of random programs that can stand alone, with what they give here."""
    domain, index, made = Programs(), 0, 0
    while made < count:
        case = domain.draw(seed, index)
        index += 1
        inputs = case.inputs()
        c = compile(case.module, case.options(Options()))
        p = c.program
        values = (*p.inputs, *p.results, *(name for name, _ in p.constants))
        if any(p.type[v].dtype.is_packed for v in values):
            seen["left out: elements of less than a byte"] += 1
            continue
        where = folder / str(index - 1)
        try:
            written(c, inputs, where)
        except DidymaError as e:
            seen[f"left out: {e.code}"] += 1
            continue
        made += 1
        yield index - 1, where, here(c, inputs)


def compare(seed: int, count: int, seen: Counter[str]) -> list[str]:
    """What was wrong with programs that ran alone."""
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        rows = list(drawn(seed, count, Path(folder), seen))
        for at in range(0, len(rows), BATCH):
            batch = rows[at : at + BATCH]
            for (index, _, want), got in zip(batch, alone([f for _, f, _ in batch]), strict=True):
                seen["refused" if isinstance(want, str) else "results"] += 1
                seen["replayed"] += got[0]
                for out, way in zip(got[1:], ("module", "program.json", "again"), strict=True):
                    if out != want:
                        wrong.append(f"program {index}, alone, by its {way}")
    return wrong


def interpreted(seed: int, count: int) -> list[str]:
    """What was wrong with programs that ran on an engine that interprets their kernels."""
    domain = Programs()
    judge = domain.judge()
    return [
        f"program {index}: {f.message}"
        for index in range(count)
        for f in judge(domain.draw(seed, index)).findings
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if all agree, 1 if not."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--alone", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", type=Path)
    args = parser.parse_args(argv)
    seen: Counter[str] = Counter()
    wrong = [*interpreted(args.seed, args.programs), *compare(args.seed, args.alone, seen)]
    found = {"programs": args.programs, "alone": args.alone, "seed": args.seed}
    found |= {"of those alone": dict(seen), "wrong": wrong}
    if args.save:
        args.save.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
