"""Texts read back as what was written, and damaged texts are refused with a code.

    python -m tests.bench.round_trip [--programs 100000] [--texts 1000000] [--save FILE] [--docs]

Programs are of three kinds: *anything* that the classes of a level can hold, well formed or not;
random graphs as campaigns draw them, before and after the passes; and the loops, kernels and
launch programs they compile to.  Mutations cut, double, move and replace bytes and words.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.kernel import loops
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.text import parse, show
from tests.bench.page import Shards, put, table
from tests.bench.programs import case_of
from tests.refimpl.text.anything import Anything
from tests.refimpl.text.mutate import confused, damaged, outcome, verdict

Ir = Module | Program | tuple[PrimFunc, ...]

SHARD = 1000  # programs
BATCH = 10_000  # texts
LONG = 4000  # characters of a text to be damaged
SLOW = re.compile("M(ax|in)[(]")  # sizes that sympy takes milliseconds to read: few are enough
ANY = 8  # one seed in so many gives anything, the others graphs and what they compile to


def programs(seed: int) -> Iterator[tuple[str, Ir]]:
    """Programs of a seed, with their kinds."""
    if seed % ANY == 1:
        draw = Anything(seed)
        yield "graph, anything", draw.module()
        yield "loop, anything", (draw.primfunc(), *draw.some(draw.primfunc, 1))
        yield "program, anything", draw.program()
        return
    case = case_of(seed)
    compiled = compile(case.module, case.options(Options()))
    yield "graph, source", case.module
    for _, m in compiled.passes:
        yield "graph, after a pass", m
    for f in compiled.loops.values():
        yield "loop, lowered", (f,)
    for ks in compiled.kernels.values():
        yield "loop, kernels", tuple(map(loops, ks))
    yield "program, planned", compiled.program
    yield "program, without a plan", compiled.unplanned


def same(a: Ir, b: Ir, closely: bool) -> bool:
    """Equal; ``closely`` to the bit, too: repr tells 0.0 from -0.0 and 1 from True, but is slow.

    A NaN in an attribute equals nothing: then repr decides.
    """
    return (not closely and a == b) or repr(a) == repr(b)


def round_trip(kind: str, x: Ir, closely: bool) -> str:
    """What is wrong with a program's text; empty if nothing is."""
    text = show(x)
    try:
        back = parse(text)
    except DidymaError as e:
        return f"{kind}: {e}\n{text}"
    if not same(back, x, closely):
        return f"{kind}: reads back as another\n{text}"
    return "" if show(back) == text else f"{kind}: is written another way\n{text}"


def trips(part: range) -> dict[str, Any]:
    """Write and read the programs of seeds until there are as many as in the range."""
    done: Counter[str] = Counter()
    wrong: list[tuple[int, str]] = []
    seed = part.start
    while done.total() < len(part):
        for kind, x in programs(seed):
            if done.total() < len(part):
                done[kind] += 1
                bad = round_trip(kind, x, len(x) == 1 if isinstance(x, tuple) else seed % 4 == 1)
                wrong += [(seed, bad)] if bad else []
        seed += 1
    return {"kind": "trips", "done": done, "wrong": wrong}


def mutants(part: range) -> dict[str, Any]:
    """Damage texts; parse all, and verify those whose words were exchanged."""
    r = Random(part.start)
    sound = [show(x) for s in range(part.start, part.start + 40) for _, x in programs(s)]
    small = [t for t in sound if len(t) < LONG]
    sound = [t for i, t in enumerate(small) if not SLOW.search(t) or i % 8 == 0]
    codes: Counter[str] = Counter()
    wrong: list[tuple[int, str]] = []
    slowest = 0.0
    for i in part:
        text = r.choice(sound)
        began = time.perf_counter()
        text, judge = _mutant(text, r)
        try:
            codes[judge(text) or "reads"] += 1
        except Exception as e:
            wrong.append((i, f"{type(e).__name__}: {e}\n{text}"))
        slowest = max(slowest, time.perf_counter() - began)
    return {"kind": "mutants", "done": codes, "wrong": wrong, "slowest": slowest}


def _mutant(text: str, r: Random) -> tuple[str, Callable[[str], str]]:
    if r.random() < 0.3 and any(c.isalpha() for c in text):
        return confused(text, r), verdict
    if r.random() < 0.3:
        raw = bytearray(text.encode("utf-8", "surrogatepass"))
        for _ in range(r.randrange(1, 5)):
            raw[r.randrange(len(raw))] = r.randrange(256)
        return raw.decode("utf-8", "surrogateescape"), outcome
    return damaged(text, r), outcome


def lines(shards: Shards) -> Iterator[str]:
    """Tables of what was done."""
    trip = [d for d in shards.done if d["kind"] == "trips"]
    cut = [d for d in shards.done if d["kind"] == "mutants"]
    count, texts = (sum(d["count"] for d in x) for x in (trip, cut))
    done = sum((Counter[str](d["done"]) for d in trip), Counter[str]())
    codes = sum((Counter[str](d["done"]) for d in cut), Counter[str]())
    seconds = sum(d["seconds"] for d in shards.done)
    yield f"`python -m tests.bench.round_trip --programs {count} --texts {texts}`, in"
    yield f"{seconds:.0f} s: {shards.commits()}."
    yield ""
    yield from table(("`parse(show(x)) == x`", "programs"), sorted(done.items()))
    yield ""
    yield f"{count} programs, {sum(len(d['wrong']) for d in trip)} findings."
    yield ""
    rows = [(f"`{k}`" if k != "reads" else "no error", n) for k, n in codes.most_common(8)]
    rest = codes.total() - sum(n for _, n in rows)
    others = f"{len(codes) - len(rows)} other codes"
    yield from table(("mutated texts", "texts"), [*rows, (others, rest)])
    yield ""
    slowest = max((d["slowest"] for d in cut), default=0.0)
    yield (
        f"{texts} texts, {sum(len(d['wrong']) for d in cut)} other exceptions; the slowest took"
        f" {slowest:.2f} s."
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--save", type=Path, help="file of outcomes, one line a range")
    parser.add_argument("--docs", action="store_true", help="write docs/bars.md")
    args = parser.parse_args(argv)
    shards = Shards(args.save)
    have = {(d["kind"], d["start"], d["count"]) for d in shards.done}
    jobs: list[tuple[str, Callable[[range], dict[str, Any]], int, int]] = [
        ("trips", trips, args.programs, SHARD),
        ("mutants", mutants, args.texts, BATCH),
    ]
    for kind, job, count, size in jobs:
        for at in range(args.start, args.start + count, size):
            part = range(at, min(at + size, args.start + count))
            if (kind, part.start, len(part)) in have:
                continue
            began = time.perf_counter()
            shards.keep(part, {**job(part), "seconds": time.perf_counter() - began})
            for seed, what in shards.done[-1]["wrong"]:
                print(f"{kind} {seed}: {what[:1500]}\n", flush=True)
    print("\n".join(lines(shards)))
    if args.docs:
        put("texts", lines(shards))
    return 1 if any(d["wrong"] for d in shards.done) else 0


if __name__ == "__main__":
    sys.exit(main())
