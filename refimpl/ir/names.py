"""Supplies of unused names: the name wished for, or the same with the least free number."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable


def fresh(wish: str, taken: Container[str]) -> str:
    """Return ``wish``, or the same with the least number that makes it free.

    >>> fresh("x", {"y"}), fresh("x", {"x", "x_1"})
    ('x', 'x_2')
    """
    name, n = wish, 0
    while name in taken:
        n += 1
        name = f"{wish}_{n}"
    return name


class Names:
    """A supply of distinct names; made per scope of names, never shared.

    ``spell`` turns what is wished for into a name that the scope allows.  The supply remembers how
    far it has counted, so that many equal wishes cost no search each.

    >>> names = Names(["x"])
    >>> names.fresh("x"), names.fresh("x"), names.fresh("x_1"), "x_1" in names, "y" in names
    ('x_1', 'x_2', 'x_1_1', True, False)
    """

    def __init__(
        self, taken: Iterable[str] = (), spell: Callable[[str], str] | None = None
    ) -> None:
        self._taken = set(taken)
        self._spell = spell
        self._last: dict[str, int] = {}  # the number of the last name like this one

    def __contains__(self, name: str) -> bool:
        """Return whether a name is taken."""
        return name in self._taken

    def fresh(self, wish: str) -> str:
        """Return ``wish``, or the same with a number where that name is taken."""
        wish = wish if self._spell is None else self._spell(wish)
        name = wish
        while name in self._taken:
            self._last[wish] = self._last.get(wish, 0) + 1
            name = f"{wish}_{self._last[wish]}"
            name = name if self._spell is None else self._spell(name)
        self._taken.add(name)
        return name

    def numbered(self, prefix: str) -> str:
        """Return the first free one of ``prefix0``, ``prefix1`` and so on."""
        number = self._last.get(prefix, -1) + 1
        while f"{prefix}{number}" in self._taken:
            number += 1
        self._last[prefix] = number
        self._taken.add(f"{prefix}{number}")
        return f"{prefix}{number}"

    def take(self, names: Iterable[str]) -> None:
        """Mark names as taken."""
        self._taken.update(names)
