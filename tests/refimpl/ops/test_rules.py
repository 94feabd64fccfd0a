"""Every facet of an op against the others, on uses that the op itself proposes."""

import numpy as np
import pytest

from didyma.refimpl.ir.dims import evaluate
from didyma.refimpl.ir.types import DType, TensorType
from didyma.refimpl.ops import bars
from didyma.refimpl.ops.spec import Op, Sample
from tests.refimpl.ops import by_rule, draw
from tests.refimpl.ops.ours import NAMES, OURS

SEEDS = range(24)


@pytest.mark.parametrize("op", OURS, ids=NAMES)
def test_value_rule_and_bar_agree(op: Op) -> None:
    for seed in SEEDS:
        dice = draw.Dice(seed)
        u = draw.use(op, draw.sample(op, dice), dice, wild=True)
        value = u.eval()
        assert DType.of(value) is u.result.dtype
        assert value.shape == u.result.shape
        with np.errstate(all="ignore"):
            exact = [bars.exact(a, DType.of(a)) for a in u.args]
            bar = u.op.apply(u.attrs).bar(exact, u.types, u.result, bars.Contract())
            assert bar.c.dtype == bars.centre_dtype(u.result.dtype), (seed, u)
            bar = bars.store(bar, u.result.dtype)
        assert bar.c.shape == bar.e.shape == value.shape
        assert np.all(bars.judge(bar, value, u.result.dtype).ok), (seed, u, value, bar)
        looped = by_rule.run(op, u.args, u.types, u.attrs, u.result, {}, value.shape)
        verdict = bars.judge(bar, looped, u.result.dtype)
        assert np.all(verdict.ok), (seed, u, looped, bar)


@pytest.mark.parametrize("op", OURS, ids=NAMES)
def test_symbolic_sizes_mean_what_their_values_mean(op: Op) -> None:
    for seed in SEEDS:
        dice = draw.Dice(1000 + seed)
        found = draw.sample(op, dice, symbols=True)
        attrs = dict(found.attrs)
        result = op.infer(found.operands, attrs)
        env = {"n": (3, 1, 4, 2, 0)[dice.below(5)], "m": (2, 1, 5, 0)[dice.below(4)]}
        types = tuple(draw.bind_type(t, env) for t in found.operands)
        if op.name in ("argmin", "argmax") and types[0].shape[int(str(attrs["axis"]))] == 0:
            continue  # statically empty: an error
        bound = {k: draw.bind(v, env) for k, v in attrs.items()}
        concrete = op.infer(types, bound)
        assert concrete.shape == tuple(evaluate(d, env) for d in result.shape), (found, env)
        numel = int(np.prod(draw.shape(concrete)))
        if numel > 200 or seed > 12:
            continue
        u = draw.use(op, Sample(types, tuple(bound.items())), dice, wild=False)
        looped = by_rule.run(op, u.args, found.operands, attrs, result, env, draw.shape(concrete))
        wide = np.longdouble  # NumPy does not know bfloat16's NaN
        np.testing.assert_array_equal(
            looped.astype(wide), u.eval().astype(wide), err_msg=str((seed, found, env))
        )


@pytest.mark.parametrize("op", OURS, ids=NAMES)
def test_samples_reach_every_dtype(op: Op) -> None:
    seen: set[DType] = set()
    for seed in range(60):
        dice = draw.Dice(seed)
        dtype = op.dtypes[seed % len(op.dtypes)]
        found = draw.sample(op, dice, [dtype])
        types = [*found.operands, op.infer(found.operands, dict(found.attrs))]
        seen.update(t.dtype for t in types)
    assert seen >= set(op.dtypes)


@pytest.mark.parametrize("op", OURS, ids=NAMES)
def test_example(op: Op) -> None:
    types = [TensorType(DType.of(a), a.shape) for a in op.example.operands]
    attrs = dict(op.example.attrs)
    value = op.apply(attrs).eval(op.example.operands, op.infer(types, attrs))
    assert value.dtype == op.example.result.dtype
    np.testing.assert_array_equal(value, op.example.result)


@pytest.mark.parametrize("op", OURS, ids=NAMES)
def test_attributes_are_declared(op: Op) -> None:
    for seed in range(5):
        dice = draw.Dice(seed)
        assert [k for k, _ in draw.sample(op, dice).attrs] == sorted(a.name for a in op.attrs)
