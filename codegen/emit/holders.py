"""Which Python variable holds each allocation of a wrapper, and who lives in it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Holders:
    """Bookkeeping while lines are written.

    ``held`` has for each variable that holds an allocation the values that own bytes of it;
    ``arenas`` the arenas of the present block, with the engine's method that takes them back.
    """

    held: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    arenas: dict[str, str] = field(default_factory=dict[str, str])
    _holder: dict[str, str] = field(default_factory=dict[str, str])  # of a value; "" in an arena
    _owner: dict[str, str] = field(default_factory=dict[str, str])  # view -> whose bytes it shows

    def copy(self) -> Holders:
        """Return a bookkeeping of its own, for the other branch."""
        held = {k: set(v) for k, v in self.held.items()}
        return Holders(held, dict(self.arenas), dict(self._holder), dict(self._owner))

    def own(self, v: str, name: str) -> None:
        """A value has an allocation of its own, in a variable."""
        self._holder[v] = name
        self.held[name] = {v}

    def place(self, v: str) -> None:
        """A value lies in an arena."""
        self._holder[v] = ""

    def view(self, v: str, of: str) -> None:
        """A value shows bytes of another."""
        self._holder[v] = self._holder[of]
        self._owner[v] = self._owner.get(of, of)

    def holder(self, v: str) -> str:
        """The variable that holds the allocation of a value."""
        return self._holder[v]

    def take_over(self, v: str, over: str) -> str:
        """Let a value have the allocation of another, and return its variable."""
        name = self._holder[v] = self._holder[over]
        self.held[name].discard(self._owner.get(over, over))
        self.held[name].add(v)
        return name

    def inherit(self, v: str, source: str) -> None:
        """Let an output have the bytes of an operand, wherever they are."""
        if self._holder[source]:
            self.take_over(v, source)
        else:
            self.place(v)

    def free(self, v: str) -> str:
        """A value is dead: return the variable whose allocation goes back, if it does."""
        name = self._holder[v]
        if not name:
            return ""
        self.held[name].discard(v)
        if self.held[name]:
            return ""
        del self.held[name]
        return name

    def others(self, v: str) -> str:
        """The variable whose allocation outlives a dead value."""
        return self._holder[v]

    def release(self, v: str) -> str:
        """Forget a value that is carried anew; return its variable if it was there."""
        name = self._holder.pop(v, "")
        return name if name and self.held.pop(name, None) is not None else ""

    def hand_over(self, v: str) -> None:
        """Forget a value whose allocation another takes."""
        self.held.pop(self._holder.pop(v), None)
