"""Uses that do not fit are refused with a code, and the message says where and why."""

from collections.abc import Sequence

import pytest

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.dims import symbol
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.types import DType, TensorType
from didyma.refimpl.ops import OPS

F32, I32, I64, BOOL = DType.F32, DType.I32, DType.I64, DType.BOOL
n = symbol("n")


def t(*shape: object, dtype: DType = F32) -> TensorType:
    return TensorType(dtype, shape)  # type: ignore[arg-type]  # ints and symbols


FOLD: dict[str, Attr] = {"axes": (0,), "keepdims": False}
POOL: dict[str, Attr] = {
    "window": (2,), "strides": (1,), "dilations": (1,), "low": (0,), "high": (0,),
}  # fmt: skip
CONV: dict[str, Attr] = {
    "strides": (1,), "dilations": (1,), "low": (0,), "high": (0,), "groups": 1,
}  # fmt: skip
SLICE: dict[str, Attr] = {"starts": (0,), "stops": (2,), "steps": (1,)}
PAD: dict[str, Attr] = {"low": (1,), "high": (1,), "mode": "edge"}
Case = tuple[str, list[TensorType], dict[str, Attr], str]

CASES: list[Case] = [
    ("constant", [], {}, "bad-attr"),
    ("constant", [t(2)], {}, "arity"),
    ("iota", [], {"dtype": BOOL, "shape": (2,), "axis": 0}, "bad-attr"),
    ("iota", [], {"dtype": F32, "shape": (), "axis": 0}, "bad-attr"),
    ("iota", [], {"dtype": F32, "shape": (2,), "axis": 1}, "bad-attr"),
    ("iota", [], {"dtype": F32, "shape": (-2,), "axis": 0}, "bad-attr"),
    ("reshape", [t(2, 3)], {"shape": (5,)}, "shape-mismatch"),
    ("reshape", [t(n, 3)], {"shape": (n,)}, "shape-mismatch"),
    ("reshape", [t(2, 3)], {"shape": 6}, "bad-attr"),
    ("permute_dims", [t(2, 3)], {"axes": (0, 0)}, "bad-attr"),
    ("permute_dims", [t(2, 3)], {"axes": (0,)}, "bad-attr"),
    ("broadcast_to", [t(2, 3)], {"shape": (3,)}, "shape-mismatch"),
    ("broadcast_to", [t(n)], {"shape": (symbol("m"),)}, "shape-mismatch"),
    ("flip", [t(2)], {"axes": (1,)}, "bad-attr"),
    ("flip", [t(2, 2)], {"axes": (1, 0)}, "bad-attr"),
    ("slice", [t(2)], {**SLICE, "steps": (0,)}, "bad-attr"),
    ("slice", [t(2)], {**SLICE, "starts": (-1,)}, "bad-attr"),
    ("slice", [t(2)], {**SLICE, "starts": (0, 0)}, "bad-attr"),
    ("concat", [], {"axis": 0}, "arity"),
    ("concat", [t(2), t(2, dtype=I32)], {"axis": 0}, "dtype-mismatch"),
    ("concat", [t(2, 3), t(2, 4)], {"axis": 0}, "shape-mismatch"),
    ("concat", [t(2, 3), t(2)], {"axis": 0}, "shape-mismatch"),
    ("concat", [t(2)], {"axis": -1}, "bad-attr"),
    ("pad", [t(2), t(1)], PAD, "shape-mismatch"),
    ("pad", [t(2), t(dtype=I32)], PAD, "dtype-mismatch"),
    ("pad", [t(2), t()], {**PAD, "mode": "wrap"}, "bad-attr"),
    ("pad", [t(2), t()], {**PAD, "low": (-1,)}, "bad-attr"),
    ("sum", [t(2, dtype=BOOL)], FOLD, "dtype-mismatch"),
    ("sum", [t(2)], {**FOLD, "axes": (1,)}, "bad-attr"),
    ("sum", [t(2, 2)], {**FOLD, "axes": (0, 0)}, "bad-attr"),
    ("sum", [t(2)], {**FOLD, "keepdims": 1}, "bad-attr"),
    ("mean", [t(2, dtype=I32)], FOLD, "dtype-mismatch"),
    ("any", [t(2)], FOLD, "dtype-mismatch"),
    ("argmax", [t(2, 0)], {"axis": 1, "keepdims": False}, "bad-attr"),
    ("argmin", [t(2, dtype=BOOL)], {"axis": 0, "keepdims": False}, "dtype-mismatch"),
    ("cumulative_sum", [t()], {"axis": 0, "exclusive": False, "reverse": False}, "bad-attr"),
    ("matmul", [t(2, 3), t(4, 5)], {}, "shape-mismatch"),
    ("matmul", [t(3), t(3, 5)], {}, "shape-mismatch"),
    ("matmul", [t(2, 2, 3), t(3, 3, 5)], {}, "shape-mismatch"),
    ("matmul", [t(2, 3), t(3, 2, dtype=I32)], {}, "dtype-mismatch"),
    ("matmul", [t(2, 3)], {}, "arity"),
    ("matmul", [t(2, 3), TensorType(F32, (3, 2), "cuda:1")], {}, "device-mismatch"),
    ("conv", [t(1, 2), t(1, 2)], {**CONV}, "shape-mismatch"),
    ("conv", [t(1, 3, 5), t(2, 2, 3)], CONV, "shape-mismatch"),
    ("conv", [t(1, 2, 5), t(2, 2, n)], CONV, "shape-mismatch"),
    ("conv", [t(1, 2, 5), t(3, 1, 2)], {**CONV, "groups": 2}, "bad-attr"),
    ("conv", [t(1, 2, 5), t(2, 2, 2)], {**CONV, "strides": (0,)}, "bad-attr"),
    ("max_pool", [t(2, 2)], POOL, "shape-mismatch"),
    ("max_pool", [t(1, 1, 4)], {**POOL, "window": (0,)}, "bad-attr"),
    ("avg_pool", [t(1, 1, 4)], POOL, "bad-attr"),
    ("gather", [t(2), t(2)], {"axis": 0}, "dtype-mismatch"),
    ("gather", [t(), t(2, dtype=I64)], {"axis": 0}, "bad-attr"),
    ("gather_elements", [t(2, 3), t(3, 3, dtype=I64)], {"axis": 1}, "shape-mismatch"),
    ("gather_elements", [t(n, 3), t(2, 3, dtype=I64)], {"axis": 1}, "shape-mismatch"),
    ("scatter", [t(2), t(2, dtype=I64), t(3)], {"axis": 0, "reduction": "add"}, "shape-mismatch"),
    (
        "scatter",
        [t(2), t(2, dtype=I64), t(2, dtype=I32)],
        {"axis": 0, "reduction": "add"},
        "dtype-mismatch",
    ),
    (
        "scatter",
        [t(2, dtype=BOOL), t(2, dtype=I64), t(2, dtype=BOOL)],
        {"axis": 0, "reduction": "add"},
        "dtype-mismatch",
    ),
    ("scatter", [t(2), t(2, dtype=I64), t(2)], {"axis": 0, "reduction": "xor"}, "bad-attr"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[3]}")
def test_refused(case: Case) -> None:
    op, types, attrs, code = case
    with pytest.raises(DidymaError) as caught:
        infer(op, types, attrs)
    assert caught.value.code == code
    assert caught.value.where.startswith(op)
    assert caught.value.want


def infer(op: str, types: Sequence[TensorType], attrs: dict[str, Attr]) -> TensorType:
    return OPS[op].infer(types, attrs)


def test_a_message_in_full() -> None:
    with pytest.raises(DidymaError) as caught:
        infer("matmul", [t(2, 3), t(n, 5)], {})
    assert str(caught.value) == (
        "shape-mismatch at `matmul(f32[2, 3], f32[n, 5])`\n"
        "  got:  3 columns and n rows\n"
        "  want: as many columns on the left as rows on the right"
    )
