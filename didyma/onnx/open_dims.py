"""Sizes that a model leaves open: named symbols, expressions over them, and their ranges."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import onnx
import sympy

from didyma.composites.builder import Builder
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.text.reader import Reader

RANGES = "didyma.dims"  # key of the metadata in which Didyma writes the ranges of symbols
MAX_TEXT = 1 << 12  # characters of a size, or of ranges; longer ones are not read


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What an import takes for granted about sizes that a model leaves open.

    They are at most ``most``; the height and width of images are multiples of ``multiple``.
    ``fixed`` gives some symbols numbers, and ``equal`` sizes over other symbols.  With
    ``bind_early``, integers that shapes are computed from are bound to symbols at once.  With
    ``runtime_checks``, a run compares data-dependent sizes that must be equal.
    """

    most: int = 1 << 20
    multiple: int = 1
    fixed: Mapping[str, int] = field(default_factory=dict[str, int])
    equal: Mapping[str, Dim] = field(default_factory=dict[str, Dim])
    bind_early: bool = False
    runtime_checks: bool = False


class OpenDims:
    """The sizes that the inputs of a model have, with a symbol for each size it leaves open."""

    def __init__(self, model: onnx.ModelProto, assumptions: Assumptions, builder: Builder) -> None:
        self.assumptions = assumptions
        self._builder = builder
        self._found: dict[str, DimVar] = {}
        self._ranges = {v.name: v for v in _ranges(model)}
        self._bare = _bare_names(model, self._ranges)

    @property
    def names(self) -> frozenset[str]:
        """Names of the symbols that inputs have."""
        return frozenset(self._found)

    @property
    def has_data_dependent(self) -> bool:
        """Whether there are symbols besides, which the run binds."""
        return len(self._builder.declared()) > len(self._found)

    def shape(self, name: str, sizes: Sequence[onnx.TensorShapeProto.Dimension]) -> tuple[Dim, ...]:
        """Return the sizes of an input.

        The height and width of an image follow its channels, or precede them if only the last axis
        has a number as its size.
        """
        last = len(sizes) == 4 and [d.dim_value > 0 for d in sizes[1:]] == [False, False, True]
        image = range(1, 3) if last else range(2, len(sizes))
        return tuple(self._dim(d, name, i, i in image) for i, d in enumerate(sizes))

    def _dim(self, d: onnx.TensorShapeProto.Dimension, name: str, axis: int, image: bool) -> Dim:
        if d.HasField("dim_value") and d.dim_value >= 0:
            return int(d.dim_value)
        if not any(ch.isalnum() for ch in d.dim_param):
            return self._symbol(f"{name}_{axis}", image)  # "?" is not a name: two may differ
        composed = None if d.dim_param in self._bare else expression(d.dim_param)
        if composed is None or isinstance(composed, sympy.Symbol) or not self._is_bound(composed):
            return self._symbol(d.dim_param, image)
        table = {dims.symbol(s): self._symbol(s, False) for s in dims.free(composed)}
        return dims.canonical(composed.subs(table)) if not isinstance(composed, int) else composed

    def _is_bound(self, d: Dim) -> bool:
        """Return whether axes bind all the symbols of a size: others, or its own axis."""
        names = dims.free(d)
        if set(names) <= self._bare:
            return True
        return len(names) == 1 and names[0] in self._ranges

    def _symbol(self, name: str, image: bool) -> Dim:
        if name in self._ranges:
            if name in self.assumptions.fixed:
                return self.assumptions.fixed[name]
            return self._declared(self._ranges[name])
        plain = "".join(ch if ch.isascii() and ch.isalnum() else "_" for ch in name) or "d"
        plain = plain if plain[0].isalpha() else f"d{plain}"
        if plain in self.assumptions.equal:
            d = self.assumptions.equal[plain]
            table = {s: self._symbol(s, False) for s in dims.free(d)}
            return dims.substitute(d, table)
        if plain in self.assumptions.fixed:
            return self.assumptions.fixed[plain]
        d = self._declared(DimVar(plain, 1, self.assumptions.most))
        return dims.mul(d, self.assumptions.multiple if image else 1)

    def _declared(self, v: DimVar) -> Dim:
        if v.name not in self._found:
            self._found[v.name] = v
            self._builder.know([v])
        return dims.symbol(v.name)


def _bare_names(model: onnx.ModelProto, ranges: Collection[str]) -> frozenset[str]:
    """Return the names that are the entire size of some axis."""
    each = (d.dim_param for i in model.graph.input for d in i.type.tensor_type.shape.dim)
    return frozenset(p for p in each if p in ranges or p.isidentifier())


def expression(text: str) -> Dim | None:
    """Parse a size such as ``n`` or ``2*n + 1``; None if the text is not a size."""
    if len(text) > MAX_TEXT:
        return None
    try:
        reader = Reader(text, "dim_param")
        d = reader.dim()
    except DidymaError:
        return None
    return None if reader.word else d


def _ranges(model: onnx.ModelProto) -> tuple[DimVar, ...]:
    """Return the ranges that Didyma wrote when it exported the model; none if there are none."""
    for p in model.metadata_props:
        if p.key == RANGES and len(p.value) <= MAX_TEXT:
            try:
                declared = Reader(p.value, "metadata").dimvars()
            except DidymaError:
                return ()
            return tuple(v for v in declared if 0 <= v.lo <= v.hi)
    return ()
