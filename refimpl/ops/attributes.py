"""Attributes of ops: an op's record declares each once, with its type, check and documentation.

    @attributes
    class Reduction:
        axes: Ints = integers("increasing axes to fold over")
        keepdims: bool = boolean("keep the folded axes, with size 1")

Checks that depend on the operands, such as the number of axes, are the op's ``infer``'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Literal, TypeAlias, TypeVar, dataclass_transform

import sympy

from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.types import DType, Shape, Tensor
from didyma.refimpl.ops.rules import attr_error

T = TypeVar("T")
A = TypeVar("A")
S = TypeVar("S", bound=str)
AttrMap: TypeAlias = Mapping[str, Attr]
AttrKind: TypeAlias = Literal["int", "ints", "dims", "bool", "str", "dtype", "tensor"]
Ints: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AttrSpec:
    """How an attribute, which every node of the op has, is named, parsed and documented."""

    name: str
    kind: AttrKind
    doc: str
    want: str  # for the error of a value that does not fit
    parse: Callable[[Attr | None], object]  # None for a value that does not fit
    choices: tuple[str, ...] = ()  # of a str or dtype

    def read(self, op: str, attrs: AttrMap) -> object:
        """Return the parsed attribute of a node; error ``bad-attr`` if it does not fit."""
        value = attrs.get(self.name)
        found = self.parse(value)
        if found is None:
            raise attr_error(op, self.name, value, self.want)
        return found


def _declared(
    kind: AttrKind,
    doc: str,
    want: str,
    parse: Callable[[Attr | None], T | None],
    choices: tuple[str, ...] = (),
) -> T:
    """Return a dataclass field, typed as the value that it will have."""
    found: T = field(metadata={"spec": AttrSpec("", kind, doc, want, parse, choices)})
    return found


def integer(doc: str) -> int:
    """Declare an int."""

    def parse(v: Attr | None) -> int | None:
        return v if type(v) is int else None

    return _declared("int", doc, "an int", parse)


def integers(doc: str, least: int | None = None) -> Ints:
    """Declare a tuple of ints, none below ``least``."""

    def parse(v: Attr | None) -> Ints | None:
        if not isinstance(v, tuple):
            return None
        ints = tuple(i for i in v if type(i) is int and (least is None or i >= least))
        return ints if len(ints) == len(v) else None

    at_least = "" if least is None else f" >= {least}"
    return _declared("ints", doc, f"a tuple of ints{at_least}", parse)


def sizes(doc: str, least: int = 0) -> Shape:
    """Declare a tuple of sizes: ints of at least ``least``, and expressions over symbols."""

    def parse(v: Attr | None) -> Shape | None:
        if not isinstance(v, tuple):
            return None
        found: list[Dim] = [
            i for i in v if (type(i) is int and i >= least) or isinstance(i, sympy.Expr)
        ]
        return tuple(found) if len(found) == len(v) else None

    return _declared("dims", doc, f"a tuple of sizes, ints of at least {least}", parse)


def boolean(doc: str) -> bool:
    """Declare a bool."""

    def parse(v: Attr | None) -> bool | None:
        return v if type(v) is bool else None

    return _declared("bool", doc, "true or false", parse)


def choice(doc: str, options: tuple[S, ...]) -> S:
    """Declare a string or dtype that is one of the options."""
    kind: type = type(options[0])
    table: dict[object, S] = {o: o for o in options}

    def parse(v: Attr | None) -> S | None:
        return table.get(v) if type(v) is kind else None

    name: AttrKind = "dtype" if kind is DType else "str"
    return _declared(name, doc, f"one of {', '.join(options)}", parse, tuple(options))


def device(doc: str) -> str:
    """Declare the name of a device; empty for the program's own."""

    def parse(v: Attr | None) -> str | None:
        return v if type(v) is str else None

    return _declared("str", doc, "the name of a device", parse)


def tensor(doc: str) -> Tensor:
    """Declare a tensor."""

    def parse(v: Attr | None) -> Tensor | None:
        return v if isinstance(v, Tensor) else None

    return _declared("tensor", doc, "a tensor", parse)


@dataclass_transform(
    frozen_default=True,
    field_specifiers=(integer, integers, sizes, boolean, choice, device, tensor),
)
def attributes(record: type[T]) -> type[T]:
    """Make a class the record of an op's attributes; the functions above declare its fields."""
    return dataclass(frozen=True, slots=True)(record)


@attributes
class Nothing:
    """The record of an op without attributes."""


def specs(record: type[object]) -> tuple[AttrSpec, ...]:
    """Return the attributes that a record declares, in order."""
    assert is_dataclass(record)
    return tuple(replace(f.metadata["spec"], name=f.name) for f in fields(record))


def parse(op: str, record: Callable[..., A], specs: Sequence[AttrSpec], attrs: AttrMap) -> A:
    """Return the record of a node's attributes; error ``bad-attr`` for one that does not fit."""
    return record(*[s.read(op, attrs) for s in specs])
