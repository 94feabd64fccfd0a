"""Raise coded errors for calls with arguments that a function does not take."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from didyma.refimpl.errors import DidymaError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

SPELLINGS: Mapping[str, str] = {  # of parameters, in other libraries
    "dim": "axis", "dims": "axis", "axes": "axis", "keepdim": "keepdims", "ddof": "correction",
    "unbiased": "correction", "a_min": "min", "a_max": "max", "newshape": "shape",
    "size": "shape", "strides": "stride", "dilation_rate": "dilation", "dilations": "dilation",
    "pads": "padding", "low": "pad_width", "pad": "pad_width", "value": "constant_values",
    "group": "groups", "feature_group_count": "groups", "kernel": "kernel_size",
    "window": "kernel_size", "epsilon": "eps", "scale": "weight", "gamma": "weight",
    "depth": "num_classes", "alpha": "negative_slope", "attn_mask": "mask", "ratio": "p",
    "reps": "repetitions", "fill": "fill_value", "query": "q", "key": "k",
    "running_mean": "mean", "running_var": "var", "mode": "reduction",
}  # fmt: skip


def checked(f: Callable[P, R], passed: str = "") -> Callable[P, R]:
    """Raise DidymaError ``bad-call`` where a call does not fit the signature of ``f``.

    ``passed`` tells what it is called with, where the call is not the user's own.

    >>> @checked
    ... def total(x: int, *, axis: int = 0) -> int:
    ...     return x
    >>> total(1, dim=2)
    Traceback (most recent call last):
    didyma.refimpl.errors.DidymaError: bad-call at `total`
      got:  an unexpected keyword argument 'dim'
      want: total(x, *, axis=0)
      help: dim is called axis here
    """

    @functools.wraps(f)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return f(*args, **kwargs)
        except TypeError:
            if (error := _misfit(f, args, kwargs, passed)) is not None:
                raise error from None
            raise

    return call


def arguments(
    f: Callable[..., object], args: tuple[T, ...], kwargs: Mapping[str, T]
) -> tuple[T, ...]:
    """Return arguments in the order of a function's parameters; DidymaError ``bad-call``."""
    if not kwargs:
        return args
    if (error := _misfit(f, args, kwargs)) is not None:
        raise error
    return tuple(inspect.signature(f).bind(*args, **kwargs).arguments.values())


def _misfit(
    f: Callable[..., object],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    passed: str = "",
) -> DidymaError | None:
    """Return the error for arguments that do not fit a signature; None if they do."""
    signature = inspect.signature(f)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as e:
        names = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
        shown = inspect.Signature([p for p in names if p.name != "self"])
        takes = signature.parameters
        meant = {k: SPELLINGS.get(k, "") for k in kwargs}
        hints = [f"{k} is called {m} here" for k, m in meant.items() if m in takes]
        name = getattr(f, "__name__", type(f).__name__)
        return DidymaError(
            "bad-call", name, got=str(e).removeprefix("got "), want=f"{name}{shown}",
            help="; ".join(hints) or passed,
        )  # fmt: skip
    return None
