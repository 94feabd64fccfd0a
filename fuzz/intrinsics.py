"""Judge an intrinsic of a caller's own: its C on engines against its meaning, within its bar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from didyma.codegen import intrinsics
from didyma.codegen.emit.intrinsics import LANES, c_type
from didyma.codegen.runtime.engine import Engine
from didyma.fuzz.values import Distribution, array
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.intrinsic import Intrinsic
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.types import Array, DType

KINDS = tuple(Distribution)
THREADS = 32


def findings(
    x: Intrinsic, engines: Sequence[Engine], seed: int = 0, count: int = 4096
) -> Iterator[str]:
    """Yield what an intrinsic gets wrong on engines, at random operands of every kind.

    ``count`` operands of each dtype and kind are tried, as scalars and as vectors of four.  NaN
    must be answered by NaN, an infinity or an exact zero by the same.
    """
    count = -(-count // (THREADS * LANES)) * THREADS * LANES
    (x,) = intrinsics.given([x])
    for dtype in intrinsics.DTYPES:
        f = x.function(dtype)
        for n, kind in enumerate(KINDS):
            seeds = [seed + 100 * n + i for i in range(x.operands)]
            args = [array(s, dtype, (count,), None, kind) for s in seeds]
            with np.errstate(all="ignore"):
                want = np.asarray(f(*args))
            for e in engines:
                for lanes in (1, LANES):
                    got = _run(e, text(x, dtype, count, lanes), args, x.result(dtype))
                    yield from _wrong(
                        f"{e.name}: {x.name}_{_type(dtype, lanes)}", x, args, want, got
                    )


def text(x: Intrinsic, dtype: DType, count: int, lanes: int) -> KernelText:
    """Return a kernel that applies an intrinsic to each element, or to each vector of four."""
    t, result = c_type(dtype), x.result(dtype)
    names = intrinsics.OPERANDS[: x.operands]
    head = ", ".join([*(f"const {t} *{n}" for n in names), f"{c_type(result)} *out"])
    if lanes == 1:
        body = f"  out[i] = {x.name}_{t}({', '.join(f'{n}[i]' for n in names)});"
    else:
        v = _type(dtype, lanes)
        loads = "".join(f"  const {v} {n}4 = load4_{t}(&{n}[i * 4]);\n" for n in names)
        call = f"{x.name}_{v}({', '.join(f'{n}4' for n in names)})"
        store = f"store4_{c_type(result)}(&out[i * 4], all);"
        body = f"{loads}  const {_type(result, lanes)} all = {call};\n  {store}"
    source = (
        f'extern "C" __global__ void apply({head}) {{\n'
        f"  const i64 i = blockIdx.x * {THREADS} + threadIdx.x;\n{body}\n}}\n"
    )
    buffers = (*((n, dtype) for n in names), ("out", result))
    grid = (ix.index(count // (THREADS * lanes)), ix.ONE, ix.ONE)
    sizes = (ix.index(count),) * len(buffers)
    s = Signature("apply", buffers, sizes, ("out",), (), grid, (THREADS, 1, 1))
    return KernelText(source, (s,), intrinsics=(x,))


def _type(dtype: DType, lanes: int) -> str:
    assert lanes in (1, LANES)
    return c_type(dtype) if lanes == 1 else f"{c_type(dtype)}x{lanes}"


def _run(e: Engine, kernel: KernelText, args: Sequence[Array], dtype: DType) -> Array:
    given = [e.upload(a) for a in (*args, np.zeros(args[0].shape, dtype.numpy))]
    try:
        e.load(kernel).launch("apply", given, {})
        return np.asarray(e.download(given[-1], dtype, args[0].shape))
    finally:
        for b in given:
            e.free(b)


def _wrong(
    where: str, x: Intrinsic, args: Sequence[Array], want: Array, got: Array
) -> Iterator[str]:
    """Yield the first element outside of the bar, if there is one."""
    if x.predicate:
        want, got = want.astype(np.float32), got.astype(np.float32)
    with np.errstate(all="ignore"):
        wide = want.astype(np.longdouble)
        far = np.abs(got.astype(np.longdouble) - wide)
        unit = np.spacing(np.abs(want)).astype(np.longdouble)
        # Past the largest number comes infinity, which a bar of some units reaches.
        limit = np.finfo(want.dtype)
        near = np.isinf(got) ^ np.isinf(want)
        edge = near & (np.minimum(np.abs(got), np.abs(want)) >= limit.max * (1 - x.ulp * limit.eps))
        same = (got == want) | (np.isnan(got) & np.isnan(want)) | edge
        zero = (want == 0) & (got == 0) & (np.signbit(want) != np.signbit(got)) & (x.ulp < 0.5)
    bad = np.flatnonzero(~(same | (far <= x.ulp * unit)) | zero)
    if len(bad):
        i = bad[0]
        operands = ", ".join(repr(a[i]) for a in args)
        yield f"{where}({operands}) is {got[i]!r}, not {want[i]!r} ± {x.ulp:g} ulp"
