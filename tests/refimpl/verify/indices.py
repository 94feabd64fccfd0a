"""Random kernels of one load and one store, and what their threads touch, by enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.text import parse_loop
from didyma.refimpl.verify import loop

SIZE, DATA = 40, (0, 2, -1, 3, 1, 1)
Env: TypeAlias = Mapping[str, int]


@dataclass(frozen=True)
class Index:
    """An index expression as text, and its value."""

    text: str
    value: Callable[[Env], int]


OPS: dict[str, Callable[[int, int], int]] = {
    "{} + {}": int.__add__,
    "{} - {}": int.__sub__,
    "{} * {}": int.__mul__,
    "{} // {}": lambda a, b: a // b if b else 0,
    "{} % {}": lambda a, b: a % b if b else 0,
    "min({}, {})": min,
    "max({}, {})": max,
    "i64(i32({})) + {}": int.__add__,
    "i64(f64({})) + {}": int.__add__,
    "select({} < 2, {}, 1)": lambda a, b: b if a < 2 else 1,
    "idx[({} + {}) % 6]": lambda a, b: DATA[(a + b) % 6],
}


def leaf(r: Random) -> Index:
    """Draw a loop variable, a size or a number."""
    name = r.choice(["i", "i", "j", "j", "n", ""])
    number = r.choice([0, 1, 2, 3, 4, 6])
    return Index(name, lambda env: env[name]) if name else Index(str(number), lambda _: number)


def draw(r: Random, depth: int) -> Index:
    """Draw an expression; half of them are sums with a part for each loop."""
    if depth == 0:
        return leaf(r)
    a, b = draw(r, depth - 1), draw(r, depth - 1 if r.random() < 0.5 else 0)
    text = r.choice([*OPS, "{} + {}", "{} + {}", "{} * {}"])
    op = OPS[text]
    return Index(f"({text.format(a.text, b.text)})", lambda env: op(a.value(env), b.value(env)))


class Kernel:
    """``out[store] = a[load]`` in two loops, where both are in bounds."""

    def __init__(self, r: Random) -> None:
        self.serial = r.random() < 0.3  # the inner loop
        self.n = r.choice([0, 1, 4, 6])
        self.extents = r.choice([1, 2, 5]), r.choice([1, 3, 4])
        radix = Index(f"(i * {self.extents[1]} + j)", lambda e: e["i"] * self.extents[1] + e["j"])
        self.store = radix if r.random() < 0.2 else draw(r, r.choice([1, 2, 2, 3]))
        if r.random() < 0.3:
            more, inner = draw(r, 1), self.store
            text = f"({radix.text} + {inner.text} - {more.text})"
            value = radix.value
            self.store = Index(text, lambda e: value(e) + inner.value(e) - more.value(e))
        self.load = self.store if r.random() < 0.8 else draw(r, 1)

    @property
    def text(self) -> str:
        """The kernel's text."""
        at, source = self.store.text, self.load.text
        kind = "" if self.serial else "parallel"
        inside = " and ".join(f"0 <= {x} and {x} < {SIZE}" for x in (at, source))
        return f"""primfunc @k(a: f32[{SIZE}], idx: i64[6], out: f32[{SIZE}]) writes (out)
    dims n in [0, 6] {{
  for i in {self.extents[0]} parallel {{
    for j in {self.extents[1]} {kind} {{ if {inside} {{ out[{at}] = a[{source}] }} }}
  }}
}}"""

    def parsed(self) -> PrimFunc:
        """Return the verified kernel."""
        (f,) = parse_loop(self.text)
        loop.verify(f)
        return f

    def harms(self) -> bool:
        """Return whether a thread touches an element that another stores, or loads it too late."""
        loads: dict[int, list[tuple[object, int]]] = {}
        stores: dict[int, list[tuple[object, int]]] = {}
        for time, (i, j) in enumerate(itertools.product(*map(range, self.extents))):
            env = {"i": i, "j": j, "n": self.n}
            thread = i if self.serial else (i, j)
            at, source = self.store.value(env), self.load.value(env)
            if 0 <= at < SIZE and 0 <= source < SIZE:
                loads.setdefault(source, []).append((thread, time))
                stores.setdefault(at, []).append((thread, time))
        return any(
            thread != other or earlier < time
            for at in loads.keys() & stores.keys()
            for thread, time in loads[at]
            for other, earlier in stores[at]
        )
