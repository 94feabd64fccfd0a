"""Devices of programs: which ones the values name."""

from __future__ import annotations

from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import Arena, Program


def named(p: Program) -> tuple[str, ...]:
    """Return the devices that values of a program and of its functions name, in order.

    The program's own device has no name.
    """
    programs = (p, *p.functions)
    found = [t.device for f in programs for _, t in f.types]
    found += [x.device for f in programs for x in walk(f.lines) if isinstance(x, Arena)]
    return tuple(sorted({*found} - {""}))
