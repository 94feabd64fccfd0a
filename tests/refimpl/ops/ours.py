"""The ops on shapes, folds, products, windows and indices."""

from didyma.refimpl.ops import (
    convolution,
    create,
    index,
    linear,
    pooling,
    reduce,
    scan,
    scatter,
    shape,
    slicing,
)

OURS = [
    *create.ALL,
    *shape.ALL,
    *slicing.ALL,
    *reduce.ALL,
    *scan.ALL,
    *linear.ALL,
    *convolution.ALL,
    *pooling.ALL,
    *index.ALL,
    *scatter.ALL,
]
NAMES = [op.name for op in OURS]
