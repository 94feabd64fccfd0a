"""Arguments that are mappings from names, such as ``schedules`` and ``externs``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from didyma.refimpl.errors import DidymaError

T = TypeVar("T")

CALLS = "functions of arrays"  # what implementations of external functions are


def mapping(argument: str, given: Mapping[str, T] | None, of: str) -> Mapping[str, T]:
    """Return a mapping from names that was given as an argument, an empty one for None.

    ``of`` says what its values are.  DidymaError ``bad-call`` for anything else.
    """
    found: Any = {} if given is None else given
    if not isinstance(found, Mapping) or {type(k) for k in cast("Any", found)} - {str}:
        want = f"a dict of names to {of}"
        raise DidymaError("bad-call", argument, got=f"{found!r:.60}", want=want)
    return cast("Mapping[str, T]", found)
