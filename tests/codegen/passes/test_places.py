"""What is computed of places with each score, and what stays an array of queries and keys."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import didyma as dd
from didyma.codegen.pipeline import compile
from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import Shape

OPTIONS = dd.Options(target="sm_90a")
HEADS, LENGTH = 2, 80
SHAPE = (2, HEADS, LENGTH, 64)
SIDE = dd.bf16[SHAPE]
Change = Callable[..., dd.Tensor]


def away(places: tuple[dd.Tensor, ...]) -> dd.Tensor:
    return dd.astype(places[-1] - places[-2], dd.f32)


def head(places: tuple[dd.Tensor, ...]) -> dd.Tensor:
    return dd.astype(places[1], dd.f32) + 1.0


def divided(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    return (s + away(places) / 100.0) / 2.0 + s * s / 4.0


def sloped(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    """Have a slope for each head, as ALiBi has, which costs much but not for each score."""
    return s + dd.exp2(head(places) * -8.0 / float(HEADS)) * away(places)


def long(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    """Have many operations, but such that templates multiply out."""
    return s - ((away(places) / 3.0 + 2.0) / 5.0 - 1.0) / 7.0 * 0.5


def curved(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    return s - dd.tanh(away(places))


def falling(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    """Cost more than it takes to read an array of each head, but not of all."""
    return s - dd.tanh(away(places) * head(places)) / 2.0


def windowed(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    i, j = places[-2:]
    return dd.where((dd.abs(i - j) < 16) | (j < 4), s, -float("inf"))


def logarithmic(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    return s - dd.log1p(dd.abs(away(places)))


def dear(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    """Cost more than it takes to read an array of each head."""
    return s - dd.sin(dd.exp(dd.tanh(away(places) * head(places))))


def attended(change: Change | None, layers: int = 1, *, open: bool = False) -> dd.Program:
    """Trace layers of attention, whose numbers of queries and keys may be symbols."""
    n, m = (dd.dim(x, 1, 200) if open else LENGTH for x in "nm")

    def layered(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
        for _ in range(layers):
            q = dd.scaled_dot_product_attention(q, k, v, None, True, score_mod=change)
        return q

    return dd.trace(*(dd.bf16[(*SHAPE[:2], d, SHAPE[3])] for d in (n, m, m)))(layered)


def stored(p: dd.Program, options: dd.Options = OPTIONS) -> list[Shape]:
    """Return the shapes of the arrays that kernels store, without those of the results."""
    made = compile(p.module, options, until="lower").fused
    calls: list[Node] = [n for n in made.entry.nodes if n.callee]
    every = [x for n in calls for x in zip(n.results, n.types, strict=True)]
    return [t.shape for r, t in every if r not in made.entry.results]


@pytest.mark.parametrize("open", [False, True])
@pytest.mark.parametrize("change", [None, divided, sloped, long, curved, falling, windowed])
def test_cheap_values_are_computed_with_each_score(change: Change | None, open: bool) -> None:
    assert stored(attended(change, open=open)) == []


@pytest.mark.parametrize("change", [None, divided, sloped, windowed])
def test_each_layer_computes_them_anew(change: Change | None) -> None:
    assert stored(attended(change, layers=3)) == [SHAPE] * 2


@pytest.mark.parametrize(
    ("change", "shape"),
    [(logarithmic, (1, 1, LENGTH, LENGTH)), (dear, (1, HEADS, LENGTH, LENGTH))],
)
def test_what_costs_more_than_a_load_is_stored_once(change: Change, shape: Shape) -> None:
    assert stored(attended(change)) == [shape]
    assert stored(attended(change, layers=2)) == [shape, SHAPE]


def test_what_reads_more_than_lines_is_stored_once() -> None:
    @dd.trace(SIDE, SIDE, SIDE, dd.f32[LENGTH, LENGTH])
    def divided(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, pairs: dd.Tensor) -> dd.Tensor:
        def change(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
            return s + pairs / away(places)

        return dd.scaled_dot_product_attention(q, k, v, score_mod=change)

    @dd.trace(SIDE, SIDE, SIDE, dd.f32[2 * LENGTH])
    def looked_up(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, table: dd.Tensor) -> dd.Tensor:
        def change(s: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
            return s + dd.take(table, LENGTH + places[-1] - places[-2])

        return dd.scaled_dot_product_attention(q, k, v, score_mod=change)

    assert stored(divided) == stored(looked_up) == [(1, 1, LENGTH, LENGTH)]


def test_a_result_is_stored_and_still_computed_with_each_score() -> None:
    @dd.trace(SIDE, SIDE, SIDE)
    def both(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        i, j = (dd.reshape(dd.arange(LENGTH), s) for s in ((LENGTH, 1), (1, LENGTH)))
        biases = dd.astype(j - i, dd.f32) / 100.0
        s = dd.astype(q @ dd.matrix_transpose(k), dd.f32) + biases
        return biases, dd.astype(dd.softmax(s, -1), dd.bf16) @ v

    made = compile(both.module, OPTIONS, until="lower").fused
    assert sorted(len(n.args) for n in made.entry.nodes if n.callee) == [0, 3]


def test_gradients_compute_the_mask_of_their_attention_anew() -> None:
    @dd.trace(*[SIDE] * 6, dd.f32[SHAPE[:-1]])
    def trained(
        a: dd.Tensor,
        g: dd.Tensor,
        q: dd.Tensor,
        k: dd.Tensor,
        v: dd.Tensor,
        out: dd.Tensor,
        logs: dd.Tensor,
    ) -> tuple[dd.Tensor, ...]:
        again = dd.scaled_dot_product_attention(a, k, v, None, True)
        made = dd.scaled_dot_product_attention_backward(g, q, k, v, out, logs, True)
        return again, made.q, made.k, made.v

    assert (LENGTH, LENGTH) not in [s[-2:] for s in stored(trained)]


def test_other_programs_read_what_many_would_compute() -> None:
    @dd.trace(dd.f32[2, HEADS, LENGTH, LENGTH])
    def softmax(s: dd.Tensor) -> dd.Tensor:
        i, j = (dd.reshape(dd.arange(LENGTH), s) for s in ((LENGTH, 1), (1, LENGTH)))
        return dd.softmax(s + dd.astype(j - i, dd.f32) / 100.0, -1)

    assert (LENGTH, LENGTH) in stored(softmax)


def test_arrays_of_symbolic_lengths_are_of_pairs_of_queries_and_keys() -> None:
    assert [[*map(str, s)] for s in stored(attended(logarithmic, open=True))] == [list("11nm")]


@pytest.mark.parametrize("target", ["portable", "sm_90a"])
@pytest.mark.parametrize("change", [None, divided, sloped])
def test_scores_of_two_layers_are_right(change: Change | None, target: str) -> None:
    p = attended(change, layers=2, open=change is sloped)
    assert dd.check(p, engines=["host"], options=dd.Options(target=target)).agree
