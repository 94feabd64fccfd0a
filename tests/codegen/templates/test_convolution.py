"""Convolutions by the templates of products: drawn problems, and faults in what these read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

import didyma as dd
from didyma.codegen.codegens import Asked, Template
from didyma.codegen.pipeline import compile
from didyma.codegen.templates import gemm, mma
from didyma.codegen.templates.problem import Problem
from didyma.codegen.templates.products import product
from didyma.refimpl.ir.expr import ZERO, compare, index
from didyma.refimpl.ir.loop import Compare, Expr, Var
from didyma.refimpl.ir.target import SM_80
from didyma.refimpl.ir.walk import map_expr, substitute_expr
from didyma.tracer.tracing import Program
from tests.codegen.templates.judging import judged, points, request

CASES = [
    *((seed, gemm.TEMPLATE, dd.Options()) for seed in (0, 2, 4, 6, 7, 8)),
    *((seed, mma.TEMPLATE, dd.Options(target="sm_80")) for seed in (0, 5, 6, 7, 10)),
]
POINT = "tiled_gemm(depth=8, each=2, height=16, width=32)"


def drawn(seed: int, narrow: bool = False) -> Program:
    """Return a convolution of one to three axes: groups, strides, dilations, borders, layouts."""
    r = Random(seed)
    element = r.choice((dd.f16, dd.bf16) if narrow else (dd.f32, dd.f16, dd.bf16))
    rank, groups = r.choice((1, 2, 2, 2, 3)), r.choice((1, 1, 2, 3))
    channels, out = groups * r.choice((1, 3, 4, 8, 16)), groups * r.choice((2, 5, 8, 16))
    sizes = tuple(r.choice((5, 7, 9)) for _ in range(rank))
    window = tuple(r.choice((1, 2, 3)) for _ in range(rank))
    stride, dilation, padding = r.choice((1, 1, 2)), r.choice((1, 1, 2)), r.choice((0, 1, 2))
    images = r.choice((1, 2, 3))
    n = dd.dim("n", 1, images + 2) if r.random() < 0.4 else images
    last, after = r.random() < 0.3, r.choice(("", "relu", "residual", "tanh"))

    def f(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
        x = dd.moveaxis(x, -1, 1) if last else x
        y = dd.conv(x, w, b, stride, padding, dilation, groups)
        y = y * y + y if after == "residual" else y
        y = {"relu": dd.relu, "tanh": dd.tanh}.get(after, dd.positive)(y)
        return dd.moveaxis(y, 1, -1) if last else y

    shape = (n, *sizes, channels) if last else (n, channels, *sizes)
    weights = (out, channels // groups, *window)
    return dd.trace(element[shape], element[weights], element[(out,)])(f)


@pytest.mark.parametrize(("seed", "template", "options"), CASES)
def test_drawn_convolutions_are_right(seed: int, template: Template, options: dd.Options) -> None:
    program = drawn(seed, narrow=template is mma.TEMPLATE)
    every = points(request(program, options, template.space), template)[:40]
    point = every[seed * 7 % len(every)]
    assert judged(program, point, options=options, suits=template.space) == {""}, point


@dd.trace(dd.f32[2, 6, 7, 9], dd.f32[8, 3, 3, 2], dd.f32[8])
def grouped(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return dd.relu(dd.conv(x, w, b, padding=1, groups=2))


def _everywhere(change: Callable[[Expr], Expr | None]) -> Callable[[Expr], Expr]:
    def on_expr(e: Expr) -> Expr:
        return found if (found := change(e)) is not None else map_expr(on_expr, e)

    return on_expr


def _border(e: Expr) -> Expr | None:
    match e:
        case Compare("ge", lhs, rhs) if rhs == ZERO:
            return compare("ge", lhs, index(1))
        case Var():
            return e
        case _:
            return None


def border(p: Problem) -> Problem:
    """Take the first place of the operand for one of its border."""
    right = p.operands["right"]
    value = _everywhere(_border)(right.value)
    return replace(p, operands={**p.operands, "right": replace(right, value=value)})


def group(p: Problem) -> Problem:
    """Read the channels of the first group for all."""
    right = p.operands["right"]
    value = substitute_expr(right.value, {right.inputs[0].name: ZERO})
    return replace(p, operands={**p.operands, "right": replace(right, value=value)})


def tail(p: Problem) -> Problem:
    """Leave out the last term."""
    sides = {name: list(sub.extents) for name, sub in p.operands.items()}
    sides["left"][2] = sides["right"][1] = index(17)
    return replace(p, operands={
        name: replace(sub, extents=tuple(sides[name])) for name, sub in p.operands.items()
    })  # fmt: skip


@pytest.mark.parametrize("fault", [None, border, group, tail])
def test_a_planted_fault_is_found(
    fault: Callable[[Problem], Problem] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(asked: Asked) -> Problem | None:
        p = product(asked)
        return p if p is None or fault is None else fault(p)

    monkeypatch.setattr(gemm, "product", wrong)
    found = judged(grouped, POINT, suits=gemm.TEMPLATE.space)
    assert (found == {""}) == (fault is None)


def test_tensor_cores_take_convolutions_and_copy_their_weights() -> None:
    @dd.trace(dd.bf16[2, 64, 14, 14], dd.bf16[128, 64, 3, 3], dd.bf16[128])
    def layer(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
        return dd.relu(dd.conv(x, w, b, padding=1))

    made = compile(layer.module, dd.Options(target="sm_80"))
    assert "mma_m16n8k16_bf16" in made.text.source
    assert made.text.source.count("cp_async16") == 1
    r = request(layer, dd.Options(target="sm_80"))
    assert r.source is not None
    p = product(Asked(r.source, r.loop, SM_80))
    assert p is not None
    assert [p.expected(e) for e in p.output.extents] == [1, 128, 2 * 14 * 14]


def test_one_channel_a_group_is_no_product() -> None:
    @dd.trace(dd.f32[1, 6, 7, 7], dd.f32[6, 1, 3, 3])
    def depthwise(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return dd.conv(x, w, groups=6)

    made = compile(depthwise.module, until="lower")
    ((name, loop),) = made.loops.items()
    assert product(Asked(made.fused.function(name), loop, SM_80)) is None
