"""Machine code in this process, freed when nothing refers to it."""

from __future__ import annotations

import weakref
from collections.abc import Callable


class Native:
    """Addresses of functions by name, valid until ``close`` or until this object dies."""

    __slots__ = ("__weakref__", "_release", "addresses")

    def __init__(self, release: Callable[[], object]) -> None:
        self.addresses: dict[str, int] = {}
        self._release = weakref.finalize(self, release)
        self._release.atexit = False  # the process gives its memory back by itself

    def close(self) -> None:
        """Free the code; its functions may not be called again."""
        self.addresses.clear()
        self._release()
