"""What a module asks of its inputs and sizes, and how it finds kernels and routines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from .dtypes import OWN, Array, dtype_of
from .refused import Refused

Wanted = tuple[str, str, int]  # an input's name, dtype and rank
WIDEST = 16  # bytes that kernels access at once, of which a multiple is where a buffer starts


def arrays(given: Sequence[Any], wanted: Sequence[Wanted]) -> list[Any]:
    """Return the inputs of a call; those that an engine holds already have an address.

    Errors: ``input-count``, ``not-an-array``, ``input-dtype``, ``rank-mismatch``.
    """
    if len(given) != len(wanted):
        want = f"{len(wanted)}: {', '.join(name for name, _, _ in wanted) or 'none'}"
        raise Refused("input-count", "inputs", got=str(len(given)), want=want)
    for a, (name, dtype, rank) in zip(given, wanted, strict=True):
        if type(a) is np.ndarray and a.dtype is OWN.get(dtype) and a.ndim == rank:
            continue  # as most are
        if not _is_array(a):
            raise Refused(
                "not-an-array", name, got=type(a).__name__, want="a NumPy array",
                help="np.asarray makes one",
            )  # fmt: skip
        got, kind = getattr(a.dtype, "numpy", a.dtype), dtype_of(dtype)
        if got != kind:
            raise Refused("input-dtype", name, got=str(got), want=str(kind))
        if a.ndim != rank:
            raise Refused("rank-mismatch", name, got=f"shape {a.shape}", want=f"rank {rank}")
    return list(given)


def _is_array(a: object) -> bool:
    return isinstance(a, np.ndarray) or hasattr(a, "address")


def taken(args: Any) -> list[Any]:
    """Return what a list holds, and empty it, so that nobody else keeps the arrays.

    Refused ``bad-call`` for what is no list.
    """
    if not isinstance(args, list):
        raise Refused(
            "bad-call", "args", got=type(args).__name__, want="a list of arrays, which is emptied",
            help="call([x, w]) gives x and w",
        )  # fmt: skip
    given: list[Any] = [*args]
    args.clear()
    return given


def flat(args: list[Any], wanted: Sequence[Wanted], numel: int) -> list[Any]:
    """Return the first ``numel`` elements, in row-major order, of each input that has an axis.

    The list is emptied, as by ``taken``.  Errors: ``input-count``; ``dim-mismatch`` for an array of
    fewer elements.
    """
    given = taken(args)
    if len(given) != len(wanted):
        raise Refused("input-count", "inputs", got=str(len(given)), want=str(len(wanted)))
    for i, (name, _, rank) in enumerate(wanted):
        if not rank:
            continue
        row = given[i].reshape(-1)
        if not 0 <= numel <= len(row):
            raise Refused(
                "dim-mismatch", name, got=f"{len(row)} elements", want=f"at least {numel}"
            )
        given[i] = row[:numel]
    return given


def solve(where: str, got: int, slope: int, offset: int, *others: tuple[int, int, int]) -> int:
    """Return the ``s`` of ``slope * s + offset = got``, rounded; ``size`` tells if that was exact.

    Where the slope is zero, any ``s`` would do: then the first of the ``others`` that has a slope
    tells it, each with what was got, slope and offset.  Error ``unbound-dim`` where none has.
    """
    lines = ((got, slope, offset), *others)
    told = next((line for line in lines if line[1] != 0), None)
    if told is None:
        raise Refused("unbound-dim", where, got="a size that does not tell", want="one value")
    got, slope, offset = told
    return (got - offset) // slope


def size(name: str, axis: int, got: int, want: int, text: str) -> None:
    """Raise ``dim-mismatch`` where an input's size is not what its declaration says."""
    if got != want:
        meaning = text if text == str(want) else f"{text} = {want}"
        raise Refused("dim-mismatch", f"{name}, axis {axis}", got=f"size {got}", want=meaning)


def in_range(name: str, value: int, lo: int, hi: int) -> None:
    """Raise ``dim-out-of-range`` for a symbolic size outside its declared range."""
    if not lo <= value <= hi:
        raise Refused(
            "dim-out-of-range", name, got=f"{name} = {value}", want=f"{lo} <= {name} <= {hi}",
            help="pass an input of a size in the declared range, or declare a wider one",
        )  # fmt: skip


def within(name: str, value: int, lo: int, hi: int) -> int:
    """Return a size that a program has found; ``dim-out-of-range`` outside its declared range."""
    in_range(name, value, lo, hi)
    return value


def equal(lhs: int, rhs: int, message: str) -> None:
    """Raise ``assertion`` where a program's two sizes differ."""
    if lhs != rhs:
        raise Refused("assertion", message, got=f"{lhs} and {rhs}", want="equal sizes")


def floordiv(a: int, b: int) -> int:
    """Return a quotient rounded down; 0 by zero, as where nothing is there to divide."""
    return a // b if b else 0


def floormod(a: int, b: int) -> int:
    """Return what ``floordiv`` leaves; 0 by zero."""
    return a % b if b else 0


def number(engine: Any, buffer: Any) -> int:
    """Read an i64 scalar."""
    return int(getattr(engine, "reads", engine).download(buffer, "i64", ()))


def truth(engine: Any, buffer: Any) -> bool:
    """Read a bool scalar."""
    return bool(getattr(engine, "reads", engine).download(buffer, "bool", ()))


def numbered(
    number: int,
    engine: Any,
    kernels: Any,
    sizes: Mapping[str, int],
    outputs: Sequence[tuple[Any, int]],
    variants: Sequence[tuple[str, Sequence[Any]]],
    stream: int = 0,
) -> None:
    """Launch the variant of a dispatch that has a number, which is taken modulo their count.

    ``outputs`` are the buffers that each variant writes, and their sizes in bytes; ``variants`` are
    kernels by name, with a buffer for each parameter.
    """
    del engine, outputs
    kernel, buffers = variants[number % len(variants)]
    kernels.launch(kernel, buffers, sizes, stream)


first = partial(numbered, 0)


def routine(externs: Mapping[str, Any] | None, name: str) -> Any:
    """Return the library routine of that name, else raise ``unknown-routine``."""
    table = externs or {}
    if name not in table:
        raise Refused(
            "unknown-routine", name, got=name, want=f"one of {sorted(table)}",
            help="pass it to the call, in `externs`",
        )  # fmt: skip
    return table[name]


def unload(engine: Any, buffers: Sequence[Any]) -> None:
    """Free the constants that ``upload`` of a module put on an engine."""
    for buffer in buffers:
        engine.free(buffer)


def finite(given: Sequence[Any], wanted: Sequence[Wanted]) -> None:
    """Raise ``not-finite`` where an input has a NaN or an infinity."""
    for a, (name, dtype, _) in zip(given, wanted, strict=False):
        if _is_array(a) and a.dtype == dtype_of(dtype):
            require_finite(a, dtype, name)


def strict(given: Sequence[Any], wanted: Sequence[Wanted]) -> None:
    """Raise where an input cannot be read as it lies in memory, so that it would be copied.

    Errors: ``input-device`` for an array that is elsewhere than in the host's memory,
    ``input-strides`` for one that is not in row-major order, ``input-alignment``.
    """
    for a, (name, dtype, _) in zip(given, wanted, strict=False):
        if hasattr(a, "__cuda_array_interface__"):
            raise Refused(
                "input-device", name, got=f"{type(a).__name__} on a GPU",
                want="an array in the memory of the host", help="copy it to the host first",
            )  # fmt: skip
        if not isinstance(a, np.ndarray):
            continue  # of which `arrays` tells
        array = cast("Array", a)
        if array.dtype == dtype_of(dtype) and not array.flags.c_contiguous:
            full = _row_major(array.shape, array.itemsize)
            raise Refused(
                "input-strides", name, got=f"strides {array.strides}", want=f"strides {full}",
                help="np.ascontiguousarray makes a copy in row-major order",
            )  # fmt: skip
        if over := int(array.__array_interface__["data"][0]) % WIDEST:
            raise Refused(
                "input-alignment", name, got=f"an address {over} above a multiple of {WIDEST}",
                want=f"a multiple of {WIDEST}", help="array.copy() is aligned",
            )  # fmt: skip


def _row_major(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the strides, in bytes, of an array in row-major order."""
    strides, step = list[int](), itemsize
    for n in reversed(shape):
        strides.insert(0, step)
        step *= n
    return tuple(strides)


def require_finite(array: Array, dtype: str, where: str) -> None:
    """Raise ``not-finite`` where an array has a NaN or an infinity; bf16 may be given as bits."""
    if dtype == "bf16":
        values = (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    elif dtype in ("f64", "f32", "f16"):
        values = array
    else:
        return
    bad = ~np.isfinite(values)
    if bad.any():
        at = np.unravel_index(int(bad.argmax()), array.shape)
        place = f"{values[at]} at {[int(i) for i in at]}, and {int(bad.sum()) - 1} more"
        raise Refused("not-finite", where, got=place, want="finite numbers")
