"""What a kernel is cut into: statements that each lane runs, and what lanes share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from pycparser import c_ast as c


class UnsuitedError(Exception):
    """The kernel cannot be written as loops over lanes."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value that lanes share, or the first lane's where it grows from lane to lane."""

    decl: c.Decl
    kind: int


@dataclass(frozen=True, slots=True)
class Digit:
    """A digit of an index: the first lane's, and that of each lane."""

    decl: c.Decl


@dataclass(frozen=True, slots=True)
class Again:
    """An integer that each lane computes anew."""

    decl: c.Decl


@dataclass(frozen=True, slots=True)
class Quotient:
    """A run of lanes ends where ``value / by`` changes."""

    value: c.Node
    by: c.Node


@dataclass(frozen=True, slots=True)
class Crossing:
    """A run of lanes ends where ``value`` reaches ``bound + more``."""

    value: c.Node
    bound: c.Node
    more: int


@dataclass(frozen=True, slots=True)
class Most:
    """A run has at most so many lanes."""

    lanes: int


@dataclass(frozen=True, slots=True)
class Group:
    """Statements that each lane runs to their end."""

    statements: list[c.Node]


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop that all lanes run alike."""

    head: c.For
    body: Items
    unrolled: bool


@dataclass(frozen=True, slots=True)
class Branch:
    """A choice that all lanes make alike."""

    cond: c.Node
    then: Items
    other: Items


@dataclass(frozen=True, slots=True)
class Shared:
    """An array that the threads of a block share."""

    decl: c.Decl


Item: TypeAlias = (
    Scalar | Digit | Again | Quotient | Crossing | Most | Group | Loop | Branch | Shared
)
Items: TypeAlias = list[Item]


def groups(items: Items) -> Iterator[Group]:
    """Yield the groups of items and of what is inside them, in order."""
    for item in items:
        match item:
            case Group():
                yield item
            case Loop(body=body):
                yield from groups(body)
            case Branch(then=then, other=other):
                yield from groups(then)
                yield from groups(other)
            case _:
                pass
