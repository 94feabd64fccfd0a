"""Laws about sizes, common to all levels.

| law | says |
|---|---|
| D-name | a dim's name is a plain identifier that means nothing else in a size |
| D-twice | a dim is declared once |
| D-range | ``0 <= lo <= hi`` |
| D-undeclared | a size mentions declared dims only |
| D-size | a size is a nonnegative integer at every end of its dims' ranges |
| D-too-large | no tensor may need more than 2**48 bytes |
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.types import DType, Shape

MOST_BYTES = 2**48
TAKEN = frozenset(
    {"floor", "ceiling", "Mod", "Max", "Min", "mod", "max", "min", "true", "false", "nan", "inf"}
) | {str(d) for d in DType}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CORNERS = 3  # dims of a size up to which every combination of their ends is tried


class Sizes:
    """Checks sizes against the dims that a program declares, each size once."""

    def __init__(self, declared: Iterable[DimVar], where: str) -> None:
        self.ranges: dict[str, tuple[int, int]] = {}
        self._largest: dict[Dim, int] = {}  # of the sizes that are good
        for v in declared:
            place = f"{where}, dims {v.name} in [{v.lo}, {v.hi}]"
            if not _IDENTIFIER.fullmatch(v.name) or v.name in TAKEN:
                raise DidymaError(
                    "D-name", place, got=repr(v.name), want="a plain name that is no word of sizes"
                )
            if v.name in self.ranges:
                raise DidymaError(
                    "D-twice", place, got=f"{v.name} again", want="one declaration of a name"
                )
            if not 0 <= v.lo <= v.hi:
                raise DidymaError("D-range", place, got=f"[{v.lo}, {v.hi}]", want="0 <= lo <= hi")
            self.ranges[v.name] = (v.lo, v.hi)

    def declared(self, ds: Dim | Iterable[Dim], where: str) -> None:
        """Check law D-undeclared."""
        for name in dims.free(ds):
            if name not in self.ranges:
                raise DidymaError(
                    "D-undeclared",
                    where,
                    got=name,
                    want=f"one of the declared dims: {', '.join(self.ranges) or '(none)'}",
                    help=f"declare it: dims {name} in [lo, hi]",
                )

    def shape(self, shape: Shape, dtype: DType, where: str) -> None:
        """Check the laws about the sizes of a tensor."""
        bytes_at_most = dtype.nbytes
        for d in shape:
            if isinstance(d, int):
                if d < 0:
                    raise DidymaError("D-size", where, got=str(d), want="a size of at least 0")
                bytes_at_most *= d
            else:
                if d not in self._largest:
                    self.declared(d, where)
                    self._integral(d, where)
                    self._largest[d] = max(0, dims.bounds(d, self.ranges)[1])
                bytes_at_most *= self._largest[d]
        if bytes_at_most > MOST_BYTES:
            raise DidymaError(
                "D-too-large",
                where,
                got=f"up to {dims.count_text(bytes_at_most)} bytes",
                want=f"at most {MOST_BYTES:,} bytes",
                help="declare narrower ranges" if dims.free(shape) else "",
            )

    def _integral(self, d: Dim, where: str) -> None:
        for env in self.ends(dims.free(d)):
            try:
                size = dims.evaluate(d, env)
            except (DidymaError, ArithmeticError, TypeError):  # no integer, or a division by zero
                size = -1
            if size < 0:
                got = f"{dims.text(d)} at {binding_text(env)}"
                raise DidymaError("D-size", where, got=got, want="an integer of at least 0")

    def ends(self, names: Sequence[str]) -> Iterable[dict[str, int]]:
        """Return the bindings of dims to ends of their ranges; of many dims to like ends alone."""
        ends: Iterable[Sequence[int]] = itertools.product(*(self.ranges[n] for n in names))
        if len(names) > _CORNERS:
            ends = zip(*(self.ranges[n] for n in names), strict=True)
        return (dict(zip(names, values, strict=True)) for values in ends)


def binding_text(env: Mapping[str, int]) -> str:
    """Return a binding as errors show it: ``m = 0, n = 8``."""
    return ", ".join(f"{k} = {v}" for k, v in env.items())
