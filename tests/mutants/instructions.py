"""Mutants of kernel text of which a C compiler makes the instructions of the original.

What an optimising compiler proves of two texts needs no other proof (Papadakis, Jia, Harman and
Le Traon, *Trivial Compiler Equivalence*, ICSE 2015).  It is told how many threads a block has, and
how many blocks the grid, where that is a number.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from didyma.codegen.pipeline import Compiled
from didyma.codegen.runtime import compiler, hosttext
from didyma.codegen.runtime.host import Host
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.loop import Const
from tests.mutants import checks
from tests.mutants.forking import Say, forked
from tests.mutants.target import Target

if TYPE_CHECKING:
    from tests.mutants.engine import Engine

REASON = "A C compiler makes the same instructions of it, whatever values and sizes are."
_BELOW = (
    "static inline unsigned below__(unsigned i, unsigned n) "
    "{ if (i >= n) __builtin_unreachable(); return i; } "
)


def same(engine: Engine, targets: Sequence[Target]) -> Iterator[Target]:
    """Yield the mutants of kernel text that compile to what the original does."""
    texts = [t for t in targets if t.mutant is not None and t.mutant.program >= 0]
    if any(compiler.each_found()):
        for e in forked(texts, partial(_say, engine.plan.seed), engine.plan.jobs):
            if e.said == [True]:
                yield e.work


def _say(seed: int, t: Target, say: Say) -> None:
    m = t.mutant
    assert m is not None
    made = checks.compiled("graphs", seed, m.program)
    assert isinstance(made, Compiled)
    say(alike(made.text, m.site.scope, m.source, m.mutated))


def alike(text: KernelText, kernel: str, one: str, other: str) -> bool:
    """Return whether a kernel has the same instructions in two sources for the text.

    They are those of the first C compiler of this machine; EngineMissing if there is none.
    """
    signature = next(s for s in text.kernels if s.name == kernel)
    a, b = (_instructions(text, signature, source) for source in (one, other))
    return bool(a) and a == b


def _instructions(text: KernelText, s: Signature, source: str) -> str:
    """Return a kernel as the assembler's text; empty where it does not compile."""
    host, found = Host(), next(compiler.each_found())
    bounded = replace(text, source=_BELOW + _bounded(s, source))
    unit, _ = hosttext.assemble(bounded, host.prelude, host.driver, [s.name])
    options = [o for o in found.options if o != "-shared"]
    done = subprocess.run(
        [*found.command, *options, "-S", "-o", "-", "-"],
        input=unit, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return "" if done.returncode else done.stdout


def _bounded(s: Signature, source: str) -> str:
    """Return a source that says how large indices of threads and blocks are."""
    for axis, threads, blocks in zip("xyz", s.block, s.grid, strict=True):
        bounds = {"threadIdx": threads}
        if isinstance(blocks, Const):
            bounds["blockIdx"] = int(blocks.value)
        for name, n in bounds.items():
            source = source.replace(f"{name}.{axis}", f"below__({name}.{axis}, {n})")
    return source
