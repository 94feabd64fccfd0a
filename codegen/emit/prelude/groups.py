"""C of products of four warps for CUDA devices, by inline PTX."""

from __future__ import annotations

from collections.abc import Iterator

from didyma.refimpl.ir.group_products import PRODUCTS, GroupProduct

# Of a matrix descriptor (PTX ISA, "Matrix Descriptor Format"): swizzling by 128 bytes, 1024 bytes
# from eight lines to the next, and 8192 from a panel to the next.
_DESCRIPTOR = """\
FN u64 descriptor__(const void *p) {
  return 1ull << 62 | 64ull << 32 | 512ull << 16 | (u64)((in_shared__(p) & 0x3ffff) >> 4);
}"""


def definitions() -> Iterator[tuple[str, str]]:
    """Yield each definition under its name."""
    yield "descriptor__", _DESCRIPTOR
    for p in PRODUCTS.values():
        yield f"wgmma_{p.name}", _product(p)


def _product(p: GroupProduct) -> str:
    n, t, exact = p.sums, p.operands.value, p.total.is_int
    kind, total, held = ("s8", "s32", "r") if exact else (p.kind, "f32", "f")
    registers = ", ".join(f"%{i}" for i in range(n))
    sums = ", ".join(f'"+{held}"(d[{i}])' for i in range(n))
    if p.a_by == "r":
        return _held(p, registers, sums)
    signs = "" if exact else ", 1, 1"
    turned = "" if exact or p.narrow else f", {int(p.a_by == 'm')}, {int(p.b_by == 'n')}"
    return f"""\
FN void wgmma_{p.name}({p.total.value} *d, const {t} *a, const {t} *b) {{
  asm volatile("wgmma.mma_async.sync.aligned.m64n{p.columns}k{p.k}.{total}.{kind}.{kind} "
               "{{{registers}}}, %{n}, %{n + 1}, 1{signs}{turned};"
               : {sums} : "l"(descriptor__(a)), "l"(descriptor__(b)));
}}"""


def _held(p: GroupProduct, registers: str, sums: str) -> str:
    """Return the product of what threads hold: pairs of elements, each in a register."""
    n, t = p.sums, p.operands.value
    held = ", ".join(f"%{n + i}" for i in range(4))
    words = ", ".join(f'"r"(((const u32 *)a)[{i}])' for i in range(4))
    return f"""\
FN void wgmma_{p.name}(f32 *d, const {t} *a, const {t} *b) {{
  asm volatile("wgmma.mma_async.sync.aligned.m64n{p.columns}k16.f32.{t}.{t} "
               "{{{registers}}}, {{{held}}}, %{n + 4}, 1, 1, 1, {int(p.b_by == "n")};"
               : {sums} : {words}, "l"(descriptor__(b)));
}}"""
