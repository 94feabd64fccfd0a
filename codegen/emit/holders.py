"""The Python variables of a wrapper that hold allocations, and the values in each."""

from __future__ import annotations

from dataclasses import dataclass, field

from didyma.refimpl.ir.aliases import strided
from didyma.refimpl.ir.lines import operands, walk
from didyma.refimpl.ir.program import Program, Return, Strided, View


@dataclass(slots=True)
class Holders:
    """Maps values to the variables that hold their allocations, while lines are emitted.

    ``values`` maps each variable that holds an allocation to the values that own bytes of it, and
    ``arenas`` the arenas of the current block to the engine's method that frees them.
    """

    values: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    arenas: dict[str, str] = field(default_factory=dict[str, str])
    _holder: dict[str, str] = field(default_factory=dict[str, str])  # of a value; "" in an arena

    def copy(self) -> Holders:
        """Return a copy, for the other branch of an ``If``."""
        values = {k: set(v) for k, v in self.values.items()}
        return Holders(values, dict(self.arenas), dict(self._holder))

    def own(self, v: str, name: str) -> None:
        """Record that a variable holds the allocation of a value."""
        self._holder[v] = name
        self.values[name] = {v}

    def place(self, v: str) -> None:
        """Record that a value lies in an arena."""
        self._holder[v] = ""

    def view(self, v: str, of: str) -> None:
        """Record that a value is a view of another."""
        self._holder[v] = self._holder[of]

    def holder(self, v: str) -> str:
        """Return the variable that holds the allocation of a value."""
        return self._holder[v]

    def take_over(self, v: str, over: str) -> str:
        """Record that a value takes over the allocation of its owner; return its variable."""
        name = self._holder[v] = self._holder[over]
        self.values[name].discard(over)
        self.values[name].add(v)
        return name

    def inherit(self, v: str, source: str) -> None:
        """Record that an output takes the bytes of an operand, in an arena or not."""
        if self._holder[source]:
            self.take_over(v, source)
        else:
            self.place(v)

    def free(self, v: str) -> str:
        """Record that a value is dead; return the variable of an allocation to be freed, or ""."""
        name = self._holder[v]
        if not name:
            return ""
        self.values[name].discard(v)
        if self.values[name]:
            return ""
        del self.values[name]
        return name

    def others(self, v: str) -> str:
        """Return the variable whose allocation outlives a dead value."""
        return self._holder[v]

    def release(self, v: str) -> str:
        """Forget a carried value; return the variable that held its allocation, or ""."""
        name = self._holder.pop(v, "")
        return name if name and self.values.pop(name, None) is not None else ""

    def hand_over(self, v: str) -> None:
        """Forget a value whose allocation a carried value takes."""
        self.values.pop(self._holder.pop(v), None)


def last_uses(p: Program) -> dict[int, list[str]]:
    """Return the inputs that no line after one reads, views of them included, by its index.

    An input that is only returned, as it is or by strides, is left out.
    """
    last = dict.fromkeys(p.inputs, 0) | _reads(p)
    found: dict[int, list[str]] = {}
    for v, i in last.items():
        if v not in unread(p):
            found.setdefault(i, []).append(v)
    return found


def unread(p: Program) -> tuple[str, ...]:
    """Return the inputs that no line reads, but that are returned, as they are or by strides."""
    return tuple(v for v in shared(p) if v in p.inputs and v not in _reads(p))


def shared(p: Program) -> tuple[str, ...]:
    """Return the values that results share: inputs, and what is returned more than once."""
    shown = strided(p)
    owners = [shown[v].of if v in shown else v for v in p.results]
    several = (v for v in owners if v in p.inputs or owners.count(v) > 1)
    by_strides = (s.of for s in shown.values() if s.of in owners)
    return tuple(dict.fromkeys((*several, *by_strides)))


def _reads(p: Program) -> dict[str, int]:
    """Return the inputs that lines read, views of them included, with the last such line."""
    of = {v: v for v in p.inputs}  # the input that a value shows
    last: dict[str, int] = {}
    for i, line in enumerate(p.lines):
        for s in walk((line,)):
            if isinstance(s, Return | Strided):
                continue
            last.update((of[v], i) for v in operands(s) if v in of)
            if isinstance(s, View) and s.of in of:
                of[s.value] = of[s.of]
    return last
