"""The names that a node of a model may refer to, and the operator sets that it is written in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import onnx

from didyma.onnx.context import Context
from didyma.onnx.values import Entry


def _unchanged(entry: Entry) -> Entry:
    return entry


@dataclass(frozen=True, slots=True)
class Environment:
    """What the names of a graph stand for; names of graphs around it are captured when used."""

    own: dict[str, Entry] = field(default_factory=dict[str, Entry])
    outer: Environment | None = None
    capture: Callable[[Entry], Entry] = _unchanged

    def __contains__(self, name: str) -> bool:
        return name in self.own or (self.outer is not None and name in self.outer)

    def __getitem__(self, name: str) -> Entry:
        if name in self.own or self.outer is None:
            return self.own[name]
        return self.capture(self.outer[name])


@dataclass(frozen=True, slots=True)
class Scope:
    """What the nodes of a graph may refer to, and the operator sets that they are written in."""

    names: Environment
    context: Context
    opsets: Mapping[str, int]
    attrs: Mapping[str, onnx.AttributeProto]  # of the call of a function
    depth: int = 0

    @property
    def opset(self) -> int:
        """Version of the operator set of ONNX itself."""
        return self.opsets.get("", 1)
