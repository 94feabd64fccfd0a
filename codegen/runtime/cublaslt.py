"""Matrix products by NVIDIA's cuBLASLt, as a routine that engine ``cuda`` runs where arrays lie.

Register it, and it is a choice beside kernels: ``dd.register("routines", "cublaslt", CUBLASLT)``.
``algorithm(1)`` is the same by the algorithm that cuBLASLt ranks second, and so on, for tuners.
The functions and numbers are those of ``cublasLt.h``, which has matrices column by column: of
those here, row by row, it computes the transposed product.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import TypeAlias

from didyma.codegen.routines import Routine
from didyma.codegen.runtime import cuda_libraries, driver
from didyma.codegen.runtime.device_array import DeviceArray
from didyma.codegen.runtime.externs import OnDevice
from didyma.refimpl.errors import DidymaError, EngineMissing
from didyma.refimpl.ir.graph import Function, Node
from didyma.refimpl.ir.types import DType

KINDS = {DType.F32: 0, DType.F16: 2, DType.BF16: 14}  # cudaDataType
F32, COMPUTE_F32 = 0, 68  # of scales, and of sums: CUBLAS_COMPUTE_32F, which rounds to no tf32
TRANSPOSES = (3, 4)  # attributes of a product: of a and b
BATCHES, STRIDE = 5, 6  # of a layout
MOST_WORKSPACE, ALIGNMENTS = 1, (5, 6, 7, 8)  # of a preference: bytes, and those of a, b, c and d
WORKSPACE, ALIGNED = 32 << 20, 16  # bytes
Number: TypeAlias = ctypes.c_int32 | ctypes.c_int64 | ctypes.c_uint32 | ctypes.c_uint64
ALGORITHM, RESULT = 64, 96  # bytes: cublasLtMatmulAlgo_t, cublasLtMatmulHeuristicResult_t


@dataclass(frozen=True, slots=True)
class Factors:
    """The operands of a product by their numbers, and which of them are turned first."""

    operands: tuple[int, int]
    turned: tuple[bool, bool]


@lru_cache(maxsize=64)
def factors(f: Function) -> Factors | None:
    """Return the factors of a function that is one product of matrices; None for any other.

    Of one dtype, f16, bf16 or f32, with equal batches; operands may be turned.
    """
    *turns, product = f.nodes
    numbers = {p.name: n for n, p in enumerate(f.params)}
    moved = {n.results[0]: n.args[0] for n in turns if _turns(n)}
    sources = [moved.get(a, a) for a in product.args]
    if product.op != "matmul" or len(moved) < len(turns) or not {*sources} <= numbers.keys():
        return None
    types = [f.params[numbers[a]].type for a in sources]
    dtypes = {t.dtype for t in (*types, *f.result_types())}
    if len(dtypes) > 1 or not dtypes <= KINDS.keys() or types[0].shape[:-2] != types[1].shape[:-2]:
        return None
    if min(t.rank for t in types) < 2 or f.results != product.results:
        return None
    one, other = (numbers[a] for a in sources)
    left, right = (a in moved for a in product.args)
    return Factors((one, other), (left, right))


def _turns(n: Node) -> bool:
    """Return whether a node exchanges the last two axes alone."""
    r = n.types[0].rank
    return n.op == "permute_dims" and n.attr["axes"] == (*range(r - 2), r - 1, r - 2)


def multiply(
    f: Function, outputs: Sequence[DeviceArray], inputs: Sequence[DeviceArray], place: int = 0
) -> None:
    """Start the product of arrays on a GPU, on CUDA's default stream.

    ``place`` counts algorithms from the one that cuBLASLt ranks first.

    EngineMissing where there is no cuBLASLt; DidymaError ``launch-failed`` where it refuses.
    """
    found = factors(f)
    assert found is not None, "no product of matrices"
    x, w = (inputs[n] for n in found.operands)
    (y,) = outputs
    left, right = found.turned
    rows, columns = y.shape[-2:]
    terms = x.shape[-2] if left else x.shape[-1]
    if not math.prod(y.shape):
        return
    plan = _plan(x.dtype, math.prod(y.shape[:-2]), (rows, columns, terms), (left, right), place)
    plan.run(x.address, w.address, y.address)


@dataclass(frozen=True, slots=True)
class Plan:
    """A product that cuBLASLt has chosen an algorithm for."""

    operation: ctypes.c_void_p
    layouts: tuple[ctypes.c_void_p, ...]  # of w, x and y
    algorithm: ctypes.Array[ctypes.c_char]

    def run(self, x: int, w: int, y: int) -> None:
        """Start it on the arrays at addresses."""
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        a, b, d = self.layouts
        _call(
            "cublasLtMatmul", _handle(), self.operation, ctypes.byref(one), ctypes.c_void_p(w), a,
            ctypes.c_void_p(x), b, ctypes.byref(zero), ctypes.c_void_p(y), d, ctypes.c_void_p(y), d,
            self.algorithm, ctypes.c_void_p(_workspace()), ctypes.c_size_t(WORKSPACE), None,
        )  # fmt: skip


@cache
def _plan(
    dtype: DType, batches: int, sizes: tuple[int, int, int], turned: tuple[bool, bool], place: int
) -> Plan:
    rows, columns, terms = sizes
    left, right = turned
    operation = ctypes.c_void_p()
    _call("cublasLtMatmulDescCreate", ctypes.byref(operation), COMPUTE_F32, F32)
    for attribute, turns in zip(TRANSPOSES, (right, left), strict=True):
        _set("cublasLtMatmulDescSetAttribute", operation, attribute, ctypes.c_int32(turns))
    kept = [
        _layout(dtype, batches, *shape)
        for shape in (
            (terms, columns) if right else (columns, terms),
            (rows, terms) if left else (terms, rows),
            (columns, rows),
        )
    ]
    preference = ctypes.c_void_p()
    _call("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
    set_ = "cublasLtMatmulPreferenceSetAttribute"
    _set(set_, preference, MOST_WORKSPACE, ctypes.c_uint64(WORKSPACE))
    for attribute in ALIGNMENTS:
        _set(set_, preference, attribute, ctypes.c_uint32(ALIGNED))
    results, count = ctypes.create_string_buffer(RESULT * (place + 1)), ctypes.c_int()
    a, b, d = kept
    _call(
        "cublasLtMatmulAlgoGetHeuristic", _handle(), operation, a, b, d, d, preference, place + 1,
        results, ctypes.byref(count),
    )  # fmt: skip
    if count.value <= place:
        raise _failure("cublasLtMatmulAlgoGetHeuristic", f"{count.value} algorithms")
    first = RESULT * place
    algorithm = ctypes.create_string_buffer(results.raw[first : first + ALGORITHM], ALGORITHM)
    return Plan(operation, tuple(kept), algorithm)


def _layout(dtype: DType, batches: int, rows: int, columns: int) -> ctypes.c_void_p:
    """Describe matrices one behind the other, each column by column."""
    layout = ctypes.c_void_p()
    sizes = (ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows))
    _call("cublasLtMatrixLayoutCreate", ctypes.byref(layout), KINDS[dtype], *sizes)
    set_ = "cublasLtMatrixLayoutSetAttribute"
    _set(set_, layout, BATCHES, ctypes.c_int32(batches))
    _set(set_, layout, STRIDE, ctypes.c_int64(rows * columns))
    return layout


def _set(function: str, what: ctypes.c_void_p, attribute: int, value: Number) -> None:
    size = ctypes.c_size_t(ctypes.sizeof(value))
    _call(function, what, attribute, ctypes.byref(value), size)


def _call(function: str, *args: object) -> None:
    if status := getattr(library(), function)(*args):
        raise _failure(function, f"status {status} of cublasStatus_t")


def _failure(function: str, got: str) -> DidymaError:
    return DidymaError("launch-failed", function, got=got, want="a product that cuBLASLt computes")


@cache
def library() -> ctypes.CDLL:
    """Load cuBLASLt; EngineMissing where there is none."""
    for path in cuda_libraries.paths("cublasLt"):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise EngineMissing(
        "engine-missing", "cublaslt", want="cuBLASLt, NVIDIA's library of matrix products",
        got="no libcublasLt in site-packages, the CUDA toolkit or the loader's path",
        help="python3 -m pip install nvidia-cublas",
    )  # fmt: skip


@cache
def _handle() -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    _call("cublasLtCreate", ctypes.byref(handle))
    return handle


@cache
def _workspace() -> int:
    """Return memory that all products use in turn, as they go on one stream."""
    address = ctypes.c_uint64()
    driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(WORKSPACE))
    return address.value


def suits(f: Function) -> bool:
    """Return whether a function is a product that cuBLASLt computes."""
    return factors(f) is not None


def algorithm(place: int) -> Routine:
    """Return the routine ``cublaslt_N``, of the algorithm at that place of cuBLASLt's ranking.

    Where there are fewer, DidymaError ``launch-failed`` takes it out of a selection.
    """
    return Routine(f"cublaslt_{place}", suits, OnDevice(partial(multiply, place=place)))


CUBLASLT = Routine("cublaslt", suits, OnDevice(multiply))
