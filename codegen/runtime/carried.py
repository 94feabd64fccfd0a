"""External functions that go along with a program, to where Didyma is not installed."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from didyma.codegen.runtime.didyma_runtime import externs
from didyma.codegen.runtime.didyma_runtime.refused import Refused
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.external import External
from didyma.refimpl.ir.types import Array


@dataclass(frozen=True)
class Carried:
    """An implementation of an external function that `didyma build` writes into an artifact.

    ``source`` is a text in Python, which may import what is there where it is to run, NumPy at
    least.  Its function ``symbol`` takes the inputs, arrays in row-major order, and returns the
    result, or a sequence of several; with ``out`` it writes them instead, into its argument
    ``out``, an array or a tuple of several.  ``constants`` are there by that name, and ``library``,
    the bytes of a shared object, as a ``ctypes.CDLL``.  A Carried is an implementation here, too.

    >>> double = Carried("def double(x):\\n    return x * constants['two']", "double",
    ...     constants={"two": np.float32(2)})
    >>> double(np.float32([1, 2]))
    array([2., 4.], dtype=float32)
    """

    source: str
    symbol: str
    out: bool = False
    library: bytes | None = None
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @cached_property
    def function(self) -> Any:
        """The function itself; DidymaError ``unknown-extern`` where the text has no such."""
        name, data = f"the text of {self.symbol}", self.arrays()
        try:
            library = externs.opened(self.library, self.symbol)
            return externs.function(self.source.encode(), name, self.symbol, library, data)
        except Refused as e:
            raise DidymaError(e.code, e.where, e.got, e.want, e.help) from None

    def __call__(self, *inputs: Array, **out: Any) -> Any:
        """Call the function."""
        return self.function(*inputs, **out)

    def arrays(self) -> bytes | None:
        """Return the constants as a file of NumPy's; None where there are none.

        DidymaError ``unknown-dtype`` for a dtype that is not one of NumPy's own.
        """
        if not self.constants:
            return None
        found: dict[str, Any] = {k: np.asarray(v) for k, v in self.constants.items()}
        for name, a in found.items():
            if a.dtype.isbuiltin != 1 or a.dtype.hasobject:
                raise DidymaError(
                    "unknown-dtype", f"constant {name} of {self.symbol}", got=str(a.dtype),
                    want="a dtype of NumPy's own", help="give the bits, as array.view(np.uint16)",
                )  # fmt: skip
        stream = io.BytesIO()
        np.savez(stream, **found)
        return stream.getvalue()


@runtime_checkable
class Carries(Protocol):
    """A generator: what makes an implementation of each function that is marked for it."""

    def carried(self, function: External) -> Carried:
        """Return the implementation of a function, of whose attributes it is to take account."""
        ...


def results(
    x: Carried, inputs: Sequence[Array], types: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]
) -> tuple[Array, ...]:
    """Return the results of a call; DidymaError ``extern-result`` where they are of other types."""
    try:
        given = [np.asarray(a, order="C") for a in inputs]
        return tuple(externs.called(x.function, x.out, given, types))
    except Refused as e:
        raise DidymaError(e.code, e.where, e.got, e.want, e.help) from None
