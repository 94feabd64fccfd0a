"""``dd.library``: a routine of a library as an operation of traced functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from didyma.codegen import plugins
from didyma.codegen.runtime.externs import InPlace
from didyma.kernels import Reference, applied, function_of, is_name
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import COMPILER
from didyma.tracer.tensor import Operand, Tensor, common, constant, is_scalar, within


@dataclass(frozen=True, slots=True, eq=False)
class LibraryOp:
    """A routine as an operation: call it with tensors in a traced function.

    It is registered under its name until it is withdrawn.
    """

    name: str
    reference: Callable[..., Tensor | Sequence[Tensor]]

    def __call__(self, *args: Operand) -> Tensor | tuple[Tensor, ...]:
        """Apply it to tensors and NumPy arrays.

        Errors: ``bad-operand`` where no argument is a tensor, ``bad-call`` for a number, and what
        the reference raises.
        """
        if numbers := [a for a in args if is_scalar(a)]:
            raise DidymaError(
                "bad-call", self.name, got=f"the number {numbers[0]!r}", want="tensors and arrays",
                help="np.float32(2) has a dtype",
            )  # fmt: skip
        b = common(*(a for a in args if isinstance(a, Tensor)))
        values = [within(b, constant(b, a)) for a in args]
        return applied(b, self, self.reference, values, self.name, {COMPILER: self.name})

    def withdraw(self) -> None:
        """Forget the routine; functions that name it are then run by the reference."""
        plugins.remove(plugins.EXTERNS, self.name)


def library(
    name: str,
    *,
    reference: Reference,
    call: Callable[..., Any] | None = None,
    out: Callable[..., Any] | None = None,
) -> LibraryOp:
    """Make an operation of a library's routine, which is registered under a name.

    ``reference`` is a function of tensors that says what the routine computes, and by which it is
    judged.  Give one of two forms: ``call(*arrays)`` returns an array, or a tuple of several;
    ``out(*arrays, out=y)`` writes to arrays that are allocated before.  All are NumPy arrays, on
    each engine.  Equal operands must give equal bits.

    Errors: ``bad-call`` for a name that is no word, and for both forms or none,
    ``registered-twice`` for a name that an implementation has, ``bad-reference``.

    Examples:
        >>> import numpy as np
        >>> import didyma as dd
        >>> def sums(x: dd.Tensor) -> dd.Tensor:
        ...     return dd.cumulative_sum(x)
        >>> scan = dd.library("numpy_cumsum", reference=sums, out=np.cumsum)
        >>> f = dd.trace(dd.f32[4])(lambda x: scan(x) * 2.0)
        >>> dd.compile(f)(np.float32([1, 2, 3, 4]))
        array([ 2.,  6., 12., 20.], dtype=float32)
        >>> scan.withdraw()
    """
    if not is_name(name):
        want = "a word that begins with a letter"
        raise DidymaError("bad-call", f"dd.library({name!r:.40})", got=f"{name!r:.40}", want=want)
    if (call is None) == (out is None):
        got = "neither call nor out" if call is None else "call and out"
        raise DidymaError("bad-call", f"dd.library({name!r})", got=got, want="one of them")
    f = function_of(name, reference)
    plugins.add(plugins.EXTERNS, name, InPlace(out) if out is not None else call)
    return LibraryOp(name, f)
