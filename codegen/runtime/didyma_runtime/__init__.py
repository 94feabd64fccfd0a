"""What a module written by Didyma needs to run.  It imports NumPy alone.

A copy of this package stands beside each module, and Didyma runs its own modules with the same.
"""

from .checks import (
    arrays,
    equal,
    finite,
    first,
    floordiv,
    floormod,
    in_range,
    number,
    numbered,
    routine,
    size,
    solve,
    taken,
    truth,
    unload,
    within,
)
from .command import main, random_inputs
from .dtypes import beside, checked, constant, part
from .host import Kernel, load
from .refused import Refused

__all__ = [
    "Kernel",
    "Refused",
    "arrays",
    "beside",
    "checked",
    "constant",
    "equal",
    "finite",
    "first",
    "floordiv",
    "floormod",
    "in_range",
    "load",
    "main",
    "number",
    "numbered",
    "part",
    "random_inputs",
    "routine",
    "size",
    "solve",
    "taken",
    "truth",
    "unload",
    "within",
]
