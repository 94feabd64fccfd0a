"""Random buffers of symbolic sizes; and the traces of a decoder and of random programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from hypothesis import strategies as st

from didyma.codegen.memory.symbolic import SymbolicBuffer, SymbolicPlan
from didyma.oracle.symbolic_plan import PlacedBuffer
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar, symbol

N, M, S, B = map(symbol, ("n", "m", "S", "B"))


def sizes() -> st.SearchStrategy[Dim]:
    """Sizes that are never negative, polynomial and not."""
    factor = st.sampled_from([1, 4, 12, 64, 256, 1000])
    base: st.SearchStrategy[Dim] = st.sampled_from(
        [
            1,
            N,
            M,
            dims.mul(N, N),
            dims.mul(N, M),
            dims.add(N, dims.mul(3, M), 5),
            dims.add(dims.mul(N, N), dims.mul(-1, N)),
            dims.floordiv(dims.add(N, 1), 2),
            dims.floordiv(dims.mul(N, dims.add(N, 1)), 2),
            dims.ceildiv(dims.mul(N, M), 3),
            dims.maximum(N, M),
            dims.minimum(N, dims.add(M, 7)),
            dims.sub(40, N),
            N % 7,
        ]
    )
    return st.builds(dims.mul, factor, base)


def ranges() -> st.SearchStrategy[tuple[DimVar, ...]]:
    """Ranges of n and m, within which the sizes are not negative."""
    low = st.integers(0, 3)
    return st.builds(_declared, low, st.integers(0, 37), low, st.integers(0, 50))


def _declared(n: int, more_n: int, m: int, more_m: int) -> tuple[DimVar, ...]:
    return DimVar("n", n, n + more_n), DimVar("m", m, m + more_m)


@st.composite
def buffers(draw: st.DrawFn, most: int = 9) -> list[SymbolicBuffer]:
    count = draw(st.integers(1, most))
    found: list[SymbolicBuffer] = []
    for i in range(count):
        lower = draw(st.integers(0, 8))
        upper = lower + draw(st.integers(1, 5))
        found.append(SymbolicBuffer(f"b{i}", draw(sizes()), lower, upper))
    return found


def blocks(bs: Sequence[SymbolicBuffer]) -> list[PlacedBuffer]:
    return [PlacedBuffer(b.name, b.size, b.lower, b.upper) for b in bs]


def below(p: SymbolicPlan, k: int) -> dict[str, list[str]]:
    names = [b.name for b in p.buffers]
    return {names[i]: [names[j] for j in js] for i, js in enumerate(p.orientations[k].below)}


def bound(bs: Sequence[SymbolicBuffer], alignment: int, env: Mapping[str, int]) -> int:
    """Most aligned bytes alive at once."""
    size = {b.name: -(-dims.evaluate(b.size, env) // alignment) * alignment for b in bs}
    steps = {b.lower for b in bs}
    return max(sum(size[b.name] for b in bs if b.lower <= t < b.upper) for t in steps)


def random_trace(seed: int, count: int = 80) -> list[SymbolicBuffer]:
    """Buffers of c·S^{0,1,2} bytes; lifetimes exponential about five steps."""
    r = Random(seed)
    found: list[SymbolicBuffer] = []
    for i in range(count):
        lower = r.randrange(count // 2)
        upper = lower + 1 + int(r.expovariate(1 / 4))
        power = r.choice([0, 1, 1, 1, 2])
        c = r.choice([64, 256, 1024, 4096]) * r.choice([1, 2, 3, 4])
        size = (c * 512, dims.mul(c, S), dims.floordiv(dims.mul(c, S, S), 512))[power]
        found.append(SymbolicBuffer(f"b{i}", size, lower, upper))
    return found


def decoder(batch: Dim = 4, *, layers: int = 4, vocabulary: int = 1) -> list[SymbolicBuffer]:
    """Activations of a decoder of width 1024 with 16 heads, f16 with softmax in f32."""
    act = dims.mul(batch, S, 1024 * 2)
    scores = dims.mul(batch, S, S, 16 * 2)
    layer = (
        (0, 2, act),  # norm
        (1, 3, dims.mul(3, act)),  # q, k and v together
        (2, 4, act),
        (2, 4, act),
        (2, 7, act),
        (3, 5, scores),
        (4, 6, dims.mul(2, scores)),  # softmax
        (5, 7, scores),
        (6, 8, act),
        (7, 9, act),
        (8, 13, act),  # residual
        (9, 11, act),
        (10, 12, dims.mul(4, act)),
        (11, 13, dims.mul(4, act)),
        (12, 14, act),
        (13, 23, act),  # residual
    )
    spans: list[tuple[int, int, Dim]] = [(0, 3, act)]
    for k in range(layers):
        spans += [(1 + 13 * k + a, 1 + 13 * k + b, size) for a, b, size in layer]
    t = 1 + 13 * layers
    logits = dims.mul(batch, S, vocabulary * 2)
    spans += [(t + 1, t + 3, act), (t + 2, t + 4, logits), (t + 3, t + 5, dims.mul(2, logits))]
    spans.append((t + 4, t + 6, dims.mul(batch, S, 4)))
    return [SymbolicBuffer(f"b{i}", size, a, b) for i, (a, b, size) in enumerate(spans)]
