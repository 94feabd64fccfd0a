from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from didyma.codegen.memory.symbolic import SymbolicBuffer, SymbolicPlan, plan
from didyma.oracle.symbolic_plan import bindings, check, prove
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from tests.codegen.memory.symbolic.cases import (
    B,
    M,
    N,
    S,
    below,
    blocks,
    bound,
    buffers,
    decoder,
    random_trace,
    ranges,
)

FEW = 40  # moves of a search, where the search is not what is tested
alignments = st.sampled_from([1, 8, 64, 256])


def placed(p: SymbolicPlan, env: Mapping[str, int]) -> tuple[int, Mapping[str, int]]:
    found = p.place(env)
    return found.peak, found.offsets


@settings(max_examples=15, deadline=None)
@given(buffers(), ranges(), alignments, st.integers(1, 4))
def test_plans_are_sound_and_within_their_certificate(
    bs: list[SymbolicBuffer], declared: tuple[DimVar, ...], alignment: int, k: int
) -> None:
    p = plan(bs, declared, alignment, k, moves=FEW)
    assert 1 <= len(p.orientations) <= k
    envs = list(bindings(declared, 10))
    assert check(blocks(bs), alignment, lambda env: placed(p, env), iter(envs)) == []
    c = p.certificate
    assert (c.peak, c.lower_bound) == (p.place(c.at).peak, bound(bs, alignment, c.at))
    assert c.worst == (c.peak / c.lower_bound if c.lower_bound else 1)
    if c.proven is not None:
        for env in envs:
            assert p.place(env).peak <= c.proven * bound(bs, alignment, env)


@settings(max_examples=15, deadline=None)
@given(buffers(7), ranges(), alignments, st.integers(0, 99))
def test_code_is_what_the_expressions_say(
    bs: list[SymbolicBuffer], declared: tuple[DimVar, ...], alignment: int, seed: int
) -> None:
    p = plan(bs, declared, alignment, moves=FEW)
    for env in bindings(declared, 3, seed):
        at = p.place(env)
        offsets = p.offsets(at.orientation)
        assert {n: dims.evaluate(o, env) for n, o in offsets.items()} == at.offsets
        ends = (at.offsets[b.name] + dims.evaluate(b.size, env) for b in bs)
        assert 0 <= at.peak - max(ends) < alignment


@settings(max_examples=15, deadline=None)
@given(buffers(), ranges(), st.randoms(use_true_random=False))
def test_the_order_of_buffers_does_not_matter(
    bs: list[SymbolicBuffer], declared: tuple[DimVar, ...], random: Random
) -> None:
    shuffled = random.sample(bs, len(bs))
    first, second = (plan(x, declared, moves=FEW) for x in (bs, shuffled))
    assert (first.code, first.certificate) == (second.code, second.certificate)


DECODERS: list[tuple[Dim, int, list[DimVar]]] = [
    (4, 1, [DimVar("S", 16, 8192)]),
    (4, 50257, [DimVar("S", 16, 8192)]),
    (B, 1, [DimVar("B", 1, 64), DimVar("S", 16, 8192)]),
    (B, 50257, [DimVar("B", 1, 64), DimVar("S", 16, 8192)]),
]


@pytest.mark.parametrize(("batch", "vocabulary", "declared"), DECODERS)
def test_decoder_is_at_its_bound_for_every_length(
    batch: Dim, vocabulary: int, declared: list[DimVar]
) -> None:
    bs = decoder(batch, vocabulary=vocabulary)
    p = plan(bs, declared, 64)
    assert p.certificate.worst == 1
    assert p.certificate.proven is not None
    assert p.certificate.proven < 1.0025
    assert p.most_terms <= 20
    envs = bindings(declared, 100)
    assert check(blocks(bs), 64, lambda env: placed(p, env), envs) == []
    for k in range(len(p.orientations)):
        assert prove(blocks(bs), declared, 64, below(p, k)).open == ()


def test_random_traces_stay_near_their_bound() -> None:
    declared = [DimVar("S", 16, 8192)]
    for seed in (1, 3):
        bs = random_trace(seed)
        p = plan(bs, declared, 64)
        assert p.certificate.proven is not None
        assert p.certificate.proven < 1.03
        assert p.most_terms <= 20
        for env in bindings(declared, 60, seed):
            assert p.place(env).peak <= p.certificate.proven * bound(bs, 64, env)


def test_more_orientations_are_never_worse() -> None:
    declared = [DimVar("S", 16, 8192)]
    bs = random_trace(1)
    one, four = (plan(bs, declared, 64, k, moves=FEW).certificate.worst for k in (1, 4))
    assert four < one


def test_multiples_of_one_size_scale() -> None:
    sizes = [dims.mul(c, dims.add(dims.mul(N, M), N)) for c in (256, 768, 512, 1024, 256)]
    spans = [(0, 2), (1, 3), (2, 5), (3, 6), (1, 5)]
    bs = [
        SymbolicBuffer(f"b{i}", size, a, b)
        for i, (size, (a, b)) in enumerate(zip(sizes, spans, strict=True))
    ]
    declared = [DimVar("n", 1, 1000), DimVar("m", 0, 1000)]
    p = plan(bs, declared)
    assert p.scales
    assert len(p.orientations) == 1
    assert p.most_terms <= 1
    unit = p.place({"n": 1, "m": 0}).offsets
    for env in bindings(declared, 20):
        by = env["n"] * (env["m"] + 1)
        assert p.place(env).offsets == {name: o * by for name, o in unit.items()}
    assert not plan([*bs, SymbolicBuffer("x", 256, 0, 2)], declared).scales


def test_nothing_to_place() -> None:
    p = plan([], [DimVar("n", 0, 5)])
    assert p.place({"n": 3}).peak == 0
    assert p.certificate.worst == 1


def test_names_of_dims_may_be_anything() -> None:
    names = ["max", "o0", "class", "2 x", "z1"]
    bs = [SymbolicBuffer(f"b\n{s}", dims.mul(64, dims.symbol(s)), 0, 1) for s in names]
    p = plan(bs, [DimVar(s, 0, 9) for s in names], 64)
    assert p.place(dict.fromkeys(names, 3)).peak == 5 * 3 * 64


def test_wide_conflicts_keep_few_terms() -> None:
    """Twenty-two sizes that nothing compares, all under one buffer."""
    symbols = [dims.symbol(f"s{i}") for i in range(22)]
    declared = [DimVar(f"s{i}", 0, 1000) for i in range(22)]
    bs = [SymbolicBuffer(f"b{i}", dims.mul(64, s), i, i + 1) for i, s in enumerate(symbols)]
    bs.append(SymbolicBuffer("over", 1 << 40, 0, 22))
    p = plan(bs, declared, 64, moves=FEW)
    assert p.most_terms <= 20
    envs = bindings(declared, 50)
    assert check(blocks(bs), 64, lambda env: placed(p, env), envs) == []


ok = SymbolicBuffer("a", dims.mul(4, N), 0, 1)


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ([ok, ok], "buffer-twice"),
        ([SymbolicBuffer("a", 4, 1, 1)], "inverted-lifetime"),
        ([SymbolicBuffer("a", S, 0, 1)], "unbound-dim"),
        ([SymbolicBuffer("a", dims.sub(N, 3), 0, 1)], "negative-size"),
        ([SymbolicBuffer("a", -4, 0, 1)], "negative-size"),
    ],
)
def test_bad_buffers(bad: list[SymbolicBuffer], code: str) -> None:
    with pytest.raises(DidymaError) as e:
        plan(bad, [DimVar("n", 2, 8)])
    assert e.value.code == code


def test_bad_options() -> None:
    for alignment, k in ((0, 4), (64, 0)):
        with pytest.raises(DidymaError, match="bad-planner-option"):
            plan([ok], [DimVar("n", 0, 8)], alignment, k)


def test_bindings_out_of_range_are_refused() -> None:
    p = plan([ok], [DimVar("n", 2, 8)])
    for env, code in (({"n": 9}, "dim-out-of-range"), ({}, "unbound-dim")):
        with pytest.raises(DidymaError) as e:
            p.place(env)
        assert e.value.code == code
