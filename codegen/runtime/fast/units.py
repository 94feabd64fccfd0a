"""Kernel text as C for an optimising compiler, a translation unit for each kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pycparser import c_ast as c
from pycparser.c_parser import CParser, ParseError

from didyma.codegen.emit.prelude import Prelude
from didyma.codegen.emit.subset import to_c99
from didyma.codegen.intrinsics import extended
from didyma.codegen.runtime.fast import lane_text
from didyma.codegen.runtime.fast.lane_items import UnsuitedError
from didyma.codegen.runtime.fast.lanes import cut
from didyma.codegen.runtime.hosttext import KernelPart, assemble
from didyma.refimpl.ir.kernel import KernelText, Signature

_UNCHECKED = "#define aligned__(p, n, line) ((void *)(p))"


@dataclass(frozen=True, slots=True)
class Unit:
    """The C text of one kernel.

    ``part`` is what the driver of fibers needs to know of it; None where it runs as lanes.  With
    ``parallel`` its blocks may run at the same time.
    """

    signature: Signature
    source: str
    part: KernelPart | None
    parallel: bool


def units(text: KernelText, prelude: Prelude, blocks: str, driver: str) -> Iterator[Unit]:
    """Yield a unit for each kernel: as loops over lanes where it can be, else with fibers.

    ``blocks`` and ``driver`` are the texts that run grids of either.
    """
    known = extended(prelude, text.intrinsics)
    functions = _functions(text)
    for s in text.kernels:
        try:
            if s.name not in functions:
                raise UnsuitedError("the text has functions that are no kernels")
            made = cut(functions[s.name], s.block)
            body = lane_text.text(made, s)
            source = "\n".join((known.select(body), _UNCHECKED, blocks, lane_text.HEAD, body))
            yield Unit(s, source, None, not made.atomics)
        except UnsuitedError:
            source, parts = assemble(text, prelude, driver, [s.name])
            yield Unit(s, source, parts[s.name], False)


def _functions(text: KernelText) -> dict[str, c.FuncDef]:
    """Return the syntax of the kernels; empty where the text has other functions as well."""
    try:
        tree = CParser().parse(to_c99(text.source.replace("__restrict__", "restrict")))
    except ParseError:
        return {}
    found = {f.decl.name: f for f in tree.ext if isinstance(f, c.FuncDef)}
    return found if found.keys() == {s.name for s in text.kernels} else {}
