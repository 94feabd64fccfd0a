"""Convolutions by the templates of products: drawn problems, and faults in what these read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.codegens import Asked, Template
from didyma.codegen.pipeline import compile
from didyma.codegen.select.choice import Choice, build
from didyma.codegen.templates import gemm, hooks, mma, wgmma
from didyma.codegen.templates.pieces import Pieces, pieces
from didyma.codegen.templates.problem import Problem
from didyma.codegen.templates.products import product
from didyma.refimpl.ir.expr import TRUE, ZERO, add, compare, index
from didyma.refimpl.ir.loop import Compare, Expr, Var
from didyma.refimpl.ir.target import SM_80
from didyma.refimpl.ir.walk import map_expr, substitute_expr
from didyma.tracer.tracing import Program
from tests.codegen.templates.judging import judged, points, request

CASES = [
    *((seed, gemm.TEMPLATE, dd.Options()) for seed in (0, 2, 4, 6, 7, 8)),
    *((seed, mma.TEMPLATE, dd.Options(target="sm_80")) for seed in (0, 5, 6, 7, 10)),
    *((seed, wgmma.TEMPLATE, dd.Options(target="sm_90a")) for seed in (1, 3, 4)),
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
    all_last, late = r.random() < 0.4, r.random() < 0.5

    def f(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
        x = dd.moveaxis(x, -1, 1) if last or all_last else x
        w = dd.moveaxis(w, -1, 1) if all_last else w
        y = dd.conv(x, w, b, stride, padding, dilation, groups)
        y = dd.moveaxis(y, 1, -1) if late and (last or all_last) else y
        y = y * y + y if after == "residual" else y
        y = {"relu": dd.relu, "tanh": dd.tanh}.get(after, dd.positive)(y)
        return dd.moveaxis(y, 1, -1) if not late and (last or all_last) else y

    shape = (n, *sizes, channels) if last or all_last else (n, channels, *sizes)
    each = channels // groups
    weights = (out, *window, each) if all_last else (out, each, *window)
    return dd.trace(element[shape], element[weights], element[(out,)])(f)


@pytest.mark.parametrize(("seed", "template", "options"), CASES)
def test_drawn_convolutions_are_right(seed: int, template: Template, options: dd.Options) -> None:
    program = drawn(seed, narrow=template is not gemm.TEMPLATE)
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
    def wrong(asked: Asked) -> Problem:
        p = product(asked)
        assert p is not None
        return p if fault is None else fault(p)

    monkeypatch.setattr(gemm, "_problem", wrong)
    found = judged(grouped, POINT, suits=gemm.TEMPLATE.space)
    assert (found == {""}) == (fault is None)


@dd.trace(dd.bf16[2, 7, 9, 16], dd.bf16[24, 3, 2, 16])
def last(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    x, w = dd.moveaxis(x, -1, 1), dd.moveaxis(w, -1, 1)
    return dd.moveaxis(dd.relu(dd.conv(x, w, padding=1)), 1, -1)


def everywhere(p: Pieces) -> Pieces:
    """Take what lies beside a line for its border."""
    return replace(p, inside=replace(p.inside, value=TRUE))


def beside(p: Pieces) -> Pieces:
    """Copy the next piece."""
    return replace(p, offset=replace(p.offset, value=add(p.offset.value, index(8))))


def one_less(p: Pieces) -> Pieces:
    """Take the first place of the operand for one of its border."""
    return replace(p, inside=replace(p.inside, value=_everywhere(_border)(p.inside.value)))


@pytest.mark.parametrize("template", [mma.TEMPLATE, wgmma.TEMPLATE])
@pytest.mark.parametrize("fault", [None, everywhere, beside, one_less])
def test_pieces_of_windows_are_copied_from_where_they_lie(
    fault: Callable[[Pieces], Pieces] | None, template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(p: Problem, operand: str, nbytes: int) -> Pieces | None:
        found = pieces(p, operand, nbytes)
        return found if found is None or fault is None else fault(found)

    options = dd.Options(target="sm_90a")
    monkeypatch.setattr(hooks, "pieces", wrong)
    r = request(last, options, template.space)
    (point, *_) = points(r, template)
    source = build(r.loop, options, Choice.parse(point), r.source).text.source
    assert "cp_async16_zfill_bf16" in source
    said = judged(last, point, options=options, suits=template.space, engines=["simt"])
    assert (said == {""}) == (fault is None)


def test_a_convolution_is_turned_as_it_is_stored() -> None:
    made = compile(last.module, dd.Options(), until="lower")
    assert len(made.loops) == 1


@dd.trace(dd.f32[2, 9, 9, 3], dd.f32[4, 3, 3, 3], dd.f32[4], dd.f32[2, 9, 9, 4])
def unit(x: dd.Tensor, w: dd.Tensor, scale: dd.Tensor, rest: dd.Tensor) -> dd.Tensor:
    y = dd.conv(dd.moveaxis(x, -1, 1), dd.moveaxis(w, -1, 1), padding=1)
    return dd.relu(dd.moveaxis(dd.exp(y), 1, -1) * scale + rest)


@dd.trace(dd.f32[3, 2, 3, 3], dd.f32[3, 2, 1, 1])
def twice_turned(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    y = dd.conv(x, w)
    return dd.permute(dd.exp(y), (0, 2, 3, 1)) + dd.permute(dd.tanh(y), (0, 3, 2, 1))


@dd.trace(dd.bf16[2, 3, 15, 15], dd.bf16[16, 3, 3, 3], dd.bf16[16, 16, 3, 3], dd.bf16[16, 16, 1, 1])
def network(x: dd.Tensor, w: dd.Tensor, wide: dd.Tensor, narrow: dd.Tensor) -> dd.Tensor:
    x = dd.max_pool2d(dd.relu(dd.conv2d(x, w, None, 2, 1)), 3, 1, 1)
    y = dd.conv2d(dd.relu(dd.conv2d(x, dd.asarray(wide), None, 1, 1)), narrow)
    return dd.mean(dd.relu(x + y), (2, 3))


def test_a_network_stores_channels_last_and_copies_inputs_and_weights_alone() -> None:
    options = dd.Options(target="sm_80")
    made = compile(network.module, options, until="lower")
    moved = [
        f
        for f in made.fused.functions
        if {n.op for n in f.nodes} <= {"permute_dims", "pad", "constant"}
    ]
    assert len(moved) == 3, "the image, and two weights that have a window"
    assert len(made.loops) == len(moved) + 3 + 2, "three convolutions, the pool and the mean"
    assert dd.check(network, options=options, engines=["simt", "host"], tries=1).agree


@dd.trace(dd.bf16[2, 9, 7, 16], dd.bf16[8, 1, 1, 16], dd.bf16[8, 3, 3, 16], dd.bf16[8])
def joined(x: dd.Tensor, w: dd.Tensor, wide: dd.Tensor, scale: dd.Tensor) -> dd.Tensor:
    x, w, wide = (dd.moveaxis(a, -1, 1) for a in (x, w, wide))
    y, z = (dd.moveaxis(a, 1, -1) for a in (dd.conv(x, w), dd.conv(x, wide, padding=1)))
    return dd.relu(y * scale + z)


@dd.trace(dd.bf16[2, 9, 7, 16], dd.bf16[8, 1, 1, 16], dd.bf16[8, 3, 3, 16], dd.bf16[8])
def in_turn(x: dd.Tensor, w: dd.Tensor, wide: dd.Tensor, scale: dd.Tensor) -> dd.Tensor:
    x, w, wide = (dd.moveaxis(a, -1, 1) for a in (x, w, wide))
    y = dd.moveaxis(dd.conv(x, w), 1, -1) * scale
    return dd.relu(y + dd.moveaxis(dd.conv(x, wide, padding=1), 1, -1))


@pytest.mark.parametrize("program", [joined, in_turn])
def test_of_two_convolutions_each_stores_the_order_that_is_read(program: Program) -> None:
    made = compile(program.module, dd.Options(), until="lower")
    assert [loop.params[-1].shape for loop in made.loops.values()] == [(2, 9, 7, 8)] * 2
    assert dd.check(program, engines=["simt", "host"], tries=1).agree


def test_weights_that_are_constants_are_packed_once() -> None:
    r = np.random.default_rng(0)
    wide = r.standard_normal((16, 3, 3, 3)).astype(dd.bf16.dtype.numpy)

    @dd.trace(dd.bf16[2, 3, 9, 9])
    def known(x: dd.Tensor) -> dd.Tensor:
        return dd.relu(dd.conv2d(x, dd.asarray(wide), None, 1, 1))

    options = dd.Options(target="sm_80")
    made = compile(known.module, options, until="lower")
    assert len(made.loops) == 2, "the image is moved, and the weights are not"
    assert dd.check(known, options=options, engines=["simt", "host"], tries=1).agree


@pytest.mark.parametrize(("program", "kernels"), [(unit, 1), (twice_turned, 2)])
def test_a_convolution_is_turned_once_among_elementwise_ops(program: Program, kernels: int) -> None:
    assert len(compile(program.module, dd.Options(), until="lower").loops) == kernels
    assert dd.check(program, engines=["simt", "host"], tries=1).agree
    assert kernels > 1 or judged(program, POINT) == {""}


def test_tensor_cores_take_convolutions_and_copy_windows_and_weights() -> None:
    @dd.trace(dd.bf16[2, 64, 14, 14], dd.bf16[128, 64, 3, 3], dd.bf16[128])
    def layer(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
        return dd.relu(dd.conv(x, w, b, padding=1))

    made = compile(layer.module, dd.Options(target="sm_80"))
    assert "mma_m16n8k16_bf16" in made.text.source
    assert made.text.source.count("cp_async16") == 2
    plain = dd.Options(target="sm_80").changed({"graph.channels": False})
    assert compile(layer.module, plain).text.source.count("cp_async16") == 1
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


def test_a_convolution_whose_results_are_packed_is_no_product() -> None:
    @dd.trace(dd.f32[1, 6, 5, 5], dd.f32[18, 6, 1, 1])
    def packed(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return dd.saturating_cast(dd.conv(x, w), dd.f4e2m1)

    made = compile(packed.module, until="lower")
    ((name, loop),) = made.loops.items()
    assert product(Asked(made.fused.function(name), loop, SM_80)) is None
