"""The face of Didyma: trace or load a program, then compile, interpret or check it.

>>> import numpy as np
>>> import didyma as dd
>>> n = dd.dim("n", 1, 8)
>>> @dd.trace
... def scale(x: dd.f32[n, 2]) -> dd.f32[n, 2]:
...     return x * 2.0
>>> dd.compile(scale, engine="host")(np.float32([[1, 2]]))
array([[2., 4.]], dtype=float32)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from didyma.api import *  # noqa: F403  # the names are in its __all__


__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Find a public name when it is first used, so that the command line starts at once."""
    if not name.startswith("_"):
        api = importlib.import_module("didyma.api")
        if name in api.__all__:
            return getattr(api, name)
    raise AttributeError(f"module 'didyma' has no attribute {name!r}")
