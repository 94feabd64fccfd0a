"""Arrays that users give and get: NumPy, DLPack, CUDA; complex numbers as pairs of reals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, TypeAlias

import numpy as np

from didyma.codegen.runtime.device_array import DeviceArray, as_it_lies, borrow, on_gpu
from didyma.codegen.runtime.dlpack import Borrowed
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Function, Param
from didyma.refimpl.ir.types import Array, DType
from didyma.tracer.complex_parts import reader_of_parts

AnyArray: TypeAlias = Any  # NumPy, DLPack or __cuda_array_interface__
PAIRS: Mapping[np.dtype[Any], DType] = {
    np.dtype(np.complex64): DType.F32,
    np.dtype(np.complex128): DType.F64,
}


def arguments(f: Function, inputs: Sequence[AnyArray]) -> list[Array]:
    """Return the inputs of a program as NumPy arrays.

    Complex numbers become pairs of reals; DidymaError ``complex-input`` where the parameter is not
    of such pairs, or the program reads them as real numbers.
    """
    arrays = [as_array(x) for x in inputs]
    if len(arrays) != len(f.params):
        return arrays
    return [_argument(f, p, a) for p, a in zip(f.params, arrays, strict=True)]


def arguments_on(
    number: int,
    f: Function,
    inputs: Sequence[AnyArray],
    pack: Callable[[Borrowed], DeviceArray],
) -> list[Array | DeviceArray]:
    """Return the inputs of a program, those on a GPU as they are and the others as NumPy arrays.

    ``number`` is that of the GPU, and ``pack`` copies what is not in row-major order, unless the
    parameter has strides.  Errors: as of ``borrow``, and ``complex-input``.
    """
    lie = [p.type.strides is not None for p in f.params]
    packs = (as_it_lies if strided else pack for strided in chain(lie, repeat(False)))
    arrays = [
        borrow(x, number, how) if on_gpu(x) else as_array(x)
        for x, how in zip(inputs, packs, strict=False)
    ]
    if len(arrays) != len(f.params):
        return arrays
    return [
        a if isinstance(a, DeviceArray) else _argument(f, p, a)
        for p, a in zip(f.params, arrays, strict=True)
    ]


def _argument(f: Function, p: Param, a: Array) -> Array:
    if a.dtype.kind == "c" and (op := reader_of_parts(f, p.name)):
        raise DidymaError(
            "complex-input", f"%{p.name}",
            got=f"{a.dtype}, of which {op} would read the real and imaginary parts",
            want="real numbers, or a program of complex numbers",
            help="z = dd.complex.view(x) makes the pairs of a parameter complex numbers",
        )  # fmt: skip
    return as_pairs(p, a)


def as_array(x: AnyArray) -> Array:
    """Return an array that offers NumPy's, DLPack's or CUDA's array interface as a NumPy array."""
    if on_gpu(x):
        return _from_device(x)
    foreign = hasattr(x, "__dlpack__") and type(x) is not np.ndarray
    array: Array = np.from_dlpack(x) if foreign else np.asarray(x)
    return array


def _from_device(x: AnyArray) -> Array:
    from didyma.codegen.runtime.cuda import Cuda

    found = borrow(x, 0)
    engine = Cuda(found.device)
    array: Array = engine.download(engine.upload(found), found.dtype, found.shape)
    return array


def as_pairs(p: Param, array: Array) -> Array:
    """Return the bytes of complex numbers as pairs of reals; other arrays as they are."""
    if array.dtype.kind != "c":
        return array
    t = p.type
    if PAIRS.get(array.dtype) is not t.dtype or not t.rank or t.shape[-1] != 2:
        raise DidymaError(
            "complex-input", f"%{p.name}", got=f"{array.dtype} for {t}",
            want="complex64 for f32[..., 2], or complex128 for f64[..., 2]",
            help="a complex number is a last axis of two reals",
        )  # fmt: skip
    return np.asarray(array, order="C")[..., None].view(t.dtype.numpy)


def as_complex(array: AnyArray, /) -> Array:
    """Return pairs of reals, f32 or f64 [..., 2], as the complex numbers they are.

    DidymaError ``complex-output`` for any other array.
    """
    pairs = as_array(array)
    kind = next((c for c, d in PAIRS.items() if d.numpy == pairs.dtype), None)
    if kind is None or pairs.shape[-1:] != (2,):
        raise DidymaError(
            "complex-output", "as_complex", got=f"{pairs.dtype}{list(pairs.shape)}",
            want="float32 or float64, the last axis of size 2",
        )  # fmt: skip
    return np.asarray(pairs, order="C").view(kind)[..., 0]
