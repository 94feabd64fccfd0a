"""Verdicts of ``didyma sanitize`` on families of kernels: ``python -m tests.bench.families``.

A file of ``tests/data/families`` is an idiom in many dtypes, blocks and sizes: ``$NAME`` and
``${EXPRESSION}`` take the values that ``// OVER:`` lists.  ``@[right@|KINDS:wrong@]`` is a place
with what is right there, and faults, each with the kinds of findings of which it has one.  An
argument names families by a part of their name.

Each wrong verdict is printed, then how many faults were found, how many right kernels have an
alarm, and the processor time of a kernel, from its text to the findings.
"""

from __future__ import annotations

import re
import shlex
import statistics
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from didyma.codegen.runtime.nvrtc import processor_time
from didyma.codegen.runtime.ptx import sanitize, sources
from didyma.codegen.runtime.ptx.machine import Shape
from didyma.commands.sanitize import arguments, extents
from didyma.judging.expressions import USUAL, evaluate
from didyma.refimpl.errors import DidymaError

FOLDER = Path(__file__).parents[1] / "data" / "families"
_HEAD = re.compile(r"^// RUN: (.*)\n// OVER: (.*)\n")
_PLACE = re.compile(r"@\[(.*?)@\]", re.DOTALL)
_DTYPES = {"float": "f32", "int": "i32", "double": "f64", "unsigned": "u32"}


@dataclass(frozen=True)
class Member:
    """A kernel of a family, right where it has no ``kinds``."""

    name: str
    text: str
    launch: str
    kinds: frozenset[str]

    def judged(self, schedules: int = 3) -> sanitize.Sanitized:
        """Run the checks, in some orders of warps."""
        source = sources.Source(self.text, "k.cu")
        kernel = sources.compiled(source, "")
        also = sources.unoptimised(source, "")
        words = shlex.split(self.launch)
        pairs = list(zip(words[::2], words[1::2], strict=True))
        options = {"--shared": "0", **dict(pairs)}
        shape = Shape(extents(options["--grid"], "--grid"), extents(options["--block"], "--block"))
        args = arguments([v for k, v in pairs if k == "--arg"], 1)
        shared = int(options["--shared"])
        return sanitize.sanitize(source, kernel, shape, args, shared, schedules, 20.0, also=also)

    def right(self, found: sanitize.Sanitized) -> bool:
        """Return whether the verdict is right: a fault has a finding of its kinds, others none."""
        kinds = {f.kind for f in found.faults}
        return bool(kinds & self.kinds) if self.kinds else not kinds


def members(part: str = "") -> Iterator[Member]:
    """Yield all kernels of the families whose names have a part."""
    for path in (p for p in sorted(FOLDER.glob("*.cu")) if part in p.stem):
        text = path.read_text(encoding="utf-8")
        head = _HEAD.match(text)
        assert head, path
        over = dict(item.split("=") for item in head[2].split())
        for values in product(*(v.split(",") for v in over.values())):
            known = dict(zip(over, values, strict=True))
            known["D"] = _DTYPES[known["T"]]
            name = f"{path.stem} {' '.join(values)}"
            launch, own = _filled(head[1], known), _filled(text[head.end() :], known)
            for kinds, form, which in _forms(own):
                yield Member(f"{name}{which}", form, launch, kinds)


def _forms(text: str) -> Iterator[tuple[frozenset[str], str, str]]:
    """Yield the right form of a text, then one for each fault, with its kinds and its number."""
    yield frozenset(), _planted(text, -1, 0), ""
    for k, m in enumerate(_PLACE.finditer(text)):
        for n, fault in enumerate(m[1].split("@|")[1:], 1):
            yield frozenset(fault.partition(":")[0].split()), _planted(text, k, n), f": {k}.{n}"


def _planted(text: str, place: int, fault: int) -> str:
    """Return a text with a fault at one place, and what is right at all others."""
    count = iter(range(len(text)))

    def put(m: re.Match[str]) -> str:
        forms = m[1].split("@|")
        return forms[fault].partition(":")[2] if next(count) == place else forms[0]

    return _PLACE.sub(put, text)


def _filled(text: str, known: Mapping[str, str]) -> str:
    """Return a text with values in the place of ``$NAME`` and of ``${EXPRESSION}``."""
    sizes = {k: int(v) for k, v in known.items() if v.isdecimal()}
    text = re.sub(r"\$\{([^}]*)\}", lambda m: str(evaluate(m[1], sizes, m[0], USUAL)), text)
    return re.sub(r"\$([A-Z])", lambda m: known[m[1]], text)


def main(part: str = "") -> int:
    """Print wrong verdicts and a summary; return how many were wrong."""
    seconds, right, wrong = list[float](), [0, 0], [0, 0]
    for member in members(part):
        start = processor_time()
        try:
            found = member.judged()
            ok = member.right(found)
            got = ", ".join(f"{f.kind} in line {f.line}" for f in found.faults) or "nothing"
        except DidymaError as e:
            ok, got = False, str(e)
        seconds.append(processor_time() - start)
        (right if ok else wrong)[bool(member.kinds)] += 1
        if not ok:
            print(f"{member.name}: wanted {' or '.join(member.kinds) or 'nothing'}, got {got}")
    print(f"{right[1]} of {right[1] + wrong[1]} faults found")
    print(f"{wrong[0]} alarms on {right[0] + wrong[0]} right kernels")
    print(f"seconds: median {statistics.median(seconds):.2f}, most {max(seconds):.2f}")
    return sum(wrong)


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
