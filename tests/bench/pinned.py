"""Every recipe on Hopper, pinned to one point of its table, and points of the same that are slower.

When nobody chooses, a program's schedule follows the model and the sizes of its arrays.  Here it
stays what it is, so that its counters change only with the kernels that the recipe makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import didyma as dd
from didyma.bench.workloads import WORKLOADS, Workload
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.refimpl.ir.types import DType

TARGET = "sm_90a"
_LANES = "lanes=128, online=0, wide=8"
_SERIAL = "block=256, parts=1, unroll=16"


@dataclass(frozen=True, slots=True)
class Pinned:
    """A point of a recipe for the one function of a workload, with or without atomic updates."""

    recipe: str
    workload: Workload
    point: str
    atomics: bool = False

    def chosen(self, point: str = "") -> Options:
        """Return options by which the function is scheduled by a point, its own by default.

        A workload that is compiled to several functions has one more launch, which its counters
        tell, and is left to the model.
        """
        given = Options().changed({"target": TARGET, "kernels.atomics": self.atomics})
        name, *more = compile(self.workload.program().module, given, until="lower").loops
        if more:
            return given
        return given.changed({"kernels.choices": f"{name}: {point or self.point}"})


@dataclass(frozen=True, slots=True)
class Slower:
    """A point by which the function of a recipe's workload is slower, and a counter that tells."""

    recipe: str
    point: str
    counter: str


def _scatter_add(e: dd.Tensor, i: dd.Tensor, g: dd.Tensor) -> dd.Tensor:
    rows = dd.broadcast_to(dd.expand_dims(i, -1), g.shape)
    return dd.scatter(e, rows, g, axis=0, reduction="add")


_SCATTER = Workload(
    "scatter_add_f32", "movement", _scatter_add,
    ((DType.F32, (100, 512)), (DType.I64, (96,)), (DType.F32, (96, 512))), (), (100, 0),
)  # fmt: skip
_W = WORKLOADS
ALL: tuple[Pinned, ...] = (
    Pinned("pointwise", _W["gelu_bf16"], "pointwise(block=256, each=1, wide=1)"),
    Pinned("transpose", _W["transpose_f32"], "transpose(rows=16, side=64, width=4)"),
    Pinned("gather", _W["embedding_bf16"], "gather(block=256, each=1, wide=1)"),
    Pinned(
        "scatter",
        _SCATTER,
        "pointwise(block=256, each=1, wide=1); scatter(block=256, wide=0)",
        atomics=True,
    ),
    Pinned("seek", _W["scatter_put_f32"], "seek(block=256, wide=1)"),
    Pinned("marks", _W["scatter_put_f32"], "marks(block=256, wide=1)"),
    Pinned("segments", _W["scatter_add_bf16"], "segments(block=256, chunk=128, wide=1)"),
    Pinned("split", _W["full_sum_f32"], "split(lanes=256, loads=4, parts=16, side=1)"),
    Pinned("column", _W["column_sum_f32"], "column(layers=8, side=32)"),
    Pinned("row", _W["row_sum_f32"], "row(groups=1, lanes=256, wide=4)"),
    Pinned("full", _W["full_sum_f32"], "full(groups=1, lanes=512, wide=4)"),
    Pinned("cluster", _W["softmax_bf16"], f"cluster(back=0, blocks=2, {_LANES})"),
    Pinned("rows", _W["softmax_bf16"], f"rows(ahead=0, groups=1, keep=1, {_LANES})"),
    Pinned("streamed", _W["softmax_bf16"], f"streamed(blocks=2, groups=1, keep=1, {_LANES})"),
    Pinned("shared", _W["softmax_bf16"], "shared(blocks=2, clusters=2, keep=1, lanes=128, wide=4)"),
    Pinned("looped", _W["softmax_bf16"], f"looped(back=0, groups=1, {_LANES})"),
    Pinned("parted", _W["softmax_bf16"], "parted(lanes=128, online=1, parts=2, wide=4)"),
    Pinned("chain", _W["cumulative_sum_f32"], "chain(lanes=64, turns=1)"),
    Pinned("scan", _W["cumulative_sum_f32"], "scan(groups=4, lanes=64, turns=4)"),
    Pinned("serial", _W["row_sum_f32"], f"serial({_SERIAL}, wide=1)"),
    Pinned("matmul", _W["matmul_f32"], "matmul(tile=16)"),
    Pinned("champion", _W["top_one_i8"], "champion(lanes=128, results=4, size=16)"),
    Pinned("sweep", _W["rms_norm_backward_bf16"], "sweep(blocks=4, groups=4, lanes=64, wide=8)"),
    Pinned("apart", _W["rms_norm_backward_bf16"], "apart()"),
)
OF: Mapping[str, Pinned] = MappingProxyType({p.recipe: p for p in ALL})

NARROW = tuple(  # accesses of one element
    Slower(recipe, point, "accesses")
    for recipe, point in (
        ("pointwise", "pointwise(block=256, each=1, wide=0)"),
        ("transpose", "transpose(rows=16, side=64, width=1)"),
        ("gather", "gather(block=256, each=1, wide=0)"),
        ("seek", "seek(block=256, wide=0)"),
        ("marks", "marks(block=256, wide=0)"),
        ("segments", "segments(block=256, chunk=128, wide=0)"),
        ("row", "row(groups=1, lanes=256, wide=1)"),
        ("full", "full(groups=1, lanes=512, wide=1)"),
        ("cluster", "cluster(back=0, blocks=2, lanes=128, online=0, wide=1)"),
        ("rows", "rows(ahead=0, groups=1, keep=1, lanes=128, online=0, wide=1)"),
        ("streamed", "streamed(blocks=2, groups=1, keep=1, lanes=128, online=0, wide=2)"),
        ("looped", "looped(back=0, groups=1, lanes=128, online=0, wide=1)"),
        ("sweep", "sweep(blocks=4, groups=4, lanes=64, wide=1)"),
    )
)
READS = (  # one more read of an input
    Slower("rows", OF["looped"].point, "read"),
    Slower("cluster", OF["looped"].point, "read"),
    Slower("streamed", OF["looped"].point, "read"),
    Slower("shared", OF["looped"].point, "read"),
    Slower("sweep", "apart()", "read"),
    Slower("matmul", f"serial({_SERIAL}, wide=1)", "read"),
)
LAUNCHES = (  # one more launch
    Slower("full", OF["split"].point, "launches"),
    Slower("scan", OF["chain"].point, "launches"),
)
FOLDS = tuple(  # a thread that folds alone
    Slower(recipe, f"serial({_SERIAL}, wide=1)", "longest") for recipe in ("row", "full", "column")
) + tuple(
    Slower(recipe, "serial(block=256, unroll=16, wide=1)", "longest")
    for recipe in ("rows", "looped", "cluster", "scan", "chain")
)
SLOWER: tuple[Slower, ...] = (*NARROW, *READS, *LAUNCHES, *FOLDS)
