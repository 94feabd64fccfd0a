"""Names of loop programs: C identifiers, unique in their function."""

from __future__ import annotations

import re

from didyma.refimpl.ir.names import Names as _Names
from didyma.refimpl.ir.types import DType

_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        "auto break case char const continue default do double else enum extern float for "
        "goto if inline int long register restrict return short signed sizeof static "
        "struct switch typedef union unsigned void volatile while asm typeof bool true "
        "false this new delete class template operator namespace using public private "
        "protected virtual friend try catch throw and or not xor blockIdx threadIdx "
        "blockDim gridDim warpSize b8 NULL main " + " ".join(DType),
    )
)
# Named intrinsics end with a dtype; vector types are called f32x4.
_OTHERS = re.compile(rf"_({'|'.join(DType)}|b8)$|^({'|'.join(DType)}|b8)x\d+$")


class Names(_Names):
    """A supply of fresh names; made per function."""

    def fresh(self, wish: str) -> str:
        """Return the wish if it is a free identifier, else the nearest thing to it.

        >>> names = Names(["n"])
        >>> [names.fresh(w) for w in ("x", "x", "n", "x.1", "float", "exp_f32")]
        ['x', 'x_1', 'n_1', 'x_1_1', 'float_', 'exp_f32_']
        """
        return super().fresh(identifier(wish))

    def numbered(self, prefix: str) -> str:
        """Return the first free one of ``prefix0``, ``prefix1`` and so on."""
        number = self._last.get(prefix, -1) + 1
        while f"{prefix}{number}" in self._taken:
            number += 1
        self._last[prefix] = number
        self._taken.add(f"{prefix}{number}")
        return f"{prefix}{number}"


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
    return f"{name}_" if name in _KEYWORDS or _OTHERS.search(name) else name
