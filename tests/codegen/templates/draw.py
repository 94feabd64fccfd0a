"""Draw matrix products with what precedes and follows them, and how a template writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import didyma as dd
from didyma.codegen.passes.parts import CUT
from didyma.codegen.pipeline import compile
from didyma.refimpl.ir.types import DType
from didyma.tracer.tracing import Program
from didyma.tracer.types import Element

SIZES = (1, 3, 5, 8, 15, 16, 17, 31, 33, 64, 70)
DTYPES = (dd.f32, dd.f32, dd.f16, dd.bf16, dd.i8, dd.i32, dd.f64)
HALVES = (dd.f16, dd.bf16)
NARROW = (dd.f8e4m3, dd.f8e5m2, dd.f8e4m3fnuz, dd.i8, dd.u8, dd.bf16)  # all bf16 in effect
FAMILIES = {  # of a template: the target, dtypes and sizes
    "tiled_gemm": ("portable", DTYPES, SIZES),
    "mma_gemm": (
        "sm_80", (*HALVES, dd.bf16, dd.i8), (5, 8, 16, 17, 24, 33, 40, 64, 72, 96)
    ),
    "wgmma_gemm": ("sm_90a", HALVES, (5, 8, 17, 33, 64, 72, 96, 136)),
    "fma_gemm": ("sm_80", (dd.f32,), (5, 8, 17, 64, 72, 100, 136)),
    "cluster_gemm": ("sm_90a", HALVES, (8, 16, 40, 64, 72, 136, 200, 264)),
    "tma_gemm": ("sm_90a", HALVES, (8, 16, 40, 64, 72, 136, 200, 264)),
}  # fmt: skip
AFTER = ("bias", "relu", "tanh", "residual", "cast", "scale")


@dataclass(frozen=True)
class Drawn:
    """A program with one product, and which of the template's points for it: a share of them."""

    program: Program
    share: float
    about: str


def drawn(
    seed: int,
    dtypes: Sequence[Element] = DTYPES,
    sizes: Sequence[int] = SIZES,
    *,
    rounded: bool = False,
    narrow: Sequence[Element] = (),
) -> Drawn:
    """Return what a seed draws: dtype, sizes, symbols, transpositions, batches, fused ops.

    Operands are in a batch each, or only the left one is; they may be ``rounded`` to tf32, or
    converted from two of the dtypes that are ``narrow``.
    """
    r = Random(seed)
    dtype = r.choice(dtypes)
    rows, terms, columns = (r.choice(sizes) for _ in range(3))
    drawn_sizes = (rows, max(terms, 5), columns)
    batch = r.choice([(), (), (2,), (2, 3)])
    shared = bool(batch) and r.random() < 0.3
    left, right = r.random() < 0.4, r.random() < 0.4
    prologue = r.choice(["", "", "scale", "dequantise"])
    after = r.sample(AFTER, r.randrange(4))
    if r.random() < 0.4:
        m, k, n = (
            dd.dim(name, 5 if name == "k" else 1, size + 2) if r.random() < 0.7 else size
            for name, size in zip("mkn", drawn_sizes, strict=True)
        )
    else:
        m, k, n = drawn_sizes
    of_left = (*batch, *((k, m) if left else (m, k)))
    of_right = (*(() if shared else batch), *((n, k) if right else (k, n)))
    stored = dtype, dd.i8 if prologue == "dequantise" and dtype is not dd.i8 else dtype
    wide = dd.i32 if dtype is dd.i8 else dtype
    if narrow:
        stored, prologue = (r.choice(narrow), r.choice(narrow)), ""

    def f(
        x: dd.Tensor, y: dd.Tensor, bias: dd.Tensor, more: dd.Tensor, scale: dd.Tensor
    ) -> dd.Tensor:
        x, y = dd.astype(x, wide), dd.astype(y, wide)
        if prologue:
            y = y * dd.astype(scale, wide)
        if rounded:
            x, y = dd.tf32(x), dd.tf32(y)
        z = dd.matmul(_turned(x) if left else x, _turned(y) if right else y)
        for op in after:
            z = EPILOGUES[op](z, bias, more)
        return z

    types = (
        stored[0][of_left],
        stored[1][of_right],
        dd.f32[(n,)],
        dd.f32[(*batch, m, n)],
        dd.f32[()],
    )
    about = f"{dtype} {stored} {of_left} {of_right} {prologue} {after}"
    return Drawn(dd.trace(*types)(f), r.random(), about)


def in_parts(seed: int) -> tuple[Program, dd.Options, str] | None:
    """Return a drawn product whose terms a compile cuts into parts, and how, or None."""
    d = drawn(seed, (*HALVES, dd.f32), (8, 24, 40, 128, 192, 256))
    count, target = 2 + seed % 3, ("sm_80", "sm_90a")[seed // 3 % 2]
    options = dd.Options(target=target).changed({"graph.parts": count})
    heard = list[str]()
    compile(d.program.module, options, until="fuse", heard=lambda name, _: heard.append(name))
    about = f"{d.about} in {count} for {target}"
    return (d.program, options, about) if CUT in heard else None


def _turned(x: dd.Tensor) -> dd.Tensor:
    axes = range(len(x.shape))
    return dd.transpose(x, (*axes[:-2], axes[-1], axes[-2]))


def _float(z: dd.Tensor) -> dd.Tensor:
    return z if z.dtype.is_float else dd.astype(z, dd.f32)


def _like(x: dd.Tensor, z: dd.Tensor) -> dd.Tensor:
    return dd.astype(x, next(e for e in (*DTYPES, dd.f16) if e.dtype is z.dtype))


EPILOGUES: dict[str, Callable[[dd.Tensor, dd.Tensor, dd.Tensor], dd.Tensor]] = {
    "bias": lambda z, bias, more: z + _like(bias, z),
    "relu": lambda z, bias, more: dd.maximum(z, _like(bias, z) * _like(bias, z)),
    "tanh": lambda z, bias, more: dd.tanh(_float(z)),
    "residual": lambda z, bias, more: z + _like(more, z),
    "cast": lambda z, bias, more: dd.astype(z, dd.f32 if z.dtype is DType.F16 else dd.f16),
    "scale": lambda z, bias, more: _float(z) * 0.125,
}
