"""Judge an output by the reference's bars; there is no tolerance to choose."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops import bars, ring
from didyma.refimpl.ops.bars import Bar
from didyma.refimpl.ops.pieces import of_each


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing one output.

    ``checked`` of ``total`` elements were decided; ``worst`` is the largest share of a bar used
    (1 is the edge; inf is outside a bar of width zero).  ``message`` is empty when all agree.
    ``off`` is the largest distance of an element from the float64 reference, decided or not, in
    units of the largest finite element of the reference; NaN where it was not computed.
    ``in_ring`` says that payloads were compared, and not values.
    """

    checked: int
    total: int
    worst: float
    message: str = ""
    off: float = math.nan
    in_ring: bool = False

    @property
    def agree(self) -> bool:
        """True when no decided element is wrong."""
        return not self.message


def compare(name: str, bar: Bar, output: Array, type: TensorType) -> Comparison:
    """Judge an output of a concrete type against its bar.

    >>> from didyma.refimpl.ir.types import DType
    >>> x = np.float32([1, 2])
    >>> compare("y", bars.exact(x, DType.F32), x, TensorType(DType.F32, (2,))).agree
    True
    """
    dtype, shape = type.dtype, tuple(type.shape)
    if output.dtype != dtype.numpy or output.shape != shape:
        got = f"{output.dtype}{list(output.shape)}"
        return Comparison(0, bar.e.size, np.inf, f"{name}: got {got}, want {type}")
    found = total(
        of_each(
            lambda at: _compared(name, Bar(bar.c[at], bar.e[at]), output[at], dtype), output.shape
        )
    )
    return found if found.agree else _compared(name, bar, output, dtype)


def _compared(name: str, bar: Bar, output: Array, dtype: DType) -> Comparison:
    verdict = bars.judge(bar, output, dtype)
    checked = int(output.size - np.count_nonzero(verdict.undecided))
    wrong = ~(verdict.ok | verdict.undecided)
    worst = _worst(bar, output, verdict.undecided)
    if not wrong.any():
        return Comparison(checked, output.size, worst)
    count = int(np.count_nonzero(wrong))
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    message = (
        f"{name}{list(at)}: got {_show(output[at], dtype)}, want {_show(bar.c[at], dtype)}"
        f" ± {float(bar.e[at]):.3g} ({count} of {output.size} elements are wrong)"
    )
    return Comparison(checked, output.size, np.inf, message)


def rewritten(name: str, want: Array, bar: Bar, got: Array, type: TensorType) -> Comparison:
    """Judge an output by the bits of another, and by its bar where the bits differ."""
    if want.dtype == got.dtype and want.shape == got.shape:
        same = ~_differ(want, got)
        if same.all() and got.dtype == type.dtype.numpy and got.shape == type.shape:
            return Comparison(got.size, got.size, 0.0)
        bar = Bar(bar.c, np.where(same, np.inf, bar.e))
        rest = compare(name, bar, got, type)
        return Comparison(rest.checked + int(same.sum()), rest.total, rest.worst, rest.message)
    return compare(name, bar, got, type)


def _differ(a: Array, b: Array) -> Array:
    """Return where two arrays of one type differ in a bit; all NaNs are equal."""
    raw = np.dtype(f"V{a.dtype.itemsize}")
    wrong = np.asarray(a, order="C").view(raw) != np.asarray(b, order="C").view(raw)
    if wrong.any() and DType.of(a).is_float:
        with np.errstate(all="ignore"):
            wrong &= ~((a != a) & (b != b))
    return np.asarray(wrong)


def bitwise(name: str, want: Array, got: Array) -> Comparison:
    """Judge an output that may not differ by one bit; all NaNs are equal."""
    if want.dtype != got.dtype or want.shape != got.shape:
        message = f"{name}: got {got.dtype}{got.shape}, want {want.dtype}{want.shape}"
        return Comparison(0, want.size, np.inf, message)
    wrong = _differ(want, got)
    if not wrong.any():
        return Comparison(want.size, want.size, 0.0)
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    count = int(np.count_nonzero(wrong))
    message = (
        f"{name}{list(at)}: got {got[at]!r}, want {want[at]!r} to the last bit"
        f" ({count} of {want.size} elements differ)"
    )
    return Comparison(want.size, want.size, np.inf, message)


def payloads(
    name: str, want: Array, got: Array, values: tuple[Array, Array] | None = None
) -> Comparison:
    """Judge the payloads of an output in the ring; those that are UNKNOWN are not checked.

    ``values`` are the output's in the reference and the subject, for the message.

    >>> x = ring.embed(np.float32([1, 2, np.inf]))
    >>> payloads("y", x, ring.add(x, ring.ZERO)).checked
    2
    """
    if want.shape != got.shape:
        message = f"{name}: got payloads of shape {got.shape}, want {want.shape}"
        return Comparison(0, want.size, np.inf, message, in_ring=True)
    known = (want != ring.UNKNOWN) & (got != ring.UNKNOWN)
    wrong = known & (want != got)
    checked, message = int(np.count_nonzero(known)), ""
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        message = (
            f"{name}{list(at)}: other terms, or others together, than in the reference:"
            f" payload {int(got[at]):#x}, want {int(want[at]):#x}"
            f" ({int(np.count_nonzero(wrong))} of {want.size} elements differ)"
        )
        if values is not None:
            want_value, got_value = (float(v[at]) for v in values)
            message += f"; the values are {got_value!r}, want {want_value!r}"
    return Comparison(checked, want.size, 0.0, message, in_ring=True)


def distance(reference: Array, output: Array) -> Comparison:
    """Measure how far an output is from its float64 reference; only ``off`` is set.

    It is computed for floats of one shape, over the elements that are finite in both.

    >>> distance(np.array([1.0, -4.0]), np.float32([1.5, -4.0])).off
    0.125
    """
    nothing = Comparison(0, 0, 0.0)
    if reference.dtype.kind != "f" or reference.shape != output.shape:
        return nothing
    with np.errstate(all="ignore"):
        got = output.astype(reference.dtype)
        finite = np.isfinite(reference) & np.isfinite(got)
        if not finite.any():
            return nothing
        most = np.abs(got - reference)[finite].max()
        off = most / np.abs(reference[np.isfinite(reference)]).max()
    return Comparison(0, 0, 0.0, off=float(off) if most else 0.0)


def total(many: Iterable[Comparison]) -> Comparison:
    """Add comparisons up, with the first message and the largest ``off``."""
    all_ = list(many)
    return Comparison(
        sum(c.checked for c in all_),
        sum(c.total for c in all_),
        max((c.worst for c in all_), default=0.0),
        next((c.message for c in all_ if c.message), ""),
        max((c.off for c in all_ if not math.isnan(c.off)), default=math.nan),
    )


def _worst(bar: Bar, output: Array, undecided: Array) -> float:
    if not output.size or bar.c.dtype.kind not in "f":
        return 0.0
    with np.errstate(all="ignore"):
        off = np.abs(output.astype(bar.c.dtype) - bar.c)
        if not off.any():
            return 0.0
        share = np.where(undecided | ~np.isfinite(off) | (off == 0), 0, off / bar.e)
    return float(np.max(share[np.isfinite(share)], initial=0))


def _show(value: object, dtype: DType) -> str:
    return f"{float(value)!r}" if dtype.is_float else str(value)  # type: ignore[arg-type]  # a NumPy scalar
