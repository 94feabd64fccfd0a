"""Damage serialised ONNX models at random: importing them may show coded errors alone.

``python -m tests.bench.onnx_mutants --count 10000`` takes models of onnx's node tests in turn.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Sequence

from refimpl.errors import DidymaError
from refimpl.onnx.load import load_bytes
from tests.bench.onnx_nodes import cases


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


def outcome(data: bytes) -> str:
    """What importing comes to: imported, or the error's code; other exceptions pass."""
    try:
        load_bytes(data, "mutant.onnx")
    except DidymaError as e:
        return e.code
    return "imported"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    models = [c.model.SerializeToString() for c in cases() if c.model is not None]
    found: Counter[str] = Counter()
    bad = 0
    for i in range(args.count):
        dice = random.Random(f"{args.seed}-{i}")
        data = mutant(models[dice.randrange(len(models))], dice)
        try:
            found[outcome(data)] += 1
        except Exception as e:  # whatever is not coded is what is looked for
            bad += 1
            print(f"mutant {args.seed}-{i}: {type(e).__name__}: {e}", file=sys.stderr)
    print(", ".join(f"{code} {n}" for code, n in found.most_common()))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
