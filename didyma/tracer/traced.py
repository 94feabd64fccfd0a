"""What a tensor under tracing is: a value of a graph under construction."""

from __future__ import annotations

from didyma.composites.builder import Builder, Value
from didyma.refimpl.ir.types import DType
from didyma.tracer.types import AnySize, TakesSizes, plain


class Traced(TakesSizes):
    """A value of the function being traced, and the builder of its graph."""

    __slots__ = ("_builder", "_value")

    def __init__(self, builder: Builder, value: Value) -> None:
        self._builder = builder
        self._value = value

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._value.type.dtype

    @property
    def shape(self) -> tuple[AnySize, ...]:
        """Sizes; ints, or symbolic with their ranges."""
        declared = self._builder.declared()
        return tuple(plain(d, declared) for d in self._value.type.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._value.type.rank

    @property
    def device(self) -> str:
        """Name of the device; empty for the program's own."""
        return self._value.type.device

    @property
    def value(self) -> Value:
        """The graph's value."""
        return self._value

    @property
    def builder(self) -> Builder:
        """The graph under construction."""
        return self._builder

    def __repr__(self) -> str:
        return f"Tensor(%{self._value.name}: {self._value.type})"
