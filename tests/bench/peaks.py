"""The memory of running modules is that of their plans, and inputs go after their last reader.

    python -m tests.bench.peaks [--programs 100] [--seed 1] [--docs]

Programs with symbolic sizes are drawn, with control flow, calls, streams, views and planners, and
built as modules that stand alone.  Each is called at ten bindings of its sizes on the runtime's own
engine, whose allocator is counted: the most bytes that it has given out at once must be the peak
that ``didyma.codegen.memory.peak`` gives for the plan, and all must have come back.  Where a run
decides what it does, by a branch or a size that it binds, the two may differ, and such programs are
counted apart; so are calls that a capacity refuses, whose planned peak must be above it.  In
programs without blocks and on one stream, the inputs that no later line reads must be gone at each
launch; with several streams they wait for all of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from didyma.artifacts import build
from didyma.artifacts.load import Loaded, load
from didyma.codegen.memory.peak import peak
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.fuzz.domains.programs import Programs
from didyma.fuzz.graphs import Case
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.aliases import aliases
from didyma.refimpl.ir.lines import binds, blocks, launches_of, operands, walk
from didyma.refimpl.ir.program import ALIGNMENT, Call, If, Program, View, While
from tests.bench.page import ROOT, put

SIZES = 10  # bindings of a program
MOST = 40  # of a size
TRIES = 200  # bindings that are drawn, to have so many that differ


class Counted:
    """An engine that counts the bytes that are allocated and not freed, in whole lines of 256."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.now = self.most = 0
        self._sizes: dict[int, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _taken(self, buffer: Any, nbytes: int) -> Any:
        self._sizes[id(buffer)] = size = -(-nbytes // ALIGNMENT) * ALIGNMENT
        self.now += size
        self.most = max(self.most, self.now)
        return buffer

    def allocate(self, nbytes: int) -> Any:
        """Allocate and count."""
        return self._taken(self._inner.allocate(nbytes), nbytes)

    def stack(self, nbytes: int) -> Any:
        """Take bytes of the stack and count them."""
        return self._taken(self._inner.stack(nbytes), nbytes)

    def free(self, buffer: Any) -> None:
        """Free and count; an input was not allocated."""
        self.now -= self._sizes.pop(id(buffer), 0)
        self._inner.free(buffer)

    def unstack(self, buffer: Any) -> None:
        """Give bytes of the stack back and count."""
        self.now -= self._sizes.pop(id(buffer))
        self._inner.unstack(buffer)


def bindings(case: Case, rng: Random) -> list[dict[str, int]]:
    """Ten bindings of a program's sizes that differ; fewer where there are not so many."""
    known = [v for v in case.module.dims if v.name in dict(case.env)]
    found: dict[tuple[int, ...], None] = {}
    for _ in range(TRIES):
        found[tuple(rng.randint(v.lo, min(v.hi, MOST)) for v in known)] = None
        if len(found) == SIZES:
            break
    return [{v.name: n for v, n in zip(known, row, strict=True)} for row in found]


def decides(p: Program) -> bool:
    """Whether a run may take more or less memory than its plan: by a branch or a size it binds."""
    every = (p, *p.functions)
    lines = [x for f in every for x in walk(f.lines)]
    bound = {s for x in lines for s in binds(x)}
    sizes = {s for f in every for _, t in f.types for s in dims.free(t.nbytes)}
    return any(isinstance(x, If | While) for x in lines) or not bound.isdisjoint(sizes)


def last_reads(p: Program) -> dict[str, int]:
    """The number of the last launch that reads each input, itself or by a view; -1 for none."""
    shown = {v: v for v in p.inputs}
    last = dict.fromkeys(p.inputs, -1)
    launches = 0
    for x in p.lines:
        if isinstance(x, View):
            shown |= {x.value: shown[x.of]} if x.of in shown else {}
            continue
        last |= {shown[v]: launches for v in operands(x) if v in shown}
        launches += bool(launches_of(x))
    return last


def kept(c: Compiled, call: Any, inputs: Sequence[Any]) -> Iterator[str]:
    """Yield the inputs that are there after their last reader, at each launch of a call."""
    last, given = last_reads(c.program), {a.of for a in aliases(c.program)}
    args = [a.copy() for a in inputs]
    there = {n: weakref.ref(a) for n, a in zip(c.program.inputs, args, strict=True)}
    seen: list[str] = []
    count = [0]

    def watch(_: Any) -> None:
        for name, ref in there.items():
            if last[name] < count[0] and name not in given and ref() is not None:
                seen.append(f"input {name} at launch {count[0]}, last read by {last[name]}")
        count[0] += 1

    call(args, watch=watch)
    yield from seen


def judged(case: Case, rng: Random, seen: Counter[str]) -> Iterator[str]:
    """Yield what is wrong with a program's memory at ten bindings of its sizes."""
    try:
        c = compile(case.module, case.options(Options()))
    except DidymaError as e:
        seen[f"left out: {e.code}"] += 1
        return
    envs = bindings(case, rng)
    if len(envs) < SIZES:
        seen["left out: fewer than ten bindings"] += 1
        return
    with TemporaryDirectory() as folder:
        try:
            build.write(Path(folder) / "built", build.contents({"host": build.Target(c)}))
        except DidymaError as e:
            seen[f"left out: {e.code}"] += 1
            return
        seen["programs"] += 1
        yield from _called(c, case, load(Path(folder) / "built"), envs, seen)


def _called(
    c: Compiled,
    case: Case,
    built: Loaded,
    envs: Sequence[Mapping[str, int]],
    seen: Counter[str],
) -> Iterator[str]:
    module, most = built.module, case.options(Options()).memory.capacity
    engine, kernels, weights, *_ = module["load"]()
    free = not decides(c.program)
    plain = not any(
        blocks(x) or isinstance(x, Call) or getattr(x, "stream", 0) for x in c.program.lines
    )
    for env in envs:
        inputs = replace(case, env=tuple(env.items())).inputs()
        on, want = Counted(engine), peak(c.program, env)
        try:
            module["run"](on, [a.copy() for a in inputs], kernels, weights)
        except (DidymaError, built.runtime.Refused) as e:
            seen[f"refused: {e.code}"] += 1
            if e.code == "assertion" and (most is None or want <= most):
                yield f"at {dict(env)}: refused a peak of {want}: {e}"
            continue
        same = on.most == want
        seen[f"calls: {'equal' if same else 'other'}{'' if free else ', where runs decide'}"] += 1
        if on.now or (free and not same):
            yield f"at {dict(env)}: the peak is {on.most}, planned {want}; {on.now} are left"
        if plain:
            seen["calls whose inputs were watched"] += 1
            yield from kept(c, module["call"], inputs)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if all agree, 1 if not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--docs", action="store_true")
    args = parser.parse_args(argv)
    domain, seen, wrong, index = Programs(), Counter[str](), list[str](), 0
    while seen["programs"] < args.programs:
        case = domain.draw(args.seed, index)
        if case.env:
            wrong += [f"program {index} {x}" for x in judged(case, Random(index), seen)]
        index += 1
    found = {"seed": args.seed, "seen": dict(sorted(seen.items())), "wrong": wrong}
    print(json.dumps(found, indent=1))
    if args.docs:
        rows = [f"| {what} | {n} |" for what, n in sorted(seen.items())]
        put("peaks", ["| what | count |", "|---|---:|", *rows], ROOT / "docs/program-memory.md")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
