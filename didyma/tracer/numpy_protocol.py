"""NumPy beside tensors: its operators and ufuncs give way to Didyma's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from didyma.refimpl.errors import DidymaError
from didyma.tracer.names import function

if TYPE_CHECKING:
    from didyma.tracer.tensor import Tensor

_NAMES: Mapping[str, str] = {
    "absolute": "abs", "amax": "max", "amin": "min", "arccos": "acos", "arccosh": "acosh",
    "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2",
    "arctanh": "atanh", "concatenate": "concat", "cumprod": "cumulative_prod",
    "cumsum": "cumulative_sum", "fabs": "abs", "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift", "power": "pow", "right_shift": "bitwise_right_shift",
    "rint": "round", "swapaxes": "permute_dims", "transpose": "permute_dims",
}  # fmt: skip
_LOGIC: Mapping[np.ufunc, str] = {
    np.bitwise_and: "and",
    np.bitwise_or: "or",
    np.bitwise_xor: "xor",
}


class NumpyProtocol:
    """What NumPy asks of an object that is not an array of its own."""

    __slots__ = ()
    __array_priority__ = 1000

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Tensor:
        """Apply Didyma's function of a ufunc's name, so that ``array + x`` is one tensor.

        DidymaError ``numpy-function`` where there is none.
        """
        from didyma.tracer.tensor import bitwise, matmul

        if method != "__call__" or kwargs:
            raise refuse_numpy(
                ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
            )
        if ufunc in _LOGIC:
            return bitwise(_LOGIC[ufunc], *inputs)
        if ufunc is np.matmul:
            return matmul(*inputs)
        if (f := _function(ufunc.__name__)) is None:
            raise refuse_numpy(ufunc.__name__)
        result: Tensor = f(*inputs)
        return result

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Refuse NumPy's functions, whose parameters are not those of the standard."""
        raise refuse_numpy(func.__name__)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return the module whose functions take tensors, as the Array API standard asks."""
        import didyma

        return didyma


def _function(name: str) -> Callable[..., Any] | None:
    return function(_NAMES.get(name, name))


def refuse_numpy(name: str) -> DidymaError:
    """Return the error for a function of NumPy on a tensor."""
    ours = _NAMES.get(name, name)
    known = _function(name) is not None
    return DidymaError(
        "numpy-function", f"np.{name}(...)", got="a function of NumPy on a tensor",
        want="a function of Didyma, which adds to the graph",
        help=f"call dd.{ours}" if known else "see dir(didyma) for the functions there are",
    )  # fmt: skip
