"""Random schedule steps for a function: of every kind, most of them about what is there."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias, TypeGuard

from didyma.codegen.schedule.steps import records
from didyma.codegen.schedule.steps.loops import loops_of
from didyma.codegen.schedule.steps.records import Step, Tail
from didyma.refimpl.ir.loop import (
    AXES,
    RANK,
    Allocate,
    Binary,
    Block,
    Fold,
    For,
    Let,
    Load,
    PrimFunc,
    Stmt,
    Store,
)
from didyma.refimpl.ir.lowered import written_out
from didyma.refimpl.ir.walk import exprs, stmt_children, stmts

_FACTORS = (1, 2, 3, 4, 5, 8)
_LONG = 12  # characters of a name from which on others are given
_UNUSED = "none"  # the name of no loop


class View:
    """What a random step may name in a function: in its loops, and those of its folds.

    ``size`` is the number of its statements and expressions.
    """

    def __init__(self, f: PrimFunc, chance: random.Random) -> None:
        self.chance = chance
        self.size = len(stmts(f.body)) + len(exprs(f.body))
        merging = [s for s in stmts(f.body) if isinstance(s, Fold) and s.merge is not None]
        f = written_out(f)
        self.functions = [g.name for g in f.functions]
        self.loops = [x.var.name for x in loops_of(f.body)]
        self.chains = [c for c in _chains(f.body, ()) if c]
        self.pairs = [p for b in stmts(f.body) if isinstance(b, Block) for p in _next(b)]
        self.lets = [s.var.name for s in stmts(f.body) if isinstance(s, Let)]
        self.made = [s.buffer.name for s in stmts(f.body) if isinstance(s, Allocate)]
        self.params = [b.name for b in f.params]
        loops = loops_of(f.body)
        self.staged = [
            (x.var.name, x.body.buffer.name) for x in loops if isinstance(x.body, Allocate)
        ]
        stores = [(s, x.var.name) for x in loops for s in stmts(x.body) if isinstance(s, Store)]
        self.folds = [(s.buffer, x) for s, x in stores if is_update(s)]
        self.folds += [(a.var.name, x.var.name) for s in merging for x in s.axes for a in s.accs]
        self.ends = {s.buffer: x for s, x in stores}
        shapes = {s.buffer.name: s.buffer.shape for s in stmts(f.body) if isinstance(s, Allocate)}
        self.computed = [n for n in self.made if shapes[n]]

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

    def fold(self) -> tuple[str, str]:
        """Return a buffer that a loop updates, and the loop; at times any."""
        if self.folds and self.chance.random() < 0.9:
            return self.chance.choice(self.folds)
        return self.some([*self.made, *self.params]), self.loop()

    def fresh(self, prefix: str, taken: Sequence[str] = ()) -> str:
        """Return a name that no loop has, nor one of those taken."""
        used = {*self.loops, *taken}
        return next(n for k in range(1000) if (n := f"{prefix}{k}") not in used)

    def reassociates(self) -> bool:
        """Decide whether a step declares that it reassociates."""
        return self.chance.random() < 0.3


def is_update(s: Stmt) -> TypeGuard[Store]:
    """Return whether a statement combines an element with something, by any operation."""
    if not isinstance(s, Store) or not isinstance(s.value, Binary):
        return False
    return any(isinstance(e, Load) and e.buffer == s.buffer for e in (s.value.lhs, s.value.rhs))


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


def _vectors(v: View) -> Step:
    return records.Vectors(v.loop())


def _blockize(v: View) -> Step:
    return records.Blockize(v.loop())


def _parallel(v: View) -> Step:
    return records.Parallel(v.loop())


def _bind(v: View) -> Step:
    outer = [c[0] for c in v.chains]
    loop = v.chance.choice(outer) if outer and v.chance.random() < 0.7 else v.loop()
    return records.Bind(loop, v.chance.choice((*AXES, RANK)))


def _inline(v: View) -> Step:
    return records.Inline(v.some([*v.lets, *v.made]))


def _stage(v: View) -> Step:
    memory = v.chance.choice([records.Memory.REGISTERS] * 5 + list(records.Memory))
    buffer = v.some([*v.params, *v.made])
    return records.Stage(buffer, v.loop(), memory, v.fresh("s", v.made))


def _compute_at(v: View) -> Step:
    buffer = v.some(v.computed or v.made)
    after = v.loops[v.loops.index(v.ends[buffer]) + 1 :] if buffer in v.ends else v.loops
    return records.ComputeAt(buffer, v.some(after))


def _rfactor(v: View) -> Step:
    buffer, loop = v.fold()
    return records.Rfactor(buffer, loop, v.fresh("r", v.made))


def _reduce_across(v: View) -> Step:
    by = v.chance.choice([records.Across.SHARED] * 5 + list(records.Across))
    buffer, loop = v.fold()
    return records.ReduceAcross(buffer, loop, by, v.fresh("w", v.made))


def _swizzle(v: View) -> Step:
    return records.Swizzle(v.some(v.made), v.chance.choice((2, 4, 3)))


def _pipeline(v: View) -> Step:
    loop, buffer = v.chance.choice(v.staged) if v.staged else (v.loop(), v.some(v.made))
    return records.Pipeline(loop, buffer, v.chance.choice((2, 3, 4)))


def _tensorize(v: View) -> Step:
    return records.Tensorize(v.loop(), v.some(v.functions))


Draw: TypeAlias = Callable[[View], Step]
# How often each kind is drawn; steps that end a loop's further steps are seldom.
WEIGHTS: Mapping[Draw, int] = MappingProxyType(
    {
        _split: 8, _fuse: 6, _join: 6, _reorder: 10, _tile: 5, _unroll: 2, _vectorize: 2,
        _parallel: 4, _bind: 1, _inline: 3,
        _vectors: 2, _blockize: 1,
        _stage: 10, _compute_at: 4, _rfactor: 4, _reduce_across: 2, _swizzle: 2, _pipeline: 3,
    }
)  # fmt: skip


def of_forms(f: PrimFunc, chance: random.Random) -> Step:
    """Return a random step that makes a vector or a block, which may be illegal."""
    return chance.choice((_vectors, _vectors, _blockize))(View(f, chance))


def draw(v: View) -> Step:
    """Return a random step for the function of a view, which may be illegal."""
    weights = {**WEIGHTS, _tensorize: 6} if v.functions else WEIGHTS
    kinds = list(weights)
    (kind,) = v.chance.choices(kinds, [weights[k] for k in kinds])
    return kind(v)
