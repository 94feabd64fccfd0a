"""Input values from the command line: ``NAME=NUMBER`` fills an input, ``NAME=FILE.npy`` is it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from didyma.commands.arrays import array_of
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.graph import Module, Param
from didyma.refimpl.ir.types import Array, DType, Tensor
from didyma.tracer.arrays import as_pairs

_WORDS = {"true": True, "false": False}


def read(m: Module, items: Sequence[str]) -> dict[str, Tensor]:
    """Return the values of the inputs that ``items`` name; one without axes fills its input.

    Errors: ``bad-option`` for an unknown name, no number, or one that the dtype has not;
    ``unreadable-file``, ``complex-input``, ``input-dtype``.
    """
    params = {p.name: p for p in m.entry.params}
    found: dict[str, Tensor] = {}
    for item in items:
        name, _, value = item.partition("=")
        if name not in params or not value:
            want = f"NAME=NUMBER or NAME=FILE.npy with NAME of: {', '.join(params) or 'no inputs'}"
            raise DidymaError("bad-option", f"--input {item}", got=item, want=want)
        array = _file if value.endswith(".npy") else _number
        found[name] = Tensor.of(array(params[name], value, item))
    return found


def sizes(m: Module, given: Mapping[str, Tensor], chosen: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes that the shapes of given arrays bind, and the sizes chosen.

    Errors: ``rank-mismatch``, ``dim-mismatch``, ``dim-out-of-range``, ``unbound-dim``.
    """
    bindable = control.input_symbols(m)
    known = {k: n for k, n in chosen.items() if k in bindable}
    first = "--dim", tuple(dims.symbol(k) for k in known), tuple(known.values())
    arrays = [p for p in m.entry.params if p.name in given and given[p.name].shape]
    rows = ((f"%{p.name}", p.type.shape, given[p.name].shape) for p in arrays)
    return dims.bind([first, *rows], m.dims)


def _number(p: Param, value: str, item: str) -> Array:
    dtype = p.type.dtype
    number = _parsed(value)
    array = None if number is None else _converted(number, dtype)
    if array is None:
        what = f"an integer from {dtype.limits[0]} to {dtype.limits[1]}" if dtype.is_int else (
            "true or false" if dtype is DType.BOOL else f"a number that {dtype} has"
        )  # fmt: skip
        want = f"{what}, or a file whose name ends with .npy"
        raise DidymaError("bad-option", f"--input {item}", got=value, want=want)
    return array


def _parsed(value: str) -> float | None:
    if value in _WORDS:
        return _WORDS[value]
    try:
        return int(value)
    except ValueError:
        pass
    try:
        return float(value)
    except ValueError:
        return None


def _converted(number: float, dtype: DType) -> Array | None:
    """Return a number in a dtype; None if the dtype has neither it nor a number near it."""
    if dtype is DType.BOOL:
        return np.array(bool(number)) if number in (0, 1) else None
    if dtype.is_int:
        low, high = dtype.limits
        fits = math.isfinite(number) and number == int(number) and low <= number <= high
        return np.array(int(number)).astype(dtype.numpy) if fits else None
    try:
        wide = float(number)
    except OverflowError:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        array = np.array(wide).astype(dtype.numpy)
    value = float(array.astype(np.float64))
    same = value == wide or (math.isnan(wide) and math.isnan(value))
    return array if same or abs(value - wide) <= abs(wide) / 2 < math.inf else None


def _file(p: Param, value: str, item: str) -> Array:
    array, wanted = as_pairs(p, array_of(Path(value), f"--input {item}")), p.type.dtype.numpy
    if array.dtype.kind == "V" and array.dtype.itemsize == wanted.itemsize:
        array = array.view(wanted)  # NumPy's files do not know the dtypes of ml_dtypes
    if array.dtype != wanted:
        got, help = str(array.dtype), "convert the array before you save it"
        raise DidymaError("input-dtype", f"--input {item}", got=got, want=str(wanted), help=help)
    if not array.shape and p.type.shape:
        raise DidymaError("rank-mismatch", f"--input {item}", got="rank 0", want=str(p.type))
    return array
