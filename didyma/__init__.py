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

import builtins
import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from didyma.refimpl.version import VERSION

__version__ = VERSION
_SPACES = ("complex", "fft", "linalg", "signal", "strategies", "testing")

if TYPE_CHECKING:
    from didyma.api import *  # noqa: F403  # its imports are the public names
else:

    def __getattr__(name: str) -> Any:
        """Find a public name when it is first used, so that the command line starts at once.

        What a star import takes leaves Python's own functions alone.
        """
        if name in _SPACES:
            return importlib.import_module(f"didyma.{name}")
        if (name.startswith("_") and name != "__all__") or find_spec(f"didyma.{name}"):
            raise AttributeError(f"module 'didyma' has no attribute {name!r}")
        api = importlib.import_module("didyma.api")
        if name == "__all__":
            return [n for n in api.__all__ if not hasattr(builtins, n)]
        if name in api.__all__:
            return getattr(api, name)
        raise importlib.import_module("didyma.functions.suggestions").unknown(
            "dd", name, api.__all__
        )


def __dir__() -> list[str]:
    return [*importlib.import_module("didyma.api").__all__, "__version__"]
