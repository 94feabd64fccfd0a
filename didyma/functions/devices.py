"""Functions that say on which device values are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar, cast

from didyma.functions.public import public, wrong
from didyma.tracer.tensor import Tensor
from didyma.tracer.types import device_name

F = TypeVar("F", bound=Callable[..., object])


@public
def to(x: Tensor, device: str, /) -> Tensor:
    """Bring a tensor to a device, such as ``host:1``; an empty name is the program's own device.

    Operands of an op are on one device, and constants follow the tensors beside them.  A program
    copies a value to a device once, and not where it is there already.
    Example: ``dd.to(x, "host:1")``.  Error ``bad-call`` for a name that is none.
    """
    b = x.builder
    return Tensor(b, b.move(x.value, device_name("dd.to", device)))


def on(device: str) -> Callable[[F], F]:
    """Return a decorator: what the function computes is computed on a device, and stays there.

    Tensors of another device that it uses are brought there, also those from the code around it.
    Inside it another ``on`` may name another device.  DidymaError ``bad-call`` for a name of no
    device.

    >>> import numpy as np
    >>> import didyma as dd
    >>> @dd.on("host:1")
    ... def far(x: dd.Tensor) -> dd.Tensor:
    ...     return dd.exp(x) + 1.0
    >>> @dd.trace(dd.f32[2])
    ... def f(x: dd.Tensor) -> dd.Tensor:
    ...     return dd.to(far(x), "") * x
    >>> [(n.op, str(n.types[0])) for n in f.module.entry.nodes if n.op != "constant"]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('to', 'f32[2]@host:1'), ('exp', 'f32[2]@host:1'), ('add', 'f32[2]@host:1'),
     ('to', 'f32[2]'), ('multiply', 'f32[2]')]
    >>> dd.compile(f)(np.float32([0, 1]))
    array([0.       , 3.7182817], dtype=float32)
    """
    name = device_name("dd.on", device)

    def decorate(f: F) -> F:
        @functools.wraps(f)
        def call(*args: object, **named: object) -> object:
            tensors = [a for a in (*args, *named.values()) if isinstance(a, Tensor)]
            if not tensors:
                raise wrong(f"dd.on({device!r})", "no tensor", "a function called with a tensor")
            with tensors[0].builder.current.on(name):
                return f(*args, **named)

        return cast("F", call)

    return decorate


__all__ = ["on", "to"]
