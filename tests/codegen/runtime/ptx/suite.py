"""The suite of CUDA kernels in ``tests/data/sanitize``: each right, and with planted faults.

The head of a file says how it is launched, and the kinds of findings of which a fault has one:
``// RUN: --grid 1 --arg x=f32[8]`` and ``// FAULT 1: race``; a fault is there where ``FAULT`` is
its number.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from didyma.codegen.runtime.ptx import sanitize, sources
from didyma.codegen.runtime.ptx.machine import Shape
from didyma.commands.sanitize import arguments, extents

FOLDER = Path(__file__).parents[3] / "data" / "sanitize"
RUN = re.compile(r"^// RUN: (.*)$", re.MULTILINE)
_FAULT = re.compile(r"^// FAULT (\d+): ([\w -]+)$", re.MULTILINE)
_HEADER = re.compile(r"#include <(?:cuda/|cub/|cooperative_groups|mma|cuda_pipeline)")


@dataclass(frozen=True)
class Variant:
    """A kernel of the suite; fault 0 is the right one.  A fault has a finding of its ``kinds``."""

    path: Path
    fault: int
    kinds: frozenset[str]

    @property
    def name(self) -> str:
        return f"{self.path.stem}-{self.fault}"

    @property
    def needs_headers(self) -> bool:
        """Whether it includes headers of CUDA, which NVRTC does not bring."""
        return bool(_HEADER.search(self.path.read_text(encoding="utf-8")))

    def judged(self, schedules: int = 3) -> sanitize.Sanitized:
        source = sources.Source.read(self.path)
        run = RUN.search(source.text)
        assert run
        words = shlex.split(run[1])
        pairs = list(zip(words[::2], words[1::2], strict=True))
        options = {"--grid": "1", "--block": "32", "--shared": "0", "--kernel": "", **dict(pairs)}
        flags = [f"-DFAULT={self.fault}"]
        kernel = sources.compiled(source, options["--kernel"], flags)
        also = sources.unoptimised(source, options["--kernel"], flags)
        shape = Shape(extents(options["--grid"], "grid"), extents(options["--block"], "block"))
        args = arguments([v for k, v in pairs if k == "--arg"], 1)
        return sanitize.sanitize(
            source, kernel, shape, args, int(options["--shared"]), schedules, 20.0, also=also
        )

    def right(self, done: sanitize.Sanitized) -> bool:
        """Return whether the verdict is right: a fault has a finding of its kinds, others none."""
        found = {f.kind for f in done.faults}
        return bool(found & self.kinds) if self.fault else not found


def variants() -> Iterator[Variant]:
    for path in sorted(FOLDER.glob("*.cu")):
        yield Variant(path, 0, frozenset())
        for number, kinds in _FAULT.findall(path.read_text(encoding="utf-8")):
            yield Variant(path, int(number), frozenset(kinds.split()))
