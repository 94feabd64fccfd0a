"""The public functions by name, for modules that they are made from."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def function(name: str) -> Callable[..., Any] | None:
    """Return a public function of ``didyma``, looked up when it is needed; None without one."""
    api = importlib.import_module("didyma.api")
    return getattr(api, name) if name in api.__all__ else None


def names() -> tuple[str, ...]:
    """Return every public name of ``didyma``."""
    return tuple(importlib.import_module("didyma.api").__all__)
