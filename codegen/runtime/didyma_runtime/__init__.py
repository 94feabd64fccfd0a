"""What a module written by Didyma needs to run.  It imports NumPy alone.

A copy of this package stands beside each module, and Didyma runs its own modules with the same.
"""

from .buckets import Buckets
from .checks import (
    arrays,
    equal,
    finite,
    first,
    flat,
    floordiv,
    floormod,
    in_range,
    number,
    numbered,
    routine,
    size,
    solve,
    strict,
    taken,
    truth,
    unload,
    within,
)
from .command import main, random_inputs
from .devices import Devices, placed
from .dtypes import beside, checked, constant, part, strided
from .externs import Extern
from .kernels import Kernel
from .loading import load
from .maps import Described
from .refused import Refused
from .replay import Tapes
from .rows import Laid, pitch, row, stride, strides
from .watch import Launch, dumped, lines, locate, traced, watched

__all__ = [
    "Buckets",
    "Described",
    "Devices",
    "Extern",
    "Kernel",
    "Laid",
    "Launch",
    "Refused",
    "Tapes",
    "arrays",
    "beside",
    "checked",
    "constant",
    "dumped",
    "equal",
    "finite",
    "first",
    "flat",
    "floordiv",
    "floormod",
    "in_range",
    "lines",
    "load",
    "locate",
    "main",
    "number",
    "numbered",
    "part",
    "pitch",
    "placed",
    "random_inputs",
    "routine",
    "row",
    "size",
    "solve",
    "strict",
    "stride",
    "strided",
    "strides",
    "taken",
    "traced",
    "truth",
    "unload",
    "watched",
    "within",
]
