"""Judge how programs read sizes from their inputs: as the definition of shapes and strides does.

A module and what walks the program's JSON must find the sizes that the definition finds, and
refuse what it refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from random import Random
from typing import Any, TypeAlias, cast
from unittest import mock

import numpy as np
import sympy

from didyma.codegen.emit import program_json, wrapper
from didyma.codegen.runtime import modules
from didyma.codegen.runtime.didyma_runtime import walk
from didyma.codegen.runtime.didyma_runtime.loading import Loaded
from didyma.codegen.runtime.didyma_runtime.refused import Refused
from didyma.codegen.runtime.engine import KernelText
from didyma.fuzz.allocator.wrappers import LoopEngine
from didyma.fuzz.alone_refused import alike
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims, strides
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.program import Program, Return
from didyma.refimpl.ir.types import Array, DType, TensorType

UNBOUND = "unbound-dim"
NAMES: tuple[str, ...] = ("n", "m", "k")
CALLS = 6  # that are judged of one program, and as many that are nearly right
STRIDED = 2  # one input in so many lies in larger memory

Env: TypeAlias = Mapping[str, int]
Laid: TypeAlias = tuple[tuple[int, ...], tuple[int, ...] | None, int]  # shape, strides, offset
Bind: TypeAlias = Callable[[list[Array]], Env]


def judged(r: Random) -> Iterator[str]:
    """Draw a program of inputs alone; yield what is wrong with how its calls are read."""
    declared = tuple(DimVar(n, low := r.randrange(3), low + r.randrange(5)) for n in NAMES)
    names_of_shapes = NAMES[: r.randint(1, len(NAMES))]  # strides may tell the others
    types = [_type(r, names_of_shapes) for _ in range(r.randint(1, 3))]
    rows = tuple((f"x{i}", t) for i, t in enumerate(types))
    free = dims.free(d for t in types for d in t.sizes)
    used = tuple(v for v in declared if v.name in free)
    names = tuple(name for name, _ in rows)
    p = Program("given", used, names, (), rows, (), (Return(names[:1]),))
    sure = _told(types) >= {*free}
    told = f"{', '.join(map(str, used))}; {', '.join(f'{v}: {t}' for v, t in rows)}"
    try:
        made = modules.module(wrapper.emit(p, KernelText("", ())))
        read = _reader(program_json.program_json(p, KernelText("", ()), {}))
    except DidymaError as e:
        if e.code != UNBOUND or sure:
            yield f"{told}: {e}"
        return

    def bound(given: list[Array]) -> Env:
        rows_of, sizes = made["bind"](given)
        for t, a, row in zip(types, given, rows_of, strict=True):
            _require_memory(t, dict(sizes), a, row)
        return dict(sizes)

    def defined(given: list[Array]) -> Env:
        triples = [(name, t, a) for (name, t), a in zip(rows, given, strict=True)]
        return strides.bind(triples, used)

    for _ in range(CALLS):
        env = {v.name: r.randint(v.lo, v.hi) for v in used}
        laid = [_at(t, env) for t in types]
        shown = [*map(_shown, made["shapes"](*env.values()))]
        if shown != laid:
            yield f"{told}: shapes at {env} are {shown}, not {laid}"
            return
        for given in (laid, _near(r, laid)):
            want = _found(defined, given)
            for how, bind in (("bind", bound), ("JSON", read)):
                found = _found(bind, given)
                excused = found == UNBOUND and not sure  # of a factor that is 0 here
                if found != want and not excused and not alike(str(found), str(want)):
                    yield f"{told}: {how} of {given} is {found}, not {want}"
                    return


def _type(r: Random, names: Sequence[str]) -> TensorType:
    """Return the type of an input, whose axes tell sizes or need others for that."""
    shape = tuple(_axis(r, names) for _ in range(r.choice((1, 1, 2, 2, 3))))
    if r.randrange(STRIDED):
        return TensorType(DType.I8, shape)
    steps: list[Dim] = [1]
    for d in shape[:0:-1]:
        factors: tuple[Dim, ...] = (1, 2, *map(dims.symbol, NAMES))
        gap = dims.mul(r.choice(factors), dims.symbol(r.choice(NAMES)))
        gaps: tuple[Dim, ...] = (0, 1, gap, gap)
        steps.append(dims.add(dims.mul(steps[-1], dims.maximum(d, 1)), r.choice(gaps)))
    offsets: tuple[Dim, ...] = (0, 0, 1, dims.symbol(r.choice(NAMES)))
    offset = r.choice(offsets)
    return TensorType(DType.I8, shape, strides=tuple(steps[::-1]), offset=offset)


def _axis(r: Random, names: Sequence[str]) -> Dim:
    a, b = (dims.symbol(r.choice(names)) for _ in range(2))
    number = r.randint(1, 3)
    found: tuple[Dim, ...] = (
        a, a, a, number, dims.mul(a, number), dims.add(dims.mul(a, number), r.randint(0, 2)),
        dims.mul(a, b), dims.add(dims.mul(a, b), a), dims.add(a, b), dims.sub(9, a),
        dims.mul(a, a), dims.floordiv(a, 2), dims.maximum(a, b),
    )  # fmt: skip
    return r.choice(found)


def _told(types: Sequence[TensorType]) -> set[str]:
    """Return the symbols that axes tell whatever the sizes, one after another."""
    axes, known = [d for t in types for d in t.shape], set[str]()
    for _, d in product(NAMES, axes):
        left = {*dims.free(d)} - known
        if isinstance(d, sympy.Expr) and len(left) == 1 and d.diff(dims.symbol(*left)).is_Integer:
            known |= left
    return known


def _at(t: TensorType, env: Env) -> Laid:
    steps = None if t.strides is None else dims.values(t.strides, env)
    return dims.values(t.shape, env), steps, dims.evaluate(t.offset, env)


def _shown(row: Any) -> Laid:
    """Return what a module tells of an input: its shape, or how it lies."""
    return tuple(row), getattr(row, "strides", None), getattr(row, "offset", 0)


def _near(r: Random, laid: Sequence[Laid]) -> list[Laid]:
    """Return inputs of which one axis is longer or shorter."""
    i = r.randrange(len(laid))
    shape, steps, offset = laid[i]
    axis, step = r.randrange(len(shape)), r.choice((-1, 1))
    other = tuple(max(0, n + step * (k == axis)) for k, n in enumerate(shape))
    return [*laid[:i], (other, steps, offset), *laid[i + 1 :]]


def _arrays(laid: Sequence[Laid]) -> list[Array]:
    """Return arrays that lie so; of those in larger memory every second may not be written."""
    found = list[Array]()
    for i, (shape, steps, offset) in enumerate(laid):
        if steps is None:
            found.append(np.zeros(shape, np.int8))
            continue
        reach = sum((max(n, 1) - 1) * s for n, s in zip(shape, steps, strict=True))
        memory = np.arange(offset + reach + 1, dtype=np.int64).astype(np.int8)
        part = np.ndarray(shape, np.int8, memory, offset, steps)
        part.flags.writeable = bool(i % 2)
        found.append(part)
    return found


def _require_memory(t: TensorType, env: Env, given: Array, row: Array) -> None:
    """Raise ValueError unless an input's memory is given on, as far ahead of it as its type says.

    Where less memory lies ahead of the input, a copy of its elements has to lie so.
    """
    if t.strides is None or not given.size:
        return
    offset, memory = dims.evaluate(t.offset, env), cast("Array", given.base)
    begin = _ahead(memory, given) - offset
    if begin < 0:
        shown = np.ndarray(given.shape, np.int8, row, offset, given.strides)
        if not np.array_equal(shown, given):
            raise ValueError("the copy of an input has other elements")
        return
    if row.flags.writeable != given.flags.writeable:
        raise ValueError("the memory of an input may be written, or may not, unlike the input")
    if _ahead(memory, row) != begin:
        raise ValueError("the memory of an input is another")


def _ahead(memory: Array, part: Array) -> int:
    """Return the bytes of memory ahead of the first element of a part of it."""
    return part.ctypes.data - memory.ctypes.data


def _found(bind: Bind, laid: Sequence[Laid]) -> Env | str:
    """Return the sizes that are read from inputs, or the code that refuses them."""
    try:
        return bind(_arrays(laid))
    except (Refused, DidymaError) as e:
        return e.code


def _reader(text: str) -> Bind:
    """Return a function that reads the sizes of a call as what walks JSON does."""
    seen = list[Env]()

    def load(*rest: Any) -> Loaded:
        del rest
        engine: Any = LoopEngine()
        return Loaded(engine, None, [], {})

    class Sizes(walk.Walk):
        """A walk that notes the sizes and runs no line."""

        def lines(self, lines: Sequence[Any]) -> list[Array]:
            del lines
            seen.append(self._sizes)
            return []

    with mock.patch.object(walk, "load", load):
        run = walk.read(text.encode(), lambda name, what: b"")

    def read(given: list[Array]) -> Env:
        with mock.patch.object(walk, "Walk", Sizes):
            run(given)
        return seen.pop()

    return read
