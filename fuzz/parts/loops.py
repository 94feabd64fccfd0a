"""Library routines that loop functions call: with buffers to fill, and ones that they make."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import numpy as np

from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.loop_externs import bound, on_arrays, on_engine
from didyma.codegen.schedule.steps.kernels import Outside
from didyma.fuzz.parts.told import code_of, differ
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.graph import Attr, attrs
from didyma.refimpl.ir.loop import (
    Block,
    Buffer,
    ExternalAllocate,
    ExternalCall,
    Free,
    PrimFunc,
    Stmt,
)
from didyma.refimpl.ir.types import Array, DType

ENV: Mapping[str, int] = {"n": 3}
NAMES = ("first", "second", "third")  # of routines, each of which adds a number of its own
DTYPES = (DType.I32, DType.I64, DType.F32)


def judged(r: Random, engine: Engine) -> Iterator[str]:
    """Yield what is wrong with calls of routines, on arrays and on the buffers of an engine."""
    params = [_buffer(r, f"b{k}") for k in range(r.randint(1, 3))]
    rows, known = _drawn(r, params)
    body: Stmt = Block(tuple(rows))
    f = PrimFunc("f", tuple(params), (), body, (DimVar("n", 0, 9),))
    used = sorted({s.name for s in rows if not isinstance(s, Free)})
    given = {name: _Routine(NAMES.index(name)) for name in used}
    yield from differ(sorted(bound(f, given)), used, "routines that are bound")
    yield from differ(code_of(bound, f, {**given, "other": abs}), "unknown-extern", "another one")
    some = dict([*given.items()][1:])
    code = "unknown-extern" if given else ""
    yield from differ(code_of(bound, f, some), code, f"{[*some]} of {used}")
    first = {b.name: _values(r, b) for b in params}
    want = _meant(rows, first)
    held = {name: a.copy() for name, a in first.items()}
    for s in rows:
        on_arrays(s, held, ENV, bound(f, given))
    yield from differ(_listed(held), _listed(want), f"arrays after {rows}")
    buffers: dict[str, Any] = {name: engine.upload(a) for name, a in first.items()}
    types = {b.name: b for b in params}
    for s in rows:
        on_engine(s, buffers, types, ENV, bound(f, given), engine)
    got = dict[str, Array]()
    for name, b in buffers.items():
        t = known[name]
        got[name] = engine.download(b, t.dtype, dims.values(t.shape, ENV))
        engine.free(b)
    yield from differ(_listed(got), _listed(want), f"buffers after {rows}")


class _Routine:
    """Gives the sum of its inputs, a number of its own and one for each result."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, *inputs: Array, out: Any = None, scale: int = 1, to: str = "") -> Any:
        total = _sum(self.number, inputs, scale)
        if out is None:  # it makes its results, of the dtypes that are asked for by attribute
            made = [np.full((3,), total + k, DType(t).numpy) for k, t in enumerate(to.split())]
            return made[0] if len(made) == 1 else made
        if isinstance(out, np.ndarray):
            out[...] = total
        for k, y in enumerate(() if isinstance(out, np.ndarray) else out):
            y[...] = total + k
        return None


def _sum(number: int, inputs: tuple[Array, ...], scale: int) -> int:
    """Return what a routine makes of its inputs; each place of one counts."""
    return number + scale * sum(k * int(a.sum()) % 97 for k, a in enumerate(inputs, 1))


def _buffer(r: Random, name: str) -> Buffer:
    return Buffer(name, r.choice(DTYPES), r.choice(((2,), (dims.symbol("n"), 2), ())))


def _values(r: Random, b: Buffer) -> Array:
    shape = dims.values(b.shape, ENV)
    values = [r.randrange(50) for _ in range(math.prod(shape))]
    return np.array(values, b.dtype.numpy).reshape(shape)


def _drawn(r: Random, params: list[Buffer]) -> tuple[list[Outside], dict[str, Buffer]]:
    """Return statements, and every buffer that there is in between."""
    alive, every, rows = [b.name for b in params], {b.name: b for b in params}, list[Outside]()
    made = list[str]()
    for k in range(r.randint(1, 5)):
        inputs = tuple(r.choices(alive, k=r.randint(0, 2)))
        more: dict[str, Attr] = {"scale": r.randint(1, 3)} if r.random() < 0.5 else {}
        match r.choice(("call", "call", "allocate", "free")):
            case "call":
                outputs = tuple(r.sample(alive, r.randint(1, min(2, len(alive)))))
                rows.append(ExternalCall(r.choice(NAMES), outputs, inputs, attrs(more)))
            case "allocate":
                new = [
                    Buffer(f"m{k}_{i}", r.choice(DTYPES), (dims.symbol("n"),))
                    for i in range(r.randint(1, 2))
                ]
                asked = {**more, "to": " ".join(str(b.dtype) for b in new)}
                name = r.choice(NAMES)
                rows.append(ExternalAllocate(name, tuple(new), inputs, attrs(asked), Block(())))
                every |= {b.name: b for b in new}
                alive += [b.name for b in new]
                made += [b.name for b in new]
            case _ if made:
                name = made.pop(r.randrange(len(made)))
                alive.remove(name)
                rows.append(Free(name))
            case _:
                pass
    return rows, every


def _meant(rows: list[Outside], first: Mapping[str, Array]) -> dict[str, Array]:
    """Return what each buffer holds after some statements."""
    held = {name: a.copy() for name, a in first.items()}
    for s in rows:
        if isinstance(s, Free):
            del held[s.buffer]
            continue
        scale = dict(s.attrs).get("scale", 1)
        assert isinstance(scale, int), "as it was drawn"
        total = _sum(NAMES.index(s.name), tuple(held[n] for n in s.inputs), scale)
        if isinstance(s, ExternalCall):
            for k, name in enumerate(s.outputs):
                held[name] = np.full_like(held[name], total + k)
        else:
            for k, b in enumerate(s.buffers):
                held[b.name] = np.full((3,), total + k, b.dtype.numpy)
    return held


def _listed(held: Mapping[str, Array]) -> dict[str, tuple[str, Any]]:
    return {name: (a.dtype.name, a.tolist()) for name, a in held.items()}
