"""Matrix products of a warp: what is computed, and which thread holds which elements.

The layouts are those of PTX ISA, "Matrix multiply-accumulate operation using mma instruction".  A
fragment is what each of 32 threads holds of a matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from didyma.refimpl.ir.types import Array, DType

WARP = 32
ROWS, COLUMNS = 16, 8  # of the sums
TF32 = 13  # bits of an f32 that tf32 lacks
Places: TypeAlias = tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class Product:
    """``a @ b + c`` of a (16, k) and b (k, 8) of a dtype, and c (16, 8) of another.

    The terms of a sum may be added up in any order.  The last ``narrow`` bits of an operand are 0.
    """

    name: str
    k: int
    operands: DType
    sums: DType
    narrow: int = 0

    @property
    def fragments(self) -> tuple[tuple[DType, int], ...]:
        """The dtypes of what a thread holds of a, b and c, and how many elements.

        >>> [n for _, n in PRODUCTS["m16n8k16_f16"].fragments]
        [8, 4, 4]
        """
        a, b = (side * self.k // WARP for side in (ROWS, COLUMNS))
        return (self.operands, a), (self.operands, b), (self.sums, ROWS * COLUMNS // WARP)

    @property
    def step(self) -> int:
        """How many operands are in a word of 4 bytes, which follow each other along k."""
        return 4 // self.operands.nbytes

    def of_a(self) -> Places:
        """Return the rows and the places along k of the fragment of a, (32, elements) each."""
        t, i = np.ogrid[:WARP, : self.fragments[0][1]]
        word, step = i // self.step, self.step
        return t // 4 + 8 * (word % 2), t % 4 * step + i % step + word // 2 * 4 * step

    def of_b(self) -> Places:
        """Return the places along k and the columns of the fragment of b, (32, elements) each."""
        t, i = np.ogrid[:WARP, : self.fragments[1][1]]
        word, step = i // self.step, self.step
        return t % 4 * step + i % step + word * 4 * step, t // 4 + 0 * i

    @staticmethod
    def of_sums() -> Places:
        """Return the rows and the columns of the fragments of c and of the result, (32, 4) each."""
        t, i = np.ogrid[:WARP, :4]
        return t // 4 + 8 * (i // 2), t % 4 * 2 + i % 2


PRODUCTS: Mapping[str, Product] = MappingProxyType({
    p.name: p
    for p in (
        Product("m16n8k16_f16", 16, DType.F16, DType.F32),
        Product("m16n8k16_bf16", 16, DType.BF16, DType.F32),
        Product("m16n8k8_tf32", 8, DType.F32, DType.F32, narrow=TF32),
        Product("m16n8k32_i8", 32, DType.I8, DType.I32),
    )
})  # fmt: skip


# To round the bits of an f32 to tf32, the one is added, and those of the other stay.
HALF, KEPT = 1 << 12, 0xFFFFE000


def tf32(x: Array) -> Array:
    """Return the nearest f32 values whose last 13 bits are 0, of two the larger in size.

    As PTX has ``cvt.rna.tf32.f32``.  What is beyond the largest becomes infinite; NaN stays.

    >>> tf32(np.float32([1 + 2**-11, 1 + 2**-12])).tolist()
    [1.0009765625, 1.0]
    """
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(HALF)) & np.uint32(KEPT)).view(np.float32)
    return np.where(np.isfinite(x), rounded, x).astype(np.float32)[()]
