"""Draws branches, loops and scans inside of one another, on values of one type.

What is carried outside is first, captured or given back inside, and loops run no round at times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from didyma.fuzz.builder import GraphBuilder
from didyma.fuzz.chooser import Chooser
from didyma.fuzz.control import BOOL, COUNT, Body, Drawer
from didyma.fuzz.control_rounds import before, long_body, read_again
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import CALL, IF, SCAN, WHILE, Attr
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.ops import OPS

_DEPTH = 3
_ROUNDS = (2, 0, 1)
_READ = ("add", "multiply", "maximum", "bitwise_xor")


@dataclass(frozen=True, slots=True)
class _Nest:
    """A place in a function where control nodes stand, on values of type ``t``.

    ``at`` is a whole number there, and ``depth`` how many nodes may stand inside of one another.
    """

    f: Body
    c: Chooser
    t: TensorType
    at: str
    depth: int

    def inside(self, f: Body, at: str) -> _Nest:
        """Return the place in a function that a control node here runs."""
        return _Nest(f, self.c, self.t, at, self.depth - 1)

    def work(self, given: Sequence[str], read: Sequence[str]) -> list[str]:
        """Compute values from those given and those read; return as many as are given."""
        f, c = self.f, self.c
        have = [*given, *read]
        if c.chance(2):
            have = long_body(f, c, have, self.t)
        if self.depth:
            some = [c.pick((v, have[-1], c.pick(have))) for v in given]
            have += self.node(c.pick(tuple(_ADDERS)), some, [c.pick(have)] * c.below(2))
        if c.chance(3):
            have = long_body(f, c, have[-3:], self.t)
        turn = c.below(len(given))
        kept = [*given[turn:], *given[:turn]]
        return [c.pick((have[-1 - k % len(have)], v, c.pick(have))) for k, v in enumerate(kept)]

    def node(self, kind: str, given: Sequence[str], read: Sequence[str]) -> Sequence[str]:
        """Add a control node that gives as many values as it is given, and reads others."""
        return _ADDERS[kind](self, given, read)

    def branch(self, given: Sequence[str], read: Sequence[str]) -> Sequence[str]:
        """Add a branch, of which one side may give back what it is given."""
        f, c, t = self.f, self.c, self.t
        go = f.node("less", (self.at, f.number(c.pick((1, 0, 2)), COUNT.dtype)), BOOL)
        sides: list[str] = []
        for kind in ("then", "otherwise"):
            side = Body(f.b)
            values, others = ([side.param(t) for _ in some] for some in (given, read))
            inner = self.inside(side, side.param(COUNT))
            made = inner.work(values, others) if c.below(3) else values
            sides.append(side.function(kind, *made).name)
        attrs: dict[str, Attr] = {"then": sides[0], "otherwise": sides[1], "binds": ()}
        return f.emit(IF, (go, *given, *read, self.at), [t] * len(given), attrs)

    def loop(self, given: Sequence[str], read: Sequence[str]) -> Sequence[str]:
        """Add a loop of as many rounds as have begun outside, or of a fixed number."""
        f, c = self.f, self.c
        types = (COUNT, *[self.t] * len(given), COUNT, *[self.t] * len(read))
        test, body = Body(f.b), Body(f.b)
        asked = [test.param(u) for u in types]
        go = test.node("less", (asked[0], asked[1 + len(given)]), BOOL)
        cond = test.function("test", go).name
        at, *values = [body.param(u) for u in types]
        new = self.inside(body, at).work(values[: len(given)], values[1 + len(given) :])
        more = body.node("add", (at, body.number(1, COUNT.dtype)), COUNT)
        attrs: dict[str, Attr] = {
            "cond": cond, "body": body.function("body", more, *new).name,
            "carried": 1 + len(given), "binds": (),
        }  # fmt: skip
        rounds = c.pick((f.number(c.pick(_ROUNDS), COUNT.dtype), self.at))
        first = (f.number(0, COUNT.dtype), *given, rounds, *read)
        return f.emit(WHILE, first, types[: 1 + len(given)], attrs)[1:]

    def scan(self, given: Sequence[str], read: Sequence[str]) -> Sequence[str]:
        """Add a scan of nothing but states, of a number of steps that a size may be."""
        f, c, t = self.f, self.c, self.t
        step = Body(f.b)
        values, others = ([step.param(t) for _ in some] for some in (given, read))
        new = self.inside(step, step.param(COUNT)).work(values, others)
        named = tuple(dims.symbol(v.name) for v in f.b.dims if v.lo == 0)
        lengths: Sequence[Dim] = named if named and c.chance(2) else _ROUNDS
        attrs: dict[str, Attr] = {
            "body": step.function("step", *new).name, "states": len(given), "scanned": 0,
            "length": c.pick(lengths), "index": "",
        }  # fmt: skip
        return f.emit(SCAN, (*given, *read, self.at), [t] * len(given), attrs)


_Adder = Callable[[_Nest, Sequence[str], Sequence[str]], Sequence[str]]
_ADDERS: Mapping[str, _Adder] = MappingProxyType(
    {"if": _Nest.branch, "while": _Nest.loop, "scan": _Nest.scan}
)


def _nested(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Add two or three control nodes, one inside of the other."""
    asked = b.operand(COUNT, c)
    if asked is None:
        return False
    f = Body(b)
    values = [f.param(t) for _ in range(1 + c.below(3))]
    read, at = f.param(t), f.param(COUNT)
    few = f.node("minimum", (at, f.number(2, COUNT.dtype)), COUNT)
    nest = _Nest(f, c, t, few, _DEPTH - c.below(2))
    made = f.function("nested", *nest.node(c.pick(tuple(_ADDERS)), values, (read,)))
    first = [before(b, c, name, t) for _ in values]
    given = (*first, before(b, c, name, t), asked)
    results = b.emit(CALL, given, made.result_types(), {"callee": made.name})
    read_again(b, c, (*results, *first), t)
    return True


def _across(b: GraphBuilder, c: Chooser, name: str, t: TensorType) -> bool:
    """Read, after a control node that may do nothing, what kernels before it make by themselves.

    On several streams nothing but that node makes one of them wait for another.
    """
    fitting = [op for op in _READ if t.dtype in OPS[op].dtypes]
    if not fitting:
        return False
    made = [before(b, c, name, t) for _ in range(2 + c.below(3))]
    f = Body(b)
    given = [f.param(t) for _ in range(1 + c.below(2))]
    nest = _Nest(f, c, t, f.number(c.pick((0, 0, 1)), COUNT.dtype), 1)
    inner = f.function("aside", *nest.node(c.pick((*_ADDERS, "scan")), given, ()))
    first = [c.pick((name, *made)) for _ in given]
    made += b.emit(CALL, first, inner.result_types(), {"callee": inner.name})
    for _ in range(1 + c.below(3)):
        made.append(b.op(c.pick(fitting), (c.pick(made), c.pick(made)), t))
    return True


DRAWERS: Mapping[str, Drawer] = MappingProxyType({"nested": _nested, "across": _across})
