"""Names of loop programs: C identifiers, unique in their function."""

from __future__ import annotations

import re
from collections.abc import Iterable

from didyma.codegen.keywords import KEYWORDS
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.types import DType

_PRELUDE = "typeof blockIdx threadIdx blockDim gridDim warpSize b8 NULL main"
_RESERVED = frozenset((*KEYWORDS, *_PRELUDE.split(), *DType))
# Named intrinsics end with a dtype; vector types are called f32x4.
_OTHERS = re.compile(rf"_({'|'.join(DType)}|b8)$|^({'|'.join(DType)}|b8)x\d+$")


def loop_names(taken: Iterable[str] = ()) -> Names:
    """Return a supply of names for one loop program.

    >>> names = loop_names(["n"])
    >>> [names.fresh(w) for w in ("x", "x", "n", "x.1", "float", "exp_f32")]
    ['x', 'x_1', 'n_1', 'x_1_1', 'float_', 'exp_f32_']
    """
    return Names(taken, identifier)


def identifier(wish: str) -> str:
    """Return a C identifier that is no keyword, prelude type or intrinsic.

    >>> identifier("layer/0:bias"), identifier("0"), identifier("int")
    ('layer_0_bias', 'v0', 'int_')
    """
    name = wish
    if not (wish.isidentifier() and wish.isascii() and wish[0] != "_"):
        name = re.sub(r"[^A-Za-z0-9_]", "_", wish).lstrip("_") or "v"
        if name[0].isdigit():
            name = f"v{name}"
    return f"{name}_" if name in _RESERVED or _OTHERS.search(name) else name
