"""The device on which a line of a program works, and the guard around such lines in a module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from didyma.codegen.emit.integers import quoted
from didyma.refimpl.ir.program import (
    Allocate,
    Arena,
    Call,
    Dispatch,
    Extern,
    If,
    Launch,
    Line,
    Repeat,
    Return,
    While,
)
from didyma.refimpl.ir.types import TensorType


def device_of(line: Line, types: Mapping[str, TensorType]) -> str | None:
    """Return the device that must work for a line; empty for the program's own, None for any.

    Lines that name bytes, copy them or give them back need no guard: buffers know their device.
    Blocks and functions have guards of their own.
    """
    match line:
        case Arena(device=device):
            return device
        case Allocate(value):
            return types[value].device
        case Launch(args=args) if args:
            return types[args[0]].device
        case Dispatch(outputs) | Extern(outputs=outputs) if outputs:
            return types[outputs[0]].device
        case If() | While() | Repeat() | Call() | Return() | Launch() | Dispatch() | Extern():
            return ""
        case _:
            return None


def guarding(device: str) -> str:
    """Return the line that begins a guard."""
    return f"with engine.on({quoted(device)}):"


def guarded(device: str, text: str) -> Iterator[str]:
    """Yield a line, in a guard where it is of a device that has a name."""
    if device:
        yield guarding(device)
    yield f"    {text}" if device else text
