"""What templates have in common when they say which functions they suit, and are best for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from didyma.codegen.codegens import Asked, Template

R = TypeVar("R")


def suited(found: Callable[[Asked], R | None]) -> Callable[[Asked], R]:
    """Return a finder of what a function is to a template, for functions that the template suits.

    It finds that once, since templates ask for each of many points.  AssertionError for a function
    that the template does not suit: the template's ``space`` has been asked before.
    """

    def certain(asked: Asked) -> R:
        what = asked.once(found)
        assert what is not None, f"{found.__module__} does not suit @{asked.function.name}"
        return what

    return certain


def is_faster(asked: Asked, mine: Template, rival: Template) -> bool:
    """Return whether the model of a template estimates no more time than that of another."""
    one, other = (min(t.costs(asked), default=float("inf")) for t in (mine, rival))
    return one <= other
