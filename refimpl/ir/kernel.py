"""Kernels: how they are launched, and their text."""

from __future__ import annotations

from dataclasses import dataclass

from didyma.refimpl.ir.loop import Expr, Stmt
from didyma.refimpl.ir.types import DType


@dataclass(frozen=True, slots=True)
class Signature:
    """A kernel's name and how to launch it.

    Arguments: a pointer for each of ``buffers``, then an i64 for each of ``dims``.  ``grid`` and
    ``block`` are expressions over the dims; a grid with a zero extent is not launched.
    ``sizes`` are the buffers' element counts, for guards and bounds checks.
    """

    name: str
    buffers: tuple[tuple[str, DType], ...]
    sizes: tuple[Expr, ...]
    outputs: tuple[str, ...]
    dims: tuple[str, ...]
    grid: tuple[Expr, Expr, Expr]
    block: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class KernelText:
    """CUDA C in the project's subset, with the statement behind each source line (from 1)."""

    source: str
    kernels: tuple[Signature, ...]
    origins: tuple[tuple[int, Stmt], ...] = ()
