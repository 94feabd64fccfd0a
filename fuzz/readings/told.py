"""What readers are told in JSON beside a text, and what they say of what they refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from didyma.codegen.emit.plain_expressions import Outside
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.dims import Dim, symbol
from didyma.refimpl.ir.loop import Buffer
from didyma.refimpl.ir.target import PORTABLE, TARGETS, Target
from didyma.refimpl.ir.types import DType

Told: TypeAlias = Mapping[str, Any]
Reader: TypeAlias = Callable[[str, Told], Iterator[str]]
BETWEEN = "====\n"  # a line between a function and what is written for it


def said(make: Callable[[], str]) -> str:
    """Return what is made, or the error by which it is refused."""
    try:
        return make()
    except DidymaError as e:
        return f"{e.code} {e.line} {e}"
    except Outside as e:
        return str(e)


def target(told: Told) -> Target:
    """Return the target that is told of, or the portable one, with other numbers where told."""
    return replace(TARGETS[told.get("target", PORTABLE.name)], **told.get("room", {}))


def block(told: Told) -> tuple[int, int, int]:
    """Return the threads of a block, a warp if nothing is told."""
    x, y, z = told.get("block", (32, 1, 1))
    return x, y, z


def grid(told: Told) -> tuple[Dim, Dim, Dim]:
    """Return the blocks of a launch, one if nothing is told."""
    x, y, z = map(dim, told.get("grid", (1, 1, 1)))
    return x, y, z


def dim(x: int | str) -> Dim:
    """Return a size: a number, or the symbol of a name."""
    return symbol(x) if isinstance(x, str) else x


def buffer(row: Sequence[Any]) -> Buffer:
    """Return a buffer of a name, a dtype and a shape."""
    name, dtype, shape = row
    return Buffer(name, DType(dtype), tuple(map(dim, shape)))
