"""``OPS``, the closed table of ops."""

from didyma.refimpl.ops import (
    arithmetic,
    bitcast,
    casting,
    convolution,
    create,
    elementwise,
    extremes,
    index,
    linear,
    pooling,
    predicates,
    random,
    reduce,
    scan,
    scatter,
    shape,
    slicing,
    transcendental,
)
from didyma.refimpl.ops.spec import Op

OPS: dict[str, Op] = {
    op.name: op
    for module in (
        elementwise,
        transcendental,
        arithmetic,
        predicates,
        casting,
        bitcast,
        create,
        random,
        shape,
        slicing,
        reduce,
        linear,
        convolution,
        pooling,
        extremes,
        scan,
        index,
        scatter,
    )
    for op in module.ALL
}
