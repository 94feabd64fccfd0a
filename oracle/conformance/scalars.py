"""Every intrinsic, operator, conversion and literal, over corner values of every dtype."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from didyma.oracle.conformance import exact
from didyma.oracle.conformance.case import LaunchCase
from didyma.refimpl.ir.expr import ceildiv, index
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.loop import Var
from didyma.refimpl.ir.narrow import narrow
from didyma.refimpl.ir.types import F8, INTS, PLAIN, Array, DType

COMPUTED = (DType.F32, DType.F64)
INT_OPS = (
    "add", "sub", "mul", "floordiv", "truncdiv", "floormod", "truncmod", "shl", "shr", "min",
    "max", "pow",
)  # fmt: skip
FLOAT_OPS = ("min", "max", "floordiv", "floormod", "truncmod", "pow", "atan2", "copysign")
STEPS = 4  # units in the last place that an approximate intrinsic may be off
_EXACT = ("min", "max", "truncmod", "floormod", "copysign")
_BLOCK = 64


def cases() -> Iterator[LaunchCase]:
    """Yield the cases of single operations."""
    for dtype in INTS:
        yield from _int_cases(dtype)
    for dtype in COMPUTED:
        yield from _float_cases(dtype)
    for source in PLAIN:
        yield from _cast_cases(source)
    yield from _half_cases()
    yield from _operator_cases()
    yield from _literal_cases()


def c(dtype: DType) -> str:
    """Name of a dtype in kernel text."""
    return "b8" if dtype is DType.BOOL else dtype.value


class Sweep:
    """A text with one elementwise kernel for each operation added."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.sources: list[str] = []
        self.kernels: list[Signature] = []
        self.pending: list[tuple[str, Signature, tuple[Array, ...], Array, int]] = []

    def add(
        self, name: str, expression: str, inputs: Sequence[Array], want: Array, steps: int = 0
    ) -> None:
        """Add ``y[i] = expression``, which speaks of its inputs as a, b, c."""
        names = "abc"[: len(inputs)]
        out = DType.of(want)
        buffers = [(n, DType.of(x)) for n, x in zip(names, inputs, strict=True)]
        params = [f"const {c(t)} *__restrict__ {n}_in" for n, t in buffers]
        params += [f"{c(out)} *__restrict__ y", "i64 n"]
        loads = [f"    const {c(t)} {n} = {n}_in[i];" for n, t in buffers]
        function = re.sub(r"\W+", "_", f"k{len(self.kernels)}_{name}")
        self.sources.append(
            f'extern "C" __global__ void __launch_bounds__({_BLOCK})\n'
            f"{function}({', '.join(params)}) {{\n"
            f"  const i64 i = (i64)blockIdx.x * {_BLOCK} + (i64)threadIdx.x;\n"
            "  if (i < n) {\n" + "\n".join([*loads, f"    y[i] = {expression};"]) + "\n  }\n}\n"
        )
        n = Var("n")
        kernel = Signature(
            function,
            (*((f"{b}_in", t) for b, t in buffers), ("y", out)),
            (n,) * (len(inputs) + 1),
            ("y",),
            ("n",),
            (ceildiv(n, index(_BLOCK)), index(1), index(1)),
            (_BLOCK, 1, 1),
        )
        self.kernels.append(kernel)
        initial = (*inputs, np.zeros_like(want))
        self.pending.append((name, kernel, initial, want, steps))

    def cases(self) -> Iterator[LaunchCase]:
        """Yield a case for each expression that was added."""
        text = KernelText("\n".join(self.sources), tuple(self.kernels), contract=False)
        for name, kernel, initial, want, steps in self.pending:
            dims = {"n": want.size}
            yield LaunchCase(self.group, name, text, kernel, initial, (want,), dims, steps)


def array(values: Sequence[float | int], dtype: DType) -> Array:
    """Values of a dtype, which holds each exactly."""
    return np.array(values, dtype.numpy)


def corners(dtype: DType) -> list[float | int]:
    """Values worth trying of any dtype but f16 and bf16."""
    if dtype is DType.BOOL:
        return [0, 1]
    return list(exact.floats(dtype) if dtype.is_float else exact.ints(dtype))


def _int_cases(dtype: DType) -> Iterator[LaunchCase]:
    sweep = Sweep("integers")
    values = exact.ints(dtype)
    pairs = list(product(values, values))
    a, b = (array(side, dtype) for side in zip(*pairs, strict=True))
    for op in INT_OPS:
        want = array([exact.int_binary(op, x, y, dtype) for x, y in pairs], dtype)
        sweep.add(f"{op}_{dtype}", f"{op}_{dtype}(a, b)", (a, b), want)
    for op, sign in (("and", "&"), ("or", "|"), ("xor", "^")):
        want = {"and": a & b, "or": a | b, "xor": a ^ b}[op]
        sweep.add(f"{op} {dtype}", f"({dtype})(a {sign} b)", (a, b), want)
    x = array(values, dtype)
    sweep.add(f"not {dtype}", f"({dtype})(~a)", (x,), array([~v for v in values], DType.I64)
              .astype(dtype.numpy) if dtype.is_signed else ~x)  # fmt: skip
    negated = array([exact.wrap(-v, dtype) for v in values], dtype)
    sweep.add(f"neg_{dtype}", f"neg_{dtype}(a)", (x,), negated)
    _add_chains(sweep, dtype)
    sizes = array([exact.wrap(abs(v), dtype) for v in values], dtype)
    sweep.add(f"abs_{dtype}", f"abs_{dtype}(a)", (x,), sizes)
    yield from sweep.cases()


def _add_chains(sweep: Sweep, dtype: DType) -> None:
    """The least and greatest of three, some negated: assemblers have an instruction for it."""
    some = exact.ints(dtype)[::3]
    triples = list(product(some, some, some))
    operands = tuple(array(side, dtype) for side in zip(*triples, strict=True))
    for op, choose, sign in (("min", min, "<"), ("max", max, ">")):
        for negated in ("abc", "a", "c", "bc"):
            x, y, z = (f"neg_{dtype}({v})" if v in negated else v for v in "abc")
            want = array(
                [
                    choose(
                        exact.wrap(-v, dtype) if name in negated else v
                        for name, v in zip("abc", triple, strict=True)
                    )
                    for triple in triples
                ],
                dtype,
            )
            f = f"{op}_{dtype}"
            inner = f"({x} {sign} {y} ? {x} : {y})"
            texts = {
                "left": f"{f}({f}({x}, {y}), {z})",
                "right": f"{f}({x}, {f}({y}, {z}))",
                "chosen": f"({inner} {sign} {z} ? {inner} : {z})",
            }
            for how, text in texts.items():
                sweep.add(f"{op} of three {dtype}, {how}, minus {negated}", text, operands, want)


def _float_cases(dtype: DType) -> Iterator[LaunchCase]:
    t = dtype.value
    values = exact.floats(dtype)
    x = array(values, dtype)
    unary = Sweep("intrinsics")
    for op in exact.UNARY:
        want = array([exact.intrinsic(op, v, dtype) for v in values], dtype)
        unary.add(f"{op}_{t}", f"{op}_{t}(a)", (x,), want, 0 if op in exact.EXACT else STEPS)
    unary.add(f"abs_{t}", f"abs_{t}(a)", (x,), np.abs(x))
    predicates = {
        "isnan": [v != v for v in values],
        "isinf": [math.isinf(v) for v in values],
        "signbit": [math.copysign(1, v) < 0 for v in values if v == v],
    }
    for op, truth in predicates.items():
        given = array([v for v in values if v == v], dtype) if op == "signbit" else x
        unary.add(f"{op}_{t}", f"{op}_{t}(a)", (given,), np.array(truth, np.bool_))
    yield from unary.cases()

    binary = Sweep("float arithmetic")
    every = list(product(values, values))
    some = values[:3] + values[3::3]  # enough where exact results cost much
    few = list(product(some, some))
    for op in FLOAT_OPS:
        pairs = few if op in ("pow", "atan2") else every
        a, b = (array(side, dtype) for side in zip(*pairs, strict=True))
        want = array([exact.float_binary(op, p, q, dtype) for p, q in pairs], dtype)
        steps = 0 if op in _EXACT else 2 if op == "floordiv" else STEPS
        binary.add(f"{op}_{t}", f"{op}_{t}(a, b)", (a, b), want, steps)
    thirds = values[::5]
    triples = list(product(thirds, thirds, thirds))
    p, q, r = (array(side, dtype) for side in zip(*triples, strict=True))
    fma = array([_fma(*triple, dtype) for triple in triples], dtype)
    binary.add(f"fma_{t}", f"fma_{t}(a, b, c)", (p, q, r), fma)
    yield from binary.cases()


def _fma(a: float, b: float, addend: float, dtype: DType) -> float:
    if not all(map(math.isfinite, (a, b, addend))):
        product_ = a * b if a == a and b == b else math.nan
        if math.isfinite(a) and math.isfinite(b):
            product_ = 0.0  # a finite product never outweighs what is infinite
        return product_ + addend
    total = Fraction(a) * Fraction(b) + Fraction(addend)
    if total == 0:
        sign = math.copysign(1, a) * math.copysign(1, b)
        zero = a == 0 or b == 0
        return math.copysign(0.0, sign) + addend if zero and addend == 0 else 0.0
    return exact.nearest(total, dtype)


def _cast_cases(source: DType) -> Iterator[LaunchCase]:
    if source in (DType.F16, DType.BF16):
        return
    sweep = Sweep("casts")
    values = corners(source)
    if source.is_float:
        values += [float(source.numpy.type(s * 2.0**k + d)) for k in (7, 8, 15, 16, 31, 32, 63, 64)
                   for s in (1, -1) for d in (-1.0, -0.5, 0.0, 0.5, 1.0)]  # fmt: skip
    x = array(values, source)
    for target in PLAIN:
        if target in (source, DType.F16, DType.BF16):
            continue
        want = array([convert(v, target) for v in values], target)
        name = f"cast_{c(source)}_{c(target)}"
        sweep.add(name, f"{name}(a)", (x,), want)
    yield from sweep.cases()


def convert(value: float | int, target: DType) -> float | int:
    """A number converted: truncated and saturated to an int, wrapped from one, rounded to a float.

    >>> convert(-1.5, DType.U8), convert(300, DType.U8), convert(1e9, DType.I16)
    (0, 44, 32767)
    """
    if target is DType.BOOL:
        return int(value != 0)
    if target.is_float:
        if isinstance(value, float) and (not math.isfinite(value) or value == 0.0):
            return value
        return exact.nearest(Fraction(value), target)
    if isinstance(value, int):
        return exact.wrap(value, target)
    lo, hi = exact.limits(target)
    if value != value:
        return 0
    return max(lo, min(hi, math.trunc(value))) if math.isfinite(value) else hi if value > 0 else lo


# Where the storage floats end, and what rounds to that and beyond.
_ENDS = [
    s * v
    for v in (65520, 65504, 2.0**127, 1.5 * 2.0**127, 464, 465, 248, 249, 61440, 61439, 2.0**-128)
    for s in (1.0, -1.0)
]


def _half_cases() -> Iterator[LaunchCase]:
    """All numbers of the storage floats, and all midpoints between them."""
    sweep = Sweep("storage floats")
    for dtype in (DType.F16, DType.BF16, *F8):
        t = dtype.value
        patterns = np.arange(1 << dtype.bits, dtype=np.uint32).astype(f"u{dtype.nbytes}")
        every: Array = patterns.view(dtype.numpy)
        wide = every.astype(np.float32)
        sweep.add(f"cast_{t}_f32", f"cast_{t}_f32(a)", (every,), wide)
        finite = np.sort(wide[np.isfinite(wide)])
        middle = finite[:-1] + (finite[1:] - finite[:-1]) / 2
        x = np.concatenate([wide, middle, np.nextafter(middle, np.float32(np.inf)),
                            np.nextafter(middle, np.float32(-np.inf)),
                            array(exact.floats(DType.F32), DType.F32),
                            array(_ENDS, DType.F32)],
                           dtype=np.float32)  # fmt: skip
        with np.errstate(over="ignore", invalid="ignore"):
            want = narrow(x, dtype)
        sweep.add(f"cast_f32_{t}", f"cast_f32_{t}(a)", (x,), want)
    yield from sweep.cases()


def _operator_cases() -> Iterator[LaunchCase]:
    for dtype in (*COMPUTED, *INTS, DType.BOOL):
        sweep = Sweep("operators")
        values = corners(dtype)
        pairs = list(product(values, values))
        a, b = (array(side, dtype) for side in zip(*pairs, strict=True))
        compared = {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
        for op, want in compared.items():
            sweep.add(f"{op} {dtype}", f"a {op} b", (a, b), want)
        sweep.add(f"?: {dtype}", "a < b ? a : b", (a, b), np.where(a < b, a, b))
        if dtype.is_float:
            with np.errstate(all="ignore"):
                results = {"+": a + b, "-": a - b, "*": a * b, "/": a / b}
            for op, want in results.items():
                sweep.add(f"{op} {dtype}", f"a {op} b", (a, b), want)
            sweep.add(f"unary - {dtype}", "-a", (a,), -a)
        if dtype is DType.BOOL:
            sweep.add("&& bool", "a && b", (a, b), a & b)
            sweep.add("|| bool", "a || b", (a, b), a | b)
            sweep.add("! bool", "!a", (a,), ~a)
            sweep.add("^ bool", "(b8)(a ^ b)", (a, b), a ^ b)
        if dtype is DType.I64:
            small = array([v for v in values if abs(v) < 2**31], dtype)
            sweep.add("index arithmetic", "a * 3 + 5 - a", (small,), small * 2 + 5)
        yield from sweep.cases()


def _literal_cases() -> Iterator[LaunchCase]:
    for dtype in COMPUTED:
        suffix = "f" if dtype is DType.F32 else ""
        finite = [v for v in exact.floats(dtype) if math.isfinite(v)]
        printed = {f"{dtype.numpy.type(v)}{suffix}": v for v in finite}
        special = {"inf": math.inf, "nan": math.nan}
        printed |= {f"{word}_{dtype}()": v for word, v in special.items()}
        yield _literals({**printed, f"-inf_{dtype}()": -math.inf}, dtype)
    for dtype in INTS:
        lo, hi = exact.limits(dtype)
        suffix = {DType.I64: "LL", DType.U32: "u", DType.U64: "ULL"}.get(dtype, "")
        least = f"(-{hi}{suffix} - 1)" if dtype.is_signed else "0"
        yield _literals({least: lo, f"{hi}{suffix}": hi, "7": 7, "0": 0}, dtype)


def _literals(printed: Mapping[str, float | int], dtype: DType) -> LaunchCase:
    want = array(list(printed.values()), dtype)
    stores = "".join(f"  y[{i}] = {text};\n" for i, text in enumerate(printed))
    one = index(1)
    kernel = Signature(
        "literals", (("y", dtype),), (index(want.size),), ("y",), (), (one, one, one), (1, 1, 1)
    )
    source = (
        f'extern "C" __global__ void __launch_bounds__(1)\nliterals({dtype} *__restrict__ y) {{\n'
        f"{stores}}}\n"
    )
    empty = np.zeros_like(want)
    return LaunchCase(
        "literals",
        f"{dtype}",
        KernelText(source, (kernel,), contract=False),
        kernel,
        (empty,),
        (want,),
    )
