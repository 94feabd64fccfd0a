"""Intrinsics of a caller's own: called by a kernel text for numbers and for vectors of lanes.

An intrinsic is a sum of its operands with whole factors, so that all of its values are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import numpy as np

from didyma.codegen.emit.intrinsics import CFunction
from didyma.codegen.intrinsics import given, table
from didyma.codegen.runtime.engine import Engine
from didyma.fuzz.parts.told import code_of, differ
from didyma.refimpl.ir.expr import ONE, index
from didyma.refimpl.ir.intrinsic import Intrinsic
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.types import Array, DType

LANES = 4
MOST = 8  # operands
KNOWN = ("exp", "fma", "isnan", "copysign")  # names of intrinsics of Didyma's


def judged(r: Random, engine: Engine) -> Iterator[str]:
    """Yield what is wrong with some intrinsics: whether they are taken, and what they compute."""
    names = r.sample(("blend", "sum_of", "f", "twice2"), r.randint(1, 2))
    some = [_drawn(r, name) for name in names]
    every = [x for x, _ in some]
    yield from differ(given(every), tuple(every), "intrinsics that are given")
    yield from _refused(r, every)
    functions = dict[str, CFunction]()
    for x in every:
        for t in ("f32", "f64"):
            for lanes in ("", "x4"):
                result = "b8" if x.predicate else t
                row = CFunction((t + lanes,) * x.operands, result + lanes)
                functions[f"{x.name}_{t}{lanes}"] = row
    yield from differ(table(every), functions, f"functions of {names}")
    dtype = r.choice((DType.F32, DType.F64))
    for x, factors in some:
        yield from _run(r, x, factors, dtype, engine)


def _drawn(r: Random, name: str) -> tuple[Intrinsic, Sequence[int]]:
    """Return an intrinsic, and the factors by which it adds its operands."""
    factors = [r.choice((-3, -1, 1, 2, 5)) for _ in range(r.choice((1, 2, 2, 3, 3, MOST)))]
    predicate = r.random() < 0.3
    names = "pqrstuvw"[: len(factors)]  # its own, which the C for vectors does not use
    total = " + ".join(f"(T){n} * {v}" for n, v in zip(factors, names, strict=True))
    params = ", ".join(f"T {v}" for v in names)
    kind, result = ("b8", f"{total} > (T)0") if predicate else ("T", total)
    text = f"FN {kind} {name}_T({params}) {{ return {result}; }}"

    def meaning(*args: Array) -> Array:
        found: Array = np.asarray(sum(n * a for n, a in zip(factors, args, strict=True)))
        return found > 0 if predicate else found

    made = Intrinsic(
        name, len(factors), meaning, 0.0, dict.fromkeys(("host", "cuda"), text), predicate
    )
    return made, factors


def _refused(r: Random, every: Sequence[Intrinsic]) -> Iterator[str]:
    """Yield whether intrinsics are taken that may not be, beside those that may."""
    x = every[0]

    def like(name: str, operands: int, *preludes: str) -> Intrinsic:
        return Intrinsic(name, operands, x.meaning, 0.0, dict.fromkeys(preludes, "FN T f_T(T a)"))

    both = ("host", "cuda")
    wrong: list[tuple[str, object]] = [
        ("registered-twice", like(x.name, 1, *both)),
        ("registered-twice", like(r.choice(KNOWN), 1, *both)),
        ("bad-part", like("another", r.choice((0, MOST + 1)), *both)),
        ("bad-part", like("another", 1, *r.choice(((), ("host",), ("cuda",))))),
        ("bad-part", 3.5),
    ]
    code, other = r.choice(wrong)
    row: list[object] = [*every, other]
    yield from differ(code_of(given, row), code, f"{other} beside {x.name}")


def _run(
    r: Random, x: Intrinsic, factors: Sequence[int], dtype: DType, engine: Engine
) -> Iterator[str]:
    """Yield what is wrong with what an intrinsic gives in a kernel, of numbers or of lanes."""
    names = [f"x{k}" for k in range(len(factors))]
    t, wide = str(dtype), r.random() < 0.5
    result = DType.BOOL if x.predicate else dtype
    to = "b8" if x.predicate else t
    if wide:
        loads = ", ".join(f"load{LANES}_{t}(&{n}[i * {LANES}])" for n in names)
        row = f"store{LANES}_{to}(&y[i * {LANES}], {x.name}_{t}x{LANES}({loads}));"
    else:
        row = f"y[i] = {x.name}_{t}({', '.join(f'{n}[i]' for n in names)});"
    args = ", ".join([*(f"const {t} *{n}" for n in names), f"{to} *y"])
    source = f'extern "C" __global__ void k({args}) {{\n  const i64 i = threadIdx.x;\n  {row}\n}}\n'
    count = 8
    s = Signature(
        "k", (*((n, dtype) for n in names), ("y", result)), (index(count),) * (len(names) + 1),
        ("y",), (), (ONE, ONE, ONE), (count // LANES if wide else count, 1, 1),
    )  # fmt: skip
    inputs = [np.array([r.randint(-9, 9) for _ in range(count)]).astype(dtype.numpy) for _ in names]
    buffers = [engine.upload(a) for a in (*inputs, np.zeros(count, result.numpy))]
    try:
        text = KernelText(source, (s,), intrinsics=(x,))
        engine.load(text).launch("k", buffers, {})
        got = engine.download(buffers[-1], result, (count,))
    finally:
        for b in buffers:
            engine.free(b)
    want = [sum(n * int(a[i]) for n, a in zip(factors, inputs, strict=True)) for i in range(count)]
    told = [v > 0 for v in want] if x.predicate else want
    yield from differ(got.tolist(), told, f"{x.name} by {factors} of {inputs} in {source}")
