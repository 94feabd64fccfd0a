"""Shapes of what kernels compute, in the sizes that their launches are given."""

from __future__ import annotations

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.expr import of_dim
from didyma.refimpl.ir.kernel import Kernel, Signature
from didyma.refimpl.ir.loop import Expr


def result_shape(k: Kernel, s: Signature, buffer: str) -> tuple[Expr, ...]:
    """Return the shape of a result; where a launch is not given its sizes, how many elements."""
    at = [name for name, _ in s.buffers].index(buffer)
    shape = k.params[at].shape  # a parameter may have another name in the text
    told = {*dims.free(shape)} <= {*s.dims}
    return tuple(of_dim(d) for d in shape) if told else (s.sizes[at],)
