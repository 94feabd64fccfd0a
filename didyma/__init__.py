"""The face of Didyma: trace or load a program, then compile, interpret or check it.

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
    from didyma.functions import *
    from didyma.program import Executable, Interpreted, Program, check, compile, interpret, load, trace
    from didyma.types import Size, bf16, bool_, dim, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64

_MODULES = ("didyma.types", "didyma.program", "didyma.functions", "didyma.composites", "didyma.tensor")
_PLAIN = ("abs", "all", "any", "bool", "max", "min", "pow", "round", "slice", "sum")


def __getattr__(name: str) -> Any:
    """Find a public name when it is first used, so that the command line starts at once."""
    wanted = f"{name}_" if name in _PLAIN else name
    if not name.startswith("_"):
        for module in _MODULES:
            found = importlib.import_module(module)
            if hasattr(found, wanted):
                return getattr(found, wanted)
    raise AttributeError(f"module 'didyma' has no attribute {name!r}")
