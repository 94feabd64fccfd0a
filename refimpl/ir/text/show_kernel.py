"""Prints kernels: a loop function as ``show_loop`` does, and a kernel of text with its meaning.

    text reads (x) writes (y) workspace (w: f32[64]) grid (64, 1, 1) block (32, 1, 1) chain 5 {
      "extern \\"C\\" __global__ void row_sum(const f32 *x, f32 *y, f32 *w) {"
      "  ..."
      "}"
    } for primfunc @fused_sum_0(x: f32[64, 100], y: f32[64]) writes (y) {
      ...
    }

Each string is a line of the source.  What stands behind ``for`` is the loop program that the text
claims to compute; ``dims`` before it declares the symbols that the text is given.  Before the grid,
``maps (m of x (0, 64, 100, 1, 64, 16, 128))`` declares a tensor map: its name, its buffer, the
offset, three extents, two steps, and the rows of a box.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from didyma.refimpl.ir.kernel import ClaimedKernel, Kernel, TensorMap
from didyma.refimpl.ir.text.graph import dims_text
from didyma.refimpl.ir.text.literals import dim_text, quote
from didyma.refimpl.ir.text.show_loop import LoopPrinter, local_name


def show_kernel(printer: LoopPrinter, k: Kernel, pad: str = "") -> None:
    """Print a kernel."""
    if not isinstance(k, ClaimedKernel):
        printer.function(k, pad)
        return
    t = k.text
    parts = ["text", f"reads ({_names(t.reads)})", f"writes ({_names(t.writes)})"]
    if t.workspace:
        buffers = ", ".join(printer.buffer(b, False) for b in t.workspace)
        parts.append(f"workspace ({buffers})")
    if t.zeroed:
        parts.append(f"zeroed ({_names(t.zeroed)})")
    if t.maps:
        parts.append(f"maps ({', '.join(map(_map, t.maps))})")
    parts.append(f"grid ({', '.join(map(dim_text, t.grid))})")
    parts.append(f"block ({', '.join(map(str, t.block))})")
    if t.chain is not None:
        parts.append(f"chain {dim_text(t.chain)}")
    if k.dims:
        parts.append(dims_text(k.dims))
    lines = printer.lines
    lines.append(f"{pad}{' '.join(parts)} {{")
    lines += [f"{pad}  {quote(line)}" for line in t.source.split("\n")]
    start = len(lines)
    printer.function(k.meaning, pad)
    lines[start] = f"{pad}}} for {lines[start].lstrip()}"


def show_kernels(ks: Sequence[Kernel]) -> str:
    """Return the text of kernels, one after another."""
    assert ks, "a text of no functions has no kind"
    printer = LoopPrinter()
    for k in ks:
        show_kernel(printer, k)
    return "\n".join(printer.lines) + "\n"


def _map(m: TensorMap) -> str:
    numbers = ", ".join(map(dim_text, m.numbers))
    return f"{local_name(m.name)} of {local_name(m.buffer)} ({numbers})"


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(local_name, names))
