"""Names that nothing has yet: the one wished for, or that with the least number that is free."""

from __future__ import annotations

from collections.abc import Container, Iterable


def fresh(wish: str, taken: Container[str]) -> str:
    """Return a name like ``wish`` that is not taken.

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

    It remembers how far it has counted, so that many like wishes cost no search each.

    >>> names = Names(["x"])
    >>> names.fresh("x"), names.fresh("x"), names.fresh("x_1"), "x_1" in names, "y" in names
    ('x_1', 'x_2', 'x_1_1', True, False)
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._last: dict[str, int] = {}  # the number of the last name like this one

    def __contains__(self, name: str) -> bool:
        """Say whether something has this name."""
        return name in self._taken

    def fresh(self, wish: str) -> str:
        """Return a name like ``wish`` that was not given before."""
        name = wish
        while name in self._taken:
            self._last[wish] = self._last.get(wish, 0) + 1
            name = f"{wish}_{self._last[wish]}"
        self._taken.add(name)
        return name

    def take(self, names: Iterable[str]) -> None:
        """Mark names as given."""
        self._taken.update(names)
