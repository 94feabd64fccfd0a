"""Windows of a convolution, as TMA fetches them from images whose channels lie together.

``WINDOWS`` are macros that a text begins with.  Rows of the product are places of the result, and
its terms go tap by tap: a tap is a place of the window, with all channels of the images.  A box has
64 channels of a tap, of the pixels that rows one after the other read there (``tma_im2col_T``), and
zeros of the border and behind the last channel.  Boxes of the weights end with a tap likewise.

Where few channels lie together and no window reaches over the border of columns, what a window has
of a line is one tap: its columns and channels lie together, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from didyma.codegen.codegens import Asked
from didyma.codegen.templates.fetching import NEEDED
from didyma.codegen.templates.hooks import ACCESS
from didyma.codegen.templates.language import Given
from didyma.codegen.templates.mma import narrowed
from didyma.codegen.templates.problem import Problem, Run, Windows
from didyma.codegen.templates.writer import size
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.group_products import LINE
from didyma.refimpl.ir.kernel import Images, TensorMap
from didyma.refimpl.ir.loop import Const, LetExpr, Load, Select
from didyma.refimpl.ir.types import DType

WINDOWS = """\
{% macro find_pixel() %}
        const i64 image = top / ({{ lines }} * {{ places }});
        const i64 y = top / {{ places }} % {{ lines }} * {{ stride_y }} - {{ low_y }};
        const i64 x = top % {{ places }} * {{ stride_x }} - {{ low_x }};
{% endmacro %}
{% macro fetch_pixels(name, side) %}
            tma_im2col_{{ T }}(&{{ name }}_tile[stage * {{ side * 64 }}],
                {{ described(name) }}, turn % {{ parts }} * 64, x, y, image,
                turn / {{ parts }} % {{ window_x }} * {{ dilation_x }},
                turn / {{ parts * window_x }} * {{ dilation_y }}, &full[stage]);
{% endmacro %}
"""
MOST_STRIDE, FAR, MOST_SHIFT = 8, 128, 255  # from pixel to pixel, of a corner, and of a tap


@dataclass(frozen=True, slots=True)
class Walk:
    """Images as a tensor map describes them, and how windows walk over their pixels.

    ``extents`` are those of channels, columns, lines and images, and ``steps`` the elements between
    neighbours along the last three; pairs are for lines and columns, as of ``Windows``.
    """

    extents: tuple[int, Dim, Dim, Dim]
    steps: tuple[Dim, Dim, Dim]
    window: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    low: tuple[int, int]
    high: tuple[int, int]

    @property
    def taps(self) -> int:
        """The places of a window."""
        return self.window[0] * self.window[1]

    @property
    def parts(self) -> int:
        """The boxes that the channels of a pixel take."""
        return -(-self.extents[0] // LINE)

    @property
    def upper(self) -> tuple[int, int]:
        """How far from the last line and column the last window begins; negative if before."""
        y, x = (
            hi - d * (k - 1)
            for hi, d, k in zip(self.high, self.dilations, self.window, strict=True)
        )
        return y, x

    @property
    def is_near(self) -> bool:
        """Whether a tensor map can walk so far."""
        far = [d * (k - 1) for d, k in zip(self.dilations, self.window, strict=True)]
        near = all(abs(n) < FAR for n in (*self.low, *self.upper)) and max(far) <= MOST_SHIFT
        return near and max(self.strides) <= MOST_STRIDE

    def by_lines(self, places: Dim) -> Walk:
        """Return the walk in which a window has one tap of each line, for so many side by side."""
        channels, _, *rest = self.extents
        (_, *more), (y, across) = self.steps, self.strides
        return Walk(
            (channels * self.window[1], places, rest[0], rest[1]),
            (channels * across, more[0], more[1]), (self.window[0], 1), (y, 1),
            (self.dilations[0], 1), (self.low[0], 0), (self.high[0], 0),
        )  # fmt: skip


def walk(w: Windows) -> Walk | None:
    """Return how TMA walks over windows, in the fewest boxes; None where it does not."""
    count, *lines, columns, channels = w.buffer.shape
    if not isinstance(channels, int) or channels % (ACCESS // 2):
        return None
    (height,) = lines or (1,)
    line = dims.mul(channels, columns)
    steps = (channels, line, dims.mul(line, height))
    found = Walk(
        (channels, columns, height, count), steps, w.window, w.strides, w.dilations, w.low, w.high
    )
    if w.low[1] == w.high[1] == 0 and w.dilations[1] == 1:
        together = found.by_lines(w.places[1])
        if together.taps * together.parts < found.taps * found.parts:
            found = together
    return found if found.is_near else None


def found(asked: Asked) -> Problem | None:
    """Return the product of windows that TMA fetches and of weights, or None.

    Images and weights are 16-bit floats, of whole pieces of 16 bytes of channels.
    """
    return asked.once(_found)


def _found(asked: Asked) -> Problem | None:
    product = narrowed(asked) if {*asked.target.families} >= NEEDED else None
    if product is None or product[1].operands not in (DType.F16, DType.BF16):
        return None
    p, _ = product
    w = p.windows
    if w is None or walk(w) is None or not _reads(p, w):
        return None
    return None if p.run("right", ACCESS) is None else p


def turns(p: Problem) -> int:
    """Return how many boxes of terms a product of windows has."""
    _, w = _walked(p)
    return w.taps * w.parts


def names(p: Problem) -> dict[str, Given]:
    """Return what ``WINDOWS`` uses, and how both operands lie.

    ``taps`` are the places of a window, and ``parts`` the boxes that channels of a pixel take.
    """
    (windows, w), run = _walked(p), _run(p)
    found: dict[str, Given] = {"taps": w.taps, "parts": w.parts, "window_x": w.window[1]}
    for name, pair in (("stride", w.strides), ("dilation", w.dilations), ("low", w.low)):
        found |= {f"{name}_y": pair[0], f"{name}_x": pair[1]}
    found["lines"], found["places"] = (size(ix.of_dim(n), p.loop) for n in windows.places)
    return found | {
        "left_by": "term", "right_by": ("", "term", "column")[run.axis], "left_batch": "0",
        "right_batch": f"turn / {w.parts}", "right_turn": f"turn % {w.parts}",
    }  # fmt: skip


def maps(p: Problem, height: int, width: int, blocks: int = 1) -> dict[str, TensorMap]:
    """Return the maps of images and weights, whose boxes have so many pixels and columns.

    As many ``blocks`` fetch a part of each box of columns.  Weights are an array for each tap.
    """
    (windows, w), run = _walked(p), _run(p)
    channels, columns, lines, count = w.extents
    pixel, line, image = w.steps
    upper = w.upper[1], w.upper[0]
    strides = w.strides[1], w.strides[0]
    images = Images(count, image, (-w.low[1], -w.low[0]), upper, strides)
    left = TensorMap(
        "left_map",
        windows.buffer.name,
        0,
        (channels, columns, lines),
        (pixel, line),
        height,
        images,
    )
    out = p.dim(p.output.extents[2])
    term, column = (p.dim(run.steps[axis]) for axis in (1, 2))
    near, far, rows = (channels, out, width) if run.axis == 1 else (out, channels, LINE)
    right = TensorMap(
        "right_map", run.buffer, p.dim(run.start), (near, far, w.taps),
        (column if run.axis == 1 else term, dims.mul(channels, term)), rows // blocks,
    )  # fmt: skip
    return {m.name: m for m in (left, right)}


def _walked(p: Problem) -> tuple[Windows, Walk]:
    """Return the windows of a problem that ``found`` returns, and the walk over them."""
    assert p.windows is not None, "no windows"
    w = walk(p.windows)
    assert w is not None, "windows that TMA does not walk over"
    return p.windows, w


def _run(p: Problem) -> Run:
    run = p.run("right", ACCESS)
    assert run is not None, "weights do not lie in runs"
    return run


def _reads(p: Problem, w: Windows) -> bool:
    """Return whether the left operand is nothing but elements of images, and of their border."""
    value = p.operands["left"].value
    while isinstance(value, LetExpr):
        value = value.body
    if isinstance(value, Select) and value.other == Const(0, value.dtype):
        value = value.then
    return isinstance(value, Load) and value.buffer == w.buffer.name
