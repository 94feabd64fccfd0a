"""``OPS``, the table of all ops: what each op means, in the file of its kind.

Sums and products along axes are in ``reduce``, running ones in ``scan``; ``matmul`` is in
``linear``, what moves elements without arithmetic in ``shape``, ``slicing``, ``index`` and
``scatter``.  ``spec`` says which facets the record of an op has; the modules without ops help to
write them.
"""

from didyma.refimpl.ops import (
    arithmetic,
    bitcast,
    casting,
    convolution,
    create,
    devices,
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
        devices,
    )
    for op in module.ALL
}
