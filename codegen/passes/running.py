"""Compute a few long running sums and products in blocks, so that all of a device has work."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from didyma.codegen.decisions import Heard, Match, unheard
from didyma.codegen.options import DEFAULT, Options
from didyma.composites.builder import Builder, Value
from didyma.composites.composite import like
from didyma.refimpl.ir.graph import PRIMITIVE, Function, Module, Node, rename
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.types import DType, TensorType

BLOCKED = "a long run in blocks"
MANY = 32  # lines from which on each has threads enough
WAITED = 1 << 20  # elements up to which waiting blocks, which read once, are fastest
PADDED = 1 << 22  # likewise where lines would have to be padded
RUNS = (Match("cumulative_sum"), Match("cumulative_prod"))


def block_runs(m: Module, options: Options = DEFAULT, heard: Heard = unheard) -> Module:
    """Scan blocks of a few long lines, then the blocks' totals, and combine (G. Blelloch, 1990).

    A line is otherwise the work of one block of threads, which many of them suit better.

    This changes the order of additions or multiplications, which both ops leave free.  f16 and bf16
    are computed in f32 and rounded at the end.  Blocks divide the line if a length of theirs does,
    and each element is then read twice and written once; else the line is padded.  What is cast
    before it is folded is cast in its blocks.  Axes of symbolic size are left alone, and so are
    Primitive functions, which fold at most once, and lines that blocks of one kernel may share.
    """
    long, waits = options.graph.long_run, options.kernels.waits and options.device.waits
    functions = tuple(_function(f, long, waits, heard) for f in m.functions)
    same = all(a is b for a, b in zip(functions, m.functions, strict=True))
    return m if same else replace(m, functions=functions)


def _function(f: Function, long: int, waits: bool, heard: Heard) -> Function:
    runs = [] if PRIMITIVE in f.attr else [n for n in f.nodes if _is_long(n, long, waits)]
    if not runs:
        return f
    for n in runs:
        heard(BLOCKED, n.results[0])
    types = f.types()
    supply = Names(types)
    casts = {n.results[0]: n.args[0] for n in f.nodes if _is_cast_of_bytes(n, types)}
    nodes: list[Node] = []
    for n in f.nodes:
        if _is_long(n, long, waits):
            source = casts.get(n.args[0], n.args[0])
            nodes += _blocked(n, source, types, supply, long)
        else:
            nodes.append(n)
    return replace(f, nodes=tuple(nodes))


def _is_long(n: Node, long: int, waits: bool) -> bool:
    if n.op not in _PARTS:
        return False
    axis = int(str(n.attr["axis"]))
    size = n.types[0].shape[axis]
    if not isinstance(size, int) or size < long:
        return False
    if waits and all(d == 1 for d in n.types[0].shape[axis + 1 :]):
        most = PADDED if size % _length(size, long) else WAITED
        if math.prod(d for d in n.types[0].shape if isinstance(d, int)) <= most:
            return False  # blocks of a kernel share the line
    others = (d for i, d in enumerate(n.types[0].shape) if i != axis)
    return math.prod(d if isinstance(d, int) else MANY for d in others) < MANY


def _is_cast_of_bytes(n: Node, types: Mapping[str, TensorType]) -> bool:
    """Return whether a node casts elements that are whole bytes, which any reshape leaves alone.

    A cast to a dtype that is computed in a wider one rounds, which blocks would leave out.
    """
    to = n.types[0].dtype if n.op == "cast" else None
    return to is not None and to.compute is to and types[n.args[0]].dtype.bits >= 8


def _blocked(
    n: Node, source: str, types: Mapping[str, TensorType], supply: Names, long: int
) -> Sequence[Node]:
    """Return nodes that compute the same in blocks, under fresh names.

    ``source`` is the operand, or what the operand is a cast of.
    """
    b = Builder()
    x, dtype = b.param(source, types[source]), types[n.args[0]].dtype
    run = _Blocks(b, n.op, bool(n.attr["reverse"]), long)
    y = run.along(x, int(str(n.attr["axis"])), bool(n.attr["exclusive"]), dtype)
    made = b.function("run", (y,)).nodes
    names: dict[str, str] = {}
    for r in (r for m in made for r in m.results):
        names[r] = n.results[0] if r == y.name else supply.fresh(f"{n.results[0]}_{r}")
    return [rename(m, names) for m in made]


def _length(n: int, long: int) -> int:
    """Return the length of the blocks of a line: one that divides ``n``, if there is any.

    Totals so few that they need no blocks of their own come first, then blocks that begin where
    wide loads may, then short ones, of which there are many.
    """
    lengths = range(long // 4, long)
    whole = [d for d in lengths if n % d == 0]
    return max(whole if whole else lengths, key=lambda d: (-(-n // d) < long, math.gcd(d, 32), -d))


@dataclass(frozen=True, slots=True)
class _Blocks:
    b: Builder
    op: str  # cumulative_sum or cumulative_prod
    reverse: bool
    long: int

    def along(self, x: Value, axis: int, exclusive: bool, dtype: DType) -> Value:
        """Return the running fold in ``dtype`` along an axis, in blocks if it is long."""
        shape = x.type.shape
        n = shape[axis]
        assert isinstance(n, int)
        if n < self.long:
            return self.b(self.op, (x,), axis=axis, exclusive=exclusive, reverse=self.reverse)
        fold, join, unit = _PARTS[self.op]
        block = _length(n, self.long)
        count = -(-n // block)
        lead, trail = shape[:axis], shape[axis + 1 :]
        whole = self._padded(x, axis, count * block - n, unit)
        # Casts stand at blocks: a kernel that scans them computes a cast in place, but no reshape.
        blocks = self._cast(
            self.b("reshape", (whole,), shape=(*lead, count, block, *trail)), dtype.compute
        )
        inner = self.b(self.op, (blocks,), axis=axis + 1, exclusive=exclusive, reverse=self.reverse)
        totals = self.b(fold, (blocks,), axes=(axis + 1,), keepdims=False)
        before = self.along(totals, axis, exclusive=True, dtype=dtype.compute)
        beside = self.b("reshape", (before,), shape=(*lead, count, 1, *trail))
        spread = self.b("broadcast_to", (beside,), shape=blocks.type.shape)
        joined = self._cast(self.b(join, (spread, inner)), dtype)
        flat = self.b("reshape", (joined,), shape=(*lead, count * block, *trail))
        if count * block == n:
            return flat
        zeros, ones = (0,) * len(shape), (1,) * len(shape)
        return self.b("slice", (flat,), starts=zeros, stops=shape, steps=ones)

    def _cast(self, x: Value, dtype: DType) -> Value:
        return x if x.type.dtype is dtype else self.b("cast", (x,), dtype=dtype)

    def _padded(self, x: Value, axis: int, more: int, unit: int) -> Value:
        if not more:
            return x
        high = tuple(more if i == axis else 0 for i in range(x.type.rank))
        low = (0,) * x.type.rank
        fill = like(self.b, unit, x)
        return self.b("pad", (x, fill), low=low, high=high, mode="constant")


_PARTS = {"cumulative_sum": ("sum", "add", 0), "cumulative_prod": ("prod", "multiply", 1)}
