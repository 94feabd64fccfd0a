"""Python source that places buffers: integers in, integers out."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Sequence

from didyma.codegen.memory.symbolic.arcs import Orientation

RESERVED = re.compile(r"[zo]\d+|max|min|place|sizes|orientation_\d+|")


def identifiers(names: Sequence[str]) -> dict[str, str]:
    """Identifier of each dim: its own name where that is one and clashes with nothing here.

    >>> identifiers(["n", "max", "2x"])
    {'n': 'n', 'max': 'd1', '2x': 'd2'}
    """
    found: dict[str, str] = {}
    for k, name in enumerate(names):
        fine = name.isidentifier() and not keyword.iskeyword(name)
        own = fine and not RESERVED.fullmatch(name) and not re.fullmatch(r"d\d+", name)
        found[name] = name if own else f"d{k}"
    return found


def source(
    params: Sequence[str],
    classes: Sequence[str],
    of: Sequence[int],
    names: Sequence[str],
    orientations: Sequence[Orientation],
) -> str:
    """Write the functions ``sizes``, ``orientation_0``…, and ``place``.

    ``classes`` are expressions of the different sizes, ``of`` the class of each buffer.
    ``place(*dims)`` returns the peak, the index of the orientation that has it, and the offsets.
    """
    return "\n".join(_lines(params, classes, of, names, orientations)) + "\n"


def _lines(
    params: Sequence[str],
    classes: Sequence[str],
    of: Sequence[int],
    names: Sequence[str],
    orientations: Sequence[Orientation],
) -> Iterator[str]:
    yield f"def sizes({', '.join(params)}):"
    yield f"    return {_tuple(classes)}"
    for k, o in enumerate(orientations):
        yield ""
        yield ""
        yield f"def orientation_{k}({', '.join(f'z{c}' for c in range(len(classes)))}):"
        for i in o.order:
            ends = [f"o{j} + z{of[j]}" if o.below[j] else f"z{of[j]}" for j in o.below[i]]
            yield f"    o{i} = {_greatest(ends)}  # {_comment(names[i])}"
        ends = [f"o{j} + z{of[j]}" for j in o.top]
        offsets = _tuple([f"o{i}" for i in range(len(names))])
        yield f"    return {_greatest(ends)}, {k}, {offsets}"
    yield ""
    yield ""
    yield f"def place({', '.join(params)}):"
    yield f"    z = sizes({', '.join(params)})"
    calls = [f"orientation_{k}(*z)" for k in range(len(orientations))]
    joined = ", ".join(calls)
    yield f"    return {joined}" if len(calls) == 1 else f"    return min({joined})"


def _comment(name: str) -> str:
    return name if name.isprintable() else ascii(name)


def _greatest(terms: Sequence[str]) -> str:
    if not terms:
        return "0"
    return terms[0] if len(terms) == 1 else f"max({', '.join(terms)})"


def _tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)}{',' * (len(items) == 1)})"
