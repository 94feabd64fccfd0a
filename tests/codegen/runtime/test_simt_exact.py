"""Signed integers of kernel text that overflow: C does not say what they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from didyma.codegen.runtime.engine import KernelFault
from didyma.codegen.runtime.simt import Simt
from didyma.refimpl.ir.types import DType
from tests.codegen.runtime.texts import kernel


def run(e: str, *, exact: bool) -> list[int]:
    """Run a kernel on ``i`` from 0 to 3, and x of 2**62, but the last of -2**63."""
    x = np.full(4, 2**62)
    x[3] = -(2**63)
    engine = Simt(exact=exact)
    buffers = [engine.upload(x), engine.upload(np.zeros(4, np.int64))]
    text = kernel(f"const i64 i = threadIdx.x; {e}", threads=4, size=4, dtype=DType.I64)
    engine.load(text).launch("k", buffers, {})
    return [int(v) for v in engine.download(buffers[1], DType.I64, (4,))]


@pytest.mark.parametrize(
    ("e", "count"),
    [
        ("y[i] = x[i] + x[i];", 4),
        ("y[i] = x[i] * i;", 2),
        ("y[i] = x[i] - 1;", 1),
        ("if (i > 0 && i < 3) { y[i] = x[i] * 4; }", 2),
    ],
)
def test_what_overflows_is_a_fault_where_it_is_asked_for(e: str, count: int) -> None:
    with pytest.raises(KernelFault, match=rf"does not fit into its signed type \({count} threads"):
        run(e, exact=True)
    run(e, exact=False)


def test_what_fits_or_is_unsigned_is_no_fault() -> None:
    for e in (
        "y[i] = x[0] - 1 + i;",
        "y[i] = (i64)((u64)x[i] + (u64)x[i]);",
        "y[i] = add_i64(x[i], x[i]);",
        "y[i] = i < 3 ? x[i] + (x[i] - 1) : 0;",
    ):
        assert run(e, exact=True) == run(e, exact=False)


def test_a_fault_has_its_line_in_a_text_of_several_kernels() -> None:
    """Below what precedes a kernel, whether another of the same text but for its name or not."""
    good, bad = (kernel(f"const i64 i = threadIdx.x;\ny[i] = x[{i}];") for i in ("i", "i + 1"))
    three = [x.source.replace("\nk(", f"\nk{n}(") for n, x in enumerate((good, bad, bad))]
    source = "// three of them\n\n" + "// next\n".join(three)
    (s,) = bad.kernels
    text = replace(
        bad, source=source, kernels=tuple(replace(s, name=f"k{n}") for n in range(3)), origins=()
    )
    engine = Simt()
    buffers = [engine.upload(np.zeros(8, np.float32)) for _ in range(2)]
    loaded = engine.load(text)
    loaded.launch("k0", buffers, {})
    for name in ("k1", "k2"):
        with pytest.raises(KernelFault) as e:
            loaded.launch(name, buffers, {})
        (fault,) = e.value.faults
        line = source.splitlines()[fault.line - 1]
        assert line == "y[i] = x[i + 1];"
        assert source.splitlines()[fault.line - 3].startswith(f"{name}(")
