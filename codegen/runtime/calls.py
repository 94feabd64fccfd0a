"""Functions that generated wrappers call: checks of inputs, weights, the command line."""

from __future__ import annotations

import base64
import hashlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from didyma.codegen.runtime.device_array import DeviceArray
from didyma.codegen.runtime.engine import Engine, Loaded, reader
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array, DType, Tensor, from_memory, nbytes_of

Wanted = tuple[str, DType, int]  # name, dtype, rank
# Returns the buffers that it allocates itself, if it does: one, or a sequence of several.
Routine = Callable[[Engine, Sequence[Any], Sequence[Any], Mapping[str, Any]], Any]
# Launches one of several kernels: as ``numbered``, from its second parameter on.
Dispatcher = Callable[..., None]


def arrays(
    given: Sequence[Array | DeviceArray], wanted: Sequence[Wanted]
) -> list[Array | DeviceArray]:
    """Return the inputs as arrays; those on a GPU are in row-major order.

    Errors: ``input-count``, ``not-an-array``, ``input-dtype``, ``rank-mismatch``.
    """
    if len(given) != len(wanted):
        raise DidymaError(
            "input-count",
            "inputs",
            got=str(len(given)),
            want=f"{len(wanted)}: {', '.join(name for name, _, _ in wanted) or 'none'}",
        )
    for a, (name, dtype, rank) in zip(given, wanted, strict=True):
        if not isinstance(a, (np.ndarray, DeviceArray)):  # pyright: ignore[reportUnnecessaryIsInstance] - a user's
            raise DidymaError(
                "not-an-array", name, got=type(a).__name__, want="a NumPy array",
                help="np.asarray makes one",
            )  # fmt: skip
        got = a.dtype.numpy if isinstance(a, DeviceArray) else a.dtype
        if got != dtype.numpy:
            raise DidymaError("input-dtype", name, got=str(got), want=str(dtype.numpy))
        if a.ndim != rank:
            raise DidymaError("rank-mismatch", name, got=f"shape {a.shape}", want=f"rank {rank}")
    return list(given)


def solve(where: str, got: int, slope: int, offset: int, *others: tuple[int, int, int]) -> int:
    """Return the ``s`` of ``slope * s + offset = got``, rounded; ``size`` tells if that was exact.

    Where the slope is zero, any ``s`` would do: then the first of the ``others`` that has a slope
    tells it, each with what was got, slope and offset.  Error ``unbound-dim`` where none has.
    """
    lines = ((got, slope, offset), *others)
    told = next((line for line in lines if line[1] != 0), None)
    if told is None:
        raise DidymaError("unbound-dim", where, got="a size that does not tell", want="one value")
    got, slope, offset = told
    return (got - offset) // slope


def size(name: str, axis: int, got: int, want: int, text: str) -> None:
    """Raise ``dim-mismatch`` where an input's size is not what its declaration says."""
    if got != want:
        meaning = text if text == str(want) else f"{text} = {want}"
        raise DidymaError("dim-mismatch", f"{name}, axis {axis}", got=f"size {got}", want=meaning)


def in_range(name: str, value: int, lo: int, hi: int) -> None:
    """Raise ``dim-out-of-range`` for a symbolic size outside its declared range."""
    if not lo <= value <= hi:
        raise DidymaError(
            "dim-out-of-range",
            name,
            got=f"{name} = {value}",
            want=f"{lo} <= {name} <= {hi}",
            help="pass an input of a size in the declared range, or declare a wider one",
        )


def within(name: str, value: int, lo: int, hi: int) -> int:
    """Return a size that a program has found; ``dim-out-of-range`` outside its declared range."""
    in_range(name, value, lo, hi)
    return value


def number(engine: Engine, buffer: Any) -> int:
    """Read an i64 scalar."""
    return int(reader(engine).download(buffer, DType.I64, ()))


def truth(engine: Engine, buffer: Any) -> bool:
    """Read a bool scalar."""
    return bool(reader(engine).download(buffer, DType.BOOL, ()))


def equal(lhs: int, rhs: int, message: str) -> None:
    """Raise ``assertion`` where a program's two sizes differ."""
    if lhs != rhs:
        raise DidymaError("assertion", message, got=f"{lhs} and {rhs}", want="equal sizes")


def numbered(
    number: int,
    engine: Engine,
    kernels: Loaded,
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


def routine(externs: Mapping[str, Routine] | None, name: str) -> Routine:
    """Return the library routine of that name, else raise ``unknown-routine``."""
    table = externs or {}
    if name not in table:
        raise DidymaError(
            "unknown-routine", name, got=name, want=f"one of {sorted(table)}",
            help="pass it to the call, in `externs`",
        )  # fmt: skip
    return table[name]


def constant(dtype: DType, shape: tuple[int, ...], text: str) -> Array:
    """Return the array of a constant from the base64 of its bytes."""
    return Tensor(dtype, shape, base64.b64decode(text)).array()


def part(weights: bytes, dtype: DType, shape: tuple[int, ...], offset: int) -> Array:
    """Return the array of a constant that starts at a byte of the weights."""
    nbytes = nbytes_of(dtype, shape)
    return from_memory(np.frombuffer(weights, np.uint8, nbytes, offset), dtype, shape)


def read_weights(module: str, name: str) -> bytes:
    """Return the bytes of the file beside a wrapper module.

    Errors: ``weights-missing``, ``weights-mismatch`` (they are not those of this program).
    """
    path = Path(module).with_name(name)
    if not path.is_file():
        raise DidymaError(
            "weights-missing", str(path), got="no such file", want="the program's weights",
            help="keep it beside the module, or pass its bytes as `weights`",
        )  # fmt: skip
    return path.read_bytes()


def checked(weights: bytes, digest: str) -> bytes:
    """Return the weights if they are the program's own, else raise ``weights-mismatch``."""
    got = hashlib.sha256(weights).hexdigest()
    if got != digest:
        raise DidymaError(
            "weights-mismatch", "weights", got=f"sha256 {got}", want=f"sha256 {digest}"
        )
    return weights


def unload(engine: Engine, buffers: Sequence[Any]) -> None:
    """Free the constants that ``load`` of a wrapper put on an engine."""
    for buffer in buffers:
        engine.free(buffer)


def random_inputs(
    wanted: Sequence[Wanted], shapes: Sequence[Sequence[int]], seed: int = 0
) -> list[Array]:
    """Return small numbers of the wanted dtypes and shapes."""
    rng = np.random.default_rng(seed)
    return [
        (rng.random(shape) * 4 - 2 * dtype.is_signed).astype(dtype.numpy)
        for (_, dtype, _), shape in zip(wanted, shapes, strict=True)
    ]


def main(
    call: Callable[[Engine, Sequence[Array]], list[Array]],
    wanted: Sequence[Wanted],
    shapes: Callable[..., Sequence[Sequence[int]]],
    ranges: Mapping[str, tuple[int, int]],
) -> None:
    """Run a wrapper on random inputs: ``python MODULE [ENGINE] [dim=size …]``."""
    from didyma.codegen.runtime.registry import engine

    words = sys.argv[1:]
    sizes = {k: min(max(lo, 2), hi) for k, (lo, hi) in ranges.items()}
    for k, _, v in (w.partition("=") for w in words if "=" in w):
        if k not in ranges or not v.isdecimal():
            raise SystemExit(f"{k}={v}: want one of {', '.join(ranges) or 'no dims'} = a number")
        sizes[k] = int(v)
    chosen = engine(next((w for w in words if "=" not in w), "host"))
    inputs = random_inputs(wanted, shapes(*sizes.values()))  # names may have been mended
    for attempt in ("first", "second"):
        start = time.perf_counter()
        results = call(chosen, inputs)
        print(f"{attempt} call on {chosen.name}: {(time.perf_counter() - start) * 1e3:.3f} ms")
    for (name, dtype, _), a in zip(wanted, inputs, strict=True):
        print(f"in   {name}: {dtype}{list(a.shape)}")
    for i, r in enumerate(results):
        print(f"out  {i}: {DType.of(r)}{list(r.shape)}")
