"""Small kernel texts that do right and wrong things."""

from __future__ import annotations

from didyma.refimpl.ir.expr import index
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.loop import Expr, Free, Var
from didyma.refimpl.ir.types import DType


def kernel(
    body: str,
    *,
    threads: int = 8,
    blocks: int | str = 1,
    size: int = 8,
    dtype: DType = DType.F32,
    dims: tuple[str, ...] = (),
    cluster: int = 1,
) -> KernelText:
    """One kernel ``k(x, y, dims)`` over two buffers of one size."""
    params = [f"const {dtype} *__restrict__ x", f"{dtype} *__restrict__ y"]
    params += [f"i64 {d}" for d in dims]
    bounds = f"__launch_bounds__({threads})"
    bounds += f" __cluster_dims__({cluster}, 1, 1)" if cluster > 1 else ""
    source = f'extern "C" __global__ void {bounds}\nk({", ".join(params)}) {{\n{body}\n}}\n'
    grid: Expr = Var(blocks) if isinstance(blocks, str) else index(blocks)
    signature = Signature(
        "k",
        (("x", dtype), ("y", dtype)),
        (index(size), index(size)),
        ("y",),
        dims,
        (grid, index(1), index(1)),
        (threads, 1, 1),
        cluster=cluster,
    )
    lines = enumerate(source.splitlines(), 1)
    return KernelText(source, (signature,), tuple((n, Free(f"line_{n}")) for n, _ in lines))
