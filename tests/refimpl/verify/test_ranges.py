"""What is proved of symbolic sizes holds at every binding, and most of what is asked is proved."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.fuzz.graphs import BYTES, decode
from didyma.fuzz.levels import check
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.program import Program
from didyma.refimpl.verify import program as laws
from didyma.refimpl.verify.ranges import Evidence, Ranges
from didyma.refimpl.verify.sizes import Sizes
from tests.bench.decoder import decoder

N, M, AT = (dims.symbol(name) for name in ("n", "m", "i"))


def asked(
    spans: Mapping[str, tuple[int, int]],
    extents: Mapping[str, Dim] | None = None,
    lines: Sequence[tuple[str, Dim]] = (),
) -> Ranges:
    """Ranges of symbols, of indices, and of symbols that lines set."""
    declared = [DimVar(name, *span) for name, span in spans.items()]
    declared += [DimVar(name, 0, 1 << 40) for name, _ in lines]
    return Ranges(Sizes(declared, "here"), extents or {}, lines)


WIDE = {"n": (1, 4096), "m": (1, 4096)}


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (N * M, N),
        (N * M + 1, N + M - 1),
        (dims.align(12 * N, 256), 12 * N),
        (dims.maximum(N, M), dims.minimum(N, M)),
        (dims.maximum(N, M) + 4, dims.maximum(N + 4, M)),
        (dims.add(dims.maximum(N - 8, 0), 8), N),
        (dims.mul(2, dims.floordiv(N + 1, 2)), N),
        (dims.mul(N, dims.maximum(M - 1, 0)), 0),
        (dims.sub(dims.mul(N, N), N), 0),
        (dims.sub(dims.floordiv(N + 2, 3), dims.floordiv(N, 3)), 0),
    ],
)
def test_what_holds_is_proved(a: Dim, b: Dim) -> None:
    r = asked(WIDE)
    assert r.at_least(a, b)
    assert r.evidence == Evidence(1, 0)


def test_what_lines_set_is_known() -> None:
    room, at, top = (dims.symbol(name) for name in ("room", "at", "top"))
    lines: list[tuple[str, Dim]] = [
        ("room", dims.align(12 * N, 256)),
        ("at", dims.maximum(room, dims.align(4 * M, 256))),
        ("top", dims.maximum(at + room, 512)),
    ]
    r = asked(WIDE, lines=lines)
    assert r.at_least(top, at + 12 * N)
    assert r.apart((0, 12 * N), (at, at + 12 * N))
    assert r.multiple(top, 256)
    assert r.covered([(0, at), (at, top)], 4, top)
    assert r.evidence == Evidence(4, 0)
    assert not r.multiple(top, 768)
    assert not r.apart((0, at + 1), (at, top))
    assert r.evidence == Evidence(6, 0)


def test_an_index_is_below_its_extent() -> None:
    r = asked({**WIDE, "i": (0, 4095)}, {"i": N})
    assert r.at_least(60 * N, 60 * AT + 60)
    assert r.at_least(N * M, AT * M + M)
    assert r.evidence == Evidence(2, 0)
    assert not r.at_least(60 * N, 60 * AT + 61)


def test_few_bindings_are_all_tried() -> None:
    r = asked({"n": (0, 3), "m": (0, 2)})
    assert r.at_least(3 * N, dims.mul(N, N))  # no rule proves it
    assert r.evidence == Evidence(1, 0)


def test_what_is_not_proved_is_said_to_be_sampled() -> None:
    r = asked({"n": (1, 4096)})
    far = dims.maximum(N - 1234, 1234 - N)  # 0 at a size that is not tried
    assert r.at_least(far, 1)
    assert r.evidence == Evidence(0, 1)
    assert str(Evidence(2, 1)) == "symbolic laws: 1 of 3 sampled at 14 bindings"
    assert (str(Evidence(3)), str(Evidence())) == ("symbolic laws: 3 proved", "")


def test_long_chains_do_not_exhaust_the_stack() -> None:
    room = dims.symbol("room")
    lines: list[tuple[str, Dim]] = [("room", dims.align(12 * N, 256)), ("at_0", room)]
    for k in range(1, 1500):
        last, before = (dims.symbol(f"at_{max(0, k - j)}") for j in (1, 3))
        lines.append((f"at_{k}", dims.maximum(last + room, before + 512)))
    r = asked(WIDE, lines=lines)
    assert r.multiple(dims.symbol("at_1499"), 256)
    assert r.at_least(dims.symbol("at_1499"), dims.symbol("at_5") + 12 * N)


# ---- soundness

SMALL = {"n": (1, 5), "m": (0, 3)}
RANGES = {**SMALL, "i": (0, 7)}
EXTENT = dims.add(N, M)


@st.composite
def sizes(draw: st.DrawFn, names: Sequence[str], depth: int = 3) -> Dim:
    """A size over symbols."""
    if depth == 0 or draw(st.booleans()):
        return draw(
            st.sampled_from([dims.symbol(x) for x in names])
            | st.integers(-3, 9).map(dims.canonical)
        )
    a = draw(sizes(names, depth - 1))
    match draw(st.integers(0, 6)):
        case 0:
            return dims.mul(draw(st.integers(-2, 4)), a)
        case 1:
            return dims.floordiv(a, draw(st.integers(2, 4)))
        case 2:
            return dims.align(a, draw(st.sampled_from([2, 4])))
        case 3:
            return dims.mul(a, draw(sizes(names, 0)))
        case k:
            join = (dims.add, dims.maximum, dims.minimum)[k - 4]
            return join(a, draw(sizes(names, depth - 1)))


def bindings(lines: Sequence[tuple[str, Dim]]) -> Iterator[dict[str, int]]:
    """All bindings of the small ranges, with what lines set, at which the index has a round."""
    for n, m in itertools.product(range(1, 6), range(4)):
        for i in range(n + m):
            env = {"n": n, "m": m, "i": i}
            for name, d in lines:
                env[name] = dims.evaluate(d, env)
            yield env


@settings(deadline=None, max_examples=250)
@given(data=st.data())
def test_what_is_proved_holds_at_every_binding(data: st.DataObject) -> None:
    names = [*SMALL]
    lines: list[tuple[str, Dim]] = []
    for k in range(data.draw(st.integers(0, 3))):
        lines.append((f"at_{k}", data.draw(sizes(names))))
        names.append(f"at_{k}")
    a, b, c, d = (data.draw(sizes([*names, "i"])) for _ in range(4))
    all_of = list(bindings(lines))
    at = {x: [dims.evaluate(x, env) for env in all_of] for x in (a, b, c, d)}
    truths = {
        "at_least": all(x >= y for x, y in zip(at[a], at[b], strict=True)),
        "multiple": all(x % 4 == 0 for x in at[a]),
        "apart": all(
            w == x or y == z or x <= y or z <= w
            for w, x, y, z in zip(at[a], at[b], at[c], at[d], strict=True)
        ),
        "covered": all(
            set(range(w, z)) <= {*range(w, x), *range(y, z)}
            for w, x, y, z in zip(at[a], at[b], at[c], at[d], strict=True)
        ),
    }
    r = asked(RANGES, {"i": EXTENT}, lines)
    answers: dict[str, Callable[[], bool]] = {
        "at_least": lambda: r.at_least(a, b),
        "multiple": lambda: r.multiple(a, 4),
        "apart": lambda: r.apart((a, b), (c, d)),
        "covered": lambda: r.covered([(a, b), (c, d)], a, d),
    }
    for name, ask in answers.items():
        before = r.evidence
        said = ask()
        if r.evidence.sampled == before.sampled and said:
            assert truths[name], name
        assert said or not truths[name], name


def test_a_range_that_is_always_empty_is_apart_from_itself() -> None:
    n = dims.symbol("n")
    assert asked(RANGES, {}, []).apart((n + 1, n), (n + 1, n))
    assert not asked(RANGES, {}, []).apart((n, n + 1), (n, n + 1))


# ---- how much is proved


def test_nearly_all_that_is_asked_of_programs_is_proved() -> None:
    total = Evidence()
    for seed in range(60):
        case = decode(random.Random(seed).randbytes(BYTES))
        total += laws.verify(compile(case.module, case.options(Options())).program, kernels=False)
    assert total.proved > 500
    assert total.sampled <= 0.01 * total.proved


def planned() -> Program:
    return compile(decoder(2, 16, 2, (1, 32), (1, 4096))).program


def test_all_that_is_asked_of_a_decoder_is_proved() -> None:
    found = laws.verify(planned(), kernels=False)
    assert (found.sampled, found.proved > 200) == (0, True)


def test_the_level_of_the_plan_says_how_laws_were_verified() -> None:
    n = dd.dim("n", 1, 4096)

    @dd.trace(dd.f32[n, 8])
    def net(x: dd.Tensor) -> dd.Tensor:
        return dd.sum(dd.softmax(dd.exp(x) @ dd.permute_dims(x, axes=(1, 0)), axis=-1), axis=0)

    x = np.ones((5, 8), np.float32)
    notes = {y.name: y.note for y in check(net.module, [x], []).levels}
    assert re.fullmatch(r"symbolic laws: \d+ proved", notes.pop("plan"))
    assert set(notes.values()) == {""}
    assert {y.note for y in check(net.module, [x], [], details=False).levels} == {""}
