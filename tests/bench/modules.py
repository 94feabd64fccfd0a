"""Generated modules give the bits of the program, here and alone in processes without Didyma.

    python -m tests.bench.modules [--programs 5000] [--alone 300] [--seed 1] [--jobs 1]

Programs are drawn with control flow, data-dependent sizes, streams, views, variants, devices and
external functions; of one in four that runs alone, up to two ops are handed to external functions,
of which artifacts carry texts that know the results for the inputs.  Of
``--programs`` the module runs on an engine that interprets kernels and is watched for what it does
with memory; each must give the bits of the program interpreter.  Of ``--alone`` the artifact runs
in a fresh process that imports NumPy alone, many to a process, and its module and its JSON must
give the bits that engine ``host`` gives here; a second call of the module, which may be a replay
of the first, must give them too.  It counts programs with control flow, symbols, results that
share bytes with inputs or one another, views, several devices, external functions, workspaces and
streams; of 100 programs and more, some must be of each kind.  So many ``--jobs`` are processes that
share the work, and the counts are kept in the file ``--save``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from didyma.artifacts import build
from didyma.codegen import plugins
from didyma.codegen.devices import named
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled, Planned, compile
from didyma.codegen.runtime.carried import Carried
from didyma.codegen.runtime.devices import across
from didyma.codegen.runtime.externs import Bound, bound
from didyma.codegen.runtime.registry import engine
from didyma.fuzz import levels
from didyma.fuzz.domains.programs import Programs
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.aliases import aliases
from didyma.refimpl.ir.external import External
from didyma.refimpl.ir.graph import (
    CALL,
    COMPILER,
    TO,
    Function,
    Module,
    Node,
    Param,
    attrs,
)
from didyma.refimpl.ir.kernel import scratch
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.program import (
    Bind,
    Extern,
    If,
    Line,
    Repeat,
    Strided,
    View,
    Wait,
    While,
)
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops import OPS

ENOUGH = 100  # programs, of which some must be of each kind
BATCH = 25  # artifacts to a process
PLAIN = 0.75  # share of programs of which no op becomes an external function
CHILD = """
import sys
known = {n.partition(".")[0] for n in (*sys.stdlib_module_names, "numpy", *sys.modules)}
import importlib, json, pathlib
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
strange = {n.partition(".")[0] for n in sys.modules} - known
assert not {n for n in strange if not n.startswith(("_", "cython_runtime"))}, strange
print(json.dumps(found))
"""
EXTERN = """
import hashlib
import numpy as np

def known(*inputs, out):
    digest = hashlib.sha256(b"".join(a.tobytes() for a in inputs)).hexdigest()
    for i, to in enumerate(out if isinstance(out, tuple) else (out,)):
        to.reshape(-1).view(np.uint8)[...] = constants[f"{digest}_{i}"]
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


def outlined(m: Module, rng: random.Random) -> Module:
    """A module of which up to two ops of the main function are external functions."""
    entry = m.entry
    types, names = entry.types(), Names(f.name for f in m.functions)
    nodes, made = list(entry.nodes), list[Function]()
    ops = [i for i, n in enumerate(nodes) if n.op in OPS and n.op != TO and n.args]
    for i in rng.sample(ops, min(2, len(ops))):
        n = nodes[i]
        args = tuple(dict.fromkeys(n.args))
        params = tuple(Param(a, types[a]) for a in args)
        marked = attrs({COMPILER: "library"})
        f = Function(names.fresh("outside"), params, (n,), n.results, marked)
        made.append(f)
        nodes[i] = Node(n.results, CALL, args, n.types, attrs({"callee": f.name}))
    entry = replace(entry, nodes=tuple(nodes))
    return replace(m, functions=(*made, *m.functions[:-1], entry))


class Tables:
    """Runs external functions by their bodies, and makes texts that know what these computed.

    Such a text has the results for inputs of the same bytes, and fails for others.
    """

    def __init__(self) -> None:
        self.known: dict[str, dict[str, Array]] = {}  # bytes of results by their keys, by routine

    def of(self, c: Compiled) -> dict[str, Callable[..., Any]]:
        """Implementations of the external functions of a program, by the functions' names."""
        return {name: partial(self._run, b) for name, b in bound(c.fused).items()}

    def _run(self, b: Bound, *inputs: Array) -> tuple[Array, ...]:
        digest = hashlib.sha256(b"".join(a.tobytes() for a in inputs)).hexdigest()
        results = tuple(graph.run(b.module, inputs, {}))
        for i, a in enumerate(results):
            known = self.known.setdefault(b.external.routine, {})
            known[f"{digest}_{i}"] = np.frombuffer(a.tobytes(), np.uint8)
        return results

    def carried(self, function: External) -> Carried:
        """The text for a function."""
        constants = self.known.get(function.routine, {})
        return Carried(EXTERN, "known", out=True, constants=constants)


def here(c: Compiled, inputs: Sequence[Array], tables: Tables) -> Any:
    """The bytes of each result in this process, or the code of a refusal."""
    on = across(engine("host"), c.program)
    try:
        return [a.tobytes().hex() for a in levels.runner(c, on, tables.of(c))(on, list(inputs))]
    except DidymaError as e:
        return e.code


def written(c: Compiled, inputs: Sequence[Array], folder: Path, tables: Tables) -> None:
    """Write an artifact, which carries its external functions, and the inputs."""
    plugins.add(plugins.EXTERNS, "library", tables)
    try:
        build.write(folder, build.contents({"host": build.Target(c)}))
    finally:
        plugins.remove(plugins.EXTERNS, "library")
    for i, a in enumerate(inputs):
        np.save(folder / f"in-{i}.npy", plain(np.array(a, order="C")))


def drawn(
    seed: int, indices: Iterable[int], folder: Path, seen: Counter[str]
) -> Iterator[tuple[int, Path, Any]]:
    """Artifacts of random programs that can stand alone, with what they give here."""
    domain = Programs()
    for index in indices:
        case = domain.draw(seed, index)
        inputs, rng = case.inputs(), random.Random(index + 1)
        module = case.module if rng.random() < PLAIN else outlined(case.module, rng)
        try:
            c = compile(module, case.options(Options()))
        except DidymaError as e:
            seen[f"left out: {e.code}"] += 1
            continue
        p, externs = c.program, bound(c.fused).values()
        values = (*p.inputs, *p.results, *(name for name, _ in p.constants))
        if any(p.type[v].dtype.is_packed for v in values):
            seen["left out: elements of less than a byte"] += 1
            continue
        if any(not name.startswith("host:") for name in named(p)):
            seen["left out: values on a GPU"] += 1
            continue
        if any(b.external.sizes for b in externs):
            seen["left out: an external function that is given sizes"] += 1
            continue
        seen.update(kinds(c))
        where, tables = folder / str(index), Tables()
        want = here(c, inputs, tables)
        written(c, inputs, where, tables)
        seen["with external functions"] += bool(tables.known)
        yield index, where, want


KINDS: Mapping[str, Callable[[Planned, Sequence[Line]], bool]] = {
    "control flow": lambda _, lines: any(isinstance(x, If | While | Repeat) for x in lines),
    "symbols": lambda made, _: bool(made.source.dims),
    "sizes from data": lambda _, lines: any(isinstance(x, Bind) for x in lines),
    "results that share bytes": lambda made, _: bool(aliases(made.program)),
    "views": lambda _, lines: any(isinstance(x, View | Strided) for x in lines),
    "several devices": lambda made, _: len({t.device for _, t in made.program.types}) > 1,
    "external functions": lambda _, lines: any(isinstance(x, Extern) for x in lines),
    "workspaces": lambda made, _: any(
        scratch(made.kernels[name], (b.name for b in f.params)) for name, f in made.loops.items()
    ),
    "streams": lambda _, lines: any(isinstance(x, Wait) for x in lines),
}


def kinds(made: Planned) -> list[str]:
    """Return which of ``KINDS`` a program is of."""
    p = made.program
    lines = [x for q in (p, *p.functions) for x in walk(q.lines)]
    return [kind for kind, has in KINDS.items() if has(made, lines)]


def compare(seed: int, indices: Iterable[int], many: int, seen: Counter[str]) -> list[str]:
    """What was wrong with as many programs that ran alone."""
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        rows = list(islice(drawn(seed, indices, Path(folder), seen), many))
        for at in range(0, len(rows), BATCH):
            batch = rows[at : at + BATCH]
            for (index, _, want), got in zip(batch, alone([f for _, f, _ in batch]), strict=True):
                seen["refused" if isinstance(want, str) else "results"] += 1
                seen["replayed"] += got[0]
                for out, way in zip(got[1:], ("module", "program.json", "again"), strict=True):
                    if out != want:
                        wrong.append(f"program {index}, alone, by its {way}")
    return wrong


def interpreted(seed: int, indices: Iterable[int], seen: Counter[str]) -> list[str]:
    """What was wrong with programs that ran on an engine that interprets their kernels."""
    domain, wrong = Programs(), list[str]()
    judge = domain.judge()
    for index in indices:
        case = domain.draw(seed, index)
        wrong += (f"program {index}: {f.message}" for f in judge(case).findings)
        with suppress(DidymaError):  # of a capacity that is too small, which the judge expects
            seen.update(kinds(compile(case.module, case.options(Options()), until="plan")))
    return wrong


class Found(NamedTuple):
    """What was wrong with programs, and of which kinds those were that ran here and alone."""

    wrong: list[str]
    seen: Counter[str]
    alone: Counter[str]


def share(seed: int, programs: int, alone: int, jobs: int, job: int) -> Found:
    """Judge one of ``jobs`` shares: each ``jobs``-th program, from the one numbered ``job`` on."""
    seen, outside = Counter[str](), Counter[str]()
    wrong = interpreted(seed, range(job, programs, jobs), seen)
    wrong += compare(seed, count(job, jobs), len(range(job, alone, jobs)), outside)
    return Found(wrong, seen, outside)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if all agree, 1 if not."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--alone", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--save", type=Path)
    args = parser.parse_args(argv)
    seen, outside, wrong = Counter[str](), Counter[str](), list[str]()
    one = partial(share, args.seed, args.programs, args.alone, args.jobs)
    with ProcessPoolExecutor(args.jobs) as pool:
        for part in pool.map(one, range(args.jobs)):
            wrong += part.wrong
            seen += part.seen
            outside += part.alone
    if args.programs + args.alone >= ENOUGH:
        wrong += (f"no program with {kind}" for kind in KINDS if not seen[kind] + outside[kind])
    found = {"programs": args.programs, "alone": args.alone, "seed": args.seed}
    found |= {"of those": dict(seen), "of those alone": dict(outside), "wrong": wrong}
    if args.save:
        args.save.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
