"""Damage ONNX models at random: importing them may show coded errors alone, and soon.

``python -m tests.bench.onnx_mutants --count 10000`` takes models of onnx's node tests; every other
one is damaged in its bytes, the others within the format.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from onnx import ModelProto

from didyma.onnx.load import load_bytes
from didyma.refimpl.errors import DidymaError
from tests.bench.onnx_edits import edited
from tests.bench.onnx_suites import cases

MOST_SECONDS = 10
MOST_BYTES = 4 << 30  # of address space, over what the process has when it begins


def mutant(data: bytes, dice: random.Random) -> bytes:
    """Return bytes with a few changed, cut out, doubled or put elsewhere."""
    held = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 4))):
        at = dice.randrange(len(held) or 1)
        size = dice.choice((1, 1, 2, 8, 40))
        match dice.randrange(5):
            case 0 if held:
                held[at] ^= 1 << dice.randrange(8)
            case 1:
                held[at : at + size] = dice.randbytes(size)
            case 2:
                del held[at : at + size]
            case 3:
                held[at:at] = held[at : at + size]
            case _:
                del held[at:]
                if not held:
                    held = bytearray(data)
    return bytes(held)


def damaged(models: Sequence[ModelProto], seed: str) -> bytes:
    """Return the damaged model of a seed."""
    dice = random.Random(seed)
    model = dice.choice(models)
    if dice.random() < 0.5:
        return edited(model, dice).SerializeToString()
    return mutant(model.SerializeToString(), dice)


def outcome(data: bytes) -> str:
    """What importing comes to: imported, or the error's code; other exceptions pass."""
    try:
        load_bytes(data, "mutant.onnx", Path("/nowhere"))
    except DidymaError as e:
        return e.code
    return "imported"


class TooSlow(Exception):
    """An import took longer than it may."""


def _late(number: int, frame: object) -> None:
    del number, frame
    raise TooSlow(f"more than {MOST_SECONDS} s")


def _limit_memory() -> None:
    """Let an absurd allocation fail, rather than the machine."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--keep", type=Path, help="folder to keep the models of findings in")
    args = parser.parse_args(argv)
    models = [c.model for c in cases() if c.model is not None]
    _limit_memory()
    signal.signal(signal.SIGALRM, _late)
    found: Counter[str] = Counter()
    bad, slowest, start = 0, 0.0, time.perf_counter()
    for i in range(args.first, args.first + args.count):
        name = f"{args.seed}-{i}"
        data = damaged(models, name)
        began = time.perf_counter()
        signal.alarm(MOST_SECONDS)
        try:
            found[outcome(data)] += 1
        except Exception as e:  # whatever is not coded is what is looked for
            bad += 1
            print(f"mutant {name}: {type(e).__name__}: {e}", file=sys.stderr)
            if args.keep:
                args.keep.mkdir(parents=True, exist_ok=True)
                (args.keep / f"{name}.onnx").write_bytes(data)
        finally:
            signal.alarm(0)
        slowest = max(slowest, time.perf_counter() - began)
    print(", ".join(f"{code} {n}" for code, n in found.most_common()))
    spent = time.perf_counter() - start
    print(f"{args.count} models, {bad} findings, {spent:.0f} s, the slowest {slowest:.2f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
