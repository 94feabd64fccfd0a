"""``to``: the same tensor on another device."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.loop import Expr
from didyma.refimpl.ir.types import ALL as EVERY
from didyma.refimpl.ir.types import Array, TensorType
from didyma.refimpl.ops.attributes import attributes, device
from didyma.refimpl.ops.examples import example
from didyma.refimpl.ops.movement import MOVED, moving
from didyma.refimpl.ops.rules import attr_error
from didyma.refimpl.ops.spec import Chooser, Index, Kind, Op, Read, Sample, Use

NAME = re.compile(r"(host|cuda):(0|[1-9][0-9]*)")
WANTED = "`host:N` or `cuda:N`, or nothing for the program's own device"


@attributes
class Device:
    """Where the result is."""

    device: str = device("device of the result; nothing for the program's own")


def _infer(types: Sequence[TensorType], a: Device) -> TensorType:
    if a.device and not NAME.fullmatch(a.device):
        raise attr_error("to", "device", a.device, WANTED)
    return replace(types[0], device=a.device)


def _same(args: Sequence[Array], _a: Device, _result: TensorType) -> Array:
    return args[0]


def _element(at: Index, reads: Sequence[Read], _use: Use[Device]) -> Expr:
    return reads[0](at)


def _sample(_ch: Chooser, t: TensorType) -> Sample | None:
    """Propose the device where the operand is: others have a draw of their own."""
    return Sample((t,), freeze({"device": t.device}))


TO = Op(
    name="to",
    doc="The same elements on another device; a copy, unless they are there.",
    special=MOVED,
    kind=Kind.INJECTIVE,
    dtypes=EVERY,
    rules=moving(Device, _infer, _same, _element),
    sample=_sample,
    nearby=True,
    example=example([[1, 2, 3]], [1, 2, 3], device=""),
)

ALL: tuple[Op, ...] = (TO,)
