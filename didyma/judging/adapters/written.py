"""A specification as a task of other judges: FlashInfer-Trace, KernelBench and GPU MODE."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from didyma.judging.adapters import flashinfer
from didyma.judging.adapters.torch_text import (
    is_symbol,
    refusal,
    shape,
    size,
    source,
    torch_dtype,
    word,
)
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import DType, TensorType

_USUAL = 64  # a size that is not given
_TESTS = (32, 64, 100)  # sizes of the tests of GPU MODE


def definition(m: Module, name: str = "") -> dict[str, Any]:
    """Return a specification as a definition of FlashInfer-Trace and SOL-ExecBench.

    Symbolic sizes are variable axes.  DidymaError ``bad-spec`` for what the format cannot express,
    such as an axis of ``n + 1`` elements.
    """
    entry = m.entry
    inputs = {p.name: p.type for p in entry.params}
    outputs = dict(zip(entry.results, entry.result_types(), strict=True))
    types = {**inputs, **outputs}
    axes: dict[str, dict[str, Any]] = {v.name: {"type": "var"} for v in m.dims}
    for where, t in types.items():
        for d in t.shape:
            if isinstance(d, int):
                axes[_axis(d)] = {"type": "const", "value": d}
            elif not is_symbol(d):
                raise refusal(where, f"an axis of {size(d)} elements", "a number or one symbol")
    return {
        "name": name or entry.name,
        "op_type": "didyma",
        "axes": axes,
        "inputs": {word(k): _tensor(k, t) for k, t in inputs.items()},
        "outputs": {word(k): _tensor(k, t) for k, t in outputs.items()},
        "reference": f"import torch\n\n\n{source(m, 'run')}\n",
    }


def _axis(extent: int) -> str:
    return f"const_{extent}"


def _tensor(name: str, t: TensorType) -> dict[str, Any]:
    names = {d: n for n, d in flashinfer.DTYPES.items()}
    if t.dtype not in names:
        want = f"one of {', '.join(d.value for d in names)}"
        raise refusal(name, f"the dtype {t.dtype.value}", want)
    axes = [_axis(d) if isinstance(d, int) else str(d) for d in t.shape]
    return {"shape": axes or None, "dtype": names[t.dtype]}


def kernelbench(m: Module, sizes: Mapping[str, int] | None = None) -> str:
    """Return a specification as a task of KernelBench, at some sizes.

    A size that is not given is 64, or what its range has that is nearest to it.
    DidymaError ``bad-spec`` for what is not written in PyTorch.
    """
    chosen = _sizes(m, sizes or {}, _USUAL)
    given = ", ".join(word(p.name) for p in m.entry.params)
    numbers = [f"{word(k)} = {v}" for k, v in chosen.items()]
    return "\n".join((
        "import torch", "import torch.nn as nn", "", *numbers, "", "", source(m, "run"), "", "",
        "class Model(nn.Module):",
        f"    def forward(self, {given}):",
        f"        return run({given})", "", "",
        "def get_inputs():",
        f"    return [{', '.join(_drawn(m))}]", "", "",
        "def get_init_inputs():",
        "    return []", "",
    ))  # fmt: skip


def gpumode(m: Module) -> dict[str, str]:
    """Return a specification as a task of GPU MODE: ``reference.py`` and ``task.yml``.

    An output is compared as ``torch.testing.assert_close`` does for its dtype.
    DidymaError ``bad-spec`` for what is not written in PyTorch.
    """
    names = [word(v.name) for v in m.dims]
    reference = "\n".join((
        "import torch", "", "", source(m, "run"), "", "",
        f"def generate_input({', '.join((*names, 'seed'))}):",
        "    torch.manual_seed(seed)",
        f"    return [{', '.join(_drawn(m))}]", "", "",
        "def ref_kernel(data):",
        "    return run(*data)", "", "",
        "def check_implementation(data, output):",
        "    try:",
        "        torch.testing.assert_close(output, ref_kernel(data))",
        "    except AssertionError as e:",
        "        return str(e)",
        '    return ""', "",
    ))  # fmt: skip
    rows = list(_tests(m))
    task = "\n".join((
        "files:",
        '  - {"name": "submission.py", "source": "@SUBMISSION@"}',
        '  - {"name": "reference.py", "source": "reference.py"}',
        'lang: "py"',
        "tests:", *(f"  - {json.dumps(r)}" for r in rows),
        "benchmarks:", f"  - {json.dumps(rows[-1])}", "",
    ))  # fmt: skip
    return {"reference.py": reference, "task.yml": task}


def _tests(m: Module) -> Iterator[dict[str, int]]:
    for seed, n in enumerate(_TESTS, 1):
        yield {word(k): v for k, v in _sizes(m, {}, n).items()} | {"seed": seed}


def _sizes(m: Module, given: Mapping[str, int], usual: int) -> dict[str, int]:
    """Return a number for each symbolic size.

    DidymaError ``bad-spec`` for one outside of its range, and for one of no symbolic size.
    """
    if strange := [name for name in given if name not in {v.name for v in m.dims}]:
        want = f"one of {', '.join(v.name for v in m.dims) or 'no symbolic sizes'}"
        raise refusal(f"size {strange[0]}", strange[0], want)
    found = {v.name: given.get(v.name, _clamped(usual, v.lo, v.hi)) for v in m.dims}
    for v in m.dims:
        if found[v.name] != _clamped(found[v.name], v.lo, v.hi):
            want = f"a size from {v.lo} to {v.hi}"
            raise refusal(f"size {v.name}", str(found[v.name]), want)
    return found


def _clamped(n: int, low: int, high: int | None) -> int:
    return max(low, n if high is None else min(n, high))


def _drawn(m: Module) -> Iterator[str]:
    """Yield an expression of PyTorch for an example of each input."""
    for p in m.entry.params:
        t = p.type
        extents = shape(t.shape)
        kind = f"torch.{torch_dtype(t.dtype, p.name)}"
        if t.dtype.is_float:
            yield f"torch.randn({extents}).to({kind})"
        else:
            most = 2 if t.dtype is DType.BOOL else 8
            yield f"torch.randint(0, {most}, {extents}).to({kind})"
