"""Judge the loaders in C++ of modules that stand alone: what they launch, and how they pad inputs.

Their kernels have grids and blocks, which those of the domain ``programs`` have not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from didyma.codegen.emit.buckets import Buckets
from didyma.codegen.pipeline import Compiled
from didyma.fuzz.allocator import wrappers
from didyma.fuzz.alone_padded import by_definition, sizes_of
from didyma.fuzz.cpp import judge
from didyma.oracle import plan_check
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp.graph import bind
from didyma.refimpl.interp.memory_use import MemoryUse
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.lines import binds, blocks, walk
from didyma.refimpl.ir.types import Array


def wrong(c: Compiled, inputs: Sequence[Array], results: Sequence[Array]) -> Iterator[str]:
    """Yield what is wrong with the launches of a program without decisions, and with its bytes.

    Its kernels are not run.
    """
    p = c.program
    if any(any(blocks(line)) or binds(line) for q in (p, *p.functions) for line in walk(q.lines)):
        return
    if judge.has_loader(p, c.text):
        env = bind(c.source.entry, c.source, inputs)
        want = judge.Wanted(results, plan_check.replay(p, env).peak)
        yield from judge.judged(judge.Loader(p, c.text, interprets=False), inputs, env, want)


def in_buckets(m: Module, made: Compiled, b: Buckets, inputs: Sequence[Array]) -> Iterator[str]:
    """Yield what is wrong with the loader of a program that pads its inputs."""
    p = made.program
    if not judge.has_loader(p, made.text) or any(t.dtype.is_packed for _, t in p.types):
        return
    use = MemoryUse()
    try:
        results = by_definition(m, b, partial(wrappers.run, p, use=use), inputs)
    except DidymaError:
        return  # of values, which the loader refuses as well
    want = judge.Wanted(results, use.most)
    yield from judge.judged(judge.Loader(p, made.text, b), inputs, sizes_of(m, inputs), want)
