"""The closed table of ops."""

from refimpl.ops import (
    casting,
    convolution,
    create,
    elementwise,
    index,
    linear,
    predicates,
    reduce,
    shape,
    slicing,
)
from refimpl.ops.spec import Op

OPS: dict[str, Op] = {
    op.name: op
    for module in (
        elementwise,
        predicates,
        casting,
        create,
        shape,
        slicing,
        reduce,
        linear,
        convolution,
        index,
    )
    for op in module.ALL
}
