"""A second opinion on planned programs: replays lines and knows nothing of how plans are made."""

from __future__ import annotations

import random
from collections.abc import Mapping

from didyma.refimpl.ir.dims import DimVar, evaluate, symbol
from didyma.refimpl.ir.program import (
    Allocate,
    Arena,
    Carry,
    Copy,
    Extern,
    Free,
    Launch,
    Line,
    Place,
    PlacementAllocate,
    Program,
    Return,
    Reuse,
    View,
)
from didyma.refimpl.ir.types import DType, TensorType


class Broken(Exception):
    """The plan loses a value."""


def replay(p: Program, env: Mapping[str, int]) -> int:
    """Follow each allocation and who may use it; return the number of allocations."""
    known = dict(env)
    types = p.type
    size = {name: evaluate(t.nbytes, env) for name, t in p.types}
    caller = {*p.inputs, *(name for name, _ in p.constants)}
    place: dict[str, int] = {}  # value -> allocation
    capacity: list[int] = []
    owners: list[dict[str, tuple[int, int]]] = []  # of each allocation: whose bytes are which
    alias: dict[str, str] = {}
    arenas: dict[str, int] = {}

    def use(value: str) -> None:
        while value in alias:
            value = alias[value]
        if value not in caller and (value not in place or value not in owners[place[value]]):
            raise Broken(f"{value} is used without bytes of its own")

    def give(value: str, where: int, at: int = 0) -> None:
        if value in place or value in caller or value in alias:
            raise Broken(f"{value} is allocated twice")
        if at % 256 or at + size[value] > capacity[where]:
            raise Broken(f"{value} does not fit")
        for other, (low, high) in owners[where].items():
            if low < at + size[value] and at < high:
                raise Broken(f"{value} is placed on {other}")
        place[value] = where
        owners[where][value] = (at, at + size[value])

    def room(nbytes: int) -> int:
        capacity.append(nbytes)
        owners.append({})
        return len(capacity) - 1

    for line in p.lines:
        match line:
            case Allocate(value):
                give(value, room(size[value]))
            case Arena(name, nbytes):
                arenas[name] = room(evaluate(nbytes, known))
            case Place(value, arena, offset):
                give(value, arenas[arena], evaluate(offset, known))
            case Carry((), symbols):
                known |= {name: evaluate(d, known) for name, d in symbols}
            case Reuse(value, over):
                use(over)
                if types[value] != types[over]:
                    raise Broken(f"{value} and {over} differ in type")
                del owners[place[over]][over]
                give(value, place[over])
            case PlacementAllocate(value, over):
                use(over)
                del owners[place[over]][over]
                give(value, place[over])
            case Free(value):
                use(value)
                if value in alias or value in caller:
                    raise Broken(f"{value} owns nothing")
                del owners[place[value]][value]
            case View(value, of):
                use(of)
                alias[value] = of
            case Launch(_, args):
                for a in args:
                    use(a)
            case Extern(_, outputs, inputs):
                for a in (*outputs, *inputs):
                    use(a)
            case Copy(value, source):
                use(value)
                use(source)
            case Return(values):
                for a in values:
                    use(a)
            case _:
                pass
    left = {v for here in owners for v in here}
    if left != {_root(r, alias) for r in p.results} - caller:
        raise Broken(f"left behind: {left}, returned: {p.results}")
    return len(capacity)


def _root(value: str, alias: Mapping[str, str]) -> str:
    while value in alias:
        value = alias[value]
    return value


def bare_program(seed: int) -> Program:
    """Make a random program without memory: kernels, chains of views, dead and early results."""
    r = random.Random(seed)
    n, m = symbol("n"), symbol("m")
    shapes = [(), (0,), (1,), (7, 3), (64,), (65,), (n,), (n, 4), (2 * n + 1,), (n, m), (m * m,)]
    if r.random() < 0.5:
        shapes = shapes[:6]
    types = {"x": TensorType(DType.F32, (7, 3)), "w": TensorType(DType.F32, (64,))}
    lines: list[Line] = []
    for i in range(r.randrange(1, 14)):
        known = list(types)
        if r.random() < 0.25:
            of = r.choice(known)
            types[f"v{i}"] = TensorType(types[of].dtype, (types[of].numel,))
            lines.append(View(f"v{i}", of))
            continue
        made = [f"o{i}_{k}" for k in range(r.choice((1, 1, 1, 2, 3)))]
        reads = [r.choice(known) for _ in range(r.randrange(3))]
        for name in made:
            types[name] = TensorType(r.choice((DType.F32, DType.I8)), r.choice(shapes))
        lines.append(Launch(f"k{i}", (*reads, *made)))
    root: dict[str, str] = {}
    for line in lines:
        if isinstance(line, View):
            root[line.value] = root.get(line.of, line.of)
    results: dict[str, str] = {}  # one name for each of the buffers returned
    for name in r.sample(list(types), r.randrange(min(4, len(types)))):
        if root.get(name, name) not in "xw":
            results[root.get(name, name)] = name
    lines.append(Return(tuple(results.values())))
    dims = (DimVar("n", r.randrange(3), 9), DimVar("m", r.randrange(3), 9))
    return Program("p", dims, ("x", "w"), (), tuple(types.items()), (), tuple(lines))
