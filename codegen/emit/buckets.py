"""Buckets of sizes as the text of modules, JSON and C++."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from didyma.codegen.emit.binding import shape
from didyma.codegen.emit.integers import code, quoted, tuple_of
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.program import Program


@dataclass(frozen=True, slots=True)
class Buckets:
    """The sizes that inputs of a program are padded to.

    ``sizes`` are the buckets of each dim, increasing.  The program's last inputs are the values of
    ``given`` at the sizes before.  ``results`` are the shapes that its results are cut to.
    """

    sizes: Mapping[str, tuple[int, ...]]
    given: tuple[Dim, ...]
    results: tuple[tuple[Dim, ...], ...]

    def known(self, names: Set[str]) -> list[list[Dim | None]]:
        """Return the shapes of results, None for sizes that not only these symbols tell."""
        return [[d if {*dims.free(d)} <= names else None for d in row] for row in self.results]


def own_inputs(p: Program, b: Buckets | None) -> tuple[str, ...]:
    """Return the inputs that a call gives."""
    return p.inputs[: len(p.inputs) - len(b.given)] if b else p.inputs


def table(b: Buckets, names: Sequence[str]) -> Iterator[str]:
    """Yield the table ``BUCKETS`` of a module; ``names`` are the symbols that ``bind`` reads."""
    read = {name: f"s[{quoted(name)}]" for name in names}
    yield "BUCKETS = rt.Buckets("
    yield "    {"
    yield from (f"        {quoted(k)}: {tuple_of(map(str, row))}," for k, row in b.sizes.items())
    yield "    },"
    yield f"    {len(b.given)},"
    yield "    lambda s: shapes(*s.values()),"
    yield f"    lambda s: {shape(b.given, read)},"
    rows = (
        tuple_of("None" if d is None else code(d, read) for d in row) for row in b.known({*names})
    )
    yield f"    lambda s: {tuple_of(rows)},"
    yield ")"
