"""The protocol of peers: other implementations whose results are judged by the same bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops.bars import Contract

# The codes with which a peer refuses a program: it lacks an op or a dtype, or dislikes the inputs.
REFUSALS = frozenset(("peer-refused", "onnx-inexpressible"))


class Peer(Protocol):
    """Another implementation of tensor programs, such as ONNX Runtime."""

    name: str

    @property
    def contract(self) -> Contract | None:
        """The precision that the peer documents; None for the one that bars assume by default."""
        ...

    def run(
        self, m: Module, inputs: Sequence[Array], model: bytes | None = None
    ) -> Sequence[Array]:
        """Return the results of a module on the inputs of its entry, in their dtypes and shapes.

        ``model`` is the ONNX model that the module was imported from, where there is one; a peer
        that reads ONNX runs the model itself, others may ignore it.  The inputs must not change.

        DidymaError ``peer-refused`` for a program or inputs that the peer does not support.
        """
        ...
