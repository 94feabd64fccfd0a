"""Places in an image as the digits of one index, so that runs of lanes go on over ends of rows."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Final

from pycparser import c_ast as c

from didyma.codegen.runtime.fast.lane_kinds import literal, nodes, step

SHORT_ROW: Final = 32  # elements of a row at whose end no run is to end
LONG: Final = 64  # lanes that are enough


@dataclass(frozen=True, slots=True)
class Digits:
    """The low digits of ``base``, with their weights, the least first; ``size`` counts them all.

    Every access to memory grows by their sum as it grows by the lowest alone, so that neighbouring
    lanes are as far apart at the end of a row as within it.  ``high`` are the other digits.
    """

    base: str
    low: Mapping[str, int]
    size: int
    high: Set[str]

    def steps(self, n: c.Node) -> int | None:
        """Return by how much an index grows from lane to lane; None where digits are apart."""
        return _alike(n, [{name: 1} for name in self.low], list(self.low.values()))


def find(function: c.FuncDef, arrays: Set[str], written: Set[str]) -> Digits | None:
    """Find the digits that are worth joining."""
    parts = {
        d.name: part
        for d in nodes(function.body)
        if isinstance(d, c.Decl) and d.name not in written and (part := _digit(d.init))
    }
    if len(bases := {base for base, _, _ in parts.values()}) != 1:
        return None
    low: dict[str, int] = {}
    size, found = 1, None
    while size < LONG:
        at = [(n, mod) for n, (_, div, mod) in parts.items() if div == size and mod]
        if len(at) != 1 or at[0][1] > SHORT_ROW > size:
            break
        (name, mod) = at[0]
        low = {**low, name: size}
        size *= mod
        high = parts.keys() - low.keys()
        if len(low) > 1 and not any(parts[n][1] % size for n in high):
            (base,) = bases
            longer = Digits(base, low, size, high)
            found = longer if _fits(function, arrays, longer) else found
    return found


def _digit(n: c.Node | None) -> tuple[str, int, int] | None:
    """Return an index, what it is divided by, and the modulus, or 0, where a value is a digit."""
    mod, div = 0, 1
    if isinstance(n, c.BinaryOp) and n.op == "%":
        mod = literal(n.right) or 0
        n = n.left
        if mod <= 0:
            return None
    while isinstance(n, c.BinaryOp) and n.op == "/":
        by = literal(n.right)
        if by is None or by <= 0:
            return None
        div *= by
        n = n.left
    return (n.name, div, mod) if isinstance(n, c.ID) and (mod or div > 1) else None


def _fits(function: c.FuncDef, arrays: Set[str], d: Digits) -> bool:
    steps: list[dict[str, int | None]] = [{name: 1} for name in d.low]
    for x in nodes(function.body):
        if isinstance(x, c.Decl) and x.init is not None and x.name not in d.low:
            for s in steps:
                s[x.name] = step(x.init, s)
        elif (
            isinstance(x, c.ArrayRef)
            and isinstance(x.name, c.ID)
            and x.name.name in arrays
            and _alike(x.subscript, steps, list(d.low.values())) is None
        ):
            return False
    return True


def _alike(n: c.Node, steps: list[dict[str, int | None]], weights: list[int]) -> int | None:
    found = [step(n, s) for s in steps]
    first = found[0]
    alike = first is not None and all(f == first * w for f, w in zip(found, weights, strict=True))
    return first if alike else None
