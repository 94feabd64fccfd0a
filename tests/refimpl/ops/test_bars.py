"""Bars from both sides: correct implementations stay inside, small faults fall outside."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.refimpl.interp import graph
from didyma.refimpl.ir.graph import Function, Module, Node, Param
from didyma.refimpl.ir.loop import Expr
from didyma.refimpl.ir.types import ALL, Array, DType, TensorType
from didyma.refimpl.ops import OPS, bars
from didyma.refimpl.ops.bars import Bar, Contract, centre_dtype
from didyma.refimpl.ops.bitcast import targets
from didyma.refimpl.ops.spec import Domain, Fold, Index, Kind, Read, Scatter
from tests.refimpl.ops.corners import corners, reader
from tests.refimpl.ops.definitions import mp
from tests.refimpl.ops.machine import Machine

POOL = [op for op in OPS.values() if op.kind is Kind.ELEMENTWISE]
SIZE = 64


def values(rng: np.random.Generator, dtype: DType, domain: Domain | None) -> Array:
    """Random operand values, a tenth of them corners."""
    if dtype is DType.BOOL:
        return rng.integers(0, 2, SIZE).astype(bool)
    lo, hi = (domain.lo, domain.hi) if domain else (-8.0, 8.0)
    if dtype.is_int:
        x = rng.integers(int(max(lo, dtype.limits[0])), int(min(hi, dtype.limits[1])) + 1, SIZE)
        out = x.astype(dtype.numpy)
    else:
        with np.errstate(all="ignore"):
            out = rng.uniform(lo, hi, SIZE).astype(np.float64).astype(dtype.numpy)
    odd = rng.random(SIZE) < 0.1
    return np.where(odd, rng.choice(corners(dtype), SIZE), out).astype(dtype.numpy)


class Builder:
    """A random kernel of elementwise ops: as a graph, and as one loop expression a value."""

    def __init__(self, rng: np.random.Generator, dtype: DType) -> None:
        self.rng = rng
        self.inputs: list[Array] = []
        self.params: list[Param] = []
        self.nodes: list[Node] = []
        self.types: dict[str, TensorType] = {}
        self.exprs: dict[str, Expr] = {}
        for _ in range(3):
            self.input(dtype, None)

    def input(self, dtype: DType, domain: Domain | None) -> str:
        name = f"p{len(self.params)}"
        self.types[name] = TensorType(dtype, (SIZE,))
        self.exprs[name] = reader(len(self.params), dtype)
        self.inputs.append(values(self.rng, dtype, domain))
        self.params.append(Param(name, self.types[name]))
        return name

    def pick(self, dtype: DType, domain: Domain | None) -> str:
        names = [n for n, t in self.types.items() if t.dtype is dtype]
        if not names or self.rng.random() < 0.15:
            return self.input(dtype, domain)
        late = names[-3:] if self.rng.random() < 0.7 else names
        return str(self.rng.choice(late))

    def grow(self) -> None:
        op = POOL[int(self.rng.integers(len(POOL)))]
        have = [n for n, t in self.types.items() if t.dtype in op.dtypes]
        if not have:
            return
        dtype = self.types[have[-1 - int(self.rng.integers(min(3, len(have))))]].dtype
        attrs: tuple[tuple[str, DType], ...] = ()
        dtypes = [dtype] * op.arity[0]
        if op.name == "where":
            dtypes[0] = DType.BOOL
        if op.name in ("cast", "saturating_cast"):
            attrs = (("dtype", ALL[int(self.rng.integers(len(ALL)))]),)
        if op.name == "bitcast":
            few = targets(dtype)
            attrs = (("dtype", few[int(self.rng.integers(len(few)))]),)
        domains = op.apply(dict(attrs)).domains([TensorType(d) for d in dtypes])
        args = [self.pick(d, dom) for d, dom in zip(dtypes, domains, strict=True)]
        types = [self.types[a] for a in args]
        out = op.infer(types, dict(attrs))
        name = f"v{len(self.nodes)}"
        self.nodes.append(Node((name,), op.name, tuple(args), (out,), attrs))
        self.types[name] = out
        rule = op.apply(dict(attrs)).element(
            (reader(0, DType.I64),), [self.read(a) for a in args], types, out
        )
        assert not isinstance(rule, (Fold, Scatter))
        self.exprs[name] = rule

    def read(self, name: str) -> Read:
        def at(index: Index) -> Expr:
            del index
            return self.exprs[name]

        return at

    def function(self) -> Function:
        return Function("k", tuple(self.params), tuple(self.nodes), tuple(self.types))


def build(seed: int, dtype: DType, nodes: int) -> Builder:
    rng = np.random.default_rng(seed)
    b = Builder(rng, dtype)
    while len(b.nodes) < nodes:
        b.grow()
    return b


def evaluate(b: Builder, name: str, machine: Machine) -> Array:
    with np.errstate(all="ignore"):
        wide = machine.run(b.exprs[name])
        return np.broadcast_to(np.asarray(wide).astype(b.types[name].dtype.numpy), (SIZE,))


def report(b: Builder, name: str, bar: Bar, got: Array) -> str:
    v = bars.judge(bar, got, b.types[name].dtype)
    if v.ok.all():
        return ""
    i = int(np.argwhere(~v.ok)[0][0])
    steps = "\n".join(f"{n.results[0]} = {n.op}{n.args} {n.types[0].dtype}" for n in b.nodes)
    args = {p.name: x[i] for p, x in zip(b.params, b.inputs, strict=True)}
    return f"{steps}\n{args}\n{name}[{i}]: got {got[i]!r}, want {bar.c[i]!r} ± {bar.e[i]}"


def judged(dtype: DType, seeds: range) -> tuple[int, int]:
    """Judge noisy implementations of random kernels; return elements and undecided ones."""
    total = undecided = 0
    for seed in seeds:
        b = build(seed, dtype, 7)
        f = b.function()
        m = Module((f,))
        exact = [bars.exact(x) for x in b.inputs]
        found = dict(zip(f.results, graph.bars(f, m, exact), strict=True))
        truth = graph.values(f, m, b.inputs)
        machine = Machine(
            [x.astype(DType.of(x).compute.numpy) for x in b.inputs], np.random.default_rng(seed)
        )
        last = b.nodes[-1].results[0]
        text = report(b, last, found[last], evaluate(b, last, machine))
        assert not text, f"seed {seed}, {dtype}:\n{text}"
        if dtype is dtype.compute:  # the interpreter rounds every node of f16 and bf16
            small = (DType.F16, DType.BF16)
            if not any(t.dtype in small for t in b.types.values()):
                text = report(b, last, found[last], truth[last])
                assert not text, f"seed {seed}, {dtype}, interpreter:\n{text}"
        loose = graph.bars(f, m, exact, stored=True)[-1]
        text = report(b, last, loose, truth[last])
        assert not text, f"seed {seed}, {dtype}, stored:\n{text}"
        total += SIZE
        verdict = bars.judge(found[last], truth[last], b.types[last].dtype)
        undecided += int(np.count_nonzero(verdict.undecided))
    return total, undecided


@pytest.mark.parametrize(
    "dtype", [DType.F32, DType.F16, DType.BF16, DType.F64, DType.I8, DType.U32]
)
def test_noisy_kernels_stay_inside(dtype: DType) -> None:
    total, undecided = judged(dtype, range(150))
    assert undecided < 0.2 * total


def test_the_centre_of_erf_is_finer_than_f64() -> None:
    """So that a bar holds all that is within the ulp promised: libm's own erf is off by 1.05."""
    x = np.array([-0.04902541668273549, -0.05536306193933343, 1e-300, 0.5, 1.9, -2.81, 3.5, 5.0])
    t = TensorType(DType.F64, x.shape)
    with np.errstate(all="ignore"):
        bar = OPS["erf"].apply({}).bar([bars.exact(x)], [t], t, Contract(ulp={"erf": 1.0}))
    for v, c, e in zip(x.tolist(), bar.c, bar.e, strict=True):
        exact = mp.erf(mp.mpf(v))
        high = float(c)
        gap = abs(exact - high - float(c - np.longdouble(high)))
        ulp = np.spacing(abs(high))
        assert gap <= ulp * 2.0**-6
        assert ulp - gap <= e <= 1.05 * ulp


def test_a_product_that_overflows_against_a_greater_one_is_undecided() -> None:
    x = np.array([[-3e38, 3e38]], np.float32)
    w = np.array([[1e3], [1e18]], np.float32)  # -inf + inf where products are rounded, 3e56 exactly
    types = [TensorType(DType.F32, (1, 2)), TensorType(DType.F32, (2, 1))]
    bars_ = [bars.exact(a, DType.F32) for a in (x, w)]
    out = TensorType(DType.F32, (1, 1))
    bar = OPS["matmul"].apply({}).bar(bars_, types, out, Contract())
    assert bar.e[0, 0] == np.inf


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
def test_the_length_of_a_vector_that_may_be_zero_is_decided(dtype: DType) -> None:
    """Neither an even power nor a sum of what is not negative is rounded below zero."""
    x = Bar(np.array([1e-9, -3e-4, 0.0, 2.0], centre_dtype(dtype)), np.array([2e-3, 1e-3, 1e-5, 1]))
    t = TensorType(dtype, (4,))
    two = bars.exact(np.full(4, 2, dtype.numpy))
    with np.errstate(all="ignore"):
        power = OPS["pow"].apply({}).bar([x, two], [t, t], t, Contract())
        total = OPS["add"].apply({}).bar([power, power], [t, t], t, Contract())
        root = OPS["sqrt"].apply({}).bar([total], [t], t, Contract())
    assert (power.c >= power.e).all()
    assert (total.c >= total.e).all()
    assert np.isfinite(root.e).all()
    most = np.sqrt(2.0) * (np.abs(x.c) + x.e)
    assert (root.c + root.e >= most).all()
    assert (root.c + root.e <= 3 * most).all()


@pytest.mark.parametrize("dtype", [d for d in ALL if d.is_float and d.compute is not d])
def test_all_of_a_bar_is_inside_once_it_is_stored(dtype: DType) -> None:
    """Beyond the largest number there may be NaN: on both sides, and yet not between."""
    rng = np.random.default_rng(5)
    scale = 10.0 ** rng.uniform(-3, 6, 400)
    c = scale * rng.choice([-1.0, 1.0], 400)
    b = Bar(c, scale * 10.0 ** rng.uniform(-3, 2, 400))
    with np.errstate(all="ignore"):
        kept = bars.store(b, dtype)
        for x in (*(c + b.e * t for t in np.linspace(-1, 1, 41)), np.clip(0.0, c - b.e, c + b.e)):
            found = bars.cast_float(x, dtype)
            assert bars.judge(kept, found, dtype).ok.all()
    assert np.isfinite(kept.e).mean() > 0.3


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_a_value_that_is_perhaps_scaled_may_be_rounded_at_any_scale_up_to_its_own(
    dtype: DType,
) -> None:
    r = np.random.default_rng(0)
    c, scale = np.exp(-9 * r.random(4000)), r.random(4000) + 1e-3
    bar = bars.perhaps_scaled(bars.Bar(c, np.zeros_like(c)), dtype)
    off = np.abs((c / scale).astype(dtype.numpy).astype(np.float64) * scale - c)
    assert (off <= bar.e).all()
    assert (off > 0.9 * bar.e).any(), "no wider than that"
    zero = bars.perhaps_scaled(bars.Bar(np.zeros(1), np.zeros(1)), dtype)
    assert zero.e == 0
    rounded = c.astype(dtype.numpy).astype(np.float64)
    cast = bars.perhaps_scaled(bars.Bar(rounded, np.zeros_like(c)), dtype, cast=True)
    off = np.abs((c / scale).astype(dtype.numpy).astype(np.float64) * scale - rounded)
    assert (off <= cast.e).all()
    assert (off > 0.8 * cast.e).any(), "no wider than that"
