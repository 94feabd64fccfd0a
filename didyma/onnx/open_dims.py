"""Sizes that a model leaves open: symbols by name, expressions over them, ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx
import sympy

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.text.reader import Reader
from didyma.refimpl.ops.builder import Builder

RANGES = "didyma.dims"  # key of a model's metadata: what Didyma's text says of its symbols
MAX_TEXT = 1 << 12  # characters of a size or of the ranges that are read at all


@dataclass(frozen=True, slots=True)
class Symbols:
    """What is taken to be known of sizes that a model leaves open.

    They are at most ``most``; where images have their height and width they are multiples.
    ``fixed`` gives numbers for some names; ``same`` gives names whose size others tell.
    ``eager``: integers of inputs that sizes are computed of are sizes themselves.
    ``held``: sizes that only the run tells are held equal in the run where they must be.
    """

    most: int = 1 << 20
    multiple: int = 1
    fixed: Mapping[str, int] = field(default_factory=dict[str, int])
    same: Mapping[str, Dim] = field(default_factory=dict[str, Dim])
    eager: bool = False
    held: bool = False


class Opens:
    """Turns the sizes of a model's inputs into dims."""

    def __init__(self, model: onnx.ModelProto, symbols: Symbols, builder: Builder) -> None:
        self.symbols = symbols
        self._builder = builder
        self._found: dict[str, DimVar] = {}
        self._ranges = {v.name: v for v in _ranges(model)}
        self._bare = self._names(model)

    @property
    def names(self) -> frozenset[str]:
        """Names of the symbols declared so far."""
        return frozenset(self._found)

    @property
    def bound(self) -> bool:
        """Tell whether there are symbols besides, which the run binds."""
        return len(self._builder.declared()) > len(self._found)

    def _names(self, model: onnx.ModelProto) -> frozenset[str]:
        """Names that are the whole size of some axis."""
        each = (d.dim_param for i in model.graph.input for d in i.type.tensor_type.shape.dim)
        return frozenset(p for p in each if p in self._ranges or p.isidentifier())

    def shape(self, name: str, sizes: Sequence[onnx.TensorShapeProto.Dimension]) -> tuple[Dim, ...]:
        """Return the sizes of an input.

        Of images the channels come second, or last if that is the one axis whose size is given.
        """
        last = len(sizes) == 4 and [d.dim_value > 0 for d in sizes[1:]] == [False, False, True]
        image = range(1, 3) if last else range(2, len(sizes))
        return tuple(self._dim(d, name, i, i in image) for i, d in enumerate(sizes))

    def _dim(self, d: onnx.TensorShapeProto.Dimension, name: str, axis: int, image: bool) -> Dim:
        if d.HasField("dim_value") and d.dim_value >= 0:
            return int(d.dim_value)
        if not any(ch.isalnum() for ch in d.dim_param):
            return self._symbol(f"{name}_{axis}", image)  # "?" is no name: two of them may differ
        composed = None if d.dim_param in self._bare else expression(d.dim_param)
        if composed is None or isinstance(composed, sympy.Symbol) or not self._settled(composed):
            return self._symbol(d.dim_param, image)
        table = {dims.symbol(s): self._symbol(s, False) for s in dims.free(composed)}
        return dims.canonical(composed.subs(table)) if not isinstance(composed, int) else composed

    def _settled(self, d: Dim) -> bool:
        """Tell whether other axes bind all the symbols of a size, or this one binds its own."""
        names = dims.free(d)
        if set(names) <= self._bare:
            return True
        return len(names) == 1 and names[0] in self._ranges

    def _symbol(self, name: str, image: bool) -> Dim:
        if name in self._ranges:
            if name in self.symbols.fixed:
                return self.symbols.fixed[name]
            return self._declared(self._ranges[name])
        plain = "".join(ch if ch.isascii() and ch.isalnum() else "_" for ch in name) or "d"
        plain = plain if plain[0].isalpha() else f"d{plain}"
        if plain in self.symbols.same:
            d = self.symbols.same[plain]
            table = {s: self._symbol(s, False) for s in dims.free(d)}
            return dims.substitute(d, table)
        if plain in self.symbols.fixed:
            return self.symbols.fixed[plain]
        d = self._declared(DimVar(plain, 1, self.symbols.most))
        return dims.mul(d, self.symbols.multiple if image else 1)

    def _declared(self, v: DimVar) -> Dim:
        if v.name not in self._found:
            self._found[v.name] = v
            self._builder.know([v])
        return dims.symbol(v.name)


def expression(text: str) -> Dim | None:
    """Return what a size says, such as ``n`` or ``2*n + 1``; None where that is no size."""
    if len(text) > MAX_TEXT:
        return None
    try:
        reader = Reader(text, "dim_param")
        d = reader.dim()
    except DidymaError:
        return None
    return None if reader.word else d


def _ranges(model: onnx.ModelProto) -> tuple[DimVar, ...]:
    """Ranges that Didyma wrote when it exported the model; none if they are no such text."""
    for p in model.metadata_props:
        if p.key == RANGES and len(p.value) <= MAX_TEXT:
            try:
                found = Reader(p.value, "metadata").dimvars()
            except DidymaError:
                return ()
            return tuple(v for v in found if 0 <= v.lo <= v.hi)
    return ()
