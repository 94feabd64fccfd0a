"""Small faults in single ops fall outside their bars."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops import OPS, bars
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.spec import Op

ROUNDED = ["add", "subtract", "multiply", "divide", "square", "reciprocal", "sqrt"]
LIBRARY = ["exp", "log", "sin", "tanh", "erf", "asin", "atan2", "cosh", "log1p", "rsqrt"]
FLOATS = [DType.F32, DType.F16, DType.BF16, DType.F64]


def moved(x: Array, ulps: int) -> Array:
    """Floats some places further from zero."""
    bits = {2: np.int16, 4: np.int32, 8: np.int64}[x.dtype.itemsize]
    out: Array = (x.view(bits) + bits(ulps)).view(x.dtype)
    return out


def use(op: Op, dtype: DType, *operands: Array) -> tuple[Bar, Array]:
    args = [a.astype(dtype.numpy) for a in operands][: op.arity[0]]
    types = [TensorType(dtype, a.shape) for a in args]
    out = op.infer(types, {})
    with np.errstate(all="ignore"):
        bar = op.apply({}).bar([bars.exact(a) for a in args], types, out, Contract())
        return bars.store(bar, out.dtype), op.apply({}).eval(args, out)


def inside(bar: Bar, x: Array, dtype: DType) -> Array:
    v = bars.judge(bar, x, dtype)
    return v.ok & ~v.undecided


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ROUNDED)
def test_one_place_off_a_rounded_op(name: str, dtype: DType) -> None:
    rng = np.random.default_rng(0)
    bar, value = use(OPS[name], dtype, rng.uniform(0.5, 9, 500), rng.uniform(0.5, 9, 500))
    assert inside(bar, value, dtype).all()
    # The products of f32 fit f64: only a tie has two right neighbours.
    for ulps in (-1, 1):
        assert not inside(bar, moved(value, 2 * ulps), dtype).any()
        assert inside(bar, moved(value, ulps), dtype).mean() < 0.02


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", LIBRARY)
def test_a_few_places_off_a_library_function(name: str, dtype: DType) -> None:
    rng = np.random.default_rng(0)
    bar, value = use(OPS[name], dtype, rng.uniform(0.01, 0.99, 500), rng.uniform(0.5, 9, 500))
    if name == "cosh":
        bar, value = use(OPS[name], dtype, rng.uniform(0.5, 9, 500))
    assert inside(bar, value, dtype).all()
    places = 2 if dtype is not dtype.compute else 11  # of 4 stated, in the worst binade
    for ulps in (-places, places):
        assert not inside(bar, moved(value, ulps), dtype).any()


@pytest.mark.parametrize("dtype", FLOATS)
def test_specials_are_exact(dtype: DType) -> None:
    inf, nan = np.inf, np.nan
    for name, args, wrongs in (
        ("maximum", ([nan], [1.0]), [1.0]),
        ("maximum", ([-0.0], [0.0]), [-0.0]),
        ("minimum", ([0.0], [-0.0]), [0.0]),
        ("add", ([inf], [-inf]), [0.0, inf]),
        ("add", ([-0.0], [-0.0]), [0.0]),
        ("subtract", ([1.0], [1.0]), [-0.0]),
        ("multiply", ([-0.0], [3.0]), [0.0]),
        ("divide", ([1.0], [-0.0]), [inf, nan]),
        ("negative", ([0.0],), [0.0]),
        ("sqrt", ([-1.0],), [0.0, 1.0]),
        ("sqrt", ([-0.0],), [0.0]),
        ("log", ([0.0],), [nan, 0.0]),
        ("sin", ([-0.0],), [0.0]),
        ("exp", ([inf],), [nan]),
        ("exp", ([nan],), [1.0]),
        ("round", ([-0.4],), [0.0]),
        ("round", ([2.5],), [3.0]),
        ("floor", ([-0.5],), [0.0]),
        ("remainder", ([-7.0], [3.0]), [-1.0]),
        ("fmod", ([-7.0], [3.0]), [2.0]),
        ("floor_divide", ([-7.0], [2.0]), [-3.0]),
        ("sign", ([nan],), [0.0]),
        ("clip", ([nan], [0.0], [1.0]), [0.0, 1.0]),
    ):
        op = OPS[name]
        bar, value = use(op, dtype, *(np.array(a) for a in args))
        assert inside(bar, value, dtype).all(), (name, args)
        for w in wrongs:
            assert not inside(bar, np.array([w]).astype(dtype.numpy), dtype).any(), (name, args, w)


@pytest.mark.parametrize("dtype", FLOATS)
def test_overflow_is_an_infinity(dtype: DType) -> None:
    most = float(np.finfo(dtype.numpy).max) if dtype is not DType.BF16 else 3.3895313892515355e38
    bar, value = use(OPS["multiply"], dtype, np.array([most]), np.array([2.0]))
    assert value[0] == np.inf
    assert inside(bar, value, dtype).all()
    assert not inside(bar, np.array([most]).astype(dtype.numpy), dtype).any()
    bar, value = use(OPS["exp"], dtype, np.array([1000.0]))
    assert inside(bar, value, dtype).all()
    assert not inside(bar, np.array([most]).astype(dtype.numpy), dtype).any()


def test_integers_have_no_room() -> None:
    x = np.array([-128, -1, 0, 127], np.int8)
    for name in ("add", "multiply", "floor_divide", "pow", "maximum"):
        bar, value = use(OPS[name], DType.I8, x, x[::-1])
        assert inside(bar, value, DType.I8).all()
        assert not inside(bar, value ^ np.int8(1), DType.I8).any()


def test_f16_computed_in_f16_is_found() -> None:
    """A product and a sum, each rounded to f16, are outside a bar that rounds once."""
    rng = np.random.default_rng(0)
    x, y, z = (rng.uniform(1, 2, 2000).astype(np.float16) for _ in range(3))
    t = TensorType(DType.F16, x.shape)
    product = OPS["multiply"].apply({}).bar([bars.exact(x), bars.exact(y)], [t, t], t, Contract())
    total = OPS["subtract"].apply({}).bar([product, bars.exact(z)], [t, t], t, Contract())
    with np.errstate(all="ignore"):
        bar = bars.store(total, DType.F16)
    once = (x.astype(np.float32) * y.astype(np.float32) - z.astype(np.float32)).astype(np.float16)
    assert inside(bar, once, DType.F16).all()
    assert inside(bar, x * y - z, DType.F16).mean() < 0.5


@pytest.mark.parametrize("contraction", [True, False])
def test_a_product_that_overflows_may_be_fused_with_a_sum(contraction: bool) -> None:
    x, y, z = (np.array([v], np.float32) for v in (2e38, 2.0, -3e38))
    t = TensorType(DType.F32, (1,))
    k = Contract(contraction=contraction)
    product = OPS["multiply"].apply({}).bar([bars.exact(x), bars.exact(y)], [t, t], t, k)
    total = OPS["add"].apply({}).bar([product, bars.exact(z)], [t, t], t, k)
    with np.errstate(all="ignore"):
        alone, bar = bars.store(product, DType.F32), bars.store(total, DType.F32)
    assert inside(alone, np.array([np.inf], np.float32), DType.F32).all()
    fused = bars.judge(bar, np.array([1e38], np.float32), DType.F32)
    apart = bars.judge(bar, np.array([np.inf], np.float32), DType.F32)
    assert apart.ok.all()
    assert fused.ok.all() == contraction
    assert apart.undecided.all() == contraction


def test_the_far_side_of_a_decision_is_inside() -> None:
    """A comparison inside its bar lets both sides of a ``where`` pass, and nothing else."""
    t = TensorType(DType.F32, (1,))
    b = TensorType(DType.BOOL, (1,))
    near = Bar(np.array([1.0]), np.array([1e-6]))
    one, two, three = (bars.exact(np.array([v], np.float32)) for v in (1.0, 2.0, 3.0))
    cond = OPS["less"].apply({}).bar([near, one], [t, t], b, Contract())
    assert bars.judge(cond, np.array([True]), DType.BOOL).undecided.all()
    chosen = OPS["where"].apply({}).bar([cond, two, three], [b, t, t], t, Contract())
    for value, ok in ((2.0, True), (3.0, True), (4.5, False), (1.5, False)):
        assert bars.judge(chosen, np.array([value], np.float32), DType.F32).ok.all() == ok
    floor = OPS["floor"].apply({}).bar([near], [t], t, Contract())
    for value, ok in ((1.0, True), (0.0, True), (-1.0, False)):
        assert bars.judge(floor, np.array([value], np.float32), DType.F32).ok.all() == ok
