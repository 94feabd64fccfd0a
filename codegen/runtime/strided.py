"""The kernel that puts the elements of an array with strides side by side, in row-major order.

It moves bits, so that one text serves all dtypes of a size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from didyma.refimpl.ir.expr import ceildiv, index
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.loop import Var
from didyma.refimpl.ir.types import DType

NAME = "packed"
_BLOCK = 256
_WORDS = {1: DType.U8, 2: DType.U16, 4: DType.U32, 8: DType.U64}


def text(rank: int, nbytes: int) -> KernelText:
    """Return the kernel for arrays of a rank whose elements take 1, 2, 4 or 8 bytes.

    Its dims are ``count``, the number of elements; ``span``, how many lie from the lowest address
    to the highest; ``first``, how many lie before that of index 0; and for each axis ``n0`` its
    size and ``s0`` its stride in elements, which may be zero or negative.
    """
    word = _WORDS[nbytes]
    axes = range(rank)
    dims = ("count", "span", "first", *(f"n{k}" for k in axes), *(f"s{k}" for k in axes))
    lines = [
        f"    at = at + rest % n{k} * s{k};\n    rest = rest / n{k};\n" for k in reversed(axes)
    ]
    source = (
        f'extern "C" __global__ void __launch_bounds__({_BLOCK})\n'
        f"{NAME}(const {word} *__restrict__ x, {word} *__restrict__ y,\n"
        f"    {', '.join(f'i64 {d}' for d in dims)}) {{\n"
        f"  const i64 bx = blockIdx.x;\n  const i64 tx = threadIdx.x;\n"
        f"  const i64 i = bx * {_BLOCK} + tx;\n"
        f"  if (i < count) {{\n    i64 at = first;\n    i64 rest = i;\n"
        f"{''.join(lines)}    y[i] = x[at];\n  }}\n}}\n"
    )
    count = Var("count")
    signature = Signature(
        NAME, (("x", word), ("y", word)), (Var("span"), count), ("y",), dims,
        (ceildiv(count, index(_BLOCK)), index(1), index(1)), (_BLOCK, 1, 1),
    )  # fmt: skip
    return KernelText(source, (signature,))


def sizes(shape: Sequence[int], strides: Sequence[int]) -> dict[str, int]:
    """Return the dims of the kernel for an array; strides count elements.

    >>> sizes((2, 3), (-1, 2))
    {'count': 6, 'span': 6, 'first': 1, 'n0': 2, 'n1': 3, 's0': -1, 's1': 2}
    """
    steps = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    count, first = math.prod(shape), -sum(s for s in steps if s < 0)
    span = 1 + sum(map(abs, steps)) if count else 0
    named = {f"n{k}": n for k, n in enumerate(shape)} | {f"s{k}": s for k, s in enumerate(strides)}
    return {"count": count, "span": span, "first": first, **named}
