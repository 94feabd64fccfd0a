"""Write the worked uses of ops that their records show and that tests run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops.spec import Example

Item: TypeAlias = "float | bool | Sequence[Item]"


def example(
    operands: Sequence[Item],
    result: Item,
    dtype: DType | Sequence[DType] = DType.F32,
    to: DType | None = None,
    /,
    **attrs: Attr,
) -> Example:
    """Return an example with operands of one dtype, or of one each.

    ``to`` is the result's dtype; without, it is the first operand's.
    """
    dtypes = [dtype] * len(operands) if isinstance(dtype, DType) else dtype
    arrays = [np.asarray(o).astype(d.numpy) for o, d in zip(operands, dtypes, strict=True)]
    out = np.asarray(result).astype((to or dtypes[0]).numpy)
    return Example(tuple(arrays), out, freeze(attrs))
