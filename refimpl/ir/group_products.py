"""Matrix products of four warps together, whose operands stay in shared memory or registers.

As PTX ISA, "Asynchronous warpgroup level matrix multiply-accumulate instructions", has them, with
operands in the layouts of 128-byte swizzling: a line has 64 elements of two bytes, 32 of four or
128 of one, and of the bytes of an array, which begins at a multiple of 1024, those of a piece of 16
lie at another of the eight of their line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from didyma.refimpl.ir.fragments import TF32
from didyma.refimpl.ir.types import Array, DType

GROUP = 128  # threads
ROWS = 64  # of one product
LINE = 64  # elements of a line, of two bytes
LINE_BYTES, TERM_BYTES = 128, 32  # of a line, and of a row in one product
HELD = 8  # elements of an operand that each thread holds
ALIGNMENT = 1024  # bytes to a multiple of which an array of operands begins
COLUMNS = tuple(range(32, 257, 32))
FINE = tuple(range(80, 257, 32))  # more where threads hold a, and lines of b are of one term


@dataclass(frozen=True, slots=True)
class GroupProduct:
    """``d + a @ b`` of a (64, k) and b (k, ``columns``) of ``operands``, and d of ``total``.

    There are 16 terms of two bytes, 32 of one, or 8 of f32, whose last ``narrow`` bits are 0: that
    is tf32.
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
    def k(self) -> int:
        """How many terms one product adds up."""
        return TERM_BYTES // self.operands.nbytes

    @property
    def line(self) -> int:
        """How many elements a line has."""
        return LINE_BYTES // self.operands.nbytes

    @property
    def narrow(self) -> int:
        """How many of the last bits of an operand are 0."""
        return TF32 if self.operands is DType.F32 else 0

    @property
    def total(self) -> DType:
        """The dtype of d: products of integers are exact, and their sums wrap."""
        return DType.I32 if self.operands.is_int else DType.F32

    @property
    def kind(self) -> str:
        """The name of the operands' dtype in kernel text."""
        return "tf32" if self.narrow else self.operands.value

    @property
    def name(self) -> str:
        """The end of its name in kernel text.

        >>> GroupProduct(128, DType.BF16, "k", "n").name
        'm64n128k16_bf16_kn'
        """
        return f"m64n{self.columns}k{self.k}_{self.kind}_{self.a_by}{self.b_by}"

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
        row, k = np.ogrid[:ROWS, : self.k]
        return np.asarray(row * self.line + k if self.a_by == "k" else k * LINE + row)

    def of_b(self) -> Array:
        """Return where the elements of b lie after the first, before they are swizzled."""
        k, column = np.ogrid[: self.k, : self.columns]
        if self.b_by == "k":
            return np.asarray(column * self.line + k)
        return np.asarray(column // LINE * LINE * LINE + k * LINE + column % LINE)


def swizzled(at: Array, line: int = LINE) -> Array:
    """Return where elements lie in an array whose lines ``at`` counts through.

    >>> swizzled(np.arange(64, 64 + 24)).tolist()[::8], swizzled(np.array([8 * 64])).tolist()
    ([72, 64, 88], [512])
    """
    return np.asarray(at ^ (at // line % 8 * (line // 8)))


PRODUCTS: Mapping[str, GroupProduct] = MappingProxyType({
    p.name: p
    for p in (
        GroupProduct(columns, dtype, a, b)
        for columns in (*COLUMNS, *FINE)
        for dtype, left, right in (
            (DType.F16, "kmr", "kn"), (DType.BF16, "kmr", "kn"), (DType.F32, "k", "k"),
            (DType.I8, "k", "k"),
        )
        for a in left for b in right
        if columns in COLUMNS or a + b == "rn"
    )
})  # fmt: skip
