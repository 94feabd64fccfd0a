"""What records state of ops, tried on corner values and on the loop rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.loop import Binary, Expr, Intrinsic, Load, Select, Var
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ir.walk import subexprs
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.bars import Bar, Contract, exact, judge, store
from didyma.refimpl.ops.spec import Fold, Kind, Op, Scatter, Work
from tests.refimpl.ops import by_rule, draw
from tests.refimpl.ops.corners import corners
from tests.refimpl.ops.test_table import same_bits

PLAIN = [op for op in OPS.values() if op.kind is Kind.ELEMENTWISE and not op.attrs]
ONE, TWO = ([op for op in PLAIN if op.arity == (n, n)] for n in (1, 2))
DIVISIONS = ("div", "floordiv", "floormod", "truncdiv", "truncmod", "pow", "atan2")
QUICK = ("floor", "ceil", "trunc", "round", "isnan", "isinf", "signbit", "copysign")


def evaluate(op: Op, *args: Array) -> Array:
    result = op.infer([TensorType(DType.of(a), a.shape) for a in args], {})
    return op.apply({}).eval(args, result)


def pairs(dtype: DType) -> tuple[Array, Array]:
    """Return two arrays of one shape that meet in every pair of corner values."""
    x = corners(dtype)
    a, b = np.meshgrid(x, x)
    return a, b


@pytest.mark.parametrize("op", TWO, ids=lambda op: op.name)
def test_commutative(op: Op) -> None:
    found = all(same_bits(evaluate(op, a, b), evaluate(op, b, a)) for a, b in map(pairs, op.dtypes))
    assert op.laws.commutative == found


@pytest.mark.parametrize("op", TWO, ids=lambda op: op.name)
def test_idempotent_on_equal_operands(op: Op) -> None:
    found = all(same_bits(evaluate(op, x, x), x) for x in map(corners, op.dtypes))
    assert found or not op.laws.idempotent


@pytest.mark.parametrize("op", ONE, ids=lambda op: op.name)
def test_idempotent_and_involution(op: Op) -> None:
    once = [(x, evaluate(op, x)) for x in map(corners, op.dtypes)]
    kept = all(x.dtype == y.dtype for x, y in once)
    twice = [evaluate(op, y) for _, y in once] if kept else []
    assert op.laws.idempotent == (kept and all(map(same_bits, twice, (y for _, y in once))))
    assert op.laws.involution == (kept and all(map(same_bits, twice, (x for x, _ in once))))


@pytest.mark.parametrize("op", TWO, ids=lambda op: op.name)
def test_neutral(op: Op) -> None:
    stated = {(v.value, d, at) for v in op.laws.neutral for d in v.dtypes for at in v.operands}
    for dtype in op.dtypes:
        x = corners(dtype)
        for value in (0.0, -0.0, 1, -1):
            if value == -1 and dtype is DType.BOOL:
                continue  # it is no bool
            full = np.full(x.shape, value).astype(dtype.numpy)
            for at in (0, 1):
                args = (full, x) if at == 0 else (x, full)
                found = evaluate(op, *args)
                same = found.dtype == x.dtype and same_bits(found, x)
                known = any(
                    d is dtype and a == at and same_bits(full, np.full(x.shape, v).astype(x.dtype))
                    for v, d, a in stated
                )
                assert same or not known, (op.name, dtype, value, at)


def at_first(op: Op, dtype: DType) -> Expr:
    """Return the loop rule of an elementwise op on scalars."""
    types = [TensorType(dtype)] * op.arity[0]
    m = by_rule.Machine([np.zeros((), dtype.numpy)] * len(types), {})
    rule = op.apply({}).element(
        (), [m.read(k) for k in range(len(types))], types, op.infer(types, {})
    )
    assert not isinstance(rule, Fold | Scatter)
    return rule


@pytest.mark.parametrize("op", [o for o in PLAIN if o.name != "where"], ids=lambda op: op.name)
def test_slow_work_divides_or_is_transcendental(op: Op) -> None:
    for dtype in op.dtypes:
        found = any(
            (isinstance(e, Binary) and e.op in DIVISIONS)
            or (isinstance(e, Intrinsic) and e.name not in QUICK)
            for e in subexprs(at_first(op, dtype))
        )
        assert op.work is (Work.SLOW if found else Work.PLAIN)


class Counting(by_rule.Machine):
    """A machine that notes which elements of the operands it loads."""

    loaded: set[tuple[str, tuple[int, ...]]]

    def run(self, e: Expr) -> Any:
        if isinstance(e, Load):
            self.loaded.add((e.buffer, tuple(int(self.run(i)) for i in e.index)))
        return super().run(e)


@pytest.mark.parametrize(
    "op", [o for o in OPS.values() if o.kind in (Kind.REDUCTION, Kind.OPAQUE)], ids=lambda o: o.name
)
def test_folds_reread_what_they_say(op: Op) -> None:
    found = False
    for seed in range(12):
        dice = draw.Dice(seed)
        u = draw.use(op, draw.sample(op, dice), dice, wild=False)
        m = Counting(u.args, {})
        m.loaded, times = set(), 0
        reads = [m.read(k) for k in range(len(u.args))]
        for at in np.ndindex(u.eval().shape):
            rule = op.apply(u.attrs).element(by_rule.ints(at), reads, u.types, u.result)
            if isinstance(rule, Scatter):
                continue  # base and updates are read once, by their own indices
            assert isinstance(rule, Fold)
            before = m.loaded
            m.loaded = set()
            with np.errstate(all="ignore"):
                m.fold(rule)
            times += len(m.loaded & before)
            m.loaded |= before
        found = found or times > 0
    assert op.rereads == found


@pytest.mark.parametrize("op", [o for o in OPS.values() if o.nearby], ids=lambda o: o.name)
def test_nearby_elements_are_at_most_one_load_away(op: Op) -> None:
    for seed in range(12):
        dice = draw.Dice(seed)
        u = draw.use(op, draw.sample(op, dice, [DType.F32]), dice, wild=False)
        m = by_rule.Machine(u.args, {})
        at = tuple(Var(f"i{a}") for a in range(u.result.rank))
        reads = [m.read(k) for k in range(len(u.args))]
        rule = op.apply(u.attrs).element(at, reads, u.types, u.result)
        assert not isinstance(rule, Fold | Scatter)
        loads = [e for e in subexprs(rule) if isinstance(e, Load)]
        assert len(set(loads)) <= 1
        for e in (e for load in loads for i in load.index for e in subexprs(i)):
            assert not isinstance(e, Select)
            assert not (isinstance(e, Binary) and e.op in DIVISIONS)


@pytest.mark.parametrize("op", [o for o in OPS.values() if o.pending], ids=lambda o: o.name)
def test_a_pending_overflow_is_held_whether_or_not_it_happens(op: Op) -> None:
    big, near = np.full(2, 2e38, np.float32), np.float32(3e38)
    t = TensorType(DType.F32, (2,))
    given = [exact(big, DType.F32), exact(np.full(2, 2, np.float32), DType.F32)]
    product = (
        OPS["multiply"].apply({}).bar(given, [t, t], t, Contract())
    )  # 4e38: above the largest f32
    other = exact(np.full(2, -near if op.name == "add" else near), DType.F32)
    args = [product, other][: op.arity[0]]
    if op.kind is not Kind.ELEMENTWISE:
        args = [Bar(np.stack([product.c, -other.c]), np.stack([product.e, other.e]))]
    types = [TensorType(DType.F32, a.c.shape) for a in args]
    attrs: dict[str, Attr] = {"axes": (0,), "keepdims": False} if op.kind is Kind.REDUCTION else {}
    if op.name == "cumulative_sum":
        attrs = {"axis": 0, "exclusive": False, "reverse": False}
    result = op.infer(types, attrs)
    bar = store(op.apply(attrs).bar(args, types, result, Contract()), DType.F32)
    with np.errstate(all="ignore"):
        for wide in (DType.F64, DType.F32):  # fused with the product, or after it overflowed
            out = op.apply(attrs).eval(
                [a.c.astype(wide.numpy) for a in args], result.with_dtype(wide)
            )
            verdict = judge(bar, out.astype(np.float32), DType.F32)
            assert (verdict.ok | verdict.undecided).all(), (wide, out, bar)
