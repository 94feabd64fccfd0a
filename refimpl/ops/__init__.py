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
        reduce,
        linear,
        convolution,
        index,
    )
    for op in module.ALL
}
