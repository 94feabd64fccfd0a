"""Convert the operands of products in memory, where tensor cores are then fed by copies of boxes.

A kernel that converts operands as it loads them does so again for each tile that reads them, and
no copy of TMA can fetch them.  So what a large product reads in another dtype, as f8, bytes or f32,
is stored in the 16 bits that tensor cores multiply.  That costs a kernel, and each element once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from didyma.codegen.decisions import Heard, unheard
from didyma.codegen.passes.blocks import blocks
from didyma.codegen.passes.rewriting import Rewriting
from didyma.codegen.templates.fetching import NEEDED
from didyma.codegen.templates.operands import holds
from didyma.refimpl.ir.graph import Function, Module, Node
from didyma.refimpl.ir.target import Target
from didyma.refimpl.ir.types import DType, TensorType

HALVES = (DType.BF16, DType.F16)
MOVES = ("permute_dims", "cast")  # what may stand between a stored operand and its product
PIECE = 8  # elements of 16 bits: the rows of an operand begin at multiples of so many
LEAST = 8  # rows and columns of a product that tensor cores compute
TWICE = "convert bytes to 16 bits before f32"


def in_memory(m: Module, target: Target, work: int, heard: Heard) -> Module:
    """Convert bytes that large products of f32 read to 16 bits first, if the target has TMA.

    Large are products of so many multiplications.  Results are the same, for these 16 bits have
    all numbers of the bytes.
    """
    if not suits(target):
        return m
    entered = blocks(m)
    functions = (
        _Twice(f, "half", heard=heard).run(work) if f.name in entered else f for f in m.functions
    )
    return replace(m, functions=tuple(functions))


def suits(target: Target) -> bool:
    """Return whether a target has TMA, and tensor cores that it feeds."""
    return {*target.families} >= NEEDED


@dataclass(frozen=True, slots=True)
class Operands:
    """What products of ``work`` multiplications read in a function.

    ``source`` returns the node that defines a value, and ``readers`` those that read it.
    """

    types: Mapping[str, TensorType]
    source: Callable[[str], Node | None]
    readers: Callable[[str], Sequence[Node]]
    work: int

    def is_stored(self, n: Node) -> bool:
        """Return whether a node converts what a large product reads to 16 bits, to be stored.

        What stands between may move the operand, or convert it to f32.
        """
        if n.op != "cast" or n.types[0].dtype not in HALVES or n.types[0].rank < 2:
            return False
        columns = n.types[0].shape[-1]
        lies = isinstance(columns, int) and columns > 0 and columns % PIECE == 0
        return lies and self.types[n.args[0]].dtype not in HALVES and self._feeds(n.results[0])

    def _feeds(self, value: str) -> bool:
        return any(
            self.half(n) is not None
            if n.op == "matmul"
            else n.op in MOVES and self._feeds(n.results[0])
            for n in self.readers(value)
        )

    def half(self, n: Node) -> DType | None:
        """Return the dtype of 16 bits in which tensor cores multiply what a large product reads.

        None for a product that is small, or whose operands are not all numbers of one such dtype.
        """
        *batch, rows, columns = n.types[0].shape
        sizes = [*batch, rows, columns, self.types[n.args[0]].shape[-1]]
        known = [x if isinstance(x, int) else LEAST for x in sizes]  # at least, of open ones
        if min(known[-3:-1]) < LEAST or math.prod(known) < self.work:
            return None
        dtypes = {self.types[self.origin(a)].dtype for a in n.args}
        wide = next((d for d in HALVES if d in dtypes), DType.BF16)
        return wide if all(holds(wide, d) for d in dtypes) else None

    def origin(self, value: str) -> str:
        """Return the value that an operand of f32 is moved and converted from; another itself."""
        while self.types[value].dtype is DType.F32:
            n = self.source(value)
            if n is None or n.op not in MOVES:
                break
            (value,) = n.args
        return value


@dataclass
class _Twice(Rewriting):
    """A function in which some operands of products are converted to f32 by way of 16 bits."""

    heard: Heard = unheard
    made: dict[tuple[str, DType], str] = field(default_factory=dict[tuple[str, DType], str])

    def run(self, work: int) -> Function:
        """Return the function; the same one where nothing is converted."""
        operands = Operands(self.types, self.defs.get, lambda _: (), work)
        for n in self.f.nodes:
            product = n.op == "matmul" and n.types[0].dtype is DType.F32
            wide = operands.half(n) if product else None
            args = n.args if wide is None else [self._operand(a, operands, wide) for a in n.args]
            self.add(replace(n, args=tuple(args)))
        return replace(self.f, nodes=tuple(self.nodes)) if self.made else self.f

    def _operand(self, value: str, operands: Operands, wide: DType) -> str:
        """Return an operand of f32 by way of 16 bits; itself where it comes of 16 bits."""
        first = operands.origin(value)
        if self.types[first].dtype.nbytes != 1:
            return value
        moves, at = list[Node](), value
        while at != first:
            moves.append(self.defs[at])
            (at,) = moves[-1].args
        if (first, wide) not in self.made:
            self.made[first, wide] = self.op("cast", first, dtype=wide)
            self.heard(TWICE, first)
        value = self.made[first, wide]
        for n in reversed(moves):
            if n.op == "permute_dims":
                value = self.op("permute_dims", value, axes=n.attr["axes"])
        return self.op("cast", value, dtype=DType.F32)
