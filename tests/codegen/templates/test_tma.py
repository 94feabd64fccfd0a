"""The template whose tiles one thread fetches: drawn problems and planted faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import pytest

import didyma as dd
from didyma.codegen.codegens import Asked, own
from didyma.codegen.options import Options
from didyma.codegen.runtime.registry import probe
from didyma.codegen.schedule.dispatch import names
from didyma.codegen.select.choice import AHEAD, Choice, first, ranked
from didyma.codegen.templates import tma
from didyma.codegen.templates.language import Text
from didyma.refimpl.ir.kernel import TensorMap
from didyma.refimpl.ir.target import SM_90A
from tests.codegen.templates.draw import FAMILIES, drawn
from tests.codegen.templates.faults import one_of_each
from tests.codegen.templates.judging import judged, points, request, with_map

GPU = Options(target="sm_90a")
_, DTYPES, SIZES = FAMILIES["tma_gemm"]
SEEDS = (1, 8, 10, 11)  # whose operands lie in runs of 16 bytes
TOGETHER = "tma_gemm(alternate=0, blocks=1, group=8, height=128, slots=0, width=64)"
IN_TURN = "tma_gemm(alternate=1, blocks=1, group=8, height=64, slots=0, width=64)"
WIDE = "tma_gemm(alternate=1, blocks=1, group=8, height=64, slots=0, width=128)"
ODD = "tma_gemm(alternate=1, blocks=1, group=8, height=64, slots=0, width=160)"
BOXES = "tma_gemm(alternate=0, blocks=1, group=8, height=128, slots=2, width=128)"
BOXES_IN_TURN = "tma_gemm(alternate=1, blocks=1, group=8, height=64, slots=2, width=128)"
BY_TWO_BLOCKS = "tma_gemm(alternate=1, blocks=2, group=8, height=64, slots=0, width=64)"
TOGETHER_BY_TWO = "tma_gemm(alternate=0, blocks=2, group=8, height=128, slots=0, width=64)"
ARRIVES = """\
        if (turn > 0 && {{ lanes }}) {
          {{ arrive }}
        }
"""
WAITS = "        wgmma_wait(1);\n"
MEETS, UNROLLED = "        named_barrier(mine + 1, 128);\n", "        #pragma unroll\n"
FAULTS = {
    "wait for a tile": ("        mbarrier_wait(&full[stage], phase);\n", ""),
    "wait for room": ("          mbarrier_wait(&empty[stage], phase);\n", ""),
    "phase of tiles": ("mbarrier_wait(&full[stage], phase)",
                       "mbarrier_wait(&full[stage], phase ^ 1)"),
    "phase of room": ("u32 phase = 1;", "u32 phase = 0;"),
    "phase that stays": ("          phase = phase ^ 1;\n", ""),
    "released too early": (WAITS + ARRIVES, ARRIVES + WAITS),
    "released never": (ARRIVES, ""),
    "released at once": ("mbarrier_arrive(&empty[before]);", "mbarrier_arrive(&empty[stage]);"),
    "few arrivals": ("{{ (4 + 4 * shared) * blocks }}", "{{ (2 + 2 * shared) * blocks }}"),
    "bytes": ("mbarrier_expect(&full[stage], {{ height * 128 }})",
              "mbarrier_expect(&full[stage], {{ height * 64 }})"),
    "one operand": ("mbarrier_init(&full[i], 2)", "mbarrier_init(&full[i], 1)"),
    "sums": ("      wgmma_wait(0);\n", ""),
    "registers": ("        wgmma_fence();\n", ""),
    "swizzle": ("step * 16],", "step * 8],"),
    "panel": ("stage * {{ side * 64 }} + {{ panel * 4096 }}", "stage * {{ side * 64 }}"),
    "last tile": ("+ 63) / 64", ") / 64"),
    "rows": ('mask=all(below("row", rows, high), below', 'mask=all("", below'),
    "exchange": (MEETS + UNROLLED + "        for (u32 j", UNROLLED + "        for (u32 j"),
    "numbers": ("mine + 1, 128", "1, 128"),
    "pairs": ("lane / {{ lanes }} % 2 == 1", "lane / {{ lanes }} % 2 == 0"),
    "lanes": ('swap("k", 4, 2,', 'swap("k", 4, 1,'),
    "epilogue": ("i % {{ width // 32 }} * 32 + lane % 4 * 8", "i % {{ width // 32 }} * 32"),
    "fragment": ("lane / 4 + j % 2 * 8", "lane / 4 + j % 2 * 4"),
    "clearing": ("        sums{{ i }}[i] = 0.0f;\n", ""),
    "order": ("      mbarrier_wait(&order[mine], waits);\n", ""),
    "skipped stages": ("      stage = stage + turns;\n", ""),
    "narrow": ("total[{{ i * each }} + i] = sums{{ i }}[i]",
               "total[{{ i * each }} + i] = cast_bf16_f32(cast_f32_bf16(sums{{ i }}[i]))"),
}  # fmt: skip
FAULTS_OF_BLOCKS = {
    "barrier of blocks that may not have begun": (
        "  cluster_barrier();\n{% else %}", "  __syncthreads();\n{% else %}"),
    "barrier of blocks that may have ended": (
        "{% if blocks > 1 %}\n  cluster_barrier();\n{% endif %}\n}\n", "}\n"),
    "arrivals at one's own barrier": ("mbarrier_arrive_at(&empty[before], lane)",
                                      "mbarrier_arrive_at(&empty[before], rank)"),
    "released at once": ("mbarrier_arrive_at(&empty[before], lane)",
                         "mbarrier_arrive_at(&empty[stage], lane)"),
    "arrivals of one block": ("(4 + 4 * shared) * blocks", "4 + 4 * shared"),
    "mask of blocks": ("2 ** blocks - 1", "1"),
    "panel of a block": (" + rank * {{ each * 64 }};", ";"),
    "rows of a block": ("{{ start }} + rank * {{ each }}", "{{ start }}"),
    "tail of terms": ("{{ turn }} * 64 + rank * {{ each }}", "{{ turn }} * 64"),
    "columns that blocks share": ('" + rank * %d" % height', '" + 0 * %d" % height'),
    "tile of a cluster": ('"(number / %d)" % blocks', '"(number / 4 * %d)" % blocks'),
    "last tile of a cluster": ('" * %d" % blocks if', '" * %d" % 1 if'),
}  # fmt: skip
POINTS = {"order": IN_TURN, "skipped stages": IN_TURN, "panel": WIDE}
FAULTS_OF_BOXES = {
    "wait for a chunk": ("          tma_wait({{ slots - 1 }});\n", ""),
    "wait for too few": ("tma_wait({{ slots - 1 }})", "tma_wait({{ slots }})"),
    "group": ("          tma_commit();\n", ""),
    "last wait": ("      tma_wait(0);\n", ""),
    "fence": ("        proxy_fence();\n", ""),
    "written together": ("        proxy_fence();\n        named_barrier(mine + 1, 128);\n",
                         "        proxy_fence();\n"),
    "swizzle of results": ("(j / 2 ^ lane / 4) * 8", "j / 2 * 8"),
    "sums of a piece": ('"total[i * 32 + j * 2]", "total', '"total[i * 32 + j / 2 * 4]", "total'),
    "box": ("side + i % {{ width // 64 }} * 64,\n", "side,\n"),
    "rows of a box": ("* 64, {{ result_batch }}", "* 64 + 1, {{ result_batch }}"),
}  # fmt: skip
FAULTS_OF_MAPS: Mapping[str, tuple[str, Callable[[TensorMap], TensorMap]]] = {
    "k-tail": ("left_map", lambda m: replace(m, extents=(m.extents[0] + 8, *m.extents[1:]))),
    "first": ("left_map", lambda m: replace(m, offset=8)),
    "rows of a box": ("left_map", lambda m: replace(m, rows=m.rows // 2)),
    "buffer": ("right_map", lambda m: replace(m, buffer="x")),
    "step of rows": ("result_map", lambda m: replace(m, steps=(m.steps[0] + 8, m.steps[1]))),
    "step of batches": ("result_map", lambda m: replace(m, steps=(m.steps[0], m.steps[1] - 8))),
    "extent": ("result_map", lambda m: replace(m, extents=(m.extents[0] - 8, *m.extents[1:]))),
}  # fmt: skip
NARROW = ("exchange", "numbers", "fragment")  # faults in what stores results one by one


@dd.trace(dd.bf16[136, 264], dd.bf16[264, 72], dd.f32[72])
def layer(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return dd.tanh(x @ w + b)


@dd.trace(dd.bf16[136, 264], dd.bf16[71, 264])
def odd(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return x @ dd.permute_dims(w, (1, 0))


# A device with so few multiprocessors that blocks have several tiles, and so little shared memory
# that stages are filled again.
FEW = replace(GPU, target=replace(SM_90A, processors=2, dynamic=96 << 10))
SHORT = replace(GPU, target=replace(SM_90A, processors=2, dynamic=64 << 10))
ONE = replace(GPU, target=replace(SM_90A, processors=1, dynamic=104 << 10))


@dd.trace(dd.bf16[136, 264], dd.bf16[72, 264])
def by_terms(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return x @ dd.permute_dims(w, (1, 0))


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_products_are_right(seed: int) -> None:
    d = drawn(seed, DTYPES, SIZES)
    every = points(request(d.program, FEW), tma.TEMPLATE)
    point = every[int(d.share * len(every))]
    assert judged(d.program, point, options=FEW) == {""}, f"{d.about}: {point}"


def test_a_tuner_begins_with_what_models_of_templates_rank_first_and_ends_with_recipes() -> None:
    @dd.trace(dd.bf16[32, 8192], dd.bf16[8192, 8192])
    def wide(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return x @ w

    r = request(wide, GPU.changed({"graph.parts": 1}))
    order = list(ranked(r.loop, r.options, r.source))
    recipes = [c.points[0].recipe for c in order]
    assert order[0] == first(r.loop, r.options, r.source)
    assert {"cluster_gemm", "tma_gemm"} <= {*recipes[:AHEAD]}
    assert {"wgmma_gemm", "mma_gemm", "matmul"} < {*recipes}
    last = max(n for n, name in enumerate(recipes) if name in own())
    assert {*recipes[last + 1 :]} <= {*names()}
    assert recipes.index("matmul") > last
    assert len(order) == len(set(order))


BY_TWO = "cluster_gemm(group=8, height=128, parts=2, turned=1, width=32)"
BY_FIVE = "cluster_gemm(group=8, height=128, parts=5, turned=0, width=128)"
BY_FOUR = "cluster_gemm(group=8, height=128, parts=4, turned=0, width=128)"
SQUARE = "tma_gemm(alternate=1, blocks=1, group=8, height=128, slots=2, width=128)"
LONG = "tma_gemm(alternate=1, blocks=1, group=8, height=128, slots=2, width=192)"
BROAD = "tma_gemm(alternate=0, blocks=1, group=8, height=128, slots=2, width=256)"
TALL = "tma_gemm(alternate=0, blocks=1, group=8, height=256, slots=2, width=192)"
TALL_NARROW = "tma_gemm(alternate=1, blocks=1, group=4, height=192, slots=0, width=96)"
WIDER = "tma_gemm(alternate=0, blocks=1, group=4, height=128, slots=0, width=160)"
# Products: their sizes, and the microseconds that an H200 took for two kernels of each, as
# tests.gpu.products timed them.
MEASURED = (
    ((4096, 4096, 256), SQUARE, 15.7, LONG, 18.9),
    ((1024, 1024, 1024), BOXES_IN_TURN, 5.3, WIDE, 5.4),
    ((1536, 1536, 1536), TALL_NARROW, 11.9, WIDER, 12.9),
    ((4096, 256, 4096), BOXES_IN_TURN.replace("group=8", "group=4"), 13.3, BOXES_IN_TURN, 15.3),
    ((3072, 3072, 3072), LONG, 74.3, TALL_NARROW, 86.0),
    ((3000, 2000, 1000), TALL, 20.5, LONG, 21.8),
    ((3000, 2000, 1000), TALL, 21.1, TALL.replace("blocks=1", "blocks=2"), 22.1),
    ((1023, 1016, 1000), BOXES_IN_TURN.replace("blocks=1", "blocks=2"), 8.6, BOXES_IN_TURN, 9.5),
    ((32, 8192, 8192), BY_TWO, 35.7, IN_TURN, 43.9),
    ((512, 512, 16384), BY_FIVE, 22.9, BY_FOUR, 24.8),
    ((8192, 8192, 8192), LONG, 1352.4, BROAD, 1381.7),
)


@pytest.mark.parametrize(("sizes", "fast", "fewer", "slow", "more"), MEASURED)
def test_models_find_the_kernel_faster_that_is(
    sizes: tuple[int, int, int], fast: str, fewer: float, slow: str, more: float
) -> None:
    rows, columns, terms = sizes

    @dd.trace(dd.bf16[rows, terms], dd.bf16[terms, columns])
    def product(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return x @ w

    r = request(product, GPU.changed({"graph.parts": 1}))
    assert r.source is not None
    asked = Asked(r.source, r.loop, GPU.device)
    one, other = (Choice.parse(name).points[0] for name in (fast, slow))
    costs = [own()[p.recipe].cost(asked, p.table) for p in (one, other)]
    assert (costs[0] < costs[1]) == (fewer < more)


@dd.trace(dd.f16[2, 72, 24], dd.f16[2, 24, 72], dd.f16[72, 72], dd.f32[72])
def residual(x: dd.Tensor, w: dd.Tensor, z: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return dd.astype(x @ w + b, dd.bf16) * dd.astype(z, dd.bf16)


def test_tiles_of_192_rows_have_96_columns() -> None:
    every = [Choice.parse(p).points[0].table for p in points(request(layer, GPU), tma.TEMPLATE)]
    assert {v["width"] for v in every if v["height"] == 192} == {96}
    assert {v["height"] for v in every if v["width"] == 96} == {192}
    assert judged(layer, TALL_NARROW, options=FEW) == {""}


@pytest.mark.parametrize("point", [BOXES, BOXES_IN_TURN])
def test_results_that_are_stored_in_boxes_are_right(point: str) -> None:
    assert judged(residual, point, options=ONE) == {""}


def test_tiles_of_whole_chunks_alone_are_stored_in_boxes() -> None:
    every = points(request(residual, GPU), tma.TEMPLATE)
    boxes = [Choice.parse(p).points[0].table for p in every if "slots=2" in p]
    assert boxes
    for v in boxes:
        assert v["width"] % 64 == 0
        assert v["width"] > 64 or v["height"] // (2 - v["alternate"]) > 64
    assert not [p for p in points(request(layer, GPU), tma.TEMPLATE) if "slots=2" in p]


@pytest.mark.parametrize("fault", one_of_each(FAULTS_OF_BOXES))
def test_a_planted_fault_in_stores_of_boxes_is_found(fault: str) -> None:
    old, new = FAULTS_OF_BOXES[fault]
    assert old in tma.TEXT.source
    text = Text("tma_gemm", tma.TEXT.source.replace(old, new))
    wrong = replace(tma.TEMPLATE, render=partial(tma.render, text=text))
    assert judged(residual, BOXES_IN_TURN, wrong, ONE, engines=("simt",)) != {""}


@pytest.mark.parametrize("fault", FAULTS_OF_MAPS)
@pytest.mark.parametrize("engine", ["simt", "host"])
def test_a_planted_fault_in_a_map_is_found(fault: str, engine: str) -> None:
    wrong = with_map(tma.TEMPLATE, *FAULTS_OF_MAPS[fault])
    assert judged(residual, BOXES_IN_TURN, wrong, ONE, engines=(engine,)) != {""}


@pytest.mark.parametrize("fault", one_of_each(FAULTS))
def test_a_planted_fault_is_found_before_anything_is_timed(fault: str) -> None:
    old, new = FAULTS[fault]
    assert old in tma.TEXT.source
    text = Text("tma_gemm", tma.TEXT.source.replace(old, new))
    wrong = replace(tma.TEMPLATE, render=partial(tma.render, text=text))
    point = POINTS.get(fault, TOGETHER)
    program = odd if fault in NARROW else layer
    assert judged(program, point, wrong, FEW, engines=("simt",)) != {""}


@pytest.mark.parametrize("fault", one_of_each(FAULTS_OF_BLOCKS))
def test_a_planted_fault_of_blocks_that_share_tiles_is_found(fault: str) -> None:
    old, new = FAULTS_OF_BLOCKS[fault]
    assert old in tma.TEXT.source
    text = Text("tma_gemm", tma.TEXT.source.replace(old, new))
    wrong = replace(tma.TEMPLATE, render=partial(tma.render, text=text))
    program = by_terms if fault == "rows of a block" else layer
    assert judged(program, BY_TWO_BLOCKS, wrong, SHORT, engines=("simt",)) != {""}


def test_the_kernels_without_a_fault_are_right() -> None:
    assert judged(layer, BY_TWO_BLOCKS, options=SHORT) == {""}
    for point in (IN_TURN, TOGETHER, WIDE, ODD):
        assert judged(layer, point, options=FEW) == {""}
    assert judged(odd, TOGETHER, options=FEW) == {""}


@dd.trace(dd.bf16[2, 64, 72], dd.bf16[2, 72, 72], dd.bf16[2, 64, 72])
def half_a_cluster(x: dd.Tensor, w: dd.Tensor, more: dd.Tensor) -> dd.Tensor:
    return x @ w + more


@dd.trace(dd.bf16[2, 64, 72], dd.bf16[2, 71, 72])
def half_a_cluster_odd(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return x @ dd.permute_dims(w, (0, 2, 1))


@pytest.mark.parametrize(("slots", "width"), [(0, 64), (0, 160), (2, 128)])
def test_the_second_block_of_a_cluster_has_no_rows_that_are_not_there(
    slots: int, width: int
) -> None:
    point = f"tma_gemm(alternate=1, blocks=2, group=8, height=64, slots={slots}, width={width})"
    assert judged(half_a_cluster, point, options=FEW) == {""}
    if not slots:
        assert judged(half_a_cluster_odd, point, options=FEW) == {""}


def test_what_nvrtc_makes_of_the_kernel_is_right() -> None:
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")
    assert judged(layer, TOGETHER, options=FEW, engines=("ptx",)) == {""}
    assert judged(residual, BOXES, options=ONE, engines=("ptx",)) == {""}
    assert judged(by_terms, TOGETHER_BY_TWO, options=SHORT, engines=("ptx",)) == {""}
