"""Arrays that lie as a type with strides says, and the symbols that their strides tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.graph import Module, Param
from didyma.refimpl.ir.types import Array, DType, TensorType

GAP = 0xA5  # fills bytes between elements: nobody may depend on them


def symbols(types: Iterable[TensorType]) -> tuple[str, ...]:
    """Return the symbols in the strides of types, in order."""
    return dims.free([d for t in types for d in t.strides or ()])


def row(array: Array, t: TensorType, env: Mapping[str, int]) -> Array:
    """Return memory of its own, as one row, in which an array lies as a type with strides says.

    Between the elements is anything.
    """
    memory = _memory(t, dims.evaluate(t.span, env))
    if array.size:
        _shown(memory, array.shape, t, env)[...] = array
    return memory


def _memory(t: TensorType, count: int) -> Array:
    memory = np.full(count * t.dtype.nbytes, GAP, np.uint8)
    return (memory & 1 if t.dtype is DType.BOOL else memory).view(t.dtype.numpy)


def laid(array: Array, t: TensorType, env: Mapping[str, int]) -> Array:
    """Return an array with the elements of another that lies as its type says.

    >>> from didyma.refimpl.ir.types import DType
    >>> t = TensorType(DType.F32, (2, 3), strides=(8, 2), offset=4)
    >>> laid(np.zeros((2, 3), np.float32), t, {}).strides
    (32, 8)
    """
    if t.strides is None:
        return array
    if not array.size:
        return np.empty_like(array)
    before = dims.evaluate(t.offset, env)  # and as much lies behind it
    found = _shown(_memory(t, dims.evaluate(t.span, env) + before), array.shape, t, env)
    found[...] = array
    return found


def inputs(m: Module, arrays: Iterable[Array], env: Mapping[str, int]) -> tuple[Array, ...]:
    """Return inputs of a module that lie as its parameters say."""
    pairs = zip(m.entry.params, arrays, strict=True)
    return tuple(laid(a, p.type, env) for p, a in pairs)


def _shown(memory: Array, shape: Sequence[int], t: TensorType, env: Mapping[str, int]) -> Array:
    assert t.strides is not None
    steps = [dims.evaluate(s, env) * memory.itemsize for s in t.strides]
    at = dims.evaluate(t.offset, env) * memory.itemsize
    words = memory.view(f"u{memory.itemsize}")  # NumPy shows no f8 by strides
    return np.ndarray(tuple(shape), words.dtype, words, at, steps).view(memory.dtype)


def rows(params: Iterable[Param], arrays: Iterable[Array], env: Mapping[str, int]) -> list[Array]:
    """Return what kernels see of arrays that a function is given: rows where its types say so."""
    pairs = zip(params, arrays, strict=True)
    return [a if p.type.strides is None else row(a, p.type, env) for p, a in pairs]


def bind(
    given: Sequence[tuple[str, TensorType, Array]], declared: Sequence[DimVar]
) -> dict[str, int]:
    """Return the values of the symbols that shapes and strides of inputs tell, all checked.

    ``given`` are a name, the declared type and the array of each.  An axis of at most one position
    may have any stride.  Symbols that no shape tells are read from the strides in which all others
    are known, in the order of ``declared``; one that only axes of at most one position have there
    is as small as it may be.  Errors: ``input-strides``, and those of ``dims.bind``.
    """
    env = dims.bind([(name, t.shape, a.shape) for name, t, a in given], declared)
    if all(t.strides is None for _, t, _ in given):
        return env
    axes = [axis for name, t, a in given if t.strides is not None for axis in _axes(name, t, a)]
    told = symbols(t for _, t, _ in given)
    left = [v for v in declared if v.name in told and v.name not in env]
    while left:
        lines = {v: [*_lines(v.name, axes, env)] for v in left}
        var = next((v for v in left if lines[v]), left[0])
        env[var.name] = next((k for k in lines[var] if k is not None), var.lo)
        left.remove(var)
    dims.check_ranges(env, declared)
    for where, want, got in axes:
        if got is not None and dims.evaluate(want, env) != got:
            wanted = f"{dims.text(want)} = {dims.evaluate(want, env)} elements"
            raise DidymaError("input-strides", where, got=f"stride {got}", want=wanted)
    return env


def _axes(name: str, t: TensorType, a: Array) -> Iterable[tuple[str, Dim, int | None]]:
    """Yield the place of each axis, its stride as declared and as got; None if it does not move."""
    assert t.strides is not None
    for axis, (n, want, nbytes) in enumerate(zip(a.shape, t.strides, a.strides, strict=True)):
        where, moves = f"{name}, axis {axis}", a.size and n > 1
        if moves and nbytes % a.itemsize:
            raise DidymaError(
                "input-strides", where, got=f"a stride of {nbytes} bytes",
                want=f"a multiple of the {a.itemsize} bytes of an element",
            )  # fmt: skip
        yield where, want, nbytes // a.itemsize if moves else None


def _lines(
    name: str, axes: Iterable[tuple[str, Dim, int | None]], env: Mapping[str, int]
) -> Iterable[int | None]:
    """Yield the value that each stride linear in a symbol alone tells; None where it tells none."""
    for _, d, got in axes:
        if {*dims.free(d)} - env.keys() != {name}:
            continue
        at = [dims.evaluate(d, {**env, name: k}) for k in (0, 1, 2)]
        slope = at[1] - at[0]
        if at[2] - at[1] != slope:
            continue
        if got is None or slope == 0 or (got - at[0]) % slope:
            yield None
        else:
            yield (got - at[0]) // slope
