"""Matrix products of four warps together, whose operands stay in shared memory or registers.

As PTX ISA, "Asynchronous warpgroup level matrix multiply-accumulate instructions", has them, with
operands in the layouts of 128-byte swizzling: a line has 64 elements of two bytes, and of the bytes
of an array, which begins at a multiple of 1024, those of a piece of 16 lie at another of the eight
of their line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from didyma.refimpl.ir.types import Array, DType

GROUP = 128  # threads
ROWS, TERMS = 64, 16  # of one product
LINE = 64  # elements of a line
HELD = 8  # elements of an operand that each thread holds
ALIGNMENT = 1024  # bytes to a multiple of which an array of operands begins
COLUMNS = tuple(range(32, 257, 32))


@dataclass(frozen=True, slots=True)
class GroupProduct:
    """``d + a @ b`` of a (64, 16) and b (16, ``columns``) of ``operands``, and d in f32.

    ``a_by`` is ``k`` where a line has terms of one row of a, and ``m`` where it has rows of one
    term; ``b_by`` is ``k``, or ``n`` where a line has columns of one term.  Lines of different rows
    follow each other; those of terms do in panels of 64 rows or columns, each of 64 lines.  Where
    ``a_by`` is ``r``, each thread holds eight elements of a.
    """

    columns: int
    operands: DType
    a_by: str
    b_by: str

    @property
    def name(self) -> str:
        """The end of its name in kernel text.

        >>> GroupProduct(128, DType.BF16, "k", "n").name
        'm64n128k16_bf16_kn'
        """
        return f"m64n{self.columns}k16_{self.operands.value}_{self.a_by}{self.b_by}"

    @property
    def sums(self) -> int:
        """How many elements of d each thread holds."""
        return ROWS * self.columns // GROUP

    def of_sums(self) -> tuple[Array, Array]:
        """Return the rows and columns of what each thread holds of d, (128, sums) each."""
        t, i = np.ogrid[:GROUP, : self.sums]
        return t // 32 * 16 + t % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + t % 4 * 2 + i % 2

    @staticmethod
    def of_registers() -> tuple[Array, Array]:
        """Return the rows and terms of what each thread holds of a, (128, 8) each.

        They are those of the rows and columns of the first eight sums.
        """
        t, i = np.ogrid[:GROUP, :HELD]
        return t // 32 * 16 + t % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + t % 4 * 2 + i % 2

    def of_a(self) -> Array:
        """Return where the elements of a lie after the first, before they are swizzled."""
        row, k = np.ogrid[:ROWS, :TERMS]
        return np.asarray(row * LINE + k if self.a_by == "k" else k * LINE + row)

    def of_b(self) -> Array:
        """Return where the elements of b lie after the first, before they are swizzled."""
        k, column = np.ogrid[:TERMS, : self.columns]
        if self.b_by == "k":
            return np.asarray(column * LINE + k)
        return np.asarray(column // LINE * LINE * LINE + k * LINE + column % LINE)


def swizzled(at: Array) -> Array:
    """Return where elements of two bytes lie in an array, of which ``at`` counts the lines through.

    >>> swizzled(np.arange(64, 64 + 24)).tolist()[::8], swizzled(np.array([8 * 64])).tolist()
    ([72, 64, 88], [512])
    """
    return np.asarray(at ^ (at // LINE % 8 * 8))


PRODUCTS: Mapping[str, GroupProduct] = MappingProxyType({
    p.name: p
    for p in (
        GroupProduct(columns, dtype, a, b)
        for columns in COLUMNS for dtype in (DType.F16, DType.BF16) for a in "kmr" for b in "kn"
    )
})  # fmt: skip
