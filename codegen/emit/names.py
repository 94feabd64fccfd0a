"""C identifiers: readable, unique, and never reserved by C, C++, CUDA or a prelude."""

from __future__ import annotations

import re
from collections.abc import Iterable

from didyma.codegen.emit.intrinsics import SYNTAX, TABLE, TYPES, VECTORS
from didyma.codegen.keywords import KEYWORDS
from didyma.refimpl.ir.names import Names

_MACROS = "NULL assert linux unix"
# Functions that NVRTC or the C library declare without an include: a variable may hide them, but
# a kernel may not have such a name.
_FUNCTIONS = (
    "abort abs acos acosh asin asinh atan atan2 atanh calloc cbrt ceil clock copysign cos cosh div"
    " erf erfc exit exp exp2 expm1 fabs floor fma fmax fmin fmod free frexp gamma hypot isfinite"
    " isinf isnan j0 j1 jn labs ldexp lgamma log log10 log1p log2 logb main malloc max memcpy"
    " memset min modf norm normcdf pow printf remainder rint round rsqrt signbit sin sincos sinh"
    " sqrt tan tanh tgamma time trap trunc vprintf warpSize y0 y1 yn"
)
RESERVED = frozenset([*KEYWORDS, *_MACROS.split(), *SYNTAX, *TABLE, *TYPES, *VECTORS])
RESERVED_FOR_KERNELS = frozenset(_FUNCTIONS.split())
_NOT_WORD = re.compile(r"\W+", re.ASCII)


def sanitise(name: str) -> str:
    """Return the nearest C identifier; names that C reserves by their first characters change too.

    >>> sanitise("conv2d/bias:0"), sanitise("3x"), sanitise("__half"), sanitise("größe")
    ('conv2d_bias_0', 'v3x', 'v_half', 'gr_e')
    """
    word = _NOT_WORD.sub("_", name)
    while "__" in word:  # C++ reserves a double underscore anywhere
        word = word.replace("__", "_")
    return word if word and word[0].isascii() and word[0].isalpha() else f"v{word}"


def c_names(taken: Iterable[str] = ()) -> Names:
    """Return a supply of C identifiers for one scope.

    >>> names = c_names(["x"])
    >>> names.fresh("x"), names.fresh("x"), names.fresh("x_1"), names.fresh("exp_f32")
    ('x_1', 'x_2', 'x_1_1', 'exp_f32_1')
    >>> names.fresh("y:"), names.fresh("y:")
    ('y_', 'y_1')
    """
    return Names((*taken, *RESERVED), sanitise)
