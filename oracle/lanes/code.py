"""Compiled expressions: their values where those are constant, else the code that computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from didyma.oracle.lanes.races import Mask
from didyma.refimpl.interp.scalar import Fn, Value
from didyma.refimpl.ir.loop import BinaryOp

Eval: TypeAlias = Callable[[Mask], Value]
Interval: TypeAlias = tuple[int, int] | None  # both ends included; None: nothing known


class Code:
    """A compiled expression: its value if that is constant, else a function that computes it.

    ``interval`` bounds an index; ``uniform`` says that all lanes see one (0-d) value; ``loads``
    that evaluation may fault, so that it must see the mask of its own lanes.
    """

    __slots__ = ("interval", "known", "loads", "run", "uniform", "value")

    def __init__(
        self, run: Eval, uniform: bool, loads: bool = False, interval: Interval = None
    ) -> None:
        self.run = run
        self.uniform = uniform
        self.loads = loads
        self.interval = interval
        self.known = False
        self.value: Value = None


def known(value: Value, interval: Interval = None) -> Code:
    """Return the code of a value that is there already."""

    def run(mask: Mask) -> Value:
        del mask
        return value

    code = Code(run, value.ndim == 0, False, interval)
    code.known = True
    code.value = value
    return code


def apply1(f: Fn, a: Code, interval: Interval = None) -> Code:
    """Code of ``f(a)``."""
    if a.known:
        return known(f(a.value), interval)
    x = a.run

    def run(mask: Mask) -> Value:
        return f(x(mask))

    return Code(run, a.uniform, a.loads, interval)


def apply2(f: Fn, a: Code, b: Code, interval: Interval = None) -> Code:
    """Code of ``f(a, b)``."""
    if a.known and b.known:
        return known(f(a.value, b.value), interval)
    x, y, left, right = a.run, b.run, a.value, b.value

    def known_left(mask: Mask) -> Value:
        return f(left, y(mask))

    def known_right(mask: Mask) -> Value:
        return f(x(mask), right)

    def run(mask: Mask) -> Value:
        return f(x(mask), y(mask))

    chosen = known_left if a.known else known_right if b.known else run
    return Code(chosen, a.uniform and b.uniform, a.loads or b.loads, interval)


def apply(f: Fn, args: tuple[Code, ...]) -> Code:
    """Code of ``f(*args)``."""
    if all(a.known for a in args):
        return known(f(*(a.value for a in args)))
    runs = [a.run for a in args]

    def run(mask: Mask) -> Value:
        return f(*[r(mask) for r in runs])

    return Code(run, all(a.uniform for a in args), any(a.loads for a in args))


def remembering(a: Code, clock: list[int]) -> Code:
    """Code that evaluates again only after the clock has moved."""
    get = a.run
    last = -1
    value: Value = None

    def run(mask: Mask) -> Value:
        nonlocal last, value
        if last != clock[0]:
            value = get(mask)
            last = clock[0]
        return value

    return Code(run, a.uniform, a.loads, a.interval)


def index_interval(op: BinaryOp, a: Interval, b: Interval) -> Interval:
    """Bounds of an index operation, where they follow from the operands' at once.

    >>> index_interval("add", (0, 3), (1, 1)), index_interval("floormod", None, (5, 5))
    ((1, 4), (0, 4))
    """
    if b is None:
        return None
    if op == "floormod":
        return (0, b[1] - 1) if b[0] > 0 else None
    if a is None:
        return None
    if op == "add":
        return a[0] + b[0], a[1] + b[1]
    if op == "sub":
        return a[0] - b[1], a[1] - b[0]
    if op == "mul":
        corners = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
        return min(corners), max(corners)
    if op == "floordiv" and b[0] == b[1] > 0:
        return a[0] // b[0], a[1] // b[0]
    if op == "min":
        return min(a[0], b[0]), min(a[1], b[1])
    if op == "max":
        return max(a[0], b[0]), max(a[1], b[1])
    return None
