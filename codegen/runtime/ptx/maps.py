"""Tensor maps that the host makes: what ``cuTensorMapEncodeTiled`` or ``…Im2col`` takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from didyma.codegen.runtime.didyma_runtime.maps import LINE, NBYTES, Described
from didyma.codegen.runtime.ptx.launch import Pointer, Value
from didyma.codegen.runtime.ptx.sanitize import Argument
from didyma.codegen.runtime.ptx.tensors import BYTES, FIELDS
from didyma.codegen.runtime.ptx.text import split
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array, DType

_NUMBERS = {
    DType.U8: 0, DType.U16: 1, DType.U32: 2, DType.I32: 3, DType.U64: 4, DType.I64: 5,
    DType.F16: 6, DType.F32: 7, DType.F64: 9, DType.BF16: 10,
}  # fmt: skip
_MODES = {0: 0, 32: 1, 64: 2, 128: 3}
_FILLS = {"zero": 0, "nan": 1}
_WANT = (
    "map(ARRAY, box=ROWSxCOLUMNS), with swizzle=32, 64 or 128 and fill=nan where they hold; "
    "map(ARRAY, box=PIXELSxCHANNELS, lower=-1x-1, upper=-1x-1), with steps=2x2, for im2col"
)
_CORNERS = {3: 15, 4: 7, 5: 4}  # bits of the distance of a corner, by the axes of an array


@dataclass(frozen=True, slots=True)
class Box:
    """What a tensor map says beside its array: the extents of a box, outermost axis first.

    ``swizzle`` are the bytes within which pieces of 16 bytes are exchanged, 0 for none; ``fill`` is
    what a box has outside of the array, "zero" or "nan".  A box of images, for ``im2col``, has
    extents of pixels and channels; ``lower`` and ``upper`` are the corners of the pixels that are
    walked, from the first and the last one of an image, along each axis but images and channels,
    and ``steps`` how far the walk goes along each.
    """

    extents: tuple[int, ...]
    swizzle: int = 0
    fill: str = "zero"
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()

    @property
    def of_pixels(self) -> bool:
        """Whether it is one of images."""
        return bool(self.lower or self.upper or self.steps)


def is_map(text: str) -> bool:
    """Return whether a description is that of a tensor map.

    >>> is_map("map(f32[8,64], box=8x32)"), is_map("f32[8,64]")
    (True, False)
    """
    return text.startswith("map(") and text.endswith(")")


def read(text: str, item: str) -> tuple[str, Box]:
    """Return the array and the box of ``map(ARRAY, box=ROWSxCOLUMNS)``; DidymaError ``bad-option``.

    >>> read("map(f32[8,64], box=8x32, swizzle=128)", "")
    ('f32[8,64]', Box(extents=(8, 32), swizzle=128, fill='zero', lower=(), upper=(), steps=()))
    """
    array, *rest = split(text[len("map(") : -1]) or [""]
    options: dict[str, str] = {}
    for part in rest:
        name, _, value = part.replace(" ", "").partition("=")
        options[name] = value
    extents = options.pop("box", "").split("x")
    walk = {k: options.pop(k, "") for k in ("lower", "upper", "steps")}
    walked = all(re.fullmatch(r"(-?\d+(x-?\d+)*)?", row) for row in walk.values())
    swizzle, fill = options.pop("swizzle", "0"), options.pop("fill", "zero")
    known = swizzle in map(str, _MODES) and fill in _FILLS and not options and walked
    if not array or not known or not all(e.isascii() and e.isdecimal() for e in extents):
        raise DidymaError("bad-option", f"--arg {item}", got=text, want=_WANT)
    rows = {k: tuple(map(int, row.split("x"))) for k, row in walk.items() if row}
    return array, Box(tuple(map(int, extents)), int(swizzle), fill, **rows)


def tensor_map(array: Argument, box: Box) -> Argument:
    """Return the tensor map of an array in row-major order, as an argument of 128 bytes.

    DidymaError ``bad-option`` for what ``cuTensorMapEncodeTiled`` refuses.
    """
    value = array.value
    dtype = next((d for d in _NUMBERS if d.numpy == value.dtype), None)
    if broken := next(
        (w for ok, w in (*_shape(value, box), *_laws(value, dtype, box)) if not ok), ""
    ):
        extents = "x".join(map(str, box.extents))
        shape = ", ".join(map(str, value.shape))
        got = f"an array {dtype.value if dtype else value.dtype}[{shape}] in boxes of {extents}"
        raise DidymaError("bad-option", f"argument {array.name}", got=got, want=broken)
    corners = [
        lo & 0xFFFF | (up & 0xFFFF) << 16 for lo, up in zip(box.lower, box.upper, strict=True)
    ]
    steps = box.steps[::-1] or [1] * (value.ndim - 2)
    said: dict[str, Sequence[int]] = {
        "rank": [value.ndim - 1], "box_dim": (*box.extents[::-1], *corners[::-1]),
        "global_dim": value.shape[::-1], "element_stride": [1, *steps, 1][: value.ndim],
        "global_stride": _strides(value), "pixels": [int(box.of_pixels)],
        "elemtype": [_NUMBERS[dtype] if dtype else 0], "interleave_layout": [0],
        "swizzle_mode": [_MODES[box.swizzle]], "fill_mode": [_FILLS[box.fill]],
    }  # fmt: skip
    return Argument(array.name, np.zeros((), np.uint8), fields=(array, *_words(said)))


def described(d: Described, at: Pointer) -> Value:
    """Return a map of words of two bytes swizzled in 128, as an argument."""
    corners = [lo & 0xFFFF | (up & 0xFFFF) << 16
               for lo, up in ((d.left, d.right), (d.top, d.bottom))]  # fmt: skip
    said: dict[str, Sequence[int]] = {
        "rank": [3], "box_dim": (LINE, d.rows, *corners),
        "global_dim": (d.x, d.y, d.z, d.images), "element_stride": (1, d.across, d.down, 1),
        "global_stride": (d.near * NBYTES, d.far * NBYTES, d.step * NBYTES), "pixels": [1],
    } if d.images else {
        "rank": [2], "box_dim": (LINE, d.rows, 1), "global_dim": (d.x, d.y, d.z),
        "element_stride": (1, 1, 1), "global_stride": (d.near * NBYTES, d.far * NBYTES),
    }  # fmt: skip
    said |= {"elemtype": [_NUMBERS[DType.U16]], "swizzle_mode": [_MODES[128]]}
    first = Pointer(at.region, at.offset + d.offset * NBYTES)
    return (0, first), (8, _raw(said)[8:].tobytes())


def _strides(value: Array) -> list[int]:
    """Return the bytes between neighbours along each axis but the last, innermost first."""
    sizes = [value.itemsize, *value.shape[:0:-1]]
    return [int(n) for n in np.cumprod(sizes)[1:]]


def _laws(value: Array, dtype: DType | None, box: Box) -> Iterator[tuple[bool, str]]:
    """Yield what the driver demands, and whether it holds."""
    row = box.extents[-1] * value.itemsize
    yield dtype is not None, f"elements of {', '.join(d.value for d in _NUMBERS)}"
    yield all(1 <= n <= 1 << 32 for n in value.shape), "an array with elements"
    yield all(n % 16 == 0 for n in _strides(value)), "rows of a multiple of 16 bytes in the array"
    yield row % 16 == 0, "rows of a multiple of 16 bytes in the box"
    yield not box.swizzle or row <= box.swizzle, f"rows of at most {box.swizzle} bytes in the box"
    wide = dtype is not None and dtype.is_float
    yield wide or box.fill == "zero", "elements that are floats where fill=nan"


def _shape(value: Array, box: Box) -> Iterator[tuple[bool, str]]:
    """Yield what the driver demands of the axes of a box, and whether it holds."""
    if not box.of_pixels:
        yield 1 <= value.ndim <= 5, "an array of one to five axes"
        yield len(box.extents) == value.ndim, f"a box of {value.ndim} axes, as its array has"
        yield all(1 <= n <= 256 for n in box.extents), "boxes of 1 to 256 elements along each axis"
        return
    yield 3 <= value.ndim <= 5, "images of three to five axes, from the image to the channel"
    yield len(box.extents) == 2, "a box of two extents, pixels and channels"
    few = 1 <= box.extents[0] <= 1024 and 1 <= box.extents[-1] <= 256
    yield few, "boxes of 1 to 1024 pixels and 1 to 256 channels"
    axes, most = value.ndim - 2, 1 << _CORNERS.get(value.ndim, 4)
    rows = (box.lower, box.upper, box.steps or (1,) * axes)
    yield all(len(row) == axes for row in rows), f"lower, upper and steps of {axes} numbers"
    near = all(-most <= n < most for n in (*box.lower, *box.upper))
    yield near, f"corners from {-most} to {most - 1} away"
    yield all(1 <= n <= 8 for n in box.steps), "steps of 1 to 8"


def _words(said: Mapping[str, Sequence[int]]) -> Iterator[Argument]:
    """Yield the fields of a map after the address of its array, with zeros where none is."""
    for k, word in enumerate(_raw(said)[8:].view(np.uint64)):
        yield Argument(str(k), np.array(word))


def _raw(said: Mapping[str, Sequence[int]]) -> Array:
    """Return the bytes of a map whose fields are these, with zeros for others."""
    words = np.zeros(BYTES, np.uint8)
    for name, row in said.items():
        at, size = FIELDS[name]
        raw = np.array(row, np.int64).astype(f"u{size}").view(np.uint8)
        words[at : at + raw.size] = raw
    return words
