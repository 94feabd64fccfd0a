"""Judge what a program's JSON tells of its memory, by arrays and by a replay of its plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from didyma.oracle import plan_check
from didyma.refimpl.interp.graph import bind
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.lines import binds, blocks, walk
from didyma.refimpl.ir.program import Allocate, Program
from didyma.refimpl.ir.types import Array, nbytes_of

_OPS: Mapping[str, Callable[[int, int], int]] = MappingProxyType(
    {
        "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
        "floordiv": lambda a, b: a // b if b else 0, "floormod": lambda a, b: a % b if b else 0,
        "min": min, "max": max,
    }
)  # fmt: skip


def wrong(
    m: Module, p: Program, text: str, inputs: Sequence[Array], results: Sequence[Array]
) -> Iterator[str]:
    """Yield what the JSON of a program says wrongly of the bytes of a call.

    Where the run finds sizes, also those of a function, no workspace is judged; and nothing where
    inputs have strides.
    """
    if any(x.type.strides is not None for x in m.entry.params):
        return
    env = bind(m.entry, m, inputs)
    told, late = json.loads(text)["main"]["memory"], _finds_sizes(p)
    bytes_of = {
        "inputs": sum(_nbytes(p, v, a) for v, a in zip(p.inputs, inputs, strict=True)),
        "outputs": sum(_nbytes(p, v, a) for v, a in zip(p.results, results, strict=True)),
        "constants": sum(len(t.data) for _, t in p.constants),
    }
    for name, nbytes in bytes_of.items():
        if not late and _value(told[name], env) != nbytes:
            yield f"its JSON tells {_value(told[name], env)} bytes of {name}, which are {nbytes}"
    if late or any(map(_finds_sizes, p.functions)):
        return
    largest = {d.name: d.hi for d in p.dims}  # also of what loops alone have
    said, peak = (
        sum(_value(d, env) for d in told["workspace"].values()),
        plan_check.replay(p, largest | env).peak,
    )
    whole = any(isinstance(line, Allocate) for line in p.lines)
    several = len({t.device for _, t in p.types}) > 1  # whose peaks need not be at one line
    plain = not any(any(blocks(line)) for line in p.lines) and not (whole and several)
    if said < peak or (plain and said != peak):
        yield f"its JSON tells {said} bytes of workspace, and its plan takes {peak}"


def _finds_sizes(p: Program) -> bool:
    """Return whether values have sizes that the run binds."""
    bound = {s for line in walk(p.lines) for s in binds(line)}
    return not bound.isdisjoint(dims.free(d for _, t in p.types for d in t.shape))


def _nbytes(p: Program, value: str, a: Array) -> int:
    t = p.type[value]
    return nbytes_of(t.dtype, a.shape)


def _value(d: Any, env: Mapping[str, int]) -> int:
    match d:
        case int():
            return d
        case str():
            return env[d]
        case _:
            return _OPS[d[0]](_value(d[1], env), _value(d[2], env))
