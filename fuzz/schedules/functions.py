"""Functions to schedule: lowered Primitives of random graphs, and random affine loop nests."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from didyma.codegen.lower import lower
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.fuzz import graphs, values
from didyma.fuzz.schedules.forms import formed
from didyma.fuzz.schedules.nests import Nest, nest
from didyma.fuzz.schedules.topics import Topic
from didyma.fuzz.steering.draw import draw as drawn_around
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.graph import COMPILER, PRIMITIVE, RESHAPE_ONLY, Function, Module
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.returns import without_returns
from didyma.refimpl.ir.types import Array

MOST_POINTS = 4096  # elements of a function's buffers, and so about of its iterations
_TRIES = 8


@dataclass(frozen=True, slots=True)
class Subject:
    """A function, sizes of its dims, and the seed of its values.

    ``module`` holds the graph of a lowered function, which its error bars come from.  Those of a
    drawn nest are ``small`` integers where no order of sums may show, and numbers else of which
    most orders show.  Where it is ``defined``, runs are compared with the definition of the loops,
    not with the function without steps: passes write its forms out.  Its schedule may begin with
    the steps of a ``topic``.  Where it has ``options``, it is scheduled by recipes, not by steps.
    """

    func: PrimFunc
    env: tuple[tuple[str, int], ...]
    seed: int
    module: Module | None = None
    small: bool = False
    defined: bool = False
    options: tuple[tuple[str, Any], ...] | None = None
    topic: Topic | None = field(default=None, compare=False)

    @property
    def stored(self) -> PrimFunc:
        """The function with an output for the number that it returns, if it does."""
        return without_returns(self.func)

    @property
    def exact(self) -> bool:
        """Whether a schedule that reassociates can be judged: by bars, or as integers are."""
        floats = any(b.dtype.is_float for b in self.func.params)
        return self.module is not None or self.small or not floats

    def buffers(self) -> dict[str, Array]:
        """Return the content of each parameter before the launch, drawn from the seed."""
        env = dict(self.env)
        given = {} if self.module is None else self._inputs(self.module, env)
        found: dict[str, Array] = {}
        for n, p in enumerate(self.stored.params):
            shape = dims.values(p.shape, env)
            drawn = values.array(self.seed + n, p.dtype, shape, None, self._kind(p.name))
            found[p.name] = given.get(p.name, drawn)
        return found

    def _kind(self, name: str) -> values.Distribution:
        if self.small or (self.module is not None and name in self.func.outputs):
            return values.Distribution.SMALL
        if self.seed % 2:  # any NaN or infinity hides the order of a sum
            return values.Distribution.NORMAL
        is_output = name in self.stored.outputs
        return values.Distribution.SMALL if is_output else values.Distribution.MIXED

    def inputs(self) -> list[Array]:
        """Return the values of the parameters of the graph."""
        assert self.module is not None
        return list(graphs.inputs(self.module, dict(self.env), self._seeds(self.module)))

    def _seeds(self, m: Module) -> tuple[int, ...]:
        return tuple(self.seed + n for n in range(len(m.entry.params)))

    def _inputs(self, m: Module, env: dict[str, int]) -> dict[str, Array]:
        from didyma.refimpl.ir.types import to_memory

        drawn = map(to_memory, graphs.inputs(m, env, self._seeds(m)))
        return dict(zip(self.func.inputs, drawn, strict=True))


def draw(seed: int, index: int, *, forms: bool = False) -> Subject:
    """Return the function of a campaign's seed and an index: every other one is a loop nest.

    With ``forms`` it is one of blocks, vectors, producers, external calls and returns.
    """
    chance = random.Random((seed << 64) + index)
    if forms:
        return of_forms(chance)
    if index % 2:
        return _of_nest(nest(chance))
    for turn in range(_TRIES):
        found = _lowered(chance, seed, index * _TRIES + turn)
        if found is not None:
            return found
    return _of_nest(nest(chance))


def of_forms(chance: random.Random) -> Subject:
    """Return a function of the forms that passes write out."""
    f = formed(chance)
    env = tuple((d.name, chance.randint(1, d.hi)) for d in f.dims)
    return Subject(f, env, chance.randrange(1 << 20), defined=True)


def _of_nest(drawn: Nest) -> Subject:
    return Subject(drawn.func, drawn.env, drawn.seed, small=drawn.exact, topic=drawn.topic)


def _lowered(chance: random.Random, seed: int, index: int) -> Subject | None:
    """Return a lowered Primitive function of a random graph; None if none is small."""
    case = drawn_around(seed, index)
    made = compile(case.module, case.options(Options()), until="lower")
    env = dict(case.env)
    found: list[Subject] = []
    for f in made.fused.functions[:-1]:
        if PRIMITIVE not in f.attr or RESHAPE_ONLY in f.attr or COMPILER in f.attr:
            continue
        alone = _alone(f, made.fused)
        used = {d.name for d in alone.dims}
        if not used <= env.keys() or used - control.input_symbols(alone):
            continue
        loop = lower(alone.entry, alone)
        bound = tuple((n, v) for n, v in env.items() if n in used)
        if (
            sum(dims.evaluate(d, env) for b in loop.params for d in (dims.mul(*b.shape),))
            > MOST_POINTS
        ):
            continue
        found.append(Subject(loop, bound, chance.randrange(1 << 20), alone))
    return chance.choice(found) if found else None


def _alone(f: Function, m: Module) -> Module:
    """Return the module of one Primitive function."""
    names = {s for p in (*f.params,) for s in dims.free(p.type.shape)}
    names |= {s for n in f.nodes for t in n.types for s in dims.free(t.shape)}
    return Module((f,), tuple(d for d in m.dims if d.name in names))
