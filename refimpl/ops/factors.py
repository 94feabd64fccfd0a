"""Formats to which factors of products are rounded, as tensor cores read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from didyma.refimpl.ops.bars import Bar


@dataclass(frozen=True, slots=True)
class FactorFormat:
    """A format of fewer bits than f32 has.

    Its numbers lack the ``missing`` bits of f32.  Rounding loses at most the magnitude times two to
    the ``exponent``, and ``lost`` more of a number below ``normal``, which is subnormal there.
    What is beyond ``most`` may become infinite.
    """

    missing: int
    exponent: int
    lost: float
    most: float
    normal: float = 0.0

    def rounded(self, b: Bar) -> Bar:
        """Return the bar of numbers of f32 that may be rounded so.

        An exact number of the format loses nothing.  NaN is infinite where it has no other bits.

        >>> b = Bar(np.array([1.5, 1 / 3]), np.zeros(2))
        >>> FORMATS["f16"].rounded(b).e > 0
        array([False,  True])
        """
        size = np.abs(np.where(np.isfinite(b.c), b.c, 0)).astype(np.float32)
        fits = (size.view(np.uint32) & np.uint32(self.missing)) == 0
        fits &= (b.e == 0) & ((size == 0) | (size >= self.normal))
        lost = np.where(fits, 0.0, np.ldexp(size.astype(np.float64), self.exponent) + self.lost)
        return Bar(b.c, b.e + np.where(np.isnan(b.c) | (size > self.most), np.inf, lost))


# Factors may be cut to TF32, too, and are rounded to the nearest number of the others.
FORMATS: Mapping[str, FactorFormat] = MappingProxyType({
    "tf32": FactorFormat(0x1FFF, -10, 2.0**-136, float(np.uint32(0x7F7FE000).view(np.float32))),
    "bf16": FactorFormat(0xFFFF, -8, 2.0**-134, float(np.uint32(0x7F7F0000).view(np.float32))),
    "f16": FactorFormat(0x1FFF, -11, 2.0**-25, 65504.0, normal=2.0**-14),
})  # fmt: skip
