"""Random schedule steps for a function: of every kind, most of them about what is there."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from didyma.codegen.schedule.steps import records
from didyma.codegen.schedule.steps.loops import loops_of
from didyma.codegen.schedule.steps.records import Step, Tail
from didyma.refimpl.ir.loop import AXES, Allocate, Block, For, Let, PrimFunc, Stmt
from didyma.refimpl.ir.walk import stmt_children, stmts

_FACTORS = (1, 2, 3, 4, 5, 8)
_LONG = 12  # characters of a name from which on others are given
_UNUSED = "none"  # the name of no loop


class View:
    """What a random step may name in a function."""

    def __init__(self, f: PrimFunc, chance: random.Random) -> None:
        self.chance = chance
        self.loops = [x.var.name for x in loops_of(f.body)]
        self.chains = [c for c in _chains(f.body, ()) if c]
        self.pairs = [p for b in stmts(f.body) if isinstance(b, Block) for p in _next(b)]
        self.lets = [s.var.name for s in stmts(f.body) if isinstance(s, Let)]
        self.made = [s.buffer.name for s in stmts(f.body) if isinstance(s, Allocate)]
        self.params = [b.name for b in f.params]

    def loop(self) -> str:
        """Return a loop; ``none`` where there is none."""
        return self.chance.choice(self.loops or [_UNUSED])

    def some(self, names: Sequence[str]) -> str:
        """Return one of some names; ``none`` where there are none."""
        return self.chance.choice(names or [_UNUSED])

    def nested(self, most: int) -> tuple[str, ...]:
        """Return loops that stand in one another, outermost first; at times any loops."""
        long = [c for c in self.chains if len(c) > 1]
        if not long or self.chance.random() < 0.1:
            return (self.loop(), self.loop())
        chain = self.chance.choice(long)
        count = min(len(chain), self.chance.choice((2, 2, most)))
        start = self.chance.randrange(len(chain) - count + 1)
        return chain[start : start + count]

    def fresh(self, prefix: str) -> str:
        """Return a name that no loop has."""
        return next(n for k in range(1000) if (n := f"{prefix}{k}") not in self.loops)

    def reassociates(self) -> bool:
        """Decide whether a step declares that it reassociates."""
        return self.chance.random() < 0.3


def _chains(s: Stmt, above: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the loops around each innermost statement."""
    if isinstance(s, For):
        above = (*above, s.var.name)
    children = stmt_children(s)
    return [c for x in children for c in _chains(x, above)] if children else [above]


def _next(b: Block) -> list[tuple[str, str]]:
    return [
        (x.var.name, y.var.name)
        for x, y in zip(b.body, b.body[1:], strict=False)
        if isinstance(x, For) and isinstance(y, For)
    ]


def _split(v: View) -> Step:
    loop, into = v.loop(), tuple[str, ...]()
    if len(loop) >= _LONG:
        into = (v.fresh("x"), v.fresh("y"))
    return records.Split(loop, v.chance.choice(_FACTORS), v.chance.choice(list(Tail)), into)


def _fuse(v: View) -> Step:
    names = v.nested(2)
    return records.Fuse(names, "" if len(names[0]) < _LONG else v.fresh("f"))


def _join(v: View) -> Step:
    return records.Join(v.chance.choice(v.pairs) if v.pairs else (v.loop(), v.loop()))


def _reorder(v: View) -> Step:
    names = list(v.nested(3))
    v.chance.shuffle(names)
    return records.Reorder(tuple(names), v.reassociates())


def _tile(v: View) -> Step:
    factors = v.chance.choice(_FACTORS), v.chance.choice(_FACTORS)
    return records.Tile(v.nested(2)[:2], factors, reassociates=v.reassociates())


def _unroll(v: View) -> Step:
    return records.Unroll(v.loop())


def _vectorize(v: View) -> Step:
    return records.Vectorize(v.loop())


def _parallel(v: View) -> Step:
    return records.Parallel(v.loop())


def _bind(v: View) -> Step:
    loop = v.chains[0][0] if v.chains and v.chance.random() < 0.5 else v.loop()
    return records.Bind(loop, v.chance.choice(AXES))


def _inline(v: View) -> Step:
    return records.Inline(v.some([*v.lets, *v.made]))


Draw: TypeAlias = Callable[[View], Step]
# How often each kind is drawn; steps that end a loop's further steps are seldom.
WEIGHTS: Mapping[Draw, int] = MappingProxyType(
    {
        _split: 8, _fuse: 6, _join: 6, _reorder: 10, _tile: 5, _unroll: 2, _vectorize: 2,
        _parallel: 4, _bind: 1, _inline: 3,
    }
)  # fmt: skip


def draw(f: PrimFunc, chance: random.Random) -> Step:
    """Return a random step for a function, which may be illegal."""
    kinds = list(WEIGHTS)
    (kind,) = chance.choices(kinds, [WEIGHTS[k] for k in kinds])
    return kind(View(f, chance))
