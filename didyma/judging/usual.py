"""Edits that bring what kernels usually have: atomics, ceilings, strides of grids, full masks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from didyma.judging.borrowed import Rule

_MOST = 6  # members of an object, or names of a namespace: those that a text has first
_ADDED = re.compile(r"([A-Za-z_]\w*\[[^;=]*\]|\*[A-Za-z_]\w*) \+= ([^;]+);")
_QUOTIENT = re.compile(r"(?<![\w.\])/%*] )\b([A-Za-z_]\w*) / ([A-Za-z_]\w*|\d+)\b(?![\w.(\[])")
_BLOCK = re.compile(r"(?<!gridDim\.x \* )\bblockDim\.x\b(?! \*)(?= *[;)])")
_MASK = re.compile(r"\b0x[0-9a-fA-F]+u?\b")
_EPSILON = re.compile(r"\b1e-\d+(?=f?\b)")
_EPSILONS = ("1e-5", "1e-6", "1e-8", "1e-12")
_SUM = re.compile(r"\bint \w+ = ([^;=?]* \+ [^;=?]*)(?=;)")
_MEMBER = re.compile(r"\b(?!threadIdx|blockIdx|blockDim|gridDim)([A-Za-z_]\w*(?:\.|::))([a-z_]\w+)")
# Of CUB and cooperative groups: what stands in the place of another.
_INSTEAD = {
    "plus": ("greater",), "greater": ("plus", "less"), "less": ("plus", "greater"),
    "size": ("meta_group_size",), "meta_group_size": ("size",),
    "thread_rank": ("meta_group_rank",), "meta_group_rank": ("thread_rank",),
    "InclusiveSum": ("ExclusiveSum",), "ExclusiveSum": ("InclusiveSum",),
    "InclusiveScan": ("ExclusiveScan",), "ExclusiveScan": ("InclusiveScan",),
}  # fmt: skip
_NAMED = re.compile(rf"(?<=[.:])(?:{'|'.join(_INSTEAD)})\b")
_VALUE = re.compile(r"(?<=[-+*]= )[^;]+(?=;)|(?<=[^=<>!] = )[^;]+(?=;)")


def ceiling(row: str) -> Iterator[str]:
    """Yield a line with a quotient rounded up.

    >>> [*ceiling("for (int t = 0; t < n / T; ++t)")]
    ['for (int t = 0; t < (n + T - 1) / T; ++t)']
    """
    for m in _QUOTIENT.finditer(row):
        yield f"{row[: m.start()]}({m[1]} + {m[2]} - 1) / {m[2]}{row[m.end() :]}"


def atomic(row: str) -> Iterator[str]:
    """Yield a line with an addition to memory as an atomic one.

    >>> [*atomic("if (v < 64) local[v] += 1;")]
    ['if (v < 64) atomicAdd(&local[v], 1);']
    """
    for m in _ADDED.finditer(row):
        place = m[1][1:] if m[1].startswith("*") else f"&{m[1]}"
        yield f"{row[: m.start()]}atomicAdd({place}, {m[2]});{row[m.end() :]}"


def wide(row: str) -> Iterator[str]:
    """Yield a line with the stride of a grid, or the mask of a whole warp."""
    for m in _BLOCK.finditer(row):
        yield f"{row[: m.start()]}gridDim.x * blockDim.x{row[m.end() :]}"
    for m in _MASK.finditer(row):
        if m[0].lower().rstrip("u") != "0xffffffff":
            yield f"{row[: m.start()]}0xffffffff{row[m.end() :]}"


def epsilons(row: str) -> Iterator[str]:
    """Yield a line with another of the small numbers that norms add."""
    for m in _EPSILON.finditer(row):
        yield from (f"{row[: m.start()]}{e}{row[m.end() :]}" for e in _EPSILONS if e != m[0])


def instead(row: str) -> Iterator[str]:
    """Yield a line with another operation, extent or rank of CUB or of cooperative groups."""
    for m in _NAMED.finditer(row):
        yield from (row[: m.start()] + new + row[m.end() :] for new in _INSTEAD[m[0]])


def limited(ints: Sequence[str]) -> Rule:
    """Return the rule that lets an index that is a sum be at most one of some numbers."""

    def rule(row: str) -> Iterator[str]:
        for m in _SUM.finditer(row):
            for n in ints:
                yield f"{row[: m.start(1)]}min({m[1]}, {n}){row[m.end(1) :]}"

    return rule


def members(text: str) -> Rule:
    """Return the rule that puts another member of an object, or of a namespace, in one's place.

    >>> [*members("g.size(); g.rank();")("n = g.size();")]
    ['n = g.rank();']
    """
    known: dict[str, dict[str, None]] = {}
    for m in _MEMBER.finditer(text):
        known.setdefault(m[1], {})[m[2]] = None

    def rule(row: str) -> Iterator[str]:
        for m in _MEMBER.finditer(row):
            for other in [*known.get(m[1], {})][:_MOST]:
                if other != m[2]:
                    yield row[: m.start(2)] + other + row[m.end(2) :]

    return rule


def values(names: Sequence[str]) -> Rule:
    """Return the rule that assigns one of some names, or its square.

    >>> [*values(["g"])("s += d * x[i];")]
    ['s += g;', 's += g * g;']
    """

    def rule(row: str) -> Iterator[str]:
        for m in _VALUE.finditer(row):
            for new in chain.from_iterable((n, f"{n} * {n}") for n in names):
                yield row[: m.start()] + new + row[m.end() :]

    return rule
