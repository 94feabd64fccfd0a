"""The template of matrix products: drawn problems, planted faults, and its place among choices."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.codegens import Asked
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.select.cache import Cache
from didyma.codegen.select.choice import Choice, build, ranked
from didyma.codegen.select.choosers import Request, Tuned
from didyma.codegen.select.selector import Limits
from didyma.codegen.templates import gemm
from didyma.codegen.templates.language import Text
from didyma.oracle import chains
from didyma.refimpl.ir.kernel import loops
from didyma.refimpl.ir.target import PORTABLE
from didyma.tuning import Tuner
from tests.codegen.select.make import inline
from tests.codegen.templates.draw import drawn
from tests.codegen.templates.faults import one_of_each
from tests.codegen.templates.judging import judged, request
from tests.errors.test_codes import says

SEEDS = (1, 3, 4, 5, 7, 8, 12, 14, 19, 26, 28)  # each is a product, not of one row or column
POINT = "tiled_gemm(depth=8, each=2, height=32, width=16)"
k = dd.dim("k", 1, 300)


@dd.trace(dd.f16[37, 50], dd.f16[50, 21], dd.f16[21])
def layer(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return dd.tanh(x @ w + b)


@dd.trace(dd.f32[40, k], dd.f32[k, 24])
def open_terms(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return x @ w


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_products_are_right(seed: int) -> None:
    d = drawn(seed)
    r = request(d.program)
    assert r.source is not None
    points = list(gemm.TEMPLATE.points(Asked(r.source, r.loop, PORTABLE)))
    point = str(points[int(d.share * len(points))])
    assert judged(d.program, point) == {""}, f"{d.about}: {point}"


@pytest.mark.parametrize("terms", [1, 7, 33, 298])
def test_tiles_may_be_larger_than_all_terms(terms: int) -> None:
    options = dd.Options(kernels=dd.KernelOptions(choices=f"fused_matmul_0: {POINT}"))
    rng = np.random.default_rng(terms)
    a, b = (rng.normal(size=n).astype(np.float32) for n in ((40, terms), (terms, 24)))
    run = dd.compile(open_terms, options=options)
    assert "tile" in run.text
    assert dd.interpret(open_terms, a, b).contains(run(a, b))


FAULTS = {
    "rows": ('all(below("row", rows, height), below("column", columns, width))) }}\n  }',
             'below("column", columns, width)) }}\n  }'),
    "columns": ('all(below("row", rows, height), below("column", columns, width))) }}\n  }',
                'below("row", rows, height)) }}\n  }'),
    "epilogue": ('("batch", "row", "column"), "total', '("batch", "row", "column - 1"), "total'),
    "k-tail": ('below("term", terms, depth)', '""'),
    "last tile": ("+ {{ depth - 1 }}) / {{ depth }}; ++turn", ") / {{ depth }}; ++turn"),
    "sum": ('{{ add("total[n]", "part[n]") }}', "part[n]"),
    "narrow": ('{{ add("total[n]", "part[n]") }}',
               "cast_f16_f32(cast_f32_f16(total[n] + part[n]))"),
    "barrier": ("    }\n    __syncthreads();\n    #pragma", "    }\n    #pragma"),
    "element": ("of_left[n / %d]", "of_left[n %% %d]"),
}  # fmt: skip


@pytest.mark.parametrize("fault", one_of_each(FAULTS))
def test_a_planted_fault_is_found_before_anything_is_timed(fault: str) -> None:
    old, new = FAULTS[fault]
    assert old in gemm.TEXT.source
    text = Text("tiled_gemm", gemm.TEXT.source.replace(old, new))
    wrong = replace(gemm.TEMPLATE, render=partial(gemm.render, text=text))
    assert "" not in judged(layer, POINT, wrong)


def test_the_kernel_without_a_fault_is_right() -> None:
    assert judged(layer, POINT) == {""}


def test_the_chain_of_additions_is_that_of_a_tile_and_of_the_tiles() -> None:
    r = request(open_terms)
    (kernel,) = build(r.loop, r.options, Choice.parse(POINT), r.source).kernels
    assert chains.longest([kernel], {"k": 80}) == 8 + 10
    assert chains.longest([loops(kernel)], {"k": 80}) == 79


def test_the_model_likes_large_tiles_of_large_products_only() -> None:
    def best(m: int, n: int, k: int) -> dict[str, int]:
        @dd.trace(dd.f32[m, k], dd.f32[k, n])
        def plain(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
            return x @ w

        r = request(plain)
        assert r.source is not None
        point = next(gemm.TEMPLATE.points(Asked(r.source, r.loop, PORTABLE)))
        return dict(point.values)

    large, small, flat = best(4096, 4096, 4096), best(64, 64, 4096), best(16, 4096, 4096)
    assert large["height"] * large["width"] > small["height"] * small["width"]
    assert large["each"] > small["each"]
    assert flat["height"] < flat["width"]


def test_a_target_without_room_is_refused() -> None:
    small = replace(PORTABLE, name="small", threads=64, dynamic=4096)
    r = request(open_terms, Options(target=small))
    assert r.source is not None
    asked = Asked(r.source, r.loop, small)
    points = list(gemm.TEMPLATE.points(asked))
    assert points
    for point in points:
        threads, shared = gemm.block(asked, point.table)
        assert threads <= small.threads
        assert shared <= small.dynamic
    for values in ("depth=32, each=8, height=64, width=64", "depth=8, each=1, height=16, width=16"):
        with says("target-lacks", "small", f"tiled_gemm({values})"):
            build(r.loop, r.options, Choice.parse(f"tiled_gemm({values})"), r.source)
    with says("bad-choice", "each of 1, 2, 4, 8"):
        build(r.loop, r.options, Choice.parse(POINT.replace("each=2", "each=3")), r.source)


def test_functions_that_are_no_single_product_are_left_to_recipes() -> None:
    @dd.trace(dd.f32[20, 30])
    def row_sums(x: dd.Tensor) -> dd.Tensor:
        return dd.sum(x, axis=1)

    made = compile(row_sums.module, until="lower")
    ((name, loop),) = made.loops.items()
    r = Request(name, loop, Options(), "host", "", {}, made.fused.function(name))
    assert not [c for c in ranked(loop, r.options, r.source) if "gemm" in str(c)]
    with says("bad-choice", "a function that tiled_gemm suits"):
        build(loop, r.options, Choice.parse(POINT), r.source)


def test_a_tuner_judges_times_and_remembers_it_beside_the_recipe(tmp_path: Path) -> None:
    r = request(layer)
    names = [str(c).split("(")[0] for c in ranked(r.loop, r.options, r.source)]
    assert names.index("matmul") < names.index("tiled_gemm") < 8
    assert str(r.usual).startswith("matmul"), "a compile that does not tune stays as it is"
    fused = compile(layer.module, until="lower").fused
    cache = Cache(tmp_path / "c.sqlite")
    limits = Limits(seconds=20.0, timeout=60.0, candidates=5)
    pick, found = Tuner(fused, cache, limits, isolate=inline).tune(r)
    trials = {t.choice.split("(")[0]: t for t in found.trials}
    assert trials["tiled_gemm"].reason == trials["matmul"].reason == ""
    assert trials["tiled_gemm"].seconds is not None
    assert str(Tuned(cache).choose(r)) == pick.choice
