"""External functions that a program carries: their text, the symbol there, and what that needs."""

from __future__ import annotations

import ctypes
import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import host
from .dtypes import Array, checked, dtype_of
from .kernels import Shapes
from .refused import Refused

File = tuple[str, str]  # its name and SHA-256
Read = Callable[[str, str], bytes]
POISON = 0xA5  # each byte of an array that nobody has written


class Extern(NamedTuple):
    """An external function.

    ``source`` is a text in Python, of which ``symbol`` is the function.  There, ``constants`` are
    arrays by name, of a file of NumPy's, and ``library`` is the shared object that it calls.  Where
    ``out`` is true the function writes its results, which are its argument ``out``, and else it
    returns them.  ``sizes`` are the symbols of which the caller gives the values, and ``shapes`` is
    a function of these, of the inputs and then the results; ``dtypes`` are theirs.
    """

    source: File
    symbol: str
    out: bool
    sizes: tuple[str, ...]
    inputs: int
    dtypes: tuple[str, ...]
    shapes: Shapes
    library: File | None = None
    constants: File | None = None


def function(source: bytes, name: str, symbol: str, library: Any, constants: bytes | None) -> Any:
    """Return a function of a text in Python; ``unknown-extern`` where it has none of that name."""
    arrays: dict[str, Array] = {}
    if constants is not None:
        with np.load(io.BytesIO(constants), allow_pickle=False) as file:
            arrays = {k: file[k] for k in file.files}
    space: dict[str, Any] = {"__name__": name, "constants": arrays, "library": library}
    exec(compile(source, name, "exec"), space)
    found = space.get(symbol)
    if not callable(found):
        raise Refused("unknown-extern", name, got=symbol, want=f"a function {symbol} in the text")
    return found


def opened(data: bytes | None, name: str) -> Any:
    """Return a shared object from its bytes, or None."""
    return None if data is None else ctypes.CDLL(host.anonymous(data, name))


def called(run: Any, out: bool, given: Sequence[Array], wanted: Sequence[tuple[Any, Any]]) -> Any:
    """Return the results of a function, which are to be of these dtypes and shapes.

    Error ``extern-result`` where they are of others.
    """
    if out:
        made = [_unwritten(np.dtype(dtype), shape) for dtype, shape in wanted]
        run(*given, out=made[0] if len(made) == 1 else tuple(made))
        return made
    found: Any = run(*given)
    each: list[Any] = [*found] if isinstance(found, (tuple, list)) else [found]
    rows: list[Array] = [np.asarray(a) for a in each]
    got = [(a.dtype, a.shape) for a in rows]
    if got != [*wanted]:
        name = getattr(run, "__name__", "an extern")
        raise Refused("extern-result", name, got=listed(got), want=listed(wanted))
    return rows


def listed(arrays: Sequence[tuple[Any, Sequence[int]]]) -> str:
    """Return dtypes and shapes in words, such as ``float32[2, 3], int64[]``."""
    return ", ".join(f"{dtype}{list(shape)}" for dtype, shape in arrays) or "nothing"


def _unwritten(dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
    raw = np.full(math.prod(shape) * dtype.itemsize, POISON, np.uint8)
    return raw.view(dtype).reshape(tuple(shape))


def routines(read: Read, externs: Mapping[str, Extern]) -> dict[str, Any]:
    """Load external functions, as routines that a module calls by their names.

    Errors: ``file-missing``, ``hash-mismatch``, ``unknown-extern``.
    """
    return {name: _routine(read, x) for name, x in externs.items()}


def _routine(read: Read, x: Extern) -> Any:
    def bytes_of(file: File | None, what: str) -> bytes | None:
        return None if file is None else checked(read(file[0], what), file[1], file[0])

    source = bytes_of(x.source, "the text of an external function") or b""
    library = opened(bytes_of(x.library, "the library of an external function"), x.symbol)
    constants = bytes_of(x.constants, "the constants of an external function")
    run = function(source, x.source[0], x.symbol, library, constants)

    def routine(
        engine: Any, outputs: Sequence[Any], inputs: Sequence[Any], attrs: Mapping[str, Any]
    ) -> None:
        shapes = x.shapes(dict(zip(x.sizes, attrs.get("sizes", ()), strict=True)))
        types = [*zip(x.dtypes, shapes, strict=True)]
        down = getattr(engine, "reads", engine).download
        pairs = zip(inputs, types[: x.inputs], strict=True)
        given = [down(b, dtype, shape) for b, (dtype, shape) in pairs]
        wanted = [(dtype_of(dtype), shape) for dtype, shape in types[x.inputs :]]
        for target, a in zip(outputs, called(run, x.out, given, wanted), strict=True):
            source = engine.upload(a)
            engine.copy(target, source)
            engine.free(source)

    return routine
